"""Visits a second on PostgreSQL, with one process that answers and with two: sixteen participants at a time.

    python benchmarks/workers.py --participants 400

The client and the database share the processors with the service, so two processes never have one each. How much of a
visit is whose is noted. The same is also measured with one process and everything on one processor, next to two
processes and everything on two: a machine twice as large.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from load import prepare
from measure import ROOT, Row
from visitors import CONNECTIONS, visit
from visits import family, processor_seconds, serving

sys.path.append(str(ROOT / "tests"))
from support.databases import database_url, postgresql_process

PARTICIPANTS, ROUNDS, FIRST = 400, 7, 100
ALL = os.sched_getaffinity(0)
TWO = set(sorted(ALL)[:2])
ONE = {min(TWO)}


@dataclass(frozen=True)
class Service:
    """A running service, and those who have not come yet, by their links and what they will answer."""

    port: int
    process: int
    people: Iterator[tuple[str, float]]


@dataclass(frozen=True)
class Visits:
    """How many came in a second, and the processor time of one visit, in milliseconds."""

    rate: float
    server: float
    database: float
    client: float

    @property
    def whole(self) -> float:
        return self.server + self.database + self.client


@contextmanager
def service(processes: int, participants: int) -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as name, database_url("postgresql", Path(name)) as url:
        directory = Path(name) / "service"
        study = prepare(directory, url, participants)
        people = [(link, study.answers[player]) for player, link in study.links.items()]
        with serving(directory, url, "--workers", str(processes)) as (port, process):
            yield Service(port, process, iter(people))


def pin(processors: set[int], *processes: int) -> None:
    """These processes, with those that they started, and this client may use these processors, and no others."""
    for process in (os.getpid(), *(one for first in processes for one in family(first))):
        for thread in Path(f"/proc/{process}/task").iterdir():
            os.sched_setaffinity(int(thread.name), processors)


def come(service: Service, number: int) -> Visits:
    """So many participants visit it."""

    def spent() -> tuple[float, float, float]:
        database = processor_seconds(postgresql_process())
        return processor_seconds(service.process), database, time.process_time()

    before = spent()
    seconds = visit(service.port, list(islice(service.people, number)))
    each = (1000 * (b - a) / number for a, b in zip(before, spent(), strict=True))
    return Visits(number / seconds, *each)


def come_to_one(service: Service, number: int) -> Visits:
    """So many participants visit it while all that has a part in it is on one processor."""
    pin(ONE, service.process, postgresql_process())
    found = come(service, number)
    pin(TWO, service.process, postgresql_process())
    return found


def row(work: str, found: list[Visits], processors: int) -> Row:
    """Visits a second, and what they took."""
    server, database, client, busy = (
        statistics.median(values)
        for values in zip(
            *((v.server, v.database, v.client, v.rate * v.whole / 1000 / processors) for v in found),
            strict=True,
        )
    )
    note = (
        f"processor time of a visit: service {server:.1f} ms, database {database:.1f} ms, client {client:.1f} ms; "
        f"processors {busy:.0%} busy"
    )
    return Row(work, statistics.median(visits.rate for visits in found), "a second", note=note)


def rows(participants: int = PARTICIPANTS) -> list[Row]:
    both: list[Visits] = []
    one: list[Visits] = []
    alone: list[Visits] = []
    pin(TWO, postgresql_process())  # and the services, which are started from here
    with (
        service(1, 2 * ROUNDS * participants + FIRST) as single,
        service(2, ROUNDS * participants + FIRST) as double,
    ):
        for each in (single, double):
            come(each, FIRST)
        for _ in range(ROUNDS):
            both.append(come(double, participants))
            one.append(come(single, participants))
            alone.append(come_to_one(single, participants))
    pin(ALL, postgresql_process())
    at = f"visits of six requests, {CONNECTIONS} at a time, PostgreSQL"
    return [
        row(f"{at}: two processes, two processors", both, 2),
        row(f"{at}: one process, two processors", one, 2),
        row(f"{at}: one process, one processor", alone, 1),
        Row(
            "two processes ÷ one, on the same two processors",
            statistics.median(a.rate / b.rate for a, b in zip(both, one, strict=True)),
            at_least=1.6,
            aim=1.9,
            note="one process passes each page from one to the other; database and client are on them too",
        ),
        Row(
            "two processes and processors ÷ one process and processor",
            statistics.median(a.rate / b.rate for a, b in zip(both, alone, strict=True)),
            note="database and client on them too",
        ),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="One process and two.")
    parser.add_argument("--participants", type=int, default=PARTICIPANTS, help="in each round")
    for found in rows(parser.parse_args().participants):
        print(f"{found.found:10,.2f} {found.unit:9} {found.work}  ({found.note})")

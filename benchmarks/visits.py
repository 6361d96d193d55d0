"""One participant after the other, each on a connection she keeps: what a whole visit costs the server.

    python benchmarks/visits.py --participants 300

A visit is six requests: her page, consent, the question, the review, her answer, and the page that says it is kept. The
server is `truthful serve` in a process of its own. Its processor time is the system's count; times of single pages are
those that the client waits.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load import NAMES, prepare
from measure import ROOT, Row
from visitors import FORM, VISIT

sys.path.append(str(ROOT / "tests"))
from support.databases import KINDS, database_url
from support.lives import free_port, listens, until

SERVE = "from truthful.cli import main; main()"
PARTICIPANTS, FIRST = 600, 50
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(directory: Path, url: str, *options: str) -> Iterator[tuple[int, int]]:
    """`truthful serve` with these options: its port, and its process."""
    port = free_port()
    command = [sys.executable, "-c", SERVE, "serve", str(directory), "--port", str(port), "--database", url]
    with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL) as process:
        until(lambda: listens(port))
        yield port, process.pid
        process.terminate()


def family(process: int) -> list[int]:
    """A process, those that it started, and those that they started."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [process, *(one for child in children for one in family(int(child)))]


def processor_seconds(process: int) -> float:
    """User and system time of a process and its family so far, those that have ended among them."""
    stats = (Path(f"/proc/{one}/stat").read_text() for one in family(process))
    return sum(sum(map(int, stat.rpartition(")")[2].split()[11:15])) for stat in stats) / TICKS


def visit(port: int, link: str, answer: float, waited: dict[str, list[float]]) -> None:
    """One whole visit on one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    code = ""
    for name, method, path, says in VISIT:
        body = f"answer={answer!r}" if says else ""
        headers = {"Cookie": f"code={code}", "Content-Type": FORM}
        began = time.perf_counter()
        connection.request(method, f"/a/{link}{path}", body, headers)
        response = connection.getresponse()
        response.read()
        waited[name].append(time.perf_counter() - began)
        assert response.status in (200, 303), (name, response.status)
        for cookie in response.headers.get_all("Set-Cookie", []):
            if cookie.startswith("code="):
                code = cookie[len("code=") :].partition(";")[0]
    connection.close()


def rows(participants: int = PARTICIPANTS) -> list[Row]:
    shown = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as name, database_url(kind, Path(name)) as url:
            directory = Path(name) / "service"
            study = prepare(directory, url, participants + FIRST)
            people = [(study.links[player], study.answers[player]) for player in study.links]
            with serving(directory, url) as (port, process):
                for person in people[:FIRST]:
                    visit(port, *person, defaultdict(list))
                waited: dict[str, list[float]] = defaultdict(list)
                spent = []
                for start in range(FIRST, len(people), FIRST):
                    before = processor_seconds(process)
                    for person in people[start : start + FIRST]:
                        visit(port, *person, waited)
                    spent.append(
                        1000 * (processor_seconds(process) - before) / len(people[start : start + FIRST])
                    )
        pages = {name: 1000 * statistics.median(several) for name, several in waited.items()}
        at = f"one visit of six requests, {NAMES[kind]}"
        each = ", ".join(f"{name} {milliseconds:.1f}" for name, milliseconds in pages.items())
        shown += [
            Row(
                f"{at}: processor time, least of {len(spent)} rounds",
                min(spent),
                "ms",
                10,
                5,
                note=f"median {statistics.median(spent):.1f} ms; what else the machine does only adds",
            ),
            Row(f"{at}: her page on a kept connection, p50", pages["open"], "ms", 8, 5, note=f"{each} ms"),
        ]
    return shown


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a visit costs.")
    parser.add_argument("--participants", type=int, default=PARTICIPANTS)
    for row in rows(parser.parse_args().participants):
        print(f"{row.found:10,.2f} {row.unit:9} {row.work}  ({row.note})")

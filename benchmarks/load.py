"""Twenty thousand participants on this machine: how many answers a second, next to a bare insert of the same row."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import ROOT, Row
from visitors import Timed, get, post, send

sys.path.append(str(ROOT / "tests"))
from support.databases import KINDS, database_url
from support.lives import free_port, listens, until
from support.serving import Asked, asked

from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import Settler

SERVERS = Path(__file__).with_name("load_servers.py")
PARTICIPANTS, ROUNDS = 20_000, 10
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@contextmanager
def server(kind: str, directory: Path, url: str) -> Iterator[int]:
    """A server in a process of its own; its port."""
    port = free_port()
    with subprocess.Popen([sys.executable, SERVERS, kind, directory, url, str(port)]) as process:
        until(lambda: listens(port))
        yield port
        process.terminate()


def prepare(directory: Path, url: str, participants: int) -> Asked:
    """An open study with that many people."""
    settings = Settings(directory, database=url)
    database = settings.open_database()
    study = asked(Service(settings, database, Settler(database, settings.locations)), players=participants)
    database.close()
    return study


def measure(kind: str, participants: int) -> dict[str, list[Timed]]:
    """Everybody opens her page, consents, reviews and submits; in turn, as many rows are inserted barely."""
    found: dict[str, list[Timed]] = {
        name: [] for name in ("open", "consent", "review", "submit", "bare", "nothing")
    }
    with tempfile.TemporaryDirectory() as name, database_url(kind, Path(name)) as url:
        directory = Path(name) / "service"
        study = prepare(directory, url, participants)
        people = [(study.links[player], f"answer={study.answers[player]!r}") for player in study.links]
        other = url.replace("test.db", "bare.db")
        with server("service", directory, url) as ours, server("bare", directory, other) as bare:
            for k in range(ROUNDS):
                some = people[k::ROUNDS]
                found["nothing"].append(send(bare, [get("/nothing") for _ in some], 204))
                found["open"].append(send(ours, [get(f"/a/{link}") for link, _ in some], 200))
                found["consent"].append(send(ours, [post(f"/a/{link}/consent") for link, _ in some], 303))
                codes = found["consent"][-1].codes

                def forms(
                    move: str, some: list[tuple[str, str]] = some, codes: dict[str, str] = codes
                ) -> list[bytes]:
                    return [post(f"/a/{link}/{move}", form, codes[f"/a/{link}"]) for link, form in some]

                found["review"].append(send(ours, forms("review"), 303))
                submits = forms("submit")
                found["submit"].append(send(ours, submits, 303))
                found["bare"].append(send(bare, submits, 303))
    return found


def rows(participants: int = PARTICIPANTS) -> list[Row]:
    shown = []
    for kind in KINDS:
        found = measure(kind, participants)
        rates = {name: [timed.rate for timed in several] for name, several in found.items()}
        against = statistics.median(a / b for a, b in zip(rates["submit"], rates["bare"], strict=True))
        each = sorted(seconds for timed in found["submit"] for seconds in timed.each)
        visit = sum(
            timed.seconds for name in ("open", "consent", "review", "submit") for timed in found[name]
        )
        about = (
            f"bare {statistics.median(rates['bare']):.0f} a second; p50 {1000 * statistics.median(each):.0f} ms, "
            f"p95 {1000 * each[int(0.95 * len(each))]:.0f} ms; the client alone {min(rates['nothing']):.0f}"
        )
        at = f"{participants:,} participants, {NAMES[kind]}"
        shown += [
            Row(f"{at}: answers", statistics.median(rates["submit"]), "a second", note=about),
            Row(f"{at}: answer ÷ bare insert, time", 1 / against, "×"),
            Row(
                f"{at}: whole visits",
                participants / visit,
                "a second",
                note=", ".join(
                    f"{name} {statistics.median(rates[name]):.0f}" for name in ("open", "consent", "review")
                ),
            ),
        ]
    return shown


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Participants on this machine.")
    parser.add_argument("--participants", type=int, default=PARTICIPANTS)
    for row in rows(parser.parse_args().participants):
        print(f"{row.found:10,.2f} {row.unit:9} {row.work}  ({row.note})")

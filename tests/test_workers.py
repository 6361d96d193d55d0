"""Several processes that answer together, on PostgreSQL: one settles, and whichever dies is replaced."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import httpx2
import pytest
from support.commands import Run
from support.databases import database_url
from support.lives import until
from support.serving import answer_all, asked, close, served
from test_serve import serving

from truthful.service.locations import Locations, Settings
from truthful.service.processors import ALL, shares
from truthful.service.server import HUNG_SECONDS
from truthful.store.database import Database
from truthful.store.studies import find
from truthful.store.tables import State


def workers(parent: int) -> set[int]:
    """The processes that answer: those that multiprocessing has spawned to run, not the one that cleans up."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return {int(child) for child in children if b"spawn_main" in command(child)}


def command(process: str) -> bytes:
    """What a process was started with; nothing of one that has just gone."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def kill(processes: set[int]) -> set[int]:
    for process in processes:
        os.kill(process, signal.SIGKILL)
    return processes


def lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def processors(parent: int) -> list[set[int]]:
    """The processors that answer, worker by worker. Each worker has threads besides that may use all of them."""
    for worker in workers(parent):
        threads = Path(f"/proc/{worker}/task").iterdir()
        assert ALL in [os.sched_getaffinity(int(thread.name)) for thread in threads]
    return sorted((os.sched_getaffinity(worker) for worker in workers(parent)), key=min)


def well(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/health", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def leads(url: str) -> bool:
    """Whether one process settles, by the counts of whichever answers."""
    return "truthful_settler_leads 1.0" in httpx2.get(f"{url}/metrics", timeout=5).text


@pytest.mark.slow
def test_workers_that_are_killed_are_replaced_and_a_study_is_settled_once(tmp_path: Path) -> None:
    directory = tmp_path / "service"
    with database_url("postgresql", tmp_path) as database:
        with served(directory, database) as before:
            study = asked(before.service)
            before.service.settler.stop()
            answer_all(before.service, study)
            close(before.service, study.study_id)
        options = ("--database", database, "--workers", "2", "--log-format", "json")
        with serving(directory, *options) as running:
            parent = running.process.pid
            until(lambda: len(workers(parent)) == 2)
            time.sleep(1)  # they still start, and the parent waits for their first sign of life
            killed = kill(workers(parent))
            sooner = 0.75 * HUNG_SECONDS  # than one that says nothing is given up
            until(lambda: len(workers(parent) - killed) == 2 and well(running.url), sooner)
            killed |= kill(workers(parent) - killed)  # when they answer
            until(lambda: len(workers(parent) - killed) == 2 and well(running.url))
            opened = Settings(directory, database=database).open_database()
            until(lambda: state(opened, study.study_id) == State.SETTLED)
            opened.close()
            until(lambda: leads(running.url))
            now = workers(parent)
            assert processors(parent) == (shares(2) or [set(ALL), set(ALL)])
            assert "Sign in" in httpx2.get(f"{running.url}/sign-in").text
            code, told = running.stop()
            assert code == 0
            assert not any(map(lives, now))
            said = [json.loads(line)["event"] for line in told.splitlines()]
            assert said.count("A process died; another one has taken its place.") == len(killed) == 4
            assert said[-1].startswith("Stopping")
    ledger = json.loads((Locations(directory).study(study.study_id) / "ledger.json").read_text())
    assert len(ledger["releases"]) == 1


def state(database: Database, study_id: str) -> State:
    with database.reading() as session:
        return find(session, study_id).state


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with (
        database_url("postgresql", tmp_path) as database,
        serving(tmp_path / "service", "--database", database, "--workers", "2") as running,
    ):
        until(lambda: len(workers(running.process.pid)) == 2 and well(running.url))
        alive = workers(running.process.pid)
        running.process.kill()
        until(lambda: not any(map(lives, alive)))


def test_workers_divide_the_processors_if_there_is_one_for_each() -> None:
    assert shares(2, frozenset({0, 1})) == [{0}, {1}]
    assert shares(2, frozenset({3, 5, 9})) == [{3, 9}, {5}]
    assert shares(1, frozenset({0, 1})) == [{0, 1}]
    assert shares(3, frozenset({0, 1})) == []


def test_sqlite_is_answered_by_one_process(tmp_path: Path, run: Run) -> None:
    ran = run("serve", tmp_path, "--port", "0", "--workers", "2")
    assert ran.code == 2
    assert "workers is 2, but SQLite has one writer at a time" in ran.err
    assert not any(tmp_path.iterdir())
    assert "give 1 or more" in run("serve", tmp_path, "--workers", "0").err

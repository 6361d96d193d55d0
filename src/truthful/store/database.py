"""The database behind a service: opened by URL, brought up to date, read and written in transactions.

SQLite has one writer at a time, and a commit waits for the disk, which takes longer than most transactions. So a writer
whose turn ends while others wait leaves the transaction open for the next; the last one commits for all, and only then
does any of them go on. Each one's part is a savepoint: its error undoes that part alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, inspect, literal, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DisconnectionError, OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

from truthful.errors import InputError
from truthful.store.seals import Seals
from truthful.store.tables import Account, LogEnd, StoredStudy, Table

T = TypeVar("T")
#: What PostgreSQL says where two transactions stood in each other's way, and how often they try.
CONFLICTS, TRIES = ("40001", "40P01"), 5
#: How long it lets the other one go on before it tries again, each time longer: at once it would take the same locks.
PAUSE_SECONDS = 0.05
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

    def __init__(self, engine: Engine, info: dict[Any, Any]) -> None:
        self._engine, self._info = engine, info
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._waiting = 0
        self._shared: _Shared | None = None

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One's part of a transaction; durable at the end of the block."""
        with self._counting:
            self._waiting += 1
        with self._turn:
            with self._counting:
                self._waiting -= 1
            shared = self._join()
            try:
                with (
                    Session(
                        shared.connection, join_transaction_mode="create_savepoint", info=self._info
                    ) as session,
                    session.begin(),
                ):
                    yield session
            finally:
                if not shared.lives or shared.joined == MOST or not self._waiting:
                    self._end(shared)
        shared.ended.wait()
        if not shared.kept:
            raise NotKept("The database could not keep what was written. See whether its disk is full.")

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


MIGRATIONS = Path(__file__).parent / "migrations"
#: The migration since which answers are sealed.
SEALED = "0012"
DIALECTS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
#: How long a writer waits for another process to end its transaction.
PATIENCE_SECONDS = 30
#: After how long a connection is looked at before it is used again.
RESTED_SECONDS = 2.0


class Database:
    """Transactions on SQLite or PostgreSQL. What a `writing` block wrote is durable when the block has ended."""

    def __init__(self, url: str, seals: Seals) -> None:
        self._url, self.seals, self._info = _url(url), seals, {"seals": seals}
        self.engine = _engine(self._url)
        # On PostgreSQL a block that reads is no transaction, which would take two more turns to the server.
        alone = {} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._readers = self.engine.execution_options(**alone)
        writers = self.engine.execution_options(writing=True)
        self._turns = Turns(writers, self._info) if self.is_sqlite else None
        self._sessions = sessionmaker(writers, info=self._info)

    @property
    def is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def shown(self) -> str:
        """Its URL, without the password."""
        return self._url.render_as_string(hide_password=True)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever kept here. SQLite would make a file that is not there."""
        if self.is_sqlite and not Path(self._url.database or "").exists():
            return True
        with self._told():
            return not inspect(self.engine).has_table(StoredStudy.__tablename__)

    @property
    def is_sealed(self) -> bool:
        """Whether something was kept here that cannot be read without keys: what people said, or a second factor."""
        if self.is_empty:
            return False
        with self.reading() as session:
            return any(
                session.scalar(select(literal(1)).where(sealed.is_not(None)).limit(1)) is not None
                for sealed in (StoredStudy.seal, Account.factor)
                if sealed.key
                in {column["name"] for column in inspect(self.engine).get_columns(sealed.table.name)}
            )

    @property
    def revision(self) -> str | None:
        """The form of the tables; None if there are none."""
        with self._told(), self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    @property
    def tables_with_rows(self) -> list[str]:
        """Tables of ours in which something is kept, whatever their form."""
        with self._told(), self.engine.connect() as connection:
            ours = set(Table.metadata.tables) & set(inspect(connection).get_table_names())
            ours -= {LogEnd.__tablename__}  # which has a row before there is an event
            tables = (Table.metadata.tables[name] for name in sorted(ours))
            return [
                table.name
                for table in tables
                if connection.scalar(select(literal(1)).select_from(table).limit(1)) is not None
            ]

    def upgrade(self) -> None:
        """Bring the tables to this version's form. What is there already stays, and is whole."""
        config = _migrations()
        with self._told():
            with self.engine.begin() as connection:
                self._require_whole(connection)
                config.attributes.update(connection=connection, seals=self.seals)
                before = MigrationContext.configure(connection).get_current_revision()
                command.upgrade(config, "head")
            if before is not None and before < SEALED:
                self.clean()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What is wrong with the database as a sentence that says what to do."""
        try:
            yield
        except CommandError:
            raise InputError(
                f"The database {self.shown} was made by a newer version. Install that version or a newer one."
            ) from None
        except DatabaseError as problem:
            why = str(problem.orig).splitlines()[0]
            if isinstance(problem, OperationalError):
                advice = f"cannot be opened: {why}. Check that it runs and that the URL is right."
            else:
                advice = f"cannot be used: {why}. Name another, or move it away."
            raise InputError(f"The database {self.shown} {advice}") from None

    def _require_whole(self, connection: Connection) -> None:
        """SQLite keeps no watch over its file; a part that is damaged would be found when somebody needs it."""
        if self.is_sqlite:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if found != "ok":
                raise InputError(
                    f"The database {self.shown} is damaged: {found}. Bring a backup back; nothing was changed."
                )

    def clean(self) -> bool:
        """Write anew what is kept, so that nothing is left of what is not, neither in tables nor in SQLite's log.

        Whether that succeeded: not while somebody reads the log. PostgreSQL's statistics of older versions, which
        counted ids, are written anew too.
        """
        if self.is_sqlite:
            self._outside("VACUUM")
            return self.truncate_log()
        with self._readers.connect() as connection:
            connection.exec_driver_sql("VACUUM (FULL, ANALYZE) answers, due, mails, players, surveys")
            connection.exec_driver_sql("VACUUM FULL pg_statistic")
        return True

    def truncate_log(self) -> bool:
        """Empty SQLite's log, which keeps what was overwritten. While somebody reads, that waits for the next time."""
        return not self.is_sqlite or self._outside("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0

    def _outside(self, statement: str) -> Any:
        """Do something to SQLite's file that is no transaction; the first row of what it says."""
        with closing(self.engine.raw_connection()) as connection:
            return connection.cursor().execute(statement).fetchone()

    def reading(self) -> Session:
        """Nothing is written. SQLite gives one view for the whole block, PostgreSQL one for each statement.

        So no block may rely on two statements agreeing, unless what they read cannot change any more.
        """
        return Session(self._readers, info=self._info)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """All statements see what the first one saw, whatever is written meanwhile."""
        one_view = (
            {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        with self.engine.connect().execution_options(**one_view) as connection, connection.begin():
            yield connection

    def writing(self) -> AbstractContextManager[Session]:
        """One transaction: all of it is durable at the end of the block, or, after an error, none."""
        return self._sessions.begin() if self._turns is None else self._turns.writing()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Do this in one transaction, and again if another one stood in its way: nothing of the first try is left."""
        for tries in range(1, TRIES + 1):
            try:
                with self.writing() as session:
                    return work(session)
            except OperationalError as problem:
                if getattr(problem.orig, "sqlstate", None) not in CONFLICTS or tries == TRIES:
                    raise
            time.sleep(PAUSE_SECONDS * tries)
        raise AssertionError  # the last try has returned or raised

    def close(self) -> None:
        self.engine.dispose()


def newest_revision() -> str:
    """The form of the tables that this version works with."""
    head = ScriptDirectory.from_config(_migrations()).get_current_head()
    assert head is not None
    return head


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def _url(text: str) -> URL:
    try:
        url = make_url(text)
        dialect = DIALECTS[url.drivername.partition("+")[0]]
    except (ArgumentError, KeyError):
        raise InputError(
            f"The database URL is {text!r}; give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME."
        ) from None
    return url.set(drivername=dialect)


def _look_at_the_rested(engine: Engine) -> None:
    """A connection that was not used for a while may have been ended meanwhile: then another one is opened.

    SQLAlchemy can look at every connection before every use, which takes as long as a small transaction.
    """

    @event.listens_for(engine, "checkin")
    def note(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["rests since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def look(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        now = time.monotonic()
        if now - record.info.get("rests since", now) > RESTED_SECONDS:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error:
                raise DisconnectionError from None


def _engine(url: URL) -> Engine:
    """Connections. On PostgreSQL each statement sees what is committed; rows are locked where that matters."""
    # An error says which statement failed and never with which values: they are people's.
    settings: dict[str, Any] = {"pool_size": 20, "max_overflow": 30, "hide_parameters": True}
    if url.get_backend_name() != "sqlite":
        # What is committed is on its disk, whatever the server's own setting is.
        own = url.query.get("options", ())
        ours = r"-c synchronous_commit=on -c default_transaction_isolation=read\ committed"
        options = " ".join([*([own] if isinstance(own, str) else own), ours])
        engine = create_engine(
            url, isolation_level="READ COMMITTED", connect_args={"options": options}, **settings
        )
        _look_at_the_rested(engine)
        return engine
    engine = create_engine(url, **settings)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",  # an answer that was taken back is overwritten, not only forgotten
            f"busy_timeout = {PATIENCE_SECONDS * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: one that read first could not go on if another wrote meanwhile.
        writing = connection.get_execution_options().get("writing", False)
        if writing:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:  # by the driver itself: by way of SQLAlchemy it takes longer than what is read
            connection.connection.cursor().execute("BEGIN")

    return engine

"""The service's database: opened by URL, migrated, read and written in transactions.

SQLite has one writer at a time, and a commit waits for the disk, longer than most transactions take. So writers share
commits: a writer that ends while others wait leaves the transaction open for the next, the last one commits for all,
and only then do any of them return. Each writer's part is a savepoint: its error undoes that part alone.
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

from truthful.errors import InputError, Refused, TruthfulError
from truthful.store.seals import Seals
from truthful.store.tables import Account, LogEnd, StoredStudy, Table

T = TypeVar("T")
#: PostgreSQL's error code for what its user may not do.
INSUFFICIENT_PRIVILEGE = "42501"
#: PostgreSQL's error codes for conflicting transactions, and the number of attempts.
CONFLICTS, TRIES = ("40001", "40P01"), 5
#: The pause before a retry, longer each time: an immediate retry would take the same locks.
PAUSE_SECONDS = 0.05
#: The most writers that share a transaction, so that the first of them does not wait for ever.
MOST_SHARING = 64


class Unreachable(InputError):
    """The database cannot be opened: its server does not answer, or the URL is wrong."""


class RolledBack(TruthfulError):
    """A shared transaction was rolled back: nothing that its writers wrote is stored. Its message quotes no value."""


@dataclass
class _Shared:
    """A transaction that several writers share."""

    connection: Connection
    joined: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    kept: bool = False

    @property
    def lives(self) -> bool:
        """Whether the transaction is still open: SQLite itself rolls back when, say, the disk is full."""
        return bool(self.connection.connection.dbapi_connection.in_transaction)  # type: ignore[union-attr]


class Turns:
    """Lets this process's writers of one SQLite database share transactions."""

    def __init__(self, engine: Engine, info: dict[Any, Any]) -> None:
        self._engine, self._info = engine, info
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._waiting = 0
        self._shared: _Shared | None = None

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """One writer's part of a transaction, durable when the block has ended."""
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
                if not shared.lives or shared.joined == MOST_SHARING or not self._waiting:
                    self._end(shared)
        shared.ended.wait()
        if not shared.kept:
            raise RolledBack("The database could not keep what was written. See whether its disk is full.")

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
        """Commit for all writers, and let them return."""
        self._shared = None
        try:
            if shared.lives:
                shared.connection.commit()
                shared.kept = True
        except SQLAlchemyError:
            pass  # `kept` stays false, which raises RolledBack for every writer
        finally:
            shared.connection.close()
            shared.ended.set()


MIGRATIONS = Path(__file__).parent / "migrations"
#: The first revision in which answers are sealed.
SEALED = "0012"
DIALECTS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
#: The time for which SQLite waits for a lock that another process holds.
PATIENCE_SECONDS = 30
#: The idle time after which a connection is tested before it is used again.
IDLE_SECONDS = 2.0


class Database:
    """Transactions on SQLite or PostgreSQL. What a `writing` block wrote is durable when the block has ended."""

    def __init__(self, url: str, seals: Seals) -> None:
        self._url, self.seals, self._info = _url(url), seals, {"seals": seals}
        self.engine = _engine(self._url)
        # Reading on PostgreSQL needs no transaction, which would take two more round trips.
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
        """The URL as it is given, without its password."""
        return self._url.set(drivername=self._url.get_backend_name()).render_as_string(hide_password=True)

    @property
    def is_empty(self) -> bool:
        """Whether the database has no tables yet. A missing SQLite file is not opened, because that would create it."""
        if self.is_sqlite and not Path(self._url.database or "").exists():
            return True
        with self.readable_errors():
            return not inspect(self.engine).has_table(StoredStudy.__tablename__)

    @property
    def is_sealed(self) -> bool:
        """Whether the database holds anything sealed: a study that has taken answers, or a second factor."""
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
        """The migration revision of the tables; None if there are none."""
        with self.readable_errors(), self.engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()

    @property
    def tables_with_rows(self) -> list[str]:
        """The service's tables that have rows, of any revision."""
        with self.readable_errors(), self.engine.connect() as connection:
            ours = set(Table.metadata.tables) & set(inspect(connection).get_table_names())
            ours -= {LogEnd.__tablename__}  # it has a row from the start
            tables = (Table.metadata.tables[name] for name in sorted(ours))
            return [
                table.name
                for table in tables
                if connection.scalar(select(literal(1)).select_from(table).limit(1)) is not None
            ]

    def require_tables(self) -> None:
        """Refuse a database without this version's tables. A missing SQLite file is not created."""
        if self.is_empty:
            raise InputError(
                f"The database {self.shown} is not the service's: it is empty. Name the one that `truthful serve` was "
                "given, with --database or TRUTHFUL_DATABASE."
            )
        if self.revision != newest_revision():
            raise Refused(
                f"The database {self.shown} is of another version than this program. Start the service once with this "
                "version; then give the command again."
            )

    def upgrade(self) -> None:
        """Migrate the tables to this version's revision, after checking that the database is intact."""
        config = _migrations()
        with self.readable_errors():
            with (
                self.engine.execution_options(writing=True).connect() as connection,
                self._references_unchecked(connection),
                connection.begin(),
            ):
                self._require_whole(connection)
                config.attributes.update(connection=connection, seals=self.seals)
                before = MigrationContext.configure(connection).get_current_revision()
                command.upgrade(config, "head")
                self._require_references(connection)
            if before is not None and before < SEALED:
                self.clean()

    @contextmanager
    def _references_unchecked(self, connection: Connection) -> Iterator[None]:
        """Let migrations replace a table of SQLite that others refer to: to drop it is to delete its rows."""
        if not self.is_sqlite:
            yield
            return
        cursor = connection.connection.cursor()  # not in a transaction, where the setting has no effect
        cursor.execute("PRAGMA foreign_keys = OFF")
        try:
            yield
        finally:
            cursor.execute("PRAGMA foreign_keys = ON")

    @contextmanager
    def readable_errors(self) -> Iterator[None]:
        """Turn the database's errors into sentences that say what to do."""
        try:
            yield
        except CommandError:
            raise InputError(
                f"The database {self.shown} was made by a newer version. Install that version or a newer one."
            ) from None
        except DatabaseError as problem:
            why = str(problem.orig).splitlines()[0]
            if isinstance(problem, OperationalError):
                advice = "Check that it runs and that the URL is right."
                if self.is_sqlite:
                    advice = "See whether this user may write the file and its directory, and what else has it open."
                raise Unreachable(f"The database {self.shown} cannot be opened: {why}. {advice}") from None
            advice = "Name another, or move it away."
            if getattr(problem.orig, "sqlstate", None) == INSUFFICIENT_PRIVILEGE:
                advice = "Make the user in its URL its owner, as with createdb --owner USER NAME."
            raise InputError(f"The database {self.shown} cannot be used: {why}. {advice}") from None

    def _require_whole(self, connection: Connection) -> None:
        """Check that SQLite's file is whole and can be written: otherwise only somebody's answer would show it."""
        if self.is_sqlite:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if found != "ok":
                raise InputError(
                    f"The database {self.shown} is damaged: {found}. Restore a backup; nothing was changed."
                )
            connection.exec_driver_sql("PRAGMA user_version = 0")  # a write that changes nothing

    def _require_references(self, connection: Connection) -> None:
        """Check what SQLite has not checked while its tables were replaced, before that is committed."""
        if self.is_sqlite and (lost := connection.exec_driver_sql("PRAGMA foreign_key_check").first()):
            raise InputError(
                f"The database {self.shown} is damaged: rows of {lost[0]!r} refer to missing ones of {lost[2]!r}. "
                "Restore a backup; nothing was changed."
            )

    def clean(self) -> bool:
        """Rewrite the database, so that nothing deleted is left in its tables or in SQLite's log; whether that worked.

        It cannot while another connection reads the log. On PostgreSQL the planner's statistics are rewritten too:
        those of older versions hold ids.
        """
        if self.is_sqlite:
            self._outside("VACUUM")
            return self.truncate_log()
        with self._readers.connect() as connection:
            connection.exec_driver_sql("VACUUM (FULL, ANALYZE) answers, due, mails, players, surveys")
            connection.exec_driver_sql("VACUUM FULL pg_statistic")
        return True

    def truncate_log(self) -> bool:
        """Empty SQLite's log, which holds overwritten pages; False if another connection reads it just now."""
        return not self.is_sqlite or self._outside("PRAGMA wal_checkpoint(TRUNCATE)")[0] == 0

    def _outside(self, statement: str) -> Any:
        """Run a statement on SQLite outside any transaction; the first row of its result."""
        with closing(self.engine.raw_connection()) as connection:
            return connection.cursor().execute(statement).fetchone()

    def reading(self) -> Session:
        """A read-only session. SQLite gives one snapshot for the whole block, PostgreSQL one for each statement.

        So no block may rely on two statements agreeing, unless the rows they read can no longer change.
        """
        return Session(self._readers, info=self._info)

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection whose statements all see one snapshot, whatever is written meanwhile."""
        one_view = (
            {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        with self.engine.connect().execution_options(**one_view) as connection, connection.begin():
            yield connection

    def writing(self) -> AbstractContextManager[Session]:
        """One transaction: durable at the end of the block, rolled back after an error."""
        return self._sessions.begin() if self._turns is None else self._turns.writing()

    def transact(self, work: Callable[[Session], T]) -> T:
        """Do `work` in one transaction, retried if it conflicts with another: a failed attempt leaves no trace."""
        for tries in range(1, TRIES + 1):
            try:
                with self.writing() as session:
                    return work(session)
            except OperationalError as problem:
                if getattr(problem.orig, "sqlstate", None) not in CONFLICTS or tries == TRIES:
                    raise
            time.sleep(PAUSE_SECONDS * tries)
        raise AssertionError  # the last attempt has returned or raised

    def close(self) -> None:
        self.engine.dispose()


def newest_revision() -> str:
    """The migration revision that this version works with."""
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


def _test_idle_connections(engine: Engine) -> None:
    """Test a connection that was idle for a while, as the server may have closed it, and open another if need be.

    SQLAlchemy's own test, before every use, takes as long as a small transaction.
    """

    @event.listens_for(engine, "checkin")
    def note(_: Any, record: ConnectionPoolEntry) -> None:
        record.info["rests since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def look(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        now = time.monotonic()
        if now - record.info.get("rests since", now) > IDLE_SECONDS:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error:
                raise DisconnectionError from None


def _engine(url: URL) -> Engine:
    """The engine. PostgreSQL runs at READ COMMITTED; rows are locked where that matters."""
    # Errors name the statement that failed, never its values: those are people's data.
    settings: dict[str, Any] = {"pool_size": 20, "max_overflow": 30, "hide_parameters": True}
    if url.get_backend_name() != "sqlite":
        # A commit waits until it is on the disk, whatever the server's own setting is.
        own = url.query.get("options", ())
        ours = r"-c synchronous_commit=on -c default_transaction_isolation=read\ committed"
        options = " ".join([*([own] if isinstance(own, str) else own), ours])
        engine = create_engine(
            url, isolation_level="READ COMMITTED", connect_args={"options": options}, **settings
        )
        _test_idle_connections(engine)
        return engine
    engine = create_engine(url, **settings)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we begin transactions ourselves
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",  # a withdrawn answer is overwritten, not only unlinked
            f"busy_timeout = {PATIENCE_SECONDS * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: after reading first, it would fail if another had written meanwhile.
        writing = connection.get_execution_options().get("writing", False)
        if writing:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:  # through the driver: SQLAlchemy's overhead exceeds that of most reads
            connection.connection.cursor().execute("BEGIN")

    return engine

"""Restore a backup to an empty place: everything is checked before anything is written, and appears at once.

Files and SQLite are assembled in a hidden directory, which is renamed once all of it is on the disk. Before that, a
named database gets all rows in one transaction. An interrupted restore leaves only files that the next one removes, and
the key where the next one finds it.
"""

from __future__ import annotations

import hmac
import json
import os
import shutil
import zipfile
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

from cryptography.exceptions import InvalidTag
from sqlalchemy import Column, LargeBinary, delete, text
from sqlalchemy import Table as Rows
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.files import exclusive, publish_directory, write_atomically
from truthful.service.backups import FILES, FORMAT, MANIFEST, ROWS, Backup, Envelope, backed_up
from truthful.service.locations import Settings
from truthful.store.audit_log import OPERATOR, log
from truthful.store.database import Database, newest_revision
from truthful.store.seals import KEY_FILE, VARIABLE, Seals, open_seals
from truthful.store.tables import LogEnd, Moment
from truthful.version import __version__


def restore(path: Path, settings: Settings) -> Backup:
    """Restore a backup to an empty place. Everything is checked before anything is written."""
    directory = settings.directory
    if _unfinished(directory).exists():  # an interrupted restore: clear its files
        with _staging_directory(directory):
            pass
    _require_free(directory)
    seals = open_seals(directory, settings.environment_key)
    with _open_archive(path) as archive:
        manifest, envelope = _check_archive(archive, path, seals.masters, directory)
        _require_no_rows(settings)
        with _staging_directory(directory) as unfinished:
            _put_files(archive, manifest, envelope, unfinished)
            _put_rows(archive, manifest, envelope, _database(settings, unfinished, seals))
            if (directory / KEY_FILE).exists():
                os.rename(directory / KEY_FILE, unfinished / KEY_FILE)
            publish_directory(unfinished, directory)
    return Backup(str(path), manifest["made"], manifest["studies"], manifest["rows"])


def _unfinished(directory: Path) -> Path:
    directory = directory.absolute()
    return directory.with_name(f".{directory.name}.restoring")


@contextmanager
def _staging_directory(directory: Path) -> Iterator[Path]:
    """The hidden directory in which a service is assembled, locked, and cleared of an interrupted restore's files."""
    unfinished = _unfinished(directory)
    if not unfinished.parent.is_dir():
        raise InputError(f"The directory {str(unfinished.parent)!r} does not exist. Create it first.")
    unfinished.mkdir(mode=0o700, exist_ok=True)
    with exclusive(unfinished) as free:
        if not free:
            raise Refused(f"Another backup is being restored to {str(directory)!r}. Wait until it has ended.")
        _clear(unfinished, directory)
        try:
            yield unfinished
        finally:
            if unfinished.exists():
                _clear(unfinished, directory)
                unfinished.rmdir()


def _clear(unfinished: Path, directory: Path) -> None:
    """Remove unfinished files, but move the key back to where the operator put it."""
    if (unfinished / KEY_FILE).exists():
        directory.mkdir(mode=0o700, exist_ok=True)
        os.rename(unfinished / KEY_FILE, directory / KEY_FILE)
    for path in unfinished.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _require_free(directory: Path) -> None:
    """Refuse a directory that holds anything but the key of the backup."""
    if directory.exists() and (
        not directory.is_dir() or {path.name for path in directory.iterdir()} - {KEY_FILE}
    ):
        raise Refused(
            f"{str(directory)!r} is not empty. Name a directory that does not exist yet, or one that holds nothing but "
            f"{KEY_FILE}. Nothing was changed."
        )


def _require_no_rows(settings: Settings) -> None:
    """Refuse a named database whose tables have rows."""
    if settings.database is None:
        return
    url = make_url(settings.database) if settings.database.startswith("sqlite") else None
    if (
        url is not None
        and url.database
        and Path(url.database).resolve().is_relative_to(settings.directory.resolve())
    ):
        raise InputError(
            f"The database {settings.database!r} would be inside {str(settings.directory)!r}. Leave --database out: "
            "SQLite is in the directory then."
        )
    with closing(Database(settings.database, Seals(settings.directory, ()))) as database:
        if found := database.tables_with_rows:
            raise Refused(
                f"The database {database.shown} is not empty: {', '.join(found)} have rows. Name an empty database. "
                "Nothing was changed."
            )


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError:
        if path.exists():
            raise
        raise InputError(f"There is no backup {str(path)!r}.") from None
    except zipfile.BadZipFile:
        raise _damage(path, "it is no archive, or was cut off") from None


def _damage(path: Path, why: str) -> InputError:
    return InputError(
        f"{str(path)!r} is not a whole backup: {why}. Nothing was changed; take another backup."
    )


def _check_archive(
    archive: zipfile.ZipFile, path: Path, masters: tuple[bytes, ...], directory: Path
) -> tuple[dict[str, Any], Envelope]:
    """The manifest and the keys of the backup, after checking that every member is intact."""
    try:
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        form, tables, salt, key = (str(manifest[name]) for name in ("format", "tables", "salt", "key"))
        envelopes = [Envelope.of(master, bytes.fromhex(salt)) for master in masters]
        members, proof = dict(manifest["members"]), str(manifest["proof"])
    except (KeyError, ValueError, TypeError, zipfile.BadZipFile, zlib.error):
        raise _damage(path, f"its {MANIFEST} cannot be read") from None
    if form != FORMAT or tables != newest_revision():
        raise InputError(
            f"{str(path)!r} was made by version {manifest.get('version')} (format {form}, tables {tables}); this is "
            f"{__version__} (format {FORMAT}, tables {newest_revision()}). Restore it with that version, then "
            "start the service with this one, which brings it up to date."
        )
    envelope = next((entry for entry in envelopes if entry.name == key), None)
    if envelope is None:
        raise Refused(
            f"{str(path)!r} is sealed with another key than this one. Bring the one that the service had when the "
            "backup was made. Nothing was changed."
            if masters
            else f"The key that opens {str(path)!r} is missing. Put the service's {KEY_FILE} into {str(directory)!r}, "
            f"or set {VARIABLE}. Nothing was changed."
        )
    if not hmac.compare_digest(envelope.prove(manifest), proof):
        raise _damage(path, f"its {MANIFEST} was changed")
    if Counter(archive.namelist()) != Counter([*members, MANIFEST]):
        raise _damage(path, "members are missing, or there are others")
    for name, expected in members.items():
        _require_member(archive, path, name, expected, envelope)
    return manifest, envelope


def _require_member(
    archive: zipfile.ZipFile, path: Path, name: str, expected: str, envelope: Envelope
) -> None:
    try:
        sealed = archive.read(name)
        whole = sha256(sealed).hexdigest() == expected and envelope.open(name, sealed) is not None
    except (InvalidTag, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        whole = False
    if not whole or ".." in PurePosixPath(name).parts or name.startswith("/"):
        raise _damage(path, f"{name} was changed")


def _put_files(archive: zipfile.ZipFile, manifest: Mapping[str, Any], envelope: Envelope, root: Path) -> None:
    (root / "studies").mkdir(mode=0o700)
    for name in manifest["members"]:
        if name.startswith(f"{FILES}/"):
            path = root / name.removeprefix(f"{FILES}/")
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, envelope.open(name, archive.read(name)), private=True)


def _database(settings: Settings, unfinished: Path, seals: Seals) -> Database:
    """The named database, or a new SQLite file beside the restored files that only its owner can read."""
    beside = unfinished / "truthful.db"
    if settings.database is None:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL, 0o600))
    return Database(settings.database or f"sqlite:///{beside}", Seals(unfinished / "studies", seals.masters))


def _put_rows(
    archive: zipfile.ZipFile, manifest: Mapping[str, Any], envelope: Envelope, database: Database
) -> None:
    """Insert all rows in one transaction, and log the restore."""
    with closing(database):
        database.upgrade()
        with database.writing() as session:
            session.execute(delete(LogEnd))  # the row of an empty log
            for table in backed_up():
                for name in filter(partial(_is_part, table), manifest["members"]):
                    lines = envelope.open(name, archive.read(name)).decode().splitlines()
                    _insert(session, table, [json.loads(line) for line in lines])
                _advance_sequence(session, table)
            log(session, OPERATOR, "restored a backup")


def _is_part(table: Rows, name: str) -> bool:
    return name.startswith(f"{ROWS}/{table.name}-")


def _insert(session: Session, table: Rows, rows: list[list[Any]]) -> None:
    columns = list(table.columns)
    given = [
        {column.key: _from_portable(column, value) for column, value in zip(columns, row, strict=True)}
        for row in rows
    ]
    session.execute(table.insert(), given)


def _advance_sequence(session: Session, table: Rows) -> None:
    """Set PostgreSQL's sequence of ids past the restored rows; SQLite needs no such step."""
    column = table.autoincrement_column
    if column is not None and session.get_bind().dialect.name == "postgresql":
        counted = "SELECT setval(pg_get_serial_sequence(:rows, :number), max({0})) FROM {1}"
        session.execute(
            text(counted.format(column.name, table.name)), {"rows": table.name, "number": column.name}
        )


def _from_portable(column: Column[Any], value: Any) -> Any:
    """A column's value from its `_portable` form."""
    if value is None:
        return None
    if isinstance(column.type, LargeBinary):
        return b64decode(value)
    return datetime.fromisoformat(value) if isinstance(column.type, Moment) else value

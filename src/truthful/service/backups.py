"""Back up a running service into one file, sealed with the service's key.

Rows and files must match: rows of a closed study with files of its settlement would be inconsistent. So (1) the locks
of all frozen studies are taken: settling, cancelling, reopening and renewing keys all need them. (2) A snapshot of the
database is taken. (3) The files are copied, and the locks released. (4) The rows are copied from the snapshot. People
can answer all the time. If a study is frozen between (1) and (2), this starts again; its files are written before its
row.

The backup holds the keys of draws. So a study that is closed, or is closed later with the same answers, is released
from the backup exactly as from the original; one that was released has no key left, and cannot be drawn again.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import time
import zipfile
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA512
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Connection, select
from sqlalchemy import Table as Rows

from truthful.errors import InputError, Refused
from truthful.files import (
    canonical_json,
    pretty_json,
    sync,
    written_whole,
)
from truthful.formatting import command
from truthful.service.locations import LOGOS, Locations, Settings, SettledElsewhere
from truthful.store.database import Database, newest_revision
from truthful.store.seals import NONCE_BYTES, VARIABLE, Seals, open_seals
from truthful.store.tables import SignIn, SignInLink, State, StoredStudy, Table
from truthful.version import __version__

FORMAT, MANIFEST = "truthful/backup/1", "manifest.json"
#: The folders in a backup: batches of a table's rows, and files under their paths in the directory.
ROWS, FILES = "rows", "files"
#: The number of rows fetched at once, and the size in bytes from which a batch is closed.
AT_ONCE, PART_BYTES = 100, 4_000_000
#: Sign-ins and links are left out: restored, a link that was used since would work again.
EXCLUDED_TABLES = (SignIn.__tablename__, SignInLink.__tablename__)
#: In seconds: the longest wait for a settlement under way, and the pause between looks.
PATIENCE_SECONDS, LOOK_SECONDS = 600.0, 0.1


@dataclass(frozen=True)
class Backup:
    """The contents of a backup, and when it was made."""

    file: str
    made: str
    studies: int
    rows: dict[str, int]

    def words(self) -> str:
        return (
            f"frozen studies: {self.studies:,}, people on their rosters: {self.rows['players']:,}, answers: "
            f"{self.rows['answers']:,}"
        )


# Sealing


@dataclass(frozen=True)
class Envelope:
    """The keys of one backup: they seal each member under its name, and authenticate the manifest."""

    values: AESGCM
    proof: bytes
    name: str

    @staticmethod
    def of(master: bytes, salt: bytes) -> Envelope:
        derived = HKDF(SHA512(), 72, salt, FORMAT.encode()).derive(master)
        return Envelope(AESGCM(derived[:32]), derived[32:64], derived[64:].hex())

    def seal(self, member: str, content: bytes) -> bytes:
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self.values.encrypt(nonce, zlib.compress(content), member.encode())

    def open(self, member: str, sealed: bytes) -> bytes:
        opened = self.values.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], member.encode())
        return zlib.decompress(opened)

    def prove(self, manifest: Mapping[str, Any]) -> str:
        """The manifest's authentication code, which takes the key."""
        signed = {name: value for name, value in manifest.items() if name != "proof"}
        return hmac.digest(self.proof, canonical_json(signed), "sha256").hex()


# Backing up


#: Adds a member to a backup.
Add = Callable[[str, bytes], None]


def back_up(settings: Settings, path: Path) -> Backup:
    """Copy all of a service's data except its key into a new file that only its owner can read."""
    _require_absent(path)
    with settings.existing_database() as database:
        if len(database.seals.masters) > 1:
            raise Refused(
                "The service's key is being replaced: there are two. End that first, with the command "
                f"`{command('rotate-key', settings.directory)}`; or, if they are in {VARIABLE}, give the one in use "
                "alone."
            )
        with _naming(path), written_whole(path) as temporary:
            with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
                    made = _fill(archive, database, settings)
                file.flush()
                os.fsync(file.fileno())
            _require_absent(path)
    sync(path.absolute().parent)
    return replace(made, file=str(path))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors in this block that name no file, such as of a full disk, name this one."""
    try:
        yield
    except OSError as failed:
        if failed.errno is not None and failed.filename is None:
            failed.filename = str(path)
        raise


def _require_absent(path: Path) -> None:
    if os.path.lexists(path):
        raise Refused(f"{str(path)!r} exists already. A backup is never overwritten: name another file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"The directory {str(path.absolute().parent)!r} does not exist. Create it first.")


def _fill(archive: zipfile.ZipFile, database: Database, settings: Settings) -> Backup:
    locations = settings.locations
    salt, members, made = secrets.token_bytes(16), {}, datetime.now(UTC).isoformat(timespec="seconds")
    envelope = Envelope.of(database.seals.masters[0], salt)

    def add(name: str, content: bytes) -> None:
        sealed = envelope.seal(name, content)
        archive.writestr(name, sealed)
        members[name] = sha256(sealed).hexdigest()

    frozen = None
    while frozen is None:
        with database.snapshot() as rows:
            with _locked_studies(locations) as locked:
                frozen = _count_frozen(rows, locations, locked)
                _require_same_key(settings, database.seals)
                if frozen is not None:
                    _add_files(add, database.seals, locations, locked)
            counted = {} if frozen is None else _add_rows(add, rows)
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "tables": newest_revision(),
        "made": made,
        "studies": frozen,
        "rows": counted,
        "salt": salt.hex(),
        "key": envelope.name,
        "members": members,
    }
    archive.writestr(MANIFEST, pretty_json({**manifest, "proof": envelope.prove(manifest)}))
    return Backup("", made, frozen, counted)


def _require_same_key(settings: Settings, seals: Seals) -> None:
    """Refuse if the service's key was replaced meanwhile: rows sealed with a newer key would be unreadable."""
    if open_seals(settings.directory, settings.environment_key).masters != seals.masters:
        raise Refused(
            "The service's key is being replaced. Wait until that has ended, and give the command again."
        )


@contextmanager
def _locked_studies(locations: Locations) -> Iterator[set[str]]:
    """Lock all frozen studies, so that their files stay as they are; waits for settlements under way."""
    given_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        with ExitStack() as stack:
            try:
                locked = set(locations.frozen())
                for study_id in sorted(locked):
                    stack.enter_context(locations.settling(study_id))
            except SettledElsewhere:
                if time.monotonic() > given_up:
                    raise
            else:
                yield locked
                return
        time.sleep(LOOK_SECONDS)


def _count_frozen(rows: Connection, locations: Locations, locked: set[str]) -> int | None:
    """The number of frozen studies in the snapshot; None if one of them was frozen after the locks were taken."""
    frozen = set(rows.scalars(select(StoredStudy.id).where(StoredStudy.state != State.DRAFT)))
    for study_id in frozen - locked:
        locations.plan(study_id)  # raises if its files are lost
    return len(frozen) if frozen <= locked else None


def _add_files(add: Add, seals: Seals, locations: Locations, locked: set[str]) -> None:
    """Add the studies' files and the logo, without hidden files: those are locks and unfinished writes."""
    for study_id in sorted(locked):
        if seals.path(study_id).exists():
            seals.keys(study_id)  # raises if the key does not open them
        directory = locations.study(study_id)
        for path in sorted(path for path in directory.rglob("*") if path.is_file()):
            if not any(part.startswith(".") for part in path.relative_to(directory).parts):
                add(f"{FILES}/{path.relative_to(locations.root).as_posix()}", path.read_bytes())
    for name in LOGOS:
        if (locations.root / name).exists():
            add(f"{FILES}/{name}", (locations.root / name).read_bytes())


def backed_up() -> Iterator[Rows]:
    """The tables that are backed up, ordered by their foreign keys."""
    yield from (table for table in Table.metadata.sorted_tables if table.name not in EXCLUDED_TABLES)


def _add_rows(add: Add, rows: Connection) -> dict[str, int]:
    counted: dict[str, int] = {}
    for table in backed_up():
        found = rows.execute(
            select(table).order_by(*table.primary_key), execution_options={"yield_per": AT_ONCE}
        )
        counted[table.name] = 0
        for number, part in enumerate(_parts(found)):
            add(f"{ROWS}/{table.name}-{number:06d}.jsonl", b"".join(part))
            counted[table.name] += len(part)
    return counted


def _parts(rows: Iterable[Any]) -> Iterator[list[bytes]]:
    """Rows as lines of JSON, in batches of limited size."""
    part, size = [], 0
    for row in rows:
        part.append(f"{json.dumps([_portable(value) for value in row])}\n".encode())
        size += len(part[-1])
        if size > PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _portable(value: Any) -> Any:
    """A value as JSON can hold it, the same for every database."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.isoformat() if isinstance(value, datetime) else value

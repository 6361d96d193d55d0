"""Keep answers and payments sealed: renew and rotate keys, and seal the books of settlements.

A key is replaced in steps that survive a crash. (1) The new key is written beside the old one. (2) One transaction
reseals every row with the new key. (3) The books are resealed too, if their key is replaced. (4) The old key is
overwritten. After a crash before (4) both keys are there, and the next replacement reseals values sealed with either.
"""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from contextlib import ExitStack, suppress
from pathlib import Path

from sqlalchemy.orm import Session

from truthful.errors import Refused
from truthful.files import PAYMENTS, PAYMENTS_CSV, RECEIPTS, exclusive, write_atomically
from truthful.service.locations import Locations, Settings, SettledElsewhere
from truthful.store import answers, factors, studies
from truthful.store.database import Database
from truthful.store.seals import VARIABLE, Seals, new_secret, seals_of, shred, write_key
from truthful.store.tables import State

#: The file of a settlement's sealed books, and the kind under which they are sealed.
SEALED_BOOKS, BOOKS = "books.sealed", "books"
#: The files of a settlement that are not public.
PRIVATE = (RECEIPTS, PAYMENTS, PAYMENTS_CSV, "settlement.json")
#: In seconds: the life of a key, and how long the old one is kept then, for a standby that has not noticed the new one.
RENEWED_SECONDS, GRACE_SECONDS = 24 * 3600.0, 3600.0


def seal_books(seals: Seals, locations: Locations, study_id: str) -> None:
    """Seal the private files of a settlement, and shred their plain copies."""
    directory = locations.settlement(study_id)
    path, books = directory / SEALED_BOOKS, [directory / name for name in PRIVATE]
    for unwritten in directory.glob(f".{SEALED_BOOKS}.*"):  # left by a crash
        unwritten.unlink()
    there = [book for book in books if book.exists()]
    if there and not path.exists():
        _seal(seals, path, study_id, {book.name: book.read_bytes() for book in there})
    for book in there:
        shred(book)


def read_books(seals: Seals, locations: Locations, study_id: str) -> dict[str, bytes]:
    """The sealed files, opened, by name."""
    sealed = (locations.settlement(study_id) / SEALED_BOOKS).read_bytes()
    kept = json.loads(seals.open(study_id, BOOKS, "", sealed))
    return {name: b64decode(content) for name, content in kept.items()}


def _seal(seals: Seals, path: Path, study_id: str, books: dict[str, bytes]) -> None:
    kept = {name: b64encode(content).decode() for name, content in books.items()}
    write_atomically(path, seals.keys(study_id).books.seal(BOOKS, "", json.dumps(kept).encode()))


def seal_older(database: Database, locations: Locations) -> None:
    """Bring studies of older versions up to date: seal their books, and replace their unkeyed fingerprints."""
    with database.reading() as session:
        ended = [study_id for state in studies.ENDED for study_id in studies.in_state(session, state)]
        closed = studies.in_state(session, State.CLOSED)
        for study_id in filter(locations.closed_by_older, [*ended, *closed]):
            same = answers.older_fingerprint(session, study_id) == locations.closed_by_older(study_id)
            locations.note_answers(study_id, answers.fingerprint(session, study_id) if same else "")
    for study_id in ended:
        seal_books(database.seals, locations, study_id)


def renew(database: Database, locations: Locations, study_id: str) -> None:
    """Reseal a study with a new key. The old one is destroyed an hour later, and withdrawn answers with it.

    The caller holds the study's lock.
    """
    database.seals.save(database.seals.keys(study_id).renewed())
    with database.writing() as session:
        _seal_again(session, study_id)
    database.truncate_log()


def _seal_again(session: Session, study_id: str) -> None:
    """Reseal every row of a study with its latest key."""
    stored = studies.find(session, study_id, lock=True)
    stored.seal = seals_of(session).keys(study_id).seal.name
    answers.seal_again(session, study_id, stored.seal)
    studies.seal_again(session, study_id, stored.seal)


def renew_old(database: Database, locations: Locations) -> None:
    """Give open studies new keys every day, and destroy old keys that no process can need any more."""
    seals = database.seals
    with database.reading() as session:
        sealed = [stored for stored in studies.list_studies(session) if stored.seal is not None]
    for stored in sealed:
        path = seals.path(stored.id)
        age = time.time() - path.stat().st_mtime if path.exists() else 0.0
        with suppress(SettledElsewhere):
            if age > GRACE_SECONDS and len(seals.keys(stored.id).secrets) > 1:
                with locations.settling(stored.id), database.reading() as session:
                    in_use = studies.find(session, stored.id).seal or ""
                    seals.save(seals.keys(stored.id).with_seal(in_use))
            elif age > RENEWED_SECONDS and stored.state == State.OPEN:
                with locations.settling(stored.id):
                    renew(database, locations, stored.id)


def rotate(settings: Settings) -> int:
    """Replace the service's key, and with it the keys of all studies; the number of studies.

    Earlier backups can be read only with the old key.
    """
    with exclusive(settings.require_service()) as alone:
        if not alone:
            raise Refused(
                f"A server is running with {str(settings.directory)!r}, which would go on with the old key. Stop it, "
                "rotate the key, start it again."
            )
        with settings.existing_database() as database:
            return _rotate(settings, database)


def _rotate(settings: Settings, database: Database) -> int:
    with database.reading() as session:
        if waiting := studies.in_state(session, State.CLOSED):
            raise Refused(
                f"Study {waiting[0]!r} is closed and not settled, and its answers are hashed with the old key. Start "
                "the service and let it be settled or cancelled first. Nothing was changed."
            )
        sealed = [stored.id for stored in studies.list_studies(session) if stored.seal is not None]
    with ExitStack() as stack:
        for study_id in sealed:  # keeps backups out meanwhile
            stack.enter_context(settings.locations.settling(study_id))
        _replace_service_key(settings, database, sealed)
    return len(sealed)


def _replace_service_key(settings: Settings, database: Database, sealed: list[str]) -> None:
    seals, in_file = database.seals, settings.environment_key is None
    if in_file:
        seals.masters = (new_secret(), *seals.masters)
        write_key(settings.directory, seals.masters)
    elif len(seals.masters) == 1:
        raise Refused(
            f"{VARIABLE} holds one key. Give the new key and the old one, with a space between them, for this command; "
            "from then on give the new one."
        )
    _replace_all(database, settings.locations, sealed)
    if in_file:
        write_key(settings.directory, seals.masters[:1])


def _replace_all(database: Database, locations: Locations, sealed: list[str]) -> None:
    """Reseal everything with new keys, and destroy the old ones at once."""
    seals = database.seals
    for study_id in sealed:
        seals.save(seals.keys(study_id).rotated())
    with database.writing() as session:
        factors.seal_again(session)
        for study_id in sealed:
            _seal_again(session, study_id)
    for study_id in sealed:
        path = locations.settlement(study_id) / SEALED_BOOKS
        if path.exists():
            _seal(seals, path, study_id, read_books(seals, locations, study_id))
        seals.save(seals.keys(study_id).latest())

"""Erase the data of a study's people, in steps that survive a crash.

(1) `erased.json` is written: from now on the erasure will be completed, at the next start if need be. (2) One
transaction deletes all their rows, so that no page asks for a key any more. (3) The keys are overwritten: answers,
codes and payments that a database's log, its dead rows or a stolen copy still hold can no longer be opened. The sealed
books are destroyed, with the key of links and the fingerprint of the answers. (4) The database is rewritten without the
deleted rows. (5) `erased.json` notes the completion. Every step may be repeated, and after a crash all of them are.

`erased.json` outlives the database: one restored from an older backup is erased again at the next start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from truthful.errors import Refused
from truthful.files import pretty_json, write_atomically
from truthful.service.keeping import PRIVATE, SEALED_BOOKS
from truthful.service.locations import CLOSED, LINKS, FilesMissing, Locations, Settings, SettledElsewhere
from truthful.store import erasing, studies
from truthful.store.audit_log import OPERATOR
from truthful.store.database import Database
from truthful.store.erasing import Erasure
from truthful.store.seals import shred

ERASURE_RECORD = "erased.json"


def purge(
    database: Database, locations: Locations, study_id: str, who: str, *, unpaid: bool = False
) -> Erasure:
    """Erase a study's people, if it has ended and they are paid; or complete an erasure that was interrupted."""
    with database.reading() as session:
        erasing.require_ended(studies.find(session, study_id))
    with locations.settling(study_id):
        if (begun := _read(locations, study_id)) is None:
            with database.reading() as session:
                begun = erasing.prepare(session, study_id, who, unpaid=unpaid).record() | {"whole": False}
            _write(locations, study_id, begun)
        _finish(database, locations, study_id, begun)
    return Erasure.read(begun)


def finish(database: Database, locations: Locations) -> None:
    """Complete interrupted erasures, and repeat those that a restored database has undone."""
    for path in sorted((locations.root / "studies").glob(f"*/{ERASURE_RECORD}")):
        study_id = path.parent.name
        record = _read(locations, study_id) or {}
        with database.reading() as session:
            whole = record["whole"] and erasing.is_erased(session, study_id)
        if not whole:
            with suppress(SettledElsewhere), locations.settling(study_id):
                _finish(database, locations, study_id, record)


def purge_due(database: Database, locations: Locations, today: date) -> None:
    """Erase studies whose promised day of erasure has passed, except those with payments not marked as sent."""
    with database.reading() as session:
        due = [stored.id for stored in erasing.to_erase(session)]
    for study_id in _past_erasure_day(locations, due, today):
        with suppress(Refused):
            purge(database, locations, study_id, "service")


def _past_erasure_day(locations: Locations, ended: list[str], today: date) -> Iterator[str]:
    """The studies whose `delete_after` has passed."""
    for study_id in ended:
        with suppress(FilesMissing):
            invitation = locations.plan(study_id).study.declared.invitation
            if (
                invitation is not None
                and invitation.delete_after is not None
                and invitation.delete_after < today
            ):
                yield study_id


def _finish(database: Database, locations: Locations, study_id: str, record: dict[str, Any]) -> None:
    settlement = locations.settlement(study_id)
    release, report = (_text(settlement / name) for name in ("release.json", "report.html"))
    with database.writing() as session:
        if not erasing.is_erased(session, study_id):
            erasing.erase(session, study_id, Erasure.read(record), release, report)
    database.seals.destroy(study_id)
    for path in (settlement / name for name in (SEALED_BOOKS, *PRIVATE)):
        shred(path)
    shred(locations.study(study_id) / LINKS)
    write_atomically(locations.study(study_id) / CLOSED, pretty_json({"answers_hmac": ""}))
    locations.destroy_keys(study_id)
    with suppress(OperationalError):  # another connection blocks it: retried later
        if database.clean():
            _write(locations, study_id, record | {"whole": True})


def _read(locations: Locations, study_id: str) -> dict[str, Any] | None:
    text = _text(locations.study(study_id) / ERASURE_RECORD)
    return None if text is None else json.loads(text)


def _write(locations: Locations, study_id: str, record: dict[str, Any]) -> None:
    write_atomically(locations.study(study_id) / ERASURE_RECORD, pretty_json(record))


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def today() -> date:
    return datetime.now(UTC).date()


def purge_from(settings: Settings, study_id: str, *, unpaid: bool) -> Erasure:
    """Erase by command, also while the service runs."""
    with settings.existing_database() as database:
        with database.reading() as session:
            studies.require_known(session, study_id)
        return purge(database, settings.locations, study_id, OPERATOR, unpaid=unpaid)

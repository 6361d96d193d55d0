"""Erase the data of a study's people, once it has ended and they are paid, in steps that survive a crash.

(1) `erased.json` is written: from now on the erasure will be completed, at the next start if need be. (2) One
transaction deletes all their rows, so that no page asks for a key any more. (3) The keys are overwritten: answers,
codes and payments that a database's log, its dead rows or a stolen copy still hold can no longer be opened. The sealed
books are destroyed, with the key of links and the fingerprint of the answers. (4) The database is rewritten without the
deleted rows. (5) `erased.json` notes the completion. Every step may be repeated, and after a crash all of them are.

`erased.json` outlives the database: one restored from an older backup is erased again at the next start.

All rows of people are deleted: ids, features, consents, codes, answers, payments, addresses. Three things stay. The
hash of each link, of 256 random bits and linked to nothing, so that its holder can be told. The number of people paid
and their total, for the payer's books. And an event in the audit log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, literal, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from truthful.errors import Refused
from truthful.files import pretty_json, write_atomically
from truthful.formatting import plural
from truthful.service.keeping import PRIVATE, SEALED_BOOKS
from truthful.service.locations import CLOSED, LINKS, FilesMissing, Locations, Settings, SettledElsewhere
from truthful.store import studies
from truthful.store.audit_log import OPERATOR, log
from truthful.store.database import Database
from truthful.store.seals import shred
from truthful.store.studies import ENDED, NotNow
from truthful.store.tables import Answer, Due, ErasedLink, Mail, Player, State, StoredStudy

ERASURE_RECORD = "erased.json"


class Unpaid(Refused):
    """Some payments are not marked as sent: after erasing, nobody could tell who is still owed."""


@dataclass(frozen=True)
class Erasure:
    """The record of an erasure: its time, who asked for it, the study's final state, and the totals paid."""

    when: datetime
    who: str
    state: State
    totals: dict[str, int]

    def record(self) -> dict[str, Any]:
        return {
            "erased": self.when.isoformat(),
            "who": self.who,
            "state": str(self.state),
            "totals": self.totals,
        }

    @staticmethod
    def read(kept: dict[str, Any]) -> Erasure:
        when, state = datetime.fromisoformat(kept["erased"]), State(kept["state"])
        return Erasure(when, kept["who"], state, kept["totals"])


def purge(
    database: Database, locations: Locations, study_id: str, who: str, *, unpaid: bool = False
) -> Erasure:
    """Erase a study's people, if it has ended and they are paid; or complete an erasure that was interrupted."""
    with database.reading() as session:
        _require_ended(studies.find(session, study_id))
    with locations.settling(study_id):
        if (begun := _read(locations, study_id)) is None:
            with database.reading() as session:
                begun = _prepare(session, study_id, who, unpaid=unpaid).record() | {"whole": False}
            _write(locations, study_id, begun)
        _finish(database, locations, study_id, begun)
    return Erasure.read(begun)


def finish(database: Database, locations: Locations) -> None:
    """Complete interrupted erasures, and repeat those that a restored database has undone."""
    for path in sorted((locations.root / "studies").glob(f"*/{ERASURE_RECORD}")):
        study_id = path.parent.name
        record = _read(locations, study_id) or {}
        with database.reading() as session:
            whole = record["whole"] and _is_erased(session, study_id)
        if not whole:
            with suppress(SettledElsewhere), locations.settling(study_id):
                _finish(database, locations, study_id, record)


def purge_due(database: Database, locations: Locations, today: date) -> None:
    """Erase studies whose promised day of erasure has passed, except those with payments not marked as sent."""
    with database.reading() as session:
        due = [stored.id for stored in _to_erase(session)]
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
        if not _is_erased(session, study_id):
            _delete_people(session, study_id, Erasure.read(record), release, report)
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


# The database


def _require_ended(stored: StoredStudy) -> None:
    if stored.state not in ENDED:
        raise NotNow(
            f"The study is {stored.state}. Its people's data can be erased once it is settled or cancelled; nothing "
            "was changed."
        )


def _prepare(session: Session, study_id: str, who: str, *, unpaid: bool) -> Erasure:
    """The record of an erasure that may be done; Unpaid if payments are unsent, unless `unpaid` allows that."""
    stored = studies.find(session, study_id)
    unsent = studies.count_unsent(session, study_id)
    if unsent and not stored.rehearsal and not unpaid:
        raise Unpaid(
            f"This study has {plural(unsent, 'payment')} not marked as sent, and nobody could tell afterwards who is "
            "owed what. Let the payer pay and mark them first, or add --unpaid. Nothing was erased."
        )
    owed = list(studies.payments(session, study_id))
    totals = {
        "people": len(owed),
        "coins": sum(row.coins for row in owed),
        "digits": owed[0].digits if owed else 0,
        "unsent": unsent,
    }
    return Erasure(datetime.now(UTC), who, stored.state, totals)


def _delete_people(
    session: Session, study_id: str, erasure: Erasure, release: str | None, report: str | None
) -> None:
    """Erase a study's people. In a database restored from before the study's end, its end is restored too."""
    stored = studies.find(session, study_id, lock=True)
    links = select(Player.link, literal(study_id)).where(
        Player.study_id == study_id, Player.link.is_not(None)
    )
    session.execute(insert(ErasedLink).from_select(["link", "study_id"], links))
    for kind in (Mail, Answer, Due, Player):
        session.execute(delete(kind).where(kind.study_id == study_id))
    if stored.state not in ENDED:
        stored.state, stored.release, stored.report = erasure.state, release, report
        stored.settled = erasure.when
        stored.published = erasure.when if erasure.state == State.PUBLISHED else None
    stored.seal = stored.roster = stored.steps = stored.told = stored.problem = stored.refused = None
    stored.erased, stored.totals = erasure.when, erasure.totals
    log(session, erasure.who, "erased the people's data", study_id)


def _is_erased(session: Session, study_id: str) -> bool:
    """Whether the database holds nothing of a study's people; true of an unknown study."""
    stored = session.get(StoredStudy, study_id)
    return stored is None or stored.erased is not None


def _to_erase(session: Session) -> list[StoredStudy]:
    """Studies that have ended and whose people's data are not erased."""
    ended = select(StoredStudy).where(StoredStudy.state.in_(ENDED), StoredStudy.erased.is_(None))
    return list(session.scalars(ended))

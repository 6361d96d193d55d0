"""Erasing people's data from the database, once their study has ended and they are paid.

All their rows are deleted: ids, features, consents, codes, answers, payments, addresses. Three things stay. The hash of
each link, of 256 random bits and linked to nothing, so that its holder can be told. The number of people paid and their
total, for the payer's books. And an event in the audit log.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, insert, literal, select
from sqlalchemy.orm import Session

from truthful.errors import Refused
from truthful.formatting import plural
from truthful.store import studies
from truthful.store.audit_log import log
from truthful.store.studies import ENDED, NotNow
from truthful.store.tables import Answer, Due, ErasedLink, Mail, Player, State, StoredStudy


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


def require_ended(stored: StoredStudy) -> None:
    if stored.state not in ENDED:
        raise NotNow(
            f"The study is {stored.state}. Its people's data can be erased once it is settled or cancelled; nothing "
            "was changed."
        )


def prepare(session: Session, study_id: str, who: str, *, unpaid: bool) -> Erasure:
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


def erase(session: Session, study_id: str, erasure: Erasure, release: str | None, report: str | None) -> None:
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


def is_erased(session: Session, study_id: str) -> bool:
    """Whether the database holds nothing of a study's people; true of an unknown study."""
    stored = session.get(StoredStudy, study_id)
    return stored is None or stored.erased is not None


def to_erase(session: Session) -> list[StoredStudy]:
    """Studies that have ended and whose people's data are not erased."""
    ended = select(StoredStudy).where(StoredStudy.state.in_(ENDED), StoredStudy.erased.is_(None))
    return list(session.scalars(ended))

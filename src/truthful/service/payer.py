"""The payer's pages: for every settled study who is paid how much, as files, and nothing else.

Amounts are in coins that exist, as they were rounded when the study was settled. A file is fetched by a form, because
fetching it is written to the log.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal

from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.coins import in_currency
from truthful.errors import Refused
from truthful.service.locations import Locations
from truthful.service.pages import csv_text, download, language
from truthful.service.signing import Payer, SignedIn
from truthful.store import studies
from truthful.store.studies import Unknown, log
from truthful.store.tables import StoredStudy

router = APIRouter()


class Kind(enum.StrEnum):
    """What a file of payments is for."""

    CSV = "payments.csv"
    PROLIFIC = "prolific.txt"
    MTURK = "mturk.csv"


#: What the log says of each.
TAKEN = {
    Kind.CSV: "took the payment file",
    Kind.PROLIFIC: "took the Prolific file",
    Kind.MTURK: "took the MTurk file",
}
#: First lines. MTurk's are the names of its SendBonus operation; Prolific wants none.
HEADS = {Kind.CSV: [("player", "amount")], Kind.PROLIFIC: [], Kind.MTURK: [("WorkerId", "BonusAmount")]}
#: Currencies that a platform pays bonuses in.
CURRENCIES = {Kind.PROLIFIC: ("GBP", "USD"), Kind.MTURK: ("USD",)}


@dataclass(frozen=True)
class Bill:
    """What a settled study owes: to whom how much, in the smallest coins of its currency."""

    stored: StoredStudy
    currency: str
    digits: int
    rows: list[tuple[str, int]]

    @property
    def total(self) -> Decimal:
        return in_currency(sum(coins for _, coins in self.rows), self.digits)

    @property
    def paid(self) -> int:
        """How many get anything: platforms take no bonus of nothing."""
        return sum(coins > 0 for _, coins in self.rows)

    def takes(self, kind: Kind) -> bool:
        """Whether a platform can pay it: in its currency, to players whose names can be ids there."""
        if kind not in CURRENCIES:
            return True
        return self.currency in CURRENCIES[kind] and all(
            player.isascii() and player.isalnum() for player, _ in self.rows
        )

    def file(self, kind: Kind) -> str:
        rows = (
            (player, f"{in_currency(coins, self.digits):.{self.digits}f}")
            for player, coins in self.rows
            if coins > 0 or kind == Kind.CSV
        )
        return csv_text(*HEADS[kind], *rows)


def _bill(session: Session, locations: Locations, stored: StoredStudy) -> Bill:
    owed = list(studies.payments(session, stored.id))
    rows = [(row.player, row.coins) for row in owed]
    return Bill(stored, locations.plan(stored.id).study.currency, owed[0].digits, rows)


def _settled_bill(visit: SignedIn, study_id: str) -> Bill:
    with visit.reading() as session:
        stored = studies.find(session, study_id)
        if stored.state not in studies.ENDED:
            raise Unknown("There is no such settled study.")
        return _bill(session, visit.service.locations, stored)


@router.get("/payments")
def payments(visit: Payer) -> Response:
    with visit.reading() as session:
        ended = [stored for stored in studies.everything(session) if stored.state in studies.ENDED]
        bills = [_bill(session, visit.service.locations, stored) for stored in ended]
    return visit.page("payer/payments.html", bills=bills)


@router.get("/payments/{study_id}")
def study_payments(visit: Payer, study_id: str) -> Response:
    return visit.page("payer/study.html", bill=_settled_bill(visit, study_id), kinds=Kind)


@router.post("/payments/{study_id}/{kind}")
def payment_file(visit: Payer, study_id: str, kind: Kind) -> Response:
    """Players and amounts, as this kind of file. That it was taken is in the log before it is sent."""
    bill = _settled_bill(visit, study_id)
    if not bill.takes(kind):
        raise Refused(language(visit.request)("payer.not_for_it"))
    with visit.writing() as session:
        log(session, visit.who, TAKEN[kind], study_id)
    return download(bill.file(kind), f"{study_id}-{kind}")

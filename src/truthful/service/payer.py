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
from starlette.requests import Request
from starlette.responses import Response

from truthful.coins import in_currency
from truthful.errors import Refused
from truthful.service.locations import Locations
from truthful.service.pages import CSV, TEXT, Language, Running, download, page
from truthful.service.roster_file import table
from truthful.service.signing import Payer
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
HEADS = {Kind.CSV: ("player", "amount"), Kind.PROLIFIC: None, Kind.MTURK: ("WorkerId", "BonusAmount")}
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
        return table(HEADS[kind], rows)


def _bill(session: Session, locations: Locations, stored: StoredStudy) -> Bill:
    owed = list(studies.payments(session, stored.id))
    return Bill(
        stored,
        locations.plan(stored.id).study.currency,
        owed[0].digits,
        [(row.player, row.coins) for row in owed],
    )


def _settled(session: Session, study_id: str) -> StoredStudy:
    stored = studies.find(session, study_id)
    if stored.state not in studies.ENDED:
        raise Unknown("There is no such settled study.")
    return stored


@router.get("/payments")
def payments(request: Request, service: Running, account: Payer) -> Response:
    with service.database.reading() as session:
        ended = [stored for stored in studies.everything(session) if stored.state in studies.ENDED]
        bills = [_bill(session, service.locations, stored) for stored in ended]
    return page(request, "payer/payments.html", account=account, bills=bills)


@router.get("/payments/{study_id}")
def study_payments(request: Request, service: Running, account: Payer, study_id: str) -> Response:
    with service.database.reading() as session:
        bill = _bill(session, service.locations, _settled(session, study_id))
    return page(request, "payer/study.html", account=account, bill=bill, kinds=Kind)


@router.post("/payments/{study_id}/{kind}")
def payment_file(service: Running, texts: Language, account: Payer, study_id: str, kind: Kind) -> Response:
    """Players and amounts, as this kind of file. That it was taken is in the log before it is sent."""
    with service.database.reading() as session:
        bill = _bill(session, service.locations, _settled(session, study_id))
    if not bill.takes(kind):
        raise Refused(texts("payer.not_for_it"))
    with service.database.writing() as session:
        log(session, account.name, TAKEN[kind], study_id)
    return download(bill.file(kind), TEXT if kind == Kind.PROLIFIC else CSV, f"{study_id}-{kind}")

"""The payer's pages: for every settled study who is paid how much, as files, and nothing else.

Amounts are in coins that exist, as they were rounded when the study was settled. A file is fetched by a form, because
fetching it is written to the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.coins import Bill, Kind
from truthful.errors import Refused
from truthful.service.locations import Locations
from truthful.service.pages import download, language
from truthful.service.signing import Payer, SignedIn
from truthful.store import studies
from truthful.store.studies import Unknown, log
from truthful.store.tables import StoredStudy

router = APIRouter()


#: What the log says of each.
TAKEN = {
    Kind.CSV: "took the payment file",
    Kind.PROLIFIC: "took the Prolific file",
    Kind.MTURK: "took the MTurk file",
}


@dataclass(frozen=True)
class StudyBill(Bill):
    """What a settled study owes."""

    stored: StoredStudy


def _bill(session: Session, locations: Locations, stored: StoredStudy) -> StudyBill:
    owed = list(studies.payments(session, stored.id))
    rows = [(row.player, row.coins) for row in owed]
    return StudyBill(locations.plan(stored.id).study.currency, owed[0].digits, rows, stored)


def _settled_bill(visit: SignedIn, study_id: str) -> StudyBill:
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

"""The payer's pages: players and amounts, as files, of every settled study that names her, and nothing else.

Where a study declares that the asker also pays, its analysts see these pages. Amounts are in whole coins, as rounded by
the settlement. Files are downloaded by a POST, because each download is logged.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.responses import Response

from truthful.coins import Bill, Kind, in_currency
from truthful.errors import InputError
from truthful.service.locations import Locations
from truthful.service.pages import TurnedAway, download, go
from truthful.service.signing import SignedIn, signed_in
from truthful.store import studies
from truthful.store.audit_log import log
from truthful.store.studies import NotNow, Unknown
from truthful.store.tables import Role, StoredStudy

router = APIRouter()
#: Recognised headings of the first column of a file of ids.
HEADINGS = ("player", "id", "WorkerId", "Participant id")
#: Any signed-in account: analysts can be payers too, so each page checks which studies an account may pay for.
Paying = Annotated[SignedIn, Depends(signed_in)]

#: The audit log's words for each kind of file.
DOWNLOAD_EVENTS = {
    Kind.CSV: "took the payment file",
    Kind.PROLIFIC: "took the Prolific file",
    Kind.MTURK: "took the MTurk file",
}


@dataclass(frozen=True)
class StudyBill(Bill):
    """The payments that a settled study owes."""

    stored: StoredStudy


def _bill(session: Session, locations: Locations, stored: StoredStudy) -> StudyBill:
    owed = list(studies.payments(session, stored.id))
    rows = [(row.player, row.coins) for row in owed]
    return StudyBill(locations.plan(stored.id).study.currency, owed[0].digits, rows, stored)


def _payable(session: Session, visit: SignedIn) -> dict[str, StoredStudy]:
    """The settled studies whose amounts she may see: those she has access to and pays for."""
    hers = {
        stored.id: stored
        for stored in studies.list_studies(session, visit.account)
        if stored.state in studies.ENDED
    }
    if visit.account.role == Role.PAYER:
        return hers
    invited = {study_id: visit.plan(study_id).study.declared.invitation for study_id in hers}
    return {
        study_id: hers[study_id]
        for study_id, invitation in invited.items()
        if invitation and invitation.asker_pays
    }


def _settled_bill(visit: SignedIn, study_id: str) -> StudyBill:
    with visit.reading() as session:
        stored = _payable(session, visit).get(study_id)
        if stored is None:
            raise Unknown("There is no such settled study.")
        if stored.erased:
            raise NotNow(f"The amounts of this study were erased on {stored.erased:%Y-%m-%d}.")
        return _bill(session, visit.service.locations, stored)


@router.get("/payments")
def payments(visit: Paying) -> Response:
    with visit.reading() as session:
        ended = list(_payable(session, visit).values())
        bills = [_bill(session, visit.service.locations, stored) for stored in ended if not stored.erased]
        unsent = {bill.stored.id: studies.count_unsent(session, bill.stored.id) for bill in bills}
    erased = [_erased_totals(visit, stored) for stored in ended if stored.erased]
    return visit.page("payer/payments.html", bills=bills, unsent=unsent, erased=erased)


def _erased_totals(visit: SignedIn, stored: StoredStudy) -> dict[str, Any]:
    """The totals of a study whose people's data were erased."""
    totals = stored.totals or {}
    paid = in_currency(totals["coins"], totals["digits"])
    currency = visit.plan(stored.id).study.currency
    return {"stored": stored, "total": paid, "currency": currency, **totals}


@router.get("/payments/{study_id}")
def study_payments(visit: Paying, study_id: str) -> Response:
    with visit.reading() as session:
        stored = _payable(session, visit).get(study_id)
    if stored is not None and stored.erased:
        return visit.page("payer/erased.html", gone=_erased_totals(visit, stored))
    return _study_page(visit, _settled_bill(visit, study_id))


def _study_page(visit: SignedIn, bill: StudyBill, problem: str | None = None) -> Response:
    with visit.reading() as session:
        unsent = studies.count_unsent(session, bill.stored.id)
    status = 200 if problem is None else 400
    return visit.page(
        "payer/study.html", status=status, bill=bill, kinds=Kind, unsent=unsent, problem=problem
    )


@router.post("/payments/{study_id}/sent")
async def mark_sent(visit: Paying, study_id: str) -> Response:
    """Mark payments as sent: all, or those in an uploaded file of ids. Players see the date."""
    async with visit.request.form(max_files=1) as sent:
        pressed, file = sent.get("do"), sent.get("file")
        text = None if not isinstance(file, UploadFile) or not file.filename else await file.read()
    return await run_in_threadpool(_mark, visit, study_id, str(pressed), text)


def _mark(visit: SignedIn, study_id: str, pressed: str, text: bytes | None) -> Response:
    bill = _settled_bill(visit, study_id)
    try:
        with visit.writing() as session:
            if pressed == "undo":
                studies.unmark_sent(session, study_id, visit.who)
            else:
                studies.mark_sent(session, study_id, visit.who, None if pressed == "all" else _read_ids(text))
    except InputError as problem:
        return _study_page(visit, bill, str(problem))
    return go(f"/payments/{study_id}")


def _read_ids(text: bytes | None) -> list[str]:
    """The ids in the first column of a CSV file, with or without a heading."""
    if not text:
        raise InputError("No file was chosen. Choose a file of ids first.")
    try:
        lines = [
            row[0] for row in csv.reader(io.StringIO(text.decode("utf-8-sig"), newline="")) if row and row[0]
        ]
    except (UnicodeDecodeError, csv.Error):
        raise InputError("The file is no CSV in UTF-8. Save it as plain text, one id on each line.") from None
    ids = lines[1:] if lines and lines[0] in HEADINGS else lines
    if not ids:
        raise InputError("The file holds no ids. Give one on each line.")
    return ids


@router.post("/payments/{study_id}/{kind}")
def payment_file(visit: Paying, study_id: str, kind: Kind) -> Response:
    """Players and amounts as this kind of file. The download is logged before it is sent."""
    bill = _settled_bill(visit, study_id)
    if not bill.takes(kind):
        raise TurnedAway(409, "payer.not_for_it")
    with visit.writing() as session:
        log(session, visit.who, DOWNLOAD_EVENTS[kind], study_id)
    return download(bill.file(kind), f"{study_id}-{kind}")

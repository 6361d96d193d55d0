"""The analyst's view of accounts and of the audit log of her own studies. Nothing can be changed here.

The operator adds accounts, ends them and shares studies with them on the command line.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.service.pages import csv_text, download
from truthful.service.signing import Analyst, SignedIn
from truthful.store import accounts, studies
from truthful.store.audit_log import EVENT_FIELDS, events_of, refused_sign_ins
from truthful.store.tables import Event

router = APIRouter()
#: The most events on the log's page and in its file.
PAGE_EVENTS, FILE_EVENTS = 500, 1_000_000


@router.get("/people")
def people(visit: Analyst) -> Response:
    with visit.reading() as session:
        return visit.page("access/people.html", accounts=accounts.accounts(session))


@router.get("/log")
def log_page(visit: Analyst) -> Response:
    """The latest events of her studies and her account; below them, refused sign-ins to her account."""
    with visit.reading() as session:
        latest, names = _events(session, visit, PAGE_EVENTS)
        refused = refused_sign_ins(session, visit.who)
    return visit.page("access/log.html", events=latest, names=names, most=PAGE_EVENTS, refused=refused)


@router.get("/log.csv")
def log_file(visit: Analyst) -> Response:
    """All of these events with their hashes, as CSV."""
    with visit.reading() as session:
        latest, _ = _events(session, visit, FILE_EVENTS)
        rows = [[getattr(event, name) for name in (*EVENT_FIELDS, "hash")] for event in reversed(latest)]
    return download(csv_text((*EVENT_FIELDS, "hash"), *rows), "log.csv")


def _events(session: Session, visit: SignedIn, most: int) -> tuple[list[Event], dict[str, Any]]:
    """The events of her studies and her account, the newest first, and the names of her studies."""
    names = {stored.id: stored.name for stored in studies.everything(session, visit.account)}
    return events_of(session, visit.who, names, most=most), names

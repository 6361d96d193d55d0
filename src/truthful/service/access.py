"""Who signs in, as everybody who runs studies sees it, and the log of her own studies. Nobody is let in here.

Accounts are made, ended and let into studies by whoever runs the service, on the command line.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.service.pages import csv_text, download
from truthful.service.signing import Analyst, SignedIn
from truthful.store import accounts, studies
from truthful.store.audit_log import SAID, events_of, refused_sign_ins
from truthful.store.tables import Event

router = APIRouter()
#: The latest events that the log's page shows, and all that its file does.
SHOWN, WHOLE = 500, 1_000_000


@router.get("/people")
def people(visit: Analyst) -> Response:
    with visit.reading() as session:
        return visit.page("access/people.html", accounts=accounts.accounts(session))


@router.get("/log")
def log_page(visit: Analyst) -> Response:
    """The latest of what was done to her studies and her account, and by whom; apart, whom her account refused."""
    with visit.reading() as session:
        done, names = _events(session, visit, SHOWN)
        refused = refused_sign_ins(session, visit.who)
    return visit.page("access/log.html", events=done, names=names, most=SHOWN, refused=refused)


@router.get("/log.csv")
def log_file(visit: Analyst) -> Response:
    """The same events, all of them, with their hashes."""
    with visit.reading() as session:
        done, _ = _events(session, visit, WHOLE)
        rows = [[getattr(event, name) for name in (*SAID, "hash")] for event in reversed(done)]
    return download(csv_text((*SAID, "hash"), *rows), "log.csv")


def _events(session: Session, visit: SignedIn, most: int) -> tuple[list[Event], dict[str, Any]]:
    """Events that concern her, the newest first, and the names of her studies."""
    names = {stored.id: stored.name for stored in studies.everything(session, visit.account)}
    return events_of(session, visit.who, names, most=most), names

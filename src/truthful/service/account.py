"""The pages of one's own account: second factor, signing out everywhere, the log; and clearing this browser's cookies.

Accounts are added and ended, and studies shared with them, by the operator on the command line; analysts see the list.
"""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

import segno
from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.service.limits import MARK_COOKIE
from truthful.service.middleware import wait
from truthful.service.pages import LANGUAGE, Visitor, csv_text, download, go
from truthful.service.signing import (
    ACCOUNT,
    COOKIE,
    Analyst,
    Field,
    SignedIn,
    cookie_name,
    find_signed_in,
    leave,
    take_code,
)
from truthful.store import accounts, factors, studies
from truthful.store.audit_log import EVENT_FIELDS, events_of, refused_sign_ins
from truthful.store.tables import Event

router = APIRouter()
Anybody = Annotated[SignedIn, Depends(find_signed_in)]
#: The service's name in an authenticator app.
SERVICE = "truthful"
#: The most events on the log's page and in its file.
PAGE_EVENTS, FILE_EVENTS = 500, 1_000_000


@router.get("/account")
def account_page(visit: Anybody) -> Response:
    return _account(visit)


def _account(visit: SignedIn, *, status: int = 200, problem: str | None = None) -> Response:
    with visit.reading() as session:
        left = factors.codes_left(session, visit.account)
    required = visit.service.settings.require_second_factor
    return visit.page("account/account.html", status=status, problem=problem, left=left, required=required)


@router.get("/account/second-factor")
def set_up_page(visit: Anybody) -> Response:
    """Show a new secret, which takes effect only once a code of it is confirmed."""
    return go(ACCOUNT) if visit.account.factor is not None else _set_up(visit, factors.new_secret())


def _set_up(visit: SignedIn, secret: str, *, status: int = 200) -> Response:
    host = urlsplit(visit.service.settings.url).hostname
    words = factors.secret_address(secret, visit.who, f"{SERVICE} {host}")
    picture = segno.make(words, error="m").svg_data_uri(scale=5, light="#ffffff")
    spaced = " ".join(secret[k : k + 4] for k in range(0, len(secret), 4))
    values = {"secret": secret, "spaced": spaced, "picture": picture, "wrong": status != 200}
    return visit.page("account/set_up.html", status=status, **values)


@router.post("/account/second-factor")
def turn_on(visit: Anybody, secret: Field, code: Field) -> Response:
    """Turn on the second factor once a code confirms the secret. The recovery codes are shown now and never again."""
    if not factors.is_secret(secret):
        return go(f"{ACCOUNT}/second-factor")
    if seconds := visit.service.limits.attempt_code(visit.account):
        return wait(visit.request, seconds)
    token = visit.request.cookies.get(cookie_name(visit.service, COOKIE), "")
    try:
        with visit.writing() as session:
            codes = factors.turn_on(session, visit.account.id, secret, code, token)
    except factors.WrongCode:
        return _set_up(visit, secret, status=400)
    visit.service.limits.forgive_codes(visit.account)
    return visit.page("account/codes.html", codes=codes)


@router.post("/account/second-factor/codes")
def renew_codes(visit: Anybody, code: Field) -> Response:
    if (refused := _refuse(visit, code)) is not None:
        return refused
    with visit.writing() as session:
        codes = factors.renew_recovery_codes(session, visit.account.id)
    return visit.page("account/codes.html", codes=codes)


@router.post("/account/second-factor/off")
def turn_off(visit: Anybody, code: Field) -> Response:
    if (refused := _refuse(visit, code)) is not None:
        return refused
    with visit.writing() as session:
        factors.turn_off(session, visit.account.id, visit.who)
    return go(ACCOUNT)


def _refuse(visit: SignedIn, code: str) -> Response | None:
    """The response to a wrong or rate-limited code; None if it is right. Being signed in is not enough here."""
    if seconds := visit.service.limits.attempt_code(visit.account):
        return wait(visit.request, seconds)
    return (
        None if take_code(visit, visit.account, code) else _account(visit, status=403, problem="wrong_code")
    )


@router.post("/account/sign-out-everywhere")
def sign_out_everywhere(visit: Anybody) -> Response:
    with visit.writing() as session:
        accounts.sign_out_everywhere(session, visit.account)
    return leave(visit)


@router.get("/forget")
def forget_page(visit: Visitor) -> Response:
    """Say which cookies this browser holds, and ask whether to delete them."""
    return visit.page("account/forget.html")


@router.post("/forget")
def forget(visit: Visitor) -> Response:
    """Sign out this browser and delete its cookies, except codes: those are deleted on participants' own pages."""
    with visit.writing() as session:
        accounts.sign_out(session, visit.request.cookies.get(cookie_name(visit.service, COOKIE), ""))
    response = leave(visit)
    visit.remove(response, cookie_name(visit.service, MARK_COOKIE))
    visit.remove(response, LANGUAGE)
    return response


# Accounts and the log, as analysts see them


@router.get("/people")
def people(visit: Analyst) -> Response:
    with visit.reading() as session:
        return visit.page("account/people.html", accounts=accounts.accounts(session))


@router.get("/log")
def log_page(visit: Analyst) -> Response:
    """The latest events of her studies and her account; below them, refused sign-ins to her account."""
    with visit.reading() as session:
        latest, names = _events(session, visit, PAGE_EVENTS)
        refused = refused_sign_ins(session, visit.who)
    return visit.page("account/log.html", events=latest, names=names, most=PAGE_EVENTS, refused=refused)


@router.get("/log.csv")
def log_file(visit: Analyst) -> Response:
    """All of these events with their hashes, as CSV."""
    with visit.reading() as session:
        latest, _ = _events(session, visit, FILE_EVENTS)
        rows = [[getattr(event, name) for name in (*EVENT_FIELDS, "hash")] for event in reversed(latest)]
    return download(csv_text((*EVENT_FIELDS, "hash"), *rows), "log.csv")


def _events(session: Session, visit: SignedIn, most: int) -> tuple[list[Event], dict[str, Any]]:
    """The events of her studies and her account, the newest first, and the names of her studies."""
    names = {stored.id: stored.name for stored in studies.list_studies(session, visit.account)}
    return events_of(session, visit.who, names, most=most), names

"""Signing in and out, the link that sets a password, and who may see a page."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.service.browsers import KNOWN, browser, known
from truthful.service.catalogue import languages
from truthful.service.limits import address
from truthful.service.security import wait
from truthful.service.web import LANGUAGE, Running, Service, go, page
from truthful.store import access, accounts
from truthful.store.tables import Account, Role

COOKIE = "truthful"
HOME = {Role.ANALYST: "/studies", Role.PAYER: "/payments"}
YEAR = 31_536_000
#: Passwords checked at a time: each takes 64 MB for a moment. Others wait, but not for long.
_CHECKING = threading.BoundedSemaphore(4)
_PATIENCE_SECONDS = 10

router = APIRouter()


class SignInFirst(Exception):
    """The page is for somebody who has signed in."""


def signed_in(request: Request, service: Running) -> Account:
    """Who is signed in."""
    token = request.cookies.get(_named(service, COOKIE))
    if token is not None:
        with service.database.reading() as session:
            if (account := accounts.signed_in(session, token)) is not None:
                return account
    raise SignInFirst


def _analyst(account: Annotated[Account, Depends(signed_in)]) -> Account:
    if account.role != Role.ANALYST:
        raise SignInFirst
    return account


def _payer(account: Annotated[Account, Depends(signed_in)]) -> Account:
    if account.role != Role.PAYER:
        raise SignInFirst
    return account


#: For the arguments of a page's function: nobody else gets there.
Analyst = Annotated[Account, Depends(_analyst)]
Payer = Annotated[Account, Depends(_payer)]


@router.get("/")
def home(request: Request, service: Running) -> Response:
    """One's own first page."""
    return go(HOME[signed_in(request, service).role])


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    return page(request, "signing/sign_in.html", name="", wrong=False)


@router.post("/sign-in")
def sign_in(
    request: Request, service: Running, name: Annotated[str, Form()], password: Annotated[str, Form()]
) -> Response:
    with service.database.reading() as session:
        found = access.named(session, name)
    trying = browser(name, found, request.cookies.get(_named(service, KNOWN), ""))
    limits = service.limits
    # Counted before the password is checked: of many that come at once, only so many are.
    seconds = limits.addresses.attempt(
        address(request, service.settings.behind_proxy)
    ) or limits.accounts.attempt(trying)
    if seconds:
        return wait(request, seconds)
    if not _CHECKING.acquire(timeout=_PATIENCE_SECONDS):
        return wait(request, _PATIENCE_SECONDS)
    try:
        with service.database.reading() as session:
            account = accounts.check_password(session, name, password)
    finally:
        _CHECKING.release()
    if account is None:
        # Of any name, so that it takes as long for one that is nobody's.
        with service.database.writing() as session:
            access.refused(session, found)
        return page(request, "signing/sign_in.html", status=403, name=name[:200], wrong=True)
    limits.accounts.forgive(trying)
    return _enter(request, service, account)


@router.post("/sign-out")
def sign_out(request: Request, service: Running) -> Response:
    with service.database.writing() as session:
        accounts.sign_out(session, request.cookies.get(_named(service, COOKIE), ""))
    response = go("/sign-in")
    response.delete_cookie(
        _named(service, COOKIE), secure=service.settings.secure, httponly=True, samesite="lax"
    )
    return response


@router.get("/welcome/{token}")
def welcome(request: Request, service: Running, token: str) -> Response:
    """A one-time link. Opening it changes nothing: previews and scanners open links too."""
    with service.database.reading() as session:
        account = accounts.linked(session, token)
    if account is None:
        return page(request, "signing/used.html", status=404)
    return page(request, "signing/welcome.html", name=account.name, role=account.role, problem=None)


@router.post("/welcome/{token}")
def set_password(
    request: Request, service: Running, token: str, password: Annotated[str, Form()]
) -> Response:
    with service.database.reading() as session:
        account = accounts.linked(session, token)
    if account is None:
        return page(request, "signing/used.html", status=404)
    try:
        password_hash = accounts.hash_password(password)
    except InputError:
        return page(
            request,
            "signing/welcome.html",
            status=400,
            name=account.name,
            role=account.role,
            problem="length",
        )
    try:
        with service.database.writing() as session:
            access.lock(session, account)  # of two who use a link at once, the second finds it used
            account = accounts.set_password(session, token, password_hash)
            session.expunge(account)
    except Refused:
        return page(request, "signing/used.html", status=404)
    return _enter(request, service, account)


@router.post("/language")
def choose_language(
    service: Running, language: Annotated[str, Form()], back: Annotated[str, Form()] = "/"
) -> Response:
    """Keep a language for this browser, and show the same page again."""
    ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    response = go(back if ours else "/")
    if language in languages():
        _keep(service, response, LANGUAGE, language, YEAR)
    return response


def _enter(request: Request, service: Service, account: Account) -> Response:
    """Sign in under a new token; one that the browser brought along ends here."""
    with service.database.writing() as session:
        accounts.sign_out(session, request.cookies.get(_named(service, COOKIE), ""))
        token = accounts.sign_in(session, account)
    response = go(HOME[account.role])
    _keep(service, response, _named(service, COOKIE), token)
    _keep(service, response, _named(service, KNOWN), known(account), YEAR)
    return response


def _keep(service: Service, response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie that no script can read and no other site can send; without `seconds`, until the browser ends."""
    response.set_cookie(
        name, value, max_age=seconds, secure=service.settings.secure, httponly=True, samesite="lax"
    )


def _named(service: Service, cookie: str) -> str:
    """With TLS the cookie's name says that no other host and no plain connection can have set it."""
    return f"__Host-{cookie}" if service.settings.secure else cookie

"""Signing in and out, the link that sets a password, and who may see a page."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Path
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.service.limits import KNOWN, address, browser, known
from truthful.service.middleware import wait
from truthful.service.pages import LANGUAGE, Language, Running, Service, go, languages, page
from truthful.store import accounts, studies
from truthful.store.studies import events
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
        found = accounts.named(session, name)
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
            accounts.refused(session, found)
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
            accounts.lock(session, account)  # of two who use a link at once, the second finds it used
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


#: The latest events that the log's page shows.
SHOWN = 500
LONGEST_NAME = 100
#: Names under which the log tells what nobody signed in did.
TAKEN = ("service", "command line")

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/people")
def people(request: Request, service: Running, account: Analyst) -> Response:
    return _show(request, service, account)


@router.post("/people")
def add_payer(request: Request, service: Running, account: Analyst, name: Annotated[str, Form()]) -> Response:
    """A payer, and the link that lets her in. It is shown now and never again."""
    name = " ".join(name.split())
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return _show(request, service, account, status=400, typed=name[:LONGEST_NAME], problem="bad_name")
    with service.database.writing() as session:
        taken = name.lower() in TAKEN or accounts.named(session, name) is not None
        if not taken:
            added = accounts.account(session, name, Role.PAYER, account.name)
            token = accounts.new_link(session, added, account.name)
    if taken:
        return _show(request, service, account, status=409, typed=name, problem="taken")
    return _show(request, service, account, link=_link(service, token), whose=name)


@router.post("/people/{number}/link")
def replace_access(request: Request, service: Running, account: Analyst, number: Number) -> Response:
    """A new link for a payer: who had access before has none now."""
    with service.database.writing() as session:
        payer = accounts.payer(session, number)
        accounts.end(session, payer, account.name)
        token, name = accounts.new_link(session, payer, account.name), payer.name
    return _show(request, service, account, link=_link(service, token), whose=name)


@router.post("/people/{number}/remove")
def remove_access(service: Running, account: Analyst, number: Number) -> Response:
    with service.database.writing() as session:
        accounts.end(session, accounts.payer(session, number), account.name)
    return go("/people")


@router.get("/log")
def log(request: Request, service: Running, account: Analyst, texts: Language) -> Response:
    """The latest of what was done, and by whom."""
    with service.database.reading() as session:
        names = {stored.id: stored.name for stored in studies.everything(session)}
        done = events(session, most=SHOWN)
    rows = [(event, _told(event.what, texts.texts["people"]["done"])) for event in done]
    return page(request, "people/log.html", account=account, rows=rows, names=names, most=SHOWN)


def _told(what: str, words: dict[str, str]) -> str:
    """An event in the reader's language; a name that follows stays."""
    for english, told in words.items():
        if what == english or what.startswith(f"{english} "):
            return told + what.removeprefix(english)
    return what


def _show(
    request: Request,
    service: Service,
    account: Account,
    *,
    status: int = 200,
    typed: str = "",
    problem: str | None = None,
    link: str | None = None,
    whose: str = "",
) -> Response:
    with service.database.reading() as session:
        everybody = accounts.accounts(session)
    return page(
        request,
        "people/people.html",
        status=status,
        account=account,
        accounts=everybody,
        typed=typed,
        problem=problem,
        link=link,
        whose=whose,
    )


def _link(service: Service, token: str) -> str:
    return f"{service.settings.origin}/welcome/{token}"

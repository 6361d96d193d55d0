"""Signing in and out, the link that sets a password, and who may see a page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.service.catalogue import languages
from truthful.service.web import LANGUAGE, Running, Service, go, page
from truthful.store import accounts
from truthful.store.tables import Account, Role

#: With TLS the cookie's name says that no other host and no plain connection can have set it.
COOKIE, SECURE_COOKIE = "truthful", "__Host-truthful"
HOME = {Role.ANALYST: "/studies", Role.PAYER: "/payments"}

router = APIRouter()


class SignInFirst(Exception):
    """The page is for somebody who has signed in."""


def signed_in(request: Request, service: Running) -> Account:
    """Who is signed in."""
    token = request.cookies.get(_cookie(service))
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
        account = accounts.check_password(session, name, password)
    if account is None:
        return page(request, "signing/sign_in.html", status=403, name=name, wrong=True)
    return _enter(service, account)


@router.post("/sign-out")
def sign_out(request: Request, service: Running) -> Response:
    with service.database.writing() as session:
        accounts.sign_out(session, request.cookies.get(_cookie(service), ""))
    response = go("/sign-in")
    response.delete_cookie(_cookie(service), secure=service.settings.secure, httponly=True, samesite="lax")
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
            account = accounts.set_password(session, token, password_hash)
            session.expunge(account)
    except Refused:
        return page(request, "signing/used.html", status=404)
    return _enter(service, account)


@router.post("/language")
def choose_language(
    service: Running, language: Annotated[str, Form()], back: Annotated[str, Form()] = "/"
) -> Response:
    """Keep a language for this browser, and show the same page again."""
    ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    response = go(back if ours else "/")
    if language in languages():
        response.set_cookie(
            LANGUAGE,
            language,
            max_age=31_536_000,
            secure=service.settings.secure,
            httponly=True,
            samesite="lax",
        )
    return response


def _enter(service: Service, account: Account) -> Response:
    with service.database.writing() as session:
        token = accounts.sign_in(session, account)
    response = go(HOME[account.role])
    response.set_cookie(
        _cookie(service), token, secure=service.settings.secure, httponly=True, samesite="lax", path="/"
    )
    return response


def _cookie(service: Service) -> str:
    return SECURE_COOKIE if service.settings.secure else COOKIE

"""Who signs in, and the log of what was done: pages of the analyst's."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path
from starlette.requests import Request
from starlette.responses import Response

from truthful.service.signing import Analyst
from truthful.service.web import Language, Running, Service, go, page
from truthful.store import access, accounts, surveys
from truthful.store.log import events
from truthful.store.tables import Account, Role

#: The latest events that the log's page shows.
SHOWN = 500
LONGEST_NAME = 100
#: Names under which the log tells what nobody signed in did.
TAKEN = ("service", "command line")

Number = Annotated[int, Path(ge=1, le=2**31 - 1)]

router = APIRouter()


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
        taken = name.lower() in TAKEN or access.named(session, name) is not None
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
        payer = access.payer(session, number)
        access.end(session, payer, account.name)
        token, name = accounts.new_link(session, payer, account.name), payer.name
    return _show(request, service, account, link=_link(service, token), whose=name)


@router.post("/people/{number}/remove")
def remove_access(service: Running, account: Analyst, number: Number) -> Response:
    with service.database.writing() as session:
        access.end(session, access.payer(session, number), account.name)
    return go("/people")


@router.get("/log")
def log(request: Request, service: Running, account: Analyst, texts: Language) -> Response:
    """The latest of what was done, and by whom."""
    with service.database.reading() as session:
        names = {survey.id: survey.name for survey in surveys.everything(session)}
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

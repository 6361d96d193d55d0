"""Signing in and out, one-time links that set passwords, and access to pages by role."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.service.limits import MARK_COOKIE, TryingBrowser, address, browser, browser_mark
from truthful.service.middleware import limit_guesses, wait
from truthful.service.pages import LANGUAGE, YEAR, Service, Visit, Visitor, go, languages
from truthful.store import accounts, factors
from truthful.store.audit_log import note_refused_sign_in
from truthful.store.tables import Account, Role

COOKIE = "truthful"
ACCOUNT = "/account"
HOME = {Role.ANALYST: "/studies", Role.PAYER: "/payments"}

Field = Annotated[str, Form()]

router = APIRouter()


class SignInFirst(Exception):
    """The page needs a signed-in account; `page` is where to sign in, or to set up the second factor."""

    def __init__(self, page: str = "/sign-in") -> None:
        super().__init__(page)
        self.page = page


@dataclass(frozen=True, eq=False)
class SignedIn(Visit):
    """A request from a signed-in account."""

    account: Account

    @property
    def who(self) -> str:
        """The account's name, for the audit log."""
        return self.account.name

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return super().page(template, status=status, account=self.account, **values)


def signed_in(visit: Visitor) -> SignedIn:
    """The signed-in visit; SignInFirst if there is none, or if it lacks a required second factor."""
    found = find_signed_in(visit)
    if visit.service.settings.require_second_factor and found.account.factor is None:
        raise SignInFirst(ACCOUNT)
    return found


def find_signed_in(visit: Visitor) -> SignedIn:
    """The signed-in visit, also of an account that has yet to set up a required second factor."""
    token = visit.request.cookies.get(cookie_name(visit.service, COOKIE))
    if token is not None:
        with visit.reading() as session:
            if (account := accounts.signed_in(session, token)) is not None:
                return SignedIn(visit.request, visit.service, account)
    raise SignInFirst


def _only(role: Role) -> Any:
    """A dependency that admits this role alone."""

    async def require(signed: Annotated[SignedIn, Depends(signed_in)]) -> SignedIn:
        if signed.account.role != role:
            raise SignInFirst
        return signed

    return Depends(require)


#: For the arguments of a page's function.
Analyst = Annotated[SignedIn, _only(Role.ANALYST)]


@router.get("/")
def home(visit: Visitor) -> Response:
    """Redirect to the first page of one's role."""
    return go(HOME[signed_in(visit).account.role])


@router.get("/sign-in")
def sign_in_page(visit: Visitor) -> Response:
    return _sign_in_page(visit)


def _sign_in_page(visit: Visit, *, status: int = 200, name: str = "", wrong: bool = False) -> Response:
    settings = visit.service.settings
    values = {"openid": settings.oidc is not None, "passwords": settings.passwords}
    return visit.page("signing/sign_in.html", status=status, name=name, wrong=wrong, **values)


@router.post("/sign-in")
async def sign_in(visit: Visitor, name: Field, password: Field) -> Response:
    """Sign in by password. Attempts are counted before a password is checked or a thread taken.

    Browsers with a mark are looked up first, so that strangers at the same address do not count against them.
    """
    if not visit.service.settings.passwords:
        return _sign_in_page(visit, status=403)
    request, limits, pools = visit.request, visit.service.limits, visit.service.pools
    came_from = address(request, visit.service.settings.behind_proxy)
    mark = request.cookies.get(cookie_name(visit.service, MARK_COOKIE), "")
    if not mark and (seconds := limits.addresses.attempt(came_from)):
        return wait(request, seconds)
    found = await pools.lookups.run(partial(_find, visit, accounts.find_by_name, name))
    trying = browser(name, found, mark)
    checking = pools.known if trying.known else pools.strangers
    checking.require_room()
    if mark and not trying.known and (seconds := limits.addresses.attempt(came_from)):
        return wait(request, seconds)
    if seconds := limits.accounts.attempt(trying.counted_as):
        return wait(request, seconds)
    return await checking.run(partial(_check, visit, trying, name, password, found))


def _find(visit: Visit, find: Callable[[Session, str], Account | None], words: str) -> Account | None:
    with visit.reading() as session:
        return find(session, words)


def _check(visit: Visit, trying: TryingBrowser, name: str, password: str, found: Account | None) -> Response:
    with visit.reading() as session:
        account = accounts.check_password(session, name, password)
    if account is None:
        # Also for unknown names, to take equally long; these are not stored, as they may be mistyped passwords.
        with visit.writing() as session:
            note_refused_sign_in(session, None if found is None else found.name)
        return _sign_in_page(visit, status=403, name=name[:200], wrong=True)
    visit.service.limits.accounts.forgive(trying.counted_as)
    return enter(visit, account)


@router.post("/sign-out")
def sign_out(visit: Visitor) -> Response:
    with visit.writing() as session:
        accounts.sign_out(session, visit.request.cookies.get(cookie_name(visit.service, COOKIE), ""))
    return leave(visit)


def leave(visit: Visit) -> Response:
    """Redirect to the sign-in page, and delete the sign-in cookie."""
    response = go("/sign-in")
    visit.remove(response, cookie_name(visit.service, COOKIE))
    return response


@router.get("/welcome/{token}")
def welcome(visit: Visitor, token: str) -> Response:
    """The page of a one-time link. Opening it changes nothing, because mail scanners open links too."""
    with visit.reading() as session:
        account = accounts.find_by_link(session, token)
    return _refuse_used_link(visit) if account is None else _welcome(visit, account)


@router.post("/welcome/{token}")
async def set_password(visit: Visitor, token: str, password: Field) -> Response:
    pools = visit.service.pools
    account = await pools.lookups.run(partial(_find, visit, accounts.find_by_link, token))
    if account is None:
        return _refuse_used_link(visit)
    return await pools.known.run(partial(_set_password, visit, token, password, account))


def _set_password(visit: Visit, token: str, password: str, account: Account) -> Response:
    try:
        password_hash = accounts.hash_password(password)
    except InputError:
        return _welcome(visit, account, status=400, problem="length")
    try:
        with visit.writing() as session:
            account = accounts.set_password(session, token, password_hash)
            session.expunge(account)
    except Refused:
        return _refuse_used_link(visit)
    return enter(visit, account)


def _welcome(visit: Visit, account: Account, status: int = 200, problem: str | None = None) -> Response:
    values = {"name": account.name, "role": account.role, "problem": problem}
    return visit.page("signing/welcome.html", status=status, **values)


def _refuse_used_link(visit: Visit) -> Response:
    return limit_guesses(visit.request, visit.page("signing/used.html", status=404))


@router.post("/language")
def choose_language(visit: Visitor, language: Field, back: Field = "/") -> Response:
    """Store the chosen language in a cookie, and return to the same page."""
    ours = back.startswith("/") and not back.startswith(("//", "/\\")) and back.isprintable()
    response = go(back if ours else "/")
    if language in languages():
        visit.keep(response, LANGUAGE, language, YEAR)
    return response


@router.get("/sign-in/code")
def code_page(visit: Visitor) -> Response:
    """Ask for the second factor after a right password."""
    return go("/sign-in") if _waiting(visit) is None else visit.page("signing/code.html", wrong=False)


@router.post("/sign-in/code")
def check_code(visit: Visitor, code: Field) -> Response:
    if (account := _waiting(visit)) is None:
        return go("/sign-in")
    if seconds := visit.service.limits.attempt_code(account):
        return wait(visit.request, seconds)
    if not take_code(visit, account, code):
        return visit.page("signing/code.html", status=403, wrong=True)
    return enter(visit, account, code_given=True)


def take_code(visit: Visit, account: Account, code: str) -> bool:
    """Use up a code of the second factor; whether it was right."""
    with visit.writing() as session:
        right = factors.check(session, account.id, code)
    if right:
        visit.service.limits.forgive_codes(account)
    return right


def _waiting(visit: Visit) -> Account | None:
    """The account that has given its password in this browser but no second factor yet."""
    token = visit.request.cookies.get(cookie_name(visit.service, COOKIE), "")
    with visit.reading() as session:
        return accounts.signed_in(session, token, waiting=True)


def enter(visit: Visit, account: Account, *, code_given: bool = False) -> Response:
    """Sign in under a new token, ending the browser's old one; first ask for the account's second factor, if any."""
    cookie, complete = cookie_name(visit.service, COOKIE), code_given or account.factor is None
    with visit.writing() as session:
        accounts.sign_out(session, visit.request.cookies.get(cookie, ""))
        begin = accounts.sign_in if complete else accounts.wait_for_code
        token = begin(session, account)
    response = go(HOME[account.role] if complete else "/sign-in/code")
    visit.keep(response, cookie, token)
    if not complete:
        return response
    visit.keep(response, cookie_name(visit.service, MARK_COOKIE), browser_mark(account), YEAR)
    return response


def cookie_name(service: Service, cookie: str) -> str:
    """The cookie's name; with TLS prefixed by __Host-, so that no other host or plain connection can set it."""
    return f"__Host-{cookie}" if service.settings.secure else cookie

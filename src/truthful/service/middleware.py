"""Middleware for every request: security headers, host names, cross-site forms, limits of size and time.

A form is accepted only if the browser says that one of our own pages sent it (Sec-Fetch-Site, or Origin in browsers
without that header). Cookies are SameSite as well. Programs send neither header, and carry nobody else's cookies.

A form is read completely before anything else happens: within limits of size and time, without NUL characters (which
PostgreSQL cannot store), in UTF-8. Only analysts may send rosters, which are larger and are streamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthful.service.limits import address
from truthful.service.monitoring import complain
from truthful.service.pages import Service, TurnedAway, page

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    # Other sites get no Referer. Our own pages need one: with `no-referrer`, browsers send `Origin: null` with our own
    # forms too, and those without Sec-Fetch-Site could not send any.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex, nofollow",
}
TLS = "max-age=31536000"
#: Static files are the same for everybody and may be cached for an hour.
STATIC, KEPT = "/static/", "public, max-age=3600"
#: HTTP methods that change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")


class SafeHeaders:
    """Adds the security headers to every response that has not set its own."""

    def __init__(self, app: ASGIApp, secure: bool) -> None:
        self._app = app
        self._headers = {**HEADERS, **({"Strict-Transport-Security": TLS} if secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if scope["path"].startswith(STATIC) and message["status"] in (200, 206, 304):
                    headers["Cache-Control"] = KEPT
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely if scope["type"] == "http" else send)


class NoDetails:
    """Turns unexpected errors into a plain error page, and logs where they happened, without values."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except Exception as problem:
            if scope["type"] != "http":
                raise
            complain("A page failed.", problem)
            if started:
                raise ConnectionAbortedError from None
            await page(Request(scope), "broken.html", status=500)(scope, receive, send)


class OwnSite:
    """Refuses requests to other host names (DNS rebinding) and forms sent from other sites (CSRF)."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], origin: str) -> None:
        self._app, self._hosts, self._origin = app, hosts, origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = self._refusal(scope) if scope["type"] == "http" else None
        app = self._app if refused is None else refused.page(Request(scope))
        await app(scope, receive, send)

    def _refusal(self, scope: Scope) -> TurnedAway | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return TurnedAway(421, "shared.other_host")
        if scope["method"] not in SAFE and not _is_own_form(headers, self._origin):
            return TurnedAway(403, "shared.other_site")
        return None


def _is_own_form(headers: Headers, origin: str) -> bool:
    site, sent_from = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    # Browsers send `null` from pages that hide their origin. Ours do not: see their Referrer-Policy.
    return sent_from is None or sent_from == origin


def limit_guesses(request: Request, shown: Response) -> Response:
    """The response to a request for a missing page; an address that asks for many has to wait.

    Existing pages are never limited, so nobody can lock out others who share the address, as behind one router.
    """
    service: Service = request.app.state.service
    seconds = service.limits.unknown.attempt(address(request, service.settings.behind_proxy))
    return wait(request, seconds) if seconds else shown


def wait(request: Request, seconds: int, status: int = 429, why: str = "shared.wait_why") -> Response:
    """The page that asks to wait, after too many attempts or under load, and when to retry."""
    shown = page(request, "wait.html", status=status, seconds=seconds, why=why)
    shown.headers["Retry-After"] = str(seconds)
    return shown


#: Forms with large files, and the most bytes of other forms and of these.
LARGE = ("/roster", "/document")
LARGEST_FORM, LARGEST_ROSTER = 256_000, 64_000_000
#: The seconds within which a form or a roster must arrive.
FORM_SECONDS, ROSTER_SECONDS = 30.0, 900.0
NUL, ENCODED_NUL = b"\0", b"%00"


class SmallBodies:
    """Limits request bodies, by their announced length and by the bytes that arrive."""

    def __init__(
        self,
        app: ASGIApp,
        may_send_roster: Callable[[Scope], Awaitable[bool]],
        form_seconds: float = FORM_SECONDS,
    ) -> None:
        self._app, self._may_send_roster, self._seconds = app, may_send_roster, form_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, request = Headers(scope=scope), Request(scope)
        try:
            if "\0" in scope["path"] or ENCODED_NUL in scope["query_string"] or not _is_utf_8(headers):
                raise TurnedAway(400, "shared.not_text")
            large = scope["path"].endswith(LARGE) and await self._may_send_roster(scope)
            most, seconds = (LARGEST_ROSTER, ROSTER_SECONDS) if large else (LARGEST_FORM, self._seconds)
            announced = headers.get("content-length", "0")
            if not announced.isdecimal() or len(announced) > 18 or int(announced) > most:
                raise _too_large(most)
            if scope["method"] not in SAFE:
                counted = _count_bytes(receive, most, seconds)
                receive = (
                    counted if large else _replay(await Request(scope, counted).body(), headers, receive)
                )
            await self._app(scope, receive, send)
        except TurnedAway as problem:
            await problem.page(request)(scope, receive, send)
        except ClientDisconnect:
            pass  # before the form was complete


def _too_large(most: int) -> TurnedAway:
    return TurnedAway(413, "shared.too_large", kilobytes=most // 1000)


def _replay(body: bytes, headers: Headers, receive: Receive) -> Receive:
    """A `receive` that replays a form already read, after refusing NUL characters."""
    encoded = headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded")
    if NUL in body or (encoded and ENCODED_NUL in body):
        raise TurnedAway(400, "shared.not_text")
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _count_bytes(receive: Receive, most: int, seconds: float) -> Receive:
    """A `receive` that refuses a body once it is too large or too late."""
    read, until = 0, asyncio.get_running_loop().time() + seconds

    async def receive_counted() -> Message:
        nonlocal read, until
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            raise TurnedAway(408, "shared.too_slow") from None
        read += len(message.get("body", b""))
        if read > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            until = float("inf")  # complete: now the page may take its time
        return message

    return receive_counted


def _is_utf_8(headers: Headers) -> bool:
    """Whether a form's charset is UTF-8 or undeclared: others could hide surrogates, which cannot be stored."""
    _, _, charset = headers.get("content-type", "").lower().partition("charset=")
    return not charset or charset.partition(";")[0].strip(' "') in ("utf-8", "utf8")

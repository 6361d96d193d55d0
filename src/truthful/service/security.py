"""What holds for every page: headers, who may post, how much may be sent.

A form counts only if the browser says that it was sent from one of our own pages (Sec-Fetch-Site, or Origin where a
browser has no such header). Cookies are SameSite besides. Programs, which send neither, carry no cookies of others.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Robots-Tag": "noindex, nofollow",
}
TLS = "max-age=31536000"
#: Methods that change nothing.
SAFE = ("GET", "HEAD", "OPTIONS")
#: Bytes of a form; a roster may be larger.
LARGEST_FORM, LARGEST_ROSTER = 256_000, 64_000_000


class SafeHeaders:
    """Adds the headers to every answer; one that has set a header already keeps its own."""

    def __init__(self, app: ASGIApp, secure: bool) -> None:
        self._app = app
        self._headers = {**HEADERS, **({"Strict-Transport-Security": TLS} if secure else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_safely if scope["type"] == "http" else send)


class SameOrigin:
    """Refuses what another site's page makes a browser send."""

    def __init__(self, app: ASGIApp, origin: str) -> None:
        self._app, self._origin = app, origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http"
            and scope["method"] not in SAFE
            and not _own(Headers(scope=scope), self._origin)
        ):
            refused = PlainTextResponse("Refused: this form was not sent from a page of this site.\n", 403)
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _own(headers: Headers, origin: str) -> bool:
    site, sent_from = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    # `null` is what a browser sends that keeps its origin to itself; our own pages never make it do so.
    return sent_from is None or sent_from == origin


class SmallBodies:
    """Refuses to read more than a page can need: by the length that is announced, and by what arrives."""

    def __init__(self, app: ASGIApp, large: Iterable[str] = ("/roster",)) -> None:
        self._app, self._large = app, tuple(large)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = LARGEST_ROSTER if scope["path"].endswith(self._large) else LARGEST_FORM
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdecimal() or int(announced) > most:
            await _too_large(most)(scope, receive, send)
            return
        read, begun = 0, False

        async def receive_little() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _TooLarge
            return message

        async def note_begin(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive_little, note_begin)
        except _TooLarge:
            if begun:
                raise
            await _too_large(most)(scope, receive, send)


class _TooLarge(Exception):
    """More arrived than was announced, or than may be."""


def _too_large(most: int) -> PlainTextResponse:
    return PlainTextResponse(
        f"Refused: what was sent is larger than the {most // 1000:,} kB that this page takes.\n",
        413,
        {"Connection": "close"},
    )

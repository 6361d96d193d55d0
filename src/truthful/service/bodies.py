"""How much may be sent, how slowly, and that it is text.

A form is read whole, before anything else happens: up to its size, within its time, without NUL characters (which
PostgreSQL does not keep) and in UTF-8. A roster is larger and passed on as it comes, and only its analyst may send it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from truthful.service.security import SAFE
from truthful.service.web import TurnedAway

#: Bytes of a form; a roster may be larger.
LARGEST_FORM, LARGEST_ROSTER = 256_000, 64_000_000
#: Seconds that a form may take to arrive, and a roster.
FORM_SECONDS, ROSTER_SECONDS = 30.0, 900.0
NUL, ENCODED_NUL = b"\0", b"%00"


class SmallBodies:
    """Refuses to read more than a page can need: by the length that is announced, and by what arrives."""

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
        if "\0" in scope["path"] or ENCODED_NUL in scope["query_string"] or not _is_utf_8(headers):
            await TurnedAway(400, "shared.not_text").page(request)(scope, receive, send)
            return
        large = scope["path"].endswith("/roster") and await self._may_send_roster(scope)
        most = LARGEST_ROSTER if large else LARGEST_FORM
        announced = headers.get("content-length", "0")
        try:
            if not announced.isdecimal() or len(announced) > 18 or int(announced) > most:
                raise _too_large(most)
            if scope["method"] in SAFE:
                await self._app(scope, receive, send)
            elif large:
                await self._app(scope, _counted(receive, most), send)
            elif (body := await _whole(receive, most, self._seconds)) is not None:
                if _has_nul(body, headers):
                    raise TurnedAway(400, "shared.not_text")
                await self._app(scope, _again(body, receive), send)
        except TurnedAway as problem:
            await problem.page(request)(scope, receive, send)


def _too_large(most: int) -> TurnedAway:
    return TurnedAway(413, "shared.too_large", kilobytes=most // 1000)


async def _whole(receive: Receive, most: int, seconds: float) -> bytes | None:
    """All of a body; None if the other side hung up."""
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > most:
                    raise _too_large(most)
    except TimeoutError:
        raise TurnedAway(408, "shared.too_slow") from None
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read by the page."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _counted(receive: Receive, most: int) -> Receive:
    """The same body, as long as it is not too large or too late."""
    read, until = 0, asyncio.get_running_loop().time() + ROSTER_SECONDS

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
            until = float("inf")  # it is all here; now the page may take its time
        return message

    return receive_counted


def _is_utf_8(headers: Headers) -> bool:
    """Other character sets could hide what they hold, as half characters that nothing can write."""
    _, _, charset = headers.get("content-type", "").lower().partition("charset=")
    return not charset or charset.partition(";")[0].strip(' "') in ("utf-8", "utf8")


def _has_nul(body: bytes, headers: Headers) -> bool:
    encoded = headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded")
    return NUL in body or (encoded and ENCODED_NUL in body)

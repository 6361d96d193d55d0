"""Very many participants on a handful of connections: a client that does as little as it can between two requests."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import uvloop

CONNECTIONS = 16
FORM = "application/x-www-form-urlencoded"
#: The cookie that a participant gets when she consents.
CODE = re.compile(r"(?i)set-cookie: code=(?P<code>[^;]+);.*path=(?P<path>[^;\r]+)")
#: The requests of a whole visit: a name, the method, how the path ends, and whether her answer is sent.
VISIT = (
    ("open", "GET", "", False),
    ("consent", "POST", "/consent", False),
    ("question", "GET", "/answer", False),
    ("review", "POST", "/review", True),
    ("submit", "POST", "/submit", True),
    ("answered", "GET", "", False),
)


@dataclass(frozen=True)
class Timed:
    """Requests of one kind: how long all took together, and each."""

    seconds: float
    each: list[float]
    codes: dict[str, str]  # by the path of the pages that they open

    @property
    def rate(self) -> float:
        return len(self.each) / self.seconds


def get(path: str, code: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: HOST\r\nCookie: code={code}\r\n\r\n".encode()


def post(path: str, form: str = "", code: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: HOST\r\nCookie: code={code}\r\nContent-Type: {FORM}\r\n"
    return f"{head}Content-Length: {len(form)}\r\n\r\n{form}".encode()


def send(port: int, requests: Sequence[bytes], expected: int) -> Timed:
    """Send all of them, each on the next free connection, and wait for all the answers."""
    return asyncio.run(_send(port, requests, expected))


async def _send(port: int, requests: Sequence[bytes], expected: int) -> Timed:
    host = f"127.0.0.1:{port}".encode()
    waiting = iter([request.replace(b"Host: HOST", b"Host: " + host, 1) for request in requests])
    each: list[float] = []
    heads: list[bytes] = []
    started = time.perf_counter()
    await asyncio.gather(*(_browse(port, waiting, expected, each, heads) for _ in range(CONNECTIONS)))
    seconds = time.perf_counter() - started
    found = (CODE.search(head.decode()) for head in heads)
    return Timed(seconds, each, {match["path"]: match["code"] for match in found if match})


async def _browse(
    port: int, waiting: Iterator[bytes], expected: int, each: list[float], heads: list[bytes]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for request in waiting:
        began = time.perf_counter()
        writer.write(request)
        head = await _answer(reader)
        each.append(time.perf_counter() - began)
        heads.append(head)
        status = int(head[9:12])
        assert status == expected, f"{status} instead of {expected} to {request!r}"
    writer.close()


def visit(port: int, people: Sequence[tuple[str, float]]) -> float:
    """Seconds in which all of these came, by their links, and answered, each on a connection of her own."""
    return uvloop.run(_visit_all(port, people))


async def _visit_all(port: int, people: Sequence[tuple[str, float]]) -> float:
    waiting, began = iter(people), time.perf_counter()
    await asyncio.gather(*(_visit_each(port, waiting) for _ in range(CONNECTIONS)))
    return time.perf_counter() - began


async def _visit_each(port: int, people: Iterator[tuple[str, float]]) -> None:
    host = f"127.0.0.1:{port}".encode()
    for link, answer in people:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        code = ""
        for name, method, end, says in VISIT:
            path, form = f"/a/{link}{end}", f"answer={answer!r}" if says else ""
            request = post(path, form, code) if method == "POST" else get(path, code)
            writer.write(request.replace(b"Host: HOST", b"Host: " + host, 1))
            head = await _answer(reader)
            assert int(head[9:12]) in (200, 303), (name, head)
            if found := CODE.search(head.decode()):
                code = found["code"]
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """The head of an answer, which is read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    if (length := _length(head)) > 0:
        await reader.readexactly(length)
    return head


def _length(head: bytes) -> int:
    """What Content-Length says."""
    at = head.lower().find(b"content-length:")
    return 0 if at < 0 else int(head[at + 15 : head.index(b"\r\n", at)])

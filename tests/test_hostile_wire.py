"""A stranger who speaks to the port itself: requests that no browser sends. The service stays up, and tells nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from support.listening import listening
from support.serving import asked

from truthful.service.pages import Service


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Service]]:
    with listening(tmp_path_factory.mktemp("site")) as running:
        yield running


def spoken(url: str, *pieces: bytes) -> bytes:
    """All that the service answers to these bytes, until it or we hang up."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=2) as connection:
        answer = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
            while got := connection.recv(65_536):
                answer += got
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass  # it has hung up on us, or waits for more
        return answer


def status(answer: bytes) -> int:
    """The status of the first answer, 0 if there is none."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def request(url: str, line: str, *headers: str, body: bytes = b"") -> bytes:
    host = urlsplit(url).netloc
    return "\r\n".join((f"{line} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode("latin-1") + body


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/../../etc/passwd",
        "/static/..%2f..%2fsettings.py",
        "/s/../people",
        "//people",
        "*",
        "people",
    ],
)
def test_paths_that_browsers_would_mend_lead_nowhere(site: tuple[str, Service], path: str) -> None:
    url, _ = site
    answer = spoken(url, request(url, f"GET {path}", "Connection: close"))
    assert status(answer) in (0, 303, 307, 400, 404)
    assert b"root:" not in answer
    assert b"import" not in answer


NONSENSE = (
    b"\0" * 1_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /sign-in HTTP/1.1\r\n\r\n",
    b"GET /sign-in HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nCookie: " + b"a" * 500_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(20_000)) + b"\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
    b"POST /sign-in HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    b"POST /sign-in HTTP/1.1\r\nContent-Length: -5\r\n\r\nhello",
)


def test_what_is_no_request_is_refused_and_the_service_stays_up(site: tuple[str, Service]) -> None:
    url, _ = site
    with ThreadPoolExecutor(len(NONSENSE)) as strangers:  # at once: for some of it the service waits for more
        answers = strangers.map(lambda raw: status(spoken(url, raw)), NONSENSE)
    for raw, answer in zip(NONSENSE, answers, strict=True):
        assert answer in (0, 400, 403, 413, 414, 421, 431), raw[:80]
    assert status(spoken(url, request(url, "GET /sign-in", "Connection: close"))) == 200


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        ("GET / HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
        ("GET / HTTP/1.1\r\nCookie: ", b"a" * 60_000),
        ("GET /", b"a" * 60_000),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 10_000),
    ],
    ids=["headers", "cookie", "address", "trailers"],
)
def test_a_head_without_an_end_is_not_kept(site: tuple[str, Service], begin: str, more: bytes) -> None:
    parts = urlsplit(site[0])
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as connection:
        connection.sendall(begin.encode())
        try:
            for _ in range(3):
                connection.sendall(more)
            while connection.recv(65_536):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has hung up on us; if it waited for more, that would be a TimeoutError
    assert status(spoken(site[0], request(site[0], "GET /sign-in", "Connection: close"))) == 200


def test_a_hundred_megabytes_in_pieces_are_not_read_to_the_end(site: tuple[str, Service]) -> None:
    url, _ = site
    piece = b"f4240\r\n" + b"x" * 1_000_000 + b"\r\n"
    begin = request(url, "POST /sign-in", "Transfer-Encoding: chunked", "Content-Type: text/plain")
    answer = spoken(url, begin, *[piece] * 100, b"0\r\n\r\n")
    assert status(answer) in (0, 413)  # refused, or hung up before we had listened
    assert status(spoken(url, request(url, "GET /sign-in", "Connection: close"))) == 200


def test_a_good_link_is_shown_while_strangers_hold_connections_open(site: tuple[str, Service]) -> None:
    url, service = site
    study = asked(service, players=4)
    parts = urlsplit(url)
    held = [socket.create_connection((parts.hostname, parts.port)) for _ in range(200)]
    try:
        for connection in held:
            connection.sendall(b"POST /sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nname=")
        link = next(iter(study.links.values()))
        assert status(spoken(url, request(url, f"GET /a/{link}", "Connection: close"))) == 200
    finally:
        for connection in held:
            connection.close()

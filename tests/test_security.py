"""What holds for every answer: its headers, whom it is for, who may post, how much and how slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send
from support.browsers import opened
from support.clocks import stop_clock
from support.databases import KINDS, database_url
from support.listening import listening, own_address
from support.serving import PASSWORD, URL, Served, asked, served

from truthful.errors import InputError
from truthful.service.locations import Settings
from truthful.service.middleware import HEADERS, LARGEST_FORM, LARGEST_ROSTER, SmallBodies
from truthful.store import accounts
from truthful.store.tables import Role


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    with database_url(request.param, directory) as url, served(directory / "service", url) as running:
        yield running


def sign_in_headers(here: Served, **headers: str) -> int:
    """How a form is taken that comes with these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return here.client.post("/sign-out", headers=named).status_code


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/sign-in"),
        ("GET", "/nothing-here"),
        ("GET", "/static/style.css"),
        ("GET", "/static/nothing.css"),
        ("GET", "/static/../app.py"),
        ("GET", "/people"),
        ("PUT", "/sign-in"),
        ("OPTIONS", "/sign-in"),
        ("POST", "/sign-in"),
        ("POST", "/nothing-here"),
    ],
)
def test_every_answer_has_the_headers(here: Served, method: str, path: str) -> None:
    answer = here.client.request(method, path)
    assert {name.lower() for name in HEADERS} <= set(answer.headers)
    assert "'unsafe" not in answer.headers["content-security-policy"]
    assert "server" not in answer.headers
    kept = path == "/static/style.css"
    assert answer.headers["cache-control"] == ("public, max-age=3600" if kept else "no-store")


def test_with_tls_browsers_are_told_to_stay_with_it(tmp_path: Path) -> None:
    with served(tmp_path, url="https://testserver") as here:
        assert here.client.get("/sign-in").headers["strict-transport-security"] == "max-age=31536000"


def test_without_tls_they_are_not(here: Served) -> None:
    assert "strict-transport-security" not in here.client.get("/sign-in").headers


def test_a_fault_shows_no_details_and_tells_no_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as here:
        app = here.client.app

        def failing() -> None:
            raise RuntimeError(f"somebody answered {6 * 7_000}")

        app.router.add_api_route("/failing", failing)  # type: ignore[attr-defined]
        answer = here.client.get("/failing")
    assert answer.status_code == 500
    assert "The fault is ours" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert "Content-Security-Policy" in answer.headers
    told = capsys.readouterr().err
    assert "RuntimeError" in told
    assert "failing" in told
    assert "42000" not in answer.text + told
    assert "Traceback" not in answer.text


def test_where_the_server_keeps_its_files_is_told_to_the_analyst_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path / "service") as here:
        study = asked(here.service, players=4)
        analyst, payer = here.signed_in(Role.ANALYST), here.signed_in(Role.PAYER)
        here.service.locations.study(study.study_id).rename(tmp_path / "elsewhere")
        link = f"/a/{next(iter(study.links.values()))}"
        refused = [
            here.client.get(f"/s/{study.study_id}"),
            here.client.get(link),
            payer.get(f"/s/{study.study_id}"),
        ]
        told = analyst.get(f"/studies/{study.study_id}")
    assert {answer.status_code for answer in refused} == {503}
    assert not any(str(tmp_path) in answer.text for answer in refused)
    assert all("The fault is ours" in answer.text for answer in refused)
    assert told.status_code == 409
    assert str(tmp_path) in told.text
    assert str(tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 303),
        ({"sec_fetch_site": "same-origin"}, 303),
        ({"sec_fetch_site": "none"}, 303),
        ({"origin": URL}, 303),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": URL}, 403),
        ({"sec_fetch_site": "nonsense"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": URL + ".evil.example"}, 403),
        ({"origin": "https://testserver"}, 403),
    ],
)
def test_a_form_counts_only_from_our_own_pages(here: Served, headers: dict[str, str], code: int) -> None:
    assert sign_in_headers(here, **headers) == code


def test_our_own_pages_let_browsers_name_them(here: Served) -> None:
    """`no-referrer` makes a browser send `Origin: null` with our own forms, as a hostile page's would be sent."""
    assert here.client.get("/sign-in").headers["referrer-policy"] == "same-origin"


def test_a_browser_that_names_its_origin_alone_can_send_forms(tmp_path: Path) -> None:
    """Without TLS, on an address that is not the machine's own for itself, browsers send no Sec-Fetch-Site."""
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but its own for itself")
    with listening(tmp_path, host) as (url, service), opened() as browser:
        with service.database.writing() as session:
            account = accounts.account(session, "ada", Role.ANALYST, "test")
            link = accounts.new_link(session, account, "test")
        view = browser.new_page(locale="en")
        view.goto(f"{url}/welcome/{link}")
        view.get_by_label("password").fill(PASSWORD)
        with view.expect_request(lambda sent: sent.method == "POST") as posted, view.expect_navigation():
            view.get_by_role("button", name="Set the password and begin").click()
        sent = posted.value.all_headers()
        assert "sec-fetch-site" not in sent
        assert sent["origin"] == url
        assert view.url == f"{url}/studies"


@pytest.mark.parametrize(
    "host", ["evil.example", "testserver.evil.example", "testserver:81", "", "testserver,evil"]
)
def test_another_hosts_name_is_not_answered_to(here: Served, host: str) -> None:
    answer = here.client.get("/sign-in", headers={"host": host})
    assert answer.status_code == 421
    assert "Password" not in answer.text


def test_a_service_on_ones_own_machine_answers_to_all_its_names() -> None:
    assert Settings(Path(), "http://127.0.0.1:8000").hosts == {
        "127.0.0.1:8000",
        "localhost:8000",
        "[::1]:8000",
    }
    assert Settings(Path(), "http://[::1]:80").hosts == {"127.0.0.1", "localhost", "[::1]"}


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Study.Example.org/", "https://study.example.org"),
        ("HTTPS://study.example.org:443", "https://study.example.org"),
        ("https://study.example.org:8443", "https://study.example.org:8443"),
        ("http://[2001:DB8::1]:8000", "http://[2001:db8::1]:8000"),
    ],
)
def test_an_address_is_taken_as_browsers_send_it(url: str, origin: str) -> None:
    settings = Settings(Path(), url)
    assert settings.origin == origin
    assert settings.hosts == {origin.partition("//")[2]}
    assert settings.secure == origin.startswith("https")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a",
        "study.example.org",
        "https://",
        "https://a/b",
        "https://a?b",
        "https://u:p@a",
        "https://a:b",
        "x y",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="before the first slash"):
        Settings(Path(), url)


def chunks(size: int) -> Iterator[bytes]:
    """A body whose length is not announced."""
    piece = b"x" * 64_000
    for _ in range(-(-size // len(piece))):
        yield piece


def test_a_body_that_is_too_large_is_refused_by_its_announced_length(here: Served) -> None:
    answer = here.client.post("/sign-in", content=b"", headers={"content-length": "100000000"})
    assert answer.status_code == 413
    assert "256 kB" in answer.text


@pytest.mark.parametrize("length", ["-1", "1e9", "1" * 40, "²", "0x10"])
def test_a_length_that_is_none_is_refused(here: Served, length: str) -> None:
    answer = here.client.post("/sign-in", content=b"", headers={b"content-length": length.encode("latin-1")})
    assert answer.status_code == 413


def test_a_body_that_is_too_large_is_refused_when_it_comes_in_pieces(here: Served) -> None:
    assert here.client.post("/sign-in", content=chunks(100_000_000)).status_code == 413


def test_a_roster_may_be_large_but_only_from_the_analyst(here: Served) -> None:
    path = "/studies/unknown/roster"
    assert here.client.post(path, content=chunks(2 * LARGEST_FORM)).status_code == 413
    assert here.signed_in(Role.PAYER).post(path, content=chunks(2 * LARGEST_FORM)).status_code == 413
    analyst = here.signed_in(Role.ANALYST)
    assert analyst.post(path, content=chunks(2 * LARGEST_FORM)).status_code != 413
    assert analyst.post(path, headers={"content-length": str(LARGEST_ROSTER + 1)}).status_code == 413


def test_a_form_of_thousands_of_fields_is_refused(here: Served) -> None:
    fields = {f"field{number}": (None, "x") for number in range(3_000)}
    assert here.client.post("/sign-in", files=fields).status_code in (400, 413)
    assert here.client.post("/sign-in", content="a=1&" * 40_000, headers=FORM).status_code == 400


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"name=a%00b&password=c", FORM),
        (b"name=a\0b&password=c", FORM),
        (
            b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\na\0b\r\n--x--\r\n',
            {"content-type": "multipart/form-data; boundary=x"},
        ),
        (b"name=+2AA-", {"content-type": "application/x-www-form-urlencoded; charset=utf-7"}),
        (b"", {"content-type": "multipart/form-data; boundary=x; charset=unicode_escape"}),
    ],
)
def test_what_is_not_plain_text_is_refused(here: Served, body: bytes, headers: dict[str, str]) -> None:
    assert here.client.post("/sign-in", content=body, headers=headers).status_code == 400


@pytest.mark.parametrize("path", ["/s/%00", "/a/%00", "/welcome/a%00b", "/studies/%00", "/sign-in?x=%00"])
def test_nul_in_an_address_is_refused(here: Served, path: str) -> None:
    assert here.client.get(path).status_code == 400


@pytest.mark.parametrize("text", [b"%ff%fe", b"%ED%A0%80", b"%C0%80", "\u202e".encode(), b"%F0%9F%98%80"])
def test_text_that_is_not_utf_8_does_no_harm(here: Served, text: bytes) -> None:
    answer = here.client.post("/sign-in", content=b"name=" + text + b"&password=x", headers=FORM)
    assert answer.status_code in (403, 429)
    assert here.client.get(b"/welcome/".decode() + text.decode("latin-1")).status_code in (404, 429)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(here: Served, method: str) -> None:
    answer = here.client.request(method, "/sign-in")
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) <= {"GET", "POST"}


def test_the_machines_description_is_off_unless_asked_for(here: Served, tmp_path: Path) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert here.client.get(path).status_code == 404
    with served(tmp_path, api_docs=True) as described:
        assert described.client.get("/openapi.json").json()["info"]["title"] == "truthful"


def test_many_guesses_wait_but_a_good_link_is_shown_at_any_time(tmp_path: Path) -> None:
    with served(tmp_path) as here:
        stop_clock(here)
        codes = [here.client.get(f"/a/{number:043d}").status_code for number in range(40)]
        assert codes == [404] * 30 + [429] * 10
        waiting = here.client.get("/welcome/x")
        assert waiting.status_code == 429
        assert int(waiting.headers["retry-after"]) >= 1
        study = asked(here.service)
        assert here.client.get(f"/a/{study.links[min(study.links)]}").status_code == 200
        assert here.client.get("/sign-in").status_code == 200


async def answered(app: SmallBodies, body: AsyncIterator[Message]) -> int:
    """The status with which a form is answered whose pieces come like this."""
    scope: Scope = {
        "type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": [],
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return await anext(body)

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return int(sent[0]["status"])


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200 + len(body), "headers": []})


async def nobody(scope: Scope) -> bool:
    return False


def test_a_form_that_comes_too_slowly_is_given_up() -> None:
    async def slowly() -> AsyncIterator[Message]:
        while True:
            await asyncio.sleep(0.01)
            yield {"type": "http.request", "body": b"x", "more_body": True}

    assert asyncio.run(answered(SmallBodies(echo, nobody, form_seconds=0.1), slowly())) == 408


def test_a_form_in_pieces_is_read_whole() -> None:
    async def pieces() -> AsyncIterator[Message]:
        yield {"type": "http.request", "body": b"ab", "more_body": True}
        yield {"type": "http.request", "body": b"cd", "more_body": False}

    assert asyncio.run(answered(SmallBodies(echo, nobody), pieces())) == 204


def test_a_page_of_another_site_cannot_read_what_a_service_says(here: Served) -> None:
    answer = here.client.get("/sign-in", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in answer.headers

"""Signing in: by a link once, then by password; who may see which page; and what the browser is given."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.clocks import stop_clock
from support.databases import KINDS, database_url
from support.serving import PASSWORD, URL, Served, served

from truthful.store import accounts
from truthful.store.audit_log import events, refused_sign_ins
from truthful.store.tables import Role

NAME = "the analyst"


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def browser(here: Served) -> TestClient:
    return TestClient(here.client.app, base_url=URL, follow_redirects=False)


def sign_in(client: TestClient, password: str = PASSWORD, name: str = NAME) -> int:
    return client.post("/sign-in", data={"name": name, "password": password}).status_code


def link(here: Served, name: str = NAME) -> str:
    with here.service.database.writing() as session:
        account = accounts.account(session, name, Role.ANALYST, "test")
        return f"/welcome/{accounts.new_link(session, account, 'test')}"


def test_a_link_lets_in_once_and_the_password_after_that(here: Served) -> None:
    welcome, client = link(here), browser(here)
    for _ in range(3):  # previews and scanners open links too
        assert NAME in client.get(welcome).text
    entered = client.post(welcome, data={"password": PASSWORD})
    assert (entered.status_code, entered.headers["location"]) == (303, "/studies")
    assert client.get("/").headers["location"] == "/studies"
    for used in (browser(here).get(welcome), browser(here).post(welcome, data={"password": PASSWORD})):
        assert used.status_code == 404
        assert NAME not in used.text
    assert sign_in(browser(here)) == 303


def test_a_short_password_is_refused_and_the_link_stays_good(here: Served) -> None:
    welcome, client = link(here), browser(here)
    refused = client.post(welcome, data={"password": "short"})
    assert refused.status_code == 400
    assert "at least 12 characters" in refused.text
    assert client.post(welcome, data={"password": PASSWORD}).status_code == 303


def test_of_two_who_use_a_link_at_once_one_gets_in(here: Served) -> None:
    welcome = link(here)

    def enter(number: int) -> int:
        return browser(here).post(welcome, data={"password": f"{PASSWORD} {number}"}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(enter, range(4))) == [303, 404, 404, 404]


def test_wrong_names_and_wrong_passwords_look_the_same(here: Served) -> None:
    here.signed_in(Role.ANALYST)
    shown = {
        browser(here)
        .post("/sign-in", data={"name": name, "password": "wrong wrong wrong"})
        .text.replace(name, "")
        for name in (NAME, "nobody")
    }
    assert len(shown) == 1


def test_signing_in_takes_a_new_token_and_ends_the_one_brought_along(here: Served) -> None:
    here.signed_in(Role.ANALYST)
    client = browser(here)
    assert sign_in(client) == 303
    before = client.cookies["truthful"]
    assert sign_in(client) == 303
    assert client.cookies["truthful"] != before
    thief = browser(here)
    thief.cookies.set("truthful", before)
    assert thief.get("/people").headers["location"] == "/sign-in"


def test_a_token_that_was_planted_is_never_signed_in(here: Served) -> None:
    here.signed_in(Role.ANALYST)
    client = browser(here)
    client.cookies.set("truthful", "planted")
    assert "truthful=planted" not in str(
        client.post("/sign-in", data={"name": NAME, "password": PASSWORD}).headers
    )
    thief = browser(here)
    thief.cookies.set("truthful", "planted")
    assert thief.get("/people").headers["location"] == "/sign-in"


def test_a_cookie_is_worth_nothing_after_signing_out(here: Served) -> None:
    client = here.signed_in(Role.ANALYST)
    token = client.cookies["truthful"]
    assert client.get("/people").status_code == 200
    assert client.post("/sign-out").headers["location"] == "/sign-in"
    client.cookies.set("truthful", token)
    assert client.get("/people").headers["location"] == "/sign-in"


def test_with_tls_cookies_are_for_this_host_and_tls_alone(tmp_path: Path) -> None:
    with served(tmp_path, url="https://testserver") as here:
        welcome = link(here)
        client = TestClient(here.client.app, base_url="https://testserver", follow_redirects=False)
        set_cookies = client.post(welcome, data={"password": PASSWORD}).headers.get_list("set-cookie")
    assert {cookie.partition("=")[0] for cookie in set_cookies} == {"__Host-truthful", "__Host-known"}
    for cookie in set_cookies:
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Secure"} <= set(cookie.split("; "))
        assert "domain" not in cookie.lower()


def test_the_session_ends_with_the_browser_and_the_cookie_holds_no_name(here: Served) -> None:
    client = browser(here)
    cookies = client.post(link(here), data={"password": PASSWORD}).headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith("truthful="))
    assert "max-age" not in session.lower()
    assert not any("analyst" in cookie for cookie in cookies)


def test_refused_sign_ins_are_in_the_log_without_names_that_are_nobodys(here: Served) -> None:
    here.signed_in(Role.ANALYST)
    sign_in(browser(here), "a wrong password")
    sign_in(browser(here), "a wrong password", name="my password, in the wrong field")
    with here.service.database.reading() as session:
        assert [one.whom for one in refused_sign_ins(session)] == [None, NAME]
        assert not any("refused" in event.what for event in events(session))


def test_wrong_passwords_make_strangers_wait_but_not_the_browser_that_signed_in_before(here: Served) -> None:
    stop_clock(here)
    own = here.signed_in(Role.ANALYST)
    stranger = browser(here)
    codes = [sign_in(stranger, "a wrong password") for _ in range(8)]
    assert codes == [403] * 5 + [429] * 3
    waiting = stranger.post("/sign-in", data={"name": NAME, "password": PASSWORD})
    assert waiting.status_code == 429  # also with the right one: an answer would tell which it is
    assert 1 <= int(waiting.headers["retry-after"]) <= 300
    assert sign_in(own) == 303


def test_names_that_nobody_has_wait_too(here: Served) -> None:
    stop_clock(here)
    assert [sign_in(browser(here), "x" * 12, "nobody") for _ in range(7)] == [403] * 5 + [429] * 2


@pytest.mark.slow
def test_an_address_that_tries_many_names_waits(here: Served) -> None:
    stop_clock(here)
    codes = [sign_in(browser(here), "x" * 12, f"name {number}") for number in range(22)]
    assert codes == [403] * 20 + [429] * 2


def test_of_many_attempts_at_once_only_so_many_are_checked(here: Served) -> None:
    stop_clock(here)
    here.signed_in(Role.ANALYST)
    with ThreadPoolExecutor(16) as pool:
        codes = list(pool.map(lambda _: sign_in(browser(here), "a wrong password"), range(16)))
    assert sorted(codes) == [403] * 5 + [429] * 11


def test_who_is_not_signed_in_is_asked_to(here: Served) -> None:
    for path in ("/", "/people", "/log", "/payments", "/payments/x"):
        answer = here.client.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(
    ("back", "to"),
    [
        ("/people", "/people"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\tevil", "/"),
        ("/x\r\nSet-Cookie: a=b", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_a_language_is_kept_and_leads_back_to_our_own_page(here: Served, back: str, to: str) -> None:
    answer = here.client.post("/language", data={"language": "de", "back": back})
    assert (answer.status_code, answer.headers["location"]) == (303, to)
    assert "Anmelden" in here.client.get("/sign-in").text


def test_a_language_that_there_is_not_is_not_kept(here: Served) -> None:
    answer = here.client.post("/language", data={"language": "../../etc/passwd"})
    assert "set-cookie" not in answer.headers

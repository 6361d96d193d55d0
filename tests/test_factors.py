"""The second factor: set up by a code, asked for after the password, good once, limited, and ended by a new link."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyotp import random_base32
from pyotp.totp import TOTP
from starlette.testclient import TestClient
from support.clocks import stop_clock
from support.databases import KINDS, database_url
from support.serving import PASSWORD, URL, Served, asked, code_of, served

from truthful.errors import Refused
from truthful.service.locations import Settings
from truthful.store import accounts, factors
from truthful.store.seals import KEY_FILE, VARIABLE, Unreadable
from truthful.store.seals import new_secret as new_key
from truthful.store.tables import Account, Role

NAME = "the payer"


class Time(datetime):
    """The store's time, which goes when it is told to."""

    passed = timedelta()

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + cls.passed  # type: ignore[arg-type]


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(factors, "datetime", Time)
    monkeypatch.setattr(Time, "passed", timedelta())
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        stop_clock(running)
        yield running


def browser(here: Served) -> TestClient:
    return TestClient(here.client.app, base_url=URL, follow_redirects=False)


def code(secret: str) -> str:
    """What the app shows now; and then half a minute goes by."""
    shown = TOTP(secret).at(Time.now())
    Time.passed += timedelta(seconds=30)
    return shown


def set_up(client: TestClient) -> tuple[str, list[str]]:
    """The secret of a factor that is on now, and the codes for paper."""
    page = client.get("/account/second-factor").text
    found = re.search('name="secret" value="([A-Z2-7]{32})"', page)
    assert found is not None
    assert "data:image/svg+xml" in page
    assert found[1] in page.replace(" ", "")
    assert (
        client.post("/account/second-factor", data={"secret": found[1], "code": "000000"}).status_code == 400
    )
    assert client.get("/account/second-factor").status_code == 200  # not on yet
    on = client.post("/account/second-factor", data={"secret": found[1], "code": code(found[1])})
    return found[1], re.findall(r"(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}", on.text)


def give_password(here: Served) -> TestClient:
    client = browser(here)
    sent = client.post("/sign-in", data={"name": NAME, "password": PASSWORD})
    assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in/code")
    return client


def give_code(client: TestClient, typed: str) -> str | int:
    """Where a code leads, or how it is refused."""
    answer = client.post("/sign-in/code", data={"code": typed})
    return answer.headers.get("location") or answer.status_code


def enters(client: TestClient) -> bool:
    return client.get("/payments").status_code == 200


def account(here: Served) -> Account:
    with here.service.database.reading() as session:
        found = accounts.find_by_name(session, NAME)
    assert found is not None
    return found


def test_a_password_alone_lets_nobody_in_and_a_code_does_once(here: Served) -> None:
    secret, _ = set_up(here.signed_in(Role.PAYER))
    client = give_password(here)
    for page in ("/", "/payments", "/account"):
        assert client.get(page).headers["location"] == "/sign-in"
    assert give_code(client, "123456") == 403
    shown = code(secret)
    assert give_code(client, f"{shown[:3]} {shown[3:]}") == "/payments"
    assert enters(client)
    assert give_code(give_password(here), shown) == 403  # it was seen over her shoulder
    assert give_code(give_password(here), code(secret)) == "/payments"
    assert give_code(browser(here), code(secret)) == "/sign-in"  # no password was given


def test_turning_it_on_ends_browsers_that_were_let_in_without_a_code(here: Served) -> None:
    elsewhere, client = here.signed_in(Role.PAYER), here.signed_in(Role.ANALYST)
    for known in (elsewhere, client):
        known.cookies.clear()
    for known in (elsewhere, client):
        assert known.post("/sign-in", data={"name": NAME, "password": PASSWORD}).status_code == 303
    set_up(client)
    assert enters(client)
    assert not enters(elsewhere)


def test_a_code_on_paper_lets_in_once_and_is_kept_as_a_hash(here: Served) -> None:
    secret, paper = set_up(here.signed_in(Role.PAYER))
    assert len(set(paper)) == 10
    client = give_password(here)
    assert give_code(client, paper[0].lower().replace("-", " ")) == "/payments"
    assert give_code(give_password(here), paper[0]) == 403
    shown = client.get("/account").text
    assert "9 recovery codes are left" in shown
    renewed = client.post("/account/second-factor/codes", data={"code": code(secret)}).text
    assert paper[1] not in renewed
    assert give_code(give_password(here), paper[1]) == 403


def test_guesses_wait_as_those_of_passwords_do_and_after_many_only_paper_helps(here: Served) -> None:
    secret, paper = set_up(here.signed_in(Role.PAYER))
    client = give_password(here)
    assert [give_code(client, "000000") for _ in range(7)] == [403] * 5 + [429] * 2
    with here.service.database.writing() as session:
        for _ in range(factors.MOST_MISSES):  # over the days, or at other processes
            assert not factors.check(session, account(here).id, "000000")
    stop_clock(here)
    assert give_code(client, code(secret)) == 403
    assert give_code(client, paper[3]) == "/payments"
    assert give_code(give_password(here), code(secret)) == "/payments"


def test_who_sits_at_a_browser_that_is_signed_in_cannot_turn_it_off_without_a_code(here: Served) -> None:
    client = here.signed_in(Role.PAYER)
    secret, _ = set_up(client)
    assert client.post("/account/second-factor/off", data={"code": "000000"}).status_code == 403
    assert account(here).factor is not None
    assert client.get("/account/second-factor").headers["location"] == "/account"
    other = random_base32()
    again = client.post("/account/second-factor", data={"secret": other, "code": code(other)})
    assert again.status_code == 409
    assert client.post("/account/second-factor/off", data={"code": code(secret)}).status_code == 303
    assert account(here).factor is None
    assert (
        browser(here).post("/sign-in", data={"name": NAME, "password": PASSWORD}).headers["location"]
        == "/payments"
    )


def test_the_secret_is_sealed_with_the_services_key_and_with_the_next_one(here: Served) -> None:
    secret, _ = set_up(here.signed_in(Role.PAYER))
    seals, before = here.service.database.seals, account(here).factor or ""
    assert secret not in before
    old, new = seals.masters[0], new_key()
    seals.masters = (new, old)
    with here.service.database.writing() as session:
        factors.seal_again(session)
    seals.masters = (new,)
    assert account(here).factor != before
    assert give_code(give_password(here), code(secret)) == "/payments"
    seals.masters = (old,)
    with (
        pytest.raises(Unreadable, match="sealed with another key"),
        here.service.database.writing() as session,
    ):
        factors.check(session, account(here).id, code(secret))


def test_without_the_key_that_sealed_it_the_service_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no study was frozen yet: a new key would make codes useless, and be on the disk unasked."""
    monkeypatch.setattr(Time, "passed", timedelta())
    with served(tmp_path) as here:
        set_up(here.signed_in(Role.PAYER))
    monkeypatch.setenv(VARIABLE, b64encode(new_key()).decode())
    with pytest.raises(Refused, match="sealed with another key than the service has"):
        Settings(tmp_path).open_database()
    monkeypatch.delenv(VARIABLE)
    (tmp_path / KEY_FILE).unlink()
    with pytest.raises(Refused, match="is missing, and what is kept here is sealed with it"):
        Settings(tmp_path).open_database()
    assert not (tmp_path / KEY_FILE).exists()


def test_a_new_link_ends_the_second_factor(here: Served) -> None:
    set_up(here.signed_in(Role.PAYER))
    assert enters(here.signed_in(Role.PAYER))  # by a new link
    assert account(here).factor is None


def test_where_it_is_required_nothing_is_shown_before_it_is_set_up(tmp_path: Path) -> None:
    with served(tmp_path, require_second_factor=True) as here:
        client, payer = here.signed_in(Role.ANALYST), here.signed_in(Role.PAYER)
        for page in ("/", "/studies", "/people", "/log"):
            assert client.get(page).headers["location"] == "/account"
        assert payer.get("/payments").headers["location"] == "/account"
        assert "requires a second factor" in client.get("/account").text
        set_up(client)
        assert client.get("/studies").status_code == 200


def test_signing_out_everywhere_ends_other_browsers_too(here: Served) -> None:
    one = here.signed_in(Role.PAYER)
    other = browser(here)
    other.post("/sign-in", data={"name": NAME, "password": PASSWORD})
    assert enters(one)
    assert enters(other)
    assert one.post("/account/sign-out-everywhere").headers["location"] == "/sign-in"
    assert not enters(one)
    assert not enters(other)


def test_a_device_forgets_who_used_it(here: Served) -> None:
    client = here.signed_in(Role.PAYER)
    client.post("/language", data={"language": "de"})
    token = client.cookies["truthful"]
    assert set(client.cookies) == {"truthful", "known", "language"}
    assert client.get("/forget").status_code == 200
    assert set(client.cookies) == {"truthful", "known", "language"}  # asking changes nothing
    client.post("/forget")
    assert not client.cookies
    client.cookies.set("truthful", token)
    assert not enters(client)


def test_a_participants_device_forgets_her_code_and_nothing_else_changes(here: Served) -> None:
    study = asked(here.service, players=2)
    link = f"/a/{study.links[min(study.links)]}"
    client = browser(here)
    client.post(f"{link}/consent")
    client.post("/language", data={"language": "de"})
    client.post(f"{link}/review", data={"answer": "20"})
    token = code_of(here.service, link.removeprefix("/a/"))
    assert token in client.get(f"{link}/forget").text
    assert {cookie.name for cookie in client.cookies.jar} == {"code", "language", "said"}
    assert client.post(f"{link}/forget").headers["location"] == link
    assert not client.cookies
    assert code_of(here.service, link.removeprefix("/a/")) == token
    assert client.post(f"{link}/code", data={"code": token}).status_code == 303

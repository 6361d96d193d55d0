"""Who signs in: the analyst adds payers, replaces and ends their access, and reads the log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.databases import KINDS, database_url
from support.serving import PASSWORD, URL, Served, asked, served

from truthful.store import accounts
from truthful.store.tables import Role


@pytest.fixture(params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with database_url(request.param, tmp_path) as url, served(tmp_path / "service", url) as running:
        yield running


def link_in(text: str) -> str:
    """The path of the sign-in link that a page shows."""
    found = re.search(rf"{URL}(/welcome/[\w-]+)", text)
    assert found is not None
    return found[1]


def entered(here: Served, link: str) -> TestClient:
    client = TestClient(here.client.app, base_url=URL, follow_redirects=False)
    assert client.post(link, data={"password": PASSWORD}).headers["location"] == "/payments"
    return client


def number(here: Served, name: str) -> int:
    with here.service.database.reading() as session:
        found = accounts.find_by_name(session, name)
        assert found is not None
        return found.id


def test_a_payer_is_added_by_a_link_that_is_shown_once(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    link = link_in(analyst.post("/people", data={"name": "  Pay   Roll "}).text)
    page = analyst.get("/people").text
    assert "Pay Roll" in page
    assert link not in page
    assert entered(here, link).get("/payments").status_code == 200


def test_a_new_link_ends_what_the_payer_had(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    payer = entered(here, link_in(analyst.post("/people", data={"name": "pat"}).text))
    which = number(here, "pat")
    link = link_in(analyst.post(f"/people/{which}/link").text)
    assert payer.get("/payments").headers["location"] == "/sign-in"
    assert payer.post("/sign-in", data={"name": "pat", "password": PASSWORD}).status_code == 403
    second = link_in(analyst.post(f"/people/{which}/link").text)
    assert here.client.get(link).status_code == 404
    assert entered(here, second).get("/payments").status_code == 200


def test_access_that_is_ended_is_gone(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    payer = entered(here, link_in(analyst.post("/people", data={"name": "pat"}).text))
    assert analyst.post(f"/people/{number(here, 'pat')}/remove").headers["location"] == "/people"
    assert payer.get("/payments").headers["location"] == "/sign-in"
    assert payer.post("/sign-in", data={"name": "pat", "password": PASSWORD}).status_code == 403
    assert "No password" in analyst.get("/people").text


def test_an_analyst_cannot_be_locked_out_on_the_page(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    own = number(here, "the analyst")
    for what in ("link", "remove"):
        assert analyst.post(f"/people/{own}/{what}").status_code == 404
        assert analyst.post(f"/people/{2**31 - 1}/{what}").status_code == 404
        assert analyst.post(f"/people/{2**63}/{what}").status_code == 422
        assert analyst.post(f"/people/x/{what}").status_code == 422
    assert analyst.get("/people").status_code == 200


@pytest.mark.parametrize("name", ["", "   ", "x" * 101, "a\u202eb", "a\x07b"])
def test_a_bad_name_is_refused_beside_its_field(here: Served, name: str) -> None:
    refused = here.signed_in(Role.ANALYST).post("/people", data={"name": name})
    assert refused.status_code == (422 if name == "" else 400)


@pytest.mark.parametrize("name", ["the analyst", "Service", "command line"])
def test_a_name_that_is_taken_is_refused_and_changes_nothing(here: Served, name: str) -> None:
    analyst = here.signed_in(Role.ANALYST)
    assert analyst.post("/people", data={"name": name}).status_code == 409
    assert analyst.get("/people").status_code == 200


def test_a_name_is_shown_as_text_whatever_it_is(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    shown = analyst.post("/people", data={"name": "<script>alert(1)</script>{{7*7}}"}).text
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "{{7*7}}" in shown


def test_the_log_tells_who_did_what_newest_first_and_no_secret(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    study = asked(here.service)
    link = link_in(analyst.post("/people", data={"name": "pat"}).text)
    shown = analyst.get("/log").text
    order = [
        shown.index(words)
        for words in (
            "made a sign-in link for pat",
            "added a payer",
            "made personal links",
            "froze the study",
            "signed in",
        )
    ]
    assert order == sorted(order)
    assert link.removeprefix("/welcome/") not in shown
    assert not any(token in shown for token in study.links.values())
    assert "testclient" not in shown


def test_the_log_is_told_in_the_readers_language(here: Served) -> None:
    analyst = here.signed_in(Role.ANALYST)
    analyst.post("/people", data={"name": "pat"})
    analyst.post("/language", data={"language": "de"})
    assert "hat einen Anmelde-Link erzeugt für pat" in analyst.get("/log").text

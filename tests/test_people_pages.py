"""The pages for signing in, people, the log and payments in a real browser: accessible at every size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.accessibility import GERMAN_ZOOMED, LAYOUT, violations, violations_anywhere
from support.browsers import Windows, opened
from support.listening import listening
from support.serving import PASSWORD, answer_all, asked, close

from truthful.service.pages import Service
from truthful.service.settle_study import settle_study
from truthful.service.signing import COOKIE
from truthful.store import accounts
from truthful.store.tables import Role

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Pages by who looks at them.
ROLES = {"nobody": None, "analyst": Role.ANALYST, "payer": Role.PAYER}
SEEN = {
    "sign in": "nobody",
    "wrong password": "nobody",
    "wait": "nobody",
    "welcome": "nobody",
    "short password": "nobody",
    "used link": "nobody",
    "nothing": "nobody",
    "people": "analyst",
    "log": "analyst",
    "account": "payer",
    "second factor": "payer",
    "forget": "nobody",
    "payments": "payer",
    "payment": "payer",
}
PATHS = {
    "sign in": "/sign-in",
    "nothing": "/nothing",
    "used link": "/welcome/used",
    "people": "/people",
    "log": "/log",
    "account": "/account",
    "second factor": "/account/second-factor",
    "forget": "/forget",
}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Site:
    """A browser and a service with two settled studies, one of them a rehearsal."""

    windows: Windows
    url: str
    service: Service

    def link(self, role: Role) -> str:
        with self.service.database.writing() as session:
            account = accounts.account(session, f"the {role}", role, "test")
            return f"{self.url}/welcome/{accounts.new_link(session, account, 'test')}"

    def token(self, role: Role) -> str:
        """Of somebody who is signed in."""
        with self.service.database.writing() as session:
            return accounts.sign_in(session, accounts.account(session, f"the {role}", role, "test"))

    def opens(self, name: str, **settings: Any) -> Page:
        """A page of this name."""
        view = self.windows.window(**settings)
        if (role := ROLES[SEEN[name]]) is not None:
            view.context.add_cookies([{"name": COOKIE, "value": self.token(role), "url": self.url}])
        if name in PATHS:
            view.goto(self.url + PATHS[name])
        elif name in ("welcome", "short password"):
            view.goto(self.link(Role.PAYER))
            if name == "short password":
                view.eval_on_selector("#password", "field => field.removeAttribute('minlength')")
                send(view, "#password", "short")
        elif name in ("wrong password", "wait"):
            for _ in range(1 if name == "wrong password" else 7):
                view.goto(f"{self.url}/sign-in")
                view.fill("#name", name)
                send(view, "#password", "a wrong password")
        elif name in ("payments", "payment"):
            view.goto(self.url)
            if name == "payment":
                view.click("main h2 a")
        return view


def send(view: Page, field: str, text: str) -> None:
    view.fill(field, text)
    view.press(field, "Enter")
    view.wait_for_load_state()


def enter(view: Page, link: str) -> None:
    view.goto(link)
    send(view, "#password", PASSWORD)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened() as browser, listening(tmp_path_factory.mktemp("site")) as (url, service):
        for rehearsal in (False, True):
            study = asked(service, rehearsal=rehearsal)
            answer_all(service, study)
            close(service, study.study_id)
            settle_study(service.database, service.locations, study.study_id)
        yield Site(Windows(browser), url, service)


@pytest.mark.parametrize("name", SEEN)
def test_no_page_breaks_a_rule(site: Site, name: str) -> None:
    assert violations_anywhere(site.opens(name), zoomed=True) == {}
    assert site.windows.complaints == []


@pytest.mark.parametrize("name", SEEN)
def test_german_pages_break_none_at_four_hundred_percent(site: Site, name: str) -> None:
    view = site.opens(name, **GERMAN_ZOOMED)
    assert view.get_attribute("html", "lang") == "de"
    assert violations(view, **LAYOUT) == []


def test_a_payer_takes_the_file_with_the_keyboard_alone_and_without_scripts(site: Site) -> None:
    payer = site.windows.window(java_script_enabled=False, accept_downloads=True)
    enter(payer, site.link(Role.PAYER))
    payer.locator("main h2 a").last.focus()
    payer.keyboard.press("Enter")
    payer.get_by_role("button", name="Download the payment file").focus()
    with payer.expect_download() as taken:
        payer.keyboard.press("Enter")
    assert taken.value.suggested_filename.endswith("-payments.csv")
    lines = taken.value.path().read_text().splitlines()
    assert lines[0] == "player,amount"
    assert len(lines) == 61
    analyst = site.windows.window(java_script_enabled=False)
    enter(analyst, site.link(Role.ANALYST))
    analyst.goto(f"{site.url}/log")
    assert "downloaded the payment file" in analyst.content()


def test_the_picture_that_a_phone_scans_is_dark_on_light_in_every_scheme(site: Site) -> None:
    """Many programs read no picture that is light on dark, into which the dark scheme turns others."""
    view = site.opens("second factor", color_scheme="dark")
    style = "picture => [getComputedStyle(picture).filter, getComputedStyle(picture).backgroundColor]"
    assert view.eval_on_selector("figure img", style) == ["none", "rgb(255, 255, 255)"]

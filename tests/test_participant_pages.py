"""A participant's pages in a real browser: accessible, usable without scripts, and with them payments are checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update
from support.accessibility import GERMAN_ZOOMED, LAYOUT, violations, violations_anywhere
from support.browsers import Windows, opened, unfold
from support.listening import listening
from support.participant_pages import pages
from support.serving import code_of

from truthful.service.pages import Service
from truthful.store.roster import standing
from truthful.store.tables import Due

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Pages, and what is done on them before they are looked at.
SEEN = (
    "invited",
    "invited, answers protected",
    "invited, records protected",
    "rehearsal",
    "disputed",
    "question",
    "refused",
    "review",
    "answered",
    "withdraw",
    "closed",
    "closed after an answer",
    "closed, another browser",
    "paid",
    "paid, sums kept back",
    "published",
    "cancelled",
)

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Site:
    """A browser and a service, with a link to every page."""

    windows: Windows
    url: str
    service: Service
    links: dict[str, str]

    def opens(self, name: str, **settings: Any) -> Page:
        """A page of this name."""
        view = self.window(**settings)
        begin = {"refused": "question", "review": "question"}.get(name, name)
        view.goto(self.url + self.links[begin])
        if name in ("refused", "review"):
            view.fill("#answer", "much" if name == "refused" else "62.5")
            view.click("form[action$=review] button")
        unfold(view)
        if name.startswith("paid"):
            compute(view)
        return view

    def window(self, **settings: Any) -> Page:
        """A window of a browser that has everybody's code."""
        view = self.windows.window(**settings)
        paths = {path.removesuffix("/withdraw") for path in self.links.values()}
        codes = {path: code_of(self.service, path.removeprefix("/a/")) for path in paths}
        view.context.add_cookies(
            [
                {"name": "code", "value": code, "domain": "127.0.0.1", "path": path}
                for path, code in codes.items()
                if code
            ]
        )
        return view


def compute(view: Page) -> str:
    """Press the button that checks a payment; what is said then."""
    view.click("#check-run")
    view.wait_for_selector("[data-said]:not([hidden]):not([data-said=busy])")
    return view.locator("[data-said]:not([hidden])").inner_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with opened() as browser, listening(tmp_path_factory.mktemp("site")) as (url, service):
        service.settler.stop()  # what is closed stays closed, to be looked at
        yield Site(Windows(browser), url, service, pages(service))


@pytest.mark.parametrize("name", SEEN)
def test_no_page_breaks_a_rule_or_makes_the_browser_complain(site: Site, name: str) -> None:
    """Nothing that the policy of content forbids, and no error of a script."""
    assert violations_anywhere(site.opens(name)) == {}
    assert site.windows.complaints == []


@pytest.mark.parametrize("name", SEEN)
def test_german_pages_break_none_at_four_hundred_percent(site: Site, name: str) -> None:
    view = site.opens(name, **GERMAN_ZOOMED)
    assert view.get_attribute("html", "lang") == "de"
    assert violations(view, **LAYOUT) == []


def test_a_study_is_answered_with_the_keyboard_alone_and_without_scripts(site: Site) -> None:
    view = site.windows.window(java_script_enabled=False)
    view.goto(site.url + site.links["rehearsal"])

    def press(button: str) -> None:
        view.get_by_role("button", name=button).focus()
        view.keyboard.press("Enter")

    press("I take part")
    view.get_by_label("How much did you spend").focus()
    view.keyboard.type("62.5")
    view.keyboard.press("Enter")
    view.get_by_text("62.5").wait_for()
    press("Send my answer")
    view.get_by_role("heading", name="Your answer counts.").wait_for()
    view.get_by_role("link", name="Withdraw my answer").focus()
    view.keyboard.press("Enter")
    press("Yes, I withdraw")
    view.get_by_text("You no longer take part").wait_for()


def test_her_browser_finds_her_payment_and_every_number_on_the_way(site: Site) -> None:
    view = site.opens("paid")
    assert view.locator("[data-said=agrees]").is_visible()
    rows = view.locator("#check-numbers tbody tr")
    numbers = [rows.nth(i).locator("td").all_inner_texts() for i in range(rows.count())]
    assert len(numbers) == 4 + 8
    assert all(service == browser for service, browser in numbers)


def test_where_sums_are_kept_back_two_numbers_are_her_receipts_and_the_rest_is_computed(site: Site) -> None:
    view = site.opens("paid, sums kept back")
    assert view.locator("[data-said=agrees]").is_visible()
    rows = view.locator("#check-numbers tbody tr")
    numbers = [rows.nth(i).locator("td").all_inner_texts() for i in range(rows.count())]
    assert [browser for service, browser in numbers if service != browser] == ["taken from your receipt"] * 2


def test_a_release_that_does_not_fit_together_is_said_to_be_none(site: Site) -> None:
    view = site.window()

    def tamper(route: Any) -> None:
        release = route.fetch().json()
        release["theta"][0] += 0.001
        route.fulfill(json=release)

    view.route("**/release.json", tamper)
    view.goto(site.url + site.links["paid"])
    assert compute(view).startswith("NOT verified: the numbers of the published result do not fit together")


def test_a_payment_that_was_tampered_with_is_not_verified_in_her_browser(site: Site) -> None:
    link = site.links["published"]

    def change(by: int) -> None:
        with site.service.database.writing() as session:
            hers = standing(session, link.removeprefix("/a/"))[0]
            session.execute(
                update(Due)
                .where(Due.study_id == hers.study_id, Due.player == hers.player)
                .values(millionths=Due.millionths + by)
            )

    change(2)
    view = site.window()
    # What is public is served to everybody; here the private copy of it will do.
    view.route("**/s/*/release.json", lambda route: route.continue_(url=f"{site.url}{link}/release.json"))
    view.goto(site.url + link)
    assert compute(view).startswith("NOT verified")
    assert "does not lead to the amount" in view.inner_text("main")
    change(-2)
    assert compute(view).startswith("Verified")


def test_a_browser_that_cannot_get_the_release_says_so(site: Site) -> None:
    view = site.window()
    view.route("**/release.json", lambda route: route.abort())
    view.goto(site.url + site.links["paid"])
    assert compute(view).startswith("Your browser could not compute it")


def test_without_scripts_the_page_says_what_it_would_need_and_shows_the_other_way(site: Site) -> None:
    view = site.window(java_script_enabled=False)
    view.goto(site.url + site.links["paid"])
    assert view.get_by_text("This needs JavaScript").is_visible()
    assert not view.get_by_role("button", name="Compute it here").is_visible()
    assert view.get_by_text("truthful verify release.json receipt.json").is_visible()

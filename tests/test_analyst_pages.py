"""The analyst's pages and the public ones in a real browser: no broken rule of accessibility, plans that follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from support.accessibility import GERMAN_ZOOMED, LAYOUT, PHONE, violations, violations_anywhere
from support.analyst_pages import NAME, pages, sign_up
from support.browsers import Windows, opened, unfold
from support.listening import listening
from support.serving import PASSWORD

from truthful.service.locations import Smtp

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow
#: A mail server that nothing is sent to.
NOWHERE = Smtp("127.0.0.1", 9, "studies@example.org")


@dataclass(frozen=True)
class Site:
    """A browser in which an analyst is signed in, and the path of every page."""

    windows: Windows
    url: str
    paths: dict[str, str]
    signed_in: Any

    def opens(self, path: str, **settings: Any) -> Page:
        """A page with all that is folded in it unfolded."""
        view = self.window(**settings)
        view.goto(self.url + path)
        return unfold(view)

    def window(self, **settings: Any) -> Page:
        return self.windows.window(storage_state=self.signed_in, **settings)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        opened() as browser,
        listening(tmp_path_factory.mktemp("site"), smtp=NOWHERE) as (url, service),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("truthful.service.analyst.study_pages.RENEWED", "3600")  # not while it is looked at
        sign_up(service)
        view = browser.new_page()
        view.goto(f"{url}/sign-in")
        view.fill("#name", NAME)
        view.fill("#password", PASSWORD)
        view.click("main button")
        yield Site(Windows(browser), url, pages(service), view.context.storage_state())


def test_no_page_breaks_a_rule_or_makes_the_browser_complain(site: Site) -> None:
    broken: dict[str, Any] = {}
    for name, path in site.paths.items():
        broken[name] = violations_anywhere(site.opens(path), zoomed=True)
        broken[f"{name}, complaints"] = list(site.windows.complaints)
    assert {name: found for name, found in broken.items() if found} == {}


def test_no_page_is_too_wide_at_400_percent_in_german(site: Site) -> None:
    broken = {
        name: violations(site.opens(path, **GERMAN_ZOOMED), **LAYOUT) for name, path in site.paths.items()
    }
    assert {name: found for name, found in broken.items() if found} == {}


def test_a_form_with_errors_breaks_no_rule_and_says_where_they_are(site: Site) -> None:
    view = site.opens(site.paths["begun"] + "/edit/question", viewport={"width": PHONE, "height": 900})
    view.fill("#low", "much")
    view.click("main form > button:last-child")
    assert violations(view) == []
    assert view.get_attribute("#low", "aria-invalid") == "true"
    assert "low-problem" in (view.get_attribute("#low", "aria-describedby") or "")


def test_pressing_enter_in_a_row_of_features_saves_and_removes_nothing(site: Site) -> None:
    view = site.opens(site.paths["step people"])
    view.press("#f0_name", "Enter")
    view.wait_for_url("**/edit/beliefs")
    view.goto(site.url + site.paths["step people"])
    assert view.input_value("#f0_name") == "age"
    assert view.input_value("#f1_name") == "region"


def test_only_what_a_choice_asks_for_is_seen(site: Site) -> None:
    view = site.opens(site.paths["step people"])
    assert view.is_visible("#f0_low")
    assert not view.is_visible("#f0_levels")
    view.check("input[name=f0_kind][value=levels]")
    assert not view.is_visible("#f0_low")
    assert view.is_visible("#f0_levels")


def test_a_plan_follows_the_form_as_it_changes(site: Site) -> None:
    view = site.opens(site.paths["plan"])
    view.fill("#players", "200")
    view.fill("#budget", "500")
    view.press("#budget", "Tab")
    view.wait_for_selector("#result .error h2")
    view.fill("#players", "20000")
    view.fill("#budget", "5000")
    view.press("#budget", "Tab")
    view.wait_for_selector("#result .done")
    assert "players=20000" in view.url
    drawn = view.locator("#result img").evaluate("img => img.decode().then(() => img.naturalWidth)")
    assert drawn > 0
    assert site.windows.complaints == []
    view.click("#result .done button")
    view.wait_for_selector(".todo")
    assert view.locator(".is-done").count() == 2


def test_a_plan_is_made_without_a_script(site: Site) -> None:
    view = site.opens(site.paths["plan"], java_script_enabled=False)
    view.fill("#players", "20000")
    view.fill("#budget", "5000")
    view.click("#plan > button")
    assert view.is_visible("#result .done")


def test_reports_and_charts_are_shown_with_their_style_and_without_complaint(site: Site) -> None:
    for path in (f"{site.paths['results']}/report", f"{site.paths['settled']}/report"):
        view = site.window()
        view.goto(site.url + path)
        assert view.evaluate("getComputedStyle(document.body).maxWidth") != "none"
        view.goto(f"{site.url}{path.replace('report', 'forest.svg')}")
        assert site.windows.complaints == []

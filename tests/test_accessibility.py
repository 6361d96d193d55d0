"""The pages a person is given, as axe-core sees them in a browser: light and dark, on a phone and on a desk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.accessibility import violations_anywhere
from support.browsers import opened
from test_report import reported
from test_report_simulation import simulated

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


def shown(browser: Browser, source: str) -> Page:
    view = browser.new_page()
    view.set_content(source)
    return view


def test_a_settlements_report_breaks_no_rule(browser: Browser) -> None:
    assert violations_anywhere(shown(browser, reported()[2])) == {}


def test_a_simulations_page_breaks_no_rule(browser: Browser) -> None:
    assert violations_anywhere(shown(browser, simulated()[1])) == {}


def test_faults_are_seen_and_in_the_scheme_that_has_them(browser: Browser) -> None:
    """Grey letters that only the dark page has; and a report without its language, in which a table is too wide."""
    source = reported()[2]
    grey = source.replace("--ink: #e9eaeb", "--ink: #444a50")
    assert grey != source
    found = violations_anywhere(shown(browser, grey))
    assert found.keys() == {"390 pixels, dark", "1300 pixels, dark"}
    assert all([rule.partition(":")[0] for rule in rules] == ["color-contrast"] for rules in found.values())
    spoilt = source.replace('lang="en"', "").replace("<table>", '<table style="min-width: 500px">')
    found = violations_anywhere(shown(browser, spoilt))
    light = [rules for where, rules in found.items() if where.endswith("light")]
    assert [rules[0].partition(":")[0] for rules in light] == ["html-has-lang"] * 2
    assert [where for where, rules in found.items() if rules[-1].endswith("pixels wide")] == [
        "390 pixels, light",
        "390 pixels, dark",
    ]

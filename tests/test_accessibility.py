"""The pages a person is given, as axe-core sees them in a browser: light and dark, on a phone and on a desk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.accessibility import PHONE, ZOOMED, violations_anywhere
from support.browsers import opened
from test_report import reported
from test_report_simulation import simulated

import truthful

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow
SOURCE = Path(truthful.__file__).parent


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
    source = re.sub(r"<figure\b.*?</figure>", "", reported()[2], flags=re.DOTALL)
    grey = source.replace("--ink: #e9eaeb", "--ink: #444a50")
    assert grey != source
    found = violations_anywhere(shown(browser, grey), zoomed=True)
    assert {where: [rule.partition(":")[0] for rule in rules] for where, rules in found.items()} == {
        "390 pixels, dark": ["color-contrast"]
    }
    spoilt = source.replace('lang="en"', "").replace("<table>", '<table style="min-width: 500px">')
    found = violations_anywhere(shown(browser, spoilt))
    assert {where: [rule.partition(":")[0] for rule in rules] for where, rules in found.items()} == {
        "1300 pixels, light": ["html-has-lang"],
        "390 pixels, dark": ["html-has-lang", "515 pixels wide"],
    }


@pytest.mark.parametrize("sheet", sorted(SOURCE.rglob("*.css")), ids=lambda sheet: sheet.name)
def test_a_narrow_page_has_no_colours_of_its_own(sheet: Path) -> None:
    """Letters may be grey on it, as others are on a wide one: so each width is looked at in one scheme alone.

    And a phone's page is laid out as one at 400 %.
    """
    text = sheet.read_text(encoding="utf-8")
    narrow = re.findall(r"@media[^{]*width[^{]*\{((?:[^{}]*\{[^{}]*\})*)", text)
    assert narrow
    widths = [16 * float(rem) for rem in re.findall(r"@media[^{]*-width: ([\d.]+)rem", text)]
    assert [width for width in widths if ZOOMED <= width < PHONE] == []
    colours = re.sub(r"color: var\(--grey\)|solid var\(--faint\)", "", "".join(narrow))
    assert not re.search(r"color|background|opacity|filter|--", colours)

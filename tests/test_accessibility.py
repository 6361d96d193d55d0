"""The pages a person is given, as axe-core sees them in a browser: light and dark, on a phone and on a desk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest
from browsers import opened
from test_report import reported
from test_report_simulation import simulated

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PHONE, DESK = 390, 1300
Scheme = Literal["light", "dark"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as found:
        yield found


def violations(browser: Browser, source: str, width: int, scheme: Scheme) -> list[str]:
    """Every rule of axe-core that the page breaks, with the first element that does; and its width if too much."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_content(source)
    found = Axe().run(page).response["violations"]
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.close()
    broken = [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in found]
    return [*broken, f"{wide} pixels wide"] if wide > width else broken


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_settlements_report_breaks_no_rule(browser: Browser, width: int, scheme: Scheme) -> None:
    assert violations(browser, reported()[2], width, scheme) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_a_simulations_page_breaks_no_rule(browser: Browser, width: int, scheme: Scheme) -> None:
    assert violations(browser, simulated()[1], width, scheme) == []


def test_faults_are_seen_and_in_the_scheme_that_has_them(browser: Browser) -> None:
    """Grey letters that only the dark page has; and a report without its language, in which a table is too wide."""
    source = reported()[2]
    grey = source.replace("--ink: #e9eaeb", "--ink: #444a50")
    assert grey != source
    assert violations(browser, grey, DESK, "light") == []
    assert [found.partition(":")[0] for found in violations(browser, grey, DESK, "dark")] == [
        "color-contrast"
    ]
    spoilt = source.replace('lang="en"', "").replace("<table>", '<table style="min-width: 500px">')
    found = violations(browser, spoilt, PHONE, "light")
    assert found[0].startswith("html-has-lang")
    assert found[-1].endswith("pixels wide")

"""What axe-core finds wrong with a page in a browser: on a phone and on a desk, light and dark, and at 400 %."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE, DESK, ZOOMED = 390, 1300, 320  # 320 is a desk of 1280 pixels at 400 %
#: The rules that look at colours. All others find the same in the dark.
OF_COLOURS = ("color-contrast", "link-in-text-block")


def violations(view: Page, rules: tuple[str, ...] = ()) -> list[str]:
    """Each rule (of these) that the page breaks, with the first element that does; and its width if too much."""
    if not view.evaluate("'axe' in window"):
        view.evaluate(_axe())
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    broken = view.evaluate("options => axe.run(options).then(found => found.violations)", options)
    found = [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in broken]
    wide, width = view.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return [*found, f"{wide} pixels wide"] if wide > width else found


@cache
def _axe() -> str:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    return str(Axe().axe_script)


def violations_anywhere(view: Page) -> dict[str, list[str]]:
    """The same on a phone and on a desk, light and dark; nothing where nothing is wrong."""
    found = {}
    for width in (PHONE, DESK):
        view.set_viewport_size({"width": width, "height": 900})
        view.emulate_media(color_scheme="light")
        found[f"{width} pixels, light"] = violations(view)
        view.emulate_media(color_scheme="dark")
        found[f"{width} pixels, dark"] = violations(view, OF_COLOURS)
    return {where: rules for where, rules in found.items() if rules}

"""What axe-core finds wrong with a page in a browser: light on a desk, dark on a phone, and at 400 %."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

PHONE, DESK, ZOOMED = 390, 1300, 320  # 320 is a desk of 1280 pixels at 400 %
#: How the narrowest page is opened, in the language of the longest words.
GERMAN_ZOOMED = {"viewport": {"width": ZOOMED, "height": 256}, "locale": "de-DE"}
#: Rules that look at colours, which take longest and find the same in every language; and all others.
COLOURS = ("color-contrast", "link-in-text-block")
LAYOUT = {"rules": {rule: {"enabled": False} for rule in COLOURS}}


def violations(view: Page, **options: object) -> list[str]:
    """Each rule that the page breaks, with the first element that does; and its width if too much."""
    if not view.evaluate("'axe' in window"):
        view.evaluate(_axe())
        view.context.add_init_script(_axe())  # the window's later pages have it, and it is compiled once
    run = "options => axe.run(options).then(found => found.violations)"
    # What plays by itself is what "preload" would fetch again, with all style sheets: nothing does.
    broken = view.evaluate(run, {"resultTypes": ["violations"], "preload": False, **options})
    found = [f"{rule['id']}: {rule['nodes'][0]['html']}" for rule in broken]
    wide, width = view.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    return [*found, f"{wide} pixels wide"] if wide > width else found


@cache
def _axe() -> str:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    return str(Axe().axe_script)


def violations_anywhere(view: Page, *, zoomed: bool = False) -> dict[str, list[str]]:
    """The same on a desk in the light and on a phone in the dark; nothing where nothing is wrong.

    A page that is looked at zoomed too is laid out there as on a phone: on this its colours are left to look at.
    """
    found = {}
    left: dict[str, object] = {"runOnly": COLOURS} if zoomed else {}
    for width, scheme, options in ((DESK, "light", {}), (PHONE, "dark", left)):
        view.set_viewport_size({"width": width, "height": 900})
        view.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found[f"{width} pixels, {scheme}"] = violations(view, **options)
    return {where: rules for where, rules in found.items() if rules}

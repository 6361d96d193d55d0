"""A browser, if there is one here, and what it makes of a page."""

from __future__ import annotations

import hashlib
import io
import shutil
from pathlib import Path

from PIL import Image, PngImagePlugin

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: The key under which a picture holds the hash of the page that it shows.
OF = "Of"


def program() -> str | None:
    """The first browser that is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def photograph(page: Path, path: Path, width: int, height: int) -> None:
    """The top of a page as a PNG file of few colours; nothing without a browser, or if the picture is of this page."""
    shown, found = hashlib.sha256(page.read_bytes()).hexdigest(), program()
    if found is None or (path.exists() and shown_in(path) == shown):
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        opened = browser.new_page(viewport={"width": width, "height": height})
        opened.goto(page.resolve().as_uri())
        drawn = Image.open(io.BytesIO(opened.screenshot()))
        browser.close()
    words = PngImagePlugin.PngInfo()
    words.add_text(OF, shown)
    drawn.convert("RGB").quantize(64).save(path, optimize=True, pnginfo=words)


def shown_in(path: Path) -> str:
    """The hash of the page of which this is a picture."""
    with Image.open(path) as picture:
        return str(picture.info.get(OF, ""))

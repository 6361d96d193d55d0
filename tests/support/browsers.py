"""A browser, if there is one here, and what it makes of a page."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, PngImagePlugin

from support.windows import PATIENCE, REFUSED

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: What a window has that no page needs: three pages behind the address bar and a process to spare, which take four
#: times as long as all else of a window. The rest is off in Playwright's own list, which this one replaces.
UNUSED = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup", "SpareRendererForSitePerProcess"),
    *("HttpsUpgrades", "MediaRouter", "OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning"),
)
#: The key under which a picture holds the hash of the page that it shows.
OF = "Of"
#: Of a window, unless it is set.
SIZE = {"width": 1280, "height": 720}
#: Settings that a window can change while it is open.
CHANGED = ("storage_state", "color_scheme", "viewport")


def program() -> str | None:
    """The first browser that is installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def opened() -> Iterator[Browser]:
    """A browser; without one, a test that needs it is skipped, and says so."""
    found = program()
    if found is None:
        pytest.skip("no Chromium here, so no page was looked at in it: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install --group dev")
    with sync_api.sync_playwright() as playwright:
        without = f"--disable-features={','.join(UNUSED)}"
        browser = playwright.chromium.launch(executable_path=found, args=[without])
        yield browser
        browser.close()


class Windows:
    """Windows of a browser, one for each way to set them: to open one takes as long as three pages in it."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: dict[str, Page] = {}
        #: What the browser complained of since a window was asked for last.
        self.complaints: list[str] = []

    def window(self, **settings: Any) -> Page:
        """A window with these settings, as if it were new: no cookies but its own, its size, its colours."""
        changed = {name: settings.pop(name) for name in CHANGED if name in settings}
        key = repr(settings)
        if key not in self._open:
            view = self._open[key] = self._browser.new_page(**settings)
            view.set_default_timeout(PATIENCE)
            view.on("console", self._heard)
            view.on("pageerror", lambda error: self.complaints.append(str(error)))
        view = self._open[key]
        view.unroute_all()
        view.context.clear_cookies()
        view.context.add_cookies(changed.get("storage_state", {}).get("cookies", []))
        view.emulate_media(color_scheme=changed.get("color_scheme", "light"))
        view.set_viewport_size(changed.get("viewport", SIZE))
        self.complaints.clear()
        return view

    def _heard(self, message: ConsoleMessage) -> None:
        if not message.text.startswith(REFUSED):
            self.complaints.append(message.text)


def unfold(view: Page) -> Page:
    """Open all that is folded on a page."""
    view.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true })")
    return view


def photograph(page: Path, path: Path, width: int, height: int) -> None:
    """The top of a page as a PNG file of few colours; nothing without a browser, or if the picture is of this page."""
    shown = hashlib.sha256(page.read_bytes()).hexdigest()
    if program() is None or (path.exists() and shown_in(path) == shown):
        return
    with opened() as browser:
        view = browser.new_page(viewport={"width": width, "height": height})
        view.goto(page.resolve().as_uri())
        keep(Image.open(io.BytesIO(view.screenshot())), path, shown)


def keep(picture: Image.Image, path: Path, shown: str) -> None:
    """Save a picture in few colours, with the hash of what it shows."""
    words = PngImagePlugin.PngInfo()
    words.add_text(OF, shown)
    picture.convert("RGB").quantize(64).save(path, optimize=True, pnginfo=words)


def shown_in(path: Path) -> str:
    """The hash of the page of which this is a picture."""
    with Image.open(path) as picture:
        return str(picture.info.get(OF, ""))

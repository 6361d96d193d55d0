"""Somebody at a browser, who sees pages, clicks and types, and can do nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page

PHONE, DESK = (390, 844), (1300, 900)
MOST_TABS = 60
REFUSED = "Failed to load resource: the server responded with a status of 4"
#: A page's source, how many headings it has, its width and the window's, and what can be read, all in one question.
LOOK = """() => {
  const page = document.documentElement;
  const headings = document.querySelectorAll("h1").length;
  return [page.outerHTML, headings, page.scrollWidth, window.innerWidth, document.body.innerText];
}"""
#: The phone on which somebody decides, and how many of its screens that may take.
DECIDING, SCREENS = {"width": 375, "height": 812}, 1.2
PATIENCE = 60_000  # milliseconds: a rehearsal takes some seconds, and more on a busy machine


def screens_to_decide(view: Page) -> float:
    """How far down the page the button ends with which somebody takes part, in screens; it is the first there is."""
    first = view.locator("main button").first
    assert first.evaluate("button => button.form.action").endswith("/consent")
    end = first.evaluate("button => button.getBoundingClientRect().bottom + scrollY")
    return float(end / view.evaluate("innerHeight"))


class Window:
    """A window of her own. It keeps the source of every page that she saw, also what was folded in it."""

    def __init__(self, browser: Browser, size: tuple[int, int], **settings: Any) -> None:
        width, height = size
        self.context = browser.new_context(viewport={"width": width, "height": height}, **settings)
        self.context.set_default_timeout(PATIENCE)
        self.view: Page = self.context.new_page()
        self.seen: list[str] = []
        self.complaints: list[str] = []
        self.view.on("console", self._heard)
        self.view.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        """What the browser says of a page, but for the status of one that refuses: that stands on the page itself."""
        if not message.text.startswith(REFUSED):
            self.complaints.append(message.text)

    def open(self, address: str) -> str:
        self.view.goto(address)
        return self.look()

    def look(self) -> str:
        """What can be read on the page, which has one heading and is not wider than the window."""
        source, headings, width, window, text = self.view.evaluate(LOOK)
        self.seen.append(source)
        assert headings == 1, self.view.url
        assert width <= window, f"{self.view.url} is {width} pixels wide"
        return str(text)

    def unfold(self) -> str:
        """What can be read once all that is folded is open."""
        self.view.evaluate("document.querySelectorAll('details').forEach(folded => { folded.open = true })")
        return self.look()

    def press(self, button: str) -> str:
        """Press a button that leads to a page."""
        return self._go(self.button(button))

    def click(self, button: str) -> str:
        """Press a button that changes the page."""
        self.button(button).click()
        return self.look()

    def follow(self, link: str) -> str:
        return self._go(self.view.get_by_role("link", name=link, exact=True))

    def _go(self, what: Locator) -> str:
        with self.view.expect_navigation():
            what.click()
        return self.look()

    def button(self, name: str) -> Locator:
        return self.view.get_by_role("button", name=name, exact=True)

    def type(self, **fields: str) -> None:
        for name, text in fields.items():
            self.view.fill(f"#{name}", text)

    def choose(self, field: str, value: str) -> None:
        self.view.check(f"input[name={field}][value={value}]")

    def take(self, what: Locator, directory: Path) -> Path:
        """Click on what gives a file, and keep the file under its own name."""
        with self.view.expect_download() as taken:
            what.click()
        path = directory / taken.value.suggested_filename
        taken.value.save_as(path)
        return path

    def tab_to(self, name: str) -> None:
        """Go on with the tabulator alone until what has the focus bears this name."""
        focused = "(document.activeElement.labels?.[0] ?? document.activeElement).innerText"
        for _ in range(MOST_TABS):
            self.view.keyboard.press("Tab")
            if self.view.evaluate(focused).strip() == name:
                return
        raise AssertionError(f"{name!r} is not reached with the keyboard on {self.view.url}")

    def enter(self) -> str:
        with self.view.expect_navigation():
            self.view.keyboard.press("Enter")
        return self.look()

"""A browser without a screen: opens pages, fills in their forms, presses buttons, keeps cookies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import MappingProxyType, TracebackType
from urllib.parse import urljoin, urlsplit

import httpx2

from truthful.errors import InputError, Refused

PATIENCE_SECONDS = 120.0
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass
class Form:
    """Where a form is sent (nowhere: to its own page), how, and with which fields as they stand."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Button:
    """A button of a form: what it adds to the fields, and where it sends them, which may be its own matter."""

    action: str
    method: str
    form: Form
    adds: dict[str, str]


class Page(HTMLParser):
    """A page's buttons, and its complaint: what is to be read out at once."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.buttons: list[Button] = []
        self.complaint = ""
        self._forms: dict[str | None, Form] = {}
        self._form: Form | None = None
        self._alert: str | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("role") == "alert":
            self._alert = tag
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get"))
            self._forms[given.get("id")] = self._form
        elif tag == "input" and self._form is not None and "name" in given:
            if given.get("type") not in ("radio", "checkbox", "file") or "checked" in given:
                self._form.fields[given["name"]] = given.get("value", "")
        elif tag == "button":
            self._press(given)

    def _press(self, given: dict[str, str]) -> None:
        form = self._forms[given["form"]] if "form" in given else self._form
        if form is not None:
            adds = {given["name"]: given.get("value", "")} if "name" in given else {}
            action, method = given.get("formaction", form.action), given.get("formmethod", form.method)
            self.buttons.append(Button(action, method, form, adds))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        if tag == self._alert:
            self._alert = None

    def handle_data(self, data: str) -> None:
        if self._alert is not None:
            self.complaint = f"{self.complaint} {data}".strip()


class Browser:
    """One browser, on one page at a time. A page that refuses ends everything, with what it says."""

    def __init__(self, url: str) -> None:
        headers = {"Accept-Language": "en"}
        self._client = httpx2.Client(
            base_url=url, headers=headers, follow_redirects=True, timeout=PATIENCE_SECONDS
        )
        self.address, self.page = url, Page("")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._client.close()

    def open(self, address: str) -> Page:
        return self._show(self._request("GET", address))

    def read(self, address: str) -> str:
        """A file; the page stays the one it was."""
        return self._request("GET", address).text

    def press(
        self, end: str, values: Mapping[str, str] = NOTHING, file: tuple[str, str] | None = None
    ) -> Page:
        """Fill in a form of this page and press the button that sends it to an address with this end."""
        return self._show(self._send(end, values, file))

    def cookie(self, name: str, path: str) -> str:
        """What this browser was given to keep for the pages below a path; nothing if it was not."""
        kept = (cookie for cookie in self._client.cookies.jar if cookie.path == path)
        return next((cookie.value or "" for cookie in kept if cookie.name == name), "")

    def button(self, end: str) -> Button | None:
        """The button of this page that sends its form to an address with this end."""
        for button in self.page.buttons:
            if button.method == "post" and urlsplit(self._at(button.action)).path.endswith(end):
                return button
        return None

    def fetch(self, end: str) -> str:
        """Press a button that gives a file instead of a page."""
        return self._send(end, NOTHING, None).text

    def _send(self, end: str, values: Mapping[str, str], file: tuple[str, str] | None) -> httpx2.Response:
        button = self.button(end)
        if button is None:
            raise Refused(
                f"The page {self.address} has no button for {end!r}. Is it a service of this version?"
            )
        fields = {**button.form.fields, **button.adds, **values}
        files = None if file is None else {"file": file}
        return self._request("POST", button.action, data=fields, files=files)

    def _show(self, response: httpx2.Response) -> Page:
        self.address, self.page = str(response.url), Page(response.text)
        return self.page

    def _at(self, address: str) -> str:
        return urljoin(self.address, address)

    def _request(self, method: str, address: str, **what: object) -> httpx2.Response:
        try:
            response = self._client.request(method, self._at(address), **what)  # type: ignore[arg-type]
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            raise InputError(
                f"The service at {self._client.base_url} does not answer ({problem}). Start it with: truthful serve"
            ) from None
        if response.status_code >= 400:
            said = Page(response.text).complaint or "it says no more"
            raise Refused(f"{method} {response.url.path} was answered by {response.status_code}: {said}")
        return response

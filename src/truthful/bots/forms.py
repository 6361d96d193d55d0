"""The forms of a page, as somebody sees them who can only fill in fields and press buttons."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


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

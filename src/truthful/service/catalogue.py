"""All words that people read, in one catalogue for each language: the files of texts/en, of texts/de.

A key begins with its file's name, as in `participant.consent`. A text is plain: markup belongs to templates. `{name}`
in it stands for a value. Where a number decides, a text has forms (`one`, `other`), chosen by the language's own rule.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from babel import Locale, UnknownLocaleError, negotiate_locale

ENGLISH = "en"


@dataclass(frozen=True, eq=False)
class Texts:
    """The catalogue of one language."""

    language: str
    texts: dict[str, Any]

    @property
    def locale(self) -> Locale:
        return Locale.parse(self.language)

    @property
    def name(self) -> str:
        """What the language calls itself."""
        return (self.locale.get_display_name() or self.language).capitalize()

    def __call__(self, key: str, count: int | None = None, **values: Any) -> str:
        """The text of this key, with its values."""
        text: Any = self.texts
        for part in key.split("."):
            text = text[part]
        if count is not None:
            values["count"] = values.get("count", count)
            text = text[self.locale.plural_form(count)] if isinstance(text, dict) else text
        return str(text).format(**values)


@cache
def languages() -> dict[str, Texts]:
    """Every language there is, English first."""
    folder = resources.files("truthful.service").joinpath("texts")
    names = sorted(
        (part.name for part in folder.iterdir() if part.is_dir()), key=lambda name: (name != ENGLISH, name)
    )
    return {name: Texts(name, _read(folder.joinpath(name))) for name in names}


def _read(folder: Traversable) -> dict[str, Any]:
    return {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }


def chosen(cookie: str | None, accepted: str) -> Texts:
    """The language somebody chose, or else the best of those her browser accepts, or English."""
    known = languages()
    if cookie in known:
        return known[cookie]
    wanted = sorted((_preference(part) for part in accepted.split(",")[:20]), key=lambda pair: -pair[1])
    try:
        found = negotiate_locale([tag for tag, _ in wanted], known, sep="-")
    except (ValueError, UnknownLocaleError):
        found = None
    return known[found or ENGLISH]


def _preference(part: str) -> tuple[str, float]:
    """A language of an Accept-Language header and its weight."""
    tag, _, weight = part.strip().partition(";q=")
    try:
        return tag, float(weight or 1)
    except ValueError:
        return tag, 0.0

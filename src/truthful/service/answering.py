"""The one number that somebody gives: read as she typed it, checked, and shown to her once more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

from babel import Locale
from babel.numbers import format_decimal

from truthful.service.formats import read_number
from truthful.study.declaration import Response

#: Characters of an answer: no number that anybody means has more.
LONGEST = 40


@dataclass(frozen=True)
class Wrong:
    """Why an answer is not taken: the key of the text that says so."""

    key: str
    typed: str


def read_answer(typed: str, response: Response, locale: Locale) -> float | Wrong:
    """The number that was typed in her language, if it is one and in the declared range."""
    if not typed.strip():
        return Wrong("participant.empty", "")
    value = read_number(typed, locale) if len(typed) <= LONGEST else None
    return _checked(value, typed, response)


def sent_answer(plain: str, response: Response) -> float | Wrong:
    """The number that the review page, or a program, sends: plain, as 1234.5, whatever the language."""
    return _checked(plain_number(plain), plain, response)


def plain_number(plain: str) -> float | None:
    """A number as 1234.5; None if it is none."""
    try:
        value = float(plain) if len(plain) <= LONGEST else math.nan
    except ValueError:
        return None
    return value + 0.0 if math.isfinite(value) else None  # -0 is 0


def _checked(value: float | None, typed: str, response: Response) -> float | Wrong:
    shown = typed.strip()[:LONGEST]
    if value is None or not math.isfinite(value):
        return Wrong("participant.not_number", shown)
    if not response.low <= value <= response.high:
        return Wrong("participant.outside", shown)
    return value + 0.0  # -0 is 0


def as_typed(value: float, locale: Locale) -> str:
    """A number in somebody's language without separators of thousands, which could be taken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))

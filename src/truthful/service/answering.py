"""The one answer that somebody gives: read as she typed or chose it, checked, and shown to her once more.

Yes is 1 and no is 0; a rating is its number. Where she is also asked what the others will say, that goes with it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from decimal import Decimal

from babel import Locale
from babel.numbers import format_decimal

from truthful.service.formats import read_number
from truthful.store.tables import Player
from truthful.study import Study
from truthful.study.sections import Response

#: What is said of no choice, and of something else.
_NO_CHOICE = {
    "yes-no": ("participant.empty_yes_no", "participant.not_yes_no"),
    "rating": ("participant.empty_rating", "participant.not_rating"),
}
#: Characters of an answer: no number that anybody means has more.
LONGEST = 40


@dataclass(frozen=True)
class Wrong:
    """Why an answer is not taken: the key of the text that says so."""

    key: str
    typed: str


@dataclass(frozen=True)
class Said:
    """An answer, and a prediction of the others' where one is asked for; or why they are not taken."""

    answer: float | Wrong
    prediction: float | Wrong | None

    @property
    def fits(self) -> bool:
        """Whether the study takes both."""
        return not isinstance(self.answer, Wrong) and not isinstance(self.prediction, Wrong)


def read_said(answer: str, prediction: str, study: Study, locale: Locale) -> Said:
    """What was typed in her language, or chosen."""
    read = read_answer(answer, study.response, locale)
    if study.levels is None:
        return Said(read, None)
    if not prediction.strip():
        return Said(read, Wrong("participant.empty", ""))
    value = read_number(prediction, locale) if len(prediction) <= LONGEST else None
    return Said(read, _within(value, prediction, *study.prediction_range))


def sent_said(answer: str, prediction: str, study: Study) -> Said:
    """What the review page, or a program, sends, in plain numbers."""
    sent = sent_answer(answer, study.response)
    if study.levels is None:
        return Said(sent, None)
    return Said(sent, _within(plain_number(prediction), prediction, *study.prediction_range))


def read_answer(typed: str, response: Response, locale: Locale) -> float | Wrong:
    """The number that was typed in her language, or the choice that was made, if the study takes it."""
    if response.kind is not None:
        return sent_answer(typed, response)
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


def choices(response: Response) -> tuple[float, ...]:
    """What can be chosen from, in order; nothing where any number in the range can be given."""
    return tuple(map(float, range(int(response.low), int(response.high) + 1))) if response.kind else ()


def offered(response: Response, player: Player) -> tuple[float, ...]:
    """The choices as they are shown to her. Whether yes or no comes first is her lot, and stays so."""
    ordered = choices(response)
    if response.kind != "yes-no":
        return ordered
    lot = hashlib.sha256(f"{player.survey_id}/{player.player}".encode()).digest()[0] % 2
    return ordered if lot else ordered[::-1]


def _checked(value: float | None, typed: str, response: Response) -> float | Wrong:
    shown = typed.strip()[:LONGEST]
    if response.kind is not None:
        if value is not None and value in choices(response):
            return value
        return Wrong(_NO_CHOICE[response.kind][bool(shown)], shown)
    return _within(value, typed, response.low, response.high)


def _within(value: float | None, typed: str, low: float, high: float) -> float | Wrong:
    """A number in this range, or why it is none."""
    shown = typed.strip()[:LONGEST]
    if value is None or not math.isfinite(value):
        return Wrong("participant.not_number", shown)
    if not low <= value <= high:
        return Wrong("participant.outside", shown)
    return value + 0.0  # -0 is 0


def as_typed(value: float, locale: Locale) -> str:
    """A number in somebody's language without separators of thousands, which could be taken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))

"""The question to a participant: its choices and fields as she sees them, and her input, parsed and checked.

Yes is 1 and no is 0; a rating is its number. Where a prediction is asked for, it is read together with the answer.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from babel import Locale
from babel.numbers import format_decimal

from truthful.service.pages import plain_number, read_number
from truthful.store.tables import Player
from truthful.study import Study
from truthful.study.declaration import Declaration
from truthful.study.sections import Feature
from truthful.study.sections import Response as Question

#: The texts for a missing choice and for an invalid one.
_NO_CHOICE = {
    "yes-no": ("participant.empty_yes_no", "participant.not_yes_no"),
    "rating": ("participant.empty_rating", "participant.not_rating"),
}
#: The most characters of an answer: no sensible number has more.
LONGEST = 40


@dataclass(frozen=True)
class Wrong:
    """Rejected input, with the key of the text that says why."""

    key: str
    typed: str


@dataclass(frozen=True)
class ParsedAnswer:
    """A parsed answer, with a prediction where one is asked for; each may be Wrong."""

    answer: float | Wrong
    prediction: float | Wrong | None

    @property
    def fits(self) -> bool:
        """Whether both are valid."""
        return not isinstance(self.answer, Wrong) and not isinstance(self.prediction, Wrong)


def parse_answer(answer: str, prediction: str, study: Study, locale: Locale | None = None) -> ParsedAnswer:
    """Parse an answer and a prediction, typed in a language; without one, plain numbers as programs send them."""
    question = study.response
    if question.kind is None:
        value = _read(answer, question.low, question.high, locale)
    else:
        value = read_choice(answer, question)
    return ParsedAnswer(
        value, None if study.levels is None else _read(prediction, *study.prediction_range, locale)
    )


def read_choice(typed: str, question: Question) -> float | Wrong:
    value, shown = plain_number(typed), typed.strip()[:LONGEST]
    if value is not None and value in choices(question):
        return value
    return Wrong(_NO_CHOICE[question.kind or ""][bool(shown)], shown)


def _read(typed: str, low: float, high: float, locale: Locale | None) -> float | Wrong:
    """Parse a number in this range."""
    shown = typed.strip()[:LONGEST]
    if not shown:
        return Wrong("participant.empty", "")
    value = plain_number(typed) if locale is None else read_number(typed, locale)
    if value is None or len(typed) > LONGEST:
        return Wrong("participant.not_number", shown)
    return value + 0.0 if low <= value <= high else Wrong("participant.outside", shown)  # -0 is 0


def choices(question: Question) -> tuple[float, ...]:
    """The possible answers in order; none where any number in the range can be given."""
    return tuple(map(float, range(int(question.low), int(question.high) + 1))) if question.kind else ()


def shown_choices(question: Question, player: Player) -> tuple[float, ...]:
    """The choices in the order shown to a player. Whether yes or no comes first is random, but fixed for her."""
    ordered = choices(question)
    if question.kind != "yes-no":
        return ordered
    lot = hashlib.sha256(f"{player.study_id}/{player.player}".encode()).digest()[0] % 2
    return ordered if lot else ordered[::-1]


def as_typed(value: float, locale: Locale) -> str:
    """A number in a language, without thousands separators, which could be mistaken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))


def shown_features(declaration: Declaration, player: Player) -> list[dict[str, Any]]:
    """A player's features with labels, values and units for display."""
    return [
        {
            "label": feature.label or feature.name,
            "value": _shown_value(feature, player.features[feature.name]),
            "unit": feature.unit,
        }
        for feature in declaration.features
    ]


def _shown_value(feature: Feature, value: Any) -> Any:
    """A level's label, or a number rounded to a thousandth of its range, as finely as she could check it."""
    if isinstance(value, str):
        return (feature.level_labels or {}).get(value, value)
    width = 1.0 if feature.low is None or feature.high is None else feature.high - feature.low
    return round(value, math.ceil(3 - math.log10(width)))


def number_signs(locale: Locale) -> dict[str, str]:
    """The decimal and thousands signs of a language."""
    symbols = locale.number_symbols["latn"]
    return {name: symbols[name] for name in ("decimal", "group")}


def slider_steps(study: Study) -> dict[str, float]:
    """The steps of the sliders: the declared step, or the largest power of ten with a hundred steps in the range."""
    (low, high), response = study.prediction_range, study.response
    steps = {
        name: 10.0 ** math.floor(math.log10(width) - 2)
        for name, width in (("answer", response.high - response.low), ("prediction", high - low))
    }
    return steps | ({"answer": response.step} if response.step else {})

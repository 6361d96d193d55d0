"""Where people were asked what the others will say: both averages, in words and in the rows of a table."""

from __future__ import annotations

from truthful.formatting import to_within
from truthful.release.release import Coefficient, Predictions
from truthful.report.findings import Found, Row
from truthful.study import Study


def answer(found: Predictions) -> str:
    """What was found of numbers, in a sentence."""
    value, low, high = (to_within(end, _width(found.answer)) for end in _ends(found.answer))
    predicted = to_within(found.prediction.value, _width(found.prediction))
    return (
        f"The average answer is {value}, between {low} and {high}; people predicted {predicted} on average."
    )


def averages(found: Predictions, study: Study) -> Found:
    """Answers and predictions with their intervals, and what people expected before they knew their own answers."""
    rows = [_row("answers", found.answer), _row("predictions", found.prediction)]
    if found.centre is not None:
        rows.append(("expected beforehand", to_within(found.centre, _width(found.prediction)), "", ""))
    return Found(title(study), "Average of", tuple(rows))


def title(study: Study) -> str:
    """What is averaged, and in which unit."""
    return f"Averages, {'percent of yes' if study.kind == 'yes-no' else study.response.name}"


def _row(name: str, found: Coefficient) -> Row:
    value, low, high = (to_within(end, _width(found)) for end in _ends(found))
    return name, value, low, high


def _ends(found: Coefficient) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def _width(found: Coefficient) -> float:
    return found.high - found.low

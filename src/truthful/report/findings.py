"""Published estimates in words, as differences between people, and in the rows of tables: for pages and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from truthful.charts.estimate_charts import Effect
from truthful.formatting import interval, share, to_within
from truthful.release import Release
from truthful.release.release import Coefficient, Predictions
from truthful.study import Study
from truthful.study.features import AsGiven, Levels, Numeric

INTERACTING = (
    "Features that interact with the one that differs are in their middle. With ×, it is by how much the first "
    "difference changes over the second."
)
NOT_ESTIMABLE = "Odds ratios are not estimable from what was released."

Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class EstimateTable:
    """Estimates, each with the ends of its interval; `first` is what the first column names."""

    title: str
    first: str
    rows: tuple[Row, ...]


def coefficients_table(release: Release) -> EstimateTable:
    """Coefficients as they are published."""
    rows = tuple((row.name, *interval(row.value, row.low, row.high)) for row in release.coefficients)
    levels = "; levels against the mean of all" if any("levels" in one for one in release.features) else ""
    return EstimateTable(f"Coefficients, per unit of each feature{levels}", "Coefficient", rows)


# Shares of yes, and mean ratings


def measure(study: Study) -> str:
    """What is estimated of people."""
    return "share of yes" if study.kind == "yes-no" else "mean rating"


def everybody(release: Release, study: Study) -> tuple[float, float, float]:
    """The share of everybody, or the mean rating, and the ends of its interval, cut to what can be."""
    (row,) = release.shares or ()
    least, most = study.response.low, study.response.high
    value, low, high = (min(max(end, least), most) for end in (row.value, row.low, row.high))
    return value, low, high


def _write_everybody(release: Release, study: Study) -> tuple[str, str, str]:
    value, low, high = everybody(release, study)
    if study.kind != "yes-no":
        return interval(value, low, high)
    width = high - low
    return share(value, width), share(low, width), share(high, width)


def share_sentence(release: Release, study: Study) -> str:
    """What was found of yes or no, or of ratings."""
    value, low, high = _write_everybody(release, study)
    if study.kind == "yes-no":
        return f"{value} say yes, between {low} and {high}."
    ends = f"from {study.response.low:g} to {study.response.high:g}"
    return f"The mean rating is {value}, between {low} and {high}, on the scale {ends}."


def share_tables(release: Release, study: Study) -> tuple[EstimateTable, ...]:
    """Shares, then differences between people, then odds ratios where there are any."""
    of_all = ("everybody", *_write_everybody(release, study))
    found = [EstimateTable(f"{measure(study).capitalize()}, {study.response.name}", "Of", (of_all,))]
    if study.features:
        found.append(differences_table(release, study))
    if release.odds_ratios is not None:
        rows = differences(release.odds_ratios, study)
        found.append(EstimateTable("Odds ratios of yes", "Between", _rows(rows)))
    return tuple(found)


def lacks_odds(release: Release, study: Study) -> bool:
    """Whether odds ratios should be there, and could not be estimated."""
    return study.kind == "yes-no" and bool(study.features) and release.odds_ratios is None


def differences_title(study: Study) -> str:
    """What differs."""
    if study.shares is None:
        return f"Differences in {study.response.name}"
    return f"Differences in the {measure(study)}{', percentage points' if study.kind == 'yes-no' else ''}"


def differences_table(release: Release, study: Study) -> EstimateTable:
    """What is different between people, the same way for every kind of answer."""
    rows = differences(release.differences or (), study, in_points=study.kind == "yes-no")
    return EstimateTable(differences_title(study), "Difference", _rows(rows))


def explain_interactions(study: Study) -> str:
    """What is meant by differences of features that interact, if any do."""
    return INTERACTING if study.declared.interactions else ""


def differences(rows: Sequence[Coefficient], study: Study, in_points: bool = False) -> tuple[Effect, ...]:
    """By what they are between: the ends of a range, a level and the reference."""
    names, unit = difference_labels(study), 100 if in_points else 1
    return tuple(Effect(names[row.name], unit * row.value, unit * row.low, unit * row.high) for row in rows)


def difference_labels(study: Study, in_words: bool = True) -> dict[str, str]:
    """What each difference is between, by its name; without words, signs that every language has."""
    each = {
        column.name: _label_levels(column, in_words)
        if isinstance(column, Levels)
        else [(column.name, _label_number(column) if in_words else column.name)]
        for column in study.declared.encoding.features
    }
    labels = {name: label for some in each.values() for name, label in some}
    for product in study.declared.encoding.products:
        for one, label in each[product.first.name]:
            labels |= {f"{one}:{other}": f"{label} × {by}" for other, by in each[product.second.name]}
    return labels


def _label_number(column: Numeric) -> str:
    if isinstance(column, AsGiven):
        return f"{column.name}, 1 more"
    return f"{column.name}, from {column.low:,g} to {column.high:,g}"


def _label_levels(column: Levels, in_words: bool) -> list[tuple[str, str]]:
    reference = column.reference or column.levels[0]
    joint = ", not " if in_words else " − "
    return [
        (f"{column.name}={level}", f"{column.name}: {level}{joint}{reference}")
        for level in column.levels
        if level != reference
    ]


def _rows(effects: Sequence[Effect]) -> tuple[Row, ...]:
    return tuple((row.label, *interval(row.value, row.low, row.high)) for row in effects)


# Where people were asked what the others will say


def averages_sentence(found: Predictions) -> str:
    """What was found of numbers."""
    value, low, high = interval(found.answer.value, found.answer.low, found.answer.high)
    predicted, *_ = interval(found.prediction.value, found.prediction.low, found.prediction.high)
    return (
        f"The average answer is {value}, between {low} and {high}; people predicted {predicted} on average."
    )


def averages_table(found: Predictions, study: Study) -> EstimateTable:
    """Answers and predictions with their intervals, and what people expected before they knew their own answers."""
    rows = _rows(averages(found))
    if found.centre is not None:
        width = found.prediction.high - found.prediction.low
        rows += (("expected beforehand", to_within(found.centre, width), "", ""),)
    return EstimateTable(f"Averages, {average_name(study)}", "Average of", rows)


def averages(found: Predictions) -> tuple[Effect, ...]:
    """What people answered and predicted on average."""
    named = ("answers", found.answer), ("predictions", found.prediction)
    return tuple(Effect(name, row.value, row.low, row.high) for name, row in named)


def average_name(study: Study) -> str:
    """What is averaged, in its unit."""
    return "percent of yes" if study.kind == "yes-no" else study.response.name

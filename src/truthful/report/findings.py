"""Published estimates in words, as effects that can be compared, and in the rows of tables: for pages and terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from truthful.charts.estimate_charts import Effect
from truthful.formatting import share, to_within
from truthful.release import AnyRelease, Release
from truthful.release.release import Coefficient
from truthful.study import Study

NOT_ESTIMABLE = "Odds ratios are not estimable from what was released."

Row = tuple[str, str, str, str]


@dataclass(frozen=True)
class Found:
    """A table of estimates, each with the ends of its interval."""

    title: str
    first: str
    """What the first column names."""
    rows: tuple[Row, ...]


def effects(release: AnyRelease, study: Study) -> tuple[Effect, ...]:
    """What the step from a feature's least value to its greatest does, and what each level does.

    A level's effect is relative to the mean of all levels. Without declared ranges (the unit ball), the step is 1. The
    intercept is no effect.
    """
    steps = {
        feature.name: (feature.low, feature.high) for feature in study.features if feature.levels is None
    }
    levels = {
        f"{feature.name}={level}": f"{feature.name}: {level}"
        for feature in study.features
        for level in feature.levels or ()
    }
    found = []
    for row in release.coefficients:
        label, step = levels.get(row.name, row.name), 1.0
        if row.name in steps:
            low, high = steps[row.name]
            step = 1.0 if low is None or high is None else high - low
            ends = "1 more" if low is None or high is None else f"from {low:,g} to {high:,g}"
            label = f"{row.name}, {ends}"
        elif row.name not in levels:
            continue
        found.append(Effect(label, row.value * step, row.low * step, row.high * step))
    return tuple(found)


def measure(study: Study) -> str:
    """What is estimated of people."""
    return "share of yes" if study.kind == "yes-no" else "mean rating"


def answer(release: Release, study: Study) -> str:
    """What was found, in a sentence."""
    value, low, high = everybody(release, study)
    width = high - low
    if study.kind == "yes-no":
        return f"{share(value, width)} say yes, between {share(low, width)} and {share(high, width)}."
    value_told, low_told, high_told = (to_within(end, width) for end in (value, low, high))
    ends = f"from {study.response.low:g} to {study.response.high:g}"
    return f"The mean rating is {value_told}, between {low_told} and {high_told}, on the scale {ends}."


def tables(release: Release, study: Study) -> tuple[Found, ...]:
    """Shares, then differences between people, then odds ratios where there are any."""
    what = measure(study)
    found = [Found(f"{what.capitalize()}, {study.response.name}", "Of", (_everybody_row(release, study),))]
    if study.features:
        points = ", percentage points" if study.kind == "yes-no" else ""
        rows = differences(release.differences or (), study, in_points=study.kind == "yes-no")
        found.append(Found(f"Differences in the {what}{points}", "Difference", _rows(rows)))
    if release.odds_ratios is not None:
        found.append(Found("Odds ratios of yes", "Between", _rows(differences(release.odds_ratios, study))))
    return tuple(found)


def without_odds(release: Release, study: Study) -> bool:
    """Whether odds ratios should be there, and could not be estimated."""
    return study.kind == "yes-no" and bool(study.features) and release.odds_ratios is None


def differences(rows: Sequence[Coefficient], study: Study, in_points: bool = False) -> tuple[Effect, ...]:
    """By what they are between: the ends of a range, a level and the first one."""
    names = {}
    for feature in study.features:
        if feature.levels is None:
            names[feature.name] = f"{feature.name}, from {feature.low:,g} to {feature.high:,g}"
        for level in (feature.levels or ())[1:]:
            names[f"{feature.name}={level}"] = f"{feature.name}: {level}, not {(feature.levels or ())[0]}"
    unit = 100 if in_points else 1
    return tuple(Effect(names[row.name], unit * row.value, unit * row.low, unit * row.high) for row in rows)


def everybody(release: Release, study: Study) -> tuple[float, float, float]:
    """The share of everybody, or the mean rating, and the ends of its interval, cut to what can be."""
    (row,) = release.shares or ()
    least, most = study.response.low, study.response.high
    value, low, high = (min(max(end, least), most) for end in (row.value, row.low, row.high))
    return value, low, high


def _everybody_row(release: Release, study: Study) -> Row:
    ends = everybody(release, study)
    width = ends[2] - ends[1]
    value, low, high = (
        share(end, width) if study.kind == "yes-no" else to_within(end, width) for end in ends
    )
    return "everybody", value, low, high


def _rows(effects: Sequence[Effect]) -> tuple[Row, ...]:
    return tuple(
        (row.label, to_within(row.value, width), to_within(row.low, width), to_within(row.high, width))
        for row in effects
        for width in [row.high - row.low]
    )

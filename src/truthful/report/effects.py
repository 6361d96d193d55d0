"""Coefficients as effects that can be compared: all in units of the response, each over its feature's own range."""

from __future__ import annotations

from truthful.charts import Effect
from truthful.release import AnyRelease
from truthful.study import Study


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

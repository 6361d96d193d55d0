"""A bonus that depends on what the others say, as somebody who answers yes or no, or with a rating, is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.intake import read_features
from truthful.plan import Plan
from truthful.service.rosters import feature_columns
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

#: The lowest and the highest answer, normalised: no and yes.
ENDS = (-1.0, 1.0)
#: The size of the chart, and what is left free around its lines.
WIDTH, HEIGHT, FREE = 320, 160, 8


@dataclass(frozen=True)
class Bonus:
    """What the lowest and the highest answer pay somebody, by the share that the others' answers come to.

    `possible` are the shares that were thought possible for people like her, and beyond `plausible`, if anything is,
    everybody is paid `same`, whatever she says. `slope` is what a share that is higher by 1 adds to the highest answer,
    within `width` of the switch point; `middle` times half of the bonus is what the rating in the middle has more.
    """

    flat: float
    most: float
    switch: float
    width: float
    same: float
    slope: float
    middle: float
    possible: tuple[float, float]
    plausible: tuple[float, float] | None
    rows: tuple[tuple[float, float, float], ...]
    lines: tuple[str, str]
    """The chart: both as points of a polyline."""
    crossing: tuple[float, float]

    @property
    def view(self) -> str:
        """The chart's own coordinates."""
        return f"0 0 {WIDTH} {HEIGHT}"


def bonus_of(plan: Plan, features: Mapping[str, Any]) -> Bonus | None:
    """The bonus of somebody with these features; None where answers are numbers."""
    mechanism, beliefs = plan.share_mechanism, plan.study.shares
    if mechanism is None or beliefs is None:
        return None
    return _bonus(mechanism, beliefs, features_of(plan.study, features))


def bonus_at(mechanism: ShareRelease, beliefs: ShareBeliefs, x: tuple[float, ...]) -> Bonus:
    """The same, of normalised features."""
    return _bonus(mechanism, beliefs, np.array([x]))


def features_of(study: Study, features: Mapping[str, Any]) -> Floats:
    """One person's features, normalised."""
    if not study.features:
        return study.normalise({}, 1)
    return read_features(study, pa.table(feature_columns(study, [features])))


def _bonus(mechanism: ShareRelease, beliefs: ShareBeliefs, x: Floats) -> Bonus:
    expected = beliefs.expects(x)
    switch, width, low, high = (
        float(values[0])
        for values in (expected.switch, expected.width(mechanism.margin), expected.low, expected.high)
    )

    def pays(share: float) -> tuple[float, float]:
        """What the lowest and the highest answer pay at this share."""
        lowest, highest = (
            float(mechanism.steps(beliefs, x, np.array([y]), np.array([share]))[2][0]) for y in ENDS
        )
        return lowest, highest

    tolerance = mechanism.tolerance
    plausible = None if np.isinf(tolerance) else (low - tolerance, high + tolerance)
    start, end = (0.0, 1.0) if plausible is None else (max(0.0, plausible[0]), min(1.0, plausible[1]))
    most = mechanism.flat + mechanism.bonus
    corners = sorted({start, end, *(min(max(switch + side * width, start), end) for side in ENDS)})

    def at(share: float, paid: float) -> tuple[float, float]:
        """A place in the chart."""
        across = (share - start) / (end - start)
        up = (paid - mechanism.flat) / mechanism.bonus if mechanism.bonus else 0.5
        return (
            round(FREE + across * (WIDTH - 2 * FREE), 1),
            round(HEIGHT - FREE - up * (HEIGHT - 2 * FREE), 1),
        )

    points = [[at(share, pays(share)[k]) for share in corners] for k in (0, 1)]
    lowest, highest = (" ".join(f"{across},{down}" for across, down in line) for line in points)
    same = mechanism.flat + mechanism.bonus / 2
    return Bonus(
        flat=mechanism.flat,
        most=most,
        switch=switch,
        width=width,
        same=same,
        slope=mechanism.bonus / (2 * width),
        middle=float(expected.advantage[0]) / (2 * width),
        possible=(low, high),
        plausible=plausible,
        rows=tuple((share, *pays(share)) for share in (low, switch, high)),
        lines=(lowest, highest),
        crossing=at(switch, same),
    )

"""The best report: a search over everything a player can say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truthful.check import Floats

FIRST, ZOOMED, ROUNDS = 65, 9, 12
#: Reports of each player that a search looks at.
LOOKS = FIRST + ZOOMED * ROUNDS


def best_reports(own: Callable[[Floats], Floats], expected: Floats, truth: Floats, bound: float) -> Floats:
    """For each player, the report in [−Y, Y] that is paid most, to Y·10⁻⁸.

    `own` gives all players' own predictions q(ŷ) for a report each, `expected` is what each expects of her peers, p̄.
    Her expected payment is a constant + b(2p̄q − q²), so the best report has its q nearest to p̄, whatever a, b and
    the rule are. She lies only if that pays: of reports that pay the same as the truth the truth is chosen.
    """

    def loss(reports: Floats) -> Floats:
        return np.asarray((own(reports) - expected) ** 2)

    best = least(loss, np.full(len(truth), -bound), np.full(len(truth), bound))
    return np.where(loss(best) < loss(truth), best, truth)


def least(loss: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """For each player, the report between low and high of least loss: on a grid, then on ever finer ones about it."""
    best, step = (low + high) / 2, (high - low) / 2
    for points in (FIRST, *(ZOOMED,) * ROUNDS):
        grid = np.clip(best + step * np.linspace(-1, 1, points)[:, None], low, high)
        losses = np.stack([loss(reports) for reports in grid])
        best = np.take_along_axis(grid, losses.argmin(axis=0)[None], 0)[0]
        step = step * 2 / (points - 1)
    return best

"""The best lie there is in a simulation, and what it gains: sought in one half of the studies, tried in the other.

A lie that moves the own prediction from q to q + Δ gains b(2(p̄ − q)Δ − Δ²), so where peers predict δ more than q on
average, the best lie is Δ = δ. It is sought among cells of players, by features and answers. A cell chosen because δ
looks large there looks larger than it is; so δ is measured on the studies that had no part in the choice, and then the
other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truthful.check import Floats
from truthful.simulation.found import Found, ratio
from truthful.simulation.run import Run


@dataclass(frozen=True)
class BestLie:
    """δ, how far peers' predictions lie from q where that is furthest, and what a lie of that size gains per b."""

    gap: Found
    gain: Found


def best_lie(runs: Sequence[Run]) -> BestLie:
    """Search and trial, with the studies' parts exchanged once. Needs four studies; else nothing can be said."""
    players = np.array([run.cell_players for run in runs])
    surplus = np.array([run.cell_surplus for run in runs])
    folds = [_fold(players, surplus, start) for start in (0, 1)] if len(runs) >= 4 else []
    if not folds:
        unknown = Found(math.nan, math.nan)
        return BestLie(unknown, unknown)
    gaps = [Found(math.copysign(1.0, move) * found.value, found.error) for move, found in folds]
    gains = [Found(2 * move * found.value - move**2, 2 * abs(move) * found.error) for move, found in folds]
    return BestLie(_mean(gaps), _mean(gains))


def _fold(players: Floats, surplus: Floats, start: int) -> tuple[float, Found]:
    """The best move of q by every second study from `start` on, and δ in the same cell by the others."""
    sought, tried = slice(start, None, 2), slice(1 - start, None, 2)
    # A cell that hardly anybody is in says nothing.
    enough = (players[sought].sum(0) >= 100) & (players[tried].sum(0) >= 100)
    if not enough.any():
        return 0.0, Found(math.nan, math.nan)
    means = np.where(enough, surplus[sought].sum(0) / np.maximum(players[sought].sum(0), 1), 0.0)
    cell = int(np.abs(means).argmax())
    return float(means[cell]), ratio(surplus[tried, cell], players[tried, cell])


def _mean(two: Sequence[Found]) -> Found:
    """Of two independent observations."""
    return Found(sum(f.value for f in two) / 2, math.hypot(*(f.error for f in two)) / 2)

"""The best lie there is in a simulation, and what it gains: sought in one half of the studies, tried in the other.

A lie that moves the own prediction from q to q + Δ gains b(2(p̄ − q)Δ − Δ²), so where peers predict δ more than q on
average, the best lie is Δ = δ. It is sought among cells of players, by features and answers. A cell chosen because δ
looks large there looks larger than it is; so δ is measured on the studies that had no part in the choice. The parts are
not exchanged for a second look: the two would share their luck, and their mean look surer than it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truthful.simulation.found import UNKNOWN, Found, enough_people, ratio
from truthful.simulation.run import Run

#: Of fewer studies a standard error is not to be had.
FEWEST = 30


@dataclass(frozen=True)
class BestLie:
    """δ, how far peers' predictions lie from q where that is furthest, and what a lie of that size gains per b."""

    gap: Found
    gain: Found


def best_lie(runs: Sequence[Run]) -> BestLie:
    """The best move of q by every second study, and δ in the same cell by the others."""
    players = np.array([run.cell_players for run in runs])
    surplus = np.array([run.cell_surplus for run in runs])
    sought, tried = slice(0, None, 2), slice(1, None, 2)
    enough = enough_people(players[sought]) & enough_people(players[tried])
    if len(runs) < FEWEST or not enough.any():
        return BestLie(UNKNOWN, UNKNOWN)
    means = np.where(enough, surplus[sought].sum(0) / np.maximum(players[sought].sum(0), 1), 0.0)
    cell = int(np.abs(means).argmax())
    move, found = float(means[cell]), ratio(surplus[tried, cell], players[tried, cell])
    return BestLie(
        gap=Found(math.copysign(1.0, move) * found.value, found.error),
        gain=Found(2 * move * found.value - move**2, 2 * abs(move) * found.error),
    )

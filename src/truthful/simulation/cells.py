"""Cells of people who are alike: by main feature and its sign, and by sign and size of the answer."""

from __future__ import annotations

import numba
import numpy as np

from truthful.agents import Players
from truthful.check import Floats
from truthful.simulation.sums import Kinds


def cells_of(players: Players, intercept: bool, typical_answer: float) -> Kinds:
    """The cell of each player, one of 8 for each feature."""
    columns, cells = np.ascontiguousarray(players.x.T), np.empty(len(players.y), np.uint16)
    # An intercept is the same for all, and would be everybody's main feature.
    _place(columns, players.y, int(intercept and len(columns) > 1), typical_answer, cells)
    return cells


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _place(columns: Floats, y: Floats, start: int, typical: float, cells: Kinds) -> None:
    largest = columns[start].copy()
    cells[:] = 0
    for a in range(start + 1, len(columns)):
        column = columns[a]
        for i in range(len(y)):
            more = abs(column[i]) > abs(largest[i])
            largest[i] = column[i] if more else largest[i]
            cells[i] = a - start if more else cells[i]
    for i in range(len(y)):
        cells[i] = ((cells[i] * 2 + (largest[i] > 0)) * 2 + (y[i] > 0)) * 2 + (abs(y[i]) > typical)

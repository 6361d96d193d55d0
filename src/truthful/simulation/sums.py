"""Sums over players of one kind, compiled."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.simulation.halves import Order

#: What kind each player is of.
Kinds = npt.NDArray[np.uint16]


def sums(order: Order, kinds: Kinds, count: int, *values: Floats) -> Floats:
    """How many players there are of each of so many kinds, and the sum of each of three values over them.

    The values stand in order: those of player order[i] at i.
    """
    totals = np.zeros((count, 1 + len(values)))
    _add(order, kinds, *values, totals)
    return totals.T


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _add(order: Order, kinds: Kinds, one: Floats, two: Floats, three: Floats, totals: Floats) -> None:
    for i in range(len(order)):
        row = totals[kinds[order[i]]]
        row[0] += 1.0
        row[1] += one[i]
        row[2] += two[i]
        row[3] += three[i]

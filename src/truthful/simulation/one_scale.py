"""A table of own predictions for one scale of the peer noise, out of a table for many: twice as fast.

Rows are laid out as beliefs.packed says: of the products x^a s^k y^b with powers up to 7 they hold those that have
a + k ≤ 8 if b < 4, then those that have a + k ≤ 5 or k = 0 if not; a first, then k, then b.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from truthful.beliefs.cells import ORDER
from truthful.beliefs.packed import HALF, PLANE
from truthful.beliefs.scales import SCALE_ORDER, ScaleAxis
from truthful.beliefs.table import PredictionTable
from truthful.check import Floats

#: Scales this close to each other, relatively, are one.
EQUAL = 1e-12

_A, _K = np.indices((ORDER, SCALE_ORDER))
_LOW, _HIGH = np.nonzero(_A + _K <= 8), np.nonzero((_A + _K <= 5) | (_K == 0))


def table_at(table: PredictionTable, scale: float) -> PredictionTable:
    """The table for a half whose players all have this scale; the table itself, where it does not reach."""
    axis, cells = table.axis, len(table.coefficients) // table.axis.pieces
    if axis.order == 1 or not axis.lowest <= scale <= axis.highest:
        return table
    place = (math.log(scale) - axis.origin) * axis.step
    piece = min(max(int(place), 0), axis.pieces - 1)
    rows = table.coefficients[piece * cells : (piece + 1) * cells]
    ends = scale * (1 - EQUAL), scale * (1 + EQUAL)
    one = ScaleAxis(1, 1, np.array([scale]), *ends, origin=0.0, step=0.0, error=axis.error)
    return replace(table, axis=one, coefficients=_at(rows, 2 * (place - piece) - 1))


def _at(rows: Floats, s: float) -> Floats:
    """The powers of s summed up; s in [−1, 1] is the place in the piece."""
    powers, cut, halves = s ** np.arange(SCALE_ORDER), len(_LOW[0]) * HALF, []
    for (a, k), part in ((_LOW, rows[:, :cut]), (_HIGH, rows[:, cut:])):
        terms = part.reshape((len(rows), len(k), HALF)) * powers[k, None]
        halves.append(np.add.reduceat(terms, np.searchsorted(a, np.arange(ORDER)), axis=1))
    return np.concatenate(halves, axis=-1).reshape((len(rows), PLANE))

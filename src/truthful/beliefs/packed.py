"""What a table reads for one cell: its polynomial in (x, y), or in (x, y) and the scale s.

Chebyshev coefficients of analytic functions fall off with the sum of their degrees. So of the 512 products x^a s^k y^b
with powers up to 7 only half are kept: those that have a + k ≤ 8 if b < 4, and a + k ≤ 5 or k = 0 if not. What that
costs is at most the sum of the coefficients that are dropped, which falls as the pieces of the scale axis get shorter.

Where clipping hardly ever sets in, the scale hardly matters: a cell in which all of it matters by at most 1e-10 is
steady, and has a polynomial in (x, y) as well, the mean over the pieces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from truthful.beliefs.cells import OPEN, ORDER, Integers
from truthful.beliefs.polynomials import chebyshev_coefficients, chebyshev_nodes, from_chebyshev, times
from truthful.beliefs.scales import SCALE_ORDER, ScaleAxis
from truthful.check import Floats

HALF = ORDER // 2
_DEGREES = np.add.outer(np.arange(ORDER), np.arange(SCALE_ORDER))
_LOW, _HIGH = _DEGREES <= 8, (_DEGREES <= 5) | (np.arange(SCALE_ORDER) == 0)
_KEPT = np.stack([_LOW] * HALF + [_HIGH] * HALF, axis=-1)

PLANE = ORDER**2
WEDGE = int(_KEPT.sum())
_STEADY = 1e-10


class Packed(NamedTuple):
    """One row of `coefficients` for each piece of the scale axis and cell; row steady[cell] of `planes` instead if the
    cell is steady, OPEN if not; and what was dropped, at most."""

    coefficients: Floats
    planes: Floats
    steady: Integers
    dropped: float


def packed(planes: Floats, axis: ScaleAxis) -> Packed:
    """What a table has of its cells' polynomials.

    With one scale a row has the powers of x, for each those of y. With more it has the powers of x, for each those of s
    that are kept, for each the first four of y; and then the same for the last four of y.
    """
    if axis.order == 1:
        each = np.ascontiguousarray(np.moveaxis(planes, -1, 0)).reshape((-1, PLANE))
        return Packed(each, np.empty((0, PLANE)), np.full(len(planes), OPEN), 0.0)
    powers = np.vander(chebyshev_nodes(ORDER), ORDER, increasing=True)
    values = times(powers, times(powers, planes, 1), 2)
    values = values.reshape((*values.shape[:3], axis.pieces, axis.order))
    # From (cell, x, y, piece, s) to (piece, cell, x, s, y).
    coefficients = np.transpose(values, (3, 0, 1, 4, 2))
    for direction in (2, 3, 4):
        coefficients = chebyshev_coefficients(coefficients, direction)
    more = SCALE_ORDER - axis.order
    coefficients = np.pad(coefficients, ((0, 0), (0, 0), (0, 0), (0, more), (0, 0)))
    dropped = np.abs(coefficients[:, :, ~_KEPT]).sum(axis=-1).max(axis=0)
    means = coefficients[:, :, :, :1].mean(axis=0)
    off = np.concatenate([coefficients[:, :, :, :1] - means, coefficients[:, :, :, 1:]], axis=3)
    unsteady = np.abs(off).sum(axis=(2, 3, 4)).max(axis=0)
    is_steady = unsteady <= _STEADY
    steady = np.where(is_steady, np.cumsum(is_steady) - 1, OPEN)
    flat = from_chebyshev(from_chebyshev(means[is_steady, :, 0], 1), 2)
    coefficients = coefficients * _KEPT
    for direction in (2, 3, 4):
        coefficients = from_chebyshev(coefficients, direction)
    rows = axis.pieces * len(planes)
    low, high = coefficients[:, :, _LOW, :HALF], coefficients[:, :, _HIGH, HALF:]
    return Packed(
        np.hstack([low.reshape((rows, _LOW.sum() * HALF)), high.reshape((rows, _HIGH.sum() * HALF))]),
        flat.reshape((-1, PLANE)),
        steady,
        float(np.where(is_steady, unsteady, dropped).max(initial=0.0)),
    )

"""What a table reads for one cell: its polynomial in (x, y), or in (x, y) and the scale s.

Chebyshev coefficients of analytic functions fall off with the sum of their degrees. So of the 512 products x^a s^k y^b
with powers up to 7 only half are kept: those that have a + k ≤ 8 if b < 4, and a + k ≤ 5 or k = 0 if not. What that
costs is at most the sum of the coefficients that are dropped, which falls as the pieces of the scale axis get shorter.
"""

from __future__ import annotations

import numpy as np

from truthful.beliefs.cells import ORDER
from truthful.beliefs.polynomials import chebyshev_coefficients, chebyshev_nodes, from_chebyshev, times
from truthful.beliefs.scales import SCALE_ORDER, ScaleAxis
from truthful.check import Floats

HALF = ORDER // 2
_DEGREES = np.add.outer(np.arange(ORDER), np.arange(SCALE_ORDER))
_LOW, _HIGH = _DEGREES <= 8, (_DEGREES <= 5) | (np.arange(SCALE_ORDER) == 0)
_KEPT = np.stack([_LOW] * HALF + [_HIGH] * HALF, axis=-1)

PLANE = ORDER**2
WEDGE = int(_KEPT.sum())


def packed(planes: Floats, axis: ScaleAxis) -> tuple[Floats, float]:
    """One row for each piece of the scale axis and cell, and what was dropped.

    With one scale a row has the powers of x, for each those of y. With more it has the powers of x, for each those of s
    that are kept, for each the first four of y; and then the same for the last four of y.
    """
    if axis.order == 1:
        return np.ascontiguousarray(np.moveaxis(planes, -1, 0)).reshape((-1, PLANE)), 0.0
    powers = np.vander(chebyshev_nodes(ORDER), ORDER, increasing=True)
    values = times(powers, times(powers, planes, 1), 2)
    values = values.reshape((*values.shape[:3], axis.pieces, SCALE_ORDER))
    # From (cell, x, y, piece, s) to (piece, cell, x, s, y).
    coefficients = np.transpose(values, (3, 0, 1, 4, 2))
    for direction in (2, 3, 4):
        coefficients = chebyshev_coefficients(coefficients, direction)
    dropped = float(np.abs(coefficients[:, :, ~_KEPT]).sum(axis=-1).max(initial=0.0))
    coefficients = coefficients * _KEPT
    for direction in (2, 3, 4):
        coefficients = from_chebyshev(coefficients, direction)
    rows = axis.pieces * len(planes)
    low, high = coefficients[:, :, _LOW, :HALF], coefficients[:, :, _HIGH, HALF:]
    return np.hstack(
        [low.reshape((rows, _LOW.sum() * HALF)), high.reshape((rows, _HIGH.sum() * HALF))]
    ), dropped

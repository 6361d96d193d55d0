"""From players to places in a table: region, cell and piece of the scale axis, and the coordinates there.

Loops over a block of players without branches or calls, so that they vectorise: two or three nanoseconds a player for
each. They round as written, so that a vectorised loop and its last few turns give the same bits, and nobody's result
depends on who stands beside her.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from truthful.beliefs.cells import OPEN, ROOTS, Integers
from truthful.beliefs.regions import MIDDLE, SHORT, UPPER, WHOLE
from truthful.check import Floats

Rows = npt.NDArray[np.int32]

_EXPONENT, _MANTISSA, _ONE = 52, (1 << 52) - 1, 1023 << 52
_SQUARES = ROOTS**2

F = TypeVar("F", bound=Callable[..., Any])
each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")


@each
def coordinates(
    r: Floats,
    y: Floats,
    R: float,
    M: float,
    region: Rows,
    X: Floats,
    Y: Floats,
    under_x: Floats,
    under_y: Floats,
) -> None:
    """Region and coordinates in the unit square, X / under_x and Y / under_y: the inverse of Region.support.

    Numerators and denominators, because a division here would be made once for every region. In `upper` the smallest ω
    is 0, which makes it a case of `short`. Players with r outside [0, 1] or y not finite get anything at all.
    """
    per_r, root_M, per_M = 1 / min(1.0, M / R), math.sqrt(M), 1 / math.sqrt(M)
    per_x = 1 + root_M / math.sqrt(max(R - M, 1e-300))
    for i in range(len(r)):
        reach, size = r[i] * R, abs(y[i])
        over = reach - M
        outside, near = over > 0, size <= abs(over)
        depth = math.sqrt(max(over, 0.0))
        stretch = math.sqrt(reach) if outside else 1.0
        edge = math.sqrt(max(over - size if near & outside else over + size, 0.0))
        above = math.sqrt(max(reach + M - size, 0.0)) * (stretch * per_M if outside else 1.0)
        X[i] = depth * per_x if outside else r[i] * per_r
        under_x[i] = depth + root_M if outside else 1.0
        Y[i] = (edge if outside else size) if near else edge * stretch - depth * above
        under_y[i] = (depth if outside else -over) if near else (edge + above) * stretch
        region[i] = (MIDDLE if near else SHORT) if outside else (WHOLE if near else UPPER)


@each
def roots_of(
    r: Floats, y: Floats, nowhere: int, row: Rows, X: Floats, Y: Floats, under_x: Floats, under_y: Floats
) -> None:
    """From the region to the root in it, X and Y the place in the root, in [0, 1]; `nowhere` if r or y is out of range.

    Only at r = M/R, y = 0 are both the numerator and the denominator of Y zero.
    """
    for i in range(len(r)):
        known = (r[i] >= 0) & (r[i] <= 1) & (abs(y[i]) < np.inf)
        ratio = Y[i] / under_y[i]
        x = ROOTS * min(X[i] / under_x[i], 1.0)
        y_ = ROOTS * min(max(ratio if under_y[i] > 0 else 0.0, 0.0), 1.0)
        a, b = min(math.floor(x), ROOTS - 1.0), min(math.floor(y_), ROOTS - 1.0)
        X[i], Y[i] = x - a if known else 0.0, y_ - b if known else 0.0
        row[i] = row[i] * _SQUARES + np.int32(ROOTS * a + b) if known else nowhere


@each
def roots_inside(
    r: Floats, y: Floats, R: float, M: float, nowhere: int, row: Rows, X: Floats, Y: Floats
) -> None:
    """`coordinates` and `roots_of` at once where R ≤ M: nobody is in `short` or `middle`, and X = r."""
    for i in range(len(r)):
        known = (r[i] >= 0) & (r[i] <= 1) & (abs(y[i]) < np.inf)
        reach, size = r[i] * R, abs(y[i])
        under = M - reach
        near = size <= under
        edge, above = math.sqrt(max(size - under, 0.0)), math.sqrt(max(reach + M - size, 0.0))
        share, whole = (size, under) if near else (edge, edge + above)
        ratio = share / whole if whole > 0 else 0.0
        x, y_ = ROOTS * r[i] if known else 0.0, ROOTS * min(ratio, 1.0) if known else 0.0
        a, b = min(math.floor(x), ROOTS - 1.0), min(math.floor(y_), ROOTS - 1.0)
        X[i], Y[i] = x - a, y_ - b
        place = WHOLE if near else UPPER
        row[i] = np.int32(ROOTS * a + b) + _SQUARES * place if known else nowhere


@each
def cells_of(row: Rows, X: Floats, Y: Floats, roots: Floats, kx: Floats, ky: Floats, first: Floats) -> None:
    """From the root to the cell, or OPEN; X and Y become the place in the cell, in [-1, 1]."""
    for i in range(len(row)):
        root = np.uint32(row[i])
        first[i], kx[i], ky[i] = roots[0, root], roots[1, root], roots[2, root]
    for i in range(len(row)):
        x, y = X[i] * kx[i], Y[i] * ky[i]
        a, b = min(math.floor(x), kx[i] - 1), min(math.floor(y), ky[i] - 1)
        X[i], Y[i] = 2 * (x - a) - 1, 2 * (y - b) - 1
        row[i] = np.int32(first[i] + (a * ky[i] + b) if first[i] != OPEN else OPEN)


@each
def known_scales(scale: Floats, lowest: float, highest: float, row: Rows) -> None:
    """OPEN where the scale is not the one of the table."""
    for i in range(len(row)):
        row[i] = row[i] if (lowest <= scale[i]) & (scale[i] <= highest) else OPEN


@each
def pieces_of(
    scale: Floats,
    lowest: float,
    highest: float,
    origin: float,
    step: float,
    pieces: int,
    cells: int,
    row: Rows,
) -> None:
    """From the cell to its row in the piece of the scale axis, `scale` the place in the piece; or OPEN.

    With s = 2^k m and z = (m - √2)/(m + √2), |z| < 0.172, log s = (k + 1/2) log 2 + 2 artanh z: to 2e-14 by its series.
    """
    half, root = math.log(2.0) / 2, math.sqrt(2.0)
    for i in range(len(row)):
        known = (row[i] >= 0) & (lowest <= scale[i]) & (scale[i] <= highest)
        bits = np.float64(scale[i]).view(np.int64)
        m = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
        z = (m - root) / (m + root)
        w = z * z
        series = (
            (((((w / 15 + 1 / 13) * w + 1 / 11) * w + 1 / 9) * w + 1 / 7) * w + 1 / 5) * w + 1 / 3
        ) * w + 1
        log = half * (2 * ((bits >> _EXPONENT) - 1023) + 1) + 2 * z * series
        t = (log - origin) * step if known else 0.0
        piece = min(max(math.floor(t), 0.0), pieces - 1.0)
        scale[i] = 2 * (t - piece) - 1
        row[i] = row[i] + np.int32(piece) * cells if known else OPEN


@each
def unpacked(roots: Integers) -> Floats:
    """The columns of `Cells.roots` as rows of numbers, with one more root at the end that is OPEN."""
    columns = np.ones((3, len(roots) + 1))
    columns[:, :-1] = roots.T
    columns[0, -1] = OPEN
    return columns

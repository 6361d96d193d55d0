"""The table's inner loop: from players to their places in the table, and through the polynomials there.

First loops over a block of players without branches or calls, so that they vectorise: two or three nanoseconds a player
for each of region, cell and piece of the scale axis. They round as written, so that a vectorised loop and its last few
turns give the same bits, and nobody's result depends on who stands beside her. Then the polynomials.

The layout of a table is told here too: compiled code is kept on disk until its own file changes, and does not see
changes in others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from truthful.check import Floats

#: The regions of truthful.beliefs.table.
WHOLE, UPPER, SHORT, MIDDLE = range(4)
#: Each is cut into so many roots squared; a polynomial has so many powers of each coordinate, and of the scale.
ROOTS, ORDER, SCALE_ORDER = 4, 8, 8
#: The number of no cell: players there are left to direct quadrature.
OPEN = -1

# Chebyshev coefficients of analytic functions fall off with the sum of their degrees. So of the 512 products
# x^a s^k y^b with powers up to 7 only half are kept: those with a + k ≤ 8 if b < 4, and a + k ≤ 5 or k = 0 if not.
HALF = ORDER // 2
_DEGREES = np.add.outer(np.arange(ORDER), np.arange(SCALE_ORDER))
LOW, HIGH = _DEGREES <= 8, (_DEGREES <= 5) | (np.arange(SCALE_ORDER) == 0)
KEPT = np.stack([LOW] * HALF + [HIGH] * HALF, axis=-1)
#: Coefficients of a cell for one scale, and for a piece of the scale axis.
PLANE, WEDGE = ORDER**2, int(KEPT.sum())

# One scale: what a block needs stays in the nearest caches. Many: a block has several players for most rows.
_BLOCK, _LARGE_BLOCK = 1024, 16384
_EXPONENT, _MANTISSA, _ONE = 52, (1 << 52) - 1, 1023 << 52
_SQUARES = ROOTS**2

Integers = npt.NDArray[np.int64]
Limits = tuple[float, float, float, float, float, float]
Rows = npt.NDArray[np.int32]

F = TypeVar("F", bound=Callable[..., Any])
each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")
# The polynomials of one player may use fused multiply-adds: every player takes the same way through them.
_fused: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


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
def two_scales(
    scale: Floats, lowest: float, highest: float, first: float, second: float, cells: int, row: Rows
) -> None:
    """Rows of the first half for scales in [lowest, first], of the second for [second, highest], OPEN for others."""
    for i in range(len(row)):
        known = (lowest <= scale[i]) & (scale[i] <= highest) & ((scale[i] <= first) | (scale[i] >= second))
        later = row[i] + (cells if scale[i] >= second else 0)
        row[i] = later if known & (row[i] >= 0) else OPEN


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


@_fused
def _in_y(v: Floats, y: float) -> float:
    """Σ v[b] y^b, by Estrin's rule."""
    y2 = y * y
    low = (v[0] + v[1] * y) + (v[2] + v[3] * y) * y2
    return float(low + ((v[4] + v[5] * y) + (v[6] + v[7] * y) * y2) * (y2 * y2))


@_fused
def _one_scale(row: Rows, X: Floats, Y: Floats, coefficients: Floats, mean: Floats) -> None:
    """Σ w[a, b] x^a y^b, by Horner's rule in x for all b at once: a loop over b that becomes one vector.

    It does so only if its length is not known beforehand; if it were, the loop would be unrolled to single numbers.
    """
    v = np.empty(ORDER)
    lanes = ORDER * (coefficients.shape[1] // PLANE)
    for i in range(len(row)):
        if row[i] >= 0:
            w, x = coefficients[np.uint32(row[i])], X[i]
            for b in range(lanes):
                high = ((w[56 + b] * x + w[48 + b]) * x + w[40 + b]) * x + w[32 + b]
                v[b] = (((high * x + w[24 + b]) * x + w[16 + b]) * x + w[8 + b]) * x + w[b]
            mean[i] = _in_y(v, Y[i])


@_fused
def _in_s(w: Floats, start: int, powers: int, s: float) -> float:
    """Σ w[k] s^k by Horner's rule, the w[k] being half a row of y's powers apart."""
    total = w[start + HALF * (powers - 1)]
    for k in range(powers - 2, -1, -1):
        total = total * s + w[start + HALF * k]
    return float(total)


@_fused
def _many_scales(
    players: Integers,
    row: Rows,
    X: Floats,
    Y: Floats,
    S: Floats,
    coefficients: Floats,
    sequence: Integers,
    mean: Floats,
) -> None:
    """Σ w[a, k, b] x^a s^k y^b over the powers that are kept, likewise: first for b < 4, then for the others.

    Row and scale are those of the players of a list. Players of one row are answered one after the other: its two
    kilobytes are read once a block.
    """
    v = np.empty(ORDER)
    lanes = HALF * (coefficients.shape[1] // WEDGE)
    for j in sequence:
        if row[j] >= 0:
            i = players[j]
            w, x, s = coefficients[np.uint32(row[j])], X[i], S[j]
            for b in range(lanes):
                a6 = _in_s(w, 164 + b, 2, s) * x + _in_s(w, 152 + b, 3, s)
                a4 = (a6 * x + _in_s(w, 136 + b, 4, s)) * x + _in_s(w, 116 + b, 5, s)
                a2 = (a4 * x + _in_s(w, 92 + b, 6, s)) * x + _in_s(w, 64 + b, 7, s)
                v[b] = (a2 * x + _in_s(w, 32 + b, 8, s)) * x + _in_s(w, b, 8, s)
            for b in range(lanes):
                a4 = ((w[260 + b] * x + w[256 + b]) * x + w[252 + b]) * x + _in_s(w, 244 + b, 2, s)
                a2 = (a4 * x + _in_s(w, 232 + b, 3, s)) * x + _in_s(w, 216 + b, 4, s)
                v[HALF + b] = (a2 * x + _in_s(w, 196 + b, 5, s)) * x + _in_s(w, 172 + b, 6, s)
            mean[i] = _in_y(v, Y[i])


@each
def _split(row: Rows, steady: Integers, plane: Rows, players: Integers) -> int:
    """The plane of every player in a steady cell, OPEN for others; lists those that are in another cell."""
    count = 0
    for i in range(len(row)):
        plane[i] = steady[np.uint32(row[i])] if row[i] >= 0 else OPEN
        players[count] = i  # without a branch: who is in a steady cell is overwritten
        count += (row[i] >= 0) & (plane[i] < 0)
    return count


@each
def _ordered(row: Rows, rows: int) -> Integers:
    """The players in the order of their rows, by counting sort."""
    starts, sequence = np.zeros(rows + 2, np.int64), np.empty(len(row), np.int64)
    for i in range(len(row)):
        starts[row[i] + 2] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for i in range(len(row)):
        sequence[starts[row[i] + 1]] = i
        starts[row[i] + 1] += 1
    return sequence


@each
def _finish(r: Floats, y: Floats, row: Rows, mean: Floats, out: Floats) -> int:
    """q = ±r E[ψ(u)], 0 where r = 0, NaN where there is no answer; returns how many those are."""
    left = 0
    for i in range(len(row)):
        nothing = (r[i] == 0) & (abs(y[i]) < np.inf)
        q = math.copysign(r[i], y[i]) * mean[i] if row[i] >= 0 else math.nan
        out[i] = 0.0 if nothing else q
        left += 1 if (row[i] < 0) & (not nothing) else 0
    return left


@each
def _by_scale(
    row: Rows,
    X: Floats,
    Y: Floats,
    S: Floats,
    limits: Limits,
    pieces: int,
    coefficients: Floats,
    planes: Floats,
    steady: Integers,
    plane: Rows,
    players: Integers,
    mean: Floats,
) -> None:
    """The polynomials where there are many scales; rows of scales out of range become OPEN."""
    _, _, lowest, highest, origin, step = limits
    known_scales(S, lowest, highest, row)
    count = _split(row, steady, plane, players)
    _one_scale(plane, X, Y, planes, mean)
    if count == 0:
        return
    for j in range(count):  # in order, so that nothing is overwritten that is still to be read
        S[j], plane[j] = S[players[j]], row[players[j]]
    pieces_of(S[:count], lowest, highest, origin, step, pieces, len(steady), plane[:count])
    sequence = _ordered(plane[:count], len(coefficients))
    _many_scales(players, plane[:count], X, Y, S, coefficients, sequence, mean)


@each
def evaluate(
    r: Floats,
    y: Floats,
    scale: Floats,
    out: Floats,
    limits: Limits,
    pieces: int,
    roots: Integers,
    coefficients: Floats,
    planes: Floats,
    steady: Integers,
) -> int:
    """q of every player into `out`, NaN where the table has no answer; returns how many those are.

    `scale` has one entry for each player, or one for all. `limits` are R, M and the scale axis's lowest, highest,
    origin and step; roots are as in Cells, the rest as in Packed.
    """
    R, M, lowest, highest, origin, step = limits
    many = coefficients.shape[1] == WEDGE
    block = max(1, min(len(r), _LARGE_BLOCK if many & (2 * len(planes) < len(steady)) else _BLOCK))
    rows, scratch = np.empty((2, block), np.int32), np.empty((6, block))
    players, columns = np.empty(block + 1, np.int64), unpacked(roots)
    left = 0
    for start in range(0, len(r), block):
        end = min(start + block, len(r))
        n = end - start
        row, X, Y, S, A, B = (
            rows[0, :n],
            scratch[0, :n],
            scratch[1, :n],
            scratch[2, :n],
            scratch[3, :n],
            scratch[4, :n],
        )
        mean = scratch[5, :n]
        if R <= M:
            roots_inside(r[start:end], y[start:end], R, M, len(roots), row, X, Y)
        else:
            coordinates(r[start:end], y[start:end], R, M, row, X, Y, A, B)
            roots_of(r[start:end], y[start:end], len(roots), row, X, Y, A, B)
        cells_of(row, X, Y, columns, A, B, mean)
        if many:
            S[:] = scale[start:end] if len(scale) == len(r) else scale
            _by_scale(row, X, Y, S, limits, pieces, coefficients, planes, steady, rows[1, :n], players, mean)
        else:
            if pieces == 2:
                S[:] = scale[start:end] if len(scale) == len(r) else scale
                two_scales(S, lowest, highest, origin, step, len(coefficients) // 2, row)
            elif len(scale) == len(r):
                known_scales(scale[start:end], lowest, highest, row)
            elif not lowest <= scale[0] <= highest:
                row[:] = OPEN
            _one_scale(row, X, Y, coefficients, mean)
        left += _finish(r[start:end], y[start:end], row, mean, out[start:end])
    return left

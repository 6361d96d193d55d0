"""The table's inner loop: from a player to her region, cell and scale, and through the polynomials there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from truthful.beliefs.cells import OPEN, ORDER, ROOTS, Integers
from truthful.beliefs.regions import MIDDLE, SHORT, UPPER, WHOLE
from truthful.check import Floats

_BLOCK = 16384
_PLANE = ORDER**2
_ROOTS = ROOTS**2

LEFT, ZERO = -2, -1
Limits = tuple[float, float, float, float, float, float]

F = TypeVar("F", bound=Callable[..., Any])
# Loops over players round as written, so that a vectorised loop and its last few turns give the same bits and nobody's
# result depends on who stands beside her. The polynomials of one player may use fused multiply-adds.
_each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")
_fused: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


@_each
def coordinates(r: Floats, y: Floats, R: float, M: float, region: Integers, X: Floats, Y: Floats) -> None:
    """Region and coordinates in the unit square: the inverse of Region.support.

    No branches, so that it vectorises. In `upper` the smallest ω is 0, which makes it a case of `short`. Players with r
    outside (0, 1] or y not finite get some place that exists, and are left out afterwards.
    """
    per_r, root_M, per_M = 1 / min(1.0, M / R), math.sqrt(M), 1 / M
    per_x = 1 + root_M / math.sqrt(max(R - M, 1e-300))
    for i in range(len(r)):
        known = (r[i] > 0) & (r[i] <= 1) & (abs(y[i]) < np.inf)
        reach, size = r[i] * R, abs(y[i])
        over = reach - M
        outside = over > 0
        depth = math.sqrt(over) if outside else 0.0
        stretch = math.sqrt(reach)
        wider = reach * per_M if outside else 1.0
        below, above = math.sqrt(max(over + size, 0.0)), math.sqrt(max(reach + M - size, 0.0) * wider)
        least = depth / (depth + stretch)
        ending = (below / (below + above) - least) / (1 - least)
        share = size / abs(over) if over != 0 else 0.0
        inner = math.sqrt(max(1 - share, 0.0)) if outside else share
        near = size <= abs(over)
        x = depth / (depth + root_M) * per_x if outside else r[i] * per_r
        X[i] = min(x, 1.0) if known else 0.0
        Y[i] = min(max(inner if near else ending, 0.0), 1.0) if known else 0.0
        place = (MIDDLE if near else SHORT) if outside else (WHOLE if near else UPPER)
        region[i] = place if known else WHOLE


@_each
def _roots(row: Integers, X: Floats, Y: Floats) -> None:
    """From the region to the root in it; X and Y become the place in the root, in [0, 1]."""
    for i in range(len(row)):
        x, y = ROOTS * X[i], ROOTS * Y[i]
        a, b = min(math.floor(x), ROOTS - 1.0), min(math.floor(y), ROOTS - 1.0)
        X[i], Y[i] = x - a, y - b
        row[i] = row[i] * _ROOTS + int(ROOTS * a + b)


@_each
def _cells(row: Integers, X: Floats, Y: Floats, first: Integers, kx: Floats, ky: Floats) -> None:
    """From the root to the cell, or LEFT; X and Y become the place in the cell, in [-1, 1]."""
    for i in range(len(row)):
        root = np.uint64(row[i])
        x, y = X[i] * kx[root], Y[i] * ky[root]
        a, b = min(math.floor(x), kx[root] - 1), min(math.floor(y), ky[root] - 1)
        X[i], Y[i] = 2 * (x - a) - 1, 2 * (y - b) - 1
        row[i] = first[root] + int(a * ky[root] + b) if first[root] != OPEN else LEFT


@_each
def _pieces(
    r: Floats, y: Floats, scale: Floats, limits: Limits, pieces: int, cells: int, row: Integers, S: Floats
) -> None:
    """From the cell to its row in the piece of the scale, S the place in the piece; ZERO where q = 0, or LEFT."""
    _, _, lowest, highest, origin, step = limits
    for i in range(len(r)):
        if not (0 < r[i] <= 1 and abs(y[i]) < np.inf and lowest <= scale[i] <= highest):
            row[i] = ZERO if r[i] == 0 and abs(y[i]) < np.inf else LEFT
        elif step > 0 and row[i] >= 0:
            t = (math.log(scale[i]) - origin) * step
            piece = min(max(int(t), 0), pieces - 1)
            S[i] = 2 * (t - piece) - 1
            row[i] += piece * cells


@_fused
def _plane(w: Floats, v: Floats, x: float, y: float) -> float:
    """Σ w[a, b] x^a y^b: Horner in x for all b at once, then Estrin in y."""
    for b in range(8):
        high = ((w[56 + b] * x + w[48 + b]) * x + w[40 + b]) * x + w[32 + b]
        v[b] = (((high * x + w[24 + b]) * x + w[16 + b]) * x + w[8 + b]) * x + w[b]
    y2 = y * y
    low = (v[0] + v[1] * y) + (v[2] + v[3] * y) * y2
    return float(low + ((v[4] + v[5] * y) + (v[6] + v[7] * y) * y2) * (y2 * y2))


@_fused
def _collapse(c: Floats, s: float, w: Floats) -> None:
    """The plane at one scale: Horner in s, written out for the two orders there are so that it stays in registers."""
    if len(c) == 4 * _PLANE:
        for m in range(_PLANE):
            w[m] = ((c[192 + m] * s + c[128 + m]) * s + c[64 + m]) * s + c[m]
    else:
        for m in range(_PLANE):
            high = ((c[448 + m] * s + c[384 + m]) * s + c[320 + m]) * s + c[256 + m]
            w[m] = (((high * s + c[192 + m]) * s + c[128 + m]) * s + c[64 + m]) * s + c[m]


@_each
def _ordered(row: Integers, rows: int) -> Integers:
    """The players in the order of their rows, by counting sort."""
    starts, sequence = np.zeros(rows - LEFT + 1, np.int64), np.empty(len(row), np.int64)
    for i in range(len(row)):
        starts[row[i] - LEFT + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for i in range(len(row)):
        sequence[starts[row[i] - LEFT]] = i
        starts[row[i] - LEFT] += 1
    return sequence


@_fused
def _one_scale(
    r: Floats, y: Floats, row: Integers, X: Floats, Y: Floats, coefficients: Floats, out: Floats
) -> None:
    """A table of one scale fits the nearest caches: players are answered as they come."""
    v = np.empty(ORDER)
    for i in range(len(r)):
        if row[i] >= 0:
            mean = _plane(coefficients[row[i]], v, X[i], Y[i])
            out[i] = math.copysign(r[i], y[i]) * mean


@_fused
def _many_scales(
    r: Floats,
    y: Floats,
    row: Integers,
    X: Floats,
    Y: Floats,
    S: Floats,
    coefficients: Floats,
    out: Floats,
    sequence: Integers,
) -> None:
    """Players of one row are answered one after the other: its two or four kilobytes are read once a block."""
    v, w = np.empty(ORDER), np.empty(_PLANE)
    for i in sequence:
        if row[i] >= 0:
            _collapse(coefficients[row[i]], S[i], w)
            out[i] = math.copysign(r[i], y[i]) * _plane(w, v, X[i], Y[i])


@_each
def _block(
    r: Floats,
    y: Floats,
    scale: Floats,
    out: Floats,
    limits: Limits,
    pieces: int,
    roots: Integers,
    coefficients: Floats,
) -> int:
    n = len(r)
    row, X, Y, S = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    coordinates(r, y, limits[0], limits[1], row, X, Y)
    _roots(row, X, Y)
    _cells(row, X, Y, roots[:, 0].copy(), roots[:, 1].astype(np.float64), roots[:, 2].astype(np.float64))
    _pieces(r, y, scale, limits, pieces, len(coefficients) // pieces, row, S)
    if coefficients.shape[1] == _PLANE:
        _one_scale(r, y, row, X, Y, coefficients, out)
    else:
        _many_scales(r, y, row, X, Y, S, coefficients, out, _ordered(row, len(coefficients)))
    left = 0
    for i in range(n):
        if row[i] < 0:
            out[i] = math.nan if row[i] == LEFT else 0.0
            left += row[i] == LEFT
    return left


@_each
def evaluate(
    r: Floats,
    y: Floats,
    scale: Floats,
    out: Floats,
    limits: Limits,
    pieces: int,
    roots: Integers,
    coefficients: Floats,
) -> int:
    """q of every player into `out`, NaN where the table has no answer; returns how many those are.

    `limits` are R, M and the scale axis's lowest, highest, origin and step; the rest is as in Cells, with one row of
    coefficients for each piece of the scale axis and cell.
    """
    left = 0
    for start in range(0, len(r), _BLOCK):
        part = slice(start, min(start + _BLOCK, len(r)))
        left += _block(r[part], y[part], scale[part], out[part], limits, pieces, roots, coefficients)
    return left

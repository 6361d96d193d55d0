"""The table's inner loop: from a player to her region, cell and scale, and through the polynomials there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from truthful.cells import OPEN, ORDER, ROOTS, Integers
from truthful.check import Floats
from truthful.regions import MIDDLE, SHORT, UPPER, WHOLE

_BLOCK = 16384
_PLANE = ORDER**2
_ROOTS = ROOTS**2

LEFT, ZERO = -2, -1
Limits = tuple[float, float, float, float, float, float]

F = TypeVar("F", bound=Callable[..., Any])
_fast: Callable[[F], F] = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "arcp", "nsz"}
)


@_fast
def coordinates(r: Floats, y: Floats, R: float, M: float, region: Integers, place: Floats) -> None:
    """Region and coordinates in the unit square: the inverse of Region.support, without branches so that it vectorises.

    In `upper` the smallest ω is 0, which makes it a case of `short`.
    """
    per_r, per_root = 1 / min(1.0, M / R), 1 / math.sqrt(max(R - M, 1e-300))
    for i in range(len(r)):
        reach = r[i] * R
        over = reach - M
        size = abs(y[i])
        outside = over > 0
        depth = math.sqrt(over) if outside else 0.0
        below, above = math.sqrt(max(over + size, 0.0)), math.sqrt(max(reach + M - size, 0.0))
        least = depth / (depth + math.sqrt(M))
        ending = (below / (below + above) - least) / (1 - least)
        share = size / abs(over)
        inner = math.sqrt(max(1 - share, 0.0)) if outside else share
        near = size <= abs(over)
        place[0, i] = depth * per_root / math.sqrt(r[i]) if outside else r[i] * per_r
        place[1, i] = inner if near else ending
        region[i] = (MIDDLE if near else SHORT) if outside else (WHOLE if near else UPPER)


@_fast
def _cell(roots: Integers, region: int, X: float, Y: float) -> tuple[int, float, float]:
    """Row of the cell, or OPEN, and the place in it, both coordinates in [-1, 1]."""
    X, Y = ROOTS * min(max(X, 0.0), 1.0), ROOTS * min(max(Y, 0.0), 1.0)
    i, j = min(int(X), ROOTS - 1), min(int(Y), ROOTS - 1)
    first, kx, ky = roots[region * _ROOTS + i * ROOTS + j]
    if first == OPEN:
        return OPEN, 0.0, 0.0
    X, Y = (X - i) * kx, (Y - j) * ky
    a, b = min(int(X), kx - 1), min(int(Y), ky - 1)
    return first + a * ky + b, 2 * (X - a) - 1, 2 * (Y - b) - 1


@_fast
def _plane(w: Floats, v: Floats, x: float, y: float) -> float:
    """Σ w[a, b] x^a y^b: Horner in x for all b at once, then Estrin in y."""
    for b in range(8):
        high = ((w[56 + b] * x + w[48 + b]) * x + w[40 + b]) * x + w[32 + b]
        v[b] = (((high * x + w[24 + b]) * x + w[16 + b]) * x + w[8 + b]) * x + w[b]
    y2 = y * y
    low = (v[0] + v[1] * y) + (v[2] + v[3] * y) * y2
    return float(low + ((v[4] + v[5] * y) + (v[6] + v[7] * y) * y2) * (y2 * y2))


@_fast
def _collapse(c: Floats, s: float, w: Floats) -> None:
    """The plane at one scale: Horner in s, written out for the two orders there are so that it stays in registers."""
    if len(c) == 4 * _PLANE:
        for m in range(_PLANE):
            w[m] = ((c[192 + m] * s + c[128 + m]) * s + c[64 + m]) * s + c[m]
    else:
        for m in range(_PLANE):
            high = ((c[448 + m] * s + c[384 + m]) * s + c[320 + m]) * s + c[256 + m]
            w[m] = (((high * s + c[192 + m]) * s + c[128 + m]) * s + c[64 + m]) * s + c[m]


@_fast
def _locate(
    r: Floats,
    y: Floats,
    scale: Floats,
    limits: Limits,
    pieces: int,
    roots: Integers,
    cells: int,
    row: Integers,
    place: Floats,
) -> None:
    """Row and place (x, y, s) of every player; row ZERO where q = 0 and LEFT where the table has no answer."""
    R, M, lowest, highest, origin, step = limits
    coordinates(r, y, R, M, row, place)
    for i in range(len(r)):
        if not (0 < r[i] <= 1 and math.isfinite(y[i]) and lowest <= scale[i] <= highest):
            row[i] = ZERO if r[i] == 0 and math.isfinite(y[i]) else LEFT
            continue
        cell, place[0, i], place[1, i] = _cell(roots, row[i], place[0, i], place[1, i])
        piece = 0
        if step > 0:
            t = (math.log(scale[i]) - origin) * step
            piece = min(max(int(t), 0), pieces - 1)
            place[2, i] = 2 * (t - piece) - 1
        row[i] = piece * cells + cell if cell != OPEN else LEFT


@_fast
def _ordered(row: Integers, starts: Integers, sequence: Integers) -> None:
    """Counting sort of the players by row."""
    starts[:] = 0
    for i in range(len(row)):
        starts[row[i] - LEFT + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for i in range(len(row)):
        sequence[starts[row[i] - LEFT]] = i
        starts[row[i] - LEFT] += 1


@_fast
def _one_scale(r: Floats, y: Floats, row: Integers, place: Floats, coefficients: Floats, out: Floats) -> None:
    """A table of one scale fits the nearest caches: players are answered as they come."""
    v = np.empty(ORDER)
    for i in range(len(r)):
        if row[i] >= 0:
            mean = _plane(coefficients[row[i]], v, place[0, i], place[1, i])
            out[i] = math.copysign(r[i], y[i]) * mean


@_fast
def _many_scales(
    r: Floats, y: Floats, row: Integers, place: Floats, coefficients: Floats, out: Floats, sequence: Integers
) -> None:
    """Players of one row are answered one after the other: its two or four kilobytes are read once a block."""
    v, w = np.empty(ORDER), np.empty(_PLANE)
    for i in sequence:
        if row[i] >= 0:
            _collapse(coefficients[row[i]], place[2, i], w)
            mean = _plane(w, v, place[0, i], place[1, i])
            out[i] = math.copysign(r[i], y[i]) * mean


@_fast
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
    """q of every player into `out`, NaN where the table has no answer; returns how many those are."""
    row, sequence = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    starts, place = np.empty(len(coefficients) - LEFT + 1, np.int64), np.empty((3, _BLOCK))
    cells = len(coefficients) // pieces
    left = 0
    for start in range(0, len(r), _BLOCK):
        n = min(_BLOCK, len(r) - start)
        part = slice(start, start + n)
        _locate(r[part], y[part], scale[part], limits, pieces, roots, cells, row[:n], place[:, :n])
        if coefficients.shape[1] == _PLANE:
            _one_scale(r[part], y[part], row[:n], place[:, :n], coefficients, out[part])
        else:
            _ordered(row[:n], starts, sequence[:n])
            _many_scales(r[part], y[part], row[:n], place[:, :n], coefficients, out[part], sequence[:n])
        for i in range(n):
            if row[i] < 0:
                out[start + i] = math.nan if row[i] == LEFT else 0.0
                left += row[i] == LEFT
    return left

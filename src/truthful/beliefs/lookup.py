"""The table's inner loop: from players to their places, and through the polynomials there.

Numba keeps what it compiles here until this file changes, and does not see changes in truthful.beliefs.places: touch
this file after any.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from truthful.beliefs.cells import OPEN, ORDER, Integers
from truthful.beliefs.packed import HALF, PLANE, WEDGE
from truthful.beliefs.places import (
    Rows,
    cells_of,
    coordinates,
    each,
    known_scales,
    pieces_of,
    roots_inside,
    roots_of,
    unpacked,
)
from truthful.check import Floats

# One scale: what a block needs stays in the nearest caches. Many: a block has several players for most rows.
_BLOCK, _LARGE_BLOCK = 1024, 16384

Limits = tuple[float, float, float, float, float, float]

F = TypeVar("F", bound=Callable[..., Any])
# The polynomials of one player may use fused multiply-adds: every player takes the same way through them.
_fused: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


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
    row: Rows, X: Floats, Y: Floats, S: Floats, coefficients: Floats, sequence: Integers, mean: Floats
) -> None:
    """Σ w[a, k, b] x^a s^k y^b over the powers that are kept, likewise: first for b < 4, then for the others.

    Players of one row are answered one after the other: its two kilobytes are read once a block.
    """
    v = np.empty(ORDER)
    lanes = HALF * (coefficients.shape[1] // WEDGE)
    for i in sequence:
        if row[i] >= 0:
            w, x, s = coefficients[np.uint32(row[i])], X[i], S[i]
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

    `scale` has one entry for each player, or one for all. `limits` are R, M and the scale axis's lowest, highest,
    origin and step; the rest is as in Cells, with one row of coefficients for each piece of the scale axis and cell.
    """
    R, M, lowest, highest, origin, step = limits
    many = coefficients.shape[1] == WEDGE
    block = max(1, min(len(r), _LARGE_BLOCK if many else _BLOCK))
    rows, scratch = np.empty(block, np.int32), np.empty((6, block))
    columns = unpacked(roots)
    left = 0
    for start in range(0, len(r), block):
        end = min(start + block, len(r))
        n = end - start
        row, X, Y, S, A, B = (
            rows[:n],
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
            pieces_of(S, lowest, highest, origin, step, pieces, len(coefficients) // pieces, row)
            _many_scales(row, X, Y, S, coefficients, _ordered(row, len(coefficients)), mean)
        else:
            if len(scale) == len(r):
                known_scales(scale[start:end], lowest, highest, row)
            elif not lowest <= scale[0] <= highest:
                row[:] = OPEN
            _one_scale(row, X, Y, coefficients, mean)
        left += _finish(r[start:end], y[start:end], row, mean, out[start:end])
    return left

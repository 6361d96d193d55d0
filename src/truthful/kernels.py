"""The loops over players that a settlement runs millions of times, compiled.

Features come as columns, an array of d rows with one entry for each player: a loop over players then reads memory in
order and uses the processor's vectors. Numbers per player are rounded as written, so that nobody's result depends on
who stands beside her. Only sums of grid integers may be reordered and fused: they are exact whatever the order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from truthful.check import Floats

Columns = Floats  # (d, n)
Groups = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

F = TypeVar("F", bound=Callable[..., Any])
_each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")
_exact: Callable[[F], F] = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)


@_each
def within(values: Floats, low: float, high: float) -> bool:
    """Whether all values lie in [low, high]; NaN does not."""
    outside = 0
    for i in range(len(values)):
        outside += not ((values[i] >= low) & (values[i] <= high))
    return outside == 0


@_each
def in_unit_ball(columns: Columns) -> bool:
    """Whether Σx² ≤ 1 for every player; NaN is not."""
    squares = np.zeros(columns.shape[1])
    for a in range(len(columns)):
        for i in range(len(squares)):
            squares[i] += columns[a, i] * columns[a, i]
    return within(squares, 0.0, 1.0)


@_each
def coded(values: Floats, low: float, high: float, factor: float, out: Floats) -> None:
    """(2v − low − high)·factor: a number's place in its range."""
    for i in range(len(values)):
        out[i] = (2.0 * values[i] - low - high) * factor


@_each
def truncated(values: Floats, grid: float, limit: float, out: Floats) -> None:
    """Whole multiples of 1/grid, toward zero, and within ±limit."""
    for i in range(len(values)):
        steps = min(np.floor(abs(values[i] * grid)), limit)
        out[i] = math.copysign(steps, values[i])


@_each
def truncated_columns(columns: Columns, grid: float, out: Columns, squares: Floats) -> None:
    """Whole multiples of 1/grid, toward zero, and Σk² of every player: an exact sum, if it is at most 2⁵³."""
    squares[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(squares)):
            k = math.copysign(np.floor(abs(columns[a, i] * grid)), columns[a, i])
            out[a, i] = k
            squares[i] += k * k


@_each
def lengths(columns: Columns, out: Floats) -> None:
    """‖x‖ of every player."""
    out[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(out)):
            out[i] += columns[a, i] * columns[a, i]
    for i in range(len(out)):
        out[i] = math.sqrt(out[i])


@_each
def along(columns: Columns, direction: Floats, out: Floats) -> None:
    """x·direction of every player, summed in the order of the features."""
    out[:] = 0.0
    for a in range(len(columns)):
        for i in range(len(out)):
            out[i] += columns[a, i] * direction[a]


@_each
def peer_predictions(
    columns: Columns, groups: Groups, thetas: Floats, unit: float, reach: float, r: Floats, p: Floats
) -> None:
    """‖x‖ of every player, and x·θ̂ of the half she is not in, thetas[1 − group], within ±reach·‖x‖.

    x is the columns times the unit, a power of two. Blocks are short enough for the nearest cache.
    """
    other = np.empty(1024)
    for start in range(0, len(r), 1024):
        rows = min(1024, len(r) - start)
        for i in range(rows):
            r[start + i] = p[start + i] = other[i] = 0.0
        for a in range(len(columns)):
            for i in range(rows):
                x = columns[a, start + i]
                r[start + i] += x * x
                p[start + i] += x * thetas[1, a]
                other[i] += x * thetas[0, a]
        for i in range(rows):
            r[start + i] = math.sqrt(r[start + i]) * unit
            limit = reach * r[start + i]
            predicted = (p[start + i] if groups[start + i] == 0 else other[i]) * unit
            p[start + i] = min(max(predicted, -limit), limit)


@_each
def paid(
    p: Floats,
    q: Floats,
    linear: float,
    a: float,
    b: float,
    low: float,
    high: float,
    steps: float,
    out: Floats,
) -> None:
    """a + b(2pq − q² − linear·p), between low and high, rounded down to whole steps."""
    for i in range(len(p)):
        exact = a + b * (2.0 * p[i] * q[i] - q[i] * q[i] - linear * p[i])
        out[i] = np.floor(min(max(exact, low), high) * steps) / steps


@_each
def stretched(columns: Columns, spread: Floats, out: Floats) -> None:
    """‖xᵀ spread‖ of every player."""
    part = np.empty(len(out))
    out[:] = 0.0
    for b in range(spread.shape[1]):
        along(columns, spread[:, b].copy(), part)
        for i in range(len(out)):
            out[i] += part[i] * part[i]
    for i in range(len(out)):
        out[i] = math.sqrt(out[i])


@_each
def whole(columns: Columns, limit: float) -> bool:
    """Whether all numbers are whole and within ±limit."""
    odd = 0
    for a in range(len(columns)):
        for i in range(columns.shape[1]):
            k = columns[a, i]
            odd += not ((k == np.floor(k)) & (abs(k) <= limit))
    return odd == 0


@_exact
def add_products(columns: Columns, responses: Floats, groups: Groups, panel: int, sums: Integers) -> None:
    """Adds Σ k_x k_xᵀ, Σ k_x k_y and Σ k_y² of each group to sums[group], a matrix of d + 1 rows (upper triangle).

    A group's players are gathered into panels of so many rows, within which float64 sums are exact; panels are added as
    integers.
    """
    d, n = columns.shape
    held, players = np.empty((d + 1, panel)), np.empty(n + 1, np.uint32)
    for group in range(2):
        count = 0
        for i in range(n):  # without a branch: who is not of the group is overwritten
            players[count] = i
            count += groups[i] == group
        for start in range(0, count, panel):
            rows = min(panel, count - start)
            for a in range(d):
                for i in range(rows):
                    held[a, i] = columns[a, players[start + i]]
            square = np.int64(0)
            for i in range(rows):
                k = responses[players[start + i]]
                held[d, i] = k
                square += np.int64(k) * np.int64(k)
            _add_panel(held, rows, sums[group])
            sums[group, d, d] += square


@_exact
def _add_panel(held: Floats, rows: int, sums: Integers) -> None:
    """The products of one panel: two columns by two at a time, so that each number is read half as often."""
    d = len(held) - 1
    for a in range(0, d, 2):
        second = min(a + 1, d - 1)
        for b in range(a, d + 1, 2):
            last = min(b + 1, d)
            s00 = s01 = s10 = s11 = 0.0
            for i in range(rows):
                s00 += held[a, i] * held[b, i]
                s01 += held[a, i] * held[last, i]
                s10 += held[second, i] * held[b, i]
                s11 += held[second, i] * held[last, i]
            sums[a, b] += np.int64(s00)
            if last > b:
                sums[a, last] += np.int64(s01)
            if second > a:
                sums[second, b] += np.int64(s10)
                if last > b:
                    sums[second, last] += np.int64(s11)


@_each
def total_steps(payments: Floats, steps: float) -> tuple[np.int64, np.int64]:
    """The total in whole steps, as (high, low) with total = high·2³² + low."""
    high = low = np.int64(0)
    for i in range(len(payments)):
        paid = np.int64(np.rint(payments[i] * steps))
        high += paid >> 32
        low += paid & 0xFFFFFFFF
    return high, low

"""Players sorted into their halves, on the grid, and what the other half predicts of them: the loops, compiled.

What a settlement does in several passes over a file is one pass here: a simulated study has few players, and there are
many studies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.moments import GRID, PRODUCT, Groups, Moments, grid_features, group_moments, response_limit

Order = npt.NDArray[np.uint32]
Integers = npt.NDArray[np.int64]

F = TypeVar("F", bound=Callable[..., Any])
_each: Callable[[F], F] = numba.njit(cache=True, nogil=True, error_model="numpy")
# Sums of whole numbers are exact whatever the order.
_exact: Callable[[F], F] = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)
_PANEL = 256
_STEPS, _FULL = float(GRID), float(PRODUCT)


@dataclass(frozen=True, eq=False)
class Halves:
    """The players of the first half, then those of the second: order[i] is who stands at place i.

    k has a row for each feature and a last one for the report, in steps of the grid; places are the halves'.
    """

    order: Order
    k: Floats
    places: tuple[slice, slice]
    moments: tuple[Moments, Moments]


def sorted_halves(x: Floats, reports: Floats, groups: Groups, response_bound: float) -> Halves:
    """What `grid_features`, `grid_responses` and `group_moments` give, of finite numbers, in one pass."""
    d, n, limit = x.shape[1], len(reports), response_limit(response_bound)
    order, k, sums = np.empty(n, np.uint32), np.empty((d + 1, n)), np.zeros((2, d + 1, d + 1), np.int64)
    # Within a panel float64 sums are exact: |k| is at most 2²⁰ for features, and `limit` for reports.
    panel = min(_PANEL, 2**53 // (GRID * max(GRID, limit)))
    columns, first = np.ascontiguousarray(x.T), n - int(np.count_nonzero(groups))
    _partition(groups, first, order)
    places = slice(0, first), slice(first, n)
    for place, products in zip(places, sums, strict=True):
        if not _gather(columns, reports, order, place.start, place.stop, float(limit), panel, k, products):
            return sorted_halves(grid_features(x) / GRID, reports, groups, response_bound)
    moments = _moments(first, sums[0]), _moments(n - first, sums[1])
    if n * limit**2 >= 2**63:  # the sums of int64 may have overflown
        moments = group_moments(k[:-1].T, k[-1], groups[order])
    return Halves(order, k, places, moments)


def _moments(count: int, sums: Integers) -> Moments:
    """From the upper triangle of XᵀX, Xᵀy in the last column and yᵀy in the last entry."""
    exact = (sums + np.triu(sums, 1).T).astype(object)
    return Moments(count, exact[:-1, :-1], exact[:-1, -1], exact[-1, -1])


@_each
def _partition(groups: Groups, first: int, order: Order) -> None:
    """Fills order; the first half has so many players."""
    zeros, ones = 0, first
    for i in range(len(groups)):  # without a branch, which could not be foretold
        order[np.uint64(ones if groups[i] else zeros)] = i
        ones += groups[i]
        zeros += 1 - groups[i]


@_exact
def _gather(
    columns: Floats,
    reports: Floats,
    order: Order,
    begin: int,
    end: int,
    limit: float,
    panel: int,
    k: Floats,
    sums: Integers,
) -> bool:
    """Fills k from begin to end, and adds up sums; returns whether all features lie in the unit ball."""
    outside, square = 0, np.empty(panel)
    for start in range(begin, end, panel):
        stop = min(start + panel, end)
        players = order[start:stop]
        square[:] = 0.0
        for a in range(len(columns)):
            column, row = columns[a], k[a, start:stop]
            for i in range(len(players)):
                row[i] = np.trunc(column[players[i]] * _STEPS)
                square[i] += row[i] * row[i]
        row = k[len(columns), start:stop]
        for i in range(len(players)):
            row[i] = min(max(np.trunc(reports[players[i]] * _STEPS), -limit), limit)
            outside += square[i] > _FULL
        _add_products(k, start, stop, sums)
    return outside == 0


@_exact
def _add_products(k: Floats, start: int, stop: int, sums: Integers) -> None:
    d = len(k) - 1
    for a in range(d):
        one = k[a, start:stop]
        for b in range(a, d + 1):
            other, total = k[b, start:stop], 0.0
            for i in range(len(one)):
                total += one[i] * other[i]
            sums[a, b] += int(total)
    report, square = k[d, start:stop], 0
    for i in range(len(report)):
        square += int(report[i]) * int(report[i])
    sums[d, d] += square


@_each
def predicted(
    k: Floats, start: int, stop: int, theta: Floats, R: float, r: Floats, y: Floats, p: Floats
) -> None:
    """‖x‖, the report, and x·θ̂ within ±R‖x‖, of the players at places from start to stop."""
    d = len(k) - 1
    r[:], p[:] = 0.0, 0.0
    for a in range(d):
        column = k[a, start:stop]
        for i in range(len(r)):
            r[i] += column[i] * column[i]
            p[i] += column[i] * theta[a]
    report = k[d, start:stop]
    for i in range(len(r)):
        r[i] = math.sqrt(r[i]) / _STEPS
        p[i] = min(max(p[i] / _STEPS, -R * r[i]), R * r[i])
        y[i] = report[i] / _STEPS

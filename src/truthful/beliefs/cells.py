"""Functions on the unit square as polynomials on cells, refined until they are verified.

The square is cut into 4 × 4 roots, and each root into kx × ky equal cells (powers of two, its own). On a cell each
function is the polynomial of degree 7 in each coordinate through its values at 8 × 8 Chebyshev nodes. An interpolation
error looks like c·T₈ in the coordinate that causes it, so it is measured on the 9 × 9 grid where |T₈| = 1, between the
nodes and on the cell's border. A root whose error is above what is wanted is cut again, across the coordinate whose
Chebyshev coefficients have not died out; one that stays above it is left open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful.beliefs.polynomials import (
    chebyshev_coefficients,
    chebyshev_extrema,
    chebyshev_nodes,
    monomials,
    times,
)
from truthful.check import Floats

ROOTS = 4
ORDER = 8
OPEN = -1

# Cells of a root: many, and too many. A square may cost about this many points, and values at them.
_MANY_CELLS, _MOST_CELLS = 16, 1024
_MOST_POINTS = 200_000
_MOST_VALUES = 12_000_000

Function = Callable[[Floats, Floats], Floats]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """One or more functions (columns) on the unit square.

    Root (i, j), in row i·ROOTS + j of `roots`, has (first, kx, ky): its cells are the rows first + a·ky + b of
    `coefficients`, whose axes are cell, power of x, power of y and column, with x and y in [-1, 1] across the cell.
    `first` is OPEN where the tolerance was not reached. `error` is the largest measured elsewhere.
    """

    roots: Integers
    coefficients: Floats
    error: float


def left_open(columns: int) -> Cells:
    """No cells at all."""
    return Cells(np.full((ROOTS**2, 3), OPEN, dtype=np.int64), np.empty((0, ORDER, ORDER, columns)), 0.0)


def fit(function: Function, columns: int, tolerance: float, enough: float) -> Cells:
    """Cells for function(X, Y), which maps points (n,) of the square to values (n, columns).

    A root of more than 16 cells, which are costly, need not come below `tolerance` if it comes below `enough`.
    """
    empty = left_open(columns)
    roots, pieces = empty.roots, [empty.coefficients]
    error, spent = 0.0, 0
    pending = [(root, 1, 1) for root in range(ROOTS**2)]
    while pending and spent < min(_MOST_POINTS, _MOST_VALUES // columns):
        boxes = _boxes(pending)
        spent += len(boxes.owner) * (ORDER**2 + (ORDER + 1) ** 2)
        values = _sample(function, boxes, chebyshev_nodes(ORDER))
        errors = _worst(boxes, _measured(function, boxes, values), len(pending))
        wanted = np.where([kx * ky > _MANY_CELLS for _, kx, ky in pending], enough, tolerance)
        for k in np.flatnonzero(errors <= wanted):
            roots[pending[k][0]] = (sum(map(len, pieces)), *pending[k][1:])
            pieces.append(_polynomials(values[boxes.owner == k]))
            error = max(error, float(errors[k]))
        pending = _refined(pending, errors > wanted, boxes, values)
    return Cells(roots, np.concatenate(pieces), error)


@dataclass(frozen=True)
class _Boxes:
    """Rectangles by centre and half-widths, and the entry of the pending list each belongs to."""

    owner: Integers
    x: Floats
    y: Floats
    half_x: Floats
    half_y: Floats


def _boxes(pending: list[tuple[int, int, int]]) -> _Boxes:
    """The kx × ky cells of each pending root, in the order of `Cells`."""
    parts = []
    for k, (root, kx, ky) in enumerate(pending):
        a, b = (axis.ravel() for axis in np.meshgrid(np.arange(kx), np.arange(ky), indexing="ij"))
        i, j = divmod(root, ROOTS)
        x, y = (i + (a + 0.5) / kx) / ROOTS, (j + (b + 0.5) / ky) / ROOTS
        half_x, half_y = np.full(len(a), 0.5 / kx / ROOTS), np.full(len(a), 0.5 / ky / ROOTS)
        parts.append((np.full(len(a), k, dtype=np.int64), x, y, half_x, half_y))
    return _Boxes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _sample(function: Function, boxes: _Boxes, points: Floats) -> Floats:
    """Values on the tensor grid of the points in every box: axes box, x, y, column."""
    shape = (len(boxes.x), len(points), len(points))
    X = np.broadcast_to((boxes.x[:, None] + boxes.half_x[:, None] * points)[:, :, None], shape)
    Y = np.broadcast_to((boxes.y[:, None] + boxes.half_y[:, None] * points)[:, None, :], shape)
    return function(X.ravel(), Y.ravel()).reshape((*shape, -1))


def _measured(function: Function, boxes: _Boxes, values: Floats) -> Floats:
    """Largest distance between the function and its interpolant in every box, as Horner's rule will see it."""
    points = chebyshev_extrema(ORDER)
    powers = np.vander(points, ORDER, increasing=True)
    fitted = times(powers, times(powers, _polynomials(values), 1), 2)
    return np.asarray(np.abs(fitted - _sample(function, boxes, points)).max(axis=(1, 2, 3)))


def _polynomials(values: Floats) -> Floats:
    return monomials(monomials(values, axis=1), axis=2)


def _worst(boxes: _Boxes, each: Floats, count: int) -> Floats:
    worst = np.zeros(count)
    np.maximum.at(worst, boxes.owner, each)
    return worst


def _refined(
    pending: list[tuple[int, int, int]], rough: npt.NDArray[np.bool_], boxes: _Boxes, values: Floats
) -> list[tuple[int, int, int]]:
    """The rough roots with twice the cells across each coordinate whose last two coefficients are not small."""
    coefficients = np.abs(chebyshev_coefficients(chebyshev_coefficients(values, axis=1), axis=2))
    tail_x = _worst(boxes, coefficients[:, -2:].max(axis=(1, 2, 3)), len(pending))
    tail_y = _worst(boxes, coefficients[:, :, -2:].max(axis=(1, 2, 3)), len(pending))
    chosen = []
    for k in np.flatnonzero(rough):
        root, kx, ky = pending[k]
        kx *= 2 if tail_x[k] > 0.3 * tail_y[k] else 1
        ky *= 2 if tail_y[k] > 0.3 * tail_x[k] else 1
        if kx * ky <= _MOST_CELLS:
            chosen.append((root, kx, ky))
    return chosen

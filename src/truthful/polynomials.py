"""Polynomials that stand for functions: through Chebyshev nodes on [-1, 1], by Horner's rule, and in pieces."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from truthful.check import Floats

# Chebyshev coefficients this far below the largest are rounding noise. Left in, the change to monomials would
# multiply them by up to (1 + √2)^order.
_NOISE = 2e-15


def chebyshev_nodes(order: int) -> Floats:
    """The `order` zeros of T_order."""
    return np.cos(np.pi * (np.arange(order) + 0.5) / order)


def chebyshev_extrema(order: int) -> Floats:
    """The order + 1 points where |T_order| = 1. An interpolation error is close to c·T_order: largest there."""
    return np.cos(np.pi * np.arange(order + 1) / order)


def chebyshev_coefficients(values: Floats, axis: int = -1) -> Floats:
    """Chebyshev coefficients of the polynomial through values at chebyshev_nodes, along one axis."""
    matrix, _ = _matrices(values.shape[axis])
    return times(matrix, values, axis)


def monomials(values: Floats, axis: int = -1) -> Floats:
    """Coefficients of 1, x, x², ... of the polynomial through values at chebyshev_nodes, along one axis."""
    coefficients = chebyshev_coefficients(values, axis)
    largest = np.abs(coefficients).max(axis=axis, keepdims=True)
    coefficients[np.abs(coefficients) < _NOISE * largest] = 0.0
    return from_chebyshev(coefficients, axis)


def from_chebyshev(coefficients: Floats, axis: int = -1) -> Floats:
    """Coefficients of 1, x, x², ... of the polynomial with these Chebyshev coefficients, along one axis."""
    _, matrix = _matrices(coefficients.shape[axis])
    return times(matrix, coefficients, axis)


def times(matrix: Floats, values: Floats, axis: int) -> Floats:
    """The matrix times the values along one axis: many small products, for which no other thread is woken."""
    axis %= values.ndim
    if axis == values.ndim - 1:
        return np.asarray(values @ matrix.T)
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    product = matrix @ values.reshape((*before, values.shape[axis], math.prod(after)))
    return np.asarray(product.reshape((*before, len(matrix), *after)))


def piecewise(coefficients: Floats, cell: npt.NDArray[np.intp], x: Floats) -> Floats:
    """Σ_k coefficients[k, cell]·xᵏ, by Horner's rule; cells beyond the table are its ends."""
    value, more = np.take(coefficients[-1], cell, mode="clip"), np.empty(np.shape(cell))
    for row in coefficients[-2::-1]:
        value *= x
        value += np.take(row, cell, out=more, mode="clip")
    return value


@lru_cache(maxsize=64)
def _matrices(order: int) -> tuple[Floats, Floats]:
    """From values to Chebyshev coefficients, and from those to monomial coefficients."""
    k = np.arange(order)
    # Whole multiples of π/2n, reduced exactly to one turn before the cosine is taken.
    turns = np.outer(k, 2 * k + 1) % (4 * order)
    to_chebyshev = np.cos(np.pi * turns / (2 * order)) * 2 / order
    to_chebyshev[0] /= 2
    to_monomials = np.zeros((order, order))
    for degree in range(order):
        to_monomials[: degree + 1, degree] = np.polynomial.chebyshev.cheb2poly(np.eye(order)[degree])[
            : degree + 1
        ]
    return to_chebyshev, to_monomials

"""Instruments: the public weights with which answers are summed, ζ = Tx/max(1, ‖Tx‖).

In the sup norm every entry of Tx is cut to ±1 by itself. The release is b̃ = Σ ζ_i y_i + N, and θ̂ = M⁻¹b̃ with M = Σ
ζ_i x_iᵀ is unbiased for every public matrix T. As ‖ζ‖ ≤ 1, nobody moves b by more than 2Y, and nobody requires larger
noise. θ̂ is weighted least squares with weights c_i = 1/max(1, ‖Tx_i‖); a small T shortens nobody and gives least
squares.

T counts units of 2⁻¹⁰, so that T k_x is exact in float64 for features k_x on the grid (|T k_x| ≤ 2⁴²√d by Cauchy and
Schwarz, partial sums too), and ζ is put on the grid as features are: Σ k_ζ² ≤ 2⁴⁰ in every row. In the sup norm it is
truncated and cut, so that max|k_ζ| ≤ 2²⁰: nobody moves an entry of b by more than 2Y.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.moments import TRANSFORM_UNIT, Transform

LARGEST_ENTRY = 2**22
#: The most rows from which to find T; the number of damped steps toward it, and their damping.
ROWS, STEPS, DAMPING = 8_000, 60, 0.3
#: Significant digits of T's entries: two would lose 0.1 to 0.3 % of accuracy, and more would reveal more of the roster
#: than M does.
DIGITS = 3
#: By how much to enlarge entries that the sup norm cuts: rounding T then leaves none short of ±1.
SUP_SPARE = 0.01
LARGEST_CONDITION = 1e8


def require_transform(transform: Any, dimension: int) -> Transform:
    """Require a transform of whole numbers; the error says what is wrong with it."""
    rows = np.asarray(transform, dtype=object)
    if rows.shape != (dimension, dimension):
        raise InputError(f"The transform has shape {rows.shape}; it must be {dimension}×{dimension}.")
    for entry in rows.ravel():
        if isinstance(entry, bool) or not isinstance(entry, int) or abs(entry) > LARGEST_ENTRY:
            raise InputError(f"The transform holds {entry!r}; it must hold whole numbers of at most 2^22.")
    return tuple(tuple(int(entry) for entry in row) for row in rows)


def transform_matrix(transform: Transform) -> Floats:
    """T itself."""
    return np.array(transform, dtype=np.float64) * float(TRANSFORM_UNIT)


def best_transform(X: Floats, of: str = "coefficients", norm: str = "l2") -> Floats:
    """The T whose full-length instruments leave the least noise in coefficients, or in predictions for these people.

    With ‖ζ_i‖ = 1 the noise is ∝ tr(W M⁻¹M⁻ᵀ), W = I for coefficients and XᵀX/n for predictions; it is stationary at
    ζ_i ∝ Tx_i with Tᵀ = M⁻¹M⁻ᵀWM⁻¹. Damped steps lead toward that, and the best T seen is kept. Its size is free. In
    the sup norm ζ_i are the signs of Tx_i; steps start from I, the codes themselves, and from two that make features
    uncorrelated.
    """
    check.choice("accuracy_of", of, ("coefficients", "predictions"))
    some = X[:: max(1, len(X) // ROWS)]
    # In a sorted roster every second person may be alike.
    X = some if np.linalg.matrix_rank(some) == X.shape[1] else X
    n, d = X.shape
    G = X.T @ X / n
    W, power = (np.eye(d), -0.75) if of == "coefficients" else (G, -0.5)
    first = _power(G, power)
    best, least = first, np.inf
    for T in (first,) if norm == "l2" else (np.eye(d), np.linalg.inv(np.linalg.cholesky(G)), first):
        for _ in range(STEPS):
            M = _full_length(X, T, norm) / n
            if norm == "sup" and not np.linalg.cond(M) < LARGEST_CONDITION:
                break  # the signs of two entries agree for everybody
            inverse = np.linalg.inv(M)
            noise = float(np.sum((W @ inverse) * inverse))
            if noise < least:
                best, least = T, noise
            step = (inverse @ inverse.T @ W @ inverse).T
            T = T + DAMPING * (step * (np.linalg.norm(T) / np.linalg.norm(step)) - T)
    return best


def _full_length(X: Floats, T: Floats, norm: str) -> Floats:
    """M = Σ ζ_i x_iᵀ for instruments of full length."""
    if norm == "sup":
        return np.asarray(np.sign(X @ T.T).T @ X)
    lengths = np.maximum(np.linalg.norm(X @ T.T, axis=1), 1e-12 * np.linalg.norm(T))
    return np.asarray(T @ ((X / lengths[:, None]).T @ X))


def shorten(X: Floats, T: Floats, share: float, norm: str = "l2") -> Transform:
    """T at the size that shortens this share of people, to three digits: 0 is least squares, 1 equal influence.

    In the sup norm each row of T has the size that cuts its entry for this share of people.
    """
    if norm == "sup":
        sized = T / _cut_at(np.abs(X @ T.T), share)[:, None] * (1 + SUP_SPARE)
    else:
        sized = T / float(_cut_at(np.linalg.norm(X @ T.T, axis=1), share)) * (1 + 1e-6)
    sized *= min(1.0, (LARGEST_ENTRY - 1) * float(TRANSFORM_UNIT) / float(np.abs(sized).max()))
    places = DIGITS - 1 - np.floor(np.log10(np.where(sized == 0, 1.0, np.abs(sized))))
    rounded = np.round(sized * 10.0**places) / 10.0**places
    return tuple(tuple(round(float(entry) / float(TRANSFORM_UNIT)) for entry in row) for row in rounded)


def _cut_at(lengths: Floats, share: float) -> Floats:
    """The length exceeded by this share of people, in each column."""
    largest = lengths.max(axis=0)
    at = largest if share <= 0 else np.quantile(lengths, 1 - share, axis=0)
    # Features of almost no length are not worth a T that is too large for all others.
    return np.asarray(np.maximum(at, largest / 64))


def _power(A: Floats, exponent: float) -> Floats:
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    if not values[0] > 1e-12 * values[-1]:
        raise InputError(
            "The features of the roster do not tell all coefficients apart: some are constant, or follow from others. "
            "Leave one of those out."
        )
    power: Floats = (vectors * values**exponent) @ vectors.T
    return power

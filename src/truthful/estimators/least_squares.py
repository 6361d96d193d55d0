"""Least squares with everybody's leave-one-out prediction (the paper's Algorithm 1): x·θ̂ by the fit without her.

With leverage h it is (x·θ̂ − h·y)/(1 − h). By the factorisation X = QR, h = ‖Q_i‖² of player i. For very many players,
one pass over them makes XᵀX = LLᵀ (Cholesky), and one gives everybody's h = ‖L⁻¹x‖². The sums XᵀX have the square of
the condition number of X, so a fit comes from them only where little is lost by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, qr, solve_triangular

from truthful import check
from truthful.check import Floats
from truthful.compiled import compiled
from truthful.errors import InputError

ALONE = 1e-10  # 1 − leverage below this is rounding: without the player the fit does not exist

# Rows are taken so many at a time and turned into columns: loops over players then use the processor's vectors.
_PANEL = 128
_FOUR = 4
# Of XᵀX with columns scaled to length 1: about six of sixteen digits are lost.
_WORST_CONDITION = 1e5

# Sums over players may be reordered. Numbers of one player may be fused, because panels are always full: whoever she
# stands beside, her numbers are computed by the same instructions.
_sums = compiled(few=False, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
_fused = compiled(few=False, error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """θ̂, the leverages h_i and, for every i, x_i·θ̂_{−i}: her prediction by the fit without her."""

    theta: Floats
    leverages: Floats
    peer_predictions: Floats


def least_squares(X: Any, y: Any) -> LeastSquares:
    """Least squares of y on X, and all n leave-one-out predictions from the one factorisation X = QR."""
    X = check.matrix("X", X)
    y = check.vector("y", y, len(X))
    Q, triangle, order = qr(X, mode="economic", pivoting=True, check_finite=False)
    _require_full_rank(X, triangle)
    coordinates = Q.T @ y
    theta = np.empty(X.shape[1])
    theta[order] = solve_triangular(triangle, coordinates)
    leverages: Floats = np.einsum("ij,ij->i", Q, Q)
    require_company(leverages)
    return LeastSquares(theta, leverages, (Q @ coordinates - leverages * y) / (1 - leverages))


def _require_full_rank(X: Floats, triangle: Floats) -> None:
    n, d = X.shape
    pivots = np.abs(np.diag(triangle))
    rank = int(np.sum(pivots > pivots[0] * max(n, d) * np.finfo(np.float64).eps)) if n and d else 0
    if rank < d or d == 0:
        raise InputError(
            f"The features of the {n} players span only {rank} of {d} dimensions, so least squares has no unique "
            "solution. Drop features that others determine, or add players."
        )


def require_company(leverages: Floats, first: int = 0) -> None:
    """Refuses a player whom nobody can predict; `first` is the row of the first leverage."""
    i = int(np.argmax(leverages))
    if not 1 - leverages[i] > ALONE:
        raise InputError(
            f"Row {first + i} has leverage 1: without that player the others' features do not determine the fit, so "
            "her peers make no prediction. Leave her out, or add players like her."
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """θ̂, and the triangle L⁻¹ that turns features into leverages, with columns of zeros to make fours."""

    theta: Floats
    triangle: Floats

    def without_each(self, X: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
        """For every player of these rows x·θ̂ without her, her leverage and ‖x‖."""
        p, h, r = np.empty((3, len(y)))
        _without_each(X, y, self.theta, self.triangle, p, h, r)
        return p, h, r


def products(X: Floats, y: Floats) -> Floats:
    """The upper triangle of ZᵀZ, Z being X with y as one more column and zeros after it if their number is odd."""
    sums = np.zeros((X.shape[1] // 2 * 2 + 2,) * 2)
    _add_products(X, y, sums)
    return sums


def solve_sums(sums: Floats, d: int) -> Fit | None:
    """The fit, or None if the sums do not determine it to ten digits."""
    if not np.isfinite(sums).all() or not (np.diag(sums)[:d] > 0).all():
        return None
    # Scaling changes neither the fit nor the leverages, and features need not be of one size.
    scale = 1 / np.sqrt(np.diag(sums)[:d])
    unit = scale[:, None] * (np.triu(sums[:d, :d]) + np.triu(sums[:d, :d], 1).T) * scale
    values = np.linalg.eigvalsh(unit)
    if not values[0] * _WORST_CONDITION > values[-1]:
        return None
    inverse = solve_triangular(cholesky(unit, lower=True), np.eye(d), lower=True)
    triangle = np.pad(inverse * scale, ((0, 0), (0, -d % _FOUR)))
    return Fit(triangle[:, :d].T @ (triangle[:, :d] @ sums[:d, d]), triangle)


@_fused
def _take(X: Floats, start: int, panel: Floats) -> int:
    """As many rows of X as there are, but no more than the panel has columns, as its columns."""
    rows = min(panel.shape[1], len(X) - start)
    for i in range(rows):
        for a in range(X.shape[1]):
            panel[a, i] = X[start + i, a]
    return int(rows)


@_fused
def _add_products(X: Floats, y: Floats, sums: Floats) -> None:
    d, panel = X.shape[1], np.zeros((len(sums), _PANEL))
    for start in range(0, len(X), _PANEL):
        rows = _take(X, start, panel)
        panel[d, :rows] = y[start : start + rows]
        panel[:, rows:] = 0.0
        _add_panel(panel, sums)


@_sums
def _add_panel(panel: Floats, sums: Floats) -> None:
    """Two columns by two at a time, so that each number is read half as often."""
    for a in range(0, len(panel), 2):
        for b in range(a, len(panel), 2):
            s00 = s01 = s10 = s11 = 0.0
            for i in range(panel.shape[1]):
                s00 += panel[a, i] * panel[b, i]
                s01 += panel[a, i] * panel[b + 1, i]
                s10 += panel[a + 1, i] * panel[b, i]
                s11 += panel[a + 1, i] * panel[b + 1, i]
            sums[a, b] += s00
            sums[a, b + 1] += s01
            sums[a + 1, b] += s10
            sums[a + 1, b + 1] += s11


@_fused
def _without_each(
    X: Floats, y: Floats, theta: Floats, triangle: Floats, p: Floats, h: Floats, r: Floats
) -> None:
    panel = np.zeros((triangle.shape[1], _PANEL))
    fitted, squares, leverage = np.empty(_PANEL), np.empty(_PANEL), np.empty(_PANEL)
    for start in range(0, len(X), _PANEL):
        rows = _take(X, start, panel)
        _fit_panel(panel, theta, fitted, squares)
        _leverages(panel, triangle, leverage)
        for i in range(rows):
            h[start + i] = leverage[i]
            r[start + i] = math.sqrt(squares[i])
            p[start + i] = (fitted[i] - leverage[i] * y[start + i]) / (1 - leverage[i])


@_fused
def _fit_panel(panel: Floats, theta: Floats, fitted: Floats, squares: Floats) -> None:
    """x·θ̂ and ‖x‖² of every column."""
    fitted[:] = squares[:] = 0.0
    for a in range(len(theta)):
        x, t = panel[a], theta[a]
        for i in range(_PANEL):
            fitted[i] += x[i] * t
            squares[i] += x[i] * x[i]


@_fused
def _leverages(panel: Floats, triangle: Floats, leverage: Floats) -> None:
    """‖L⁻¹x‖² of every column, four terms of a sum at a time: both arrays have zeros to make four."""
    u = np.empty(_PANEL)
    leverage[:] = 0.0
    for a in range(len(triangle)):
        u[:] = 0.0
        for b in range(0, a + 1, _FOUR):
            x0, x1, x2, x3 = panel[b], panel[b + 1], panel[b + 2], panel[b + 3]
            t0, t1, t2, t3 = triangle[a, b], triangle[a, b + 1], triangle[a, b + 2], triangle[a, b + 3]
            for i in range(_PANEL):
                u[i] = t0 * x0[i] + (t1 * x1[i] + (t2 * x2[i] + (t3 * x3[i] + u[i])))
        for i in range(_PANEL):
            leverage[i] += u[i] * u[i]

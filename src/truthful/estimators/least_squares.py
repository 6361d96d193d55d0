"""Least squares with everybody's leave-one-out prediction in one pass (the paper's Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, solve_triangular

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

ALONE = 1e-10  # 1 − leverage below this is rounding: without the player the fit does not exist


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """θ̂, the leverages h_i and, for every i, x_i·θ̂_{−i}: her prediction by the fit without her."""

    theta: Floats
    leverages: Floats
    peer_predictions: Floats


def least_squares(X: Any, y: Any) -> LeastSquares:
    """Least squares of y on X, and all n leave-one-out predictions from the one factorisation X = QR.

    With leverage h_i = ‖Q_i‖², the fit without player i predicts x_i·θ̂_{−i} = (x_i·θ̂ − h_i y_i)/(1 − h_i).
    """
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

"""Data for the scikit-learn door, and payments by their definition, one row at a time."""

from typing import Any

import numpy as np

from truthful.beliefs import Beliefs, TruncatedNormal, UniformBall
from truthful.beliefs.laws import Clipped
from truthful.check import Floats
from truthful.moments import GRID, grid_features, grid_responses, instruments_on_grid
from truthful.scoring import quadratic
from truthful.sklearn import PrivateRegressor, Units

COEFFICIENTS = np.array([0.2, -0.1, 0.15])


def data(n: int = 300, seed: int = 0, sd: float = 0.1) -> tuple[Floats, Floats]:
    """Rows in the unit ball; responses within ±1 that the default beliefs allow."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3)) / np.sqrt(3)
    return X, 0.1 + X @ COEFFICIENTS + np.clip(rng.normal(scale=sd, size=n), -0.5, 0.5)


def of_records(**changes: Any) -> PrivateRegressor:
    """A model that protects whole rows, with the bounds of these data."""
    return PrivateRegressor(**{"feature_norm": 1.0, "response_bound": 1.0, **changes})


def of_answers(**changes: Any) -> PrivateRegressor:
    """A model that protects responses alone, seeded."""
    return of_records(**{"protects": "answers", "random_state": 0, **changes})


def recomputed(model: PrivateRegressor, X: Floats, y: Floats) -> Floats:
    """Each row's payment from the release and her own record, by the definition: her peers are all others' sums."""
    units, c = (
        Units(model.feature_norm or 1.0, model.response_bound or 1.0, model.fit_intercept),
        model.signal,
    )
    kx = grid_features(units.features(X))
    Z, zeta = kx / GRID, instruments_on_grid(kx, model.estimate_.transform) / GRID
    reports = grid_responses(units.responses(y), 1.0) / GRID
    R, payments, estimate = model.signal, np.empty(len(y)), model.estimate_
    beliefs = Beliefs(Z.shape[1], UniformBall(R), TruncatedNormal(1 - R, (1 - R) / 2))
    matrix = np.linalg.inv(estimate.inverse)
    vector = np.array([float(k) for k in estimate.vector]) / GRID**2
    for i, (z, report) in enumerate(zip(Z, reports, strict=True)):
        without = np.linalg.inv(matrix - np.outer(zeta[i], z))
        r = float(np.linalg.norm(z))
        p = np.clip(z @ without @ (vector - zeta[i] * report), -c * r, c * r)
        noise = estimate.scale * np.linalg.norm(without.T @ z) / r
        q = beliefs.own_prediction(z[None], [report], Clipped(c, len(z)), noise)[0]
        payments[i] = quadratic(p, q, a=3 * (c * r) ** 2 * model.score_weight, b=model.score_weight)
    return payments

"""Data for the scikit-learn door, and payments by their definition, one row at a time."""

from typing import Any

import numpy as np

from truthful.beliefs.curves import Clipped
from truthful.check import Floats
from truthful.scoring import quadratic
from truthful.sklearn import PrivateRegressor, Units

COEFFICIENTS = np.array([0.2, -0.1, 0.15])


def data(n: int = 300, seed: int = 0, sd: float = 0.1) -> tuple[Floats, Floats]:
    """Rows in the unit ball; responses within ±1 that the default beliefs allow."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 3)) / np.sqrt(3)
    return X, 0.1 + X @ COEFFICIENTS + np.clip(rng.normal(scale=sd, size=n), -0.5, 0.5)


def ridge(**changes: Any) -> PrivateRegressor:
    return PrivateRegressor(
        **{"estimator": "ridge-ball", "regularization": 5.0, "random_state": 0, **changes}
    )


def recomputed(model: PrivateRegressor, X: Floats, y: Floats) -> Floats:
    """Each row's payment from the releases, her own record and her half, by the definition."""
    units, R = Units(model.feature_norm, model.response_bound, model.fit_intercept), model.signal
    Z, reports = units.features(X), units.responses(y)
    beliefs, payments = model._beliefs(Z.shape[1]), np.empty(len(y))
    for i, (z, report) in enumerate(zip(Z, reports, strict=True)):
        peer, r = model.estimates_.peers[1 - model.groups_[i]], np.linalg.norm(z)
        curve = Clipped(R, len(z))
        q = beliefs.own_prediction(
            z[None], [report], curve, peer.scale * np.linalg.norm(peer.spread @ z) / r
        )[0]
        p = np.clip(z @ peer.theta, -R * r, R * r)
        payments[i] = quadratic(p, q, a=3 * R**2 * model.score_weight, b=model.score_weight)
    return payments

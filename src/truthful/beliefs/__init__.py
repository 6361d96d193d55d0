"""The own prediction q: the peer prediction that a player expects, given her own data.

q(x, y) = ‖x‖ · E[ψ(u) | x, y] with u = θ·x/‖x‖, under the declared prior and noise law. A player scored against q by a
proper rule does best by reporting the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful import check
from truthful.beliefs import posterior
from truthful.beliefs.corners import corner_predictor
from truthful.beliefs.laws import (
    IDENTITY,
    Clipped,
    Curve,
    CustomNoise,
    Identity,
    Noise,
    NormalBall,
    Prior,
    Shrunk,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
)
from truthful.check import Floats
from truthful.errors import InputError

__all__ = [
    "IDENTITY",
    "Beliefs",
    "Clipped",
    "Curve",
    "CustomNoise",
    "Identity",
    "Noise",
    "NormalBall",
    "Predictor",
    "Prior",
    "Shrunk",
    "TruncatedNormal",
    "UniformBall",
    "UniformNoise",
]

# From about this many players on, a table saves more time than it takes to build.
MANY_PLAYERS = 100_000
# The largest ratio of peer noise scales that a table of moderate size covers.
WIDEST_RANGE = 1000.0
# With corners inside the ball and noise below this part of their place, a table would need too many cells.
CORNER_NOISE = 0.04

#: q as a function of ‖x‖, the report y and the scale of the peer noise along x.
Predictor = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Beliefs:
    """The declared distribution of all unknowns: θ ~ prior in `dimension` dimensions, y = θ·x + z with z ~ noise.

    Isotropic priors make q a function of r = ‖x‖ and y alone. Reports that cannot happen, |y| > Rr + M, are moved
    to the nearest edge.
    """

    dimension: int
    prior: Prior
    noise: Noise

    def __post_init__(self) -> None:
        check.integer("dimension", self.dimension)

    @property
    def radius(self) -> float:
        """R, the bound on ‖θ‖."""
        return self.prior.radius

    @property
    def noise_bound(self) -> float:
        """M, the bound on |z|."""
        return self.noise.bound

    @property
    def response_bound(self) -> float:
        """Y = R + M, the bound on |y| when ‖x‖ ≤ 1."""
        return self.radius + self.noise_bound

    @property
    def noise_variance(self) -> float:
        """σ², the variance of z."""
        return self.noise.variance

    def own_prediction(self, X: Any, y: Any, curve: Curve = IDENTITY, scale: Any = 0.0) -> Floats:
        """q for every row of X and report in y, to 1e-9: by quadrature, or by table for very many players.

        `scale` is the scale of the peer noise along x, one number or one per player; only a clipped curve uses it.
        """
        features = check.matrix("X", X, self.dimension)
        reports = check.vector("y", y, len(features))
        lengths, reports, scales = _players(np.linalg.norm(features, axis=1), reports, scale)
        if not len(lengths):
            return lengths
        predictor = self.predictor(curve, (float(scales.min()), float(scales.max())), len(lengths))
        return predictor(lengths, reports, scales)

    def predictor(self, curve: Curve, scales: tuple[float, float], players: int) -> Predictor:
        """q for this many players and this range of peer noise, as a function: by table if that is faster."""
        low, high = scales
        if players <= MANY_PLAYERS or (curve.needs_scale and not 0 < high <= WIDEST_RANGE * low):
            return lambda r, y, scale: self.prediction(r, y, curve, scale)
        corners = corner_predictor(self, curve)
        if corners is not None and low < CORNER_NOISE * corners.curve.radius:
            return corners
        from truthful.beliefs.table import prediction_table  # compiled: few players do without

        return prediction_table(self, curve, low, high)

    def prediction(self, r: Any, y: Any, curve: Curve = IDENTITY, scale: Any = 0.0) -> Floats:
        """q at ‖x‖ = r and report y by direct quadrature, to 1e-11 R. Arguments broadcast."""
        lengths, reports, scales = _players(r, y, scale)
        corners = corner_predictor(self, curve)
        if corners is not None:
            return corners(lengths.ravel(), reports.ravel(), scales.ravel()).reshape(lengths.shape)
        mean = posterior.mean(self, lengths.ravel(), reports.ravel(), curve, scales.ravel())
        return lengths * mean.reshape(lengths.shape)

    def slope(self, r: Any, y: Any, curve: Curve = IDENTITY, scale: Any = 0.0) -> Floats:
        """∂q/∂y at ‖x‖ = r and report y, to 1e-8 R / M. Arguments broadcast."""
        lengths, reports, scales = _players(r, y, scale)
        value = posterior.slope(self, lengths.ravel(), reports.ravel(), curve, scales.ravel())
        return value.reshape(lengths.shape)


def _players(r: Any, y: Any, scale: Any) -> tuple[Floats, Floats, Floats]:
    """The three arguments as arrays of one shape, checked."""
    arrays = []
    for name, values, least in (("r", r, 0.0), ("y", y, -np.inf), ("scale", scale, 0.0)):
        array = np.asarray(values, dtype=np.float64)
        bad = ~(np.isfinite(array) & (array >= least))
        if bad.any():
            wanted = "finite" if least < 0 else "finite and 0 or above"
            raise InputError(f"{name} is {array[bad][0]}; it must be {wanted}.")
        arrays.append(array)
    lengths, reports, scales = np.broadcast_arrays(*arrays)
    return lengths, reports, scales

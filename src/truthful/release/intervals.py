"""How far a published coefficient can be from the truth: its whole error law, and the interval it gives.

Under truthful reports the error of one coefficient is a sum of independent parts: sampling (normal, by
the central limit theorem), privacy noise (a marginal of the L2-Laplace law, which is a normal whose variance
is random) and, for the ridges, a bias of known bound. Conditionally on the random variances the sum is normal, so its
quantiles are a one- or two-dimensional integral, not a simulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from truthful.check import Floats
from truthful.noise import normal_mixture


@dataclass(frozen=True)
class Laplace:
    """Privacy noise along one direction: the marginal of an L2-Laplace vector of this dimension and scale."""

    dimension: int
    scale: float


@dataclass(frozen=True)
class ErrorLaw:
    """The error of one number: normal with this variance, plus independent privacy noises, plus a bias."""

    variance: float
    noises: tuple[Laplace, ...] = ()
    bias_bound: float = 0.0

    def half_width(self, level: float) -> float:
        """The h with P(|error| ≤ h) ≥ level; equality when there is no bias."""
        variances, weights = self._variance_law()
        deviations = np.sqrt(variances)
        largest = float(deviations.max())
        if largest == 0.0:
            return self.bias_bound

        def excess(h: float) -> float:
            return float(weights @ special.ndtr(-h / deviations)) - (1.0 - level) / 2

        return float(optimize.brentq(excess, 0.0, 40.0 * largest, xtol=1e-12 * largest)) + self.bias_bound

    def _variance_law(self) -> tuple[Floats, Floats]:
        """The random variance of the sum, as support points and weights."""
        variances, weights = np.array([self.variance]), np.array([1.0])
        for noise in self.noises:
            shares, deviations = normal_mixture(noise.dimension)
            variances = np.add.outer(variances, (noise.scale * deviations) ** 2).ravel()
            weights = np.outer(weights, shares).ravel()
        return variances, weights

"""How far a published coefficient can be from the truth: its whole error law, and the interval it gives.

Under truthful reports the error of one coefficient is a sum of independent parts: sampling (normal, by
the central limit theorem), privacy noise (a marginal of the L2-Laplace law, which is a normal whose variance
is random) and, for the ridges, a bias of known bound. Conditionally on the random variances the sum is normal, so its
quantiles are a one- or two-dimensional integral, not a simulation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

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

        # The tail is convex, so that Newton's steps from 0 rise to the root.
        h, step = 0.0, largest
        while step > 1e-12 * largest:
            excess = weights @ special.ndtr(-h / deviations) - (1.0 - level) / 2
            density = weights @ (np.exp(-0.5 * (h / deviations) ** 2) / deviations) / math.sqrt(2 * math.pi)
            step = float(excess / density)
            h += step
        return h + self.bias_bound

    def _variance_law(self) -> tuple[Floats, Floats]:
        """The random variance of the sum, as support points and weights."""
        variances, weights = np.array([self.variance]), np.array([1.0])
        for noise in self.noises:
            shares, deviations = normal_mixture(noise.dimension)
            variances = np.add.outer(variances, (noise.scale * deviations) ** 2).ravel()
            weights = np.outer(weights, shares).ravel()
        return variances, weights

"""How far a published coefficient can be from the truth: its whole error law, and the interval it gives.

Under truthful reports the error of one coefficient is a sum of independent parts: sampling (normal, by
the central limit theorem), privacy noise (a marginal of the L2-Laplace law, which is a normal whose variance
is random) and, for the ridges, a bias of known bound. Conditionally on the random variances the sum is normal, so its
quantiles are a one- or two-dimensional integral, not a simulation. Noise by the sup norm is no such mixture: there they
follow from the characteristic function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from truthful.check import Floats
from truthful.noise import SupLaplace, normal_mixture

#: How many standard deviations half a period of the Fourier series is: beyond there is a chance of 1e-8 at most.
PERIOD = 12.0
#: Terms of it at most, so many at a time, until all of these are below what matters.
TERMS, FEW, SMALL = 1024, 16, 1e-8


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


@dataclass(frozen=True, eq=False)
class SupErrorLaw:
    """The error of one number: normal with this variance, and weights·v, v privacy noise by the sup norm."""

    variance: float
    noise: SupLaplace
    weights: Floats

    def half_width(self, level: float) -> float:
        """The h with P(|error| ≤ h) = level, to about 1e-5 of it.

        P(|error| ≤ h) = h/L + Σ 2/(πk)·sin(πkh/L)·E[cos(πk·error/L)], where |error| > L has next to no chance.
        """
        deviation = math.sqrt(
            self.variance + self.noise.marginal_variance * float(np.sum(np.square(self.weights)))
        )
        if deviation == 0.0:
            return 0.0
        L = PERIOD * deviation
        frequencies, sizes = self._series(L)
        low, high = 0.0, L
        while high - low > 1e-9 * L:
            middle = (low + high) / 2
            inside = middle / L + float(np.sin(frequencies * middle) @ sizes)
            low, high = (middle, high) if inside < level else (low, middle)
        return (low + high) / 2

    def _series(self, L: float) -> tuple[Floats, Floats]:
        """πk/L and 2/(πk)·E[cos(πk·error/L)], a few terms at a time until they are small."""
        frequencies, sizes = [], []
        for first in range(1, TERMS, FEW):
            k = np.arange(first, first + FEW, dtype=np.float64)
            t: Floats = math.pi / L * k
            normal = np.exp(-0.5 * self.variance * t**2)
            frequencies.append(t)
            sizes.append(self.noise.characteristic(self.weights, t) * normal * 2 / (math.pi * k))
            if np.abs(sizes[-1]).max() < SMALL:
                break
        return np.concatenate(frequencies), np.concatenate(sizes)

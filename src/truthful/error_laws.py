"""How far an estimate is from the truth if people tell it: the law of the error of one number, and of all together.

Under truthful reports the error of one coefficient is a sum of independent parts: sampling (normal, by
the central limit theorem) and privacy noise (a marginal of the L2-Laplace law, which is a normal whose variance
is random). Conditionally on the random variances the sum is normal, so its
quantiles are a one- or two-dimensional integral, not a simulation. Noise by the sup norm is no such mixture: there they
follow from the characteristic function.

Plans and releases use the same laws: a plan says how wide intervals will be, a release how wide they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy import special

from truthful.check import Floats
from truthful.noise import L2Laplace, SupLaplace, normal_mixture

#: How many standard deviations half a period of the Fourier series is: beyond there is a chance of 1e-8 at most.
PERIOD = 12.0
#: Terms of it at most, so many at a time, until all of these are below what matters.
TERMS, FEW, SMALL = 1024, 16, 1e-8


@dataclass(frozen=True)
class ErrorLaw:
    """The error of one number: normal with this variance, plus independent privacy noises, each along one direction."""

    variance: float
    noises: tuple[L2Laplace, ...] = ()

    @classmethod
    def of(cls, variance: float, *noises: tuple[int, float]) -> ErrorLaw:
        """With noises of these dimensions and scales; one of scale 0, in a number that answers do not move, is none."""
        return cls(variance, tuple(L2Laplace(dimension, scale) for dimension, scale in noises if scale > 0))

    @property
    def whole_variance(self) -> float:
        """With that of the privacy noises."""
        return self.variance + sum(noise.marginal_variance for noise in self.noises)

    def half_width(self, level: float) -> float:
        """The h with P(|error| ≤ h) = level."""
        # The random variance of the sum, as support points and weights.
        variances, weights = np.array([self.variance]), np.array([1.0])
        for noise in self.noises:
            shares, spreads = normal_mixture(noise.dimension)
            variances = np.add.outer(variances, (noise.scale * spreads) ** 2).ravel()
            weights = np.outer(weights, shares).ravel()
        deviations = np.sqrt(variances)
        largest = float(deviations.max())
        if largest == 0.0:
            return 0.0

        # The tail is convex, so that Newton's steps from 0 rise to the root.
        h, step = 0.0, largest
        while step > 1e-12 * largest:
            excess = weights @ special.ndtr(-h / deviations) - (1.0 - level) / 2
            density = weights @ (np.exp(-0.5 * (h / deviations) ** 2) / deviations) / math.sqrt(2 * math.pi)
            step = float(excess / density)
            h += step
        return h


@dataclass(frozen=True, eq=False)
class SupErrorLaw:
    """The error of one number: normal with this variance, and weights·v, v privacy noise by the sup norm."""

    variance: float
    noise: SupLaplace
    weights: Floats

    @property
    def whole_variance(self) -> float:
        """With that of the privacy noise."""
        return self.variance + self.noise.marginal_variance * float(np.sum(np.square(self.weights)))

    def half_width(self, level: float) -> float:
        """The h with P(|error| ≤ h) = level, to about 1e-5 of it.

        P(|error| ≤ h) = h/L + Σ 2/(πk)·sin(πkh/L)·E[cos(πk·error/L)], where |error| > L has next to no chance.
        """
        deviation = math.sqrt(self.whole_variance)
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


Law = ErrorLaw | SupErrorLaw


def law_given_features(
    inverse: Floats, spread: Floats, variance: float, noise: L2Laplace | SupLaplace, row: Floats
) -> Law:
    """Given everybody's features, row·(θ̂ − θ) = row·Bz + row·M⁻¹N, the one exact in variance and the other in law.

    spread is Σ ζζᵀ, and variance that of each answer.
    """
    w = inverse.T @ row
    sampling = variance * float(w @ spread @ w)
    if isinstance(noise, SupLaplace):
        return SupErrorLaw(sampling, noise, w)
    return ErrorLaw.of(sampling, (noise.dimension, noise.scale * float(np.linalg.norm(w))))


#: How often a test at the 95 % interval is to find the smallest effect.
POWER = 0.8


def smallest_effect(law: Law, level: float) -> float:
    """The effect that an interval of this level leaves 0 out for with probability 80 %, and more for larger ones.

    |effect + error| exceeds the half-width h if the error is above h − effect: with 80 % where that is the quantile of
    20 %, −half_width(60 %). That it may exceed h on the wrong side is left out: power is a little more.
    """
    return law.half_width(level) + law.half_width(2 * POWER - 1)


#: Fixed draws from which the quantile of a length comes, and the deviations that are spared so that it is not too low.
DRAWS, SPARED = 40_000, 3.0
#: So many draws must lie beyond a quantile for it to be read off them.
FEWEST_BEYOND = 100


def length_quantile(
    covariance: Floats, factor: Floats, noise: L2Laplace | SupLaplace, chance: float
) -> float:
    """A bound on ‖g + factor·v‖ that is exceeded with at most this chance, g normal and v noise.

    In one dimension it is exact. In others it is read off fixed draws, three standard deviations of their number too
    far out, or where they are too few it is the sum of what bounds either part with half the chance: Gaussian
    concentration, √tr C + √(2‖C‖·ln(2/chance)), and ‖factor‖ times the quantile of ‖v‖, which is Gamma.
    """
    d = len(covariance)
    if d == 1:
        # In one dimension the two norms are the same.
        along = L2Laplace(noise.dimension, noise.scale * float(np.linalg.norm(factor)))
        return ErrorLaw(float(covariance[0, 0]), (along,)).half_width(1 - chance)
    if DRAWS * chance >= FEWEST_BEYOND:
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        normal, drawn = _draws(d, replace(noise, scale=1.0))
        error = normal @ root.T + drawn[:, : factor.shape[1]] @ (noise.scale * factor.T)
        beyond = math.floor(DRAWS * chance - SPARED * math.sqrt(DRAWS * chance))
        squares = np.einsum("ij,ij->i", error, error)
        return math.sqrt(float(np.partition(squares, -beyond - 1)[-beyond - 1]))
    half, size = chance / 2, float(np.linalg.norm(covariance, 2))
    sampling = math.sqrt(float(np.trace(covariance))) + math.sqrt(2 * size * math.log(1 / half))
    sup, k = isinstance(noise, SupLaplace), noise.dimension
    longest = (math.sqrt(k) if sup else 1.0) * float(special.gammainccinv(k + sup, half))
    return sampling + float(np.linalg.norm(factor, 2)) * noise.scale * longest


@lru_cache(maxsize=4)  # every plan of so many features has the same
def _draws(d: int, noise: L2Laplace | SupLaplace) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((DRAWS, d)), noise.sample(rng, DRAWS)

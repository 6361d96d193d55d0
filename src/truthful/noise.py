"""Laplace distributions of privacy noise on R^d, density ∝ exp(−‖v‖/s) by the L2 or the sup norm; and the error of an
estimate from noise and sampling, under truthful reports.

L2, used by nearly every release: density ∝ exp(−‖v‖₂/s). Its direction is uniform and its norm is Gamma(d, s). It is a
normal scale mixture: v = s·sqrt(τ)·Z with Z standard normal in R^d and τ ~ Gamma((d+1)/2, scale 2) independent (Andrews
and Mallows, "Scale mixtures of normal distributions", 1974). Along any unit vector it is therefore s·sqrt(τ) times a
standard normal, with characteristic function (1 + s²t²)^(−(d+1)/2): a difference of two independent Gamma((d+1)/2, s).

Sup, density ∝ exp(−max|v_j|/s): v = s·R·U, R ~ Gamma(d+1) and U uniform on the cube [−1, 1]^d. Coordinates are
uncorrelated, but the distribution of v along a line depends on its direction.

Under truthful reports the error of one coefficient is a sum of independent parts: sampling (normal, by the central
limit theorem) and privacy noise. Given the random variances of the mixture the sum is normal, so its quantiles are a
one- or two-dimensional integral, not a simulation. Noise by the sup norm is no such mixture: there quantiles follow
from the characteristic function. Plans and releases use the same distributions: a plan states how wide intervals will
be, a release how wide they are.

The samplers here are fast and in floating point, for simulations; releases use the exact ones of `truthful.lattice`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.check import Floats

#: Norms for the length of noise, and for how far one answer moves the release.
NORMS = ("l2", "sup")


@dataclass(frozen=True)
class L2Laplace:
    """The distribution on R^dimension with density ∝ exp(−‖v‖₂/scale)."""

    dimension: int
    scale: float

    def __post_init__(self) -> None:
        check.integer("dimension", self.dimension)
        check.positive("scale", self.scale)

    @property
    def mean_square_norm(self) -> float:
        """E‖v‖² = d(d+1)s²."""
        return self.dimension * self.marginal_variance

    @property
    def marginal_variance(self) -> float:
        """The variance of v·e for a unit vector e: (d+1)s²."""
        return (self.dimension + 1) * self.scale**2

    def marginal_pdf(self, x: npt.ArrayLike) -> Floats:
        """The density of v·e for a unit vector e."""
        t = np.asarray(x, dtype=np.float64) / self.scale
        if self.dimension == 1:
            return np.asarray(0.5 * np.exp(-np.abs(t)) / self.scale)
        total = np.zeros_like(t)
        for weight, sd in zip(*normal_mixture(self.dimension), strict=True):
            total += weight / sd / math.sqrt(2 * math.pi) * np.exp(-0.5 * (t / sd) ** 2)
        return total / self.scale

    def marginal_cdf(self, x: npt.ArrayLike) -> Floats:
        """P(v·e ≤ x) for a unit vector e, to 1e-13 (for d > 1, tails thinner than 1e-17 come out short)."""
        t = np.asarray(x, dtype=np.float64) / self.scale
        z = np.abs(t)
        tail = 0.5 * np.exp(-z) if self.dimension == 1 else _tail(self.dimension, z)
        return np.where(t < 0, tail, 1 - tail)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` draws, shape (size, d), as s·sqrt(τ)·Z. In floating point: never for a release."""
        check.integer("size", size, least=0)
        tau = 2 * rng.standard_gamma((self.dimension + 1) / 2, size=size)
        Z = rng.standard_normal((size, self.dimension))
        Z *= (self.scale * np.sqrt(tau))[:, None]
        return Z


@dataclass(frozen=True)
class SupLaplace:
    """The distribution on R^dimension with density ∝ exp(−max|v_j|/scale)."""

    dimension: int
    scale: float

    def __post_init__(self) -> None:
        check.integer("dimension", self.dimension)
        check.positive("scale", self.scale)

    @property
    def marginal_variance(self) -> float:
        """The variance of v·e for a unit vector e: E[R²]/3 = (d+1)(d+2)s²/3, whatever its direction."""
        return (self.dimension + 1) * (self.dimension + 2) / 3 * self.scale**2

    def characteristic(self, weights: Floats, t: Floats) -> Floats:
        """E[cos(t·weights·v)], to about 1e-6: given R a product of sin(z)/z, z = stR·weight; over √R by midpoints."""
        d, w = self.dimension, np.abs(weights) * self.scale
        farthest = float(special.gammainccinv(d + 1, 1e-12))
        fastest = float(np.max(t, initial=0.0) * w.sum())
        count = math.ceil(max(12 * math.sqrt(farthest), 2 * farthest * fastest))
        step = math.sqrt(farthest) / count
        root = step * (np.arange(count) + 0.5)
        R = root * root
        chances = 2 * step * root * np.exp(d * np.log(R) - R - math.lgamma(d + 1))
        product = np.ones((len(t), count))
        for weight in w[w > 0]:
            z = np.multiply.outer(t * weight, R)
            product *= np.sin(z) / z
        return np.asarray(product @ chances)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` draws, shape (size, d), as s·R·U. In floating point: never for a release."""
        check.integer("size", size, least=0)
        R = self.scale * rng.standard_gamma(self.dimension + 1, size=size)
        return np.asarray(rng.uniform(-1.0, 1.0, (size, self.dimension)) * R[:, None])


def laplace(norm: str, dimension: int, scale: float) -> L2Laplace | SupLaplace:
    """The distribution by this norm."""
    return (L2Laplace if check.choice("norm", norm, NORMS) == "l2" else SupLaplace)(dimension, scale)


def log_moments(norm: str, dimension: int, parts: Floats) -> Floats:
    """A bound on ln E[exp(λ a·v)] at scale 1 over all a, λ being these parts of its upper limit.

    L2: λ < 1/‖a‖ and it is −(d+1)/2·ln(1 − part²). Sup: λ < 1/(√d‖a‖). Given R, ln Π sinh(z_j)/z_j, z_j = λRa_j, is
    concave in the z_j², so among all a of one length it is largest where all |a_j| are equal; and there E[(1 −
    part·ΣU_j/d)^−(d+1)] = Π_{k=0…d} 1/(1 − part·(1 − 2k/d)).
    """
    d = dimension
    if norm == "l2":
        return np.asarray(-(d + 1) / 2 * np.log1p(-(parts**2)))
    return np.asarray(-np.log1p(-np.multiply.outer(parts, 1 - 2 * np.arange(d + 1) / d)).sum(axis=-1))


@cache
def normal_mixture(d: int) -> tuple[Floats, Floats]:
    """Weights and standard deviations of normals whose mixture is the marginal at scale 1, to about 1e-15.

    E[g(sqrt τ)], τ ~ Gamma(λ, 2), λ = (d+1)/2, by the trapezoidal rule in w = log τ, where the density is
    ∝ exp(λw − e^w/2), highest at w = log 2λ (below, u = w − log 2λ). For every a < π/2 the integrand is
    analytic on |Im w| ≤ a and at most cos(a)^−λ times its size on the real line, so that the step h has a
    relative error of about cos(a)^−λ exp(−2πa/h) (Trefethen and Weideman, "The exponentially convergent
    trapezoidal rule", 2014): 1e-13 at most for the steps taken here, and 1e-15 as measured.
    """
    shape = (d + 1) / 2
    step = min(0.2, 0.5 / math.sqrt(shape))
    u = step * np.arange(-math.ceil(45 / step), math.ceil(5 / step) + 1)
    log_weights = shape * (u - np.expm1(u))
    # The part cut off is below e^-42, also after the factor τ^(−1/2) that densities carry.
    keep = log_weights + np.abs(u) / 2 > -42
    weights = np.exp(log_weights[keep])
    return weights / weights.sum(), np.exp(u[keep] / 2) * math.sqrt(2 * shape)


def _tail(d: int, z: Floats) -> Floats:
    """P(v·e > z) at scale 1, z ≥ 0, by table: a search for a plan evaluates it at millions of points."""
    coefficients, ends = _log_tail(d)
    at = np.minimum(z, ends[-1])
    cell = np.minimum(np.searchsorted(ends, at, side="right") - 1, len(ends) - 2)
    return np.exp(piecewise(coefficients, cell, at - ends[cell]) - z)


# Polynomials with this many coefficients on [0, 2^-10], and on half-octaves up to where the tail is 1e-17.
_LOW, _ORDER = -10, 18


@cache
def _log_tail(d: int) -> tuple[Floats, Floats]:
    """ln P(v·e > z) + z, to 1e-15 of z + 1: coefficients of powers (rows) for each cell, and the ends of cells.

    It is analytic to the right of its only singularity, z^(d+1)·ln z at z = 0, which is five half-widths away from the
    middle of each half-octave, and grows as ln z. In the first cell the singularity itself is below 1e-16.
    """
    ends = np.append(0.0, 2.0 ** np.arange(_LOW, math.log2(40 + 9 * math.sqrt(d + 1)) + 0.5, 0.5))
    nodes, widths = (1 + np.cos(np.pi * (np.arange(_ORDER) + 0.5) / _ORDER)) / 2, np.diff(ends)
    z = ends[:-1] + np.outer(nodes, widths)
    tail = np.zeros_like(z)
    for weight, sd in zip(*normal_mixture(d), strict=True):
        tail += weight * special.ndtr(-z / sd)
    values = np.log(tail) + z
    powers = np.arange(_ORDER)[:, None]
    return np.linalg.solve(np.vander(nodes, increasing=True), values) / widths**powers, ends


def piecewise(coefficients: Floats, cell: npt.NDArray[np.intp], x: Floats) -> Floats:
    """Σ_k coefficients[k, cell]·xᵏ, by Horner's rule; cells beyond the table are clipped to its ends."""
    rows = np.take(coefficients, cell, axis=1, mode="clip")
    value: Floats = rows[-1]
    for row in rows[-2::-1]:
        value *= x
        value += row
    return value


# Errors of estimates: the distribution of one number's error, and of all together

#: Half a period of the Fourier series, in standard deviations: errors beyond have a chance of 1e-8 at most.
PERIOD = 12.0
#: The most terms of it, how many to compute at a time, and the size below which they no longer matter.
TERMS, FEW, SMALL = 1024, 16, 1e-8


@dataclass(frozen=True)
class ErrorLaw:
    """The error of one number: normal with this variance, plus independent privacy noises, each along one direction."""

    variance: float
    noises: tuple[L2Laplace, ...] = ()

    @classmethod
    def of(cls, variance: float, *noises: tuple[int, float]) -> ErrorLaw:
        """An error law with noises of these dimensions and scales; a scale of 0 means none."""
        return cls(variance, tuple(L2Laplace(dimension, scale) for dimension, scale in noises if scale > 0))

    @property
    def whole_variance(self) -> float:
        """The variance, privacy noises included."""
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

        # The tail is convex, so Newton's steps from 0 rise to the root.
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
        """The variance, privacy noise included."""
        return self.variance + self.noise.marginal_variance * float(np.sum(np.square(self.weights)))

    def half_width(self, level: float) -> float:
        """The h with P(|error| ≤ h) = level, to about 1e-5 of it.

        P(|error| ≤ h) = h/L + Σ 2/(πk)·sin(πkh/L)·E[cos(πk·error/L)], where |error| > L is next to impossible.
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
    """The error law of row·(θ̂ − θ) = row·Bz + row·M⁻¹N, given everybody's features: the first part exact in variance,
    the second in distribution.

    spread is Σ ζζᵀ, and variance that of each answer.
    """
    w = inverse.T @ row
    sampling = variance * float(w @ spread @ w)
    if isinstance(noise, SupLaplace):
        return SupErrorLaw(sampling, noise, w)
    return ErrorLaw.of(sampling, (noise.dimension, noise.scale * float(np.linalg.norm(w))))


#: The power of a test by the 95 % interval at the smallest effect.
POWER = 0.8


def smallest_effect(law: Law, level: float) -> float:
    """The effect at which an interval of this level excludes 0 with probability 80 %, and more for larger ones.

    |effect + error| exceeds the half-width h if the error is above h − effect: with 80 % where that is the 20 %
    quantile, −half_width(60 %). The chance of exceeding h on the wrong side is left out: power is a little higher.
    """
    return law.half_width(level) + law.half_width(2 * POWER - 1)


#: Fixed draws for the quantile of a length, and the standard deviations of slack so that it is not too low.
DRAWS, SPARED = 40_000, 3.0
#: The least number of draws beyond a quantile for it to be read off them.
FEWEST_BEYOND = 100


def length_quantile(
    covariance: Floats, factor: Floats, noise: L2Laplace | SupLaplace, chance: float
) -> float:
    """A bound on ‖g + factor·v‖ that is exceeded with at most this chance, g normal and v noise.

    In one dimension it is exact. In others it is read off fixed draws, with three standard deviations of their number
    as slack; where they are too few it is the sum of bounds on both parts, each with half the chance: Gaussian
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


@lru_cache(maxsize=4)  # plans with equally many features share it
def _draws(d: int, noise: L2Laplace | SupLaplace) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((DRAWS, d)), noise.sample(rng, DRAWS)

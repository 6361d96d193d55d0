"""Beliefs before any report: priors on θ, distributions of the response noise z, and peer curves.

A prior is isotropic on the ball ‖θ‖ ≤ R, so the projection u = θ·x/‖x‖ has the same density f on [-R, R] for
every x. A noise law is a symmetric density g on [-M, M]. Both are used through logarithms, which neither
underflow in a hundred dimensions nor at the edge of the support.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.noise import piecewise


class Prior(Protocol):
    """An isotropic distribution of θ on the ball of radius R."""

    @property
    def radius(self) -> float: ...

    def log_weight(self, t: Floats, dimension: int) -> Floats:
        """log of f(u) sin t at u = R cos t, up to a constant: the density of the angle t in [0, π]."""

    def variance(self, dimension: int) -> float:
        """Variance of one coordinate of θ, which is also that of u."""

    def sample(self, rng: np.random.Generator, dimension: int, size: int) -> Floats:
        """`size` independent draws of θ, one a row."""


class Noise(Protocol):
    """A symmetric distribution of the response noise z on [-M, M]."""

    @property
    def bound(self) -> float: ...

    @property
    def variance(self) -> float: ...

    @property
    def smooth(self) -> bool:
        """Whether g is analytic on [-M, M]; tables of own predictions rely on it."""

    def density(self, z: Floats) -> Floats:
        """g(z); zero outside [-M, M]."""

    def log_density(self, z: Floats) -> Floats:
        """log g(z) up to a constant, for z in [-M, M]."""

    def score(self, z: Floats) -> Floats:
        """(log g)'(z), for z in [-M, M]."""

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        """`size` independent draws of z."""


@dataclass(frozen=True)
class UniformBall:
    """θ uniform on the ball of radius R: f(u) ∝ (R² - u²)^((d-1)/2)."""

    radius: float

    def __post_init__(self) -> None:
        check.positive("radius", self.radius)

    def log_weight(self, t: Floats, dimension: int) -> Floats:
        return dimension * np.log(np.sin(t))

    def variance(self, dimension: int) -> float:
        return self.radius**2 / (dimension + 2)

    def sample(self, rng: np.random.Generator, dimension: int, size: int) -> Floats:
        lengths = self.radius * rng.random(size) ** (1 / dimension)
        return _directions(rng, dimension, size) * lengths[:, None]


@dataclass(frozen=True)
class NormalBall:
    """θ normal with standard deviation s in every coordinate, truncated to the ball of radius R.

    f(u) ∝ exp(-u²/2s²) · P(χ²_{d-1} ≤ (R² - u²)/s²); the second factor is 1 when d = 1.
    """

    radius: float
    sd: float

    def __post_init__(self) -> None:
        check.positive("radius", self.radius)
        check.positive("sd", self.sd)

    def log_weight(self, t: Floats, dimension: int) -> Floats:
        sine, cosine, k = np.sin(t), np.cos(t), self.radius / self.sd
        rest = log_chi2_cdf(np.square(k * sine), dimension - 1)
        return np.log(sine) + rest - np.square(k * cosine) / 2

    def variance(self, dimension: int) -> float:
        # E[θ_1² | ‖θ‖ ≤ R] = s² P(χ²_{d+2} ≤ R²/s²) / P(χ²_d ≤ R²/s²)
        square = np.array([(self.radius / self.sd) ** 2])
        ratio = log_chi2_cdf(square, dimension + 2) - log_chi2_cdf(square, dimension)
        return self.sd**2 * float(np.exp(ratio[0]))

    def sample(self, rng: np.random.Generator, dimension: int, size: int) -> Floats:
        if self.radius <= self.sd:
            return self._sample_by_rejection(rng, dimension, size)
        top = special.gammainc(dimension / 2, (self.radius / self.sd) ** 2 / 2)
        lengths = self.sd * np.sqrt(2 * special.gammaincinv(dimension / 2, top * rng.random(size)))
        return _directions(rng, dimension, size) * np.minimum(lengths, self.radius)[:, None]

    def _sample_by_rejection(self, rng: np.random.Generator, dimension: int, size: int) -> Floats:
        """Uniform draws kept with probability exp(-‖θ‖²/2s²): at least 0.6 each when R ≤ s."""
        kept = np.empty((0, dimension))
        while len(kept) < size:
            theta = UniformBall(self.radius).sample(rng, dimension, 2 * size)
            chance = np.exp(-np.sum(theta**2, axis=1) / (2 * self.sd**2))
            kept = np.concatenate([kept, theta[rng.random(2 * size) < chance]])
        return kept[:size]


@dataclass(frozen=True)
class TruncatedNormal:
    """Normal noise of standard deviation s before it is truncated to [-M, M]: g(z) ∝ exp(-z²/2s²)."""

    bound: float
    sd: float

    smooth = True

    def __post_init__(self) -> None:
        check.positive("bound", self.bound)
        check.positive("sd", self.sd)

    @property
    def variance(self) -> float:
        # s² P(χ²_3 ≤ M²/s²) / P(χ²_1 ≤ M²/s²): no cancellation when M is far below s.
        half = (self.bound / self.sd) ** 2 / 2
        return self.sd**2 * float(special.gammainc(1.5, half) / special.gammainc(0.5, half))

    def density(self, z: Floats) -> Floats:
        z = np.asarray(z, dtype=np.float64)
        mass = self.sd * math.sqrt(2 * math.pi) * math.erf(self.bound / self.sd / math.sqrt(2))
        return np.where(np.abs(z) <= self.bound, np.exp(self.log_density(z)) / mass, 0.0)

    def log_density(self, z: Floats) -> Floats:
        return np.square(z / self.sd) * -0.5

    def score(self, z: Floats) -> Floats:
        return -z / self.sd**2

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        width = self.sd * math.sqrt(2)
        z = width * special.erfinv(rng.uniform(-1, 1, size) * math.erf(self.bound / width))
        return np.clip(z, -self.bound, self.bound)


@dataclass(frozen=True)
class UniformNoise:
    """Noise uniform on [-M, M]. Reports with |y| ≤ M - R‖x‖ then say nothing about θ: lies there are free."""

    bound: float

    smooth = True

    def __post_init__(self) -> None:
        check.positive("bound", self.bound)

    @property
    def variance(self) -> float:
        return self.bound**2 / 3

    def density(self, z: Floats) -> Floats:
        return np.where(np.abs(z) <= self.bound, 0.5 / self.bound, 0.0)

    def log_density(self, z: Floats) -> Floats:
        return np.zeros_like(z)

    def score(self, z: Floats) -> Floats:
        return np.zeros_like(z)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        return rng.uniform(-self.bound, self.bound, size)


@dataclass(frozen=True, init=False)
class CustomNoise:
    """Any symmetric noise on [-M, M] whose density is given as a function of an array.

    The density need not be normalised. It must be even and above zero inside (-M, M); it may vanish at ±M. The
    own prediction keeps its accuracy for piecewise smooth densities: the quadrature bisects towards a kink until
    its two rules agree. Tables are built for smooth densities only. Samples come from the distribution function
    on a grid of 4,096 cells, and the score from differences of log g (relative error about 1e-5): both serve
    simulations and plans, never a payment.
    """

    bound: float
    given: Callable[[Floats], Floats]

    def __init__(self, bound: float, density: Callable[[Floats], Floats]) -> None:
        object.__setattr__(self, "bound", check.positive("bound", bound))
        object.__setattr__(self, "given", density)
        z = self.bound * (np.arange(1, 200) / 200)
        right, left = np.asarray(self.given(z)), np.asarray(self.given(-z))
        if right.shape != z.shape or not np.all(np.isfinite(right) & (right > 0)):
            raise InputError("density must give one finite value above 0 for every z inside (-bound, bound).")
        worst = int(np.argmax(np.abs(right - left) / right))
        if not abs(right[worst] - left[worst]) <= 1e-9 * right[worst]:
            raise InputError(
                f"density is {right[worst]} at {z[worst]} but {left[worst]} at {-z[worst]}; it must be even."
            )

    @property
    def variance(self) -> float:
        z, weights = _panels(self.bound)
        return float(weights @ (z**2 * self.density(z)))

    @property
    def smooth(self) -> bool:
        """Whether the Chebyshev coefficients of g have vanished by degree 192 of 256."""
        nodes = np.polynomial.chebyshev.chebpts1(257)
        coefficients = np.abs(np.polynomial.chebyshev.chebfit(nodes, self.given(self.bound * nodes), 256))
        return bool(coefficients[192:].max() <= 1e-13 * coefficients.max())

    def density(self, z: Floats) -> Floats:
        z = np.asarray(z, dtype=np.float64)
        nodes, weights = _panels(self.bound)
        mass = float(weights @ self.given(nodes))
        return np.where(np.abs(z) <= self.bound, self.given(np.clip(z, -self.bound, self.bound)) / mass, 0.0)

    def log_density(self, z: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.given(z), dtype=np.float64))

    def score(self, z: Floats) -> Floats:
        # The density may vanish at ±M, so the difference stays just inside.
        step = 1e-5 * self.bound
        centre = np.clip(z, 1.01 * step - self.bound, self.bound - 1.01 * step)
        return (self.log_density(centre + step) - self.log_density(centre - step)) / (2 * step)

    def sample(self, rng: np.random.Generator, size: int) -> Floats:
        edges = np.linspace(-self.bound, self.bound, 4097)
        middles = (edges[1:] + edges[:-1]) / 2
        cumulated = np.concatenate([[0.0], np.cumsum(self.density(middles))])
        return np.interp(rng.random(size), cumulated / cumulated[-1], edges)


def log_chi2_cdf(x: Floats, freedom: int) -> Floats:
    """log P(χ²_k ≤ x), also where the probability underflows; 0 for k = 0."""
    if freedom == 0:
        return np.zeros(x.shape)
    a, half = freedom / 2, np.asarray(x / 2)
    probability = np.asarray(special.gammainc(a, half), dtype=np.float64)
    small = probability < 1e-280
    with np.errstate(divide="ignore"):
        value = np.array(np.log(probability))
        # P(a, x) = x^a e^-x / Γ(a+1) · 1F1(1; a+1; x)
        tiny = half[small]
        series = np.log(special.hyp1f1(1.0, a + 1, tiny))
        value[small] = a * np.log(tiny) - tiny - special.gammaln(a + 1) + series
    return value


def _directions(rng: np.random.Generator, dimension: int, size: int) -> Floats:
    normal = rng.standard_normal((size, dimension))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True))


def _panels(bound: float) -> tuple[Floats, Floats]:
    """Nodes and weights of a composite Gauss-Legendre rule on [-M, M], with a panel edge at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    edges = np.linspace(-bound, bound, 65)
    half = bound / 64
    return ((edges[:-1, None] + half) + half * nodes).ravel(), np.tile(half * weights, 64)


# The peer curve ψ: what a peer predicts on average, as a function of the truth. Write u = θ·x/‖x‖. A player is scored
# against her peers' prediction x·peer, and ψ(u) is its expectation divided by ‖x‖ when the truth is u. Truth-telling is
# optimal exactly when her own prediction is ‖x‖ E[ψ(u) | x, y].


class Curve(Protocol):
    """ψ(u) for an array of u; `scale` (broadcast against u) is the scale of the peer noise along x."""

    @property
    def needs_scale(self) -> bool:
        """Whether ψ depends on the scale at all."""

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats: ...


@dataclass(frozen=True)
class Identity:
    """ψ(u) = u: unbiased, unclipped peers. The paper's own prediction."""

    needs_scale = False

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        return u


IDENTITY = Identity()


@dataclass(frozen=True)
class Shrunk:
    """ψ(u) = factor · u: peers are a ridge estimate that shrinks every direction alike."""

    factor: float

    needs_scale = False

    def __post_init__(self) -> None:
        check.positive("factor", self.factor)

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        return self.factor * u


@dataclass(frozen=True)
class Clipped:
    """ψ(u) = E[clip(factor·u + e, -R, R)]: peer predictions are kept where the truth is.

    e is one coordinate of an L2-Laplace vector (density ∝ exp(-‖v‖/s)) in `dimension` dimensions. With F its
    distribution function at s = 1 and K(z) = ∫_0^z (F - 1/2), an even function,

        ψ(u) = s [K((R + m)/s) - K((R - m)/s)],   m = factor·u,

    because both sides vanish at m = 0 and have the derivative P(|m + e| ≤ R). Error below 1e-13 R.
    """

    radius: float
    dimension: int
    factor: float = 1.0

    needs_scale = True

    def __post_init__(self) -> None:
        check.positive("radius", self.radius)
        check.integer("dimension", self.dimension)
        check.positive("factor", self.factor)

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        m, s = np.broadcast_arrays(self.factor * np.asarray(u, dtype=np.float64), scale)
        value = _clip_mean(
            np.ravel(m), np.ravel(s).astype(np.float64), self.radius, *antiderivative(self.dimension)
        )
        return np.asarray(value).reshape(m.shape)


# K is tabulated on half-octaves of z from 2^_LOW on: its only singularity, at z = 0, is then five half-widths away
# from the middle of each cell, and 16 Chebyshev coefficients leave a relative error near 1e-15.
_LOW = -24
_ORDER = 16


@lru_cache(maxsize=64)
def antiderivative(dimension: int) -> tuple[Floats, Floats]:
    """Coefficients of K(z)/z² on half-octaves, and (K(z)/z² at 0, E|e|/2): all that K needs."""
    top = math.ceil(math.log2(40 + 9 * math.sqrt(dimension + 1)))
    octaves = 2.0 ** np.arange(_LOW, top)
    centres = np.outer(octaves, [1.25, 1.75]).ravel()
    widths = np.repeat(octaves / 4, 2)
    z = centres[:, None] + widths[:, None] * chebyshev_nodes(_ORDER)
    coefficients = monomials(over_normals(z.ravel(), dimension, _normal_k).reshape(z.shape) / z**2)
    # Density at 0 and E|e| of the marginal law.
    ratio = math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)
    spread = (
        math.exp(math.lgamma(dimension / 2 + 1) - math.lgamma((dimension + 1) / 2)) * 2 / math.sqrt(math.pi)
    )
    return np.ascontiguousarray(coefficients), np.array([ratio / 4, spread / 2])


def over_normals(z: Floats, dimension: int, function: Callable[[Floats], Floats]) -> Floats:
    """E[√τ f(z/√τ)], with e = √τ Z, Z normal and τ/2 ~ Gamma((d+1)/2): turns f for a normal law into f for e's.

    The trapezoidal rule in log τ converges geometrically: the integrand is analytic in the strip |Im log τ| < π/2.
    """
    a = (dimension + 1) / 2
    end = math.log(2 * (a + 50 + 10 * math.sqrt(a)))
    tau = np.exp(np.arange(math.log(2 * a) - 42 / a - 9 / math.sqrt(a), end, min(0.2, 0.5 / math.sqrt(a))))
    log_weight = a * np.log(tau) - tau / 2
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(function(z[:, None] / np.sqrt(tau)) @ (np.sqrt(tau) * weight / weight.sum()))


def _normal_k(x: Floats) -> Floats:
    """K of the normal law: x erf(x/√2)/2 + (exp(-x²/2) - 1)/√(2π)."""
    return x * special.erf(x / math.sqrt(2)) / 2 + np.expm1(-(x**2) / 2) / math.sqrt(2 * math.pi)


def _clip_mean(m: Floats, s: Floats, radius: float, coefficients: Floats, ends: Floats) -> Floats:
    """E[clip(m + s·e, ±radius)], with K by table, and beyond the table by its two limits."""
    table = np.ascontiguousarray(coefficients.T)

    def k(z: Floats) -> Floats:
        mantissa, exponent = np.frexp(z)
        upper = mantissa >= 0.75
        cell = 2 * (exponent.astype(np.intp) - 1 - _LOW) + upper
        inside = piecewise(table, cell, 8 * mantissa - 5 - 2.0 * upper) * z * z
        outside = np.where(z < 2.0**_LOW, ends[0] * z * z, z / 2 - ends[1])
        return np.where((cell >= 0) & (cell < len(coefficients)), inside, outside)

    with np.errstate(all="ignore"):
        value = s * (k(np.abs(radius + m) / s) - k(np.abs(radius - m) / s))
    return np.where(s > 0, value, np.clip(m, -radius, radius))


# Polynomials that stand for functions, through Chebyshev nodes on [-1, 1]

# Chebyshev coefficients this far below the largest are rounding noise. Left in, the change to monomials would
# multiply them by up to (1 + √2)^order.
_NOISE = 2e-15


def chebyshev_nodes(order: int) -> Floats:
    """The `order` zeros of T_order."""
    return np.cos(np.pi * (np.arange(order) + 0.5) / order)


def chebyshev_extrema(order: int) -> Floats:
    """The order + 1 points where |T_order| = 1. An interpolation error is close to c·T_order: largest there."""
    return np.cos(np.pi * np.arange(order + 1) / order)


def chebyshev_coefficients(values: Floats, axis: int = -1) -> Floats:
    """Chebyshev coefficients of the polynomial through values at chebyshev_nodes, along one axis."""
    matrix, _ = _matrices(values.shape[axis])
    return times(matrix, values, axis)


def monomials(values: Floats, axis: int = -1) -> Floats:
    """Coefficients of 1, x, x², ... of the polynomial through values at chebyshev_nodes, along one axis."""
    coefficients = chebyshev_coefficients(values, axis)
    largest = np.abs(coefficients).max(axis=axis, keepdims=True)
    coefficients[np.abs(coefficients) < _NOISE * largest] = 0.0
    return from_chebyshev(coefficients, axis)


def from_chebyshev(coefficients: Floats, axis: int = -1) -> Floats:
    """Coefficients of 1, x, x², ... of the polynomial with these Chebyshev coefficients, along one axis."""
    _, matrix = _matrices(coefficients.shape[axis])
    return times(matrix, coefficients, axis)


def times(matrix: Floats, values: Floats, axis: int) -> Floats:
    """The matrix times the values along one axis: many small products that should wake no other thread."""
    axis %= values.ndim
    if axis == values.ndim - 1:
        return np.asarray(values @ matrix.T)
    before, after = values.shape[:axis], values.shape[axis + 1 :]
    product = matrix @ values.reshape((*before, values.shape[axis], math.prod(after)))
    return np.asarray(product.reshape((*before, len(matrix), *after)))


@lru_cache(maxsize=64)
def _matrices(order: int) -> tuple[Floats, Floats]:
    """The matrices from values to Chebyshev coefficients, and from these to monomial coefficients."""
    k = np.arange(order)
    # Integer multiples of π/2n, reduced exactly to one turn before taking the cosine.
    turns = np.outer(k, 2 * k + 1) % (4 * order)
    to_chebyshev = np.cos(np.pi * turns / (2 * order)) * 2 / order
    to_chebyshev[0] /= 2
    to_monomials = np.zeros((order, order))
    for degree in range(order):
        to_monomials[: degree + 1, degree] = np.polynomial.chebyshev.cheb2poly(np.eye(order)[degree])[
            : degree + 1
        ]
    return to_chebyshev, to_monomials

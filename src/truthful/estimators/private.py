"""The four private estimators: exact statistics in, queries for the noise sampler out, estimates back.

A query is an integer vector with a proven L2 sensitivity: the most it can move when one player's whole
record is replaced by any other. Adding noise with P(k) ∝ exp(−‖k‖·ε/sensitivity) on the same lattice
releases it with ε-differential privacy, exactly. Everything public is decided before the data are seen;
everything done to an answer is post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Protocol

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.ridge import (
    RADIUS_RANGE,
    TOLERANCE,
    UNIT,
    ball_ridge,
    free_ridge,
    require_solvable,
)
from truthful.estimators.sensitivity import (
    GRAM_SENSITIVITY,
    Query,
    cross_query,
    cross_sensitivity,
    gram_query,
    minimiser_distance,
    sqrt_above,
)
from truthful.moments import PRODUCT, Moments, PythonIntegers, along, response_limit

LATTICE = 2**40  # the sensitivity of a released minimiser spans about this many lattice steps

Epsilon = float | Fraction


@dataclass(frozen=True, eq=False)
class Estimate:
    """A private estimate: the privacy noise in θ̂ is spread @ v, v with density ∝ exp(−‖v‖/scale).

    For `noisy-statistics`, gram_scale is the scale of the noise N in XᵀX/n, of density ∝
    exp(−‖N‖_F/gram_scale), and enters θ̂ as −spread @ N @ θ, to first order.
    """

    theta: Floats
    spread: Floats
    scale: float
    gram_scale: float | None = None

    @cached_property
    def noise_range(self) -> tuple[float, float]:
        """The least and largest that `noise_along` can be, over all directions."""
        factors = np.linalg.svd(self.spread, compute_uv=False)
        return self.scale * float(factors[-1]), self.scale * float(factors[0])

    def noise_along(self, x: Floats, r: Floats) -> Floats:
        """The scale of the noise along each x of length r: s·‖xᵀA‖/‖x‖, where the noise in θ̂ is A v."""
        least, most = self.noise_range
        if least == most:
            return np.full(len(r), most)
        stretched = np.sqrt(sum((along(x, column) ** 2 for column in self.spread.T), np.zeros(len(x))))
        return np.clip(self.scale * stretched / np.where(r > 0, r, 1.0), least, most)


class Estimator(Protocol):
    """A private estimator."""

    def queries(self, moments: Moments) -> tuple[Query, ...]:
        """The vectors to release."""
        ...

    def estimate(self, answers: Sequence[Sequence[int]], count: int, epsilon: Epsilon) -> Estimate:
        """The estimate from the noisy answers to the queries of `count` players."""
        ...

    def noise_scale(self, count: int, epsilon: Epsilon) -> float:
        """The scale of the noise in the released vector that estimates the coefficients, in normalised units."""
        ...


@dataclass(frozen=True, eq=False)
class KnownDesign:
    """θ̂ = Σ⁻¹(Xᵀy/n + v): features whose second moments E[xxᵀ] = Σ are known. Unbiased.

    The released vector is the integer sum Σ k_x k_y. One record moves it by at most 2‖k_x‖|k_y|, attained by
    turning y into −y.
    """

    Sigma: Floats
    response_bound: float

    def __post_init__(self) -> None:
        Sigma = check.matrix("Sigma", self.Sigma)
        if not np.allclose(Sigma, Sigma.T, rtol=1e-10, atol=1e-12) or not np.linalg.eigvalsh(Sigma)[0] > 0:
            raise InputError(
                "Sigma must be symmetric with positive eigenvalues: the features' second moments E[x xᵀ]."
            )
        response_limit(self.response_bound)

    def queries(self, moments: Moments) -> tuple[Query, ...]:
        _require_players(moments, len(self.Sigma))
        return (cross_query(moments.cross, self.response_bound, _product_unit(moments.count), Fraction(1)),)

    def estimate(self, answers: Sequence[Sequence[int]], count: int, epsilon: Epsilon) -> Estimate:
        inverse = np.asarray(np.linalg.inv(self.Sigma), dtype=np.float64)
        mean = _floats(answers[0], _product_unit(count))
        return Estimate(inverse @ mean, inverse, self.noise_scale(count, epsilon))

    def noise_scale(self, count: int, epsilon: Epsilon) -> float:
        return float(cross_sensitivity(self.response_bound) * _product_unit(count) / _exact(epsilon))


@dataclass(frozen=True, eq=False)
class NoisyStatistics:
    """θ̂ = (XᵀX/n + N)⁻¹(Xᵀy/n + v), eigenvalues floored: features about which nothing is known.

    Two releases share epsilon. The upper triangle of Σ k_x k_xᵀ, off-diagonal entries weighing 2 so that the
    norm is Frobenius's: ‖xxᵀ − x'x'ᵀ‖²_F = ‖x‖⁴ + ‖x'‖⁴ − 2(x·x')² ≤ 2, attained by orthogonal unit vectors.
    And Σ k_x k_y.

    Eigenvalues below s_N·d^1.5, about the spectral norm of N, are noise and are raised to it.
    """

    dimension: int
    response_bound: float
    gram_share: float | Fraction = Fraction(1, 2)

    def __post_init__(self) -> None:
        check.integer("dimension", self.dimension)
        response_limit(self.response_bound)
        check.share("gram_share", float(self.gram_share))

    def queries(self, moments: Moments) -> tuple[Query, ...]:
        _require_players(moments, self.dimension)
        unit, share = _product_unit(moments.count), Fraction(self.gram_share)
        return (
            gram_query(moments.gram, unit, share),
            cross_query(moments.cross, self.response_bound, unit, 1 - share),
        )

    def estimate(self, answers: Sequence[Sequence[int]], count: int, epsilon: Epsilon) -> Estimate:
        unit = _product_unit(count)
        gram = np.zeros((self.dimension, self.dimension))
        gram[np.triu_indices(self.dimension)] = _floats(answers[0], unit)
        values, vectors = np.linalg.eigh(gram, UPLO="U")
        inverse: Floats = vectors / np.maximum(values, self.eigenvalue_floor(count, epsilon)) @ vectors.T
        return Estimate(
            inverse @ _floats(answers[1], unit),
            inverse,
            self.noise_scale(count, epsilon),
            self.gram_scale(count, epsilon),
        )

    def noise_scale(self, count: int, epsilon: Epsilon) -> float:
        spent = _exact(epsilon) * (1 - Fraction(self.gram_share))
        return float(cross_sensitivity(self.response_bound) * _product_unit(count) / spent)

    def gram_scale(self, count: int, epsilon: Epsilon) -> float:
        """s_N, the scale of the noise in XᵀX/n: √2/(n·ε·gram_share)."""
        return float(GRAM_SENSITIVITY * _product_unit(count) / (_exact(epsilon) * Fraction(self.gram_share)))

    def eigenvalue_floor(self, count: int, epsilon: Epsilon) -> float:
        """ℓ = s_N·d^1.5."""
        return self.gram_scale(count, epsilon) * float(self.dimension**1.5)


class _Ridge(ABC):
    """A release of a minimiser of Σ(y − θ·x)² + γ‖θ‖², rounded to a lattice far finer than its noise."""

    dimension: int
    gamma: float
    response_bound: float

    def __post_init__(self) -> None:
        check.integer("dimension", self.dimension)
        require_solvable(1, Fraction(check.positive("gamma", self.gamma)))
        response_limit(self.response_bound)

    @abstractmethod
    def _minimiser(self, moments: Moments) -> PythonIntegers:
        """The minimiser, within TOLERANCE, in units of 2⁻³⁸⁴."""

    @abstractmethod
    def _distance(self, count: int) -> Fraction:
        """The furthest that replacing one record can move the exact minimiser."""

    def queries(self, moments: Moments) -> tuple[Query, ...]:
        _require_players(moments, self.dimension)
        step = self._step(moments.count)
        nearest = (self._minimiser(moments) + int(step * UNIT) // 2) // int(step * UNIT)
        return (
            Query(
                value=tuple(int(k) for k in nearest),
                unit=step,
                sensitivity=self._lattice_sensitivity(moments.count),
                weights=(1,) * self.dimension,
                share=Fraction(1),
            ),
        )

    def estimate(self, answers: Sequence[Sequence[int]], count: int, epsilon: Epsilon) -> Estimate:
        theta = _floats(answers[0], self._step(count))
        return Estimate(theta, np.eye(self.dimension), self.noise_scale(count, epsilon))

    def noise_scale(self, count: int, epsilon: Epsilon) -> float:
        return float(self._lattice_sensitivity(count) * self._step(count) / _exact(epsilon))

    def _step(self, count: int) -> Fraction:
        """The lattice: the largest power of two up to 2⁻⁴⁰ of the sensitivity."""
        require_solvable(check.integer("count", count), Fraction(self.gamma))
        finest = self._distance(count) / LATTICE
        power = Fraction(2) ** (finest.numerator.bit_length() - finest.denominator.bit_length())
        return power if power <= finest else power / 2

    def _lattice_sensitivity(self, count: int) -> Fraction:
        """Two exact minimisers' distance, two solver errors and two roundings of half a step in every coordinate."""
        step = self._step(count)
        widened = self._distance(count) + 2 * TOLERANCE + step * sqrt_above(Fraction(self.dimension))
        return Fraction(ceil(widened / step))


@dataclass(frozen=True)
class RidgeBall(_Ridge):
    """θ̂ = argmin over ‖θ‖ ≤ R of Σ(y − θ·x)² + γ‖θ‖², plus v: the paper's, with a sensitivity that holds."""

    dimension: int
    gamma: float
    radius: float
    response_bound: float

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = RADIUS_RANGE
        if not low <= Fraction(check.positive("radius", self.radius)) <= high:
            raise InputError(f"radius is {self.radius!r}; it must lie between 2^-20 and {high}.")

    def _minimiser(self, moments: Moments) -> PythonIntegers:
        return ball_ridge(moments, Fraction(self.gamma), Fraction(self.radius))

    def _distance(self, count: int) -> Fraction:
        return minimiser_distance(self.radius, self.response_bound, self.gamma)


@dataclass(frozen=True)
class RidgeFree(_Ridge):
    """θ̂ = (γI + XᵀX)⁻¹Xᵀy + v.

    Its norm is at most ‖(γI+XᵀX)⁻¹Xᵀ‖·‖y‖ ≤ Y√m/(2√γ), since σ/(γ+σ²) ≤ 1/(2√γ). So it is also the minimiser
    over the ball of that radius, and moves no further than that one: never more than Y(2 + ½√(m/γ))/γ.
    """

    dimension: int
    gamma: float
    response_bound: float

    def _minimiser(self, moments: Moments) -> PythonIntegers:
        return free_ridge(moments, Fraction(self.gamma))

    def _distance(self, count: int) -> Fraction:
        square_radius = Fraction(self.response_bound) ** 2 * count / (4 * Fraction(self.gamma))
        return minimiser_distance(sqrt_above(square_radius), self.response_bound, self.gamma)


def _product_unit(count: int) -> Fraction:
    """A unit of a sum of products of grid integers, as a mean over the players."""
    return Fraction(1, PRODUCT * check.integer("count", count))


def _exact(epsilon: Epsilon) -> Fraction:
    check.positive("epsilon", float(epsilon))
    return Fraction(epsilon)


def _require_players(moments: Moments, dimension: int) -> None:
    if moments.dimension != dimension:
        raise InputError(f"The moments have dimension {moments.dimension}; the estimator has {dimension}.")
    check.integer("count", moments.count)


def _floats(answer: Sequence[int], unit: Fraction) -> Floats:
    return np.array([float(k * unit) for k in answer])

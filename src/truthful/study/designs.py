"""The declared law of the normalised features x, and its moments.

The estimator for a known design inverts E[x xᵀ]; its sampling error follows from E[(w·x)² x xᵀ].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.study.features import Column, Encoding, Levels, Numeric

RawColumns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class ObservedDesign:
    """Features as they come. Nothing is known of their law but, if declared, λ_min(E[x xᵀ])."""

    least_eigenvalue: float | None

    kind = "observed"
    second_moments = None
    reach = math.inf
    leverage = math.inf

    def weighted_moments(self, w: Floats) -> Floats:
        raise InputError(
            "The features are observed: their moments are not known. Check second_moments first."
        )

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        raise InputError(
            "design.kind is 'observed': the study does not say how features are distributed. To draw some, "
            "declare design.kind = 'uniform', or bring a file of features."
        )


@dataclass(frozen=True)
class CovarianceDesign:
    """Features with a given E[x xᵀ], otherwise unknown."""

    matrix: tuple[tuple[float, ...], ...]

    kind = "covariance"

    @cached_property
    def second_moments(self) -> Floats:
        return np.array(self.matrix)

    @cached_property
    def least_eigenvalue(self) -> float:
        return float(np.linalg.eigvalsh(self.second_moments)[0])

    @property
    def reach(self) -> float:
        """sup ‖Σ⁻¹x‖ over ‖x‖ ≤ 1: 1/λ_min(Σ)."""
        return 1 / self.least_eigenvalue

    @property
    def leverage(self) -> float:
        """sup xᵀΣ⁻¹x over ‖x‖ ≤ 1: 1/λ_min(Σ)."""
        return 1 / self.least_eigenvalue

    def weighted_moments(self, w: Floats) -> Floats:
        """E[(w·x)² x xᵀ] ≤ (wᵀΣw)·I, as ‖x‖ ≤ 1. An upper bound in the order of positive matrices."""
        Sigma = self.second_moments
        return float(w @ Sigma @ w) * np.eye(len(Sigma))

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        raise InputError(
            "design.kind is 'covariance': a matrix does not say how features are distributed. To draw some, "
            "declare design.kind = 'uniform', or bring a file of features."
        )


@dataclass(frozen=True)
class UnitBallDesign:
    """x uniform on the unit ball of R^d: the paper's model."""

    names: tuple[str, ...]

    kind = "unit-ball"

    @property
    def second_moments(self) -> Floats:
        """Σ = I/(d+2)."""
        return np.eye(len(self.names)) * self.least_eigenvalue

    @property
    def least_eigenvalue(self) -> float:
        return 1.0 / (len(self.names) + 2)

    @property
    def reach(self) -> float:
        """sup ‖Σ⁻¹x‖ = d+2."""
        return len(self.names) + 2.0

    @property
    def leverage(self) -> float:
        """sup xᵀΣ⁻¹x = d+2."""
        return len(self.names) + 2.0

    def weighted_moments(self, w: Floats) -> Floats:
        """E[(w·x)² x xᵀ] = (‖w‖²I + 2wwᵀ)/((d+2)(d+4)), since E‖x‖⁴ = d/(d+4)."""
        d = len(self.names)
        return np.asarray((w @ w * np.eye(d) + 2 * np.outer(w, w)) / ((d + 2) * (d + 4)))

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        """Uniform direction, radius U^(1/d)."""
        d = len(self.names)
        direction = rng.standard_normal((check.integer("n", n, least=0), d))
        direction *= (rng.random(n) ** (1.0 / d) / np.linalg.norm(direction, axis=1))[:, None]
        return dict(zip(self.names, np.ascontiguousarray(direction.T), strict=True))


@dataclass(frozen=True)
class UniformDesign:
    """Independent features: numbers uniform on their declared ranges, levels equally likely."""

    encoding: Encoding

    kind = "uniform"

    @cached_property
    def second_moments(self) -> Floats:
        """Diagonal blocks over d: 1 (intercept), 1/3 (a number), (I + 11ᵀ)/k (effect codes of k levels)."""
        Sigma = np.eye(self.encoding.dimension)
        for points, weights, place in self._blocks:
            Sigma[place, place] = (points.T * weights) @ points
        return Sigma / self.encoding.dimension

    @cached_property
    def least_eigenvalue(self) -> float:
        return float(np.linalg.eigvalsh(self.second_moments)[0])

    @cached_property
    def reach(self) -> float:
        """sup ‖Σ⁻¹x‖: in codes c = √d·x with S = E[c cᵀ] that is √d·‖S⁻¹c‖, and blocks reach their largest together."""
        return float(np.sqrt(self.encoding.dimension * self._sup_of_blocks(power=2)))

    @cached_property
    def leverage(self) -> float:
        """sup xᵀΣ⁻¹x = sup cᵀS⁻¹c."""
        return self._sup_of_blocks(power=1)

    def _sup_of_blocks(self, power: int) -> float:
        """sup cᵀS⁻ᵖc, block by block: a number's code is ±1 there, a level is one of its codes."""
        d, total = self.encoding.dimension, float(self.encoding.intercept)
        for feature, place in zip(self.encoding.features, self.encoding.slices, strict=True):
            ends = feature.effects if isinstance(feature, Levels) else np.array([[1.0]])
            inverse = np.linalg.inv(d * self.second_moments[place, place])
            total += float(np.einsum("ij,jk,ik->i", ends, np.linalg.matrix_power(inverse, power), ends).max())
        return total

    @cached_property
    def _blocks(self) -> list[tuple[Floats, Floats, slice]]:
        encoding = self.encoding
        return [
            (*code_law(feature), place)
            for feature, place in zip(encoding.features, encoding.slices, strict=True)
        ]

    def weighted_moments(self, w: Floats) -> Floats:
        """E[(w·x)² x xᵀ], exactly.

        In codes c = √d·x, w·c = a + Σ A_b: a is the intercept's part, and A_b = w_b·c_b are the independent,
        centred parts of the features. With S = E[c cᵀ] without the intercept, g = S w and V = wᵀS w, the
        block of two features b ≠ b′ is 2 g_b g_b′ᵀ, of one feature
        (a² + V − V_b)S_b + E[(A_b² + 2aA_b) c_b c_bᵀ], of a feature and the intercept 2a g_b + E[A_b² c_b], of
        the intercept a² + V.
        """
        d = self.encoding.dimension
        S = d * self.second_moments
        a = 0.0
        if self.encoding.intercept:
            a, S[0, 0] = float(w[0]), 0.0
        g = S @ w
        V = float(w @ g)
        Q = 2 * np.outer(g, g) + (a * a + V) * S
        for points, weights, place in self._blocks:
            A = points @ w[place]
            own = (points.T * (weights * (A * A + 2 * a * A))) @ points
            Q[place, place] += (
                own - float(w[place] @ g[place]) * S[place, place] - 2 * np.outer(g[place], g[place])
            )
            if self.encoding.intercept:
                Q[0, place] = Q[place, 0] = 2 * a * g[place] + points.T @ (weights * A * A)
        if self.encoding.intercept:
            Q[0, 0] = a * a + V
        return np.asarray(Q / d**2)

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        return sample_uniform(rng, check.integer("n", n, least=0), self.encoding.features)


Design = ObservedDesign | CovarianceDesign | UnitBallDesign | UniformDesign


def code_law(feature: Column) -> tuple[Floats, Floats]:
    """Points and weights with the moments of a uniformly drawn feature's codes.

    A number's code is uniform on [−1, 1], whose moments up to the fifth are those of three points (Gauss and
    Legendre); no moment here is above the fourth. Levels are their own points.
    """
    if isinstance(feature, Levels):
        k = len(feature.levels)
        return feature.effects, np.full(k, 1.0 / k)
    return np.array([[-np.sqrt(0.6)], [0.0], [np.sqrt(0.6)]]), np.array([5.0, 8.0, 5.0]) / 18.0


def sample_uniform(rng: np.random.Generator, n: int, features: Sequence[Column]) -> RawColumns:
    """Raw columns of n invented people: numbers uniform on their ranges, levels (as text) equally likely."""
    columns: RawColumns = {}
    for feature in features:
        if isinstance(feature, Levels):
            columns[feature.name] = np.array(feature.levels)[rng.integers(len(feature.levels), size=n)]
        elif isinstance(feature, Numeric):
            columns[feature.name] = rng.uniform(feature.low, feature.high, n)
        else:
            raise InputError(f"Feature {feature.name!r} has no declared range to draw from.")
    return columns


def check_second_moments(rows: tuple[tuple[float, ...], ...], d: int, intercept: bool) -> None:
    """E[x xᵀ] for d columns in [−1/√d, 1/√d], the first of them 1/√d if there is an intercept."""
    if len(rows) != d or any(len(row) != d for row in rows):
        shape = f"{len(rows)}×{'/'.join(str(n) for n in sorted({len(row) for row in rows}))}"
        raise InputError(f"design.matrix is {shape}; x has {d} columns, so it must be {d}×{d}.")
    matrix = np.array(rows)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12):
        i, j = np.unravel_index(np.argmax(np.abs(matrix - matrix.T)), matrix.shape)
        raise InputError(
            f"design.matrix is not symmetric: [{i}][{j}] is {matrix[i, j]:g}, [{j}][{i}] is {matrix[j, i]:g}."
        )
    least = float(np.linalg.eigvalsh(matrix)[0])
    if not least > 0:
        raise InputError(f"design.matrix has the eigenvalue {least:g}; all must be above 0.")
    largest = int(np.argmax(np.diag(matrix)))
    if not matrix[largest, largest] <= 1 / d + 1e-9:
        raise InputError(
            f"design.matrix[{largest}][{largest}] is {matrix[largest, largest]:g}, above 1/{d}: the columns "
            f"of the normalised x lie in ±1/√{d}, so the trace is at most 1."
        )
    if intercept and not abs(matrix[0, 0] - 1 / d) <= 1e-6:
        raise InputError(
            f"design.matrix[0][0] is {matrix[0, 0]:g}; the intercept makes it 1/{d} = {1 / d:g}."
        )

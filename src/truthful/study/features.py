"""From raw features to normalised ones, from normalised coefficients back to raw ones, and features' declared law.

Every feature becomes one or more *codes* in [−1, 1]:

- a number v in its declared range [low, high]: one code, (2v − low − high)/(high − low);
- one of k levels: k − 1 codes (effect coding). Level j < k is the j-th unit vector, the last level is
  (−1, …, −1), so a level's effect is relative to the mean of all levels and the effects sum to zero.

An intercept is the code 1. With d codes in all, x = codes/√d, so ‖x‖ ≤ 1 always.

A design is the law of x, with its moments: the estimator for a known design inverts E[x xᵀ]; its sampling error follows
from E[(w·x)² x xᵀ].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Numeric:
    """A number, coded slope·v + shift."""

    name: str
    low: float
    high: float

    columns = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def effects(self) -> Floats:
        """Raw coefficients per unit of the code's coefficient."""
        return np.array([[2.0 / (self.high - self.low)]])

    @property
    def shift(self) -> Floats:
        """What a unit of the code's coefficient adds to the raw intercept."""
        return np.array([-(self.low + self.high) / (self.high - self.low)])

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        """The code of every value, over the scale, into the row of `out`."""
        put_place(values, self.low, self.high, 1.0 / ((self.high - self.low) * scale), out[0])

    def codes(self, effects: Floats) -> tuple[Floats, float]:
        """The code's coefficient, and the constant that goes with it, for a raw coefficient."""
        coefficients = effects / self.effects[0]
        return coefficients, -float(coefficients @ self.shift)


@dataclass(frozen=True)
class AsGiven(Numeric):
    """A number that is already normalised."""

    low: float = -1.0
    high: float = 1.0

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        np.divide(np.asarray(values, dtype=np.float64), scale, out=out[0])


@dataclass(frozen=True)
class Levels:
    """One of k ≥ 2 levels, effect coded in k − 1 columns."""

    name: str
    levels: tuple[str, ...]

    @property
    def columns(self) -> int:
        return len(self.levels) - 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    @cached_property
    def effects(self) -> Floats:
        """The codes of the levels, one a row: with coefficients φ, the levels' effects are this times φ."""
        return np.vstack([np.eye(self.columns), -np.ones(self.columns)])

    @property
    def shift(self) -> Floats:
        return np.zeros(self.columns)

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        places = self.positions(values)
        for codes, row in zip(self.effects.T / scale, out, strict=True):
            np.take(codes, places, out=row, mode="clip")  # places are checked; clipping is numpy's fast way

    def positions(self, values: Any) -> np.ndarray[Any, Any]:
        """The place of each value in the list of levels: integers are places already, text is looked up."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            if array.size and (array.ndim > 1 or array.dtype.kind not in "OTU"):
                raise InputError(
                    f"Feature {self.name!r} holds values that are not text; its levels are text."
                )
            # By name, -1 where a value is none of them. Arrow would be no faster, and takes long to load.
            places = {level: at for at, level in enumerate(self.levels)}
            array = np.array([places.get(value, -1) for value in array.tolist()], dtype=np.int64)
        bad = np.flatnonzero((array < 0) | (array >= len(self.levels)))
        if len(bad):
            raise InputError(
                f"Feature {self.name!r} in row {bad[0]} is {np.asarray(values, dtype=object)[bad[0]]!r}; "
                f"its levels are {', '.join(self.levels)}."
            )
        return array

    def codes(self, effects: Floats) -> tuple[Floats, float]:
        """Effects that do not sum to zero have a mean, which belongs to the intercept."""
        mean = float(effects.mean())
        return (effects - mean)[:-1], mean


Column = Numeric | Levels


@dataclass(frozen=True)
class Encoding:
    """All features of a study as one vector x of d columns: the intercept first, if there is one."""

    features: tuple[Column, ...]
    intercept: bool
    scaled: bool
    """Whether the codes are divided by √d."""

    @cached_property
    def dimension(self) -> int:
        return int(self.intercept) + sum(feature.columns for feature in self.features)

    @property
    def scale(self) -> float:
        return math.sqrt(self.dimension) if self.scaled else 1.0

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Which columns of x belong to each feature."""
        ends = np.cumsum([int(self.intercept), *(feature.columns for feature in self.features)]).tolist()
        return tuple(slice(start, end) for start, end in pairwise(ends))

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Of each column of x the feature that it belongs to, or the intercept."""
        own = (name for feature in self.features for name in [feature.name] * feature.columns)
        return (*([INTERCEPT] if self.intercept else []), *own)

    def normalise(self, columns: Mapping[str, Any], rows: int | None = None) -> Floats:
        """x for every row of the raw columns: one array per feature, of numbers, level places or level names.

        Values are mapped, not checked: a number outside its range gives a code outside [−1, 1]. Where there may be no
        columns to count, because an intercept is all there is, `rows` says how many rows they are.
        """
        missing = [feature.name for feature in self.features if feature.name not in columns]
        if missing:
            raise InputError(
                f"The column {missing[0]!r} is missing; there are {', '.join(columns) or 'none'}."
            )
        X = np.empty((_rows(columns, rows), self.dimension), order="F")
        if self.intercept:
            X[:, 0] = 1.0 / self.scale
        for feature, place in zip(self.features, self.slices, strict=True):
            feature.encode(columns[feature.name], self.scale, X[:, place].T)
        return X

    def reach(self, coefficients: Floats) -> float:
        """The largest |coefficients·x| over all x that the ranges and levels allow; ‖coefficients‖ on the unit ball."""
        if not self.scaled:
            return float(np.linalg.norm(coefficients))
        low = high = float(coefficients[0]) if self.intercept else 0.0
        for feature, place in zip(self.features, self.slices, strict=True):
            corners = feature.effects if isinstance(feature, Levels) else np.array([[-1.0], [1.0]])
            values = corners @ coefficients[place]
            low, high = low + float(values.min()), high + float(values.max())
        return max(-low, high) / self.scale

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the raw coefficients, the intercept first: k of them for a feature of k levels."""
        return (INTERCEPT, *(name for feature in self.features for name in feature.names))

    @cached_property
    def effects(self) -> Floats:
        """The matrix from coefficients of the codes to raw coefficients, one row for each name.

        raw prediction = intercept + Σ coefficient·value + Σ effect of the level, exactly.
        """
        rows = np.zeros((len(self.names), self.dimension))
        if self.intercept:
            rows[0, 0] = 1.0
        start = 1
        for feature, place in zip(self.features, self.slices, strict=True):
            rows[0, place] = feature.shift
            rows[start : start + len(feature.names), place] = feature.effects
            start += len(feature.names)
        return rows

    def codes(self, raw: Mapping[str, float]) -> Floats:
        """Coefficients of the codes from raw coefficients: the inverse of `effects`.

        Names left out are 0, and an intercept left out makes the prediction 0 in the middle of all features.
        """
        unknown = [name for name in raw if name not in self.names]
        if unknown:
            raise InputError(f"{unknown[0]!r} is no coefficient; choose from {', '.join(self.names)}.")
        coefficients, constant = np.zeros(self.dimension), 0.0
        for feature, place in zip(self.features, self.slices, strict=True):
            effects = np.array([raw.get(name, 0.0) for name in feature.names])
            coefficients[place], moved = feature.codes(effects)
            constant += moved
        value = raw[INTERCEPT] + constant if INTERCEPT in raw else 0.0
        if self.intercept:
            coefficients[0] = value
        elif not abs(value) <= 1e-9 * max(1.0, float(np.abs(self.effects[0]) @ np.abs(coefficients))):
            raise InputError(
                f"The intercept is off by {value:g} from the only one possible without an intercept column. "
                "Leave it out, or set intercept = true."
            )
        return coefficients


def put_place(values: Any, low: float, high: float, factor: float, out: Floats) -> None:
    """(2v − low − high)·factor: a number's place in its range."""
    with np.errstate(over="ignore"):
        np.multiply(np.asarray(values, dtype=np.float64), 2.0, out=out)
        out -= low
        out -= high
        out *= factor


def _rows(columns: Mapping[str, Any], rows: int | None) -> int:
    lengths = {name: len(values) for name, values in columns.items()}
    found = set(lengths.values()) | ({rows} if rows is not None else set())
    if not found:
        raise InputError("There are no columns, so the number of rows must be given.")
    if len(found) > 1:
        wanted = "one length" if rows is None else f"{rows} rows"
        raise InputError(f"The columns must have {wanted}; they have {lengths}.")
    return found.pop()


RawColumns = dict[str, np.ndarray[Any, Any]]


class Design:
    """The law of x: its second moments Σ = E[x xᵀ], λ_min(Σ), and how far Σ⁻¹ takes features, as much as is known."""

    kind: str

    @cached_property
    def second_moments(self) -> Floats | None:
        """Σ, or None if features are observed."""
        return None

    @cached_property
    def least_eigenvalue(self) -> float | None:
        """λ_min(Σ), or None if it is not known."""
        moments = self.second_moments
        return None if moments is None else float(np.linalg.eigvalsh(moments)[0])

    @cached_property
    def reach(self) -> float:
        """sup ‖Σ⁻¹x‖ over ‖x‖ ≤ 1: 1/λ_min(Σ)."""
        return math.inf if self.second_moments is None else 1 / (self.least_eigenvalue or 0.0)

    @cached_property
    def leverage(self) -> float:
        """sup xᵀΣ⁻¹x over ‖x‖ ≤ 1: 1/λ_min(Σ)."""
        return self.reach

    def weighted_moments(self, w: Floats) -> Floats:
        """E[(w·x)² x xᵀ] ≤ (wᵀΣw)·I, as ‖x‖ ≤ 1. An upper bound in the order of positive matrices."""
        Sigma = self.second_moments
        if Sigma is None:
            raise InputError(
                "The features are observed: their moments are not known. Check second_moments first."
            )
        return float(w @ Sigma @ w) * np.eye(len(Sigma))

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        """Raw columns of n invented people."""
        raise InputError(
            f"design.kind is {self.kind!r}: the study does not say how features are distributed. To draw some, "
            "declare design.kind = 'uniform', or bring a file of features."
        )


@dataclass(frozen=True)
class ObservedDesign(Design):
    """Features as they come. Nothing is known of their law but, if declared, λ_min(E[x xᵀ])."""

    declared: float | None

    kind = "observed"

    @cached_property
    def least_eigenvalue(self) -> float | None:
        return self.declared


@dataclass(frozen=True)
class CovarianceDesign(Design):
    """Features with a given E[x xᵀ], otherwise unknown."""

    matrix: tuple[tuple[float, ...], ...]

    kind = "covariance"

    @cached_property
    def second_moments(self) -> Floats:
        return np.array(self.matrix)


@dataclass(frozen=True)
class UnitBallDesign(Design):
    """x uniform on the unit ball of R^d, the paper's model: Σ = I/(d+2)."""

    names: tuple[str, ...]

    kind = "unit-ball"

    @cached_property
    def second_moments(self) -> Floats:
        return np.eye(len(self.names)) * self.least_eigenvalue

    @cached_property
    def least_eigenvalue(self) -> float:
        return 1.0 / (len(self.names) + 2)

    @cached_property
    def reach(self) -> float:
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
class UniformDesign(Design):
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
        """For every feature points and weights with the moments of its codes, and its columns.

        A number's code is uniform on [−1, 1], whose moments up to the fifth are those of three points (Gauss and
        Legendre); no moment here is above the fourth. Levels are their own points.
        """
        number = np.array([[-np.sqrt(0.6)], [0.0], [np.sqrt(0.6)]]), np.array([5.0, 8.0, 5.0]) / 18.0
        blocks = []
        for feature, place in zip(self.encoding.features, self.encoding.slices, strict=True):
            k = len(feature.names)
            law = (feature.effects, np.full(k, 1.0 / k)) if isinstance(feature, Levels) else number
            blocks.append((*law, place))
        return blocks

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


def sample_uniform(rng: np.random.Generator, n: int, features: Sequence[Column]) -> RawColumns:
    """Raw columns of n invented people: numbers uniform on their ranges, levels (as text) equally likely."""
    columns: RawColumns = {}
    for feature in features:
        if isinstance(feature, Levels):
            columns[feature.name] = np.array(feature.levels)[rng.integers(len(feature.levels), size=n)]
        elif isinstance(feature, AsGiven):
            raise InputError(f"Feature {feature.name!r} has no declared range to draw from.")
        else:
            columns[feature.name] = rng.uniform(feature.low, feature.high, n)
    return columns

"""Maps from raw features to normalised ones and from normalised coefficients back to raw ones; declared designs.

Every feature becomes one or more *codes* in [−1, 1]:

- a number v in its declared range [low, high]: one code, (2v − low − high)/(high − low);
- one of k levels: k − 1 codes (effect coding). Level j < k is the j-th unit vector, the last level is
  (−1, …, −1), so a level's effect is relative to the mean of all levels and the effects sum to zero.

An intercept is the code 1, and an interaction of two features the products of their codes. With d codes in all, x =
codes/√d, so ‖x‖ ≤ 1 always.

A design is the distribution of x, with its moments: the estimator for a known design inverts E[x xᵀ]; its sampling
error follows from E[(w·x)² x xᵀ].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Numeric:
    """A number, coded slope·v + shift. values and their probabilities: the possible values, where it is assigned."""

    name: str
    low: float
    high: float
    values: tuple[float, ...] | None = None
    probabilities: tuple[float, ...] | None = None

    columns = 1
    corners = np.array([[-1.0], [1.0]])
    """The codes at both ends."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def effects(self) -> Floats:
        """Raw coefficients per unit of the code's coefficient."""
        return np.array([[2.0 / (self.high - self.low)]])

    @property
    def shift(self) -> Floats:
        """The change of the raw intercept per unit of the code's coefficient."""
        return np.array([-(self.low + self.high) / (self.high - self.low)])

    @property
    def contrasts(self) -> tuple[tuple[str, Floats], ...]:
        """The contrast of one end of the range with the other, in the code's coefficient."""
        return ((self.name, np.array([2.0])),)

    @cached_property
    def law(self) -> tuple[Floats, Floats]:
        """Points and weights with the moments of the code up to the fifth; at most the fourth are used.

        For a number uniform on its range, three points suffice (Gauss and Legendre).
        """
        if self.values is None:
            return np.array([[-np.sqrt(0.6)], [0.0], [np.sqrt(0.6)]]), np.array([5.0, 8.0, 5.0]) / 18.0
        points = np.empty((len(self.values), 1))
        self.encode(self.values, 1.0, points.T)
        return points, _weights(self.probabilities, len(self.values))

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
        """Draw values for n invented people."""
        if self.values is None:
            return rng.uniform(self.low, self.high, n)
        return np.asarray(np.array(self.values)[_places(rng, n, len(self.values), self.probabilities)])

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        """Write the code of every value, divided by the scale, into the row `out`."""
        put_place(values, self.low, self.high, 1.0 / ((self.high - self.low) * scale), out[0])

    def codes(self, effects: Floats) -> tuple[Floats, float]:
        """The code's coefficient for a raw coefficient, and the constant that goes with it."""
        coefficients = effects / self.effects[0]
        return coefficients, -float(coefficients @ self.shift)


@dataclass(frozen=True)
class AsGiven(Numeric):
    """A number that is already normalised."""

    low: float = -1.0
    high: float = 1.0

    @property
    def contrasts(self) -> tuple[tuple[str, Floats], ...]:
        """The contrast of an increase by 1: such a number has no range."""
        return ((self.name, np.ones(1)),)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
        raise InputError(f"Feature {self.name!r} has no declared range to draw from.")

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        np.divide(np.asarray(values, dtype=np.float64), scale, out=out[0])


@dataclass(frozen=True)
class Levels:
    """One of k ≥ 2 levels, effect coded in k − 1 columns, with a reference level and probabilities for drawing.

    By default the first level is the reference, and all are equally likely.
    """

    name: str
    levels: tuple[str, ...]
    reference: str | None = None
    probabilities: tuple[float, ...] | None = None

    @property
    def columns(self) -> int:
        return len(self.levels) - 1

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.name}={level}" for level in self.levels)

    @cached_property
    def effects(self) -> Floats:
        """The codes of the levels, a row each: with coefficients φ, the levels' effects are this times φ."""
        return np.vstack([np.eye(self.columns), -np.ones(self.columns)])

    @property
    def corners(self) -> Floats:
        """All codes that occur."""
        return self.effects

    @property
    def shift(self) -> Floats:
        return np.zeros(self.columns)

    @property
    def contrasts(self) -> tuple[tuple[str, Floats], ...]:
        """Every other level less the reference, as combinations of the codes' coefficients."""
        at = self.levels.index(self.reference or self.levels[0])
        rows = zip(self.names, self.effects - self.effects[at], strict=True)
        return tuple(row for place, row in enumerate(rows) if place != at)

    @cached_property
    def law(self) -> tuple[Floats, Floats]:
        """The codes of the levels, and their probabilities."""
        return self.effects, _weights(self.probabilities, len(self.levels))

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
        """Draw levels for n invented people, as text."""
        return np.asarray(np.array(self.levels)[self.draw_places(rng, n)])

    def draw_places(self, rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
        """Draw places in the list of levels."""
        return _places(rng, n, len(self.levels), self.probabilities)

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
            # By name; -1 for an unknown one. Arrow would be no faster, and takes long to load.
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
        """Split effects into the codes' coefficients and their mean, which belongs to the intercept."""
        mean = float(effects.mean())
        return (effects - mean)[:-1], mean


Column = Numeric | Levels


def _weights(probabilities: tuple[float, ...] | None, count: int) -> Floats:
    """Probabilities of `count` values, normalised to sum 1."""
    if probabilities is None:
        return np.full(count, 1.0 / count)
    return np.array(probabilities) / math.fsum(probabilities)


def _places(
    rng: np.random.Generator, n: int, count: int, probabilities: tuple[float, ...] | None
) -> np.ndarray[Any, Any]:
    """Draw n places out of `count`."""
    if probabilities is None:
        return rng.integers(count, size=n)
    return rng.choice(count, size=n, p=_weights(probabilities, count))


@dataclass(frozen=True)
class Interaction:
    """The products of two features' codes, the second feature's running fastest."""

    first: Column
    second: Column

    @property
    def name(self) -> str:
        return f"{self.first.name}:{self.second.name}"

    @property
    def columns(self) -> int:
        return self.first.columns * self.second.columns

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{first}:{second}" for first in self.first.names for second in self.second.names)

    @property
    def contrasts(self) -> tuple[tuple[str, Floats], ...]:
        """By how much a contrast of one feature grows from the start to the end of a contrast of the other."""
        return tuple(
            (f"{first}:{second}", np.asarray(np.kron(row, column), dtype=np.float64))
            for first, row in self.first.contrasts
            for second, column in self.second.contrasts
        )

    def codes(self, effects: Floats) -> tuple[Floats, Floats, Floats]:
        """The codes' coefficients for raw ones, with the means taken out: raw effects of one feature, codes of the
        other.
        """
        table = effects.reshape(len(self.first.names), len(self.second.names))
        inner = [self.second.codes(row) for row in table]
        outer = [self.first.codes(column) for column in np.array([codes for codes, _ in inner]).T]
        coefficients = np.array([codes for codes, _ in outer]).T.ravel()
        return coefficients, np.array([mean for _, mean in inner]), np.array([mean for _, mean in outer])


@dataclass(frozen=True)
class Encoding:
    """All features of a study as one vector x of d columns: the intercept first, if any; interactions last."""

    features: tuple[Column, ...]
    intercept: bool
    scaled: bool
    """Whether codes are divided by √d."""
    products: tuple[Interaction, ...] = ()

    @cached_property
    def dimension(self) -> int:
        return int(self.intercept) + sum(term.columns for term in self.terms)

    @property
    def terms(self) -> tuple[Column | Interaction, ...]:
        """Everything that has coefficients, but the intercept."""
        return (*self.features, *self.products)

    @property
    def scale(self) -> float:
        return math.sqrt(self.dimension) if self.scaled else 1.0

    @cached_property
    def places(self) -> dict[str, slice]:
        """The columns of x of each feature and each interaction, by name."""
        return self._cut([int(self.intercept), *(term.columns for term in self.terms)])

    @property
    def slices(self) -> tuple[slice, ...]:
        """The columns of x of each feature, in order."""
        return tuple(self.places[feature.name] for feature in self.features)

    def _cut(self, sizes: list[int]) -> dict[str, slice]:
        ends = np.cumsum(sizes).tolist()
        return {
            term.name: slice(start, end)
            for term, (start, end) in zip(self.terms, pairwise(ends), strict=True)
        }

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """Name of the feature or interaction behind each column of x."""
        own = (name for term in self.terms for name in [term.name] * term.columns)
        return (*([INTERCEPT] if self.intercept else []), *own)

    def normalise(self, columns: Mapping[str, Any], rows: int | None = None) -> Floats:
        """x for every row of the raw columns: one array per feature, of numbers, level places or level names.

        Values are mapped, not checked: a number outside its range gives a code outside [−1, 1]. `rows` gives the number
        of rows where there may be no columns to count, as with an intercept alone.
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
        self.multiply(X.T)
        return X

    def multiply(self, rows: Floats) -> None:
        """Fill the rows of interactions from those of the features; rows are the columns of x."""
        for product in self.products:
            first, second = (rows[self.places[factor.name]] for factor in (product.first, product.second))
            pairs = ((left, right) for left in first for right in second)
            for row, (left, right) in zip(rows[self.places[product.name]], pairs, strict=True):
                np.multiply(left, right, out=row)
                row *= self.scale

    def reach(self, coefficients: Floats) -> float:
        """The largest |coefficients·x| over all x that the ranges and levels allow; ‖coefficients‖ on the unit ball.

        With interactions an upper bound: each is taken where it is largest by itself.
        """
        if not self.scaled:
            return float(np.linalg.norm(coefficients))
        low = high = float(coefficients[0]) if self.intercept else 0.0
        for term in self.terms:
            corners = (
                np.kron(term.first.corners, term.second.corners)
                if isinstance(term, Interaction)
                else term.corners
            )
            values = corners @ coefficients[self.places[term.name]]
            low, high = low + float(values.min()), high + float(values.max())
        return max(-low, high) / self.scale

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the raw coefficients, the intercept first: k of them for a feature of k levels."""
        return (INTERCEPT, *(name for term in self.terms for name in term.names))

    @cached_property
    def effects(self) -> Floats:
        """The matrix from coefficients of the codes to raw coefficients, a row per name.

        raw prediction = intercept + Σ coefficient·value + Σ effect of the level + Σ coefficient·product, exactly. A
        product of codes is a product of shifted values, so part of its coefficient goes to the features themselves.
        """
        rows, named = np.zeros((len(self.names), self.dimension)), self._named
        if self.intercept:
            rows[0, 0] = 1.0
        for feature in self.features:
            place = self.places[feature.name]
            rows[0, place] = feature.shift
            rows[named[feature.name], place] = feature.effects
        for product in self.products:
            first, second, place = product.first, product.second, self.places[product.name]
            rows[0, place] = np.kron(first.shift, second.shift)
            rows[named[first.name], place] = np.kron(first.effects, second.shift)
            rows[named[second.name], place] = np.kron(first.shift, second.effects)
            rows[named[product.name], place] = np.kron(first.effects, second.effects)
        return rows

    @property
    def _named(self) -> dict[str, slice]:
        """The names of each feature and each interaction."""
        return self._cut([1, *(len(term.names) for term in self.terms)])

    def codes(self, raw: Mapping[str, float]) -> Floats:
        """Coefficients of the codes from raw coefficients: the inverse of `effects`.

        Missing names are 0; a missing intercept makes the prediction 0 at the middle of all features.
        """
        unknown = [name for name in raw if name not in self.names]
        if unknown:
            raise InputError(f"{unknown[0]!r} is no coefficient; choose from {', '.join(self.names)}.")
        coefficients, constant = np.zeros(self.dimension), 0.0
        effects = {term.name: np.array([raw.get(name, 0.0) for name in term.names]) for term in self.terms}
        for product in self.products:
            found, of_first, of_second = product.codes(effects[product.name])
            coefficients[self.places[product.name]] = found
            coefficients[self.places[product.second.name]] += of_second
            effects[product.first.name] += of_first
        for feature in self.features:
            found, moved = feature.codes(effects[feature.name])
            coefficients[self.places[feature.name]] += found
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
    """The distribution of x, as far as it is known: Σ = E[x xᵀ], λ_min(Σ), and how far Σ⁻¹ stretches features."""

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
        """Draw raw columns for n invented people."""
        raise InputError(
            f"design.kind is {self.kind!r}: the study does not say how features are distributed. To draw some, "
            "declare design.kind = 'uniform' or 'assigned', or bring a file of features."
        )


@dataclass(frozen=True)
class ObservedDesign(Design):
    """Features of unknown distribution; λ_min(E[x xᵀ]) may be declared."""

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
        """Draw a uniform direction and the radius U^(1/d)."""
        d = len(self.names)
        direction = rng.standard_normal((check.integer("n", n, least=0), d))
        direction *= (rng.random(n) ** (1.0 / d) / np.linalg.norm(direction, axis=1))[:, None]
        return dict(zip(self.names, np.ascontiguousarray(direction.T), strict=True))


#: The most combinations of features that interact with each other, directly or through others.
MOST_COMBINATIONS = 250_000


def group_interactions(encoding: Encoding) -> list[Encoding]:
    """Split into groups: features linked by interactions, with these; every other feature alone."""
    groups = [{feature.name} for feature in encoding.features]
    for product in encoding.products:
        pair = {product.first.name, product.second.name}
        together = [group for group in groups if group & pair]
        groups = [group for group in groups if not group & pair] + [set[str]().union(*together)]
    return [
        Encoding(
            tuple(feature for feature in encoding.features if feature.name in group),
            intercept=False,
            scaled=False,
            products=tuple(product for product in encoding.products if product.first.name in group),
        )
        for group in groups
    ]


def combinations(encoding: Encoding) -> int:
    """Number of support points of the joint feature distribution."""
    return math.prod(len(feature.law[1]) for feature in encoding.features)


class Block(NamedTuple):
    """Columns of x that are independent of the others: points and weights with the moments of their codes c, and c
    where all numbers are at their ends.
    """

    columns: list[int]
    points: Floats
    weights: Floats
    corners: Floats

    @classmethod
    def of(cls, part: Encoding, places: Mapping[str, slice]) -> Block:
        """The block of these features, at these columns: every combination."""
        points, weights = zip(*(feature.law for feature in part.features), strict=True)
        columns = [at for term in part.terms for at in range(places[term.name].start, places[term.name].stop)]
        corners = [feature.corners for feature in part.features]
        likely = reduce(np.multiply.outer, weights).ravel()
        return cls(columns, _joint(part, points), likely, _joint(part, corners))

    @property
    def mean(self) -> Floats:
        return np.asarray(self.weights @ self.points)

    @property
    def moments(self) -> Floats:
        """E[c cᵀ]."""
        return np.asarray((self.points.T * self.weights) @ self.points)


def _joint(part: Encoding, codes: Sequence[Floats]) -> Floats:
    """The codes of every combination of features, with those of their interactions."""
    places = np.indices([len(values) for values in codes]).reshape(len(codes), -1)
    C = np.empty((places.shape[1], part.dimension))
    for feature, values, at in zip(part.features, codes, places, strict=True):
        C[:, part.places[feature.name]] = values[at]
    part.multiply(C.T)
    return C


@dataclass(frozen=True)
class IndependentDesign(Design):
    """Independent features: numbers uniform on their ranges or on given values, levels, each with declared or equal
    probabilities.
    """

    encoding: Encoding
    kind: str = "uniform"

    @cached_property
    def second_moments(self) -> Floats:
        """Blocks over d: 1 (intercept), 1/3 (a number), (I + 11ᵀ)/k (effect codes of k equally likely levels)."""
        S = np.outer(self._mean, self._mean)
        for block in self._blocks:
            S[np.ix_(block.columns, block.columns)] = block.moments
        return np.asarray(S / self.encoding.dimension)

    @cached_property
    def _mean(self) -> Floats:
        """E[c] of the codes c = √d·x."""
        mean = np.zeros(self.encoding.dimension)
        mean[: int(self.encoding.intercept)] = 1.0
        for block in self._blocks:
            mean[block.columns] = block.mean
        return mean

    @cached_property
    def _blocks(self) -> list[Block]:
        return [Block.of(part, self.encoding.places) for part in group_interactions(self.encoding)]

    @cached_property
    def reach(self) -> float:
        """sup ‖Σ⁻¹x‖, in codes √d·‖S⁻¹c‖; a slight upper bound if levels are not equally likely.

        With c = μ + c̃ and S̃ = E[c̃c̃ᵀ], S⁻¹c is S̃_b⁻¹c̃_b in each block, and 1 − Σ μ_b·S̃_b⁻¹c̃_b of the intercept.
        """
        if self._implied:
            return 1 / self.least_eigenvalue
        furthest, low, high = 0.0, 1.0, 1.0
        for block in self._blocks:
            moved = self._centred_lengths(block)[1]
            along = moved @ block.mean
            low, high = low - float(along.max()), high - float(along.min())
            furthest += float(np.einsum("ij,ij->i", moved, moved).max())
        constant = max(-low, high) ** 2 if self.encoding.intercept else 0.0
        return float(np.sqrt(self.encoding.dimension * (constant + furthest)))

    @cached_property
    def leverage(self) -> float:
        """sup xᵀΣ⁻¹x = sup cᵀS⁻¹c: 1 from the intercept, and c̃_bᵀS̃_b⁻¹c̃_b from each block."""
        if self._implied:
            return 1 / self.least_eigenvalue
        total = float(self.encoding.intercept)
        for block in self._blocks:
            total += float(np.einsum("ij,ij->i", *self._centred_lengths(block)).max())
        return total

    @cached_property
    def least_eigenvalue(self) -> float:
        return float(np.linalg.eigvalsh(self.second_moments)[0])

    @property
    def _implied(self) -> bool:
        """Whether codes have a mean but no intercept takes it up: blocks are then not orthogonal."""
        return not self.encoding.intercept and float(np.abs(self._mean).max()) > 1e-12

    def _centred_lengths(self, block: Block) -> tuple[Floats, Floats]:
        """c̃ and S̃⁻¹c̃ at the corners, where they are longest: a number's code is ±1 there, a level one of its codes."""
        corners, mean = block.corners - block.mean, block.mean
        return corners, corners @ np.linalg.inv(block.moments - np.outer(mean, mean))

    def weighted_moments(self, w: Floats) -> Floats:
        """E[(w·x)² x xᵀ], exactly.

        In codes c = μ + c̃, w·c = a + Σ A_b: a = w·μ, and A_b = w_b·c̃_b are the independent, centred parts of the
        blocks. With S = E[c̃c̃ᵀ], g = S w and V = wᵀS w, the moments E[(w·c)² c̃c̃ᵀ] are 2 g_b g_b′ᵀ of two blocks, and
        (a² + V − V_b)S_b + E[(A_b² + 2aA_b) c̃_b c̃_bᵀ] of one; E[(w·c)² c̃_b] = 2a g_b + E[A_b² c̃_b]; E[(w·c)²] =
        a² + V.
        """
        d, mean = self.encoding.dimension, self._mean
        S = d * self.second_moments - np.outer(mean, mean)
        a, g = float(w @ mean), S @ w
        V = float(w @ g)
        Q, first = 2 * np.outer(g, g) + (a * a + V) * S, 2 * a * g
        for block in self._blocks:
            at, points, weights = block.columns, block.points - block.mean, block.weights
            A = points @ w[at]
            own = (points.T * (weights * (A * A + 2 * a * A))) @ points
            Q[np.ix_(at, at)] += own - float(w[at] @ g[at]) * S[np.ix_(at, at)] - 2 * np.outer(g[at], g[at])
            first[at] += points.T @ (weights * A * A)
        Q += np.outer(mean, first) + np.outer(first, mean) + (a * a + V) * np.outer(mean, mean)
        return np.asarray(Q / d**2)

    def sample(self, rng: np.random.Generator, n: int) -> RawColumns:
        return draw_columns(rng, check.integer("n", n, least=0), self.encoding.features)


def draw_columns(rng: np.random.Generator, n: int, features: Sequence[Column]) -> RawColumns:
    """Draw raw columns for n invented people, each feature by its declared distribution, or else evenly."""
    return {feature.name: feature.draw(rng, n) for feature in features}

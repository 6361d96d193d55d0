"""From raw features to normalised ones, and from normalised coefficients back to raw ones.

Every feature becomes one or more *codes* in [−1, 1]:

- a number v in its declared range [low, high]: one code, (2v − low − high)/(high − low);
- one of k levels: k − 1 codes (effect coding). Level j < k is the j-th unit vector, the last level is
  (−1, …, −1), so a level's effect is relative to the mean of all levels and the effects sum to zero.

An intercept is the code 1. With d codes in all, x = codes/√d, so ‖x‖ ≤ 1 always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

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
class AsGiven:
    """A number that is already normalised."""

    name: str

    columns = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def effects(self) -> Floats:
        return np.ones((1, 1))

    @property
    def shift(self) -> Floats:
        return np.zeros(1)

    def encode(self, values: Any, scale: float, out: Floats) -> None:
        np.divide(np.asarray(values, dtype=np.float64), scale, out=out[0])

    def codes(self, effects: Floats) -> tuple[Floats, float]:
        return effects, 0.0


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
            array = self._look_up(array)
        bad = np.flatnonzero((array < 0) | (array >= len(self.levels)))
        if len(bad):
            raise InputError(
                f"Feature {self.name!r} in row {bad[0]} is {np.asarray(values, dtype=object)[bad[0]]!r}; "
                f"its levels are {', '.join(self.levels)}."
            )
        return array

    def _look_up(self, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """By name, -1 where a value is none of them. Arrow would be no faster, and takes long to load."""
        if values.size and (values.ndim > 1 or values.dtype.kind not in "OTU"):
            raise InputError(f"Feature {self.name!r} holds values that are not text; its levels are text.")
        places = {level: at for at, level in enumerate(self.levels)}
        return np.array([places.get(value, -1) for value in values.tolist()], dtype=np.int64)

    def codes(self, effects: Floats) -> tuple[Floats, float]:
        """Effects that do not sum to zero have a mean, which belongs to the intercept."""
        mean = float(effects.mean())
        return (effects - mean)[:-1], mean


Column = Numeric | AsGiven | Levels


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
        if INTERCEPT in raw:
            self._set_intercept(coefficients, raw[INTERCEPT] + constant)
        return coefficients

    def _set_intercept(self, coefficients: Floats, value: float) -> None:
        if self.intercept:
            coefficients[0] = value
        elif not abs(value) <= 1e-9 * max(1.0, float(np.abs(self.effects[0]) @ np.abs(coefficients))):
            raise InputError(
                f"The intercept is off by {value:g} from the only one possible without an intercept column. "
                "Leave it out, or set intercept = true."
            )


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

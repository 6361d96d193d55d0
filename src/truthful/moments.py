"""Exact sufficient statistics: count, XᵀX, Xᵀy and yᵀy of grid points, the same to the bit in any order.

Records are first truncated toward zero to multiples of 2⁻²⁰. Truncation keeps ‖x‖ ≤ 1 and |y| ≤ Y exactly
true, so it costs no sensitivity, and it turns every record into integers k = 2²⁰·x. Products of such
integers are summed in float64 without rounding as long as every partial sum stays within 2⁵³, whatever the
order of summation; panels of rows are made short enough for that and are then added as integers.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

GRID = 2**20  # steps of the grid in a unit
PRODUCT = GRID**2  # a product of two grid integers counts units of 2^-40
LARGEST_DIMENSION = 4000
LARGEST_RESPONSE_BOUND = 256
BLOCK = 2048  # rows in a block: they fit a near cache, and products of at most 2⁴⁸ add up in int64

Groups = npt.NDArray[np.uint8]
PythonIntegers = npt.NDArray[Any]  # object arrays of Python integers: no overflow, ever

#: A matrix of whole numbers, row by row, in units of 2⁻¹⁰, which turns features into instruments.
Transform = tuple[tuple[int, ...], ...]
TRANSFORM_UNIT = Fraction(1, 1024)


def grid_features(X: Any) -> Floats:
    """Integers k (as float64) with Σk² ≤ 2⁴⁰ exactly in every row: 2²⁰·x/max(1, ‖x‖), truncated toward zero.

    A row whose truncation already lies in the ball is only truncated. Any other row is first divided by its
    norm. Rounding in that division leaves ‖k‖ ≤ 2²⁰(1+δ) with δ ≤ (d/2+5)·2⁻⁵³, hence Σk² < 2⁴⁰ +
    (d+10)·2⁻¹²; and Σk² is an integer, so it is at most 2⁴⁰ as long as d + 10 ≤ 2¹².
    """
    X = check.matrix("features", X)
    if X.shape[1] > LARGEST_DIMENSION:
        raise InputError(f"There are {X.shape[1]} features; at most {LARGEST_DIMENSION} are possible.")
    # One feature after the other: nobody's numbers depend on the rest of the batch, or on memory layout.
    columns = X.T
    with np.errstate(over="ignore"):
        k: Floats = np.multiply(columns, float(GRID), order="C")
        np.trunc(k, out=k)
        outside = np.einsum("ij,ij->j", k, k) > PRODUCT
    if outside.any():
        # Divide by the largest entry first, so that squares stay finite.
        with np.errstate(under="ignore"):
            scaled = columns / np.where(outside, np.abs(columns).max(axis=0), 1.0)
            scaled /= np.where(outside, lengths(scaled.T), 1.0)
        k = np.where(outside, np.trunc(scaled * GRID), k)
    return k.T


def lengths(x: Floats) -> Floats:
    """‖x‖ of every row: column by column, so that it depends neither on the batch nor on the layout."""
    squares = np.zeros(len(x))
    for column in x.T:
        squares += column * column
    return np.sqrt(squares)


def along(x: Floats, direction: Floats) -> Floats:
    """x·direction of every row, column by column."""
    total = np.zeros(len(x))
    for column, weight in zip(x.T, direction, strict=True):
        total += column * weight
    return total


def instruments_on_grid(kx: Floats, transform: Transform | None, norm: str = "l2") -> Floats:
    """k_ζ for every row of k_x, both in steps of the grid; the transform None means ζ = x."""
    if transform is None:
        return kx
    # Exact: a sum of whole numbers below 2⁵³, and a power of two.
    V = (np.array(transform, dtype=np.float64) @ kx.T).T
    if norm == "sup":
        return np.clip(np.trunc(V * float(TRANSFORM_UNIT)), -GRID, GRID)
    return grid_features(V * (float(TRANSFORM_UNIT) / GRID))


def grid_responses(y: Any, response_bound: float) -> Floats:
    """Integers k with |k| ≤ floor(2²⁰·Y) exactly: 2²⁰·y, y clipped to [−Y, Y], truncated toward zero."""
    limit = float(response_limit(response_bound))
    with np.errstate(over="ignore"):
        return np.clip(np.trunc(check.vector("responses", y) * GRID), -limit, limit)


def response_limit(response_bound: float) -> int:
    """floor(2²⁰·Y), exactly: the largest response on the grid."""
    return _response_limit(check.positive("response_bound", response_bound))


@lru_cache(maxsize=64)
def _response_limit(response_bound: float) -> int:
    limit = int(Fraction(response_bound) * GRID)
    if not 1 <= limit <= LARGEST_RESPONSE_BOUND * GRID:
        raise InputError(
            f"response_bound is {response_bound!r}; it must lie between 2^-20 and {LARGEST_RESPONSE_BOUND}. "
            "Change the unit of the response so that its bound is near 1."
        )
    return limit


class Exact:
    """Exact statistics; equal if their content is."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.digest())

    def digest(self) -> str:
        """SHA-256 of the exact content."""
        return hashlib.sha256(self._content().encode()).hexdigest()

    def _content(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Moments(Exact):
    """Exact sufficient statistics of a group of players, in Python integers; products count units of 2⁻⁴⁰.

    `gram` is Σ k_x k_xᵀ, `cross` is Σ k_x k_y and `square` is Σ k_y². The moments of two disjoint groups add.
    """

    count: int
    gram: PythonIntegers
    cross: PythonIntegers
    square: int

    @property
    def dimension(self) -> int:
        return len(self.cross)

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
        )

    def _content(self) -> str:
        numbers = [self.dimension, self.count, *self.gram.ravel(), *self.cross, self.square]
        return "truthful/moments/1 " + " ".join(str(int(number)) for number in numbers)


@dataclass(frozen=True, eq=False)
class Sums(Exact):
    """Exact sums over all players of products with their instruments, in Python integers that count units of 2⁻⁴⁰.

    `matrix` is Σ k_ζ k_xᵀ and `vector` is Σ k_ζ k_y: these are released. `features` is Σ k_x k_xᵀ and `instruments` Σ
    k_ζ k_ζᵀ: they determine the accuracy. `predictions` is the sum of people's predictions of the others, in steps of
    2⁻²⁰, where they are asked. The sums of two disjoint groups add.
    """

    count: int
    matrix: PythonIntegers
    vector: PythonIntegers
    features: PythonIntegers
    instruments: PythonIntegers
    predictions: int | None = None

    @classmethod
    def zero(cls, dimension: int) -> Sums:
        """The sums of nobody."""
        none = np.zeros((dimension, dimension), dtype=np.int64).astype(object)
        return cls(0, none, none[0] if dimension else np.zeros(0, dtype=object), none, none)

    @property
    def dimension(self) -> int:
        return len(self.vector)

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.count + other.count,
            self.matrix + other.matrix,
            self.vector + other.vector,
            self.features + other.features,
            self.instruments + other.instruments,
            None
            if self.predictions is None and other.predictions is None
            else (self.predictions or 0) + (other.predictions or 0),
        )

    def _content(self) -> str:
        parts = (self.matrix, self.vector, self.features, self.instruments)
        numbers = [self.dimension, self.count, *(number for part in parts for number in part.ravel())]
        numbers += [] if self.predictions is None else [self.predictions]
        return "truthful/sums/1 " + " ".join(str(int(number)) for number in numbers)


def moments(kx: Floats, ky: Floats) -> Moments:
    """Exact moments of records on the grid, as from `grid_features` and `grid_responses`."""
    added, k = sums(kx, ky, None), ky.astype(np.int64)
    squares = k * k  # at most 2⁵⁶, so that halves of 32 bits add up in int64
    square = int((squares >> 32).sum()) * 2**32 + int((squares & 0xFFFFFFFF).sum())
    return Moments(added.count, added.matrix, added.vector, square)


def group_moments(kx: Floats, ky: Floats, groups: Groups) -> tuple[Moments, Moments]:
    """Exact moments of group 0 and of group 1."""
    for name, values in (("responses", ky), ("groups", groups)):
        if len(values) != len(kx):
            raise InputError(f"{name} has {len(values)} entries; {len(kx)} were expected, one per player.")
    first, second = (np.flatnonzero(groups == group) for group in (0, 1))
    return moments(kx[first], ky[first]), moments(kx[second], ky[second])


def sums(kx: Floats, ky: Floats, transform: Transform | None, norm: str = "l2") -> Sums:
    """Exact sums over players on the grid, with this transform's instruments, cut in this norm; None: ζ = x."""
    if len(ky) != len(kx):
        raise InputError(f"responses has {len(ky)} entries; {len(kx)} were expected, one per player.")
    if not np.all((kx == np.floor(kx)) & (np.abs(kx) <= GRID)):
        raise InputError("The features are not on the grid; pass them through grid_features first.")
    tally = SumsTally(kx.shape[1], transform, norm)
    tally.add(kx, ky)
    return tally.sums


class SumsTally:
    """Adds up sums of products with instruments as players come; the transform None means ζ = x."""

    def __init__(self, dimension: int, transform: Transform | None, norm: str = "l2") -> None:
        self.sums = Sums.zero(dimension)
        self._transform, self._norm = transform, norm

    def add(self, kx: Floats, ky: Floats) -> None:
        """Take in records on the grid."""
        panel, d = longest_panel(int(max(ky.max(initial=0), -ky.min(initial=0)))), kx.shape[1]
        for start in range(0, len(ky), BLOCK):
            x, y = kx[start : start + BLOCK], ky[start : start + BLOCK]
            z = instruments_on_grid(x, self._transform, self._norm)
            k = np.vstack([x.T, z.T, y])
            added = np.zeros((2 * d, 2 * d + 1), dtype=np.int64)
            for begin in range(0, len(y), panel):
                part = k[:, begin : begin + panel]
                added += (part[:-1] @ part.T).astype(np.int64)
            exact = added.astype(object)
            self.sums += Sums(len(y), exact[d:, :d], exact[d:, -1], exact[:d, :d], exact[d:, d:-1])


def longest_panel(largest: int) -> int:
    """The number of rows that float64 sums exactly if no response exceeds `largest`.

    With |k_x|, |k_ζ| ≤ 2²⁰ and |k_y| ≤ L (at least 2²⁰) no product exceeds 2²⁰·L: sums over 2⁵³/(2²⁰·L) rows stay
    within 2⁵³. k_y² is not summed.
    """
    largest = max(GRID, largest)
    if largest > LARGEST_RESPONSE_BOUND * GRID:
        raise InputError(f"A response is {largest} grid steps; pass responses through grid_responses first.")
    return 2**53 // (GRID * largest)


def as_floats(integers: PythonIntegers) -> Floats:
    """Sums in units of 2⁻⁴⁰ as floats; Python's division of integers is correctly rounded."""
    return (integers / PRODUCT).astype(np.float64)

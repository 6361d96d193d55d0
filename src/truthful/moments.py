"""Exact sufficient statistics: count, XᵀX, Xᵀy and yᵀy of grid points, the same to the bit in any order.

Records are first truncated toward zero to multiples of 2⁻²⁰. Truncation keeps ‖x‖ ≤ 1 and |y| ≤ Y exactly
true, so it costs no sensitivity, and it turns every record into integers k = 2²⁰·x. Products of such
integers are summed in float64 without rounding as long as every partial sum stays within 2⁵³, whatever the
order of summation; panels of rows are made short enough for that and are then added as integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import check, kernels
from truthful.check import Floats
from truthful.errors import InputError
from truthful.kernels import GRID as GRID
from truthful.kernels import PRODUCT as PRODUCT

LARGEST_DIMENSION = 4000
LARGEST_RESPONSE_BOUND = 256
LONGEST_PANEL = kernels.PANEL
LONGEST_BLOCK = 1 << 16  # rows that are copied at a time

Groups = npt.NDArray[np.uint8]
PythonIntegers = npt.NDArray[Any]  # object arrays of Python integers: no overflow, ever


def grid_features(X: Any) -> Floats:
    """Integers k (as float64) with Σk² ≤ 2⁴⁰ exactly in every row: 2²⁰·x/max(1, ‖x‖), truncated toward zero.

    A row whose truncation already lies in the ball is only truncated. Any other row is first divided by its
    norm. Rounding in that division leaves ‖k‖ ≤ 2²⁰(1+δ) with δ ≤ (d/2+5)·2⁻⁵³, hence Σk² < 2⁴⁰ +
    (d+10)·2⁻¹²; and Σk² is an integer, so it is at most 2⁴⁰ as long as d + 10 ≤ 2¹².
    """
    X = check.matrix("features", X)
    if X.shape[1] > LARGEST_DIMENSION:
        raise InputError(f"There are {X.shape[1]} features; at most {LARGEST_DIMENSION} are possible.")
    with np.errstate(over="ignore"):
        k: Floats = np.multiply(X, float(GRID), order="F")
        np.trunc(k, out=k)
        outside = np.flatnonzero(np.einsum("ij,ij->i", k, k) > PRODUCT)
    if len(outside):
        k[outside] = np.trunc(_directions(X[outside]) * GRID)
    return k


def _directions(X: Floats) -> Floats:
    """x/‖x‖, without overflow."""
    scaled: Floats = X / np.abs(X).max(axis=1, keepdims=True)
    with np.errstate(under="ignore"):
        # Column by column, so that the memory layout of the batch cannot change the order of summation.
        square_norms: Floats = np.asarray(sum(column * column for column in scaled.T))
    directions: Floats = scaled / np.sqrt(square_norms)[:, None]
    return directions


def grid_responses(y: Any, response_bound: float) -> Floats:
    """Integers k with |k| ≤ floor(2²⁰·Y) exactly: 2²⁰·y, y clipped to [−Y, Y], truncated toward zero."""
    limit = float(response_limit(response_bound))
    with np.errstate(over="ignore"):
        return np.clip(np.trunc(check.vector("responses", y) * GRID), -limit, limit)


def response_limit(response_bound: float) -> int:
    """floor(2²⁰·Y), exactly: the largest response on the grid."""
    limit = int(Fraction(check.positive("response_bound", response_bound)) * GRID)
    if not 1 <= limit <= LARGEST_RESPONSE_BOUND * GRID:
        raise InputError(
            f"response_bound is {response_bound!r}; it must lie between 2^-20 and {LARGEST_RESPONSE_BOUND}. "
            "Change the unit of the response so that its bound is near 1."
        )
    return limit


@dataclass(frozen=True, eq=False)
class Moments:
    """Exact sufficient statistics of a group of players, in Python integers; products count units of 2⁻⁴⁰.

    `gram` is Σ k_x k_xᵀ, `cross` is Σ k_x k_y and `square` is Σ k_y². The moments of two disjoint groups add.
    """

    count: int
    gram: PythonIntegers
    cross: PythonIntegers
    square: int

    @classmethod
    def zero(cls, dimension: int) -> Moments:
        """The moments of nobody."""
        none = np.zeros((dimension, dimension), dtype=np.int64).astype(object)
        return cls(0, none, none.sum(axis=0), 0)

    @property
    def dimension(self) -> int:
        return len(self.cross)

    @property
    def gram_float(self) -> Floats:
        """XᵀX in normalised units, correctly rounded."""
        return _as_floats(self.gram)

    @property
    def cross_float(self) -> Floats:
        """Xᵀy in normalised units, correctly rounded."""
        return _as_floats(self.cross)

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Moments) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.digest())

    def digest(self) -> str:
        """SHA-256 of the exact content."""
        return hashlib.sha256(self._content().encode()).hexdigest()

    def _content(self) -> str:
        numbers = [self.dimension, self.count, *self.gram.ravel(), *self.cross, self.square]
        return "truthful/moments/1 " + " ".join(str(int(number)) for number in numbers)


@dataclass(frozen=True, eq=False)
class Sums:
    """Exact sums over all players of products with their instruments, in Python integers that count units of 2⁻⁴⁰.

    `matrix` is Σ k_ζ k_xᵀ and `vector` is Σ k_ζ k_y: what is released. `features` is Σ k_x k_xᵀ and `instruments`
    Σ k_ζ k_ζᵀ: what its accuracy follows from. `predictions` is the sum of what people think the others will say, in
    steps of 2⁻²⁰, where they are asked. Those of two disjoint groups add.
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.digest())

    def digest(self) -> str:
        """SHA-256 of the exact content."""
        return hashlib.sha256(self._content().encode()).hexdigest()

    def _content(self) -> str:
        parts = (self.matrix, self.vector, self.features, self.instruments)
        numbers = [self.dimension, self.count, *(number for part in parts for number in part.ravel())]
        numbers += [] if self.predictions is None else [self.predictions]
        return "truthful/sums/1 " + " ".join(str(int(number)) for number in numbers)


def moments(kx: Floats, ky: Floats) -> Moments:
    """Exact moments of records on the grid, as `grid_features` and `grid_responses` give them."""
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


def sums(kx: Floats, ky: Floats, transform: Sequence[Sequence[int]] | None, norm: str = "l2") -> Sums:
    """Exact sums over players on the grid, with the instruments of this transform, cut in this norm; None: ζ = x."""
    if len(ky) != len(kx):
        raise InputError(f"responses has {len(ky)} entries; {len(kx)} were expected, one per player.")
    if not np.all((kx == np.floor(kx)) & (np.abs(kx) <= GRID)):
        raise InputError("The features are not on the grid; pass them through grid_features first.")
    tally = SumsTally(kx.shape[1], transform, norm)
    tally.add(kx, ky)
    return tally.sums


class SumsTally:
    """Adds up the sums of products with instruments as players come; the transform None means ζ = x."""

    def __init__(self, dimension: int, transform: Sequence[Sequence[int]] | None, norm: str = "l2") -> None:
        self.transform, self.sup = in_fours(transform), norm == "sup"
        self._columns = threes(dimension + len(self.transform) + 1)
        self._before = Sums.zero(dimension)
        self._sums, self._count = self.nothing, 0
        self._room = 1.0  # how much of int64's range is left, whatever the numbers were

    @property
    def nothing(self) -> npt.NDArray[np.int64]:
        """Sums of nobody, for kernels to add to: Σ k kᵀ, k being k_x, k_ζ unless that is k_x, k_y, and zeros."""
        return np.zeros((self._columns, self._columns), dtype=np.int64)

    @property
    def sums(self) -> Sums:
        """The sums so far."""
        d, first = self._before.dimension, len(self.transform)
        exact = (np.triu(self._sums) + np.triu(self._sums, 1).T).astype(object)
        x, z = slice(0, d), slice(first, first + d)
        return self._before + Sums(self._count, exact[z, x], exact[z, first + d], exact[x, x], exact[z, z])

    def add(self, kx: Floats, ky: Floats) -> None:
        """Take in records on the grid."""
        panel, block = exact_sums(int(max(ky.max(initial=0), -ky.min(initial=0))))
        block = min(block, LONGEST_BLOCK)
        for start in range(0, len(ky), block):
            rows = slice(start, min(start + block, len(ky)))
            k, more = stack_columns(kx[rows], ky[rows], self.transform, self.sup), self.nothing
            kernels.add_columns(k, panel, more)
            self.add_sums(more, k.shape[1], block)

    def add_sums(self, sums: npt.NDArray[np.int64], count: int, block: int) -> None:
        """Take in the sums of so many records, of whom as many as `block` could be summed."""
        share = count / block
        if share > self._room:
            self._before, self._room = self.sums, 1.0
            self._sums, self._count = self.nothing, 0
        self._room -= share
        self._sums += sums
        self._count += count


def stack_columns(kx: Floats, ky: Floats, transform: Floats, sup: bool = False) -> Floats:
    """k_x, k_ζ unless there is no transform, and k_y, as columns, one row for each entry; with zeros to make threes."""
    d = kx.shape[1]
    response = d + len(transform)
    k = np.zeros((threes(response + 1), len(ky)))
    k[:d], k[response] = kx.T, ky
    if len(transform):
        kernels.put_all_instruments(k, transform, sup)
    return k


def threes(columns: int) -> int:
    """So many columns, or the next multiple of three."""
    return columns + -columns % kernels.THREE


def in_fours(rows: Any) -> Floats:
    """A matrix with columns of zeros to make fours, as kernels read it; None is one without rows."""
    matrix = np.zeros((0, 0)) if rows is None else np.asarray(rows, dtype=np.float64)
    height, width = matrix.shape
    wide = np.zeros((height, width + -width % kernels.FOUR))
    wide[:, :width] = matrix
    return wide


def exact_sums(largest: int) -> tuple[int, int]:
    """How many rows are summed exactly if no response is larger: by float64 in a panel, by int64 in a block.

    With |k_x|, |k_ζ| ≤ 2²⁰ and |k_y| ≤ L (at least 2²⁰) no product exceeds 2²⁰·L: sums over 2⁵³/(2²⁰·L) rows stay
    within 2⁵³, and over 2⁶²/(2²⁰·L) rows within 2⁶². k_y² is not summed.
    """
    largest = max(GRID, largest)
    if largest > LARGEST_RESPONSE_BOUND * GRID:
        raise InputError(f"A response is {largest} grid steps; pass responses through grid_responses first.")
    return min(LONGEST_PANEL, 2**53 // (GRID * largest)), 2**62 // (GRID * largest)


def _as_floats(integers: PythonIntegers) -> Floats:
    """Integers in units of 2⁻⁴⁰ as floats; Python's division of integers is correctly rounded."""
    return (integers / PRODUCT).astype(np.float64)

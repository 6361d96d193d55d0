"""Exact sufficient statistics: count, XᵀX, Xᵀy and yᵀy of grid points, the same to the bit in any order.

Records are first truncated toward zero to multiples of 2⁻²⁰. Truncation keeps ‖x‖ ≤ 1 and |y| ≤ Y exactly
true, so it costs no sensitivity, and it turns every record into integers k = 2²⁰·x. Products of such
integers are summed by BLAS in float64 without rounding as long as every partial sum stays within 2⁵³,
whatever the order of summation, the blocking or the number of threads; chunks are made short enough for that
and are then added as integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

GRID = 2**20
PRODUCT = GRID**2  # a product of two grid integers counts units of 2^-40
LARGEST_DIMENSION = 4000
LARGEST_RESPONSE_BOUND = 256

Integers = npt.NDArray[np.int64]
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
    with np.errstate(over="ignore"):  # an infinite product is out of the ball, as it should be
        k: Floats = np.trunc(X * GRID)
        outside = np.flatnonzero(_square_norms(k) > PRODUCT)
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


def _square_norms(k: Floats) -> Floats:
    """Σk² by row; sums of integers up to 2⁵³ are exact in any order, so comparing with 2⁴⁰ is exact too."""
    squares: Floats = np.einsum("ij,ij->i", k, k)
    return squares


def grid_responses(y: Any, response_bound: float) -> Floats:
    """Integers k with |k| ≤ floor(2²⁰·Y) exactly: 2²⁰·y, y clipped to [−Y, Y], truncated toward zero."""
    limit = response_limit(response_bound)
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
        return _unpacked(0, np.zeros((dimension + 1, dimension + 1), dtype=np.int64).astype(object))

    @property
    def dimension(self) -> int:
        return len(self.cross)

    @property
    def gram_float(self) -> Floats:
        """XᵀX in normalised units, correctly rounded."""
        return _rounded(self.gram)

    @property
    def cross_float(self) -> Floats:
        """Xᵀy in normalised units, correctly rounded."""
        return _rounded(self.cross)

    @property
    def square_float(self) -> float:
        """yᵀy in normalised units, correctly rounded."""
        return self.square / PRODUCT

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.count + other.count,
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
        )

    def __sub__(self, other: Moments) -> Moments:
        """The moments of those in `self` who are not in `other`, a part of it."""
        return Moments(
            self.count - other.count,
            self.gram - other.gram,
            self.cross - other.cross,
            self.square - other.square,
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


def moments(kx: Floats, ky: Floats) -> Moments:
    """Exact moments of records on the grid, as `grid_features` and `grid_responses` give them."""
    total = Moments.zero(kx.shape[1])
    for block in _blocks(kx, ky):
        sums = sum(_packed(kx[rows], ky[rows]) for rows in block)
        total += _unpacked(block[-1].stop - block[0].start, np.asarray(sums).astype(object))
    return total


def group_moments(kx: Floats, ky: Floats, groups: npt.NDArray[np.uint8]) -> tuple[Moments, Moments]:
    """Exact moments of group 0 and of group 1, in one pass.

    Sums are exact, so group 0 is everybody less group 1, and only one group's rows are ever copied.
    """
    if len(groups) != len(kx):
        raise InputError(f"groups has {len(groups)} entries; {len(kx)} were expected, one per player.")
    in_ones = groups.astype(np.bool_)
    everybody = ones = Moments.zero(kx.shape[1])
    for block in _blocks(kx, ky):
        whole = slice(block[0].start, block[-1].stop)
        both = np.zeros((2, kx.shape[1] + 1, kx.shape[1] + 1), dtype=np.int64)
        for rows in block:
            both[0] += _packed(kx[rows], ky[rows])
            both[1] += _packed(kx[rows].compress(in_ones[rows], axis=0), ky[rows].compress(in_ones[rows]))
        everybody += _unpacked(whole.stop - whole.start, both[0].astype(object))
        ones += _unpacked(int(np.count_nonzero(in_ones[whole])), both[1].astype(object))
    return everybody - ones, ones


def _blocks(kx: Floats, ky: Floats) -> Iterator[list[slice]]:
    """Blocks of chunks of rows: BLAS is exact on a chunk, and int64 on a block.

    With |k| ≤ L (at least 2²⁰), a chunk holds at most 2⁵³/(2²⁰·L) rows, so that sums of k_x k_x and k_x k_y
    stay within 2⁵³; a block is short enough that sums of k_y², at most L² each, stay within 2⁶².
    """
    if len(ky) != len(kx):
        raise InputError(f"responses has {len(ky)} entries; {len(kx)} were expected, one per player.")
    largest = max(GRID, int(np.abs(ky).max(initial=0)))
    if largest > LARGEST_RESPONSE_BOUND * GRID:
        raise InputError(f"A response is {largest} grid steps; pass responses through grid_responses first.")
    rows = 2**53 // (GRID * largest)
    chunks = [slice(start, min(start + rows, len(kx))) for start in range(0, len(kx), rows)]
    length = 2**62 // (rows * largest**2)
    for start in range(0, len(chunks), length):
        yield chunks[start : start + length]


def _packed(kx: Floats, ky: Floats) -> Integers:
    """Exact XᵀX, Xᵀy and yᵀy of one chunk: upper left, last column and last entry of one matrix."""
    d = kx.shape[1]
    sums = np.empty((d + 1, d + 1))
    sums[:d, :d] = kx.T @ kx
    sums[:d, d] = sums[d, :d] = kx.T @ ky
    sums[d, d] = 0
    if not (np.trace(sums) <= len(kx) * PRODUCT and np.array_equal(sums, np.trunc(sums))):
        raise InputError("The features are not on the grid; pass them through grid_features first.")
    packed = sums.astype(np.int64)
    whole = ky.astype(np.int64)
    packed[d, d] = whole @ whole
    return packed


def _unpacked(count: int, sums: PythonIntegers) -> Moments:
    return Moments(count, sums[:-1, :-1], sums[:-1, -1], sums[-1, -1])


def _rounded(integers: PythonIntegers) -> Floats:
    """Integers in units of 2⁻⁴⁰ as floats; Python's division of integers is correctly rounded."""
    return (integers / PRODUCT).astype(np.float64)

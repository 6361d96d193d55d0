"""The geometry of a roster: everything the bounds of the estimator `instruments` need from people's features.

Given the features X of those who answer and their instruments Z, with M = ZᵀX and G = XᵀX/n, all is in closed form:

    B = M⁻¹Zᵀ            column j is how answer j moves θ̂; G^½B, how it moves predictions
    h_i = x_iᵀM⁻¹ζ_i     leverage: how much of the prediction of i is her own answer
    τ_i = ‖M⁻ᵀx_i‖/(1 − h_i)                          her peers' noise along x_i is s·τ_i, s the scale of that in b̃
    v_i = (x_iᵀM⁻¹ZᵀZM⁻ᵀx_i − h_i²)/(1 − h_i)²        and their sampling error has the variance σ²v_i

No random matrices and no least eigenvalues: features are public numbers here, under `protects = "answers"`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.moments import (
    GRID,
    Sums,
    Transform,
    as_floats,
    grid_features,
    instruments_on_grid,
)
from truthful.noise import L2Laplace, laplace

#: People whose noise differs by less than this part are grouped, with the worst of each of their numbers.
ALIKE = 0.02
#: The number of largest influences kept individually; the others are grouped, within this ratio.
EACH_RANK, RANK_RATIO = 256, 1.004
#: How many people, about, to keep of those brought in parts, for averages over people.
MOST_KEPT = 100_000
#: Slack for sums of lengths that are drawn from a design, in standard deviations.
DEVIATIONS = 3.1
ROWS = 65_536


@dataclass(frozen=True, eq=False)
class Largest:
    """The sum of the k largest of n numbers, for every k: never too small, and by at most half a per cent too large.

    Linear between the ranks kept.
    """

    ranks: Floats
    sums: Floats

    @classmethod
    def of(cls, numbers: Floats) -> Largest:
        tally = _Tally()
        tally.add(numbers)
        return tally.largest()

    def __call__(self, k: Floats) -> Floats:
        return np.asarray(np.interp(k, self.ranks, self.sums))


@dataclass(frozen=True, eq=False)
class Lengths:
    """The lengths ‖x‖ of people who may have to be paid, ascending; each counts `factor` times.

    Where people are yet to be drawn, `drawn` is the effective sample size of their sums: 3.1 standard deviations are
    added as slack.
    """

    r: Floats
    factor: float = 1.0
    drawn: float = math.inf

    @cached_property
    def _above(self) -> Floats:
        """Σ1, Σr, Σr², Σr³ and Σr⁴ over the lengths from each place on."""
        powers = np.stack([self.r**power for power in range(5)])
        return np.concatenate([np.cumsum(powers[:, ::-1], axis=1)[:, ::-1], np.zeros((5, 1))], axis=1)

    @property
    def mean_square(self) -> float:
        """The mean of ‖x‖²."""
        return float(np.mean(self.r**2))

    def totals(self, a: Floats, b: Floats, c: Floats, linear: float) -> tuple[Floats, Floats]:
        """Σ max(a, b·loss(c‖x‖)) and Σ b·gain(c‖x‖), loss(R) = linear·R + 3R², gain(R) = linear·R + R²."""
        a, b, c = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (a, b, c)))
        with np.errstate(divide="ignore", invalid="ignore"):
            level = (np.sqrt(linear**2 + 12 * a / b) - linear) / 6 / c
        at = np.searchsorted(self.r, np.where(np.isnan(level), np.inf, level))
        longer, everybody = self._above[:, at], self._above[:, 0]
        base, squares = _polynomials(longer, b * linear * c, 3 * b * c**2)
        below = len(self.r) - longer[0]
        gain = _polynomials(everybody, b * linear * c, b * c**2)
        return self._spare(a * below + base, a**2 * below + squares), self._spare(*gain)

    def _spare(self, total: Floats, squares: Floats) -> Floats:
        """A total of numbers with this sum of squares, with slack for the chance of who is drawn."""
        if math.isinf(self.drawn):
            return np.asarray(self.factor * total)
        n = len(self.r)
        deviation = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0))
        return np.asarray(self.factor * (total + n * deviation * (DEVIATIONS / math.sqrt(self.drawn))))


def _polynomials(powers: Floats, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Σ(first·r + second·r²) and the sum of its squares, from the sums of r⁰ to r⁴."""
    _, r, r2, r3, r4 = powers
    return first * r + second * r2, first**2 * r2 + 2 * first * second * r3 + second**2 * r4


@dataclass(frozen=True, eq=False)
class BoundedLengths:
    """Lengths between `least` and 1, of which only the number and the mean square are known."""

    players: int
    mean_square: float
    least: float

    def totals(self, a: Floats, b: Floats, c: Floats, linear: float) -> tuple[Floats, Floats]:
        """Upper bounds on `Lengths.totals`: max(a, 3bc²r²) is convex in r², so the chord over all r² lies above it."""
        a, b, c = np.broadcast_arrays(*(np.asarray(part, dtype=np.float64) for part in (a, b, c)))
        at = (self.mean_square - self.least**2) / max(1 - self.least**2, 1e-300)
        low, high = (np.maximum(a, 3 * b * c**2 * end) for end in (self.least**2, 1.0))
        mean_length = math.sqrt(self.mean_square)
        base = low + min(max(at, 0.0), 1.0) * (high - low) + b * linear * c * mean_length
        gain = b * (linear * c * mean_length + c**2 * self.mean_square)
        return self.players * base, self.players * gain


@dataclass(frozen=True, eq=False)
class FixedTotals:
    """Lengths of which only the mean square is kept, and their totals at one a, b and c."""

    base: float
    gain: float
    mean_square: float

    def totals(self, a: Floats, b: Floats, c: Floats, linear: float) -> tuple[Floats, Floats]:
        """The totals kept, whatever the arguments."""
        return np.asarray(self.base), np.asarray(self.gain)


@dataclass(frozen=True, eq=False)
class Geometry:
    """The geometry of a number of respondents under instruments. For another number: `at`.

    noise and sampling are ‖M⁻¹‖²_F and ‖B‖²_F, operator is ‖B‖, influence has sums of the largest ‖B_j‖: the pairs are
    for coefficients and for predictions. worst has a row for each group of similar people: their largest τ, v, v/τ, r/τ
    and r. leverage is the largest h_i. lengths cover all who may have to be paid.
    """

    players: int
    dimension: int
    noise: tuple[float, float]
    sampling: tuple[float, float]
    operator: tuple[float, float]
    influence: tuple[Largest, Largest]
    worst: Floats
    leverage: float
    typical_noise: float
    """The root mean square of τ_i/‖x_i‖ over people, weighted by ‖x‖²."""
    lengths: Lengths | BoundedLengths | FixedTotals
    people: tuple[Floats, Floats]
    """(r, τ) of everybody whose features are not all 0, for averages over people."""
    effects: Floats | None = None
    """For each effect, a row w of θ: ‖M⁻ᵀw‖², w·M⁻¹ZᵀZM⁻ᵀw and the largest |w·B_j|, where answers are shares."""
    believed: Floats | None = None
    """Beliefs of groups of these people, where answers are shares (truthful.bounds.share_bounds)."""
    norm: str = "l2"
    """The norm in which instruments have length at most 1, and by which the noise density decays."""
    matrices: tuple[Floats, Floats, Floats] | None = None
    """M⁻¹, ZᵀZ and G, from which the error laws of single numbers follow."""

    def matrices_of(self, players: int) -> tuple[Floats, Floats, Floats]:
        """M⁻¹, ZᵀZ and G for this many people, distributed like these."""
        if self.matrices is None:
            raise InputError("The geometry has no matrices; measure people's features again.")
        (inverse, ZZ, G), f = self.matrices, self.players / players
        return inverse * f, ZZ / f, G

    @property
    def noise_variance(self) -> float:
        """The variance of the noise in b̃ in any direction, at scale 1."""
        return laplace(self.norm, self.dimension, 1.0).marginal_variance

    @property
    def longest(self) -> float:
        """The largest L2 length of an instrument: |w_ij| ≤ τ_i times that."""
        return longest_instrument(self.norm, self.dimension)


class _Parts(NamedTuple):
    """The numbers of each person that a pass over people keeps."""

    r: Floats
    h: Floats
    tau: Floats
    v: Floats
    influence: Floats
    prediction_influence: Floats

    def rows(self) -> Floats:
        """τ, v, v/τ, r/τ and r of people whose features are not all 0."""
        tau, v, r = (part[self.r > 0] for part in (self.tau, self.v, self.r))
        return np.stack([tau, v, v / tau, r / tau, r], axis=1)


def geometry(
    X: Floats, transform: Transform | None, lengths: Lengths | None = None, norm: str = "l2"
) -> Geometry:
    """The geometry of people with these normalised features; lengths are those of X unless more may have to be paid."""
    kx = grid_features(X)
    return measure(kx, instruments_on_grid(kx, transform, norm), lengths, norm)


def measure(kx: Floats, kz: Floats, lengths: Lengths | None = None, norm: str = "l2") -> Geometry:
    """The geometry of features and instruments on the grid."""
    n, d = kx.shape
    X, Z = kx / GRID, kz / GRID
    inverse: Floats = np.asarray(np.linalg.inv(Z.T @ X), dtype=np.float64)
    ZZ, G = Z.T @ Z, X.T @ X / n
    root = _root(G)
    slices = (slice(start, start + ROWS) for start in range(0, n, ROWS))
    each = [_part(X[rows], Z[rows], inverse, ZZ, root) for rows in slices]
    parts = _Parts(*map(np.concatenate, zip(*each, strict=True)))
    r = parts.r
    present = r > 0
    return Geometry(
        players=n,
        dimension=d,
        **_of_sums(inverse, ZZ, root),
        influence=(Largest.of(parts.influence), Largest.of(parts.prediction_influence)),
        worst=_drop_exceeded(_group_alike(parts.rows(), float(parts.tau[present].min()))),
        leverage=float(parts.h.max()),
        typical_noise=math.sqrt(float(np.mean(parts.tau**2)) / float(np.mean(r**2))),
        lengths=Lengths(np.sort(r)) if lengths is None else lengths,
        people=(r[present], parts.tau[present]),
        norm=norm,
        matrices=(inverse, ZZ, G),
    )


class GeometryTally:
    """The geometry of very many people, brought in parts, in constant memory.

    Sums over everybody are known from a first pass. Kept are the worst numbers of similar people, the sums of
    influences that `Largest` needs, and the totals of payments at one a, b and c.
    """

    def __init__(self, sums: Sums, a: float, b: float, c: float, linear: float) -> None:
        self._n, self._d = sums.count, sums.dimension
        self.inverse, self._ZZ, self._G = _matrices(sums)
        self._root = _root(self._G)
        self._payments = (np.asarray(a), np.asarray(b), np.asarray(c), linear)
        self._worst = np.empty((0, 5))
        self._influence = (_Tally(), _Tally())
        self._leverage, self._squares = 0.0, 0.0
        self._base, self._gain = 0.0, 0.0
        self._people: list[tuple[Floats, Floats]] = []
        self._apart = max(1, self._n // MOST_KEPT)

    def add(self, kx: Floats, kz: Floats) -> Floats:
        """Take in people by features and instruments on the grid; return their leverages."""
        part = _part(kx / GRID, kz / GRID, self.inverse, self._ZZ, self._root)
        for tally, numbers in zip(self._influence, (part.influence, part.prediction_influence), strict=True):
            tally.add(numbers)
        present = part.r > 0
        self._worst = _drop_exceeded(_group_alike(np.concatenate([self._worst, _group_alike(part.rows())])))
        self._leverage = max(self._leverage, float(part.h.max()))
        self._squares += float(np.sum(part.tau**2))
        base, gain = Lengths(np.sort(part.r)).totals(*self._payments)
        self._base, self._gain = self._base + float(base), self._gain + float(gain)
        r, tau = (numbers[present][:: self._apart].copy() for numbers in (part.r, part.tau))
        self._people.append((r, tau))
        return part.h

    def geometry(self) -> Geometry:
        """The geometry of all who were brought."""
        square = float(np.trace(self._G))
        r, tau = (np.concatenate(parts) for parts in zip(*self._people, strict=True))
        return Geometry(
            players=self._n,
            dimension=self._d,
            **_of_sums(self.inverse, self._ZZ, self._root),
            influence=(self._influence[0].largest(), self._influence[1].largest()),
            worst=self._worst,
            leverage=self._leverage,
            typical_noise=math.sqrt(self._squares / self._n / square),
            lengths=FixedTotals(self._base, self._gain, square),
            people=(r, tau),
            matrices=(self.inverse, self._ZZ, self._G),
        )


class _Tally:
    """The largest of many numbers brought in parts: the first individually, the others grouped by size."""

    def __init__(self) -> None:
        self._first = np.empty(0)
        self._others: dict[int, tuple[int, float]] = {}

    def add(self, numbers: Floats) -> None:
        joined = np.sort(np.concatenate([self._first, numbers[numbers > 0]]))
        self._first, rest = joined[-EACH_RANK:], joined[:-EACH_RANK]
        keys, places = np.unique(
            np.floor(np.log(rest) / math.log(RANK_RATIO)).astype(np.int64), return_inverse=True
        )
        counts, sums = np.bincount(places), np.bincount(places, weights=rest)
        for key, count, total in zip(keys.tolist(), counts.tolist(), sums.tolist(), strict=True):
            before = self._others.get(key, (0, 0.0))
            self._others[key] = (before[0] + count, before[1] + total)

    def largest(self) -> Largest:
        """Sums of the largest, each group as if all in it had the largest value possible, until its sum is used up."""
        ranks: list[float] = list(range(len(self._first) + 1))
        sums: list[float] = [0.0, *np.cumsum(self._first[::-1]).tolist()]
        for key in sorted(self._others, reverse=True):
            count, total = self._others[key]
            start, before = ranks[-1], sums[-1]
            ranks += [start + min(count - 1e-9, total / RANK_RATIO ** (key + 1)), start + count]
            sums += [before + total, before + total]
        return Largest(np.array(ranks, dtype=np.float64), np.array(sums))


def coarse_geometry(sums: Sums, least_length: float, norm: str = "l2") -> Geometry:
    """Bounds on the geometry from the sums alone, for very many people: ‖x‖ ≤ 1, and not below `least_length`.

    τ ≤ ‖M⁻¹‖/(1 − ‖M⁻¹‖), as h ≤ ‖M⁻¹‖; v ≤ ‖M⁻¹ZᵀZM⁻ᵀ‖/(1 − h)² and v/τ ≤ ‖ZᵀZ‖τ; r/τ ≤ ‖M‖. An influence is at most
    ‖M⁻¹‖. In the sup norm instruments are √d long at most, and leverages and influences grow by that factor.
    """
    n, d = sums.count, sums.dimension
    inverse, ZZ, G = _matrices(sums)
    root = _root(G)
    cov, _ = _covariances(inverse, ZZ, root)
    factors = np.linalg.svd(inverse, compute_uv=False)
    longest = longest_instrument(norm, d)
    leverage, of_predictions = (
        longest * float(np.linalg.norm(part, 2)) for part in (inverse, root @ inverse)
    )
    kept = max(1 - leverage, 0.5)
    tau = float(factors[0]) / kept
    v = float(np.linalg.norm(cov, 2)) / kept**2
    ratio = float(np.linalg.norm(ZZ, 2)) * tau
    ranks, square = np.array([0.0, 1.0, float(n)]), float(np.trace(G))
    noise = float(np.trace(inverse @ inverse.T @ G))
    return Geometry(
        players=n,
        dimension=d,
        **_of_sums(inverse, ZZ, root),
        influence=(Largest(ranks, leverage * ranks), Largest(ranks, of_predictions * ranks)),
        worst=np.array([[tau, v, ratio, 1 / float(factors[-1]), 1.0]]),
        leverage=leverage,
        typical_noise=math.sqrt(noise / square),
        lengths=BoundedLengths(n, square, least_length),
        people=(np.array([math.sqrt(square)]), np.array([math.sqrt(noise)])),
        norm=norm,
        matrices=(inverse, ZZ, G),
    )


def longest_instrument(norm: str, dimension: int) -> float:
    """The largest L2 length of a vector of length at most 1 in this norm."""
    return math.sqrt(dimension) if norm == "sup" else 1.0


def effects_of(kx: Floats, kz: Floats, rows: Floats) -> Floats:
    """‖M⁻ᵀw‖², w·M⁻¹ZᵀZM⁻ᵀw and the largest |w·M⁻¹ζ_j| for each row w, from features and instruments on the grid."""
    X, Z = kx / GRID, kz / GRID
    W = np.linalg.solve((Z.T @ X).T, rows.T)
    B = Z @ W
    return np.stack([np.sum(W**2, axis=0), np.sum(B**2, axis=0), np.abs(B).max(axis=0, initial=0.0)], axis=1)


def leverages(X: Floats, Z: Floats, inverse: Floats) -> Floats:
    """h_i for every row."""
    return np.asarray(np.einsum("ij,ij->i", X @ inverse, Z))


def _part(X: Floats, Z: Floats, inverse: Floats, ZZ: Floats, root: Floats) -> _Parts:
    A = X @ inverse
    h = np.einsum("ij,ij->i", A, Z)
    kept = 1 - h
    B = Z @ inverse.T
    return _Parts(
        r=np.linalg.norm(X, axis=1),
        h=h,
        tau=np.linalg.norm(A, axis=1) / kept,
        v=np.maximum(0.0, np.einsum("ij,ij->i", A @ ZZ, A) - h**2) / kept**2,
        influence=np.linalg.norm(B, axis=1),
        prediction_influence=np.linalg.norm(B @ root, axis=1),
    )


def _group_alike(rows: Floats, least: float = 1.0) -> Floats:
    """The largest of each number among rows of similar τ, grouped from `least` up."""
    rows = rows[np.argsort(rows[:, 0])]
    group = np.floor(np.log(rows[:, 0] / least) / math.log1p(ALIKE)).astype(np.int64)
    starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    return np.maximum.reduceat(rows, starts, axis=0)


def _drop_exceeded(rows: Floats) -> Floats:
    """The rows, without those that another exceeds in every number."""
    below = np.all(rows[:, None] <= rows[None], axis=2) & np.any(rows[:, None] < rows[None], axis=2)
    return np.asarray(rows[~np.any(below, axis=1)])


def _of_sums(inverse: Floats, ZZ: Floats, root: Floats) -> dict[str, Any]:
    """The numbers that follow from sums over everybody."""
    covariances = _covariances(inverse, ZZ, root)
    return {
        "noise": (float(np.sum(inverse**2)), float(np.sum((root @ inverse) ** 2))),
        "sampling": tuple(float(np.trace(covariance)) for covariance in covariances),
        "operator": tuple(math.sqrt(float(np.linalg.norm(covariance, 2))) for covariance in covariances),
    }


def _covariances(inverse: Floats, ZZ: Floats, root: Floats) -> tuple[Floats, Floats]:
    """BBᵀ, for coefficients and for predictions."""
    cov: Floats = inverse @ ZZ @ inverse.T
    of_predictions: Floats = root @ cov @ root
    return cov, of_predictions


def _matrices(sums: Sums) -> tuple[Floats, Floats, Floats]:
    """M⁻¹, ZᵀZ and G."""
    parts = (sums.matrix, sums.instruments, sums.features / sums.count)
    M, ZZ, G = map(as_floats, parts)
    return np.asarray(np.linalg.inv(M), dtype=np.float64), ZZ, G


def _root(G: Floats) -> Floats:
    values, vectors = np.linalg.eigh(G)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root


@cache
def peak(d: int) -> float:
    """f₁(0): the density at 0 of one coordinate of the L2-Laplace law at scale 1."""
    return float(L2Laplace(d, 1.0).marginal_pdf(0.0))

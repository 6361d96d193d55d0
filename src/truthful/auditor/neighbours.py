"""The first attack: two data sets that differ in one record, and a release that moves further than it may.

Everybody but one reports the same; the last record is replaced. The search starts where the proofs say the worst
cases are, and climbs from there. Every step goes through the real integers: clipping, grid, exact statistics, certified
solve. Whether a query stays within its sensitivity is decided in integers: Σ w(k − k')² ≤ Δ².
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as pairs
from math import isqrt, sqrt

import numpy as np

from truthful.auditor.product import Product, times
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.estimators import Estimator, Query
from truthful.moments import Moments

ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
CLIMBS = 3
STEPS = 60


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two data sets: any number of players who report `crowd`, and one who reports `old`, or `new` instead."""

    crowd: Moments
    old: Moments
    new: Moments


@dataclass(frozen=True, eq=False)
class Worst:
    """What a search found: the pair with the largest privacy loss, and the largest share of a sensitivity used."""

    pair: Neighbours
    share: float
    within: bool
    tried: int


def square_distance(one: Query, other: Query) -> int:
    """Σ w(k − k')², exactly."""
    return sum(w * (a - b) ** 2 for w, a, b in zip(one.weights, one.value, other.value, strict=True))


class Search:
    """One estimate under attack: tries rows (x, y) of the base record, the old record and the new one."""

    def __init__(self, product: Product, estimator: Estimator, beliefs: Beliefs, count: int) -> None:
        self._product, self._estimator, self._beliefs, self._count = product, estimator, beliefs, count
        self._loss = -1.0
        self._pair: Neighbours | None = None
        self._share, self._within, self._tried = 0.0, True, 0

    def loss(self, rows: Floats) -> float:
        """The privacy loss of a pair, as a share of the estimate's epsilon."""
        pair = Neighbours(
            *(self._product.statistics(row[None, :-1], row[-1:], self._beliefs) for row in rows)
        )
        others = times(self._count - 1, pair.crowd)
        before, after = (self._estimator.queries(others + record) for record in (pair.old, pair.new))
        loss = 0.0
        for one, other in zip(before, after, strict=True):
            square = square_distance(one, other)
            share = isqrt(square << 40) / float(one.sensitivity * 2**20)
            self._share = max(self._share, share)
            # What a query declares may not depend on the data either.
            self._within &= square <= one.sensitivity**2 and _declared(one) == _declared(other)
            loss += float(one.share) * share
        self._tried += 1
        if loss > self._loss:
            self._loss, self._pair = loss, pair
        return loss

    def climb(self, start: Floats, rng: np.random.Generator, steps: int) -> None:
        """Random steps from one start, of shrinking size, kept where the loss grows."""
        best, found = start, self.loss(start)
        for step in range(steps):
            size = 0.3 * 0.95**step * np.abs(best).max(axis=1, keepdims=True)
            trial = best + rng.normal(size=best.shape) * (rng.random(best.shape) < 0.5) * size
            if (loss := self.loss(trial)) > found:
                best, found = trial, loss

    def worst(self) -> Worst:
        """What was found so far."""
        assert self._pair is not None
        return Worst(self._pair, self._share, self._within, self._tried)


def search(
    product: Product, estimator: Estimator, beliefs: Beliefs, count: int, gamma: float, seed: int
) -> Worst:
    """Every start is tried, also with an absurd record in place of the new one; the best are climbed from."""
    rng = np.random.default_rng(seed)
    attack = Search(product, estimator, beliefs, count)
    starts = list(_starts(beliefs.dimension, beliefs.radius, beliefs.response_bound, gamma, count))
    starts.sort(key=attack.loss, reverse=True)
    for start in starts[:CLIMBS]:
        attack.climb(start, rng, STEPS)
    for start in starts[:CLIMBS]:
        for loud in pairs((1.0, ABSURD), repeat=2):
            shouted = start.copy()
            shouted[1:, :-1] *= loud[0]
            shouted[1:, -1] *= loud[1]
            attack.loss(shouted)
    return attack.worst()


def sensitivity_finding(of: str, estimator: Estimator, worst: Worst) -> Finding:
    """A search as a finding."""
    return Finding(
        name=f"sensitivity, {of}",
        claim=f"one record, whatever is in it, moves {estimator.name} by at most its sensitivity",
        found=f"{100 * worst.share:.4g} % of it, the most of {worst.tried:,} pairs",
        confidence="exact integers; a search, no proof",
        passed=worst.within,
        figures={"share_of_sensitivity": worst.share, "pairs": worst.tried},
    )


def _declared(query: Query) -> tuple[object, ...]:
    return query.unit, query.sensitivity, query.weights, query.share


def _starts(d: int, R: float, Y: float, gamma: float, count: int) -> Iterator[Floats]:
    """Where the proofs say to look: the crowd tilts the estimate along e₁, and one record is swapped across it.

    A flip of the response is worst for sums, orthogonal records for products of features; a lever (a record of
    nothing that becomes the longest) and mirror images in e₁ are worst for ridges. The crowd tilts most at √(γ/n).
    """
    n = max(count - 1, 1)
    reach = max(0.0, Y**2 - 4 * R**2 * gamma / n)
    tilts = (0.0, 1.0, sqrt(gamma / n), sqrt(gamma / (3 * n)), (Y - sqrt(reach)) / (2 * R))
    first, second = np.eye(max(d, 2))[:2, :d]
    swaps = [(first, Y, first, -Y), (0 * first, 0.0, first, -Y), (0.1 * first, Y, first, -Y)]
    if d > 1:
        swaps.append((first, Y, second, -Y))
        for radius in (R, Y * sqrt(n / gamma) / 2):
            t = 2 * radius / (Y + sqrt(Y**2 + 8 * radius**2))
            side = sqrt(1 - t**2)
            swaps.append((t * first + side * second, -Y, t * first - side * second, -Y))
    for tilt, (x, y, x_new, y_new) in pairs(tilts, swaps):
        yield np.array([[*(tilt * first), Y], [*x, y], [*x_new, y_new]])

"""The first attack: two neighbours, and a release that moves further than it may.

Everybody but one reports the same; of the last one the answer is replaced, or the whole record where records are
protected. The search starts where the proofs say the worst cases are, and climbs from there. Every step goes through
the real integers: clipping, grid, instruments, exact sums. Whether a query stays within its sensitivity is decided in
integers: Σ w(k − k')² ≤ Δ², or max|k − k'| ≤ Δ by the sup norm. Then the exact privacy loss of the worst pair, in
rational numbers. A release of the lattice point k for the query f has P(k) ∝ exp(−‖k − f‖·ε/Δ), with the same constant
for every f. So

    log P(k | D) − log P(k | D') = (‖k − f(D')‖ − ‖k − f(D)‖)·ε/Δ ≤ ‖f(D) − f(D')‖·ε/Δ

by the triangle inequality, with equality at k = f(D): that is the largest loss over all lattice points. The losses of
the queries of one release add up, since their noises are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as pairs
from math import isqrt
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from truthful.asked_release import AskedRelease
from truthful.auditor.attack_surface import (
    Asked,
    Attacked,
    Believed,
    Finding,
    Product,
    overhear,
    unprotected_parts,
)
from truthful.check import Floats
from truthful.estimators.sensitivity import Query, sqrt_above
from truthful.instruments import transform_matrix
from truthful.moments import Sums

ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
CLIMBS = 3
STEPS = 60


class AddableStatistics(Protocol):
    """Exact statistics of some players; those of two disjoint groups add."""

    def __add__(self, other: Self) -> Self: ...


S = TypeVar("S", bound=AddableStatistics)


@dataclass(frozen=True, eq=False)
class Neighbours(Generic[S]):
    """Two data sets: any number of players who report `crowd`, and one who reports `old`, or `new` instead."""

    crowd: S
    old: S
    new: S

    def with_crowd(self, record: S, count: int) -> S:
        """That record and so many of the crowd."""
        total, doubled = record, self.crowd
        while count:
            if count & 1:
                total = total + doubled
            doubled, count = doubled + doubled, count >> 1
        return total


@dataclass(frozen=True, eq=False)
class Worst(Generic[S]):
    """What a search found: the pair with the largest privacy loss, the largest share of a sensitivity used, and whether
    anything moved that is declared, or said to be the same for neighbours."""

    pair: Neighbours[S]
    count: int
    share: float
    within: bool
    unmoved: bool
    tried: int

    @property
    def neighbours(self) -> tuple[S, S]:
        """The two data sets."""
        old, new = (self.pair.with_crowd(record, self.count) for record in (self.pair.old, self.pair.new))
        return old, new


def square_distance(one: Query, other: Query) -> int:
    """Σ w(k − k')², exactly; by the sup norm the largest (k − k')²."""
    if one.norm == "sup":
        return max((a - b) ** 2 for a, b in zip(one.value, other.value, strict=True))
    return sum(w * (a - b) ** 2 for w, a, b in zip(one.weights, one.value, other.value, strict=True))


@dataclass(frozen=True, eq=False)
class SearchTarget(Generic[S]):
    """What is searched: how a row (x, y) becomes statistics, and one a crowd, of which there are so many; what is asked
    of them, and what is the same for all neighbours, who differ in answers only, or in records. x has so many numbers;
    y is the answer, and a prediction where people are asked for one."""

    statistics: Callable[[Floats], S]
    crowd: Callable[[Floats], S]
    queries: Callable[[S], Sequence[Query]]
    public: Callable[[S], Hashable]
    answers: bool
    count: int
    dimension: int


class Search(Generic[S]):
    """Tries rows (x, y) of the crowd, the old record and the new one."""

    def __init__(self, target: SearchTarget[S]) -> None:
        self._target = target
        self._loss = -1.0
        self._pair: Neighbours[S] | None = None
        self._share, self._within, self._unmoved, self._tried = 0.0, True, True, 0

    def loss(self, rows: Floats) -> float:
        """The privacy loss of a pair, as a share of the estimate's epsilon."""
        if self._target.answers:
            rows = rows.copy()
            rows[2, : self._target.dimension] = rows[1, : self._target.dimension]
        pair = Neighbours(self._target.crowd(rows[0]), *map(self._target.statistics, rows[1:]))
        old, new = (pair.with_crowd(record, self._target.count) for record in (pair.old, pair.new))
        loss = 0.0
        for one, other in zip(self._target.queries(old), self._target.queries(new), strict=True):
            square = square_distance(one, other)
            share = isqrt(square << 40) / float(one.sensitivity * 2**20)
            self._share = max(self._share, share)
            self._within &= square <= one.sensitivity**2
            # What a query declares may not depend on the data either.
            self._unmoved &= _declaration(one) == _declaration(other)
            loss += float(one.share) * share
        self._unmoved &= self._target.public(old) == self._target.public(new)
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

    def worst(self) -> Worst[S]:
        """What was found so far."""
        assert self._pair is not None
        return Worst(self._pair, self._target.count, self._share, self._within, self._unmoved, self._tried)


def search(target: SearchTarget[S], starts: Iterable[Floats], seed: int) -> Worst[S]:
    """Every start is tried, also with absurd records in place of the new one, or of both; the best are climbed from."""
    rng, attack = np.random.default_rng(seed), Search(target)
    best = sorted(starts, key=attack.loss, reverse=True)[:CLIMBS]
    for start in best:
        attack.climb(start, rng, STEPS)
    for start in best:
        for first, of_features, of_answers in pairs((1, 2), (1.0, ABSURD), (1.0, ABSURD)):
            shouted = start.copy()
            shouted[first:, : target.dimension] *= of_features
            shouted[first:, target.dimension :] *= of_answers
            attack.loss(shouted)
    return attack.worst()


def worst_neighbours(
    product: Product, mechanism: Attacked, beliefs: Believed, players: int, seed: int
) -> Worst[Sums]:
    """The worst pair for one release, among about so many players: a crowd of one along every axis, so many times."""
    d, asked = beliefs.dimension, isinstance(mechanism, AskedRelease)
    said = np.full((d, 2) if asked else d, beliefs.response_bound)
    everywhere = product.statistics(np.eye(d), said, mechanism, beliefs)

    def statistics(row: Floats) -> Sums:
        return product.statistics(row[None, :d], row[None, d:] if asked else row[d:], mechanism, beliefs)

    target = SearchTarget(
        statistics=statistics,
        crowd=lambda row: everywhere,
        queries=lambda sums: mechanism.queries(sums, beliefs),
        public=lambda sums: unprotected_parts(sums, mechanism),
        answers=mechanism.protects == "answers",
        count=max(1, players // d),
        dimension=d,
    )
    return search(target, _starts(mechanism, beliefs), seed)


def sensitivity_finding(of: str, what: str, worst: Worst[S]) -> Finding:
    """A search as a finding."""
    return Finding(
        name=f"sensitivity{of}",
        claim=f"one {what}, whatever is in it, moves what is released by at most its sensitivity",
        found=f"{100 * worst.share:.4g} % of it, the most of {worst.tried:,} pairs",
        confidence="exact integers; a search, no proof",
        passed=worst.within and worst.unmoved,
        figures={"share_of_sensitivity": worst.share, "pairs": worst.tried},
    )


def unmoved_finding(mechanism: Attacked, worst: Worst[Sums]) -> Finding:
    """Whether all that is released without noise is the same for neighbours."""
    what = "matrix, count" if mechanism.protects == "answers" else "count"
    return Finding(
        name="without noise",
        claim=f"{what} and all that is declared of a release are the same for neighbours",
        found=f"{'the same' if worst.unmoved else 'something moves'} in {worst.tried:,} pairs",
        confidence="exact integers; a search, no proof",
        passed=worst.unmoved,
        figures={"pairs": worst.tried},
    )


def exact_loss(before: Sequence[Asked], after: Sequence[Asked]) -> Fraction:
    """The largest privacy loss over all that two neighbours can release, rounded up by next to nothing."""
    return sum(
        (
            one.epsilon * _root(square_distance(one.query, other.query)) / one.query.sensitivity
            for one, other in zip(before, after, strict=True)
            if one.query.value != other.query.value
        ),
        Fraction(0),
    )


def _root(square: int) -> Fraction:
    """√square, exactly if it is a whole number, else rounded up by at most 2⁻²⁰⁰."""
    root = isqrt(square)
    return Fraction(root) if root * root == square else sqrt_above(Fraction(square))


def loss_finding(epsilon: float, losses: Iterable[Fraction]) -> Finding:
    """The loss of whole releases on pairs that were found for their parts."""
    loss = max(losses)
    return Finding(
        name="privacy loss",
        claim=f"no release tells two neighbours apart by more than ε = {epsilon:.6g}",
        found=f"{float(loss):.6g} at the worst lattice point for the worst pairs found",
        confidence="exact fractions",
        passed=0 < loss <= Fraction(epsilon),
        figures={"loss": float(loss), "epsilon": epsilon},
    )


def composition_finding(epsilon: float, spent: Fraction, queries: int) -> Finding:
    """Whether the epsilons that the queries are answered with add up to the plan's, to the last bit."""
    return Finding(
        name="composition",
        claim=f"all queries of a release together spend ε = {epsilon:.6g}",
        found=f"{float(spent):.6g} over {queries} {'query' if queries == 1 else 'queries'}",
        confidence="exact fractions",
        passed=spent == Fraction(epsilon),
        figures={"spent": float(spent), "epsilon": epsilon, "queries": queries},
    )


def release_findings(
    product: Product, mechanism: Attacked, beliefs: Believed, worst: Worst[Sums]
) -> tuple[Finding, ...]:
    """What the worst neighbours show of a whole release."""
    before, after = (overhear(product, sums, mechanism, beliefs) for sums in worst.neighbours)
    spent = sum((one.epsilon for one in before), Fraction(0))
    return (
        sensitivity_finding("", replaced_part(mechanism), worst),
        unmoved_finding(mechanism, worst),
        loss_finding(mechanism.epsilon, [exact_loss(before, after)]),
        composition_finding(mechanism.epsilon, spent, len(before)),
    )


def replaced_part(mechanism: Attacked) -> str:
    """What of one person is replaced between neighbours."""
    if isinstance(mechanism, AskedRelease):
        return "answer and prediction"
    return mechanism.protects.removesuffix("s")


def _declaration(query: Query) -> tuple[object, ...]:
    return query.unit, query.sensitivity, query.weights, query.share, query.norm


def _starts(mechanism: Attacked, beliefs: Believed) -> Iterator[Floats]:
    """Where the proof says to look: an answer is turned, of somebody with the longest instrument; and, where records
    are protected, one record takes the place of an orthogonal one, or of a record of nothing."""
    d, Y = beliefs.dimension, beliefs.response_bound
    first, second = np.eye(max(d, 2))[:2, :d]
    # The direction that T stretches most has the longest instrument, and all directions that it shortens have.
    longest = (
        first if mechanism.transform is None else np.linalg.svd(transform_matrix(mechanism.transform))[2][0]
    )
    said = np.full(2 if isinstance(mechanism, AskedRelease) else 1, Y)
    crowd = np.zeros(d + len(said))  # the same for all
    for x in (longest, first, second, np.full(d, d**-0.5)):
        yield np.array([crowd, [*x, *said], [*x, *-said]])
        yield np.array([crowd, [*x, *said], [*-x, *said]])
        yield np.array([crowd, [*(0 * x), *(0 * said)], [*x, *-said]])
    yield np.array([crowd, [*first, *said], [*second, *-said]])

"""The search for two neighbours between which a release moves further than it may.

Everybody but one reports the same; of the last player the answer is replaced or, where records are protected, the whole
record. The search starts at the worst cases of the proofs and climbs from there. Every step uses the real integers:
clipping, grid, instruments, exact sums. Whether a query stays within its sensitivity is decided in integers:
Σ w(k − k')² ≤ Δ², or max|k − k'| ≤ Δ in the sup norm. The privacy loss of the worst pair is then computed exactly, in
rational numbers. A release of the lattice point k for the query f has P(k) ∝ exp(−‖k − f‖·ε/Δ), with the same constant
for every f. So

    log P(k | D) − log P(k | D') = (‖k − f(D')‖ − ‖k − f(D)‖)·ε/Δ ≤ ‖f(D) − f(D')‖·ε/Δ

by the triangle inequality, with equality at k = f(D): that is the largest loss over all lattice points. The losses of
the queries of one release add up, since their noises are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product as pairs
from math import isqrt

import numpy as np

from truthful.asked_release import AskedRelease
from truthful.auditor.attack_surface import (
    Attacked,
    Believed,
    Finding,
    Product,
    SpentQuery,
    spent_queries,
    unprotected_parts,
)
from truthful.check import Floats
from truthful.estimators.sensitivity import Query, sqrt_above
from truthful.instruments import transform_matrix
from truthful.moments import Sums

ABSURD = 1e9  # a report, or a feature, that only clipping keeps harmless
CLIMBS = 3
STEPS = 60


def square_distance(before: Query, after: Query) -> int:
    """Σ w(k − k')², exactly; in the sup norm the largest (k − k')²."""
    if before.norm == "sup":
        return max((a - b) ** 2 for a, b in zip(before.value, after.value, strict=True))
    return sum(w * (a - b) ** 2 for w, a, b in zip(before.weights, before.value, after.value, strict=True))


class Search:
    """Tries pairs of rows (x, y), the old record and the new one, in a crowd with `times` people along every axis.

    y is the answer, with a prediction where people are asked for one. It keeps the two data sets with the largest
    privacy loss, the largest share of a sensitivity used, and whether anything moved that must be the same for
    neighbours.
    """

    def __init__(self, product: Product, mechanism: Attacked, beliefs: Believed, times: int) -> None:
        self._product, self._mechanism, self._beliefs = product, mechanism, beliefs
        d, Y = beliefs.dimension, beliefs.response_bound
        self._dimension, self._asked = d, isinstance(mechanism, AskedRelease)
        said = np.full((times * d, 2) if self._asked else times * d, Y)
        self._crowd = product.statistics(np.tile(np.eye(d), (times, 1)), said, mechanism, beliefs)
        self._loss, self.neighbours = -1.0, (self._crowd, self._crowd)
        self.share, self.within, self.unmoved, self.tried = 0.0, True, True, 0

    def loss(self, rows: Floats) -> float:
        """The privacy loss of a pair, as a share of the estimate's epsilon."""
        if self._mechanism.protects == "answers":
            rows = rows.copy()
            rows[1, : self._dimension] = rows[0, : self._dimension]
        old, new = (self._crowd + self._statistics(row) for row in rows)
        loss = 0.0
        for query, changed in zip(
            *(self._mechanism.queries(sums, self._beliefs) for sums in (old, new)), strict=True
        ):
            square = square_distance(query, changed)
            share = isqrt(square << 40) / float(query.sensitivity * 2**20)
            self.share = max(self.share, share)
            self.within &= square <= query.sensitivity**2
            # What a query declares may not depend on the data either.
            self.unmoved &= _declaration(query) == _declaration(changed)
            loss += float(query.share) * share
        self.unmoved &= unprotected_parts(old, self._mechanism) == unprotected_parts(new, self._mechanism)
        self.tried += 1
        if loss > self._loss:
            self._loss, self.neighbours = loss, (old, new)
        return loss

    def _statistics(self, row: Floats) -> Sums:
        X, said = row[None, : self._dimension], row[self._dimension :]
        return self._product.statistics(
            X, said[None] if self._asked else said, self._mechanism, self._beliefs
        )

    def climb(self, start: Floats, rng: np.random.Generator) -> None:
        """Random steps of shrinking size from one start, kept where the loss grows."""
        best, found = start, self.loss(start)
        for step in range(STEPS):
            size = 0.3 * 0.95**step * np.abs(best).max(axis=1, keepdims=True)
            trial = best + rng.normal(size=best.shape) * (rng.random(best.shape) < 0.5) * size
            if (loss := self.loss(trial)) > found:
                best, found = trial, loss


def worst_neighbours(
    product: Product, mechanism: Attacked, beliefs: Believed, players: int, seed: int
) -> Search:
    """The worst pair for one release, among about this many players.

    Every start is tried, also with an absurd record in place of one or both; the search climbs from the best.
    """
    d, rng = beliefs.dimension, np.random.default_rng(seed)
    attack = Search(product, mechanism, beliefs, max(1, players // d))
    best = sorted(_starts(mechanism, beliefs), key=attack.loss, reverse=True)[:CLIMBS]
    for start in best:
        attack.climb(start, rng)
    for start in best:
        for first, of_features, of_answers in pairs((0, 1), (1.0, ABSURD), (1.0, ABSURD)):
            shouted = start.copy()
            shouted[first:, :d] *= of_features
            shouted[first:, d:] *= of_answers
            attack.loss(shouted)
    return attack


def exact_loss(before: Sequence[SpentQuery], after: Sequence[SpentQuery]) -> Fraction:
    """The largest privacy loss over all possible releases of two neighbours, rounded up minimally."""
    return sum(
        (
            spent.epsilon * _root(square_distance(spent.query, changed.query)) / spent.query.sensitivity
            for spent, changed in zip(before, after, strict=True)
            if spent.query.value != changed.query.value
        ),
        Fraction(0),
    )


def _root(square: int) -> Fraction:
    """√square, exactly if it is a whole number, else rounded up by at most 2⁻²⁰⁰."""
    root = isqrt(square)
    return Fraction(root) if root * root == square else sqrt_above(Fraction(square))


def release_findings(
    product: Product, mechanism: Attacked, beliefs: Believed, worst: Search
) -> tuple[Finding, ...]:
    """Findings from the worst neighbours on a whole release: its sensitivity, its loss, the sum of its epsilons."""
    before, after = (spent_queries(product, sums, mechanism, beliefs) for sums in worst.neighbours)
    epsilon, loss, queries = mechanism.epsilon, exact_loss(before, after), len(before)
    spent = sum((spent_query.epsilon for spent_query in before), Fraction(0))
    public = "matrix, count" if mechanism.protects == "answers" else "count"
    what = replaced_part(mechanism)
    return (
        Finding(
            name="sensitivity",
            claim=f"one {what}, whatever is in it, moves what is released by at most its sensitivity",
            found=f"{100 * worst.share:.4g} % of it, the most of {worst.tried:,} pairs",
            confidence="exact integers; a search, no proof",
            passed=worst.within and worst.unmoved,
            figures={"share_of_sensitivity": worst.share, "pairs": worst.tried},
        ),
        Finding(
            name="without noise",
            claim=f"{public} and all that is declared of a release are the same for neighbours",
            found=f"{'the same' if worst.unmoved else 'something moves'} in {worst.tried:,} pairs",
            confidence="exact integers; a search, no proof",
            passed=worst.unmoved,
            figures={"pairs": worst.tried},
        ),
        Finding(
            name="privacy loss",
            claim=f"no release tells two neighbours apart by more than ε = {epsilon:.6g}",
            found=f"{float(loss):.6g} at the worst lattice point for the worst pairs found",
            confidence="exact fractions",
            passed=0 < loss <= Fraction(epsilon),
            figures={"loss": float(loss), "epsilon": epsilon},
        ),
        Finding(
            name="composition",
            claim=f"all queries of a release together spend ε = {epsilon:.6g}",
            found=f"{float(spent):.6g} over {queries} {'query' if queries == 1 else 'queries'}",
            confidence="exact fractions",
            # To the last bit.
            passed=spent == Fraction(epsilon),
            figures={"spent": float(spent), "epsilon": epsilon, "queries": queries},
        ),
    )


def replaced_part(mechanism: Attacked) -> str:
    """The part of one person's record that differs between neighbours."""
    if isinstance(mechanism, AskedRelease):
        return "answer and prediction"
    return mechanism.protects.removesuffix("s")


def _declaration(query: Query) -> tuple[object, ...]:
    return query.unit, query.sensitivity, query.weights, query.share, query.norm


def _starts(mechanism: Attacked, beliefs: Believed) -> Iterator[Floats]:
    """The worst cases of the proofs: the answer of a player with the longest instrument changes sign; where records
    are protected, a record replaces an orthogonal one, or one of zeros."""
    d, Y = beliefs.dimension, beliefs.response_bound
    first, second = np.eye(max(d, 2))[:2, :d]
    # The direction that T stretches most has the longest instrument, and all directions that it shortens have.
    longest = (
        first if mechanism.transform is None else np.linalg.svd(transform_matrix(mechanism.transform))[2][0]
    )
    said = np.full(2 if isinstance(mechanism, AskedRelease) else 1, Y)
    for x in (longest, first, second, np.full(d, d**-0.5)):
        yield np.array([[*x, *said], [*x, *-said]])
        yield np.array([[*x, *said], [*-x, *said]])
        yield np.array([[*(0 * x), *(0 * said)], [*x, *-said]])
    yield np.array([[*first, *said], [*second, *-said]])

"""What is attacked: how reports become statistics, statistics a release, and a release a settlement.

The auditor goes through these four doors only, so that a product with a fault can be put in the place of ours: an
auditor that does not catch it is worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.estimators import Query
from truthful.lattice import Bits
from truthful.mechanism import Answer, Estimates, Mechanism, private_estimates
from truthful.moments import Moments, grid_features, grid_responses, moments
from truthful.plan import Plan
from truthful.settlement import Settlement, settle
from truthful.settlement.draw import Drawing
from truthful.settlement.settlement import Progress

Halves = tuple[Moments, Moments]


class Product(Protocol):
    """A way of making releases."""

    def statistics(self, X: Floats, y: Floats, beliefs: Beliefs) -> Moments:
        """Exact statistics of whatever is reported, in normalised units."""
        ...

    def answer(self, bits: Bits) -> Answer:
        """What adds the noise to all queries of one release."""
        ...

    def release(self, halves: Halves, mechanism: Mechanism, beliefs: Beliefs, answer: Answer) -> Estimates:
        """The three estimates that everybody may see."""
        ...

    def settle(
        self, plan: Plan, reports: Any, *, out: Path, on_bad: str, seed: int | None, progress: Progress | None
    ) -> Settlement:
        """A whole settlement, written to a directory."""
        ...


class Truthful:
    """Ours: the very functions that a settlement calls."""

    def statistics(self, X: Floats, y: Floats, beliefs: Beliefs) -> Moments:
        return moments(grid_features(X), grid_responses(y, beliefs.response_bound))

    def answer(self, bits: Bits) -> Answer:
        return Drawing(bits)

    def release(self, halves: Halves, mechanism: Mechanism, beliefs: Beliefs, answer: Answer) -> Estimates:
        return private_estimates(halves, mechanism, beliefs, answer)

    def settle(
        self, plan: Plan, reports: Any, *, out: Path, on_bad: str, seed: int | None, progress: Progress | None
    ) -> Settlement:
        return settle(plan, reports, out=out, on_bad=on_bad, seed=seed, progress=progress)


@dataclass(frozen=True)
class Asked:
    """One query of a release, and the epsilon that was spent on it."""

    query: Query
    epsilon: Fraction


@dataclass
class Listener:
    """Answers without noise and remembers what it was asked: what a release is about to protect, and how."""

    asked: list[Asked] = field(default_factory=list)

    def __call__(self, query: Query, epsilon: Fraction) -> Sequence[int]:
        self.asked.append(Asked(query, epsilon))
        return query.value


def overhear(product: Product, halves: Halves, mechanism: Mechanism, beliefs: Beliefs) -> tuple[Asked, ...]:
    """The queries of a release, in their order: the published estimate's, then each half's."""
    listener = Listener()
    product.release(halves, mechanism, beliefs, listener)
    return tuple(listener.asked)


def promised(halves: Halves, mechanism: Mechanism, beliefs: Beliefs) -> tuple[Asked, ...]:
    """The queries that a mechanism promises to answer and their epsilons, whatever a product really asks."""
    public, half = mechanism.public_estimator(beliefs), mechanism.half_estimator(beliefs)
    parts = (
        (public, halves[0] + halves[1], mechanism.epsilon_public),
        *((half, moments, mechanism.epsilon_peer) for moments in halves),
    )
    return tuple(
        Asked(query, epsilon * query.share)
        for estimator, moments, epsilon in parts
        for query in estimator.queries(moments)
    )


def estimates_from(
    answers: Sequence[Sequence[int]], counts: tuple[int, int], mechanism: Mechanism, beliefs: Beliefs
) -> Estimates:
    """The three estimates that follow from the answers of a release, and from nothing else."""
    half = mechanism.half_estimator(beliefs)
    each = len(half.queries(_nobody(beliefs)))
    public, one, other = answers[: -2 * each], answers[-2 * each : -each], answers[-each:]
    epsilon = mechanism.epsilon_peer
    return Estimates(
        mechanism.public_estimator(beliefs).estimate(public, sum(counts), mechanism.epsilon_public),
        (half.estimate(one, counts[0], epsilon), half.estimate(other, counts[1], epsilon)),
    )


def public_queries(mechanism: Mechanism, beliefs: Beliefs) -> int:
    """How many of a release's queries are the published estimate's; they come first."""
    return len(mechanism.public_estimator(beliefs).queries(_nobody(beliefs)))


def _nobody(beliefs: Beliefs) -> Moments:
    """A record of nothing."""
    return moments(np.zeros((1, beliefs.dimension)), np.zeros(1))


def times(factor: int, record: Moments) -> Moments:
    """The statistics of so many players who all report the same."""
    return Moments(factor * record.count, factor * record.gram, factor * record.cross, factor * record.square)

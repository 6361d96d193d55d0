"""The same attacks on a plan with random halves, as the paper has them: three estimates, each with noise of its own.

Their releases are attacked, from the statistics of each half to what an outsider sees of three estimates; a settlement
with halves is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product as pairs
from math import sqrt

import numpy as np

from truthful.auditor.black_box import CROWD, EPSILON, SHARE_FOR_RECORDS, Draw, black_box
from truthful.auditor.neighbours import (
    Target,
    Worst,
    composition_finding,
    exact_loss,
    loss_finding,
    search,
    sensitivity_finding,
)
from truthful.auditor.noise_law import draw_noise, independence_finding, law_finding
from truthful.auditor.product import Asked, Listener, Product
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.estimators import Estimator
from truthful.lattice import Bits
from truthful.mechanism import Mechanism, private_estimates
from truthful.moments import Moments, grid_features, grid_responses, moments

Halves = tuple[Moments, Moments]


def halves_findings(
    product: Product,
    mechanism: Mechanism,
    beliefs: Beliefs,
    players: int,
    bits: Bits,
    seed: int,
    samples: int,
) -> tuple[Finding, ...]:
    """What attacks on the releases of random halves find."""
    public, half = mechanism.public_estimator(beliefs), mechanism.half_estimator(beliefs)
    gammas = mechanism.regularization or 1.0, mechanism.peer_regularization or mechanism.regularization or 1.0
    worst, worst_half = (
        _worst(estimator, beliefs, count, gamma, seed)
        for estimator, count, gamma in ((public, players, gammas[0]), (half, players // 2, gammas[1]))
    )
    asked = [
        [
            _asked(_halves(found, record, players), mechanism, beliefs)
            for record in (found.pair.old, found.pair.new)
        ]
        for found in (worst, worst_half)
    ]
    whole = asked[0][0]
    noises = draw_noise(product, whole, bits, samples)
    return (
        sensitivity_finding(", published", "record", worst),
        sensitivity_finding(", halves", "record", worst_half),
        loss_finding(mechanism.epsilon, [exact_loss(*pair) for pair in asked]),
        composition_finding(mechanism.epsilon, spent(whole, len(public.queries(worst.pair.old))), len(whole)),
        law_finding(noises),
        independence_finding(noises),
        *(_black_box(product, mechanism, beliefs, d, bits, samples) for d in (1, 2)),
    )


def spent(asked: Sequence[Asked], public: int) -> Fraction:
    """The epsilon of a release: the published estimate's queries, and the more costly of the two halves'.

    The halves have no player in common, so that their epsilons do not add up.
    """
    half = (len(asked) - public) // 2
    parts = (asked[:public], asked[public : public + half], asked[public + half :])
    everybody, one, other = (sum((query.epsilon for query in part), Fraction(0)) for part in parts)
    return everybody + max(one, other)


def _statistics(X: Floats, y: Floats, beliefs: Beliefs) -> Moments:
    return moments(grid_features(X), grid_responses(y, beliefs.response_bound))


def _worst(estimator: Estimator, beliefs: Beliefs, count: int, gamma: float, seed: int) -> Worst[Moments]:

    def record(row: Floats) -> Moments:
        return _statistics(row[None, :-1], row[-1:], beliefs)

    target = Target(
        statistics=record,
        crowd=record,
        queries=estimator.queries,
        public=lambda moments: moments.count,
        answers=False,
        count=count - 1,
        dimension=beliefs.dimension,
    )
    return search(
        target, _starts(beliefs.dimension, beliefs.radius, beliefs.response_bound, gamma, count), seed
    )


def _halves(worst: Worst[Moments], record: Moments, players: int) -> Halves:
    """A crowd in two halves, and the record in the first."""
    first = players // 2
    pair = worst.pair
    return pair.with_crowd(record, first - 1), pair.with_crowd(pair.crowd, players - first - 1)


def _asked(halves: Halves, mechanism: Mechanism, beliefs: Beliefs) -> tuple[Asked, ...]:
    """The queries of a release, in their order: the published estimate's, then each half's."""
    listener = Listener()
    private_estimates(halves, mechanism, beliefs, listener)
    return tuple(listener.asked)


def _black_box(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, dimension: int, bits: Bits, samples: int
) -> Finding:
    d, Y, axes = dimension, beliefs.response_bound, np.eye(dimension)
    people = replace(beliefs, dimension=d)
    tiny = replace(mechanism, epsilon=EPSILON, design=axes / (d + 2))
    public, half = tiny.public_estimator(people), tiny.half_estimator(people)

    def releases(one: Moments, other: Moments) -> Draw:
        """Three estimates and the rows of two matrices; what is solved for is solved for once."""
        asked = _asked((one, other), tiny, people)
        each = len(half.queries(one))

        def once() -> Floats:
            answer = product.answer(bits)
            answers = [answer(query.query, query.epsilon) for query in asked]
            n, m = one.count, other.count
            published = public.estimate(answers[: -2 * each], n + m, tiny.epsilon_public)
            first = half.estimate(answers[-2 * each : -each], n, tiny.epsilon_peer)
            second = half.estimate(answers[-each:], m, tiny.epsilon_peer)
            return np.vstack([published.theta, first.theta, second.theta, first.spread, second.spread])

        return once

    x = np.repeat(axes[:1], 2, axis=0)
    still, turned = (_statistics(x, np.array(y), people) for y in ([Y, -Y], [Y, Y]))
    copies = np.vstack([axes] * (CROWD // d))
    crowd = _statistics(copies, np.full(len(copies), Y / 2), people)
    old = _statistics(axes[:1], np.array([Y]), people)
    new = _statistics(axes[-1:] if d > 1 else 0.35 * axes, np.array([-Y]), people)
    neighbours = (
        (releases(still, still), releases(turned, still), samples),
        (releases(crowd + old, crowd), releases(crowd + new, crowd), samples // SHARE_FOR_RECORDS),
    )
    return black_box(f"black box, d = {d}", EPSILON, neighbours)


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

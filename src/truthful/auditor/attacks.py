"""Audit: every attack on one plan, in order, from one seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product as pairs
from math import sqrt

import numpy as np

from truthful import check
from truthful.auditor.attack_surface import (
    Asked,
    Attacked,
    Audit,
    Finding,
    Listener,
    Product,
    Truthful,
    overhear,
)
from truthful.auditor.joint_privacy import (
    estimate_finding,
    joint_finding,
    leave_one_out_finding,
    range_findings,
)
from truthful.auditor.neighbours import (
    Target,
    Worst,
    composition_finding,
    exact_loss,
    loss_finding,
    release_findings,
    search,
    sensitivity_finding,
    worst_neighbours,
)
from truthful.auditor.noise_tests import (
    CROWD,
    EPSILON,
    SHARE_FOR_RECORDS,
    Draw,
    black_box,
    black_box_finding,
    draw_noise,
    independence_finding,
    law_finding,
)
from truthful.auditor.settlements import (
    checks_finding,
    drawn_findings,
    randomness_finding,
    restart_finding,
    settled_findings,
)
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.errors import TruthfulError
from truthful.estimators.private import Estimator
from truthful.lattice import Bits, SeededBits
from truthful.moments import Moments, grid_features, grid_responses, moments
from truthful.plan import Plan
from truthful.random_halves import Mechanism, private_estimates

SAMPLES = 8_000
FEWEST_SAMPLES = 1_000


def audit(plan: Plan, *, seed: int, samples: int = SAMPLES, product: Product | None = None) -> Audit:
    """Attack what a plan promises: its sensitivities, its privacy loss, its noise, its payments and its wiring.

    `samples` is how many releases the statistical attacks draw: more of them see smaller faults. The seed repeats an
    audit, but for the noise of its settlements, which is the operating system's. What is attacked is our product,
    unless another is given. Of a plan with random halves the releases are attacked, not settlements.
    All statistical findings together raise a false alarm with a probability below 8e-6.
    """
    check.integer("samples", samples, least=FEWEST_SAMPLES)
    check.integer("seed", seed, least=0)
    attacked = Truthful() if product is None else product
    mechanism = plan.mechanism
    if isinstance(mechanism, Attacked):
        protects, findings = mechanism.protects, _findings(attacked, plan, mechanism, seed, samples)
    else:
        protects = "records"
        bits = SeededBits(seed)
        findings = halves_findings(attacked, mechanism, plan.study.beliefs, plan.players, bits, seed, samples)
    return Audit(plan.sha256, protects, mechanism.epsilon, samples, seed, findings)


def _findings(
    product: Product, plan: Plan, mechanism: Attacked, seed: int, samples: int
) -> tuple[Finding, ...]:
    beliefs, bits = plan.study.believed, SeededBits(seed)
    worst = worst_neighbours(product, mechanism, beliefs, plan.players, seed)
    whole = worst.neighbours[0]
    noises = draw_noise(product, overhear(product, whole, mechanism, beliefs), bits, samples)
    return (
        *release_findings(product, mechanism, beliefs, worst),
        law_finding(noises),
        independence_finding(noises),
        estimate_finding(product, mechanism, beliefs, whole, bits),
        leave_one_out_finding(product, mechanism, beliefs, bits, seed),
        joint_finding(product, mechanism, beliefs, bits, seed),
        *range_findings(product, mechanism, beliefs, seed),
        black_box_finding(product, mechanism, beliefs, 1, bits, samples),
        black_box_finding(product, mechanism, beliefs, 2, bits, samples),
        checks_finding(product, plan, seed),
        *_settlement_findings(product, plan, seed, samples),
    )


def _settlement_findings(product: Product, plan: Plan, seed: int, samples: int) -> tuple[Finding, ...]:
    try:
        return (
            *drawn_findings(product, plan, seed, samples),
            *settled_findings(product, plan, seed),
            restart_finding(product, plan, seed),
            randomness_finding(product, plan, seed),
        )
    except TruthfulError as refusal:
        claim = "invented reports within all declared ranges are settled"
        return (Finding("settlements", claim, f"refused: {refusal}", "certain", passed=False),)


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
            _queries_asked(_halves(found, record, players), mechanism, beliefs)
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
        composition_finding(
            mechanism.epsilon, spent_epsilon(whole, len(public.queries(worst.pair.old))), len(whole)
        ),
        law_finding(noises),
        independence_finding(noises),
        *(_black_box(product, mechanism, beliefs, d, bits, samples) for d in (1, 2)),
    )


def spent_epsilon(asked: Sequence[Asked], public: int) -> Fraction:
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
        target, _half_starts(beliefs.dimension, beliefs.radius, beliefs.response_bound, gamma, count), seed
    )


def _halves(worst: Worst[Moments], record: Moments, players: int) -> Halves:
    """A crowd in two halves, and the record in the first."""
    first = players // 2
    pair = worst.pair
    return pair.with_crowd(record, first - 1), pair.with_crowd(pair.crowd, players - first - 1)


def _queries_asked(halves: Halves, mechanism: Mechanism, beliefs: Beliefs) -> tuple[Asked, ...]:
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
        asked = _queries_asked((one, other), tiny, people)
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


def _half_starts(d: int, R: float, Y: float, gamma: float, count: int) -> Iterator[Floats]:
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

"""Audit: every attack on one plan, in order, from one seed; for shares and predictions, also on payments."""

from __future__ import annotations

from itertools import product as pairs

import numpy as np

from truthful import check
from truthful.asked_release import AskedRelease, largest_gain
from truthful.auditor.attack_surface import Attacked, Audit, Believed, Finding, Product, level, spent_queries
from truthful.auditor.neighbours import release_findings, worst_neighbours
from truthful.auditor.noise_tests import (
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
from truthful.check import Floats
from truthful.errors import TruthfulError
from truthful.lattice import SeededBits
from truthful.moments import PRODUCT
from truthful.plan import Plan
from truthful.settlement.draw import replay
from truthful.share_release import ShareRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs

SAMPLES = 8_000
FEWEST_SAMPLES = 1_000
#: Shares that others may seem to have, and to predict where they are asked, with noise: also such as cannot be.
SHARES = (-1e6, -0.5, *(k / 20 for k in range(21)), 1.5, 1e6)
#: What somebody says: an answer or, where she is asked for it, an answer and a prediction.
Said = float | tuple[float, ...]


def audit(plan: Plan, *, seed: int, samples: int = SAMPLES, product: Product | None = None) -> Audit:
    """Attack the promises of a plan: sensitivities, privacy loss, noise, payments and wiring.

    `samples` is the number of releases that the statistical attacks draw: more of them detect smaller faults. The seed
    repeats an audit, except for the noise of its settlements, which follows from fresh keys. Our product is attacked,
    unless another is given. All statistical findings together raise a false alarm with a probability below 8e-6.
    """
    check.instance("plan", plan, Plan, "Read one with Plan.load(path), or make one with design.")
    check.integer("samples", samples, least=FEWEST_SAMPLES)
    check.integer("seed", seed, least=0)
    product = Product() if product is None else product
    mechanism, beliefs, bits = plan.mechanism, plan.study.believed, SeededBits(seed)
    worst = worst_neighbours(product, mechanism, beliefs, plan.players, seed)
    whole = worst.neighbours[0]
    noises = draw_noise(product, spent_queries(product, whole, mechanism, beliefs), bits, samples)
    findings = (
        *release_findings(product, mechanism, beliefs, worst),
        law_finding(noises),
        independence_finding(noises),
        *range_findings(product, mechanism, beliefs, seed),
        black_box_finding(product, mechanism, beliefs, 1, bits, samples),
        black_box_finding(product, mechanism, beliefs, 2, bits, samples),
        checks_finding(product, plan, seed),
        *_settlement_findings(product, plan, seed, samples),
    )
    return Audit(plan.sha256, mechanism.protects, mechanism.epsilon, samples, seed, findings)


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


def range_findings(
    product: Product, mechanism: Attacked, beliefs: Believed, seed: int
) -> tuple[Finding, ...]:
    """For shares and predictions: whether every payment lies within its range, whatever anybody does.

    It tries all answers after all kinds of releases: shares thought possible, and shares that no study has.
    """
    if not isinstance(beliefs, ShareBeliefs | LevelBeliefs):
        return ()
    X, y = crowd(beliefs, seed)
    sums = product.statistics(X, y, mechanism, beliefs)
    M = (sums.matrix / PRODUCT).astype(np.float64)
    low, high = _payment_range(mechanism, beliefs, X)
    paid: list[float] = []
    for share, predicted in pairs(SHARES, SHARES[::6] if isinstance(mechanism, AskedRelease) else (0.0,)):
        theta = np.zeros(beliefs.dimension)
        theta[0] = (2 * share - 1) * beliefs.scale
        released = [round(k * PRODUCT) for k in (M @ theta).tolist()]
        if isinstance(mechanism, AskedRelease):
            released.append(round((2 * predicted - 1) * len(y) * mechanism.ratio * PRODUCT))
        estimate = product.release(sums, mechanism, beliefs, replay((tuple(released),)))
        for answer in some_answers(beliefs, np.random.default_rng(seed)):
            said = np.broadcast_to(answer, y.shape).copy()
            paid += product.score_players(estimate, mechanism, beliefs, X, said).payment.tolist()
    outside = sum(not low <= payment <= high for payment in paid)
    return (
        Finding(
            name="payments",
            claim=f"every payment lies between {low:.6g} and {high:.6g}, whatever anybody does",
            found=f"{outside or 'none'} of {len(paid):,} outside; {min(paid):.6g} to {max(paid):.6g}",
            confidence="certain, for these releases",
            passed=not outside,
            figures={"payments": len(paid), "outside": outside},
        ),
    )


def _payment_range(mechanism: Attacked, beliefs: Believed, X: Floats) -> tuple[float, float]:
    """The least and the largest payment that a plan promises to anybody with these features."""
    if isinstance(mechanism, ShareRelease):
        return mechanism.payment_range
    assert isinstance(mechanism, AskedRelease)
    assert isinstance(beliefs, LevelBeliefs)
    s = beliefs.slopes(X, level(X, mechanism, beliefs).mean)
    gain = mechanism.score_weight * float(largest_gain(mechanism.rule, s, mechanism.clip).max())
    return 0.0, mechanism.base_payment + gain + mechanism.prediction_payment


def some_answers(beliefs: Believed, rng: np.random.Generator) -> tuple[Said, ...]:
    """A few different answers: for shares all of them; with predictions, pairs."""
    Y = beliefs.response_bound
    if isinstance(beliefs, LevelBeliefs):
        answers = (-Y, Y) if beliefs.shares is not None else (-Y, 0.0, rng.uniform(-Y, Y), Y)
        return *pairs(answers, (-Y, Y)), (answers[0], rng.uniform(-Y, Y))
    if isinstance(beliefs, ShareBeliefs):
        return tuple(np.linspace(-1.0, 1.0, beliefs.levels).tolist())
    return -Y, 0.0, Y, rng.uniform(-Y, Y)


def crowd(beliefs: Believed, seed: int) -> tuple[Floats, Floats]:
    """A few people with features in all directions, of all lengths, and any answers; for shares with an intercept."""
    d, rng = beliefs.dimension, np.random.default_rng(seed)
    if isinstance(beliefs, ShareBeliefs | LevelBeliefs):
        X = rng.uniform(-1, 1, (6 * d + 2, d)) / beliefs.scale
        X[:, 0] = 1 / beliefs.scale
        shares = beliefs if isinstance(beliefs, ShareBeliefs) else beliefs.shares
        answers = rng.uniform(-1, 1, len(X))
        if shares is not None:
            answers = rng.choice(np.linspace(-1.0, 1.0, shares.levels), len(X))
        if isinstance(beliefs, ShareBeliefs):
            return X, answers
        return X, np.stack([answers, rng.uniform(-1, 1, len(X))], axis=1)
    X = np.concatenate([np.eye(d), *([-np.eye(d)] * 2), rng.normal(size=(3 * d + 2, d))])
    X *= rng.uniform(0.3, 1, len(X))[:, None] / np.linalg.norm(X, axis=1, keepdims=True)
    return X, rng.uniform(-1, 1, len(X)) * beliefs.response_bound

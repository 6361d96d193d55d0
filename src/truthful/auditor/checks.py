"""Audit: every attack on one plan, in order, from one seed."""

from __future__ import annotations

from truthful import check
from truthful.auditor.black_box import black_box_finding
from truthful.auditor.loss import composition_finding, halves_of, loss_finding
from truthful.auditor.neighbours import search, sensitivity_finding
from truthful.auditor.noise_law import draw_noise, independence_finding, law_finding
from truthful.auditor.paid import payment_findings
from truthful.auditor.product import Product, Truthful, overhear
from truthful.auditor.record import Audit
from truthful.auditor.released import estimates_finding
from truthful.auditor.settled import settled_findings
from truthful.auditor.wiring import randomness_finding, restart_finding
from truthful.lattice import SeededBits
from truthful.plan import Plan

SAMPLES = 8_000
FEWEST_SAMPLES = 1_000


def audit(plan: Plan, *, seed: int, samples: int = SAMPLES, product: Product | None = None) -> Audit:
    """Attack what a plan promises: its sensitivities, its privacy loss, its noise and its wiring.

    `samples` is how many releases the statistical attacks draw: more of them see smaller faults. The seed repeats an
    audit, but for the noise of its settlements, which is the operating system's. What is attacked is our product,
    unless another is given.
    All statistical findings together raise a false alarm with a probability below 8e-6.
    """
    check.integer("samples", samples, least=FEWEST_SAMPLES)
    check.integer("seed", seed, least=0)
    attacked = Truthful() if product is None else product
    mechanism, beliefs, players = plan.mechanism, plan.study.beliefs, plan.players
    bits = SeededBits(seed)
    public, half = mechanism.public_estimator(beliefs), mechanism.half_estimator(beliefs)
    worst = search(attacked, public, beliefs, players, mechanism.regularization or 1.0, seed)
    worst_half = search(
        attacked,
        half,
        beliefs,
        players // 2,
        mechanism.peer_regularization or mechanism.regularization or 1.0,
        seed,
    )
    pairs = (worst.pair, worst_half.pair)
    halves = halves_of(worst.pair, worst.pair.old, players)
    noises = draw_noise(attacked, overhear(attacked, halves, mechanism, beliefs), bits, samples)
    findings = (
        sensitivity_finding("published", public, worst),
        sensitivity_finding("halves", half, worst_half),
        loss_finding(attacked, mechanism, beliefs, players, pairs),
        composition_finding(attacked, mechanism, beliefs, halves),
        law_finding(noises),
        independence_finding(noises),
        estimates_finding(attacked, mechanism, beliefs, halves, bits),
        black_box_finding(attacked, mechanism, beliefs, 1, bits, samples),
        black_box_finding(attacked, mechanism, beliefs, 2, bits, samples),
        *settled_findings(attacked, plan, seed, samples),
        *payment_findings(attacked, plan, seed),
        restart_finding(attacked, plan, seed),
        randomness_finding(attacked, plan, seed),
    )
    return Audit(plan.sha256, mechanism.epsilon, samples, seed, findings)

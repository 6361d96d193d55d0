"""Audit: every attack on one plan, in order, from one seed."""

from __future__ import annotations

from truthful import check
from truthful.auditor.attack_surface import Audit, Finding, Product, overhear
from truthful.auditor.joint_privacy import (
    estimate_finding,
    joint_finding,
    leave_one_out_finding,
    range_findings,
)
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
from truthful.errors import TruthfulError
from truthful.lattice import SeededBits
from truthful.plan import Plan

SAMPLES = 8_000
FEWEST_SAMPLES = 1_000


def audit(plan: Plan, *, seed: int, samples: int = SAMPLES, product: Product | None = None) -> Audit:
    """Attack what a plan promises: its sensitivities, its privacy loss, its noise, its payments and its wiring.

    `samples` is how many releases the statistical attacks draw: more of them see smaller faults. The seed repeats an
    audit, but for the noise of its settlements, which is the operating system's. What is attacked is our product,
    unless another is given.
    All statistical findings together raise a false alarm with a probability below 8e-6.
    """
    check.integer("samples", samples, least=FEWEST_SAMPLES)
    check.integer("seed", seed, least=0)
    product = Product() if product is None else product
    mechanism, beliefs, bits = plan.mechanism, plan.study.believed, SeededBits(seed)
    worst = worst_neighbours(product, mechanism, beliefs, plan.players, seed)
    whole = worst.neighbours[0]
    noises = draw_noise(product, overhear(product, whole, mechanism, beliefs), bits, samples)
    findings = (
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

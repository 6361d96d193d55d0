"""The fourth attack, from outside: reports in, estimates out, thousands of times, in one and two dimensions.

Two tiny data sets differ in one answer, turned from −Y into Y. The releases are made with the plan's estimators, but at
EPSILON: what is attacked is the making of releases, and with some thousand draws an epsilon much below 1 cannot be told
from 0, nor one much above 1 from twice as much.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truthful.auditor.events import RISK, Bound, attack
from truthful.auditor.product import Halves, Product
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.lattice import Bits
from truthful.mechanism import Mechanism

EPSILON = 1.0
# A certified solve takes as long as fifty draws of noise.
SHARE_OF_SOLVES = 5


def black_box_finding(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, dimension: int, bits: Bits, samples: int
) -> Finding:
    """What an outsider can show of the epsilon that a release spends."""
    tiny = replace(
        mechanism,
        epsilon=EPSILON,
        design=np.eye(dimension) / (dimension + 2),
    )
    ridge = any(name.startswith("ridge") for name in (mechanism.estimator, mechanism.peers))
    draws = samples // SHARE_OF_SOLVES if ridge else samples
    people = replace(beliefs, dimension=dimension)
    one, other = (
        _releases(product, tiny, people, halves, bits, draws) for halves in _neighbours(product, people)
    )
    bound = attack(one, other)
    return Finding(
        name=f"black box, d = {dimension}",
        claim=f"releases at ε = {tiny.epsilon:.6g} show at most that ε",
        found=_told(bound),
        confidence=f"1 − {RISK:g}",
        passed=bound.epsilon <= tiny.epsilon,
        figures={
            "epsilon_shown": bound.epsilon,
            "epsilon": tiny.epsilon,
            "hits": bound.hits,
            "other_hits": bound.other_hits,
            "draws": bound.draws,
        },
    )


def _told(bound: Bound) -> str:
    event = f"an event seen {bound.hits:,} times against {bound.other_hits:,}, of {bound.draws:,}"
    return f"ε ≥ {bound.epsilon:.3g}: {event}" if bound.epsilon > 0 else f"nothing: {event}"


def _neighbours(product: Product, beliefs: Beliefs) -> tuple[Halves, Halves]:
    """Answers that cancel out, so that the estimate is 0, and the same with one of them turned."""
    Y, x = beliefs.response_bound, np.eye(beliefs.dimension)[:1]

    still, turned = (
        product.statistics(np.repeat(x, 2, axis=0), np.array(answers), beliefs)
        for answers in ([Y, -Y], [Y, Y])
    )
    return (still, still), (turned, still)


def _releases(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, halves: Halves, bits: Bits, draws: int
) -> Floats:
    """Releases as they are seen: the three estimates, shape (draws, 3, d)."""

    def once() -> list[Floats]:
        estimates = product.release(halves, mechanism, beliefs, product.answer(bits))
        return [estimates.public.theta, *(peer.theta for peer in estimates.peers)]

    return np.array([once() for _ in range(draws)])

"""The last attack, from outside: reports in, a release out, thousands of times, in one and two dimensions.

Two pairs of data sets. In one a single answer is turned from −Y into Y, of two people; in the other a whole record is
replaced, features and answer, in a crowd: that moves XᵀX too. The releases are made with the plan's estimators, but at
EPSILON: what is attacked is the making of releases, and with some thousand draws an epsilon much below 1 cannot be told
from 0, nor one much above 1 from twice as much. What is seen is all that a release holds of its data: three estimates,
and the two matrices that say how the halves' noise is spread.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truthful.auditor.events import RISK, Bound, attack
from truthful.auditor.once import solving_once
from truthful.auditor.product import Halves, Product, times
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.lattice import Bits
from truthful.mechanism import Mechanism

EPSILON = 1.0
# So many that no eigenvalue of XᵀX is lost in its noise, nor raised to its floor.
CROWD = 500
# Of the draws; a matrix without noise is seen at once.
SHARE_FOR_RECORDS = 4


def black_box_finding(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, dimension: int, bits: Bits, samples: int
) -> Finding:
    """What an outsider can show of the epsilon that a release spends."""
    people = replace(beliefs, dimension=dimension)
    tiny = solving_once(
        replace(mechanism, epsilon=EPSILON, design=np.eye(dimension) / (dimension + 2)), people
    )
    bounds = [
        attack(*(_releases(product, tiny, people, halves, bits, draws) for halves in pair))
        for pair, draws in (
            (_turned_answer(product, people), samples),
            (_replaced_record(product, people), samples // SHARE_FOR_RECORDS),
        )
    ]
    bound = max(bounds, key=lambda bound: bound.epsilon)
    return Finding(
        name=f"black box, d = {dimension}",
        claim=f"releases at ε = {EPSILON:.6g} show at most that ε",
        found=_told(bound),
        confidence=f"1 − {2 * RISK:g}",
        passed=bound.epsilon <= EPSILON,
        figures={
            "epsilon_shown": bound.epsilon,
            "epsilon": EPSILON,
            "hits": bound.hits,
            "other_hits": bound.other_hits,
            "draws": bound.draws,
        },
    )


def _told(bound: Bound) -> str:
    event = f"an event seen {bound.hits:,} times against {bound.other_hits:,}, of {bound.draws:,}"
    return f"ε ≥ {bound.epsilon:.3g}: {event}" if bound.epsilon > 0 else f"nothing: {event}"


def _turned_answer(product: Product, beliefs: Beliefs) -> tuple[Halves, Halves]:
    """Answers that cancel out, so that the estimate is 0, and the same with one of them turned."""
    Y, x = beliefs.response_bound, np.eye(beliefs.dimension)[:1]

    still, turned = (
        product.statistics(np.repeat(x, 2, axis=0), np.array(answers), beliefs)
        for answers in ([Y, -Y], [Y, Y])
    )
    return (still, still), (turned, still)


def _replaced_record(product: Product, beliefs: Beliefs) -> tuple[Halves, Halves]:
    """A crowd along every axis, and one record that is turned onto another axis (shortened, if there is none)."""
    Y, d = beliefs.response_bound, beliefs.dimension
    axes = np.eye(d)
    crowd = times(CROWD // d, product.statistics(axes, np.full(d, Y / 2), beliefs))
    turned = axes[-1:] if d > 1 else 0.35 * axes
    old, new = (product.statistics(x, np.array([y]), beliefs) for x, y in ((axes[:1], Y), (turned, -Y)))
    return (crowd + old, crowd), (crowd + new, crowd)


def _releases(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, halves: Halves, bits: Bits, draws: int
) -> Floats:
    """Releases as they are seen: three estimates and the rows of two matrices, shape (draws, 3 + 2d, d)."""

    def once() -> Floats:
        estimates = product.release(halves, mechanism, beliefs, product.answer(bits))
        thetas = [estimates.public.theta, *(peer.theta for peer in estimates.peers)]
        return np.vstack([*thetas, *(peer.spread for peer in estimates.peers)])

    return np.array([once() for _ in range(draws)])

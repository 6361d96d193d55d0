"""The second attack: the exact privacy loss of a whole release on the worst pairs found, in rational numbers.

A release of the lattice point k for the query f has P(k) ∝ exp(−‖k − f‖·ε/Δ), with the same constant for every f. So

    log P(k | D) − log P(k | D') = (‖k − f(D')‖ − ‖k − f(D)‖)·ε/Δ ≤ ‖f(D) − f(D')‖·ε/Δ

by the triangle inequality, with equality at k = f(D): that is the largest loss over all lattice points. The losses of
the queries of one release add up, since their noises are independent; the player is in one half only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import isqrt

from truthful.auditor.neighbours import Neighbours, square_distance
from truthful.auditor.product import Asked, Halves, Product, overhear, public_queries, times
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.estimators.sensitivity import sqrt_above
from truthful.mechanism import Mechanism
from truthful.moments import Moments


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


def spent(asked: Sequence[Asked], public: int) -> Fraction:
    """The epsilon of a release: the published estimate's queries, and the more costly of the two halves'.

    The halves have no player in common, so that their epsilons do not add up.
    """
    half = (len(asked) - public) // 2
    parts = (asked[:public], asked[public : public + half], asked[public + half :])
    everybody, one, other = (sum((query.epsilon for query in part), Fraction(0)) for part in parts)
    return everybody + max(one, other)


def loss_finding(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, players: int, pairs: Iterable[Neighbours]
) -> Finding:
    """The loss of the whole release on pairs that were found for its parts."""
    epsilon = Fraction(mechanism.epsilon)
    losses = []
    for pair in pairs:
        before, after = (
            overhear(product, halves_of(pair, record, players), mechanism, beliefs)
            for record in (pair.old, pair.new)
        )
        losses.append(exact_loss(before, after))
    loss = max(losses)
    return Finding(
        name="privacy loss",
        claim=f"no release tells two neighbours apart by more than ε = {mechanism.epsilon:.6g}",
        found=f"{float(loss):.6g} at the worst lattice point for the worst pairs found",
        confidence="exact fractions",
        passed=0 < loss <= epsilon,
        figures={"loss": float(loss), "epsilon": mechanism.epsilon},
    )


def composition_finding(product: Product, mechanism: Mechanism, beliefs: Beliefs, halves: Halves) -> Finding:
    """Whether the epsilons that the queries are answered with add up to the plan's, to the last bit."""
    public = public_queries(mechanism, beliefs)
    asked = overhear(product, halves, mechanism, beliefs)
    total = spent(asked, public)
    return Finding(
        name="composition",
        claim=f"all queries of a release together spend ε = {mechanism.epsilon:.6g}",
        found=f"{float(total):.6g} over {len(asked)} queries",
        confidence="exact fractions",
        passed=total == Fraction(mechanism.epsilon),
        figures={"spent": float(total), "epsilon": mechanism.epsilon, "queries": len(asked)},
    )


def halves_of(pair: Neighbours, record: Moments, players: int) -> Halves:
    """A crowd in two halves, and the record in the first."""
    first = players // 2
    return times(first - 1, pair.crowd) + record, times(players - first, pair.crowd)

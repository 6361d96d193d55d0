"""Which estimators a study allows, and the numbers that each leaves to be chosen."""

from __future__ import annotations

import math

from truthful.planner.goals import Goals
from truthful.planner.matched import LEAST_CLIP
from truthful.planner.search import Axis
from truthful.planner.terms import MOST_PUBLIC, Terms
from truthful.study import Study

MOST_LIARS = 0.3


def candidates(study: Study, goals: Goals) -> tuple[tuple[str, str], ...]:
    """(public, peer) estimators, the likeliest first: those asked for, or else those that can be best.

    Where the design is known, peers are best estimated by it: their predictions are then unbiased, with the least
    noise. Observed features leave noisy statistics to the peers, and statistics or a ridge to be published. A ridge
    without a ball never beats one with it.
    """
    known = study.second_moments is not None
    if goals.peers == "leave-one-out":
        return _leaving_one_out(study, goals)
    publics = (
        ("known-design", "noisy-statistics", "ridge-ball") if known else ("noisy-statistics", "ridge-ball")
    )
    peer = goals.peer_estimator or ("known-design" if known else "noisy-statistics")
    if (not known and "known-design" in (peer, goals.estimator)) or (
        peer == "ridge-free" and study.design.kind != "unit-ball"
    ):
        return ()
    pairs = ((public, peer) for public in ([goals.estimator] if goals.estimator else publics))
    return tuple(pair for pair in pairs if all(_uses(pair, name) for name in goals.pins))


def _leaving_one_out(study: Study, goals: Goals) -> tuple[tuple[str, str], ...]:
    """One estimate serves all. Answers alone: instruments. Whole records: the declared second moments, or blurred ones
    of those who answered, which from some number of people on leave less to the chance of who was asked.
    """
    known = study.second_moments is not None
    fitting = ("known-design", "noisy-statistics") if known else ("noisy-statistics",)
    if study.protects == "answers":
        fitting = ("instruments",)
    return tuple(
        (name, name)
        for name in fitting
        if goals.estimator in (None, name)
        and goals.peer_estimator in (None, name)
        and all(_uses((name, name), pin) for pin in goals.pins)
        and "public_share" not in goals.pins
    )


def _uses(pair: tuple[str, str], parameter: str) -> bool:
    """Whether a parameter that the analyst has fixed means anything to two estimators."""
    if parameter == "gram_share":
        return "noisy-statistics" in pair
    if parameter == "peer_regularization":
        return pair[1] == "ridge-free"
    return parameter != "regularization" or any(name.startswith("ridge") for name in pair)


def axes(pair: tuple[str, str], terms: Terms) -> dict[str, Axis]:
    """What is to be chosen for two estimators. What the analyst has fixed is an axis of one point.

    A share of liars below half a player is none, which a bounded law of costs allows. More of ε for the published
    estimate is always better where the halves' noise enters no bound: then its share is at its upper end, from which
    `Terms.public_share` takes what a useful slope needs.
    """
    goals, n = terms.goals, terms.answering
    bounded = math.isfinite(terms.study.costs.upper_quantile(0.0))
    fewest = (0.4 if bounded else 1.0) / n
    found = {"absent_share": Axis(min(fewest, MOST_LIARS), MOST_LIARS, 9)}
    if goals.peers == "leave-one-out":
        if goals.payments == "never-negative":
            R = terms.study.beliefs.radius
            found["clip"] = Axis(LEAST_CLIP * R, R, 5, log=False)
        if pair[0] == "noisy-statistics":
            found["gram_share"] = Axis(0.01, 0.99, 6, log=False)
        return found | {name: Axis(value, value, 1, log=False) for name, value in goals.pins.items()}
    if pair[0].startswith("ridge"):
        found["regularization"] = Axis(1e-2, 30.0 * n, 7)
    if pair[1] == "ridge-free":
        found["peer_regularization"] = Axis(1e-2, 10.0 * n, 7)
    if "noisy-statistics" in pair:
        found["gram_share"] = Axis(0.01, 0.99, 6, log=False)
    if pair[1] == "noisy-statistics":
        found["public_share"] = Axis(0.01, MOST_PUBLIC[goals.payments], 6, log=False)
    return found | {name: Axis(value, value, 1, log=False) for name, value in goals.pins.items()}

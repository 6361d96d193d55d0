"""Which estimators a study allows, and the numbers that each leaves to be chosen."""

from __future__ import annotations

from truthful.planner.goals import Goals
from truthful.planner.search import Axis
from truthful.planner.terms import MOST_PUBLIC
from truthful.study import Study

MOST_LIARS = 0.3


def candidates(study: Study, goals: Goals) -> tuple[tuple[str, str], ...]:
    """(public, peer) estimators, the likeliest first.

    A known design allows all; `ridge-free` peers shrink by a known factor only on the ball; observed features leave
    the statistics themselves, or a ridge, to be published, and noisy statistics for the peers.
    """
    if study.second_moments is None:
        pairs = [("noisy-statistics", "noisy-statistics"), ("ridge-ball", "noisy-statistics")]
    else:
        pairs = [
            ("known-design", "known-design"),
            ("noisy-statistics", "noisy-statistics"),
            ("ridge-ball", "known-design"),
        ]
        if study.design.kind == "unit-ball":
            pairs += [("ridge-ball", "ridge-free"), ("ridge-free", "ridge-free")]
    wanted = [
        pair
        for pair in pairs
        if goals.estimator in (None, pair[0]) and goals.peer_estimator in (None, pair[1])
    ]
    if not wanted and goals.estimator and goals.peer_estimator:
        wanted = [(goals.estimator, goals.peer_estimator)]
    return tuple(wanted)


def axes(pair: tuple[str, str], goals: Goals, players: int) -> dict[str, Axis]:
    """What is to be chosen for two estimators. What the analyst has fixed is an axis of one point.

    More of ε for the published estimate is always better where the halves' noise enters no bound: then its share is at
    its upper end, from which `Terms.public_share` takes what a useful slope needs.
    """
    found = {
        "absent_share": Axis(
            min(1 / players, MOST_LIARS), MOST_LIARS, 25 if set(pair) == {"known-design"} else 9
        )
    }
    if pair[0].startswith("ridge"):
        found["regularization"] = Axis(1e-2, 30.0 * players, 7)
    if pair[1] == "ridge-free":
        found["peer_regularization"] = Axis(1e-2, 10.0 * players, 7)
    if "noisy-statistics" in pair:
        found["gram_share"] = Axis(0.02, 0.98, 4, log=False)
        found["public_share"] = Axis(0.05, MOST_PUBLIC[goals.payments], 4, log=False)
    for name, value in goals.pins.items():
        found[name] = Axis(value, value, 1, log=False)
    return found

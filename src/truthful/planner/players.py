"""How many players, where the analyst has not said: the fewest that do, or those with whom the goal is met best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from truthful.planner.candidates import candidates
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.search import Axis, minimise
from truthful.planner.solve import Solution, objective_value, solve_pair
from truthful.study import Study

LEAST_PLAYERS = 4


def choose_players(study: Study, goals: Goals) -> int | None:
    """The number of players a plan is made for; None if no number will do.

    A budget and an accuracy need the fewest with whom both hold. With ε given the number is the one choice left: the
    most accurate within the budget, or the cheapest within the accuracy.
    """
    if goals.players is not None:
        return goals.players
    pairs = candidates(study, goals)
    if goals.epsilon is None:
        found = [least_players(study, goals, pair) for pair in pairs[:1]]
        return min((n for n in found if n is not None), default=None)

    def objective(mesh: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        v = np.array([_value(study, goals, round(n), pairs[0]) for n in mesh["players"]])
        return np.where(np.isfinite(v), 0.0, np.inf), v

    best = minimise(objective, {"players": Axis(LEAST_PLAYERS, 1e8, 7)})
    return None if best is None else round(best["players"])


def least_players(study: Study, goals: Goals, pair: tuple[str, str]) -> int | None:
    """The fewest players with whom two estimators meet the goals, to three digits; None if a billion are too few."""
    return _fewest(lambda n: math.isfinite(_value(study, goals, n, pair)))


def _value(study: Study, goals: Goals, players: int, pair: tuple[str, str]) -> float:
    return objective_value(goals, _solution(study, goals, players, pair))


def _solution(study: Study, goals: Goals, players: int, pair: tuple[str, str]) -> Solution:
    return solve_pair(study, replace(goals, players=players), players, pair)


def _fewest(feasible: Callable[[int], bool]) -> int | None:
    """The least n that is feasible, all larger ones being so too: fours, then bisection, rounded up to three digits."""
    high = LEAST_PLAYERS
    while not feasible(high):
        if high >= MOST_PLAYERS:
            return None
        high = min(4 * high, MOST_PLAYERS)
    low = max(LEAST_PLAYERS, high // 4)
    while high - low > max(1, low // 500):
        middle = round(math.sqrt(low * high)) if high > 2 * low else (low + high) // 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    unit = 10 ** max(0, len(str(high)) - 3)
    rounded = -(-high // unit) * unit
    return rounded if feasible(rounded) else high

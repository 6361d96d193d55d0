"""How many players, where the analyst has not said: the fewest that do, or those with whom the goal is met best."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from truthful.planner.candidates import candidates
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.search import Point, crossing
from truthful.planner.solve import objective_value, solve_pair
from truthful.study import Study

LEAST_PLAYERS = 4
#: Numbers of players are tried at these ratios before those in between.
STRIDE = 16
#: How close a number of players is to the least that will do.
CLOSE = 2e-3
#: How often a little is added to a number that was found near another one, until it will do by itself.
SPARE_STEPS = 6
ZOOMS, ZOOM_STEPS = 4, 12
#: A budget that is none.
UNLIMITED = 1e30

Pair = tuple[str, str]


def choose_players(study: Study, goals: Goals) -> int | None:
    """The number of players a plan is made for; None if no number will do.

    A budget and an accuracy need the fewest with whom both hold. With ε given the number is the one choice left: the
    most accurate within the budget, or the cheapest within the accuracy.
    """
    if goals.players is not None:
        return goals.players
    return _fewest(study, goals) if goals.epsilon is None else _best(study, goals)


def nearest_players(study: Study, goals: Goals, players: int) -> int | None:
    """Of the numbers of players with whom goals can be met, the nearest to one with whom they cannot."""
    if goals.budget is None and goals.epsilon is None:
        goals = replace(goals, budget=UNLIMITED)
    enough = choose_players(study, replace(goals, players=None))
    if enough is None or (goals.epsilon is None and enough > players):
        return enough
    value, pair = min((_value(study, goals, enough, pair), pair) for pair in candidates(study, goals))
    if math.isinf(value):
        return None
    while abs(enough - players) > max(1, CLOSE * players):
        middle = _between(players, enough)
        if math.isfinite(_value(study, goals, middle, pair)):
            enough = middle
        else:
            players = middle
    return enough


def _fewest(study: Study, goals: Goals) -> int | None:
    """With each pair of estimators in turn, as far as it does with fewer than those before."""
    found: int | None = None
    for pair in candidates(study, goals):
        most = MOST_PLAYERS if found is None else int(found * (1 - CLOSE))
        if found is None or excess(study, goals, most, pair)[0] <= 0:
            found = _fewest_with(study, goals, pair, most) or found
    return found


def _fewest_with(study: Study, goals: Goals, pair: Pair, most: int) -> int | None:
    """The least n at which an accuracy costs no more than the budget, to four digits, rounded up.

    Cost falls with n until the least payments there are, times n, are what counts.
    """

    def dear(n: float, near: Point | None = None) -> tuple[float, Point | None]:
        return excess(study, goals, round(n), pair, near)

    tried = [LEAST_PLAYERS]
    found = [dear(LEAST_PLAYERS)]
    while found[-1][0] > 0 and tried[-1] < most and not _rising([ln for ln, _ in found]):
        tried.append(min(STRIDE * tried[-1], most))
        found.append(dear(tried[-1]))
    if found[-1][0] > 0:
        at = min(range(len(tried)), key=lambda i: found[i][0])
        # Between two strides costs fall no faster than players come.
        if found[at][0] > math.log(STRIDE):
            return None
        ends = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
        tried = [round(n) for n in np.geomspace(*ends, ZOOM_STEPS)]
        found = [dear(n) for n in tried]
    first = next((i for i, (ln, _) in enumerate(found) if ln <= 0), None)
    if first is None:
        return None
    n = round(crossing(dear, tried[max(first - 1, 0)], tried[first], CLOSE, found[first]))
    return _rounded_up(n, lambda n: dear(n)[0] <= 0)


def _rounded_up(n: int, enough: Callable[[int], bool]) -> int:
    """About the next number of four digits that is enough also for a search that knows of no other."""
    unit = int(10 ** max(0, len(str(n)) - 4))
    for step in range(SPARE_STEPS):
        rounded = -(-n // unit) * unit + step * max(unit, round(CLOSE * n))
        if enough(rounded):
            return rounded
    return n


def _rising(values: list[float]) -> bool:
    """Whether the last two steps both went up from something finite."""
    return len(values) > 2 and math.isfinite(values[-3]) and values[-3] < values[-2] < values[-1]


def excess(
    study: Study, goals: Goals, players: int, pair: Pair, near: Point | None = None
) -> tuple[float, Point | None]:
    """ln(cost/budget) of meeting the accuracy, above 0 if it is too dear, infinite if it cannot be met; and where."""
    asked = replace(goals, budget=None, players=players)
    solution = solve_pair(study, asked, players, pair, near)
    budget = math.inf if goals.budget is None else math.log(goals.budget)
    return math.log(solution.cost) - budget, solution.point or None


def _best(study: Study, goals: Goals) -> int | None:
    """The best n at a given ε, by closing in on the best of a few: a budget is not kept to where cost is minimised."""
    free = goals if goals.accuracy is None else replace(goals, budget=None)
    tried = np.geomspace(LEAST_PLAYERS, MOST_PLAYERS, 12)
    pairs, best = candidates(study, goals), None
    for _ in range(ZOOMS):
        numbers = sorted({round(n) for n in tried})
        value, n, pair = min((_value(study, free, n, pair), n, pair) for n in numbers for pair in pairs)
        if math.isinf(value):
            return None
        # From now on with the estimators that did best.
        pairs, best, at = (pair,), n, numbers.index(n)
        # Wider than to its neighbours: liars are whole players, which makes the best of each n a jagged line.
        around = numbers[max(at - 2, 0)], numbers[min(at + 2, len(numbers) - 1)]
        tried = np.geomspace(*around, ZOOM_STEPS)
    return best


def _between(one: int, other: int) -> int:
    middle = round(math.sqrt(one * other))
    return middle if min(one, other) < middle < max(one, other) else (one + other) // 2


def _value(study: Study, goals: Goals, players: int, pair: Pair) -> float:
    return objective_value(goals, solve_pair(study, replace(goals, players=players), players, pair))

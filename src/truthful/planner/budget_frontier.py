"""What money buys: the guaranteed error and ε of a study's best plan at each budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truthful import check
from truthful.planner.goals import Goals
from truthful.planner.number_planning import NumberSolution, candidates, solve_all
from truthful.study import Study

#: Budgets from a thirtieth of a given one to thirty times it.
REACH, POINTS = 30.0, 15


@dataclass(frozen=True)
class Purchase:
    """What a budget buys: the guaranteed root mean square error in raw response units, and the ε it takes.

    worth_asking: whether that is better than answering with the prior mean, asking nobody.
    """

    error: float
    epsilon: float
    worth_asking: bool


@dataclass(frozen=True)
class FrontierPoint:
    """A budget, and what the best plan makes of it; None where lies would pay."""

    budget: float
    best: Purchase | None


def budgets_around(budget: float) -> tuple[float, ...]:
    """Budgets at equal ratios, the given one in their middle."""
    middle = check.positive("budget", budget)
    return tuple(float(b) for b in np.geomspace(middle / REACH, middle * REACH, POINTS))


def frontier(study: Study, goals: Goals, players: int, budgets: Sequence[float]) -> tuple[FrontierPoint, ...]:
    """The best that each budget buys, for the goals' lie size and failure probability, ε being free.

    Each is solved from the beginning: near the last, which often is at a corner, the search would stay there.
    """
    budgets = sorted(check.positive("budget", budget) for budget in budgets)
    goals = replace(goals, players=players, accuracy=None, epsilon=None, budget=budgets[0])

    def buy(budget: float) -> NumberSolution:
        return solve_all(study, replace(goals, budget=budget), players)[0]

    if len(candidates(study, goals)) > 1:
        first, last = (buy(budget).terms.estimator for budget in (budgets[0], budgets[-1]))
        # An estimator that is the best at both ends is tried alone between them.
        goals = replace(goals, estimator=first if first == last else None)
    found: list[NumberSolution] = []
    for budget in reversed(budgets):
        best = buy(budget)
        if not math.isfinite(best.error):
            break  # What one cannot buy, no smaller one can.
        found.append(best)
    bought: list[Purchase] = []
    for one in reversed(found):
        error = study.response_unit * math.sqrt(one.error)
        # A larger budget buys what a smaller one does, also where its search was a little worse.
        better = not bought or error < bought[-1].error
        bought.append(Purchase(error, one.epsilon, one.feasible) if better else bought[-1])
    none = [None] * (len(budgets) - len(bought))
    return tuple(map(FrontierPoint, budgets, [*none, *bought]))

"""What money buys: the guaranteed error and ε of a study's best plan at each budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate

import numpy as np

from truthful import check
from truthful.planner.goals import Goals
from truthful.planner.number_planning import NumberSolution, solve_all, solve_with
from truthful.study import Study

#: Budgets from a thirtieth of a given one to thirty times it.
REACH, POINTS = 30.0, 15
#: A second estimator may be better at another budget if its mean squared error is at most this much larger.
RIVAL = 10.0


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


def frontier(
    study: Study,
    goals: Goals,
    players: int,
    budgets: Sequence[float],
    estimators: Sequence[str] | None = None,
) -> tuple[FrontierPoint, ...]:
    """The best that each budget buys, for the goals' lie size and failure probability, ε being free.

    estimators: by default the `rivals` at the middle budget; a second counts if it wins at an end.
    """
    budgets = sorted(check.positive("budget", budget) for budget in budgets)
    aim = replace(goals, players=players, accuracy=None, epsilon=None, budget=budgets[len(budgets) // 2])
    first, *others = estimators or rivals(solve_all(study, aim, players))
    leader = _trace(study, aim, players, budgets, first)
    traces = [
        leader,
        *(
            _trace(study, aim, players, budgets, estimator)
            for estimator in others
            if _wins(study, leader, estimator, aim, players)
        ),
    ]
    return tuple(
        FrontierPoint(budget, _offer(study, found)) for budget, *found in zip(budgets, *traces, strict=True)
    )


def rivals(solutions: Sequence[NumberSolution]) -> list[str]:
    """The best estimator at one budget, and the second if it may be the best at another one."""
    best, *others = solutions
    near = [other for other in others[:1] if not other.error > RIVAL * best.error]
    return [solution.terms.estimator for solution in (best, *near)]


def _trace(
    study: Study, goals: Goals, players: int, budgets: list[float], estimator: str
) -> list[NumberSolution | None]:
    """From the largest budget down, and what one cannot buy, no smaller one can.

    Each is solved from the beginning: near the last, which often is at a corner, the search would stay there.
    """
    found: list[NumberSolution] = []
    for budget in reversed(budgets):
        solution = solve_with(study, replace(goals, budget=budget), players, estimator)
        if not math.isfinite(solution.error):
            break
        found.append(solution)
    none: list[NumberSolution | None] = [None] * (len(budgets) - len(found))
    # A larger budget buys what a smaller one does, also where its search was a little worse.
    return [*none, *accumulate(found[::-1], _better)]


def _wins(
    study: Study, leader: Sequence[NumberSolution | None], estimator: str, goals: Goals, players: int
) -> bool:
    """Whether an estimator is better than the leader at the largest budget, or at the least that does."""
    feasible = [solution for solution in leader if solution is not None]
    ends = [(solution.cost, solution.error) for solution in (feasible[0], feasible[-1])] if feasible else []
    return not ends or any(
        solve_with(study, replace(goals, budget=cost), players, estimator).error < error
        for cost, error in ends
    )


def _better(one: NumberSolution, other: NumberSolution) -> NumberSolution:
    return other if other.error < one.error else one


def _offer(study: Study, solutions: Sequence[NumberSolution | None]) -> Purchase | None:
    """The best of those that are feasible."""
    feasible = [solution for solution in solutions if solution is not None]
    if not feasible:
        return None
    best = reduce(_better, feasible)
    return Purchase(study.response_unit * math.sqrt(best.error), best.epsilon, best.feasible)

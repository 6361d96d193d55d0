"""What money buys: the guaranteed error and ε of a study's best plan at each budget, beside the paper's mechanism.

The paper's own mechanism stands here at its best parameters, under bounds that hold: to compare plans with, never to
run. Ridge regression with one penalty γ for the public estimate and both halves, ε split evenly, the rule `brier`,
payments rational in expectation, and players scored against q = E[θ·x | x, ŷ] although ridge regression shrinks. What
is left to choose is chosen best: γ, α, ε, and the least a and b that deter lies beyond the goals' size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate

import numpy as np

from truthful import check
from truthful.planner.goals import Goals
from truthful.planner.number_planning import NumberSolution, solve_all_pairs, solve_pair
from truthful.study import Study

PAIR = ("ridge-free", "ridge-unmatched")
EVEN_SPLIT = 0.5


def paper_solution(study: Study, goals: Goals, players: int) -> NumberSolution | None:
    """The most accurate that the budget buys, or the cheapest for the goals where they name none.

    None unless features are uniform on the unit ball: the paper has no result for others. Infinite error and cost if
    no payments within the budget deter lies.
    """
    if study.design.kind != "unit-ball":
        return None
    return solve_pair(study, replace(paper_goals(goals), players=players), players, PAIR)


def paper_goals(goals: Goals) -> Goals:
    """The same goals, with what the paper's mechanism leaves no choice of. A budget stands before an accuracy."""
    return replace(
        goals,
        accuracy=goals.accuracy if goals.budget is None else None,
        estimator=None,
        peer_estimator=None,
        rule="brier",
        payments="expected",
        peers="halves",
        panel=None,
        pins={"public_share": EVEN_SPLIT},
    )


#: Budgets from a thirtieth of a given one to thirty times it.
REACH, POINTS = 30.0, 15
#: A second pair of estimators may be better at another budget if its mean squared error is at most this much larger.
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
    """A budget, what our best plan makes of it, and what the paper's mechanism does; None where lies would pay."""

    budget: float
    ours: Purchase | None
    paper: Purchase | None


def budgets_around(budget: float) -> tuple[float, ...]:
    """Budgets at equal ratios, the given one in their middle."""
    middle = check.positive("budget", budget)
    return tuple(float(b) for b in np.geomspace(middle / REACH, middle * REACH, POINTS))


def frontier(
    study: Study,
    goals: Goals,
    players: int,
    budgets: Sequence[float],
    pairs: Sequence[tuple[str, str]] | None = None,
) -> tuple[FrontierPoint, ...]:
    """The best that each budget buys, for the goals' lie size and failure probability, ε being free.

    pairs: our estimators, by default the `rivals` at the middle budget; a second counts if it wins at an end. The
    paper's mechanism is on the unit ball only.
    """
    budgets = sorted(check.positive("budget", budget) for budget in budgets)
    aim = replace(goals, players=players, accuracy=None, epsilon=None, budget=budgets[len(budgets) // 2])
    if pairs is None:
        pairs = rivals(solve_all_pairs(study, aim, players))
    ours = [_trace(study, aim, players, budgets, pairs[0])]
    ours += [
        _trace(study, aim, players, budgets, pair)
        for pair in pairs[1:]
        if _wins(study, ours[0], pair, aim, players)
    ]
    paper = (
        _trace(study, paper_goals(aim), players, budgets, PAIR) if study.design.kind == "unit-ball" else []
    )
    return tuple(
        FrontierPoint(budget, _offer(study, found), _offer(study, paper[at : at + 1]))
        for at, (budget, *found) in enumerate(zip(budgets, *ours, strict=True))
    )


def rivals(solutions: Sequence[NumberSolution]) -> list[tuple[str, str]]:
    """The best pair of estimators at one budget, and the second if it may be the best at another one."""
    best, *others = solutions
    return [
        best.terms.pair,
        *(other.terms.pair for other in others[:1] if not other.error > RIVAL * best.error),
    ]


def _trace(
    study: Study, goals: Goals, players: int, budgets: list[float], pair: tuple[str, str]
) -> list[NumberSolution | None]:
    """From the largest budget down, and what one cannot buy, no smaller one can. Halves are solved near the last.

    One release is soon solved from the beginning; near the last, which often is at a corner, the search stays there.
    """
    found: list[NumberSolution] = []
    for budget in reversed(budgets):
        at = replace(goals, budget=budget)
        near = found[-1].point if found and goals.peers == "halves" else None
        solution = solve_pair(study, at, players, pair, near)
        if near is not None and not math.isfinite(solution.error):
            solution = solve_pair(study, at, players, pair)
        if not math.isfinite(solution.error):
            break
        found.append(solution)
    none: list[NumberSolution | None] = [None] * (len(budgets) - len(found))
    # A larger budget buys what a smaller one does, also where the search near the last was a little worse.
    return [*none, *accumulate(found[::-1], _better)]


def _wins(
    study: Study, leader: Sequence[NumberSolution | None], pair: tuple[str, str], goals: Goals, players: int
) -> bool:
    """Whether a pair of estimators is better than the leader at the largest budget, or at the least that does."""
    feasible = [solution for solution in leader if solution is not None]
    ends = [(solution.cost, solution.error) for solution in (feasible[0], feasible[-1])] if feasible else []
    return not ends or any(
        solve_pair(study, replace(goals, budget=cost), players, pair).error < error for cost, error in ends
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

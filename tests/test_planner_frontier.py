"""The frontier between money and accuracy: what plans made for each budget alone would promise, in less time."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from studies import DESIGNED, OBSERVED, UNIT_BALL

from truthful.errors import InputError
from truthful.planner import Goals
from truthful.planner.frontier import FrontierPoint, budgets_around, frontier
from truthful.planner.infeasible import prior_error
from truthful.planner.paper import paper_solution
from truthful.planner.solve import solve
from truthful.study import Study

CASES = [(DESIGNED, 5000, 1500.0), (OBSERVED, 100_000, 40_000.0), (UNIT_BALL, 5000, 1500.0)]


@cache
def points(text: str, players: int, budget: float) -> tuple[FrontierPoint, ...]:
    goals = Goals(players=players, budget=budget)
    return frontier(Study.parse(text), goals, players, budgets_around(budget))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "players", "budget"), CASES)
def test_each_point_is_the_plan_that_its_budget_alone_would_give(
    text: str, players: int, budget: float
) -> None:
    study, goals = Study.parse(text), Goals(players=players, budget=budget)
    for point in points(text, players, budget)[::4]:
        best = solve(study, replace(goals, budget=point.budget), players)[0]
        assert (point.ours is None) == math.isinf(best.error)
        if point.ours is not None:
            worth_asking = best.error < prior_error(study, goals)
            assert point.ours.worth_asking == worth_asking
            # Both are searches, from different starts: near the least budget that does, either may be the better. Where
            # the prior mean is better no plan is made, and no second pair of estimators is looked for.
            alone = study.response_unit * math.sqrt(best.error)
            assert point.ours.error == pytest.approx(alone, rel=1e-2 if worth_asking else 0.1)


def test_the_paper_s_curve_is_its_best_mechanism_at_each_budget() -> None:
    study, goals = Study.parse(UNIT_BALL), Goals(players=5000, budget=1500)
    for point in frontier(study, goals, 5000, [150.0, 1500.0, 15000.0]):
        best = paper_solution(study, replace(goals, budget=point.budget), 5000)
        assert best is not None
        assert point.paper is not None
        alone = study.response_unit * math.sqrt(best.error)
        assert point.paper.error == pytest.approx(alone, rel=5e-3)
        assert point.ours is not None
        assert point.ours.error < point.paper.error


@pytest.mark.parametrize(("text", "players", "budget"), CASES)
def test_more_money_never_buys_less(text: str, players: int, budget: float) -> None:
    found = points(text, players, budget)
    bought = [[p.ours.error if p.ours else math.inf for p in found]]
    bought.append([p.paper.error if p.paper else math.inf for p in found])
    for errors in bought:
        assert all(more <= less for less, more in pairwise(errors))
    assert (found[0].paper is None) == (text != UNIT_BALL)


def test_accuracy_and_privacy_goals_give_way_to_the_budget_and_the_lie_size_stays() -> None:
    study, budgets = Study.parse(DESIGNED), [1500.0]
    plain = frontier(study, Goals(players=5000, budget=1500), 5000, budgets)
    asked = frontier(study, Goals(players=5000, accuracy=20.0, epsilon=0.5), 5000, budgets)
    strict = frontier(study, Goals(players=5000, budget=1500, lie=0.1), 5000, budgets)
    assert plain == asked
    assert plain[0].ours is not None
    assert strict[0].ours is None or strict[0].ours.error > plain[0].ours.error


def test_budgets_go_from_a_thirtieth_to_thirty_times_the_given_one() -> None:
    budgets = budgets_around(600.0)
    assert budgets[0] == pytest.approx(20.0)
    assert budgets[7] == pytest.approx(600.0)
    assert budgets[-1] == pytest.approx(18_000.0)
    with pytest.raises(InputError, match="budget"):
        budgets_around(0.0)

"""The frontier between money and accuracy: what plans made for each budget alone would promise."""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from support.plans import bought, case, people_of, solved
from support.studies import DESIGNED, OBSERVED, RECORDS, UNIT_BALL
from support.surveys import survey

from truthful.charts.frontier_chart import chart_frontier
from truthful.errors import InputError
from truthful.files import pretty_json
from truthful.plan import Plan
from truthful.planner import Goals
from truthful.planner.number_planning import FrontierPoint, budgets_around, frontier, solve_all
from truthful.planner.panel import Panel, panel_of_design
from truthful.study import Study

#: Study, players and budget.
CASES = [
    (DESIGNED, 3000, 900.0),
    (UNIT_BALL, 5000, 1500.0),
    (UNIT_BALL + RECORDS, 5000, 1500.0),
    (OBSERVED + RECORDS, 100_000, 40_000.0),
]
IDS = ["levels", "ball", "records", "observed"]


@cache
def goals_of(text: str, players: int, budget: float) -> tuple[Study, Goals]:
    study = Study.parse(text)
    panel = panel_of_design(study) if study.protects == "answers" else None
    return study, Goals(players=players, budget=budget, panel=panel)


@cache
def points(text: str, players: int, budget: float) -> tuple[FrontierPoint, ...]:
    study, goals = goals_of(text, players, budget)
    return frontier(study, goals, players, budgets_around(budget))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "players", "budget"), CASES, ids=IDS)
def test_each_point_is_the_plan_that_its_budget_alone_would_give(
    text: str, players: int, budget: float
) -> None:
    study, goals = goals_of(text, players, budget)
    for point in points(text, players, budget)[1::6]:
        best = solve_all(study, replace(goals, budget=point.budget), players)[0]
        assert (point.best is None) == math.isinf(best.error)
        if point.best is not None:
            worth_asking = best.error < goals.prior_error(study)
            # Where the prior mean is better no plan is made, and no second estimator is looked for.
            alone = study.response_unit * math.sqrt(best.error)
            assert point.best.error == pytest.approx(alone, rel=1e-2 if worth_asking else 0.1)


@pytest.mark.parametrize(("text", "players", "budget"), CASES, ids=IDS)
def test_more_money_never_buys_less(text: str, players: int, budget: float) -> None:
    found = points(text, players, budget)
    ours = [p.best.error if p.best else math.inf for p in found]
    assert all(more <= less for less, more in pairwise(ours))
    assert ours[-1] < ours[len(ours) // 2] < math.inf
    levels = [p.best.epsilon for p in found if p.best]
    # With much more money ε is larger, by which the error is smaller.
    assert levels[-1] > levels[0]


def test_the_frontier_of_a_roster_goes_through_its_plan() -> None:
    """The chart of a plan from a roster: the people are those of the plan at every budget."""
    plan = bought(600, 3, 5.0)
    shown = chart_frontier(plan)
    middle = shown.points[len(shown.points) // 2]
    assert middle.budget == pytest.approx(3000, rel=1e-6)
    assert middle.best is not None
    assert middle.best.error == pytest.approx(plan.guarantees.accuracy.rmse, rel=1e-3)
    assert middle.best.epsilon == pytest.approx(plan.mechanism.epsilon, rel=1e-2)
    assert shown.error == plan.guarantees.accuracy.rmse
    # Three times the money, as a plan of its own.
    richer = shown.points[len(shown.points) // 2 + 3]
    assert richer.best is not None
    alone = bought(600, 3, richer.budget / 600).guarantees.accuracy.rmse
    assert richer.best.error == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_a_plan_whose_numbers_were_given_stands_on_or_above_the_frontier_of_as_much_deterrence(
    name: str,
) -> None:
    """Nobody chose its numbers to be the best for the money."""
    shown = chart_frontier(case(name, 5000, epsilon=0.3))
    middle = shown.points[len(shown.points) // 2].best
    assert middle is not None
    assert shown.error is not None
    assert middle.error < shown.error < 2 * middle.error


def test_a_plan_with_the_numbers_that_were_solved_for_stands_on_the_frontier() -> None:
    """The lie of which as much is deterred at c = R is found again, within what a typical person tells of all."""
    best = solved(DESIGNED, players=3000, budget=900)
    numbers = {
        name: value for name, value in best.parameters().items() if value is not None and name != "protects"
    }
    given = case(numbers.pop("estimator"), 3000, **numbers)
    shown = chart_frontier(given)
    assert shown.lie == pytest.approx(30.0, rel=0.05)
    middle = shown.points[len(shown.points) // 2].best
    assert middle is not None
    assert middle.error == pytest.approx(shown.error, rel=0.03)


def test_a_plan_that_was_read_from_a_file_has_a_chart_if_people_can_be_drawn() -> None:
    drawn = Plan.parse(text_of(case("instruments", 3000, epsilon=0.3)))
    assert chart_frontier(drawn).points[-1].best is not None
    with pytest.raises(InputError, match="a plan needs the people themselves"):
        chart_frontier(Plan.parse(text_of(bought(600, 3, 5.0))))


def text_of(plan: Plan) -> str:
    return pretty_json(plan.record())


def test_accuracy_and_privacy_goals_give_way_to_the_budget_and_the_lie_size_stays() -> None:
    study, people, budgets = survey(3), people_of(600, 3), [1500.0]
    panel = Panel(study, people)
    plain = frontier(study, Goals(players=600, budget=1500, panel=panel), 600, budgets)
    asked = frontier(study, Goals(players=600, accuracy=0.2, epsilon=0.5, panel=panel), 600, budgets)
    strict = frontier(study, Goals(players=600, budget=1500, lie=0.1, panel=panel), 600, budgets)
    assert plain == asked
    assert plain[0].best is not None
    assert strict[0].best is not None
    assert strict[0].best.error > plain[0].best.error


def test_budgets_go_from_a_thirtieth_to_thirty_times_the_given_one() -> None:
    budgets = budgets_around(600.0)
    assert budgets[0] == pytest.approx(20.0)
    assert budgets[7] == pytest.approx(600.0)
    assert budgets[-1] == pytest.approx(18_000.0)
    with pytest.raises(InputError, match="budget"):
        budgets_around(0.0)

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
from truthful.planner.budget_frontier import FrontierPoint, budgets_around, frontier, paper_solution
from truthful.planner.number_planning import solve_all_pairs
from truthful.planner.panel import Panel, panel_of_design
from truthful.study import Study

#: Study, players, budget, and whom people are scored against.
CASES = [
    (DESIGNED, 3000, 900.0, "leave-one-out"),
    (UNIT_BALL, 5000, 1500.0, "leave-one-out"),
    (UNIT_BALL + RECORDS, 5000, 1500.0, "leave-one-out"),
    (OBSERVED + RECORDS, 100_000, 40_000.0, "leave-one-out"),
    (DESIGNED, 5000, 1500.0, "halves"),
    (OBSERVED, 100_000, 40_000.0, "halves"),
]
IDS = ["levels", "ball", "records", "observed", "halves", "observed halves"]


@cache
def goals_of(text: str, players: int, budget: float, peers: str) -> tuple[Study, Goals]:
    study = Study.parse(text)
    panel = panel_of_design(study) if peers == "leave-one-out" and study.protects == "answers" else None
    return study, Goals(players=players, budget=budget, peers=peers, panel=panel)


@cache
def points(text: str, players: int, budget: float, peers: str) -> tuple[FrontierPoint, ...]:
    study, goals = goals_of(text, players, budget, peers)
    return frontier(study, goals, players, budgets_around(budget))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "players", "budget", "peers"), CASES, ids=IDS)
def test_each_point_is_the_plan_that_its_budget_alone_would_give(
    text: str, players: int, budget: float, peers: str
) -> None:
    study, goals = goals_of(text, players, budget, peers)
    for point in points(text, players, budget, peers)[::4]:
        best = solve_all_pairs(study, replace(goals, budget=point.budget), players)[0]
        assert (point.ours is None) == math.isinf(best.error)
        if point.ours is not None:
            worth_asking = best.error < goals.prior_error(study)
            assert point.ours.worth_asking == worth_asking
            # Halves are searched from different starts: near the least budget that does, either may be the better.
            # Where the prior mean is better no plan is made, and no second pair of estimators is looked for.
            alone = study.response_unit * math.sqrt(best.error)
            assert point.ours.error == pytest.approx(alone, rel=1e-2 if worth_asking else 0.1)


def test_the_paper_s_curve_is_its_best_mechanism_at_each_budget() -> None:
    study, goals = goals_of(UNIT_BALL, 5000, 1500.0, "leave-one-out")
    for point in frontier(study, goals, 5000, [150.0, 1500.0, 15000.0]):
        best = paper_solution(study, replace(goals, budget=point.budget), 5000)
        assert best is not None
        assert point.paper is not None
        alone = study.response_unit * math.sqrt(best.error)
        assert point.paper.error == pytest.approx(alone, rel=5e-3)
        assert point.ours is not None
        assert point.ours.error < 0.2 * point.paper.error


@pytest.mark.parametrize(("text", "players", "budget", "peers"), CASES, ids=IDS)
def test_more_money_never_buys_less(text: str, players: int, budget: float, peers: str) -> None:
    found = points(text, players, budget, peers)
    ours = [p.ours.error if p.ours else math.inf for p in found]
    assert all(more <= less for less, more in pairwise(ours))
    assert ours[-1] < ours[len(ours) // 2] < math.inf
    levels = [p.ours.epsilon for p in found if p.ours]
    # With much more money ε is larger, by which the error is smaller.
    assert levels[-1] > levels[0]
    paper = [p.paper.error if p.paper else math.inf for p in found]
    assert all(more <= less for less, more in pairwise(paper))
    assert (found[0].paper is None) == ("unit-ball" not in text)


def test_the_frontier_of_a_roster_goes_through_its_plan() -> None:
    """The chart of a plan from a roster: the people are those of the plan at every budget."""
    plan = bought(600, 3, 5.0)
    shown = chart_frontier(plan)
    middle = shown.points[len(shown.points) // 2]
    assert middle.budget == pytest.approx(3000, rel=1e-6)
    assert middle.ours is not None
    assert middle.ours.error == pytest.approx(plan.guarantees.accuracy.rmse, rel=1e-3)
    assert middle.ours.epsilon == pytest.approx(plan.mechanism.epsilon, rel=1e-2)
    assert shown.error == plan.guarantees.accuracy.rmse
    # Three times the money, as a plan of its own.
    richer = shown.points[len(shown.points) // 2 + 3]
    assert richer.ours is not None
    alone = bought(600, 3, richer.budget / 600).guarantees.accuracy.rmse
    assert richer.ours.error == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("name", ["instruments", "known-design", "halves, known-design"])
def test_a_plan_whose_numbers_were_given_stands_on_or_above_the_frontier_of_as_much_deterrence(
    name: str,
) -> None:
    """Nobody chose its numbers to be the best for the money."""
    shown = chart_frontier(case(name, 5000, epsilon=0.3))
    middle = shown.points[len(shown.points) // 2].ours
    assert middle is not None
    assert shown.error is not None
    assert middle.error < shown.error < 2 * middle.error


def test_a_plan_with_the_numbers_that_were_solved_for_stands_on_the_frontier() -> None:
    """The lie of which as much is deterred at c = R is found again, within what a typical person tells of all."""
    best = solved(DESIGNED, players=3000, budget=900)
    numbers = {
        name: value for name, value in best.parameters().items() if value is not None and name != "protects"
    }
    given = case("instruments", 3000, **{**numbers, "estimator": "instruments"})
    shown = chart_frontier(given)
    assert shown.lie == pytest.approx(30.0, rel=0.05)
    middle = shown.points[len(shown.points) // 2].ours
    assert middle is not None
    assert middle.error == pytest.approx(shown.error, rel=0.03)


def test_a_plan_that_was_read_from_a_file_has_a_chart_if_people_can_be_drawn() -> None:
    drawn = Plan.parse(text_of(case("instruments", 3000, epsilon=0.3)))
    assert chart_frontier(drawn).points[-1].ours is not None
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
    assert plain[0].ours is not None
    assert strict[0].ours is not None
    assert strict[0].ours.error > plain[0].ours.error


def test_budgets_go_from_a_thirtieth_to_thirty_times_the_given_one() -> None:
    budgets = budgets_around(600.0)
    assert budgets[0] == pytest.approx(20.0)
    assert budgets[7] == pytest.approx(600.0)
    assert budgets[-1] == pytest.approx(18_000.0)
    with pytest.raises(InputError, match="budget"):
        budgets_around(0.0)

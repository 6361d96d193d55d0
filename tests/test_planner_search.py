"""The planner finds what a random search over every parameter finds, and its parts find minima and roots."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from support.oracles_planner import People, Release, search_release
from support.plans import ball, people_of
from support.studies import DESIGNED, OBSERVED, RECORDS, UNIT_BALL
from support.surveys import survey

from truthful.check import Floats
from truthful.geometry import geometry
from truthful.plan import Plan, design
from truthful.planner.goals import Goals
from truthful.planner.number_planning import NumberSolution, minimised, solve_with
from truthful.planner.panel import SHORTENINGS
from truthful.planner.search import Axis, crossing, last_below, lowest, minimise
from truthful.study import Study

# One release: liars, ε and clip level


@cache
def twin(plan: Plan, share: float) -> tuple[float, dict[str, float]]:
    """What the random search finds for the goals of a plan, with instruments that shorten this share of people."""
    study, goals = plan.study, plan.solution.goals  # type: ignore[union-attr]
    panel, estimator, found = goals.panel, plan.mechanism.estimator, None
    if panel is not None and panel.roster is not None:
        found = geometry(panel.roster, panel.transform(share))
    elif panel is not None:
        found = panel.geometry(plan.players, share)
    asked = Release(
        People(study, plan.answering, found),
        goals.lie_size(study),
        estimator,
        budget=goals.budget or math.inf,
        error=goals.error(study) or math.inf,
        epsilon=goals.epsilon,
        payments=goals.payments,
        rule=goals.rule,
        accuracy_of=goals.accuracy_of,
    )
    return search_release(asked)


def value(plan: Plan) -> float:
    """What the plan minimises."""
    assert isinstance(plan.solution, NumberSolution)
    return plan.solution.objective


# (players, coefficients, what is asked), planned from rosters of surveys
ROSTERS: list[tuple[int, int, dict[str, Any]]] = [
    (500, 2, {"budget": 2500}),
    (600, 3, {"budget": 1200, "payments": "expected"}),
    (2000, 5, {"budget": 2000, "accuracy_of": "predictions"}),
    (20_000, 10, {"budget": 5000}),
    (2000, 5, {"accuracy": 0.2}),
    (500, 3, {"accuracy": 0.2, "rule": "brier", "payments": "expected"}),
    (2000, 5, {"epsilon": 0.3}),
    (500, 2, {"epsilon": 0.2, "budget": 600}),
    (2000, 5, {"epsilon": 0.3, "accuracy": 0.25}),
]


def some_slow(cases: list[Any], quick: set[int]) -> list[Any]:
    """All cases, those that are much like others marked."""
    return [pytest.param(*one, marks=[] if k in quick else pytest.mark.slow) for k, one in enumerate(cases)]


@pytest.mark.parametrize(("players", "d", "asked"), some_slow(ROSTERS, {0, 1, 4, 6}), ids=str)
def test_no_random_search_over_liars_epsilon_and_clip_beats_a_plan_from_a_roster(
    players: int, d: int, asked: dict[str, Any]
) -> None:
    """Both searches are fixed: it fails always or never. The twin comes near enough to notice what is missed."""
    plan = design(survey(d), roster=people_of(players, d), **asked)
    found, where = twin(plan, 1.0)
    assert value(plan) <= found * 1.01, where
    assert value(plan) >= found * 0.98, where


# Studies without a roster: what is protected decides the estimator.
DECLARED: list[tuple[str, dict[str, Any]]] = [
    (DESIGNED, {"players": 3000, "budget": 1500}),
    (UNIT_BALL, {"players": 20_000, "epsilon": 0.1}),
    (DESIGNED + RECORDS, {"players": 40_000, "budget": 10_000, "estimator": "known-design"}),
    (ball(5, records=True), {"players": 20_000, "budget": 5000, "estimator": "known-design"}),
    (ball(5, records=True), {"players": 20_000, "accuracy": 0.1, "payments": "expected"}),
    (OBSERVED + RECORDS, {"players": 200_000, "budget": 50_000}),
    (OBSERVED + RECORDS, {"players": 200_000, "accuracy": 8.0, "rule": "brier"}),
]


@pytest.mark.parametrize(
    ("text", "asked"),
    some_slow(DECLARED, {0, 1, 3, 5}),
    ids=lambda part: str(part).split("\n")[1:2] or str(part),
)
def test_no_random_search_beats_a_plan_from_a_declared_design(text: str, asked: dict[str, Any]) -> None:
    plan = design(Study.parse(text), **asked)
    found, where = twin(plan, 1.0)
    assert value(plan) <= found * 1.01, where
    assert value(plan) >= found * 0.97, where


@pytest.mark.slow
@pytest.mark.parametrize("each", [1.0, 4000.0])
def test_the_share_of_people_who_are_shortened_is_the_best_of_all_that_are_tried(each: float) -> None:
    """With much money ε is large, sampling counts for more than noise, and fewer are shortened."""
    plan = design(survey(3), roster=people_of(600, 3), budget=each * 600)
    found = {share: twin(plan, share)[0] for share in SHORTENINGS}
    assert value(plan) <= min(found.values()) * 1.01
    assert isinstance(plan.solution, NumberSolution)
    chosen = plan.solution.terms.shortening
    assert found[chosen] <= min(found.values()) * 1.01
    assert (chosen < 1) == (each > 100)


@pytest.mark.slow
def test_bounded_costs_are_planned_for_without_any_liars_where_that_is_best() -> None:
    """The twin tries no liars too. At 2 USD a head nobody with a cost of at most 0.2 needs to be let go."""
    bounded = 'kind = "empirical"\nprobabilities = [0, 1]\nvalues = [0.1, 0.2]\n'
    study = Study.parse(UNIT_BALL[: UNIT_BALL.index('kind = "pareto"')] + bounded)
    for asked in ({"budget": 4000.0}, {"accuracy": 0.1}):
        plan = design(study, players=2000, **asked)  # type: ignore[arg-type]
        found, where = twin(plan, 1.0)
        assert value(plan) <= found * 1.01, where
        assert plan.absent_share == 0


def test_what_is_minimised_follows_from_what_is_asked() -> None:
    assert minimised(Goals(players=10, budget=1.0)) == "error"
    assert minimised(Goals(players=10, budget=1.0, epsilon=1.0)) == "error"
    assert minimised(Goals(players=10, accuracy=1.0)) == "cost"
    assert minimised(Goals(players=10, budget=1.0, accuracy=1.0)) == "cost"
    assert minimised(Goals(players=10, epsilon=1.0)) == "cost × squared error"


# Minima


def test_a_narrow_slanted_valley_is_followed_to_its_end() -> None:
    def rosenbrock(mesh: dict[str, Floats]) -> tuple[Floats, Floats]:
        x, y = mesh["x"], np.log(mesh["y"])
        return np.zeros_like(x), (1 - x) ** 2 + 30 * (y - x**2) ** 2

    axes = {"x": Axis(-3, 3, 7, log=False), "y": Axis(math.exp(-3), math.exp(9), 7)}
    best = minimise(rosenbrock, axes)
    assert best is not None
    assert best["x"] == pytest.approx(1, abs=0.02)
    assert best["y"] == pytest.approx(math.e, rel=0.05)


def test_what_holds_nowhere_on_the_first_grid_is_walked_towards() -> None:
    def window(mesh: dict[str, Floats]) -> tuple[Floats, Floats]:
        """Only a thousandth of the axis holds, and the best is its far end."""
        x = mesh["x"]
        return np.maximum(np.abs(x - 0.4321) - 0.0005, 0.0), x

    best = minimise(window, {"x": Axis(0, 1, 5, log=False)})
    assert best is not None
    assert best["x"] == pytest.approx(0.4316, abs=1e-4)


def test_nothing_is_found_where_all_is_missed_infinitely() -> None:
    nowhere = minimise(lambda mesh: (np.full_like(mesh["x"], np.inf), mesh["x"]), {"x": Axis(1, 2, 5)})
    assert nowhere is None


def test_numbers_that_are_not_to_be_chosen_stay_as_they_are() -> None:
    axes = {"x": Axis(0, 1, 5, log=False), "fixed": Axis(0.3, 0.3, 1, log=False)}
    best = minimise(lambda mesh: (np.zeros(len(mesh["x"])), (mesh["x"] - mesh["fixed"]) ** 2), axes)
    assert best is not None
    assert best["fixed"] == 0.3
    assert best["x"] == pytest.approx(0.3, abs=1e-3)


def test_a_search_near_a_known_point_ends_where_one_of_the_whole_space_does() -> None:
    study, n, name = Study.parse(OBSERVED + RECORDS), 2_000_000, "noisy-statistics"
    goals = Goals(players=n, budget=500_000.0)
    before = solve_with(study, Goals(players=n, budget=450_000.0), n, name)
    near, alone = solve_with(study, goals, n, name, near=before.point), solve_with(study, goals, n, name)
    assert near.error == pytest.approx(alone.error, rel=2e-3)


# Roots


def test_each_row_s_last_place_below_a_target_is_found_from_below() -> None:
    grid = np.geomspace(1e-6, 100.0, 16) * np.ones((3, 1))
    powers = np.array([[0.5], [2.0], [7.0]])
    x = last_below(lambda x: x**powers, 3.0, grid)
    assert np.all(x ** powers[:, 0] <= 3.0)
    assert x == pytest.approx(3.0 ** (1 / powers[:, 0]), rel=1e-6)


def test_a_function_that_falls_before_it_rises_or_ends_in_infinity_has_its_last_root_found() -> None:
    grid = np.geomspace(1e-3, 100.0, 16)[None]
    assert last_below(lambda x: x + 1 / x, 4.0, grid) == pytest.approx(2 + math.sqrt(3), rel=1e-6)
    steep = last_below(lambda x: np.where(x < 7, 1 / np.maximum(7 - x, 1e-300), np.inf), 4.0, grid)
    assert steep == pytest.approx(6.75, rel=1e-6)
    assert last_below(lambda x: np.where(x <= 7, 1.0, np.inf), 4.0, grid) == pytest.approx(7, rel=1e-6)


def test_a_row_where_nothing_or_everything_fits_says_so() -> None:
    grid = np.geomspace(1e-3, 100.0, 16)[None]
    assert np.isnan(last_below(lambda x: x + 10, 4.0, grid)).all()
    assert last_below(lambda x: x / 1000, 4.0, grid) == 100.0


def test_the_lowest_place_of_each_row_is_found_between_the_points_of_its_grid() -> None:
    grid = np.geomspace(1e-6, 100.0, 16) * np.ones((2, 1))
    centres = np.array([[0.0123], [4.56]])
    found = lowest(lambda x: np.log(x / centres) ** 2, grid)
    assert found == pytest.approx(centres[:, 0], rel=0.05)
    assert lowest(lambda x: x, grid) == pytest.approx(grid[:, 0])


def test_a_crossing_is_met_from_above_and_told_where_the_last_one_was() -> None:
    seen = []

    def f(x: float, near: dict[str, float] | None) -> tuple[float, dict[str, float] | None]:
        seen.append(near)
        return math.log(1234 / x), {"x": x}

    x = crossing(f, 4, 4096, 1e-3, (math.log(1234 / 4096), {"x": 4096.0}))
    assert 1234 <= x <= 1234 * 1.001
    assert seen[0] == {"x": 4096.0}
    assert len(seen) < 12


def test_a_crossing_of_what_is_only_known_by_its_sign_is_bisected() -> None:
    x = crossing(lambda x, near: (math.inf if x < 50 else -math.inf, near), 4, 4096, 1e-3, (-math.inf, None))
    assert 50 <= x <= 50 * 1.001

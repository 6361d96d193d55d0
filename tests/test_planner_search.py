"""The planner finds what a random search over every parameter finds, and its parts find minima and roots."""

import math
from functools import cache

import numpy as np
import pytest
from oracles_planner import Question, search
from studies import DESIGNED, OBSERVED, UNIT_BALL

from truthful.check import Floats
from truthful.planner.goals import Goals
from truthful.planner.search import Axis, crossing, last_below, lowest, minimise
from truthful.planner.solve import solve_pair
from truthful.study import Study

KNOWN, NOISY = ("known-design", "known-design"), ("noisy-statistics", "noisy-statistics")
BALL, MIXED = ("ridge-ball", "known-design"), ("noisy-statistics", "known-design")
FREE, RIDGES, OBSERVED_BALL = (
    ("ridge-free", "ridge-free"),
    ("ridge-ball", "ridge-free"),
    ("ridge-ball", "noisy-statistics"),
)


@cache
def ball(dimension: int) -> Study:
    features = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(1, dimension + 1))
    start, end = UNIT_BALL.index("[[features]]"), UNIT_BALL.index("[design]")
    return Study.parse(UNIT_BALL[:start] + features + UNIT_BALL[end:])


STUDIES = {
    "line": ball(1),
    "disc": ball(2),
    "ball": ball(5),
    "levels": Study.parse(DESIGNED),
    "observed": Study.parse(OBSERVED),
}

# (study, players, estimators, payments, rule, dollars a player, lie as a part of R)
BUDGETS = [
    ("line", 20_000, KNOWN, "never-negative", "quadratic", 0.25, 0.5),
    ("line", 20_000, NOISY, "expected", "brier", 0.25, 0.5),
    ("disc", 300, KNOWN, "expected", "quadratic", 2.0, 0.5),
    ("disc", 20_000, KNOWN, "never-negative", "brier", 0.25, 0.2),
    ("disc", 20_000, NOISY, "never-negative", "brier", 0.25, 0.5),
    ("disc", 20_000, FREE, "never-negative", "quadratic", 0.25, 0.5),
    ("disc", 2_000_000, FREE, "never-negative", "quadratic", 0.25, 0.5),
    ("disc", 2_000_000, MIXED, "expected", "quadratic", 0.25, 0.5),
    ("ball", 20_000, KNOWN, "expected", "brier", 0.25, 1.0),
    ("ball", 20_000, NOISY, "expected", "quadratic", 0.25, 0.5),
    ("ball", 20_000, RIDGES, "expected", "quadratic", 0.25, 0.5),
    ("ball", 20_000, BALL, "never-negative", "quadratic", 0.25, 0.5),
    ("levels", 2_000, KNOWN, "never-negative", "quadratic", 1.0, 0.5),
    ("levels", 20_000, KNOWN, "expected", "brier", 0.25, 0.5),
    ("levels", 20_000, NOISY, "expected", "quadratic", 0.25, 0.5),
    ("levels", 20_000, BALL, "expected", "quadratic", 0.25, 1.5),
    ("observed", 20_000, OBSERVED_BALL, "expected", "quadratic", 0.25, 0.5),
    ("observed", 100_000, NOISY, "never-negative", "quadratic", 0.4, 0.5),
    ("observed", 2_000_000, NOISY, "expected", "brier", 0.25, 0.5),
    ("observed", 2_000_000, OBSERVED_BALL, "never-negative", "quadratic", 0.25, 0.5),
]

# (study, players, estimators, payments, rule, mean squared error, lie as a part of R)
ERRORS = [
    ("line", 20_000, KNOWN, "expected", "quadratic", 0.01, 0.5),
    ("disc", 20_000, KNOWN, "never-negative", "quadratic", 0.01, 0.5),
    ("disc", 20_000, NOISY, "expected", "brier", 0.01, 0.5),
    ("disc", 20_000, FREE, "expected", "quadratic", 0.1, 0.5),
    ("ball", 20_000, BALL, "never-negative", "brier", 0.2, 0.5),
    ("levels", 20_000, MIXED, "never-negative", "quadratic", 0.05, 0.3),
    ("observed", 100_000, NOISY, "expected", "quadratic", 0.02, 0.5),
    ("observed", 100_000, OBSERVED_BALL, "expected", "quadratic", 0.05, 0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "pair", "payments", "rule", "head", "lie"), BUDGETS, ids=str)
def test_no_random_search_is_more_accurate_for_the_money(
    name: str, n: int, pair: tuple[str, str], payments: str, rule: str, head: float, lie: float
) -> None:
    """Both searches are fixed: it fails always or never. The twin comes near enough to notice what is missed."""
    study = STUDIES[name]
    size = lie * study.beliefs.radius
    goals = Goals(players=n, budget=head * n, lie=size, rule=rule, payments=payments)
    error = solve_pair(study, goals, n, pair).error
    found, where = search(Question(study, n, pair, size, budget=head * n, payments=payments, rule=rule))
    assert error <= found * 1.003, where
    assert error >= found * 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n", "pair", "payments", "rule", "most", "lie"), ERRORS, ids=str)
def test_no_random_search_is_cheaper_for_the_accuracy(
    name: str, n: int, pair: tuple[str, str], payments: str, rule: str, most: float, lie: float
) -> None:
    study = STUDIES[name]
    size, accuracy = lie * study.beliefs.radius, study.response_unit * math.sqrt(most)
    goals = Goals(players=n, accuracy=accuracy, lie=size, rule=rule, payments=payments)
    cost = solve_pair(study, goals, n, pair).cost
    found, where = search(Question(study, n, pair, size, error=most, payments=payments, rule=rule))
    assert cost <= found * 1.003, where
    assert cost >= found * 0.95


@pytest.mark.slow
@pytest.mark.parametrize("pair", [KNOWN, MIXED, BALL])
def test_predictions_on_average_are_planned_for_as_well_as_coefficients(pair: tuple[str, str]) -> None:
    study, n = STUDIES["levels"], 20_000
    size = study.beliefs.radius / 2
    goals = Goals(players=n, budget=5000, lie=size, accuracy_of="predictions")
    found, where = search(Question(study, n, pair, size, budget=5000, accuracy_of="predictions"))
    assert solve_pair(study, goals, n, pair).error <= found * 1.003, where


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [{"budget": 5000.0}, {"error": 0.005}], ids=str)
def test_bounded_costs_are_planned_for_without_any_liars_where_that_is_best(wanted: dict[str, float]) -> None:
    """The twin tries no liars too. At $5,000 nobody with a cost of at most 0.2 needs to be let go."""
    bounded = 'kind = "empirical"\nprobabilities = [0, 1]\nvalues = [0.1, 0.2]\n'
    study = Study.parse(UNIT_BALL[: UNIT_BALL.index('kind = "pareto"')] + bounded)
    n, size = 20_000, study.beliefs.radius / 2
    asked = {"accuracy": math.sqrt(wanted["error"])} if "error" in wanted else wanted
    solution = solve_pair(study, Goals(players=n, lie=size, **asked), n, KNOWN)  # type: ignore[arg-type]
    found, where = search(Question(study, n, KNOWN, size, **wanted))  # type: ignore[arg-type]
    assert (solution.error if "budget" in wanted else solution.cost) <= found * 1.003, where
    assert solution.parameters()["absent_share"] == 0


@pytest.mark.slow
def test_pairs_of_estimators_that_a_plan_does_not_try_are_never_better_than_those_it_does() -> None:
    """On known designs peers are estimated by it. Others, tried by the twin at a few places, do not win."""
    for name, n in (("disc", 20_000), ("levels", 20_000)):
        study = STUDIES[name]
        size = study.beliefs.radius / 2
        ours = solve_pair(study, Goals(players=n, budget=5000), n, KNOWN).error
        for pair in (("known-design", "noisy-statistics"), NOISY, ("ridge-free", "known-design")):
            assert search(Question(study, n, pair, size, budget=5000.0))[0] > ours


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


@pytest.mark.slow
def test_a_search_near_a_known_point_ends_where_one_of_the_whole_space_does() -> None:
    study, n = STUDIES["observed"], 2_000_000
    goals = Goals(players=n, budget=500_000.0)
    before = solve_pair(study, Goals(players=n, budget=450_000.0), n, NOISY)
    near, alone = solve_pair(study, goals, n, NOISY, near=before.point), solve_pair(study, goals, n, NOISY)
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

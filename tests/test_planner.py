"""Plans that are solved for: they keep what they promise, more of anything never hurts, and any two goals will do."""

import json
import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles_planner import median_slope
from studies import DESIGNED, OBSERVED, UNIT_BALL, people, saved_study

from truthful.bounds import Setting, proved
from truthful.errors import InputError, Refused
from truthful.guarantees import setting
from truthful.plan import LARGEST_PAYMENT, Plan, design
from truthful.planner import Answer, Infeasible
from truthful.planner.goals import LEAST_SLOPE, Goals
from truthful.planner.solve import solve
from truthful.planner.terms import MOST_PAID, MOST_PUBLIC
from truthful.settlement import settle
from truthful.study import Study

DESIGN, BALL, SEEN = Study.parse(DESIGNED), Study.parse(UNIT_BALL), Study.parse(OBSERVED)

CASES: list[tuple[Study, dict[str, Any]]] = [
    (BALL, {"players": 20_000, "budget": 5000}),
    (BALL, {"players": 20_000, "budget": 5000, "payments": "expected", "lie": 0.3}),
    (BALL, {"players": 20_000, "budget": 5000, "rule": "brier", "accuracy_of": "predictions"}),
    (BALL, {"players": 20_000, "accuracy": 0.1}),
    (BALL, {"players": 20_000, "epsilon": 0.1}),
    (BALL, {"budget": 5000, "accuracy": 0.1}),
    (BALL, {"budget": 5000, "epsilon": 0.1}),
    (BALL, {"accuracy": 0.1, "epsilon": 0.1}),
    (BALL, {"players": 20_000, "budget": 5000, "accuracy": 0.1}),
    (BALL, {"players": 20_000, "budget": 5000, "epsilon": 0.05}),
    (BALL, {"players": 20_000, "accuracy": 0.1, "epsilon": 0.05}),
    (BALL, {"budget": 5000, "accuracy": 0.1, "epsilon": 0.1}),
    (BALL, {"players": 20_000, "budget": 5000, "accuracy": 0.1, "epsilon": 0.05}),
    (BALL, {"players": 20_000, "budget": 5000, "estimator": "ridge-free", "peer_estimator": "ridge-free"}),
    (BALL, {"players": 20_000, "budget": 5000, "estimator": "ridge-ball", "payments": "expected"}),
    (BALL, {"players": 20_000, "budget": 5000, "estimator": "noisy-statistics", "payments": "expected"}),
    (DESIGN, {"players": 20_000, "budget": 5000, "least_slope": 0.4}),
    (DESIGN, {"players": 20_000, "accuracy": 20.0, "payments": "expected", "rule": "brier"}),
    (DESIGN, {"budget": 5000, "accuracy": 9.0, "accuracy_of": "predictions"}),
    (DESIGN, {"players": 3000, "budget": 2000, "failure_probability": 0.05}),
    (SEEN, {"players": 400_000, "budget": 100_000}),
    (SEEN, {"players": 400_000, "accuracy": 15.0, "payments": "expected"}),
]


def as_planned(plan: Plan) -> Setting:
    """The plan's own numbers, as the bounds take them."""
    return setting(plan.study, plan.mechanism, plan.players, plan.absent_share, plan.failure_probability)


def cost(plan: Plan) -> float:
    """What a budget bounds."""
    s = as_planned(plan)
    return float(proved.budget_cap(s) if s.clipped else proved.budget(s))


def error(plan: Plan, of: str = "coefficients") -> float:
    """The guaranteed error in raw response units."""
    found = (
        plan.guarantees.accuracy.rmse if of == "coefficients" else plan.guarantees.accuracy.prediction_rmse
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("study", "asked"), CASES, ids=lambda case: case.name if isinstance(case, Study) else str(case)
)
def test_a_plan_keeps_all_that_was_asked_as_the_bounds_on_its_own_numbers_say(
    study: Study, asked: dict[str, Any]
) -> None:
    plan = design(study, **asked)
    s, lie = as_planned(plan), asked.get("lie", study.beliefs.radius / 2)
    assert proved.lie_size(s) <= lie
    assert proved.participation(s) <= s.a
    assert study.costs.cdf(proved.joining_threshold(s)) >= 1 - plan.absent_share
    assert proved.threshold(s) <= proved.joining_threshold(s)
    assert cost(plan) <= asked.get("budget", math.inf)
    assert error(plan, asked.get("accuracy_of", "coefficients")) <= asked.get("accuracy", math.inf)
    assert plan.players == asked.get("players", plan.players)
    assert plan.mechanism.epsilon == asked.get("epsilon", plan.mechanism.epsilon)
    assert s.public_share <= MOST_PUBLIC[s.payments] + 1e-12
    if s.clipped:
        assert proved.payable(s) <= s.a
        assert median_slope(study, s) >= asked.get("least_slope", LEAST_SLOPE) * (1 - 1e-9)
    for name in ("estimator", "peer_estimator", "rule", "payments"):
        assert plan.parameters()[name] == asked.get(name, plan.parameters()[name])


@pytest.mark.parametrize(("study", "asked"), [CASES[0], CASES[1], CASES[2], CASES[20]], ids=str)
def test_design_spends_exactly_the_budget_its_bound_promises(study: Study, asked: dict[str, Any]) -> None:
    plan = design(study, **asked)
    assert cost(plan) == pytest.approx(asked["budget"], rel=1e-6)
    promised = plan.guarantees.budget
    assert (
        promised.cap if plan.mechanism.payments == "never-negative" else promised.expected
    ) == pytest.approx(asked["budget"], rel=1e-6)


@pytest.mark.parametrize(("study", "asked"), [CASES[0], CASES[1], CASES[4], CASES[17]], ids=str)
def test_payments_are_the_least_that_will_do(study: Study, asked: dict[str, Any]) -> None:
    """A thousandth less weight lets larger lies pay; a thousandth less base keeps people away or is not payable."""
    plan = design(study, **asked)
    s, lie = as_planned(plan), asked.get("lie", study.beliefs.radius / 2)
    assert proved.lie_size(s.at(b=s.b * 0.999)) > lie
    less = s.at(a=s.a * 0.999 - 1e-6)
    unpayable = s.clipped and proved.payable(less) > less.a
    assert unpayable or proved.participation(less) > less.a


# The figures that must be reached


def ball(dimension: int) -> Study:
    features = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(1, dimension + 1))
    start, end = UNIT_BALL.index("[[features]]"), UNIT_BALL.index("[design]")
    return Study.parse(UNIT_BALL[:start] + features + UNIT_BALL[end:])


@pytest.mark.parametrize(
    ("payments", "dimension", "most"),
    [
        ("expected", 2, 7.5e-4),
        ("expected", 5, 6.1e-3),
        ("expected", 10, 5.0e-2),
        ("never-negative", 2, 1.5e-3),
        ("never-negative", 5, 1.45e-2),
        ("never-negative", 10, 1.45e-1),
    ],
)
def test_five_thousand_dollars_and_twenty_thousand_players_reach_what_is_required(
    payments: str, dimension: int, most: float
) -> None:
    plan = design(ball(dimension), players=20_000, budget=5000, lie=0.5, payments=payments)
    promised = plan.guarantees.accuracy.mean_squared_error
    assert promised is not None
    assert promised <= most
    assert plan.study.beliefs.noise_variance == pytest.approx(
        0.193, abs=0.002
    )  # standard deviation 0.5, cut at 1


# More never hurts


@pytest.mark.slow
@pytest.mark.parametrize("study", [BALL, DESIGN], ids=["ball", "levels"])
@pytest.mark.parametrize(
    "changes",
    [
        [{"budget": budget} for budget in (1000, 2000, 5000, 20_000, 1_000_000)],
        [{"players": players} for players in (5000, 6000, 20_000, 21_000, 300_000)],
        [{"lie": lie} for lie in (0.15, 0.3, 0.31, 0.6, 1.2)],
        [{"failure_probability": beta} for beta in (0.001, 0.01, 0.1)],
        [{"payments": "never-negative"}, {"payments": "expected"}],
        [{"rule": "brier"}, {"rule": "quadratic"}],
    ],
    ids=lambda changes: next(iter(changes[0])),
)
def test_more_money_more_players_and_larger_lies_never_worsen_accuracy(
    study: Study, changes: list[dict[str, Any]]
) -> None:
    errors = [error(design(study, **{"players": 20_000, "budget": 5000, **change})) for change in changes]
    assert all(after <= before for before, after in pairwise(errors))


@pytest.mark.slow
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
@pytest.mark.parametrize("study", [BALL, DESIGN, SEEN], ids=["ball", "levels", "observed"])
def test_the_least_cost_of_the_accuracy_that_a_budget_bought_is_that_budget(
    study: Study, payments: str
) -> None:
    players, budget = (400_000, 100_000.0) if study is SEEN else (20_000, 5000.0)
    bought = design(study, players=players, budget=budget, payments=payments)
    again = design(study, players=players, accuracy=error(bought) * (1 + 1e-6), payments=payments)
    assert cost(again) == pytest.approx(budget, rel=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "asked"),
    [
        (BALL, {"budget": 5000, "accuracy": 0.1}),
        (DESIGN, {"budget": 300, "accuracy": 30.0, "payments": "expected"}),
        (SEEN, {"budget": 20_000, "accuracy": 30.0}),
    ],
    ids=["ball", "levels", "observed"],
)
def test_players_solved_from_a_budget_and_an_accuracy_are_the_fewest(
    study: Study, asked: dict[str, Any]
) -> None:
    plan = design(study, **asked)
    fewer = int(plan.players * 0.99)
    assert all(math.isinf(found.cost) for found in solve(study, Goals(players=fewer, **asked), fewer))


@pytest.mark.slow
def test_players_at_a_given_epsilon_are_about_the_best_number() -> None:
    """Within two per cent of the error, and of the cost: that liars are whole people makes the best number jump."""
    accurate, cheap = design(BALL, budget=5000, epsilon=0.1), design(BALL, accuracy=0.1, epsilon=0.1)
    for n in (4000, 8000, 12_000, 14_000, 15_500, 16_500, 20_000):
        try:
            assert error(accurate) <= 1.02 * error(design(BALL, players=n, budget=5000, epsilon=0.1))
        except Infeasible:
            assert n > accurate.players
    for n in (5600, 5900, 6200, 7000, 12_000):
        try:
            assert cost(cheap) <= 1.03 * cost(design(BALL, players=n, accuracy=0.1, epsilon=0.1))
        except Infeasible:
            assert n < cheap.players


# What is fixed stays fixed


@pytest.mark.parametrize(
    "pins",
    [
        {"absent_share": 0.001},
        {"absent_share": 1 / 30_000},
        {"public_share": 0.7},
        {"estimator": "ridge-ball", "regularization": 700.0},
        {
            "estimator": "ridge-free",
            "peer_estimator": "ridge-free",
            "regularization": 9e3,
            "peer_regularization": 5e3,
        },
        {"estimator": "noisy-statistics", "gram_share": 0.3, "payments": "expected"},
        {"epsilon": 0.05, "absent_share": 0.001, "public_share": 0.7},
    ],
    ids=str,
)
def test_parameters_that_are_given_are_kept(pins: dict[str, Any]) -> None:
    plan = design(BALL, players=20_000, budget=8000, lie=0.8, **pins)
    found = {name: plan.parameters()[name] for name in pins}
    assert found == pins
    free = design(BALL, players=20_000, budget=8000, lie=0.8, payments=plan.mechanism.payments)
    assert error(free) <= error(plan)


@pytest.mark.slow
def test_no_plan_is_made_for_payments_that_a_plan_refuses() -> None:
    assert MOST_PAID == LARGEST_PAYMENT
    plan = design(BALL, players=200, budget=1e15)
    assert max(plan.mechanism.base_payment, plan.mechanism.score_weight) <= LARGEST_PAYMENT


# Records


def test_the_same_goals_give_the_same_plan_also_in_another_process() -> None:
    code = (
        "import sys; from truthful.plan import design; from truthful.study import Study; "
        "print(design(Study.parse(sys.stdin.read()), players=20_000, budget=5000.0).sha256)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], input=DESIGNED, capture_output=True, text=True, check=True
    )
    assert design(DESIGN, players=20_000, budget=5000.0).sha256 == other.stdout.strip()
    assert design(Study.parse(DESIGNED), players=20_000, budget=5000).sha256 == other.stdout.strip()


def test_a_plan_tells_what_was_asked_and_what_it_was_chosen_from() -> None:
    plan = design(DESIGN, players=20_000, budget=5000, lie=0.25)
    record = json.loads(json.dumps(plan.record()))["answer"]
    assert record["asked"] == {"players": 20_000, "budget": 5000, "lie": 0.25}
    assert record["minimised"] == "error"
    assert isinstance(plan.answer, Answer)
    errors = [row["error"] for row in record["compared"] if row["error"] is not None]
    assert errors == sorted(errors)
    assert errors[0] == pytest.approx(error(plan), rel=1e-9)
    assert design(DESIGN, players=20_000, accuracy=20.0).record()["answer"]["minimised"] == "cost"
    assert (
        design(DESIGN, players=20_000, epsilon=0.1).record()["answer"]["minimised"] == "cost × squared error"
    )


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (DESIGNED, {"players": 900, "budget": 8000, "payments": "expected"}),
        (DESIGNED, {"players": 3000, "budget": 3000}),
        (UNIT_BALL, {"players": 900, "budget": 3000, "estimator": "ridge-ball", "payments": "expected"}),
    ],
    ids=["expected", "never negative", "ridge"],
)
def test_a_plan_that_was_solved_for_is_read_back_and_carried_out(
    tmp_path: Path, text: str, asked: dict[str, Any]
) -> None:
    plan = design(saved_study(tmp_path, text), **asked)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.guarantees == plan.guarantees
    settled = settle(loaded, people(plan.study, plan.players).reports, out=tmp_path / "out", seed=3)
    paid = np.asarray(settled.payments["payment"], dtype=float)
    assert len(paid) == plan.players
    if plan.mechanism.payments == "never-negative":
        assert paid.min() >= 0
        assert paid.sum() <= asked["budget"]


# What is not enough, or not a number


@pytest.mark.parametrize(
    ("asked", "have"),
    [
        ({}, "nothing"),
        ({"players": 1000}, "players alone"),
        ({"budget": 10}, "budget alone"),
        ({"accuracy": 0.1}, "accuracy alone"),
        ({"epsilon": 0.1}, "epsilon alone"),
        ({"epsilon": 0.1, "lie": 0.3}, "epsilon alone"),
    ],
    ids=str,
)
def test_too_few_goals_say_what_to_add(asked: dict[str, Any], have: str) -> None:
    with pytest.raises(InputError, match=f"from {have}. Give two of players, budget, accuracy and epsilon"):
        design(BALL, **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"players": 1}, "players is 1; it must be at least 2"),
        ({"players": True}, "players is True; it must be a whole number"),
        ({"players": 10.5}, "players is 10.5; it must be a whole number"),
        ({"players": "many"}, "players is 'many'"),
        ({"players": 2_000_000_000}, "players is 2000000000; plans are made for up to 1,000,000,000"),
        *(
            ({name: 0}, f"{name} is 0; it must be above 0")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        *(
            ({name: -1}, f"{name} is -1; it must be above 0")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        *(
            ({name: math.nan}, f"{name} is nan; it must be a finite")
            for name in ("budget", "accuracy", "lie")
        ),
        *(
            ({name: math.inf}, f"{name} is inf; it must be a finite")
            for name in ("budget", "accuracy", "epsilon")
        ),
        *(
            ({name: "x"}, f"{name} is 'x'; it must be a number")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        ({"epsilon": 1e-9}, "epsilon is 1e-09; it must lie between"),
        ({"epsilon": 1000}, "epsilon is 1000; it must lie between"),
        ({"accuracy_of": "luck"}, "accuracy_of is 'luck'; choose one of coefficients, predictions"),
        ({"least_slope": 1.0}, "least_slope is 1.0; it must lie strictly between 0 and 1"),
        ({"failure_probability": 0.0}, "failure_probability is 0.0"),
        ({"estimator": "magic"}, "estimator is 'magic'; choose one of"),
        ({"peer_estimator": "ridge-ball"}, "peer_estimator is 'ridge-ball'; choose one of"),
        ({"rule": "flat"}, "rule is 'flat'; choose one of"),
        ({"payments": "some"}, "payments is 'some'; choose one of"),
        ({"base_payment": 1.0}, "base_payment is 1.0, without a score_weight"),
        ({"absent_share": -0.1}, "absent_share is -0.1"),
        ({"absent_share": 1.0}, "absent_share is 1.0"),
        ({"absent_share": math.nan}, "absent_share is nan"),
        ({"public_share": 1.5}, "public_share is 1.5"),
        ({"gram_share": 0}, "gram_share is 0"),
        ({"regularization": -3.0, "estimator": "ridge-ball"}, "regularization is -3.0; it must be above 0"),
        ({"regularization": "x", "estimator": "ridge-ball"}, "regularization is 'x'; it must be a number"),
        ({"colour": "red"}, "Unknown parameter 'colour'"),
    ],
    ids=str,
)
def test_a_bad_goal_is_named_shown_and_put_right(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        design(BALL, **{"players": 20_000, "budget": 5000.0, **asked})


@pytest.mark.parametrize(
    ("study", "asked"),
    [
        (SEEN, {"estimator": "known-design"}),
        (SEEN, {"peer_estimator": "known-design"}),
        (SEEN, {"peer_estimator": "ridge-free"}),
        (DESIGN, {"peer_estimator": "ridge-free"}),
    ],
    ids=["observed", "observed peers", "ridge peers of observed", "ridge peers of levels"],
)
def test_estimators_that_do_not_fit_the_design_are_refused_by_name(
    study: Study, asked: dict[str, Any]
) -> None:
    with pytest.raises(
        InputError, match=f"{next(iter(asked.values()))!r}.*design of kind {study.design.kind!r}"
    ):
        design(study, players=20_000, budget=5000, **asked)


def test_goals_and_a_score_weight_are_not_both_given() -> None:
    with pytest.raises(InputError, match="budget and score_weight are both given"):
        design(BALL, players=100, budget=10, epsilon=1.0, score_weight=0.1)
    with pytest.raises((InputError, Refused), match="players is missing"):
        design(BALL, epsilon=1.0, score_weight=0.1)


def test_an_accuracy_that_asks_for_nothing_is_no_trouble() -> None:
    study = Study.parse(DESIGNED)
    asked = Goals(players=20_000, accuracy=1e300)
    assert asked.error(study) == pytest.approx(1e200)

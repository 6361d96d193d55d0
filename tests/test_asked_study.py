"""Studies that ask what the others will say: what is declared, what is refused, and the plans made from it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.asked import FEATURES, plan, reports, study, text

from truthful import InputError, Refused, Release, Study, WorseThanPromised, design, settle
from truthful.asked_release import OWN_CENTRE, SERUM, AskedRelease
from truthful.noise import L2Laplace
from truthful.one_release import SumRelease
from truthful.plan import Plan
from truthful.planner import Infeasible
from truthful.planner.goals import ASKED_PARAMETERS
from truthful.release import Receipt, read_release
from truthful.settlement.checks import MeasuredPeople, require_promised

PREDICTIONS = 'centre = "predictions"'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("sure = 10\n", ""), "sure is missing. Say how far people may be off about the average"),
        (("spread = 15", ""), "spread is missing. Say how far answers scatter about it"),
        (
            ("spread = 15", "spread = 15\nsignal = 0.5"),
            'signal declares what centre = "predictions" asks people for',
        ),
        ((PREDICTIONS, ""), 'spread goes with centre = "predictions"'),
        (
            ("spread = 15", "spread = 15\nplausible = [60, 2]"),
            "plausible is [60, 2]. Give the least and the largest",
        ),
        (("spread = 15", 'spread = 15\nimplausible = "flat"'), "needs to know what is plausible"),
        (('protects = "answers"', 'protects = "records"'), 'it needs privacy.protects = "answers"'),
        (("[design]", "intercept = false\n[design]"), "intercept"),
        (('name = "units"', 'name = "prediction"'), "The name 'prediction' is taken"),
        (('name = "units"', 'name = "surprise"'), "The name 'surprise' is taken"),
        (("[design]", FEATURES), "effect is missing. Say how much one feature"),
        (("[costs]", "[payments]\nprediction_bonus = 0.7\n[costs]"), "it must be 0.5 or below"),
    ],
)
def test_what_does_not_go_together_is_told(change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError) as error:
        Study.parse(text().replace(*change))
    assert said in str(error.value)


def test_people_cannot_be_less_sure_than_the_shares_allow() -> None:
    with pytest.raises(
        InputError, match=r"sure is 0\.2, but within \[0\.15, 0\.6\] nobody can be less sure than 0\.13"
    ):
        Study.parse(text("yes-no").replace("sure = 0.07", "sure = 0.2"))


def test_a_prediction_bonus_without_predictions_is_refused() -> None:
    declared = text().replace(PREDICTIONS, "signal = 0.5").replace("sure = 10\nspread = 15", "")
    with pytest.raises(InputError, match="prediction_bonus goes with"):
        Study.parse(declared.replace("[costs]", "[payments]\nprediction_bonus = 0.2\n[costs]"))


def test_slopes_are_those_of_linear_credibility() -> None:
    levels = study().levels
    assert levels is not None
    assert levels.slope == pytest.approx(4 / 13)  # 10²/(10² + 15²)
    yes_no = study("yes-no").levels
    assert yes_no is not None
    assert yes_no.slope == pytest.approx(0.07**2 / (0.375 * 0.625))


@given(st.floats(18, 90), st.sampled_from(["f", "m"]))
def test_an_answer_says_less_of_everybody_than_of_people_like_her(age: float, sex: str) -> None:
    declared = study("number", True)
    levels = declared.levels
    assert levels is not None
    x = declared.normalise({"age": np.array([age]), "sex": np.array([sex])})
    c = np.array([1 / levels.scale, 0.05, -0.1])
    s, k, v = levels.slopes(x, c), levels.level_slopes(x, c), levels.variances(x, c)
    assert 0 < k[0] <= s[0] < 1
    assert v[0] >= levels.sure**2
    assert s[0] == pytest.approx(v[0] / (v[0] + 0.09))


def test_differences_are_expected_from_the_average_person() -> None:
    declared = study("number", True)
    levels = declared.levels
    assert levels is not None
    x = declared.normalise({"age": np.array([18.0, 90.0]), "sex": np.array(["m", "m"])})
    old, young = levels.offsets(x, x.mean(axis=0))[::-1]
    assert (old - young) * declared.response_unit == pytest.approx(4.0)


def test_answers_and_predictions_have_the_whole_scale() -> None:
    declared = study()
    assert declared.half_range == 1
    assert declared.normalise_predictions([0.0, 50.0, 100.0]).tolist() == [-1, 0, 1]
    assert study("yes-no").prediction_range == (0, 100)
    assert study("rating").prediction_range == (1, 3)


@pytest.mark.parametrize(
    ("kind", "rule"), [("number", OWN_CENTRE), ("rating", OWN_CENTRE), ("yes-no", SERUM)]
)
def test_a_plan_is_what_its_file_says(kind: str, rule: str) -> None:
    planned = plan(kind)
    again = Plan.parse(json.dumps(planned.record()))
    assert again.sha256 == planned.sha256
    assert again.guarantees == planned.guarantees
    assert again.asked_mechanism is not None
    assert again.asked_mechanism.rule == rule
    assert again.parameters() == planned.parameters()


def test_every_number_of_the_mechanism_changes_the_hash() -> None:
    planned = plan()
    mechanism = planned.asked_mechanism
    assert mechanism is not None
    numbers = [name for name in ASKED_PARAMETERS if isinstance(getattr(mechanism, name), float)]
    others: list[dict[str, Any]] = [{name: 2 * getattr(mechanism, name)} for name in numbers]
    others += [{"rule": SERUM}, {"plausible": (-0.5, 0.5)}]
    hashes = [replace(planned, mechanism=replace(mechanism, **other)).sha256 for other in others]
    assert len({planned.sha256, *hashes}) == 1 + len(others)
    assert {*numbers, "rule", "estimator"} == set(ASKED_PARAMETERS)


def test_a_plan_spends_its_budget_and_no_more() -> None:
    planned = plan()
    cap = planned.guarantees.budget.cap
    assert cap is not None
    assert 0.999 * 8000 < cap <= 8000
    mechanism = planned.asked_mechanism
    assert mechanism is not None
    assert mechanism.prediction_payment == pytest.approx(0.1 * cap / 400, rel=1e-6)


def test_an_accuracy_costs_the_least_and_the_rest_is_flat() -> None:
    cheap = design(study(), players=2000, accuracy=2.0)
    cap = cheap.guarantees.budget.cap
    assert cap is not None
    assert cheap.guarantees.accuracy.rmse == pytest.approx(2.0, rel=0.02)
    with pytest.raises(Infeasible):
        design(study(), players=2000, accuracy=2.0, budget=cap * 0.97)
    rich = design(study(), players=2000, accuracy=2.0, budget=cap * 2)
    mechanism, least = rich.asked_mechanism, cheap.asked_mechanism
    assert mechanism is not None
    assert least is not None
    assert mechanism.score_weight == pytest.approx(least.score_weight, rel=1e-6)
    assert mechanism.base_payment == pytest.approx(least.base_payment + cap / 2000, rel=1e-3)


def test_smaller_lies_cost_more() -> None:
    errors = [
        design(study(), players=2000, budget=2000, lie=lie).guarantees.accuracy.rmse for lie in (10, 20, 40)
    ]
    assert all(error is not None for error in errors)
    assert errors == sorted(errors, key=lambda error: -(error or 0))


def test_a_lie_of_the_size_that_was_asked_for_does_not_pay() -> None:
    truth = design(study(), players=2000, budget=2000, lie=15).guarantees.truthfulness
    assert truth.lie_in_answer == pytest.approx(15, rel=1e-3)
    assert truth.centre_tolerance == pytest.approx(4 / 9 * 15 / 2, rel=1e-3)


def test_people_who_are_nearly_certain_of_the_average_cannot_be_asked() -> None:
    with pytest.raises(
        Refused, match=r"by 0\.017 of it, and below 0\.02 no payment can tell the truth from a lie"
    ):
        design(Study.parse(text().replace("sure = 10", "sure = 2")), players=2000, budget=2000)


def test_what_is_infeasible_says_what_would_help() -> None:
    with pytest.raises(Infeasible) as error:
        design(study("yes-no"), players=300, budget=30)
    remedies = {remedy.goal: remedy.value for remedy in error.value.remedies}
    assert design(study("yes-no"), players=300, budget=remedies["budget"]).guarantees.accuracy.rmse
    with pytest.raises(Infeasible):
        design(study("yes-no"), players=300, budget=0.9 * remedies["budget"])


def test_parameters_are_solved_for() -> None:
    with pytest.raises(InputError, match="score_weight is solved for where people are asked for predictions"):
        design(study(), players=2000, epsilon=0.1, score_weight=1.0)


def test_a_release_says_what_people_expected() -> None:
    """Of 20 studies 95 % intervals hold the average prediction in 14 or more: they miss more with probability 4e-5."""
    table, held = reports(), 0
    predicted = float(np.mean(table.column("prediction").to_numpy()))
    for seed in range(20):
        release = settle(plan(), table, seed=seed).release
        assert isinstance(release, Release)
        found = release.predictions
        assert found is not None
        assert found.centre is not None
        held += found.prediction.low < predicted < found.prediction.high
    assert held >= 14
    again = read_release(json.dumps(release.record()).encode())
    assert again == release


def warnings(table: pa.Table) -> tuple[str, ...]:
    release = settle(plan(), table, seed=2).release
    assert isinstance(release, Release)
    return release.warnings


def test_a_surprise_that_nobody_allowed_for_withdraws_what_was_promised() -> None:
    table, rng = reports(), np.random.default_rng(1)
    careless = table.set_column(2, "prediction", pa.array(np.clip(rng.normal(95, 1, len(table)), 0, 100)))
    (warning,) = warnings(careless)
    assert "a greater surprise than they are declared to allow" in warning
    assert "what was promised of truthfulness and accuracy does not hold" in warning
    assert warnings(table) == ()


@pytest.mark.parametrize("column", ["units", "prediction"])
def test_whether_it_is_refused_does_not_depend_on_what_anybody_said(column: str) -> None:
    """The warnings above follow from released numbers; refusals come before the draw and from features alone."""
    table = reports("number", True)
    other = table.set_column(table.column_names.index(column), column, pa.array(np.full(len(table), 100.0)))
    few = [one.slice(0, 700) for one in (table, other)]
    said = []
    for one in few:
        with pytest.raises(WorseThanPromised) as error:
            settle(plan("number", True), one, seed=1)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_larger_lies_than_promised_are_less_than_promised() -> None:
    made = plan()
    promised = made.guarantees
    lie = promised.truthfulness.lie_in_answer
    assert lie is not None
    found = replace(promised, truthfulness=replace(promised.truthfulness, lie_in_answer=1.2 * lie))
    as_promised, worse = (MeasuredPeople(one, (), None, None) for one in (promised, found))
    require_promised(made, as_promised, made.players, accept_less=False)
    with pytest.raises(WorseThanPromised, match=r"lies pay up to 24\.0 instead of 20\.0"):
        require_promised(made, worse, made.players, accept_less=False)
    require_promised(made, worse, made.players, accept_less=True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "Column 'prediction' of player 'p3' is missing"),
        (130.0, "is 130, outside its declared range [0, 100]"),
    ],
)
def test_a_prediction_that_is_missing_or_out_of_range_is_told(value: float | None, said: str) -> None:
    predictions = reports().column("prediction").to_pylist()
    predictions[3] = value
    table = reports().set_column(2, "prediction", pa.array(predictions))
    with pytest.raises(InputError) as error:
        settle(plan(), table, seed=1)
    assert said in str(error.value)


def test_a_prediction_out_of_range_is_cut_and_counted_where_numbers_may_be() -> None:
    predictions = reports().column("prediction").to_pylist()
    predictions[3] = 130.0
    settled = settle(
        plan(), reports().set_column(2, "prediction", pa.array(predictions)), seed=1, on_bad="clip"
    )
    assert settled.summary["records"]["clipped"] == 1
    receipt = settled.receipt("p3")
    assert isinstance(receipt, Receipt)
    assert receipt.prediction == 100


def test_reports_without_predictions_are_refused() -> None:
    with pytest.raises(InputError, match="prediction"):
        settle(plan(), reports().drop_columns(["prediction"]), seed=1)


def test_noise_of_the_second_question_is_what_was_set_out_for() -> None:
    """(d+2)(1+ρ²)/(d+1) at ρ = 0.3: 1.64 and 1.27 at d = 1 and 5, at most 1.7 and 1.3."""
    beliefs = study().believed
    for d, most in ((1, 1.7), (5, 1.3)):
        transform = tuple(tuple(1024 * (i == j) for j in range(d)) for i in range(d))
        alone = SumRelease(epsilon=0.1, transform=transform)
        asked = AskedRelease(
            epsilon=0.1,
            transform=transform,
            rule=SERUM,
            ratio=307 / 1024,
            base_payment=1.0,
            score_weight=1.0,
            prediction_weight=1.0,
            clip=1.0,
        )
        one, two = L2Laplace(d, alone.scale(beliefs)), L2Laplace(d + 1, asked.scale(beliefs))
        assert 1 < two.marginal_variance / one.marginal_variance < most

"""Plans for yes and no and for ratings: reference numbers, both ways to ask, and what is said where there is none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.shares import plan_of, study_of, two_levels

from truthful.bounds.share_bounds import ShareSetting, gain
from truthful.errors import InputError
from truthful.one_release import OneRelease
from truthful.plan import Plan, design
from truthful.planner import Infeasible
from truthful.planner.panel import _parts
from truthful.share_release import ShareRelease
from truthful.study.credibility import expected_shares


@pytest.mark.parametrize(
    ("players", "bonus", "points", "epsilon"),
    [
        (500, 0.25, 3.48, 0.136),
        (2_000, 0.25, 1.38, 0.117),
        (2_000, 1.0, 1.23, 0.155),
        (2_000, 2.0, 1.19, 0.221),
        (20_000, 0.25, 0.38, 0.069),
    ],
)
def test_a_single_share_is_as_accurate_as_the_reference(
    players: int, bonus: float, points: float, epsilon: float
) -> None:
    plan = design(study_of(), players=players, budget=bonus * players)
    assert 100 * (plan.guarantees.accuracy.rmse or math.inf) <= points * 1.005
    assert plan.mechanism.epsilon == pytest.approx(epsilon, rel=0.08)
    assert plan.guarantees.budget.cap == pytest.approx(bonus * players)
    assert plan.guarantees.truthfulness.steps == 1


@pytest.mark.parametrize(
    ("players", "points", "cents"), [(2_000, 2.0, 3.0), (20_000, 0.5, 1.15), (200_000, 0.2, 0.06)]
)
def test_with_an_accuracy_the_bonus_is_the_least_and_the_rest_a_flat_fee(
    players: int, points: float, cents: float
) -> None:
    study = study_of(implausible='"paid"')  # as the reference has it
    plan = design(study, players=players, accuracy=points / 100, budget=0.25 * players)
    assert plan.share_mechanism is not None
    assert 100 * plan.share_mechanism.bonus <= cents
    assert plan.share_mechanism.flat + plan.share_mechanism.bonus == pytest.approx(0.25)
    assert plan.guarantees.accuracy.rmse == pytest.approx(points / 100, rel=1e-6)
    alone = design(study, players=players, accuracy=points / 100)
    assert alone.share_mechanism is not None
    assert alone.share_mechanism.flat == 0
    assert alone.share_mechanism.bonus == pytest.approx(plan.share_mechanism.bonus)


def test_effects_of_features_that_are_assigned() -> None:
    study = study_of((0.2, 0.5), two_levels(4), "uniform", effect=0.1)
    sup, l2 = (design(study, players=20_000, budget=5_000, norm=norm) for norm in (None, "l2"))
    assert sup.share_mechanism is not None
    assert sup.share_mechanism.norm == "sup"
    assert 100 * (sup.guarantees.accuracy.effect_rmse or math.inf) <= 1.01
    assert 100 * (l2.guarantees.accuracy.effect_rmse or 0.0) >= 1.1
    for norm, reference in (("sup", 0.0363), ("l2", 0.0444)):
        found = design(study, players=2_000, budget=2_000, norm=norm).guarantees.accuracy.effect_rmse
        assert found == pytest.approx(reference, rel=0.06)


def test_the_script_that_measures_them_finds_the_effects_that_were_set_out_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From a roster; at most 1.1 points, 0.97 were hoped for."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import yes_no_figures as script

    found = script.points(script.planned(20_000, 5, from_roster=True))
    figure = script.Figure("effect", found, (0, 1.1), (0, 0.97), 2)
    assert figure.line() == "| effect | 0.97 | 1.10 | 0.97 |"
    assert (
        script.Figure("effect", 1.2, (0, 1.1), (0, 0.97), 2).line()
        == "| effect | 1.20 (missed) | 1.10 | 0.97 |"
    )


def test_the_error_that_was_asked_for_is_optimised_and_recorded_with_its_bound() -> None:
    effects, predictions = (
        plan_of("features", 5_000, budget=2_500.0, accuracy_of=of) for of in ("coefficients", "predictions")
    )
    accurate = plan_of("features", 5_000, accuracy=0.04, accuracy_of="predictions")
    for plan, of in ((effects, "coefficients"), (predictions, "predictions"), (accurate, "predictions")):
        answer, found = plan.record()["answer"], plan.guarantees.accuracy
        bound = found.effect_rmse if of == "coefficients" else found.prediction_rmse
        assert (answer["error_of"], answer["error"]) == (of, pytest.approx(bound))
        assert answer["asked"].get("accuracy_of", "coefficients") == of
    assert accurate.record()["answer"]["error"] <= 0.04
    best = effects.guarantees.accuracy, predictions.guarantees.accuracy
    assert (best[1].prediction_rmse or math.inf) < (best[0].prediction_rmse or 0.0)


def test_numbers_and_records_have_noise_by_the_usual_norm_alone() -> None:
    shared: dict[str, Any] = {"epsilon": 1.0, "base_payment": 0.0, "score_weight": 1.0, "clip": 0.5}
    with pytest.raises(InputError, match="norm is 'sup', which goes with yes and no and with ratings"):
        OneRelease(**shared, transform=((1024,),), norm="sup")
    with pytest.raises(InputError, match="norm is 'sup', which goes with instruments"):
        ShareRelease(epsilon=1.0, estimator="known-design", design=np.eye(1), flat=0.0, bonus=1.0, norm="sup")


def test_without_features_there_is_one_norm() -> None:
    plan = design(study_of(), players=2_000, budget=500)
    assert plan.share_mechanism is not None
    assert plan.share_mechanism.norm == "l2"


def test_the_smallest_panel_that_is_worth_asking() -> None:
    assert design(study_of(), players=189, budget=0.25 * 189).guarantees.truthfulness.steps == 1
    with pytest.raises(
        Infeasible, match=r"no plan guarantees an error below 10\.1 percentage points"
    ) as told:
        design(study_of(), players=100, budget=25)
    for remedy in told.value.remedies:
        given: dict[str, Any] = {"players": 100, "budget": 25.0}
        if remedy.goal == "players":
            given = {"players": int(remedy.value), "budget": 0.25 * remedy.value}
        else:
            given[remedy.goal] = remedy.value
        assert design(study_of(), **given).guarantees.truthfulness.steps == 1
    assert {remedy.goal for remedy in told.value.remedies} == {"budget", "players"}


def test_with_features_the_fewest_who_would_do_are_found_from_a_rough_guess() -> None:
    study, each = study_of((0.2, 0.5), two_levels(2), "uniform", effect=0.1), 0.1
    with pytest.raises(Infeasible) as told:
        design(study, players=500, budget=50)
    more = next(remedy.value for remedy in told.value.remedies if remedy.goal == "players")
    assert design(study, players=round(more), budget=each * more).guarantees.truthfulness.steps == 1
    with pytest.raises(Infeasible):
        design(study, players=round(0.93 * more), budget=each * 0.93 * more)


def test_people_who_are_alike_are_counted_and_the_same_is_found() -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(2, 7, 3)) / 4 + np.eye(7, 3)
    counts = np.array([30, 20, 90, 25, 40, 300, 50])
    everybody = _parts(np.repeat(X, counts, axis=0), np.repeat(Z, counts, axis=0))
    assert everybody is not None
    assert _parts(X, Z, counts.astype(float)) == pytest.approx(everybody)


def test_players_are_found_for_a_budget_and_an_accuracy() -> None:
    plan = design(study_of(), budget=300, accuracy=0.02)
    assert plan.guarantees.accuracy.rmse is not None
    assert plan.guarantees.accuracy.rmse <= 0.02
    with pytest.raises(Infeasible):
        design(study_of(), players=round(0.95 * plan.players), budget=300 * 0.95, accuracy=0.02)


def test_the_truth_pays_for_everybody_of_the_promised_share() -> None:
    plan = design(study_of(), players=2_000, budget=500)
    truth, mechanism = plan.guarantees.truthfulness, plan.share_mechanism
    assert mechanism is not None
    assert truth.gain is not None
    cost = plan.study.costs.upper_quantile(1 - truth.share)
    assert truth.gain == pytest.approx(float(cost) * mechanism.epsilon**2, rel=1e-3)
    assert truth.share >= 1 - plan.absent_share


def test_a_larger_margin_or_fewer_liars_never_make_more_of_clipping() -> None:
    plan = design(study_of(), players=500, budget=125)
    assert plan.panel is not None
    assert plan.study.shares is not None

    def earned(margin: float, alpha: float, tolerance: float = math.inf) -> float:
        assert plan.panel is not None
        assert plan.study.shares is not None
        s = ShareSetting(
            study=plan.study,
            beliefs=plan.study.shares,
            geometry=plan.panel.geometry(500, 1.0),
            n=500,
            alpha=np.array([alpha]),
            epsilon=np.array([0.1]),
            beta=0.01,
            margin=margin,
            tolerance=tolerance,
        )
        return float(gain(s)[0, 0])

    assert earned(0.02, 0.002) > earned(0.0, 0.002)
    assert earned(0.02, 0.002) > earned(0.02, 0.01)
    assert earned(0.02, 0.002) > earned(0.02, 0.002, tolerance=0.05)


@pytest.mark.parametrize(
    ("levels", "share", "steps"),
    [(3, (0.2, 0.6), 1), (5, (0.2, 0.6), 2), (5, (0.05, 0.4), 3), (7, (0.2, 0.6), 2), (10, (0.2, 0.6), 4)],
)
def test_ratings_promise_from_how_many_steps_on_no_lie_pays(
    levels: int, share: tuple[float, float], steps: int
) -> None:
    """Whatever she answers: what her answer really expects of the others is no line, and that is allowed for."""
    plan = design(study_of(share, levels=levels), players=20_000, budget=5_000)
    truth, mechanism, beliefs = plan.guarantees.truthfulness, plan.share_mechanism, plan.study.shares
    assert truth.steps == steps
    assert truth.gain is not None
    assert mechanism is not None
    assert beliefs is not None
    answers, one = np.linspace(-1, 1, levels), np.ones((1, 1))
    expected = expected_shares(beliefs, one)[0]
    believed = beliefs.expects(one)
    delta, width = float(believed.advantage[0]), float(believed.width(mechanism.margin)[0])
    phi = (expected - believed.switch[0]) / width
    for k in range(levels):
        paid = mechanism.bonus / 2 * (1 + phi[k] * answers + delta / (2 * width) * (1 - answers**2))
        for lie in range(levels):
            if abs(lie - k) >= steps:
                assert paid[k] - paid[lie] >= truth.gain


def test_ratings_can_be_asked_for_every_step() -> None:
    study = study_of((0.2, 0.6), levels=5)
    usual, every = (design(study, players=20_000, budget=5_000, lie=lie) for lie in (None, 1))
    assert every.guarantees.truthfulness.steps == 1
    assert (every.guarantees.accuracy.rmse or 0) > (usual.guarantees.accuracy.rmse or math.inf)
    with pytest.raises(Infeasible, match="with no lie of 1 steps or more paying"):
        design(study_of((0.05, 0.4), levels=5), players=20_000, budget=5_000, lie=1)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    for given in ({"players": 2_000, "budget": 500}, {"players": 2_000, "accuracy": 0.02, "budget": 500}):
        plan = design(study_of(), **given)
        plan.save(tmp_path / "plan.json")
        again = Plan.load(tmp_path / "plan.json")
        assert again.sha256 == plan.sha256
        assert again.guarantees == plan.guarantees
    paid = design(study_of(implausible='"paid"'), players=2_000, budget=500)
    assert paid.share_mechanism is not None
    assert math.isinf(paid.share_mechanism.tolerance)
    paid.save(tmp_path / "paid.json")
    assert Plan.load(tmp_path / "paid.json").sha256 == paid.sha256


def test_with_a_bonus_nothing_is_solved_for() -> None:
    plan = design(study_of(), players=2_000, epsilon=0.1, bonus=0.25, flat=1.0)
    assert plan.guarantees.truthfulness.steps == 1
    assert plan.guarantees.budget.cap == pytest.approx(2_500)
    assert plan.share_mechanism is not None
    assert plan.share_mechanism.tolerance < 0.05
    too_little = design(study_of(), players=2_000, epsilon=1.0, bonus=0.01)
    assert too_little.guarantees.truthfulness.steps is None
    with pytest.raises(InputError, match="epsilon is missing: with a bonus nothing is solved for"):
        design(study_of(), players=2_000, bonus=0.25)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"score_weight": 0.1}, "score_weight goes with answers that are numbers"),
        ({"clip": 0.3}, "clip is 0.3. It goes with answers that are numbers"),
        ({"flat": 0.3}, "flat is 0.3. Give a bonus too"),
        ({"norm": "l1"}, "norm is 'l1'"),
        ({"lie": 2}, "lie is 2; of 2 answers a lie is from 1 to 1 steps long"),
    ],
)
def test_what_does_not_fit_is_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        design(study_of(), players=2_000, budget=500, **given)


def test_every_parameter_changes_the_hash() -> None:
    plain: dict[str, Any] = {"players": 2_000, "epsilon": 0.1, "bonus": 0.25}
    others: list[dict[str, Any]] = [
        {},
        {"players": 2_001},
        {"epsilon": 0.11},
        {"bonus": 0.26},
        {"flat": 0.1},
        {"margin": 0.01},
        {"tolerance": 0.05},
        {"norm": "sup"},
        {"absent_share": 0.003},
        {"failure_probability": 0.02},
        {"response_share": 0.9},
    ]
    hashes = [design(study_of(), **{**plain, **other}).sha256 for other in others]
    assert len(set(hashes)) == len(hashes)


def test_all_saying_no_is_implausible_if_that_can_be_had() -> None:
    """For a little of what the truth earns, a share of 0 is further off than the tolerance."""
    study = study_of()
    for players, accuracy in ((2_000, None), (2_000, 0.02), (20_000, 0.005)):
        plan = design(study, players=players, budget=0.25 * players, accuracy=accuracy)
        assert plan.share_mechanism is not None
        assert plan.share_mechanism.tolerance < 0.05
        assert plan.guarantees.truthfulness.steps == 1
    # With so few people chance alone can lead that far.
    few = design(study, players=200, budget=50)
    assert few.share_mechanism is not None
    assert few.share_mechanism.tolerance > 0.05

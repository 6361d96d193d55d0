"""The five guarantees of a plan: their order, their honesty where nothing can be promised, and the bill they state."""

import math
from itertools import pairwise

import numpy as np
import pytest
from studies import CASES, DESIGNED, OBSERVED, UNIT_BALL, planned

from truthful.bounds import proved
from truthful.bounds.accuracy import EVENTS
from truthful.errors import InputError
from truthful.files import canonical_json
from truthful.guarantees import inaccurate_because, setting, untruthful_because
from truthful.plan import Plan, design
from truthful.regression import private_regression
from truthful.study import Study

UNDECLARED = DESIGNED.replace('kind = "uniform"', 'kind = "observed"')
BOUNDED_COSTS = DESIGNED.replace(
    'kind = "pareto"\ntail = 2.0\nscale = 0.05', 'kind = "empirical"\nprobabilities = [0, 1]\nvalues = [0, 2]'
)


def case(estimator: str, players: int = 20_000) -> Plan:
    text, parameters = CASES[estimator]
    return planned(Study.parse(text), players, estimator, **parameters)


@pytest.mark.parametrize("estimator", CASES)
def test_the_five_stand_in_their_order_with_their_names_and_can_be_written(estimator: str) -> None:
    record = case(estimator).guarantees.record()
    fields = {
        "privacy": {"epsilon"},
        "truthfulness": {"lie", "slack", "share", "slope", "lie_in_answer"},
        "accuracy": {"mean_squared_error", "rmse", "prediction_rmse"},
        "participation": {"share", "cost_threshold"},
        "budget": {"expected", "cap", "likely"},
    }
    assert list(record) == list(fields)
    for name, group in record.items():
        assert set(group) == fields[name] | {"probability", "assumptions"}
    canonical_json(record)  # refuses NaN and infinity


@pytest.mark.parametrize("estimator", CASES)
def test_every_estimator_promises_something_finite_to_enough_players(estimator: str) -> None:
    promised = case(estimator, 100_000).guarantees
    assert promised.truthfulness.lie is not None
    assert promised.accuracy.mean_squared_error is not None
    assert promised.budget.cap is not None
    assert promised.accuracy.probability == pytest.approx(1 - EVENTS[estimator] * 0.01)


@pytest.mark.parametrize("estimator", CASES)
def test_more_players_never_make_a_promise_worse(estimator: str) -> None:
    """The share α is held. A free ridge is let off: its sensitivity grows with the players at a given penalty."""
    plan = case(estimator)
    for fewer, more in pairwise(
        plan.guarantees_for(players) for players in (2000, 8000, 32_000, 128_000, 512_000)
    ):
        if estimator != "ridge-free":
            assert (more.accuracy.mean_squared_error or 0) <= (fewer.accuracy.mean_squared_error or math.inf)
        assert (more.truthfulness.lie or 0) <= (fewer.truthfulness.lie or math.inf)
        assert (more.participation.share or 0) >= (fewer.participation.share or 0)


@pytest.mark.parametrize("players", [2, 3, 7])
@pytest.mark.parametrize("estimator", CASES)
def test_a_handful_of_players_gets_a_plan_and_no_false_promise(estimator: str, players: int) -> None:
    promised = case(estimator, players).guarantees
    error, R2 = promised.accuracy.mean_squared_error, case(estimator).study.beliefs.radius ** 2
    assert error is None or error > R2
    canonical_json(promised.record())


def test_privacy_assumes_nothing() -> None:
    privacy = case("known-design").guarantees.privacy
    assert (privacy.epsilon, privacy.probability, privacy.assumptions) == (2.0, 1.0, ())


def test_observed_features_without_a_declared_spread_promise_privacy_and_a_cap_only() -> None:
    plan = planned(Study.parse(UNDECLARED))
    promised = plan.guarantees
    assert promised.truthfulness.lie is None
    assert promised.truthfulness.slack is None
    assert promised.accuracy.mean_squared_error is None
    assert promised.accuracy.rmse is None
    assert promised.participation.share == 0.0
    assert promised.budget.expected == promised.budget.cap == pytest.approx(500 * 0.5 * 4 * 0.36)
    assert "least_eigenvalue" in inaccurate_because(plan.study)
    assert "least_eigenvalue" in untruthful_because(plan.study, plan.mechanism, 0.01)


def test_nobody_absent_needs_costs_with_a_bound() -> None:
    unbounded = planned(Study.parse(DESIGNED), absent_share=0.0)
    assert unbounded.guarantees.truthfulness.lie is None
    assert unbounded.guarantees.accuracy.mean_squared_error is not None
    assert "absent_share 0" in untruthful_because(unbounded.study, unbounded.mechanism, 0.0)
    bounded = planned(Study.parse(BOUNDED_COSTS), 10_000, absent_share=0.0).guarantees.truthfulness
    cost = 2.0 * 2.0**2  # the largest cost, at ε² with ε = 2
    gap = planned(Study.parse(BOUNDED_COSTS), 10_000, absent_share=0.0, score_weight=1e8).guarantees
    assert gap.truthfulness.lie is not None
    g = gap.truthfulness.lie / 2
    assert bounded.lie == pytest.approx(g + math.sqrt(g**2 + cost / 0.5), rel=1e-6)


def test_a_player_expects_each_of_the_others_to_lie_with_the_absent_share() -> None:
    """Where privacy costs nothing beside the score, a lie of 2g no longer pays: g = 2Yα·sup xᵀΣ⁻¹x."""
    study = Study.parse(BOUNDED_COSTS)
    plan = planned(study, 50, absent_share=0.04, score_weight=1e8, payments="expected")
    assert plan.guarantees.truthfulness.lie == pytest.approx(2 * 2 * 0.04 * study.design.leverage, rel=1e-6)


def test_a_score_weight_of_zero_deters_no_lie_and_says_so() -> None:
    plan = planned(Study.parse(DESIGNED), score_weight=0.0, base_payment=0.25)
    assert plan.guarantees.truthfulness.lie is None
    assert plan.guarantees.budget.cap == plan.guarantees.budget.expected == 125.0
    assert "score_weight is 0" in untruthful_because(plan.study, plan.mechanism, 0.01)


def test_too_few_players_for_noisy_statistics_are_told_so() -> None:
    plan = planned(Study.parse(OBSERVED), 50)
    assert plan.guarantees.accuracy.rmse is None
    assert "too few players" in inaccurate_because(plan.study)
    assert "too few players" in untruthful_because(plan.study, plan.mechanism, 0.01)


def test_the_error_in_raw_units_is_that_of_the_worst_prediction() -> None:
    promised = case("known-design").guarantees.accuracy
    assert promised.mean_squared_error is not None
    assert promised.rmse == pytest.approx(100 * math.sqrt(promised.mean_squared_error))


def test_participation_is_the_share_of_people_below_the_threshold() -> None:
    plan = case("known-design")
    promised = plan.guarantees.participation
    assert promised.cost_threshold is not None
    assert promised.share == pytest.approx(1 - (promised.cost_threshold / 0.05) ** -2)
    more = design(plan.study, players=20_000, epsilon=2.0, score_weight=0.5, base_payment=2.0)
    assert more.guarantees.participation.share is not None
    assert promised.share is not None
    assert more.guarantees.participation.share > promised.share


def test_payments_that_can_be_negative_have_no_cap_but_an_average() -> None:
    promised = planned(Study.parse(DESIGNED), payments="expected", base_payment=0.1).guarantees.budget
    assert promised.cap is None
    assert promised.expected is not None
    assert promised.likely is not None
    assert promised.expected < promised.likely


def test_the_likely_bill_lies_between_the_expected_one_and_the_cap() -> None:
    promised = case("known-design").guarantees.budget
    assert promised.expected is not None
    assert promised.likely is not None
    assert promised.cap is not None
    assert promised.expected < promised.likely < promised.cap


def test_predictions_are_better_on_average_than_for_the_worst_person() -> None:
    promised = case("known-design").guarantees.accuracy
    assert promised.rmse is not None
    assert promised.prediction_rmse is not None
    assert promised.prediction_rmse < promised.rmse


@pytest.mark.parametrize("estimator", CASES)
def test_the_setting_of_a_plan_holds_the_numbers_of_its_mechanism(estimator: str) -> None:
    plan = case(estimator)
    s, m = setting(plan.study, plan.mechanism, 20_000, 0.002, 0.01), plan.mechanism
    assert (s.n, s.epsilon, s.a, s.b) == (20_000, m.epsilon, m.base_payment, m.score_weight)
    assert (s.estimator, s.peer_estimator, s.rule, s.payments) == (m.estimator, m.peers, m.rule, m.payments)
    assert s.epsilon_public == pytest.approx(float(m.epsilon_public))
    if m.regularization is not None:
        assert (s.gamma, s.half_gamma) == (m.gamma, m.peer_gamma)
    assert plan.guarantees.truthfulness.lie == pytest.approx(float(proved.lie_size(s)))
    assert plan.guarantees.accuracy.mean_squared_error == pytest.approx(float(proved.accuracy(s)))
    assert plan.guarantees.budget.likely == pytest.approx(float(proved.likely_budget(s)))


@pytest.mark.parametrize("rule", ["quadratic", "brier"])
@pytest.mark.parametrize("text", [DESIGNED, UNIT_BALL], ids=["uniform", "ball"])
def test_truthful_people_cost_no_more_than_stated_on_average_and_never_more_than_the_cap(
    text: str, rule: str
) -> None:
    """100 studies, each with its own θ from the prior. The mean total at six standard errors (100 totals, nearly
    normal): a false alarm has probability below 1e-8.
    """
    study, n, runs = Study.parse(text), 1000, 100
    plan = planned(study, n, rule=rule, absent_share=0.0)
    rng = np.random.default_rng(11)
    totals = []
    for theta in study.beliefs.prior.sample(rng, study.dimension, runs):
        X = study.normalise(study.sample_features(rng, n))
        y = X @ theta + study.beliefs.noise.sample(rng, n)
        totals.append(private_regression(X, y, study.beliefs, plan.mechanism, rng=rng).payments.sum())
    promised = plan.guarantees.budget
    assert promised.cap is not None
    assert promised.expected is not None
    assert max(totals) <= promised.cap
    assert promised.likely is not None
    assert np.sum(np.array(totals) > promised.likely) <= 8  # Binomial(100, 0.01): more with probability 1e-6
    error = float(np.std(totals) / math.sqrt(runs))
    assert np.mean(totals) - 6 * error <= promised.expected < promised.cap
    assert np.mean(totals) > 0.7 * promised.expected


def test_payments_rounded_to_steps_let_lies_up_to_a_step_dearer_pay() -> None:
    """η and D count one step of rounding as they do what privacy is worth."""
    plan = case("known-design")
    s = setting(plan.study, plan.mechanism, plan.players, plan.absent_share, plan.failure_probability)
    exact = s.at(rounding=0.0)
    assert s.rounding == 1e-6
    assert float(proved.truthfulness(s) - proved.truthfulness(exact)) == pytest.approx(1e-6, rel=1e-6)
    tiny = {"b": 1e-6}
    D, g = float(proved.lie_size(s.at(**tiny))), float(proved.gap(s))
    saved = float(proved.threshold(s)) * float(np.asarray(s.privacy_cost)) + 1e-6
    assert 1e-6 * (2 * D * g - D**2) + saved == pytest.approx(0, abs=1e-9)
    assert float(proved.lie_size(exact.at(**tiny))) < D


@pytest.mark.parametrize("beta", [1e-300, 0.5, 0.9])
def test_a_failure_probability_that_cannot_be_kept_or_means_nothing_is_refused(beta: float) -> None:
    with pytest.raises(InputError, match=f"failure_probability is {beta:g}; it must lie between"):
        planned(Study.parse(DESIGNED), failure_probability=beta)

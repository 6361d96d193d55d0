"""The five guarantees of a plan: their order, their honesty where nothing can be promised, and the bill they state."""

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from support.plans import bought, case, people_of
from support.studies import DESIGNED, OBSERVED, RECORDS, RELEASES, UNIT_BALL, planned
from support.surveys import survey

from truthful.bounds import proved
from truthful.bounds.estimator_bounds import EVENTS
from truthful.deterrence import Deterrence
from truthful.errors import InputError
from truthful.files import canonical_json
from truthful.geometry import geometry
from truthful.guarantees import Guarantees, inaccurate_because, setting, untruthful_because
from truthful.one_release import OneRelease
from truthful.plan import design
from truthful.settlement import settle
from truthful.study import Study

UNDECLARED = DESIGNED.replace('kind = "uniform"', 'kind = "observed"')
BOUNDED_COSTS = DESIGNED.replace(
    'kind = "pareto"\ntail = 2.0\nscale = 0.05', 'kind = "empirical"\nprobabilities = [0, 1]\nvalues = [0, 2]'
)


#: What each guarantee says, besides its probability and its assumptions.
FIELDS = {
    "privacy": {"epsilon"},
    "truthfulness": {"lie", "slack", "share", "slope", "lie_in_answer"},
    "accuracy": {"mean_squared_error", "rmse", "prediction_rmse"},
    "participation": {"share", "cost_threshold"},
    "budget": {"expected", "cap", "likely"},
}
#: What is said of some plans only in files of version 0.1.
ADDED = {
    "privacy": {"protects", "not_protected"},
    "truthfulness": {
        *("undeterred", "typical_length", "typical_noise", "centre_tolerance", "centre_lie", "centre_slack"),
        *("centre_amplification", "slope_tolerance", "typical_pay", "shading"),
    },
    "accuracy": {"quantile", "prediction_quantile", "numbers"},
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_five_stand_in_their_order_with_their_names_and_can_be_written(name: str) -> None:
    record = case(name, 20_000).guarantees.record()
    assert list(record) == list(FIELDS)
    for part, group in record.items():
        assert set(group) == FIELDS[part] | ADDED.get(part, set()) | {"probability", "assumptions"}
    canonical_json(record)  # refuses NaN and infinity
    assert Guarantees.from_record(record) == case(name, 20_000).guarantees


@pytest.mark.parametrize("name", RELEASES)
def test_every_estimator_promises_something_finite_to_enough_players(name: str) -> None:
    promised = case(name, 100_000).guarantees
    assert promised.truthfulness.lie is not None
    assert promised.accuracy.mean_squared_error is not None
    assert promised.budget.cap is not None
    assert promised.accuracy.probability == pytest.approx(1 - EVENTS[name] * 0.01)


@pytest.mark.parametrize("name", RELEASES)
def test_more_players_never_make_a_promise_worse(name: str) -> None:
    """The share α is held."""
    for fewer, more in pairwise(case(name, n).guarantees for n in (2000, 8000, 32_000, 128_000, 512_000)):
        assert (more.accuracy.mean_squared_error or 0) <= (fewer.accuracy.mean_squared_error or math.inf)
        assert (more.truthfulness.lie or 0) <= (fewer.truthfulness.lie or math.inf)


@pytest.mark.parametrize("players", [2, 3, 7])
@pytest.mark.parametrize("name", RELEASES)
def test_a_handful_of_players_gets_a_plan_and_no_false_promise(name: str, players: int) -> None:
    """So few answers tell next to nothing at ε = 0.2: no error below R² is promised."""
    plan = case(name, players, epsilon=0.2)
    error, R2 = plan.guarantees.accuracy.mean_squared_error, plan.study.beliefs.radius**2
    assert error is None or error > R2
    canonical_json(plan.guarantees.record())


@pytest.mark.parametrize("name", RELEASES)
def test_privacy_assumes_nothing(name: str) -> None:
    privacy = case(name, 20_000).guarantees.privacy
    assert (privacy.epsilon, privacy.probability, privacy.assumptions) == (2.0, 1.0, ())


def test_what_is_protected_and_what_is_not_is_said() -> None:
    """Assigned features say nothing of anybody; people's own are not protected with answers, and are with records."""
    own = bought(600, 3, 5.0).guarantees.privacy
    assert (own.protects, own.not_protected) == ("answers", ("features", "taking part"))
    for name, protects in (
        ("instruments", "answers"),
        ("known-design", "records"),
        ("noisy-statistics", "records"),
    ):
        privacy = case(name, 20_000).guarantees.privacy
        assert (privacy.protects, privacy.not_protected) == (protects, ("taking part",))


def test_observed_records_without_a_declared_spread_promise_privacy_and_a_cap_only() -> None:
    plan = planned(Study.parse(UNDECLARED + RECORDS))
    promised = plan.guarantees
    assert promised.truthfulness.lie is None
    assert promised.truthfulness.slack is None
    assert promised.accuracy.mean_squared_error is None
    assert promised.accuracy.rmse is None
    assert promised.participation.share == 0.0
    assert promised.budget.expected == promised.budget.cap == pytest.approx(500 * 0.5 * 4 * 0.36)
    assert promised.truthfulness.undeterred == 1.0
    assert "least_eigenvalue" in inaccurate_because(plan.study)
    assert "least_eigenvalue" in untruthful_because(plan.study, plan.number_mechanism, 0.01)


def test_nobody_absent_needs_costs_with_a_bound() -> None:
    unbounded = planned(Study.parse(DESIGNED), absent_share=0.0)
    assert unbounded.guarantees.truthfulness.lie is None
    assert unbounded.guarantees.accuracy.mean_squared_error is not None
    assert "absent_share 0" in untruthful_because(unbounded.study, unbounded.number_mechanism, 0.0)
    study = Study.parse(BOUNDED_COSTS)
    bounded, gap = (
        planned(study, 10_000, absent_share=0.0, score_weight=weight).guarantees.truthfulness.lie
        for weight in (0.5, 1e8)
    )
    cost = 2.0 * 2.0**2  # the largest cost, at ε² with ε = 2
    assert gap is not None
    g = (gap**2 - (cost + 1e-6) / 1e8) / (2 * gap)
    assert bounded == pytest.approx(g + math.sqrt(g**2 + cost / 0.5), rel=1e-6)


def test_she_expects_those_to_lie_whose_costs_are_above_the_threshold() -> None:
    """g = 2Y·min(κτ, √(κv)) for the worst person, κ = n(1 − F(τ)) < αn, where the score is all that counts."""
    study, X, alpha = survey(3), people_of(600, 3), 0.01
    plan = design(study, roster=X, epsilon=1.0, score_weight=1e8, payments="expected", absent_share=alpha)
    found = geometry(X, plan.number_mechanism.transform)
    s = setting(study, plan.number_mechanism, 600, alpha, 0.01, found)
    kappa = 600 * float(s.above_threshold)
    assert kappa < 600 * alpha
    tau, v = found.worst[:, 0], found.worst[:, 1]
    worst = float((2 * study.beliefs.response_bound * np.minimum(kappa * tau, np.sqrt(kappa * v))).max())
    assert plan.guarantees.truthfulness.lie == pytest.approx(2 * worst, rel=1e-5)


def test_a_score_weight_of_zero_deters_no_lie_and_says_so() -> None:
    plan = planned(Study.parse(DESIGNED), score_weight=0.0, base_payment=0.25)
    assert plan.guarantees.truthfulness.lie is None
    assert plan.guarantees.budget.cap == pytest.approx(125.0)
    assert plan.guarantees.budget.cap == plan.guarantees.budget.expected
    assert "score_weight is 0" in untruthful_because(plan.study, plan.number_mechanism, 0.01)


def test_too_few_players_for_noisy_statistics_are_told_so() -> None:
    plan = planned(Study.parse(OBSERVED + RECORDS), 50)
    assert plan.guarantees.accuracy.rmse is None
    assert "too few players" in inaccurate_because(plan.study)
    assert "too few players" in untruthful_because(plan.study, plan.number_mechanism, 0.01)


@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_the_error_in_raw_units_is_that_of_the_worst_prediction(name: str) -> None:
    promised = case(name, 20_000).guarantees.accuracy
    assert promised.mean_squared_error is not None
    assert promised.rmse == pytest.approx(100 * math.sqrt(promised.mean_squared_error))


@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_participation_is_the_share_of_people_below_the_threshold(name: str) -> None:
    plan = case(name, 20_000)
    promised = plan.guarantees.participation
    assert promised.cost_threshold is not None
    assert promised.share == pytest.approx(1 - (promised.cost_threshold / 0.05) ** -2)
    more = case(name, 20_000, base_payment=20.0)
    assert more.guarantees.participation.share is not None
    assert promised.share is not None
    assert more.guarantees.participation.share > promised.share


def test_payments_that_can_be_negative_have_no_cap_but_an_average() -> None:
    plan = planned(Study.parse(DESIGNED), payments="expected", base_payment=0.1)
    promised = plan.guarantees.budget
    assert promised.cap is None
    assert promised.expected is not None
    if promised.likely is not None:
        assert promised.expected < promised.likely


def test_the_expected_bill_of_one_release_is_at_most_the_cap_and_where_clipping_is_wide_below_it() -> None:
    narrow, wide = (bought(2000, 5, 1.0, **pins).guarantees.budget for pins in ({}, {"clip": 0.6}))
    for promised in (narrow, wide):
        assert promised.expected is not None
        assert promised.cap is not None
        assert 0.5 * promised.cap < promised.expected <= promised.cap <= 2000
        assert promised.likely is None or promised.expected < promised.likely
    assert wide.expected < 0.95 * wide.cap  # type: ignore[operator]


@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_predictions_are_better_on_average_than_for_the_worst_person(name: str) -> None:
    promised = case(name, 20_000).guarantees.accuracy
    assert promised.rmse is not None
    assert promised.prediction_rmse is not None
    assert promised.prediction_rmse < promised.rmse


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics"])
def test_the_setting_of_one_release_holds_the_numbers_of_its_mechanism(estimator: str) -> None:
    plan = case(estimator, 20_000, clip=0.4)
    s, m = setting(plan.study, plan.number_mechanism, 20_000, 0.002, 0.01), plan.number_mechanism
    assert (s.n, s.epsilon, s.a, s.b) == (20_000, m.epsilon, m.base_payment, m.score_weight)
    assert (s.estimator, s.rule, s.payments) == (m.estimator, m.rule, m.payments)
    assert (s.reach, s.gram_share) == (0.4, m.gram_share)
    assert plan.guarantees.truthfulness.lie == pytest.approx(float(proved.lie_size(s)))
    assert plan.guarantees.accuracy.mean_squared_error == pytest.approx(float(proved.accuracy(s)))
    assert plan.guarantees.budget.cap == pytest.approx(float(proved.budget_cap(s)))


# What nothing deters


def test_the_undeterred_share_is_the_mean_over_people_by_the_definition() -> None:
    """Everybody on the roster, one by one: the sixteen who stand for them are right to 2e-3."""
    plan = bought(600, 3, 5.0)
    study, mechanism, promised = plan.study, plan.number_mechanism, plan.guarantees.truthfulness
    assert isinstance(mechanism, OneRelease)
    lengths, tau = geometry(people_of(600, 3), mechanism.transform).people
    assert promised.lie is not None
    scale = mechanism.scale(study.beliefs)
    shares = [
        Deterrence(study.beliefs, lengths[k : k + 1], tau[k : k + 1]).undeterred_share(
            promised.lie, mechanism.clip, scale
        )
        for k in range(0, 600, 12)
    ]
    assert promised.undeterred == pytest.approx(np.mean(shares), abs=6e-3)
    everybody = Deterrence(study.beliefs, lengths[::12], tau[::12])
    assert np.mean(shares) == pytest.approx(
        everybody.undeterred_share(promised.lie, mechanism.clip, scale), abs=1e-9
    )


def test_a_smaller_lie_leaves_less_undeterred_and_none_at_all_leaves_everything() -> None:
    plans = [
        case("instruments", 20_000, epsilon=0.1, score_weight=weight) for weight in (0.0, 0.01, 0.1, 1.0)
    ]
    shares = [plan.guarantees.truthfulness.undeterred for plan in plans]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)  # type: ignore[type-var]
    assert 0 < shares[-1] < 0.7  # type: ignore[operator]


# The bill


@pytest.mark.parametrize(
    ("text", "rule"), [(DESIGNED, "quadratic"), (UNIT_BALL, "brier")], ids=["uniform", "ball"]
)
def test_truthful_people_cost_no_more_than_stated(text: str, rule: str) -> None:
    """30 studies, each with its own θ from the prior. The mean total at six standard errors (30 totals, nearly
    normal): a false alarm has probability below 1e-7.
    """
    study, n, runs = Study.parse(text), 400, 30
    plan = planned(study, n, rule=rule, absent_share=0.0, base_payment=0.0, epsilon=0.5)
    rng, totals = np.random.default_rng(12), []
    for seed, theta in enumerate(study.beliefs.prior.sample(rng, study.dimension, runs)):
        columns = study.sample_features(rng, n)
        X = study.normalise(columns)
        y = study.raw_response(X @ theta + study.beliefs.noise.sample(rng, n), X)
        table = {"player": [f"p{i}" for i in range(n)], **columns, study.response.name: y}
        paid = settle(plan, pa.table(table), seed=seed, accept_less=True).payments["payment"]
        totals.append(float(np.sum(paid)))
    promised = plan.guarantees.budget
    assert promised.cap is not None
    assert promised.expected is not None
    assert max(totals) <= promised.cap
    error = float(np.std(totals) / math.sqrt(runs))
    assert np.mean(totals) - 6 * error <= promised.expected < promised.cap
    assert np.mean(totals) > 0.7 * promised.expected


def test_payments_rounded_to_steps_let_lies_up_to_a_step_dearer_pay() -> None:
    """η and D count one step of rounding as they do what privacy is worth."""
    plan = case("known-design", 20_000)
    s = setting(plan.study, plan.number_mechanism, plan.players, plan.absent_share, plan.failure_probability)
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

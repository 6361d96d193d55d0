"""The bill: totals of the package's own payments, liars included, against the three numbers that are stated of them.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation),
and the seeds are fixed.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.oracles_bounds import SIX, mean_and_error, setting, world

from truthful.bounds import Setting, proved
from truthful.bounds.proved import _times
from truthful.check import Floats
from truthful.guarantees import setting as setting_of
from truthful.moments import grid_features, grid_responses, sums
from truthful.one_release import OneRelease, paymaster
from truthful.regression import fast_answer
from truthful.scoring import RULES as ALL_RULES

RULES = ("quadratic", "brier")
CASES = [
    ("known-design", "ball 2"),
    ("known-design", "ball 5"),
    ("known-design", "uniform"),
    ("noisy-statistics", "ball 2"),
]


@cache
def totals(
    name: str, estimator: str, rule: str, payments: str, alpha: float, edge: bool
) -> tuple[Setting, Floats]:
    """Totals of 60 studies of 150 people: θ from the prior or at the edge; the αn longest x say ±Y with one mind."""
    where, rng, n, runs = world(name), np.random.default_rng(1), 150, 60
    beliefs, R = where.beliefs, where.beliefs.radius
    mechanism = OneRelease(
        epsilon=3.0,
        base_payment=0.3 * R**2,
        score_weight=1.0,
        clip=0.7 * R,
        estimator=estimator,
        rule=rule,
        payments=payments,
        design=where.study.second_moments if estimator == "known-design" else None,
    )
    thetas = beliefs.prior.sample(rng, where.dimension, runs)
    if edge:
        thetas *= R / np.linalg.norm(thetas, axis=1, keepdims=True)
    paid = []
    for theta in thetas:
        X, y = (values[0] for values in where.people(rng, 1, n, theta))
        liars = np.argsort(-np.abs(X @ theta))[: math.floor(alpha * n)]
        y[liars] = beliefs.response_bound * np.sign(X[liars] @ theta)
        kx, ky = grid_features(X), grid_responses(y, beliefs.response_bound)
        estimate = mechanism.release(sums(kx, ky, None), beliefs, fast_answer(rng))
        each = paymaster(mechanism, beliefs, estimate, n).score_players(kx, ky).payment
        assert payments == "expected" or each.min() >= 0
        paid.append(each.sum())
    return setting_of(where.study, mechanism, n, alpha, 0.05), np.array(paid)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("estimator", "name"), CASES)
def test_people_cost_no_more_than_stated(
    estimator: str, name: str, rule: str, payments: str, alpha: float
) -> None:
    s, paid = totals(name, estimator, rule, payments, alpha, False)
    mean, error = mean_and_error(paid)
    assert mean - SIX * error <= float(proved.budget(s))
    assert paid.max() <= float(proved.budget_cap(s))


@pytest.mark.slow
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("estimator", "name"), CASES)
def test_the_likely_bill_is_exceeded_no_more_often_than_stated(
    estimator: str, name: str, rule: str, payments: str
) -> None:
    """θ at the edge of its ball: 60 studies at β = 0.05. More failures than the quantile have probability 1e-9."""
    s, paid = totals(name, estimator, rule, payments, 0.1, True)
    likely = float(proved.likely_budget(s))
    assert np.sum(paid > likely) <= stats.binom.isf(1e-9, 60, 0.05)
    assert likely <= float(proved.budget_cap(s)) * (1 + 1e-12)


@pytest.mark.parametrize("payments", ["never-negative", "expected"])
def test_liars_of_one_mind_cost_no_more_than_stated(payments: str) -> None:
    s, paid = totals("ball 2", "known-design", "brier", payments, 0.1, True)
    assert paid.max() <= float(proved.likely_budget(s)) <= float(proved.budget_cap(s))


def test_truthful_people_cost_nearly_what_is_stated() -> None:
    """Never-negative payments are mostly base payment; the score is what the bound can get wrong."""
    s, paid = totals("ball 2", "known-design", "quadratic", "expected", 0.0, False)
    mean, _ = mean_and_error(paid - 150 * float(s.a))
    assert 0 < mean < float(proved.budget(s)) - 150 * float(s.a) < 20 * mean


def test_everybody_at_the_best_score_costs_just_the_cap() -> None:
    s = setting(world("ball 5"), n=7, a=8.0, b=0.5)
    R = s.model.radius
    assert proved.budget_cap(s) == pytest.approx(7 * (8.0 + 0.5 * (2 * R * R - R**2)))
    assert proved.budget_cap(s.at(rule="brier")) == pytest.approx(7 * (8.0 + 0.5 * (R + R**2)))
    assert proved.budget_cap(s.at(payments="expected")) == math.inf


def test_those_who_lie_may_leave_all_of_the_score_to_those_who_do_not() -> None:
    """Let half of all people have x = 0 and lie, of whom nothing is predicted: the others score all of Q."""
    s = setting(world("ball 2"), n=100, a=1.0, b=1.0, alpha=0.5, payments="expected")
    Q = s.model.mean_square
    assert float(proved.budget(s)) >= 100 * (1 + Q)


def test_with_enough_people_the_likely_bill_is_close_to_what_the_worst_coefficients_cost() -> None:
    """Σ(x·θ)² → nλ_max(Σ)R², a quarter of Σ‖x‖²R² on the ball of two dimensions."""
    s = setting(world("ball 2"), n=10**8, a=0.0, b=1.0, epsilon=5.0, beta=0.01, payments="expected")
    assert float(proved.likely_budget(s)) == pytest.approx(10**8 / 4, rel=0.05)


def test_nothing_is_likely_of_unclipped_noisy_statistics() -> None:
    s = setting(world("ball 2"), n=1000, estimator="noisy-statistics")
    assert proved.likely_budget(s.at(payments="expected")) == math.inf
    assert proved.likely_budget(s) < math.inf


@pytest.mark.parametrize("payments", ["never-negative", "expected"])
def test_a_flat_fee_costs_its_sum_whatever_is_unknown(payments: str) -> None:
    s = setting(world("observed"), n=100, a=0.3, b=0.0, payments=payments, alpha=0.1)
    assert proved.budget(s) == pytest.approx(30.0)
    assert proved.likely_budget(s) == pytest.approx(30.0)


def test_an_unknown_gap_leaves_the_cap_as_the_expected_bill() -> None:
    s = setting(world("observed"), n=100, alpha=0.1)
    assert proved.budget(s) == proved.budget_cap(s)
    assert proved.budget(s.at(payments="expected")) == math.inf


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(RULES))
def test_more_liars_never_cost_less(first: float, second: float, rule: str) -> None:
    few, many = sorted((first, second))
    s = setting(world("ball 2"), rule=rule)
    for payments in ("never-negative", "expected"):
        bills = proved.budget(s.at(payments=payments, alpha=np.array([few, many])))
        assert bills[0] <= bills[1]


@pytest.mark.parametrize("rule", RULES)
def test_a_mean_base_payment_is_never_above_its_bound(rule: str) -> None:
    """Any lengths, not only those of a design: what the bill counts of them is their mean square. No scores here."""
    rng = np.random.default_rng(13)
    for _ in range(50):
        r, c = rng.random(20) ** rng.uniform(0.2, 3), float(rng.uniform(0.01, 1))
        a: Floats = np.append(0.0, ALL_RULES[rule].loss(c) * rng.random(5) * 1.2)
        s = setting(world("ball 2"), n=20, a=a, b=1.0, rule=rule, clip=c)
        silent = replace(
            s.model, mean_square_norm=float(np.mean(r**2)), mean_square=0.0, direction_variance=0.0
        )
        bases = np.maximum(a, ALL_RULES[rule].linear * c * r[:, None] + 3 * (c * r[:, None]) ** 2)
        stated = proved.budget(s.at(model=silent))
        assert np.all(bases.sum(axis=0) <= stated * (1 + 1e-12))
        assert np.all(stated <= 20 * np.maximum(a, ALL_RULES[rule].loss(c)) * (1 + 1e-12))
        most = np.maximum(a, ALL_RULES[rule].loss(c)) + ALL_RULES[rule].gain(c)
        np.testing.assert_allclose(proved.budget_cap(s), 20 * most)


def test_no_weight_times_no_bound_is_nothing() -> None:
    np.testing.assert_array_equal(_times(np.array([0.0, 2.0]), math.inf), [0.0, math.inf])

"""The bill: totals of the package's own payments, liars included, against the three numbers that are stated of them.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation),
and the seeds are fixed.
"""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.oracles_bounds import SIX, World, mean_and_error, setting, world

from truthful.bounds import Setting, proved
from truthful.bounds.proved import _times
from truthful.check import Floats
from truthful.guarantees import setting as setting_of
from truthful.random_halves import Mechanism
from truthful.regression import private_regression

RULES = ("quadratic", "brier")
CASES = [
    ("known-design", "ball 2"),
    ("known-design", "ball 5"),
    ("known-design", "uniform"),
    ("noisy-statistics", "ball 2"),
    ("ridge-free", "ball 1"),
]


def mechanism(where: World, estimator: str, rule: str, payments: str) -> Mechanism:
    return Mechanism(
        epsilon=3.0,
        base_payment=10.0 + 3 * where.beliefs.radius**2,
        score_weight=1.0,
        estimator=estimator,
        public_share=0.1,
        regularization=20.0,
        rule=rule,
        payments=payments,
        design=where.study.second_moments,
    )


@cache
def totals(
    name: str, estimator: str, rule: str, payments: str, alpha: float, edge: bool
) -> tuple[Setting, Floats]:
    """Totals of 60 studies of 150 people: θ from the prior or at the edge; the αn longest x say ±Y with one mind."""
    where, rng, n, runs = world(name), np.random.default_rng(1), 150, 60
    m, d = mechanism(where, estimator, rule, payments), where.dimension
    thetas = where.beliefs.prior.sample(rng, d, runs)
    if edge:
        thetas *= where.beliefs.radius / np.linalg.norm(thetas, axis=1, keepdims=True)
    paid = []
    for theta in thetas:
        X, y = (values[0] for values in where.people(rng, 1, n, theta))
        liars = np.argsort(-np.abs(X @ theta))[: math.floor(alpha * n)]
        y[liars] = where.beliefs.response_bound * np.sign(X[liars] @ theta)
        paid.append(private_regression(X, y, where.beliefs, m, rng=rng).payments.sum())
    return setting_of(where.study, m, n, alpha, 0.05), np.array(paid)


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
    assert likely <= float(proved.budget_cap(s))


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
    s = setting(world("ball 5"), n=7, a=6.0, b=0.5)
    R = s.model.radius
    assert proved.budget_cap(s) == pytest.approx(7 * (6.0 + 0.5 * (2 * R * R - R**2)))
    assert proved.budget_cap(s.at(rule="brier")) == pytest.approx(7 * (6.0 + 0.5 * (R + R**2)))
    assert proved.budget_cap(s.at(payments="expected")) == math.inf


def test_those_who_lie_may_leave_all_of_the_score_to_those_who_do_not() -> None:
    """Let half of all people have x = 0 and lie, of whom nothing is predicted: the others score all of Q."""
    s = setting(world("ball 2"), n=100, a=1.0, b=1.0, alpha=0.5, payments="expected")
    Q = s.model.mean_square
    assert float(proved.budget(s)) >= 100 * (1 + Q)


def test_two_halves_may_each_be_long_where_the_other_half_looks() -> None:
    """Σp² ≤ Σ_j λ_max(X_jᵀX_j)·max‖θ̂‖², which λ_max(XᵀX) does not bound: halves along two axes, crosswise."""
    halves = [np.tile(np.eye(2)[j], (10, 1)) for j in (0, 1)]
    estimates = [np.eye(2)[1], np.eye(2)[0]]  # each points where the other half's features lie
    total = sum(float(np.sum((X @ estimates[1 - j]) ** 2)) for j, X in enumerate(halves))
    both = np.vstack(halves)
    assert total == 20
    assert float(np.linalg.eigvalsh(both.T @ both)[-1]) == pytest.approx(10)


def test_with_enough_people_the_likely_bill_is_close_to_what_the_worst_coefficients_cost() -> None:
    """Σ(x·θ)² → nλ_max(Σ)R², a quarter of Σ‖x‖²R² on the ball of two dimensions."""
    s = setting(world("ball 2"), n=10**8, a=0.0, b=1.0, epsilon=5.0, beta=0.01)
    assert float(proved.likely_budget(s)) == pytest.approx(10**8 / 4, rel=0.05)
    assert float(proved.likely_budget(s.at(payments="expected"))) == pytest.approx(10**8 / 4, rel=0.05)


def test_nothing_is_likely_of_unclipped_noisy_statistics() -> None:
    s = setting(world("ball 2"), n=1000, peer_estimator="noisy-statistics")
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


def test_no_weight_times_no_bound_is_nothing() -> None:
    np.testing.assert_array_equal(_times(np.array([0.0, 2.0]), math.inf), [0.0, math.inf])

"""Accuracy: published coefficients are no further from the truth than stated, whatever the worst αn people report.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation; the
means are over hundreds of independent runs), and the seeds are fixed.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.oracles_bounds import (
    DESIGNS,
    SIX,
    errors,
    fitted,
    floored_inverse,
    influence,
    mean_and_error,
    setting,
    squares,
    symmetric_noise,
    world,
    worst_reports,
)

from truthful.bounds import Model, proved
from truthful.bounds.estimator_bounds import ERRORS, EVENTS, least_released
from truthful.bounds.setting import gram_scale
from truthful.noise import L2Laplace
from truthful.regression import least_squares

CASES = [
    (estimator, name)
    for estimator in ("known-design", "ridge-free", "ridge-ball", "noisy-statistics")
    for name in (*DESIGNS, "observed")
    if (estimator, name) != ("known-design", "observed")
]


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.2])
@pytest.mark.parametrize(("estimator", "name"), CASES)
def test_estimates_are_no_further_from_the_truth_than_stated(estimator: str, name: str, alpha: float) -> None:
    where, rng = world(name), np.random.default_rng(1)
    n, epsilon = (1000, 200.0) if estimator == "noisy-statistics" else (500, 2.0)
    s = setting(where, n=n, epsilon=epsilon, alpha=alpha, gamma=30.0, estimator=estimator)
    theta = where.worst_theta()
    found = errors(where, s, theta, rng, 150)
    mean, error = squares(found)
    assert mean - SIX * error <= float(proved.accuracy(s)) < math.inf
    Sigma = np.linalg.inv(where.inverse)
    mean, error = mean_and_error(np.einsum("kd,de,ke->k", found, Sigma, found))
    assert mean - SIX * error <= float(proved.prediction_error(s))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_accuracies_hold_in_studies_of_any_size_and_privacy(seed: int) -> None:
    """Random settings and θ, all four estimators, 1000 runs each; liars push along a random direction first."""
    rng = np.random.default_rng(200 + seed)
    estimator, name = CASES[rng.integers(len(CASES))]
    where = world(name)
    s = setting(
        where,
        n=int(10 ** rng.uniform(1.5, 2.8)) if estimator != "noisy-statistics" else 700,
        epsilon=10 ** rng.uniform(-1, 1) * (1 if estimator != "noisy-statistics" else 300),
        alpha=rng.choice([0.0, 0.01, 0.1, 0.4]),
        gamma=10 ** rng.uniform(0, 2),
        estimator=estimator,
    )
    theta = where.beliefs.prior.sample(rng, where.dimension, 1)[0]
    found = errors(where, s, theta, rng, 1000, toward=rng.standard_normal(where.dimension))
    mean, error = squares(found)
    assert mean - SIX * error <= float(proved.accuracy(s))


@pytest.mark.parametrize("name", [*DESIGNS[:-1]])
def test_the_error_of_a_known_design_is_just_what_is_stated(name: str) -> None:
    """At the worst θ and without lies the bound is an equality, so it is tested from both sides."""
    where = world(name)
    s = setting(where, n=60, epsilon=3.0)
    mean, error = squares(errors(where, s, where.worst_theta(), np.random.default_rng(2), 4000))
    assert mean == pytest.approx(float(proved.accuracy(s)), abs=SIX * error)
    assert SIX * error < 0.2 * mean


@pytest.mark.parametrize("name", ["ball 2", "ball 5"])
def test_the_error_of_predictions_is_just_what_is_stated_on_the_ball(name: str) -> None:
    where = world(name)
    s = setting(where, n=60, epsilon=3.0)
    found = errors(where, s, where.worst_theta(), np.random.default_rng(3), 4000)
    mean, error = squares(found)
    share = 1 / (where.dimension + 2)
    assert mean * share == pytest.approx(float(proved.prediction_error(s)), abs=SIX * error * share)


def test_predictions_of_a_known_design_are_better_than_its_worst_direction() -> None:
    s = setting(world("uniform"), n=5000, alpha=0.01)
    assert proved.prediction_error(s) < 0.6 * world("uniform").model.greatest_eigenvalue * proved.accuracy(s)


@pytest.mark.parametrize("name", DESIGNS)
def test_least_squares_is_as_accurate_as_stated(name: str) -> None:
    """Algorithm 1 by the package's own code, 100 runs, on the spectrum event, which has probability 1 − β or more."""
    where, rng, n = world(name), np.random.default_rng(4), 400
    theta = where.worst_theta()
    X, y = where.people(rng, 100, n, theta)
    mean, error = squares(np.stack([least_squares(X[k], y[k]).theta - theta for k in range(100)]))
    stated = float(proved.least_squares_error(setting(where, n=n, beta=0.5)))
    assert mean - SIX * error <= stated
    assert mean + SIX * error >= 0.4 * stated


@pytest.mark.parametrize(
    ("estimator", "numbers"),
    [
        ("ridge-free", {"gamma": 5000.0, "epsilon": 1e6}),  # mostly bias
        ("ridge-ball", {"gamma": 5000.0, "epsilon": 1e6}),
        ("ridge-free", {"gamma": 30.0, "epsilon": 0.3}),  # mostly noise
        ("ridge-ball", {"gamma": 30.0, "epsilon": 0.3}),
        ("ridge-free", {"gamma": 0.5, "epsilon": 1e6}),  # mostly sampling
        ("noisy-statistics", {"gram_share": 0.98, "epsilon": 50.0}),  # mostly noise in Xᵀy
        ("noisy-statistics", {"gram_share": 0.02, "epsilon": 50.0}),  # mostly noise in XᵀX
        ("noisy-statistics", {"gram_share": 0.5, "epsilon": 1e4}),  # mostly sampling
    ],
)
def test_each_part_of_an_error_is_nearly_what_is_stated(estimator: str, numbers: dict[str, float]) -> None:
    """Settings where one part dominates: 2000 runs tell 0.6 of the bound from all of it, and from more."""
    where = world("covariance")
    s = setting(where, n=600, beta=0.5, estimator=estimator, **numbers)
    mean, error = squares(errors(where, s, 0.8 * where.farthest(), np.random.default_rng(10), 2000))
    assert mean - SIX * error <= float(proved.accuracy(s))
    assert mean + SIX * error >= 0.75 * float(proved.accuracy(s))
    assert SIX * error < 0.25 * mean


# Ridges


@given(st.integers(0, 10**6), st.floats(0.1, 300))
def test_the_ball_brings_a_ridge_no_further_from_any_truth_in_the_norm_of_its_problem(
    seed: int, gamma: float
) -> None:
    """So the condition number of XᵀX, the factor ρ, is not in the bound."""
    where, rng = world("ball 2"), np.random.default_rng(seed)
    theta = where.beliefs.prior.sample(rng, 2, 1)[0]
    X, y = where.people(rng, 5, 12, theta)
    y = worst_reports(where, X, y, influence("ridge-free", where, X, gamma) @ -theta, 4)
    H = X.transpose(0, 2, 1) @ X + gamma * np.eye(2)

    def distance(estimator: str) -> float:
        off = fitted(estimator, where, X, y, gamma) - theta
        return float(np.einsum("kd,kde,ke->k", off, H, off).max())

    assert distance("ridge-ball") <= distance("ridge-free") * (1 + 1e-9)


@pytest.mark.parametrize("gamma", [0.5, 20.0, 500.0])
@pytest.mark.parametrize("k", [1, 10, 200])
def test_lies_move_a_ridge_by_the_lesser_of_their_number_and_its_root(gamma: float, k: int) -> None:
    where, rng, n = world("ball 5"), np.random.default_rng(5), 300
    X, y = where.people(rng, 50, n, where.worst_theta())
    D = gamma + np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X)[:, 0]
    M, direction = influence("ridge-free", where, X, gamma), np.tile(np.eye(5)[0], (50, 1))
    for _ in range(5):
        lied = worst_reports(where, X, y, np.einsum("kij,kj->ki", M, direction), k)
        direction = fitted("ridge-free", where, X, lied, gamma) - fitted("ridge-free", where, X, y, gamma)
    kappa = k / D
    bound = 2 * where.beliefs.response_bound * np.minimum(kappa, np.sqrt(kappa))
    moved = np.linalg.norm(direction, axis=1)
    assert np.all(moved <= bound)
    assert np.all(moved > 0.05 * bound)


def test_the_ball_is_never_stated_to_be_worse_than_free_or_than_its_diameter() -> None:
    s = setting(
        world("ball 5"), n=np.array([10, 1000, 10**5]), gamma=20.0, estimator="ridge-free", epsilon=np.inf
    )
    ball = proved.accuracy(s.at(estimator="ridge-ball", alpha=0.3))
    assert np.all(ball <= np.minimum(proved.accuracy(s.at(alpha=0.3)), (2 * s.model.radius) ** 2))


def test_liars_who_know_everything_move_the_published_estimate_no_further_than_stated() -> None:
    for estimator, name in CASES:
        where, alpha, n = world(name), 0.1, 400
        s = setting(where, n=n, alpha=alpha, gamma=10.0, estimator=estimator, epsilon=1000.0, beta=0.3)
        if estimator == "ridge-ball":
            continue
        X, y = where.people(np.random.default_rng(6), 60, n, where.worst_theta())
        M, direction = influence(estimator, where, X, 10.0), np.tile(np.eye(where.dimension)[0], (60, 1))
        for _ in range(4):
            lied = worst_reports(where, X, y, np.einsum("kij,kj->ki", M, direction), 40)
            direction = fitted(estimator, where, X, lied, 10.0) - fitted(estimator, where, X, y, 10.0)
        assert float(np.linalg.norm(direction, axis=1).max()) <= float(proved.liars(s))


# Noisy statistics


def test_released_second_moments_have_no_smaller_eigenvalue_than_stated() -> None:
    """1000 runs at 2β = 0.1: more than 160 failures would have probability below 1e-8 if the bound held."""
    where, rng, n, runs = world("uniform"), np.random.default_rng(7), 400, 1000
    s = setting(where, n=n, epsilon=40.0, beta=0.05, estimator="noisy-statistics")
    X = where.draw(rng, runs * n).reshape(runs, n, 4)
    N = symmetric_noise(rng, runs, 4, float(gram_scale(s, n)))
    values = np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X / n + N)[:, 0]
    assert float(least_released(s)) > 0
    assert np.sum(values < least_released(s)) <= stats.binom.isf(1e-8, runs, 0.1)


def test_lies_and_gram_noise_are_counted_together() -> None:
    """Lies know nothing of N, but where N is cut off at ν on one side its mean is not 0: the term 2√β·LN.

    d = 1, everything else silent: E[(l − Nθ)²/(G + N)²; N > −ν], by quadrature, for both signs of the lie.
    """
    G, R, scale, beta = 1.0, 1.0, 0.05, 0.1
    nu = -scale * math.log(2 * beta)
    N = np.linspace(-nu, 40 * scale, 400_001)
    density = np.exp(-np.abs(N) / scale) / (2 * scale)
    for lie in (-0.3, -0.03, 0.03, 0.3):
        exact = float(np.trapezoid((lie - N * R) ** 2 / (G + N) ** 2 * density, N))
        statistics = R * scale * math.sqrt(2)
        stated = lie**2 + statistics**2 + 2 * math.sqrt(beta) * abs(lie) * statistics
        assert exact <= stated / (G - nu) ** 2


def test_sampling_error_is_stretched_by_a_noisy_inverse_no_more_than_stated() -> None:
    """tr(Ĝ⁻¹GĜ⁻¹) ≤ dλ/(λ−ν)² for random G ≥ λ and any N ≥ −ν."""
    rng, d, lam, nu = np.random.default_rng(8), 4, 0.2, 0.12
    base = rng.standard_normal((5000, d, d)) * 0.3
    G = base @ base.transpose(0, 2, 1) * rng.choice([0.0, 0.1, 1.0], (5000, 1, 1)) + lam * np.eye(d)
    N = symmetric_noise(rng, 5000, d, 0.05)
    values, vectors = np.linalg.eigh(N)
    N = np.einsum("kij,kj,klj->kil", vectors, np.maximum(values, -nu), vectors)
    inverse = floored_inverse(G + N, 1e-9)
    traces = np.trace(inverse @ G @ inverse, axis1=1, axis2=2)
    assert float(traces.max()) <= d * lam / (lam - nu) ** 2 * (1 + 1e-9)


# Edges


def test_nothing_is_promised_without_a_known_design() -> None:
    s = setting(world("observed"), alpha=0.01, gamma=10.0).at(model=Model(3, 0.6, 0.4, 0.03, 0.0))
    assert proved.accuracy(s) == math.inf
    assert proved.accuracy(s.at(estimator="noisy-statistics")) == math.inf
    assert proved.liars(s.at(estimator="noisy-statistics")) == math.inf
    assert proved.least_squares_error(s) == math.inf
    assert proved.accuracy(s.at(estimator="ridge-ball")) >= 0.6**2
    assert proved.accuracy(s.at(estimator="ridge-free")) >= 0.6**2


def test_a_floor_that_would_bind_promises_nothing() -> None:
    s = setting(world("covariance"), n=60, estimator="noisy-statistics")
    assert proved.accuracy(s) == math.inf
    assert proved.accuracy(s.at(n=10**5)) < 0.01


def test_every_estimator_says_how_many_events_its_accuracy_needs() -> None:
    assert set(ERRORS) == set(EVENTS)


@pytest.mark.parametrize("estimator", sorted(set(ERRORS) - {"instruments"}))
def test_accuracy_grows_with_players_and_privacy_spent_and_falls_with_liars(estimator: str) -> None:
    """At a penalty that grows with the players a ridge stays biased: its error falls, but not to 0."""
    sizes = np.geomspace(1e4, 1e9, 6)
    s = setting(world("ball 2"), estimator=estimator, epsilon=2.0, alpha=0.001)
    by_size = proved.accuracy(s.at(n=sizes, gamma=sizes**0.7))
    assert np.all(np.diff(by_size) < 0)
    fixed = s.at(n=1e5, gamma=50.0)
    assert np.all(np.diff(proved.accuracy(fixed.at(epsilon=np.geomspace(1, 100, 6)))) < 0)
    assert np.all(np.diff(proved.accuracy(fixed.at(alpha=np.array([0.0, 0.01, 0.1])))) > 0)


def test_the_noise_of_every_release_has_the_stated_moments() -> None:
    """E‖v‖ = ds and E‖v‖² = d(d+1)s², over 40,000 draws in 1, 3 and 10 dimensions."""
    for d in (1, 3, 10):
        norms = np.linalg.norm(L2Laplace(d, 0.3).sample(np.random.default_rng(9), 40_000), axis=1)
        for power, stated in zip((1, 2), proved.noise_moments(d, 0.3), strict=True):
            mean, error = mean_and_error(norms**power)
            assert mean == pytest.approx(float(stated), abs=SIX * error)
            assert SIX * error < 0.1 * float(stated)

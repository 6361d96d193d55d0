"""What a plan may promise is true: each result next to its definition, and to a search that could break it.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation; the
means are over hundreds of independent runs), and the seeds are fixed.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from support.oracles_bounds import (
    BALLS,
    COSTS,
    DESIGNS,
    SIX,
    World,
    influence,
    mean_and_error,
    scored,
    setting,
    squares,
    world,
    worst_reports,
)

from truthful.beliefs.laws import IDENTITY, Clipped
from truthful.bounds import Setting, proved, unit_ball
from truthful.bounds.setting import noise_scale
from truthful.bounds.spectrum import least_spectrum, shortfall_chance
from truthful.check import Floats
from truthful.costs import ParetoCosts
from truthful.errors import InputError
from truthful.moments import GRID, grid_features, grid_responses, sums
from truthful.one_release import OneRelease, paymaster
from truthful.regression import fast_answer
from truthful.scoring import RULES

ESTIMATORS = ("known-design", "noisy-statistics", "ridge-ball", "ridge-free")
PAYMENTS = ("never-negative", "expected")
amounts = st.floats(1e-6, 1e3)


def usual(**numbers: float | str) -> Setting:
    return setting(world("ball 2"), **{"alpha": 0.02, **numbers})


# Privacy and what it costs


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics"])
def test_the_whole_of_epsilon_is_spent_on_the_one_release(estimator: str) -> None:
    s = usual(n=5000, epsilon=0.7, estimator=estimator)
    assert proved.privacy(s) == 0.7
    assert float(noise_scale(s, 5000)) == float(proved.noise_scale(s))


@given(st.floats(0.01, 10))
def test_no_cost_between_0_and_its_bound_changes_more_in_a_lie_than_the_composition_says(
    epsilon: float,
) -> None:
    """The most a cost in [0, cε] can change is cε times the distance of the two laws of the output.

    For the Laplace law shifted by its sensitivity that is cε(1 − e^(−ε/2)), below the bound; for randomised response,
    which says the truth with probability e^ε/(1 + e^ε), it is the bound itself.
    """
    c = 0.7
    exact, simple = proved.composition(c, epsilon)
    laplace = integrate.quad(
        lambda o: abs(math.exp(-abs(o)) - math.exp(-abs(o - epsilon))) / 4,
        -60,
        70,
        points=[0, epsilon / 2, epsilon],
    )[0]
    assert laplace == pytest.approx(1 - math.exp(-epsilon / 2), rel=1e-6)
    assert c * epsilon * laplace <= exact * (1 + 1e-9)
    told = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert c * epsilon * (told - (1 - told)) == pytest.approx(float(exact), rel=1e-9)
    assert exact <= simple


def test_the_expected_privacy_loss_of_one_laplace_release_is_a_level_not_a_square() -> None:
    """E ln max ratio at ε = 0.1 is 0.988 ε: participation is charged h(ε) at the total level, as declared."""
    epsilon = 0.1
    loss = integrate.quad(
        lambda o: math.exp(-abs(o)) / 2 * abs(abs(o) - abs(o - epsilon)),
        -60,
        60,
        points=[0, epsilon / 2, epsilon],
    )[0]
    assert 0.9 * epsilon < loss <= epsilon


# Spectrum and threshold


def test_the_chance_of_a_small_spectrum_is_that_of_the_tolerance_given() -> None:
    s = usual(xi=0.3, n=500)
    assert proved.spectrum(s) == shortfall_chance(s.model, 500, 0.3)
    assert proved.spectrum(s) > proved.spectrum(s.at(xi=0.4))


@pytest.mark.parametrize(("n", "alpha", "beta"), [(20, 0.1, 0.05), (1000, 0.02, 0.01), (20_000, 0.05, 1e-6)])
def test_the_threshold_uses_up_its_failure_probability_exactly(n: int, alpha: float, beta: float) -> None:
    tau = float(proved.threshold(usual(n=n, alpha=alpha, beta=beta)))
    above = float(COSTS.survival(tau))
    assert above <= alpha
    assert float(stats.binom.sf(math.floor(alpha * n + 1e-9), n, above)) == pytest.approx(beta, rel=1e-6)
    assert tau == pytest.approx(COSTS.threshold(n=n, alpha=alpha, beta=beta))


def test_a_threshold_promises_no_more_than_each_player_expects_of_another() -> None:
    """With β near 1 the binomial law would allow more than a share α above the threshold: F(τ) ≥ 1−α counts."""
    tau = float(proved.threshold(usual(n=10, alpha=0.1, beta=0.9)))
    assert float(COSTS.survival(tau)) == pytest.approx(0.1)


# Truthfulness: the best lie, searched


def own_predictions(where: World, s: Setting, x: Floats, reports: Floats) -> Floats:
    """q of each report, as the package computes it."""
    r = float(np.linalg.norm(x))
    scale = float(noise_scale(s, s.n - 1)) * float(np.linalg.norm(where.inverse @ x)) / r
    curve = Clipped(where.beliefs.radius, where.dimension) if s.clipped else IDENTITY
    return where.beliefs.prediction(r, reports, curve, scale)


@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("name", DESIGNS)
def test_no_report_gains_more_than_the_slack_and_none_beyond_the_lie_size_pays(
    name: str, payments: str
) -> None:
    """Every player of a grid, every report of a grid, peers off by the whole gap either way; privacy saved in full."""
    where = world(name)
    s = setting(where, n=2000, alpha=0.01, b=0.8, payments=payments, epsilon=0.2)
    g, eta, D = (float(f(s)) for f in (proved.gap, proved.truthfulness, proved.lie_size))
    saved = float(proved.threshold(s)) * 0.2**2
    best = 0.0
    for length in (0.3, 1.0):
        x = length * where.farthest()
        edge = where.beliefs.radius * float(np.linalg.norm(x)) + where.beliefs.noise_bound
        reports = np.linspace(-edge, edge, 61)
        q = own_predictions(where, s, x, reports)
        for truth in (0, 15, 30, 45):
            for p in (q[truth] - g, q[truth] + g):
                gains = 0.8 * (2 * p * (q - q[truth]) - q**2 + q[truth] ** 2) + saved
                assert np.all(gains <= eta * (1 + 1e-9))
                assert np.all(gains[np.abs(q - q[truth]) > D * (1 + 1e-9)] <= 0)
                best = max(best, float(gains.max()))
    assert best > 0.5 * eta  # the search finds lies that nearly gain it


def test_a_lie_against_peers_who_lie_gains_no_more_than_the_slack() -> None:
    """Peers at their worst are simulated: their expected prediction, not its bound, and the best lie against it."""
    where = world("ball 2")
    s = setting(where, n=400, alpha=0.1, b=1.0, epsilon=0.5)
    x, rng = np.array([1.0, 0.0]), np.random.default_rng(1)
    mean, error = scored(where, s, x, np.tile(x, (400, 1)), 2.0, rng).gap(s)
    reports = np.linspace(-2, 2, 401)
    q = own_predictions(where, s, x, reports)
    p = q[-1] + mean  # the largest answer of all says that θ·x = R
    gain = float(np.max(2 * p * q - q**2) - (2 * p * q[-1] - q[-1] ** 2))
    assert gain > 10 * error**2
    assert gain <= float(proved.truthfulness(s))


def test_lying_to_the_package_does_not_pay_beyond_the_slack() -> None:
    """One player's payments for truth and lies in 300 studies by the code that settles, the noise the same for both."""
    where, n = world("ball 2"), 60
    beliefs = where.beliefs
    m = OneRelease(
        epsilon=2.0,
        base_payment=3.0,
        score_weight=1.0,
        clip=1.0,
        estimator="known-design",
        design=where.study.second_moments,
    )
    s = setting(where, n=n, alpha=0.0, b=1.0, a=3.0, epsilon=2.0)
    rng = np.random.default_rng(2)
    gained: dict[float, list[float]] = {-1.9: [], 0.0: [], 1.9: []}
    for run in range(300):
        theta = beliefs.prior.sample(rng, 2, 1)[0]
        X, y = (values[0] for values in where.people(rng, 1, n, theta))
        y[0] += (np.array([1.0, 0.0]) - X[0]) @ theta
        X[0], paid, kx = [1.0, 0.0], {}, grid_features(X)
        kx[0] = [GRID, 0.0]
        for report in (y[0], *gained):
            ky = grid_responses(np.concatenate([[report], y[1:]]), beliefs.response_bound)
            estimate = m.release(sums(kx, ky, None), beliefs, fast_answer(np.random.default_rng(run)))
            paid[report] = paymaster(m, beliefs, estimate, n).score_players(kx[:1], ky[:1]).payment[0]
        for lie in gained:
            gained[lie].append(paid[lie] - paid[y[0]])
    for lie, gains in gained.items():
        mean, error = mean_and_error(np.array(gains))
        assert mean - SIX * error <= float(proved.truthfulness(s))
        assert mean + SIX * error < 0 or lie == 0.0  # large lies lose, and are seen to


@given(tau=amounts, b=amounts, alpha=st.floats(0, 0.5), moved=st.floats(0, 100))
def test_a_lie_of_the_stated_size_gains_nothing_and_none_more_than_the_slack(
    tau: float, b: float, alpha: float, moved: float
) -> None:
    s = usual(b=b, alpha=alpha, epsilon=math.sqrt(tau))
    g, saved = float(proved.gap(s)), float(proved.threshold(s) * s.privacy_cost)
    if not math.isfinite(saved):
        return
    D = float(proved.lie_size(s))
    assert b * (2 * D * g - D**2) + saved == pytest.approx(0, abs=1e-9 * (saved + b * D**2))
    assert b * (2 * moved * g - moved**2) + saved <= float(proved.truthfulness(s)) * (1 + 1e-9)
    assert 2 * g <= D


# Participation


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", DESIGNS)
def test_at_the_stated_base_payment_nobody_below_the_threshold_loses_by_joining(name: str, rule: str) -> None:
    """E[payment] − τh(ε) over every own prediction and peers off by up to the gap, on a grid; met on it."""
    where = world(name)
    s = setting(where, n=2000, alpha=0.01, b=0.8, rule=rule)
    R, g, a = where.beliefs.radius, float(proved.gap(s)), float(proved.participation(s))
    q, shift = np.meshgrid(np.linspace(-R, R, 801), np.linspace(-g, g, 41))
    least = float(np.min(RULES[rule](q + shift, q, a=a, b=0.8))) - float(proved.threshold(s) * s.privacy_cost)
    assert -1e-12 <= least <= 0.8 * max(g, 0.25)


@given(tau=amounts, b=amounts, rule=st.sampled_from(sorted(RULES)))
def test_the_joining_threshold_inverts_the_least_base_payment(tau: float, b: float, rule: str) -> None:
    s = usual(b=b, rule=rule)
    a = b * (float(proved.gap(s)) ** 2 + RULES[rule].linear / 4) + tau * float(s.privacy_cost)
    assert float(proved.joining_threshold(s.at(a=a))) == pytest.approx(tau, rel=1e-6, abs=1e-9 * a)
    needed = proved.participation(s)
    assert float(proved.joining_threshold(s.at(a=needed))) == pytest.approx(
        float(proved.threshold(s)), rel=1e-6, abs=1e-9 * b
    )


# Ridges, and the published results' other parts


@pytest.mark.parametrize("gamma", [1.0, 50.0])
@pytest.mark.parametrize("name", BALLS)
def test_the_bias_and_the_noise_of_a_ridge_are_within_their_bounds(name: str, gamma: float) -> None:
    where, n = world(name), 300
    s = setting(where, n=n, gamma=gamma)
    theta = where.worst_theta()
    X, y = where.people(np.random.default_rng(3), 200, n, theta)
    A = influence("ridge-free", where, X, gamma)
    spectral = np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X)[:, 0] > least_spectrum(s.model, n, s.beta)
    assert np.all(np.linalg.norm(gamma * A @ theta, axis=1)[spectral] <= float(proved.ridge_bias(s)))
    noise = np.einsum("kij,knj,kn->ki", A, X, y - X @ theta)[spectral]
    mean, error = squares(noise)
    assert mean - SIX * error <= float(proved.ridge_variance(s))
    mean, error = mean_and_error(np.linalg.norm(noise, axis=1))
    assert mean - SIX * error <= float(proved.noise_error(s)) <= 2 * mean


def test_liars_move_the_published_ridge_along_what_they_choose() -> None:
    where, n = world("ball 2"), 500
    s = setting(where, n=n, alpha=0.05, gamma=10.0, estimator="ridge-free")
    X, y = where.people(np.random.default_rng(4), 100, n, np.array([-1.0, 0.0]))
    A = influence("ridge-free", where, X, 10.0)
    lied = worst_reports(where, X, y, A[:, :, 0], 25)
    moved = np.linalg.norm(np.einsum("kij,knj,kn->ki", A, X, lied - y), axis=1)
    assert 0.3 * float(proved.liars(s)) < float(moved.max()) <= float(proved.liars(s))


def test_the_hessian_is_that_of_finite_differences() -> None:
    rng, gamma, h = np.random.default_rng(5), 0.7, 1e-4
    X, y, theta = rng.standard_normal((6, 3)), rng.standard_normal(6), rng.standard_normal(3)

    def loss(t: Floats) -> float:
        return float(np.sum((y - X @ t) ** 2) + gamma * t @ t)

    steps = h * np.eye(3)
    seen = [
        [loss(theta + a + b) - loss(theta + a) - loss(theta + b) + loss(theta) for a in steps] for b in steps
    ]
    np.testing.assert_allclose(np.array(seen) / h**2, proved.hessian(X, gamma), rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(proved.hessian(X[:2], gamma))[0] == pytest.approx(
        proved.strong_convexity(gamma)
    )


@pytest.mark.parametrize("d", [1, 4])
def test_the_covariance_is_that_of_the_ball(d: int) -> None:
    model = unit_ball(d, radius=1.0, noise_bound=1.0, noise_variance=0.3)
    np.testing.assert_allclose(proved.covariance(d), np.eye(d) * model.least_eigenvalue)


# Many settings at once


BOUNDS: dict[str, Callable[[Setting], object]] = {
    name: getattr(proved, name)
    for name in (
        "accuracy", "budget", "budget_cap", "gap", "joining_threshold", "least_squares_error", "liars", "lie_size",
        "likely_budget", "noise_error", "noise_scale", "participation", "prediction_error", "privacy",
        "ridge_bias", "ridge_variance", "sensitivity", "spectrum", "threshold", "truthfulness",
    )
}  # fmt: skip


#: What follows from the gap, which no ridge has.
OF_PEERS = ("budget", "gap", "joining_threshold", "lie_size", "participation", "truthfulness")


def test_every_result_about_a_setting_is_among_those_tried_on_many() -> None:
    others = {"composition", "covariance", "hessian", "noise_moments", "schedule", "strong_convexity"}
    assert set(BOUNDS) | others == {
        name
        for name, function in inspect.getmembers(proved, inspect.isfunction)
        if function.__module__ == proved.__name__ and not name.startswith("_")
    }


@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_grid_of_settings_is_answered_as_each_alone(estimator: str, payments: str) -> None:
    n, epsilon = np.array([[50.0], [3000.0], [10**6]]), np.array([0.1, 3.0])
    s = setting(
        world("ball 2"),
        n=n,
        epsilon=epsilon,
        alpha=np.array([0.0, 0.05]),
        gamma=n**0.5,
        estimator=estimator,
        payments=payments,
        rule="brier",
    )
    for name, bound in BOUNDS.items():
        if estimator.startswith("ridge") and name in OF_PEERS:
            continue
        grid = np.broadcast_to(np.asarray(bound(s)), (3, 2))
        for i in range(3):
            for j in range(2):
                size = float(n[i, 0])
                one = s.at(n=size, epsilon=float(epsilon[j]), alpha=[0.0, 0.05][j], gamma=size**0.5)
                assert grid[i, j] == pytest.approx(np.asarray(bound(one)).item(), rel=1e-9), (name, i, j)


# Schedule


def slopes(values: Floats, n: Floats) -> Floats:
    return np.asarray(np.diff(np.log(values)) / np.diff(np.log(n)))


@pytest.mark.parametrize(("delta", "tail", "k"), [(0.2, 2.0, 0.2), (0.1, 3.0, 0.35), (0.3, 10.0, 0.1)])
def test_the_schedule_makes_everything_small_at_its_rate(delta: float, tail: float, k: float) -> None:
    """Accuracy n^(−2δ), the size of lies and the budget fall to 0, the latter as n^(−k) or faster."""
    n, costs = np.geomspace(1e10, 1e16, 4), ParetoCosts(tail=tail, scale=1.0)
    s = proved.schedule(world("ball 2").model, costs, n, delta=delta, tail=tail, k=k)
    np.testing.assert_allclose(slopes(proved.accuracy(s), n), -2 * delta, atol=0.02)
    D, bill = proved.lie_size(s), proved.budget(s)
    # D is made of g, which falls as α, and of √(τh(ε)/b), which falls by the powers of its factors.
    powers = (-delta, (delta / tail - 2 + 2 * delta + 1 + k) / 2)
    assert np.all((slopes(D, n) > min(powers) - 0.02) & (slopes(D, n) < max(powers) + 0.04))
    assert np.all(slopes(np.asarray(bill), n) < -0.9 * k)
    assert np.all(np.asarray(s.a) >= proved.participation(s) * (1 - 1e-12))


def test_the_papers_own_weight_of_the_score_deters_no_lie() -> None:
    """b = n^(−3/2) falls faster than what privacy is worth: the size of a lie that pays does not fall."""
    n = np.geomspace(1e4, 1e12, 5)
    s = proved.schedule(world("ball 2").model, COSTS, n, delta=0.3, tail=10.0, k=0.1)
    saved = proved.threshold(s) * s.privacy_cost
    assert np.all(np.diff(saved / n**-1.5) > 0)
    assert np.all(np.diff(saved / np.asarray(s.b)) < 0)


@pytest.mark.parametrize(
    ("delta", "k", "message"), [(0.4, 0.05, "delta is 0.4"), (0.2, 0.35, "k is 0.35"), (0.2, 0.0, "k is 0")]
)
def test_a_schedule_outside_its_range_is_refused(delta: float, k: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        proved.schedule(world("ball 2").model, COSTS, 1000, delta=delta, tail=2.0, k=k)


# Edges


def test_payments_that_ignore_answers_deter_no_lie() -> None:
    s = usual(b=0.0, a=1.0, payments="expected").at(model=world("observed").model)
    assert proved.lie_size(s) == math.inf
    assert float(proved.truthfulness(s)) == pytest.approx(float(proved.threshold(s) * s.privacy_cost))
    assert float(proved.joining_threshold(s)) == pytest.approx(1.0 / s.privacy_cost)


def test_an_unbounded_privacy_cost_deters_no_lie() -> None:
    s = usual(alpha=0.0)
    assert proved.threshold(s) == proved.lie_size(s) == proved.truthfulness(s) == math.inf


def test_a_base_payment_below_what_lies_of_others_can_cost_promises_nobody_a_gain() -> None:
    s = usual(alpha=0.3, a=1e-6)
    assert proved.joining_threshold(s) == 0.0
    assert proved.joining_threshold(s.at(model=world("observed").model, payments="expected")) == 0.0


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"estimator": "ridge-ball"}, "left out of the estimator 'ridge-ball'"),
        ({"n": 1}, "n is 1; who is scored"),
    ],
)
def test_who_has_no_peers_is_promised_nothing(numbers: dict[str, float | str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        proved.gap(usual(**numbers))

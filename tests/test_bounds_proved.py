"""What a plan may promise is true: each bound next to its definition, and next to a simulation that could break it.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation; the
means are over thousands of independent runs), and the seeds are fixed.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from studies import DESIGNED, UNIT_BALL

from truthful.beliefs.curves import Clipped
from truthful.bounds import proved
from truthful.check import Floats
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.guarantees import design_constants, response_constants
from truthful.noise import L2Laplace
from truthful.study import Study

BALL, UNIFORM = Study.parse(UNIT_BALL), Study.parse(DESIGNED)
SIX = 6.0

amounts = st.floats(1e-6, 1e3)
gaps = st.floats(0, 10)


def features(study: Study, rng: np.random.Generator, runs: int, n: int) -> Floats:
    X = study.normalise(study.sample_features(rng, runs * n))
    return X.reshape(runs, n, study.dimension)


def answers(study: Study, rng: np.random.Generator, X: Floats, theta: Floats) -> Floats:
    """y = θ·x + z, for one θ or one for each run."""
    runs, n, d = X.shape
    noise = study.beliefs.noise.sample(rng, runs * n).reshape(runs, n)
    return np.asarray(np.einsum("knd,kd->kn", X, np.broadcast_to(theta, (runs, d))) + noise)


def lie(study: Study, X: Floats, y: Floats, alpha: float) -> Floats:
    """The worst a share α can do in the direction of the first coefficient: those with most weight say ±Y."""
    Y, liars = study.beliefs.response_bound, math.floor(alpha * X.shape[1])
    lied = y.copy()
    for run in range(len(X)):
        chosen = np.argsort(-np.abs(X[run, :, 0]))[:liars]
        lied[run, chosen] = Y * np.sign(X[run, chosen, 0])
    return lied


def squares(errors: Floats) -> tuple[float, float]:
    """Mean of ‖error‖² over the runs, and its standard error."""
    norms = np.sum(errors**2, axis=1)
    return float(norms.mean()), float(norms.std() / math.sqrt(len(norms)))


def worst_theta(study: Study) -> Floats:
    """The θ of norm R at which sampling error is largest: an eigenvector, as `design_constants` says."""
    Sigma = study.second_moments
    assert Sigma is not None
    total = sum(study.weighted_moments(w) for w in np.linalg.inv(Sigma).T)
    return np.asarray(study.beliefs.radius * np.linalg.eigh(total)[1][:, -1])


# Closed forms


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_the_constants_of_the_ball_are_those_of_its_closed_forms(d: int) -> None:
    names = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(d))
    text = UNIT_BALL.replace('[[features]]\nname = "x1"\n[[features]]\nname = "x2"\n', names)
    study = Study.parse(text.replace("radius = 1.0", "radius = 0.7"))
    design, R, sigma2 = design_constants(study), 0.7, study.beliefs.noise_variance
    sampling = d * (d + 2) * sigma2 + R**2 * ((d + 2) ** 2 / (d + 4) - 1)
    direction = (d + 2) * sigma2 + R**2 * (3 * (d + 2) / (d + 4) - 1)
    assert design.sampling_variance == pytest.approx(sampling, rel=1e-12)
    assert design.direction_variance == pytest.approx(direction, rel=1e-12)
    assert design.inverse_square == pytest.approx(d * (d + 2) ** 2, rel=1e-12)
    assert design.least_eigenvalue == design.greatest_eigenvalue == pytest.approx(1 / (d + 2), rel=1e-12)


def test_the_error_of_a_known_design_on_the_ball_is_the_closed_form() -> None:
    d, n, epsilon, alpha = 2, 1000, 0.5, 0.01
    R, sigma2, Y = 1.0, BALL.beliefs.noise_variance, 2.0
    V = (d * (d + 2) * sigma2 + R**2 * ((d + 2) ** 2 / (d + 4) - 1)) / n
    wanted = (2 * Y * alpha * (d + 2) + math.sqrt(V)) ** 2 + d * (d + 1) * (
        2 * Y * (d + 2) / (n * epsilon)
    ) ** 2
    scale = 2 * Y / (n * epsilon)
    stated = proved.known_design_error(design_constants(BALL), response_constants(BALL), n, scale, alpha)
    assert stated == pytest.approx(wanted, rel=1e-12)


@given(gap=gaps, tau=amounts, cost=amounts, b=amounts)
def test_a_lie_of_just_the_stated_size_gains_nothing(gap: float, tau: float, cost: float, b: float) -> None:
    D = proved.lie_size(gap, tau, cost, b)
    assert b * (2 * D * gap - D**2) + tau * cost == pytest.approx(0, abs=1e-9 * (tau * cost + b * D**2))
    assert 2 * gap <= D


@given(gap=gaps, tau=amounts, cost=amounts, b=amounts, moved=st.floats(0, 100))
def test_no_lie_of_any_size_gains_more_than_the_slack(
    gap: float, tau: float, cost: float, b: float, moved: float
) -> None:
    slack = proved.truth_slack(gap, tau, cost, b)
    assert b * (2 * moved * gap - moved**2) + tau * cost <= slack * (1 + 1e-12)


@given(gap=gaps, tau=amounts, cost=amounts, b=amounts, rule=st.sampled_from(["quadratic", "brier"]))
def test_the_joining_threshold_inverts_the_least_base_payment(
    gap: float, tau: float, cost: float, b: float, rule: str
) -> None:
    a = b * (gap**2 + (0.25 if rule == "brier" else 0)) + tau * cost
    assert proved.joining_threshold(a, b, gap, cost, rule) == pytest.approx(
        tau, rel=1e-6, abs=1e-9 * a / cost
    )
    assert proved.joining_threshold(a / 2 - tau * cost, b, gap, cost, rule) <= tau


def test_a_player_who_expects_the_peers_off_by_the_gap_gets_at_least_what_participation_counts_on() -> None:
    """E[payment] = a + b(2p̄q − q²) over every q in range and p̄ within the gap, on a grid."""
    a, b, gap, R = 0.3, 0.2, 0.1, 0.6
    q, shift = np.meshgrid(np.linspace(-R, R, 601), np.linspace(-gap, gap, 41))
    p = q + shift
    assert np.min(a + b * (2 * p * q - q**2)) >= a - b * gap**2 - 1e-12
    assert np.min(a - b * (p - 2 * p * q + q**2)) >= a - b * (gap**2 + 0.25) - 1e-12


def test_the_gap_of_a_ridge_is_its_formula_at_the_best_tolerance() -> None:
    n, gamma, alpha, least, d = 5000, 30.0, 0.01, 0.25, 2
    R, Y, sigma2 = 0.6, 1.0, 0.03
    m = proved.least_half(n)
    lies, deviations = [2 * Y * alpha * n / gamma], [math.sqrt(sigma2 / (4 * gamma)) + 2 * R]
    for k in range(1, 100):
        xi = k / 100
        off = min(1.0, d * math.exp(-(xi**2) * m * least / 2))
        D = gamma + (1 - xi) * m * least
        lies.append(2 * Y * alpha / (gamma / n + (1 - xi) * least) + off * lies[0])
        deviations.append(math.sqrt(sigma2 / D) + R * gamma / D + off * deviations[0])
    design, response = proved.Design(d, least), proved.Response(R, Y - R, sigma2)
    unclipped = proved.ridge_gap(design, response, n, gamma, alpha, False)
    clipped = proved.ridge_gap(design, response, n, gamma, alpha, True)
    assert unclipped == pytest.approx(min(lies) + 1e-9 * lies[0], rel=1e-12)
    assert clipped == pytest.approx(min(lies) + math.sqrt(min(deviations) ** 2 + 1e-9 * 4 * R**2), rel=1e-12)


@pytest.mark.parametrize("clipped", [True, False])
def test_the_gap_of_noisy_statistics_is_its_formula_at_the_best_probability(clipped: bool) -> None:
    n, alpha, least, d, s, floor = 50_000, 0.01, 0.25, 2, 1e-3, 3e-3
    R, Y, sigma2 = 0.6, 1.0, 0.03
    m = proved.least_half(n)
    gaps = []
    for k in range(1, 16):
        beta = 10.0**-k
        nu = float(stats.gamma(3, scale=s).isf(beta))
        low = least * (1 - math.sqrt(2 * math.log(d / beta) / (m * least)))
        bad, t, lies = 2 * beta + 1e-9, nu / low, 2 * Y * alpha / (low - nu)
        sampling, gram = sigma2 / (m * low * (1 - t) ** 2), R**2 * 3 * 4 * s**2 / d / (low - nu) ** 2
        whole = math.sqrt(sampling + gram + bad * 4 * R**2)
        second_order = R * t**2 / (1 - t) + bad * (R + Y / (floor * m / n))
        gaps.append(lies + (whole if clipped else second_order))
    design, response = proved.Design(d, least), proved.Response(R, Y - R, sigma2)
    stated = proved.noisy_statistics_gap(design, response, n, s, floor, alpha, clipped)
    assert stated == pytest.approx(min(gaps), rel=1e-9)


# Edge cases


NOTHING = proved.Design(3, 0.0)
SMALL = proved.Response(0.6, 0.4, 0.03)


def test_without_a_declared_spread_of_features_nothing_is_promised() -> None:
    assert proved.known_design_gap(NOTHING, SMALL, 1000, 0.0, True) == math.inf
    assert proved.ridge_gap(NOTHING, SMALL, 1000, 10.0, 0.0, True) == math.inf
    assert proved.noisy_statistics_gap(NOTHING, SMALL, 1000, 1e-6, 1e-6, 0.0, True) == math.inf
    assert proved.known_design_error(NOTHING, SMALL, 1000, 0.1, 0.0) == math.inf
    assert proved.noisy_statistics_error(NOTHING, SMALL, 1000, 0.1, 1e-6, 1e-6, 0.0, 0.01) == math.inf


def test_the_ridges_promise_no_more_than_the_prior_knows_without_a_declared_spread() -> None:
    free = proved.ridge_error(NOTHING, SMALL, 1000, 0.0, 10.0, 0.0, 0.01, ball=False)
    ball = proved.ridge_error(NOTHING, SMALL, 1000, 0.0, 10.0, 0.0, 0.01, ball=True)
    assert free >= SMALL.radius**2
    assert SMALL.radius**2 <= ball <= (2 * SMALL.radius) ** 2


def test_payments_that_ignore_answers_deter_no_lie_but_cost_only_the_base() -> None:
    assert proved.lie_size(math.inf, 1.0, 1.0, 0.0) == math.inf
    assert proved.truth_slack(math.inf, 2.0, 0.5, 0.0) == 1.0
    assert proved.joining_threshold(1.0, 0.0, math.inf, 0.5, "quadratic") == 2.0
    assert proved.expected_budget(10, 1.0, 0.0, math.inf, 0.1, 0.2, 1.0, "quadratic") == 10.0


def test_an_unbounded_privacy_cost_deters_no_lie() -> None:
    assert proved.lie_size(0.1, math.inf, 0.01, 1.0) == math.inf
    assert proved.truth_slack(0.1, math.inf, 0.01, 1.0) == math.inf


def test_a_base_payment_below_what_lies_of_others_can_cost_promises_nobody_a_gain() -> None:
    assert proved.joining_threshold(0.1, 1.0, 1.0, 0.01, "quadratic") == 0.0
    assert proved.joining_threshold(0.1, 1.0, math.inf, 0.01, "quadratic") == 0.0
    assert proved.joining_threshold(0.1, 0.1, 0.0, 0.0, "quadratic") == math.inf


def test_a_floor_that_would_bind_promises_nothing() -> None:
    design = proved.Design(2, 0.25)
    fine = proved.noisy_statistics_error(design, SMALL, 10**5, 1e-3, 1e-4, 0.1, 0.0, 0.01)
    assert math.isfinite(fine)
    assert proved.noisy_statistics_error(design, SMALL, 10**5, 1e-3, 1e-4, 0.3, 0.0, 0.01) == math.inf
    assert proved.noisy_statistics_gap(design, SMALL, 10**5, 1e-4, 0.3, 0.0, True) == math.inf


@pytest.mark.parametrize("n", [2, 3, 5, 10])
def test_two_players_are_enough_for_every_formula(n: int) -> None:
    design, response = design_constants(BALL), response_constants(BALL)
    for clipped in (True, False):
        assert proved.known_design_gap(design, response, n, 0.1, clipped) > 0
        assert proved.ridge_gap(design, response, n, 1.0, 0.1, clipped) > 0
        assert proved.noisy_statistics_gap(design, response, n, 1.0, 1.0, 0.1, clipped) == math.inf
    assert proved.ridge_error(design, response, n, 0.1, 1.0, 0.1, 0.01, ball=True) > 0


@pytest.mark.parametrize("clipped", [True, False])
def test_a_larger_absent_share_never_narrows_a_gap(clipped: bool) -> None:
    design, response = design_constants(BALL), response_constants(BALL)
    bounds: list[Callable[[float], float]] = [
        lambda alpha: proved.known_design_gap(design, response, 4000, alpha, clipped),
        lambda alpha: proved.ridge_gap(design, response, 4000, 50.0, alpha, clipped),
        lambda alpha: proved.noisy_statistics_gap(design, response, 4000, 1e-4, 1e-3, alpha, clipped),
    ]
    for bound in bounds:
        values = [bound(alpha) for alpha in (0.0, 0.001, 0.01, 0.1)]
        assert values == sorted(values)
        assert values[0] < values[-1] < math.inf


# Random halves and spectra


@pytest.mark.parametrize("n", [2, 10, 31, 32, 100, 1000, 20_000, 10**9])
def test_a_half_is_smaller_than_stated_only_with_the_stated_chance(n: int) -> None:
    m = proved.least_half(n)
    empty = float(stats.binom.pmf(0, n - 1, 0.5))
    assert 1 <= m <= max(1, n // 2)
    assert float(stats.binom.cdf(m - 1, n - 1, 0.5)) - empty <= proved.HALF_MISS


def test_the_spectrum_leaves_its_bounds_with_no_more_than_the_stated_probability() -> None:
    """2,000 runs at β = 0.05: more than 159 failures would have probability below 1e-8 if the bound held."""
    rng, n, beta, runs = np.random.default_rng(1), 400, 0.05, 2000
    for study in (BALL, UNIFORM):
        X, design = features(study, rng, runs, n), design_constants(study)
        values = np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X)
        low, high = (f(design, n, beta) for f in (proved.least_spectrum, proved.greatest_spectrum))
        assert 0 < low < high <= n
        assert np.sum(values[:, 0] <= low) <= 159
        assert np.sum(values[:, -1] >= high) <= 159


def test_the_greatest_eigenvalue_is_never_above_the_number_of_players() -> None:
    assert proved.greatest_spectrum(proved.Design(5, 0.0), 10, 0.01) == 10.0
    assert proved.greatest_spectrum(proved.Design(1, 0.9, 0.9), 10**6, 0.01) < 10**6


# Accuracy against simulation


@pytest.mark.parametrize("study", [BALL, UNIFORM], ids=["ball", "uniform"])
def test_the_error_of_a_known_design_is_just_what_is_stated(study: Study) -> None:
    """At the worst θ and without lies the bound is an equality, so it is tested from both sides."""
    rng, n, runs = np.random.default_rng(2), 100, 20_000
    theta, scale = worst_theta(study), 0.01
    X = features(study, rng, runs, n)
    y = answers(study, rng, X, theta)
    Sigma = study.second_moments
    assert Sigma is not None
    v = L2Laplace(study.dimension, scale).sample(rng, runs)
    estimates = (np.einsum("knd,kn->kd", X, y) / n + v) @ np.linalg.inv(Sigma)
    mean, error = squares(estimates - theta)
    stated = proved.known_design_error(design_constants(study), response_constants(study), n, scale, 0.0)
    assert mean == pytest.approx(stated, abs=SIX * error)
    assert SIX * error < 0.1 * stated


@pytest.mark.parametrize("study", [BALL, UNIFORM], ids=["ball", "uniform"])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_liars_move_a_known_design_no_further_than_stated(study: Study, alpha: float) -> None:
    rng, n, runs = np.random.default_rng(3), 200, 3000
    theta = -worst_theta(study)
    X = features(study, rng, runs, n)
    y = lie(study, X, answers(study, rng, X, theta), alpha)
    Sigma = study.second_moments
    assert Sigma is not None
    mean, error = squares(np.einsum("knd,kn->kd", X, y) / n @ np.linalg.inv(Sigma) - theta)
    design, response = design_constants(study), response_constants(study)
    assert mean - SIX * error <= proved.known_design_error(design, response, n, 0.0, alpha)
    assert mean - SIX * error > proved.known_design_error(design, response, n, 0.0, 0.0)


def ridge(X: Floats, y: Floats, gamma: float) -> Floats:
    gram = X.transpose(0, 2, 1) @ X + gamma * np.eye(X.shape[2])
    return np.asarray(np.linalg.solve(gram, np.einsum("knd,kn->kd", X, y)[..., None])[..., 0])


def ball_ridge(X: Floats, y: Floats, gamma: float, R: float) -> Floats:
    """The minimiser over the ball, by bisection on the multiplier."""
    values, vectors = np.linalg.eigh(X.transpose(0, 2, 1) @ X)
    cross = np.einsum("kdj,kd->kj", vectors, np.einsum("knd,kn->kd", X, y))
    low = np.zeros(len(X))
    high = np.linalg.norm(cross, axis=1) / R
    for _ in range(60):
        middle = (low + high) / 2
        outside = np.linalg.norm(cross / (values + gamma + middle[:, None]), axis=1) > R
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    inside = np.linalg.norm(cross / (values + gamma), axis=1) <= R
    multiplier = np.where(inside, 0.0, high)
    return np.asarray(np.einsum("kdj,kj->kd", vectors, cross / (values + gamma + multiplier[:, None])))


@pytest.mark.slow
@pytest.mark.parametrize("ball", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 40.0])
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_the_error_of_a_ridge_is_at_most_what_is_stated(ball: bool, gamma: float, alpha: float) -> None:
    rng, n, runs = np.random.default_rng(4), 1000, 2000
    R = BALL.beliefs.radius
    design, response = design_constants(BALL), response_constants(BALL)
    for theta in (np.array([-R, 0.0]), np.array([0.3 * R, -0.4 * R])):
        X = features(BALL, rng, runs, n)
        y = lie(BALL, X, answers(BALL, rng, X, theta), alpha)
        noise = L2Laplace(2, 0.02).sample(rng, runs)
        fitted = ball_ridge(X, y, gamma, R) if ball else ridge(X, y, gamma)
        mean, error = squares(fitted + noise - theta)
        stated = proved.ridge_error(design, response, n, 0.02, gamma, alpha, 0.01, ball)
        assert mean - SIX * error <= stated
        assert stated < (2 * R) ** 2


def symmetric_noise(rng: np.random.Generator, runs: int, d: int, scale: float) -> Floats:
    """N with density ∝ exp(−‖N‖_F/scale) on the symmetric matrices."""
    rows, columns = np.triu_indices(d)
    v = L2Laplace(len(rows), scale).sample(rng, runs) / np.where(rows == columns, 1.0, math.sqrt(2))
    N = np.zeros((runs, d, d))
    N[:, rows, columns] = v
    N[:, columns, rows] = v
    return N


@pytest.mark.slow
@pytest.mark.parametrize("study", [BALL, UNIFORM], ids=["ball", "uniform"])
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_the_error_of_noisy_statistics_is_at_most_what_is_stated(study: Study, alpha: float) -> None:
    rng, n, runs, d = np.random.default_rng(5), 3000, 1000, study.dimension
    least = study.least_eigenvalue
    assert least is not None
    scale, gram_scale, floor = 2e-3, 4e-4, 4e-4 * d**1.5
    theta = np.zeros(d)
    theta[0] = -study.beliefs.radius
    X = features(study, rng, runs, n)
    y = lie(study, X, answers(study, rng, X, theta), alpha)
    G = X.transpose(0, 2, 1) @ X / n + symmetric_noise(rng, runs, d, gram_scale)
    c = np.einsum("knd,kn->kd", X, y) / n + L2Laplace(d, scale).sample(rng, runs)
    values, vectors = np.linalg.eigh(G)
    floored = np.einsum("kij,kj,klj->kil", vectors, 1 / np.maximum(values, floor), vectors)
    mean, error = squares(np.einsum("kij,kj->ki", floored, c) - theta)
    design = proved.Design(d, least)
    stated = proved.noisy_statistics_error(
        design, response_constants(study), n, scale, gram_scale, floor, alpha, 0.01
    )
    assert mean - SIX * error <= stated < math.inf


def test_the_gram_noise_moves_a_vector_by_just_what_is_stated() -> None:
    """E‖Nθ‖² from both sides. The stated part is isolated: all other errors are zero or cancel in a ratio."""
    rng, d, scale = np.random.default_rng(6), 3, 1e-3
    response = proved.Response(0.7, 0.0, 0.0)

    def stated(cross_scale: float) -> float:
        design = proved.Design(d, 0.3)
        return proved.noisy_statistics_error(design, response, 10**9, cross_scale, scale, 0.01, 0.0, 0.01)

    margin_square = d * (d + 1) / (stated(1.0) - stated(0.0))
    mean, error = squares(symmetric_noise(rng, 60_000, d, scale) @ np.array([0.6, -0.3, 0.2]))
    assert mean == pytest.approx(stated(0.0) * margin_square, abs=SIX * error)


# Gaps against simulation: a player of features x and answer y, her peers' prediction averaged over what she believes


def peers_expected(
    study: Study,
    x: Floats,
    y: float,
    estimate: Callable[[np.random.Generator, Floats, Floats], Floats],
    clipped: bool,
    m: int,
    alpha: float = 0.0,
    runs: int = 20_000,
) -> tuple[float, float]:
    """E[p | x, y] and its standard error: θ from the prior, each run weighing the density of y − θ·x."""
    rng = np.random.default_rng(7)
    thetas = study.beliefs.prior.sample(rng, study.dimension, runs)
    weights = study.beliefs.noise.density(y - thetas @ x)
    thetas, weights = thetas[weights > 0], weights[weights > 0]
    X = features(study, rng, len(thetas), m)
    reports = lie(study, X, answers(study, rng, X, thetas), alpha)
    p = estimate(rng, X, reports) @ x
    if clipped:
        limit = study.beliefs.radius * float(np.linalg.norm(x))
        p = np.clip(p, -limit, limit)
    mean = float(np.average(p, weights=weights))
    return mean, float(np.sqrt(np.sum((weights * (p - mean)) ** 2)) / np.sum(weights))


def known_design_estimate(scale: float) -> Callable[[np.random.Generator, Floats, Floats], Floats]:
    def estimate(rng: np.random.Generator, X: Floats, y: Floats) -> Floats:
        runs, m, d = X.shape
        cross = np.einsum("knd,kn->kd", X, y) / m
        return np.asarray((d + 2) * (cross + L2Laplace(d, scale).sample(rng, runs)))

    return estimate


PLAYER = (np.array([0.6, 0.5]), 1.1)


def test_a_known_design_predicts_on_average_what_a_truthful_player_says_it_will() -> None:
    x, y = PLAYER
    mean, error = peers_expected(BALL, x, y, known_design_estimate(0.02), False, 40)
    q = float(BALL.beliefs.own_prediction(x[None], np.array([y]))[0])
    assert mean == pytest.approx(q, abs=SIX * error)
    assert SIX * error < 0.1
    assert proved.known_design_gap(design_constants(BALL), response_constants(BALL), 80, 0.0, False) == 0.0


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_clipping_and_lies_part_peers_and_player_by_no_more_than_the_gap(alpha: float) -> None:
    (x, y), m, scale = PLAYER, 40, 0.05
    mean, error = peers_expected(BALL, x, y, known_design_estimate(scale), True, m, alpha)
    curve = Clipped(BALL.beliefs.radius, 2)
    along = np.array([scale * 4])
    q = float(BALL.beliefs.prediction(np.array([np.linalg.norm(x)]), np.array([y]), curve, along)[0])
    n = next(n for n in range(m, 10 * m) if proved.least_half(n) == m)
    gap = proved.known_design_gap(design_constants(BALL), response_constants(BALL), n, alpha, True)
    assert abs(mean - q) - SIX * error <= gap


def test_the_free_ridge_predicts_the_shrunk_prediction_it_is_scored_against() -> None:
    (x, y), m, gamma = PLAYER, 40, 5.0
    mean, error = peers_expected(BALL, x, y, lambda rng, X, y: ridge(X, y, gamma), False, m)
    q = shrinkage_factor(m, gamma, 2) * float(BALL.beliefs.own_prediction(x[None], np.array([y]))[0])
    assert mean == pytest.approx(q, abs=SIX * error + 1e-4)
    assert proved.ridge_gap(design_constants(BALL), response_constants(BALL), 80, gamma, 0.0, False) == 0.0


def noisy_estimate(gram_scale: float) -> Callable[[np.random.Generator, Floats, Floats], Floats]:
    def estimate(rng: np.random.Generator, X: Floats, y: Floats) -> Floats:
        runs, m, d = X.shape
        G = X.transpose(0, 2, 1) @ X / m + symmetric_noise(rng, runs, d, gram_scale)
        values, vectors = np.linalg.eigh(G)
        floored = np.einsum("kij,kj,klj->kil", vectors, 1 / np.maximum(values, gram_scale * d**1.5), vectors)
        return np.asarray(np.einsum("kij,kn,knj->ki", floored, y, X, optimize=True) / m)

    return estimate


@pytest.mark.parametrize("alpha", [0.0, 0.05])
@pytest.mark.parametrize("clipped", [True, False])
def test_noisy_statistics_part_peers_and_player_by_no_more_than_the_gap(alpha: float, clipped: bool) -> None:
    """Without noise in Xᵀy the clipped curve is the identity, so q is the same in both cases."""
    (x, y), m, gram_scale = PLAYER, 600, 0.004
    mean, error = peers_expected(BALL, x, y, noisy_estimate(gram_scale), clipped, m, alpha, runs=3000)
    q = float(BALL.beliefs.own_prediction(x[None], np.array([y]))[0])
    n = next(n for n in range(m, 10 * m) if proved.least_half(n) == m)
    design = proved.Design(2, 0.25)
    floor = gram_scale * 2**1.5
    gap = proved.noisy_statistics_gap(design, response_constants(BALL), n, gram_scale, floor, alpha, clipped)
    assert abs(mean - q) - SIX * error <= gap < math.inf


# Budget


def test_the_cap_is_what_everybody_gets_at_the_best_possible_score() -> None:
    R, b, n = 0.6, 0.2, 7
    a = 3 * b * R**2
    best = n * (a + b * (2 * R * R - R**2))
    assert proved.budget_cap(n, a, b, R**2) == pytest.approx(best)


def test_liars_cost_at_most_their_largest_score() -> None:
    honest = proved.expected_budget(100, 1.0, 1.0, 0.1, 0.0, 0.04, 0.5, "quadratic")
    lied = proved.expected_budget(100, 1.0, 1.0, 0.1, 0.5, 0.04, 0.5, "quadratic")
    assert honest == pytest.approx(100 * (1 + 0.04 + 0.2 * 0.2))
    assert lied == pytest.approx(100 * (1 + 0.5 * 0.08 + 0.5 * 0.5))
    brier = proved.expected_budget(100, 1.0, 1.0, 0.1, 0.0, 0.04, 0.5, "brier")
    assert brier == pytest.approx(honest + 100 * 0.1)

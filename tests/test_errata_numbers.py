"""The numbers of every erratum by other means: eigenvalues, exact fractions, quadrature, brute force, simulation.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9, and seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from support.oracles_noise import log_density

from truthful.bounds import proved, published
from truthful.bounds.setting import Setting, unit_ball
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, ParetoCosts
from truthful.errata import corollary, errata, ridge_error
from truthful.noise import L2Laplace
from truthful.scoring import basic_brier, brier

FOUND = {erratum.number: erratum for erratum in errata()}
SIX = 6.0


def ridge(X: Floats, y: Floats, gamma: float) -> Floats:
    """Ridge regression as least squares on d more rows, √γ·I with responses 0."""
    d = X.shape[1]
    rows, responses = np.vstack([X, math.sqrt(gamma) * np.eye(d)]), np.concatenate([y, np.zeros(d)])
    return np.asarray(np.linalg.lstsq(rows, responses)[0])


def most_log_ratio(scale: float, apart: float) -> float:
    """The largest log ratio of the densities of two outputs with the same noise, over a grid of outputs."""
    outputs = np.linspace(-3 * apart, 3 * apart, 601)[:, None]
    law = L2Laplace(1, scale)
    return float(np.max(log_density(law, outputs) - log_density(law, outputs - apart)))


def test_e1_for_b_below_1_one_record_moves_ridge_five_times_as_far_as_published() -> None:
    change, claimed = 2 * Fraction(1, 10) / 101, 4 * Fraction(1, 100) / 100
    assert FOUND["E1"].correct == pytest.approx(float(change), rel=1e-12)
    assert FOUND["E1"].published == pytest.approx(float(claimed), rel=1e-12)
    # With noise for the claimed sensitivity at ε = 1, the privacy loss is almost five.
    assert most_log_ratio(float(claimed), float(change)) == pytest.approx(float(change / claimed))
    assert change / claimed > Fraction(49, 10)


def test_e2_one_unclipped_report_moves_ridge_without_limit() -> None:
    moved = [ridge(np.ones((1, 1)), np.array([report]), 100.0)[0] for report in (1e3, 1e6, 1e9)]
    assert np.diff(np.log10(moved)) == pytest.approx([3, 3])
    assert FOUND["E2"].correct == pytest.approx(moved[-1])
    assert FOUND["E2"].published == pytest.approx((4 + 2) / 100)


def test_e3_one_record_moves_ridge_more_than_three_times_as_far_as_published() -> None:
    gamma, ratios = 1e3, []
    for n in (10**4, 10**5, 10**6):
        X, y = np.full((n, 1), math.sqrt(gamma / (3 * n))), np.full(n, 2.0)
        before = ridge(X, y, gamma)
        X[0], y[0] = 1.0, -2.0
        ratios.append(float(np.abs(ridge(X, y, gamma) - before)[0]) / (6 / gamma))
    assert ratios[-1] == pytest.approx(FOUND["E3"].correct / FOUND["E3"].published, rel=1e-6)
    assert ratios[-1] > 3
    # Without limit: each tenfold n adds about √10 times what the last one added.
    assert np.diff(ratios)[1] / np.diff(ratios)[0] == pytest.approx(math.sqrt(10), rel=0.05)


def test_e4_the_density_ratio_reaches_epsilon_and_not_half_of_it() -> None:
    sensitivity, epsilon = 6 / 100, 1.0
    assert most_log_ratio(sensitivity / epsilon, sensitivity) == pytest.approx(FOUND["E4"].correct)
    assert most_log_ratio(2 * sensitivity / epsilon, sensitivity) == pytest.approx(FOUND["E4"].published)
    assert pytest.approx(epsilon) == FOUND["E4"].correct


def test_e5_finite_differences_give_the_hessian_with_the_factor_two() -> None:
    def loss(theta: float) -> float:
        return sum((y - theta) ** 2 for y in (0.3, -0.7)) + theta**2

    second = (loss(1.01) - 2 * loss(1.0) + loss(0.99)) / 0.01**2
    assert second == pytest.approx(FOUND["E5"].correct, rel=1e-9)
    assert second != pytest.approx(FOUND["E5"].published, rel=0.3)


def test_e6_the_mean_square_norm_of_the_noise_grows_with_the_dimension() -> None:
    def moment(d: int, power: int) -> float:
        return quad(lambda r: r ** (d - 1 + power) * math.exp(-r), 0, math.inf)[0] / math.gamma(d)

    assert FOUND["E6"].correct == pytest.approx(moment(5, 2))
    assert (moment(1, 1), moment(1, 2)) == pytest.approx(published.noise_moments(1, 1.0))
    assert (moment(5, 1), moment(5, 2)) == pytest.approx((5, 30))
    squares = np.sum(L2Laplace(5, 1.0).sample(np.random.default_rng(6), 200_000) ** 2, axis=1)
    assert abs(squares.mean() - FOUND["E6"].correct) < SIX * squares.std() / math.sqrt(len(squares))


def test_e7_an_uneven_split_has_less_than_a_third_of_the_noise_at_the_same_privacy() -> None:
    ball = unit_ball(2, radius=1.0, noise_bound=1.0, noise_variance=1 / 3)
    s = Setting(model=ball, costs=ParetoCosts(2.0, 1.0), n=1000.0, epsilon=1.0, alpha=0.0)
    even, uneven, all_of_it = (proved.noise_scale(s.at(epsilon=share)) for share in (0.5, 0.9, 1.0))
    assert proved.privacy(s) == published.privacy(s) == 1.0
    assert (even / all_of_it) ** 2 == pytest.approx(FOUND["E7"].published)
    assert (uneven / all_of_it) ** 2 == pytest.approx(FOUND["E7"].correct)
    assert uneven**2 < even**2 / 3


def test_e8_the_level_that_is_charged_for_is_twice_the_papers_epsilon() -> None:
    epsilon, apart = 0.1, 1.0
    # Her record moves the published estimate and one half's; an observer sees both.
    seen = 2 * most_log_ratio(apart / epsilon, apart)
    assert seen == pytest.approx(2 * epsilon)
    assert PRIVACY_COSTS["quadratic"](seen) == pytest.approx(FOUND["E8"].correct)
    assert PRIVACY_COSTS["quadratic"](epsilon) == pytest.approx(FOUND["E8"].published)


def test_e9_the_expected_log_ratio_of_laplace_noise_is_of_order_epsilon() -> None:
    epsilon = 0.1
    outputs = np.random.default_rng(9).laplace(size=200_000)
    distances = np.abs(outputs[:, None] - np.array([0.0, epsilon]))
    inside = (outputs > 0) & (outputs < epsilon)
    nearest = np.where(inside, 0.0, distances.min(axis=1))
    costs = (distances.max(axis=1) - nearest) / 4
    assert abs(costs.mean() - FOUND["E9"].correct) < SIX * costs.std() / math.sqrt(len(costs))
    assert FOUND["E9"].correct > 2 * FOUND["E9"].published
    # What the composition lemma does bound, the difference that a lie makes, is far smaller.
    assert 4 * FOUND["E9"].correct > 2 * published.composition(1.0, epsilon)[1]


def ball(rng: np.random.Generator, runs: int, n: int, d: int) -> Floats:
    """Features uniform on the unit ball, shape (runs, n, d)."""
    X = rng.normal(size=(runs, n, d))
    X *= (rng.random((runs, n)) ** (1 / d) / np.linalg.norm(X, axis=2))[:, :, None]
    return X


def grams(X: Floats) -> Floats:
    return np.asarray(X.transpose(0, 2, 1) @ X)


def off(values: Floats, wanted: float) -> float:
    """How many standard errors the mean of the values is from what is wanted."""
    return abs(float(values.mean()) - wanted) / (float(values.std()) / math.sqrt(len(values)))


def test_e10_a_matrix_below_the_spectrum_bound_contradicts_weyl_and_not_the_papers_inequality() -> None:
    gram, mu, xi = np.diag([3.0, 0.5]), 2.0, 0.5
    least, greatest = np.linalg.eigvalsh(gram)
    assert least < (1 - xi) * mu
    assert least - mu <= 0  # what the paper calls a contradiction
    distance = np.abs(np.linalg.eigvalsh(gram - mu * np.eye(2))).max()
    assert distance == FOUND["E10"].correct > xi * mu  # what is one
    assert greatest - mu == FOUND["E10"].published
    for G in grams(ball(np.random.default_rng(10), 200, 8, 2)):
        assert abs(np.linalg.eigvalsh(G)[0] - mu) <= np.linalg.norm(G - mu * np.eye(2), 2) + 1e-12


def test_e11_the_published_spectrum_bound_is_vacuous_at_one_feature_and_chernoffs_is_not() -> None:
    assert [float(published.spectrum(corollary(n, d=1))) for n in (1e2, 1e4, 1e8)] == [1, 1, 1]
    assert FOUND["E11"].published == 1
    xi, mu = 0.5, 100 / 3
    assert FOUND["E11"].correct == pytest.approx(math.exp(-mu * (xi + (1 - xi) * math.log(1 - xi))))
    assert "d·exp(−μ(ξ + (1−ξ)ln(1−ξ)))" in FOUND["E11"].fact  # what is printed is what is computed
    assert FOUND["E11"].correct <= math.exp(-(xi**2) * mu / 2)
    # At ten players the event is common enough to be seen; the bound holds, by far more than six standard errors.
    squares = np.sum(ball(np.random.default_rng(11), 20_000, 10, 1)[:, :, 0] ** 2, axis=1)
    bound = math.exp(-10 / 3 * (xi + (1 - xi) * math.log(1 - xi)))
    assert 0 < np.mean(squares <= (1 - xi) * 10 / 3) < bound < 1


def test_e12_an_unbiased_private_estimate_is_twenty_times_as_accurate_as_ridge() -> None:
    rng, runs, n, d = np.random.default_rng(12), 150, 10_000, 5
    epsilon, theta, errors, penalties = 0.5, np.eye(5)[0], [], (200.0, 360.0, 800.0)
    ridge: dict[float, list[float]] = {gamma: [] for gamma in penalties}
    for _ in range(runs):
        X = ball(rng, 1, n, d)[0]
        y = X @ theta + rng.uniform(-1, 1, n)
        errors.append((d + 2) * X.T @ y / n - theta)
        for gamma in penalties:
            fit = np.linalg.solve(gamma * np.eye(d) + X.T @ X, X.T @ y)
            ridge[gamma].append(
                float(np.sum((fit - theta) ** 2)) + d * (d + 1) * (6 / (gamma * epsilon)) ** 2
            )
    known = np.sum(np.square(errors), axis=1) + d * (d + 1) * (4 / n / epsilon * (d + 2)) ** 2
    assert off(known, FOUND["E12"].correct) < SIX
    assert all(off(np.array(errors)[:, j], 0.0) < SIX for j in range(d))
    for squared in ridge.values():
        assert np.mean(squared) > 20 * known.mean()
        assert np.mean(squared) > FOUND["E12"].published * (1 - 1e-3)
    assert np.mean(ridge[360.0]) == pytest.approx(FOUND["E12"].published, rel=0.02)


def test_e13_least_squares_errs_more_than_its_published_bound() -> None:
    G = grams(ball(np.random.default_rng(13), 1000, 1000, 5))
    errors = np.trace(np.linalg.inv(G), axis1=1, axis2=2) / 3
    assert off(errors, FOUND["E13"].correct) < SIX
    assert FOUND["E13"].published == pytest.approx(7 / (0.5 * 1000) / 3)
    # Already Jensen's lower bound d(d+2)σ²/n is above what the paper allows.
    assert FOUND["E13"].correct > 5 * 7 / 1000 / 3 > 2 * FOUND["E13"].published
    # And a covariance's trace is not its squared norm.
    covariance = np.linalg.inv(G[0]) / 3
    assert np.trace(covariance) > 100 * np.linalg.norm(covariance, 2) ** 2


def test_e14_response_noise_averages_out_and_the_published_bound_does_not() -> None:
    rng, n, d, gamma = np.random.default_rng(14), 1000, 5, 1000**0.875
    X = ball(rng, 500, n, d)
    z = rng.uniform(-1, 1, (500, n, 1))
    lengths = np.linalg.norm(
        np.linalg.solve(gamma * np.eye(d) + grams(X), X.transpose(0, 2, 1) @ z), axis=(1, 2)
    )
    assert off(lengths**2, FOUND["E14"].correct ** 2) < SIX
    ours = math.sqrt(n * d / (d + 2) / 3) / (gamma + 0.5 * n / (d + 2))
    assert lengths.mean() < FOUND["E14"].correct < ours < FOUND["E14"].published / 60
    assert FOUND["E14"].published == pytest.approx(n / (gamma + 0.5 * n / (d + 2)))
    # Published, n and 100n differ by the share of γ alone.
    assert float(published.noise_error(corollary(100 * n, d))) > FOUND["E14"].published


def test_e15_the_worst_tenth_of_liars_moves_ridge_a_third_as_far_as_published() -> None:
    n, k, gamma, Y = 10_000, 1000, 10_000**0.875, 2.0
    X = ball(np.random.default_rng(15), 1, n, 2)[0]
    A = gamma * np.eye(2) + X.T @ X
    moved = []
    for angle in np.linspace(0, math.pi, 36, endpoint=False):
        pull = X @ np.linalg.solve(A, np.array([math.cos(angle), math.sin(angle)]))
        worst = np.argsort(-np.abs(pull))[:k]
        lies = np.zeros(n)
        lies[worst] = 2 * Y * np.sign(pull[worst])
        moved.append(float(np.linalg.norm(np.linalg.solve(A, X.T @ lies))))
    assert max(moved) == pytest.approx(FOUND["E15"].correct, rel=0.03)
    assert max(moved) <= 2 * Y * k / np.linalg.eigvalsh(A)[0] < FOUND["E15"].published / 2
    assert FOUND["E15"].published == pytest.approx(6 * k / gamma)


def test_e20_the_bias_of_half_the_players_exceeds_the_published_bound() -> None:
    rng, m, d, gamma = np.random.default_rng(20), 500, 2, 1000**0.875
    A = gamma + m / (d + 2)
    G = grams(ball(rng, 4000, m, d))
    # tr(G) has a known mean, so its share of the noise is taken out.
    traces = np.trace(G, axis1=1, axis2=2) - m * d / (d + 2)
    biases = gamma * np.trace(np.linalg.inv(gamma * np.eye(d) + G), axis1=1, axis2=2) / d + gamma * traces / (
        d * A**2
    )
    assert off(biases, FOUND["E20"].correct) < SIX
    assert FOUND["E20"].published == pytest.approx(gamma / (gamma + 0.5 * 1000 / (d + 2)))
    error = float(biases.std()) / math.sqrt(len(biases))
    assert biases.mean() - FOUND["E20"].published > SIX * error


def test_the_ball_of_these_simulations_is_the_papers() -> None:
    X = ball(np.random.default_rng(0), 1, 100_000, 3)[0]
    assert off(X[:, 0] ** 2, 1 / 5) < SIX
    assert off(np.linalg.norm(X, axis=1) ** 3, 0.5) < SIX


HALF = Fraction(1, 2)


def prediction(y: float, R: float, sd: float) -> float:
    """q at ‖x‖ = 1, d = 2, θ uniform on the ball of radius R, noise normal with this sd on [−1, 1]: by quadrature."""
    low, high = max(-R, y - 1), min(R, y + 1)

    def weight(u: float) -> float:
        return math.sqrt(max(R * R - u * u, 0.0)) * math.exp(-(((y - u) / sd) ** 2) / 2)

    return quad(lambda u: u * weight(u), low, high)[0] / quad(weight, low, high)[0]


def test_e16_the_mended_bound_falls_like_n_to_the_minus_delta() -> None:
    for delta in (Fraction(1, 10), Fraction(1, 4), Fraction(2, 5)):
        alpha, epsilon, gamma = -delta, -1 + delta, 1 - delta / 2
        lies, noise, bias = alpha + 1 - gamma, -gamma - epsilon, gamma - 1
        # The paper's cross term: (lies + noise) times E‖θ̂ᴿ−θ‖ = O(1), because of Mn/n.
        assert max(2 * lies, 2 * noise, 2 * bias, max(lies, noise) + 0) == -delta / 2
        # Mended: lies are αn/n, response noise n^(−1/2), and noise of mean zero has no cross term.
        assert max(2 * max(alpha, bias, -HALF), 2 * noise) == -delta
    assert FOUND["E16"].published == pytest.approx(-0.125, abs=1e-6)
    assert FOUND["E16"].correct == pytest.approx(-0.25, abs=1e-6)


def test_e17_at_a_million_players_the_schedule_is_worse_than_no_data() -> None:
    rng, n, runs = np.random.default_rng(17), 10_000, 200
    gamma, scale = n**0.875, 6 / n**0.125
    angle, radius = rng.uniform(0, 2 * math.pi, (runs, n)), np.sqrt(rng.random((runs, n)))
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)
    y = X[:, :, 0] + rng.uniform(-1, 1, (runs, n))
    fit = np.linalg.solve(gamma * np.eye(2) + X.transpose(0, 2, 1) @ X, X.transpose(0, 2, 1) @ y[:, :, None])
    errors = np.sum((fit[:, :, 0] - np.array([1.0, 0.0])) ** 2, axis=1) + 6 * scale**2
    wanted = ridge_error(n, gamma, 2, scale=scale)
    assert abs(errors.mean() - wanted) < SIX * errors.std() / math.sqrt(runs)
    # At a million: noise alone is d(d+1)(4B+2M)²/n^δ, and bias and variance add less than 1.
    noise = 6 * 36 / 10**1.5
    assert 1 < noise < FOUND["E17"].correct < noise + 1
    # The noise falls below 1 between a billion and ten billion players.
    assert 6 * 36 / 10 ** (9 / 4) > 1 > 6 * 36 / 10 ** (10 / 4)


def test_e18_the_threshold_grows_like_n_to_the_half_minus_delta() -> None:
    delta, p = Fraction(1, 4), Fraction(2)
    alpha, beta = -delta, -p / 2 + delta * (1 + p)
    tau = -(alpha + beta) / p
    assert tau == HALF - delta
    assert FOUND["E18"].correct == pytest.approx(float(tau))
    assert FOUND["E18"].published == 1 - delta
    # The τε² of the same proof fits only the right one; its β would grow.
    assert tau + 2 * (-1 + delta) == -Fraction(3, 2) + delta
    assert beta < 0 < -beta
    assert -1 + delta < -HALF


def test_e19_the_exact_threshold_is_a_ninth_of_markovs() -> None:
    n, alpha, beta = 20_000, 0.05, 0.01

    def too_many(tau: float) -> float:
        return float(stats.binom.sf(round(alpha * n), n, tau**-2))

    tau = FOUND["E19"].correct
    assert too_many(tau * 1.0001) < beta < too_many(tau * 0.9999)
    assert FOUND["E19"].published == pytest.approx((alpha * beta) ** -0.5)
    assert FOUND["E19"].published > 9 * tau
    assert too_many(FOUND["E19"].published) < 1e-300


def test_e21_the_best_report_is_the_truth_only_under_the_shrunk_prediction() -> None:
    kept = 1 - FOUND["E20"].correct
    reports = np.linspace(-1.9, 1.9, 761)
    own = np.array([prediction(y, 1.0, 0.5) for y in reports])
    peers = kept * prediction(1.0, 1.0, 0.5)
    paid, ours = brier(peers, own, a=0.0, b=1.0), brier(peers, kept * own, a=0.0, b=1.0)
    assert reports[np.argmax(paid)] == pytest.approx(FOUND["E21"].published, abs=0.005)
    assert reports[np.argmax(ours)] == pytest.approx(FOUND["E21"].correct, abs=1e-9)


def test_e22_no_report_moves_a_payment_by_as_much_as_the_published_eta() -> None:
    q = np.linspace(-1, 1, 401)
    stakes = [np.ptp(brier(p, q, a=3.0, b=1.0)) for p in q]
    assert max(stakes) == pytest.approx(4) == FOUND["E22"].correct
    n, delta = 1e5, 0.25
    lies, bias = 6 * n ** (-delta / 2), 1 / (1 + 0.5 * n ** (delta / 2) / 4)
    assert FOUND["E22"].published == pytest.approx((lies + bias) ** 2 + n**delta)
    assert FOUND["E22"].published > FOUND["E22"].correct
    # More players make it worse.
    assert 4 < n**delta < (10 * n) ** delta


def test_e23_with_uniform_noise_a_whole_interval_of_reports_is_best() -> None:
    R, truth = 0.5, 0.0
    flat = [prediction(y, R, math.inf) for y in (-0.5, -0.25, 0.0, 0.5)]
    assert flat == pytest.approx([0, 0, 0, 0], abs=1e-12)
    assert prediction(0.51, R, math.inf) > 1e-4
    assert FOUND["E23"].correct == pytest.approx(0.5 - -0.5)
    payments = brier(prediction(truth, R, math.inf), np.array(flat), a=1.0, b=1.0)
    assert np.ptp(payments) == pytest.approx(0, abs=1e-12)
    # Truncated normal noise tells every report from every other.
    assert np.all(np.diff([prediction(y, R, 0.5) for y in np.linspace(-1.4, 1.4, 29)]) > 1e-3)


def test_e24_at_the_corollarys_base_payment_the_costliest_player_loses() -> None:
    n, delta = 1e5, 0.25
    a = 8 * 4 + n**delta
    assert FOUND["E24"].published == pytest.approx(a)
    q = np.linspace(-1, 1, 201)
    best = brier(q[:, None], q[None, :], a=a, b=1.0).max()
    cost = 4 * n**delta  # τ(2ε)² = 4n^(½−δ)·n^(−2+2δ), per b
    assert best < cost < FOUND["E24"].correct
    assert FOUND["E24"].correct == pytest.approx(
        published.participation(corollary(n)) * n**1.5 + 3 * n**delta
    )


def test_e25_a_player_sure_of_the_wrong_bit_is_charged() -> None:
    assert basic_brier(1, 0.0) == FOUND["E25"].correct == -1
    assert FOUND["E25"].published == 0


def test_e26_without_privacy_every_payment_of_the_remark_is_negative() -> None:
    B = M = 0.1
    a = B + 2 * B * (B + M) + (B + M) ** 2 - 1
    assert a == pytest.approx(-0.82)
    q = np.linspace(-math.sqrt(B), math.sqrt(B), 201)
    payments = brier(q[:, None], q[None, :], a=a, b=1.0)
    assert payments.max() == pytest.approx(FOUND["E26"].correct)
    assert payments.max() < 0
    # And least squares can predict anything: one peer at x = 1e-6 with the answer 0.1.
    assert np.linalg.lstsq(np.array([[1e-6]]), np.array([0.1]))[0][0] == pytest.approx(1e5)


def test_e27_more_than_the_expected_number_of_players_lie_half_of_the_time() -> None:
    n, alpha, draws = 20_000, 0.05, 200_000
    above = np.random.default_rng(27).binomial(n - 1, alpha, draws) > alpha * n
    assert abs(above.mean() - FOUND["E27"].correct) < SIX * above.std() / math.sqrt(draws)
    assert FOUND["E27"].correct > 0.4


def test_e28_the_noise_alone_makes_some_payments_negative() -> None:
    n, q, draws, rng = 1000, -0.5, 2_000_000, np.random.default_rng(28)
    a, scale, kept = 8 * 4 + n**0.25, 6 / n**0.125, 1 - FOUND["E20"].correct
    along = rng.gamma(2, scale, draws) * np.cos(rng.uniform(0, 2 * math.pi, draws))
    negative = brier(kept * q + along, q, a=a, b=1.0) < 0
    assert abs(negative.mean() - FOUND["E28"].correct) < SIX * negative.std() / math.sqrt(draws)
    assert negative.any()


def test_e29_under_the_definition_as_written_a_lie_saves_no_privacy() -> None:
    gap = math.sqrt(FOUND["E29"].correct)
    q = np.linspace(-4, 4, 80_001)
    truth = 0.5
    cost = 7.0  # the same on both sides, as the definition has it
    gain = (brier(truth + gap, q, a=0.0, b=1.0) - cost).max() - (
        brier(truth + gap, truth, a=0.0, b=1.0) - cost
    )
    assert gain == pytest.approx(FOUND["E29"].correct, abs=1e-6)
    n, delta = 1e5, 0.25
    assert FOUND["E29"].published - FOUND["E29"].correct == pytest.approx(n**delta)


def test_e30_for_small_coefficients_the_corollarys_base_payment_is_short() -> None:
    B, M, cost = 0.01, 0.0, 0.5
    a = (6 * B + 2 * M) * (1 + B) ** 2 + cost
    R = math.sqrt(B)
    utility = float(brier(R, R, a=a, b=1.0)) - cost
    assert utility == pytest.approx(FOUND["E30"].published - FOUND["E30"].correct)
    assert utility < 0
    # The step that needs 6B + 2M ≥ 1, in exact fractions.
    b = Fraction(1, 100)
    assert 6 * b * (1 + 2 * b) + b**2 > 6 * b * (1 + b) ** 2


def test_e31_the_slips_are_what_the_surrounding_lines_say_they_are() -> None:
    assert FOUND["E31"].published < 0 <= FOUND["E31"].correct <= 1
    rng, n, d, xi = np.random.default_rng(31), 400, 2, 0.5
    angle, radius = rng.uniform(0, 2 * math.pi, n), np.sqrt(rng.random(n))
    X: Floats = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    inverse = float(np.linalg.norm(np.linalg.inv(X.T @ X), 2))
    assert inverse <= (d + 2) / ((1 - xi) * n) < (1 - xi) * n / (d + 2)
    z = np.array([0.0, 1.0])
    assert z.var() == np.mean(z**2) - z.mean() ** 2 != np.mean(z**2) + z.mean() ** 2
    # Lemma 3: if all costs are τ, nobody is above it and everybody is at it.
    costs, tau = np.full(10, 3.0), 3.0
    assert np.sum(costs <= tau) == 10 - np.sum(costs > tau) != 10 - np.sum(costs >= tau)

"""E16 to E19 and E21 to E31 by other means: exponents in exact fractions, brute force, quadrature, simulation.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9, and seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from truthful.bounds import published
from truthful.check import Floats
from truthful.errata import errata
from truthful.errata.examples import corollary, ridge_error
from truthful.scoring import basic_brier, brier

FOUND = {erratum.number: erratum for erratum in errata()}
SIX = 6.0
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

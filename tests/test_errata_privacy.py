"""E1 to E9 by other means: exact fractions, augmented least squares, finite differences, quadrature, simulation.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9, and seeds are fixed.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from truthful.bounds import proved, published
from truthful.bounds.setting import Setting, unit_ball
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, ParetoCosts
from truthful.errata import errata
from truthful.noise import L2Laplace

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
    return float(np.max(law.log_density(outputs) - law.log_density(outputs - apart)))


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
    even, uneven, all_of_it = (proved.noise_scale(s.at(public_share=share)) for share in (0.5, 0.9, 1.0))
    assert proved.privacy(s.at(public_share=0.9)) == proved.privacy(s) == published.privacy(s)
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

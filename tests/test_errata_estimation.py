"""E10 to E15 and E20 by other means: eigenvalues, simulation, and attacks on drawn data.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9, and seeds are fixed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from truthful.bounds import published
from truthful.check import Floats
from truthful.errata import errata
from truthful.errata.examples import corollary

FOUND = {erratum.number: erratum for erratum in errata()}
SIX = 6.0


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

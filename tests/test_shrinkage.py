"""κ_m agrees with exact integrals where there are any, and with plain simulation where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracles_estimators import mean_inverse_of_one, mean_inverse_of_two, simulated_spectra

from truthful import regression
from truthful.errors import InputError, Refused
from truthful.regression import central_moments, mean_inverse, shrinkage_factor


@pytest.mark.parametrize("d", [1, 2, 3, 10])
@pytest.mark.parametrize("gamma", [0.5, 30.0])
def test_one_player_agrees_with_the_exact_integral(d: int, gamma: float) -> None:
    assert mean_inverse(1, gamma, d) == pytest.approx(mean_inverse_of_one(gamma, d), rel=1e-4)


@pytest.mark.parametrize(("d", "gamma"), [(2, 1.0), (2, 5.0), (3, 1.0), (7, 2.0)])
def test_two_players_agree_with_the_exact_integral(d: int, gamma: float) -> None:
    assert mean_inverse(2, gamma, d) == pytest.approx(mean_inverse_of_two(gamma, d), rel=1e-4)


@pytest.mark.parametrize(("m", "gamma"), [(1, 1e-3), (2, 0.01), (10, 0.5), (200, 3.0), (10**6, 1.0)])
def test_one_dimension_is_one_integral(m: int, gamma: float) -> None:
    """Plain simulation of 1e5 sums (of their normal approximation beyond 1,000); 6 standard errors, 2e-9."""
    rng = np.random.default_rng(m)
    if m <= 1000:
        sums = (rng.random((100_000, min(m, 10))) ** 2).sum(axis=1)
        for _ in range(m // 10 - 1):
            sums += (rng.random((100_000, 10)) ** 2).sum(axis=1)
    else:
        sums = m / 3 + np.sqrt(m * 4 / 45) * rng.normal(size=100_000)
    values = 1 / (gamma + sums)
    assert abs(mean_inverse(m, gamma, 1) - values.mean()) <= 6 * values.std() / np.sqrt(len(values))
    if m == 1:
        assert mean_inverse(m, gamma, 1) == pytest.approx(mean_inverse_of_one(gamma, 1), rel=1e-8)


@pytest.mark.parametrize(("m", "d"), [(1, 4), (3, 2), (12, 5), (40, 10)])
def test_the_control_variates_have_the_means_they_are_said_to_have(m: int, d: int) -> None:
    """6 standard errors: false alarms below 2e-9 for each of the four."""
    E = simulated_spectra(m, d, 15_000, seed=m) - m / (d + 2)
    for k, exact in enumerate(central_moments(m, d), start=1):
        traces = (E**k).sum(axis=1)
        assert abs(traces.mean() - exact) <= 6 * traces.std() / np.sqrt(len(traces))


def test_the_second_moment_is_the_textbook_one() -> None:
    m, d = 17, 6
    gram_square = m * d / (d + 4) + m * (m - 1) * d / (d + 2) ** 2  # E tr G²
    mean_square = gram_square - d * (m / (d + 2)) ** 2
    assert central_moments(m, d)[1] == pytest.approx(mean_square, rel=1e-12)


@pytest.mark.parametrize(
    ("m", "gamma", "d"),
    [(10, 1.0, 2), (30, 2.0, 5), (25, 0.3, 3), (200, 1.0, 10), (1500, 20.0, 5), (6, 50.0, 4)],
)
def test_plain_simulation_agrees(m: int, gamma: float, d: int) -> None:
    """Thousands of simulated groups; 6 standard errors, false alarms below 2e-9 each."""
    groups = 10_000 if m < 500 else 1_000
    values = (1 / (gamma + simulated_spectra(m, d, groups, seed=7))).mean(axis=1)
    error = values.std() / np.sqrt(groups)
    assert abs(mean_inverse(m, gamma, d) - values.mean()) <= 6 * error + 1e-4 * values.mean()


@pytest.mark.parametrize(
    ("m", "gamma", "d"), [(1000, 100.0, 10), (700, 30.0, 3), (5000, 10.0, 8), (20, 2000.0, 2)]
)
def test_series_and_simulation_agree_where_both_apply(m: int, gamma: float, d: int) -> None:
    assert regression._series_error(m, gamma, d) <= regression.SERIES_ERROR
    assert regression._simulate(m, gamma, d) == pytest.approx(mean_inverse(m, gamma, d), rel=1e-4)


def test_the_bias_at_the_paper_s_schedule_is_a_little_above_its_bound() -> None:
    """d = 2, n = 1000, γ = n^(7/8): halves of 500 lose .77149 of it; the paper bounds that by .77136."""
    gamma = 1000.0**0.875
    assert 1 - shrinkage_factor(500, gamma, 2) == pytest.approx(0.77149, abs=1e-5)
    assert gamma / (gamma + 500 / 4) == pytest.approx(0.77136, abs=1e-5)


def test_bounds_on_the_shrinkage_hold() -> None:
    """Jensen: γκ ≥ γ/(γ+μ), and nobody's estimate is zero."""
    for m, gamma, d in ((50, 3.0, 2), (400, 10.0, 5), (10**7, 100.0, 20)):
        assert gamma / (gamma + m / (d + 2)) <= gamma * mean_inverse(m, gamma, d) < 1
    assert shrinkage_factor(0, 2.0, 3) == 0.0


def test_more_players_shrink_less() -> None:
    factors = [shrinkage_factor(m, 5.0, 3) for m in (0, 10, 100, 1000, 10_000, 10**6)]
    assert factors == sorted(factors)
    assert factors[-1] > 0.9999


def test_a_shrinkage_that_cannot_be_known_is_refused() -> None:
    with pytest.raises(Refused, match=r"gamma = 0\.01 on 4 players"):
        mean_inverse(4, 0.01, 2)


@pytest.mark.parametrize(("m", "gamma", "d"), [(-1, 1.0, 2), (5, 0.0, 2), (5, float("nan"), 2), (5, 1.0, 0)])
def test_impossible_arguments_are_refused(m: int, gamma: float, d: int) -> None:
    with pytest.raises(InputError):
        mean_inverse(m, gamma, d)

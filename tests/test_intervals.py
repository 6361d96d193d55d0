import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from truthful.noise import ErrorLaw, L2Laplace, SupErrorLaw, SupLaplace


def test_without_privacy_noise_the_interval_is_the_normal_one() -> None:
    assert ErrorLaw(4.0).half_width(0.95) == pytest.approx(2 * stats.norm.ppf(0.975), rel=1e-9)


@pytest.mark.parametrize("dimension", [1, 2, 5, 50])
def test_without_sampling_error_the_interval_is_the_noise_marginals_own(dimension: int) -> None:
    noise = L2Laplace(dimension, 0.3)
    law = ErrorLaw(0.0, (noise,))
    expected = brentq(lambda x: float(noise.marginal_cdf(x)) - 0.975, 0, 100)
    assert law.half_width(0.95) == pytest.approx(expected, rel=1e-6)


def test_no_error_at_all_gives_a_single_point() -> None:
    assert ErrorLaw(0.0).half_width(0.95) == 0.0


def test_the_interval_of_a_sum_covers_as_often_as_it_says() -> None:
    """400,000 draws; a coverage outside 0.95 ± 6 standard errors has probability below 2e-9."""
    rng = np.random.default_rng(5)
    n, noises = 400_000, (L2Laplace(5, 0.3), L2Laplace(15, 0.1))
    error = rng.normal(0, 0.5, n)
    for noise in noises:
        error += noise.sample(rng, n)[:, 0]
    covered = np.mean(np.abs(error) <= ErrorLaw(0.25, noises).half_width(0.95))
    assert abs(covered - 0.95) < 6 * np.sqrt(0.95 * 0.05 / n)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.98])
@pytest.mark.parametrize(("weight", "deviation"), [(0.3, 1.0), (1.0, 1.0), (1.0, 0.05)])
def test_in_one_dimension_both_norms_have_the_same_interval(
    weight: float, deviation: float, level: float
) -> None:
    """Mostly sampling error, both, and hardly any of it."""
    sup = SupErrorLaw(deviation**2, SupLaplace(1, 2.0), np.array([weight]))
    l2 = ErrorLaw(deviation**2, (L2Laplace(1, 2.0 * weight),))
    assert sup.half_width(level) == pytest.approx(l2.half_width(level), rel=2e-4)


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0, 0.0, 0.0), (0.4, -0.4, 0.4, 0.4, 0.4), (0.8, 0.1, -0.3)])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 3.0])
def test_the_interval_of_sup_noise_covers_as_often_as_it_says(
    weights: tuple[float, ...], deviation: float
) -> None:
    """100,000 draws each; outside 0.95 ± 6 standard errors with probability below 2e-9."""
    rng, n, law = np.random.default_rng(6), 100_000, SupLaplace(len(weights), 1.0)
    error = law.sample(rng, n) @ np.array(weights) + rng.normal(0, deviation, n)
    width = SupErrorLaw(deviation**2, law, np.array(weights)).half_width(0.95)
    assert abs(np.mean(np.abs(error) <= width) - 0.95) < 6 * np.sqrt(0.95 * 0.05 / n)


def test_without_any_error_the_interval_of_sup_noise_is_a_point() -> None:
    assert SupErrorLaw(0.0, SupLaplace(2, 1.0), np.zeros(2)).half_width(0.95) == 0.0

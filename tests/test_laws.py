from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats
from support.oracles_beliefs import projected_density

from truthful.beliefs.laws import (
    CustomNoise,
    Noise,
    NormalBall,
    Prior,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
    log_chi2_cdf,
)
from truthful.check import Floats
from truthful.errors import InputError

PRIORS: tuple[Prior, ...] = (
    UniformBall(0.7),
    NormalBall(2.0, 0.3),
    NormalBall(1.0, 0.6),
    NormalBall(0.5, 40.0),
)
NOISES: tuple[Noise, ...] = (
    UniformNoise(0.7),
    TruncatedNormal(0.4, 0.2),
    TruncatedNormal(1.5, 0.1),
    TruncatedNormal(0.01, 30.0),
    CustomNoise(0.5, lambda z: 3 * (0.6 - np.abs(z))),
)


def moment(prior: Prior, dimension: int, power: int) -> float:
    """∫ u^power f(u) du."""

    def integrand(u: float) -> float:
        return u**power * float(projected_density(prior, np.array(u), dimension))

    return float(integrate.quad(integrand, -prior.radius, prior.radius, points=[0.0])[0])


def distribution(values: Floats, x: Floats) -> Callable[[Any], Any]:
    """The distribution function of the density with these values on the grid x."""
    cumulated = np.concatenate([[0.0], np.cumsum(values[1:] + values[:-1])])
    return lambda v: np.interp(v, x, cumulated / cumulated[-1])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("dimension", [1, 2, 3, 30])
def test_a_priors_variance_is_that_of_its_projected_density(prior: Prior, dimension: int) -> None:
    ratio = moment(prior, dimension, 2) / moment(prior, dimension, 0)
    assert prior.variance(dimension) == pytest.approx(ratio, rel=1e-7)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_a_priors_samples_have_its_projected_density(prior: Prior, dimension: int) -> None:
    """Kolmogorov-Smirnov on 4,000 draws along a fixed direction; false alarm 1e-6, twelve times."""
    theta = prior.sample(np.random.default_rng(1), dimension, 4000)
    assert theta.shape == (4000, dimension)
    assert np.linalg.norm(theta, axis=1).max() <= prior.radius * (1 + 1e-12)
    u = np.linspace(-prior.radius, prior.radius, 4001)
    along = theta @ np.full(dimension, dimension**-0.5)
    assert stats.kstest(along, distribution(projected_density(prior, u, dimension), u)).pvalue > 1e-6


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_the_angles_weight_is_the_projected_density_after_substitution(prior: Prior, dimension: int) -> None:
    t = np.linspace(0.3, 2.5, 40)
    weight = prior.log_weight(t, dimension)
    density = np.log(projected_density(prior, prior.radius * np.cos(t), dimension) * np.sin(t))
    np.testing.assert_allclose(weight - weight[0], density - density[0], atol=1e-10)


def test_a_prior_is_zero_outside_its_ball() -> None:
    for prior in PRIORS:
        lengths = np.linalg.norm(prior.sample(np.random.default_rng(2), 3, 1000), axis=1)
        assert lengths.max() <= prior.radius


def test_a_normal_prior_far_wider_than_its_ball_is_uniform_on_it() -> None:
    t = np.linspace(0.2, 2.9, 9)
    wide, uniform = (prior.log_weight(t, 6) for prior in (NormalBall(0.5, 1e4), UniformBall(0.5)))
    np.testing.assert_allclose(wide - wide[0], uniform - uniform[0], atol=1e-8)


@pytest.mark.parametrize("freedom", [1, 2, 9, 99])
def test_log_chi2_cdf_keeps_its_digits_where_the_probability_underflows(freedom: int) -> None:
    x = np.array([1e-60, 1e-20, 1e-7, 0.01, 1.0, 40.0, 1000.0])
    exact = [float(mp.log(mp.gammainc(freedom / mp.mpf(2), 0, v / 2, regularized=True))) for v in x]
    np.testing.assert_allclose(log_chi2_cdf(x, freedom), exact, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("noise", NOISES)
def test_a_noise_density_has_mass_one_and_the_stated_variance(noise: Noise) -> None:
    halves = [
        integrate.quad(lambda z, k=k: z**k * noise.density(np.array(z)), 0, noise.bound)[0] for k in (0, 2)
    ]
    assert 2 * halves[0] == pytest.approx(1, rel=1e-9)
    assert noise.variance == pytest.approx(2 * halves[1], rel=1e-9)
    assert np.all(noise.density(np.array([-1.001, 1.001]) * noise.bound) == 0)


@pytest.mark.parametrize("noise", NOISES)
def test_noise_samples_have_the_noise_density(noise: Noise) -> None:
    """Kolmogorov-Smirnov on 4,000 draws; false alarm 1e-6, five times."""
    draws = noise.sample(np.random.default_rng(2), 4000)
    assert np.abs(draws).max() <= noise.bound
    z = np.linspace(-noise.bound, noise.bound, 8001)
    assert stats.kstest(draws, distribution(noise.density(z), z)).pvalue > 1e-6


@pytest.mark.parametrize("noise", NOISES)
def test_the_score_is_the_slope_of_the_log_density(noise: Noise) -> None:
    z, h = np.array([-0.83, -0.4, 0.21, 0.9]) * noise.bound, 1e-4 * noise.bound
    slope = (noise.log_density(z + h) - noise.log_density(z - h)) / (2 * h)
    np.testing.assert_allclose(noise.score(z), slope, rtol=1e-5, atol=1e-9)


def test_a_density_need_not_be_normalised() -> None:
    given, named = CustomNoise(0.4, lambda z: 7 * np.exp(-(z**2) / 0.08)), TruncatedNormal(0.4, 0.2)
    z = np.linspace(-0.5, 0.5, 11)
    np.testing.assert_allclose(given.density(z), named.density(z), rtol=1e-12)
    assert given.variance == pytest.approx(named.variance, rel=1e-12)


def test_only_analytic_densities_are_smooth() -> None:
    assert all(noise.smooth for noise in NOISES[:-1])
    assert CustomNoise(1.0, lambda z: np.cos(z)).smooth
    assert not CustomNoise(1.0, lambda z: 1.5 - np.abs(z)).smooth


def lopsided(z: Floats) -> Floats:
    return 1 + z / 10


def empty_middle(z: Floats) -> Floats:
    return np.square(z) * (np.abs(z) > 0.3)


def test_a_density_must_be_even_and_positive() -> None:
    with pytest.raises(InputError, match="it must be even"):
        CustomNoise(1.0, lopsided)
    with pytest.raises(InputError, match="above 0"):
        CustomNoise(1.0, empty_middle)


def test_laws_refuse_sizes_that_are_not_positive() -> None:
    with pytest.raises(InputError, match="radius is 0"):
        UniformBall(0)
    with pytest.raises(InputError, match="sd is nan"):
        NormalBall(1.0, float("nan"))
    with pytest.raises(InputError, match="sd is -1"):
        TruncatedNormal(1.0, -1)
    with pytest.raises(InputError, match="bound is inf"):
        UniformNoise(float("inf"))
    with pytest.raises(InputError, match="bound is 0"):
        CustomNoise(0, np.cos)

"""The L2-Laplace law against its definition, and the fast sampler against the law.

Every statistical test here has a false-alarm probability of at most 1e-6 (its seed is fixed, so it never flickers).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from support import oracles_noise as oracles

from truthful.errors import InputError
from truthful.noise import NORMS, L2Laplace, SupLaplace, laplace, log_moments, normal_mixture

DIMENSIONS = (1, 2, 3, 4, 5, 10, 51, 300, 2000)
FALSE_ALARM = 1e-6
dimensions = st.integers(min_value=1, max_value=2000)
scales = st.floats(min_value=1e-6, max_value=1e6)


@pytest.mark.parametrize("d", [2, 3, 4, 5, 10, 51])
@pytest.mark.parametrize("sds", [-3.0, 0.0, 1e-3, 0.4, 1.0, 2.5, 8.0])
def test_marginal_cdf_is_the_integral_of_the_joint_law(d: int, sds: float) -> None:
    x = sds * math.sqrt(d + 1)
    assert L2Laplace(d, 1.0).marginal_cdf(x) == pytest.approx(oracles.marginal_cdf(x, d), abs=1e-12)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_marginal_pdf_is_the_bessel_density(d: int) -> None:
    x = math.sqrt(d + 1) * np.array([-4.0, -1.0, -0.1, -1e-5, 0.0, 1e-3, 0.5, 1.0, 2.0, 7.0])
    expected = [oracles.marginal_pdf(value, d) for value in x]
    np.testing.assert_allclose(L2Laplace(d, 1.0).marginal_pdf(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [100, 300, 2000])
def test_marginal_cdf_is_the_integral_of_the_bessel_density_in_high_dimension(d: int) -> None:
    law, nodes = L2Laplace(d, 1.0), np.polynomial.legendre.leggauss(30)
    for x in math.sqrt(d + 1) * np.array([0.1, 1.0, 3.0]):
        density = [oracles.marginal_pdf(x * (node + 1) / 2, d) for node in nodes[0]]
        assert law.marginal_cdf(x) == pytest.approx(0.5 + x / 2 * np.dot(nodes[1], density), abs=1e-12)


def test_one_dimension_is_the_plain_laplace_law() -> None:
    law, plain, x = L2Laplace(1, 0.7), stats.laplace(scale=0.7), np.linspace(-9, 9, 201)
    np.testing.assert_allclose(law.marginal_pdf(x), plain.pdf(x), rtol=1e-14)
    np.testing.assert_allclose(law.marginal_cdf(x), plain.cdf(x), rtol=1e-14)
    np.testing.assert_allclose(oracles.log_density(law, x[:, None]), plain.logpdf(x), rtol=1e-13)


@given(dimensions, scales, st.floats(min_value=-50, max_value=50))
def test_marginal_law_is_symmetric_and_scales(d: int, s: float, t: float) -> None:
    law, unit = L2Laplace(d, s), L2Laplace(d, 1.0)
    assert law.marginal_cdf(s * t) + law.marginal_cdf(-s * t) == pytest.approx(1, abs=1e-13)
    assert law.marginal_cdf(s * t) == pytest.approx(unit.marginal_cdf(t), abs=1e-12)
    assert law.marginal_pdf(s * t) * s == pytest.approx(unit.marginal_pdf(t), abs=1e-12)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_marginal_variance_is_the_second_moment_of_the_marginal_density(d: int) -> None:
    law, spread = L2Laplace(d, 1.5), 60 + 12 * math.sqrt(d)
    x = np.linspace(-1.5 * spread, 1.5 * spread, 200_001)
    moment = integrate.simpson(law.marginal_pdf(x) * x**2, x=x)
    assert moment == pytest.approx(law.marginal_variance, rel=1e-8)
    assert law.marginal_variance == (d + 1) * 1.5**2


@pytest.mark.parametrize("d", DIMENSIONS)
def test_the_normals_of_the_mixture_have_gamma_variances(d: int) -> None:
    """E τ = d+1, E τ² = (d+1)(d+3), and in d = 1 too the mixture is the marginal law, in its tails as well."""
    weights, sds = normal_mixture(d)
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    assert weights @ sds**2 == pytest.approx(d + 1, rel=1e-13)
    assert weights @ sds**4 == pytest.approx((d + 1) * (d + 3), rel=1e-13)
    z = math.sqrt(d + 1) * np.append(0.0, np.geomspace(1e-9, 100, 2000))
    for x in (-z, z):
        expected = stats.norm.cdf(np.divide.outer(x, sds)) @ weights
        np.testing.assert_allclose(L2Laplace(d, 1.0).marginal_cdf(x), expected, rtol=1e-12, atol=1e-17)
    assert np.isnan(L2Laplace(d, 1.0).marginal_cdf(math.nan))


@pytest.mark.parametrize("d", DIMENSIONS)
def test_norm_moments_are_those_of_the_norm_density(d: int) -> None:
    law, norms = L2Laplace(d, 0.25), stats.gamma(d, scale=0.25)
    r = np.linspace(0, d * 0.25 + 0.25 * (60 + 12 * math.sqrt(d)), 200_001)
    mass, mean, square = (integrate.simpson(norms.pdf(r) * r**k, x=r) for k in range(3))
    assert mass == pytest.approx(1, rel=1e-8)
    assert mean == pytest.approx(d * 0.25, rel=1e-8)
    assert square == pytest.approx(law.mean_square_norm, rel=1e-8)
    assert law.mean_square_norm == d * (d + 1) * 0.25**2


@given(st.integers(min_value=1, max_value=300), scales, st.floats(min_value=0.01, max_value=100))
def test_density_on_a_sphere_is_the_norm_density_spread_over_it(d: int, s: float, t: float) -> None:
    law, r = L2Laplace(d, s), s * t
    log_area = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2) + (d - 1) * math.log(r)
    v = np.full((2, d), r / math.sqrt(d))
    expected = stats.gamma(d, scale=s).logpdf(r) - log_area
    np.testing.assert_allclose(oracles.log_density(law, v), expected, rtol=1e-9, atol=1e-9)


@given(st.integers(min_value=1, max_value=20), st.integers(min_value=0, max_value=2**32))
def test_log_density_moves_by_at_most_the_shift_over_the_scale(d: int, seed: int) -> None:
    v, shift = np.random.default_rng(seed).normal(size=(2, d))
    law = L2Laplace(d, 0.3)
    assert (
        abs(oracles.log_density(law, v) - oracles.log_density(law, v + shift))
        <= np.linalg.norm(shift) / 0.3 + 1e-9
    )


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_fast_sampler_follows_the_law_and_two_percent_off_is_caught(d: int) -> None:
    law, size = L2Laplace(d, 0.8), 200_000 // d
    draws = law.sample(np.random.default_rng(d), size)
    assert oracles.goodness_of_fit(draws, law) > FALSE_ALARM
    assert oracles.goodness_of_fit(draws * 1.02, law) < FALSE_ALARM


@pytest.mark.parametrize("d", [1, 3, 40])
def test_fast_sampler_has_the_moments_of_the_law(d: int) -> None:
    """Each mean is within 5 standard errors, estimated from the draws: false alarm 6e-7 each."""
    law, size = L2Laplace(d, 3.0), 100_000
    draws = law.sample(np.random.default_rng(100 + d), size)
    norms = np.linalg.norm(draws, axis=1)
    for values, mean in ((norms, d * law.scale), (norms**2, law.mean_square_norm), (draws[:, 0], 0.0)):
        assert abs(values.mean() - mean) < 5 * values.std() / math.sqrt(size)
    assert abs((draws[:, 0] ** 2).mean() / law.marginal_variance - 1) < 0.1


@pytest.mark.parametrize("size", [0, 1, 7])
def test_fast_sampler_gives_any_number_of_draws_from_the_generator_it_is_given(size: int) -> None:
    law = L2Laplace(4, 1.0)
    draws = law.sample(np.random.default_rng(3), size)
    assert draws.shape == (size, 4)
    np.testing.assert_array_equal(draws, law.sample(np.random.default_rng(3), size))


@pytest.mark.parametrize("d", [1, 2, 30])
def test_laws_keep_the_shape_of_what_they_are_given(d: int) -> None:
    law, x = L2Laplace(d, 1.0), np.linspace(0.1, 0.9, 6).reshape(2, 3)
    for function in (law.marginal_pdf, law.marginal_cdf):
        values = function(x)
        assert values.shape == (2, 3)
        assert values[1, 2] == function(0.9)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_not_positive_is_refused(scale: float) -> None:
    with pytest.raises(InputError, match="scale is"):
        L2Laplace(2, scale)


def test_bad_dimensions_are_refused() -> None:
    with pytest.raises(InputError, match="dimension is 0"):
        L2Laplace(0, 1.0)


# By the sup norm


@pytest.mark.parametrize("d", [1, 2, 5])
def test_sup_draws_have_their_norm_their_variance_and_uncorrelated_coordinates(d: int) -> None:
    """‖v‖_∞ is Gamma(d); second moments of 200,000 draws are within 6 standard errors, 2e-9 each."""
    law, n = SupLaplace(d, 0.7), 200_000
    v = law.sample(np.random.default_rng(d), n)
    assert stats.kstest(np.abs(v[:20_000]).max(axis=1), stats.gamma(d, scale=0.7).cdf).pvalue > FALSE_ALARM
    assert law.marginal_variance == pytest.approx((d + 1) * (d + 2) / 3 * 0.49)
    for i in range(d):
        for j in range(i, d):
            products = v[:, i] * v[:, j]
            expected = law.marginal_variance if i == j else 0.0
            assert abs(products.mean() - expected) < 6 * products.std() / math.sqrt(n)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_the_characteristic_function_along_one_coordinate_is_the_closed_form(d: int) -> None:
    """E[(1 − itU)^−(d+1)] = ((1 − it)^−d − (1 + it)^−d)/(2itd), with one weight; along the diagonal a product."""
    law, t = SupLaplace(d, 1.0), np.array([0.01, 0.3, 1.0, 4.0, 15.0])
    one = ((1 - 1j * t) ** -d - (1 + 1j * t) ** -d) / (2j * t * d)
    np.testing.assert_allclose(law.characteristic(np.eye(d)[0], t), one.real, atol=3e-6)
    diagonal = np.prod(1 / (1 - 1j * np.multiply.outer(t, 1 - 2 * np.arange(d + 1) / d)), axis=1)
    np.testing.assert_allclose(law.characteristic(np.full(d, 1 / d), t), diagonal.real, atol=3e-6)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("norm", NORMS)
def test_log_moments_bound_every_direction_and_are_attained(norm: str, d: int) -> None:
    """By 400,000 draws, whose mean is within 6 standard errors of what it estimates with probability 1 − 2e-9."""
    rng, n, part = np.random.default_rng(9), 400_000, 0.4
    v = laplace(norm, d, 1.0).sample(rng, n)
    bound = float(np.exp(log_moments(norm, d, np.array([part])))[0])
    longest = math.sqrt(d) if norm == "sup" else 1.0
    for k, a in enumerate((np.full(d, d**-0.5), np.eye(d)[0], rng.standard_normal(d))):
        found = np.exp(part / longest * (v @ (a / np.linalg.norm(a))))
        spare = 6 * found.std() / math.sqrt(n)
        assert found.mean() - spare < bound
        if k == 0:
            assert found.mean() + spare > bound


def test_a_law_by_another_norm_is_refused() -> None:
    with pytest.raises(InputError, match="norm is 'l1'"):
        laplace("l1", 2, 1.0)

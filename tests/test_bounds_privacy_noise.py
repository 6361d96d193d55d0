"""The privacy noise of the bounds: its scales are the estimators' own, and its bounds on a Gram matrix hold tightly.

Simulations have fixed seeds. A count of draws beyond a bound is compared with a binomial quantile at FALSE_ALARM.
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats
from support.oracles_bounds import setting, world

from truthful.bounds.setting import FLOOR_POWER, gram_scale, noise_scale, sensitivity
from truthful.bounds.spectrum import (
    LARGEST_EXACT_DIMENSION,
    LEAST_BETA,
    drop_quantile,
    expected_above,
    mean_square_along,
    operator_quantile,
)
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import NoisyStatistics
from truthful.noise import L2Laplace
from truthful.regression import Mechanism

ESTIMATORS = ("known-design", "noisy-statistics", "ridge-ball", "ridge-free")


@pytest.mark.parametrize("n", [5, 4000, 10**6])
@pytest.mark.parametrize("name", ["ball 1", "ball 5", "uniform"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_scales_are_those_of_the_released_vectors(name: str, estimator: str, n: int) -> None:
    where = world(name)
    s = setting(where, n=n, epsilon=0.7, gamma=40.0, gram_share=0.3, estimator=estimator)
    m = Mechanism(
        epsilon=1.4,
        base_payment=1.0,
        score_weight=0.0,
        estimator=estimator,
        public_share=0.5,
        regularization=40.0,
        gram_share=0.3,
        design=where.study.second_moments,
    )
    public = m.public_estimator(where.beliefs)
    # Y in grid units is rounded up to a whole number of 2^-20, and a lattice widens by 1e-9.
    spent = float(m.epsilon_public) * (0.7 if estimator == "noisy-statistics" else 1.0)
    released = public.noise_scale(n, m.epsilon_public) * spent
    assert sensitivity(estimator, s.model, n, 40.0) == pytest.approx(released, rel=1e-5)
    assert noise_scale(s, n) == pytest.approx(public.noise_scale(n, m.epsilon_public), rel=1e-5)


def test_the_noise_in_the_second_moments_and_their_floor_are_those_of_the_estimator() -> None:
    where = world("observed")
    estimator = NoisyStatistics(3, where.beliefs.response_bound, 0.3)
    s = setting(where, n=1000, epsilon=0.7, gram_share=0.3)
    stated = float(gram_scale(s.at(epsilon=0.35), 1000))
    assert stated == pytest.approx(estimator.gram_scale(1000, 0.35), rel=1e-5)
    assert stated * 3**FLOOR_POWER == pytest.approx(estimator.eigenvalue_floor(1000, 0.35), rel=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sensitivities_of_many_sizes_are_those_of_each(estimator: str) -> None:
    model, counts, gammas = world("ball 2").model, np.array([[3.0], [1e4]]), np.array([1.0, 200.0])
    grid = np.broadcast_to(sensitivity(estimator, model, counts, gammas), (2, 2))
    for i, count in enumerate(counts[:, 0]):
        for j, gamma in enumerate(gammas):
            one = float(sensitivity(estimator, model, float(count), float(gamma)))
            assert grid[i, j] == pytest.approx(one, rel=1e-14)


FALSE_ALARM = 1e-8
QUANTILES: list[tuple[Callable[..., Floats], int]] = [(drop_quantile, 1), (operator_quantile, 2)]
dimensions = st.integers(1, 120)
betas = st.floats(1e-17, 1)


def symmetric(d: int) -> int:
    return d * (d + 1) // 2


def symmetric_normals(rng: np.random.Generator, size: int, d: int) -> Floats:
    """Density ∝ exp(−‖W‖²_F/2): variance 1 on the diagonal, ½ off it."""
    A = rng.standard_normal((size, d, d))
    return np.asarray((A + A.swapaxes(1, 2)) / 2)


@cache
def gram_noise(d: int) -> Floats:
    """Draws of N: a uniform direction and ‖N‖_F ~ Gamma(D, 1), which is not how the bound is derived."""
    rng, size = np.random.default_rng(d), 100_000 if d <= 5 else 30_000
    W = symmetric_normals(rng, size, d)
    radii = rng.standard_gamma(symmetric(d), size) / np.linalg.norm(W, axis=(1, 2))
    return np.asarray(radii[:, None, None] * W)


@cache
def moved(d: int, sides: int) -> Floats:
    """How far each draw lowers the least eigenvalue (one side), or its operator norm (two)."""
    spectrum = np.linalg.eigvalsh(gram_noise(d))
    return np.asarray(-spectrum[:, 0] if sides == 1 else np.abs(spectrum).max(axis=1))


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10, 20])
@pytest.mark.parametrize(("quantile", "sides"), QUANTILES)
def test_noise_exceeds_its_quantile_no_more_often_than_stated(
    quantile: Callable[..., Floats], sides: int, d: int
) -> None:
    """And noise a tenth too large is caught at the same false-alarm probability, 1e-8 a comparison."""
    values = moved(d, sides)
    for beta in (0.3, 0.1, 0.01):
        most = stats.binom.isf(FALSE_ALARM, len(values), beta)
        assert np.sum(values > quantile(d, beta)) <= most
    assert np.sum(1.1 * values > quantile(d, 0.1)) > stats.binom.isf(FALSE_ALARM, len(values), 0.1)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 10, 20])
@pytest.mark.parametrize(("quantile", "sides"), QUANTILES)
def test_a_bound_five_percent_smaller_would_be_exceeded_too_often(
    quantile: Callable[..., Floats], sides: int, d: int
) -> None:
    """At β = 0.01: there the true quantile is half a percent below at most, that of the draws 1 %. False alarm 1e-8."""
    assert quantile(d, 0.01) < 1.05 * np.quantile(moved(d, sides), 0.99)


def test_the_operator_norm_is_far_below_the_frobenius_norm() -> None:
    frobenius = special.gammainccinv([symmetric(d) for d in (3, 10, 30, 100)], 1e-6)
    ours = [float(operator_quantile(d, 1e-6)) for d in (3, 10, 30, 100)]
    np.testing.assert_array_less(ours / frobenius, [0.9, 0.7, 0.42, 0.25])


@pytest.mark.parametrize("d", [2, 3, 4, 10, 51, 100, 400])
@pytest.mark.parametrize(("quantile", "sides"), QUANTILES)
def test_the_quantile_is_where_the_mixed_bound_is_beta(
    quantile: Callable[..., Floats], sides: int, d: int
) -> None:
    """E[min(1, sides·T(ν/√τ))], adaptively in log τ, is at most β, and hardly less."""
    shape = (symmetric(d) + 1) / 2

    def chance_above(x: float) -> float:
        if d <= LARGEST_EXACT_DIMENSION:
            return min(1.0, sides * float(expected_above(d, x)))
        return min(1.0, sides * math.exp(-(max(x - math.sqrt(2 * d), 0) ** 2) / 2))

    def integrand(w: float, nu: float) -> float:
        density = math.exp(shape * w - math.exp(w) - math.lgamma(shape))
        return density * chance_above(nu / math.sqrt(2 * math.exp(w)))

    middle, width = math.log(shape), 9 / math.sqrt(shape)
    for beta in (0.5, 0.1, 1e-3, 1e-9, 1e-15):
        nu = float(quantile(d, beta))
        ends = np.linspace(middle - width, middle + width, 13)
        pieces = (
            integrate.quad(integrand, low, high, args=(nu,), epsabs=1e-11 * beta, limit=200)[0]
            for low, high in pairwise(ends)
        )
        assert 1 - 1e-4 < sum(pieces) / beta <= 1


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_expected_eigenvalues_are_the_integral_of_the_density(d: int) -> None:
    """Mehta's density, from Hermite polynomials and a numerical integral of the last Hermite function."""

    def hermite(j: int, x: float) -> float:
        size = math.sqrt(2.0**j * math.factorial(j) * math.sqrt(math.pi))
        return float(special.eval_hermite(j, x)) * math.exp(-(x**2) / 2) / size

    def density(x: float) -> float:
        total = sum(hermite(j, x) ** 2 for j in range(d))
        below = integrate.quad(lambda t: hermite(d, t), -15, x)[0]
        above = integrate.quad(lambda t: hermite(d, t), x, 15)[0]
        total += math.sqrt(d / 2) * hermite(d - 1, x) * (below - above) / 2
        if d % 2:
            total += hermite(d - 1, x) / integrate.quad(lambda t: hermite(d - 1, t), -15, 15)[0]
        return total

    for x in (-2.0, 0.3, math.sqrt(2 * d), math.sqrt(2 * d) + 2):
        assert expected_above(d, x) == pytest.approx(integrate.quad(density, x, 12)[0], rel=1e-7)


@pytest.mark.parametrize("d", [1, 2, 3, 10, 33, 100, LARGEST_EXACT_DIMENSION])
def test_there_are_d_eigenvalues_with_the_second_moment_of_the_matrix(d: int) -> None:
    """T(−∞) = d, T(0) = d/2, and 4∫xT = E‖W‖²_F = d(d+1)/2; T never rises."""
    x = np.linspace(0, math.sqrt(2 * d) + 12, 20_001)
    T = expected_above(d, x)
    np.testing.assert_allclose(expected_above(d, [-x[-1], 0.0]), [d, d / 2], rtol=1e-13)
    assert 4 * integrate.simpson(x * T, x=x) == pytest.approx(symmetric(d), rel=1e-9)
    assert np.all(np.diff(T) < 0)
    assert T[-1] > 0


@pytest.mark.parametrize("d", [2, 3, 6, 9])
def test_expected_eigenvalues_are_those_of_simulated_matrices(d: int) -> None:
    """Within six standard errors: false alarm 2e-9 each."""
    spectrum = np.linalg.eigvalsh(symmetric_normals(np.random.default_rng(100 + d), 50_000, d))
    for x in np.array([-0.5, 0.2, 0.7, 1.0]) * math.sqrt(2 * d):
        counts = np.sum(spectrum > x, axis=1)
        assert abs(counts.mean() - expected_above(d, x)) < 6 * counts.std() / math.sqrt(len(counts))


@pytest.mark.parametrize("d", [1, 2, 5, 20, 100, LARGEST_EXACT_DIMENSION])
def test_gaussian_concentration_is_never_below_the_exact_count(d: int) -> None:
    t = np.linspace(0, 12, 200)
    np.testing.assert_array_less(expected_above(d, math.sqrt(2 * d) + t), np.exp(-(t**2) / 2))


@pytest.mark.parametrize("quantile", [drop_quantile, operator_quantile])
def test_large_dimensions_have_quantiles_that_grow_on(quantile: Callable[..., Floats]) -> None:
    sizes = (100, 299, LARGEST_EXACT_DIMENSION, LARGEST_EXACT_DIMENSION + 1, 400, 1000, 4000)
    for beta in (1e-15, 1e-2, 0.5):
        values = np.array([float(quantile(d, beta)) for d in sizes])
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) > 0)
        # What concentration costs, where it takes over from the exact count.
        assert values[3] < 1.2 * values[2]


def test_one_dimension_is_the_plain_laplace_law() -> None:
    beta = np.array([1e-300, 1e-15, 0.01, 0.3, 0.5])
    np.testing.assert_allclose(operator_quantile(1, beta), stats.gamma(1).isf(beta), rtol=1e-14)
    np.testing.assert_allclose(drop_quantile(1, beta), stats.laplace.isf(beta), rtol=1e-14, atol=1e-15)
    assert drop_quantile(1, 0.9) == 0


@given(dimensions, betas, betas)
def test_quantiles_fall_with_beta_and_one_side_and_frobenius_enclose_them(
    d: int, first: float, second: float
) -> None:
    low, high = sorted((first, second))
    for quantile, _ in QUANTILES:
        assert quantile(d, low) >= quantile(d, high) >= 0
    assert drop_quantile(d, low) <= operator_quantile(d, low) * (1 + 1e-9)
    assert operator_quantile(d, low) <= special.gammainccinv(symmetric(d), low) * (1 + 1e-12)
    # Two sides cost no more than one at half the β; the tables begin above ½.
    assert operator_quantile(d, min(low, 0.5)) <= drop_quantile(d, min(low, 0.5) / 2) * (1 + 1e-7)


def test_beyond_the_table_the_frobenius_norm_stands_in() -> None:
    beta = np.array([1e-300, 0.99 * LEAST_BETA])
    np.testing.assert_array_equal(operator_quantile(7, beta), special.gammainccinv(28, beta))
    assert operator_quantile(7, LEAST_BETA) < operator_quantile(7, 0.99 * LEAST_BETA)


@given(dimensions, st.lists(betas, max_size=6))
def test_an_array_of_betas_gives_the_array_of_quantiles(d: int, values: list[float]) -> None:
    for quantile, _ in QUANTILES:
        together = quantile(d, np.array(values).reshape(1, -1))
        assert together.shape == (1, len(values))
        np.testing.assert_array_equal(together[0], [float(quantile(d, beta)) for beta in values])


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_mean_square_along_a_direction_is_that_of_the_draws(d: int) -> None:
    """Within six standard errors: false alarm 2e-9. Any direction will do: the draws have none of their own."""
    theta = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    squares = np.sum((gram_noise(d) @ theta) ** 2, axis=1)
    assert abs(squares.mean() - mean_square_along(d)) < 6 * squares.std() / math.sqrt(len(squares))
    assert mean_square_along(d) == pytest.approx(L2Laplace(symmetric(d), 1.0).mean_square_norm / d)


@pytest.mark.parametrize("beta", [0.0, -0.1, 1.1, math.nan])
def test_a_beta_that_is_no_probability_is_refused(beta: float) -> None:
    with pytest.raises(InputError, match="beta holds"):
        operator_quantile(3, [0.1, beta])


def test_a_dimension_below_one_is_refused() -> None:
    for function in (lambda: drop_quantile(0, 0.1), lambda: mean_square_along(0)):
        with pytest.raises(InputError, match="d is 0"):
            function()

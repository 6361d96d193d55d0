"""Random halves and eigenvalues leave their bounds no more often than stated, at both ends."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_bounds import DESIGNS, world
from scipy import stats

from truthful.bounds import Model
from truthful.bounds.spectrum import (
    HALF_MISS,
    excess_chance,
    greatest_spectrum,
    least_half,
    least_spectrum,
    most_half,
    shortfall_chance,
)


def isotropic(d: int, eigenvalue: float) -> Model:
    return Model(d, 1.0, 1.0, 0.3, eigenvalue, eigenvalue)


@pytest.mark.parametrize("n", [2, 10, 31, 64, 100, 1000, 20_000, 10**9])
def test_a_half_leaves_its_bounds_only_with_the_stated_chance(n: int) -> None:
    low, high, law = float(least_half(n)), float(most_half(n)), stats.binom(n - 1, 0.5)
    empty = float(law.pmf(0))
    assert 1 <= low <= max(1, (n - 1) / 2) <= max(1, high) <= max(1, n - 1)
    assert float(law.cdf(low - 1)) - empty <= HALF_MISS
    assert float(law.sf(high)) <= HALF_MISS


@given(
    d=st.integers(1, 30), count=st.integers(1, 10**7), share=st.floats(0.01, 1), log_beta=st.floats(-25, -0.1)
)
def test_the_least_spectrum_inverts_the_chance_of_a_shortfall(
    d: int, count: int, share: float, log_beta: float
) -> None:
    model, beta = isotropic(d, share / d), math.exp(log_beta)
    mu, low = count * share / d, float(least_spectrum(isotropic(d, share / d), count, beta))
    assert 0 <= low <= mu
    if low > 0:
        # 1 − low/mu loses digits where low is nearly mu: hence the absolute part of the tolerance in log β.
        chance = float(shortfall_chance(model, count, 1 - low / mu))
        assert math.log(chance) == pytest.approx(log_beta, rel=1e-5, abs=1e-4)
    else:
        assert d * math.exp(-mu) >= beta * (1 - 1e-9)  # not even an eigenvalue of 0 is that rare


@given(
    d=st.integers(1, 30), count=st.integers(1, 10**7), share=st.floats(0.01, 1), log_beta=st.floats(-25, -0.1)
)
def test_the_greatest_spectrum_inverts_the_chance_of_an_excess(
    d: int, count: int, share: float, log_beta: float
) -> None:
    model, beta = isotropic(d, share / d), math.exp(log_beta)
    mu, high = count * share / d, float(greatest_spectrum(model, count, beta))
    assert min(mu, count) * (1 - 1e-12) <= high <= count
    if high < count:
        chance = float(excess_chance(model, count, high / mu - 1))
        assert math.log(chance) == pytest.approx(log_beta, rel=1e-5, abs=1e-4)


@given(st.floats(0.01, 0.99), st.integers(10, 10**5))
def test_exact_exponents_are_never_weaker_than_the_rounded_ones(xi: float, count: int) -> None:
    model = isotropic(3, 0.2)
    mu = count * 0.2
    assert float(shortfall_chance(model, count, xi)) <= min(1, 3 * math.exp(-(xi**2) * mu / 2)) * (1 + 1e-9)
    assert float(excess_chance(model, count, xi)) <= min(1, 3 * math.exp(-(xi**2) * mu / 3)) * (1 + 1e-9)


@pytest.mark.parametrize("beta", [0.3, 0.01])
@pytest.mark.parametrize("n", [60, 400])
@pytest.mark.parametrize("name", DESIGNS)
def test_spectra_leave_their_bounds_with_no_more_than_the_stated_probability(
    name: str, n: int, beta: float
) -> None:
    """500 runs: more failures than the binomial quantile would have probability below 1e-9 if the bound held."""
    where, rng, runs = world(name), np.random.default_rng(2), 500
    X = where.draw(rng, runs * n).reshape(runs, n, where.dimension)
    values = np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X)
    most = stats.binom.isf(1e-9, runs, beta)
    assert np.sum(values[:, 0] <= least_spectrum(where.model, n, beta)) <= most
    assert np.sum(values[:, -1] >= greatest_spectrum(where.model, n, beta)) <= most


def test_in_one_dimension_the_bound_is_the_chernoff_bound_of_the_binomial_law() -> None:
    """x ∈ {0, 1}: XᵀX is binomial, whose exact tails the bounds must cover and, at this size, nearly meet."""
    n, p = 2000, 0.1
    for beta in (0.1, 1e-3, 1e-6):
        low = float(least_spectrum(isotropic(1, p), n, beta))
        high = float(greatest_spectrum(isotropic(1, p), n, beta))
        assert beta / 100 <= float(stats.binom.cdf(math.floor(low), n, p)) <= beta
        assert beta / 100 <= float(stats.binom.sf(math.ceil(high) - 1, n, p)) <= beta


def test_with_nothing_known_of_the_features_no_eigenvalue_is_promised() -> None:
    assert least_spectrum(isotropic(2, 0.0), 10**6, 0.01) == 0.0
    assert greatest_spectrum(Model(2, 1.0, 1.0, 0.3, 0.0), 10**6, 0.01) == 10**6


@given(st.floats(0.05, 0.95), st.integers(2, 10**6))
def test_the_greatest_spectra_of_two_halves_add_up_to_most_when_they_are_equal(share: float, n: int) -> None:
    """The bound is concave in the number of people, which `bounds.bill.likely` relies on."""
    model = isotropic(3, 0.2)
    halves = greatest_spectrum(model, share * n, 1e-3) + greatest_spectrum(model, (1 - share) * n, 1e-3)
    assert halves <= 2 * greatest_spectrum(model, n / 2, 1e-3) * (1 + 1e-9)


def test_eigenvalue_bounds_of_many_sizes_are_those_of_each() -> None:
    counts, betas = np.array([[10.0], [1000.0], [1e6]]), np.array([0.3, 1e-3])
    for f in (least_spectrum, greatest_spectrum):
        grid = f(isotropic(3, 0.2), counts, betas)
        single = [[float(f(isotropic(3, 0.2), float(c[0]), float(b))) for b in betas] for c in counts]
        np.testing.assert_allclose(grid, single, rtol=1e-12)

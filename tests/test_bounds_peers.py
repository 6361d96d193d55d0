"""A player's peers: eigenvalues and liars leave their bounds no more often than stated."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from support.oracles_bounds import DESIGNS, SIX, mean_and_error, world

from truthful.bounds import Model, unit_ball
from truthful.bounds.setting import expected_pull, pull
from truthful.bounds.spectrum import greatest_spectrum, least_spectrum, shortfall_chance


def excess_chance(model: Model, count: float, xi: float) -> float:
    """P(λ_max(XᵀX) ≥ (1+ξ)·count·λ_max(Σ)) is at most this."""
    mu, grown = count * model.greatest_eigenvalue, 1 + xi
    return min(1.0, model.dimension * math.exp(-mu * (grown * math.log(grown) - xi)))


def isotropic(d: int, eigenvalue: float) -> Model:
    return Model(d, 1.0, 1.0, 0.3, eigenvalue, eigenvalue)


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
        chance = excess_chance(model, count, high / mu - 1)
        assert math.log(chance) == pytest.approx(log_beta, rel=1e-5, abs=1e-4)


@given(st.floats(0.01, 0.99), st.integers(10, 10**5))
def test_exact_exponents_are_never_weaker_than_the_rounded_ones(xi: float, count: int) -> None:
    model = isotropic(3, 0.2)
    mu = count * 0.2
    assert float(shortfall_chance(model, count, xi)) <= min(1, 3 * math.exp(-(xi**2) * mu / 2)) * (1 + 1e-9)
    assert excess_chance(model, count, xi) <= min(1, 3 * math.exp(-(xi**2) * mu / 3)) * (1 + 1e-9)


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


def test_eigenvalue_bounds_of_many_sizes_are_those_of_each() -> None:
    counts, betas = np.array([[10.0], [1000.0], [1e6]]), np.array([0.3, 1e-3])
    for f in (least_spectrum, greatest_spectrum):
        grid = f(isotropic(3, 0.2), counts, betas)
        single = [[float(f(isotropic(3, 0.2), float(c[0]), float(b))) for b in betas] for c in counts]
        np.testing.assert_allclose(grid, single, rtol=1e-12)


def ball(d: int) -> Model:
    return unit_ball(d, radius=1.0, noise_bound=1.0, noise_variance=0.3)


@pytest.mark.parametrize("alpha", [1e-9, 0.002, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("d", [1, 2, 5, 10, 50])
def test_the_pull_on_the_ball_is_the_integral_over_the_share_with_most_weight(d: int, alpha: float) -> None:
    """t = x·x' has the density C(1−t²)^((d−1)/2); the share α with the greatest |t| lies."""

    def moment(power: int, c: float) -> float:
        """∫_c^1 t^power (1−t²)^((d−1)/2) dt."""
        return float(integrate.quad(lambda t: t**power * (1 - t * t) ** ((d - 1) / 2), c, 1)[0])

    low, high = 0.0, 1.0
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if moment(0, c) / moment(0, 0.0) > alpha else (low, c)
    exact = (d + 2) * moment(1, low) / moment(0, 0.0)
    assert float(expected_pull(ball(d), alpha)) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.02, 0.3])
@pytest.mark.parametrize("name", DESIGNS)
def test_no_set_of_liars_pulls_further_on_average(name: str, alpha: float) -> None:
    """The αn people of greatest weight, in 400 panels of 200: for a player anywhere among the features."""
    where, rng = world(name), np.random.default_rng(3)
    players = np.vstack([where.farthest(), where.draw(rng, 5)])
    X = where.draw(rng, 400 * 200).reshape(400, 200, where.dimension)
    for x in players:
        weights = np.sort(np.abs(X @ (where.inverse @ x)), axis=1)
        mean, error = mean_and_error(weights[:, -math.floor(alpha * 200) :].sum(axis=1) / 200)
        assert mean - SIX * error <= float(expected_pull(where.model, alpha)) * (1 + 1e-12)


def test_the_pull_is_attained() -> None:
    """By a player on the edge of the ball; and by corners of a cube, where a quarter of all weigh as much as she."""
    rng = np.random.default_rng(4)
    where = world("ball 5")
    weights = np.sort(np.abs(where.draw(rng, 400_000)[:, 0])) * 7
    assert weights[-8000:].sum() / 400_000 == pytest.approx(float(expected_pull(where.model, 0.02)), rel=0.01)
    corners = world("covariance")
    weights = np.abs(corners.draw(rng, 100_000) @ (corners.inverse @ corners.farthest()))
    assert weights.max() == pytest.approx(corners.model.leverage)
    assert float(np.mean(weights > 2.9)) == pytest.approx(0.25, abs=0.01)
    assert float(expected_pull(corners.model, 0.25)) == pytest.approx(0.25 * 3)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 20))
def test_more_liars_pull_further_but_each_less(first: float, second: float, d: int) -> None:
    few, many = sorted((first, second))
    for model in (ball(d), Model(d, 1.0, 1.0, 0.3, 0.1, leverage=float(d + 1))):
        assert expected_pull(model, few) <= expected_pull(model, many) * (1 + 1e-12) + 1e-300
        assert few * expected_pull(model, many) <= many * expected_pull(model, few) * (1 + 1e-9) + 1e-300


@given(st.floats(0, 1), st.integers(1, 20))
def test_the_features_of_liars_count_for_less_than_their_bound(alpha: float, d: int) -> None:
    assert expected_pull(ball(d), alpha) <= pull(ball(d), alpha) * (1 + 1e-9) + 1e-300


def test_without_a_known_design_liars_have_no_bound_but_nobody_pulls_nothing() -> None:
    unknown = Model(3, 1.0, 1.0, 0.3, 0.1)
    assert pull(unknown, 0.1) == math.inf
    assert expected_pull(unknown, 0.1) == math.inf
    assert expected_pull(unknown, 0.0) == 0.0
    np.testing.assert_array_equal(expected_pull(unknown, np.array([0.0, 0.1])), [0.0, math.inf])


@pytest.mark.parametrize("name", DESIGNS)
def test_any_set_of_liars_stays_within_reach(name: str) -> None:
    """‖Σ⁻¹·Σ_j ±x_j‖/n, the signs and the αn people chosen along their own sum, ten times over."""
    where, rng, n, k = world(name), np.random.default_rng(5), 300, 30
    X = where.draw(rng, 100 * n).reshape(100, n, where.dimension) @ where.inverse
    direction = np.tile(where.inverse @ where.farthest(), (100, 1))
    for _ in range(10):
        weight = np.einsum("knd,kd->kn", X, direction)
        chosen = np.argsort(-np.abs(weight), axis=1)[:, :k]
        signs = np.sign(np.take_along_axis(weight, chosen, 1))
        direction = np.einsum("kj,kjd->kd", signs, np.take_along_axis(X, chosen[..., None], 1)) / n
    furthest = float(np.linalg.norm(direction, axis=1).max())
    assert 0.3 * float(pull(where.model, k / n)) < furthest <= float(pull(where.model, k / n)) * (1 + 1e-12)

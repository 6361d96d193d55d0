"""The posterior by quadrature, and the quadrature by itself: against slow integration and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.oracles_beliefs import one_dimensional_prediction

from truthful.beliefs import Beliefs, posterior
from truthful.beliefs.laws import IDENTITY, Clipped, NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.beliefs.posterior import Indices, expectation
from truthful.check import Floats

BELIEFS = Beliefs(4, UniformBall(0.8), TruncatedNormal(0.5, 0.3))


@given(st.floats(0.01, 1), st.floats(0, 1))
def test_the_support_is_where_prior_and_noise_both_live(r: float, share: float) -> None:
    R, M = 0.8, 0.5
    y = share * (R * r + M)
    where = posterior.support(BELIEFS, np.array([r]), np.array([y]))
    assert R * np.cos(where.high[0]) == pytest.approx(max(-R, (y - M) / r), abs=1e-12)
    assert R * np.cos(where.low[0]) == pytest.approx(min(R, (y + M) / r), abs=1e-12)
    assert where.low[0] < where.high[0]


def test_the_support_keeps_its_relative_width_next_to_the_edge() -> None:
    """R - a = (Rr + M - y)/r: at 1e-9 from the edge and r = 1/2 the angle is 2 arcsin √(2e-9/1.6)."""
    where = posterior.support(BELIEFS, np.array([0.5]), np.array([0.9 - 1e-9]))
    assert where.high[0] == pytest.approx(2 * np.sqrt(2e-9 / 1.6), rel=1e-6)


def test_many_scales_are_as_many_single_ones() -> None:
    rng, curve = np.random.default_rng(1), Clipped(0.8, 4)
    r, scales = rng.random(50), np.array([0.01, 0.2, 5.0])
    y = rng.random(50) * (0.8 * r + 0.5)
    together = posterior.mean_on(BELIEFS, posterior.support(BELIEFS, r, y), curve, scales[None, :])
    for column, scale in zip(together.T, scales, strict=True):
        np.testing.assert_allclose(
            column, posterior.mean(BELIEFS, r, y, curve, np.full(50, scale)), atol=1e-12
        )


@pytest.mark.parametrize(
    "beliefs", [BELIEFS, Beliefs(7, NormalBall(1.0, 0.2), UniformNoise(0.3))], ids=["uniform", "normal"]
)
def test_a_players_mean_is_the_same_bits_in_any_batch(beliefs: Beliefs) -> None:
    rng, n, curve = np.random.default_rng(2), 1500, Clipped(beliefs.radius, 3)
    r, scale = rng.random(n), rng.uniform(0.01, 1, n)
    y = rng.uniform(-1, 1, n) * (beliefs.radius * r + beliefs.noise_bound)
    together = posterior.mean(beliefs, r, y, curve, scale)
    for size in (1, 2, 3, 7, 50, 1100):
        part = rng.permutation(n)[:size]
        np.testing.assert_array_equal(
            posterior.mean(beliefs, r[part], y[part], curve, scale[part]), together[part]
        )


@pytest.mark.parametrize("noise_sd", [0.1, 4e-4, 1e-6, 1e-10])
@pytest.mark.parametrize("prior_sd", [None, 0.1, 6e-4, 1e-7])
def test_posteriors_of_any_width_keep_nine_digits(noise_sd: float, prior_sd: float | None) -> None:
    """In one dimension u is a truncated normal variable, inside the support, at its edges and beyond the prior."""
    prior = UniformBall(0.6) if prior_sd is None else NormalBall(0.6, prior_sd)
    beliefs = Beliefs(1, prior, TruncatedNormal(0.4, noise_sd))
    r, share = (
        a.ravel() for a in np.meshgrid([1e-3, 0.3, 0.7326, 1.0], [0.0, 0.1, 0.5, 0.64, 0.9, 0.999, 1.0])
    )
    y = share * (0.6 * r + 0.4)
    q = beliefs.prediction(r, y)
    exact = [one_dimensional_prediction(beliefs, *case) for case in zip(r, y, strict=True)]
    np.testing.assert_allclose(q, exact, rtol=0, atol=1e-9)


@pytest.mark.parametrize("noise_sd", [1e-3, 1e-6, 1e-10])
def test_a_peaked_mean_is_the_same_bits_in_any_batch(noise_sd: float) -> None:
    beliefs = Beliefs(2, UniformBall(0.6), TruncatedNormal(0.4, noise_sd))
    x1 = np.where(np.arange(40) < 9, 0.274, 0.0)
    r, y = np.sqrt((1 + x1**2) / 2), np.where(np.arange(40) < 9, -0.46, 0.0)
    together = beliefs.prediction(r, y)
    assert np.isfinite(together).all()
    for i in (0, 8, 9, 39):
        assert beliefs.prediction(r[i], y[i]) == together[i]


def test_nobody_is_no_trouble() -> None:
    nobody = np.empty(0)
    assert len(posterior.mean(BELIEFS, nobody, nobody, IDENTITY, nobody)) == 0
    assert len(posterior.slope(BELIEFS, nobody, nobody, IDENTITY, nobody)) == 0


def identity(owner: Indices, t: Floats) -> Floats:
    return t[:, :, None]


def test_peaks_of_any_width_are_found() -> None:
    sd = 10.0 ** -np.arange(7.0)

    def normal(owner: Indices, t: Floats) -> Floats:
        return np.asarray(-(((t - 0.3) / sd[owner, None]) ** 2) / 2)

    low, high = np.full(7, -1.0), np.full(7, 2.0)
    exact = stats.truncnorm.mean((low - 0.3) / sd, (high - 0.3) / sd, loc=0.3, scale=sd)
    result = expectation(low, high, normal, identity, 1.0)
    np.testing.assert_allclose(result.value[:, 0], exact, atol=2e-12)
    mass = sd * np.sqrt(2 * np.pi) * np.diff(stats.norm.cdf([(low - 0.3) / sd, (high - 0.3) / sd]), axis=0)[0]
    np.testing.assert_allclose(result.mass * np.exp(result.peak), mass, rtol=1e-10)


def test_weights_that_underflow_keep_their_mean() -> None:
    """exp(-1e5 - 50 t) on [0, 1]."""
    result = expectation(np.zeros(1), np.ones(1), lambda owner, t: -1e5 - 50 * t, identity, 1.0)
    assert result.value[0, 0] == pytest.approx(1 / 50 - 1 / np.expm1(50), abs=1e-13)


def test_jumps_and_kinks_cost_panels_but_not_accuracy() -> None:
    def step(owner: Indices, t: Floats) -> Floats:
        return np.where(t < 0.3, 0.0, np.log(3.0))

    result = expectation(np.zeros(1), np.ones(1), step, identity, 1.0)
    assert result.value[0, 0] == pytest.approx((0.045 + 3 * (0.5 - 0.045)) / (0.3 + 2.1), abs=1e-11)


def test_several_integrands_share_one_density() -> None:
    def powers(owner: Indices, t: Floats) -> Floats:
        return t[:, :, None] ** np.arange(4)

    result = expectation(np.zeros(2), np.ones(2), lambda owner, t: np.zeros_like(t), powers, 1.0)
    np.testing.assert_allclose(result.value, [[1, 1 / 2, 1 / 3, 1 / 4]] * 2, atol=1e-14)


def test_one_densitys_result_is_the_same_bits_whoever_stands_beside_it() -> None:
    rng = np.random.default_rng(1)
    centre, low = rng.random(300), -rng.random(300)

    def bump(picked: Indices) -> Floats:
        def log_weight(owner: Indices, t: Floats) -> Floats:
            return np.asarray(-np.abs(t - centre[picked][owner, None]) * 40)

        return expectation(low[picked], low[picked] + 2, log_weight, identity, 1.0).value[:, 0]

    together = bump(np.arange(300))
    for size in (1, 2, 3, 7, 64):
        picked = rng.permutation(300)[:size]
        np.testing.assert_array_equal(bump(picked), together[picked])


def test_no_part_of_a_narrow_peak_is_lost_beside_the_middle_of_the_interval() -> None:
    """Halves that meet within a standard deviation of the peak, where nodes of one half would see nothing of it."""
    sd = np.repeat(10.0 ** -np.arange(4.0, 11.0), 5)
    centre = 0.5 + np.tile([-2.0, -1.0, 0.0, 1.0, 2.0], 7) * sd

    def normal(owner: Indices, t: Floats) -> Floats:
        return np.asarray(-(((t - centre[owner, None]) / sd[owner, None]) ** 2) / 2)

    result = expectation(np.zeros(35), np.ones(35), normal, identity, 1.0)
    np.testing.assert_allclose(result.value[:, 0], centre, rtol=0, atol=1e-11)


def test_what_cannot_be_integrated_has_the_value_in_the_middle_and_troubles_nobody_else() -> None:
    def half_mad(owner: Indices, t: Floats) -> Floats:
        kinds = np.array([0.0, np.nan, -np.inf, np.inf])
        return np.asarray(t + kinds[owner, None])

    alone = expectation(np.zeros(1), np.ones(1), half_mad, identity, 1.0).value
    together = expectation(np.zeros(4), np.ones(4), half_mad, identity, 1.0).value
    np.testing.assert_array_equal(together[:, 0], [alone[0, 0], 0.5, 0.5, 0.5])


def test_a_weight_of_pure_noise_ends_without_an_error() -> None:
    rng = np.random.default_rng(2)
    result = expectation(np.zeros(3), np.ones(3), lambda owner, t: rng.random(t.shape), identity, 1.0)
    np.testing.assert_allclose(result.value, 0.5, atol=0.1)

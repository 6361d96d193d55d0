from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from truthful.beliefs.quadrature import Indices, expectation
from truthful.check import Floats


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

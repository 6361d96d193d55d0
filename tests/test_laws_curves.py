from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_beliefs import clipped_curve

from truthful.beliefs.laws import IDENTITY, Clipped, Shrunk
from truthful.errors import InputError
from truthful.noise import L2Laplace

dimensions = st.integers(1, 100)
scales = st.floats(-4, 3).map(lambda exponent: 10.0**exponent)
factors = st.floats(0.2, 1.0)


def test_without_clipping_peers_predict_the_truth_or_a_share_of_it() -> None:
    u = np.linspace(-2, 2, 9)
    np.testing.assert_array_equal(IDENTITY(u, 0.3), u)
    np.testing.assert_array_equal(Shrunk(0.7)(u, 0.3), 0.7 * u)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 10, 50])
@pytest.mark.parametrize(("share", "scale"), [(0.3, 0.02), (1.0, 0.4), (-0.8, 5.0)])
def test_clipped_is_the_expectation_it_says(dimension: int, share: float, scale: float) -> None:
    R, factor = 1.3, 0.9
    exact = clipped_curve(share * R, R, dimension, factor, scale)
    assert Clipped(R, dimension, factor)(np.array(share * R), scale) == pytest.approx(exact, abs=1e-13)


def test_clipped_has_a_closed_form_in_one_dimension() -> None:
    """Laplace noise: ψ(u) = u + s (exp(-(R+u)/s) - exp(-(R-u)/s))/2."""
    u = np.linspace(-1, 1, 41)
    for scale in (1e-3, 0.1, 3.0):
        exact = u + scale * (np.exp(-(1 + u) / scale) - np.exp(-(1 - u) / scale)) / 2
        np.testing.assert_allclose(Clipped(1.0, 1)(u, scale), exact, atol=2e-14 * max(1, scale))


@given(dimensions, scales, factors)
def test_clipped_is_odd_increasing_and_bounded(dimension: int, scale: float, factor: float) -> None:
    u = np.linspace(-2.0, 2.0, 101)
    value = Clipped(2.0, dimension, factor)(u, scale)
    np.testing.assert_allclose(value, -value[::-1], atol=1e-14)
    assert np.all(np.diff(value) > 0)
    assert np.abs(value).max() < 2.0


@given(dimensions, scales)
def test_clippeds_slope_is_the_chance_of_not_being_clipped(dimension: int, scale: float) -> None:
    R, u, h = 1.0, np.linspace(-0.95, 0.95, 11), 1e-4
    curve, law = Clipped(R, dimension), L2Laplace(dimension, scale)
    slope = (curve(u + h, scale) - curve(u - h, scale)) / (2 * h)
    chance = law.marginal_cdf(R - u) - law.marginal_cdf(-R - u)
    np.testing.assert_allclose(slope, chance, atol=1e-8 * (1 + 1 / scale**2))


def test_without_noise_clipped_clips() -> None:
    u = np.array([-3.0, -0.5, 0.0, 0.9, 1.4])
    np.testing.assert_array_equal(Clipped(1.0, 5)(u, 0.0), np.clip(u, -1, 1))


def test_clipped_takes_one_scale_for_each_point() -> None:
    u, scale = np.array([0.2, 0.5, -0.7]), np.array([0.0, 0.1, 10.0])
    curve = Clipped(1.0, 4)
    each = [float(curve(np.array(a), b)) for a, b in zip(u, scale, strict=True)]
    np.testing.assert_array_equal(curve(u, scale), each)


def test_huge_noise_leaves_the_curve_its_relative_accuracy() -> None:
    """ψ(u) → 2Ru f(0)/s as s grows, f(0) the density of the noise at 0 for s = 1."""
    u, scale = np.array([0.1, 0.6]), 1e9
    peak = float(L2Laplace(3, 1.0).marginal_pdf(0.0))
    np.testing.assert_allclose(Clipped(1.0, 3)(u, scale), 2 * u * peak / scale, rtol=1e-8)


def test_curves_refuse_impossible_parameters() -> None:
    with pytest.raises(InputError, match="factor is 0"):
        Shrunk(0)
    with pytest.raises(InputError, match="radius is -1"):
        Clipped(-1, 3)
    with pytest.raises(InputError, match="dimension is 0"):
        Clipped(1.0, 0)

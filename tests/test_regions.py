from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truthful.beliefs import Beliefs, posterior
from truthful.beliefs.laws import UniformBall, UniformNoise
from truthful.beliefs.lookup import coordinates
from truthful.beliefs.regions import SHORT, WHOLE, Region, regions

NAMES = ("whole", "upper", "short", "middle")
sides = st.floats(0.02, 0.98)


def beliefs(R: float, M: float) -> Beliefs:
    return Beliefs(3, UniformBall(R), UniformNoise(M))


def test_little_signal_knows_only_the_two_regions_with_much_noise() -> None:
    assert [region.kind for region in regions(beliefs(1.0, 0.3))] == [0, 1, 2, 3]
    assert [region.kind for region in regions(beliefs(0.3, 1.0))] == [0, 1]
    assert [region.kind for region in regions(beliefs(1.0, 1.0))] == [0, 1]


@pytest.mark.parametrize("region", regions(beliefs(1.4, 0.3)), ids=NAMES)
@given(X=sides, Y=sides)
def test_a_region_maps_to_the_supports_of_its_players(region: Region, X: float, Y: float) -> None:
    where = region.support(np.array([X]), np.array([Y]))
    exact = posterior.support(beliefs(1.4, 0.3), where.r, where.y)
    np.testing.assert_allclose([where.low[0], where.high[0]], [exact.low[0], exact.high[0]], atol=1e-7)
    assert 0 < where.r[0] < 1


@pytest.mark.parametrize("region", regions(beliefs(1.4, 0.3)), ids=NAMES)
@given(X=sides, Y=sides)
def test_coordinates_lead_back(region: Region, X: float, Y: float) -> None:
    where = region.support(np.array([X]), np.array([Y]))
    kind, (back_X, back_Y, under_x, under_y) = np.empty(1, np.int32), np.empty((4, 1))
    coordinates(where.r, where.y, 1.4, 0.3, kind, back_X, back_Y, under_x, under_y)
    assert kind[0] == region.kind
    np.testing.assert_allclose([back_X / under_x, back_Y / under_y], [[X], [Y]], atol=1e-11)


def test_the_corners_of_the_square_are_the_corners_of_the_region() -> None:
    R, M = 1.4, 0.3
    whole, short = Region(WHOLE, R, M), Region(SHORT, R, M)
    X, Y = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    np.testing.assert_allclose(whole.support(X, Y).r, [0, M / R])
    np.testing.assert_allclose(whole.support(X, Y).y, [M, 0], atol=1e-15)
    np.testing.assert_allclose(short.support(X, Y).r, [M / R, 1])
    np.testing.assert_allclose(short.support(X, Y).y, [2 * M, R + M])
    np.testing.assert_allclose(short.support(X, 0 * Y).y, [0, R - M], atol=1e-15)

"""Regions of reports, and polynomials on cells of the unit square: against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truthful.beliefs import Beliefs, posterior
from truthful.beliefs.laws import UniformBall, UniformNoise
from truthful.beliefs.lookup import OPEN, ORDER, ROOTS, SHORT, WHOLE, coordinates
from truthful.beliefs.table import Region, TableCells, fit, left_open, regions
from truthful.check import Floats

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


def value(cells: TableCells, X: float, Y: float) -> Floats:
    """All columns at one point, by the definition in Cells."""
    i, j = min(int(ROOTS * X), ROOTS - 1), min(int(ROOTS * Y), ROOTS - 1)
    first, kx, ky = cells.roots[i * ROOTS + j]
    x, y = (ROOTS * X - i) * kx, (ROOTS * Y - j) * ky
    a, b = min(int(x), kx - 1), min(int(y), ky - 1)
    powers_x, powers_y = (2 * (x - a) - 1) ** np.arange(ORDER), (2 * (y - b) - 1) ** np.arange(ORDER)
    return np.asarray(np.einsum("a,abc,b->c", powers_x, cells.coefficients[first + a * ky + b], powers_y))


def waves(X: Floats, Y: Floats) -> Floats:
    return np.stack([np.sin(9 * X + 2 * Y), np.exp(-((X - 0.3) ** 2) * 40) * Y], axis=1)


def test_the_error_is_what_it_says_everywhere() -> None:
    cells = fit(waves, 2, 1e-10, 1e-10)
    assert np.all(cells.roots[:, 0] != OPEN)
    assert cells.error <= 1e-10
    points = np.random.default_rng(1).random((400, 2))
    points[:40] = np.round(points[:40] * 8) / 8  # corners and borders of cells
    errors = [np.abs(value(cells, X, Y) - waves(np.array([X]), np.array([Y]))[0]).max() for X, Y in points]
    assert max(errors) <= 2 * cells.error


def test_cells_are_cut_across_the_coordinate_that_needs_it() -> None:
    cells = fit(lambda X, Y: np.sin(60 * X + Y)[:, None], 1, 1e-10, 1e-10)
    assert cells.roots[:, 1].min() >= 4
    assert cells.roots[:, 2].max() == 1


def test_costly_roots_are_content_with_less() -> None:
    for enough, cuts in ((1e-13, 64), (1e-9, 32)):
        cells = fit(lambda X, Y: np.sin(60 * X)[:, None], 1, 1e-13, enough)
        assert cells.error <= enough
        assert set(cells.roots[:, 1]) == {cuts}


def test_a_function_with_a_kink_is_left_open_where_the_kink_is() -> None:
    cells = fit(lambda X, Y: np.abs(X - 0.3)[:, None] * (1 + Y)[:, None], 1, 1e-12, 1e-12)
    is_open = (cells.roots[:, 0] == OPEN).reshape(ROOTS, ROOTS)
    np.testing.assert_array_equal(is_open, np.repeat([[False], [True], [False], [False]], 4, axis=1))


def test_nothing_fitted_is_all_open() -> None:
    assert np.all(left_open(3).roots == OPEN)
    assert left_open(3).coefficients.shape == (0, ORDER, ORDER, 3)


@pytest.mark.parametrize("columns", [1, 5])
def test_polynomials_of_the_cells_degree_need_no_cutting(columns: int) -> None:
    cells = fit(lambda X, Y: np.repeat((X**7 * Y**7)[:, None], columns, axis=1), columns, 1e-12, 1e-12)
    assert np.all(cells.roots[:, 1:] == 1)
    assert cells.coefficients.shape == (ROOTS**2, ORDER, ORDER, columns)

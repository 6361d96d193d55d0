from __future__ import annotations

import numpy as np
import pytest

from truthful.beliefs.cells import OPEN, ORDER, ROOTS, Cells, fit, left_open
from truthful.check import Floats


def value(cells: Cells, X: float, Y: float) -> Floats:
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

from __future__ import annotations

import numpy as np

from truthful.beliefs.cells import OPEN, ORDER
from truthful.beliefs.curves import Clipped
from truthful.beliefs.packed import PLANE, WEDGE, packed
from truthful.beliefs.scales import SCALE_ORDER, scale_axis

CURVE = Clipped(0.6, 5)
MANY = scale_axis(CURVE, 0.6, 0.1, 0.2, least_pieces=2)
T7 = np.polynomial.chebyshev.cheb2poly([0.0] * 7 + [1.0])


def test_one_scale_keeps_the_planes_as_they_are() -> None:
    planes = np.random.default_rng(1).random((3, ORDER, ORDER, 1))
    rows, _, _, dropped = packed(planes, scale_axis(CURVE, 0.6, 0.1, 0.1))
    np.testing.assert_array_equal(rows, planes.reshape(3, PLANE))
    assert dropped == 0


def test_no_cells_are_no_rows() -> None:
    rows, _, _, dropped = packed(np.empty((0, ORDER, ORDER, len(MANY.nodes))), MANY)
    assert rows.shape == (0, WEDGE)
    assert dropped == 0


def test_what_is_dropped_is_the_sum_of_its_coefficients() -> None:
    """T₇(x) times 1 + T₇(s)/2, T₇ being the largest degree there is: the second part has degrees 14 and is dropped."""
    planes = np.zeros((1, ORDER, ORDER, len(MANY.nodes)))
    x = np.cos(np.pi * (np.arange(SCALE_ORDER) + 0.5) / SCALE_ORDER)
    planes[0, :, 0, :] = T7[:, None] * np.tile(1 + np.cos(7 * np.arccos(x)) / 2, MANY.pieces)
    rows, _, steady, dropped = packed(planes, MANY)
    assert rows.shape == (MANY.pieces, WEDGE)
    np.testing.assert_allclose(dropped, 0.5, rtol=1e-13)
    # Of a row the first of each four y-powers, at s = 0: what is left is T₇(x) in the first column.
    first = rows[0, [0, 32, 64, 92, 116, 136, 152, 164]]
    np.testing.assert_allclose(first, T7, atol=1e-12)
    assert steady.tolist() == [OPEN]


def test_cells_in_which_the_scale_hardly_matters_are_steady_and_have_one_plane() -> None:
    """T₇(x) times 1 + c·s: what is lost is c, the sum of the coefficients of all that depends on s."""
    planes = np.zeros((3, ORDER, ORDER, len(MANY.nodes)))
    x = np.cos(np.pi * (np.arange(SCALE_ORDER) + 0.5) / SCALE_ORDER)
    for cell, slope in enumerate((0.9e-10, 1.1e-10, 0.0)):
        planes[cell, :, 0, :] = T7[:, None] * np.tile(1 + slope * x, MANY.pieces)
    _, flat, steady, dropped = packed(planes, MANY)
    assert steady.tolist() == [0, OPEN, 1]
    np.testing.assert_allclose(flat.reshape((2, ORDER, ORDER))[:, :, 0], [T7, T7], atol=1e-12)
    np.testing.assert_allclose(dropped, 0.9e-10, rtol=1e-3)

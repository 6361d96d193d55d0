from __future__ import annotations

import numpy as np
import pytest

from truthful.beliefs.curves import IDENTITY, Clipped, Shrunk
from truthful.beliefs.polynomials import monomials
from truthful.beliefs.scales import scale_axis
from truthful.errors import InputError

CURVE = Clipped(0.6, 5)


def test_curves_without_noise_need_one_node_for_every_scale() -> None:
    for curve in (IDENTITY, Shrunk(0.5)):
        axis = scale_axis(curve, 0.6, 0.1, 3.0)
        assert (axis.order, axis.pieces, axis.error) == (1, 1, 0.0)
        assert axis.lowest < 0 < 1e9 < axis.highest


def test_one_scale_needs_one_node() -> None:
    for scale in (0.0, 0.2):
        axis = scale_axis(CURVE, 0.6, scale, scale)
        assert axis.nodes.tolist() == [scale]
        assert axis.lowest <= scale <= axis.highest


def test_narrow_ranges_need_one_piece_and_fewer_nodes() -> None:
    for high, order in ((0.1001, 3), (0.102, 4), (0.11, 6), (0.15, 8)):
        axis = scale_axis(CURVE, 0.6, 0.1, high)
        assert (axis.order, axis.pieces) == (order, 1)


def test_more_pieces_than_needed_can_be_asked_for() -> None:
    axis = scale_axis(CURVE, 0.6, 0.1, 0.102, least_pieces=7)
    assert (axis.order, axis.pieces) == (8, 8)
    assert axis.error < 1e-13


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.102), (0.1, 0.11), (0.03, 0.3), (1e-3, 0.2), (5.0, 500.0)])
def test_the_curve_is_interpolated_as_well_as_it_says(low: float, high: float) -> None:
    axis = scale_axis(CURVE, 0.6, low, high)
    assert axis.error <= 1.5e-10
    coefficients = monomials(CURVE(np.zeros(1), axis.nodes).reshape(axis.pieces, axis.order))
    np.testing.assert_array_equal(coefficients, 0)  # ψ(0) = 0 whatever the noise
    rng = np.random.default_rng(1)
    u, s = 0.6 * np.sin(rng.uniform(0, np.pi / 2, 500)), low * (high / low) ** rng.random(500)
    values = CURVE(u[:, None], axis.nodes).reshape(500, axis.pieces, axis.order)
    place = (np.log(s) - axis.origin) * axis.step
    piece = np.clip(place.astype(int), 0, axis.pieces - 1)
    rows = monomials(values)[np.arange(500), piece]
    x = 2 * (place - piece) - 1
    fitted = np.sum(rows * x[:, None] ** np.arange(axis.order), axis=1)
    assert np.abs(fitted - CURVE(u, s)).max() <= 2 * axis.error


def test_errors_at_the_nodes_grow_by_no_more_than_the_lebesgue_constant() -> None:
    axis = scale_axis(CURVE, 0.6, 0.03, 0.3)
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * axis.order)).reshape(axis.order, -1).T
    x = np.linspace(-1, 1, 101)
    worst = np.abs(monomials(signs) @ np.vander(x, axis.order, increasing=True).T).max()
    assert 0.8 * axis.lebesgue < worst <= axis.lebesgue


def test_ranges_no_table_covers_are_refused() -> None:
    with pytest.raises(InputError, match=r"scale_low is 0\.3, above"):
        scale_axis(CURVE, 0.6, 0.3, 0.2)
    with pytest.raises(InputError, match="scale_low is 0"):
        scale_axis(CURVE, 0.6, 0.0, 0.2)
    with pytest.raises(InputError, match="scale_high is nan"):
        scale_axis(CURVE, 0.6, 0.0, float("nan"))
    with pytest.raises(InputError, match="too wide a range"):
        scale_axis(CURVE, 0.6, 1e-12, 1e12)

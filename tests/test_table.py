"""Tables of own predictions, and what they are made of: the scale axis, curves at many scales, packed polynomials."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from truthful.beliefs import Beliefs
from truthful.beliefs.laws import (
    IDENTITY,
    Clipped,
    Curve,
    CustomNoise,
    NormalBall,
    Shrunk,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
    monomials,
)
from truthful.beliefs.lookup import OPEN, ORDER, PLANE, SCALE_ORDER, WEDGE
from truthful.beliefs.table import (
    PredictionTable,
    SampledCurve,
    pack,
    prediction_table,
    scale_axis,
    table_of_two,
)
from truthful.check import Floats
from truthful.errors import InputError

DEFAULT = Beliefs(5, UniformBall(0.6), TruncatedNormal(0.4, 0.2))
SMOOTH = CustomNoise(0.4, lambda z: 1 + np.cos(5 * z))

CASES: list[tuple[Beliefs, Curve, float, float]] = [
    (DEFAULT, IDENTITY, 0.0, 0.0),
    (DEFAULT, Shrunk(0.8), 0.0, 0.0),
    (DEFAULT, Clipped(0.6, 5), 0.1, 0.1),
    (DEFAULT, Clipped(0.6, 5), 0.0, 0.0),
    (DEFAULT, Clipped(0.6, 5), 0.1, 0.102),
    (DEFAULT, Clipped(0.6, 5, 0.9), 0.05, 0.2),
    (DEFAULT, Clipped(0.6, 5), 1e-4, 1.5e-4),
    (Beliefs(1, UniformBall(1.0), UniformNoise(0.5)), IDENTITY, 0.0, 0.0),
    (Beliefs(2, UniformBall(0.5), UniformNoise(1.0)), Clipped(0.5, 2), 0.3, 0.3),
    (Beliefs(2, NormalBall(1.0, 0.3), TruncatedNormal(1.0, 0.5)), IDENTITY, 0.0, 0.0),
    (Beliefs(100, UniformBall(1.0), TruncatedNormal(1.0, 0.5)), IDENTITY, 0.0, 0.0),
    (Beliefs(3, UniformBall(1.0), TruncatedNormal(1e-3, 5e-4)), IDENTITY, 0.0, 0.0),
    (Beliefs(3, UniformBall(0.6), SMOOTH), IDENTITY, 0.0, 0.0),
]
HARD: list[tuple[Beliefs, Curve, float, float]] = [
    (DEFAULT, Clipped(0.6, 5), 0.03, 0.3),
    (Beliefs(10, NormalBall(1.0, 0.3), TruncatedNormal(0.5, 0.25)), Clipped(1.0, 10), 0.01, 0.1),
    (Beliefs(100, UniformBall(1.0), TruncatedNormal(0.5, 0.25)), Clipped(1.0, 100), 0.001, 0.002),
    (Beliefs(5, UniformBall(30.0), TruncatedNormal(5.0, 2.5)), IDENTITY, 0.0, 0.0),
    (Beliefs(5, UniformBall(1.0), TruncatedNormal(0.5, 0.02)), IDENTITY, 0.0, 0.0),
    (Beliefs(30, NormalBall(1.0, 0.05), UniformNoise(0.5)), Clipped(1.0, 30), 0.05, 0.05),
]


def players(
    beliefs: Beliefs, low: float, high: float, count: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Players everywhere: at random, at tiny r, and on, next to and across the lines between regions and the edge."""
    rng, R, M = np.random.default_rng(seed), beliefs.radius, beliefs.noise_bound
    r = np.sqrt(rng.random(count))
    r[::5] = 10.0 ** rng.uniform(-12, 0, len(r[::5]))
    r[::7] = np.minimum(
        1.0, M / R * (1 + rng.choice([-1, 0, 1], len(r[::7])) * 10.0 ** rng.uniform(-16, -2, len(r[::7])))
    )
    y = rng.uniform(-1, 1, count) * (R * r + M)
    near = rng.choice([-1, 0, 1], count) * 10.0 ** rng.uniform(-16, -3, count)
    lines = np.stack(
        [
            y,
            y,
            (R * r + M) * (1 + near),
            np.abs(M - R * r) * (1 + near),
            M + R * r * rng.uniform(-1, 1, count),
        ]
    )
    y = lines[rng.integers(0, 5, count), np.arange(count)]
    return r, y, rng.uniform(low, high, count)


@pytest.mark.parametrize(("beliefs", "curve", "low", "high"), CASES)
def test_a_table_is_off_by_no_more_than_it_says(
    beliefs: Beliefs, curve: Curve, low: float, high: float
) -> None:
    table = prediction_table(beliefs, curve, low, high)
    assert np.all(table.roots[:, 0] != OPEN)
    assert table.error <= (1e-10 if low == high else 1e-9)
    r, y, scale = players(beliefs, low, high, 3000, seed=1)
    assert np.abs(table(r, y, scale) - beliefs.prediction(r, y, curve, scale)).max() <= table.error


@pytest.mark.slow
@pytest.mark.parametrize(("beliefs", "curve", "low", "high"), HARD)
def test_a_hard_table_is_off_by_no_more_than_it_says(
    beliefs: Beliefs, curve: Curve, low: float, high: float
) -> None:
    table = prediction_table(beliefs, curve, low, high)
    assert table.error <= 1e-9
    assert table.coefficients.nbytes < 50e6
    r, y, scale = players(beliefs, low, high, 20_000, seed=2)
    assert np.abs(table(r, y, scale) - beliefs.prediction(r, y, curve, scale)).max() <= table.error


@pytest.fixture(scope="module")
def table() -> PredictionTable:
    return prediction_table(DEFAULT, Clipped(0.6, 5), 0.1, 0.2)


def test_a_table_with_a_wrong_ninth_digit_would_be_noticed(table: PredictionTable) -> None:
    wrong = dataclasses.replace(table, coefficients=table.coefficients * (1 + 1e-8))
    r, y, scale = players(DEFAULT, 0.1, 0.2, 3000, seed=1)
    assert np.abs(wrong(r, y, scale) - DEFAULT.prediction(r, y, table.curve, scale)).max() > 2 * table.error


def test_a_table_is_odd_in_the_report(table: PredictionTable) -> None:
    r, y, scale = players(DEFAULT, 0.1, 0.2, 500, seed=3)
    np.testing.assert_array_equal(table(r, -y, scale), -table(r, y, scale))


def test_what_lies_outside_the_table_is_integrated(table: PredictionTable) -> None:
    r, y = np.array([0.5, 0.5, 0.5, 1.2]), np.array([0.3, -0.3, 0.3, 0.3])
    scale = np.array([0.05, 0.0, 9.0, 0.1])
    np.testing.assert_array_equal(table(r, y, scale), DEFAULT.prediction(r, y, table.curve, scale))


def test_features_of_length_zero_need_no_scale(table: PredictionTable) -> None:
    q = table([0.0, 0.5], [0.3, 0.3], [np.nan, 0.1])
    assert q[0] == 0
    assert q[1] > 0
    assert len(table(np.empty(0), np.empty(0), np.empty(0))) == 0


def test_what_is_not_a_number_is_refused(table: PredictionTable) -> None:
    for r, y, scale in (
        (np.nan, 0, 0.1),
        (0.5, np.nan, 0.1),
        (0.5, np.inf, 0.1),
        (-0.1, 0, 0.1),
        (0.5, 0, np.nan),
    ):
        with pytest.raises(InputError, match="must be finite"):
            table([0.5, r], [0.1, y], [0.1, scale])


def test_a_player_gets_the_same_bits_in_any_batch(table: PredictionTable) -> None:
    r, y, scale = players(DEFAULT, 0.1, 0.2, 40_000, seed=4)
    fixed = prediction_table(DEFAULT, IDENTITY)
    rng = np.random.default_rng(5)
    for answer in (table, fixed):
        together = answer(r, y, scale)
        for size in (1, 2, 3, 7, 100, 20_000):
            part = rng.permutation(40_000)[:size]
            np.testing.assert_array_equal(answer(r[part], y[part], scale[part]), together[part])


def test_one_scale_for_all_is_the_same_as_one_each(table: PredictionTable) -> None:
    r, y, _ = players(DEFAULT, 0.1, 0.2, 500, seed=7)
    np.testing.assert_array_equal(table(r, y, 0.15), table(r, y, np.full(500, 0.15)))
    np.testing.assert_array_equal(table(0.5, y, 0.15), table(np.full(500, 0.5), y, 0.15))


def test_answers_are_written_where_they_are_wanted(table: PredictionTable) -> None:
    r, y, scale = players(DEFAULT, 0.1, 0.2, 500, seed=8)
    scale[::50] = 0.3  # outside the table
    out = np.full(500, np.nan)
    assert table(r, y, scale, out) is out
    np.testing.assert_array_equal(out, table(r[::-1], y[::-1], scale[::-1])[::-1])


def test_the_same_declaration_gives_the_same_table(table: PredictionTable) -> None:
    again = prediction_table(DEFAULT, Clipped(0.6, 5), 0.1, 0.2)
    np.testing.assert_array_equal(again.coefficients, table.coefficients)
    assert again.error == table.error


def test_a_density_with_a_kink_is_never_tabulated() -> None:
    beliefs = Beliefs(2, UniformBall(0.6), CustomNoise(0.4, lambda z: 0.5 - np.abs(z)))
    table = prediction_table(beliefs, IDENTITY)
    assert np.all(table.roots[:, 0] == OPEN)
    r, y, _ = players(beliefs, 0.0, 0.0, 50, seed=6)
    np.testing.assert_array_equal(table(r, y), beliefs.prediction(r, y))


def test_a_range_must_be_one() -> None:
    with pytest.raises(InputError, match="above scale_high"):
        prediction_table(DEFAULT, Clipped(0.6, 5), 0.2, 0.1)


def test_a_table_of_two_scales_knows_these_two_and_leaves_others_to_quadrature() -> None:
    beliefs = Beliefs(3, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    curve, rng = Clipped(1.0, 3), np.random.default_rng(11)
    r, y = rng.uniform(0, 1, 400), rng.uniform(-2, 2, 400)
    table = table_of_two(beliefs, curve, 0.021, 0.02)
    assert table.error <= 2e-10
    for scale in (rng.choice([0.02, 0.021], 400), np.full(400, 0.0205), np.full(400, 0.5)):
        exact = beliefs.prediction(r, y, curve, scale)
        assert np.abs(table(r, y, scale) - exact).max() <= table.error
    same = table_of_two(beliefs, curve, 0.02, 0.02)
    assert same.axis.pieces == 1


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


@pytest.mark.parametrize("dimension", [1, 2, 5, 100])
@pytest.mark.parametrize("least", [1e-6, 1e-3, 0.1, 100.0])
def test_sampled_is_the_curve_at_each_of_its_scales(dimension: int, least: float) -> None:
    rng, R = np.random.default_rng(1), 1.3
    curve, scales = Clipped(R, dimension), least * np.array([1.0, 2.0, 7.0])
    sampled = SampledCurve(curve, R, scales)
    u = np.concatenate([[R, -R, 0.0], rng.uniform(-R, R, 300), R - 10.0 ** rng.uniform(-12, 0, 300)])
    assert sampled.error <= 4e-13 * R
    np.testing.assert_allclose(sampled(u[:, None]), curve(u[:, None], scales), rtol=0, atol=5e-13)


def test_the_scales_become_the_last_axis() -> None:
    sampled = SampledCurve(Clipped(1.0, 2), 1.0, np.array([0.1, 0.2]))
    assert sampled(np.zeros((3, 4, 1))).shape == (3, 4, 2)


MANY = scale_axis(CURVE, 0.6, 0.1, 0.2, least_pieces=2)
T7 = np.polynomial.chebyshev.cheb2poly([0.0] * 7 + [1.0])


def test_one_scale_keeps_the_planes_as_they_are() -> None:
    planes = np.random.default_rng(1).random((3, ORDER, ORDER, 1))
    rows, _, _, dropped = pack(planes, scale_axis(CURVE, 0.6, 0.1, 0.1))
    np.testing.assert_array_equal(rows, planes.reshape(3, PLANE))
    assert dropped == 0


def test_no_cells_are_no_rows() -> None:
    rows, _, _, dropped = pack(np.empty((0, ORDER, ORDER, len(MANY.nodes))), MANY)
    assert rows.shape == (0, WEDGE)
    assert dropped == 0


def test_what_is_dropped_is_the_sum_of_its_coefficients() -> None:
    """T₇(x) times 1 + T₇(s)/2, T₇ being the largest degree there is: the second part has degrees 14 and is dropped."""
    planes = np.zeros((1, ORDER, ORDER, len(MANY.nodes)))
    x = np.cos(np.pi * (np.arange(SCALE_ORDER) + 0.5) / SCALE_ORDER)
    planes[0, :, 0, :] = T7[:, None] * np.tile(1 + np.cos(7 * np.arccos(x)) / 2, MANY.pieces)
    rows, _, steady, dropped = pack(planes, MANY)
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
    _, flat, steady, dropped = pack(planes, MANY)
    assert steady.tolist() == [0, OPEN, 1]
    np.testing.assert_allclose(flat.reshape((2, ORDER, ORDER))[:, :, 0], [T7, T7], atol=1e-12)
    np.testing.assert_allclose(dropped, 0.9e-10, rtol=1e-3)

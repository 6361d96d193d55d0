"""Tables of own predictions, and their parts: regions, cells, the scale axis, curves at many scales, lookup."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truthful.beliefs import Beliefs, posterior
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
from truthful.beliefs.table import (
    MIDDLE,
    OPEN,
    ORDER,
    ROOTS,
    SHORT,
    WHOLE,
    PredictionTable,
    Region,
    SampledCurve,
    TableCells,
    cells_of,
    coordinates,
    fit,
    known_scales,
    left_open,
    pieces_of,
    prediction_table,
    regions,
    roots_of,
    scale_axis,
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
    (Beliefs(100, UniformBall(1.0), TruncatedNormal(0.5, 0.25)), Clipped(1.0, 100), 0.001, 0.002),
    (Beliefs(5, UniformBall(30.0), TruncatedNormal(5.0, 2.5)), IDENTITY, 0.0, 0.0),
    (Beliefs(5, NormalBall(1.0, 0.1), TruncatedNormal(0.5, 0.05)), IDENTITY, 0.0, 0.0),
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
    r, y, scale = players(beliefs, low, high, 5000, seed=2)
    assert np.abs(table(r, y, scale) - beliefs.prediction(r, y, curve, scale)).max() <= table.error


def test_pieces_are_added_where_too_much_would_be_dropped() -> None:
    """With the pieces that the curve alone needs, this table would be off by as much as 1.2e-9."""
    beliefs, curve = Beliefs(10, UniformBall(1.0), UniformNoise(0.05)), Clipped(1.0, 10)
    table = prediction_table(beliefs, curve, 0.00707, 0.04242)
    assert table.error <= 1e-9
    assert table.axis.pieces > scale_axis(curve, 1.0, 0.00707, 0.04242).pieces
    r, y, scale = players(beliefs, 0.00707, 0.04242, 1000, seed=9)
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
@pytest.mark.parametrize("least", [1e-6, 0.1, 100.0])
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


# Regions of reports, and polynomials on cells of the unit square: against their definitions

NAMES = ("whole", "upper", "short", "middle")
sides = st.floats(0.02, 0.98)


def laws(R: float, M: float) -> Beliefs:
    return Beliefs(3, UniformBall(R), UniformNoise(M))


def test_little_signal_knows_only_the_two_regions_with_much_noise() -> None:
    assert [region.kind for region in regions(laws(1.0, 0.3))] == [0, 1, 2, 3]
    assert [region.kind for region in regions(laws(0.3, 1.0))] == [0, 1]
    assert [region.kind for region in regions(laws(1.0, 1.0))] == [0, 1]


@pytest.mark.parametrize("region", regions(laws(1.4, 0.3)), ids=NAMES)
@given(X=sides, Y=sides)
def test_a_region_maps_to_the_supports_of_its_players(region: Region, X: float, Y: float) -> None:
    where = region.support(np.array([X]), np.array([Y]))
    exact = posterior.support(laws(1.4, 0.3), where.r, where.y)
    np.testing.assert_allclose([where.low[0], where.high[0]], [exact.low[0], exact.high[0]], atol=1e-7)
    assert 0 < where.r[0] < 1


@pytest.mark.parametrize("region", regions(laws(1.4, 0.3)), ids=NAMES)
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


# Players to places: against the definitions, one player at a time


def test_impossible_players_are_nowhere_and_others_in_a_root_of_their_region() -> None:
    r = np.array([0.0, 0.5, 1e-320, 0.3 / 1.4, 1.0, 1.0, -1.0, np.nan, 2.0, 0.5, 0.5])
    y = np.array([0.1, 0.9, 0.3, 0.0, 1.3, 1.0, 0.1, 0.1, 0.1, np.nan, np.inf])
    row, (X, Y, under_x, under_y) = np.empty(11, np.int32), np.empty((4, 11))
    coordinates(r, y, 1.4, 0.3, row, X, Y, under_x, under_y)
    roots_of(r, y, 64, row, X, Y, under_x, under_y)
    assert row[6:].tolist() == [64] * 5
    assert (row[:6] // ROOTS**2).tolist() == [WHOLE, SHORT, WHOLE, WHOLE, SHORT, MIDDLE]
    assert np.all((X >= 0) & (X <= 1) & (Y >= 0) & (Y <= 1))


def test_a_root_is_cut_into_its_cells() -> None:
    roots = np.array([[5.0, OPEN, OPEN], [2.0, OPEN, 1.0], [4.0, OPEN, 1.0]])
    row = np.array([0, 0, 0, 1, 2], dtype=np.int32)
    X, Y = np.array([0.0, 0.75, 1.0, 0.5, 0.0]), np.array([0.0, 0.375, 1.0, 0.5, 0.0])
    cells_of(row, X, Y, roots, *np.empty((3, 5)))
    # Cell (a, b) is in row first + a ky + b.
    assert row.tolist() == [5, 5 + 4 + 1, 5 + 4 + 3, OPEN, OPEN]
    assert X[:3].tolist() == [-1, 0, 1]
    assert Y[:3].tolist() == [-1, 0, 1]


def test_scales_fall_into_equal_pieces_of_their_logarithm() -> None:
    low, high, pieces = 1e-3, 0.7, 5
    scale = np.exp(np.random.default_rng(1).uniform(np.log(low), np.log(high), 2000))
    scale[:4] = low, high, low / 2, np.nan
    origin, step = np.log(low), pieces / np.log(high / low)
    row, S = np.full(2000, 3, dtype=np.int32), scale.copy()
    row[4] = OPEN
    known_scales(S, low, high, row)
    pieces_of(S, origin, step, pieces, 10, row)
    assert row[:5].tolist() == [3, 43, OPEN, OPEN, OPEN]
    known = row >= 0
    piece = (row[known] - 3) // 10
    np.testing.assert_allclose((S[known] + 1) / 2 + piece, (np.log(scale[known]) - origin) * step, atol=1e-13)
    assert np.all(np.abs(S[known]) <= 1 + 1e-12)

"""Players to places: against the definitions, one player at a time."""

from __future__ import annotations

import numpy as np

from truthful.beliefs.lookup import (
    MIDDLE,
    OPEN,
    ROOTS,
    SHORT,
    WHOLE,
    cells_of,
    coordinates,
    known_scales,
    pieces_of,
    roots_inside,
    roots_of,
    unpacked,
)


def test_impossible_players_are_nowhere_and_others_in_a_root_of_their_region() -> None:
    r = np.array([0.0, 0.5, 1e-320, 0.3 / 1.4, 1.0, 1.0, -1.0, np.nan, 2.0, 0.5, 0.5])
    y = np.array([0.1, 0.9, 0.3, 0.0, 1.3, 1.0, 0.1, 0.1, 0.1, np.nan, np.inf])
    row, (X, Y, under_x, under_y) = np.empty(11, np.int32), np.empty((4, 11))
    coordinates(r, y, 1.4, 0.3, row, X, Y, under_x, under_y)
    roots_of(r, y, 64, row, X, Y, under_x, under_y)
    assert row[6:].tolist() == [64] * 5
    assert (row[:6] // ROOTS**2).tolist() == [WHOLE, SHORT, WHOLE, WHOLE, SHORT, MIDDLE]
    assert np.all((X >= 0) & (X <= 1) & (Y >= 0) & (Y <= 1))


def test_where_noise_covers_the_signal_the_short_way_leads_to_the_same_place() -> None:
    rng = np.random.default_rng(2)
    r = np.concatenate(
        [rng.random(1000), 10.0 ** rng.uniform(-320, 0, 50), [0.0, 1.0, 1.0, np.nan, 1.5, 0.5]]
    )
    y = np.concatenate([rng.uniform(-2, 2, 1050), [0.8, 0.0, 1.6, 0.1, 0.1, np.inf]])
    for R in (0.5, 0.8):
        row, (X, Y, under_x, under_y) = np.empty(len(r), np.int32), np.empty((4, len(r)))
        coordinates(r, y, R, 0.8, row, X, Y, under_x, under_y)
        roots_of(r, y, 32, row, X, Y, under_x, under_y)
        same, (same_X, same_Y) = np.empty(len(r), np.int32), np.empty((2, len(r)))
        roots_inside(r, y, R, 0.8, 32, same, same_X, same_Y)
        np.testing.assert_array_equal(same, row)
        np.testing.assert_array_equal([same_X, same_Y], [X, Y])


def test_a_root_is_cut_into_its_cells() -> None:
    roots = np.array([[5, 2, 4], [OPEN, OPEN, OPEN]])
    row = np.array([0, 0, 0, 1, 2], dtype=np.int32)
    X, Y = np.array([0.0, 0.75, 1.0, 0.5, 0.0]), np.array([0.0, 0.375, 1.0, 0.5, 0.0])
    cells_of(row, X, Y, unpacked(roots), *np.empty((3, 5)))
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
    pieces_of(S, low, high, origin, step, pieces, 10, row)
    assert row[:5].tolist() == [3, 43, OPEN, OPEN, OPEN]
    known = row >= 0
    piece = (row[known] - 3) // 10
    np.testing.assert_allclose((S[known] + 1) / 2 + piece, (np.log(scale[known]) - origin) * step, atol=1e-13)
    assert np.all(np.abs(S[known]) <= 1 + 1e-12)


def test_only_the_scale_of_the_table_is_known() -> None:
    row = np.arange(4, dtype=np.int32)
    known_scales(np.array([0.1, 0.2, 0.3, np.nan]), 0.15, 0.25, row)
    assert row.tolist() == [OPEN, 1, OPEN, OPEN]

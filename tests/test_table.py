from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from truthful.beliefs import Beliefs
from truthful.beliefs.cells import OPEN
from truthful.beliefs.curves import IDENTITY, Clipped, Curve, Shrunk
from truthful.beliefs.laws import CustomNoise, NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.beliefs.table import PredictionTable, prediction_table, table_of_two
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

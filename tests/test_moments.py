"""Moments are exact: no order, chunking, split or magnitude changes a bit of them; bounds hold exactly."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.oracles_estimators import integer_norm_excess, nobody, python_moments

from truthful import moments as module
from truthful.check import Floats
from truthful.errors import InputError
from truthful.moments import (
    GRID,
    Moments,
    as_floats,
    grid_features,
    grid_responses,
    group_moments,
    moments,
    response_limit,
)

LARGEST = float(np.finfo(np.float64).max)
finite = st.floats(allow_nan=False, allow_infinity=False)
near_one = st.floats(-1.5, 1.5)
matrices = st.integers(1, 6).flatmap(
    lambda d: arrays(np.float64, st.tuples(st.integers(1, 8), st.just(d)), elements=finite | near_one)
)


def records(rng: np.random.Generator, n: int, d: int, Y: float = 1.0) -> tuple[Floats, Floats]:
    X = rng.normal(size=(n, d)) / np.sqrt(d)
    return grid_features(X), grid_responses(rng.uniform(-1.2 * Y, 1.2 * Y, n), Y)


@given(matrices)
def test_grid_features_never_leave_the_unit_ball(X: Floats) -> None:
    k = grid_features(X)
    assert np.array_equal(k, np.trunc(k))
    assert integer_norm_excess(k) <= 0


@given(
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
    st.floats(-1e-15, 1e-15),
    st.sampled_from([1.0, 3.0, 1e150, 1e300, 1e308]),
)
def test_points_within_rounding_of_the_sphere_stay_in_the_ball(
    d: int, seed: int, excess: float, factor: float
) -> None:
    X = np.random.default_rng(seed).normal(size=(40, d))
    X = (
        X
        / np.linalg.norm(X, axis=1)[:, None]
        * (1 + excess)
        * (factor / np.sqrt(d) if factor > 1e300 else factor)
    )
    k = grid_features(X)
    assert integer_norm_excess(k) <= 0
    assert (np.linalg.norm(k, axis=1) >= GRID - 2 * np.sqrt(d)).all()


@pytest.mark.parametrize("d", [1, 4, 16, 64, 1024])
def test_directions_that_end_on_the_sphere_reach_it_and_do_not_pass_it(d: int) -> None:
    # All coordinates equal and d a power of 4: the grid point of the direction has norm 2^20 exactly.
    X = np.array([[1.0], [3.0], [-1.7], [1e300]]) * np.ones(d)
    k = grid_features(X)
    assert integer_norm_excess(k) == 0
    assert np.array_equal(np.abs(k), np.full((4, d), GRID / np.sqrt(d)))


def test_subnormal_huge_and_zero_rows_are_handled() -> None:
    X = np.array([[5e-324, -5e-324], [LARGEST, LARGEST], [0.0, -0.0], [LARGEST, 5e-324], [1e-320, 1.0]])
    k = grid_features(X)
    assert integer_norm_excess(k) <= 0
    assert k[0].tolist() == [0, 0]
    assert abs(k[1] - GRID / np.sqrt(2)).max() <= 1
    assert k[3:].tolist() == [[GRID, 0], [0, GRID]]


@given(arrays(np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-1, 1)))
def test_points_of_the_ball_are_only_truncated(X: Floats) -> None:
    inside = [sum(Fraction(value) ** 2 for value in row) <= 1 for row in X.tolist()]
    assert np.array_equal(grid_features(X)[inside], np.trunc(X * GRID)[inside])


@given(matrices)
def test_a_row_is_mapped_the_same_whatever_its_batch_and_layout(X: Floats) -> None:
    k = grid_features(X)
    assert np.array_equal(grid_features(np.asfortranarray(X)), k)
    assert np.array_equal(np.vstack([grid_features(row[None]) for row in X]), k)


@given(arrays(np.float64, st.integers(0, 8), elements=finite | near_one), st.floats(2.0**-20, 256))
def test_responses_never_exceed_the_bound(y: Floats, Y: float) -> None:
    k = grid_responses(y, Y)
    assert all(abs(Fraction(value)) <= Fraction(Y) * GRID for value in k.tolist())
    honest = np.abs(y) <= Y
    assert np.array_equal(k[honest], np.trunc(y[honest] * GRID))


def test_response_limit_is_the_exact_floor() -> None:
    assert response_limit(1.0) == GRID
    assert response_limit(np.nextafter(1.0, 0)) == GRID - 1
    assert response_limit(0.1) == Fraction(0.1) * GRID // 1


@pytest.mark.parametrize("Y", [0.0, -1.0, float("nan"), float("inf"), 2.0**-21, 257.0])
def test_impossible_response_bounds_are_refused(Y: float) -> None:
    with pytest.raises(InputError, match="response_bound"):
        response_limit(Y)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(0, 60),
    st.sampled_from([0.3, 1.0, 2.0, 50.0, 256.0]),
)
def test_moments_equal_sums_of_python_integers(seed: int, d: int, n: int, Y: float) -> None:
    kx, ky = records(np.random.default_rng(seed), n, d, Y)
    assert moments(kx, ky) == python_moments(kx, ky)


@pytest.mark.parametrize("Y", [1, 2, 256])
def test_the_largest_magnitudes_are_summed_exactly(Y: int) -> None:
    n = 3 * 8192 + 17
    kx, ky = np.zeros((n, 3)), np.full(n, float(Y * GRID - 1))
    kx[:, 0] = GRID
    kx[::2, 1], kx[::2, 0] = GRID - 1, -1
    ky[::3] *= -1
    sums = moments(kx, ky)
    rows, responses = kx.astype(int).astype(object), ky.astype(int).astype(object)
    assert sums == Moments(n, rows.T @ rows, rows.T @ responses, responses @ responses)
    assert not np.array_equal(
        sums.gram[:2, :2] % 2**53, sums.gram[:2, :2]
    )  # beyond what one float could hold


def test_one_long_product_would_not_be_exact() -> None:
    k = np.random.default_rng(0).integers(GRID // 2, GRID, (2**16, 1)).astype(np.float64)
    assert int((k.T @ k)[0, 0]) != moments(k, k[:, 0]).square == sum(int(value) ** 2 for value in k[:, 0])


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.data())
def test_order_splits_and_chunks_never_change_a_bit(seed: int, n: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    kx, ky = records(rng, n, 3)
    whole = moments(kx, ky)
    order, cut = rng.permutation(n), data.draw(st.integers(0, n))
    assert moments(kx[order], ky[order]).digest() == whole.digest()
    assert moments(np.asfortranarray(kx), ky) == whole
    assert moments(kx[:cut], ky[:cut]) + moments(kx[cut:], ky[cut:]) == whole


@pytest.mark.parametrize("Y", [1.0, 256.0])
def test_neither_panels_nor_blocks_nor_batches_change_the_sums(
    Y: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    kx, ky = records(np.random.default_rng(3), 1000, 4, Y)
    groups = np.random.default_rng(4).integers(0, 2, 1000).astype(np.uint8)
    whole = group_moments(kx, ky, groups)
    monkeypatch.setattr(module, "longest_panel", lambda largest: 7)
    monkeypatch.setattr(module, "BLOCK", 70)
    parts = [slice(start, start + 130) for start in range(0, 1000, 130)]
    pieces = [group_moments(kx[rows], ky[rows], groups[rows]) for rows in parts]
    for group in (0, 1):
        added = sum((piece[group] for piece in pieces), start=nobody(4))
        assert added == whole[group] == group_moments(kx, ky, groups)[group]


@given(st.integers(0, 2**32 - 1), st.integers(1, 300))
def test_the_groups_are_separated_exactly(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    kx, ky = records(rng, n, 2)
    groups = rng.integers(0, 2, n).astype(np.uint8)
    parts = group_moments(kx, ky, groups)
    assert parts == tuple(python_moments(kx[groups == g], ky[groups == g]) for g in (0, 1))
    assert parts[0] + parts[1] == moments(kx, ky)


def test_nobody_adds_nothing_and_content_decides_equality() -> None:
    kx, ky = records(np.random.default_rng(0), 50, 3)
    some = moments(kx, ky)
    assert some + nobody(3) == some == pickle.loads(pickle.dumps(some))
    assert hash(some) == hash(moments(kx, ky))
    assert some != moments(kx[1:], ky[1:])
    assert some != "moments"
    assert moments(kx[:0], ky[:0]) == nobody(3)


def test_normalised_floats_are_correctly_rounded() -> None:
    kx, ky = records(np.random.default_rng(1), 500, 2)
    some = moments(kx, ky)
    assert as_floats(some.gram)[0, 1] == float(Fraction(some.gram[0, 1], GRID**2))
    assert as_floats(some.cross)[1] == float(Fraction(some.cross[1], GRID**2))
    assert np.allclose(as_floats(some.gram), (kx / GRID).T @ (kx / GRID), rtol=1e-12)


raw: Any = np.random.default_rng(2).normal(size=(20, 2))


@pytest.mark.parametrize(
    ("kx", "ky", "message"),
    [
        (raw, np.zeros(20), "grid_features"),
        (np.full((20, 2), 2.0 * GRID), np.zeros(20), "grid_features"),
        (np.zeros((20, 2)), np.full(20, 1e9), "grid_responses"),
        (np.zeros((20, 2)), np.zeros(19), "responses has 19"),
    ],
)
def test_records_off_the_grid_are_refused(kx: Floats, ky: Floats, message: str) -> None:
    with pytest.raises(InputError, match=message):
        moments(kx, ky)


def test_groups_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="groups has 3"):
        group_moments(np.zeros((4, 1)), np.zeros(4), np.zeros(3, dtype=np.uint8))


def test_too_many_features_for_the_proof_are_refused() -> None:
    with pytest.raises(InputError, match="5000 features"):
        grid_features(np.zeros((1, 5000)))


def test_missing_and_infinite_values_are_refused() -> None:
    with pytest.raises(InputError, match="features"):
        grid_features([[np.nan]])
    with pytest.raises(InputError, match="responses"):
        grid_responses([np.inf], 1.0)

"""Instruments: weighted least squares whatever T is, and less noise than any other way to weight people."""

from __future__ import annotations

import numpy as np
import pytest
from support.surveys import features as roster

from truthful.check import Floats
from truthful.errors import InputError
from truthful.instruments import best_transform, require_transform, shorten, transform_matrix
from truthful.moments import GRID, grid_features, instruments_on_grid


def noise(X: Floats, Z: Floats) -> tuple[float, float]:
    """‖M⁻¹‖²_F, and the same for predictions."""
    inverse, G = np.linalg.inv(Z.T @ X), X.T @ X / len(X)
    return float(np.sum(inverse**2)), float(np.sum((G @ inverse) * inverse))


def instruments(X: Floats, share: float, of: str = "coefficients") -> Floats:
    transform = shorten(X, best_transform(X, of), share)
    return instruments_on_grid(grid_features(X), transform) / GRID


def whitened(X: Floats) -> Floats:
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    W: Floats = X @ (vectors / np.sqrt(values)) @ vectors.T
    shortest: Floats = W / np.linalg.norm(W, axis=1).max()
    return shortest


@pytest.mark.parametrize("d", [2, 3, 5, 10])
def test_equal_influence_beats_least_squares_with_any_noise(d: int) -> None:
    """On rosters where the largest leverage is 2.4 times the mean or more."""
    X = roster(3000, d)
    h = np.einsum("ij,jk,ik->i", X, np.linalg.inv(X.T @ X), X)
    assert h.max() / h.mean() > 2.4
    ours = noise(X, instruments(X, 1.0))[0]
    assert ours < 0.5 * noise(X, whitened(X))[0]
    assert ours < 0.5 * noise(X, X / np.linalg.norm(X, axis=1).max())[0]


@pytest.mark.parametrize("d", [2, 5, 10])
def test_no_instruments_are_below_the_lower_bound_and_ours_are_near_it(d: int) -> None:
    """tr(G M⁻¹M⁻ᵀ) ≥ d³/(Σ‖w_i‖)², w_i whitened features: for random instruments of length at most 1; ours by 15 %."""
    X, rng = roster(2000, d), np.random.default_rng(3)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    lengths = np.linalg.norm(X @ (vectors / np.sqrt(values)) @ vectors.T, axis=1)
    least = d**3 / lengths.sum() ** 2
    for _ in range(50):
        T = rng.standard_normal((d, d)) * 10.0 ** rng.uniform(-1, 1)
        V = X @ T.T
        Z = V / np.maximum(1, np.linalg.norm(V, axis=1))[:, None]
        assert noise(X, Z)[1] >= least * (1 - 1e-9)
    assert least <= noise(X, instruments(X, 1.0, "predictions"))[1] <= 1.15 * least


def test_nobody_shortened_is_least_squares_and_all_is_equal_influence() -> None:
    X, y = roster(500, 5), np.random.default_rng(0).standard_normal(500)
    Z = instruments(X, 0.0)
    np.testing.assert_allclose(np.linalg.solve(Z.T @ X, Z.T @ y), np.linalg.lstsq(X, y)[0], atol=2e-3)
    assert np.linalg.norm(instruments(X, 1.0), axis=1).min() > 0.99


def sup_instruments(X: Floats, share: float, of: str = "coefficients") -> Floats:
    transform = shorten(X, best_transform(X, of, "sup"), share, "sup")
    return instruments_on_grid(grid_features(X), transform, "sup") / GRID


@pytest.mark.parametrize("d", [2, 3, 5, 10])
def test_in_the_sup_norm_there_is_less_noise_on_rosters_too(d: int) -> None:
    """Variances (d+1)(d+2)/3 and d+1 in any direction, next to M⁻¹ of the better instruments of either norm."""
    X = roster(3000, d)
    sup = (d + 1) * (d + 2) / 3 * noise(X, sup_instruments(X, 1.0))[0]
    assert sup < (d + 1) * noise(X, instruments(X, 1.0))[0]


def test_two_levels_are_their_own_instruments_in_the_sup_norm() -> None:
    """Codes ±1: every entry of everybody is as long as it may be, and noise is (d+2)/3d of that by L2."""
    X = np.random.default_rng(0).choice([-1.0, 1.0], (2000, 5)) / np.sqrt(5)
    X[:, 0] = 1 / np.sqrt(5)
    for share in (0.0, 0.5, 1.0):
        np.testing.assert_array_equal(sup_instruments(X, share), np.sign(X))
    ratio = 42 / 3 * noise(X, np.sign(X))[0] / (6 * noise(X, instruments(X, 1.0))[0])
    assert ratio == pytest.approx(7 / 15, rel=0.02)


def test_entries_are_cut_one_by_one_in_the_sup_norm() -> None:
    kx = grid_features(np.array([[0.6, -0.3], [0.1, 0.0], [1.0, 0.0], [-1e-300, 0.5]]))
    T = ((2048, 0), (1024, -1024))  # 2x₀ and x₀ − x₁
    expected = [
        [GRID, kx[0, 0] - kx[0, 1]],
        [2 * kx[1, 0], kx[1, 0]],
        [GRID, GRID],
        [0, -kx[3, 1]],
    ]
    np.testing.assert_array_equal(instruments_on_grid(kx, T, "sup"), expected)
    huge = ((2**22,) * 2,) * 2
    assert np.abs(instruments_on_grid(kx, huge, "sup")).max() == GRID


def test_features_whose_signs_are_all_the_same_have_instruments_in_the_sup_norm() -> None:
    """Codes that are never negative have the signs of the intercept: T takes their mean from them."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(1000), rng.uniform(0.5, 1.0, 1000), rng.uniform(-1, 0, 1000)]) / np.sqrt(3)
    Z = sup_instruments(X, 1.0)
    assert np.linalg.cond(Z.T @ X) < 100
    assert (4 * 5 / 3) * noise(X, Z)[0] < 4 * noise(X, instruments(X, 1.0))[0]


@pytest.mark.parametrize("norm", ["l2", "sup"])
def test_a_roster_in_order_is_no_worse_than_a_shuffled_one(norm: str) -> None:
    """Levels that alternate would be constant among every second person."""
    X = np.tile([[1.0, 1.0], [1.0, -1.0]], (10_000, 1)) / np.sqrt(2)
    T = best_transform(X, norm=norm)
    assert np.linalg.cond(T) == pytest.approx(1, rel=1e-6)


def test_any_transform_is_unbiased() -> None:
    X, rng = roster(200, 5), np.random.default_rng(0)
    theta = rng.standard_normal(5)
    for _ in range(20):
        transform = tuple(tuple(int(k) for k in row) for row in rng.integers(-4000, 4000, (5, 5)))
        Z = instruments_on_grid(grid_features(X), transform) / GRID
        np.testing.assert_allclose(np.linalg.solve(Z.T @ X, Z.T @ (X @ theta)), theta, atol=1e-9)


def test_transforms_say_next_to_nothing_of_the_roster() -> None:
    """Three digits: a roster with one person changed has, as a rule, the same."""
    X = roster(2000, 3)
    changed = X.copy()
    changed[7] = X[8]
    T = np.array(shorten(X, best_transform(X), 1.0))
    other = np.array(shorten(changed, best_transform(changed), 1.0))
    assert np.abs(T - other).max() <= 0.02 * np.abs(T).max()
    assert transform_matrix(require_transform(T.tolist(), 3)) == pytest.approx(T / 1024)


def test_features_of_almost_no_length_do_not_make_a_transform_that_does_not_fit() -> None:
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 2))
    X[:5] = 1e-9
    transform = shorten(X, best_transform(X), 1.0)
    assert max(abs(entry) for row in transform for entry in row) < 2**22


@pytest.mark.parametrize(
    ("transform", "words"),
    [
        ([[1, 2]], "must be 2×2"),
        ([[1, 0], [0, 2**22 + 1]], "4194305"),
        ([[1.5, 0], [0, 1]], "1.5"),
        ([[True, 0], [0, 1]], "True"),
    ],
)
def test_a_transform_that_is_none_is_refused(transform: list[list[int]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        require_transform(transform, 2)


def test_features_that_follow_from_each_other_are_refused() -> None:
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (100, 2))
    with pytest.raises(InputError, match="constant, or follow from others"):
        best_transform(np.column_stack([X, X[:, 0]]))

"""Leave-one-out predictions by leverages, in one pass or two, equal n separate fits; what has no answer says why."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from support.oracles_estimators import refitted_predictions

from truthful.check import Floats
from truthful.errors import InputError
from truthful.regression import least_squares, products, solve_sums


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(3, 30))
def test_leave_one_out_predictions_equal_separate_fits(seed: int, d: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(d + extra, d)), rng.normal(size=d + extra)
    fit = least_squares(X, y)
    scale = 1 / (1 - fit.leverages)
    assert (np.abs(fit.peer_predictions - refitted_predictions(X, y)) <= 1e-10 * scale**2).all()
    assert np.allclose(fit.theta, LinearRegression(fit_intercept=False).fit(X, y).coef_, atol=1e-9)
    assert fit.leverages.sum() == pytest.approx(d)


def test_badly_scaled_features_keep_their_accuracy() -> None:
    rng = np.random.default_rng(1)
    X, theta = rng.normal(size=(60, 3)) * [1e-6, 1.0, 1e6], np.array([2e6, 3.0, -4e-6])
    fit = least_squares(X, X @ theta)
    assert np.allclose(fit.theta, theta, rtol=1e-9)
    assert np.allclose(fit.peer_predictions, X @ theta, rtol=1e-9)


def test_a_player_who_alone_determines_a_direction_is_named() -> None:
    X = np.array([[1.0, 0.0], [2.0, 0.0], [0.5, 0.0], [1.0, 3.0], [1.5, 0.0]])
    with pytest.raises(InputError, match="Row 3 has leverage 1"):
        least_squares(X, np.ones(5))


@pytest.mark.parametrize(
    "X",
    [
        np.ones((5, 2)),
        np.column_stack([np.arange(5.0), np.zeros(5)]),
        np.eye(3)[:2],
        np.zeros((4, 1)),
        np.zeros((0, 2)),
    ],
)
def test_features_that_do_not_span_are_refused(X: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    with pytest.raises(InputError, match="dimensions"):
        least_squares(X, np.zeros(len(X)))


def test_missing_values_and_wrong_lengths_are_refused() -> None:
    with pytest.raises(InputError, match=r"X\[0, 0\]"):
        least_squares([[np.nan], [1.0]], [1.0, 2.0])
    with pytest.raises(InputError, match="y has 1"):
        least_squares([[1.0], [1.0]], [1.0])


def exact_predictions(X: Floats, y: Floats, rows: list[int]) -> list[float]:
    """x_i·θ̂_{−i} by the normal equations without row i, with fifty digits."""
    found = []
    with mpmath.workdps(50):
        for i in rows:
            others = [k for k in range(len(y)) if k != i]
            A, b = mpmath.matrix(X[others].tolist()), mpmath.matrix(y[others].tolist())
            theta = mpmath.lu_solve(A.T * A, A.T * b)
            found.append(float((mpmath.matrix(X[i : i + 1].tolist()) * theta)[0]))
    return found


@pytest.mark.parametrize(("d", "size"), [(1, 1.0), (3, 1.0), (4, 1.0), (5, 1e6)])
def test_predictions_are_those_of_exact_fits_without_each_player(d: int, size: float) -> None:
    """Features of very different sizes, too."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(40, d)) * size ** np.linspace(-1, 1, d)
    y = rng.normal(size=40)
    fit = solve_sums(products(X, y), d)
    assert fit is not None
    p, _, r = fit.without_each(X, y)
    rows = [0, 7, 39]
    np.testing.assert_allclose(p[rows], exact_predictions(X, y, rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(r, np.linalg.norm(X, axis=1), rtol=1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(3, 300))
def test_the_two_passes_agree_with_the_factorisation(seed: int, d: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(d + extra, d)), rng.normal(size=d + extra)
    fit, slow = solve_sums(products(X, y), d), least_squares(X, y)
    if fit is None:
        assert np.linalg.cond(X) > 10
        return
    p, h, _ = fit.without_each(X, y)
    scale = 1 / (1 - slow.leverages)
    assert np.allclose(fit.theta, slow.theta, atol=1e-9)
    assert np.allclose(h, slow.leverages, atol=1e-10)
    assert (np.abs(p - slow.peer_predictions) <= 1e-9 * scale**2).all()


def test_a_player_gets_the_same_bits_in_any_company() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 7)), rng.normal(size=1000)
    fit = solve_sums(products(X, y), 7)
    assert fit is not None
    together = fit.without_each(X, y)
    for size in (1, 2, 5, 127, 128, 129, 700):
        part = rng.permutation(1000)[:size]
        for all_of_them, some in zip(together, fit.without_each(X[part], y[part]), strict=True):
            np.testing.assert_array_equal(some, all_of_them[part])


def test_features_that_all_but_determine_each_other_are_left_to_others() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    assert solve_sums(products(X, y), 3) is not None
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]
    assert solve_sums(products(X, y), 3) is None
    X[:, 2] = 0.0
    assert solve_sums(products(X, y), 3) is None


def test_numbers_that_are_not_finite_show_in_the_sums() -> None:
    X, y = np.ones((5, 1)), np.ones(5)
    for bad in (np.nan, np.inf):
        assert solve_sums(products(np.where(np.arange(5)[:, None] == 3, bad, X), y), 1) is None
        assert solve_sums(products(X, np.where(np.arange(5) == 3, bad, y)), 1) is None

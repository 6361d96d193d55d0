"""Least squares in two passes: against exact fits without each player, and the same bits in any company."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truthful.check import Floats
from truthful.estimators.least_squares import least_squares
from truthful.estimators.leave_one_out import products, solved


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
    fit = solved(products(X, y), d)
    assert fit is not None
    p, _, r = fit.without_each(X, y)
    rows = [0, 7, 39]
    np.testing.assert_allclose(p[rows], exact_predictions(X, y, rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(r, np.linalg.norm(X, axis=1), rtol=1e-14)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(3, 300))
def test_the_two_passes_agree_with_the_factorisation(seed: int, d: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(d + extra, d)), rng.normal(size=d + extra)
    fit, slow = solved(products(X, y), d), least_squares(X, y)
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
    fit = solved(products(X, y), 7)
    assert fit is not None
    together = fit.without_each(X, y)
    for size in (1, 2, 5, 127, 128, 129, 700):
        part = rng.permutation(1000)[:size]
        for all_of_them, some in zip(together, fit.without_each(X[part], y[part]), strict=True):
            np.testing.assert_array_equal(some, all_of_them[part])


def test_features_that_all_but_determine_each_other_are_left_to_others() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    assert solved(products(X, y), 3) is not None
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]
    assert solved(products(X, y), 3) is None
    X[:, 2] = 0.0
    assert solved(products(X, y), 3) is None


def test_numbers_that_are_not_finite_show_in_the_sums() -> None:
    X, y = np.ones((5, 1)), np.ones(5)
    for bad in (np.nan, np.inf):
        assert solved(products(np.where(np.arange(5)[:, None] == 3, bad, X), y), 1) is None
        assert solved(products(X, np.where(np.arange(5) == 3, bad, y)), 1) is None

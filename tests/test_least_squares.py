"""Leave-one-out predictions by leverages equal n separate fits; what has no answer is an error that says why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_estimators import refitted_predictions
from sklearn.linear_model import LinearRegression

from truthful.errors import InputError
from truthful.estimators.least_squares import least_squares


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

"""Odds ratios of a release against tables, maximum likelihood, and studies whose truth is known."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression

from truthful.check import Floats
from truthful.errors import InputError
from truthful.noise import L2Laplace
from truthful.release.coefficients import LogOdds, log_odds, odds_ratios

T = np.array([[1.3, 0.2, 0.0], [-0.4, 1.1, 0.3], [0.0, 0.5, 2.5]])
THETA = np.array([-1.4, 1.1, -0.7])


def features(rng: np.random.Generator, n: int, d: int = 3) -> Floats:
    """An intercept, codes ±1, and one number in [−1, 1], normalised."""
    codes = np.where(rng.random((n, d)) < 0.4, 1.0, -1.0)
    codes[:, 0], codes[:, -1] = 1, rng.uniform(-1, 1, n)
    return codes / math.sqrt(d)


def instruments(X: Floats, transform: Floats = T) -> Floats:
    Z = X @ transform.T
    return np.asarray(Z / np.maximum(1, np.linalg.norm(Z, axis=1))[:, None])


def expected(X: Floats, Z: Floats, theta: Floats) -> Floats:
    return np.asarray(Z.T @ (2 * special.expit(X @ theta) - 1))


def answers(rng: np.random.Generator, X: Floats, theta: Floats) -> Floats:
    return np.where(rng.random(len(X)) < special.expit(X @ theta), 1.0, -1.0)


def estimated(X: Floats, Z: Floats, vector: Floats, scale: float = 0.0) -> LogOdds:
    found = log_odds(X, Z, vector, scale)
    assert found is not None
    return found


@pytest.mark.parametrize("largest", [0.0, 0.5, 4.0, 9.9])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_expected_sums_give_back_the_coefficients(d: int, largest: float) -> None:
    rng = np.random.default_rng(d)
    X = features(rng, 800, d)
    direction = rng.normal(size=d)
    theta = direction * largest / np.abs(X @ direction).max()
    for Z in (X, instruments(X, rng.normal(size=(d, d)) + 2 * np.eye(d))):
        assert estimated(X, Z, expected(X, Z, theta)).theta == pytest.approx(theta, abs=1e-10)


def test_whole_newton_steps_would_never_arrive() -> None:
    codes = [
        [1, 0.9, 0.3, 0.5],
        [1, 0.6, -0.4, -0.1],
        [1, -0.7, -0.6, 0.2],
        [1, 0.9, -0.8, -0.1],
        [1, -0.6, 0.1, -0.5],
    ]
    X = np.repeat(codes, [3, 327, 1, 255, 4], axis=0) / 2
    direction = np.linalg.lstsq(np.array(codes) / 2, [-0.91, -4.76, 7.84, -9.9, 7.72])[0]
    theta = direction * 9.9 / np.abs(X @ direction).max()
    assert X @ estimated(X, X, expected(X, X, theta)).theta == pytest.approx(X @ theta, abs=1e-6)


def test_instruments_in_other_units_say_the_same() -> None:
    X = features(np.random.default_rng(1), 500)
    y = answers(np.random.default_rng(2), X, THETA)
    units = np.diag([1.0, 1e-3, 40.0]) @ T
    plain, other = estimated(X, X, X.T @ y), estimated(X, X @ units.T, units @ (X.T @ y))
    assert other.theta == pytest.approx(plain.theta, abs=1e-9)
    assert other.covariance == pytest.approx(plain.covariance, rel=1e-6)


@pytest.mark.parametrize("d", [1, 3, 5])
def test_without_noise_and_instruments_it_is_logistic_regression(d: int) -> None:
    rng = np.random.default_rng(d)
    X = features(rng, 600, d)
    y = answers(rng, X, rng.normal(size=d))
    found = estimated(X, X, X.T @ y)
    oracle = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(X, y)
    assert found.theta == pytest.approx(oracle.coef_[0], abs=1e-7)
    p = oracle.predict_proba(X)[:, 1]
    information = (X * (p * (1 - p))[:, None]).T @ X
    assert found.covariance == pytest.approx(np.linalg.inv(information), rel=1e-5)


def test_of_two_groups_it_is_the_odds_ratio_of_their_table_with_woolfs_interval() -> None:
    table = {(1.0, 1.0): 30, (1.0, -1.0): 70, (-1.0, 1.0): 12, (-1.0, -1.0): 88}
    cells = np.array([cell for cell, count in table.items() for _ in range(count)])
    X, y = np.column_stack([np.ones(200), cells[:, 0]]) / math.sqrt(2), cells[:, 1]
    # From code −1 to code +1, and the odds of the group that is coded +1.
    rows = np.array([[0.0, 2.0], [1.0, 1.0]]) / math.sqrt(2)
    ratio, odds = odds_ratios(rows, estimated(X, X, X.T @ y), 0.95)
    width = 1.959963985 * math.sqrt(1 / 30 + 1 / 70 + 1 / 12 + 1 / 88)
    middle = (30 * 88) / (70 * 12)
    assert ratio == pytest.approx((middle, middle * math.exp(-width), middle * math.exp(width)), rel=1e-8)
    width = 1.959963985 * math.sqrt(1 / 30 + 1 / 70)
    assert odds == pytest.approx((3 / 7, 3 / 7 * math.exp(-width), 3 / 7 * math.exp(width)), rel=1e-8)


def test_the_covariance_is_that_of_the_sum_carried_through_the_solution() -> None:
    """By differences: what ϑ̂ does when b̃ moves, and the variance of b̃ summed person by person."""
    X = features(np.random.default_rng(4), 300)
    Z, scale, h = instruments(X), 3.5, 1e-3
    vector = expected(X, Z, THETA)
    moved = [
        (estimated(X, Z, vector + h * e).theta - estimated(X, Z, vector - h * e).theta) / (2 * h)
        for e in np.eye(3)
    ]
    variance = 4 * scale**2 * np.eye(3)
    for x, z in zip(X, Z, strict=True):
        variance += np.outer(z, z) / math.cosh(x @ THETA / 2) ** 2
    D = np.transpose(moved)
    assert estimated(X, Z, vector, scale).covariance == pytest.approx(D @ variance @ D.T, rel=1e-5)
    assert not np.allclose(D, D.T, rtol=0.05)


def studies(scale: float) -> tuple[Floats, npt.NDArray[np.int_]]:
    """The estimates of 300 studies of 2,000 people, and how many of each interval miss the truth."""
    rng, runs, n = np.random.default_rng(11), 300, 2_000
    X = features(rng, n)
    Z, thetas, missed = instruments(X), [], []
    noise = L2Laplace(3, max(scale, 1e-9)).sample(rng, runs)
    for run in range(runs):
        found = estimated(X, Z, Z.T @ answers(rng, X, THETA) + noise[run], scale)
        thetas.append(found.theta)
        intervals = odds_ratios(np.eye(3), found)
        missed.append(
            [not low <= truth <= high for truth, (_, low, high) in zip(np.exp(THETA), intervals, strict=True)]
        )
    return np.array(thetas), np.sum(missed, axis=0)


@pytest.mark.parametrize("scale", [0.0, 7.0])
def test_studies_find_the_truth_and_cover_it_as_often_as_they_say(scale: float) -> None:
    """P(Bin(300, 0.05) ≥ 36) = 1.4e-6 and P(Bin(300, 0.05) ≤ 1) = 3.5e-6, for each of three coefficients.

    Six standard errors of a mean have the chance 2e-9; 0.01 is for the bias of maximum likelihood at this size.
    """
    thetas, missed = studies(scale)
    assert missed.max() < 36
    assert missed.min() > 1
    off = np.abs(thetas.mean(axis=0) - THETA)
    assert (off < 0.01 + 6 * thetas.std(axis=0) / math.sqrt(300)).all()


def test_noise_widens_the_intervals_by_its_variance() -> None:
    X = features(np.random.default_rng(6), 2_000)
    vector = expected(X, X, THETA)
    widths = []
    for scale in (0.0, 7.0, 70.0):
        (_, low, high) = odds_ratios([[0, 1, 0]], estimated(X, X, vector, scale))[0]
        widths.append(math.log(high / low) ** 2)
    assert widths[1] > 1.2 * widths[0]
    assert (widths[2] - widths[0]) / (widths[1] - widths[0]) == pytest.approx(100)


@pytest.mark.parametrize("transform", [np.eye(3), T])
@pytest.mark.parametrize("stretch", [1.0, 1.001, 3.0, 1e6])
def test_answers_without_an_exception_are_not_estimable(transform: Floats, stretch: float) -> None:
    """Separable by a plane, and sums that not even such answers have."""
    X = features(np.random.default_rng(7), 400)
    Z = instruments(X, transform)
    y = np.sign(X @ THETA)
    assert log_odds(X, Z, stretch * (Z.T @ y), 1.0) is None
    # Shorter by a tenth it is a sum that people could have.
    assert log_odds(X, Z, 0.9 * (Z.T @ y), 1.0) is not None


def test_all_yes_is_not_estimable() -> None:
    X = features(np.random.default_rng(7), 400)
    assert log_odds(X, X, X.sum(axis=0), 1.0) is None
    assert log_odds(X[:, :1], X[:, :1], X[:, :1].sum(axis=0), 1.0) is None


def test_odds_beyond_twenty_thousand_to_one_are_not_estimable() -> None:
    X = np.ones((1_000, 1))
    for logit in (9.99, -9.99):
        assert estimated(X, X, expected(X, X, np.array([logit]))).theta == pytest.approx([logit], abs=1e-8)
    for logit in (10.01, -12.0, 29.0):
        assert log_odds(X, X, expected(X, X, np.array([logit])), 0.0) is None


@pytest.mark.parametrize("near", [0.0, 1e-10])
def test_features_that_follow_from_each_other_are_not_estimable(near: float) -> None:
    rng = np.random.default_rng(8)
    X = features(rng, 200)
    y = answers(rng, X, THETA)
    X[:, 2] = X[:, 1] + near * X[:, 2]
    assert log_odds(X, X, X.T @ y, 1.0) is None
    assert log_odds(X[:, :2], X[:, :2], X[:, :2].T @ y, 1.0) is not None


@pytest.mark.parametrize(("logit", "estimable"), [(3.0, True), (9.9, False)])
def test_nor_is_a_coefficient_that_only_people_show_who_all_answer_the_same(
    logit: float, estimable: bool
) -> None:
    """Fifty differ from the others by a thousandth; at log odds of 9.9 their answers hardly vary."""
    X = np.column_stack([np.ones(200), np.repeat([1e-3, 0.0], [50, 150])])
    found = log_odds(X, X, expected(X, X, np.array([0.0, logit / 1e-3])), 1.0)
    assert (found is not None) == estimable


def test_nobody_is_not_estimable() -> None:
    assert log_odds(np.empty((0, 2)), np.empty((0, 2)), [0.0, 0.0], 1.0) is None


def test_a_higher_level_is_wider_and_all_hold_the_ratio() -> None:
    X = features(np.random.default_rng(9), 500)
    found = estimated(X, X, X.T @ answers(np.random.default_rng(9), X, THETA), 2.0)
    rows = np.random.default_rng(10).normal(size=(20, 3))
    ratios = [ratio for ratio, _, _ in odds_ratios(rows, found, 0.95)]
    assert ratios == pytest.approx(np.exp(rows @ found.theta))
    inner = odds_ratios(rows, found, 0.5)
    outer = odds_ratios(rows, found, 0.99)
    for (ratio, low, high), (same, lower, higher) in zip(inner, outer, strict=True):
        assert ratio == same
        assert 0 < lower < low < ratio < high < higher


def test_an_effect_the_other_way_around_is_one_over_it() -> None:
    found = LogOdds(np.array([0.4, -1.0]), np.array([[0.04, 0.01], [0.01, 0.09]]))
    (ratio, low, high), (inverse, low_inverse, high_inverse) = odds_ratios([[1, 2], [-1, -2]], found, 0.9)
    assert (inverse, low_inverse, high_inverse) == pytest.approx((1 / ratio, 1 / high, 1 / low))
    # 0.04 + 4·0.01 + 4·0.09 = 0.44
    assert math.log(high / ratio) == pytest.approx(1.644853627 * math.sqrt(0.44))


def test_ends_are_finite_however_wide() -> None:
    ((ratio, low, high),) = odds_ratios([[1.0]], LogOdds(np.array([1.0]), np.array([[1e12]])))
    assert 0 < low < ratio < high < math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Z": np.ones((9, 2))}, "Z has 9 rows"),
        ({"Z": np.ones((10, 3))}, "Z has 3 columns"),
        ({"vector": [1.0]}, "vector has 1 entries"),
        ({"vector": [1.0, math.nan]}, "vector"),
        ({"scale": -1.0}, "scale"),
    ],
)
def test_what_does_not_fit_together_is_refused(change: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"X": np.eye(10, 2), "Z": np.eye(10, 2), "vector": [0.1, 0.1], "scale": 1.0}
    assert log_odds(**fitting) is not None
    with pytest.raises(InputError, match=message):
        log_odds(**{**fitting, **change})

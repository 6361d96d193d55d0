"""The two algorithms on arrays."""

import numpy as np
import pytest

import truthful as tf
from truthful import regression
from truthful.check import Floats


def data(n: int = 400, d: int = 3, seed: int = 0) -> tuple[Floats, Floats, tf.Beliefs]:
    rng = np.random.default_rng(seed)
    beliefs = tf.Beliefs(
        dimension=d, prior=tf.UniformBall(radius=1.0), noise=tf.TruncatedNormal(bound=1.0, sd=0.5)
    )
    x = rng.normal(size=(n, d))
    X = x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / d)
    theta = beliefs.prior.sample(rng, d, 1)[0]
    return X, X @ theta + beliefs.noise.sample(rng, n), beliefs


def test_algorithm_1_pays_each_player_against_the_fit_without_her() -> None:
    X, y, beliefs = data(60)
    result = tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)
    for i in range(0, 60, 7):
        rest = np.arange(60) != i
        theta = np.linalg.lstsq(X[rest], y[rest])[0]
        p, q = X[i] @ theta, beliefs.own_prediction(X[i : i + 1], y[i : i + 1])[0]
        assert result.payments[i] == pytest.approx(1.0 - 0.1 * (p - 2 * p * q + q * q), abs=1e-9)
    assert result.theta == pytest.approx(np.linalg.lstsq(X, y)[0])


def test_algorithm_1_is_the_same_for_arrays_of_any_layout_and_for_lists() -> None:
    X, y, beliefs = data(300)
    plain = tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)
    for features in (np.asfortranarray(X), X.tolist(), np.repeat(X, 2, axis=1)[:, ::2]):
        same = tf.truthful_regression(features, y, beliefs, a=1.0, b=0.1)
        assert np.array_equal(same.payments, plain.payments)
        assert np.array_equal(same.theta, plain.theta)


def test_algorithm_1_takes_its_players_in_parts_and_on_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y, beliefs = data(900)
    monkeypatch.setattr(regression, "PART", 128)
    threads = tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    alone = tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)
    assert np.array_equal(threads.payments, alone.payments)
    monkeypatch.undo()
    assert threads.payments == pytest.approx(
        tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1).payments, abs=1e-13
    )


def test_algorithm_1_names_the_player_whom_nobody_can_predict(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, beliefs = data(300)
    X[:, 2] = 0.0
    X[200] = 0.0, 0.0, 0.3
    monkeypatch.setattr(regression, "PART", 128)
    with pytest.raises(tf.InputError, match="Row 200 has leverage 1"):
        tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)


def test_algorithm_1_fits_features_that_all_but_determine_each_other() -> None:
    X, y, beliefs = data(300)
    X[:, 2] = X[:, 0] + 1e-6 * X[:, 2]
    result = tf.truthful_regression(X, y, beliefs, a=1.0, b=0.1)
    rest = np.arange(300) != 7
    theta = np.linalg.lstsq(X[rest], y[rest])[0]
    assert result.peer_predictions[7] == pytest.approx(X[7] @ theta, abs=1e-7)


def test_in_algorithm_1_the_truth_earns_most_on_average_among_shifted_reports() -> None:
    """Mean payment of 40,000 truthful players against the same players each shifting her report alone.

    The difference of mean payments is a mean of 40,000 paired terms; it must be 5 standard errors above 0.
    """
    X, y, beliefs = data(40_000, 2, seed=3)
    honest = tf.truthful_regression(X, y, beliefs, a=1.0, b=1.0)
    for shift in (-0.6, 0.6):
        q = beliefs.own_prediction(X, y + shift)
        lie = tf.brier(honest.peer_predictions, q, a=1.0, b=1.0)
        gain = honest.payments - lie
        assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))


def test_algorithm_2_is_repeated_by_its_seed_and_only_by_it() -> None:
    X, y, beliefs = data()
    mechanism = tf.Mechanism(epsilon=1.0, base_payment=3.0, score_weight=1.0, design=np.eye(3) / 5)
    one, same, other = (
        tf.private_regression(X, y, beliefs, mechanism, rng=np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.theta, same.theta)
    assert np.array_equal(one.payments, same.payments)
    assert not np.array_equal(one.theta, other.theta)


def test_algorithm_2_pays_each_player_against_the_other_half() -> None:
    X, y, beliefs = data()
    mechanism = tf.Mechanism(
        epsilon=5.0, base_payment=0.0, score_weight=1.0, design=np.eye(3) / 5, payments="expected"
    )
    result = tf.private_regression(X, y, beliefs, mechanism, rng=np.random.default_rng(1))
    p = np.where(result.groups == 0, X @ result.peer_thetas[1], X @ result.peer_thetas[0])
    q = beliefs.own_prediction(X, y)
    assert result.payments == pytest.approx(tf.quadratic(p, q, a=0.0, b=1.0), abs=2e-5)


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics", "ridge-ball", "ridge-free"])
def test_every_estimator_finds_the_coefficients_when_privacy_is_loose(estimator: str) -> None:
    """A ridge of 1 beside eigenvalues near 800 moves θ by 0.0013 at most. At ε = 1e6 the most noise is ridge-free's, of
    scale 7.4e-5: its norm is above the 0.0017 left with probability 3e-8.

    The known design differs from least squares by (Σ⁻¹XᵀX/n − I)θ̂, of standard deviation 5√((3/35 − 1/25)/4000) = 0.017
    a coordinate at most: 0.1 is 5.9 of them, a false alarm of 1e-8 for three.
    """
    X, y, beliefs = data(4000)
    mechanism = tf.Mechanism(
        epsilon=1e6,
        base_payment=3.0,
        score_weight=1.0,
        estimator=estimator,
        regularization=1.0,
        design=np.eye(3) / 5,
    )
    result = tf.private_regression(X, y, beliefs, mechanism, rng=np.random.default_rng(1))
    off = 0.1 if estimator == "known-design" else 0.003
    assert result.theta == pytest.approx(np.linalg.lstsq(X, y)[0], abs=off)


def test_bad_arrays_are_named() -> None:
    X, y, beliefs = data()
    with pytest.raises(tf.InputError, match="X has 2 columns; 3 were expected"):
        tf.truthful_regression(X[:, :2], y, beliefs, a=1.0, b=0.1)
    with pytest.raises(tf.InputError, match=r"y\[5\] is nan"):
        tf.truthful_regression(X, np.where(np.arange(400) == 5, np.nan, y), beliefs, a=1.0, b=0.1)

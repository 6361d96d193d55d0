"""How far liars can pull a prediction: the closed form, the worst sets of liars, and laws that attain it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_bounds import DESIGNS, SIX, mean_and_error, world
from scipy import integrate

from truthful.bounds import Model, unit_ball
from truthful.bounds.liars import expected_pull, pull


def ball(d: int) -> Model:
    return unit_ball(d, radius=1.0, noise_bound=1.0, noise_variance=0.3)


@pytest.mark.parametrize("alpha", [1e-9, 0.002, 0.1, 0.7, 1.0])
@pytest.mark.parametrize("d", [1, 2, 5, 10, 50])
def test_the_pull_on_the_ball_is_the_integral_over_the_share_with_most_weight(d: int, alpha: float) -> None:
    """t = x·x' has the density C(1−t²)^((d−1)/2); the share α with the greatest |t| lies."""

    def moment(power: int, c: float) -> float:
        """∫_c^1 t^power (1−t²)^((d−1)/2) dt."""
        return float(integrate.quad(lambda t: t**power * (1 - t * t) ** ((d - 1) / 2), c, 1)[0])

    low, high = 0.0, 1.0
    for _ in range(60):
        c = (low + high) / 2
        low, high = (c, high) if moment(0, c) / moment(0, 0.0) > alpha else (low, c)
    exact = (d + 2) * moment(1, low) / moment(0, 0.0)
    assert float(expected_pull(ball(d), alpha)) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.02, 0.3])
@pytest.mark.parametrize("name", DESIGNS)
def test_no_set_of_liars_pulls_further_on_average(name: str, alpha: float) -> None:
    """The αn people of greatest weight, in 400 panels of 200: for a player anywhere among the features."""
    where, rng = world(name), np.random.default_rng(3)
    players = np.vstack([where.farthest(), where.draw(rng, 5)])
    X = where.draw(rng, 400 * 200).reshape(400, 200, where.dimension)
    for x in players:
        weights = np.sort(np.abs(X @ (where.inverse @ x)), axis=1)
        mean, error = mean_and_error(weights[:, -math.floor(alpha * 200) :].sum(axis=1) / 200)
        assert mean - SIX * error <= float(expected_pull(where.model, alpha)) * (1 + 1e-12)


def test_the_pull_is_attained() -> None:
    """By a player on the edge of the ball; and by corners of a cube, where a quarter of all weigh as much as she."""
    rng = np.random.default_rng(4)
    where = world("ball 5")
    weights = np.sort(np.abs(where.draw(rng, 400_000)[:, 0])) * 7
    assert weights[-8000:].sum() / 400_000 == pytest.approx(float(expected_pull(where.model, 0.02)), rel=0.01)
    corners = world("covariance")
    weights = np.abs(corners.draw(rng, 100_000) @ (corners.inverse @ corners.farthest()))
    assert weights.max() == pytest.approx(corners.model.leverage)
    assert float(np.mean(weights > 2.9)) == pytest.approx(0.25, abs=0.01)
    assert float(expected_pull(corners.model, 0.25)) == pytest.approx(0.25 * 3)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 20))
def test_more_liars_pull_further_but_each_less(first: float, second: float, d: int) -> None:
    few, many = sorted((first, second))
    for model in (ball(d), Model(d, 1.0, 1.0, 0.3, 0.1, leverage=float(d + 1))):
        assert expected_pull(model, few) <= expected_pull(model, many) * (1 + 1e-12) + 1e-300
        assert few * expected_pull(model, many) <= many * expected_pull(model, few) * (1 + 1e-9) + 1e-300


@given(st.floats(0, 1), st.integers(1, 20))
def test_the_features_of_liars_count_for_less_than_their_bound(alpha: float, d: int) -> None:
    assert expected_pull(ball(d), alpha) <= pull(ball(d), alpha) * (1 + 1e-9) + 1e-300


def test_without_a_known_design_liars_have_no_bound_but_nobody_pulls_nothing() -> None:
    unknown = Model(3, 1.0, 1.0, 0.3, 0.1)
    assert pull(unknown, 0.1) == math.inf
    assert expected_pull(unknown, 0.1) == math.inf
    assert expected_pull(unknown, 0.0) == 0.0
    np.testing.assert_array_equal(expected_pull(unknown, np.array([0.0, 0.1])), [0.0, math.inf])


@pytest.mark.parametrize("name", DESIGNS)
def test_any_set_of_liars_stays_within_reach(name: str) -> None:
    """‖Σ⁻¹·Σ_j ±x_j‖/n, the signs and the αn people chosen along their own sum, ten times over."""
    where, rng, n, k = world(name), np.random.default_rng(5), 300, 30
    X = where.draw(rng, 100 * n).reshape(100, n, where.dimension) @ where.inverse
    direction = np.tile(where.inverse @ where.farthest(), (100, 1))
    for _ in range(10):
        weight = np.einsum("knd,kd->kn", X, direction)
        chosen = np.argsort(-np.abs(weight), axis=1)[:, :k]
        signs = np.sign(np.take_along_axis(weight, chosen, 1))
        direction = np.einsum("kj,kjd->kd", signs, np.take_along_axis(X, chosen[..., None], 1)) / n
    furthest = float(np.linalg.norm(direction, axis=1).max())
    assert 0.3 * float(pull(where.model, k / n)) < furthest <= float(pull(where.model, k / n)) * (1 + 1e-12)

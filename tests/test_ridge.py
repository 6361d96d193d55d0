"""Solves are within their certificate of the exact minimiser, for every kind of data, and never give up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_estimators import distance_to, exact_ridge, nobody, precise_ball_ridge

from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators import ridge
from truthful.estimators.ridge import TOLERANCE, UNIT, ball_ridge, free_ridge
from truthful.moments import GRID, Moments, as_floats, grid_features, grid_responses, moments

gammas = st.sampled_from([2.0**-25, 1e-3, 0.1, 1.0, 33.3, 1e6, 2.0**40])
radii = st.sampled_from([2.0**-20, 1e-3, 0.3, 1.0, 256.0])
seeds = st.integers(0, 2**32 - 1)


def some_moments(seed: int, n: int = 12, d: int = 3, Y: float = 1.0, scale: float = 1.0) -> Moments:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * scale
    return moments(grid_features(X), grid_responses(rng.uniform(-2 * Y, 2 * Y, n), Y))


def floats(theta: Floats) -> Floats:
    return np.array([float(Fraction(int(t), UNIT)) for t in theta])


@given(seeds, st.integers(1, 20), st.integers(1, 5), gammas)
def test_free_ridge_is_within_tolerance_of_the_exact_solution(
    seed: int, n: int, d: int, gamma: float
) -> None:
    data = some_moments(seed, n, d)
    theta = free_ridge(data, Fraction(gamma))
    assert distance_to(theta, exact_ridge(data, Fraction(gamma)), UNIT) <= TOLERANCE


@given(seeds, st.integers(1, 15), st.integers(1, 4), gammas, radii)
def test_ball_ridge_is_inside_and_within_tolerance(seed: int, n: int, d: int, gamma: float, R: float) -> None:
    data = some_moments(seed, n, d)
    theta = ball_ridge(data, Fraction(gamma), Fraction(R))
    assert sum(int(t) ** 2 for t in theta) <= (Fraction(R) * UNIT) ** 2
    assert distance_to(theta, precise_ball_ridge(data, Fraction(gamma), Fraction(R)), UNIT) <= TOLERANCE


@pytest.mark.parametrize("excess", [0.0, 1e-16, -1e-16, 1e-9, -1e-9])
@pytest.mark.parametrize("gamma", [2.0**-20, 3.0])
def test_a_radius_at_the_norm_of_the_free_solution_is_no_trouble(excess: float, gamma: float) -> None:
    data = some_moments(1)
    R = Fraction(float(np.linalg.norm(floats(free_ridge(data, Fraction(gamma))))) * (1 + excess))
    theta = ball_ridge(data, Fraction(gamma), R)
    assert sum(int(t) ** 2 for t in theta) <= (R * UNIT) ** 2
    assert distance_to(theta, precise_ball_ridge(data, Fraction(gamma), R), UNIT) <= TOLERANCE


def degenerate() -> dict[str, Moments]:
    ties = grid_features(np.vstack([np.eye(3), -np.eye(3)]))
    line = grid_features(np.tile([0.6, 0.8, 0.0], (200, 1)))
    return {
        "no responses": moments(ties, np.zeros(6)),
        "no features": moments(np.zeros((5, 3)), np.full(5, float(GRID))),
        "nobody": nobody(3),
        "equal eigenvalues": moments(ties, np.array([1.0, 0.5, -0.2, -1.0, 0.1, 0.9]) * GRID // 1),
        "one direction": moments(line, np.full(200, float(GRID))),
        "responses orthogonal to the largest eigenvector": moments(
            grid_features([[1.0, 0, 0], [1.0, 0, 0], [0, 1e-3, 0]]),
            np.array([GRID, -GRID, GRID], dtype=float),
        ),
    }


@pytest.mark.parametrize("kind", list(degenerate()))
@pytest.mark.parametrize("R", [1e-4, 0.1, 10.0])
@pytest.mark.parametrize("gamma", [2.0**-22, 1.0])
def test_degenerate_data_are_solved_like_any_other(kind: str, R: float, gamma: float) -> None:
    data = degenerate()[kind]
    theta = ball_ridge(data, Fraction(gamma), Fraction(R))
    assert sum(int(t) ** 2 for t in theta) <= (Fraction(R) * UNIT) ** 2
    assert distance_to(theta, precise_ball_ridge(data, Fraction(gamma), Fraction(R)), UNIT) <= TOLERANCE


@given(seeds, gammas, radii)
def test_no_feasible_direction_improves_the_minimiser(seed: int, gamma: float, R: float) -> None:
    data = some_moments(seed, 20, 4)
    theta = floats(ball_ridge(data, Fraction(gamma), Fraction(R)))
    slope = as_floats(data.gram) @ theta + gamma * theta - as_floats(data.cross)
    others = np.random.default_rng(seed).normal(size=(50, 4))
    others *= R / np.linalg.norm(others, axis=1)[:, None]
    size = np.linalg.norm(as_floats(data.cross)) + gamma * R
    assert ((others - theta) @ slope).min() >= -1e-13 * size * R


def test_the_ball_solution_is_not_the_projection_of_the_free_one() -> None:
    data = moments(grid_features([[1.0, 0.0]] * 9 + [[0.0, 1.0]]), np.full(10, float(GRID)))
    free, ball = floats(free_ridge(data, Fraction(1))), floats(ball_ridge(data, Fraction(1), Fraction(1, 2)))
    assert abs(np.linalg.norm(ball) - 0.5) < 1e-15
    assert np.linalg.norm(ball - free * 0.5 / np.linalg.norm(free)) > 0.05


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_exact_elimination_agrees_when_floats_fail(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data, gamma, R = some_moments(5, 30, d), Fraction(0.37), Fraction(0.05)
    free, ball = free_ridge(data, gamma), ball_ridge(data, gamma, R)
    monkeypatch.setattr(ridge._System, "float_solver", lambda self, multiplier: np.zeros_like)
    assert distance_to(free_ridge(data, gamma), [Fraction(int(t), UNIT) for t in free], UNIT) <= TOLERANCE
    assert (
        distance_to(ball_ridge(data, gamma, R), [Fraction(int(t), UNIT) for t in ball], UNIT) <= 2 * TOLERANCE
    )
    assert distance_to(free_ridge(data, gamma), exact_ridge(data, gamma), UNIT) <= 1e-110


def test_bisection_finds_the_multiplier_when_newton_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    data, gamma, R = some_moments(6, 30, 2), Fraction(2), Fraction(0.05)
    monkeypatch.setattr(ridge, "NEWTON_STEPS", 0)
    monkeypatch.setattr(ridge._System, "float_multiplier", lambda self, radius: 0)
    theta = ball_ridge(data, gamma, R)
    assert distance_to(theta, precise_ball_ridge(data, gamma, R), UNIT) <= TOLERANCE


def test_corrections_that_do_not_shrink_the_residual_are_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, gamma = some_moments(7), Fraction(2)
    monkeypatch.setattr(ridge._System, "float_solver", lambda self, multiplier: lambda v: -v)
    assert distance_to(free_ridge(data, gamma), exact_ridge(data, gamma), UNIT) <= TOLERANCE


def test_the_certificate_refuses_a_solution_that_is_off_by_the_tolerance() -> None:
    data, gamma, R = some_moments(8, 400, 3, scale=3.0), Fraction(5), int(Fraction(1, 100) * UNIT)
    system = ridge._System(data.gram, data.cross, int(gamma * UNIT))
    theta = ball_ridge(data, gamma, Fraction(1, 100))
    with_multiplier = system.float_multiplier(0.01)
    assert with_multiplier > 0
    assert not system.certifies(theta, with_multiplier, R)  # a float's multiplier leaves too large a residual
    free = ball_ridge(data, gamma, Fraction(100))
    assert system.certifies(free, 0, 100 * UNIT)
    assert not system.certifies(free + int(TOLERANCE * UNIT), 0, 100 * UNIT)


def test_the_worst_conditioned_system_allowed_is_solved() -> None:
    """One direction is seen by everybody, the other by nobody: the condition number is 2^30."""
    row = np.array([[0.6, 0.8]])
    one = moments(grid_features(row), np.array([float(GRID)]))
    data = Moments(2**20, one.gram * 2**20, one.cross * 2**20, one.square * 2**20)
    gamma = Fraction(1, 2**10)
    assert distance_to(free_ridge(data, gamma), exact_ridge(data, gamma), UNIT) <= TOLERANCE
    for R in (Fraction(1, 2**20), Fraction(1, 2), Fraction(3)):
        theta = ball_ridge(data, gamma, R)
        assert distance_to(theta, precise_ball_ridge(data, gamma, R, digits=200), UNIT) <= TOLERANCE


@pytest.mark.parametrize(
    ("players", "gamma"), [(1, 2.0**-31), (1, 2.0**41), (2**30 + 1, 1.0), (1000, 2.0**-21)]
)
def test_systems_beyond_the_precision_are_refused_from_public_numbers(players: int, gamma: float) -> None:
    with pytest.raises(InputError, match="gamma"):
        ridge.require_solvable(players, Fraction(gamma))


def test_solves_are_repeatable_to_the_bit() -> None:
    data = some_moments(9, 50, 5)
    first, second = (ball_ridge(data, Fraction(1), Fraction(1, 8)) for _ in range(2))
    assert np.array_equal(first, second)

"""What is left of a study where everybody maximises money, with beliefs declared and asked for: benchmarks/beliefs.py.

From fixed seeds; a false alarm has a probability below 1e-3 for each number compared, by the margins of the limits.
"""

from __future__ import annotations

import beliefs
import numpy as np
import pytest
from beliefs import People, asked_errors, declared_errors, noise_factor, rmse, skewed_best, skewed_declared


def test_a_declared_centre_that_is_off_moves_the_average_by_more_than_it_is_off() -> None:
    """By σ²/v = 2.25 times as much, less what the ends of the range cut off."""
    errors = declared_errors(2_000, 10.0, 50, np.random.default_rng(1), scatter=0.0)
    assert -22.5 < errors.mean() < -19


@pytest.mark.parametrize(("players", "limit"), [(500, 2.6), (2_000, 0.9)])
def test_where_people_are_asked_best_answers_leave_the_average_right(players: int, limit: float) -> None:
    """Although they know what others expect, and centres scatter; 100 studies."""
    errors = asked_errors(players, People(), 100, np.random.default_rng(2))
    assert rmse(errors) < limit
    assert abs(errors.mean()) < 4 * errors.std() / 10 + 0.2  # the cut at the ends of the range


@pytest.mark.parametrize(("y", "declared", "limit"), [(31.0, -36, 2), (55.0, -54, 3)])
def test_best_answers_stay_near_the_truth_far_from_a_skewed_average(
    y: float, declared: float, limit: float
) -> None:
    """400 studies of 2,000 people; four standard errors are allowed for."""
    assert skewed_declared(y) == pytest.approx(declared, abs=0.6)
    off, error = skewed_best(2_000, y, 400, np.random.default_rng(3))
    assert error < 1
    assert abs(off) < limit + 4 * error
    assert abs(off) < abs(declared) / 5


def test_a_second_question_adds_the_noise_that_is_said() -> None:
    assert noise_factor(1, 0.3) == pytest.approx(1.635)
    assert noise_factor(5, 0.3) == pytest.approx(1.2717, abs=1e-4)


def test_yes_and_no_are_told_truthfully_unless_people_know_that_they_differ() -> None:
    rng = np.random.default_rng(4)
    alike = beliefs.yes_no_asked(2_000, People(aware=0.0), 0.25, 20, rng)
    known = beliefs.yes_no_asked(2_000, People(), 0.25, 20, rng)
    declared = beliefs.yes_no_declared(2_000, 10.0, 20, rng)
    assert rmse(alike) < 2 < 15 < rmse(known) < 35 < 55 < rmse(declared)

"""The search for lies that pay: it finds those that are there, and none in noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.laboratory import plan_of
from support.studies import DESIGNED

from truthful.check import Floats
from truthful.simulation import simulate
from truthful.simulation.measurements import FEWEST, Measurement, best_lie, mean, ratio

CELLS, PLAYERS = 16, 50


def studies(seed: int, runs: int, spread: float, shift: float = 0.0, cell: int = 3) -> tuple[Floats, Floats]:
    """Studies whose peers are off by noise of this spread in every cell, and by `shift` more in one of them."""
    rng = np.random.default_rng(seed)
    offs = rng.normal(0.0, spread, (runs, CELLS))
    offs[:, cell] += shift
    counts = rng.integers(PLAYERS // 2, PLAYERS * 2, (runs, CELLS)).astype(np.float64)
    return counts, counts * offs


@pytest.mark.parametrize("shift", [0.2, -0.2])
def test_a_shift_is_found_with_its_size_and_what_it_is_worth(shift: float) -> None:
    """b(2δ·δ − δ²) = bδ², on either side. Five standard errors on each: false alarm 1e-6."""
    found = best_lie(*studies(0, runs=800, spread=0.3, shift=shift))
    assert found.gap.error < 0.03
    assert found.gap.value == pytest.approx(0.2, abs=5 * found.gap.error)
    assert found.gain.value == pytest.approx(0.04, abs=5 * found.gain.error)


def test_in_noise_no_lie_is_found_that_pays() -> None:
    """On average over 200 simulations: gaps are 0 to five standard errors (6e-7), and gains below 0.

    The largest of 16 means looks like two standard errors where it was chosen; where it is tried it is gone.
    """
    found = [best_lie(*studies(seed, runs=40, spread=1.0)) for seed in range(1, 201)]
    gaps, gains = (np.array([getattr(one, name).value for one in found]) for name in ("gap", "gain"))
    assert abs(gaps.mean()) < 5 * gaps.std() / math.sqrt(200)
    assert gains.mean() < -5 * gains.std() / math.sqrt(200)


def test_stated_errors_are_the_real_ones() -> None:
    """Over 400 simulations gaps spread by what is stated, to 15 %: four standard errors, false alarm 1e-4."""
    found = [best_lie(*studies(seed, runs=40, spread=1.0, shift=1.5)).gap for seed in range(400)]
    spread = np.std([one.value for one in found])
    assert spread == pytest.approx(np.mean([one.error for one in found]), rel=0.15)


def test_in_noise_gaps_are_off_0_as_far_as_their_errors_say() -> None:
    """Over 1,000 simulations of the fewest studies gap/error is Student's t of 14 degrees: its standard deviation is
    √(14/12), here to 12 %, five standard errors of it and a false alarm of 6e-7.
    """
    found = [best_lie(*studies(seed, runs=FEWEST, spread=1.0)).gap for seed in range(1000)]
    ratios = np.array([one.value / one.error for one in found])
    assert np.sqrt(np.mean(ratios**2)) == pytest.approx(math.sqrt(14 / 12), rel=0.12)


@pytest.mark.slow
def test_among_honest_people_gaps_are_off_0_as_far_as_their_errors_say() -> None:
    """The same of 100 real simulations, to 36 %: five standard errors of the standard deviation, 6e-7."""
    runs = simulate(plan_of(DESIGNED, 300), runs=100 * FEWEST, seed=1).studies
    players, surplus = (
        np.array([getattr(run, f"cell_{name}") for run in runs]) for name in ("players", "surplus")
    )
    parts = [slice(start, start + FEWEST) for start in range(0, len(runs), FEWEST)]
    found = [best_lie(players[part], surplus[part]).gap for part in parts]
    ratios = np.array([one.value / one.error for one in found])
    assert np.sqrt(np.mean(ratios**2)) == pytest.approx(math.sqrt(14 / 12), rel=0.36)


@pytest.mark.parametrize("runs", [1, 3, FEWEST - 1])
def test_too_few_studies_say_nothing(runs: int) -> None:
    assert math.isnan(best_lie(*studies(0, runs, 0.1)).gap.value)


def test_a_cell_with_hardly_anybody_says_nothing() -> None:
    players, surplus = studies(0, FEWEST, 0.1)
    assert math.isnan(best_lie(players / 1000, surplus).gain.value)


def test_a_cell_of_few_studies_says_nothing_however_many_are_in_it() -> None:
    """The same people, but nearly all of them in every fifth study."""
    players, surplus = studies(0, 2 * FEWEST, 0.1)
    uneven = players * np.where(np.isin(np.arange(2 * FEWEST) % 10, (0, 1)), 50, 1)[:, None]
    assert math.isfinite(best_lie(players, surplus).gap.value)
    assert math.isnan(best_lie(uneven, surplus).gap.value)


def test_means_have_the_errors_of_textbooks() -> None:
    values = np.array([1.0, 2.0, 4.0])
    assert mean(values).value == pytest.approx(7 / 3)
    assert mean(values).error == pytest.approx(values.std(ddof=1) / math.sqrt(3))
    assert ratio(np.array([2.0, 3.0]), np.array([4.0, 1.0])).value == 1.0
    assert math.isnan(ratio(np.zeros(2), np.zeros(2)).value)
    assert math.isnan(mean(np.ones(1)).error)
    assert Measurement(2.0, 1.0).times(-3.0) == Measurement(-6.0, 3.0)

"""Closed forms of wrong beliefs against searches over all answers, and what a published pilot does."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from support import oracles_tolerance as tolerance

from truthful.check import Floats
from truthful.deterrence import tolerated_gap
from truthful.elicitation import pilot_cost, pilot_size

SIGMA2, V = 0.09, 0.04
REPORTS = np.linspace(-12, 12, 24_001)

unit = st.floats(-1, 1)
share = st.floats(0.05, 0.95)


def payment(report: Floats | float, y: float, centre: float, s: float, own: tuple[float, float]) -> Floats:
    """Of somebody with this centre and slope of her own, on average, at b = 1; terms without her report left out."""
    expected = own[0] + own[1] * (y - own[0])
    q = centre + s * (np.asarray(report) - centre)
    return np.asarray(2 * expected * q - q**2)


@given(y=unit, centre=unit, own_centre=unit, s=share, own_slope=share)
def test_no_answer_of_a_grid_earns_more_than_the_best_one_and_the_truth_loses_the_squared_gap(
    y: float, centre: float, own_centre: float, s: float, own_slope: float
) -> None:
    declared = {"centre": centre, "slope": s, "own_centre": own_centre, "own_slope": own_slope}
    best = float(tolerance.best_answer(y, **declared))
    own = (own_centre, own_slope)
    most = float(payment(best, y, centre, s, own))
    assert payment(REPORTS, y, centre, s, own).max() <= most + 1e-9
    lost = most - float(payment(y, y, centre, s, own))
    assert lost == pytest.approx(float(tolerance.belief_gap(y, **declared)) ** 2, abs=1e-9)


def test_a_centre_that_is_wrong_by_a_fifth_moves_the_best_answer_by_nearly_a_half() -> None:
    s = tolerance.slope(V, SIGMA2)
    assert s == pytest.approx(4 / 13)
    declared = {"centre": 0.2, "slope": s, "own_centre": 0.0, "own_slope": s}
    assert tolerance.best_answer(0.1, **declared) == pytest.approx(0.1 - 0.45)
    assert tolerance.belief_gap(0.1, **declared) ** 2 == pytest.approx(0.01917, abs=5e-6)
    earned = payment(REPORTS, 0.1, 0.2, float(s), (0.0, float(s)))
    assert REPORTS[earned.argmax()] == pytest.approx(0.1 - 0.45, abs=1e-3)


def test_the_more_precise_people_are_the_more_a_wrong_centre_is_amplified() -> None:
    sds = np.array([1 / 3, 1 / 2, 1, 2])
    assert tolerance.amplification(sds**2, 1.0) == pytest.approx([9, 4, 1, 1 / 4])
    s = tolerance.slope(sds**2, 1.0)
    assert (1 - s) / s == pytest.approx([9, 4, 1, 1 / 4])


@given(
    lie=st.floats(0.01, 1),
    part=st.floats(0, 0.49),
    off=st.floats(0, 0.45),
    beyond=st.floats(1.0001, 4),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_no_lie_beyond_the_size_that_is_stated_pays_however_the_gaps_point(
    lie: float, part: float, off: float, beyond: float, sign: float
) -> None:
    """Payments that deter lies beyond D at the gap g; peers and beliefs then point against the truth together."""
    g, gap = part * lie, off * lie
    saved = lie**2 - 2 * lie * g  # τh(ε)/b
    size = float(tolerance.lie_size(g, gap, saved))
    moved = beyond * size
    gained = (g + gap) ** 2 - (moved - sign * (g + gap)) ** 2 + saved
    assert gained < 1e-12
    # And one that is a little smaller does, if they point that way.
    assert (g + gap) ** 2 - (size / beyond - g - gap) ** 2 + saved > 0


@given(lie=st.floats(0.01, 1), part=st.floats(0, 0.49), wider=st.floats(1, 3))
def test_a_tolerated_gap_allows_just_the_lies_that_were_asked_for(
    lie: float, part: float, wider: float
) -> None:
    g = part * lie
    gap = float(tolerated_gap(lie, wider * lie, g))
    assert gap >= -1e-12
    size = tolerance.lie_size(g, gap, lie**2 - 2 * lie * g)
    assert size == pytest.approx(wider * lie, rel=1e-9)


def test_lies_half_as_large_again_are_the_price_of_a_gap_of_four_tenths_of_them() -> None:
    assert tolerated_gap(1.0, 1.5, 0.1) == pytest.approx(0.4166667 - 0.1 / 3)
    assert tolerated_gap(1.0, 2.0, 0.1) == pytest.approx(0.75 - 0.1 / 2)


def test_a_tolerance_costs_a_third_more_then_twice_then_four_times_and_at_last_no_money_is_enough() -> None:
    gaps = np.array([1 / 8, 1 / 4, 3 / 8, 1 / 2, 0.6])
    assert tolerance.cost_factor(gaps, 1.0) == pytest.approx([4 / 3, 2, 4, math.inf, math.inf])
    assert tolerance.cost_factor(0.1, 1.0, 0.2) == pytest.approx(0.6 / 0.4)


@given(own=st.floats(0.01, 2), uncertainty=st.floats(0.001, 2), noise=st.floats(0.05, 2))
def test_the_truth_loses_least_if_the_analysts_uncertainty_is_added_to_peoples(
    own: float, uncertainty: float, noise: float
) -> None:
    def lost(s: float) -> float:
        return float(
            tolerance.mean_truth_cost(s, own_variance=own, uncertainty=uncertainty, noise_variance=noise)
        )

    best = float(tolerance.slope(tolerance.declared_variance(own, uncertainty), noise))
    found = minimize_scalar(lost, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
    assert lost(best) <= found.fun + 1e-12
    s, total = own / (own + noise), own + noise
    assert lost(best) == pytest.approx((1 - s) ** 2 * uncertainty * total / (uncertainty + total))


def test_the_mean_loss_is_what_people_with_scattered_centres_lose() -> None:
    """200,000 people: a standard error of 0.3 %, and 2 % are allowed: a false alarm in fewer than one of 10⁶ seeds."""
    rng, own, uncertainty, s = np.random.default_rng(1), 0.05, 0.02, 0.4
    centres = rng.normal(0, math.sqrt(uncertainty), 200_000)
    y = centres + rng.normal(0, math.sqrt(own + SIGMA2), 200_000)
    own_slope = own / (own + SIGMA2)
    gaps = tolerance.belief_gap(y, centre=0.0, slope=s, own_centre=centres, own_slope=own_slope)
    stated = tolerance.mean_truth_cost(s, own_variance=own, uncertainty=uncertainty, noise_variance=SIGMA2)
    assert np.mean(np.square(gaps)) == pytest.approx(stated, rel=0.02)


def best_of(expected: tolerance.Expectation, declared: tolerance.Expectation, y: float) -> float:
    """The answer for which what is declared is what she expects: the best one, as both are lines."""
    start, rise = float(declared(0.0)), float(declared(1.0)) - float(declared(0.0))
    return (float(expected(y)) - start) / rise


@pytest.mark.parametrize("people", [0, 10, 1000])
def test_a_published_pilot_does_not_make_different_people_agree(people: int) -> None:
    pilot_variance = SIGMA2 / people if people else math.inf
    own = tolerance.after_pilot(0.1, V, SIGMA2, 0.03, pilot_variance)
    declared = tolerance.after_pilot(-0.1, V, SIGMA2, 0.03, pilot_variance)
    assert best_of(own, declared, 0.2) - 0.2 == pytest.approx(SIGMA2 / V * 0.2)
    # The money falls with the square of the slope.
    k, k1 = tolerance.slope(V, SIGMA2), tolerance.slope(tolerance.pooled_variance(V, pilot_variance), SIGMA2)
    before = tolerance.belief_gap(0.2, centre=-0.1, slope=k, own_centre=0.1, own_slope=k)
    assert float(own(0.2)) - float(declared(0.2)) == pytest.approx(float(before) * float(k1 / k))


@pytest.mark.parametrize("people", [1, 10, 1000])
def test_with_nothing_but_the_pilot_declared_the_declared_centre_does_not_matter(people: int) -> None:
    own = tolerance.after_pilot(0.1, V, SIGMA2, 0.03, SIGMA2 / people)
    declared = tolerance.after_pilot(7.0, math.inf, SIGMA2, 0.03, SIGMA2 / people)
    moved = best_of(own, declared, 0.2) - 0.2
    assert moved == pytest.approx(SIGMA2 / V * (0.1 - float(own(0.2))))


def test_what_a_published_pilot_costs_is_as_in_the_table_of_the_documents() -> None:
    people = np.array([0, 1, 3, 10, 30, 100])
    cost = pilot_cost(people, variance=25.0**2, noise_variance=15.0**2)
    assert cost == pytest.approx([1.28, 1.02, 1.41, 3.1, 8.1, 26], rel=0.02)
    # From the first principles: 4bR² with b = τh/(sΔ)² and R = z√v_p, over its value at v_p = σ².
    v = 1 / (1 / 625 + people / 225)
    paid = v / tolerance.slope(v, 225.0) ** 2
    assert cost == pytest.approx(paid / (225 / tolerance.slope(225.0, 225.0) ** 2))


def test_a_pilot_is_worth_fewer_answers_than_it_has_people_the_more_private_it_is() -> None:
    levels = np.array([0.1, 1.0, 1e6])
    worth = np.asarray(pilot_size(100, levels, noise_variance=0.09, bound=1.0))
    assert worth[-1] == pytest.approx(100)
    # Laplace noise of scale 2Y/ε in a sum of N: variance 8Y²/(Nε)² in the mean.
    assert 0.09 / worth[1] == pytest.approx(0.09 / 100 + 8 / 100**2)
    assert worth[0] < 2


def test_if_all_give_their_best_answers_the_average_is_off_by_as_much_as_these_and_thinking_further_is_worse() -> (
    None
):
    """Answers from 0 to 100 that differ by 15, people sure of 40 ± 10, declared 50: 22.5 too low but for the ends.

    20,000 studies: a standard error of 0.1, and 0.6 are allowed: a false alarm in fewer than one of 10⁶ seeds.
    """
    rng, s = np.random.default_rng(2), float(tolerance.slope(10.0**2, 15.0**2))
    average = rng.normal(40, 10, 20_000)
    y = rng.normal(average, 15)
    best = np.asarray(
        tolerance.best_answer(y, centre=50.0, slope=s, own_centre=40.0, own_slope=s), dtype=float
    )
    assert np.mean(best - y) == pytest.approx(-22.5)
    assert np.mean(np.clip(best, 0, 100) - y) == pytest.approx(-21, abs=0.6)
    # Who takes the others to be e too low expects e less, and must say e/s less for q to be that.
    shifted = tolerance.best_answer(30.0, centre=50.0, slope=s, own_centre=40.0, own_slope=s) - 5 / s
    q = 50 + s * (float(shifted) - 50)
    assert q == pytest.approx(40 + s * (30 - 40) - 5)

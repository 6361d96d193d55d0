"""Where people are asked what the others will say the truth pays best: the theorems, by what settlements really pay.

Everybody but one is drawn, told the truth and settled by the code that pays real studies; the one is she whose answer
is looked at. All from fixed seeds; where chance decides, at four standard errors: a false alarm has a probability below
1e-4 for each number compared. The luck of the others' average answer, whose mean given her answer is known, is taken
out of all means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from support.asked import mechanism_of, planned

from truthful.agents import Agent, AskedGame, Colluder, Misbeliever, asked_game
from truthful.check import Floats
from truthful.simulation import simulate
from truthful.simulation.runs import settle_predictions

Rng = np.random.Generator
#: Ranges so wide that no answer is cut at an end, half of them being the unit.
WIDE = 'name = "units"\nlow = 0\nhigh = 400'
NORMAL, GAMMA = "sure = 10\nspread = 15\n", "sure = 6\nspread = 15\n"
#: k of these.
K, K_GAMMA = 4 / 13, 1.6 / 11.6
UNIT = 200.0


@cache
def game_of(beliefs: str, epsilon: float, centre: float, kind: str = "number") -> AskedGame:
    """One that clips nothing, of people who expect `centre`."""
    response = WIDE if kind == "number" else None
    plan = planned(kind, players=500, each=20.0, response=response, beliefs=beliefs)
    mechanism = replace(
        mechanism_of(plan), epsilon=epsilon, clip=1e3, plausible=(-np.inf, np.inf), prediction_weight=0.0
    )
    game = replace(asked_game(plan, np.ones((20, 1))), mechanism=mechanism, mean=np.ones(1))
    return replace(game, centre=centre)


class Given(NamedTuple):
    """The average in each draw, given her answer, and its mean; answers of so many others."""

    averages: Floats
    mean: float
    others: Callable[[float, int, Rng], Floats]


def normal(y: float, draws: int, rng: Rng) -> Given:
    """Centre 160, everything in points, where answers and beliefs are normal."""
    mean = 160 + K * (y - 160)
    averages = mean + 10 * np.sqrt(1 - K) * rng.standard_normal(draws)
    return Given(averages, mean, lambda average, n, chance: average + 15 * chance.standard_normal(n))


def gamma(y: float, draws: int, rng: Rng) -> Given:
    """Answers of shape 1.6 about an average that is inverse gamma, 18 ± 6."""
    averages = (180 + 1.6 * y) / rng.gamma(12.6, size=draws)
    mean = 18 + K_GAMMA * (y - 18)
    return Given(averages, mean, lambda average, n, chance: chance.gamma(1.6, average / 1.6, n))


def best_answer(
    game: AskedGame, given: Given, n: int, y: float, seed: int, careless: tuple[int, float] = (0, 0.0)
) -> tuple[float, float]:
    """The answer that pays most on average less the true one, in points, and its standard error.

    A payment is 2s·ŷ·Q − s²ŷ² but for what does not depend on it: E[Q]/s is best. So many of the others predict
    something else, the same for all.
    """
    rng, found, x = np.random.default_rng(seed), [], np.ones((n, 1))
    k = float(game.beliefs.level_slopes(x[:1], x[0])[0])
    for average in given.averages.tolist():
        others = given.others(average, n - 1, rng)
        answers = (np.append(others, y) - UNIT) / UNIT
        predictions = game.centre + k * (answers - game.centre)
        predictions[: careless[0]] = careless[1] / UNIT - 1
        settled = settle_predictions(game, x, answers, predictions, rng)
        Q = (1 - k) * settled.surprise[-1] + k * settled.p[-1]
        found.append(UNIT * (Q / k + 1) - (others.mean() - given.mean) / k)
    return float(np.mean(found)) - y, float(np.std(found) / np.sqrt(len(found)))


@pytest.mark.parametrize("law", [normal, gamma])
@pytest.mark.parametrize("y", [10.0, 31.0, 180.0])
def test_what_an_answer_moves_is_linear_in_it(law: Callable[[float, int, Rng], Given], y: float) -> None:
    """What the theorems suppose, of averages as they are drawn, and answers about them."""
    given = law(y, 20_000, np.random.default_rng(2))
    assert abs(given.averages.mean() - given.mean) < 4 * given.averages.std() / np.sqrt(20_000)
    answers = given.others(30.0, 20_000, np.random.default_rng(3))
    assert abs(answers.mean() - 30) < 4 * answers.std() / np.sqrt(20_000)


@pytest.mark.parametrize(("n", "draws", "epsilon"), [(5, 200, 200.0), (500, 100, 1.0), (20_000, 40, 0.1)])
@pytest.mark.parametrize("y", [120.0, 160.0, 195.0])
def test_the_truth_pays_most_of_normal_answers(n: int, draws: int, epsilon: float, y: float) -> None:
    """Theorem 1."""
    game = game_of(NORMAL, epsilon, -0.2)
    off, error = best_answer(game, normal(y, draws, np.random.default_rng(n)), n, y, seed=n)
    assert error < 1.5
    assert abs(off) < 4 * error


@pytest.mark.parametrize(("n", "draws", "epsilon"), [(5, 200, 400.0), (500, 100, 2.0), (20_000, 40, 0.2)])
@pytest.mark.parametrize("y", [5.0, 31.0, 55.0])
def test_the_truth_pays_most_of_skewed_answers(n: int, draws: int, epsilon: float, y: float) -> None:
    """Theorem 1 where answers are gamma, whose credibility is linear too."""
    game = game_of(GAMMA, epsilon, 18 / UNIT - 1)
    off, error = best_answer(game, gamma(y, draws, np.random.default_rng(n)), n, y, seed=n)
    assert error < 1.5
    assert abs(off) < 4 * error


@pytest.mark.parametrize(("eta", "aware", "off"), [(0.06, 1.0, 0.135), (-0.12, 0.5, -0.135), (0.3, 0.0, 0.0)])
def test_another_centre_moves_the_best_answer_by_what_she_knows_of_the_others(
    eta: float, aware: float, off: float
) -> None:
    """Theorem 2: γ/k = (1−k)/k·(μ_i − μ°)."""
    game, x = game_of(NORMAL, 1.0, -0.2), np.ones((3, 1))
    y = np.array([-0.5, -0.2, 0.1])
    best = game.best_answers(x, y, game.expectations(x, y, eta, aware))
    assert best - y == pytest.approx(off, abs=1e-12)


@pytest.mark.parametrize("steeper", [0.5, 1.5, 2.0])
@pytest.mark.parametrize(("eta", "aware"), [(0.0, 1.0), (0.05, 1.0), (-0.1, 0.3)])
def test_another_slope_counts_one_less_its_share(steeper: float, eta: float, aware: float) -> None:
    """Theorem 2: γ = (1−k')[(μ_i − μ°) + (k'−k)(y − μ_i)]; the truth loses b·γ² against the best answer."""
    game, x, y = game_of(NORMAL, 1.0, -0.2), np.ones((2, 1)), np.array([-0.3, 0.0])
    own, slope = -0.2 + eta, steeper * K
    gamma = (1 - slope) * (aware * eta + (slope - K) * (y - own))
    foreseen = game.expectations(x, y, eta, aware, steeper)
    best = game.best_answers(x, y, foreseen)
    np.testing.assert_allclose(best - y, gamma / K, atol=1e-12)
    expected = (1 - K) * game.surprise(x, foreseen) + K * foreseen.alike
    lost = [2 * K * said * expected - (K * said) ** 2 for said in (best, y)]
    np.testing.assert_allclose(lost[0] - lost[1], gamma**2, atol=1e-12)


def test_everybody_giving_her_best_answer_leaves_the_average_where_it_is() -> None:
    """Theorem 3: centres scatter by 12 points, and people know the others'. Lies are large, and their mean is 0.

    The variance is σ² + ((1−k)/k)²·Var, and with a declared centre the mean would be off by 2.25 times as much as it.
    """
    plan = planned("number", players=500, each=20.0, response=WIDE, beliefs=NORMAL)
    seen = simulate(plan, {Misbeliever(scatter=0.03): 1.0}, runs=100, seed=3)
    off = np.array([run.share_error for run in seen.studies])
    assert len(off) == 100
    error = off.std() / np.sqrt(len(off))
    assert error < 0.4
    assert abs(off.mean()) < 3 * error
    assert seen.observed.truthfulness.misreports.value > 0.99
    (earned,) = seen.earnings
    assert earned.gain.value < 0


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_careless_predictions_move_the_best_answer_by_their_share_times_how_far_they_are_off(
    share: float,
) -> None:
    """−φJ/k: with a tenth of people leaving 50 where 18 is meant it is 23 points."""
    game, n, y = game_of(GAMMA, 20.0, 18 / UNIT - 1), 501, 31.0
    given = gamma(y, 200, np.random.default_rng(1))
    off, error = best_answer(game, given, n, y, seed=1, careless=(round(share * 500), 50.0))
    # Those who leave 50 would have predicted 18 + k(average − 18), and the average is expected at 18 + k(31 − 18).
    meant = 18 + K_GAMMA**2 * (y - 18)
    assert error < 1.5
    assert abs(off + share * (50 - meant) / K_GAMMA) < 4 * error


def test_saying_one_number_gains_no_more_than_the_variance_of_answers_times_the_slope() -> None:
    """b·k²·σ² a head, which is 1.3 % of the cap here, whatever the number is."""
    plan = planned("number", players=500, each=2.0)
    plan = replace(plan, mechanism=replace(mechanism_of(plan), prediction_weight=0.0))
    b = mechanism_of(plan).score_weight
    crowds: tuple[dict[str | Agent, float], ...] = ({}, {Colluder(0.3): 1.0}, {Colluder(0.9): 1.0})
    told, low, high = (
        np.array([run.total / 500 for run in simulate(plan, agents, runs=100, seed=5).studies])
        for agents in crowds
    )
    for agreed in (low, high):
        gained = agreed - told
        error = gained.std() / np.sqrt(len(gained))
        assert error < b * K**2 * 0.09 / 4
        assert abs(gained.mean() - b * K**2 * 0.09) < 4 * error
    assert b * K**2 * 0.09 < 0.02 * (plan.guarantees.budget.cap or 0.0) / 500


@pytest.mark.parametrize(("n", "draws"), [(5, 200), (50, 200)])
@pytest.mark.parametrize("answer", [-1.0, 1.0])
def test_people_who_say_yes_expect_a_surprise_and_those_who_say_no_the_opposite(
    n: int, draws: int, answer: float
) -> None:
    """Theorem C: E[x̄ − m̄ | yes] = s(1 − q₁) and E[x̄ − m̄ | no] = −s·q₀, here in shares. The prior is uniform."""
    low, high, rng = 0.1, 0.5, np.random.default_rng(n)
    game = game_of("share = [0.05, 0.6]\nsure = 0.1\n", 400.0, -0.4, "yes-no")
    mean, variance = (low + high) / 2, (high - low) ** 2 / 12
    yes, no = mean + variance / mean, mean - variance / (1 - mean)
    shares = rng.uniform(low, high, 3 * draws)
    kept = rng.random(3 * draws) < (shares if answer > 0 else 1 - shares)
    found, own = [], yes if answer > 0 else no
    for share in shares[kept].tolist():
        answers = np.append(np.where(rng.random(n - 1) < share, 1.0, -1.0), answer)
        predictions = 2 * np.where(answers > 0, yes, no) - 1
        settled = settle_predictions(game, np.ones((n, 1)), answers, predictions, rng)
        said = float(np.mean(answers[:-1] > 0))
        found.append(settled.surprise[-1] / 2 - (1 - (yes - no)) * (said - own))
    expected = (yes - no) * (1 - yes) if answer > 0 else -(yes - no) * no
    error = float(np.std(found) / np.sqrt(len(found)))
    assert error < abs(expected) / 4
    assert abs(float(np.mean(found)) - expected) < 4 * error

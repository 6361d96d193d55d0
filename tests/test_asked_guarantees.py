"""What is promised where people are asked what the others will say holds: against an oracle that shares no code.

All from fixed seeds. Where chance decides, at four standard errors: a false alarm has a probability below 1e-4 for each
number compared.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.asked import TEXT, mechanism_of, planned
from support.oracles_asked import Asked, payments

from truthful.agents import Influential, Misbeliever, Players, asked_game
from truthful.agents.games import sum_geometry
from truthful.asked_release import SCALE, AskedPaymaster, level_of
from truthful.bounds.asked_bounds import AskedSetting, advantage, gap, level_rows
from truthful.check import Floats
from truthful.guarantees import asked_setting
from truthful.moments import GRID, grid_features, grid_responses
from truthful.people import draw_level
from truthful.plan import Plan
from truthful.simulation import simulate
from truthful.simulation.runs import settle_predictions
from truthful.study import Study
from truthful.study.credibility import REACH, LevelBeliefs, ShareBeliefs, expected_shares

#: Kinds of answers with so many features, players and USD a head.
NUMBERS = {"number": (0, 2_000, 2.0), "number, features": (2, 2_000, 2.0), "few": (0, 500, 2.0)}
SHARES = {
    "yes-no": (0, 2_000, 2.0),
    "yes-no, features": (2, 8_000, 2.0),
    "rating": (0, 2_000, 2.0),
    "rating, features": (2, 8_000, 4.0),
}


def plan_of(name: str) -> Plan:
    kind = name.partition(",")[0]
    columns, players, each = {**NUMBERS, **SHARES}[name]
    return planned("number" if kind == "few" else kind, columns, players, each)


@cache
def people_of(plan: Plan) -> Floats:
    """As the design draws them, on the grid."""
    study, n = plan.study, plan.players
    columns = study.sample_features(np.random.default_rng(7), n) if study.features else {}
    return grid_features(study.normalise(columns, n)) / GRID


def promise_of(plan: Plan) -> AskedSetting:
    geometry, chances = sum_geometry(plan, people_of(plan)), (plan.absent_share, plan.failure_probability)
    return asked_setting(plan.study, mechanism_of(plan), plan.players, *chances, geometry)


def oracle_of(plan: Plan, centre: float, liars: bool) -> Asked:
    """With as many liars as there are on average at most, the worst for one person, or none."""
    count = math.ceil(float(promise_of(plan).liars_expected[0])) if liars else 0
    return Asked(plan, people_of(plan), centre, count)


def test_the_oracle_sees_what_a_settlement_pays() -> None:
    """Surprises and others' predictions of single people, refitted without them: to rounding, the noise being given."""
    plan = plan_of("number, features")
    mechanism, beliefs, x = mechanism_of(plan), plan.study.levels, people_of(plan)[:60]
    assert beliefs is not None
    rng = np.random.default_rng(1)
    y, m = rng.uniform(-1, 1, (2, 60))
    game = asked_game(plan, x)
    settled = settle_predictions(game, x, y, m, np.random.default_rng(2))
    oracle = Asked(plan, x)
    ky, km = (grid_responses(part, 1.0) / GRID for part in (y, m))
    vector, total = oracle.z.T @ ky, km.sum()
    noisy = np.array([float(k) for k in settled.estimate.vector]) / GRID**2
    predictions = mechanism.predicted_sum(settled.estimate)
    level = level_of(beliefs, settled.sums, [x * GRID])
    scored = AskedPaymaster(mechanism, beliefs, settled.estimate, level).score_players(
        x * GRID, ky * GRID, km * GRID
    )
    for i in (0, 17, 59):
        keep = np.arange(60) != i
        theta = np.linalg.solve(oracle.z[keep].T @ x[keep], noisy - oracle.z[i] * ky[i])
        k = oracle.declared_slopes * oracle.sure**2 / oracle.v
        mean = (predictions - km[i]) / 59
        centre = (mean - k[keep] @ x[keep] @ theta / 59) / (1 - k[keep].mean())
        surprise = np.clip(x[i] @ theta - centre, -mechanism.clip, mechanism.clip)
        # c and k are cut to steps of 2⁻²⁰.
        assert scored.peer_prediction[i] == pytest.approx(x[i] @ theta, abs=1e-9)
        assert scored.others_answer[i] == pytest.approx(oracle.c @ theta, abs=2e-5)
        assert scored.surprise[i] == pytest.approx(surprise, abs=2e-5)
    assert abs(noisy - vector).max() < 60 * 2 / mechanism.epsilon
    assert abs(predictions - total) < 1000 / mechanism.epsilon


# Numbers


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("liars", [False, True])
@pytest.mark.parametrize("away", [-2.3, 0.5, 2.3])
def test_no_report_beats_the_truth_by_more_than_is_promised(name: str, liars: bool, away: float) -> None:
    """For the person whose slope is largest: what a payment depends on is off by the gap at most.

    So the best of all reports gains what is promised at most, and none that is further off than promised gains
    anything, privacy saved included. Payments are expected ones over 40,000 studies.
    """
    plan, promised = plan_of(name), plan_of(name).guarantees.truthfulness
    s, mechanism = promise_of(plan), mechanism_of(plan)
    oracle = oracle_of(plan, -0.1, liars)
    i = int(np.argmax(oracle.v))
    slope, sigma = float(oracle.declared_slopes[i]), 0.3
    y = -0.1 + away * math.sqrt(float(oracle.v[i]) + sigma**2)
    seen = oracle.numbers(i, y, 40_000, np.random.default_rng(round(10 * away) + 100))
    surprise = np.clip(seen.surprise, -mechanism.clip, mechanism.clip)
    compared, error = seen.mean((1 - slope) * surprise + slope * np.clip(seen.p, -1, 1))
    largest = float(gap(s).max())
    assert error < largest / 4
    assert abs(compared - slope * y) < largest + 4 * error
    said = np.append(np.linspace(-1, 1, 101), y)
    paid = payments(plan, slope, seen, said)
    gained = np.array([seen.mean(paid[:, column] - paid[:, -1])[0] for column in range(101)])
    errors = np.array([seen.mean(paid[:, column] - paid[:, -1])[1] for column in range(101)])
    assert promised.slack is not None
    assert promised.lie_in_answer is not None
    saved = float(s.saved[0, 0])
    assert (gained + saved - 4 * errors).max() < promised.slack
    far = np.abs(said[:-1] - y) >= promised.lie_in_answer / plan.study.response_unit
    assert (gained + saved - 4 * errors)[far].max() < 0
    # A bound that is idle would say nothing: liars alone reach a tenth of it.
    if liars:
        assert abs(compared - slope * y) > largest / 20 or away == 2.3


def test_without_a_clip_the_truth_is_compared_with_itself_whatever_features_do() -> None:
    """Theorem 4, for her whose differences are the most uncertain."""
    plan = plan_of("number, features")
    oracle = Asked(plan, people_of(plan), 0.25)
    i = int(np.argmax(oracle.v))
    s, y = float(oracle.declared_slopes[i]), 0.6
    seen = oracle.numbers(i, y, 100_000, np.random.default_rng(4))
    compared, error = seen.mean((1 - s) * seen.surprise + s * seen.p)
    assert error < 0.001
    assert abs(compared - s * y) < 4 * error


UNEVEN = '[[features]]\nname = "age"\nlow = 0\nhigh = 10\n[[features]]\nname = "region"\nlevels = ["n", "s", "w"]\n'


@pytest.mark.parametrize("kind", ["number", "yes-no"])
def test_variances_and_reaches_are_those_of_levels_that_are_drawn_where_few_have_one(kind: str) -> None:
    """Of 10,000 draws for ten people; a tenth of all are of the rarest level. Variances at five standard errors."""
    response = (
        'name = "units"\nlow = 0\nhigh = 100' if kind == "number" else 'kind = "yes-no"\nname = "evaded"'
    )
    beliefs = "sure = 10\nspread = 15\neffect = 20\n"
    if kind == "yes-no":
        beliefs = "share = [0.3, 0.7]\nsure = 0.1\neffect = 0.2\n"
    study = Study.parse(TEXT.format(response=response, features=UNEVEN, design="observed", beliefs=beliefs))
    levels, rng = study.levels, np.random.default_rng(5)
    assert levels is not None
    columns = {"age": 10 * rng.beta(2, 5, 300), "region": rng.choice(3, 300, p=[0.1, 0.2, 0.7])}
    x = study.normalise(columns, 300)
    c = x.mean(axis=0)
    some = x[np.append(np.arange(7), np.flatnonzero(columns["region"] == 0)[:3])]
    averages = np.array([draw_level(study, levels, 0.1, c, rng) for _ in range(10_000)]) @ some.T
    off = averages - 0.1
    v = levels.variances(some, c)
    assert np.abs(off.mean(axis=0)).max() < 5 * np.sqrt(v.max() / 10_000)
    assert np.abs(off.var(axis=0) / v - 1).max() < 5 * np.sqrt(2 / 10_000)
    assert v[-1] > 1.3 * v.min()
    if kind == "yes-no":
        assert (np.abs(off).max(axis=0) <= levels.reaches(some, c) + 1e-9).all()
        assert (np.abs(off).max(axis=0) > 0.7 * levels.reaches(some, c)).all()


# Yes and no, and ratings


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("liars", [False, True])
def test_the_truth_earns_over_every_lie_what_is_promised_wherever_the_centre_is(
    name: str, liars: bool
) -> None:
    """At the lowest centre that people can have, in the middle and at the highest; for her whose answer says most.

    Of up to 60 numbers one is wrong once in 500 times.
    """
    plan, promised = plan_of(name), plan_of(name).guarantees.truthfulness
    beliefs, x = plan.study.levels, people_of(plan)
    assert beliefs is not None
    assert beliefs.shares is not None
    assert promised.steps is not None
    assert promised.gain is not None
    levels, inside = beliefs.shares.levels, math.sqrt(3) * beliefs.sure
    draws = 4_000 if x.shape[1] == 1 else 24
    for centre in (beliefs.low + inside, (beliefs.low + beliefs.high) / 2, beliefs.high - inside):
        oracle = oracle_of(plan, centre, liars)
        i = int(np.argmax(oracle.v))
        for place in range(levels):
            seen = oracle.shares(i, place, draws, np.random.default_rng(place))
            paid = payments(plan, float(oracle.declared_slopes[i]), seen, np.linspace(-1, 1, levels))
            for said in range(levels):
                if abs(said - place) >= promised.steps:
                    lost, error = seen.mean(paid[:, place] - paid[:, said])
                    assert lost > promised.gain - 4 * error, (centre, place, said)


@pytest.mark.parametrize("name", ["yes-no", "yes-no, features"])
def test_of_yes_and_no_the_promise_is_no_idle_one(name: str) -> None:
    """Where people expect fewest to say yes, no earns little more than is promised."""
    plan = plan_of(name)
    beliefs = plan.study.levels
    assert beliefs is not None
    oracle = oracle_of(plan, beliefs.low + math.sqrt(3) * beliefs.sure, liars=False)
    i = int(np.argmax(oracle.v))
    seen = oracle.shares(i, 0, 4_000 if not plan.study.features else 60, np.random.default_rng(1))
    surprise, error = seen.mean(seen.surprise)
    least = float(advantage(promise_of(plan))[0, 0])
    assert least - 4 * error < -surprise < 1.5 * least + 4 * error


def test_of_ratings_the_gap_allows_for_every_centre() -> None:
    """At the lowest centre the line of the middle is off by more than in the middle itself: 0.024 and 0.008 here."""
    plan = plan_of("rating")
    beliefs, mechanism = plan.study.levels, mechanism_of(plan)
    assert beliefs is not None
    largest, found = float(gap(promise_of(plan)).max()), {}
    for centre in (beliefs.low + math.sqrt(3) * beliefs.sure, (beliefs.low + beliefs.high) / 2):
        oracle = Asked(plan, people_of(plan), centre)
        s = float(oracle.declared_slopes[0])
        seen = oracle.shares(0, 1, 8_000, np.random.default_rng(1))
        compared, error = seen.mean(
            (1 - s) * np.clip(seen.surprise, -mechanism.clip, mechanism.clip) + s * np.clip(seen.p, -1, 1)
        )
        assert error < 0.001
        found[centre] = abs(compared - s * -0.5)
        assert found[centre] < largest + 4 * error
    low, middle = found.values()
    assert low > 2 * middle


# Whole studies


@pytest.mark.parametrize("name", ["number", "number, features", "yes-no", "rating"])
def test_errors_stay_below_the_guarantee_with_as_many_of_the_worst_liars_as_a_plan_allows_for(
    name: str,
) -> None:
    """And nobody owes anything, nor do payments exceed the cap."""
    plan = plan_of(name)
    liars = math.floor(plan.absent_share * plan.players)
    assert liars >= 1
    seen = simulate(plan, {Influential(liars): 1.0}, runs=40, seed=6)
    promised = seen.guaranteed
    squares = np.array([run.squared_error for run in seen.studies])
    assert promised.accuracy.mean_squared_error is not None
    assert squares.mean() - 4 * squares.std() / math.sqrt(40) < promised.accuracy.mean_squared_error
    assert seen.observed.accuracy.prediction_rmse < 1.15 * (promised.accuracy.prediction_rmse or 0.0)
    assert seen.observed.budget.largest <= (promised.budget.cap or 0.0)
    assert min(float(run.payments.min()) for run in seen.studies) >= 0


def test_payments_are_never_negative_nor_above_the_cap_whatever_anybody_says() -> None:
    """Ends of all ranges, and answers, predictions and noise at random, for 20 people: of every kind."""
    rng = np.random.default_rng(8)
    for name in ("number", "number, features", "yes-no", "rating"):
        plan = plan_of(name)
        x = np.repeat(np.unique(people_of(plan), axis=0), 20, axis=0)  # as even as the plan foresees
        x = x[:: len(x) // 20]
        game = asked_game(plan, people_of(plan))
        cap = (plan.guarantees.budget.cap or 0.0) / plan.players
        ends, everything = [], game.answers if game.levels else np.linspace(-1, 1, 9)
        for _ in range(100):
            y, m = rng.choice(everything, 20), rng.uniform(-1, 1, 20)
            y, m = (y, m) if rng.random() < 0.5 else (np.full(20, y[0]), np.sign(m))
            paid = settle_predictions(game, x, y, m, rng).paid
            ends += [paid.min(), paid.max()]
        assert min(ends) >= 0
        assert max(ends) <= cap + 1e-9


def test_best_answers_of_the_laboratory_pay_best() -> None:
    """A search over answers finds none that its formula does not, of every kind, for people of other beliefs."""
    rng = np.random.default_rng(9)
    for name in ("number", "number, features", "yes-no", "rating"):
        plan = plan_of(name)
        game = asked_game(plan, people_of(plan)).of(-0.1, people_of(plan).mean(axis=0))
        x = people_of(plan)[:50]
        y = rng.choice(game.answers, 50) if game.levels else rng.uniform(-0.7, 0.5, 50)
        foreseen = game.expectations(x, y, 0.1 * rng.standard_normal(50), 0.7, 1.3)
        best = game.best_answers(x, y, foreseen)
        said = game.answers if game.levels else np.linspace(-1, 1, 2001)
        surprise = game.surprise(x, foreseen)[:, None]
        if mechanism_of(plan).rule == "serum":
            paid = said * surprise
        else:
            s = game.beliefs.slopes(x, game.mean)[:, None]
            paid = 2 * s * said * ((1 - s) * surprise + s * foreseen.alike[:, None]) - (s * said) ** 2
        np.testing.assert_allclose(best, said[paid.argmax(axis=1)], atol=6e-4)
        told, predicted = Misbeliever(0.0).respond(Players(x, y, np.ones(50)), game, rng)
        if name != "rating":
            np.testing.assert_array_equal(told, y)
        assert np.abs(predicted).max() < 1


@pytest.mark.parametrize("kind", ["number", "rating"])
def test_a_plan_allows_for_means_of_features_that_are_elsewhere(kind: str) -> None:
    """Slopes, variances, offsets and reaches of people about any mean that near lie between what is allowed for."""
    response = (
        'name = "units"\nlow = 0\nhigh = 100'
        if kind == "number"
        else 'kind = "rating"\nlevels = 5\nname = "r"'
    )
    beliefs = 'sure = 10\nspread = 15\neffect = 20\nexpected = { age = 5, "region=n" = 3 }\n'
    if kind == "rating":
        beliefs = (
            'share = [0.3, 0.7]\nsure = 0.1\neffect = 0.1\nexpected = { age = 0.05, "region=n" = 0.03 }\n'
        )
    study = Study.parse(TEXT.format(response=response, features=UNEVEN, design="uniform", beliefs=beliefs))
    levels, rng = study.levels, np.random.default_rng(3)
    assert levels is not None
    x = study.normalise(study.sample_features(rng, 100), 100)
    c, away = x.mean(axis=0), np.array([0.0, 0.02, 0.03, 0.03])
    allowed = level_rows(levels, x, c, away)
    for _ in range(50):
        found = level_rows(levels, x, c + away * rng.uniform(-1, 1, 4))
        for column in (0, 2, 4):
            assert (found[:, column] >= allowed[:, column] - 1e-12).all()
        for column in (1, 3, 5, 6):
            assert (found[:, column] <= allowed[:, column] + 1e-12).all()


def test_no_centre_bends_what_a_rating_is_worth_further_than_is_allowed_for() -> None:
    """Beliefs of 8 levels, for which an allowance from three centres is too small."""
    shares = ShareBeliefs(0.02, 0.35, 8, 0.1, (0.0,), (0.0,), (), 1.0)
    x, mean = np.ones((1, 1)), np.ones(1)
    for sure in np.linspace(0.02, 0.095, 6):
        beliefs = LevelBeliefs(2 * sure, None, (0.0,), (0.0,), (), (), 1.0, -0.96, -0.3, shares)
        reach, slope = REACH * sure, float(beliefs.slopes(x, mean)[0])
        answers = np.linspace(0, 1, shares.levels)
        bends = []
        for centre in np.linspace(shares.low + reach, shares.high - reach, 400):
            around = replace(shares, low=centre - reach, high=centre + reach)
            line = centre + slope * (answers - centre)
            bends.append(np.abs(expected_shares(around, x)[0] - line).max())
        allowed = level_rows(beliefs, x, mean)[0, -1]
        assert SCALE * max(bends) <= allowed <= SCALE * max(bends) + 0.004

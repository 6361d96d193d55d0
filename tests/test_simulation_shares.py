"""Simulated studies of yes and no, and of ratings: what is guaranteed holds, and what is observed is what it should be.

All from fixed seeds. Where chance decides, at four standard errors or more: a false alarm has a probability below 1e-4
for each number compared, unless said otherwise.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats
from support.commands import Run
from support.html_page import section
from support.laboratory import NUMBER, pinned, planned, study_of
from support.studies import UNIT_BALL

from truthful.agents import (
    KINDS,
    SHARES,
    WORST,
    Agent,
    BestResponder,
    Denier,
    Exaggerator,
    Honest,
    Misbeliever,
    Players,
    agent,
    share_game,
)
from truthful.agents.games import ShareGame, share_mechanism, share_promise, sum_geometry
from truthful.beliefs import IDENTITY
from truthful.bounds.share_bounds import gain, pull
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.geometry import Geometry
from truthful.moments import GRID, grid_features, instruments_on_grid
from truthful.noise import L2Laplace, laplace
from truthful.people import draw_shares
from truthful.plan import Plan, design
from truthful.report import simulation_report
from truthful.show.terminal import simulation_view
from truthful.simulation import ShareSimulation, simulate
from truthful.simulation.observations import best_reports, observations
from truthful.study import Study

FEATURES = {"share": (0.2, 0.5), "effect": 0.1}


def simulated(plan: Plan, agents: Any = None, **asked: Any) -> ShareSimulation:
    found = simulate(plan, agents, **asked)
    assert isinstance(found, ShareSimulation)
    return found


# The exact advantage, without features


def laplace_excess(middle: Floats, scale: float, level: float) -> Floats:
    """E(X − level)₊ of a Laplace number."""
    off = np.abs(level - middle)
    return np.maximum(middle - level, 0.0) + scale / 2 * np.exp(-off / scale)


def exact_advantage(plan: Plan) -> tuple[float, float]:
    """E[φ | yes] and −E[φ | no] as a part of the bonus: the share uniform, n − 1 others, and noise of scale 1/ε."""
    mechanism, beliefs = share_mechanism(plan)
    N, (L, U) = plan.players - 1, (beliefs.low, beliefs.high)
    believed = beliefs.expects(np.ones((1, 1)))
    t, w = float(believed.switch[0]), float(believed.width(mechanism.margin)[0])
    k = np.arange(N + 1, dtype=np.float64)
    middle, scale = (k / N - t) / w, 1 / (mechanism.epsilon * N * w)
    phi = -1 + laplace_excess(middle, scale, -1.0) - laplace_excess(middle, scale, 1.0)

    def between(a: Floats, b: Floats) -> Floats:
        return np.asarray(special.betainc(a, b, U) - special.betainc(a, b, L))

    says_yes = (k + 1) / ((N + 1) * (N + 2)) * between(k + 2, N - k + 1)
    anybody = between(k + 1, N - k + 1) / (N + 1)
    return float(phi @ says_yes / says_yes.sum()), float(
        -phi @ (anybody - says_yes) / (anybody - says_yes).sum()
    )


@pytest.mark.parametrize(
    ("players", "epsilon", "yes", "no"), [(500, 0.13, 0.152852, 0.150935), (2_000, 0.1, 0.153238, 0.152828)]
)
def test_the_exact_advantage_without_features(players: int, epsilon: float, yes: float, no: float) -> None:
    assert exact_advantage(pinned(players, epsilon)) == pytest.approx((yes, no), abs=1e-4)


@pytest.mark.parametrize("share", [(0.05, 0.40), (0.10, 0.90), (0.0, 0.05), (0.0, 1.0), (0.4, 0.6)])
@pytest.mark.parametrize(
    ("players", "epsilon", "margin"),
    [(200, 0.5, 0.0), (500, 0.13, 0.02), (2_000, 0.1, 0.0), (20_000, 0.05, 0.02)],
)
def test_the_guarantee_is_below_it_and_it_is_below_what_is_believed(
    players: int, epsilon: float, share: tuple[float, float], margin: float
) -> None:
    plan = pinned(players, epsilon, share=share, margin=margin)
    _, beliefs = share_mechanism(plan)
    s = share_promise(plan, sum_geometry(plan, np.ones((players, 1))), players)
    believed = beliefs.expects(np.ones((1, 1)))
    ideal = float((believed.advantage / believed.width(margin))[0])
    exact = min(exact_advantage(plan))
    assert gain(s)[0, 0] < exact < ideal + 1e-3


def test_simulated_people_earn_just_that() -> None:
    """By answer, over 400 studies; what they earned is known up to what they were paid in millionths."""
    plan = pinned(500, 0.13)
    found = simulated(plan, runs=400, seed=1)
    players = np.array([run.cell_players for run in found.studies])
    lost = np.array([run.cell_lost for run in found.studies])
    no, yes = (
        (lost[:, truth, said].sum() / players[:, truth].sum(), lost[:, truth, said], players[:, truth])
        for truth, said in ((0, 1), (1, 0))
    )
    for (mean, sums, counts), exact in zip((yes, no), exact_advantage(plan), strict=True):
        error = np.sqrt(np.sum((sums - mean * counts) ** 2)) / counts.sum()
        assert error < 0.02
        assert abs(mean - exact) < 4 * error + 1e-5


# The advantage with features, in every cell: an oracle that shares no code with the simulation


@cache
def advantages(plan: Plan, deniers: int = 0, draws: int = 10_000) -> tuple[Floats, Floats]:
    """What the truth earns over the lie in every cell, for no and for yes (a column), as a part of the bonus.

    Many studies of the same people: θ is drawn, answers follow, noise is added, and one person of each cell is taken
    out by hand. Given θ her answer is independent of the others': she says yes with weight m. The mean of (m − t)/w is
    δ/w with these weights, so only what is off that is left to chance. Also gives the standard errors.
    """
    study, (mechanism, beliefs) = plan.study, share_mechanism(plan)
    rng, n = np.random.default_rng(7), plan.players
    X = grid_features(study.normalise(study.sample_features(rng, n), n)) / GRID
    Z = instruments_on_grid(X * GRID, mechanism.transform, mechanism.norm) / GRID
    cells, first = np.unique(X, axis=0, return_index=True)
    believed = beliefs.expects(cells)
    sums = np.zeros((2, len(cells), 3))
    for _ in range(draws // 500):
        theta = np.array([draw_shares(study, beliefs, rng) for _ in range(500)])
        y = np.where(rng.random((500, n)) < (1 + theta @ X.T) / 2, 1.0, -1.0)
        if deniers:
            y[:, rng.choice(n, deniers, replace=False)] = -1.0
        noisy = y @ Z + laplace(mechanism.norm, study.dimension, 2 / mechanism.epsilon).sample(rng, 500)
        for cell, i in enumerate(first):
            others = Z.T @ X - np.outer(Z[i], X[i])
            p = (1 + (noisy - y[:, [i]] * Z[i]) @ np.linalg.solve(others.T, X[i])) / 2
            m, x = (1 + theta @ X[i]) / 2, np.tile(X[i], (500, 1))
            paid = [mechanism.steps(beliefs, x, np.full(500, said), p)[2] for said in (-1.0, 1.0)]
            off = (paid[1] - paid[0]) / mechanism.bonus - (m - believed.switch[cell]) / believed.width(
                mechanism.margin
            )[cell]
            for truth, (weight, sign) in enumerate(((1 - m, -1.0), (m, 1.0))):
                sums[truth, cell] += [weight.sum(), weight @ off * sign, (weight * off) @ (weight * off)]
    weight, total, squares = np.moveaxis(sums, 2, 0)
    ideal = believed.advantage / believed.width(mechanism.margin)
    return (ideal + total / weight).T, (np.sqrt(squares) / weight).T


@pytest.mark.parametrize(
    ("columns", "margin", "norm", "liars"),
    [(2, 0.04, "sup", True), (4, 0.04, "sup", False), (4, 0.07, "l2", True)],
)
def test_in_every_cell_the_truth_earns_what_is_guaranteed(
    columns: int, margin: float, norm: str, liars: bool
) -> None:
    """Two levels a feature, n = 2,000 and ε = 0.15; also if αn deny. Of 32 numbers one is wrong once in 500 times."""
    plan = pinned(2_000, 0.15, columns=columns, margin=margin, norm=norm, **FEATURES)
    promised = float(gain(share_promise(plan, geometry_of(plan), plan.players))[0, 0])
    assert promised > 0
    found, errors = advantages(plan, deniers=round(plan.absent_share * 2_000) if liars else 0)
    assert len(found) == 2**columns
    assert errors.max() < 0.006
    assert (found > promised - 4 * errors).all()
    if not liars:
        mechanism, beliefs = share_mechanism(plan)
        believed = beliefs.expects(np.eye(1, columns + 1) / beliefs.scale)
        ideal = float((believed.advantage / believed.width(mechanism.margin))[0])
        assert (found < ideal + 4 * errors).all()


def geometry_of(plan: Plan) -> Geometry:
    """Of the people of that oracle."""
    study, n = plan.study, plan.players
    return sum_geometry(plan, study.normalise(study.sample_features(np.random.default_rng(7), n), n))


def test_the_simulation_finds_the_same_advantage_as_that_oracle() -> None:
    """On average over cells; the people differ, by which advantages move far less than chance moves these means."""
    plan = pinned(2_000, 0.15, columns=4, margin=0.04, norm="sup", **FEATURES)
    found, errors = advantages(plan)
    runs = simulated(plan, runs=100, seed=3).studies
    players = np.array([run.cell_players for run in runs]).reshape(len(runs), -1, 2)
    lost = np.array([run.cell_lost for run in runs]).reshape(len(runs), -1, 2, 2)
    for truth in (0, 1):
        sums, counts = lost[:, :, truth, 1 - truth].sum(axis=1), players[:, :, truth].sum(axis=1)
        mean = sums.sum() / counts.sum()
        error = np.sqrt(np.sum((sums - mean * counts) ** 2)) / counts.sum()
        assert error < 0.02
        assert abs(mean - found[:, truth].mean()) < 4 * np.hypot(error, errors.max()) + 1e-3


# Ratings


@cache
def rating_payments(plan: Plan, draws: int = 60_000) -> tuple[Floats, Floats]:
    """What every answer earns on average for every true one (a row), without features, and the errors of these means.

    Studies are drawn: a share, others' answers, noise. Each counts for a true answer by how likely that is, and so the
    payments that anybody would be paid for any answer are averaged.
    """
    (mechanism, beliefs), rng = share_mechanism(plan), np.random.default_rng(8)
    K, N = beliefs.levels, plan.players - 1
    assert beliefs.agreement == 0  # then others' answers add up to a binomial number
    m = rng.uniform(beliefs.low, beliefs.high, draws)
    total = 2 * rng.binomial(N * (K - 1), m) / (K - 1) - N
    p = (1 + (total + L2Laplace(1, 2 / mechanism.epsilon).sample(rng, draws)[:, 0]) / N) / 2
    x = np.ones((draws, 1))
    paid = np.stack(
        [mechanism.steps(beliefs, x, np.full(draws, y), p)[2] for y in np.linspace(-1, 1, K)], axis=1
    )
    likely = np.asarray(stats.binom.pmf(np.arange(K), K - 1, m[:, None]))
    mean = likely.T @ paid / likely.sum(axis=0)[:, None]
    errors = np.sqrt((likely**2).T @ paid**2) / likely.sum(axis=0)[:, None]
    return mean, errors


def saved_by_a_lie(plan: Plan) -> float:
    geometry = sum_geometry(plan, np.ones((plan.players, 1)))
    return float(share_promise(plan, geometry, plan.players).saved[0, 0])


@pytest.mark.parametrize(("levels", "each"), [(3, 0.25), (5, 0.25), (7, 0.25), (10, 1.0)])
def test_no_lie_of_the_promised_steps_or_more_is_a_best_response(levels: int, each: float) -> None:
    """A search over all K answers, privacy that a lie saves included, where beliefs are of the form that is assumed.

    That is any share at all, and parts that do not agree: a uniform share is a Beta one.
    """
    plan = planned(2_000, each, levels=levels, share=(0.0, 1.0), beliefs="agreement = 0.0\n")
    promised = plan.guarantees.truthfulness
    assert promised.steps is not None
    assert promised.gain is not None
    paid, errors = rating_payments(plan)
    steps = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels)))
    left = paid + saved_by_a_lie(plan) * (steps > 0)
    assert (np.abs(left.argmax(axis=1) - np.arange(levels)) < promised.steps).all()
    lost = np.diag(paid)[:, None] - paid
    assert lost[steps >= promised.steps].min() > promised.gain - 4 * errors.max()
    # Without privacy to save, the truth is best of all.
    assert (paid.argmax(axis=1) == np.arange(levels)).all()


def test_ratings_of_two_levels_are_yes_and_no() -> None:
    """The same law of payments: by the formula of both."""
    plan = pinned(500, 0.13)
    mechanism, beliefs = share_mechanism(plan)
    rating = study_of(levels=3, share=(0.05, 0.40)).shares
    assert rating is not None
    two = replace(rating, levels=2)
    p, x = np.linspace(-0.2, 1.2, 57), np.ones((57, 1))
    for y in (-1.0, 1.0):
        for one, other in zip(
            mechanism.steps(beliefs, x, np.full(57, y), p),
            mechanism.steps(two, x, np.full(57, y), p),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


# Accuracy and intervals


@pytest.mark.parametrize(("players", "epsilon", "runs"), [(200, 0.5, 400), (20_000, 0.07, 200)])
def test_the_share_of_yes_is_as_far_off_as_it_must_be_and_intervals_cover_it(
    players: int, epsilon: float, runs: int
) -> None:
    """E[P(1 − P)]/n + 2/(nε)², on average over shares. Coverage within three standard errors of 93.5 to 97 %."""
    found = simulated(pinned(players, epsilon), runs=runs, seed=players)
    errors = np.square([run.share_error for run in found.studies])
    mean, variance = 0.225, 0.35**2 / 12
    exact = (mean * (1 - mean) - variance) / players + 2 / (players * epsilon) ** 2
    spread = errors.std(ddof=1) / np.sqrt(runs)
    assert abs(errors.mean() - exact) < 4 * spread
    promised = found.guaranteed.accuracy.rmse
    assert promised is not None
    assert found.shares.share_rmse < promised
    seen = found.shares.coverage
    assert 0.935 - 3 * seen.error < seen.value < 0.97 + 3 * max(seen.error, 0.01)


@pytest.mark.parametrize(("players", "epsilon"), [(500, 0.5), (4_000, 0.15)])
def test_differences_are_as_far_off_as_they_must_be_and_intervals_cover_them(
    players: int, epsilon: float
) -> None:
    """Of three features, in 200 studies: within three standard errors of what is guaranteed, and not far below."""
    plan = pinned(players, epsilon, columns=2, more=NUMBER, **FEATURES)
    found = simulated(plan, runs=200, seed=9)
    squares = np.square([run.effect_errors for run in found.studies])
    promised = found.guaranteed.accuracy
    assert promised.effect_rmse is not None
    worst = squares.mean(axis=0).argmax()
    spread = squares[:, worst].std() / np.sqrt(len(squares))
    assert squares[:, worst].mean() < promised.effect_rmse**2 + 3 * spread
    assert found.shares.effect_rmse == pytest.approx(np.sqrt(squares.mean(axis=0).max()))
    # It is no idle promise either, though it allows for liars and for shares of a half.
    assert squares[:, worst].mean() > promised.effect_rmse**2 / 2
    seen = found.shares.coverage
    assert 0.935 - 3 * seen.error < seen.value < 0.97 + 3 * seen.error
    assert found.observed.accuracy.prediction_rmse < (promised.prediction_rmse or 0.0)


@pytest.mark.parametrize("who", [Denier(), agent("cost-threshold"), agent("influential")])
def test_with_as_many_liars_as_a_plan_allows_for_errors_stay_below_the_guarantee(who: Agent) -> None:
    plan = pinned(2_000, 0.2, columns=2, absent_share=0.005, **FEATURES)
    found = simulated(plan, {who: 0.005}, runs=60, seed=10)
    assert found.shares.effect_rmse is not None
    assert found.shares.effect_rmse < (found.guaranteed.accuracy.effect_rmse or 0.0)
    assert found.observed.accuracy.rmse < (found.guaranteed.accuracy.rmse or 0.0)
    assert found.observed.truthfulness.beyond == 0


# Who believes otherwise


@pytest.mark.parametrize(("scatter", "estimate"), [(0.03, 0.29), (0.05, 0.36), (0.10, 0.43)])
def test_people_who_believe_otherwise_move_the_share(scatter: float, estimate: float) -> None:
    """Of 200,000 people, of whom a fifth would say yes. She says yes iff what she expects is above the switch point:
    with a mean off by e, (1 − Z)(μ + e) + Zy > t, and t is halfway between both, so iff ±e > −Z/2/(1 − Z)."""
    plan, n = pinned(2_000, 0.1), 200_000
    played = share_game(plan)
    y = np.where(np.arange(n) < n // 5, 1.0, -1.0)
    people = Players(np.ones((n, 1)), y, np.zeros(n))
    said = Misbeliever(scatter).answers(people, played, np.random.default_rng(11))
    Z = 0.35**2 / 12 / (0.225 * 0.775)
    kept = stats.norm.cdf(Z / 2 / (1 - Z) / scatter)
    exact = 0.2 * kept + 0.8 * (1 - kept)
    assert np.mean(said > 0) == pytest.approx(exact, abs=4 * 0.5 / np.sqrt(n))
    assert exact == pytest.approx(estimate, abs=0.005)


def test_a_study_of_misbelievers_publishes_what_they_say() -> None:
    """The share is all but known to be a fifth, so that answers tell next to nothing of it.

    Everybody's own mean decides, and half of them expect more than the switch point: the share is off by 0.3. Means of
    40 studies are known to 0.001.
    """
    plan = pinned(5_000, 0.2, share=(0.199, 0.201))
    truth, lied = (simulated(plan, agents, runs=40, seed=12) for agents in (None, {Misbeliever(0.03): 1.0}))
    assert abs(np.mean([run.share_error for run in truth.studies])) < 0.005
    assert np.mean([run.share_error for run in lied.studies]) == pytest.approx(0.3, abs=0.005)
    assert lied.observed.truthfulness.misreports.value == pytest.approx(0.5, abs=0.01)


def test_people_who_believe_what_is_declared_tell_the_truth() -> None:
    plan = pinned(2_000, 0.1, levels=5, share=(0.2, 0.6))
    played = share_game(plan)
    y = np.tile(played.answers, 20)
    people = Players(np.ones((100, 1)), y, np.zeros(100))
    for who in (Misbeliever(0.0), BestResponder()):
        np.testing.assert_array_equal(who.answers(people, played, np.random.default_rng(0)), y)


# Every kind of people


@pytest.fixture(scope="module", params=[2, 5], ids=["yes-no", "ratings"])
def played(request: pytest.FixtureRequest) -> ShareGame:
    return share_game(pinned(2_000, 0.15, bonus=0.3, columns=2, levels=request.param, **FEATURES))


def some_people(game: ShareGame, count: int = 200) -> Players:
    rng, d = np.random.default_rng(13), game.beliefs.dimension
    x = np.where(rng.random((count, d)) < 0.5, -1.0, 1.0) / game.beliefs.scale
    x[:, 0] = 1 / game.beliefs.scale
    return Players(x, rng.choice(game.answers, count), rng.pareto(2, count) * 0.5)


@pytest.mark.parametrize("name", [*KINDS, *WORST, *SHARES])
def test_every_kind_gives_answers_that_there_are(name: str, played: ShareGame) -> None:
    people = some_people(played)
    said = agent(name).answers(people, played, np.random.default_rng(0))
    kept = said[~np.isnan(said)]
    assert np.isin(kept, played.answers).all()
    assert len(agent(name).answers(people[slice(0)], played, np.random.default_rng(0))) == 0


def test_each_kind_answers_as_it_says(played: ShareGame) -> None:
    people, rng = some_people(played), np.random.default_rng(0)
    x, y, costs = people.x, people.y, people.costs
    assert (Denier().answers(people, played, rng) == -1).all()
    assert (Honest().answers(people, played, rng) == y).all()
    lied = agent("cost-threshold").answers(people, played, rng)
    assert ((lied == y) == (costs <= played.threshold)).all()
    assert (np.abs(lied) == 1)[costs > played.threshold].all()
    assert (agent("coordinated").answers(people, played, rng) == 1).all()
    far = Exaggerator(100.0).answers(people, played, rng)
    np.testing.assert_array_equal(far, np.sign(y))
    stays = agent("opt-out").answers(people, played, rng)
    share = played.expected_share(x, y)
    expected = played.expected_payments(x, share)[np.arange(len(y)), played.places(y)]
    np.testing.assert_array_equal(np.isnan(stays), expected < costs * played.privacy_cost)
    drawn = agent("privacy-seeker").answers(people, played, rng)
    assert abs(np.corrcoef(drawn, y)[0, 1]) < 5 / np.sqrt(len(y))
    assert len(np.unique(drawn)) == played.beliefs.levels


def test_who_minds_privacy_most_gives_up_the_truth_where_it_no_longer_pays(played: ShareGame) -> None:
    """Theorem A's condition, at what is expected if all others are truthful: of yes and no it decides alone."""
    people = some_people(played)
    said = BestResponder(saves_all=1e-9).answers(people, played, np.random.default_rng(0))
    believed = played.beliefs.expects(people.x)
    paid = played.expected_payments(people.x, played.expected_share(people.x, people.y))
    told = paid[np.arange(len(paid)), played.places(people.y)]
    others = np.where(np.arange(paid.shape[1]) == played.places(people.y)[:, None], -np.inf, paid).max(axis=1)
    pays = told - others >= people.costs * played.privacy_cost
    np.testing.assert_array_equal(said == people.y, pays)
    assert 0 < np.count_nonzero(pays) < len(pays)
    if played.beliefs.levels == 2:
        # B·δ/w, whatever her answer is.
        exact = played.mechanism.bonus * believed.advantage / believed.width(0.0)
        np.testing.assert_allclose(told - others, exact, rtol=1e-9)


def test_a_curve_of_numbers_is_refused(played: ShareGame) -> None:
    with pytest.raises(InputError, match="Leave it out"):
        BestResponder(peers=IDENTITY).answers(some_people(played), played, np.random.default_rng(0))


def test_kinds_of_shares_and_of_numbers_are_told_apart() -> None:
    class OnlyNumbers(Agent):
        name = "only-numbers"

        def reports(self, players: Players, game: Any, rng: np.random.Generator) -> Floats:
            return players.y

    with pytest.raises(InputError, match=r"'only-numbers' answer with numbers only.*denier"):
        simulate(pinned(100, 1.0), {OnlyNumbers(): 0.5}, runs=1)
    plan = design(Study.parse(UNIT_BALL), players=100, epsilon=1.0, score_weight=0.1)
    with pytest.raises(InputError, match=r"'denier' answer yes or no.*honest"):
        simulate(plan, {"denier": 0.5}, runs=1)


# The whole simulation


@pytest.fixture(scope="module")
def found() -> ShareSimulation:
    plan = pinned(400, 0.5, bonus=0.5, flat=0.1, tolerance=0.1, columns=2, **FEATURES)
    return simulated(plan, {"denier": 0.05, "opt-out": 0.3}, runs=60, seed=14)


def test_a_simulation_is_made_again_from_its_seed_and_goes_on_where_a_shorter_one_ended(
    found: ShareSimulation,
) -> None:
    again = simulated(found.plan, {"denier": 0.05, "opt-out": 0.3}, runs=60, seed=14)
    assert json.dumps(again.record()) == json.dumps(found.record())
    shorter = simulated(found.plan, {"denier": 0.05, "opt-out": 0.3}, runs=3, seed=14)
    assert [run.total for run in shorter.studies] == [run.total for run in found.studies[:3]]
    other = simulated(found.plan, {"denier": 0.05, "opt-out": 0.3}, runs=3, seed=15)
    assert [run.total for run in other.studies] != [run.total for run in shorter.studies]


def test_its_record_is_json_without_what_shares_do_not_have(found: ShareSimulation) -> None:
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert record["observed"]["truthfulness"]["slack"] == {"value": None, "error": None}
    assert "papers_best_response" not in record
    assert record["shares"]["steps"] == 1
    assert len(record["shares"]["payments"]) == 2
    assert record["best_lie"]["truth"] != record["best_lie"]["said"]


def test_payments_lie_between_the_flat_fee_and_the_bonus_above_it(found: ShareSimulation) -> None:
    paid = np.concatenate([run.payments for run in found.studies])
    assert paid.min() >= 0.1
    assert paid.max() <= 0.6
    assert found.observed.budget.largest <= (found.guaranteed.budget.cap or 0.0)


def test_liars_earn_less_than_they_would_have_and_the_honest_have_nothing_to_gain(
    found: ShareSimulation,
) -> None:
    """Deniers by four standard errors: what they say is false of a third of them."""
    by_name = {one.agent: one for one in found.earnings}
    assert by_name["honest"].gain.value == 0
    assert by_name["opt-out"].gain.value == 0
    denier = by_name["denier"]
    assert denier.joined.value == 20
    assert denier.gain.value < 0
    said, told = found.shares.payments[1]
    assert said < told


def test_everybody_counts_once(found: ShareSimulation) -> None:
    for run in found.studies:
        assert run.cell_people.sum() == 400
        assert run.cell_players.sum() == run.joined.sum() <= 400
        assert run.cell_lost.shape == (8, 2)


def test_nobody_who_stays_away_is_paid() -> None:
    """Privacy that nobody sells at a thousandth of a cent."""
    plan = pinned(400, 1.0, bonus=1e-4)
    with pytest.raises(Refused, match="too few"):
        simulated(plan, {"opt-out": 1.0}, runs=1)


def test_what_is_guaranteed_is_the_plans_own_without_features() -> None:
    plan = pinned(400, 0.5)
    found = simulated(plan, runs=2)
    assert found.guaranteed == plan.guarantees
    assert found.guaranteed_for == "plan"
    geometry = sum_geometry(plan, np.ones((400, 1)))
    assert found.guaranteed_gap == float(pull(share_promise(plan, geometry, 400)).max())


def test_of_people_with_features_it_is_computed_for_those_who_came(found: ShareSimulation) -> None:
    assert found.guaranteed_for == "people"
    bounds = [run.bounds for run in found.studies]
    assert [one is not None for one in bounds] == [True] * 40 + [False] * 20
    known = [one["effect_rmse"] for one in bounds if one is not None]
    assert found.guaranteed.accuracy.effect_rmse == pytest.approx(np.sqrt(np.mean(np.square(known))))


def test_words_of_yes_and_no_are_in_points_and_of_ratings_in_levels(found: ShareSimulation) -> None:
    rows = {row.words: row for row in observations(found)}
    assert list(dict.fromkeys(row.guarantee for row in rows.values())) == [
        "privacy",
        "truthfulness",
        "accuracy",
        "participation",
        "budget",
    ]
    assert "percentage points" in rows["error of the share of yes"].observed
    assert rows["intervals that cover the truth"].guaranteed == "95%"
    assert rows["the truth earns more than the other answer, at least by"].observed.endswith("USD")
    rating = simulated(pinned(400, 0.5, levels=5, share=(0.2, 0.6)), runs=2)
    words = {row.words: row for row in observations(rating)}
    assert "percentage" not in words["error of the mean rating"].observed
    assert (
        words["the truth earns more than a lie of 1 step or more, at least by"].observed == "too few studies"
    )
    assert best_reports(rating) == ("Too few studies were simulated to look for the best lie.",)
    assert len(simulation_view(found)) == 4


def test_the_sentence_on_the_best_lie_says_what_it_does(found: ShareSimulation) -> None:
    (sentence,) = best_reports(found)
    assert sentence.startswith("No lie was found that pays more than the truth: the best is to say ")
    assert "USD" in sentence


def test_where_others_all_deny_denying_pays_and_it_is_said() -> None:
    """What a plan is not proof against: another equilibrium, where nothing is implausible."""
    found = simulated(pinned(400, 0.5), {"denier": 1.0}, runs=40)
    assert found.best_lie.gain.value > 0.3
    (sentence,) = best_reports(found)
    assert sentence.startswith("The best lie found is to say no where yes is true")
    flat = simulated(pinned(400, 0.5, tolerance=0.02), {"denier": 1.0}, runs=40)
    assert flat.best_lie.gain.value < 0.05


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int | None]] = []
    simulate(pinned(100, 1.0), runs=3, progress=lambda *words: told.append(words))
    assert told == [("Simulating studies", k, 3) for k in (1, 2, 3)]


# As it is shown


def test_the_parts_of_the_page_tell_answers_and_points(found: ShareSimulation) -> None:
    page = simulation_report(found)
    people, seen = section(page, "Who took part"), section(page, "Observed, and guaranteed")
    off = section(page, "How far the simulated studies were off")
    assert "denier" in people
    assert "Says no, or gives the lowest rating, whatever is true" in people
    assert "percentage points" in seen
    assert "Error of the share of yes" in off
    assert "coefficients" not in off
    answers = section(page, "The answer that pays most")
    assert "Says Yes" in answers
    assert "paper" not in answers
    for heading in ("What the invented people were paid", "What the honest and the liars among them earned"):
        assert "USD" in section(page, heading)


def test_the_page_of_ratings_has_a_column_for_each() -> None:
    rating = simulated(pinned(400, 0.5, levels=5, share=(0.2, 0.6)), runs=3)
    page = simulation_report(rating)
    answers = section(page, "The answer that pays most")
    assert all(f"Says {k}" in answers for k in range(1, 6))
    assert "Error of the mean rating" in page


def test_the_command_prints_the_same_record(tmp_path: Path, run: Run) -> None:
    plan = pinned(400, 0.5)
    plan.save(tmp_path / "plan.json")
    printed = run("simulate", str(tmp_path / "plan.json"), "--runs", "3", "--agents", "denier=0.1", "--json")
    assert (printed.code, printed.err) == (0, "")
    again = simulate(Plan.load(tmp_path / "plan.json"), {"denier": 0.1}, runs=3)
    assert json.loads(printed.out) == json.loads(json.dumps(again.record()))
    shown = run("simulate", str(tmp_path / "plan.json"), "--runs", "3")
    assert shown.code == 0
    assert "share of yes" in " ".join(shown.out.split())

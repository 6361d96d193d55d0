"""What a player can expect of truthful peers, by drawing them; and that own predictions are held to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.laboratory import RELEASES, plan_of, planned_like
from support.studies import DESIGNED

from truthful.agents import Game
from truthful.beliefs import Predictor
from truthful.check import Floats
from truthful.moments import grid_features, grid_responses
from truthful.plan import Plan
from truthful.simulation import simulate, simulation
from truthful.simulation.best_responses import (
    _without_one,
    best_responses,
    draw_crowds,
    expect,
)
from truthful.simulation.observations import best_reports
from truthful.simulation.population import Features, assign_roles, features_of
from truthful.simulation.predictors import predictor_of
from truthful.simulation.simulation import set_up_numbers

NONE = "no report was found that pays more than the truth"


@cache
def scene(name: str) -> tuple[Plan, Game, Features]:
    """A plan of 2,000 players, its game with direct own predictions, and what draws features."""
    plan = planned_like(name, 2000, score_weight=0.5)
    features = features_of(plan, None)[0]
    return plan, set_up_numbers(plan, assign_roles(None, 2000), features, runs=1).game, features


def scaled(own: Predictor, factor: float) -> Predictor:
    return lambda r, y, scale: factor * own(r, y, scale)


@pytest.mark.parametrize("name", RELEASES)
def test_one_crowd_serves_every_theta_as_the_estimator_would(name: str) -> None:
    """A(ZᵀXθ + Zᵀz) is what the same code makes of y = Xθ + z with the same noise, but for the grid."""
    plan, _, features = scene(name)
    mechanism, beliefs, rng = plan.number_mechanism, plan.study.beliefs, np.random.default_rng(0)
    X, z = features(rng, 300), beliefs.noise.sample(rng, 300)
    theta = beliefs.prior.sample(rng, beliefs.dimension, 1)
    found = [
        _without_one(
            mechanism,
            beliefs,
            grid_features(X),
            grid_responses(y, beliefs.response_bound),
            at,
            np.random.default_rng(1),
        )
        for y, at in ((z, theta), (X @ theta[0] + z, np.zeros_like(theta)))
    ]
    np.testing.assert_allclose(found[0].estimates, found[1].estimates, atol=1e-4)
    assert np.abs(found[0].estimates).max() > 0.01


@pytest.mark.parametrize("name", RELEASES)
def test_own_predictions_are_what_drawn_peers_predict_on_average(name: str) -> None:
    """To within the guaranteed gap and seven standard errors of 24 crowds: 4e-7 a person, 2e-5 for 40 of them."""
    plan, game, features = scene(name)
    rng, beliefs = np.random.default_rng(1), plan.study.beliefs
    x, theta = features(rng, 40), beliefs.prior.sample(rng, beliefs.dimension, 40)
    y = (x * theta).sum(axis=1) + beliefs.noise.sample(rng, 40)
    crowds, _ = draw_crowds(plan, features, rng)
    means, error = expect(beliefs, crowds, x, y, plan.number_mechanism.reach).mean(slice(None))
    q = game.own_prediction(x, y)
    assert np.all(np.abs(means - q) <= min(game.gap, 0.05) + 7 * error)
    assert np.median(error) < 0.02 * beliefs.radius
    assert np.abs(q).max() > 0.2 * beliefs.radius


@pytest.mark.slow
@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_errors_of_what_is_expected_are_the_real_ones(name: str) -> None:
    """Two parts of draws differ as their errors say: a standard deviation of √1.1, to 36 %. Five errors of it: 6e-7."""
    plan, _, features = scene(name)
    few, beliefs = planned_like(name, 60), plan.study.beliefs
    x, y = features(np.random.default_rng(0), 1), np.array([0.3])
    ratios = []
    for seed in range(100):
        crowds, _ = draw_crowds(few, features, np.random.default_rng(seed))
        found = expect(beliefs, crowds, x, y, plan.number_mechanism.reach)
        (one, off), (other, error) = (found.mean(slice(start, None, 2)) for start in (0, 1))
        ratios.append(float(one[0] - other[0]) / np.hypot(off[0], error[0]))
    assert np.sqrt(np.mean(np.square(ratios))) == pytest.approx(np.sqrt(1.1), rel=0.36)


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("factor", [1.0, 0.7, -1.0])
def test_the_search_finds_a_lie_that_pays_exactly_where_own_predictions_are_wrong(
    name: str, factor: float
) -> None:
    """Right ones are taken for wrong once in a thousand times; the paper's, and shrunken and turned ones are wrong."""
    plan, game, features = scene(name)
    wrong = replace(game, predictor=scaled(game.predictor, factor))
    ours, papers = best_responses(plan, wrong, features, np.random.default_rng(2))
    assert ours.pays == (factor != 1.0)
    assert papers.pays
    assert abs(papers.move.value) > 0.2 * plan.study.beliefs.radius
    if factor == 1.0:
        assert abs(ours.move.value) < 0.1 * plan.study.beliefs.radius


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_wrong_own_predictions_are_seen_in_whole_studies(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turned around they are seen in what is said and in the gap. Five standard errors of 60 studies: 1e-5."""

    def turned(plan: Plan, count: int, people: Floats | None = None) -> Predictor:
        return scaled(predictor_of(plan, count, people), factor)

    monkeypatch.setattr(simulation, "predictor_of", turned)
    seen = simulate(plan_of(DESIGNED, 1000), runs=120, seed=1)
    gap = seen.observed.truthfulness.gap
    assert (NONE in best_reports(seen)[0]) == (factor == 1.0)
    assert (abs(gap.value) > seen.guaranteed_gap + 5 * gap.error) == (factor != 1.0)


def test_answers_that_nobody_can_have_say_nothing() -> None:
    plan, _, features = scene("instruments")
    rng = np.random.default_rng(0)
    x, y = features(rng, 2), np.array([0.1, 50.0])
    crowds = draw_crowds(plan, features, rng)[0][:2]
    means, _ = expect(plan.study.beliefs, crowds, x, y, plan.number_mechanism.reach).mean(slice(None))
    assert np.isnan(means).tolist() == [False, True]

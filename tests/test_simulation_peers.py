"""What a player can expect of truthful peers, by drawing them; and that own predictions are held to it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from studies import CASES, DESIGNED, OBSERVED, planned

from truthful.agents import Game
from truthful.beliefs.beliefs import Predictor
from truthful.moments import grid_features, grid_responses, moments
from truthful.observations import best_reports
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.simulation import simulate, simulation
from truthful.simulation.cast import cast
from truthful.simulation.features import Features, features_of
from truthful.simulation.peers import drawn_halves, expected, linear
from truthful.simulation.predictors import Predictors, predictors
from truthful.simulation.responses import best_responses
from truthful.simulation.simulation import set_up
from truthful.study import Study

NONE = "no report was found that pays more than the truth"


@cache
def scene(estimator: str) -> tuple[Plan, Game, Features]:
    """A plan of 2,000 players, its game with direct own predictions, and what draws features."""
    text, parameters = CASES[estimator]
    study = Study.parse(DESIGNED if text == OBSERVED else text)
    plan = planned(study, 2000, estimator, **parameters)
    features = features_of(plan.study, None)[0]
    return plan, set_up(plan, cast(None, 2000), features, runs=1).game, features


def scaled(own: Predictor, factor: float) -> Predictor:
    return lambda r, y, scale: factor * own(r, y, scale)


@pytest.mark.parametrize("estimator", CASES)
def test_one_half_serves_every_theta_as_the_estimator_would(estimator: str) -> None:
    """A(XᵀXθ + Xᵀz) is what the estimator's own code makes of y = Xθ + z, but for the grid."""
    plan, _, features = scene(estimator)
    rng, beliefs, m = np.random.default_rng(0), plan.study.beliefs, 300
    X, z = features(rng, m), beliefs.noise.sample(rng, m)
    theta = beliefs.prior.sample(rng, beliefs.dimension, 1)[0]
    half, whole = (
        moments(grid_features(X), grid_responses(y, beliefs.response_bound)) for y in (z, X @ theta + z)
    )
    code, epsilon = plan.mechanism.half_estimator(beliefs), plan.mechanism.epsilon_peer
    *gram, cross = code.queries(whole)
    noisy = [fast_answer(rng)(query, epsilon * query.share) for query in gram]
    estimate = code.estimate([*noisy, cross.value], m, epsilon)
    A = linear(plan.mechanism, half, estimate)
    np.testing.assert_allclose(A @ (half.gram_float @ theta + half.cross_float), estimate.theta, atol=1e-4)


@pytest.mark.parametrize("estimator", CASES)
def test_own_predictions_are_what_drawn_peers_predict_on_average(estimator: str) -> None:
    """To within the guaranteed gap and seven standard errors of 24 halves: 4e-7 a person, 2e-5 for 40 of them."""
    plan, game, features = scene(estimator)
    rng, beliefs = np.random.default_rng(1), plan.study.beliefs
    x, theta = features(rng, 40), beliefs.prior.sample(rng, beliefs.dimension, 40)
    y = (x * theta).sum(axis=1) + beliefs.noise.sample(rng, 40)
    means, error = expected(beliefs, drawn_halves(plan, features, rng), x, y, clipped=True).mean(slice(None))
    q = game.own_prediction(x, y)
    assert np.all(np.abs(means - q) <= min(game.gap, 0.05) + 7 * error)
    assert np.median(error) < 0.02 * beliefs.radius
    assert np.abs(q).max() > 0.2 * beliefs.radius


@pytest.mark.slow
def test_errors_of_what_is_expected_are_the_real_ones() -> None:
    """Two parts of draws differ as their errors say: a standard deviation of √1.1, to 36 %. Five errors of it: 6e-7."""
    plan, _, features = scene("known-design")
    few, beliefs = planned(plan.study, 60), plan.study.beliefs
    x, y = features(np.random.default_rng(0), 1), np.array([0.3])
    ratios = []
    for seed in range(100):
        halves = drawn_halves(few, features, np.random.default_rng(seed))
        found = expected(beliefs, halves, x, y, clipped=True)
        (one, off), (other, error) = (found.mean(slice(start, None, 2)) for start in (0, 1))
        ratios.append(float(one[0] - other[0]) / np.hypot(off[0], error[0]))
    assert np.sqrt(np.mean(np.square(ratios))) == pytest.approx(np.sqrt(1.1), rel=0.36)


@pytest.mark.parametrize("estimator", CASES)
@pytest.mark.parametrize("factor", [1.0, 0.7, 0.3, -1.0])
def test_the_search_finds_a_lie_that_pays_exactly_where_own_predictions_are_wrong(
    estimator: str, factor: float
) -> None:
    """Right ones are taken for wrong once in a thousand times; the paper's, and shrunken and turned ones are wrong."""
    plan, game, features = scene(estimator)
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

    def turned(plan: Plan, count: int) -> Predictors:
        own = predictors(plan, count)
        return lambda m: scaled(own(m), factor)

    monkeypatch.setattr(simulation, "predictors", turned)
    seen = simulate(planned(Study.parse(DESIGNED), 1000), runs=120, seed=1)
    gap = seen.observed.truthfulness.gap
    assert (NONE in best_reports(seen)[0]) == (factor == 1.0)
    assert (abs(gap.value) > seen.guaranteed_gap + 5 * gap.error) == (factor != 1.0)


def test_answers_that_nobody_can_have_say_nothing() -> None:
    plan, _, features = scene("known-design")
    rng = np.random.default_rng(0)
    x, y = features(rng, 2), np.array([0.1, 50.0])
    halves = drawn_halves(plan, features, rng)[:2]
    means, _ = expected(plan.study.beliefs, halves, x, y, clipped=True).mean(slice(None))
    assert np.isnan(means).tolist() == [False, True]

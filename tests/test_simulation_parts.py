"""The parts of a simulated study, against plain numpy and the laws they draw from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.laboratory import plan_of, planned_like
from support.studies import DESIGNED, UNIT_BALL

from truthful.beliefs import Beliefs, Clipped
from truthful.beliefs.laws import Noise, NormalBall, Prior, TruncatedNormal, UniformBall, UniformNoise
from truthful.check import Floats
from truthful.moments import GRID
from truthful.simulation.population import assign_roles, features_of, sampler
from truthful.simulation.predictors import TOLERANCE, PredictorTable, own_predictor
from truthful.simulation.runs import NumberContext
from truthful.simulation.simulation import set_up_numbers

N = 1000


@pytest.mark.parametrize(
    "text", [DESIGNED, UNIT_BALL, DESIGNED.replace('currency = "USD"', 'currency = "USD"\nintercept = false')]
)
def test_features_are_what_the_design_draws(text: str) -> None:
    plan = plan_of(text)
    draw, _ = features_of(plan, None)
    raw = plan.study.sample_features(np.random.default_rng(8), N)
    np.testing.assert_allclose(
        draw(np.random.default_rng(8), N), plan.study.normalise(raw, N), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("law", [TruncatedNormal(0.5, sd) for sd in (0.05, 0.25, 5.0)] + [UniformNoise(0.5)])
def test_noise_is_what_its_law_draws(law: Noise) -> None:
    drawn, wanted = (draw(np.random.default_rng(5), 50_000) for draw in (sampler(law), law.sample))
    np.testing.assert_allclose(drawn, wanted, rtol=1e-13)
    assert np.abs(drawn).max() <= law.bound


def stage_of(text: str, agents: dict[Any, float] | None = None, n: int = N) -> NumberContext:
    plan = plan_of(text, n)
    return set_up_numbers(plan, assign_roles(agents, n), features_of(plan, None)[0], runs=1)


@pytest.mark.parametrize("text", [DESIGNED, UNIT_BALL])
def test_cells_are_by_main_feature_and_answer_and_the_target_has_her_own(text: str) -> None:
    stage = stage_of(text)
    *_, players = stage.draw(np.random.default_rng(6))
    cells, start, typical = stage.cells_of(players), int(text == DESIGNED), stage.typical_answer
    nearest = int(np.linalg.norm(players.x - stage.game.target, axis=1).argmin())
    assert cells[nearest] == stage.cells - 1
    for player in set(range(N)) - {nearest}:
        varying, y = players.x[player, start:], players.y[player]
        main = int(np.abs(varying).argmax())
        signs = (varying[main] > 0, y > 0, abs(y) > typical)
        assert cells[player] == 8 * main + 4 * signs[0] + 2 * signs[1] + signs[2]
    assert cells.max() < stage.cells


@pytest.mark.parametrize("name", ["influential", "targeting"])
def test_those_who_can_do_most_harm_have_the_greatest_costs_and_all_the_same_costs(name: str) -> None:
    """Costs are the ones that are drawn, in another order, and only among those who play that role."""
    worst, honest = stage_of(UNIT_BALL, {name: 0.5}), stage_of(UNIT_BALL)
    (*_, some), (*_, plain) = (stage.draw(np.random.default_rng(3)) for stage in (worst, honest))
    np.testing.assert_array_equal(np.sort(some.costs), np.sort(plain.costs))
    np.testing.assert_array_equal(some.costs[N // 2 :], plain.costs[N // 2 :])
    half = some[slice(0, N // 2)]
    weights = worst.roles[0].agent.weights(half.x, worst.game)
    assert weights is not None
    order = np.argsort(-weights, kind="stable")
    assert np.all(np.diff(half.costs[order]) <= 0)


@pytest.mark.parametrize("name", ["instruments", "known-design", "noisy-statistics"])
def test_what_others_predict_on_average_is_the_mean_over_the_noise(name: str) -> None:
    """Settled many times with the same answers. Five standard errors of each of 30 people: 2e-5.

    `noisy-statistics` draws a matrix too: of that it is the mean given the matrix, and only compared in one study.
    """
    plan = planned_like(name, 80, epsilon=3.0, clip=0.3)
    stage = set_up_numbers(plan, assign_roles(None, 80), features_of(plan, None)[0], runs=10**6)
    *_, players = stage.draw(np.random.default_rng(1))
    who, said = np.arange(30), np.trunc(players.y[:30] * GRID) / GRID
    runs = [stage.settle(players.x, players.y[None], np.random.default_rng(seed)) for seed in range(400)]
    p, means = np.array([run.p[who] for run in runs]), np.array([run.expected(who) for run in runs])
    error = (p - means).std(axis=0) / np.sqrt(len(runs))
    assert np.all(np.abs((p - means).mean(axis=0)) <= 5 * error)
    assert (means.std(axis=0).max() < 1e-12) == (name != "noisy-statistics")
    np.testing.assert_array_equal(runs[0].own(who, said), runs[0].q[who])


def test_a_report_moves_her_own_prediction_and_not_what_others_predict() -> None:
    """The same noise, one report changed: p of that player is the same, q is not."""
    stage = stage_of(DESIGNED, n=60)
    *_, players = stage.draw(np.random.default_rng(2))
    reports = players.y.copy()
    reports[7] = -reports[7]
    one, other = (
        stage.settle(players.x, said[None], np.random.default_rng(4)) for said in (players.y, reports)
    )
    assert one.p[7] == pytest.approx(other.p[7], abs=1e-12)
    assert abs(one.q[7] - other.q[7]) > 1e-3
    assert np.abs(np.delete(one.p - other.p, 7)).max() > 1e-4


# The table of own predictions


BELIEFS = [
    (UniformBall(1.0), TruncatedNormal(1.0, 0.5), 3),
    (UniformBall(0.6), TruncatedNormal(0.4, 0.2), 5),
    (NormalBall(0.6, 0.2), TruncatedNormal(0.4, 0.1), 2),
    (UniformBall(0.6), UniformNoise(0.4), 10),
    (UniformBall(0.3), UniformNoise(0.7), 1),
]


@pytest.mark.parametrize(("prior", "noise", "d"), BELIEFS)
@pytest.mark.parametrize("clip", [1.0, 0.4])
def test_a_table_is_direct_quadrature_to_its_tolerance(
    prior: Prior, noise: Noise, d: int, clip: float
) -> None:
    """At points that were not tried when it was built, at both edges of answers and lengths, and outside."""
    beliefs = Beliefs(d, prior, noise)
    curve, rng = Clipped(clip * beliefs.radius, d), np.random.default_rng(9)
    own = own_predictor(beliefs, curve, 0.05, 0.15)
    r, scale = rng.random(400), rng.uniform(0.05, 0.15, 400)
    y = rng.uniform(-1, 1, 400) * (beliefs.radius * r + noise.bound)
    r[:4], y[4:8], scale[8:12] = (0.0, 1e-9, 1.0, 1.0), (0.0, -0.0, 5.0, -5.0), (0.01, 0.05, 0.15, 1.0)
    wanted = beliefs.prediction(r, y, curve, scale)
    np.testing.assert_allclose(own(r, y, scale), wanted, rtol=0, atol=2 * TOLERANCE)


@pytest.mark.slow
def test_a_table_that_is_not_exact_enough_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that tell nearly everything: q is as steep as the clip, and the coarsest table is far off."""
    # Finer ones take long, and are off too.
    monkeypatch.setattr("truthful.simulation.predictors.MOST_ANSWERS", 65)
    beliefs = Beliefs(2, UniformBall(1.0), TruncatedNormal(1.0, 0.01))
    curve, r = Clipped(0.3, 2), np.full(50, 0.9)
    y: Floats = np.linspace(-0.5, 0.5, 50)
    assert PredictorTable.of(beliefs, curve, 0.001, 0.002, 65).error() > TOLERANCE
    found = own_predictor(beliefs, curve, 0.001, 0.002)(r, y, np.full(50, 0.0015))
    np.testing.assert_allclose(found, beliefs.prediction(r, y, curve, 0.0015), rtol=0, atol=2 * TOLERANCE)

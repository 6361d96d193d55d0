"""The compiled parts of a simulated study, against the code that settles real ones and against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from studies import CASES, DESIGNED, UNIT_BALL

from truthful.agents import Players
from truthful.beliefs import Beliefs
from truthful.beliefs.curves import Clipped
from truthful.beliefs.laws import Noise, TruncatedNormal, UniformBall, UniformNoise
from truthful.beliefs.packed import PLANE
from truthful.beliefs.table import prediction_table
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.mechanism import private_estimates
from truthful.moments import GRID, grid_features, grid_responses, group_moments
from truthful.payments import lengths, peer_prediction
from truthful.plan import design
from truthful.regression import fast_answer
from truthful.simulation.answers import sampler
from truthful.simulation.cells import cells_of
from truthful.simulation.drawing import Drawing
from truthful.simulation.features import features_of
from truthful.simulation.halves import predicted, sorted_halves
from truthful.simulation.one_scale import table_at
from truthful.simulation.sums import sums
from truthful.study import Study

N, D = 1000, 3


def records(seed: int, longest: float = 1.0, largest: float = 1.5) -> tuple[Floats, Floats, Any]:
    """Features up to some length, reports up to some size, and halves."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D))
    x *= longest * rng.random((N, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
    return x, rng.uniform(-largest, largest, N), rng.integers(0, 2, size=N, dtype=np.uint8)


@pytest.mark.parametrize(("longest", "bound"), [(1.0, 1.0), (1.5, 2.0), (1.0, 200.0)])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_halves_are_those_of_a_settlement(longest: float, bound: float, layout: Any) -> None:
    """To the bit, features beyond the ball and reports beyond their bound included."""
    x, y, groups = records(1, longest, 1.2 * bound)
    found = sorted_halves(np.array(x, order=layout), y, groups, bound)
    kx, ky = grid_features(x), grid_responses(y, bound)
    assert found.moments == group_moments(kx, ky, groups)
    np.testing.assert_array_equal(found.k, np.vstack([kx.T, ky])[:, found.order])
    for group, place in enumerate(found.places):
        np.testing.assert_array_equal(found.order[place], np.flatnonzero(groups == group))


@pytest.mark.parametrize("groups", [np.zeros(5, np.uint8), np.ones(5, np.uint8), np.zeros(0, np.uint8)])
def test_a_half_may_be_empty(groups: Any) -> None:
    n = len(groups)
    found = sorted_halves(np.full((n, 2), 0.5), np.ones(n), groups, 1.0)
    assert [half.count for half in found.moments] == [n - groups.sum(), groups.sum()]


@pytest.mark.parametrize("payments", ["never-negative", "expected"])
def test_peers_predict_what_they_do_in_a_settlement(payments: str) -> None:
    plan = design(Study.parse(UNIT_BALL), players=N, epsilon=2.0, score_weight=0.2, payments=payments)
    x, y, groups = records(2)
    x, theta = x[:, :2], np.array([1.4, -0.3])
    found, R = sorted_halves(x, y, groups, 2.0), 1.0 if payments == "never-negative" else np.inf
    for place in found.places:
        r, reports, p = np.empty((3, place.stop - place.start))
        predicted(found.k, place.start, place.stop, theta, R, r, reports, p)
        on_grid = found.k[:-1, place].T / GRID
        np.testing.assert_allclose(r, lengths(on_grid), rtol=1e-14)
        np.testing.assert_array_equal(reports, found.k[-1, place] / GRID)
        estimate = Estimate(theta, np.eye(2), 0.1)
        wanted = peer_prediction(plan.mechanism, plan.study.beliefs, estimate, on_grid, r)
        np.testing.assert_allclose(p, wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_estimates_are_drawn_as_for_research(name: str) -> None:
    """The same random numbers give the same estimates, but for the rounding of noise to a lattice."""
    text, parameters = CASES[name]
    plan = design(
        Study.parse(text),
        players=N,
        epsilon=2.0,
        score_weight=0.2,
        absent_share=0.002,
        estimator=name,
        **parameters,  # type: ignore[arg-type]
    )
    beliefs, d = plan.study.beliefs, plan.study.dimension
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (N, d)) / np.sqrt(d)
    groups = rng.integers(0, 2, size=N, dtype=np.uint8)
    halves = group_moments(
        grid_features(x), grid_responses(x @ np.full(d, 0.3), beliefs.response_bound), groups
    )
    drawn = Drawing.of(plan).draw(halves, np.random.default_rng(4))
    wanted = private_estimates(halves, plan.mechanism, beliefs, fast_answer(np.random.default_rng(4)))
    ours, theirs = ((drawn.estimates.public, *drawn.estimates.peers), (wanted.public, *wanted.peers))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.theta, other.theta, rtol=1e-10)
        np.testing.assert_allclose(mine.spread, other.spread)
        assert mine.scale == pytest.approx(other.scale)


@pytest.mark.parametrize(
    "text", [DESIGNED, UNIT_BALL, DESIGNED.replace('currency = "USD"', 'currency = "USD"\nintercept = false')]
)
def test_features_are_what_the_design_draws(text: str) -> None:
    study = Study.parse(text)
    draw, _ = features_of(study, None)
    raw = study.sample_features(np.random.default_rng(8), N)
    np.testing.assert_allclose(
        draw(np.random.default_rng(8), N), study.normalise(raw, N), rtol=1e-12, atol=1e-15
    )


@pytest.mark.parametrize("law", [TruncatedNormal(0.5, sd) for sd in (0.05, 0.25, 5.0)] + [UniformNoise(0.5)])
def test_noise_is_what_its_law_draws(law: Noise) -> None:
    drawn, wanted = (draw(np.random.default_rng(5), 50_000) for draw in (sampler(law), law.sample))
    np.testing.assert_allclose(drawn, wanted, rtol=1e-13)
    assert np.abs(drawn).max() <= law.bound


@pytest.mark.parametrize("intercept", [True, False])
def test_cells_are_by_main_feature_and_answer(intercept: bool) -> None:
    x, y, _ = records(6)
    cells = cells_of(Players(x, y, np.ones(N)), intercept, 0.7)
    for player, cell in enumerate(cells.tolist()):
        varying = x[player, int(intercept) :]
        main = int(np.abs(varying).argmax())
        signs = (varying[main] > 0, y[player] > 0, abs(y[player]) > 0.7)
        assert cell == 8 * main + 4 * signs[0] + 2 * signs[1] + signs[2]


@pytest.mark.parametrize("scale", [0.101, 0.2, 0.399])
def test_a_table_of_one_scale_is_that_of_many_there(scale: float) -> None:
    """To the bound of the table's own error, against direct quadrature; and it has indeed one scale."""
    beliefs, curve, rng = (
        Beliefs(3, UniformBall(1.0), TruncatedNormal(1.0, 0.5)),
        Clipped(1.0, 3),
        np.random.default_rng(9),
    )
    one = table_at(prediction_table(beliefs, curve, 0.1, 0.4), scale)
    r, y, scales = rng.random(500), rng.uniform(-2, 2, 500), np.full(500, scale)
    assert one.coefficients.shape[1] == PLANE
    np.testing.assert_allclose(one(r, y, scales), beliefs.prediction(r, y, curve, scales), rtol=0, atol=1e-9)


def test_sums_are_those_of_numpy() -> None:
    rng = np.random.default_rng(7)
    order, kinds, values = (
        rng.permutation(N).astype(np.uint32),
        rng.integers(0, 5, N).astype(np.uint16),
        rng.random((3, N)),
    )
    count, *found = sums(order, kinds, 6, *values)
    np.testing.assert_array_equal(count, np.bincount(kinds, minlength=6))
    for one, total in zip(values, found, strict=True):
        np.testing.assert_allclose(total, np.bincount(kinds[order], weights=one, minlength=6))

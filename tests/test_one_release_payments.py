"""What everybody is paid from one release: predictions without her own report, and payments within their bounds."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truthful.beliefs import MANY_PLAYERS, Beliefs
from truthful.beliefs.laws import NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.check import Floats
from truthful.instruments import best_transform, shorten
from truthful.moments import (
    GRID,
    PRODUCT,
    Transform,
    grid_features,
    grid_responses,
    instruments_on_grid,
    sums,
)
from truthful.one_release import LeaveOneOut, OneRelease, Paymaster, noise_range, paymaster, payment_range
from truthful.scoring import PAYMENT_STEPS, RULES
from truthful.study import Study

GOLDEN = json.loads((Path(__file__).parent / "golden" / "one_release.json").read_text())
BELIEFS = Beliefs(3, UniformBall(0.6), UniformNoise(0.8))
ESTIMATORS = ("instruments", "known-design", "noisy-statistics")


def mechanism_of(estimator: str, transform: Transform | None = None, **changes: Any) -> OneRelease:
    given: dict[str, Any] = {"epsilon": 1.0, "base_payment": 0.2, "score_weight": 0.7, "clip": 0.4, **changes}
    if estimator == "instruments":
        given["transform"] = transform
    if estimator == "known-design":
        given["design"] = np.eye(3) / 5
    return OneRelease(estimator=estimator, **given)


def people(n: int, d: int = 3, seed: int = 0) -> tuple[Floats, Floats, Transform]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 0.4
    X[:, 0] = 0.5
    kx = grid_features(X)
    return kx, grid_responses(rng.uniform(-1.4, 1.4, n), 1.4), shorten(X, best_transform(X), 0.7)


def released(
    mechanism: OneRelease, kx: Floats, ky: Floats, beliefs: Beliefs = BELIEFS, seed: int = 0
) -> LeaveOneOut:
    """The estimate from sums with some noise."""
    rng = np.random.default_rng(seed)
    total = sums(kx, ky, mechanism.transform)
    answers = [
        [value + int(rng.normal() * 1e11) for value in query.value]
        for query in mechanism.queries(total, beliefs)
    ]
    return mechanism.estimate(answers, len(ky), beliefs, total.matrix)


def unclipped(mechanism: OneRelease, kx: Floats, ky: Floats) -> Paymaster:
    """A paymaster who shows predictions as they are."""
    free = OneRelease(**{**vars(mechanism), "payments": "expected"})
    return paymaster(free, BELIEFS, released(free, kx, ky), len(ky))


def solved(matrix: list[list[Fraction]], vector: list[Fraction]) -> list[Fraction]:
    """Gauss's elimination in rationals."""
    d = len(vector)
    rows = [[*row, value] for row, value in zip(matrix, vector, strict=True)]
    for i in range(d):
        pivot = next(j for j in range(i, d) if rows[j][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(d):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[d] for row in rows]


def test_the_golden_example() -> None:
    """Twelve people in exact arithmetic, made by others."""
    transform = tuple(map(tuple, GOLDEN["transform"]))
    kx = np.array([person["kx"] for person in GOLDEN["people"]], dtype=np.float64)
    ky = np.array([person["ky"] for person in GOLDEN["people"]], dtype=np.float64)
    kz = np.array([person["kz"] for person in GOLDEN["people"]], dtype=np.float64)
    np.testing.assert_array_equal(instruments_on_grid(kx, transform), kz)
    total = sums(kx, ky, transform)
    assert [[str(k) for k in row] for row in total.matrix] == GOLDEN["matrix"]
    assert [str(k) for k in total.vector] == GOLDEN["vector"]
    mechanism = mechanism_of("instruments", transform, payments="expected")
    estimate = mechanism.estimate([[int(k) for k in GOLDEN["released"]]], len(ky), BELIEFS, total.matrix)
    np.testing.assert_allclose(estimate.theta, GOLDEN["theta"], rtol=0, atol=1e-12)
    scored = paymaster(mechanism, BELIEFS, estimate, len(ky)).score_players(kx, ky)
    for name, field in (("leverage", "leverage"), ("peer_prediction", "peer_prediction")):
        expected = [person[name] for person in GOLDEN["people"]]
        np.testing.assert_allclose(getattr(scored, field), expected, rtol=0, atol=1e-12)
    factors = [person["noise_factor"] for person in GOLDEN["people"]]
    np.testing.assert_allclose(scored.noise_scale / estimate.scale, factors, rtol=1e-12)


@pytest.mark.parametrize("instruments", [True, False])
def test_predictions_are_those_of_a_fit_without_her(instruments: bool) -> None:
    """For every one of forty, in rationals, from sums that she is no part of and the same noise."""
    kx, ky, T = people(40)
    transform = T if instruments else None
    noise = [3 * 10**10, -2 * 10**10, 10**9]
    total = sums(kx, ky, transform)
    kz = instruments_on_grid(kx, transform)
    inverse = np.linalg.inv((total.matrix / PRODUCT).astype(np.float64))
    vector = [int(b) + k for b, k in zip(total.vector, noise, strict=True)]
    estimate = LeaveOneOut(
        inverse @ np.array([b / PRODUCT for b in vector]),
        inverse,
        0.1,
        transform,
        None,
        total.matrix,
        tuple(vector),
    )
    mechanism = mechanism_of("instruments", T, payments="expected")
    scored = paymaster(mechanism, BELIEFS, estimate, len(ky)).score_players(kx, ky)
    x, y, z = (np.array([[int(v) for v in row] for row in k], dtype=object) for k in (kx, ky[:, None], kz))
    for i in range(len(ky)):
        left = np.arange(len(ky)) != i
        matrix = [[Fraction(v) for v in row] for row in z[left].T @ x[left]]
        others = [Fraction(int(v) + k) for v, k in zip((z[left].T @ y[left])[:, 0], noise, strict=True)]
        theta = solved(matrix, others)
        p = sum(Fraction(int(v), GRID) * t for v, t in zip(x[i], theta, strict=True))
        assert abs(float(p) - scored.peer_prediction[i]) < 1e-12
    assert scored.leverage.min() >= 0
    assert scored.leverage.sum() == pytest.approx(3, abs=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    own=st.floats(-1.4, 1.4),
    other=st.floats(-1.4, 1.4),
    i=st.integers(0, 59),
    estimator=st.sampled_from(ESTIMATORS),
)
def test_her_own_report_moves_her_prediction_by_nothing(
    own: float, other: float, i: int, estimator: str
) -> None:
    """With the same noise; the release itself moves."""
    kx, ky, T = people(60)
    found = []
    for report in (own, other):
        ky[i] = grid_responses([report], 1.4)[0]
        scored = unclipped(mechanism_of(estimator, T), kx, ky).score_players(kx, ky)
        found.append((scored.peer_prediction[i], scored.leverage[i], scored.noise_scale[i]))
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_number_is_that_of_the_formula(estimator: str, rule: str) -> None:
    """One player at a time, in Python's floats."""
    kx, ky, T = people(50)
    mechanism = mechanism_of(estimator, T, rule=rule)
    estimate = released(mechanism, kx, ky)
    scored = paymaster(mechanism, BELIEFS, estimate, len(ky)).score_players(kx, ky)
    kz = instruments_on_grid(kx, mechanism.transform)
    for i, (x, y, z) in enumerate(zip(kx / GRID, ky / GRID, kz / GRID, strict=True)):
        w, r = estimate.inverse.T @ x, float(np.linalg.norm(x))
        h = w @ z
        kept = 1 - h if estimate.kept is None else estimate.kept
        p = float(np.clip((x @ estimate.theta - h * y) / kept, -0.4 * r, 0.4 * r))
        t = estimate.scale * np.linalg.norm(w) / kept
        q = float(BELIEFS.prediction(r, y, mechanism.curve(BELIEFS), t / r))
        base = float(mechanism.base(np.array([r]))[0])
        assert base == pytest.approx(max(0.2, 0.7 * RULES[rule].loss(0.4 * r)), rel=1e-14)
        exact = float(RULES[rule](p, q, a=base, b=0.7))
        numbers = (
            scored.leverage[i],
            scored.peer_prediction[i],
            scored.noise_scale[i],
            scored.own_prediction[i],
        )
        np.testing.assert_allclose(numbers, np.array([h, p, t, q]), rtol=1e-11, atol=1e-13)
        assert -1e-9 <= exact - scored.payment[i] <= 1e-6 + 1e-9
        assert round(scored.payment[i] * PAYMENT_STEPS) / PAYMENT_STEPS == scored.payment[i]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_whatever_people_report_payments_stay_in_their_range(data: st.DataObject) -> None:
    estimator, rule = data.draw(st.sampled_from(ESTIMATORS)), data.draw(st.sampled_from(sorted(RULES)))
    a, b = data.draw(st.floats(0, 2)), data.draw(st.floats(0, 3))
    clip = data.draw(st.floats(0.01, 0.6))
    kx, _, T = people(30, seed=data.draw(st.integers(0, 50)))
    y = data.draw(
        st.lists(st.sampled_from([-1.4, 1.4, 0.0]) | st.floats(-1.4, 1.4), min_size=30, max_size=30)
    )
    ky = grid_responses(y, 1.4)
    mechanism = mechanism_of(estimator, T, base_payment=a, score_weight=b, clip=clip, rule=rule)
    scored = paymaster(mechanism, BELIEFS, released(mechanism, kx, ky), 30).score_players(kx, ky)
    r = np.linalg.norm(kx / GRID, axis=1)
    most = mechanism.base(r) + b * np.array([RULES[rule].gain(clip * length) for length in r])
    assert (scored.payment >= 0).all()
    assert (scored.payment <= most * (1 + 1e-12)).all()
    low, high = payment_range(mechanism)
    assert ((low <= scored.payment) & (scored.payment <= high)).all()
    assert (np.abs(scored.peer_prediction) <= clip * r).all()
    assert (np.abs(scored.own_prediction) <= clip * r * (1 + 1e-9)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
def test_nothing_is_said_of_somebody_without_features(estimator: str, payments: str) -> None:
    """x = 0: nothing can be predicted, and the base is paid."""
    kx, ky, T = people(40)
    kx[7] = 0.0
    mechanism = mechanism_of(estimator, T, payments=payments)
    scored = paymaster(mechanism, BELIEFS, released(mechanism, kx, ky), 40).score_players(kx, ky)
    for values in (scored.leverage, scored.noise_scale, scored.peer_prediction, scored.own_prediction):
        assert values[7] == 0.0
    assert scored.payment[7] == mechanism.base_payment
    assert all(np.isfinite(values).all() for values in vars(scored).values())


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_range_of_noise_holds_everybody(estimator: str) -> None:
    for n in (20, 200):
        kx, ky, T = people(n, seed=n)
        estimate = released(mechanism_of(estimator, T), kx, ky)
        scored = paymaster(mechanism_of(estimator, T), BELIEFS, estimate, n).score_players(kx, ky)
        low, high = noise_range(estimate)
        along = scored.noise_scale / np.linalg.norm(kx / GRID, axis=1)
        assert low * (1 - 1e-12) <= along.min()
        assert along.max() <= high * (1 + 1e-12)


DECLARED = """
name = "Declared"
currency = "USD"
[response]
name = "spend"
low = 0
high = 200
[[features]]
name = "price"
low = 1
high = 5
[[features]]
name = "region"
levels = ["north", "south", "east"]
[design]
kind = "uniform"
[beliefs]
signal = 0.6
[beliefs.centre]
price = 2.0
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
BALL = """
name = "Ball"
currency = "EUR"
intercept = false
[response]
name = "y"
low = -2
high = 2
[[features]]
name = "x1"
[[features]]
name = "x2"
[design]
kind = "unit-ball"
[beliefs]
radius = 1.0
noise_bound = 1.0
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


@pytest.mark.parametrize("text", [DECLARED, BALL])
@pytest.mark.parametrize("with_instruments", [True, False])
def test_nobody_s_score_depends_on_her_neighbours(text: str, with_instruments: bool) -> None:
    study, rng, n = Study.parse(text), np.random.default_rng(3), 3_000
    values: dict[str, Any] = {
        feature.name: rng.integers(0, len(feature.levels), n)
        if feature.levels
        else rng.uniform(feature.low if feature.low is not None else -0.7, feature.high or 0.7, n)
        for feature in study.features
    }
    values[study.response.name] = rng.uniform(study.response.low, study.response.high, n)
    features = study.normalise(values, n)
    kx = grid_features(features)
    response = study.normalise_response(values[study.response.name], features)
    ky = grid_responses(response, study.believed.response_bound)
    X = kx / GRID
    mechanism = OneRelease(
        epsilon=1.0,
        base_payment=0.2,
        score_weight=0.7,
        clip=study.beliefs.radius / 2,
        estimator="instruments" if with_instruments else "noisy-statistics",
        transform=shorten(X, best_transform(X), 0.7) if with_instruments else None,
    )
    master = paymaster(mechanism, study.beliefs, released(mechanism, kx, ky, study.beliefs), n)
    whole = vars(master.score_players(kx, ky))
    for rows in (slice(0, 1), slice(7, 8), slice(500, 2_017), slice(2_990, n)):
        for name, column in vars(master.score_players(kx[rows], ky[rows])).items():
            np.testing.assert_array_equal(column, whole[name][rows])


@pytest.mark.slow
@pytest.mark.parametrize("beliefs", [BELIEFS, Beliefs(3, NormalBall(0.6, 0.2), TruncatedNormal(0.8, 0.4))])
def test_a_table_for_very_many_says_what_integration_says(beliefs: Beliefs) -> None:
    kx, ky, T = people(2_000)
    mechanism = mechanism_of("instruments", T, epsilon=0.05)
    estimate = released(mechanism, kx, ky, beliefs)
    few, many = (paymaster(mechanism, beliefs, estimate, n) for n in (len(ky), MANY_PLAYERS + 1))
    direct, looked_up = few.score_players(kx, ky), many.score_players(kx, ky)
    np.testing.assert_allclose(looked_up.own_prediction, direct.own_prediction, rtol=0, atol=1e-9)
    assert np.abs(looked_up.payment - direct.payment).max() <= 1.5 / PAYMENT_STEPS

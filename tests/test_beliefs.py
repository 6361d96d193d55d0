from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_beliefs import dense_mean, own_prediction

from truthful import beliefs as module
from truthful.beliefs import Beliefs
from truthful.beliefs.laws import (
    IDENTITY,
    Clipped,
    Curve,
    CustomNoise,
    NormalBall,
    Prior,
    Shrunk,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
)
from truthful.errors import InputError
from truthful.study.sections import NARROWEST

GOLDEN = json.loads((Path(__file__).parent / "golden" / "own_prediction.json").read_text())

LOG_CONCAVE = st.builds(
    Beliefs,
    dimension=st.integers(1, 100),
    prior=st.one_of(
        st.builds(UniformBall, st.floats(0.1, 3)),
        st.builds(NormalBall, st.floats(0.1, 3), st.floats(0.02, 9)),
    ),
    noise=st.one_of(
        st.builds(UniformNoise, st.floats(0.1, 3)),
        st.builds(TruncatedNormal, st.floats(0.1, 3), st.floats(0.02, 9)),
    ),
)
KINKED = CustomNoise(0.6, lambda z: 0.7 - np.abs(z))


def golden_beliefs(row: dict[str, Any]) -> Beliefs:
    uniform_prior, uniform_noise = row["prior"] == "uniform-ball", row["noise"] == "uniform"
    return Beliefs(
        dimension=row["d"],
        prior=UniformBall(row["R"]) if uniform_prior else NormalBall(row["R"], row["prior_sd"]),
        noise=UniformNoise(row["M"]) if uniform_noise else TruncatedNormal(row["M"], row["noise_sd"]),
    )


def test_own_prediction_agrees_with_every_reference_value() -> None:
    assert len(GOLDEN) == 384
    errors = [
        abs(float(golden_beliefs(row).prediction(row["r"], row["y"])) - float(row["q"])) for row in GOLDEN
    ]
    assert max(errors) < 1e-13


def random_case(rng: np.random.Generator) -> tuple[Beliefs, float, float]:
    """Beliefs from tame to extreme, and a report anywhere, with a liking for edges and for small ‖x‖."""
    R, M = float(rng.choice([0.01, 0.5, 1, 3, 30])), float(rng.choice([0.001, 0.1, 1, 10]))
    wide = 10.0 ** rng.uniform(-3, 1, 2)
    prior: Prior = UniformBall(R) if rng.random() < 0.5 else NormalBall(R, R * wide[0])
    noise = UniformNoise(M) if rng.random() < 0.4 else TruncatedNormal(M, M * wide[1])
    r = min(1.0, float(rng.choice([1e-6, 1e-3, 0.05, 0.3, 0.7, 1.0, M / R * (1 - 1e-9), M / R * (1 + 1e-9)])))
    edge, near = R * r + M, 10.0 ** rng.uniform(-14, -1)
    y = rng.choice(
        [rng.uniform(-edge, edge), edge * (1 - near), abs(M - r * R), edge - R * r * near, R * r * 0.8]
    )
    return Beliefs(int(rng.choice([1, 2, 3, 5, 50, 100])), prior, noise), r, float(y)


def test_own_prediction_agrees_with_slow_integration_for_nasty_beliefs() -> None:
    rng = np.random.default_rng(2)
    for _ in range(120):
        beliefs, r, y = random_case(rng)
        q = float(beliefs.prediction(r, y))
        assert q == pytest.approx(own_prediction(beliefs, r, y), abs=1e-12 * max(1, beliefs.radius)), (
            beliefs,
            r,
            y,
        )


@pytest.mark.parametrize("dimension", [1, 2, 6])
@pytest.mark.parametrize("noise", [UniformNoise(0.6), TruncatedNormal(0.6, 0.1), KINKED])
@pytest.mark.parametrize(
    ("curve", "scale"), [(Shrunk(0.8), 0.0), (Clipped(0.8, 4), 0.01), (Clipped(0.8, 4, 0.9), 2.0)]
)
def test_every_curve_and_noise_agrees_with_a_dense_rule(
    dimension: int, noise: CustomNoise, curve: Curve, scale: float
) -> None:
    beliefs = Beliefs(dimension, UniformBall(0.8), noise)
    r, share = np.array([0.05, 0.4, 0.8, 1.0]), np.array([0.1, 0.7, 0.99, 0.3])
    y = share * (0.8 * r + 0.6)
    exact = [a * dense_mean(beliefs, a, b, curve, scale) for a, b in zip(r, y, strict=True)]
    np.testing.assert_allclose(beliefs.prediction(r, y, curve, scale), exact, atol=2e-11)


@given(LOG_CONCAVE, st.floats(1e-6, 1))
def test_own_prediction_is_odd_and_rises_with_the_report(beliefs: Beliefs, r: float) -> None:
    y = np.linspace(0, 1.2, 21) * (beliefs.radius * r + beliefs.noise_bound)
    q = beliefs.prediction(r, y)
    np.testing.assert_array_equal(beliefs.prediction(r, -y), -q)
    assert np.all(np.diff(q) >= -1e-12)
    assert np.abs(q).max() <= beliefs.radius * r * (1 + 1e-12)


@given(LOG_CONCAVE, st.floats(1e-9, 1))
def test_at_the_edge_there_is_one_truth_left(beliefs: Beliefs, r: float) -> None:
    edge = beliefs.radius * r + beliefs.noise_bound
    impossible = np.array([edge, -edge, 1.5 * edge, -1e6])
    np.testing.assert_allclose(
        beliefs.prediction(r, impossible), np.array([1, -1, 1, -1]) * r * beliefs.radius, rtol=1e-7
    )
    just_inside = beliefs.prediction(r, edge - beliefs.radius * r * 1e-9)
    assert just_inside == pytest.approx(r * beliefs.radius, rel=1e-8)


@pytest.mark.parametrize(
    "beliefs",
    [
        Beliefs(3, UniformBall(0.6), TruncatedNormal(0.4, NARROWEST * 0.4)),
        Beliefs(2, NormalBall(0.6, NARROWEST * 0.6), TruncatedNormal(0.4, NARROWEST * 0.4)),
    ],
    ids=["uniform", "normal"],
)
def test_the_narrowest_laws_a_study_may_declare_keep_nine_digits(beliefs: Beliefs) -> None:
    for r, share in [(0.05, 0.3), (0.7326, 0.55), (1.0, 0.9)]:
        y = share * (0.6 * r + 0.4)
        assert float(beliefs.prediction(r, y)) == pytest.approx(own_prediction(beliefs, r, y), abs=1e-9)


def test_features_of_length_zero_say_nothing() -> None:
    beliefs = Beliefs(2, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    np.testing.assert_array_equal(beliefs.own_prediction(np.zeros((2, 2)), [0.3, 5.0]), [0.0, 0.0])
    tiny = beliefs.prediction(1e-200, 0.3)
    assert abs(tiny) < 1e-210


def test_own_prediction_is_calibrated() -> None:
    """E[(θ·x - q) h(y)] = 0 for every h; three of them, at five standard errors: false alarm 2e-6 in all."""
    rng, n = np.random.default_rng(3), 40_000
    beliefs = Beliefs(3, NormalBall(1.0, 0.5), TruncatedNormal(0.7, 0.3))
    theta, X = beliefs.prior.sample(rng, 3, n), UniformBall(1.0).sample(rng, 3, n)
    truth = np.sum(theta * X, axis=1)
    y = truth + beliefs.noise.sample(rng, n)
    surprise = truth - beliefs.own_prediction(X, y)
    for weight in (np.ones(n), y, np.sign(y) * (np.abs(y) > 0.6)):
        gap = surprise * weight
        assert abs(gap.mean()) < 5 * gap.std() / np.sqrt(n)


@pytest.mark.parametrize("curve", [IDENTITY, Clipped(1.3, 10)])
@pytest.mark.parametrize("noise", [UniformNoise(0.5), TruncatedNormal(0.5, 0.2), TruncatedNormal(2.0, 1.0)])
@pytest.mark.parametrize("dimension", [1, 3, 10])
def test_slope_is_the_derivative(dimension: int, noise: TruncatedNormal, curve: Curve) -> None:
    rng = np.random.default_rng(4)
    beliefs, h = Beliefs(dimension, NormalBall(1.3, 0.6), noise), 1e-6
    r = rng.uniform(0.1, 1, 60)
    y = rng.uniform(-1, 1, 60) * (1.3 * r + noise.bound - 1e-3)
    off_the_lines = np.abs(np.abs(y) - np.abs(1.3 * r - noise.bound)) > 1e-3
    numeric = (beliefs.prediction(r, y + h, curve, 0.2) - beliefs.prediction(r, y - h, curve, 0.2)) / (2 * h)
    np.testing.assert_allclose(
        beliefs.slope(r, y, curve, 0.2)[off_the_lines], numeric[off_the_lines], atol=1e-6
    )


def test_slope_of_a_given_density_is_the_derivative() -> None:
    beliefs, h = Beliefs(3, UniformBall(1.0), KINKED), 1e-5
    r, y = np.array([0.2, 0.5, 0.9]), np.array([0.1, 0.7, -1.2])
    numeric = (beliefs.prediction(r, y + h) - beliefs.prediction(r, y - h)) / (2 * h)
    np.testing.assert_allclose(beliefs.slope(r, y), numeric, atol=1e-4)


@pytest.mark.parametrize("dimension", [1, 4, 40])
def test_slope_at_the_edge_depends_on_the_dimension_alone(dimension: int) -> None:
    """Near the edge R - u is Beta-like on its short support: mean share (d+1)/(d+3)."""
    beliefs = Beliefs(dimension, UniformBall(0.6), TruncatedNormal(0.4, 0.2))
    assert beliefs.slope(0.5, 0.7) == pytest.approx((dimension + 1) / (dimension + 3), abs=1e-6)
    assert beliefs.slope(0.5, 0.7001) == 0
    assert beliefs.slope(0.0, 0.1) == 0


@given(st.integers(1, 60), st.floats(0.05, 0.9), st.floats(0, 0.999))
def test_with_uniform_noise_small_lies_are_free(dimension: int, r: float, share: float) -> None:
    beliefs = Beliefs(dimension, UniformBall(1.0), UniformNoise(1.0))
    assert beliefs.slope(r, share * (1 - r)) == 0
    assert abs(beliefs.prediction(r, share * (1 - r))) < 1e-13


@given(st.integers(1, 60), st.floats(1e-3, 1), st.floats(-1, 1))
def test_with_truncated_normal_noise_every_lie_moves_q(dimension: int, r: float, share: float) -> None:
    beliefs = Beliefs(dimension, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    assert beliefs.slope(r, share * (r + 1)) > 0


def test_the_bounds_are_those_of_the_two_laws() -> None:
    beliefs = Beliefs(3, UniformBall(0.6), UniformNoise(0.4))
    assert (beliefs.radius, beliefs.noise_bound, beliefs.response_bound) == (0.6, 0.4, 1.0)
    assert beliefs.noise_variance == pytest.approx(0.4**2 / 3)


@pytest.mark.parametrize(
    ("curve", "scale"), [(IDENTITY, 0.0), (Clipped(0.6, 2), 0.1), (Clipped(0.6, 2), "spread")]
)
def test_very_many_players_are_answered_by_table(
    curve: Curve, scale: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, n = np.random.default_rng(5), 2000
    beliefs = Beliefs(2, UniformBall(0.6), TruncatedNormal(0.4, 0.2))
    X, y = UniformBall(1.0).sample(rng, 2, n), rng.uniform(-1, 1, n)
    scales = rng.uniform(0.1, 0.3, n) if scale == "spread" else scale
    direct = beliefs.own_prediction(X, y, curve, scales)
    monkeypatch.setattr(module, "MANY_PLAYERS", 1000)
    tabulated = beliefs.own_prediction(X, y, curve, scales)
    assert 0 < np.abs(tabulated - direct).max() < 1e-9


def test_scales_no_table_covers_are_integrated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_PLAYERS", 1)
    beliefs, curve = Beliefs(1, UniformBall(1.0), UniformNoise(1.0)), Clipped(1.0, 1)
    X, y, scales = [[0.5], [0.5], [0.5]], [0.9, 0.9, 0.9], [0.0, 0.1, 100.0]
    q = beliefs.own_prediction(X, y, curve, scales)
    np.testing.assert_array_equal(q, beliefs.prediction([0.5] * 3, y, curve, scales))


def test_what_cannot_be_a_player_is_refused() -> None:
    beliefs = Beliefs(2, UniformBall(1.0), UniformNoise(1.0))
    with pytest.raises(InputError, match="dimension is 0"):
        Beliefs(0, UniformBall(1.0), UniformNoise(1.0))
    with pytest.raises(InputError, match="X has 3 columns; 2"):
        beliefs.own_prediction(np.zeros((4, 3)), np.zeros(4))
    with pytest.raises(InputError, match="y has 3 entries; 4"):
        beliefs.own_prediction(np.zeros((4, 2)), np.zeros(3))
    with pytest.raises(InputError, match=r"r is -0\.1"):
        beliefs.prediction(-0.1, 0.0)
    with pytest.raises(InputError, match="y is nan"):
        beliefs.prediction(0.1, float("nan"))
    with pytest.raises(InputError, match="scale is -1"):
        beliefs.slope(0.1, 0.2, IDENTITY, -1.0)

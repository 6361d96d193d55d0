"""Own predictions where peers are clipped inside the ball, next to slow integration that is cut at the corners."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from truthful.beliefs import (
    MANY_PLAYERS,
    Beliefs,
    Clipped,
    CustomNoise,
    NormalBall,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
)
from truthful.beliefs.corners import CornerPredictor, corner_predictor
from truthful.beliefs.table import PredictionTable

LAWS = {
    "ball and uniform": Beliefs(5, UniformBall(0.5), UniformNoise(0.5)),
    "little noise": Beliefs(10, UniformBall(0.5), UniformNoise(0.2)),
    "one dimension": Beliefs(1, UniformBall(0.6), TruncatedNormal(0.4, 0.2)),
    "ball and normal": Beliefs(4, UniformBall(0.5), TruncatedNormal(0.5, 0.1)),
    "normal and normal": Beliefs(4, NormalBall(0.6, 0.2), TruncatedNormal(0.4, 0.1)),
    "many dimensions": Beliefs(40, UniformBall(0.3), TruncatedNormal(0.7, 0.35)),
}


def integrated(beliefs: Beliefs, r: float, y: float, curve: Clipped, scale: float) -> float:
    """q by the definition, on panels that end at the corners and widen away from them."""
    R, M, d, c = beliefs.radius, beliefs.noise_bound, beliefs.dimension, curve.radius
    low, high = max(-R, (y - M) / r), min(R, (y + M) / r)
    steps = [0.0, *(scale * 4.0**k for k in range(-2, 6))]
    cuts = {low, high, *np.linspace(low, high, 9)}
    cuts |= {corner + side * step for corner in (-c, c) for side in (-1, 1) for step in steps}
    # In the angle, of which powers of R² − u² are smooth functions.
    angles = np.arcsin(np.array(sorted(cut for cut in cuts if low <= cut <= high)) / R)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    begin, width = angles[:-1, None], np.diff(angles)[:, None]
    angle = begin + width * (1 + nodes) / 2
    u, left = R * np.sin(angle), R * np.cos(angle)
    share = weights * width * np.cos(angle)
    if isinstance(beliefs.prior, NormalBall):
        s = beliefs.prior.sd
        share *= np.exp(-((u / s) ** 2) / 2) * special.gammainc((d - 1) / 2, (left / s) ** 2 / 2)
    else:
        share *= left ** (d - 1)
    if isinstance(beliefs.noise, TruncatedNormal):
        share *= np.exp(-(((y - r * u) / beliefs.noise.sd) ** 2) / 2)
    values = curve(u, scale) if scale > 0 else np.clip(u, -c, c)
    return float(r * np.sum(share * values) / np.sum(share))


@pytest.mark.parametrize("name", sorted(LAWS))
@pytest.mark.parametrize("scale", [0.0, 1e-5, 1e-3, 0.02, 0.2])
def test_the_loops_integrate_what_is_defined(name: str, scale: float) -> None:
    beliefs, rng = LAWS[name], np.random.default_rng(0)
    R, M = beliefs.radius, beliefs.noise_bound
    for share in (0.3, 0.5, 0.95):
        curve = Clipped(share * R, beliefs.dimension)
        r = rng.uniform(0.05, 1, 6)
        # Supports that end near a corner, and others.
        y = np.append(
            (R * r[:4] + M) * rng.uniform(0, 0.98, 4), curve.radius * r[4:] + M * np.array([1, -1]) * 0.999
        )
        q = beliefs.prediction(r, y, curve, scale)
        expected = [integrated(beliefs, a, b, curve, scale) for a, b in zip(r, y, strict=True)]
        np.testing.assert_allclose(q, expected, rtol=0, atol=2e-11 * R)


def test_a_corner_that_nothing_rounds_is_seen() -> None:
    """Rules that do not know of corners were off by more than a millionth here."""
    beliefs, curve = LAWS["little noise"], Clipped(0.25, 10)
    for r, y in ((0.9439157300371785, 0.4354442442304816), (0.5009876748751841, 0.32493698701279644)):
        q = float(beliefs.prediction(r, y, curve, 0.0))
        assert q == pytest.approx(integrated(beliefs, r, y, curve, 0.0), abs=1e-13)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(LAWS)),
    share=st.floats(0.05, 0.999),
    r=st.floats(0, 1) | st.sampled_from([0.0, 1e-6, 1.0]),
    part=st.floats(-1.3, 1.3) | st.sampled_from([-1.0, 0.0, 1.0]),
    scale=st.sampled_from([0.0, 1e-9, 1e-6, 1e-4, 3e-3, 0.05, 1.0, 100.0]),
)
def test_predictions_are_odd_bounded_and_everybody_s_own(
    name: str, share: float, r: float, part: float, scale: float
) -> None:
    beliefs = LAWS[name]
    curve = Clipped(share * beliefs.radius, beliefs.dimension)
    y = part * (beliefs.radius * r + beliefs.noise_bound)
    predictor = corner_predictor(beliefs, curve)
    assert predictor is not None
    alone = predictor(np.array([r]), np.array([y]), np.array([scale]))[0]
    rest = np.random.default_rng(1).uniform(0.1, 0.9, 7)
    among = predictor(np.append(rest, r), np.append(rest, y), np.append(rest, scale))[-1]
    mirrored = predictor(np.array([r]), np.array([-y]), np.array([scale]))[0]
    assert alone == among
    assert abs(alone) <= curve.radius * r * (1 + 1e-12)
    assert alone == pytest.approx(-mirrored, abs=1e-15)
    assert alone * y >= -1e-15


def test_reports_that_cannot_be_are_moved_to_the_edge() -> None:
    beliefs, curve = LAWS["ball and normal"], Clipped(0.2, 4)
    r = np.array([0.3, 1.0])
    edge = beliefs.radius * r + beliefs.noise_bound
    at, near, beyond = (beliefs.prediction(r, edge * f, curve, 0.01) for f in (1.0, 1 - 1e-9, 2.0))
    np.testing.assert_allclose(at, beyond, rtol=1e-12)
    np.testing.assert_allclose(at, near, rtol=1e-6)
    np.testing.assert_allclose(at, r * curve(np.full(2, 0.5), 0.01), rtol=1e-12)


def test_who_answers_is_chosen_by_the_laws_the_corner_and_the_noise() -> None:
    beliefs = LAWS["ball and uniform"]
    custom = Beliefs(3, UniformBall(0.5), CustomNoise(0.5, lambda z: 1 + np.cos(z)))
    assert corner_predictor(beliefs, Clipped(0.5, 5)) is None  # no corner inside
    assert corner_predictor(beliefs, Clipped(0.2, 5, factor=0.5)) is None
    assert corner_predictor(custom, Clipped(0.2, 3)) is None
    many = MANY_PLAYERS + 1
    assert isinstance(beliefs.predictor(Clipped(0.25, 5), (1e-4, 2e-4), many), CornerPredictor)
    table = beliefs.predictor(Clipped(0.25, 5), (0.05, 0.06), many)
    assert isinstance(table, PredictionTable)
    rng = np.random.default_rng(2)
    r, y, s = rng.uniform(0, 1, 500), rng.uniform(-1, 1, 500), rng.uniform(0.05, 0.06, 500)
    np.testing.assert_allclose(
        table(r, y, s), beliefs.prediction(r, y, Clipped(0.25, 5), s), rtol=0, atol=1e-9
    )

"""Algorithm 2's parameters, and the heart of the matter: which report pays best."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from truthful.beliefs import Beliefs
from truthful.beliefs.laws import Clipped, Identity, Shrunk, TruncatedNormal, UniformBall
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import Estimate
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.regression import Mechanism, fast_answer, payable, peer_curve, private_estimates
from truthful.scoring import RULES


def ball(d: int) -> Floats:
    return np.eye(d) / (d + 2)


def beliefs(d: int = 2, R: float = 1.0, M: float = 1.0) -> Beliefs:
    return Beliefs(dimension=d, prior=UniformBall(radius=R), noise=TruncatedNormal(bound=M, sd=M / 2))


def mechanism(**changes: Any) -> Mechanism:
    chosen = {"epsilon": 1.0, "base_payment": 3.0, "score_weight": 1.0, "design": ball(2), **changes}
    return Mechanism(**chosen)


def test_the_two_privacy_levels_add_up_to_the_total_exactly() -> None:
    chosen = mechanism(epsilon=0.1, public_share=0.7)
    assert chosen.epsilon_public + chosen.epsilon_peer == Fraction(0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"public_share": 1.0}, "public_share is 1"),
        ({"estimator": "lasso"}, "estimator is 'lasso'"),
        ({"peer_estimator": "ridge-ball"}, "peer_estimator is 'ridge-ball'"),
        ({"estimator": "ridge-ball"}, "needs a regularization"),
        ({"estimator": "ridge-ball", "regularization": -1.0}, "regularization is -1"),
        ({"design": None}, "needs the features' second moments"),
        ({"rule": "log"}, "rule is 'log'"),
        ({"payments": "sometimes"}, "payments is 'sometimes'"),
    ],
)
def test_bad_parameters_are_named_and_shown(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mechanism(**changes)


@pytest.mark.parametrize("rule", RULES)
def test_a_base_payment_that_could_leave_a_payment_negative_is_refused_with_the_least_that_cannot(
    rule: str,
) -> None:
    least = RULES[rule].loss(1.0)
    mechanism(rule=rule, base_payment=least).require_payable(1.0)
    with pytest.raises(InputError, match=f"at least {least:g}"):
        mechanism(rule=rule, base_payment=least * 0.999).require_payable(1.0)


def test_the_peer_curve_follows_estimator_and_payments() -> None:
    expected = {"payments": "expected", "base_payment": 0.0}
    ridge = {"estimator": "ridge-free", "regularization": 50.0}
    assert peer_curve(mechanism(**expected), beliefs(), 500) == Identity()
    assert isinstance(peer_curve(mechanism(**expected, **ridge), beliefs(), 500), Shrunk)
    assert isinstance(peer_curve(mechanism(), beliefs(), 500), Clipped)


def test_payments_are_rounded_down_to_a_millionth_and_stay_in_their_range() -> None:
    chosen, believed = mechanism(base_payment=3.0), beliefs()
    p, q = np.array([-1.0, 1.0, 0.3]), np.array([1.0, 1.0, 0.123456789])
    paid = payable(chosen, believed, p, q)
    assert paid[0] == 0.0
    assert paid[1] == 4.0
    assert paid[2] == pytest.approx(3 + 2 * 0.3 * 0.123456789 - 0.123456789**2, abs=1e-6)


def test_the_noise_along_a_direction_lies_in_its_range() -> None:
    rng = np.random.default_rng(0)
    Sigma = np.diag([0.2, 0.05])
    estimates = _estimates(rng, mechanism(design=Sigma), beliefs(), 200)
    x = rng.normal(size=(500, 2))
    x /= np.maximum(1, np.linalg.norm(x, axis=1))[:, None]
    scale = estimates.noise_along(x, np.linalg.norm(x, axis=1))
    low, high = estimates.noise_range
    assert low == pytest.approx(estimates.scale / 0.2)
    assert high == pytest.approx(estimates.scale / 0.05)
    assert low <= scale.min() < scale.max() <= high


def _estimates(rng: np.random.Generator, chosen: Mechanism, believed: Beliefs, n: int) -> Estimate:
    kx = grid_features(_ball_points(rng, n, believed.dimension))
    ky = grid_responses(np.zeros(n), believed.response_bound)
    halves = group_moments(kx, ky, (np.arange(n) % 2).astype(np.uint8))
    return private_estimates(halves, chosen, believed, fast_answer(rng)).peers[0]


def _ball_points(rng: np.random.Generator, n: int, d: int) -> Floats:
    x = rng.normal(size=(n, d))
    points: Floats = x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((n, 1)) ** (1 / d)
    return points


def _posterior(rng: np.random.Generator, believed: Beliefs, x: Floats, y: float, size: int) -> Floats:
    """θ given (x, y), by rejection from the prior."""
    found: list[Floats] = []
    while sum(map(len, found)) < size:
        theta = believed.prior.sample(rng, believed.dimension, 20 * size)
        weight = believed.noise.density(y - theta @ x) / believed.noise.density(np.zeros(1))[0]
        found.append(theta[rng.random(len(theta)) < weight])
    return np.concatenate(found)[:size]


def _peer_prediction(
    rng: np.random.Generator, chosen: Mechanism, x: Floats, y: float, m: int, runs: int
) -> Floats:
    """What her peers predict, over everything she does not know: θ, their features and answers, the noise."""
    believed, R, r = beliefs(), 1.0, float(np.linalg.norm(x))
    predicted = np.empty(runs)
    for k, theta in enumerate(_posterior(rng, believed, x, y, runs)):
        X = _ball_points(rng, 2 * m, 2)
        answers = X @ theta + believed.noise.sample(rng, 2 * m)
        groups = (np.arange(2 * m) % 2).astype(np.uint8)
        halves = group_moments(grid_features(X), grid_responses(answers, believed.response_bound), groups)
        peer = private_estimates(halves, chosen, believed, fast_answer(rng)).peers[0]
        predicted[k] = np.clip(peer.theta @ x, -R * r, R * r)
    return predicted


@pytest.mark.slow
def test_under_matched_clipping_the_best_report_is_the_truth_and_without_matching_it_is_not() -> None:
    """The real mechanism, 4,000 times, for one player; her best report by search under each way of scoring.

    The mean peer prediction has standard error se; the gap left by the peers' sampling error is at most its sd
    √(V/m). A false alarm needs a 5-se error: probability below 1e-6.
    """
    rng = np.random.default_rng(11)
    believed, x, y, m = beliefs(), np.array([0.8, 0.3]), 1.1, 2_000
    chosen = mechanism(epsilon=0.04, public_share=0.8)
    predicted = _peer_prediction(rng, chosen, x, y, m, runs=4_000)
    mean, error = predicted.mean(), predicted.std() / np.sqrt(len(predicted))
    r = np.array([np.linalg.norm(x)])
    scale = 2 * believed.response_bound / (m * float(chosen.epsilon_peer)) * 4
    reports = np.linspace(-2, 2, 2001)

    def best_report(matched: bool) -> float:
        curve = Clipped(1.0, 2) if matched else Identity()
        q = believed.prediction(np.broadcast_to(r, reports.shape), reports, curve, np.full(2001, scale))
        return float(reports[np.argmax(2 * mean * q - q**2)])

    slope = float(believed.slope(r, np.array([y]), Clipped(1.0, 2), np.array([scale]))[0])
    gap = np.sqrt((4 * believed.noise_variance + 3 * 4 / 6 - 1) / m)
    tolerance = (gap + 5 * error) / slope + 0.002
    assert abs(best_report(matched=True) - y) < tolerance
    assert abs(best_report(matched=False) - y) > tolerance


def test_the_least_base_payment_is_accepted_as_people_write_it() -> None:
    """0.1·3 is 0.30000000000000004 in floating point; nobody means that."""
    chosen = mechanism(base_payment=0.3, score_weight=0.1)
    assert chosen.base_payment < chosen.score_weight * chosen.scoring.loss(1.0)
    chosen.require_payable(1.0)

"""A plan says how steeply predictions follow answers, and when lies are free."""

import math

import numpy as np
import pytest
from studies import DESIGNED, UNIT_BALL, planned

from truthful import slope
from truthful.beliefs.curves import Clipped
from truthful.check import Floats
from truthful.mechanism import peer_curve
from truthful.slope import central_slope, stretch
from truthful.study import Study


def test_the_slope_is_the_least_difference_quotient_over_the_central_reports() -> None:
    """On the ball the peer noise is the same along every x, so the curve at typical features is exactly known.

    Sampled quantiles have a standard error of 0.005, which moves the least slope by 2e-4 of itself: 0.005 of it is more
    than 20 standard errors, a false alarm below 1e-50.
    """
    study = Study.parse(UNIT_BALL)
    plan = planned(study, 2_000, "known-design")
    beliefs, m = study.beliefs, 1_000
    r = np.sqrt(0.5)
    scale = 2 * 2.0 / (m * float(plan.mechanism.epsilon_peer)) * 4
    rng = np.random.default_rng(1)
    y = r * beliefs.prior.sample(rng, 2, 50_000)[:, 0] + beliefs.noise.sample(rng, 50_000)
    low, high = np.quantile(y, [0.05, 0.95])
    central = np.linspace(low, high, 101)
    q = beliefs.prediction(np.full(101, r), central, Clipped(1.0, 2), np.full(101, scale))
    assert central_slope(study, plan.mechanism, 2_000) == pytest.approx(
        np.diff(q).min() / np.diff(central)[0], rel=0.005
    )


def test_uniform_noise_leaves_free_lies_and_the_plan_says_so() -> None:
    study = Study.parse(DESIGNED.replace("signal = 0.6", 'signal = 0.3\nnoise = "uniform"'))
    promised = planned(study, 20_000).guarantees.truthfulness
    assert promised.slope == 0.0
    assert promised.lie is not None
    assert promised.lie_in_answer is None


def test_peer_noise_beyond_the_signal_flattens_the_slope() -> None:
    study = Study.parse(DESIGNED)
    slopes = [
        planned(study, 20_000, epsilon=e).guarantees.truthfulness.slope for e in (0.001, 0.01, 0.1, 1.0)
    ]
    assert slopes == sorted(slopes)
    assert slopes[0] < slopes[-1] / 10


def test_a_lie_in_answers_is_the_lie_in_predictions_by_the_slope() -> None:
    study = Study.parse(DESIGNED)
    promised = planned(study, 20_000, epsilon=0.1).guarantees.truthfulness
    assert promised.lie is not None
    assert promised.lie_in_answer == pytest.approx(promised.lie / promised.slope * study.response_unit)


@pytest.mark.parametrize("lie", [0.05, 0.3, 0.5, 0.6, 2.0])
def test_the_share_who_could_tell_a_lie_is_that_of_people_with_any_report_so_far_off(lie: float) -> None:
    """Every report on a fine grid is tried for each of the same people: what `share_beyond` says of two extremes."""
    plan = planned(Study.parse(DESIGNED), 20_000, epsilon=0.2)
    study, m = plan.study, 10_000
    r = math.sqrt(study.mean_square_norm)
    noise = plan.mechanism.half_estimator(study.beliefs).noise_scale(m, plan.mechanism.epsilon_peer)
    scale, curve = noise * stretch(study, "known-design"), peer_curve(plan.mechanism, study.beliefs, m)

    def own(y: Floats) -> Floats:
        return study.beliefs.prediction(np.full(len(y), r), y, curve, np.full(len(y), scale))

    edge = study.beliefs.radius * r + study.beliefs.noise_bound
    reports = own(np.linspace(-edge, edge, 301))
    truth = own(slope._reports(study, r)[: slope.PEOPLE])
    furthest = np.abs(reports[None, :] - truth[:, None]).max(axis=1)
    stated = slope.share_beyond(study, plan.mechanism, 20_000, lie)
    assert stated == pytest.approx(float(np.mean(furthest > lie)), abs=2e-3)


def test_a_lie_that_nobody_could_tell_promises_nothing() -> None:
    plan = planned(Study.parse(DESIGNED), 20_000, epsilon=0.2)
    assert slope.share_beyond(plan.study, plan.mechanism, 20_000, 2 * plan.study.beliefs.radius) == 0.0
    assert slope.share_beyond(plan.study, plan.mechanism, 20_000, 0.0) == 1.0

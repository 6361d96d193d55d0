"""A plan says how steeply predictions follow answers, and when lies are free."""

import math
from typing import Any

import numpy as np
import pytest
from support.plans import bought, case, people_of
from support.studies import DESIGNED, RECORDS, UNIT_BALL, planned

from truthful import deterrence
from truthful.beliefs.laws import Clipped
from truthful.check import Floats
from truthful.deterrence import Typical, central_slope, share_beyond, stretch, typical
from truthful.geometry import geometry
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.study import Study


def ball_person() -> tuple[Plan, Typical]:
    """On the ball the peer noise is the same along every x: 4 times that of the sum, for those who are her peers."""
    plan = planned(Study.parse(UNIT_BALL + RECORDS), 2_000, "known-design")
    return plan, Typical(math.sqrt(0.5), 2 * 2.0 / (1_999 * 2.0) * 4, Clipped(1.0, 2))


def test_a_typical_person_has_the_mean_square_length_and_the_noise_along_it() -> None:
    plan, expected = ball_person()
    found = typical(plan.study, plan.number_mechanism, 2_000)
    assert found.length == pytest.approx(expected.length, rel=1e-9)
    assert found.scale == pytest.approx(expected.scale, rel=1e-5)
    assert found.curve == expected.curve


def test_the_slope_is_the_least_difference_quotient_over_the_central_reports() -> None:
    """Sampled quantiles have a standard error of 0.005, which moves the least slope by 2e-4 of itself: 0.005 of it is
    more than 20 standard errors, a false alarm below 1e-50.
    """
    plan, (r, scale, curve) = ball_person()
    beliefs, rng = plan.study.beliefs, np.random.default_rng(1)
    y = r * beliefs.prior.sample(rng, 2, 50_000)[:, 0] + beliefs.noise.sample(rng, 50_000)
    low, high = np.quantile(y, [0.05, 0.95])
    central = np.linspace(low, high, 101)
    q = beliefs.prediction(np.full(101, r), central, curve, np.full(101, scale))
    quotient = np.diff(q).min() / np.diff(central)[0]
    found = central_slope(plan.study, typical(plan.study, plan.number_mechanism, 2_000))
    assert found == pytest.approx(quotient, rel=0.005)
    assert plan.guarantees.truthfulness.slope == found


def test_a_typical_person_of_a_roster_is_the_root_mean_square_of_all() -> None:
    """Lengths, and noise along x in units of the noise in the sum: by the definition, person by person."""
    plan, X = bought(600, 3, 5.0), people_of(600, 3)
    mechanism, promised = plan.number_mechanism, plan.guarantees.truthfulness
    assert isinstance(mechanism, OneRelease)
    lengths, tau = geometry(X, mechanism.transform).people
    scale = mechanism.scale(plan.study.beliefs)
    squares = (lengths**2).mean()
    assert promised.typical_length == pytest.approx(math.sqrt(squares), rel=1e-5)
    assert promised.typical_noise == pytest.approx(scale * math.sqrt((tau**2).mean() / squares))
    assert promised.lie is not None
    person = Typical(promised.typical_length, promised.typical_noise, mechanism.curve(plan.study.beliefs))  # type: ignore[arg-type]
    assert promised.slope == central_slope(plan.study, person)
    assert promised.share == share_beyond(plan.study, person, promised.lie)


def test_uniform_noise_leaves_free_lies_and_the_plan_says_so() -> None:
    study = Study.parse(DESIGNED.replace("signal = 0.6", 'signal = 0.3\nnoise = "uniform"'))
    promised = planned(study, 20_000).guarantees.truthfulness
    assert promised.slope == 0.0
    assert promised.lie is not None
    assert promised.lie_in_answer is None


@pytest.mark.parametrize("name", ["instruments", "known-design"])
def test_peer_noise_beyond_the_signal_flattens_the_slope(name: str) -> None:
    levels = (1e-4, 1e-3, 0.01, 1.0)
    slopes = [case(name, 20_000, epsilon=e).guarantees.truthfulness.slope for e in levels]
    assert slopes == sorted(slopes)
    assert slopes[0] < slopes[-1] / 5


@pytest.mark.parametrize("clip", [0.6, 0.3, 0.15])
def test_clipping_closer_flattens_the_slope(clip: float) -> None:
    """At c = R/4 much of the central 90 % of answers lies on the plateaus of q."""
    plan = case("instruments", 20_000, epsilon=1.0, clip=clip)
    steepest = case("instruments", 20_000, epsilon=1.0, clip=0.6).guarantees.truthfulness.slope
    assert plan.guarantees.truthfulness.slope <= steepest
    assert (plan.guarantees.truthfulness.slope < 0.8 * steepest) == (clip < 0.6)


def her_own(plan: Plan) -> tuple[Typical, Any]:
    """A typical person by definition, and her own prediction."""
    study, mechanism = plan.study, plan.number_mechanism
    r, beliefs = math.sqrt(study.mean_square_norm), study.beliefs
    scale = mechanism.scale(beliefs) * stretch(study) / 19_999
    person = Typical(r, scale, Clipped(mechanism.clip, study.dimension))

    def own(y: Floats) -> Floats:
        return beliefs.prediction(np.full(len(y), r), y, person.curve, np.full(len(y), person.scale))

    return person, own


@pytest.mark.parametrize("lie", [0.05, 0.3, 0.5, 0.6, 2.0])
def test_the_share_who_could_tell_a_lie_is_that_of_people_with_any_report_so_far_off(lie: float) -> None:
    """Every report on a fine grid is tried for each of the same people: what `share_beyond` says of two extremes."""
    plan = case("known-design", 20_000, epsilon=0.2)
    study = plan.study
    person, own = her_own(plan)
    edge = study.beliefs.radius * person.length + study.beliefs.noise_bound
    reports = own(np.linspace(-edge, edge, 301))
    truth = own(deterrence._reports(study, person.length)[:2_000])
    furthest = np.abs(reports[None, :] - truth[:, None]).max(axis=1)
    stated = share_beyond(study, typical(study, plan.number_mechanism, 20_000), lie)
    # The first tenth of the people: its share is off by at most five standard errors, false alarms below 1e-6.
    assert stated == pytest.approx(float(np.mean(furthest > lie)), abs=5 * 0.5 / math.sqrt(2_000))


def test_a_lie_that_nobody_could_tell_promises_nothing() -> None:
    plan = case("known-design", 20_000, epsilon=0.2)
    person = typical(plan.study, plan.number_mechanism, 20_000)
    assert share_beyond(plan.study, person, 2 * plan.study.beliefs.radius) == 0.0
    assert share_beyond(plan.study, person, 0.0) == 1.0

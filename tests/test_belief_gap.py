"""What a wrong centre does where own predictions are no lines: against closed forms, other quadrature, and searches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from support import oracles_tolerance as tolerance
from support.oracles_beliefs import projected_density
from support.plans import bought, solved
from support.shares import study_of
from support.studies import DESIGNED, RECORDS

from truthful.beliefs import Beliefs, NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.beliefs.laws import IDENTITY, Clipped, Curve
from truthful.bounds import Setting, proved
from truthful.bounds.share_bounds import ShareSetting, gain, tolerated_gap
from truthful.deterrence import (
    ShiftedPeople,
    amplification,
    largest_belief_gap,
    people_of_lengths,
    spread_lengths,
    tolerated_shift,
)
from truthful.geometry import Geometry
from truthful.guarantees import NINE_IN_TEN, WIDER, setting
from truthful.one_release import OneRelease
from truthful.plan import Plan, design
from truthful.planner import Infeasible
from truthful.planner.share_planning import ShareSolution
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

NORMAL = Beliefs(1, NormalBall(radius=2.0, sd=0.2), TruncatedNormal(bound=2.0, sd=0.3))
FLAT = Beliefs(5, UniformBall(radius=0.6), TruncatedNormal(bound=0.4, sd=0.2))
SLOPE = 4 / 13


def one(beliefs: Beliefs, r: float, y: float, shift: float, curve: Curve, scale: float) -> float:
    people = ShiftedPeople(beliefs, np.array([r]), np.array([y]), np.array([shift]))
    return float(people.gaps(curve, scale)[0])


def integrated(beliefs: Beliefs, r: float, y: float, shift: float, curve: Curve, scale: float) -> float:
    """P(shift, y), by adaptive quadrature over u itself."""
    R, M = beliefs.radius, beliefs.noise_bound
    low, high = max(-R, (y - shift - M) / r), min(R, (y - shift + M) / r)

    def weight(u: float) -> float:
        at = np.array([u])
        return float(
            projected_density(beliefs.prior, at, beliefs.dimension)[0]
            * beliefs.noise.density(y - shift - r * at)[0]
        )

    def seen(u: float) -> float:
        return float(np.asarray(curve(np.array([u + shift / r]), np.array([scale])))[0]) * weight(u)

    top, whole = (quad(f, low, high, epsabs=1e-12, limit=200)[0] for f in (seen, weight))
    return float(r * top / whole)


def test_where_answers_count_linearly_the_gap_is_the_closed_form() -> None:
    for y, shift in [(0.0, 0.2), (0.5, 0.2), (-0.4, -0.1)]:
        expected = tolerance.belief_gap(y, centre=0.0, slope=SLOPE, own_centre=shift, own_slope=SLOPE)
        assert one(NORMAL, 1.0, y, shift, IDENTITY, 0.0) == pytest.approx(expected, abs=1e-7)
    assert amplification(NORMAL, 1.0, 0.0, IDENTITY) == pytest.approx(0.09 / 0.04, rel=1e-6)


@pytest.mark.parametrize("noise", [TruncatedNormal(bound=0.4, sd=0.2), UniformNoise(bound=0.4)])
@pytest.mark.parametrize("clip", [None, 0.15, 0.6])
def test_gaps_agree_with_other_quadrature(noise: TruncatedNormal | UniformNoise, clip: float | None) -> None:
    beliefs = Beliefs(3, UniformBall(radius=0.6), noise)
    curve: Curve = IDENTITY if clip is None else Clipped(clip, 3)
    for r, y, shift in [(0.8, 0.1, 0.1), (0.5, -0.3, 0.2), (1.0, 0.6, -0.15)]:
        expected = integrated(beliefs, r, y, shift, curve, 0.05) - integrated(beliefs, r, y, 0.0, curve, 0.05)
        assert one(beliefs, r, y, shift, curve, 0.05) == pytest.approx(expected, abs=2e-6)


@settings(max_examples=40, deadline=None)
@given(
    r=st.floats(0.2, 1),
    part=st.floats(-0.9, 0.9),
    shifts=st.tuples(st.floats(0, 0.3), st.floats(0, 0.3)),
    clip=st.floats(0.1, 0.6),
    scale=st.floats(0.01, 0.5),
    uniform=st.booleans(),
)
def test_a_gap_rises_with_the_shift_by_no_more_than_that_and_is_odd(
    r: float, part: float, shifts: tuple[float, float], clip: float, scale: float, uniform: bool
) -> None:
    noise = UniformNoise(bound=0.4) if uniform else TruncatedNormal(bound=0.4, sd=0.2)
    beliefs, curve = Beliefs(2, UniformBall(radius=0.6), noise), Clipped(clip, 2)
    low, high = sorted(shifts)
    y = part * (0.6 * r + 0.4 - high)  # possible whatever the shift
    first, second = (one(beliefs, r, y, shift, curve, scale) for shift in (low, high))
    assert -1e-6 <= first <= second + 1e-6
    assert second <= first + (high - low) + 1e-6
    assert one(beliefs, r, -y, -high, curve, scale) == pytest.approx(-second, abs=1e-9)


def test_nobody_has_a_larger_gap_than_the_largest() -> None:
    """Random people, of lengths, noise and answers between those that are looked at."""
    rng, shift, curve = np.random.default_rng(1), 0.05, Clipped(0.2, 5)
    lengths = rng.uniform(0.45, 1, 400)
    proportions = lengths * rng.uniform(1.0, 3.0, 400)
    most = largest_belief_gap(FLAT, lengths, proportions, shift, 0.2, 0.04)
    u = FLAT.prior.sample(rng, 5, 400)[:, 0]
    y = shift + lengths * u + FLAT.noise.sample(rng, 400)
    found = ShiftedPeople(FLAT, lengths, y, np.full(400, shift)).gaps(curve, 0.04 * proportions / lengths)
    assert 0.8 * most < found.max() <= most * (1 + 2e-3)
    assert largest_belief_gap(FLAT, lengths, proportions, 0.0, 0.2, 0.04) == 0.0


def test_noise_makes_the_largest_gap_smaller() -> None:
    people = people_of_lengths(FLAT, spread_lengths(np.linspace(0.45, 1, 50)), 0.05)
    for clip in (0.13, 0.3, 0.6):
        curve, scales = Clipped(clip, 5), (0.001, 0.01, 0.05, 0.2, 1.0)
        gaps = [people.largest_gap(curve, scale) for scale in scales]
        assert gaps == sorted(gaps, reverse=True)
        assert gaps == pytest.approx([people.gaps(curve, scale).max() for scale in scales], abs=1e-6)


def test_a_shift_is_tolerated_up_to_where_somebody_reaches_the_gap() -> None:
    curve, answers = Clipped(0.3, 5), np.linspace(0, 0.5, 5)
    shift = tolerated_shift(FLAT, 0.8, 0.05, curve, answers, 0.03, 2.0)
    gaps = [one(FLAT, 0.8, y, s, curve, 0.05) for y in (*answers, *-answers) for s in (shift, -shift)]
    assert max(map(abs, gaps)) == pytest.approx(0.03, abs=1e-6)
    assert tolerated_shift(FLAT, 0.8, 0.05, curve, answers, 5.0, 2.0) == 2.0


def test_where_answers_move_no_prediction_no_amplification_is_said() -> None:
    flat = Beliefs(1, UniformBall(radius=0.2), UniformNoise(bound=0.8))
    assert amplification(flat, 1.0, 0.0, Clipped(0.2, 1)) is None


# Plans


def people_of(plan: Plan) -> Geometry:
    assert plan.panel is not None
    shortening = getattr(getattr(plan.solution, "terms", None), "shortening", 1.0)
    return plan.panel.geometry(plan.players, shortening)


def gains(
    plan: Plan, r: float, scale: float, y: float, shift: float, gap: float
) -> tuple[np.ndarray, np.ndarray]:
    """Of every report of somebody whose centre is off by so much, and who knows what the liars do.

    How far it moves her prediction, and what it earns more than the truth, the privacy that it saves included.
    """
    study, mechanism = plan.study, plan.mechanism
    assert isinstance(mechanism, OneRelease)
    beliefs, curve = study.beliefs, mechanism.curve(study.beliefs)
    geometry = None if mechanism.estimator != "instruments" else people_of(plan)
    s = setting(study, mechanism, plan.answering, plan.absent_share, plan.failure_probability, geometry)
    reports = np.linspace(-beliefs.response_bound, beliefs.response_bound, 801)
    q = beliefs.prediction(np.full(801, r), reports, curve, np.full(801, scale))
    own = float(beliefs.prediction(r, y, curve, scale))
    expected = integrated(beliefs, r, y, shift, curve, scale) + gap
    saved = float(proved.threshold(s)) * float(s.privacy_cost)
    earned = mechanism.score_weight * (2 * expected * (q - own) - (q**2 - own**2)) + saved
    return np.abs(q - own), earned


@pytest.mark.parametrize("off", [-1.0, -0.5, 0.5, 1.0])
def test_no_lie_beyond_the_stated_one_pays_somebody_whose_centre_is_off_by_the_stated_tolerance(
    off: float,
) -> None:
    plan = bought(2000, 3, 1.0)
    truth, study = plan.guarantees.truthfulness, plan.study
    assert truth.lie is not None
    assert truth.centre_tolerance is not None
    assert truth.centre_lie == pytest.approx(WIDER * truth.lie)
    assert truth.centre_slack is not None
    assert truth.centre_slack > (truth.slack or 0.0)
    shift = off * truth.centre_tolerance / study.response_unit
    r, scale = truth.typical_length or 0.0, truth.typical_noise or 0.0
    g = float(proved.gap(_setting(plan)))
    for y in (-0.3, 0.0, 0.2):
        for sign in (-1, 1):
            moved, earned = gains(plan, r, scale, y, shift, sign * g)
            assert earned[moved > truth.centre_lie].max(initial=-1.0) < 0
            assert earned.max() <= truth.centre_slack


def test_lies_beyond_the_stated_one_pay_somebody_whose_centre_is_off_by_half_as_much_again() -> None:
    plan = bought(2000, 3, 1.0)
    truth = plan.guarantees.truthfulness
    shift = 1.5 * (truth.centre_tolerance or 0.0) / plan.study.response_unit
    r, scale = truth.typical_length or 0.0, truth.typical_noise or 0.0
    g = float(proved.gap(_setting(plan)))
    found = [gains(plan, r, scale, y, shift, g) for y in (-0.3, 0.0, 0.2)]
    assert max(earned[moved > (truth.centre_lie or 0.0)].max(initial=-1.0) for moved, earned in found) > 0


def _setting(plan: Plan) -> Setting:
    mechanism = plan.number_mechanism
    return setting(
        plan.study, mechanism, plan.answering, plan.absent_share, plan.failure_probability, people_of(plan)
    )


NO_FEATURES = DESIGNED[: DESIGNED.index("[[features]]")] + DESIGNED[DESIGNED.index("[design]") :]
TOLERANT = DESIGNED.replace("signal = 0.6", "signal = 0.6\ntolerance = 6")


def test_a_declared_tolerance_is_kept_for_everybody_and_costs_accuracy() -> None:
    plain = solved(DESIGNED, players=3000, budget=2000)
    plan = solved(TOLERANT, players=3000, budget=2000)
    truth, study = plan.guarantees.truthfulness, plan.study
    assert (truth.centre_tolerance, truth.centre_lie) == (6.0, truth.lie)
    assert (plan.guarantees.accuracy.rmse or 0) > 1.02 * (plain.guarantees.accuracy.rmse or 0)
    assert truth.undeterred == pytest.approx(plain.guarantees.truthfulness.undeterred, abs=0.02)
    s, lie = _setting(plan), truth.lie or 0.0
    mechanism = plan.mechanism
    assert isinstance(mechanism, OneRelease)
    room = lie**2 - 2 * lie * float(proved.gap(s))
    saved = float(proved.threshold(s)) * float(s.privacy_cost) + s.rounding
    assert mechanism.score_weight == pytest.approx(saved / room, rel=1e-6)
    assert 0 < float(np.asarray(s.belief_gap)) <= study.tolerance
    g = float(proved.gap(s)) - float(np.asarray(s.belief_gap))
    lengths, tau = people_of(plan).people
    ratios = mechanism.scale(study.beliefs) * tau / lengths
    order = np.argsort(lengths)
    for at in (order[0], order[len(order) // 2], order[-1], int(np.argmin(ratios))):
        for y in (-0.4, 0.02, 0.3):
            for sign in (-1, 1):
                r, scale = float(lengths[at]), float(ratios[at])
                moved, earned = gains(plan, r, scale, y, sign * study.tolerance, sign * g)
                assert earned[moved > lie].max(initial=-1.0) < 0
                assert earned.max() <= (truth.slack or 0.0)
    # Three times as much would be too much.
    ends = [(float(lengths[at]), float(ratios[at])) for at in order[[0, -1]]]
    found = [gains(plan, *end, y, 3 * study.tolerance, g) for end in ends for y in (-0.4, 0.02, 0.1, 0.3)]
    assert max(earned[moved > lie].max(initial=-1.0) for moved, earned in found) > 0


def test_records_allow_for_a_tolerance_too() -> None:
    asked = {"players": 200_000, "budget": 200_000.0}
    plain, tolerant = (solved(text + RECORDS, **asked) for text in (DESIGNED, TOLERANT))
    assert tolerant.guarantees.truthfulness.lie is not None
    assert (tolerant.guarantees.accuracy.rmse or 0) > (plain.guarantees.accuracy.rmse or 0)


def test_a_tolerance_beyond_all_deterrence_is_refused_with_a_smaller_one() -> None:
    study = Study.parse(NO_FEATURES.replace("signal = 0.6", "signal = 0.6\ntolerance = 60"))
    with pytest.raises(
        Infeasible, match=r"even if people's centre is 60 off \(beliefs.tolerance\)"
    ) as problem:
        design(study, players=3000, budget=500, lie=0.05)
    remedies = {remedy.goal: remedy.value for remedy in problem.value.remedies}
    less = study.with_tolerance(remedies["tolerance"] / 60)
    assert design(less, players=3000, budget=500, lie=0.05).guarantees.truthfulness.lie is not None


# Yes and no, and ratings


def share_setting(plan: Plan, belief_gap: float = 0.0) -> ShareSetting:
    mechanism, solution = plan.share_mechanism, plan.solution
    assert mechanism is not None
    assert isinstance(solution, ShareSolution)
    assert plan.panel is not None
    beliefs = plan.study.shares
    assert isinstance(beliefs, ShareBeliefs)
    return ShareSetting(
        study=plan.study,
        beliefs=beliefs,
        geometry=plan.panel.geometry(plan.players, solution.shortening),
        n=plan.answering,
        alpha=np.array([plan.absent_share]),
        epsilon=np.array([mechanism.epsilon]),
        beta=plan.failure_probability,
        margin=mechanism.margin,
        tolerance=mechanism.tolerance,
        belief_gap=belief_gap,
    )


@pytest.mark.parametrize("levels", [2, 5])
def test_of_shares_the_truth_earns_just_enough_for_nine_in_ten_at_the_stated_tolerance(levels: int) -> None:
    plan = design(study_of(levels=levels), players=2000, budget=1000)
    truth, mechanism = plan.guarantees.truthfulness, plan.share_mechanism
    assert mechanism is not None
    assert truth.centre_tolerance is not None
    assert truth.centre_share == NINE_IN_TEN
    steps = truth.steps or 0
    cost = float(plan.study.costs.quantile(NINE_IN_TEN))
    needed = (cost * plan.study.privacy_cost(mechanism.epsilon) + 2e-6) / mechanism.bonus
    at = share_setting(plan, truth.centre_tolerance)
    assert float(gain(at, steps)[0, 0]) == pytest.approx(needed)
    assert float(tolerated_gap(at, steps, needed)[0, 0]) == pytest.approx(truth.centre_tolerance)


def test_yes_pays_whoever_expects_a_share_above_the_switch_point_by_enough_and_nobody_below() -> None:
    """Theorem B: with the clip, liars and noise left out, what she expects given her answer is all that matters."""
    plan = design(study_of(), players=200_000, budget=50_000)
    truth, mechanism = plan.guarantees.truthfulness, plan.share_mechanism
    assert mechanism is not None
    expected = plan.study.shares.expects(np.ones((1, 1)))  # type: ignore[union-attr]
    width = float(expected.width(mechanism.margin)[0])
    cost = float(plan.study.costs.quantile(NINE_IN_TEN))
    lost = cost * plan.study.privacy_cost(mechanism.epsilon) / mechanism.bonus
    exact = float(expected.advantage[0]) - width * lost
    # The guarantee allows for liars, clipping and implausible shares.
    assert 0.9 * exact < (truth.centre_tolerance or 0.0) <= exact


def test_a_tolerance_of_shares_is_kept_for_all_who_are_promised_the_truth() -> None:
    plain, plan = (design(one, players=2000, budget=500) for one in (study_of(), study_of(tolerance=0.01)))
    truth, mechanism = plan.guarantees.truthfulness, plan.share_mechanism
    assert mechanism is not None
    assert (truth.centre_tolerance, truth.centre_share) == (0.01, truth.share)
    s = share_setting(plan, 0.01)
    assert mechanism.bonus * float(gain(s)[0, 0]) >= float(s.saved[0, 0]) * (1 - 1e-9)
    # One point less of an advantage of 2.9 over the width.
    less = float((gain(share_setting(plan)) - gain(s))[0, 0])
    beliefs = plan.study.shares
    assert beliefs is not None
    assert less == pytest.approx(0.01 / float(beliefs.expects(np.ones((1, 1))).width(mechanism.margin)[0]))
    assert (plan.guarantees.accuracy.rmse or 0) > (plain.guarantees.accuracy.rmse or 0)


def test_a_tolerance_of_shares_beyond_the_advantage_is_refused_with_a_smaller_one() -> None:
    with pytest.raises(Infeasible, match=r"even if people's centre is 0\.05 off") as problem:
        design(study_of(tolerance=0.05), players=2000, budget=500)
    remedies = {remedy.goal: remedy.value for remedy in problem.value.remedies}
    assert set(remedies) == {"tolerance", "centre"}  # or they are asked what the others will say
    value = remedies["tolerance"]
    assert design(study_of(tolerance=value), players=2000, budget=500).guarantees.truthfulness.gain


def test_a_tolerated_rating_asks_for_longer_lies() -> None:
    plain, tolerant = (
        design(one, players=20_000, budget=20_000)
        for one in (study_of((0.2, 0.6), levels=7), study_of((0.2, 0.6), levels=7, tolerance=0.03))
    )
    assert (tolerant.guarantees.truthfulness.steps or 0) > (plain.guarantees.truthfulness.steps or 9)

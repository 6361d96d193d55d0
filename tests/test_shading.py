"""What lies cost in money, and which are deterred: against people who are drawn and payments that are computed."""

from functools import cache

import numpy as np
import pytest
from support import asked, shares
from support.plans import ball, bought, people_of, solved
from support.studies import UNIT_BALL

from truthful.asked_release import score
from truthful.beliefs.laws import Clipped
from truthful.check import Floats
from truthful.deterrence import Deterrence
from truthful.geometry import geometry
from truthful.noise import L2Laplace
from truthful.plan import Plan
from truthful.service.offer import make_offer
from truthful.service.pages import languages, small_money

#: People who are drawn; 90 % of them are 0.9 ± 0.06 but with a probability of 1e-4.
PEOPLE = 400


def people_and_noise(plan: Plan, X: Floats) -> tuple[Floats, Floats]:
    """‖x‖, and the scale of the peers' noise along its unit vector, of people with these features."""
    study, mechanism = plan.study, plan.number_mechanism
    if mechanism.estimator == "instruments":
        lengths, tau = geometry(X, mechanism.transform).people
        return lengths, mechanism.scale(study.beliefs) * tau / lengths
    lengths = np.linalg.norm(X, axis=1)
    assert study.second_moments is not None
    along = np.linalg.norm(np.linalg.solve(study.second_moments, X.T), axis=0) / (plan.players - 1)
    return lengths, mechanism.scale(study.beliefs) * along / lengths


def brute_force(plan: Plan, X: Floats) -> tuple[Floats, Floats]:
    """Of each person the share of answers that move q by no more than D, and how far from the truth the furthest is."""
    study, rng = plan.study, np.random.default_rng(21)
    beliefs, mechanism, lie = study.beliefs, plan.number_mechanism, plan.guarantees.truthfulness.lie
    assert lie is not None
    lengths, noise = people_and_noise(plan, X)
    some = rng.choice(len(lengths), PEOPLE)
    curve = Clipped(mechanism.clip, study.dimension)
    said = np.linspace(-beliefs.response_bound, beliefs.response_bound, 201)
    u = beliefs.prior.sample(rng, study.dimension, PEOPLE)[:, 0]
    truth = lengths[some] * u + beliefs.noise.sample(rng, PEOPLE)
    r, t = lengths[some], noise[some]
    edge = (beliefs.radius * r + beliefs.noise_bound)[:, None]
    at = np.clip(np.hstack([np.tile(said, (PEOPLE, 1)), truth[:, None]]), -edge, edge)
    columns = at.shape[1]
    q = beliefs.prediction(np.repeat(r, columns), at.ravel(), curve, np.repeat(t, columns)).reshape(at.shape)
    undeterred = np.abs(q[:, :-1] - q[:, -1:]) <= lie
    far = np.where(undeterred, np.abs(said - truth[:, None]), 0.0).max(axis=1)
    return undeterred.mean(axis=1), np.where(undeterred.all(axis=1), np.inf, far) * study.response_unit


@cache
def of_the_ball() -> Plan:
    """A plan that protects records: of its people nothing is known but the design."""
    return solved(ball(2, records=True), players=20_000, epsilon=0.3, score_weight=5.0)


@pytest.mark.parametrize("name", ["design", "roster"])
def test_what_nothing_deters_is_so_over_the_people_of_the_design_or_the_roster(name: str) -> None:
    """The mean share to 0.03, four of its standard errors: false alarms 1e-4; and nine in ten, by the definition."""
    if name == "design":
        plan = of_the_ball()
        study = plan.study
        X = study.normalise(study.sample_features(np.random.default_rng(20), 5_000), 5_000)
    else:
        plan, X = bought(600, 3, 5.0), people_of(600, 3)
    promised = plan.guarantees.truthfulness
    free, far = brute_force(plan, X)
    assert promised.undeterred == pytest.approx(free.mean(), abs=0.03)
    nine_in_ten = np.inf if promised.lie_in_answer is None else promised.lie_in_answer
    assert np.mean(far <= nine_in_ten * 1.02) > 0.84
    assert np.mean(far <= nine_in_ten * 0.98) < 0.96 or np.isinf(nine_in_ten)


def test_one_typical_length_would_have_said_something_else() -> None:
    plan = of_the_ball()
    study, mechanism, promised = plan.study, plan.number_mechanism, plan.guarantees.truthfulness
    assert promised.typical_length is not None
    assert promised.typical_noise is not None
    length, scale = np.array([promised.typical_length]), mechanism.scale(study.beliefs)
    one = Deterrence(study.beliefs, length, promised.typical_noise * length / scale)
    assert (
        abs(one.undeterred_share(promised.lie or 0.0, mechanism.clip, scale) - (promised.undeterred or 0.0))
        > 0.02
    )


# Money


def test_shading_an_answer_costs_what_is_stated() -> None:
    """A typical person, whose answer is the one that is expected of her, is paid for it and for two lies.

    What she does not know is drawn, the others' coefficients and the noise: 5 % are five standard errors.
    """
    plan = solved(UNIT_BALL, players=5_000, budget=5_000)
    study, mechanism, promised = plan.study, plan.number_mechanism, plan.guarantees.truthfulness
    beliefs, rng, told = study.beliefs, np.random.default_rng(22), promised.shading or ()
    width, r, t = study.response.high - study.response.low, promised.typical_length, promised.typical_noise
    assert [one.by for one in told] == pytest.approx([width / 5, 2 * width / 5])
    assert r is not None
    assert t is not None
    u = beliefs.prior.sample(rng, study.dimension, 1_000_000)[:, 0]
    u = u[np.abs(r * u + beliefs.noise.sample(rng, len(u))) < 0.01 * beliefs.response_bound]
    p = r * (u + t * L2Laplace(study.dimension, 1.0).sample(rng, len(u))[:, 0])
    p = np.clip(p, -mechanism.clip * r, mechanism.clip * r)
    edge = beliefs.radius * r + beliefs.noise_bound
    off = np.minimum([0.0, *(one.by / study.response_unit for one in told)], edge)
    own = beliefs.prediction(np.full(3, r), off, Clipped(mechanism.clip, study.dimension), np.full(3, t))
    pays = [np.mean(mechanism.scoring(p, np.full(len(p), q), a=0.0, b=mechanism.score_weight)) for q in own]
    assert [one.costs for one in told] == pytest.approx([pays[0] - pay for pay in pays[1:]], rel=0.05)


@pytest.mark.parametrize("name", ["yes-no", "rating"])
def test_the_other_answer_and_steps_cost_what_is_stated(name: str) -> None:
    """Shares are uniform as declared, and the others' is known up to noise. 6 %: five standard errors, and the bend of
    what ratings really expect.
    """
    text = shares.YES_NO if name == "yes-no" else shares.RATING
    plan = shares.planned(text, 5_000, epsilon=1.0)
    beliefs, mechanism, rng, n = plan.study.shares, plan.share_mechanism, np.random.default_rng(23), 400_000
    assert beliefs is not None
    assert mechanism is not None
    P = rng.uniform(beliefs.low, beliefs.high, n)
    K, rho = beliefs.levels, max(beliefs.agreement, 1e-3)
    alike = rng.beta(P * (1 - rho) / rho, (1 - P) * (1 - rho) / rho)
    y = 2 * rng.binomial(K - 1, alike if K > 2 else P) / (K - 1) - 1
    p = P + rng.laplace(0, 1 / mechanism.epsilon / 5_000, n)

    def pay(said: Floats) -> Floats:
        return mechanism.steps(beliefs, np.ones((n, 1)), said, p)[2]

    for one in plan.guarantees.truthfulness.shading or ():
        moved = 2 * one.by / (K - 1)
        lies = [y + way * moved for way in (-1, 1)]
        lost = [(pay(y) - pay(np.clip(lie, -1, 1)))[np.abs(lie) <= 1] for lie in lies]
        # Each way by itself, as people at the ends have only one.
        mean = float(np.mean([*lost[0], *lost[1]]))
        assert one.costs == pytest.approx(mean, rel=0.06)
    typical = plan.guarantees.truthfulness.typical_pay
    assert typical == pytest.approx(float(np.mean(pay(y))), rel=0.06)


@pytest.mark.parametrize("kind", ["number", "yes-no"])
def test_lies_cost_what_is_stated_where_people_are_asked(kind: str) -> None:
    """The level is drawn about the centre that people have, and their answers about it: 5 % are six standard errors."""
    plan = asked.planned(kind)
    beliefs, mechanism, rng, n = (
        plan.study.levels,
        asked.mechanism_of(plan),
        np.random.default_rng(24),
        1_000_000,
    )
    assert beliefs is not None
    told = plan.guarantees.truthfulness.shading or ()
    if kind == "number":
        centre = 0.0
        level = rng.normal(0, beliefs.sure, n)
        y = level + (beliefs.spread or 0.0) * rng.standard_normal(n)
        expected = np.full(n, centre)
        lies = [y + one.by / plan.study.response_unit for one in told]
        assert [one.by for one in told] == pytest.approx([20, 40])
    else:
        assert beliefs.shares is not None
        middle = beliefs.shares.low + beliefs.shares.high - 1
        level = middle + rng.uniform(-1, 1, n) * beliefs.sure * 3**0.5
        y = np.where(rng.random(n) < (1 + level) / 2, 1.0, -1.0)
        k = beliefs.sure**2 / (1 - middle**2)
        expected, lies = middle + k * (level - middle), [-y]
    surprise = np.clip(level - expected, -mechanism.clip, mechanism.clip)
    slope = np.full(n, beliefs.slope)

    def pay(said: Floats) -> float:
        return float(np.mean(score(mechanism.rule, slope, said, level, surprise, mechanism.clip)))

    for one, lie in zip(told, lies, strict=True):
        assert one.costs == pytest.approx(mechanism.score_weight * (pay(y) - pay(lie)), rel=0.05)


def test_a_participant_is_told_what_a_lie_costs_in_cents_and_where_nobody_is_protected() -> None:
    told, unprotected = (
        make_offer(shares.planned(shares.YES_NO, 2_000, epsilon=epsilon), {}) for epsilon in (1.0, 100.0)
    )
    assert (told["protects"], unprotected["protects"]) == (True, False)
    assert (
        told["shading"] == shares.planned(shares.YES_NO, 2_000, epsilon=1.0).guarantees.truthfulness.shading
    )
    assert make_offer(shares.planned(shares.YES_NO, 2_000, bonus=0.0), {})["shading"] == ()
    english, german = (languages()[name] for name in ("en", "de"))
    assert small_money(0.01671, "EUR", english) == "1.7 cents"
    assert small_money(0.01671, "EUR", german) == "1,7 Cent"
    assert small_money(0.01671, "GBP", english) == "1.7 pence"
    assert small_money(2.5, "USD", english) == "$2.50"

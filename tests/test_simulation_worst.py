"""What is guaranteed of one release given everybody's features, against the liars that can do most harm to it.

Rosters are skewed, as surveys are. Seeds are fixed; the probabilities of false alarms are those of other seeds.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from support.laboratory import plan_of, planned_like
from support.oracles_answers import (
    Crowd,
    crowd,
    errors,
    furthest_paying,
    mean_slope,
    own,
    pushed,
    with_payments,
)
from support.studies import DESIGNED

from truthful.bounds import proved
from truthful.check import Floats
from truthful.moments import Transform, grid_responses, sums
from truthful.one_release import OneRelease
from truthful.plan import design
from truthful.regression import fast_answer
from truthful.release.coefficients import released_numbers
from truthful.simulation import simulate
from truthful.simulation.population import assign_roles, features_of
from truthful.simulation.simulation import set_up_numbers
from truthful.study import Study

SURVEY = """
name = "Survey"
currency = "USD"
intercept = false
[response]
name = "y"
low = -1
high = 1
{features}
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
signal = 0.6
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def survey(d: int) -> Study:
    features = "".join(f'[[features]]\nname = "x{k}"\nlow = -1\nhigh = 1\n' for k in range(d))
    return Study.parse(SURVEY.format(features=features))


def roster(n: int, d: int, seed: int = 0) -> Floats:
    """A constant, skewed numbers that go together, and two answers of unequal frequency, in turn."""
    rng = np.random.default_rng(seed)
    common, x = rng.standard_normal(n), np.ones((n, d))
    for k in range(1, d):
        if k % 2:
            x[:, k] = np.clip(np.exp(0.4 * common + 0.6 * rng.standard_normal(n)) / 2 - 1, -1, 1)
        else:
            x[:, k] = np.where(rng.random(n) < 0.7, 1.0, -1.0)
    return x / math.sqrt(d)


def transforms(d: int) -> dict[str, float | Transform]:
    """Least squares, some shortened, all, and one without any sense."""
    odd = np.random.default_rng(d).integers(-3000, 3000, (d, d))
    return {"none": 0.0, "some": 0.4, "all": 1.0, "odd": tuple(map(tuple, odd.tolist()))}


@cache
def people(
    n: int, d: int, transform: str = "all", epsilon: float = 0.5, alpha: float = 0.0, clip: float = 1.0
) -> Crowd:
    return crowd(survey(d), roster(n, d), epsilon, transforms(d)[transform], alpha, clip)


# Accuracy


@pytest.mark.parametrize("transform", ["none", "all", "odd"])
@pytest.mark.parametrize("d", [2, 10])
@pytest.mark.parametrize("n", [200, 2000])
def test_without_liars_the_mean_squared_error_is_the_formula(n: int, d: int, transform: str) -> None:
    """σ²‖B‖² + (d+1)s²‖M⁻¹‖², whatever T is, and the bound without liars is just that. Three standard errors: 0.3 %."""
    epsilon = 3.0 if n == 200 else 0.5
    some = people(n, d, transform, epsilon)
    found = np.square(errors(some, np.random.default_rng(n + d), 400)).sum(axis=1)
    assert found.mean() == pytest.approx(some.truthful_error, abs=3 * found.std() / 20)
    assert float(proved.accuracy(some.setting)) == pytest.approx(some.truthful_error, rel=1e-4)


@pytest.mark.parametrize("transform", ["none", "all"])
@pytest.mark.parametrize(("n", "d", "liars"), [(200, 2, 1), (200, 5, 4), (2000, 5, 10), (2000, 10, 4)])
def test_with_the_worst_liars_the_error_is_below_its_bound(
    n: int, d: int, liars: int, transform: str
) -> None:
    """And above a quarter of what they add to it. Three standard errors of each: 0.3 %."""
    some = people(n, d, transform, 3.0 if n == 200 else 0.5, liars / n)
    found = np.square(errors(some, np.random.default_rng(liars), 400, liars)).sum(axis=1)
    bound, luck = float(proved.accuracy(some.setting)), 3 * found.std() / 20
    assert found.mean() <= bound + luck
    assert found.mean() >= some.truthful_error + (bound - some.truthful_error) / 4 - luck


# Truthfulness


#: (n, d, ε, α, c/R), with more liars on average than one, about one, and fewer.
CASES = [
    (500, 3, 1.0, 0.01, 1.0),
    (2000, 5, 0.5, 0.005, 0.4),
    (2000, 2, 0.3, 0.0015, 1.0),
    (2000, 2, 0.3, 0.0015, 0.6),
]


@pytest.mark.parametrize(("n", "d", "epsilon", "alpha", "clip"), CASES)
def test_the_gap_against_the_worst_liars_is_below_its_bound_and_not_far(
    n: int, d: int, epsilon: float, alpha: float, clip: float
) -> None:
    """Six people of largest g_i, three answers, pushed up and down: each below her own bound, some above a third of g.

    Clipped below R, what is pushed counts as often only as predictions stay inside: g allows for lies as if the truth
    were in the middle, S = P(|e| ≤ cr), and on average it is P(|ru + e| ≤ cr | y). Of that a third.
    Means over 4,000 draws, to five standard errors: 2e-5 for all 36.
    """
    some = people(n, d, "all", epsilon, alpha, clip)
    g = float(proved.gap(some.setting))
    assert some.gaps.max() <= g * (1 + 1e-9)
    assert g <= 1.06 * some.gaps.max()
    worst = np.argsort(-some.gaps)[:6]
    found = pushed(some, worst, (0.0, 0.5, 0.9), np.random.default_rng(n), 4000)
    for one in found:
        assert one.gap <= some.gaps[one.person] + 5 * one.luck
    inside = max(mean_slope(some, int(i), 0.0, np.random.default_rng(1)) for i in worst) if clip < 1 else 1.0
    assert max(one.gap for one in found) > g / 3 * inside


@pytest.mark.parametrize(("n", "d", "epsilon", "alpha", "clip"), CASES)
@pytest.mark.parametrize("lie", [0.3, 0.1])
def test_no_lie_beyond_d_pays_against_the_worst_liars(
    n: int, d: int, epsilon: float, alpha: float, clip: float, lie: float
) -> None:
    """161 reports of the six people of largest g_i, if every lie saves all of τh(ε): some pay up to nearly D, none
    beyond. A mean p̄ is off by a hundredth of g: what that moves is far below what is left."""
    some = people(n, d, "all", epsilon, alpha, clip)
    size = max(lie, 4 * float(proved.gap(some.setting)))
    paid = with_payments(some, size)
    D = float(proved.lie_size(paid.setting))
    assert pytest.approx(size, rel=1e-3) == D  # but for a step of rounding
    worst = np.argsort(-some.gaps)[:6]
    found = pushed(paid, worst, (0.0, 0.5, 0.9), np.random.default_rng(n), 2000)
    furthest = furthest_paying(paid, paid.mechanism.score_weight, found)
    assert furthest <= D
    reached = max(float(np.ptp(own(paid, int(i), np.array([-1.0, 1.0])))) for i in worst)
    assert furthest > 0.6 * min(D, reached / 2)


@pytest.mark.parametrize(("n", "alpha", "beta"), [(500, 0.01, 0.01), (2000, 0.0015, 0.01), (300, 0.05, 0.1)])
def test_no_more_lie_than_are_allowed_for(n: int, alpha: float, beta: float) -> None:
    """Costs above τ, binomially many: E|A| ≤ κ, and more than αn with a chance of at most β. Both are exact."""
    plan = plan_of(DESIGNED, n, absent_share=alpha, failure_probability=beta)
    stage = set_up_numbers(plan, assign_roles(None, n), features_of(plan, None)[0], runs=1)
    above = 1 - float(plan.study.costs.cdf(stage.game.threshold))
    assert 0.95 * stage.game.liars <= n * above <= stage.game.liars * (1 + 1e-9)
    assert stats.binom.sf(round(alpha * n), n, above) <= beta * (1 + 1e-9)


@pytest.mark.slow
def test_the_people_of_a_plan_see_its_gap_from_liars_that_are_cast() -> None:
    """`targeting` among everybody on a roster: the gap of its target is found, below g and above a third of it.

    Five standard errors of 500 studies: 6e-7.
    """
    study, X = survey(3), roster(400, 3)
    plan = design(study, roster=X, epsilon=1.0, score_weight=1.0, absent_share=0.02)
    seen = simulate(plan, {"targeting": 1.0}, runs=500, seed=1, features=X)
    assert seen.guaranteed_for == "plan"
    assert seen.observed.truthfulness.liars.value == pytest.approx(seen.guaranteed_liars, rel=0.1)
    players, surplus = (
        np.array([getattr(run, f"cell_{name}")[-1] for run in seen.studies])
        for name in ("players", "surplus")
    )
    assert np.all(players == 1)
    luck = 5 * surplus.std() / math.sqrt(len(surplus))
    assert abs(surplus.mean()) <= seen.guaranteed_gap + luck
    assert abs(surplus.mean()) >= seen.guaranteed_gap / 3 - luck
    error = simulate(plan, {"influential": 1.0}, runs=300, features=X).observed.accuracy.mean_squared_error
    assert error.value <= (plan.guarantees.accuracy.mean_squared_error or 0.0) + 5 * error.error


# Budget


@pytest.mark.parametrize("rule", ["quadratic", "brier"])
@pytest.mark.parametrize("name", ["instruments", "known-design", "noisy-statistics"])
def test_whatever_is_reported_no_payment_is_negative_and_the_cap_holds(name: str, rule: str) -> None:
    """Reports at random, at both ends and all the same, in forty studies."""
    plan = planned_like(name, 60, rule=rule, clip=0.3, base_payment=0.0, epsilon=0.5)
    stage = set_up_numbers(plan, assign_roles(None, 60), features_of(plan, None)[0], runs=1)
    Y, rng = plan.study.beliefs.response_bound, np.random.default_rng(3)
    for k in range(40):
        x = stage.features(rng, 60)
        reports = (rng.uniform(-Y, Y, 60), np.sign(rng.standard_normal(60)) * Y, np.full(60, Y))[k % 3]
        paid = stage.settle(x, reports[None], rng).paid
        assert paid.min() >= 0.0
        assert paid.sum() <= (plan.guarantees.budget.cap or 0.0)
        mechanism = plan.mechanism
        assert isinstance(mechanism, OneRelease)
        lengths = np.linalg.norm(x, axis=1)
        gain = mechanism.scoring.linear * 0.3 * lengths + (0.3 * lengths) ** 2
        assert np.all(paid <= mechanism.base(lengths) + mechanism.score_weight * gain)


# Intervals


@pytest.mark.parametrize(("n", "d", "epsilon"), [(300, 3, 2.0), (1000, 5, 0.3)])
def test_intervals_hold_the_truth_19_times_in_20(n: int, d: int, epsilon: float) -> None:
    """To 1.5 %, three standard errors of 2,000 studies (0.3 %); given features their widths are the same in all."""
    some = people(n, d, "all", epsilon)
    study, beliefs, mechanism = some.study, some.study.beliefs, some.mechanism
    widths = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        y = some.x @ some.theta_at_the_edge(rng) + beliefs.noise.sample(rng, n)
        added = sums(some.x * 2**20, grid_responses(y, beliefs.response_bound), mechanism.transform)
        [query] = mechanism.queries(added, beliefs)
        estimate = mechanism.estimate(
            [fast_answer(rng)(query, mechanism.vector_epsilon)], n, beliefs, added.matrix
        )
        stated = released_numbers(study, mechanism, estimate, added)["coefficients"]
        widths.append([(one.high - one.low) / 2 for one in stated])
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-9)
    rows, _ = study.coefficient_map
    off = np.abs(errors(some, np.random.default_rng(5), 2000) @ rows.T)
    assert np.mean(off <= widths[0]) == pytest.approx(0.95, abs=0.015)

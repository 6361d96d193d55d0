"""Plans that are solved for: they keep what they promise, more of anything never hurts, and any two goals will do."""

import json
import math
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.oracles_planner import People as Spread
from support.oracles_planner import typical_slope
from support.plans import ball, bought, people_of, solved, surveyed
from support.studies import DESIGNED, OBSERVED, RECORDS, UNIT_BALL, people, saved_study
from support.surveys import survey

from truthful.bounds import Setting, proved
from truthful.deterrence import Deterrence, representative
from truthful.errors import InputError, Refused
from truthful.geometry import Geometry, geometry
from truthful.guarantees import model, setting
from truthful.plan import LARGEST_PAYMENT, Plan, design
from truthful.planner import Infeasible, worth
from truthful.planner.goals import Goals
from truthful.planner.number_planning import NumberSolution, solve_all
from truthful.planner.panel import Panel, panel_of_design
from truthful.planner.terms import LEAST_SLOPE, MOST_PAID
from truthful.promises import compare_published, published_penalty
from truthful.settlement import settle
from truthful.study import Study

DESIGN, BALL, SEEN = DESIGNED, UNIT_BALL, OBSERVED + RECORDS
WITHOUT_FEATURES = re.sub(r"\[\[features\]\].*?(?=\[design\])", "", DESIGNED, flags=re.DOTALL)

CASES: list[tuple[str, dict[str, Any]]] = [
    (BALL, {"players": 20_000, "budget": 5000}),
    (BALL, {"players": 20_000, "budget": 5000, "payments": "expected", "lie": 0.3}),
    (BALL, {"players": 20_000, "budget": 5000, "rule": "brier", "accuracy_of": "predictions"}),
    (BALL, {"players": 2000, "accuracy": 0.1}),
    (BALL, {"players": 20_000, "epsilon": 0.1}),
    (BALL, {"budget": 5000, "accuracy": 0.1}),
    (BALL, {"budget": 5000, "epsilon": 0.1}),
    (BALL, {"accuracy": 0.1, "epsilon": 0.1}),
    (BALL, {"players": 20_000, "budget": 5000, "accuracy": 0.1}),
    (BALL, {"players": 20_000, "budget": 5000, "epsilon": 0.05}),
    (BALL, {"players": 20_000, "budget": 5000, "accuracy": 0.1, "epsilon": 0.05}),
    (DESIGN, {"players": 20_000, "budget": 5000}),
    (DESIGN, {"players": 20_000, "accuracy": 20.0, "payments": "expected", "rule": "brier"}),
    (DESIGN, {"budget": 5000, "accuracy": 9.0, "accuracy_of": "predictions"}),
    (DESIGN, {"players": 3000, "budget": 2000, "failure_probability": 0.05}),
    (DESIGN, {"players": 3000, "budget": 2000, "response_share": 0.6}),
    (BALL + RECORDS, {"players": 20_000, "budget": 5000}),
    (BALL + RECORDS, {"players": 20_000, "accuracy": 0.1, "payments": "expected", "rule": "brier"}),
    (BALL + RECORDS, {"budget": 5000, "accuracy": 0.1}),
    (DESIGN + RECORDS, {"players": 40_000, "budget": 10_000, "accuracy_of": "predictions"}),
    (SEEN, {"players": 400_000, "budget": 100_000}),
    (SEEN, {"players": 400_000, "accuracy": 15.0, "payments": "expected"}),
    (WITHOUT_FEATURES, {"players": 2000, "budget": 500}),
    (WITHOUT_FEATURES + RECORDS, {"players": 2000, "accuracy": 3.0}),
]
#: Those that take long, and of which others are much like.
LONG = {2, 6, 9, 10, 13, 14, 18, 19}
SURVEYS: list[tuple[int, int, dict[str, Any]]] = [
    (500, 2, {"budget": 500}),
    (2000, 5, {"budget": 2000}),
    (2000, 5, {"budget": 2000, "accuracy_of": "predictions", "rule": "brier"}),
    (2000, 5, {"accuracy": 0.2}),
    (2000, 5, {"epsilon": 0.3}),
    (2000, 5, {"budget": 4000, "response_share": 0.5}),
    (2000, 5, {"budget": 4000, "players": 1500, "lie": 0.2}),
    (500, 3, {"budget": 1000, "payments": "expected"}),
]


def title(part: object) -> str:
    """What a case is called: by its study's name and what it protects, and by its goals."""
    if not isinstance(part, str):
        return str(part)
    features = "" if "[[features]]" in part else ", no features"
    return f"{Study.parse(part).name}{', records' * ('records' in part)}{features}"


def shape(plan: Plan) -> Geometry | None:
    """The geometry of the people a plan is made for, where answers are protected."""
    mechanism = plan.number_mechanism
    if mechanism.transform is None:
        return None
    assert isinstance(plan.solution, NumberSolution)
    panel, terms = plan.solution.goals.panel, plan.solution.terms
    assert panel is not None
    if panel.roster is not None and plan.answering == len(panel.roster):
        return geometry(panel.roster, mechanism.transform)
    return panel.geometry(plan.players, terms.shortening)


def as_planned(plan: Plan) -> Setting:
    """The plan's own numbers, as the bounds take them."""
    return setting(
        plan.study,
        plan.number_mechanism,
        plan.answering,
        plan.absent_share,
        plan.failure_probability,
        shape(plan),
    )


def cost(plan: Plan) -> float:
    """What a budget bounds."""
    promised = plan.guarantees.budget
    found = promised.cap if plan.number_mechanism.payments == "never-negative" else promised.expected
    assert found is not None
    return found


def error(plan: Plan, of: str = "coefficients") -> float:
    """The guaranteed error in raw response units."""
    found = (
        plan.guarantees.accuracy.rmse if of == "coefficients" else plan.guarantees.accuracy.prediction_rmse
    )
    assert found is not None
    return found


def undeterred(plan: Plan, lie: float, clip: float | None) -> float:
    """The share of answers that nothing deters, at the plan's noise."""
    study, mechanism, found = plan.study, plan.number_mechanism, shape(plan)
    spread, Sigma = Spread(study, plan.answering, found).spread, study.second_moments
    if found is None and study.assigned and Sigma is not None:
        # People of the design, who are no part of a search for a plan.
        X = study.normalise(study.sample_features(np.random.default_rng(1), 4_000), 4_000)
        along = np.linalg.norm(np.linalg.solve(np.asarray(Sigma), X.T), axis=0)
        spread = np.linalg.norm(X, axis=1), along / (plan.answering - 1)
    return Deterrence(study.beliefs, *representative(*spread)).undeterred_share(
        lie, clip, mechanism.scale(study.beliefs)
    )


def keeps_what_was_asked(plan: Plan, asked: dict[str, Any]) -> None:
    study, s, lie = plan.study, as_planned(plan), asked.get("lie", plan.study.beliefs.radius / 2)
    assert proved.lie_size(s) <= lie
    assert proved.participation(s) <= s.a
    assert study.costs.cdf(proved.joining_threshold(s)) >= 1 - plan.absent_share
    assert proved.threshold(s) <= proved.joining_threshold(s)
    assert cost(plan) <= asked.get("budget", math.inf)
    assert error(plan, asked.get("accuracy_of", "coefficients")) <= asked.get("accuracy", math.inf)
    assert plan.players == asked.get("players", plan.players)
    assert plan.number_mechanism.epsilon == asked.get("epsilon", plan.number_mechanism.epsilon)
    for name in ("estimator", "rule", "payments"):
        assert plan.parameters().get(name) == asked.get(name, plan.parameters().get(name))
    promised = plan.guarantees
    assert promised.truthfulness.lie == pytest.approx(float(proved.lie_size(s)), rel=1e-9)
    assert promised.accuracy.mean_squared_error == pytest.approx(float(proved.accuracy(s)), rel=1e-9)
    assert promised.truthfulness.undeterred == pytest.approx(
        undeterred(plan, promised.truthfulness.lie or 0.0, plan.number_mechanism.clip if s.clipped else None),
        abs=1e-9 if shape(plan) is not None else 6e-3,
    )
    if s.clipped:
        assert 0.2 * study.beliefs.radius <= plan.number_mechanism.clip <= study.beliefs.radius
        spread = Spread(study, plan.answering, shape(plan))
        # Those who are drawn have a little more noise than all of whom they are drawn.
        assert typical_slope(spread, s) >= LEAST_SLOPE * (1 - 1e-6)
        # No plan is better because more lies go free: of a design, of the person of typical features.
        free = undeterred(plan, lie, study.beliefs.radius)
        assert promised.truthfulness.undeterred is not None
        assert promised.truthfulness.undeterred <= free + (2e-3 if shape(plan) is not None else 0.03)


@pytest.mark.parametrize(
    ("text", "asked"),
    [pytest.param(*one, marks=pytest.mark.slow if k in LONG else []) for k, one in enumerate(CASES)],
    ids=title,
)
def test_a_plan_keeps_all_that_was_asked_as_the_bounds_on_its_own_numbers_say(
    text: str, asked: dict[str, Any]
) -> None:
    keeps_what_was_asked(solved(text, **asked), asked)


@pytest.mark.parametrize(("players", "d", "asked"), SURVEYS, ids=str)
def test_a_plan_from_a_roster_keeps_all_that_was_asked(players: int, d: int, asked: dict[str, Any]) -> None:
    plan = surveyed(players, d, **asked)
    keeps_what_was_asked(plan, {"players": players, **asked})
    assert plan.answering == round(asked.get("response_share", 1.0) * plan.players)


@pytest.mark.parametrize(
    ("text", "asked"),
    [CASES[0], CASES[1], CASES[2], CASES[16], CASES[20]],
    ids=title,
)
def test_design_spends_exactly_the_budget_its_bound_promises(text: str, asked: dict[str, Any]) -> None:
    assert cost(solved(text, **asked)) == pytest.approx(asked["budget"], rel=1e-6)


@pytest.mark.parametrize(
    ("text", "asked"),
    [CASES[0], CASES[1], CASES[4], CASES[12], CASES[16]],
    ids=title,
)
def test_payments_are_the_least_that_will_do(text: str, asked: dict[str, Any]) -> None:
    """A thousandth less weight lets larger lies pay; a thousandth less base keeps people away."""
    plan = solved(text, **asked)
    s = as_planned(plan)
    lie = float(proved.lie_size(s))
    assert proved.lie_size(s.at(b=s.b * 0.999)) > lie
    less = s.at(a=s.a * 0.999 - 1e-6)
    assert proved.participation(less) > less.a
    if not s.clipped:
        assert lie == pytest.approx(asked.get("lie", plan.study.beliefs.radius / 2), rel=1e-6)


# The figures that must be reached

#: Guaranteed errors of coefficients and predictions of surveys: (people, coefficients), then at 0.25, 1 and 5 USD a
#: head, as they were with c = R and one base payment for all. None: nothing could be guaranteed.
REFERENCE: dict[tuple[int, int], tuple[tuple[float, float] | None, ...]] = {
    (500, 2): ((0.30, 0.13), (0.18, 0.078), (0.11, 0.046)),
    (500, 3): (None, (0.30, 0.12), (0.17, 0.068)),
    (2000, 2): ((0.094, 0.041), (0.059, 0.026), (0.037, 0.016)),
    (2000, 3): ((0.16, 0.064), (0.095, 0.038), (0.057, 0.023)),
    (2000, 5): ((0.46, 0.14), (0.25, 0.075), (0.14, 0.041)),
    (6000, 5): ((0.17, 0.051), (0.10, 0.030), (0.061, 0.018)),
    (6000, 10): (None, (0.38, 0.071), (0.20, 0.037)),
    (20_000, 5): ((0.063, 0.019), (0.039, 0.011), (0.025, 0.007)),
    (20_000, 10): ((0.23, 0.044), (0.13, 0.025), (0.077, 0.014)),
    (200_000, 5): ((0.011, 0.003), (0.0073, 0.002), (0.0052, 0.0014)),
}
EACH = (0.25, 1.0, 5.0)
#: Those of which the least and the largest price are planned for too.
EVERY_PRICE = {(500, 3), (2000, 5), (20_000, 5)}
QUICK = {((2000, 5), 1.0), ((20_000, 5), 0.25), ((500, 3), 0.25)}


def at_no_price_of_deterrence(plan: Plan) -> None:
    """The undeterred share is not above that of the same lie with clip = R at the same noise."""
    free = undeterred(plan, plan.study.beliefs.radius / 2, plan.study.beliefs.radius)
    assert plan.guarantees.truthfulness.undeterred is not None
    assert plan.guarantees.truthfulness.undeterred <= free + 2e-3


@pytest.mark.parametrize(
    ("players", "d", "each", "most"),
    [
        pytest.param(*key, each, most, marks=[] if (key, each) in QUICK else pytest.mark.slow)
        for key, row in REFERENCE.items()
        for each, most in zip(EACH, row, strict=True)
        if each == 1.0 or key in EVERY_PRICE
    ],
)
def test_surveys_are_at_least_as_accurate_as_the_reference_at_no_price_of_deterrence(
    players: int, d: int, each: float, most: tuple[float, float] | None
) -> None:
    plan = bought(players, d, each)
    coefficients, predictions = most or (math.inf, math.inf)
    assert error(plan) <= min(coefficients, math.sqrt(model(plan.study).prior_square))
    assert error(plan, "predictions") <= predictions
    assert cost(plan) <= each * players
    at_no_price_of_deterrence(plan)


@pytest.mark.parametrize(
    ("players", "each", "coefficients", "predictions"),
    [(2000, 1.0, 0.18, 0.055), (20_000, 0.25, 0.045, 0.014)],
)
def test_what_was_asked_for_surveys_of_five_coefficients_is_reached(
    players: int, each: float, coefficients: float, predictions: float
) -> None:
    plan = bought(players, 5, each)
    assert error(plan) <= coefficients
    assert error(plan, "predictions") <= predictions


def test_the_demo_guarantees_twenty_of_a_thousand_for_five_thousand_dollars() -> None:
    text = (Path(design.__code__.co_filename).parent / "demo.toml").read_text()
    plan = solved(text, players=20_000, budget=5000)
    assert plan.study.response.high - plan.study.response.low == 1000
    assert error(plan) <= 20
    at_no_price_of_deterrence(plan)


#: Records on the ball, 0.25 EUR a head, lie 0.5: (coefficients, people), then the mean squared errors with payments
#: that hold on average and with never negative ones, as they were with c = R and one base payment for all.
RECORDED: dict[tuple[int, int], tuple[float, float]] = {
    (2, 500): (0.102, 0.5),
    (2, 200_000): (2.175e-5, 4.65e-5),
    (5, 2000): (0.0917, 0.714),
    (5, 20_000): (2.511e-3, 0.01121),
    (10, 2000): (0.845, math.inf),
    (10, 200_000): (5.19e-4, 2.173e-3),
}


@pytest.mark.parametrize(("d", "players"), RECORDED)
def test_records_are_at_least_as_accurate_as_the_reference(d: int, players: int) -> None:
    asked: dict[str, Any] = {"players": players, "budget": 0.25 * players, "lie": 0.5}
    for payments, most in zip(("expected", "never-negative"), RECORDED[d, players], strict=True):
        if math.isinf(most):
            continue
        plan = solved(ball(d, records=True), payments=payments, **asked)
        assert (plan.guarantees.accuracy.mean_squared_error or math.inf) <= most
    if players == 20_000:
        both = solved(ball(d), **asked).guarantees.accuracy.mean_squared_error
        assert (both or math.inf) < 0.8 * (plan.guarantees.accuracy.mean_squared_error or 0.0)


@pytest.mark.parametrize(
    ("d", "players", "most"),
    [
        (2, 20_000, 0.00355),
        (5, 20_000, 0.521),
        (3, 200_000, 2.00e-4),
        (5, 200_000, 8.6e-4),
    ],
)
def test_records_of_observed_features_are_at_least_as_accurate_as_the_reference(
    d: int, players: int, most: float
) -> None:
    """With an intercept and d − 1 numbers, of least eigenvalue 1/(d+2)."""
    numbers = re.sub(r'(name = "x\d+"\n)', r"\1low = -1\nhigh = 1\n", ball(d - 1, records=True))
    text = numbers.replace('kind = "unit-ball"', f'kind = "observed"\nleast_eigenvalue = {1 / (d + 2)}')
    plan = solved(text, players=players, budget=0.25 * players, lie=0.5)
    assert plan.study.dimension == d
    assert (plan.guarantees.accuracy.mean_squared_error or math.inf) <= most


# Deterrence is not what pays for accuracy


@pytest.mark.parametrize("clip", [0.6, 0.36, 0.2, 0.12])
def test_at_every_clip_level_as_much_is_deterred_as_without_clipping_closer(clip: float) -> None:
    plan = bought(2000, 5, 1.0, clip=clip)
    assert plan.parameters()["clip"] == clip
    at_no_price_of_deterrence(plan)
    free = undeterred(plan, 0.3, 0.6)
    assert plan.guarantees.truthfulness.undeterred == pytest.approx(free, abs=2e-3)


def test_clipping_closer_is_cheaper_and_the_best_level_is_chosen() -> None:
    chosen, errors = (
        bought(2000, 5, 1.0),
        [error(bought(2000, 5, 1.0, clip=c)) for c in (0.6, 0.36, 0.2, 0.12)],
    )
    assert error(chosen) <= min(errors) * (1 + 1e-4)
    assert error(chosen) < 0.85 * errors[0]


def test_noise_that_drowns_what_deters_is_refused_where_epsilon_is_given() -> None:
    """At an ε at which predictions hardly follow answers nothing is planned, whatever payments could deter."""
    asked: dict[str, Any] = {"players": 20_000, "budget": 5000}
    plan = solved(DESIGN, epsilon=0.02, **asked)
    slope = float(typical_slope(Spread(plan.study, plan.answering, shape(plan)), as_planned(plan)))
    assert LEAST_SLOPE < slope < 1
    drowned = Goals(panel=panel_of(plan.study), epsilon=0.002, **asked)
    assert math.isinf(solve_all(plan.study, drowned, 20_000)[0].cost)


# More never hurts


@pytest.mark.slow
@pytest.mark.parametrize("text", [BALL, DESIGN], ids=["ball", "levels"])
@pytest.mark.parametrize(
    "changes",
    [
        [{"budget": budget} for budget in (1000, 2000, 5000, 1_000_000)],
        [{"players": players} for players in (5000, 6000, 20_000, 300_000)],
        [{"lie": lie} for lie in (0.15, 0.3, 0.31, 1.2)],
        # Nothing: 0.01, never negative and quadratic, as usual, in a plan that all of these share.
        [{"failure_probability": 0.001}, {}, {"failure_probability": 0.1}],
        [{}, {"payments": "expected"}],
        [{"rule": "brier"}, {}],
    ],
    ids=lambda changes: next(iter(changes[0] | changes[-1])),
)
def test_more_money_more_players_and_larger_lies_never_worsen_accuracy(
    text: str, changes: list[dict[str, Any]]
) -> None:
    """Searches and the people who are drawn for them leave two thousandths."""
    errors = [error(solved(text, **{"players": 20_000, "budget": 5000, **change})) for change in changes]
    assert all(after <= before * 1.002 for before, after in pairwise(errors))
    assert errors[-1] < errors[0]


@pytest.mark.slow
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
@pytest.mark.parametrize("text", [BALL, DESIGN, BALL + RECORDS, SEEN], ids=title)
def test_the_least_cost_of_the_accuracy_that_a_budget_bought_is_that_budget(text: str, payments: str) -> None:
    players, budget = (400_000, 100_000.0) if text is SEEN else (20_000, 5000.0)
    bought = solved(text, players=players, budget=budget, payments=payments)
    again = solved(text, players=players, accuracy=error(bought) * (1 + 1e-6), payments=payments)
    assert cost(again) == pytest.approx(budget, rel=5e-3)


def test_the_least_cost_of_the_accuracy_that_a_survey_bought_is_what_it_cost() -> None:
    plan, people = bought(2000, 5, 1.0), people_of(2000, 5)
    again = design(survey(5), roster=people, accuracy=error(plan) * (1 + 1e-6))
    assert cost(again) == pytest.approx(2000, rel=5e-3)


# Players, where there is no roster


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (BALL, {"budget": 5000, "accuracy": 0.1}),
        (DESIGN, {"budget": 300, "accuracy": 30.0, "payments": "expected"}),
        (WITHOUT_FEATURES, {"budget": 400, "accuracy": 2.0}),
        pytest.param(SEEN, {"budget": 20_000, "accuracy": 30.0}, marks=pytest.mark.slow),
    ],
    ids=title,
)
def test_players_solved_from_a_budget_and_an_accuracy_are_the_fewest(
    text: str, asked: dict[str, Any]
) -> None:
    plan = solved(text, **asked)
    fewer = int(plan.players * 0.97)
    goals = Goals(players=fewer, panel=panel_of(plan.study), **asked)
    assert all(math.isinf(found.cost) for found in solve_all(plan.study, goals, fewer))
    again = solved(text, players=plan.players, **asked)
    assert again.guarantees == plan.guarantees


def panel_of(study: Study) -> Panel | None:
    return panel_of_design(study) if study.protects == "answers" else None


@pytest.mark.slow
def test_players_at_a_given_epsilon_are_about_the_best_number() -> None:
    """Within three per cent of the error, and of the cost: that liars are whole people makes the best number jump."""
    accurate, cheap = solved(BALL, budget=5000, epsilon=0.1), solved(BALL, accuracy=0.1, epsilon=0.1)
    for factor in (0.3, 0.5, 0.8, 0.9, 1.1, 1.3, 2.0):
        n = round(factor * accurate.players)
        try:
            assert error(accurate) <= 1.03 * error(solved(BALL, players=n, budget=5000, epsilon=0.1))
        except Infeasible:
            assert n > accurate.players
    for factor in (0.9, 0.97, 1.1, 1.3, 2.0):
        n = round(factor * cheap.players)
        try:
            assert cost(cheap) <= 1.03 * cost(solved(BALL, players=n, accuracy=0.1, epsilon=0.1))
        except Infeasible:
            assert n < cheap.players


def test_people_of_a_roster_who_are_not_all_invited_are_a_random_part_of_it() -> None:
    """The plan for 1,500 of 2,000 is a little worse than one for these 1,500, as any 1,500 might come."""
    people = people_of(2000, 5)
    some = design(survey(5), roster=people, players=1500, budget=1500)
    these = design(survey(5), roster=people[:1500], budget=1500)
    assert some.roster is not None
    assert some.roster.players == 2000
    assert (some.players, some.answering) == (1500, 1500)
    assert error(these) < error(some) < 1.25 * error(these)


# What is fixed stays fixed


@pytest.mark.parametrize(
    "pins",
    [
        {"absent_share": 0.001},
        {"absent_share": 1 / 30_000},
        {"clip": 0.7},
        {"clip": 0.31, "epsilon": 0.05, "absent_share": 0.001},
        {"payments": "expected"},
    ],
    ids=str,
)
@pytest.mark.parametrize("text", [BALL, BALL + RECORDS], ids=title)
def test_parameters_that_are_given_are_kept(text: str, pins: dict[str, Any]) -> None:
    plan = solved(text, players=20_000, budget=8000, lie=0.8, **pins)
    found = {name: plan.parameters()[name] for name in pins}
    assert found == pins
    free = solved(text, players=20_000, budget=8000, lie=0.8, payments=plan.number_mechanism.payments)
    assert error(free) <= error(plan) * 1.001


def test_the_share_of_the_matrix_that_is_given_is_kept() -> None:
    plan = solved(SEEN, players=400_000, budget=100_000, gram_share=0.3)
    assert plan.parameters()["gram_share"] == 0.3
    assert error(solved(SEEN, players=400_000, budget=100_000)) <= error(plan)


@pytest.mark.parametrize("text", [BALL, BALL + RECORDS], ids=title)
def test_no_plan_is_made_for_payments_that_a_plan_refuses(text: str) -> None:
    assert MOST_PAID == LARGEST_PAYMENT
    plan = solved(text, players=200, budget=1e15)
    assert max(plan.number_mechanism.base_payment, plan.number_mechanism.score_weight) <= LARGEST_PAYMENT


# Without features


def test_a_study_without_features_is_planned_and_settled() -> None:
    """One coefficient, the mean: σ²/n and noise are all that stands in its way, and 1/n is everybody's influence."""
    plan = solved(WITHOUT_FEATURES, players=2000, budget=500)
    mechanism, s = plan.number_mechanism, as_planned(plan)
    assert mechanism.transform == ((1024,),)
    n, k, Y = 2000, round(plan.absent_share * 2000), plan.study.beliefs.response_bound
    sampling = math.sqrt(plan.study.beliefs.noise_variance / n)
    exact = (2 * Y * k / n + sampling) ** 2 + 2 * (2 * Y / mechanism.epsilon / n) ** 2
    assert plan.guarantees.accuracy.mean_squared_error == pytest.approx(exact, rel=1e-6)
    assert plan.guarantees.accuracy.prediction_rmse == pytest.approx(error(plan))
    assert plan.guarantees.privacy.not_protected == ("taking part",)
    # Everybody has the same length, so that the cap is just what was given.
    assert float(proved.budget_cap(s)) == pytest.approx(500, rel=1e-6)
    settled = settle(plan, people(plan.study, n).reports, seed=3)
    low, high = settled.release.coefficients[0].low, settled.release.coefficients[0].high
    assert settled.release.guarantees == settled.release.promised
    assert 0 < high - low < 6 * error(plan)


# What more would buy


@pytest.mark.parametrize(
    ("players", "d", "asked"), [(2000, 5, {}), (2000, 5, {"response_share": 0.5})], ids=str
)
def test_one_more_dollar_and_one_more_player_are_worth_what_plans_with_them_say(
    players: int, d: int, asked: dict[str, Any]
) -> None:
    """More players of a roster are more people like them: as if every twentieth of them came twice."""
    people = people_of(players, d)
    plan = surveyed(players, d, budget=2000, **asked)
    assert plan.solution is not None
    margins = worth(plan.solution)
    assert margins.of == "error"
    richer = design(survey(d), roster=people, budget=2100, **asked)
    assert margins.currency_unit == pytest.approx((error(richer) - error(plan)) / 100, rel=0.15)
    more = design(survey(d), roster=np.concatenate([people, people[::20]]), budget=2000, **asked)
    assert margins.player is not None
    assert margins.player < 0
    # Of those who may come, the worst of a hundred draws counts: by a per cent or so it is a matter of chance.
    near = 0.5 if "response_share" in asked else 0.2
    assert margins.player == pytest.approx((error(more) - error(plan)) / (players / 20), rel=near)


def test_one_more_player_saves_or_costs_money_where_an_accuracy_is_asked() -> None:
    plan = solved(DESIGN, players=3000, accuracy=10.0)
    assert plan.solution is not None
    margins = worth(plan.solution)
    assert (margins.of, margins.currency_unit) == ("cost", None)
    more = solved(DESIGN, players=3150, accuracy=10.0)
    assert margins.player == pytest.approx((cost(more) - cost(plan)) / 150, rel=0.2)


def test_proved_stands_beside_published_for_one_release() -> None:
    plan = bought(2000, 5, 1.0)
    rows = compare_published(plan)
    assert [row.guarantee for row in rows] == [
        "privacy",
        "truthfulness",
        "truthfulness",
        "accuracy",
        "participation",
        "budget",
        "budget",
    ]
    told = {row.number: row for row in rows}
    assert told["total ε"].proved == told["total ε"].published == f"{plan.number_mechanism.epsilon:.4g}"
    assert told["for certain at most"].proved == "2,000.00 USD"
    assert told["for certain at most"].published == "no bound"
    assert float(told["error of coefficients"].proved) == pytest.approx(error(plan), rel=1e-2)
    assert float(told["error of coefficients"].published) > float(told["error of coefficients"].proved)
    assert told["share who gain by joining"].proved.endswith("%")
    assert published_penalty(plan) > 0


# Records


def test_the_same_goals_give_the_same_plan_also_in_another_process() -> None:
    code = (
        "import sys; from truthful.plan import design; from truthful.study import Study; "
        "print(design(Study.parse(sys.stdin.read()), players=20_000, budget=5000.0).sha256)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], input=DESIGNED, capture_output=True, text=True, check=True
    )
    assert design(Study.parse(DESIGNED), players=20_000, budget=5000.0).sha256 == other.stdout.strip()
    assert solved(DESIGN, players=20_000, budget=5000).sha256 == other.stdout.strip()


def test_a_plan_tells_what_was_asked_and_what_it_was_chosen_from() -> None:
    plan = solved(BALL + RECORDS, players=20_000, budget=5000, lie=0.25)
    record = json.loads(json.dumps(plan.record()))["answer"]
    assert record["asked"] == {"players": 20_000, "budget": 5000, "lie": 0.25}
    assert record["minimised"] == "error"
    assert isinstance(plan.solution, NumberSolution)
    assert [row["estimator"] for row in record["compared"]] == ["known-design", "noisy-statistics"]
    errors = [row["error"] for row in record["compared"] if row["error"] is not None]
    assert errors == sorted(errors)
    assert errors[0] == pytest.approx(error(plan), rel=1e-9)
    assert solved(DESIGN, players=20_000, accuracy=20.0).record()["answer"]["minimised"] == "cost"
    assert solved(BALL, players=20_000, epsilon=0.1).record()["answer"]["minimised"] == "cost × squared error"


def test_records_of_very_many_people_are_better_blurred_than_declared() -> None:
    few, many = (
        solved(BALL + RECORDS, players=n, budget=0.25 * n, payments="expected") for n in (20_000, 2_000_000)
    )
    assert (few.mechanism.estimator, many.mechanism.estimator) == ("known-design", "noisy-statistics")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (DESIGNED, {"players": 900, "budget": 8000, "payments": "expected"}),
        (DESIGNED, {"players": 3000, "budget": 3000}),
        (DESIGNED + RECORDS, {"players": 3000, "budget": 30_000}),
    ],
    ids=["expected", "never negative", "records"],
)
def test_a_plan_that_was_solved_for_is_read_back_and_carried_out(
    tmp_path: Path, text: str, asked: dict[str, Any]
) -> None:
    plan = design(saved_study(tmp_path, text), **asked)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.guarantees == plan.guarantees
    settled = settle(loaded, people(plan.study, plan.players).reports, out=tmp_path / "out", seed=3)
    paid = np.asarray(settled.payments["payment"], dtype=float)
    assert len(paid) == plan.players
    if plan.number_mechanism.payments == "never-negative":
        assert paid.min() >= 0
        assert paid.sum() <= asked["budget"]


# What is not enough, or not a number


@pytest.mark.parametrize(
    ("asked", "have"),
    [
        ({}, "nothing"),
        ({"players": 1000}, "players alone"),
        ({"budget": 10}, "budget alone"),
        ({"accuracy": 0.1}, "accuracy alone"),
        ({"epsilon": 0.1}, "epsilon alone"),
        ({"epsilon": 0.1, "lie": 0.3}, "epsilon alone"),
    ],
    ids=str,
)
def test_too_few_goals_say_what_to_add(asked: dict[str, Any], have: str) -> None:
    with pytest.raises(InputError, match=f"from {have}. Give two of players, budget, accuracy and epsilon"):
        design(Study.parse(BALL), **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"players": 1}, "players is 1; it must be at least 2"),
        ({"players": True}, "players is True; it must be a whole number"),
        ({"players": 10.5}, "players is 10.5; it must be a whole number"),
        ({"players": "many"}, "players is 'many'"),
        ({"players": 2_000_000_000}, "players is 2000000000; plans are made for up to 1,000,000,000"),
        *(
            ({name: 0}, f"{name} is 0; it must be above 0")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        *(
            ({name: -1}, f"{name} is -1; it must be above 0")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        *(
            ({name: math.nan}, f"{name} is nan; it must be a finite")
            for name in ("budget", "accuracy", "lie")
        ),
        *(
            ({name: math.inf}, f"{name} is inf; it must be a finite")
            for name in ("budget", "accuracy", "epsilon")
        ),
        *(
            ({name: "x"}, f"{name} is 'x'; it must be a number")
            for name in ("budget", "accuracy", "epsilon", "lie")
        ),
        ({"epsilon": 1e-9}, "epsilon is 1e-09; it must lie between"),
        ({"epsilon": 1000}, "epsilon is 1000; it must lie between"),
        ({"accuracy_of": "luck"}, "accuracy_of is 'luck'; choose one of coefficients, predictions"),
        ({"failure_probability": 0.0}, "failure_probability is 0.0"),
        ({"rule": "flat"}, "rule is 'flat'; choose one of"),
        ({"payments": "some"}, "payments is 'some'; choose one of"),
        ({"base_payment": 1.0}, "base_payment is 1.0, without a score_weight"),
        ({"absent_share": -0.1}, "absent_share is -0.1"),
        ({"absent_share": 1.0}, "absent_share is 1.0"),
        ({"absent_share": math.nan}, "absent_share is nan"),
        ({"clip": 0.0}, "clip is 0.0; it must be above 0"),
        ({"clip": 1.5}, "clip is 1.5; .* radius 1"),
        ({"public_share": 0.5}, "Unknown parameter 'public_share'"),
        ({"gram_share": 0}, "gram_share is 0"),
        ({"gram_share": 0.5}, "No estimator fits.* answers are protected.* gram_share fixed"),
        ({"response_share": 0}, "response_share is 0.0; it must be above 0"),
        ({"estimator": "magic"}, "estimator is 'magic'; choose one of instruments, known-design"),
        ({"estimator": "known-design"}, "'known-design' protects records, and the study .* protects answers"),
        ({"colour": "red"}, "Unknown parameter 'colour'"),
    ],
    ids=str,
)
def test_a_bad_goal_is_named_shown_and_put_right(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        design(Study.parse(BALL), **{"players": 20_000, "budget": 5000.0, **asked})


def test_estimators_that_do_not_fit_the_design_are_refused_by_name() -> None:
    study = Study.parse(SEEN)
    with pytest.raises(InputError, match=r"'known-design'.*design of kind 'observed'"):
        design(study, players=20_000, budget=5000, estimator="known-design")


def test_goals_and_a_score_weight_are_not_both_given() -> None:
    with pytest.raises(InputError, match="budget and score_weight are both given"):
        design(Study.parse(BALL), players=100, budget=10, epsilon=1.0, score_weight=0.1)
    with pytest.raises((InputError, Refused), match="players is missing"):
        design(Study.parse(BALL), epsilon=1.0, score_weight=0.1)


def test_an_accuracy_that_asks_for_nothing_is_no_trouble() -> None:
    study = Study.parse(DESIGNED)
    asked = Goals(players=20_000, accuracy=1e300)
    assert asked.error(study) == pytest.approx(1e200)

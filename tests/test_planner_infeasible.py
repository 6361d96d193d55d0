"""Infeasible is an answer: what it says would help does, a little less does not, and no plan is worse than no study."""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.plans import people_of
from support.studies import DESIGNED, OBSERVED, RECORDS, UNIT_BALL
from support.surveys import survey

from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.formatting import number
from truthful.plan import Plan, design
from truthful.planner import Goals, Infeasible
from truthful.planner.goals import MOST_PLAYERS
from truthful.planner.number_planning import solve_all, solve_numbers
from truthful.planner.panel import Panel, panel_of_design
from truthful.study import Study

DESIGN, BALL, SEEN = (Study.parse(text) for text in (DESIGNED, UNIT_BALL, OBSERVED + RECORDS))
BALL_RECORDS = Study.parse(UNIT_BALL + RECORDS)

Case = tuple[Study, dict[str, Any], set[str]]
CASES: list[Case] = [
    (BALL, {"players": 2000, "budget": 1.0, "payments": "expected"}, {"budget", "players", "lie"}),
    (DESIGN, {"players": 300, "epsilon": 0.01}, {"players"}),
]
SLOW_CASES: list[Case] = [
    (BALL, {"players": 20_000, "budget": 200.0, "accuracy": 0.04}, {"budget", "players", "accuracy", "lie"}),
    (BALL, {"players": 1000, "accuracy": 0.05, "epsilon": 0.1}, {"players", "accuracy"}),
    (DESIGN, {"players": 2000, "budget": 100.0, "rule": "brier", "accuracy": 5.0}, {"budget", "players"}),
    (BALL_RECORDS, {"players": 500, "budget": 60.0}, {"budget", "players", "lie"}),
    (SEEN, {"players": 20_000, "budget": 5000.0}, {"budget", "players", "lie"}),
]


def named(part: object) -> str:
    """What a case is called: its study, its goals, and no set, whose order is nobody's."""
    return part.name if isinstance(part, Study) else "" if isinstance(part, set) else str(part)


def refusal(study: Study, asked: dict[str, Any]) -> Infeasible:
    """Why there is no plan, and which goals would help; what would in the study is left to tests/test_levers.py."""
    with pytest.raises(Infeasible) as caught:
        solve_numbers(study, goals_of(study, asked))
    return caught.value


def goals_of(study: Study, asked: dict[str, Any]) -> Goals:
    given, panel = dict(asked), None
    people, share = given.pop("roster", None), given.pop("response_share", 1.0)
    of = given.get("accuracy_of", "coefficients")
    if study.protects == "answers":
        panel = (
            panel_of_design(study, share, of)
            if people is None
            else panel_of_people(study, people.tobytes(), share, of)
        )
    if people is not None:
        given["players"] = len(people)
    return Goals(panel=panel, **given)


@cache
def panel_of_people(study: Study, people: bytes, share: float, of: str) -> Panel:
    """One for the same people: what is known of them is kept in it."""
    return Panel(study, np.frombuffer(people).reshape(-1, study.dimension), share, of)


def rmse(plan: Plan) -> float:
    assert plan.guarantees.accuracy.rmse is not None
    return plan.guarantees.accuracy.rmse


def prior_rmse(study: Study) -> float:
    d = study.dimension
    return study.response_unit * math.sqrt(d * study.beliefs.prior.variance(d))


def feasible(study: Study, asked: dict[str, Any], people: Floats | None = None) -> bool:
    """Whether there is a plan, without asking what else would help."""
    if people is not None:
        asked = {**asked, "players": len(people), "roster": people}
    goals = goals_of(study, asked)
    best = solve_all(study, goals, asked["players"])[0]
    return math.isfinite(best.cost) and best.error < goals.prior_error(study)


def helps_and_less_does_not(
    study: Study, asked: dict[str, Any], helped: set[str], people: Floats | None = None
) -> None:
    """More people than a roster has are people like those on it: as if some came twice."""
    given = asked if people is None else {**asked, "roster": people}
    answer = refusal(study, given)
    assert {remedy.goal for remedy in answer.remedies} >= helped
    if people is not None:
        asked = {**asked, "players": len(people)}
    changes = []
    for remedy in answer.remedies:
        assert not isinstance(remedy.value, str)
        before = asked.get(remedy.goal, study.beliefs.radius / 2)
        changes.append(abs(math.log(remedy.value / before)))
        value = round(remedy.value) if remedy.goal == "players" else remedy.value
        # Three per cent back to where it was; where nothing limits money, eight.
        back = 0.03 if {"budget", "epsilon"} & set(asked) else 0.08
        less: float = value * (1 - back if value > before else 1 + back)
        less = round(less) if remedy.goal == "players" else less
        assert (less - before) * (value - before) > 0, f"{remedy} is hardly a change"
        if people is None:
            changed = {**asked, remedy.goal: value}
            if remedy is answer.remedies[0]:
                assert rmse(design(study, **changed)) < prior_rmse(study)
            else:
                assert feasible(study, changed), remedy
            assert not feasible(study, {**asked, remedy.goal: less}), remedy
            continue
        players = round(value) if remedy.goal == "players" else len(people)
        enough = np.resize(people, (players, study.dimension))
        changed = {**asked, "players": players, remedy.goal: value}
        # Whom chance brings of them may make a plan a per cent worse.
        slack = {"budget": 1.02 * changed["budget"]} if remedy.goal == "players" else {}
        assert feasible(study, {**changed, **slack}, enough), remedy
        fewer = {**changed, remedy.goal: less, "players": round(less) if players != len(people) else players}
        assert not feasible(study, fewer, np.resize(people, (fewer["players"], study.dimension))), remedy
    # The goal that binds is the one that needs the least change; letting lies pass comes last.
    before_lies = changes[: len(changes) - (answer.remedies[-1].goal == "lie")]
    assert before_lies == sorted(before_lies)
    assert "lie" not in [remedy.goal for remedy in answer.remedies[:-1]]
    assert answer.record() == {
        "feasible": False,
        "reason": answer.reason,
        "binding": answer.remedies[0].goal,
        "feasible_with": {remedy.goal: remedy.value for remedy in answer.remedies},
        "remedies": [
            {"change": remedy.goal, "to": remedy.value, "words": remedy.words} for remedy in answer.remedies
        ],
    }
    assert_the_words_hold_every_number(answer, study.currency, people)


def assert_the_words_hold_every_number(answer: Infeasible, currency: str, people: Floats | None) -> None:
    words = {
        "players": "{:,.0f} players" if people is None else "{:,.0f} people like those on the roster",
        "budget": f"Raise the budget to {{:,.2f}} {currency}",
        "epsilon": "epsilon to {:g}",
        "lie": "(lie = {:g})",
    }
    for remedy in answer.remedies:
        told = words.get(remedy.goal, "")
        assert told.format(remedy.value) in remedy.words
        assert f"\n- {remedy.words}" in str(answer)
        if remedy.goal == "accuracy":
            assert remedy.words.startswith(f"Allow an error of {number(remedy.value, 4)}")


@pytest.mark.parametrize(
    ("study", "asked", "helped"),
    [*CASES, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW_CASES)],
    ids=named,
)
def test_what_would_help_does_and_three_per_cent_less_does_not(
    study: Study, asked: dict[str, Any], helped: set[str]
) -> None:
    helps_and_less_does_not(study, asked, helped)


@pytest.mark.slow
def test_what_would_help_people_of_a_roster_does_and_three_per_cent_less_does_not() -> None:
    asked = {"budget": 700.0, "accuracy": 0.45, "response_share": 0.8}
    helps_and_less_does_not(survey(5), asked, {"budget", "players", "lie"}, people_of(500, 5))


@pytest.mark.parametrize(("study", "accuracy"), [(BALL, 0.71), (BALL, 5.0), (DESIGN, 49.1)], ids=named)
def test_an_accuracy_that_the_prior_mean_has_already_is_refused(study: Study, accuracy: float) -> None:
    answer = refusal(study, {"players": 20_000, "accuracy": accuracy})
    assert "answering with the prior mean, without asking anybody" in str(answer)
    assert not answer.remedies


def test_an_accuracy_just_below_the_prior_mean_s_is_planned() -> None:
    assert rmse(design(BALL, players=20_000, accuracy=prior_rmse(BALL) * 0.99)) < prior_rmse(BALL)


def test_the_prior_mean_of_a_roster_predicts_its_own_people() -> None:
    """E[(θ·x)²] over them: at an accuracy of predictions above that nobody needs to be asked."""
    study, people = survey(3), people_of(500, 3)
    variance = study.beliefs.prior.variance(3)
    known = study.response_unit * math.sqrt(variance * float((people**2).sum(axis=1).mean()))
    with pytest.raises(Infeasible, match="answering with the prior mean"):
        design(study, roster=people, accuracy=known * 1.001, accuracy_of="predictions")
    plan = design(study, roster=people, accuracy=known * 0.9, accuracy_of="predictions")
    assert (plan.guarantees.accuracy.prediction_rmse or math.inf) <= known * 0.9


def test_observed_records_without_a_least_eigenvalue_say_what_to_declare() -> None:
    silent = Study.parse(OBSERVED.replace("least_eigenvalue = 0.08", "") + RECORDS)
    answer = refusal(silent, {"players": 100_000, "budget": 50_000.0})
    assert "Declare design.least_eigenvalue" in str(answer)


def test_observed_features_of_which_answers_are_protected_need_their_people_and_no_eigenvalue() -> None:
    text = OBSERVED.replace("least_eigenvalue = 0.08", "") + '[privacy]\nprotects = "answers"\n'
    with pytest.raises(InputError, match="a plan needs the people themselves"):
        design(Study.parse(text), players=1000, budget=1000.0)
    rng = np.random.default_rng(0)
    table = {"price": rng.uniform(1, 5, 1000), "region": rng.choice(["north", "south", "east"], 1000)}
    people = Study.parse(text).normalise(table)
    assert rmse(design(Study.parse(text), roster=people, budget=1000.0)) < prior_rmse(DESIGN)


def test_so_few_that_coefficients_cannot_be_told_are_refused_or_infeasible() -> None:
    """Where some draws of those who answer leave somebody alone with what she has, nothing is promised."""
    with pytest.raises(
        Refused, match=r"11 people are expected to answer, too few to tell 5 coefficients\. Ask 12"
    ):
        design(survey(5), roster=people_of(11, 5), budget=500.0)
    with pytest.raises(Refused, match="Ask 24 at least"):
        design(survey(5), roster=people_of(22, 5), budget=500.0, response_share=0.5)
    answer = refusal(survey(5), {"roster": people_of(40, 5), "response_share": 0.5, "budget": 1e6})
    assert "no payments make lies" in str(answer)
    assert {remedy.goal for remedy in answer.remedies} <= {"players"}


def test_where_no_one_goal_helps_more_people_do_who_are_paid_as_much_each() -> None:
    asked = {"players": 300, "budget": 8.0}
    answer = refusal(SEEN, asked)
    (remedy,) = answer.remedies
    budget = remedy.value * 8 / 300
    assert f"at as much each, {budget:,.2f} USD in all" in remedy.words
    assert feasible(SEEN, {"players": round(remedy.value), "budget": budget})
    fewer = round(0.97 * remedy.value)
    assert not feasible(SEEN, {"players": fewer, "budget": fewer * 8 / 300})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (
            {"budget": 1e-6, "accuracy": 0.1},
            "Raise the budget from 0.00010 cents, or allow a larger error than 0.100.",
        ),
        (
            {"budget": 1e-6, "epsilon": 1.0},
            "Raise the budget from 0.00010 cents, or choose another epsilon than 1.0.",
        ),
        (
            {"accuracy": 1e-6, "epsilon": 0.01},
            "Allow a larger error than 0.00000100, or choose another epsilon than 0.01.",
        ),
    ],
)
def test_only_what_was_given_is_to_be_changed_where_no_number_of_players_will_do(
    asked: dict[str, Any], told: str
) -> None:
    assert str(refusal(BALL_RECORDS, asked)).endswith(told)


@pytest.mark.slow
def test_players_are_not_found_where_a_billion_are_too_few() -> None:
    answer = refusal(BALL, {"budget": 1e-6, "accuracy": 0.1})
    assert "no number of players up to a billion" in str(answer)


# Extremes


EXTREMES = [
    (2, 1e-6),
    (MOST_PLAYERS, 1.0),
    (100, 1e15),
    (MOST_PLAYERS, 1e15),
]


def plan_or_refusal(study: Study, **asked: Any) -> Plan | Infeasible:
    try:
        return design(study, **asked)
    except Infeasible:
        return refusal(study, asked)


@pytest.mark.slow
@pytest.mark.parametrize(("players", "budget"), EXTREMES)
@pytest.mark.parametrize("study", [BALL, BALL_RECORDS], ids=["answers", "records"])
def test_extreme_numbers_of_players_and_dollars_give_a_plan_or_a_refusal(
    study: Study, players: int, budget: float
) -> None:
    answer = plan_or_refusal(study, players=players, budget=budget)
    if isinstance(answer, Infeasible):
        values = [remedy.value for remedy in answer.remedies if not isinstance(remedy.value, str)]
        assert all(math.isfinite(value) and value > 0 for value in values)
        return
    assert rmse(answer) < prior_rmse(BALL)
    assert answer.guarantees.budget.cap is not None
    assert answer.guarantees.budget.cap <= budget


def study_of(**parts: Any) -> Study:
    """A designed study in the units, dimension and laws given."""
    low, width = parts.get("low", 0.0), parts.get("width", 200.0)
    features = "".join(
        f'[[features]]\nname = "x{j}"\nlow = -7\nhigh = -1\n' for j in range(parts.get("features", 2))
    )
    beliefs, costs, privacy = (parts.get(name, "") for name in ("beliefs", "costs", "privacy"))
    return Study.parse(
        f'name = "Any"\ncurrency = "USD"\n[response]\nname = "y"\nlow = {low}\nhigh = {low + width}\n{features}'
        f'[design]\nkind = "uniform"\n{privacy}[beliefs]\nsignal = {parts.get("signal", 0.6)}\n{beliefs}\n'
        f"[costs]\n{costs or PARETO}"
    )


PARETO = 'kind = "pareto"\ntail = 2.0\nscale = 0.05\n'
COSTS = [
    PARETO,
    PARETO + 'privacy = "linear"\n',
    'kind = "pareto"\ntail = 0.8\nscale = 0.01\n',
    'kind = "lognormal"\nmedian = 0.05\nsigma = 1.5\n',
    'kind = "empirical"\nprobabilities = [0, 0.5, 0.99, 1]\nvalues = [0, 0.05, 0.05, 3]\n',
    'kind = "empirical"\nprobabilities = [0, 1]\nvalues = [0, 0]\n',
]
BELIEFS = [
    "",
    'noise = "uniform"',
    'prior = "normal"\nprior_sd = 0.05',
    "noise_sd = 0.01\n[beliefs.centre]\nx0 = 2.5\nx1 = -1.5",
]


#: Each law of costs, and each belief with one of them at least.
BOTH = [(costs, BELIEFS[at % len(BELIEFS)]) for at, costs in enumerate(COSTS)]


@pytest.mark.slow
@pytest.mark.parametrize(("costs", "beliefs"), BOTH)
def test_every_law_of_costs_and_every_belief_is_planned_for(costs: str, beliefs: str) -> None:
    study = study_of(costs=costs, beliefs=beliefs)
    plan = design(study, players=50_000, budget=20_000.0)
    assert rmse(plan) < prior_rmse(study)
    assert plan.guarantees.truthfulness.lie is not None
    assert plan.guarantees.truthfulness.lie <= 0.3
    assert plan.guarantees.participation.share is not None
    assert plan.guarantees.participation.share >= 1 - plan.absent_share


@pytest.mark.parametrize(("low", "width"), [(-1e9, 3e9), (-3e-9, 2e-9), (-500, 100), (1e6, 1.0)])
def test_units_of_the_answer_change_nothing_but_the_units_of_the_error(low: float, width: float) -> None:
    usual, other = study_of(), study_of(low=low, width=width)
    one, two = (design(study, players=2000, budget=800.0) for study in (usual, other))
    # People are drawn in the units of the study: rounding moves their features by a step of the grid.
    assert rmse(two) / width == pytest.approx(rmse(one) / 200, rel=1e-4)
    assert two.parameters()["score_weight"] == pytest.approx(one.parameters()["score_weight"], rel=1e-3)
    assert two.absent_share == one.absent_share
    cheap = design(other, players=2000, accuracy=rmse(two) * 1.5)
    assert rmse(cheap) == pytest.approx(rmse(two) * 1.5, rel=1e-3)


@pytest.mark.parametrize(
    ("features", "records"), [(0, False), (1, False), (1, True), (30, False), (49, True)]
)
def test_studies_of_one_feature_of_many_and_of_none_are_planned_for(features: int, records: bool) -> None:
    study = study_of(features=features, privacy=RECORDS if records else "")
    plan = design(study, players=3_000_000, budget=1_000_000.0)
    assert plan.study.dimension == features + 1
    assert rmse(plan) < prior_rmse(study)


@pytest.mark.slow
@settings(max_examples=8)
@given(
    players=st.integers(2, 30_000),
    budget=st.floats(0.01, 1e5),
    features=st.integers(1, 4),
    signal=st.floats(0.05, 0.95),
    costs=st.sampled_from(COSTS),
    beliefs=st.sampled_from(BELIEFS[:2]),
    payments=st.sampled_from(["never-negative", "expected"]),
    accuracy_of=st.sampled_from(["coefficients", "predictions"]),
)
def test_no_plan_is_worse_than_answering_with_the_prior_mean(
    players: int, budget: float, payments: str, accuracy_of: str, **parts: Any
) -> None:
    study = study_of(**parts)
    asked: dict[str, Any] = {"players": players, "budget": budget, "payments": payments}
    asked["accuracy_of"] = accuracy_of
    try:
        plan = design(study, **asked)
    except Infeasible:  # what would help, which takes longest, is not asked
        return
    accuracy, prior = plan.guarantees.accuracy, study.beliefs.prior.variance(study.dimension)
    if accuracy_of == "coefficients":
        assert rmse(plan) < prior_rmse(study)
    else:
        assert accuracy.prediction_rmse is not None
        assert accuracy.prediction_rmse < study.response_unit * math.sqrt(prior * study.mean_square_norm)
    assume(payments == "never-negative")
    assert plan.guarantees.budget.cap is not None
    assert plan.guarantees.budget.cap <= budget

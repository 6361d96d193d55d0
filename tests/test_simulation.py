"""Whole simulated studies: they are the mechanism's, they repeat, they find what is there and keep what is promised."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.laboratory import RELEASES, plan_of, planned_like
from support.studies import DESIGNED

from truthful.agents import Agent, BestResponder, Coordinated, Exaggerator, Game, Players
from truthful.agents.games import expected_people, foresee_peers
from truthful.beliefs import Shrunk
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.moments import grid_features, grid_responses, sums
from truthful.one_release import OneRelease, paymaster
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.show.terminal import simulation_view
from truthful.simulation import Simulation, read_agents, simulate
from truthful.simulation.observations import excess_liars
from truthful.simulation.population import assign_roles, features_of
from truthful.simulation.predictors import TOLERANCE, predictor_of
from truthful.simulation.runs import run_study
from truthful.simulation.simulation import set_up_numbers

PAGE = Path(__file__).resolve().parents[1] / "docs" / "laboratory.md"
WHOLE = ("plan", "guaranteed", "agents[].parameters")
NAMES = re.compile(r"`([^`]+)`").findall


@pytest.fixture(scope="module")
def honest() -> Simulation:
    return simulate(plan_of(), runs=200, seed=1)


# Who takes part


def test_shares_become_players_and_who_is_left_is_honest() -> None:
    roles = assign_roles({"exaggerator": 0.1, Coordinated(1): 0.05}, 1000)
    assert [(role.agent.name, role.count) for role in roles] == [
        ("exaggerator", 100),
        ("coordinated", 50),
        ("honest", 850),
    ]
    assert assign_roles(None, 7)[0].count == 7


@pytest.mark.parametrize("players", [2, 3, 10, 997])
def test_every_player_has_exactly_one_role(players: int) -> None:
    roles = assign_roles({"exaggerator": 1 / 3, "opt-out": 1 / 3, "coordinated": 1 / 3}, players)
    places = [i for role in roles for i in range(role.players.start, role.players.stop)]
    assert places == list(range(players))


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        ({"exaggerator": 0.7, "opt-out": 0.4}, "add up to 1.1"),
        ({"exaggerator": -0.1}, "share of 'exaggerator' is -0.1"),
        ({"exaggerator": float("nan")}, "share of 'exaggerator' is nan"),
        ({"saint": 0.1}, "no agent 'saint'"),
    ],
)
def test_impossible_shares_are_refused(agents: dict[str | Agent, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign_roles(agents, 10)


def test_shares_are_read_as_people_write_them() -> None:
    assert read_agents("exaggerator=0.1, coordinated=0.2,") == {Exaggerator(): 0.1, Coordinated(): 0.2}
    assert read_agents("exaggerator=0.25,exaggerator=0.5") == {Exaggerator(): 0.75}
    for text in ("exaggerator", "exaggerator=many"):
        with pytest.raises(InputError, match=r"write, say, exaggerator=0\.1"):
            read_agents(text)


# The tables


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("instruments", {"epsilon": 0.2}),
        ("instruments", {"epsilon": 0.2, "clip": 0.3}),
        ("instruments", {"payments": "expected"}),
        ("noisy-statistics", {}),
        ("known-design", {"epsilon": 0.2}),
    ],
)
def test_own_predictions_of_one_release_are_those_of_direct_quadrature(
    name: str, parameters: dict[str, Any]
) -> None:
    """At noise that is foreseen, and far from it."""
    plan, rng = planned_like(name, 400, **parameters), np.random.default_rng(0)
    mechanism, own, beliefs = plan.mechanism, predictor_of(plan, 10**6), plan.study.beliefs
    assert isinstance(mechanism, OneRelease)
    r, y = rng.random(60), rng.uniform(-0.8, 0.8, 60)
    for factor in (0.2, 1.0, 3.0):
        scale = factor * foresee_peers(plan, expected_people(plan)).scale * rng.uniform(3.0, 8.0, 60)
        wanted = beliefs.prediction(r, y, mechanism.curve(beliefs), scale)
        np.testing.assert_allclose(own(r, y, scale), wanted, rtol=0, atol=2 * TOLERANCE)


# One study


def one_study(plan: Plan, n: int, seed: int) -> tuple[Any, Any, Floats, Floats, Floats, Floats]:
    """A study of honest people; and a generator that has drawn what it drew: θ, features, answers and costs."""
    stage = set_up_numbers(plan, assign_roles(None, n), features_of(plan, None)[0], runs=1)
    run = run_study(stage, np.random.default_rng(seed))
    rng, study = np.random.default_rng(seed), plan.study
    theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    X = study.normalise(study.sample_features(rng, n), n)
    y = X @ theta + study.beliefs.noise.sample(rng, n)
    return run, rng, theta, X, y, study.costs.sample(rng, n)


def check_twin(
    run: Any, plan: Plan, theta: Floats, twin: Floats, X: Floats, paid: Floats, costs: Floats
) -> None:
    """The same errors and payments, these but for their rounding."""
    assert run.squared_error == pytest.approx(float(np.sum((twin - theta) ** 2)), rel=1e-12)
    assert run.prediction_error == pytest.approx(np.mean((X @ (twin - theta)) ** 2), rel=1e-12)
    assert run.total == pytest.approx(paid.sum(), abs=1e-6 * len(X))
    borne = costs.sum() * plan.study.privacy_cost(plan.mechanism.epsilon)
    assert run.utility.sum() == pytest.approx(paid.sum() - borne, abs=1e-6 * len(X))


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("parameters", [{}, {"rule": "brier", "clip": 0.3}, {"payments": "expected"}])
def test_a_simulated_study_is_the_one_that_is_settled(name: str, parameters: dict[str, Any]) -> None:
    """The same draws, noise too, through the code that pays people, to the last payment."""
    plan = planned_like(name, 90, **parameters)
    run, rng, theta, X, y, costs = one_study(plan, 90, 5)
    mechanism, beliefs, answer = plan.mechanism, plan.study.beliefs, fast_answer(rng)
    assert isinstance(mechanism, OneRelease)
    kx, ky = grid_features(X), grid_responses(y, beliefs.response_bound)
    added = sums(kx, ky, mechanism.transform)
    answers = [answer(q, Fraction(mechanism.epsilon) * q.share) for q in mechanism.queries(added, beliefs)]
    estimate = mechanism.estimate(answers, 90, beliefs, added.matrix)
    paid = paymaster(mechanism, beliefs, estimate, 90).score_players(kx, ky).payment
    check_twin(run, plan, theta, estimate.theta, X, paid, costs)


# Repeating


def test_a_simulation_repeats_and_a_short_one_is_the_beginning_of_a_long_one(honest: Simulation) -> None:
    again = simulate(honest.plan, runs=5, seed=1)
    for short, long in zip(again.studies, honest.studies[:5], strict=True):
        assert short.squared_error == long.squared_error
        # Own predictions come from a table if there are many.
        np.testing.assert_allclose(short.cell_surplus, long.cell_surplus, rtol=0, atol=400 * TOLERANCE)
    other = simulate(honest.plan, runs=1, seed=2)
    assert other.studies[0].squared_error != honest.studies[0].squared_error


def test_studies_do_not_depend_on_what_runs_beside_them(
    honest: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several at a time, as large ones run, give to the bit what one after the other gave."""
    monkeypatch.setattr(import_module("truthful.simulation.simulation"), "THREADED", 1)
    threaded = simulate(honest.plan, runs=honest.runs, seed=1)
    for beside, alone in zip(threaded.studies, honest.studies, strict=True):
        assert (beside.squared_error, beside.total) == (alone.squared_error, alone.total)
        np.testing.assert_array_equal(beside.cell_surplus, alone.cell_surplus)


def test_progress_is_told_after_every_study() -> None:
    told: list[tuple[str, int, int | None]] = []
    simulate(plan_of(), runs=3, progress=lambda *step: told.append(step))
    assert told == [("Simulating studies", done, 3) for done in (1, 2, 3)]


# What honest people see


def test_the_error_of_honest_studies_is_what_is_guaranteed_without_liars() -> None:
    """Given features it is an equation, whatever θ is. Five standard errors: 6e-7."""
    plan = plan_of(absent_share=0.0)
    seen = simulate(plan, runs=300, seed=4)
    found = seen.observed.accuracy.mean_squared_error
    bound = seen.guaranteed.accuracy.mean_squared_error
    assert bound is not None
    assert seen.guaranteed_for == "people"
    assert found.value == pytest.approx(bound, abs=5 * found.error)
    assert found.error < 0.1 * bound


def test_errors_average_over_the_noise_to_what_its_law_says(honest: Simulation) -> None:
    """Two means of the same errors, with the noise drawn and with it averaged out. Five standard errors: 6e-7."""
    drawn, averaged = (
        np.array([getattr(run, name) for run in honest.studies])
        for name in ("squared_error", "mean_squared_error")
    )
    difference = drawn - averaged
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(difference))
    assert averaged.std() < drawn.std()


def test_predictions_are_off_by_what_the_design_makes_of_errors(honest: Simulation) -> None:
    """On the ball E[(x·e)²] = ‖e‖²/(d+2): root mean squares differ by a factor 2 in the plane. Five per cent: 1e-6."""
    accuracy, unit = honest.observed.accuracy, honest.plan.study.response_unit
    assert accuracy.rmse == pytest.approx(unit * accuracy.mean_squared_error.value**0.5)
    assert accuracy.prediction_rmse * 2 == pytest.approx(accuracy.rmse, rel=0.05)


def test_among_honest_people_no_lie_is_found_that_pays(honest: Simulation) -> None:
    """The gap is below its bound and the gain not above 0, to five standard errors: false alarm 6e-7."""
    seen = honest.observed.truthfulness
    assert abs(seen.gap.value) <= honest.guaranteed_gap + 5 * seen.gap.error
    assert seen.gain.value <= 5 * seen.gain.error
    assert seen.misreports.value == seen.beyond == 0
    assert seen.gap.error < 0.1 * honest.plan.study.beliefs.radius


def test_taking_part_pays_for_all_who_are_promised_it(honest: Simulation) -> None:
    """A truthful player expects a + bq², and b·g² of what all are promised is unused. Five standard errors: 3e-7."""
    seen, promised = honest.observed.participation, honest.guaranteed.participation
    assert seen.covered.value == 1.0
    assert promised.share is not None
    assert seen.share.value >= promised.share - 5 * max(seen.share.error, 1e-4)
    assert 0.9 < seen.covered_paid.value <= 1.0


def test_studies_cost_what_is_expected_and_never_more_than_the_cap(honest: Simulation) -> None:
    """The average to five standard errors: 3e-7. The cap for certain."""
    seen, promised, plan = honest.observed.budget, honest.guaranteed.budget, honest.plan
    assert promised.expected is not None
    assert plan.players * plan.number_mechanism.base_payment < seen.total.value
    assert seen.total.value <= promised.expected + 5 * seen.total.error
    # Lengths are drawn, so that caps differ; the plan's has room for that.
    assert seen.total.value < seen.largest <= (plan.guarantees.budget.cap or 0.0)
    for run in honest.studies:
        assert run.bounds is None or run.total <= run.bounds["cap"]


def test_no_report_beats_the_truth_here_and_many_do_in_the_papers_mechanism(honest: Simulation) -> None:
    """Taken for a lie that pays, the truth would be once in a thousand times."""
    ours, papers = honest.best_response, honest.papers_best_response
    assert not ours.pays
    assert papers.pays
    assert abs(papers.move.value) > 0.2 * honest.plan.study.beliefs.radius
    assert abs(papers.lie) > 0.5
    assert 0 < papers.gain.error < papers.gain.value / 20


# What liars do


def test_liars_are_found_and_lying_costs_them() -> None:
    """A campaign of a fifth shifts peers by far more than chance, so that some lie pays; its own does not.

    Five standard errors on each of four: false alarm 2e-6.
    """
    seen = simulate(plan_of(), {"coordinated": 0.2}, runs=200, seed=2)
    truthfulness = seen.observed.truthfulness
    assert truthfulness.gap.value > 5 * truthfulness.gap.error
    assert truthfulness.gain.value > 0
    assert truthfulness.misreports.value == pytest.approx(0.2)
    assert truthfulness.beyond == 1.0
    liars, rest = seen.earnings
    assert (liars.agent, liars.players, rest.players) == ("coordinated", 80, 320)
    assert liars.gain.value < -5 * liars.gain.error
    assert rest.gain.value == 0.0
    assert liars.payment.value < rest.payment.value


def test_as_many_liars_as_are_allowed_leave_every_guarantee_as_it_is() -> None:
    """Coordinated, at just the absent share. Five standard errors on each number: false alarm 1e-6.

    The gap is bounded for as many liars as there are on average, and here there are more: that is said.
    """
    plan = plan_of(absent_share=0.02)
    seen = simulate(plan, {"coordinated": 0.02}, runs=200, seed=3)
    promised = seen.guaranteed
    assert "On average 8.00 people lied" in excess_liars(seen)
    assert seen.observed.truthfulness.beyond == 0.0
    gap, error = seen.observed.truthfulness.gap, seen.observed.accuracy.mean_squared_error
    assert gap.value <= seen.guaranteed_gap + 5 * gap.error
    assert error.value <= (promised.accuracy.mean_squared_error or 0.0) + 5 * error.error
    assert seen.observed.budget.total.value <= (promised.budget.expected or 0.0)
    assert seen.observed.participation.covered.value == 1.0


def test_liars_are_seen_in_whom_taking_part_pays() -> None:
    """A campaign of half of the others turns peers' predictions against the truthful, and some are paid too little.

    The shares with and without it differ by five standard errors of both: 6e-7.
    """
    plan = plan_of(DESIGNED, 1000, score_weight=0.5, base_payment=0.54)
    without = simulate(plan, runs=30, seed=5).observed.participation
    against = simulate(plan, {"coordinated": 0.5}, runs=30, seed=5).observed.participation
    for name in ("share", "covered"):
        before, after = getattr(without, name), getattr(against, name)
        assert after.value < before.value - 5 * np.hypot(before.error, after.error)
        assert after.error > 0
    assert without.covered.value == 1.0


def test_where_nobody_is_truthful_nobody_says_what_the_truth_pays() -> None:
    seen = simulate(plan_of(players=200), {"coordinated": 1.0}, runs=3).observed.participation
    assert np.isnan([seen.share.value, seen.covered.value]).all()
    assert seen.covered_paid.value > 0.5


@pytest.mark.parametrize("rule", ["quadratic", "brier"])
def test_whatever_people_say_no_total_exceeds_the_cap(rule: str) -> None:
    plan = plan_of(players=60, rule=rule)
    for agents in ({"coordinated": 1.0}, {"cost-threshold": 0.5, "exaggerator": 0.5}):
        seen = simulate(plan, agents, runs=8)  # type: ignore[arg-type]
        assert 0 <= seen.observed.budget.largest <= (plan.guarantees.budget.cap or 0.0)


def test_those_whom_it_does_not_pay_stay_away_and_are_not_paid() -> None:
    """ε = 2.5 is worth more than its pay to many. Who comes expects a gain: five standard errors, 3e-7."""
    plan = plan_of(epsilon=2.5)
    seen = simulate(plan, {"opt-out": 1.0}, runs=50)
    (own,) = seen.earnings
    assert own.joined.value < 0.9 * own.players
    # People know their own answers, of which cells of people tell little; so it is not the same share.
    share = seen.observed.participation.share
    assert own.joined.value == pytest.approx(share.value * plan.players, rel=0.05)
    assert own.utility.value > -5 * own.utility.error
    assert seen.observed.budget.total.value == pytest.approx(own.payment.value * own.joined.value)


def test_a_study_to_which_nobody_comes_is_refused() -> None:
    with pytest.raises(Refused, match="let fewer of them opt out"):
        simulate(plan_of(players=20, epsilon=100.0), {"opt-out": 1.0}, runs=20)


def test_best_responders_give_up_less_payment_than_privacy_is_worth_to_them() -> None:
    """They lie a little, which costs b·Δ² a head: less than what they bear. Five standard errors: 3e-7."""
    seen = simulate(plan_of(players=100), {"best-responder": 0.5}, runs=20)
    assert seen.observed.truthfulness.misreports.value == pytest.approx(0.5, abs=0.01)
    own, _ = seen.earnings
    assert own.gain.value < 0
    assert own.gain.value >= own.utility.value - own.payment.value - 5 * own.gain.error


# Designs


@pytest.mark.parametrize("name", RELEASES)
def test_all_estimators_are_simulated(name: str) -> None:
    seen = simulate(
        planned_like(name, 400), {"exaggerator": 0.1, "influential": 0.1, "targeting": 0.1}, runs=6
    )
    assert seen.earnings[0].payment.value > 0


@pytest.mark.parametrize(("name", "value"), [("runs", 0), ("seed", -1), ("runs", 2.5)])
def test_impossible_numbers_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is {value}"):
        simulate(plan_of(), **{name: value})


# The record


def fields_of(record: Any, path: str = "") -> set[str]:
    """The paths of the record's fields. Found numbers, guarantees and an agent's own parameters are documented once."""
    if isinstance(record, list):
        return set().union(*(fields_of(one, f"{path}[]") for one in record))
    if not isinstance(record, dict) or set(record) == {"value", "error"} or path in WHOLE:
        return {path}
    return set().union(*(fields_of(value, f"{path}.{key}".lstrip(".")) for key, value in record.items()))


def test_every_field_of_the_record_is_documented_and_no_other(honest: Simulation) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## The record")[1].split("\n## ")[0]
    documented = {name for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for name in NAMES(row)}
    assert documented == fields_of(honest.record())


def test_a_simulation_is_shown_with_its_five_rows_and_its_people() -> None:
    seen = simulate(plan_of(players=100), {"exaggerator": 0.25}, runs=4)
    console = Console(width=120, record=True, file=io.StringIO())
    for view in simulation_view(seen):
        console.print(view)
    text = console.export_text()
    names = ("privacy", "truthfulness", "accuracy", "participation", "budget")
    places = [text.index(f"\n {name} ") for name in names]
    assert places == sorted(places)
    assert re.search(r"exaggerator +25 +25 ", text)
    assert "In 100% of the studies more people lied than the plan allows for (0.2%)" in text
    assert "no report was found that pays more than the truth" in text


def test_a_record_holds_all_that_makes_the_same_simulation_again() -> None:
    plan = plan_of(players=100)
    record = simulate(plan, {Exaggerator(factor=1.5): 0.25}, runs=2, seed=9).record()
    json.dumps(record, allow_nan=False)
    assert record["plan"] == plan.record()
    assert (record["runs"], record["seed"], record["numpy"]) == (2, 9, np.__version__)
    assert record["agents"][0] == {
        "agent": "exaggerator",
        "class": "truthful.agents.kinds.Exaggerator",
        "share": 0.25,
        "players": 25,
        "parameters": {"factor": 1.5},
    }
    assert record["guaranteed_for"] == "people"
    assert record["guaranteed"]["privacy"] == plan.guarantees.record()["privacy"]
    records = planned_like("known-design", 100)
    assert simulate(records, runs=2).record()["guaranteed"] == records.guarantees.record()
    # Two studies are too few to seek a lie in one part and try it in another.
    assert record["observed"]["truthfulness"]["gap"] == {"value": None, "error": None}


def test_a_simulation_is_made_again_from_its_record_alone(tmp_path: Path) -> None:
    seen = simulate(
        plan_of(players=60), {BestResponder(Shrunk(0.5)): 0.1, Coordinated(1): 0.2}, runs=3, seed=4
    )
    record = json.loads(json.dumps(seen.record(), allow_nan=False))
    (tmp_path / "plan.json").write_text(json.dumps(record["plan"]))
    agents: dict[str | Agent, float] = {remade(one): one["share"] for one in record["agents"]}
    again = simulate(
        Plan.load(tmp_path / "plan.json"), agents, runs=record["runs"], seed=record["seed"]
    ).record()
    assert json.loads(json.dumps(again)) == record


def remade(written: dict[str, Any]) -> Any:
    """An agent, or a part of one, from its class and parameters."""
    module, _, name = written["class"].rpartition(".")
    given = written.get("parameters", {key: value for key, value in written.items() if key != "class"})
    return getattr(import_module(module), name)(
        **{key: remade(value) if isinstance(value, dict) else value for key, value in given.items()}
    )


def test_what_has_no_words_is_written_as_python_shows_it() -> None:
    @dataclass(frozen=True)
    class Rounder(Agent):
        steps: tuple[float, ...] = (0.5, 1.0)
        name = "rounder"

        def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
            return players.y

    (role, _) = assign_roles({Rounder(): 0.5}, 10)
    assert role.record()["parameters"] == {"steps": "(0.5, 1.0)"}
    assert role.record()["class"].endswith("Rounder")

"""The laboratory for studies that ask people what the others will say: who takes part, and what is shown of it.

All from fixed seeds. Where chance decides, at four standard errors: a false alarm has a probability below 1e-4 for each
number compared.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.asked import mechanism_of, planned
from support.commands import Run
from support.html_page import section
from support.studies import UNIT_BALL

from truthful.agents import ASKED, Agent, Careless, Colluder, Misbeliever, Players, all_kinds, asked_game
from truthful.asked_release import AskedPaymaster
from truthful.errors import InputError, Refused
from truthful.moments import grid_features, grid_responses
from truthful.people import draw_answers, draw_centre, draw_level
from truthful.plan import Plan, design
from truthful.release import Release
from truthful.report import simulation_report
from truthful.settlement import settle
from truthful.show.terminal import simulation_view
from truthful.simulation import AskedSimulation, ShareSimulation, Simulation, simulate
from truthful.simulation.observations import best_reports, observations
from truthful.simulation.runs import settle_predictions
from truthful.study import Study

#: How each is planned, when its first test wants it.
KINDS: dict[str, tuple[Any, ...]] = {
    "number": ("number",),
    "yes-no": ("yes-no",),
    "rating": ("rating",),
    "number, features": ("number", 2),
    "yes-no, features": ("yes-no", 2, 8_000),
}
WHO: dict[str | Agent, float] = {
    Misbeliever(scatter=0.01): 0.1,
    "careless": 0.02,
    "opt-out": 0.2,
    "denier": 0.001,
}


@pytest.fixture(scope="module", params=KINDS)
def found(request: pytest.FixtureRequest) -> Simulation:
    plan = planned(*KINDS[request.param])
    return simulate(plan, WHO, runs=40 if plan.players < 8_000 else 4, seed=14)


def test_a_simulation_is_made_again_from_its_seed_and_goes_on_where_a_shorter_one_ended(
    found: Simulation,
) -> None:
    again = simulate(found.plan, WHO, runs=3, seed=14)
    assert [run.total for run in again.studies] == [run.total for run in found.studies[:3]]
    assert json.dumps(simulate(found.plan, WHO, runs=3, seed=14).record()) == json.dumps(again.record())
    other = simulate(found.plan, WHO, runs=3, seed=15)
    assert [run.total for run in other.studies] != [run.total for run in again.studies]


def test_its_record_is_json_of_its_kind(found: Simulation) -> None:
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert "papers_best_response" not in record
    assert {agent["agent"] for agent in record["agents"]} == {
        "misbeliever",
        "careless",
        "opt-out",
        "denier",
        "honest",
    }
    if found.plan.study.kind == "number":
        assert isinstance(found, AskedSimulation)
        assert record["level"]["answer_rmse"] > 0
        assert (record["level"]["effect_rmse"] is None) == (not found.plan.study.features)
    else:
        assert isinstance(found, ShareSimulation)
        assert len(record["shares"]["payments"]) == (2 if found.plan.study.kind == "yes-no" else 5)


def test_everybody_counts_once_and_nobody_owes(found: Simulation) -> None:
    for run in found.studies:
        assert run.cell_people.sum() == 2_000
        assert run.joined.sum() <= found.plan.players
        assert run.payments.min() >= 0
    assert found.observed.budget.largest <= (found.guaranteed.budget.cap or 0.0)


def test_lies_cost_those_who_deny(found: Simulation) -> None:
    """Not where they are true, and by three standard errors where there are enough studies to say."""
    by_name = {one.agent: one for one in found.earnings}
    for name in ("honest", "careless", "opt-out"):
        assert by_name[name].gain.value == 0
    if len(found.studies) >= 40 and found.plan.study.kind == "number":
        assert by_name["denier"].gain.value < -3 * by_name["denier"].gain.error


def test_words_and_page_tell_what_was_seen(found: Simulation) -> None:
    rows = {row.words: row for row in observations(found)}
    average = {"number": "average answer", "yes-no": "share of yes", "rating": "mean rating"}[
        found.plan.study.kind
    ]
    assert rows[f"error of the {average}"].guaranteed != "–"
    assert rows["intervals that cover the truth"].guaranteed == "95%"
    if found.plan.study.kind == "number":
        assert "size from which on no lie pays, with that" in rows
        assert ("error of coefficients" in rows) == bool(found.plan.study.features)
    else:
        assert any(words.startswith("the truth earns more than") for words in rows)
    assert len(simulation_view(found)) == 4
    assert len(best_reports(found)) == 1
    page = simulation_report(found)
    best = "answer" if isinstance(found, ShareSimulation) else "report"
    assert "Predicts" not in page
    assert "predicts one number whatever she thinks" in page
    assert f"Error of the {average}".lower() in page.lower()
    assert "paper" not in section(page, f"The {best} that pays most")


def test_guaranteed_errors_hold_and_intervals_cover_where_all_are_honest() -> None:
    """Squared errors over 100 studies at four standard errors, coverage at four of its own."""
    for kind in ("number", "yes-no", "rating"):
        seen = simulate(planned(*KINDS[kind]), runs=100, seed=2)
        squares = np.array([run.squared_error for run in seen.studies])
        promised = seen.guaranteed.accuracy.mean_squared_error or 0.0
        assert squares.mean() - 4 * squares.std() / 10 < promised < 4 * squares.mean()
        covered = np.array([run.covered for run in seen.studies]).mean()
        assert covered > 0.95 - 4 * 0.022
        assert seen.observed.participation.covered.value == 1.0


def test_the_gap_of_honest_people_is_within_what_is_guaranteed() -> None:
    """Sought in 200 studies of 500 people without features and with: beyond it by less than four standard errors."""
    for plan in (planned("number", players=500), planned(*KINDS["number, features"])):
        seen = simulate(plan, runs=100, seed=4)
        gap = seen.observed.truthfulness.gap
        assert gap.error < 0.03
        assert gap.value - 4 * gap.error < seen.guaranteed_gap


def test_a_simulated_study_pays_what_a_settlement_pays() -> None:
    """The same answers, predictions and released sums: payments to the last millionth, by other code than passes."""
    plan = planned(*KINDS["number"])
    rng, n = np.random.default_rng(5), 2_000
    raw, predicted = np.round(rng.uniform(0, 100, n), 2), np.round(rng.uniform(0, 100, n), 2)
    table = {"player": [f"p{i}" for i in range(n)], "units": raw, "prediction": predicted}
    settled = settle(plan, table, seed=1)
    game = asked_game(plan, np.ones((n, 1)))
    mechanism, beliefs = game.mechanism, game.beliefs
    y, m = plan.study.normalise_response(raw, np.ones((n, 1))), plan.study.normalise_predictions(predicted)
    ours = settle_predictions(game, np.ones((n, 1)), y, m, rng)
    release = settled.release
    assert isinstance(release, Release)
    estimate, level = release.estimate(), release.level()
    assert estimate is not None
    assert level is not None
    assert [int(k) for k in ours.sums.vector] != [int(k) for k in estimate.vector]
    scored = AskedPaymaster(mechanism, beliefs, estimate, level).score_players(
        grid_features(np.ones((n, 1))), grid_responses(y, 1.0), grid_responses(m, 1.0)
    )
    paid = settled.payments.column("payment").to_numpy()
    np.testing.assert_array_equal(scored.payment, paid)


# People


@pytest.mark.parametrize("name", [*all_kinds()])
@pytest.mark.parametrize("kind", ["number", "yes-no", "rating"])
def test_every_kind_of_people_answers_and_predicts(name: str, kind: str) -> None:
    plan = planned(*KINDS[kind])
    game, rng = asked_game(plan).of(-0.2, np.ones(1)), np.random.default_rng(6)
    x = np.ones((200, 1))
    y = rng.choice(game.answers, 200) if game.levels else rng.uniform(-0.8, 0.6, 200)
    told, predicted = all_kinds()[name]().respond(Players(x, y, rng.pareto(2, 200) * 0.1), game, rng)
    here = ~np.isnan(told)
    assert here.any()
    assert np.abs(told[here]).max() <= 1
    assert predicted.shape == told.shape
    assert np.isfinite(predicted).all()
    if game.levels:
        np.testing.assert_allclose(game.nearest(told[here]), told[here])


def test_careless_people_and_colluders_say_what_they_say() -> None:
    game, rng = asked_game(planned(*KINDS["rating"])).of(-0.2, np.ones(1)), np.random.default_rng(7)
    players = Players(np.ones((3, 1)), np.array([-1.0, 0.0, 1.0]), np.ones(3))
    told, predicted = Careless(0.4).respond(players, game, rng)
    np.testing.assert_array_equal(told, players.y)
    assert predicted == pytest.approx(-0.2)
    told, predicted = Colluder(0.7).respond(players, game, rng)
    assert told == pytest.approx(0.5)  # the rating next to it
    np.testing.assert_array_equal(predicted, told)


def test_careless_predictions_move_what_is_found_of_the_centre_and_misbelievers_lie_about_yes_and_no() -> (
    None
):
    """Of yes and no an answer moves expectations by two points only: centres that scatter by three make many deny."""
    seen = simulate(planned(*KINDS["yes-no"]), {Misbeliever(0.03): 1.0}, runs=5, seed=8)
    assert seen.observed.truthfulness.misreports.value > 0.1
    unaware = simulate(planned(*KINDS["yes-no"]), {Misbeliever(0.03, aware=0.0): 1.0}, runs=5, seed=8)
    assert unaware.observed.truthfulness.misreports.value == 0


@pytest.mark.parametrize("name", ASKED)
def test_kinds_that_predict_have_no_place_where_nobody_is_asked(name: str) -> None:
    plan = design(Study.parse(UNIT_BALL), players=100, epsilon=1.0, score_weight=0.1)
    with pytest.raises(InputError, match=f"'{name}' say what the others will say"):
        simulate(plan, {name: 0.5}, runs=1)


@pytest.mark.parametrize("wrong", [{"scatter": -1.0}, {"aware": 1.5}, {"aware": -0.1}, {"steeper": 0.0}])
def test_beliefs_that_nobody_has_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Misbeliever(**wrong)


def test_nobody_who_stays_away_is_paid() -> None:
    plan = planned(*KINDS["number"])
    mechanism = replace(mechanism_of(plan), base_payment=0.0, score_weight=0.0, prediction_weight=0.0)
    with pytest.raises(Refused, match="too few"):
        simulate(replace(plan, mechanism=mechanism), {"opt-out": 1.0}, runs=1)


@pytest.mark.parametrize("kind", ["number, features", "yes-no, features"])
def test_invented_people_expect_what_they_are_drawn_by(kind: str) -> None:
    """The average of everybody is the centre on average over 2,000 studies, and answers follow it."""
    plan = planned(*KINDS[kind])
    beliefs = plan.study.levels
    assert beliefs is not None
    rng = np.random.default_rng(9)
    x = plan.study.normalise(plan.study.sample_features(rng, 500), 500)
    c = x.mean(axis=0)
    levels = np.array([c @ draw_level(plan.study, beliefs, -0.3, c, rng) for _ in range(2_000)])
    assert abs(levels.mean() + 0.3) < 4 * beliefs.sure / np.sqrt(2_000)
    assert levels.std() == pytest.approx(beliefs.sure, rel=0.08)
    y = draw_answers(beliefs, np.full(20_000, -0.3), rng)
    assert abs(y.mean() + 0.3) < 4 * y.std() / np.sqrt(20_000)
    centres = np.array([draw_centre(beliefs, rng) for _ in range(200)])
    assert centres.min() > beliefs.low
    assert centres.max() < beliefs.high


def test_the_command_prints_the_same_record(tmp_path: Path, run: Run) -> None:
    planned(*KINDS["number"]).save(tmp_path / "plan.json")
    asked = "careless=0.1,colluder=0.05"
    printed = run("simulate", str(tmp_path / "plan.json"), "--runs", "3", "--agents", asked, "--json")
    assert (printed.code, printed.err) == (0, "")
    again = simulate(Plan.load(tmp_path / "plan.json"), {"careless": 0.1, "colluder": 0.05}, runs=3)
    assert json.loads(printed.out) == json.loads(json.dumps(again.record()))
    page = tmp_path / "simulation.html"
    shown = run("simulate", str(tmp_path / "plan.json"), "--runs", "3", "--report", str(page))
    assert shown.code == 0
    assert "average answer" in " ".join(shown.out.split())
    assert "SIMULATION" in page.read_text()

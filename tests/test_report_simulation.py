"""The page of a simulation needs nothing but itself, says what the terminal says, and that nobody on it is real."""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.commands import Run
from support.html_page import Page, check_needs_nothing, check_reads_aloud
from support.laboratory import RECORDS, RELEASES, plan_of, planned_like
from support.studies import DESIGNED, OBSERVED
from test_report import ASKED, FIVE, HOSTILE

from truthful.agents import Agent, Exaggerator, Game, Players
from truthful.check import Floats
from truthful.plan import Plan
from truthful.promises import promises
from truthful.report import simulation_report
from truthful.report.simulation_page import INVENTED
from truthful.simulation import Simulation, simulate
from truthful.simulation.observations import best_reports, earnings_rows, observations

CHARTS = 4


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a plan for 500 players, and we are in it."""
    monkeypatch.chdir(tmp_path)
    plan_of(DESIGNED, 500).save("plan.json")


@cache
def simulated() -> tuple[Simulation, str]:
    plan = plan_of(ASKED, 200)
    seen = simulate(plan, {"exaggerator": 0.1, "opt-out": 0.2}, runs=6, seed=3)
    return seen, simulation_report(seen)


def text(source: str) -> str:
    return Page(source).one("body").text


def test_a_page_needs_nothing_but_itself() -> None:
    check_needs_nothing(simulated()[1])


def test_a_page_can_be_read_without_seeing_it() -> None:
    source = simulated()[1]
    check_reads_aloud(source, "Designed: simulation")
    assert len(Page(source).all("svg")) == CHARTS


def test_every_chart_has_its_numbers_in_a_table() -> None:
    order = [element.tag for element in Page(simulated()[1]).all("figure", "table")]
    assert order == ["table", *["figure", "table"] * CHARTS]


def test_the_first_thing_said_is_that_everybody_is_invented() -> None:
    page = Page(simulated()[1])
    header = page.one("header")
    assert INVENTED in header.text
    assert page.one("strong").text == INVENTED
    assert "everybody on this page is invented" in INVENTED


def test_the_same_simulation_is_the_same_bytes() -> None:
    seen, source = simulated()
    again = simulate(seen.plan, {"exaggerator": 0.1, "opt-out": 0.2}, runs=6, seed=3)
    assert simulation_report(again) == source


def test_the_five_guarantees_stand_in_their_order_with_all_their_numbers() -> None:
    seen, source = simulated()
    page = Page(source)
    groups = [cell.text for cell in page.all("th") if cell.attributes["scope"] == "rowgroup"]
    assert groups == FIVE
    rows = [row.text for row in page.all("tr")]
    for one in observations(seen):
        first = one.words[0].upper() if one.words[0].isascii() else one.words[0]
        assert f"{first}{one.words[1:]}{one.observed}{one.guaranteed}" in rows


def test_symbols_keep_their_case() -> None:
    _, page = simulated()
    assert "η with the observed gap" in page
    assert "Η" not in page  # the capital, which reads as an H


def test_people_earnings_answers_and_assumptions_are_all_told() -> None:
    seen, source = simulated()
    page, said = Page(source), text(source)
    rows = [row.text for row in page.all("tr")]
    for agent, _, _, *numbers in earnings_rows(seen):
        assert "".join([agent, *numbers]) in rows
    for sentence in best_reports(seen):
        assert sentence in said
    for promise in promises(seen.plan):
        for words in promise.assumptions:
            assert words[1:] in said
    assert "How much do you spend?" in said
    assert "20 (10%). Answers factor times the truth" in said
    assert "(factor 2.0)" in said
    assert "140 (70%). Tells the truth." in said


def test_quantiles_kept_of_payments_are_those_of_payments() -> None:
    """Quantiles at the middles of equal shares have the mean of the payments, but for what a share hides."""
    seen, _ = simulated()
    for study in seen.studies:
        assert np.all(np.diff(study.payments) >= 0)
        assert study.payments.mean() == pytest.approx(study.total / study.joined.sum(), rel=5e-3)


def test_more_liars_than_planned_for_are_a_warning_and_none_is_made_without() -> None:
    assert "more people lied than the plan allows for" in text(simulated()[1])
    honest = simulate(plan_of(DESIGNED, 100), runs=4)
    source = simulation_report(honest)
    assert "more people lied" not in text(source)
    assert len([p for p in Page(source).all("p") if p.attributes.get("class") == "banner"]) == 1


@pytest.mark.parametrize(("epsilon", "some"), [(2.6, True), (6.0, False)])
def test_who_stays_away_is_told_also_if_it_is_everybody_of_a_kind(epsilon: float, some: bool) -> None:
    plan = plan_of(DESIGNED, 100, epsilon=epsilon, score_weight=0.5)
    seen = simulate(plan, {"opt-out": 0.5}, runs=3)
    came, source = seen.earnings[0].joined.value, simulation_report(seen)
    assert came < 50
    assert (came > 0) == some
    assert f"50 (50%), of whom {came:,.1f} joined on average." in text(source)
    assert not re.search(r"\bnan\b|\binf\b", Page(source).one("main").text)


# How to make it again


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("agents", ["honest=1", "coordinated=0.1", "honest=0.5,exaggerator=0.3,opt-out=0.1"])
def test_the_command_on_a_page_makes_the_same_page(agents: str, run: Run) -> None:
    """Also if shares do not add up to 1, and if the honest come first."""
    first = run(
        "simulate", "plan.json", "--runs", "3", "--seed", "8", "--agents", agents, "--report", "a.html"
    )
    assert (first.code, first.err) == (0, "")
    assert first.out.endswith("Wrote a.html.\n")
    source = Path("a.html").read_text(encoding="utf-8")
    assert Plan.load("plan.json").sha256 in text(source)
    command = Page(source).one("pre").text.split()
    assert run(*command[1:]).code == 0
    assert Path("simulation.html").read_text(encoding="utf-8") == source
    assert not list(Path().glob(".*.html.*"))


@pytest.mark.usefixtures("here")
def test_a_page_is_written_over_an_older_one_and_next_to_json(run: Run) -> None:
    Path("a.html").write_text("older")
    told = run("simulate", "plan.json", "--runs", "2", "--report", "a.html", "--json")
    assert told.out.startswith("{")
    assert "Wrote" not in told.out
    assert Page(Path("a.html").read_text(encoding="utf-8")).one("h1").text


@pytest.mark.usefixtures("here")
def test_a_page_that_cannot_be_written_is_told_and_what_was_seen_is_shown(run: Run) -> None:
    told = run("simulate", "plan.json", "--runs", "2", "--report", "nowhere/a.html")
    assert told.code == 2
    assert "Observed in 2 studies" in told.out
    assert "nowhere" in told.err


@dataclass(frozen=True)
class Silent(Agent):
    """Says nothing of note. Always the middle."""

    name: ClassVar[str] = "</dt><script>"

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        return np.zeros_like(players.y)


def test_people_whom_no_command_can_name_are_simulated_again_from_python() -> None:
    plan = plan_of(DESIGNED, 100)
    source = simulation_report(simulate(plan, {Exaggerator(factor=1.5): 0.1, Silent(): 0.1}, runs=2, seed=4))
    called = Page(source).one("pre").text
    assert called.startswith('simulate(Plan.load("plan.json"), {Exaggerator(factor=1.5): 0.1, Silent(): 0.1,')
    assert called.endswith("runs=2, seed=4)")
    assert "Says nothing of note." in text(source)
    assert not Page(source).all("script")


def test_features_that_were_brought_are_named_by_their_hash() -> None:
    plan = plan_of(OBSERVED + RECORDS, 100)
    rows = np.random.default_rng(0).uniform(-0.3, 0.3, (50, plan.study.dimension))
    seen = simulate(plan, runs=2, features=rows)
    source = simulation_report(seen)
    assert f"drawn from 50 rows (features.csv), normalised of SHA-256 {seen.features.sha256}" in text(source)
    assert "--features features.csv" in Page(source).one("pre").text


# Whatever the plan


@pytest.mark.parametrize("place", ["Designed", "spend", "price", "north", "How much do you spend?"])
def test_a_name_is_never_markup(place: str) -> None:
    toml = HOSTILE.replace('"', '\\"')
    plan = plan_of(ASKED.replace(f'"{place}"', f'"{toml}"'), 60)
    source = simulation_report(simulate(plan, runs=2))
    page = Page(source)
    assert not page.all("script")
    assert "<!--" not in source
    assert "alert(1)" in html.unescape(page.one("body").text)
    assert len(page.all("svg")) == CHARTS


@pytest.mark.parametrize(
    "parameters",
    [
        {"score_weight": 0.0, "base_payment": 1.0},
        {"score_weight": 1e8},
        {"epsilon": 1e-6},
        {"rule": "brier"},
        {"payments": "expected"},
        {"absent_share": 0.4},
    ],
)
def test_a_page_can_be_made_of_every_plan(parameters: dict[str, Any]) -> None:
    """Of one study too, which has no spread."""
    plan = plan_of(DESIGNED, 60, **parameters)
    page = Page(simulation_report(simulate(plan, {"exaggerator": 0.5}, runs=1)))
    assert len(page.all("svg")) == CHARTS
    assert not re.search(r"\bnan\b|\binf\b", page.one("main").text)


@pytest.mark.parametrize("name", RELEASES)
def test_a_page_can_be_made_with_every_estimator(name: str) -> None:
    seen = simulate(planned_like(name, 60), {"influential": 0.5, "targeting": 0.5}, runs=2)
    assert math.isfinite(seen.observed.accuracy.rmse)
    page = Page(simulation_report(seen))
    assert len(page.all("svg")) == CHARTS
    assert page.one("pre").text.split()[5:7] == ["--agents", "influential=0.5,targeting=0.5"]
    assert ("computed for those of each study" in text(simulation_report(seen))) == (name == "instruments")

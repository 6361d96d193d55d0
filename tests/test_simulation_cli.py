"""`truthful simulate` through its real entry point."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import Run
from support.laboratory import plan_of
from support.studies import DESIGNED

from truthful.plan import Plan
from truthful.simulation import simulate


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with a plan for 500 players, and we are in it."""
    monkeypatch.chdir(tmp_path)
    plan_of(DESIGNED, 500).save("plan.json")


@pytest.mark.usefixtures("here")
def test_the_same_command_shows_the_same_studies(run: Run) -> None:
    arguments = ("simulate", "plan.json", "--runs", "4", "--agents", "exaggerator=0.1,opt-out=0.2")
    first, again, other = run(*arguments), run(*arguments), run(*arguments, "--seed", "1")
    assert (first.code, first.err) == (0, "")
    assert "Observed in 4 studies of 500 players, and guaranteed" in first.out
    assert first.out == again.out != other.out


@pytest.mark.usefixtures("here")
def test_a_simulation_as_json_is_its_record(run: Run) -> None:
    printed = run(
        "simulate", "plan.json", "--runs", "3", "--agents", "coordinated=0.5", "--seed", "2", "--json"
    )
    wanted = simulate(Plan.load("plan.json"), {"coordinated": 0.5}, runs=3, seed=2).record()
    assert json.loads(printed.out) == json.loads(json.dumps(wanted, allow_nan=False))


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agents", "saint=0.1"], "There is no agent 'saint'"),
        (["--agents", "exaggerator"], "'exaggerator' is not an agent and its share"),
        (["--agents", "exaggerator=0.9,coordinated=0.9"], "add up to 1.8"),
        (["--runs", "0"], "runs is 0"),
        (["--seed", "-1"], "seed is -1"),
    ],
)
def test_what_cannot_be_simulated_is_told_in_one_sentence(
    arguments: list[str], message: str, run: Run
) -> None:
    told = run("simulate", "plan.json", *arguments)
    assert told.code == 2
    assert message in told.err
    assert told.out == ""

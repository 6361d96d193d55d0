"""The examples run, and print what their pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pages
import pytest

from truthful.planner.goals import Goals
from truthful.planner.solve import solve
from truthful.study import Study

AFFAIRS = pages.ROOT / "examples" / "affairs"
# A row of its table of declarations: features, least eigenvalue, signal.
TRIED = re.compile(r"^(?:time|yes/no) +([a-z_, ]+?) {2,}([\d.]+) +[\d.]+ +([\d.]+) +[\d.]+$", re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("example", pages.EXAMPLES, ids=lambda path: path.name)
def test_an_example_prints_what_its_page_shows(example: Path, tmp_path: Path) -> None:
    if example.name == "affairs":
        pytest.importorskip("statsmodels", reason="pip install --group examples")
    before = set(example.iterdir())
    ran = pages.example(example, tmp_path)
    assert ran.source == f"python examples/{example.name}/run.py"
    assert ran.code == 0, ran.output
    assert pages.agrees(ran.shown, ran.output), f"`python tests/pages.py` pastes this one:\n{ran.output}"
    assert not list(tmp_path.iterdir()), "an example leaves files where it is run"
    assert set(example.iterdir()) == before, "an example leaves files beside its study"


@pytest.mark.parametrize("example", pages.EXAMPLES, ids=lambda path: path.name)
def test_an_example_declares_a_study_and_says_what_a_rehearsal_is(example: Path) -> None:
    assert Study.load(example / "study.toml").dimension > 0
    page = pages.read(str(example / "README.md"))
    assert "protects nobody" in page.replace("\n", " ")


@pytest.mark.slow
def test_with_no_declaration_that_was_tried_can_the_truth_be_bought_at_a_dollar_each() -> None:
    """Of what the example tried, features' ranges and the answer's scale make no difference to what can be promised."""
    chosen = Study.load(AFFAIRS / "study.toml").declaration()
    tried = TRIED.findall(pages.read("examples/affairs/README.md"))
    assert len(tried) == 8
    for columns, least_eigenvalue, signal in tried:
        study = Study.from_declaration(
            chosen
            | {"features": [{"name": name, "low": 0, "high": 1} for name in columns.split(", ")]}
            | {"design": {"kind": "observed", "least_eigenvalue": float(least_eigenvalue)}}
            | {"beliefs": {"signal": float(signal)}}
        )
        assert not beats_guessing(study, 6_366)
    assert study.declaration() | {"features": chosen["features"]} == chosen, "the last one is the study's"
    assert beats_guessing(study, 600_000)


def beats_guessing(study: Study, players: int) -> bool:
    """Whether 6,366 USD buy so many people's answers, the truth and a better result than the prior mean."""
    goals = Goals(players=players, budget=6_366)
    return solve(study, goals, players)[0].error < goals.prior_error(study)


def test_there_are_examples_of_every_kind_of_features() -> None:
    kinds = {Study.load(example / "study.toml").declared.design.kind for example in pages.EXAMPLES}
    assert kinds >= {"observed", "uniform", "unit-ball"}

"""The examples run, and print what their pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest

from truthful.study import Study

AFFAIRS = pages.ROOT / "examples" / "affairs"
# The largest lie that may pay, and the least that a switch between yes and no does.
SWITCHED = re.compile(r"in prediction of ([\d.]+); a switch between yes and no makes one of ([\d.]+) to")


@pytest.mark.slow
@pytest.mark.parametrize("example", pages.EXAMPLES, ids=lambda path: path.name)
def test_an_example_prints_what_its_page_shows(example: Path, tmp_path: Path) -> None:
    if example.name == "affairs":
        pytest.importorskip("statsmodels", reason="pip install --group examples")
    before = set(example.iterdir())
    ran = pages.example(example, tmp_path)
    assert ran.source == f"python examples/{example.name}/run.py"
    assert ran.code == 0, ran.output
    assert pages.agrees(ran.shown, ran.output), f"`python tools/pages.py` pastes this one:\n{ran.output}"
    assert not list(tmp_path.iterdir()), "an example leaves files where it is run"
    assert set(example.iterdir()) == before, "an example leaves files beside its study"


@pytest.mark.slow
def test_an_example_is_a_program_of_its_own(tmp_path: Path) -> None:
    example = pages.ROOT / "examples" / "drinks"
    ran = subprocess.run(
        [sys.executable, str(example / "run.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == pages.example(example, tmp_path).output


@pytest.mark.parametrize("example", pages.EXAMPLES, ids=lambda path: path.name)
def test_an_example_declares_a_study_and_says_what_a_rehearsal_is(example: Path) -> None:
    assert Study.load(example / "study.toml").dimension > 0
    page = pages.read(str(example / "README.md"))
    assert "protects nobody" in page.replace("\n", " ")


@pytest.mark.slow
def test_a_switch_of_the_answer_is_deterred_at_a_dollar_each() -> None:
    """Lies pay up to a change in prediction that is smaller than what a switch makes of anybody's."""
    page = pages.read("examples/affairs/README.md")
    found = SWITCHED.findall(page)
    assert len(found) == 2
    for lie, least in found:
        assert float(lie) < float(least)


def test_there_are_examples_of_every_kind_of_features() -> None:
    kinds = {Study.load(example / "study.toml").declared.design.kind for example in pages.EXAMPLES}
    assert kinds >= {"observed", "uniform", "unit-ball"}

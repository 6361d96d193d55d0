"""The examples run, and print what their pages show."""

from __future__ import annotations

from pathlib import Path

import pages
import pytest

from truthful.study import Study


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


def test_there_are_examples_of_every_kind_of_features() -> None:
    kinds = {Study.load(example / "study.toml").declared.design.kind for example in pages.EXAMPLES}
    assert kinds >= {"observed", "uniform", "unit-ball"}

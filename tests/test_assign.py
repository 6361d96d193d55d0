"""Situations drawn from the command line, repeatably, and invented reports that the other commands take."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from support.commands import Run

from truthful.intake import read_answers
from truthful.people import invent
from truthful.study import Study

TEXT = """
name = "Jobs"
currency = "USD"
[response]
name = "wage"
low = 0
high = 100
[[features]]
name = "hours"
low = 10
high = 40
[[features]]
name = "place"
levels = ["office", "home"]
[design]
kind = "uniform"
[beliefs]
signal = 0.5
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
OBSERVED = TEXT.replace('kind = "uniform"', 'kind = "observed"\n[privacy]\nprotects = "answers"')
KINDS = {
    "numbers": TEXT,
    "observed": OBSERVED,
    "yes or no": OBSERVED.replace("low = 0\nhigh = 100", 'kind = "yes-no"').replace(
        "signal = 0.5", "share = [0.2, 0.6]\neffect = 0.1"
    ),
    "predictions": OBSERVED.replace(
        "signal = 0.5", 'centre = "predictions"\nsure = 10\nspread = 15\neffect = 5'
    ),
}


@pytest.fixture(autouse=True)
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(TEXT)


def test_situations_follow_the_design_and_the_seed_that_is_told_repeats_them(run: Run) -> None:
    first = json.loads(run("assign", "study.toml", "--players", "2000", "--save", "one.csv", "--json").out)
    run("assign", "study.toml", "--players", "2000", "--save", "two.csv", "--seed", str(first["seed"]))
    run("assign", "study.toml", "--players", "2000", "--save", "other.csv", "--seed", str(first["seed"] + 1))
    one, two, other = (Path(f"{name}.csv").read_text() for name in ("one", "two", "other"))
    assert one == two != other
    rows = pyarrow.csv.read_csv("one.csv")
    assert rows.column_names == ["player", "hours", "place"]
    hours = rows["hours"].to_numpy()
    # The mean of 2,000 uniform numbers is off by more than 6 standard errors once in 10⁹ runs.
    assert abs(hours.mean() - 25) < 6 * 30 / np.sqrt(12 * 2_000)
    assert set(rows["place"].to_pylist()) == {"office", "home"}


def test_levels_and_values_are_drawn_as_likely_as_they_are_declared(run: Run) -> None:
    """Shares of 20,000 draws, each off by 6 of its standard errors once in 10⁸ runs."""
    text = TEXT.replace('"uniform"', '"assigned"').replace("low = 10\nhigh = 40", "values = [10, 15, 40]")
    unequal = text.replace('"home"]', '"home"]\nprobabilities = [0.8, 0.2]')
    Path("study.toml").write_text(unequal)
    assert run("assign", "study.toml", "--players", "20000", "--seed", "1", "--save", "drawn.csv").code == 0
    drawn, invented = (
        pyarrow.csv.read_csv("drawn.csv"),
        invent(Study.parse(unequal), 20_000, np.random.default_rng(1)).reports,
    )
    for rows in (drawn, invented):
        for name, expected in (
            ("place", {"office": 0.8, "home": 0.2}),
            ("hours", {10: 1 / 3, 15: 1 / 3, 40: 1 / 3}),
        ):
            counts = Counter(rows[name].to_pylist())
            assert set(counts) == set(expected)
            for value, share in expected.items():
                assert abs(counts[value] / 20_000 - share) < 6 * np.sqrt(share * (1 - share) / 20_000)


def test_people_keep_their_ids_and_their_order(run: Run) -> None:
    Path("ids.csv").write_text("player,email\nzoe,z@x\nadam,a@x\n")
    assert run("assign", "study.toml", "--people", "ids.csv", "--save", "drawn.csv").code == 0
    assert pyarrow.csv.read_csv("drawn.csv")["player"].to_pylist() == ["zoe", "adam"]


@pytest.mark.parametrize("kind", KINDS)
def test_invented_reports_are_ones_that_a_study_takes(kind: str, run: Run) -> None:
    Path("study.toml").write_text(KINDS[kind])
    assert run("assign", "study.toml", "--players", "40", "--invent", "--save", "reports.csv").code == 0
    X, answers = read_answers(Study.load("study.toml"), "reports.csv")
    assert len(X) == len(answers) == 40


@pytest.mark.parametrize(
    ("ids", "given", "words"),
    [
        ("", ["--players", "5", "--people", "ids.csv"], "Give --players, or --people"),
        ("", [], "Give --players, or --people"),
        ("player\na\nb\na\n", ["--people", "ids.csv"], "player 'a' stands twice"),
        ("player,x\na,1\n,2\n", ["--people", "ids.csv"], "row 3, 'player' is missing"),
        ("player\na\n", ["--players", "0"], "players is 0"),
    ],
)
def test_what_is_missing_or_stands_twice_is_told_and_nothing_is_written(
    ids: str, given: list[str], words: str, run: Run
) -> None:
    Path("ids.csv").write_text(ids or "player\na\n")
    shown = run("assign", "study.toml", *given, "--save", "drawn.csv")
    assert shown.code == 2
    assert words in shown.err
    assert not Path("drawn.csv").exists()


def test_features_that_people_have_are_not_assigned_and_no_file_is_overwritten(run: Run) -> None:
    Path("study.toml").write_text(OBSERVED)
    shown = run("assign", "study.toml", "--players", "5", "--save", "drawn.csv")
    assert "people have features of their own" in shown.err
    Path("study.toml").write_text(TEXT)
    Path("drawn.csv").write_text("mine")
    shown = run("assign", "study.toml", "--players", "5", "--save", "drawn.csv")
    assert (shown.code, Path("drawn.csv").read_text()) == (2, "mine")


def test_situations_are_written_as_text_and_not_under_the_name_of_another_format(run: Run) -> None:
    Path("study.toml").write_text(TEXT)
    shown = run("assign", "study.toml", "--players", "5", "--save", "drawn.parquet")
    assert (shown.code, "Name a .csv file" in shown.err, Path("drawn.parquet").exists()) == (2, True, False)

"""Errors under --json are records, and commands that messages suggest can be run as they stand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import PLAN, Run

from truthful.formatting import command


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "nope.toml", *PLAN], 2, "There is no study file 'nope.toml'"),
        (["plan"], 2, "Missing argument"),
        (["plan", "study.toml", "--much"], 2, "No such option: --much"),
        (["plan", "study.toml", "--players", "many"], 2, "Invalid value for '--players'"),
        (["settle", "plan.json", "reports.csv"], 2, "Missing option '--out'"),
        (["nothing"], 2, "No such command 'nothing'"),
        (["settle", "plan.json", "reports.csv", "--out", "s", "--on-bad", "drop"], 1, "on-bad drop"),
        (["verify", ".", "receipt.json"], 2, "'.': Is a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_record_on_stdout(
    here: Path, run: Run, arguments: list[str], code: int, message: str
) -> None:
    told = run(*arguments, "--json")
    assert (told.code, told.err) == (code, "")
    error = json.loads(told.out)["error"]
    assert (error["exit_code"], error["title"]) == (code, "Refused" if code == 1 else "Error")
    assert message in error["message"]
    assert run(*arguments).out == ""


def test_a_wrong_study_is_told_problem_by_problem(here: Path, run: Run) -> None:
    text = Path("study.toml").read_text()
    text = text.replace("low = 0", "low = true").replace("tail = 2.0", "tail = -2.0")
    Path("study.toml").write_text(text)
    error = json.loads(run("plan", "study.toml", *PLAN, "--json").out)["error"]
    assert error["source"] == "study.toml"
    assert [problem["location"][0] for problem in error["problems"]] == ["response", "costs"]
    assert all(problem["sentence"] in error["message"] for problem in error["problems"])


def test_what_is_infeasible_keeps_its_record(here: Path, run: Run) -> None:
    told = run("plan", "study.toml", "--players", "300", "--epsilon", "0.01", "--json")
    assert (told.code, json.loads(told.out)["feasible"]) == (1, False)
    told = run("beliefs", "study.toml", "--players", "50", "--budget", "1", "--json")
    assert (told.code, json.loads(told.out)["error"]["feasible"]) == (1, False)


def test_a_simulation_whose_page_cannot_be_written_prints_one_record(here: Path, run: Run) -> None:
    told = run("simulate", "plan.json", "--runs", "2", "--report", "nowhere/page.html", "--json")
    assert (told.code, json.loads(told.out)["error"]["exit_code"]) == (2, 2)


@pytest.mark.parametrize("words", [("plan", "a b.toml"), ("plan", "it's.toml"), ("plan", "a;b $HOME")])
def test_a_suggested_command_is_quoted(words: tuple[str, ...]) -> None:
    told = command(*words).replace("truthful", "printf '%s\n'", 1)
    assert subprocess.run(["sh", "-c", told], capture_output=True, text=True).stdout.splitlines() == [*words]


def test_suggested_commands_work_where_a_directory_has_a_space_and_an_apostrophe(
    here: Path, run: Run
) -> None:
    odd = Path("Ann's studies")
    odd.mkdir()
    Path("study.toml").rename(odd / "study.toml")
    plan = run("plan", odd / "study.toml", *PLAN, "--save", odd / "plan 1.json").out
    suggested = [plan.splitlines()[-1].replace("--out settlement", "--seed 1 --out 'my settlement'")]
    settled = sh(suggested[0])
    suggested.append(settled.splitlines()[-1].replace("--player ID", "--player p-001"))
    assert "truthful verify 'my settlement/release.json'" in suggested[1]
    assert "Verified" in sh(suggested[1])
    receipt = run("receipt", "my settlement/receipts.parquet", "p-001", "--save", "Ann's receipt.json").out
    Path("my settlement/release.json").rename("release.json")
    assert "Verified" in sh(receipt.split("payment: ")[1])
    missing = run("settle", "my plan.json", "reports.csv", "--out", "out").err
    assert "--save 'my plan.json'" in missing


def sh(line: str) -> str:
    """What a shell prints for it; `truthful` is this one."""
    wide = {**os.environ, "COLUMNS": "200"}
    program = f"{sys.executable} -c 'from truthful.cli import main; main()'"
    ran = subprocess.run(
        ["sh", "-c", line.strip().replace("truthful", program, 1)], capture_output=True, text=True, env=wide
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout

"""The command line through its real entry point: what it prints, what it writes, and how it leaves."""

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
import typer.main
from studies import people, saved_study

from truthful import cli
from truthful.mechanism import Mechanism
from truthful.plan import ABSENT_SHARE, design
from truthful.promises import REHEARSAL
from truthful.version import __version__

PROGRAM = str(Path(sys.executable).with_name("truthful"))
PLAN = ["--players", "500", "--epsilon", "2", "--score-weight", "0.5"]


@dataclass(frozen=True)
class Ran:
    """How a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `truthful ARGS` in this process, as the installed program does."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["truthful", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        code = left.value.code
        captured = capsys.readouterr()
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """A directory with a study, a plan for 500 players and their reports, and we are in it."""
    monkeypatch.chdir(tmp_path)
    study = saved_study(tmp_path)
    assert run("plan", "study.toml", *PLAN, "--public-share", "0.6", "--save", "plan.json").code == 0
    table = people(study).reports
    pyarrow.parquet.write_table(table, "reports.parquet")
    pyarrow.csv.write_csv(table, "reports.csv")
    return tmp_path


@pytest.fixture
def settled(here: Path, run: Run) -> Path:
    """The same, settled, with one player's receipt."""
    assert run("settle", "plan.json", "reports.parquet", "--out", "settlement").code == 0
    row = pyarrow.parquet.read_table("settlement/receipts.parquet").slice(0, 1).to_pylist()[0]
    receipt = {
        "format": "truthful/receipt/1",
        "player": row["player"],
        "features": {"price": row["price"], "region": row["region"]},
        "report": row["spend"],
        "group": row["group"],
        "payment": row["payment"],
    }
    Path("receipt.json").write_text(json.dumps(receipt))
    return here


def test_a_new_study_can_be_planned_at_once(tmp_path: Path, run: Run) -> None:
    assert run("new", tmp_path / "mine").code == 0
    plan = run("plan", tmp_path / "mine" / "study.toml", *PLAN, "--save", tmp_path / "mine" / "plan.json")
    assert plan.code == 0
    assert "truthful settle" in plan.out
    assert plan.err == ""


def test_settle_and_verify_say_what_they_did_and_what_is_next(here: Path, run: Run) -> None:
    done = run("settle", "plan.json", "reports.csv", "--out", "settlement")
    assert done.code == 0
    assert done.err == ""
    assert "REHEARSAL" not in done.out
    hint = next(line for line in done.out.splitlines() if "truthful verify" in line)
    verified = run(*shlex.split(hint.replace("--player ID", "--player p-001"))[1:])
    assert verified.code == 0
    assert "Verified: the payment of player p-001" in verified.out


# JSON


def test_a_plan_as_json_is_the_record_that_is_saved(here: Path, run: Run) -> None:
    printed = json.loads(run("plan", "study.toml", *PLAN, "--json", "--save", "other.json").out)
    saved = json.loads(Path("other.json").read_text())
    assert saved["study"].pop("file") == "study.toml"
    assert printed == saved
    assert list(printed["guarantees"]) == ["privacy", "truthfulness", "accuracy", "participation", "budget"]


def test_a_settlement_as_json_is_its_release(here: Path, run: Run) -> None:
    printed = json.loads(run("settle", "plan.json", "reports.parquet", "--out", "o", "--json").out)
    assert printed == json.loads(Path("o/release.json").read_text())
    named = {
        "format", "version", "rehearsal", "study", "plan_sha256", "players", "groups", "epsilon", "estimator",
        "noise", "theta", "peer_thetas", "coefficients", "interval_level", "beliefs", "features", "response",
        "payment", "guarantees",
    }  # fmt: skip
    assert named <= set(printed)
    assert printed["format"] == "truthful/release/1"
    assert printed["plan_sha256"] == json.loads(Path("plan.json").read_text())["sha256"]
    assert set(printed["epsilon"]) == {"total", "public", "peer"}
    assert set(printed["coefficients"][0]) == {"name", "value", "low", "high"}
    assert set(printed["payment"]) == {"rule", "payments", "a", "b", "currency"}


def test_a_verdict_as_json(settled: Path, run: Run) -> None:
    verdict = json.loads(run("verify", "settlement/release.json", "receipt.json", "--json").out)
    assert verdict["verified"] is True
    assert verdict["rehearsal"] is False
    assert verdict["paid"] == verdict["recomputed"]


def test_a_demonstration_and_a_new_study_and_the_notation_as_json(tmp_path: Path, run: Run) -> None:
    demo = run("demo", tmp_path / "demo", "--players", "200", "--seed", "7", "--json")
    assert json.loads(demo.out) == json.loads((tmp_path / "demo/settlement/release.json").read_text())
    new = run("new", tmp_path / "mine", "--json")
    assert json.loads(new.out) == {"study": str(tmp_path / "mine" / "study.toml")}
    symbols = json.loads(run("symbols", "--json").out)
    assert {"paper", "meaning", "formula", "door"} == set(symbols[0])


# Rehearsals, once only


def test_a_seed_marks_the_rehearsal_wherever_it_is_seen(here: Path, run: Run) -> None:
    done = run("settle", "plan.json", "reports.csv", "--out", "rehearsal", "--seed", "3")
    assert done.code == 0
    assert "REHEARSAL" in done.out
    assert json.loads(Path("rehearsal/release.json").read_text())["rehearsal"] is True
    check = ("verify", "rehearsal/release.json", "rehearsal/receipts.parquet", "--player", "p-001")
    assert REHEARSAL in run(*check).out.splitlines()
    assert json.loads(run(*check, "--json").out)["rehearsal"] is True
    demo = run("demo", "demo", "--players", "200", "--seed", "3")
    assert "REHEARSAL" in demo.out
    assert "REHEARSAL" not in run("demo", "real", "--players", "200").out


def test_a_second_release_is_refused_unless_it_is_asked_for(here: Path, run: Run) -> None:
    assert run("settle", "plan.json", "reports.csv", "--out", "first").code == 0
    second = run("settle", "plan.json", "reports.csv", "--out", "second")
    assert second.code == 1
    assert second.err.startswith("Refused: ")
    assert "--spend-again" in second.err
    assert not Path("second").exists()
    assert run("settle", "plan.json", "reports.csv", "--out", "second", "--spend-again").code == 0
    again = run("settle", "plan.json", "reports.csv", "--out", "first", "--spend-again")
    assert (again.code, "exists already" in again.err) == (1, True)


def test_expected_payments_are_for_rehearsals(here: Path, run: Run) -> None:
    plan = ["study.toml", *PLAN, "--payments", "expected", "--base-payment", "0.1", "--save", "e.json"]
    assert run("plan", *plan).code == 0
    refused = run("settle", "e.json", "reports.csv", "--out", "o")
    assert (refused.code, Path("o").exists()) == (1, False)
    assert "rehears" in refused.err
    assert run("settle", "e.json", "reports.csv", "--out", "o", "--seed", "1").code == 0


def test_new_never_writes_over_a_study(tmp_path: Path, run: Run) -> None:
    assert run("new", tmp_path).code == 0
    (tmp_path / "study.toml").write_text("mine")
    second = run("new", tmp_path)
    assert second.code == 1
    assert "exists already" in second.err
    assert (tmp_path / "study.toml").read_text() == "mine"


# Verification


@pytest.mark.parametrize(
    ("field", "value"),
    [("payment", 9.0), ("report", 1.0), ("group", None), ("features", {"price": 1.0, "region": "east"})],
)
def test_a_changed_receipt_is_not_verified(settled: Path, run: Run, field: str, value: Any) -> None:
    receipt = json.loads(Path("receipt.json").read_text())
    receipt[field] = 1 - receipt["group"] if field == "group" else value
    Path("receipt.json").write_text(json.dumps(receipt))
    told = run("verify", "settlement/release.json", "receipt.json")
    assert told.code == 1
    assert "NOT verified" in told.out
    assert run("verify", "settlement/release.json", "receipt.json", "--json").code == 1


def test_a_changed_release_is_an_input_error(settled: Path, run: Run) -> None:
    release = json.loads(Path("settlement/release.json").read_text())
    release["response"]["high"] = 300
    Path("changed.json").write_text(json.dumps(release))
    told = run("verify", "changed.json", "receipt.json")
    assert told.code == 2
    assert "it was changed" in told.err


@pytest.mark.parametrize(
    ("receipt", "message"),
    [
        (["nope.json"], "no receipt at 'nope.json'"),
        (["."], "'.': Is a directory"),
        (["plan.json"], "plan.json is not a receipt"),
        (["study.toml"], "study.toml is not a receipt"),
        (["settlement/receipts.parquet"], "Say whose with --player"),
        (["settlement/receipts.parquet", "--player", "nobody"], "no receipt of player 'nobody' among 500"),
        (["nope.parquet", "--player", "p-001"], "no file 'nope.parquet'"),
        (["broken.parquet", "--player", "p-001"], "broken.parquet cannot be read as Parquet"),
        (
            ["settlement/payments.parquet", "--player", "p-001"],
            "columns player, group, payment holds no receipts",
        ),
        (["reports.parquet", "--player", "p-001"], "price, region, spend holds no receipts"),
        (["text.json"], "is 'much', not a number"),
        (["level.json"], "'me'; its levels are north, south, east"),
        (["lacking.json"], "has no feature 'price'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_receipt_is_told_in_one_message(
    settled: Path, run: Run, receipt: list[str], message: str
) -> None:
    Path("broken.parquet").write_bytes(Path("reports.parquet").read_bytes()[:500])
    for name, features in {
        "text.json": {"price": "much", "region": "east"},
        "level.json": {"price": 2.0, "region": "me"},
        "lacking.json": {"region": "east"},
    }.items():
        Path(name).write_text(
            json.dumps({**json.loads(Path("receipt.json").read_text()), "features": features})
        )
    told = run("verify", "settlement/release.json", *receipt)
    assert told.code == 2
    assert message in told.err
    assert told.err.startswith("Error: ")


@pytest.mark.parametrize("release", ["nope.json", ".", "plan.json", "study.toml", "reports.parquet"])
def test_a_bad_release_is_told_in_one_message(settled: Path, run: Run, release: str) -> None:
    told = run("verify", release, "receipt.json")
    assert (told.code, told.err.startswith("Error: ")) == (2, True)


# Bad reports

GOOD = "p-{i},3.0,north,50.0"
BAD_ROWS = {
    "no player": (",3.0,north,50.0", "The player id is missing"),
    "duplicate": ("p-1,3.0,north,50.0", "p-1"),
    "missing feature": ("p-x,,north,50.0", "price"),
    "missing level": ("p-x,3.0,,50.0", "region"),
    "missing response": ("p-x,3.0,north,", "spend"),
    "text for a number": ("p-x,cheap,north,50.0", "'cheap'"),
    "text for the response": ("p-x,3.0,north,lots", "'lots'"),
    "not a number": ("p-x,nan,north,50.0", "price"),
    "infinite": ("p-x,3.0,north,inf", "spend"),
    "feature out of range": ("p-x,9.5,north,50.0", "9.5"),
    "response out of range": ("p-x,3.0,north,-1", "-1"),
    "unknown level": ("p-x,3.0,west,50.0", "'west'"),
}


def csv(*rows: str, header: str = "player,price,region,spend") -> str:
    good = [GOOD.format(i=i) for i in range(100)]
    return "\n".join([header, *good, *rows]) + "\n"


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_record_is_told_with_its_row_and_nothing_is_released(here: Path, run: Run, kind: str) -> None:
    row, shown = BAD_ROWS[kind]
    Path("bad.csv").write_text(csv(row))
    told = run("settle", "plan.json", "bad.csv", "--out", "o")
    assert told.code == 2
    assert told.err.startswith("Error: In bad.csv, row 101: ")
    assert shown in told.err
    assert not Path("o").exists()
    assert not Path("ledger.json").exists()


def test_all_bad_records_are_told_in_one_report_with_the_option_that_helps(here: Path, run: Run) -> None:
    rows = [row.replace("p-x", f"p-x{place}") for place, (row, _) in enumerate(BAD_ROWS.values())]
    Path("bad.csv").write_text(csv(*rows))
    told = run("settle", "plan.json", "bad.csv", "--out", "o")
    assert told.code == 2
    for _, shown in BAD_ROWS.values():
        assert shown in told.err
    assert "there are 12 bad values, in 12 of 112 records" in told.err
    assert "--on-bad drop" in told.err
    assert "on_bad=" not in told.err
    assert not Path("o").exists()
    assert run("settle", "plan.json", "bad.csv", "--out", "o", "--on-bad", "drop").code == 0


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", "empty.csv is empty"),
        ("header.csv", b"player,price,region,spend\n", "there are no reports"),
        ("columns.csv", b"player,price,spend\np-1,3.0,50.0\n", "region"),
        ("extra.csv", b"player,price,region,spend,age\np-1,3.0,north,50,9\n", "age"),
        ("ragged.csv", b"player,price,region,spend\np-1,3.0\n", "ragged.csv"),
        ("binary.csv", bytes(range(256)), "binary.csv"),
        ("broken.parquet", b"PAR1 and then nothing", "broken.parquet"),
        ("reports.txt", b"player", "of no kind that can be read"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_a_file_that_holds_no_reports_is_told(
    here: Path, run: Run, name: str, content: bytes, message: str
) -> None:
    Path(name).write_bytes(content)
    told = run("settle", "plan.json", name, "--out", "o")
    assert told.code == 2
    assert told.err.startswith("Error: ")
    assert message in told.err
    assert not Path("o").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["settle", "nope.json", "reports.csv", "--out", "o"], 2, "There is no plan at 'nope.json'"),
        (["settle", ".", "reports.csv", "--out", "o"], 2, "Is a directory"),
        (["settle", "study.toml", "reports.csv", "--out", "o"], 2, "study.toml is not a plan"),
        (["settle", "plan.json", "nope.csv", "--out", "o"], 2, "There is no file 'nope.csv'"),
        (["settle", "plan.json", "reports.csv", "--out", "no/o"], 2, "does not exist"),
        (["settle", "plan.json", "reports.csv", "--out", "."], 1, "exists already"),
        (["settle", "plan.json", "reports.csv", "--out", "o", "--on-bad", "pray"], 2, "on_bad is 'pray'"),
        (["settle", "plan.json", "reports.csv", "--out", "o", "--seed", "-1"], 2, "seed is -1"),
        (["settle", "plan.json", "reports.csv", "--out", "o", "--seed", "x"], 2, "--seed"),
        (["settle", "plan.json", "reports.csv"], 2, "Missing option '--out'"),
        (["plan", "nope.toml", *PLAN], 2, "There is no study file 'nope.toml'"),
        (["plan", ".", *PLAN], 2, "Is a directory"),
        (["plan", "reports.parquet", *PLAN], 2, "is not UTF-8"),
        (["plan", "study.toml"], 2, "A plan cannot be solved for from nothing. Give two of players, budget"),
        (["plan", "study.toml", "--players", "500"], 2, "from players alone"),
        (["plan", "study.toml", "--players", "500", "--score-weight", "1"], 2, "epsilon is missing"),
        (["plan", "study.toml", *PLAN, "--budget", "5"], 2, "budget and score_weight are both given"),
        (["plan", "study.toml", "--players", "500", "--budget", "1"], 1, "Infeasible: with 500 players"),
        (["plan", "study.toml", "--players", "500", "--accuracy", "500"], 1, "answering with the prior mean"),
        (["plan", "study.toml", "--players", "500", "--budget", "-1"], 2, "budget is -1"),
        (["plan", "study.toml", *PLAN, "--chart", "frontier.pdf"], 2, "frontier.pdf"),
        (["errata", "E99"], 2, "There is no erratum 'E99'"),
        (["plan", "study.toml", *PLAN, "--players", "many"], 2, "--players"),
        (["plan", "study.toml", *PLAN, "--players", "1"], 2, "players is 1"),
        (["plan", "study.toml", *PLAN, "--epsilon", "nan"], 2, "epsilon is nan"),
        (["plan", "study.toml", *PLAN, "--epsilon", "1e-300"], 2, "epsilon is 1e-300"),
        (["plan", "study.toml", *PLAN, "--estimator", "magic"], 2, "choose one of known-design"),
        (["plan", "study.toml", *PLAN, "--estimator", "ridge-ball"], 2, "needs a regularization"),
        (["plan", "study.toml", *PLAN, "--estimator", "ridge-ball", "--regularization", "9"], 1, "unit ball"),
        (["plan", "study.toml", *PLAN, "--base-payment", "0"], 2, "Raise base_payment to at least"),
        (["plan", "study.toml", *PLAN, "--absent-share", "1"], 2, "absent_share is 1.0"),
        (["plan", "study.toml", *PLAN, "--save", "no/plan.json"], 2, "cannot be written"),
        (["plan", "study.toml", *PLAN, "--colour", "red"], 2, "No such option"),
        (["demo", "."], 1, "exists already"),
        (["demo", "d", "--players", "5"], 2, "players is 5; it must be at least 100"),
        (["new", "study.toml"], 2, "cannot be made"),
        (["dance"], 2, "No such command 'dance'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_is_told_with_the_right_exit_code(
    here: Path, run: Run, arguments: list[str], code: int, message: str
) -> None:
    before = set(here.iterdir())
    told = run(*arguments)
    assert told.code == code
    assert message in re.sub(r"\s+", " ", told.err)
    assert told.out == ""
    assert set(here.iterdir()) - before <= {here / ".ledger.lock"}


def test_more_reports_than_planned_are_refused(here: Path, run: Run) -> None:
    assert run("plan", "study.toml", *PLAN, "--players", "499", "--save", "small.json").code == 0
    told = run("settle", "small.json", "reports.csv", "--out", "o")
    assert (told.code, Path("o").exists()) == (1, False)
    assert "There are 500 reports, but the plan is for 499 players" in told.err


def test_a_changed_study_or_an_edited_plan_is_not_settled(here: Path, run: Run) -> None:
    plan = json.loads(Path("plan.json").read_text())
    plan["parameters"]["epsilon"] = 9.0
    Path("edited.json").write_text(json.dumps(plan))
    edited = run("settle", "edited.json", "reports.csv", "--out", "o")
    assert (edited.code, "changed by hand" in edited.err) == (2, True)
    Path("study.toml").write_text(Path("study.toml").read_text().replace("high = 200", "high = 201"))
    changed = run("settle", "plan.json", "reports.csv", "--out", "o")
    assert (changed.code, "was changed after" in changed.err) == (1, True)


def test_a_file_without_permission_is_one_message(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", "reports.csv")

    monkeypatch.setattr("truthful.settlement.settlement.open_reports", denied)
    told = run("settle", "plan.json", "reports.csv", "--out", "o")
    assert (told.code, told.err) == (2, "Error: 'reports.csv': Permission denied.\n")


def test_warnings_of_libraries_are_not_shown(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    def noisy(*arguments: Any, **options: Any) -> Any:
        warnings.warn("something deep inside", RuntimeWarning, stacklevel=1)
        return design(*arguments, **options)

    monkeypatch.setattr("truthful.plan.design", noisy)
    monkeypatch.setattr(sys, "warnoptions", [])
    told = run("plan", "study.toml", *PLAN)
    assert (told.code, told.err) == (0, "")


# Help


def commands() -> dict[str, Any]:
    group = typer.main.get_command(cli.app)
    return dict(group.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", commands())
def test_every_command_argument_and_option_has_help(name: str) -> None:
    command = commands()[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name} {parameter.name}"


def test_help_is_shown_for_everything(run: Run) -> None:
    assert set(commands()) == {
        "new",
        "plan",
        "simulate",
        "settle",
        "report",
        "verify",
        "receipt",
        "audit",
        "demo",
        "errata",
        "symbols",
    }
    for name in commands():
        shown = run(name, "--help")
        assert shown.code == 0
        assert f"Usage: truthful {name}" in shown.out
        assert f"Example: truthful {name}" in re.sub(r"\s+", " ", shown.out)
        assert run(name, "-h").out == shown.out


def test_every_command_prints_json() -> None:
    for command in commands().values():
        assert "--json" in {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize("name", commands())
def test_the_example_of_every_command_runs(name: str, settled: Path, run: Run) -> None:
    example = commands()[name].epilog.removeprefix("Example: ")
    program, *arguments = shlex.split(example)
    assert program == "truthful"
    if name == "settle":
        (settled / "settlement").rename(settled / "earlier")
        (settled / "ledger.json").unlink()
    assert run(*arguments).code == 0


def test_the_defaults_of_the_command_are_those_of_the_library() -> None:
    shown, library = inspect.signature(cli.plan).parameters, inspect.signature(design).parameters
    assert [
        name for name, option in shown.items() if name in library and option.default != library[name].default
    ] == []
    fields = Mechanism.__dataclass_fields__
    for name in ("rule", "payments"):
        assert shown[name].default == fields[name].default
    for name in ("public_share", "gram_share"):
        assert f"with --score-weight, {fields[name].default}." in option_help(name)
    assert f"with --score-weight, {ABSENT_SHARE}." in option_help("absent_share")


def option_help(name: str) -> str:
    (option,) = [parameter for parameter in commands()["plan"].params if parameter.name == name]
    return str(option.help)


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version") == Ran(0, f"truthful {__version__}\n", "")


# The installed program


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.mark.slow
def test_the_installed_program_runs_refuses_and_complains(here: Path) -> None:
    assert program("symbols").returncode == 0
    done = program("settle", "plan.json", "reports.csv", "--out", "o")
    assert (done.returncode, done.stderr) == (0, "")
    refused = program("settle", "plan.json", "reports.csv", "--out", "o")
    assert (refused.returncode, "Refused: " in refused.stderr, refused.stdout) == (1, True, "")
    bad = program("plan", "nope.toml", *PLAN)
    assert (bad.returncode, "Traceback" in bad.stderr) == (2, False)


def test_nothing_to_do_shows_the_help() -> None:
    shown = program()
    assert shown.returncode in (0, 2)
    assert "truthful demo" in shown.stdout + shown.stderr


def test_a_reader_who_has_seen_enough_is_no_traceback() -> None:
    for arguments in ("symbols", "symbols --json", "plan --help"):
        shown = subprocess.run(
            ["bash", "-c", f"{shlex.quote(PROGRAM)} {arguments} | head -1"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stderr == ""


def test_a_terminal_without_greek_letters_is_no_traceback() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for arguments in (["symbols"], ["symbols", "--json"], ["plan", "--help"]):
        shown = program(*arguments, env=environment)
        assert (shown.returncode, shown.stderr) == (0, "")


def test_an_interrupted_command_leaves_quietly(here: Path) -> None:
    """Two million people take seconds to invent, so the interrupt finds the program at work."""
    with subprocess.Popen(
        [PROGRAM, "demo", "d", "--players", "2000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("Declared")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not (here / "d" / "settlement").exists()

"""What commands refuse: in one message, with the right exit code, and nothing written."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from support.commands import PLAN, Run
from support.studies import OBSERVED, RECORDS, RELEASES

from truthful.errors import InputError, Option
from truthful.plan import design

#: Studies of people's own features, which say what is protected, or do not.
STUDIES = {
    "undecided.toml": OBSERVED,
    "answers.toml": OBSERVED + RECORDS.replace("records", "answers"),
    "records.toml": OBSERVED + RECORDS,
}
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


def all_bad() -> str:
    return csv(*(row.replace("p-x", f"p-x{k}") for k, (row, _) in enumerate(BAD_ROWS.values())))


@pytest.mark.parametrize("kind", BAD_ROWS)
def test_a_bad_record_is_told_with_its_row_and_nothing_is_released(here: Path, run: Run, kind: str) -> None:
    row, shown = BAD_ROWS[kind]
    Path("bad.csv").write_text(csv(row))
    told = run("settle", "plan.json", "bad.csv", "--out", "o")
    assert told.code == 2
    assert told.err.startswith("Error: In bad.csv, row 102: ")
    assert shown in told.err
    assert not Path("o").exists()
    assert not Path("ledger.json").exists()


def test_all_bad_records_are_told_in_one_report_with_the_option_that_helps(here: Path, run: Run) -> None:
    Path("bad.csv").write_text(all_bad())
    told = run("settle", "plan.json", "bad.csv", "--out", "o")
    assert told.code == 2
    for _, shown in BAD_ROWS.values():
        assert shown in told.err
    assert "there are 12 bad values, in 12 of 112 records" in told.err
    assert "--on-bad clip" in told.err
    assert "on_bad=" not in told.err
    assert not Path("o").exists()


def test_bad_records_are_left_out_where_records_are_protected_and_not_where_answers_are(
    here: Path, run: Run
) -> None:
    Path("bad.csv").write_text(all_bad())
    Path("records.toml").write_text(RELEASES["noisy-statistics"])
    assert run("plan", "records.toml", *PLAN, "--players", "100", "--save", "records.json").code == 0
    told = run("settle", "records.json", "bad.csv", "--out", "o", "--on-bad", "drop")
    assert told.code == 0
    assert "Of 112 records: 12 records were left out." in told.out
    refused = run("settle", "plan.json", "reports.csv", "--out", "p", "--on-bad", "drop")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(
        "Refused: --on-bad drop would leave people out because of what they answered"
    )
    assert not Path("p").exists()


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
        ("reports.docx", b"player", "of no kind that can be read"),
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
        (
            ["plan", "study.toml", "--players", "500", "--budget", "1"],
            1,
            "unprofitable. What would help, the smallest change first:",
        ),
        (["plan", "study.toml", "--players", "500", "--accuracy", "500"], 1, "answering with the prior mean"),
        (["plan", "study.toml", "--players", "500", "--budget", "-1"], 2, "budget is -1"),
        (["plan", "study.toml", *PLAN, "--chart", "frontier.pdf"], 2, "frontier.pdf"),
        (["errata", "E99"], 2, "There is no erratum 'E99'"),
        (["plan", "study.toml", *PLAN, "--players", "many"], 2, "--players"),
        (["plan", "study.toml", *PLAN, "--players", "1"], 2, "players is 1"),
        (["plan", "study.toml", *PLAN, "--epsilon", "nan"], 2, "epsilon is nan"),
        (["plan", "study.toml", *PLAN, "--epsilon", "1e-300"], 2, "epsilon is 1e-300"),
        (["plan", "study.toml", *PLAN, "--estimator", "magic"], 2, "choose one of instruments, known-design"),
        (["plan", "study.toml", *PLAN, "--peers", "halves"], 2, "No such option: --peers"),
        (
            ["plan", "study.toml", *PLAN, "--base-payment", "-1"],
            2,
            "base_payment is -1.0; it must be 0 or above",
        ),
        (["plan", "study.toml", *PLAN, "--clip", "2"], 2, "clip is 2; no prediction is further than"),
        (["plan", "study.toml", *PLAN, "--response-share", "2"], 2, "response_share is 2.0"),
        (["plan", "study.toml", *PLAN, "--roster", "nope.csv"], 2, "There is no file 'nope.csv'"),
        (["plan", "study.toml", *PLAN, "--roster", "no-price.csv"], 2, "price"),
        (
            ["plan", "study.toml", *PLAN, "--players", "501", "--roster", "reports.csv"],
            2,
            "500 people on the roster",
        ),
        (["plan", "undecided.toml", *PLAN], 2, "does not say what is protected"),
        (["plan", "answers.toml", *PLAN], 2, "with --roster people.csv"),
        (["plan", "records.toml", *PLAN, "--roster", "reports.csv"], 2, "would give these away"),
        (
            ["plan", "records.toml", *PLAN, "--response-share", "0.5"],
            2,
            "only plans that protect answers know",
        ),
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
    for name, text in STUDIES.items():
        Path(name).write_text(text)
    Path("no-price.csv").write_text("player,region\np-1,north\n")
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
    assert (told.code, told.err.startswith("Error: 'reports.csv': Permission denied. Nothing was drawn")) == (
        2,
        True,
    )


def test_warnings_of_libraries_are_not_shown(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import warnings

    def noisy(*arguments: Any, **options: Any) -> Any:
        warnings.warn("something deep inside", RuntimeWarning, stacklevel=1)
        return design(*arguments, **options)

    monkeypatch.setattr("truthful.plan.design", noisy)
    monkeypatch.setattr(sys, "warnoptions", [])
    told = run("plan", "study.toml", *PLAN)
    assert (told.code, told.err) == (0, "")


def test_settings_in_a_message_are_options_here_and_arguments_in_python() -> None:
    error = InputError("'on_bad='drop'' is what she typed. Use ", Option("on_bad", "clip"), ".")
    assert str(error) == "'on_bad='drop'' is what she typed. Use on_bad='clip'."
    assert error.on_command_line == "'on_bad='drop'' is what she typed. Use --on-bad clip."

"""The command line through its real entry point: what it prints, and what it writes."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from support.commands import PLAN, Ran, Run

from truthful.formatting import REHEARSAL


def hint(told: Ran, command: str) -> list[str]:
    """The words of a command that was printed to be run next, without the name of the program."""
    (line,) = [line for line in told.out.splitlines() if line.startswith(f"  truthful {command}")]
    return shlex.split(line)[1:]


def test_from_a_new_study_to_a_checked_payment_every_command_prints_the_next(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 people with features of their own. Only their roster and their answers have to be brought."""
    monkeypatch.chdir(tmp_path)
    begun = run("new", "mine")
    assert (begun.code, begun.err) == (0, "")
    rng, n = np.random.default_rng(1), 400
    roster = {
        "player": [f"p-{i}" for i in range(n)],
        "age": rng.uniform(18, 90, n),
        "region": rng.choice(["north", "south", "east"], n),
    }
    pyarrow.csv.write_csv(pa.table(roster), "people.csv")
    planned = run(*hint(begun, "plan"), "--save", "plan.json")
    assert (planned.code, planned.err) == (0, "")
    assert "your features are not protected" in re.sub(r"\s+", " ", planned.out)
    pyarrow.csv.write_csv(pa.table({**roster, "weekly_spend": rng.uniform(0, 200, n)}), "reports.csv")
    settled = run(*hint(planned, "settle"))
    assert (settled.code, settled.err) == (0, "")
    assert "REHEARSAL" not in settled.out
    verified = run(*[word.replace("ID", "p-7") for word in hint(settled, "verify")])
    assert verified.code == 0
    assert "Verified: the payment of player p-7" in verified.out
    handed = run("receipt", "settlement/receipts.parquet", "p-7", "--save", "hers.json")
    assert (
        handed.out == "Wrote hers.json. She can check her payment: truthful verify release.json hers.json\n"
    )
    assert oct(Path("hers.json").stat().st_mode & 0o777) == "0o600"
    assert run("verify", "settlement/release.json", "hers.json").out == verified.out
    again = run("report", "settlement/release.json", "plan.json", "--out", "report.html")
    assert (again.code, again.out) == (0, "Wrote report.html.\n")
    assert Path("report.html").read_bytes() == Path("settlement/report.html").read_bytes()


def test_less_than_was_promised_is_refused_unless_it_is_accepted(here: Path, run: Run) -> None:
    few = Path("reports.csv").read_text().splitlines()[:301]
    Path("few.csv").write_text("\n".join(few) + "\n")
    told = run("settle", "plan.json", "few.csv", "--out", "o")
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("Refused: For those who answered less can be guaranteed than was promised: ")
    assert "The plan is for 500 people, and 300 answered." in told.err
    assert "--accept-less" in told.err
    assert not Path("o").exists()
    assert not Path("ledger.json").exists()
    assert run("settle", "plan.json", "few.csv", "--out", "o", "--accept-less").code == 0


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
    assert set(printed) == {
        "format", "version", "rehearsal", "study", "plan_sha256", "protects", "players", "epsilon", "estimator",
        "gram_share", "instruments", "statistics", "inverse", "noise", "theta", "coefficients", "differences",
        "interval_level", "invitation", "response", "features", "intercept", "design", "privacy", "beliefs",
        "costs", "payment", "guarantees", "promised", "warnings",
    }  # fmt: skip
    assert printed["format"] == "truthful/release/2"
    assert printed["plan_sha256"] == json.loads(Path("plan.json").read_text())["sha256"]
    assert printed["epsilon"] == {"answers": 2.0, "records": None}
    assert set(printed["statistics"]) == {"matrix", "matrix_sha256", "vector", "unit"}
    assert set(printed["coefficients"][0]) == {"name", "value", "low", "high"}
    assert set(printed["payment"]) == {"rule", "payments", "a", "b", "clip", "currency"}


def test_a_verdict_as_json(settled: Path, run: Run) -> None:
    verdict = json.loads(run("verify", "settlement/release.json", "receipt.json", "--json").out)
    assert verdict["verified"] is True
    assert verdict["rehearsal"] is False
    assert verdict["paid"] == verdict["recomputed"]
    receipt = json.loads(Path("receipt.json").read_text())
    assert receipt["format"] == "truthful/receipt/2"
    for name in ("leverage", "peer_prediction", "own_prediction"):
        assert verdict[name] == pytest.approx(receipt[name], abs=1e-9)


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

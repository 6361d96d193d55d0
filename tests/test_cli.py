"""The command line through its real entry point: what it prints, and what it writes."""

import json
import shlex
from pathlib import Path

from commands import PLAN, Run

from truthful.promises import REHEARSAL


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

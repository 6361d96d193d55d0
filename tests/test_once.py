"""Once and only once: a kill at any durable write leaves no release or one whole release, never a second draw."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from studies import people, planned, saved_study

from truthful.errors import Refused
from truthful.files import exclusive
from truthful.plan import Plan
from truthful.release import Release, read_receipt, verify
from truthful.settlement import settle
from truthful.settlement.draw import Draw
from truthful.settlement.ledger import read_ledger
from truthful.settlement.once import open_account

DRIVER = Path(__file__).with_name("killed_settlement.py")
FILES = {"release.json", "payments.parquet", "payments.csv", "receipts.parquet", "settlement.json"}


def prepared(directory: Path) -> Path:
    """A directory with a plan and its reports."""
    directory.mkdir()
    study = saved_study(directory)
    planned(study, 60).save(directory / "plan.json")
    pyarrow.parquet.write_table(people(study, 60).reports, directory / "reports.parquet")
    return directory


def lives(*directories: Path) -> str:
    """Let the driver settle in each directory, dying when its name says; what it complained of."""
    command = [sys.executable, str(DRIVER), *map(str, directories)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def is_whole(directory: Path) -> bool:
    """Every file is there (the draw may still be), and a payment can be verified."""
    names = {path.name for path in (directory / "out").iterdir()}
    receipt = read_receipt(directory / "out" / "receipts.parquet", "p-07")
    release = Release.load(directory / "out" / "release.json")
    return names - {"draw.json"} == FILES and verify(release, receipt).verified


def check_once(directory: Path) -> None:
    """However the first life ended: one whole release, one entry, and never a second draw."""
    status, sight = (directory / "first").read_text().split()
    assert status == "-9"
    if sight == "unseen":
        assert (directory / "second").read_text() == "0"
    assert is_whole(directory)
    entries = read_ledger(directory / "ledger.json").entries
    assert len(entries) == 1
    pending = (directory / "pending.json").read_text()
    if pending:
        assert entries[0].draw == json.loads(pending)["name"]


@pytest.mark.slow
def test_a_kill_at_any_durable_write_leaves_no_release_or_one_whole_release(tmp_path: Path) -> None:
    alive = prepared(tmp_path / "0-before")
    assert lives(alive) == ""
    writes = int((alive / "writes").read_text())
    assert writes >= 10
    directories = [
        prepared(tmp_path / f"{k}-{when}") for k in range(1, writes + 1) for when in ("before", "after")
    ]
    assert lives(*directories) == ""
    for directory in directories:
        check_once(directory)
    sights = {(directory / "first").read_text().split()[1] for directory in directories}
    assert sights == {"seen", "unseen"}


def test_an_unfinished_settlement_of_other_reports_is_not_finished_with_these(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "study")
    plan = Plan.load(directory / "plan.json")
    draw = Draw("d", plan.sha256, rehearsal=False, key="00" * 16, statistics="others'", answers=((1,),))
    draw.save(directory / ".out.unfinished")
    with pytest.raises(Refused, match="other reports"):
        settle(plan, people(plan.study, 60, seed=8).reports, out=directory / "out")


def test_two_settlements_at_once_are_refused(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    with (
        exclusive(tmp_path / ".ledger.lock"),
        pytest.raises(Refused, match="is running"),
        open_account(planned(study), rehearsal=False),
    ):
        pass


def test_an_edited_study_is_still_spent(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    settle(planned(study), people(study).reports)
    edited = saved_study(tmp_path, (tmp_path / "study.toml").read_text().replace("high = 200", "high = 300"))
    assert edited.sha256 != study.sha256
    with pytest.raises(Refused, match="already released"):
        settle(planned(edited), people(edited).reports)

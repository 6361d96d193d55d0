"""Once and only once: a kill at any durable write leaves no release or one whole release, never a second draw."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet
import pytest
from studies import people, planned, saved_study

from truthful.errors import Refused
from truthful.files import exclusive
from truthful.ledger import read_ledger
from truthful.once import open_account
from truthful.plan import Plan
from truthful.release import Release, verify
from truthful.settlement import read_receipt, settle

DRIVER = Path(__file__).with_name("killed_settlement.py")
FILES = {"release.json", "payments.parquet", "payments.csv", "receipts.parquet", "settlement.json"}


def prepared(directory: Path) -> Path:
    """A directory with a plan and its reports."""
    directory.mkdir()
    study = saved_study(directory)
    planned(study, 60).save(directory / "plan.json")
    pyarrow.parquet.write_table(people(study, 60).reports, directory / "reports.parquet")
    return directory


def run(directory: Path, k: int, when: str) -> subprocess.CompletedProcess[str]:
    paths = [str(directory / name) for name in ("plan.json", "reports.parquet", "out")]
    return subprocess.run(
        [sys.executable, str(DRIVER), *paths, str(k), when], capture_output=True, text=True, check=False
    )


def is_whole(directory: Path) -> bool:
    """Every file is there (the draw may still be), and a payment can be verified."""
    names = {path.name for path in (directory / "out").iterdir()}
    receipt = read_receipt(directory / "out" / "receipts.parquet", "p-07")
    return (
        names - {"draw.json"} == FILES
        and verify(Release.load(directory / "out" / "release.json"), receipt).verified
    )


def killed_then_finished(directory: Path, k: int, when: str) -> None:
    killed = run(prepared(directory), k, when)
    assert killed.returncode == -9, killed.stderr
    if (directory / "out").exists():
        assert is_whole(directory)
        assert len(read_ledger(directory / "ledger.json").entries) == 1
        return
    pending = directory / ".out.unfinished" / "draw.json"
    drawn = json.loads(pending.read_text())["name"] if pending.exists() else None
    finished = run(directory, 0, "before")
    assert finished.returncode == 0, finished.stderr
    assert is_whole(directory)
    entries = read_ledger(directory / "ledger.json").entries
    assert len(entries) == 1
    if drawn is not None:
        assert entries[0].draw == drawn


@pytest.mark.slow
def test_a_kill_at_any_durable_write_leaves_no_release_or_one_whole_release(tmp_path: Path) -> None:
    alive = run(prepared(tmp_path / "alive"), 0, "before")
    assert alive.returncode == 0, alive.stderr
    writes = int(alive.stdout)
    assert writes >= 10
    moments = [(k, when) for k in range(1, writes + 1) for when in ("before", "after")]
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(killed_then_finished, tmp_path / f"{k}-{when}", k, when) for k, when in moments]
        for job in jobs:
            job.result()


def test_an_unfinished_settlement_of_other_reports_is_not_finished_with_these(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "study")
    plan = Plan.load(directory / "plan.json")
    # The draw's own file is the first durable thing: three calls (file, rename, directory).
    run(directory, 4, "before")
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

"""Exactly once: a kill at any durable write leaves no release or one whole release, never a second draw."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from support.studies import UNIT_BALL, people, planned, saved_study

from truthful.errors import InputError, Refused
from truthful.files import exclusive
from truthful.plan import Plan
from truthful.release import Release, read_receipt, verify
from truthful.settlement import settle
from truthful.settlement.atomic_release import open_account, read_ledger
from truthful.settlement.draw import Draw
from truthful.study import Study

DRIVER = Path(__file__).parent / "support" / "killed_settlement.py"
FIVE_DIMENSIONAL = UNIT_BALL.replace(
    "[design]", "".join(f'[[features]]\nname = "x{j}"\n' for j in (3, 4, 5)) + "[design]"
)
FILES = {
    "release.json",
    "report.html",
    "payments.parquet",
    "payments.csv",
    "receipts.parquet",
    "settlement.json",
}


def prepared(directory: Path) -> Path:
    """A directory with a plan and its reports."""
    directory.mkdir()
    study = saved_study(directory)
    planned(study, 60).save(directory / "plan.json")
    pyarrow.parquet.write_table(people(study, 60).reports, directory / "reports.parquet")
    return directory


def unfinished(directory: Path, draw: Draw) -> None:
    """What a settlement into `out` leaves when it is killed just after drawing."""
    (directory / ".out.unfinished").mkdir()
    draw.save(directory / ".out.unfinished")


class Interrupted(Exception):
    """Stands for Ctrl-C in the second pass."""


def interrupt(stage: str, done: int, rows: int | None) -> None:
    if stage == "payments":
        raise Interrupted


def lives(*directories: Path) -> str:
    """Let the driver settle in each directory, dying when its name says; what it complained of."""
    command = [sys.executable, str(DRIVER), *map(str, directories)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def is_whole(directory: Path) -> bool:
    """Every file is there (the draw may still be), and a payment can be verified."""
    names = {path.name for path in (directory / "out").iterdir()}
    receipt = read_receipt(directory / "out" / "receipts.parquet", "p-07")
    release = Release.load(directory / "out" / "release.json")
    report = (directory / "out" / "report.html").read_text(encoding="utf-8")
    readable = release.sha256 in report and report.endswith("</html>\n")
    return names - {"draw.json"} == FILES and readable and verify(release, receipt).verified


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
    prepared(tmp_path / "prepared")
    alive = shutil.copytree(tmp_path / "prepared", tmp_path / "0-before")
    assert lives(alive) == ""
    writes = int((alive / "writes").read_text())
    assert writes >= 10
    directories = [
        shutil.copytree(tmp_path / "prepared", tmp_path / f"{k}-{when}")
        for k in range(1, writes + 1)
        for when in ("before", "after")
    ]
    assert lives(*directories) == ""
    for directory in directories:
        check_once(directory)
    sights = {(directory / "first").read_text().split()[1] for directory in directories}
    assert sights == {"seen", "unseen"}


def test_an_unfinished_settlement_of_other_reports_is_not_finished_with_these(tmp_path: Path) -> None:
    directory = prepared(tmp_path / "study")
    plan = Plan.load(directory / "plan.json")
    unfinished(directory, Draw("d", plan.sha256, seed=None, statistics="others'", answers=((1,),)))
    with pytest.raises(Refused, match="other reports"):
        settle(plan, people(plan.study, 60).reports, out=directory / "out")


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


def test_a_draw_left_unfinished_is_not_released_beside_another(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    with pytest.raises(Interrupted):
        settle(plan, table, out=tmp_path / "first", progress=interrupt)
    settle(plan, table, out=tmp_path / "second")
    with pytest.raises(Refused, match="already released"):
        settle(plan, table, out=tmp_path / "first")
    assert len(read_ledger(tmp_path / "ledger.json").entries) == 1


def test_an_interrupted_settlement_is_finished_with_the_same_draw(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    with pytest.raises(Interrupted):
        settle(plan, table, out=tmp_path / "out", progress=interrupt)
    drawn = json.loads((tmp_path / ".out.unfinished" / "draw.json").read_text())
    settlement = settle(plan, table, out=tmp_path / "out")
    assert settlement.summary["draw"] == drawn["name"]
    assert not (tmp_path / ".out.unfinished").exists()


def test_a_rehearsal_is_finished_only_with_its_own_seed(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    with pytest.raises(Interrupted):
        settle(plan, table, out=tmp_path / "out", seed=1, progress=interrupt)
    finished = settle(plan, table, out=tmp_path / "out", seed=2).release
    assert finished.theta == settle(plan, table, seed=2).release.theta


def test_a_study_has_one_ledger_whatever_way_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    saved_study(tmp_path)
    (tmp_path / "elsewhere" / "linked.toml").symlink_to(tmp_path / "study.toml")
    monkeypatch.chdir(tmp_path)
    plan, table = planned(Study.load("study.toml")), people(Study.load("study.toml")).reports
    settle(plan, table)
    monkeypatch.chdir(tmp_path / "elsewhere")
    for again in (plan, planned(Study.load("linked.toml"))):
        with pytest.raises(Refused, match="already released"):
            settle(again, table)
    assert not (tmp_path / "elsewhere" / "ledger.json").exists()


@pytest.mark.parametrize("name", ["ledger.json", "taken", "dangling", "missing/out"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_drawn(
    tmp_path: Path, name: str
) -> None:
    study = saved_study(tmp_path)
    (tmp_path / "taken").write_text("")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises((Refused, InputError)):
        settle(planned(study), people(study).reports, out=tmp_path / name)
    assert not (tmp_path / "ledger.json").exists()
    assert not list(tmp_path.glob(".*.unfinished"))


def test_two_studies_cannot_write_to_one_place_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, other = saved_study(tmp_path / "a"), saved_study(tmp_path / "b")

    def meanwhile(stage: str, done: int, rows: int | None) -> None:
        if stage == "payments":
            with pytest.raises(Refused, match="is being written"):
                settle(planned(other), people(other).reports, out=tmp_path / "out")

    settle(planned(one), people(one).reports, out=tmp_path / "out", progress=meanwhile)
    assert is_whole_names(tmp_path / "out")
    assert not (tmp_path / "b" / "ledger.json").exists()


def is_whole_names(out: Path) -> bool:
    return {path.name for path in out.iterdir()} == FILES


def forbidden(directory: Path, plan: Plan, reports: Any, words: str) -> None:
    """The settlement is refused in these words, and nothing was drawn."""
    with pytest.raises(Refused, match=words):
        settle(plan, reports, out=directory / "out")
    assert not list(directory.glob(".*.unfinished"))
    assert not (directory / "ledger.json").exists()


def test_what_public_numbers_forbid_is_refused_before_the_draw(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    few = people(study, 100).reports
    forbidden(tmp_path, planned(study, 99), few, "its budget covers no more")
    forbidden(tmp_path, planned(study), few.slice(0, 9), "from fewer than 10 nothing can be told")
    forbidden(tmp_path, planned(study), few, "less can be guaranteed than was promised")

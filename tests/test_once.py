"""Exactly once: a kill at any durable write leaves no release or one whole release, never a second draw."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from support.studies import DESIGNED, UNIT_BALL, WITHOUT_FEATURES, people, planned, saved_study

from truthful.auditor import Product
from truthful.auditor.trial_settlements import exact_sums
from truthful.errors import InputError, Refused
from truthful.files import exclusive
from truthful.plan import Plan
from truthful.release import Release, read_receipt, verify
from truthful.settlement import atomic_release, settle
from truthful.settlement.atomic_release import open_account, read_ledger
from truthful.settlement.draw import keyed_chance
from truthful.study import Study

DRIVER = Path(__file__).parent / "support" / "killed_settlement.py"
FIVE_DIMENSIONAL = UNIT_BALL.replace(
    "[design]", "".join(f'[[features]]\nname = "x{j}"\n' for j in (3, 4, 5)) + "[design]"
)
WITHHELD = DESIGNED + '[privacy]\nprotects = "answers"\npublish_matrix = false\n'
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
    study = saved_study(directory, WITHOUT_FEATURES)
    planned(study, 60).save(directory / "plan.json")
    pyarrow.parquet.write_table(people(study, 60).reports, directory / "reports.parquet")
    return directory


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
    """Every file is there, and a payment can be verified."""
    names = {path.name for path in (directory / "out").iterdir()}
    receipt = read_receipt(directory / "out" / "receipts.parquet", "p-07")
    release = Release.load(directory / "out" / "release.json")
    report = (directory / "out" / "report.html").read_text(encoding="utf-8")
    readable = release.sha256 in report and report.endswith("</html>\n")
    return names == FILES and readable and verify(release, receipt).verified


def check_once(directory: Path, statistics: str) -> None:
    """However the first life ended: one whole release, one entry, and never a second draw."""
    status, sight = (directory / "first").read_text().split()
    assert status == "-9"
    if sight == "unseen":
        assert (directory / "second").read_text() == "0"
    assert is_whole(directory)
    entries = read_ledger(directory / "ledger.json").entries
    assert len(entries) == 1
    if key := (directory / "keys").read_bytes().strip(b"\0"):
        plan = Plan.load(directory / "plan.json")
        named = keyed_chance(bytes.fromhex(key.decode()), plan.sha256, statistics).name
        assert entries[0].draw == named
    if sight == "unseen":
        assert not list(directory.glob("draw-*.key"))


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
    plan = Plan.load(alive / "plan.json")
    statistics = exact_sums(Product(), plan, people(plan.study, 60).reports).digest()
    for directory in directories:
        check_once(directory, statistics)
    sights = {(directory / "first").read_text().split()[1] for directory in directories}
    assert sights == {"seen", "unseen"}


def stop_after_the_entry(plan: Plan, table: Any, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill does between the ledger's entry and the rename."""
    with monkeypatch.context() as broken:
        broken.setattr(atomic_release, "publish_directory", lambda *places: interrupt("payments", 0, None))
        with pytest.raises(Interrupted):
            settle(plan, table, out=out)
    assert not out.exists()


def test_a_draw_that_was_entered_is_finished_with_its_own_reports_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = saved_study(tmp_path)
    plan, table, others = planned(study), people(study).reports, people(study, seed=8).reports
    stop_after_the_entry(plan, table, tmp_path / "out", monkeypatch)
    with pytest.raises(Refused, match="already released"):
        settle(plan, others, out=tmp_path / "out")
    settlement = settle(plan, table, out=tmp_path / "elsewhere")
    (entry,) = read_ledger(tmp_path / "ledger.json").entries
    assert settlement.summary["draw"] == entry.draw
    with pytest.raises(Refused, match="already released"):
        settle(plan, table, out=tmp_path / "out")


@pytest.mark.parametrize("taken", ["rehearsal", "before", "other/out"])
def test_only_its_own_release_ends_the_key_of_a_draw_that_was_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """A command with a wrong directory must not take away what the draw is finished with."""
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    settle(plan, table, out=tmp_path / "rehearsal", seed=1)
    settle(plan, table, out=tmp_path / "before")
    (tmp_path / "other" / "out").mkdir(parents=True)
    with monkeypatch.context() as broken:
        broken.setattr(atomic_release, "publish_directory", lambda *places: interrupt("payments", 0, None))
        with pytest.raises(Interrupted):
            settle(plan, table, out=tmp_path / "out", spend_again=True)
    entered = read_ledger(tmp_path / "ledger.json").entries[-1].draw
    with pytest.raises(Refused, match="exists already"):
        settle(plan, table, out=tmp_path / taken)
    assert settle(plan, table, out=tmp_path / "out").summary["draw"] == entered


def test_copies_settle_to_the_same_bytes_and_an_answer_more_is_another_draw(tmp_path: Path) -> None:
    """As a restored backup does: a settlement that was stopped had made the key before the directory was copied."""
    (tmp_path / "one").mkdir()
    study = saved_study(tmp_path / "one", WITHHELD)
    plan, table = planned(study), people(study).reports
    with pytest.raises(Interrupted):
        settle(plan, table, out=tmp_path / "one" / "out", progress=interrupt)
    plan.save(tmp_path / "one" / "plan.json")
    for name in ("two", "changed"):
        shutil.copytree(tmp_path / "one", tmp_path / name)
    spend = table["spend"].to_pylist()
    other = table.set_column(table.column_names.index("spend"), "spend", [[200 - spend[0], *spend[1:]]])
    reports = {"one": table, "two": table, "changed": other}
    for name, said in reports.items():
        settle(Plan.load(tmp_path / name / "plan.json"), said, out=tmp_path / name / "out")
    same, again = (
        {file: (tmp_path / name / "out" / file).read_bytes() for file in FILES - {"settlement.json"}}
        for name in ("one", "two")
    )
    assert same == again
    entries = [read_ledger(tmp_path / name / "ledger.json").entries[0] for name in reports]
    assert entries[0].draw == entries[1].draw != entries[2].draw
    vectors = [
        np.array([int(k) for k in Release.load(tmp_path / name / "out" / "release.json").statistics.vector])
        for name in ("one", "changed")
    ]
    exact = [exact_sums(Product(), plan, said).vector for said in (table, other)]
    # Noise of a scale of 2^30 steps and more agrees in no coordinate, but once in 2^30.
    assert np.all(vectors[1] - vectors[0] != exact[1] - exact[0])


def test_a_key_is_its_owners_alone_and_gone_when_the_release_is_there(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table, path = (
        planned(study),
        people(study).reports,
        tmp_path / f"draw-{planned(study).sha256[:16]}.key",
    )
    with pytest.raises(Interrupted):
        settle(plan, table, out=tmp_path / "out", progress=interrupt)
    kept, first = tmp_path / "kept", path.read_bytes()
    kept.hardlink_to(path)
    assert (stat.S_IMODE(path.stat().st_mode), len(first)) == (0o600, 65)
    settle(plan, table, out=tmp_path / "out")
    assert not path.exists()
    assert kept.read_bytes() == bytes(65)  # what a rename would have left whole
    kept.rename(path)  # a kill came between the two
    again = settle(plan, table, out=tmp_path / "again", spend_again=True)
    assert not path.exists()
    assert len({entry.draw for entry in read_ledger(tmp_path / "ledger.json").entries}) == 2
    path.write_bytes(first)  # a kill came before both: the command given again removes it
    with pytest.raises(Refused, match="exists already"):
        settle(plan, table, out=tmp_path / "again")
    assert not path.exists()
    assert again.directory == tmp_path / "again"


@pytest.mark.parametrize("text", ["", "00\n", "0" * 63 + "g\n", "0" * 65])
def test_a_key_that_is_none_stops_everything(tmp_path: Path, text: str) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    (tmp_path / f"draw-{plan.sha256[:16]}.key").write_text(text)
    with pytest.raises(InputError, match="not a key as this program writes them"):
        settle(plan, table, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


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
    assert not (tmp_path / ".out.unfinished").exists()
    (path,) = tmp_path.glob("draw-*.key")
    statistics = exact_sums(Product(), plan, table).digest()
    named = keyed_chance(bytes.fromhex(path.read_text()), plan.sha256, statistics).name
    assert settle(plan, table, out=tmp_path / "out").summary["draw"] == named


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

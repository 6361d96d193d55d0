"""A settlement that is stopped, by Ctrl-C or a full disk: what is left is said, and the same command finishes it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.studies import people, planned, saved_study

from truthful.auditor import Product
from truthful.auditor.trial_settlements import exact_sums
from truthful.files import publish_directory
from truthful.plan import Plan
from truthful.release import read_release
from truthful.settlement import atomic_release, draw, settle
from truthful.settlement.atomic_release import LedgerAccount, read_ledger
from truthful.settlement.draw import key_path, keyed_chance, read_key

DRIVER = Path(__file__).parent / "support" / "stopped_settlement.py"
UNDRAWN = "Nothing was drawn, spent or left behind. Give the same command again."
DRAWN = (
    "Nothing was released. The noise follows from the key in '{}': leave that file where it is, and give the same "
    "command again to finish with the same draw."
)


def full_disk(*arguments: Any, **options: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def ctrl_c(*arguments: Any, **options: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its charts take longer than all the rest."""
    monkeypatch.setattr(atomic_release, "report_or_notice", lambda *arguments: "")


@pytest.mark.parametrize("stop", [full_disk, ctrl_c])
@pytest.mark.parametrize(
    ("owner", "name", "drawn"),
    [
        (draw, "write_atomically", False),
        (atomic_release, "report_or_notice", True),
        (LedgerAccount, "enter", True),
        (atomic_release, "publish_directory", True),
    ],
)
def test_at_any_stage_only_a_key_is_left_and_the_same_call_finishes_it(
    owner: Any, name: str, drawn: bool, stop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    key = key_path(tmp_path, plan.sha256)
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, stop)
        with pytest.raises((OSError, KeyboardInterrupt)) as stopped:
            settle(plan, table, out=tmp_path / "out")
    assert stopped.value.__notes__ == [DRAWN.format(key) if drawn else UNDRAWN]
    assert not (tmp_path / "out").exists()
    assert key.exists() == drawn
    assert not (tmp_path / ".out.unfinished").exists()
    named = (
        keyed_chance(read_key(key) or b"", plan.sha256, exact_sums(Product(), plan, table).digest())
        if drawn
        else None
    )
    settlement = settle(plan, table, out=tmp_path / "out")
    assert named is None or settlement.summary["draw"] == named.name
    assert not key.exists()
    assert len(read_ledger(tmp_path / "ledger.json").entries) == 1


def test_what_stops_it_after_the_release_was_shown_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = saved_study(tmp_path)

    def late(built: Path, final: Path) -> None:
        publish_directory(built, final)
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic_release, "publish_directory", late)
    with pytest.raises(KeyboardInterrupt) as stopped:
        settle(planned(study), people(study).reports, out=tmp_path / "out")
    (note,) = stopped.value.__notes__
    assert note == f"The release was finished before that: everything is in {str(tmp_path / 'out')!r}."


def test_a_command_that_is_stopped_says_what_is_left_and_given_again_finishes(here: Path) -> None:
    """Files that may not grow stand for a disk without room; signals are real."""
    cases = ["disk-50", "interrupt-statistics", "disk-1000", "interrupt-payments", "disk-40000", "none"]
    ran = subprocess.run(
        [sys.executable, str(DRIVER), *cases], capture_output=True, text=True, check=True, cwd=here
    )
    said = {case: (here / f"{case}.err").read_text() for case in cases}
    assert ran.stdout.split() == ["2", "130", "2", "130", "2", "0"], said
    left = DRAWN.format(key_path(here, Plan.load(here / "plan.json").sha256))
    assert said["disk-50"] == f"Error: File too large. {UNDRAWN}\n"
    assert said["interrupt-statistics"] == f"Interrupted: {UNDRAWN}\n"
    assert said["disk-1000"] == f"Error: File too large. {left}\n"
    assert said["interrupt-payments"] == f"Interrupted: {left}\n"
    assert said["disk-40000"].startswith("Error: ")
    assert said["disk-40000"].endswith(f"{left}\n")
    assert read_release(here / "out" / "release.json").players == 500
    (entry,) = read_ledger(here / "ledger.json").entries
    assert entry.draw == json.loads((here / "out" / "settlement.json").read_text())["draw"]
    assert not list(here.glob(".out*"))

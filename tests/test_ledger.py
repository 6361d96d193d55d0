import json
from dataclasses import replace
from pathlib import Path

import pytest

from truthful.errors import InputError
from truthful.settlement.atomic_release import Entry, Ledger, read_ledger


def entry(draw: str = "d1", study: str = "Gambling", sha: str = "s1", rehearsal: bool = False) -> Entry:
    return Entry(draw, study, sha, "p1", 0.5, rehearsal, "out", "2026-01-01T00:00:00+00:00")


def test_a_missing_ledger_is_an_empty_one(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "ledger.json") == Ledger()


def test_a_ledger_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    ledger = Ledger().with_entry(entry()).with_entry(entry("d2", rehearsal=True))
    ledger.save(tmp_path / "ledger.json")
    assert read_ledger(tmp_path / "ledger.json") == ledger


def test_every_real_release_of_a_study_adds_its_epsilon_and_rehearsals_add_none() -> None:
    ledger = Ledger().with_entry(entry()).with_entry(entry("d2")).with_entry(entry("d3", rehearsal=True))
    assert ledger.spent_epsilon("Gambling", "s1") == 1.0


def test_editing_or_renaming_a_study_does_not_refill_its_budget() -> None:
    ledger = Ledger().with_entry(entry())
    assert ledger.spent_epsilon("Gambling", "edited") == 0.5
    assert ledger.spent_epsilon("Renamed", "s1") == 0.5
    assert ledger.spent_epsilon("Another", "s2") == 0.0


def test_a_draw_is_known_by_its_name() -> None:
    assert Ledger().with_entry(entry("d1")).holds("d1")
    assert not Ledger().with_entry(entry("d1")).holds("d2")


def test_what_is_protected_is_kept_and_was_records_before_there_was_a_choice(tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    Ledger().with_entry(replace(entry(), protects="answers")).save(path)
    assert read_ledger(path).entries[0].protects == "answers"
    record = json.loads(path.read_text())
    del record["releases"][0]["protects"]
    path.write_text(json.dumps(record))
    assert read_ledger(path).entries[0].protects == "records"


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": "truthful/ledger/1"}', '{"format": "other", "releases": []}']
)
def test_a_ledger_that_cannot_be_read_is_an_error_and_never_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(InputError, match=r"ledger\.json"):
        read_ledger(tmp_path / "ledger.json")

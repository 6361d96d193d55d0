"""The demonstration: the same with a seed, real without, and worth looking at."""

import inspect
from pathlib import Path

import pyarrow.parquet
import pytest

from truthful import demo
from truthful.demo import Demonstration, demonstrate, free_directory
from truthful.errors import InputError, Refused
from truthful.plan import Plan
from truthful.release import Receipt, Release, verify
from truthful.settlement.atomic_release import read_ledger
from truthful.study import Study

WRITTEN = {
    "study.toml",
    "plan.json",
    "roster.parquet",
    "reports.parquet",
    "receipt.json",
    "ledger.json",
    ".ledger.lock",
    "settlement",
}
SETTLED = {
    "release.json",
    "report.html",
    "payments.parquet",
    "payments.csv",
    "receipts.parquet",
    "settlement.json",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    return demonstrate(tmp_path_factory.mktemp("demo") / "here", seed=7, tell=lambda message: None)


def test_every_file_is_written_and_can_be_read_back(shown: Demonstration) -> None:
    there = shown.directory
    assert {path.name for path in there.iterdir()} == WRITTEN
    assert {path.name for path in (there / "settlement").iterdir()} == SETTLED
    assert Study.load(there / "study.toml") == shown.plan.study
    assert Plan.load(there / "plan.json").sha256 == shown.plan.sha256
    assert Release.load(there / "settlement" / "release.json") == shown.settlement.release
    assert pyarrow.parquet.read_metadata(there / "reports.parquet").num_rows == 20_000
    roster = pyarrow.parquet.read_table(there / "roster.parquet")
    assert "undeclared" not in roster.column_names
    assert roster.num_rows == 20_000
    assert verify(shown.settlement.release, Receipt.load(there / "receipt.json")).verified


def test_the_payment_shown_is_verified(shown: Demonstration) -> None:
    assert shown.verdict.verified
    assert shown.verdict.rehearsal


def small(directory: Path, seed: int | None, told: list[str] | None = None) -> Demonstration:
    return demonstrate(directory, players=100, seed=seed, tell=(told if told is not None else []).append)


def test_a_seed_repeats_it_to_the_byte_and_another_draws_other_people(tmp_path: Path) -> None:
    told: list[str] = []
    one = small(tmp_path / "one", 1, told)
    assert [message.split()[0].rstrip(":") for message in told] == [
        "Declared",
        "Invented",
        "Planned",
        "Collected",
        "Settled",
    ]
    small(tmp_path / "again", 1)
    for name in ("plan.json", "receipt.json", "settlement/release.json", "settlement/payments.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    other = small(tmp_path / "other", 2)
    assert one.truth != other.truth
    assert one.settlement.release.theta != other.settlement.release.theta


def test_without_a_seed_it_is_a_real_release_entered_in_the_ledger(tmp_path: Path) -> None:
    real = small(tmp_path / "real", None)
    assert not real.settlement.release.rehearsal
    assert not read_ledger(tmp_path / "real" / "ledger.json").entries[0].rehearsal


def test_its_guarantees_mean_something(shown: Demonstration) -> None:
    """Lies and errors are small beside what they are measured against, and the bill is about 5,000."""
    promised, R = shown.plan.guarantees, shown.plan.study.beliefs.radius
    assert promised.truthfulness.lie is not None
    assert promised.truthfulness.lie < R
    assert promised.accuracy.mean_squared_error is not None
    assert promised.accuracy.mean_squared_error < (R / 4) ** 2
    assert promised.participation.share is not None
    assert promised.participation.share > 0.99
    assert promised.budget.cap is not None
    assert 4500 < promised.budget.cap <= 5000
    assert promised.truthfulness.slack is not None
    assert promised.truthfulness.slack < 0.25 * promised.budget.cap / shown.plan.players
    assert promised.truthfulness.undeterred is not None
    assert promised.truthfulness.undeterred < 0.65


def test_the_bill_and_the_error_are_what_was_promised(shown: Demonstration) -> None:
    """Planned from the roster of those who all answer: what was promised is what holds, to the last digit."""
    promised, release = shown.plan.guarantees, shown.settlement.release
    assert isinstance(release, Release)
    assert release.guarantees == release.promised == promised.record()
    assert release.warnings == ()
    assert promised.budget.cap is not None
    assert 0 < shown.settlement.summary["total_paid"] <= promised.budget.cap
    assert shown.settlement.summary["least_payment"] >= 0
    assert set(shown.truth) == {row.name for row in release.coefficients}


def test_nothing_is_written_over_and_nothing_left_where_it_cannot_begin(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="exists already"):
        demonstrate(tmp_path, tell=print)
    with pytest.raises(InputError, match="players is 99; it must be at least 100"):
        demonstrate(tmp_path / "few", players=99, tell=print)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made: Not a directory"):
        demonstrate(tmp_path / "file" / "demo", tell=print)
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_the_next_free_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_directory() == Path("truthful-demo")
    (tmp_path / "truthful-demo").mkdir()
    (tmp_path / "truthful-demo-2").mkdir()
    assert free_directory() == Path("truthful-demo-3")


def test_the_number_of_players_is_the_one_the_command_names() -> None:
    from truthful import cli

    assert inspect.signature(cli.demo).parameters["players"].default == demo.PLAYERS

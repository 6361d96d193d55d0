"""Plans with random halves, settled in memory: to the bit what version 0.1 made of the same bits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.studies import CASES, DESIGNED, people, planned, saved_study

from truthful.errors import InputError, Refused
from truthful.intake.rules import BadReports
from truthful.plan import Plan
from truthful.release import ReceiptOfHalves, ReleaseOfHalves, verify
from truthful.settlement import Settlement, settle
from truthful.settlement.halves import settle_halves
from truthful.study import Study

GOLDEN = json.loads((Path(__file__).parent / "golden" / "halves.json").read_text())
FILES = {
    "release.json",
    "report.html",
    "payments.parquet",
    "payments.csv",
    "receipts.parquet",
    "settlement.json",
}


def plan_of(directory: Path, estimator: str, payments: str = "never-negative", players: int = 400) -> Plan:
    text, parameters = CASES[estimator]
    study = saved_study(directory, text)
    return planned(study, players, estimator, "halves", payments=payments, **parameters)


def reports(plan: Plan, seed: int = 7) -> Any:
    return people(plan.study, 400, seed).reports


@pytest.mark.parametrize("case", sorted(GOLDEN))
def test_a_rehearsal_is_that_of_version_0_1_to_the_bit(tmp_path: Path, case: str) -> None:
    estimator, payments = case.split()
    plan, expected = plan_of(tmp_path, estimator, payments), GOLDEN[case]
    settlement = settle_halves(plan, reports(plan), seed=11)
    release, receipts = settlement.release, settlement.receipts
    assert isinstance(release, ReleaseOfHalves)
    assert list(release.theta) == expected["theta"]
    assert [list(theta) for theta in release.peer_thetas] == expected["peer_thetas"]
    assert list(release.groups) == expected["groups"]
    assert settlement.summary["group_key"] == expected["group_key"]
    assert settlement.summary["total_paid"] == expected["total_paid"]
    assert receipts.column_names == expected["columns"]
    assert settlement.payments.column_names == ["player", "group", "payment"]
    assert receipts.column("group").to_pylist()[:10] == expected["first_groups"]
    assert receipts.column("payment").to_pylist()[:10] == expected["first_payments"]
    paid = np.ascontiguousarray(receipts.column("payment").to_numpy())
    assert hashlib.sha256(paid.tobytes()).hexdigest() == expected["payments_sha256"]


@pytest.mark.parametrize("estimator", sorted(CASES))
def test_what_is_written_can_be_verified(tmp_path: Path, estimator: str) -> None:
    plan = plan_of(tmp_path, estimator)
    settlement = settle_halves(plan, reports(plan), out=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert ReleaseOfHalves.load(tmp_path / "out" / "release.json") == settlement.release
    assert settlement.payments.column_names == ["player", "group", "payment"]
    assert settlement.receipts.column_names[-2:] == ["group", "payment"]
    for player in settlement.payments.column("player").to_pylist()[:10]:
        receipt = settlement.receipt(player)
        assert isinstance(receipt, ReceiptOfHalves)
        assert verify(settlement.release, receipt).verified
    with pytest.raises(Refused, match="already released"):
        settle_halves(plan, reports(plan), out=tmp_path / "again")


def test_a_killed_settlement_is_finished_with_its_own_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(tmp_path, "known-design")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("truthful.settlement.halves.publish_halves", killed)
        with pytest.raises(KeyboardInterrupt):
            settle_halves(plan, reports(plan), out=tmp_path / "out")
    draw = json.loads((tmp_path / ".out.unfinished" / "draw.json").read_text())
    settlement = settle_halves(plan, reports(plan), out=tmp_path / "out")
    assert settlement.summary["draw"] == draw["name"]
    assert settlement.summary["group_key"] == draw["key"]


def test_records_are_checked_and_duplicates_found(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "known-design")
    rows = reports(plan).to_pylist()[:300]
    rows.append(dict(rows[3], spend=1.0))
    rows[7]["price"] = 99.0
    with pytest.raises(BadReports, match="appears again") as problem:
        settle_halves(plan, pa.Table.from_pylist(rows), seed=1)
    assert problem.value.bad_records == 2
    settlement = settle_halves(plan, pa.Table.from_pylist(rows), seed=1, on_bad="drop")
    assert settlement.release.players == 299
    good = [row for i, row in enumerate(rows[:300]) if i != 7]
    clean = settle_halves(plan, pa.Table.from_pylist(good), seed=1)
    assert clean.receipts.equals(settlement.receipts)


def test_what_cannot_be_settled_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "known-design", players=300)
    with pytest.raises(Refused, match="--players 400"):
        settle_halves(plan, reports(plan), out=tmp_path / "out")
    with pytest.raises(Refused, match="half is empty"):
        settle_halves(plan, reports(plan).slice(0, 1), out=tmp_path / "out")
    assert not (tmp_path / "ledger.json").exists()
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="no random halves"):
        settle_halves(
            planned(plan.study, 400),
            reports(plan),
            seed=1,
        )


def test_a_changed_receipt_is_not_verified(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "known-design")
    settlement = settle(plan, reports(plan))
    receipt = settlement.receipt("p-001")
    assert isinstance(receipt, ReceiptOfHalves)
    assert verify(settlement.release, receipt).verified
    for change in (
        {"payment": receipt.payment + 0.01},
        {"report": 200.0 - receipt.report},
        {"group": 1 - receipt.group},
    ):
        assert not verify(settlement.release, receipt.model_copy(update=change)).verified


@pytest.mark.parametrize("estimator", CASES)
def test_the_release_holds_nothing_of_the_data_but_the_private_estimates(
    tmp_path: Path, estimator: str
) -> None:
    """Two data sets, the same draw of lattice noise: only the estimates and what follows from them differ."""
    plan = plan_of(tmp_path, estimator)
    one, other = (settle(plan, reports(plan, seed), seed=5).release.model_dump() for seed in (1, 2))
    differing = {key for key in one if one[key] != other[key]}
    spread = {"peer_spreads"} if estimator == "noisy-statistics" else set()
    assert differing == {"theta", "peer_thetas", "coefficients"} | spread


@settings(max_examples=15)
@given(data=st.data())
def test_whatever_people_report_no_payment_is_negative_and_the_total_is_under_its_cap(data: Any) -> None:
    study, n = Study.parse(DESIGNED), 40
    rule = data.draw(st.sampled_from(["quadratic", "brier"]))
    columns = {
        "price": st.sampled_from([1.0, 5.0]) | st.floats(1, 5),
        "region": st.sampled_from(["north", "south", "east"]),
        "spend": st.sampled_from([0.0, 1.0, 99.5, 200.0]) | st.floats(0, 200),
    }
    drawn = {name: data.draw(st.lists(each, min_size=n, max_size=n)) for name, each in columns.items()}
    plan = planned(study, n, peers="halves", rule=rule)
    table = pa.table({"player": [str(i) for i in range(n)], **drawn})
    settlement = settle(plan, table, seed=data.draw(st.integers(0, 10**6)))
    paid = settlement.payments.column("payment").to_numpy()
    assert paid.min() >= 0
    assert paid.sum() <= (plan.guarantees.budget.cap or 0.0)
    for player in ("0", str(n - 1)):
        assert verify(settlement.release, settlement.receipt(player)).verified


def test_a_release_says_so_if_bad_records_were_to_be_left_out(tmp_path: Path) -> None:
    """Whether or not there were any: that, too, would be a function of the data."""
    plan = plan_of(tmp_path, "known-design")
    kept, dropped = (
        settle(plan, reports(plan), seed=1, on_bad=on_bad).release.guarantees["privacy"]
        for on_bad in ("error", "drop")
    )
    assert kept["assumptions"] == []
    assert "the count is public" in dropped["assumptions"][0]


def test_halves_are_settled_in_memory_by_threads(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "known-design")
    with pytest.raises(InputError, match="random halves is settled in memory"):
        settle(plan, reports(plan), out=tmp_path / "out", engine="dask")
    assert not list(tmp_path.glob("*out*"))
    stages: list[str] = []
    settled = settle(plan, reports(plan), seed=1, progress=lambda stage, done, rows: stages.append(stage))
    assert isinstance(settled, Settlement)
    assert list(dict.fromkeys(stages)) == ["statistics", "payments"]

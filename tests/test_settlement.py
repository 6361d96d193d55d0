"""Settling: what is written, what is refused, and that a payment can be checked."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.studies import DESIGNED, OBSERVED, RELEASES, people, planned, saved_study

from truthful.beliefs import MANY_PLAYERS
from truthful.errors import InputError, Refused
from truthful.geometry import GeometryTally
from truthful.plan import Plan, design
from truthful.release import Release, verify
from truthful.settlement import checks, settle
from truthful.settlement.atomic_release import read_ledger
from truthful.study import Study

FILES = {
    "release.json",
    "report.html",
    "payments.parquet",
    "payments.csv",
    "receipts.parquet",
    "settlement.json",
}


def no_trace(directory: Path) -> set[str]:
    """What a refused settlement may leave: the files that were there, and the ledger's lock."""
    return {path.name for path in directory.iterdir()} - {"study.toml", ".ledger.lock"}


@pytest.mark.parametrize("estimator", RELEASES)
@pytest.mark.parametrize("rule", ["quadratic", "brier"])
def test_every_payment_of_every_estimator_can_be_recomputed(
    tmp_path: Path, estimator: str, rule: str
) -> None:
    study = saved_study(tmp_path, RELEASES[estimator])
    plan = planned(study, 400, rule=rule)
    assert plan.mechanism.estimator == estimator
    settlement = settle(plan, people(study, 400).reports, out=tmp_path / "out")
    cap = plan.guarantees.budget.cap
    paid = settlement.payments.column("payment").to_numpy()
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert settlement.payments.num_rows == 400
    assert paid.min() >= 0
    assert cap is not None
    assert paid.sum() <= cap
    for player in settlement.payments.column("player").to_pylist()[:40]:
        assert verify(settlement.release, settlement.receipt(player)).verified


def test_payments_alone_are_the_same_payments(tmp_path: Path) -> None:
    study = saved_study(tmp_path, DESIGNED)
    plan, reports = planned(study, 400), people(study, 400).reports
    whole, short = (
        settle(plan, reports, out=tmp_path / books, seed=3, books=books) for books in ("all", "payments")
    )
    names = {path.name for path in (tmp_path / "payments").iterdir()}
    assert names == FILES - {"payments.csv", "receipts.parquet"}
    assert short.payments.equals(whole.payments)
    with pytest.raises(InputError, match=r"no receipts\.parquet"):
        short.receipt("p-7")
    with pytest.raises(InputError, match="books is 'none'"):
        settle(plan, reports, seed=3, books="none")


@pytest.mark.parametrize("kind", ["parquet", "csv", "table"])
def test_the_number_of_threads_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    study = saved_study(tmp_path, DESIGNED)
    plan, table = planned(study, 3000), people(study, 3000).reports
    source: Any = {"parquet": tmp_path / "r.parquet", "csv": tmp_path / "r.csv", "table": table}[kind]
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet", row_group_size=170)
    pa.csv.write_csv(table, tmp_path / "r.csv")
    written = []
    monkeypatch.setattr("truthful.intake.stream.PIECE_ROWS", 500)
    for threads in (1, 2, 5):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, threads=threads: range(threads))
        out = tmp_path / f"out{threads}"
        settle(plan, source, out=out, seed=5)
        written.append({name: (out / name).read_bytes() for name in FILES - {"settlement.json"}})
    assert written[0] == written[1] == written[2]


def test_the_size_of_pieces_changes_no_payment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = saved_study(tmp_path, DESIGNED)
    plan, table = planned(study, 3000), people(study, 3000).reports
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet", row_group_size=170)
    settled = []
    for rows in (1, 500, 10**6):
        monkeypatch.setattr("truthful.intake.stream.PIECE_ROWS", rows)
        settled.append(settle(plan, tmp_path / "r.parquet", seed=5))
    assert settled[0].release == settled[1].release == settled[2].release
    assert settled[0].receipts.equals(settled[1].receipts)
    assert settled[1].receipts.equals(settled[2].receipts)


@settings(max_examples=25)
@given(data=st.data())
def test_whatever_people_report_no_payment_is_negative_and_the_total_is_under_its_cap(data: Any) -> None:
    """Two people at each corner, so that coefficients can be told apart and nobody is alone; 48 anywhere."""
    protects = data.draw(st.sampled_from(["answers", "records"]))
    plan = _for_anybody(protects, rule=data.draw(st.sampled_from(["quadratic", "brier"])))
    n, rest = 60, 48
    spend = data.draw(
        st.lists(st.sampled_from([0.0, 1.0, 99.5, 200.0]) | st.floats(0, 200), min_size=n, max_size=n)
    )
    price = data.draw(st.lists(st.sampled_from([1.0, 5.0]) | st.floats(1, 5), min_size=rest, max_size=rest))
    region = data.draw(st.lists(st.sampled_from(["north", "south", "east"]), min_size=rest, max_size=rest))
    reports = {
        "player": [str(i) for i in range(n)],
        "price": [*CORNERS["price"][:12], *price],
        "region": [*CORNERS["region"][:12], *region],
        "spend": spend,
    }
    seed = data.draw(st.integers(0, 10**6))
    settlement = settle(plan, pa.table(reports), seed=seed, accept_less=True)
    paid = settlement.payments.column("payment").to_numpy()
    cap = plan.guarantees.budget.cap
    assert paid.min() >= 0
    assert cap is not None
    assert paid.sum() <= cap
    for player in ("0", str(n - 1)):
        verdict = verify(settlement.release, settlement.receipt(player))
        assert verdict.verified, verdict


#: The longest features that there are, which are paid the most.
CORNERS: dict[str, list[Any]] = {"price": [1.0, 5.0] * 30, "region": ["north", "south", "east"] * 20}


@cache
def _for_anybody(protects: str, rule: str) -> Plan:
    public = "features_public = true\n" if protects == "answers" else ""
    declared = (
        DESIGNED if protects == "answers" else OBSERVED
    )  # with a declared design, corners contradict it
    study = Study.parse(f'{declared}[privacy]\nprotects = "{protects}"\n{public}')
    roster = {"roster": pa.table(CORNERS)} if protects == "answers" else {}
    chosen = {"epsilon": 2.0, "score_weight": 0.5, "absent_share": 0.002, "rule": rule, **roster}
    return design(study, players=60, **chosen)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", RELEASES)
def test_payments_read_from_a_table_are_verified_by_direct_integration(estimator: str) -> None:
    study, n = Study.parse(RELEASES[estimator]), MANY_PLAYERS + 20_000
    reports = people(study, n).reports
    roster = reports if estimator == "instruments" else None
    plan = design(study, players=n, roster=roster, epsilon=0.2, score_weight=0.5, absent_share=0.002)
    assert plan.mechanism.estimator == estimator
    settlement = settle(plan, reports, seed=4)
    for player in np.random.default_rng(0).choice(settlement.payments.column("player").to_pylist(), 100):
        assert verify(settlement.release, settlement.receipt(player)).verified


def test_a_changed_receipt_is_not_verified(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    settlement = settle(planned(study), people(study).reports)
    receipt = settlement.receipt("p-001")
    cheated = receipt.model_copy(update={"payment": receipt.payment + 0.01})
    lied = receipt.model_copy(update={"report": 200.0 - receipt.report})
    moved = receipt.model_copy(update={"features": {**receipt.features, "price": 4.9, "region": "east"}})
    assert verify(settlement.release, receipt).verified
    assert not any(verify(settlement.release, changed).verified for changed in (cheated, lied, moved))


def test_a_release_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    settlement = settle(planned(study), people(study).reports, out=tmp_path / "out")
    assert Release.load(tmp_path / "out" / "release.json") == settlement.release


def test_csv_parquet_and_tables_give_the_same_rehearsal(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    pyarrow.parquet.write_table(table, tmp_path / "reports.parquet", row_group_size=77)
    pa.csv.write_csv(table, tmp_path / "reports.csv")
    batches = iter(table.to_batches(max_chunksize=33))
    sources: list[Any] = [
        table,
        tmp_path / "reports.parquet",
        tmp_path / "reports.csv",
        table.to_pandas(),
        batches,
    ]
    releases = {settle(plan, source, seed=3).release.sha256 for source in sources}
    assert len(releases) == 1


def test_a_seed_makes_a_rehearsal_everywhere_it_appears(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    settlement = settle(planned(study), people(study).reports, out=tmp_path / "out", seed=1)
    written = json.loads((tmp_path / "out" / "release.json").read_text())
    assert written["rehearsal"] is True
    assert read_ledger(tmp_path / "ledger.json").entries[0].rehearsal
    assert verify(settlement.release, settlement.receipt("p-001")).rehearsal


def test_two_settlements_without_a_seed_differ(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    first, second = settle(plan, table), settle(plan, table, spend_again=True)
    assert first.release.theta != second.release.theta
    assert not first.release.rehearsal


@pytest.mark.parametrize(
    ("text", "statistics"),
    [
        (DESIGNED, {"vector"}),
        (f'{DESIGNED}[privacy]\nprotects = "answers"\npublish_matrix = false\n', {"vector"}),
        (RELEASES["known-design"], {"vector"}),
        (RELEASES["noisy-statistics"], {"matrix", "vector"}),
    ],
    ids=["instruments", "sums kept back", "known-design", "noisy-statistics"],
)
def test_the_release_holds_nothing_of_what_is_protected_but_the_noisy_sums(
    tmp_path: Path, text: str, statistics: set[str]
) -> None:
    """Two data sets, the same draw of noise: only noisy sums and what follows from them differ.

    Where answers are protected, people have the same features in both; where records are, other ones.
    """
    study = saved_study(tmp_path, text)
    plan, one = planned(study), people(study, seed=1).reports
    other = people(study, seed=2).reports
    if plan.mechanism.estimator == "instruments":
        place = one.column_names.index("spend")
        other = one.set_column(place, "spend", other.column("spend"))
    first, second = (settle(plan, table, seed=5).release.model_dump() for table in (one, other))
    differing = {key for key in first if first[key] != second[key]}
    follows = {"inverse"} if "matrix" in statistics else set()
    assert differing == {"statistics", "theta", "coefficients", "differences"} | follows
    assert {key for key in first["statistics"] if first["statistics"][key] != second["statistics"][key]} == (
        statistics
    )


def test_a_release_says_so_if_bad_records_were_to_be_left_out(tmp_path: Path) -> None:
    """Whether or not there were any: that, too, would be a function of the data."""
    study = saved_study(tmp_path, RELEASES["known-design"])
    kept, dropped = (
        settle(planned(study), people(study).reports, seed=1, on_bad=on_bad).release.guarantees["privacy"]
        for on_bad in ("error", "drop")
    )
    assert kept["assumptions"] == []
    assert "the count is public" in dropped["assumptions"][0]


def test_the_total_of_large_payments_is_exact(tmp_path: Path) -> None:
    """20,000 payments of 10⁹ are 2·10¹⁹ millionths, more than a 64-bit integer holds."""
    study = saved_study(tmp_path, RELEASES["known-design"])
    plan = planned(study, 20_000, base_payment=1e9, score_weight=0.0)
    assert settle(plan, people(study, 20_000).reports, seed=1).summary["total_paid"] == 2e13


def test_a_second_release_is_refused_unless_it_is_asked_for_and_then_adds_up(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    settle(plan, table, out=tmp_path / "first")
    with pytest.raises(Refused, match="already released its data, at epsilon 2"):
        settle(plan, table, out=tmp_path / "second")
    assert not (tmp_path / "second").exists()
    settle(plan, table, out=tmp_path / "second", spend_again=True)
    assert read_ledger(tmp_path / "ledger.json").spent_epsilon(study.name, study.sha256) == 4.0


def test_a_release_is_never_overwritten(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan, table = planned(study), people(study).reports
    settle(plan, table, out=tmp_path / "out")
    before = (tmp_path / "out" / "release.json").read_bytes()
    with pytest.raises(Refused, match="exists already"):
        settle(plan, table, out=tmp_path / "out", spend_again=True)
    assert (tmp_path / "out" / "release.json").read_bytes() == before


def test_bad_records_leave_nothing_behind_and_spend_nothing(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    table = people(study).reports
    prices = table.column("price").to_pylist()
    prices[3] = 99.0
    bad = table.set_column(1, "price", pa.array(prices))
    with pytest.raises(InputError, match="outside its declared range"):
        settle(planned(study), bad, out=tmp_path / "out")
    assert no_trace(tmp_path) == set()
    assert settle(planned(study), bad, on_bad="clip", seed=1).summary["records"]["clipped"] == 1
    records = saved_study(tmp_path, RELEASES["known-design"])
    assert settle(planned(records, 499), bad, on_bad="drop", seed=1).release.players == 499


def test_a_player_with_two_records_is_found_and_dropped_only_if_asked(tmp_path: Path) -> None:
    study = saved_study(tmp_path, RELEASES["known-design"])
    table = people(study).reports
    twice = pa.concat_tables([table, table.slice(5, 1)])
    with pytest.raises(InputError, match="p-006"):
        settle(planned(study), twice, out=tmp_path / "out")
    assert no_trace(tmp_path) == set()
    dropped = settle(planned(study), twice, on_bad="drop", seed=1)
    assert dropped.release.players == 500
    assert dropped.release.theta == settle(planned(study), table, seed=1).release.theta


def test_payments_that_can_be_negative_are_refused_for_real_people(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    plan = planned(study, payments="expected")
    with pytest.raises(Refused, match="owing money"):
        settle(plan, people(study).reports)
    assert settle(plan, people(study).reports, seed=1).release.payment.payments == "expected"


def test_a_study_without_a_file_can_only_be_rehearsed() -> None:
    study = Study.parse(DESIGNED)
    with pytest.raises(Refused, match="not in a file"):
        settle(planned(study), people(study).reports)


def test_more_players_than_planned_are_refused(tmp_path: Path, roster_plan: tuple[Plan, pa.Table]) -> None:
    study = saved_study(tmp_path)
    with pytest.raises(Refused, match=r"plan is for 499 players .* Plan again with --players 500\."):
        settle(planned(study, 499), people(study, 500).reports, out=tmp_path / "out")
    assert no_trace(tmp_path) == set()
    with pytest.raises(
        Refused, match=r"plan is for 400 players .* Plan again with a roster of all of them\."
    ):
        settle(roster_plan[0], people(study, 401).reports, seed=1)


@pytest.mark.parametrize("players", [60, 1_000, 9_000, 20_000])
def test_what_is_promised_to_people_yet_to_be_drawn_from_the_design_is_kept(players: int) -> None:
    """However many they are. Each draw keeps it with 99 % probability or more; the seed is fixed."""
    study = Study.parse(DESIGNED)
    release = settle(planned(study, players), people(study, players).reports, seed=1).release
    assert isinstance(release, Release)
    for group, name in (("accuracy", "rmse"), ("accuracy", "prediction_rmse"), ("budget", "cap")):
        assert release.guarantees[group][name] <= release.promised[group][name]
    assert release.guarantees["accuracy"]["rmse"] > 0.6 * release.promised["accuracy"]["rmse"]


def test_private_files_say_so_and_payments_hold_no_features(tmp_path: Path) -> None:
    study = saved_study(tmp_path)
    settle(planned(study), people(study).reports, out=tmp_path / "out")
    assert pyarrow.parquet.read_schema(tmp_path / "out" / "payments.parquet").names == [
        "player",
        "payment",
        "paid",
    ]
    assert (tmp_path / "out" / "payments.csv").read_text().splitlines()[0] == '"player","payment","paid"'
    assert pyarrow.parquet.read_schema(tmp_path / "out" / "receipts.parquet").names == [
        "player",
        "price",
        "region",
        "spend",
        "leverage",
        "noise_scale",
        "peer_prediction",
        "own_prediction",
        "payment",
    ]
    assert "Not for publication" in (tmp_path / "out" / "settlement.json").read_text()
    summary = json.loads((tmp_path / "out" / "settlement.json").read_text())
    paid = pyarrow.parquet.read_table(tmp_path / "out" / "payments.parquet").column("payment").to_numpy()
    assert summary["total_paid"] == pytest.approx(paid.sum(), abs=1e-9)
    assert np.allclose(paid * 1e6, np.rint(paid * 1e6), atol=1e-6)


# Features are checked before anything is drawn


@pytest.fixture(scope="module")
def roster_plan() -> tuple[Plan, pa.Table]:
    """A plan made from the people who then answer."""
    study = Study.parse(DESIGNED)
    table = people(study, 400).reports
    return design(study, roster=table, epsilon=2.0, score_weight=0.5, base_payment=0.3), table


def test_of_very_many_people_sums_are_enough_if_they_keep_the_promise(
    roster_plan: tuple[Plan, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounds from sums alone are wider: they are used where they are enough, and else everybody is looked at."""
    plan, table = roster_plan
    exact, looked = settle(plan, table, seed=1).release, []

    def look(*given: Any) -> GeometryTally:
        looked.append(given)
        return GeometryTally(*given)

    monkeypatch.setattr(checks, "MEASURED", 100)
    monkeypatch.setattr(checks, "GeometryTally", look)
    seen = settle(plan, table, seed=1).release
    assert (seen.theta, seen.statistics) == (exact.theta, exact.statistics)
    assert seen.guarantees["accuracy"]["rmse"] == pytest.approx(
        exact.guarantees["accuracy"]["rmse"], rel=1e-9
    )
    assert seen.guarantees["budget"]["cap"] == pytest.approx(exact.guarantees["budget"]["cap"], rel=1e-9)
    # People who are alike are put together a little differently.
    assert seen.guarantees["truthfulness"]["lie"] == pytest.approx(
        exact.guarantees["truthfulness"]["lie"], rel=0.02
    )
    assert len(looked) == 1
    held = plan.guarantees
    generous = replace(
        held,
        truthfulness=replace(held.truthfulness, lie=100.0),
        accuracy=replace(held.accuracy, rmse=1e3, prediction_rmse=1e3),
        budget=replace(held.budget, cap=1e6),
    )
    coarse = settle(replace(plan, stated=generous), table, seed=1).release
    assert len(looked) == 1
    assert (coarse.theta, coarse.statistics) == (exact.theta, exact.statistics)
    assert coarse.guarantees["accuracy"]["rmse"] > exact.guarantees["accuracy"]["rmse"]
    assert coarse.guarantees["budget"]["cap"] > exact.guarantees["budget"]["cap"]
    # A cap that sums alone do not show to be kept: everybody is looked at before anything is refused.
    tight = replace(generous, budget=replace(held.budget, cap=exact.guarantees["budget"]["cap"]))
    assert settle(replace(plan, stated=tight), table, seed=1).release.guarantees == seen.guarantees
    assert len(looked) == 2


def test_combinations_that_few_people_share_are_told_to_the_analyst_alone(tmp_path: Path) -> None:
    """Two features with levels; one combination of them has two people, and each level many."""
    text = DESIGNED.replace("[design]", '[[features]]\nname = "sex"\nlevels = ["f", "m"]\n[design]')
    table = people(Study.parse(text), 400).reports
    own = text.replace('"uniform"', '"observed"').replace(
        "[beliefs]", '[privacy]\nprotects = "answers"\n[beliefs]'
    )
    study = saved_study(tmp_path, own)
    region, sex = (table.column(name).to_numpy(zero_copy_only=False).copy() for name in ("region", "sex"))
    alone = np.flatnonzero((region == "north") & (sex == "m"))
    sex[alone[2:]] = "f"
    rare = table.set_column(table.column_names.index("sex"), "sex", pa.array(sex))
    plan = design(study, roster=table, epsilon=2.0, score_weight=0.5)
    assert settle(plan, table, seed=1).summary["warnings"] == []
    settlement = settle(plan, rare, out=tmp_path / "out", seed=1, accept_less=True)
    (warning,) = settlement.summary["warnings"]
    assert warning.startswith("Fewer than 3 people share some combination of region and sex")
    assert warning not in (tmp_path / "out" / "release.json").read_text()
    assert warning not in (tmp_path / "out" / "report.html").read_text()


def test_combinations_that_interact_are_published_like_levels_and_few_people_of_one_are_refused(
    tmp_path: Path,
) -> None:
    text = DESIGNED.replace("[design]", '[[features]]\nname = "sex"\nlevels = ["f", "m"]\n[design]')
    table = people(Study.parse(text), 400).reports
    own = text.replace('"uniform"', '"observed"').replace(
        "[beliefs]", '[privacy]\nprotects = "answers"\n[beliefs]'
    )
    study = saved_study(tmp_path, f'interactions = [["sex", "region"]]\n{own}')
    plan = design(study, roster=table, epsilon=2.0, score_weight=0.5)
    region, sex = (table.column(name).to_numpy(zero_copy_only=False).copy() for name in ("region", "sex"))
    sex[np.flatnonzero((region == "north") & (sex == "m"))[9:]] = "f"
    rare = table.set_column(table.column_names.index("sex"), "sex", pa.array(sex))
    with pytest.raises(Refused, match="Only 9 of those who answered have region = 'north' and sex = 'm'"):
        settle(plan, rare, seed=1, accept_less=True)


def test_reports_that_change_between_the_looks_at_them_are_refused(
    roster_plan: tuple[Plan, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, table = roster_plan
    monkeypatch.setattr(
        "truthful.settlement.passes.measure_piece",
        lambda *arguments: iter([(np.arange(1, 400), table.column("player")[:399], np.ones((399, 4)))]),
    )
    with pytest.raises(InputError, match="there were 400 good records and now there are 399"):
        settle(plan, table, seed=1)


def test_people_who_are_all_alike_are_refused_by_their_features(
    roster_plan: tuple[Plan, pa.Table],
) -> None:
    plan, table = roster_plan
    same = table.set_column(table.column_names.index("price"), "price", pa.array([3.0] * 400))
    place = table.column_names.index("spend")
    told = []
    for seed in (1, 2):
        other = same.set_column(place, "spend", people(plan.study, 400, seed).reports.column("spend"))
        with pytest.raises(InputError, match="do not tell all coefficients apart") as refused:
            settle(plan, other, seed=1, accept_less=True)
        told.append(str(refused.value))
    assert told[0] == told[1]  # whatever anybody said

"""`truthful check`: what `settle` would do, by the same checks; nothing is drawn, spent, written or told of answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.commands import Run
from support.studies import DESIGNED, RELEASES, people, planned, saved_study

from truthful.errors import InputError, TruthfulError
from truthful.plan import Plan
from truthful.settlement import preview, settle
from truthful.study import Study


def changed(**columns: Any) -> pa.Table:
    """500 invented people, some of whose columns are these instead."""
    table = people(Study.parse(DESIGNED), 500).reports
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_reports_that_can_be_settled_are_shown_and_nothing_is_left_or_drawn(
    here: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "truthful.lattice.KeyedBits.__init__", lambda *given: pytest.fail("something is drawn")
    )
    before = files(here)
    told = run("check", "plan.json", "reports.csv")
    assert (told.code, told.err) == (0, "")
    assert files(here) == before
    assert "reports.csv: 500 records, 500 people can be used; the plan is for 500." in told.out
    assert "Answers are checked for their range only: nothing about them is shown." in told.out
    assert "nothing is spent yet" in told.out
    assert told.out.endswith("  truthful settle plan.json reports.csv --out settlement\n")


def test_forty_of_500_people_are_too_few_for_what_was_promised_and_both_numbers_are_named(
    here: Path, run: Run
) -> None:
    few = Path("reports.csv").read_text().splitlines()[:41]
    Path("few.csv").write_text("\n".join(few) + "\n")
    told = run("check", "plan.json", "few.csv", "--json")
    seen = json.loads(told.out)
    assert (told.code, seen["settles"], seen["people"], seen["planned"]) == (1, False, 40, 500)
    refused = run("settle", "plan.json", "few.csv", "--out", "o")
    assert refused.code == 1
    assert "The plan is for 500 people, and 40 answered." in refused.err
    assert [f"Refused: {reason}\n" for reason in seen["refusals"]] == [refused.err]
    assert seen["guarantees"]["accuracy"]["rmse"] > seen["promised"]["accuracy"]["rmse"]
    assert run("check", "plan.json", "few.csv", "--accept-less", "--json").code == 0


def test_bad_records_are_counted_and_placed_and_no_answer_is_shown(tmp_path: Path) -> None:
    plan, table = planned(saved_study(tmp_path)), changed().slice(0, 400)
    spend, price, player = (table.column(name).to_pylist() for name in ("spend", "price", "player"))
    spend[3], spend[4], price[5], player[7] = 87654.0, None, 9.0, player[6]
    region = ["nowhere", *table.column("region").to_pylist()[1:]]
    bad = pa.table({"player": player, "price": price, "region": region, "spend": spend})
    seen = preview(plan, bad, accept_less=True)
    assert (seen.records, seen.people) == (400, 395)
    assert seen.bad == {"duplicate": 1, "missing": 1, "out of range": 2, "unknown level": 1}
    assert [(bad.row, bad.column) for bad in seen.first] == [
        (0, "region"), (3, "spend"), (4, "spend"), (5, "price"), (7, "player")
    ]  # as pandas counts  # fmt: skip
    assert seen.reasons == (
        "5 of 400 records are bad. Correct them, or see what --on-bad clip would do, which moves numbers into their "
        "range.",
    )
    assert "87654" not in json.dumps(seen.record())


def test_nothing_shown_depends_on_what_anybody_answered(tmp_path: Path) -> None:
    plan = planned(saved_study(tmp_path))
    low, high = (preview(plan, changed(spend=np.full(500, end))).record() for end in (0.0, 200.0))
    assert low == high


def test_features_are_shown_as_declared_and_as_found(tmp_path: Path) -> None:
    plan = planned(saved_study(tmp_path, DESIGNED))
    region = ["north"] * 5 + ["south"] * 245 + ["east"] * 250
    seen = preview(plan, changed(price=np.tile([2.0, 3.0], 250), region=region), accept_less=True)
    (price,) = seen.numbers
    assert (price.mean, price.spread) == pytest.approx((2.5, 0.5), abs=1e-5)
    assert (price.declared_mean, price.declared_spread) == pytest.approx((3.0, 4 / np.sqrt(12)))
    assert [(one.level, one.people, one.few) for one in seen.levels] == [
        ("north", 5, True), ("south", 245, False), ("east", 250, False)
    ]  # fmt: skip
    assert [one.declared_share for one in seen.levels] == pytest.approx([1 / 3] * 3)
    (tmp_path / "observed").mkdir()
    observed = preview(planned(saved_study(tmp_path / "observed", RELEASES["noisy-statistics"])), changed())
    assert (observed.numbers[0].declared_mean, observed.levels[0].declared_share) == (None, None)


@pytest.mark.parametrize("estimator", RELEASES)
@pytest.mark.parametrize(
    "reports",
    [
        changed(),
        changed().slice(0, 3),
        pa.concat_tables([changed(), changed(player=[f"q-{i}" for i in range(500)])]),
        changed(price=np.full(500, 2.0)),
        changed(region=["north"] * 3 + ["south", "east"] * 248 + ["east"]),
        changed().append_column("age", pa.array(np.ones(500))),
    ],
    ids=["good", "few", "many", "constant", "rare", "columns"],
)
def test_it_refuses_what_settle_refuses_in_the_same_words(
    estimator: str, reports: pa.Table, tmp_path: Path
) -> None:
    plan = planned(saved_study(tmp_path, RELEASES[estimator]))
    seen, refused = preview(plan, reports), list[str]()
    try:
        settle(plan, reports, seed=1)
    except TruthfulError as refusal:
        refused = [refusal.on_command_line]
    assert list(seen.reasons[:1]) == refused


def test_a_study_that_has_released_its_data_is_said_to_be_spent(tmp_path: Path) -> None:
    plan = planned(saved_study(tmp_path))
    settle(plan, changed(), out=tmp_path / "out")
    seen = preview(plan, changed())
    assert seen.spent == plan.mechanism.epsilon
    assert [reason[:43] for reason in seen.reasons] == ["This study has already released its data, a"]


def test_a_file_that_holds_no_reports_is_an_error(tmp_path: Path) -> None:
    plan: Plan = planned(saved_study(tmp_path))
    with pytest.raises(InputError, match=r"there are no reports|no records"):
        preview(plan, changed().slice(0, 0))
    none = preview(plan, changed(price=np.full(500, 99.0)))
    assert (none.people, none.bad, none.found) == (0, {"out of range": 500}, None)

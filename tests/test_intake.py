from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracles_intake as oracle
from support.generators_intake import (
    BAD,
    BALL,
    COLUMNS,
    GAMBLING,
    GOOD,
    RECORDS,
    joined,
    one,
    refused,
    table_of,
    take_in,
)

from truthful.errors import InputError
from truthful.intake import Counts, Intake, report_columns
from truthful.intake.intake import MOST_CELLS, LevelCounts
from truthful.moments import GRID, grid_features, grid_responses
from truthful.study import Study


def test_good_records_come_out_normalised_and_on_the_grid() -> None:
    (batch,), counts = take_in(GOOD)
    X = GAMBLING.normalise({"age": GOOD["age"].to_numpy(), "region": np.array([0, 1, 2, 0, 1])})
    y = GAMBLING.normalise_response(GOOD["weekly_spend"].to_numpy(), X)
    assert np.array_equal(batch.on_grid()[0], grid_features(X))
    assert np.array_equal(batch.on_grid()[1], grid_responses(y, 1.0))
    assert batch.on_grid()[0].shape == (5, 4)
    assert batch.on_grid()[1].tolist()[:3:2] == [-GRID, GRID]
    assert batch.players.to_pylist() == ["007", "p-1", "p-2", "p-3", "p-4"]
    assert batch.records.to_pylist() == [
        {name: row[name] for name in COLUMNS[1:]} for row in GOOD.cast(batch_schema()).to_pylist()
    ]
    assert counts == Counts(records=5, kept=5, clipped=0, bad={}, ignored_columns=())


def batch_schema() -> pa.Schema:
    return pa.schema(
        [
            ("player", pa.string()),
            ("age", pa.float64()),
            ("region", pa.string()),
            ("weekly_spend", pa.float64()),
        ]
    )


def test_the_columns_of_a_file_of_reports_are_player_features_response() -> None:
    assert report_columns(GAMBLING) == ("player", "age", "region", "weekly_spend")


good_records = st.lists(
    st.tuples(
        st.floats(18, 90),
        st.sampled_from(["north", "south", "east"]),
        st.floats(0, 200, allow_subnormal=False),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=30)
@given(records=good_records, size=st.integers(1, 13))
def test_every_source_and_every_size_of_batch_gives_the_same_bits(
    records: list[tuple[float, str, float]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    ages, regions, spends = zip(*records, strict=True)
    players = [f"p-{i}" for i in range(len(records))]
    table = pa.table([players, ages, regions, spends], names=list(COLUMNS))
    directory = tmp_path_factory.mktemp("sources")
    pyarrow.parquet.write_table(table, directory / "r.parquet", row_group_size=size)
    parts = directory / "parts"
    parts.mkdir()
    for i, batch in enumerate(table.to_batches(max_chunksize=size)):
        pyarrow.parquet.write_table(pa.table(batch), parts / f"part-{i:02d}.parquet")
    frame = table.to_pandas()
    frame["region"] = frame["region"].astype("category")
    frame.to_csv(directory / "r.csv", index=False)
    sources = [
        directory / "r.parquet",
        directory / "r.csv",
        parts,
        frame,
        pl.DataFrame(table),
        iter(table.to_batches(max_chunksize=size)),
        (pl.DataFrame(batch) for batch in table.to_batches(max_chunksize=size)),
        [batch.to_pandas() for batch in table.to_batches(max_chunksize=size)],
    ]
    expected = joined(take_in(table)[0])
    for source in sources:
        assert joined(take_in(source)[0]) == expected


@given(records=RECORDS, size=st.integers(1, 15))
def test_faults_are_those_found_one_value_at_a_time(records: list[dict[str, Any]], size: int) -> None:
    records = [{"player": "good", "age": "30", "region": "north", "weekly_spend": "10"}, *records]
    expected = oracle.faults(records)
    pieces = table_of(records).to_batches(max_chunksize=size)
    if expected:
        found = refused(pieces, limit=1000).records
        assert [(bad.row, bad.column, bad.kind) for bad in found] == expected
    else:
        take_in(pieces)
    batches, counts = take_in(pieces, "drop")
    bad_rows = {row for row, _, _ in expected}
    kept = [record for row, record in enumerate(records) if row not in bad_rows]
    players, raw, _, _ = joined(batches)
    assert players == [record["player"] for record in kept]
    assert raw == [
        {
            "age": oracle.number(record["age"]),
            "region": record["region"],
            "weekly_spend": oracle.number(record["weekly_spend"]),
        }
        for record in kept
    ]
    assert (counts.records, counts.kept) == (len(records), len(kept))
    assert sum(counts.bad.values()) == len(expected)


def test_clip_moves_numbers_into_their_range_and_counts_them() -> None:
    rows = one(age=130, weekly_spend=-3)
    (batch,), counts = take_in(rows, "clip")
    assert batch.records.to_pylist()[1] == {"age": 90.0, "region": "south", "weekly_spend": 0.0}
    assert counts == Counts(records=5, kept=5, clipped=2, bad={}, ignored_columns=())
    assert joined([batch]) == joined(take_in(one(age=90, weekly_spend=0))[0])


@pytest.mark.parametrize(
    "changes",
    [{"age": None}, {"weekly_spend": float("inf")}, {"region": "x"}, {"player": ""}, {"player": "007"}],
)
def test_clip_refuses_every_other_fault(changes: dict[str, Any]) -> None:
    assert len(refused(one(**changes), "clip").records) == 1


def test_drop_leaves_out_exactly_the_records_that_error_counts(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(BAD)
    error = refused(tmp_path / "r.csv")
    batches, counts = take_in(tmp_path / "r.csv", "drop")
    assert joined(batches)[0] == ["p-01", "p-15"]
    assert counts.bad == {str(kind): number for kind, number in error.counts.items()}
    assert counts.records - counts.kept == error.bad_records


def test_drop_keeps_the_first_record_of_a_player() -> None:
    table = pa.concat_tables([GOOD, one(player="p-2", age=33), GOOD.slice(0, 1)])
    batches, counts = take_in(table.slice(0, 8), "drop")
    assert joined(batches)[0] == ["007", "p-1", "p-2", "p-3", "p-4"]
    assert joined(batches)[1][2]["age"] == 42
    assert counts.bad == {"duplicate": 3}


def test_drop_refuses_when_nothing_is_left() -> None:
    assert refused(one(age=7).slice(1, 1), "drop").bad_records == 1


def test_extra_columns_are_refused_unless_bad_records_are_dropped_or_clipped() -> None:
    table = GOOD.append_column("email", pa.array(["x"] * 5)).append_column("name", pa.array(["y"] * 5))
    with pytest.raises(InputError) as caught:
        take_in(table)
    assert str(caught.value) == (
        "In the table of reports there are columns the study does not have: 'email', 'name'. "
        "Leave them out, or choose on_bad='clip', which ignores them."
    )
    for on_bad in ("drop", "clip"):
        batches, counts = take_in(table, on_bad)
        assert counts.ignored_columns == ("email", "name")
        assert joined(batches) == joined(take_in(GOOD)[0])


def test_an_unknown_way_to_treat_bad_records_is_refused() -> None:
    with pytest.raises(InputError, match="on_bad is 'ignore'; choose one of error, clip, drop"):
        Intake(GAMBLING, "ignore")


def test_ids_of_bad_records_count_among_everyone_but_not_among_players() -> None:
    table = pa.concat_tables([one(age=7), one(player="").slice(1, 1)]).combine_chunks()
    (batch,), _ = take_in(table, "drop")
    assert batch.everyone.to_pylist() == ["007", "p-1", "p-2", "p-3", "p-4"]
    assert batch.players.to_pylist() == ["007", "p-2", "p-3", "p-4"]


def ball(u: list[Any], v: list[Any]) -> pa.Table:
    return pa.table({"player": [f"p-{i}" for i in range(len(u))], "u": u, "v": v, "y": [1.0] * len(u)})


def test_vectors_in_the_unit_ball_are_taken_as_they_are() -> None:
    (batch,), _ = take_in(ball([0.5, 0.6, 0.0, 1 + 1e-12], [0.25, -0.8, 0.0, 0.0]), study=BALL)
    assert batch.on_grid()[0][0].tolist() == [GRID / 2, GRID / 4]
    assert batch.records["u"].to_pylist() == [0.5, 0.6, 0.0, 1 + 1e-12]


def test_a_vector_out_of_the_unit_ball_is_told_by_its_norm() -> None:
    assert str(refused(ball([0.5, 0.5], [0.25, -1.2]), study=BALL)) == (
        "In the table of reports, row 1 (rows count from 0): The features of player 'p-1' have norm 1.3, above 1. "
        "Correct the record or divide all features by one public number."
    )
    huge = refused(ball([0.5, 1e200, None, float("inf")], [0.25, 1e200, 5.0, 0.0]), study=BALL)
    assert [(bad.row, bad.kind) for bad in huge.records] == [
        (1, "out of the unit ball"),
        (2, "missing"),
        (3, "not a number"),
    ]
    assert "norm 1.414213562e+200" in huge.records[0].sentence


def test_clip_scales_a_vector_onto_the_unit_ball_and_drop_leaves_it_out() -> None:
    table = ball([0.5, 0.5, 3e200], [0.25, -1.2, 4e200])
    (batch,), counts = take_in(table, "clip", BALL)
    assert counts.clipped == 2
    assert batch.records["u"].to_pylist() == pytest.approx([0.5, 0.5 / 1.3, 0.6], rel=1e-15)
    assert np.all((batch.on_grid()[0] ** 2).sum(axis=1) <= GRID**2)
    (batch,), counts = take_in(table, "drop", BALL)
    assert (counts.kept, counts.bad) == (1, {"out of the unit ball": 2})


TOWNS = """
name = "Towns"
currency = "USD"
response = {{ name = "y", low = 0, high = 1 }}
features = [
  {{ name = "age", low = 18, high = 90 }},
  {{ name = "sex", levels = ["f", "m"] }},
  {{ name = "region", levels = ["north", "south", "east"] }},
  {{ name = "town", levels = [{towns}] }},
]
design = {{ kind = "observed" }}
beliefs = {{ signal = 0.5 }}
costs = {{ kind = "pareto", tail = 2.0, scale = 0.05 }}
"""


def towns(number: int) -> Study:
    return Study.parse(TOWNS.format(towns=", ".join(f'"t{k}"' for k in range(number))))


@given(
    people=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 3)), max_size=40),
    cut=st.integers(0, 40),
)
def test_levels_and_pairs_of_levels_are_counted_one_by_one(
    people: list[tuple[int, int, int]], cut: int
) -> None:
    names, study = ("sex", "region", "town"), towns(4)
    found = LevelCounts.zero(study)
    for part in (people[:cut], people[cut:]):
        more = LevelCounts.zero(study)
        more.add({name: np.array([row[k] for row in part], dtype=np.int64) for k, name in enumerate(names)})
        found += more
    sizes = {"sex": 2, "region": 3, "town": 4}
    assert {name: counts.tolist() for name, counts in found.levels.items()} == {
        name: [sum(row[k] == level for row in people) for level in range(sizes[name])]
        for k, name in enumerate(names)
    }
    assert {pair: counts.tolist() for pair, counts in found.pairs.items()} == {
        (names[a], names[b]): [
            [sum((row[a], row[b]) == (one, other) for row in people) for other in range(sizes[names[b]])]
            for one in range(sizes[names[a]])
        ]
        for a, b in ((0, 1), (0, 2), (1, 2))
    }


def test_pairs_of_very_many_levels_are_not_counted() -> None:
    cells = LevelCounts.zero(towns(MOST_CELLS // 3 + 1))
    assert set(cells.levels) == {"sex", "region", "town"}
    assert set(cells.pairs) == {("sex", "region"), ("sex", "town")}


PEAK_OF_A_PASS = """
import sys
sys.path.insert(0, sys.argv[1])
from support.generators_intake import GAMBLING, KEY
from truthful.intake.duplicates import Duplicates
from truthful.intake.duplicates import player_hashes
from truthful.intake import Intake, report_columns
from truthful.intake.stream import open_reports
with open_reports(sys.argv[2], report_columns(GAMBLING)) as reports, Duplicates(in_memory=500_000) as duplicates:
    intake = Intake(GAMBLING)
    for piece in reports.pieces():
        for checked in intake.batches(piece):
            duplicates.add(player_hashes(checked.everyone, KEY))
    assert len(duplicates.repeated()) == 0
    assert intake.finish().kept == reports.rows
# Not getrusage: its peak is inherited from the process that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
def test_ten_times_the_records_need_hardly_more_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    peaks = []
    for rows in (200_000, 2_000_000):
        table = pa.table(
            {
                "player": np.arange(rows),
                "age": rng.uniform(18, 90, rows),
                "region": pa.array(["north", "south", "east"]).take(pa.array(rng.integers(0, 3, rows))),
                "weekly_spend": rng.uniform(0, 200, rows),
            }
        )
        # One row group holds all of it, and every column in full: 60 MB for 2,000,000 rows.
        pyarrow.parquet.write_table(table, tmp_path / "r.parquet", row_group_size=rows, use_dictionary=False)
        del table
        arguments = [str(Path(__file__).parent), str(tmp_path / "r.parquet")]
        run = subprocess.run(
            [sys.executable, "-c", PEAK_OF_A_PASS, *arguments], check=True, capture_output=True, text=True
        )
        peaks.append(int(run.stdout) / 1024)
    assert peaks[1] - peaks[0] < 40

"""Every source of reports gives the same rows, again and again, in memory that does not grow."""

from __future__ import annotations

import gc
import gzip
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.reports_read import COLUMNS, ROWS, TABLE, as_csv, read, rows_of

from truthful.intake.stream import open_reports

IN_MEMORY: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(max_chunksize=2),
    "pandas": lambda: TABLE.to_pandas(),
    "pandas with odd labels": lambda: TABLE.to_pandas().set_index(pd.Index([5.0, 3.0, 1.0, 0.0, 2.0])),
    "pandas categories": lambda: TABLE.to_pandas().astype({"region": "category"}),
    "polars": lambda: pl.DataFrame(TABLE),
    "polars categories": lambda: pl.DataFrame(TABLE).cast({"region": pl.Categorical}),
    "dict of lists": lambda: TABLE.to_pydict(),
    "dict of arrays": lambda: {name: TABLE[name].to_numpy() for name in TABLE.column_names},
    "list of batches": lambda: TABLE.to_batches(max_chunksize=2),
    "list of readers": lambda: [TABLE.slice(0, 2).to_reader(), TABLE.slice(2).to_reader()],
    "generator of batches": lambda: (batch for batch in TABLE.to_batches(max_chunksize=1)),
    "generator of mixed tables": lambda: iter(
        [TABLE.slice(0, 1), TABLE.slice(1, 2).to_pandas(), pl.DataFrame(TABLE.slice(3))]
    ),
    "large strings": lambda: TABLE.cast(
        pa.schema([("region", pa.large_string()), ("player", pa.string_view()), ("age", pa.int64())])
    ),
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_every_table_in_memory_gives_the_same_rows_twice(kind: str) -> None:
    assert read(IN_MEMORY[kind]()) == ROWS


def test_a_parquet_file_and_a_directory_of_parts_give_the_same_rows(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "reports.parquet", row_group_size=2)
    parts = tmp_path / "parts"
    parts.mkdir()
    pyarrow.parquet.write_table(TABLE.slice(3), parts / "part-1.parquet")
    pyarrow.parquet.write_table(TABLE.slice(0, 3), parts / "part-0.parquet")
    (parts / "_SUCCESS").touch()
    assert read(tmp_path / "reports.parquet") == ROWS
    assert read(str(parts)) == ROWS


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("plain.csv", lambda content: content),
        ("CAPITALS.CSV", lambda content: content),
        ("mark.csv", lambda content: b"\xef\xbb\xbf" + content),
        ("windows.csv", lambda content: content.replace(b"\n", b"\r\n")),
        ("no-end.csv", lambda content: content.rstrip(b"\n")),
        ("blank-lines.csv", lambda content: content.replace(b"\n", b"\n\n")),
        ("zipped.csv.gz", gzip.compress),
    ],
)
def test_a_csv_file_gives_the_same_rows_as_text(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(change(as_csv()))
    assert read(tmp_path / name) == [row | {"age": str(row["age"])} for row in ROWS]


def test_a_quoted_field_may_hold_a_line_break_wherever_blocks_end(tmp_path: Path) -> None:
    filler = "x" * 700
    lines = [f'{i},"{filler}\n{filler}"' for i in range(9_000)]  # 12 MB, so twelve blocks
    (tmp_path / "notes.csv").write_text("player,note\n" + "\n".join(lines))
    rows = read(tmp_path / "notes.csv", ("player", "note"))
    assert [row["player"] for row in rows] == [str(i) for i in range(9_000)]
    assert {row["note"] for row in rows} == {f"{filler}\n{filler}"}


def test_a_quote_within_an_unquoted_field_is_kept(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('player,age\np-1,5" nail\np-2,6\n')
    assert [row["age"] for row in read(tmp_path / "r.csv", ("player", "age"))] == ['5" nail', "6"]


def test_ids_and_values_in_a_csv_file_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text('player,age\n007,NA\n"",1.50\nnull,true\n')
    assert read(tmp_path / "r.csv", ("player", "age")) == [
        {"player": "007", "age": "NA"},
        {"player": "", "age": "1.50"},
        {"player": "null", "age": "true"},
    ]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=8), again=st.booleans())
def test_the_size_of_the_batches_does_not_change_the_rows(sizes: list[int], again: bool) -> None:
    ends = np.minimum(np.cumsum([*sizes, 5]), 5)
    pieces = [TABLE.slice(start, end - start) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    assert read(pieces if again else iter(pieces)) == ROWS


def test_batches_have_at_most_65536_rows_from_any_source(tmp_path: Path) -> None:
    table = pa.table({"player": np.arange(150_000)})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "r.csv")
    for source in (table, table.to_pandas(), tmp_path / "r.parquet", tmp_path / "r.csv", iter([table])):
        with open_reports(source, ["player"]) as reports:
            sizes = [batch.num_rows for batch in reports.batches()]
        assert sum(sizes) == 150_000
        assert max(sizes) <= 131_072


def test_rows_are_known_at_once_except_in_a_csv_file(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(as_csv())
    with open_reports(tmp_path / "r.csv", COLUMNS) as reports:
        before = reports.rows
        rows_of(reports)
        assert (before, reports.rows) == (None, 5)
    for source in (TABLE, iter([TABLE])):
        with open_reports(source, COLUMNS) as reports:
            assert reports.rows == 5


def test_columns_beyond_the_wanted_ones_are_named_and_left_out(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "r.parquet")
    (tmp_path / "r.csv").write_bytes(as_csv())
    for source in (TABLE, tmp_path / "r.parquet", tmp_path / "r.csv", iter([TABLE])):
        with open_reports(source, ["age"]) as reports:
            assert reports.extra == ("region", "player")
            assert next(reports.batches()).schema.names == ["age"]


def test_the_row_labels_of_pandas_are_no_extra_column(tmp_path: Path) -> None:
    TABLE.to_pandas().set_index(pd.Index(list("edcba"))).to_parquet(tmp_path / "r.parquet")
    with open_reports(tmp_path / "r.parquet", COLUMNS) as reports:
        assert reports.extra == ()


@pytest.fixture
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_stream_is_kept_in_a_private_file_and_removed_when_the_block_ends(spools: Path) -> None:
    with open_reports(iter(TABLE.to_batches()), COLUMNS) as reports:
        (spool,) = spools.iterdir()
        assert spool.stat().st_mode & 0o077 == 0
        assert rows_of(reports) == rows_of(reports) == ROWS
    assert list(spools.iterdir()) == []


def test_the_file_of_a_stream_is_removed_when_nobody_holds_the_reports(spools: Path) -> None:
    reports = open_reports(iter(TABLE.to_batches()), COLUMNS)
    assert len(list(spools.iterdir())) == 1
    del reports
    gc.collect()
    assert list(spools.iterdir()) == []


def test_a_stream_that_fails_leaves_no_file_and_keeps_its_own_error(spools: Path) -> None:
    def failing() -> Iterator[Any]:
        yield TABLE
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        open_reports(failing(), COLUMNS)
    assert list(spools.iterdir()) == []


def test_whole_and_broken_numbers_may_alternate_in_a_stream() -> None:
    frames = [pd.DataFrame({"age": [1, 2]}), pd.DataFrame({"age": [3.5, None]}), pd.DataFrame({"age": [4]})]
    assert [row["age"] for row in read(iter(frames), ("age",))] == [1, 2, 3.5, None, 4]


def test_pandas_and_polars_are_not_needed() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('pandas', 'polars'): raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from truthful.intake.stream import open_reports\n"
        "with open_reports({'a': [1]}, ['a']) as reports: list(reports.batches())\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def peak_megabytes(path: Path, columns: list[str]) -> float:
    """Peak resident memory of a process that reads the file twice."""
    code = (
        "import sys\n"
        "from truthful.intake.stream import open_reports\n"
        "with open_reports(sys.argv[1], sys.argv[2:]) as reports:\n"
        "    rows = [sum(batch.num_rows for batch in reports.batches()) for _ in range(2)]\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(path), *columns], check=True, capture_output=True, text=True
    )
    return (
        int(run.stdout) / 1024
    )  # not getrusage: its peak is inherited from the process that starts this one


@pytest.mark.slow
@pytest.mark.parametrize("name", ["r.parquet", "r.csv"])
def test_ten_times_the_rows_need_hardly_more_memory(tmp_path: Path, name: str) -> None:
    columns = ["player", "a", "b", "c", "d"]
    peaks = []
    for rows in (300_000, 3_000_000):
        rng = np.random.default_rng(3)
        table = pa.table({"player": np.arange(rows)} | {column: rng.random(rows) for column in columns[1:]})
        if name == "r.csv":
            pyarrow.csv.write_csv(table, tmp_path / name)
        else:
            pyarrow.parquet.write_table(table, tmp_path / name, row_group_size=rows, use_dictionary=False)
        del table
        peaks.append(peak_megabytes(tmp_path / name, columns))
    # 120 MB more of data; one row group holds all of it.
    assert peaks[1] - peaks[0] < 60

from __future__ import annotations

import gc
import gzip
import io
import subprocess
import sys
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

from truthful.errors import InputError
from truthful.intake.stream import Reports, open_reports

COLUMNS = ("player", "age", "region")
TABLE = pa.table(
    {
        "region": ["north", "south", "éast", "north", "a,b"],
        "player": ["007", "p-1", "p-2", "p-3", "p-4"],
        "age": [18, 30, 42, 55, 90],
    }
)
ROWS = TABLE.select(COLUMNS).to_pylist()


def rows_of(reports: Reports) -> list[dict[str, Any]]:
    return [row for batch in reports.batches() for row in batch.to_pylist()]


def read(source: Any, columns: tuple[str, ...] = COLUMNS, **options: Any) -> list[dict[str, Any]]:
    with open_reports(source, columns, **options) as reports:
        first, second = rows_of(reports), rows_of(reports)
        assert first == second
        assert reports.rows == len(first)
        return first


def as_csv(table: Any = TABLE) -> bytes:
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


def refusal(source: Any, columns: tuple[str, ...] = COLUMNS) -> str:
    """The message of the refusal, at the door or within a pass."""
    with pytest.raises(InputError) as caught, open_reports(source, columns) as reports:
        rows_of(reports)
    return str(caught.value)


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
        assert max(sizes) <= 65_536


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


def test_a_stream_is_kept_in_a_private_file_and_removed_when_the_block_ends(tmp_path: Path) -> None:
    with open_reports(iter(TABLE.to_batches()), COLUMNS, directory=tmp_path) as reports:
        (spool,) = tmp_path.iterdir()
        assert spool.stat().st_mode & 0o077 == 0
        assert rows_of(reports) == rows_of(reports) == ROWS
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_stream_is_removed_when_nobody_holds_the_reports(tmp_path: Path) -> None:
    reports = open_reports(iter(TABLE.to_batches()), COLUMNS, directory=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    del reports
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_fails_leaves_no_file_and_keeps_its_own_error(tmp_path: Path) -> None:
    def failing() -> Iterator[Any]:
        yield TABLE
        raise ConnectionError("the line is dead")

    with pytest.raises(ConnectionError, match="the line is dead"):
        open_reports(failing(), COLUMNS, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_whole_and_broken_numbers_may_alternate_in_a_stream() -> None:
    frames = [pd.DataFrame({"age": [1, 2]}), pd.DataFrame({"age": [3.5, None]}), pd.DataFrame({"age": [4]})]
    assert [row["age"] for row in read(iter(frames), ("age",))] == [1, 2, 3.5, None, 4]


def test_text_and_numbers_in_one_column_are_refused_with_the_row() -> None:
    pieces = [pa.table({"player": [1, 2]}), pa.table({"player": [None, None]}), pa.table({"player": ["3"]})]
    expected = (
        "Column 'player' of the table of reports holds numbers first, and text from row 5 on. "
        "Write all of it as text or all of it as numbers."
    )
    assert refusal(pieces, ("player",)) == expected
    assert "of the stream of reports holds numbers" in refusal(iter(pieces), ("player",))


def test_missing_columns_are_named_with_the_ones_found_and_the_place(tmp_path: Path) -> None:
    (tmp_path / "reports.csv").write_bytes(as_csv())
    assert refusal(tmp_path / "reports.csv", ("player", "Age", "income")) == (
        "In reports.csv there is no column 'Age', 'income'; the columns are 'region', 'player', 'age'. "
        "Add the column or rename one."
    )
    assert refusal(TABLE, ("income",)).startswith("In the table of reports there is no column 'income'")
    assert refusal(iter([TABLE, TABLE.select(["age"])]), ("player",)).startswith("In the stream of reports")


def test_a_directory_names_the_part_that_lacks_a_column(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "a.parquet")
    pyarrow.parquet.write_table(TABLE.select(["player", "age"]), tmp_path / "b.parquet")
    assert refusal(tmp_path).startswith("In b.parquet there is no column 'region'")


def test_semicolons_instead_of_commas_are_recognised(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("player;age;region\n1;2;3\n")
    assert refusal(tmp_path / "r.csv").endswith(
        "The fields look separated by ';'; save the file with commas."
    )


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    expected = "several columns are named 'age'. Keep one of each name."
    (tmp_path / "r.csv").write_text("player,age,region,age\n1,2,3,4\n")
    twice = pa.Table.from_arrays([pa.array([1])] * 3, names=["player", "age", "age"])
    pyarrow.parquet.write_table(twice, tmp_path / "r.parquet")
    frame = pd.DataFrame([[1, 2, 3]], columns=["player", "age", "age"])
    for source in (tmp_path / "r.csv", tmp_path / "r.parquet", twice, frame):
        assert refusal(source).endswith(expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "The file r.csv is empty. It must have a header and one row for each player."),
        (
            b"player,age,region\n",
            "In r.csv there are no reports. There must be one row for each player.",
        ),
        (
            b"player,age,region\n1,2,3\n4,5,6,7\n",
            "In r.csv, row 2 has 4 fields and the header has 3. "
            "Correct the row; a field that holds a comma must stand in quotes.",
        ),
        (
            b"player,age,region\n" + b"1,2,3\n" * 1_000_000 + b"4,5\n",
            "In r.csv, row 1000001 has 2 fields and the header has 3. "
            "Correct the row; a field that holds a comma must stand in quotes.",
        ),
        (
            "player,age,region\n1,2,é\n".encode("latin-1"),
            "The file r.csv is not UTF-8 text. Save it as CSV in UTF-8.",
        ),
        (
            "player,age,région\n1,2,3\n".encode("latin-1"),
            "The file r.csv is not UTF-8 text. Save it as CSV in UTF-8.",
        ),
        (
            b'player,age,region\n1,2,"3"\n1,2,"3\n4,5,6\n4,5,6\n',
            "In r.csv, row 2, a quote is not closed: unexpected end of data.",
        ),
        (
            b'player,age,region\n1,2,"' + b"4,5,6\n" * 500_000 + b'"\n',
            "In r.csv a row is longer than 1,048,576 bytes; most likely a quote is never closed.",
        ),
    ],
)
def test_a_broken_csv_file_is_refused_in_plain_words(tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "r.csv").write_bytes(content)
    assert refusal(tmp_path / "r.csv") == expected


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(as_csv(pa.table({name: np.arange(50_000) for name in COLUMNS})))
    (tmp_path / "r.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert refusal(tmp_path / "r.csv.gz") == "Cannot read r.csv.gz as CSV: Truncated compressed stream"


def test_a_broken_parquet_file_is_refused_in_plain_words(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    values = {name: np.random.default_rng(5).random(50_000) for name in COLUMNS}
    pyarrow.parquet.write_table(pa.table(values), path, compression="gzip")
    content = path.read_bytes()
    for broken in (b"", b"PAR1", content[:-10], content[:100] + bytes(2_000) + content[2_100:]):
        path.write_bytes(broken)
        assert refusal(path).startswith("Cannot read r.parquet as Parquet: ")


def test_no_rows_are_refused(tmp_path: Path) -> None:
    none = TABLE.slice(0, 0)
    pyarrow.parquet.write_table(none, tmp_path / "r.parquet")
    sources: list[Any] = [none, none.to_pandas(), tmp_path / "r.parquet", iter([none]), iter([]), []]
    for source in sources:
        assert refusal(source).endswith("there are no reports. There must be one row for each player.")


def test_directories_with_anything_but_parts_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path).endswith("holds no .parquet file.")
    (tmp_path / "region=north").mkdir()
    (tmp_path / "notes.txt").touch()
    assert "holds 'notes.txt', 'region=north'; keep only .parquet parts" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["r.xlsx", "r.json", "r", "r.gz"])
def test_a_file_of_another_kind_is_refused_with_the_kinds_accepted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path / name).startswith(
        f"The file {name} is of no kind that can be read; reports must be"
    )
    assert ".csv, .csv.gz or .parquet" in refusal(tmp_path / name)


def test_a_file_that_is_not_there_is_refused_with_its_path(tmp_path: Path) -> None:
    assert refusal("nowhere/r.csv").startswith("There is no file 'nowhere/r.csv'.")


@pytest.mark.parametrize("source", [None, 3, b"player,age", pl.LazyFrame(TABLE)])
def test_objects_that_are_no_tables_are_refused(source: Any) -> None:
    assert refusal(source).startswith(f"Reports were given as a {type(source).__name__}; they must be")


@pytest.mark.parametrize("item", ["r.csv", 3, np.zeros(3)])
def test_items_that_are_no_tables_are_refused(item: Any) -> None:
    assert refusal([item]).startswith(f"A batch of reports is a {type(item).__name__}; it must be")


def test_a_frame_whose_column_mixes_types_is_refused() -> None:
    message = refusal(pd.DataFrame({"player": [1, "x"], "age": [1, 2]}), ("player", "age"))
    assert message.startswith("Cannot read the table of reports: ")
    assert "column player" in message


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([0], pa.date32()), pa.array([{"a": 1}])])
def test_columns_that_are_neither_text_nor_numbers_are_refused(column: Any, tmp_path: Path) -> None:
    table = pa.table({"player": [1], "age": column})
    pyarrow.parquet.write_table(table, tmp_path / "r.parquet")
    for source, where in ((table, "the table of reports"), (tmp_path / "r.parquet", "r.parquet")):
        assert refusal(source, ("player", "age")).startswith(f"Column 'age' of {where} holds ")


@pytest.mark.parametrize("name", ["r.csv", "r.parquet"])
def test_a_file_that_changes_between_two_passes_is_refused(tmp_path: Path, name: str) -> None:
    def write(table: Any) -> None:
        if name.endswith("csv"):
            pyarrow.csv.write_csv(table, tmp_path / name)
        else:
            pyarrow.parquet.write_table(table, tmp_path / name)

    write(TABLE)
    with open_reports(tmp_path / name, COLUMNS) as reports:
        rows_of(reports)
        write(TABLE.slice(0, 4))
        with pytest.raises(InputError, match=f"The source {name} changed while it was being read"):
            rows_of(reports)


def test_a_file_that_changes_within_a_pass_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_bytes(as_csv())
    with open_reports(tmp_path / "r.csv", COLUMNS) as reports:
        batches = reports.batches()
        next(batches)
        with open(tmp_path / "r.csv", "ab") as file:
            file.write(b"north,p-9,30\n")
        with pytest.raises(InputError, match=r"changed while it was being read"):
            list(batches)


def test_a_directory_that_gains_a_part_is_refused(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "a.parquet")
    with open_reports(tmp_path, COLUMNS) as reports:
        pyarrow.parquet.write_table(TABLE, tmp_path / "b.parquet")
        with pytest.raises(InputError, match="changed while it was being read"):
            rows_of(reports)


def test_a_frame_that_grows_between_two_passes_is_refused() -> None:
    frame = TABLE.to_pandas()
    with open_reports(frame, COLUMNS) as reports:
        rows_of(reports)
        frame.loc[len(frame)] = ["north", "p-9", 20]
        with pytest.raises(InputError, match="there were 5 rows and now there are 6"):
            rows_of(reports)


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

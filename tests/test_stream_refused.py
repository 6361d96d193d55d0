"""Sources that hold no reports, or not the same ones twice, are refused in plain words."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.reports_read import COLUMNS, TABLE, as_csv, refusal, rows_of

from truthful.errors import InputError
from truthful.intake.stream import open_reports


def test_text_and_numbers_in_one_column_are_refused_with_the_row() -> None:
    pieces = [pa.table({"player": [1, 2]}), pa.table({"player": [None, None]}), pa.table({"player": ["3"]})]
    expected = (
        "Column 'player' of the table of reports holds numbers first, and text from row 4 on (rows count from 0). "
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
            "In r.csv, row 3 has 4 fields and the header has 3. "
            "Correct the row; a field that holds ',' must stand in quotes.",
        ),
        (
            b"player,age,region\n" + b"1,2,3\n" * 1_000_000 + b"4,5\n",
            "In r.csv, row 1000002 has 2 fields and the header has 3. "
            "Correct the row; a field that holds ',' must stand in quotes.",
        ),
        (
            "player,age,region\n1,2,é\n".encode("latin-1"),
            "The file r.csv is not UTF-8 text; most likely it is Windows-1252, which Excel's plain CSV is. Save it as "
            "'CSV UTF-8'.",
        ),
        (
            "player,age,région\n1,2,3\n".encode("latin-1"),
            "The file r.csv is not UTF-8 text; most likely it is Windows-1252, which Excel's plain CSV is. Save it as "
            "'CSV UTF-8'.",
        ),
        (
            b'player,age,region\n1,2,"3"\n1,2,"3\n4,5,6\n4,5,6\n',
            "In r.csv, row 3, a quote is not closed: unexpected end of data.",
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


@pytest.mark.parametrize("name", ["r.docx", "r.json", "r", "r.gz", "r.xlsx.gz"])
def test_a_file_of_another_kind_is_refused_with_the_kinds_accepted(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert refusal(tmp_path / name).startswith(
        f"The file {name} is of no kind that can be read; reports must be"
    )
    assert "(.csv, .tsv, .tab, .txt, also .gz), a spreadsheet (.xlsx" in refusal(tmp_path / name)


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

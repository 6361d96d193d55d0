"""Reports behind a URL are read like reports on the disk, and a change or a mistake is told in the same words."""

from __future__ import annotations

import pickle
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet
import pytest
from support.reports_read import COLUMNS, ROWS, TABLE, read, refusal, rows_of

from truthful.errors import InputError
from truthful.intake.stream import open_reports


@pytest.fixture
def bucket() -> Iterator[str]:
    """The URL of an empty directory in fsspec's memory."""
    name = f"/{uuid.uuid4().hex}"
    memory = fsspec.filesystem("memory")
    memory.mkdir(name)
    yield f"memory:/{name}"
    memory.rm(name, recursive=True)


def put(url: str, table: Any = TABLE, **options: Any) -> str:
    with fsspec.open(url, "wb") as file:
        pyarrow.parquet.write_table(table, file, **options)
    return url


def test_a_file_and_a_directory_of_parts_behind_a_url_give_the_same_rows(bucket: str) -> None:
    assert read(put(f"{bucket}/reports.parquet", row_group_size=2)) == ROWS
    put(f"{bucket}/parts/part-1.parquet", TABLE.slice(3))
    put(f"{bucket}/parts/part-0.parquet", TABLE.slice(0, 3))
    fsspec.open(f"{bucket}/parts/_SUCCESS", "wb").open().close()
    assert read(f"{bucket}/parts") == ROWS
    assert read(f"{bucket}/parts/") == ROWS


def test_a_file_url_is_a_path_also_to_csv(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "reports.parquet")
    (tmp_path / "reports.csv").write_text("player,age,region\np-1,30,south\n")
    assert read(f"file://{tmp_path}/reports.parquet") == ROWS
    assert read(f"file://{tmp_path}/reports.csv") == [{"player": "p-1", "age": "30", "region": "south"}]


def test_pieces_can_be_sent_elsewhere_and_read_there(bucket: str) -> None:
    put(f"{bucket}/reports.parquet", row_group_size=2)
    with open_reports(f"{bucket}/reports.parquet", COLUMNS) as reports:
        sent = [pickle.loads(pickle.dumps(piece)) for piece in reports.pieces(2)]
    assert [(piece.number, piece.first_row) for piece in sent] == [(0, 0), (1, 2), (2, 4)]
    assert [row for piece in sent for batch in piece.batches() for row in batch.to_pylist()] == ROWS
    ids = [row for piece in sent for batch in piece.only("player").batches() for row in batch.to_pylist()]
    assert ids == [{"player": row["player"]} for row in ROWS]


def test_parts_on_a_disk_are_found_from_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "reports.parquet")
    monkeypatch.chdir(tmp_path)
    with open_reports("reports.parquet", COLUMNS) as reports:
        (piece,) = (pickle.loads(pickle.dumps(piece)) for piece in reports.pieces())
    monkeypatch.chdir("/")
    assert pa.Table.from_batches(piece.batches()).to_pylist() == ROWS


@pytest.mark.parametrize("change", ["another size", "same size", "gone", "one more"])
def test_reports_that_change_behind_a_url_are_refused(bucket: str, change: str) -> None:
    put(f"{bucket}/parts/part-0.parquet")
    with open_reports(f"{bucket}/parts", COLUMNS) as reports:
        assert rows_of(reports) == ROWS
        if change == "gone":
            fsspec.filesystem("memory").rm(f"{bucket}/parts", recursive=True)
        else:
            table = TABLE.slice(1) if change == "another size" else TABLE
            put(f"{bucket}/parts/part-{int(change == 'one more')}.parquet", table)
        with pytest.raises(InputError, match="changed while it was being read"):
            rows_of(reports)


def test_a_directory_behind_a_url_keeps_the_rules_of_directories(bucket: str) -> None:
    put(f"{bucket}/mixed/part-0.parquet")
    fsspec.open(f"{bucket}/mixed/notes.txt", "wb").open().close()
    assert "'notes.txt'; keep only .parquet parts" in refusal(f"{bucket}/mixed")
    put(f"{bucket}/deep/inner/part-0.parquet")
    assert "'inner'; keep only .parquet parts" in refusal(f"{bucket}/deep")
    fsspec.filesystem("memory").mkdir(f"{bucket}/empty")
    assert "empty holds no .parquet file" in refusal(f"{bucket}/empty")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("memory://nowhere/at/all.parquet", "There is nothing at 'memory://nowhere/at/all.parquet'"),
        ("nonsense://bucket/reports.parquet", "Cannot open 'nonsense://bucket/reports.parquet': "),
        ("file:///nowhere/at/all.parquet", "There is no file '/nowhere/at/all.parquet'"),
    ],
)
def test_a_url_that_leads_nowhere_is_told(url: str, told: str) -> None:
    assert told in refusal(url)


def test_without_fsspec_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    assert "pip install 'truthful[dask]'" in refusal("s3://bucket/reports.parquet")

"""A few reports, and what reading them gives: rows, twice the same, or a refusal."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

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

"""The books of a settlement: who was paid what, and each player's receipt, written as the players come."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

PAYMENTS, RECEIPTS = "payments.parquet", "receipts.parquet"
PAYMENTS_CSV = "payments.csv"
# What the payer may see; everything else in a receipt is the player's own.
PAYMENT_COLUMNS = ("player", "group", "payment")


class Books(Protocol):
    """Takes receipts batch by batch; payments are three of their columns."""

    def write(self, receipts: Any) -> None: ...
    def __enter__(self) -> Books: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MemoryBooks:
    """Books kept as Arrow tables, for a settlement that writes no files."""

    def __init__(self) -> None:
        self._batches: list[Any] = []

    def write(self, receipts: Any) -> None:
        self._batches.append(receipts)

    @property
    def receipts(self) -> Any:
        return pa.Table.from_batches(self._batches)

    def __enter__(self) -> MemoryBooks:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class FileBooks:
    """Books written to a directory: payments as Parquet and CSV, receipts as Parquet, in constant memory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writers: list[tuple[Any, tuple[str, ...] | None]] = []

    def write(self, receipts: Any) -> None:
        if not self._writers:
            self._open(receipts.schema)
        for writer, columns in self._writers:
            writer.write(receipts if columns is None else receipts.select(list(columns)))

    def _open(self, schema: Any) -> None:
        paid = pa.schema([schema.field(name) for name in PAYMENT_COLUMNS])
        self._writers = [
            (pa.parquet.ParquetWriter(self._directory / RECEIPTS, schema, compression="zstd"), None),
            (pa.parquet.ParquetWriter(self._directory / PAYMENTS, paid, compression="zstd"), PAYMENT_COLUMNS),
            (pa.csv.CSVWriter(self._directory / PAYMENTS_CSV, paid), PAYMENT_COLUMNS),
        ]

    def __enter__(self) -> FileBooks:
        return self

    def __exit__(self, *exception: object) -> None:
        for writer, _ in self._writers:
            writer.close()

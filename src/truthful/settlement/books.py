"""The books of a settlement: who was paid what, and each player's receipt, written as the players come."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from truthful import check

PAYMENTS, RECEIPTS = "payments.parquet", "receipts.parquet"
PAYMENTS_CSV = "payments.csv"
KEPT = ("all", "payments")
# What the payer may see; everything else in a receipt is the player's own.
PAYMENT_COLUMNS = ("player", "group", "payment")


class Books(Protocol):
    """Takes receipts batch by batch; payments are three of their columns.

    `task` is the second pass as workers make it for these books, and `write` takes what it gives.
    """

    def task(self, pay: Any) -> Any: ...
    def write(self, receipts: Any) -> None: ...
    def __enter__(self) -> Books: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MemoryBooks:
    """Books kept as Arrow tables, for a settlement that writes no files."""

    def __init__(self) -> None:
        self._batches: list[Any] = []

    def task(self, pay: Any) -> Any:
        return pay

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
    """Books written to a directory in constant memory: payments as Parquet and CSV, receipts as Parquet.

    `kept` says which: "all", or "payments" for payments.parquet alone.
    """

    def __init__(self, directory: Path, kept: str = "all") -> None:
        self._directory = directory
        self._kept = check.choice("books", kept, KEPT)
        self._writers: list[tuple[Any, tuple[str, ...] | None]] = []

    def task(self, pay: Any) -> Any:
        return pay

    def write(self, receipts: Any) -> None:
        if not self._writers:
            self._open(receipts.schema)
        for writer, columns in self._writers:
            writer.write(receipts if columns is None else receipts.select(list(columns)))

    def _open(self, schema: Any) -> None:
        paid = payments_schema(schema)
        self._writers = [(parquet_writer(self._directory / PAYMENTS, paid), PAYMENT_COLUMNS)]
        if self._kept == "all":
            self._writers += [
                (parquet_writer(self._directory / RECEIPTS, schema), None),
                (pa.csv.CSVWriter(self._directory / PAYMENTS_CSV, paid), PAYMENT_COLUMNS),
            ]

    def __enter__(self) -> FileBooks:
        return self

    def __exit__(self, *exception: object) -> None:
        for writer, _ in self._writers:
            writer.close()


def payments_schema(receipts: Any) -> Any:
    """What of the receipts the payer may see."""
    return pa.schema([receipts.field(name) for name in PAYMENT_COLUMNS])


def parquet_writer(path: Path, schema: Any) -> Any:
    """Each column as it is smallest for little time.

    Payments hardly repeat, so that compressing them takes longer than computing them. Numbers of players follow each
    other and groups are bits: to encode them as such is smaller and quicker than to compress them.
    """
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    numbered = {"player"} - texts
    packed = {field.name for field in schema} - numbered - {"group", "payment"}
    return pa.parquet.ParquetWriter(
        path,
        schema,
        compression={name: "zstd" if name in packed else "none" for name in schema.names},
        compression_level=dict.fromkeys(packed, 1),
        use_dictionary=sorted(texts - {"player"} | {"group"}),
        column_encoding=dict.fromkeys(numbered, "DELTA_BINARY_PACKED") or None,
        write_statistics=["player"],
    )

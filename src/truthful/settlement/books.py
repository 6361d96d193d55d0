"""The books of a settlement: everybody's payment, and each player's receipt, written as the players come."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from truthful.check import Floats
from truthful.coins import Bill, Ints, coin_digits
from truthful.errors import InputError
from truthful.files import PAYMENTS, PAYMENTS_CSV, RECEIPTS
from truthful.release import read_release
from truthful.scoring import PAYMENT_STEPS

KEPT = ("all", "payments")
#: The column of the amount paid in coins: only in payments, as a receipt holds what follows from the release.
PAID = "paid"

#: The steps to a payment.
SCORES = ("leverage", "noise_scale", "peer_prediction", "own_prediction")


@dataclass(frozen=True)
class PaidTotals:
    """The number of players paid, the exact total, and the extremes, for the private summary."""

    players: int = 0
    total: Fraction = Fraction(0)
    least: float = np.inf
    most: float = -np.inf
    coins: int = 0

    def __add__(self, other: PaidTotals) -> PaidTotals:
        return PaidTotals(
            self.players + other.players,
            self.total + other.total,
            min(self.least, other.least),
            max(self.most, other.most),
            self.coins + other.coins,
        )


def paid_in(payments: Floats, coins: Ints) -> PaidTotals:
    """Totals of payments, which are whole numbers of steps, and of coins."""
    steps = np.rint(payments * PAYMENT_STEPS).astype(np.int64)
    ends = payments.min(initial=np.inf), payments.max(initial=-np.inf)
    return PaidTotals(len(payments), Fraction(_sum(steps), PAYMENT_STEPS), *ends, _sum(coins))


def _sum(integers: Ints) -> int:
    """Sum in two parts, so that nothing overflows."""
    return int((integers >> 32).sum()) * 2**32 + int((integers & 0xFFFFFFFF).sum())


class Books:
    """Takes receipts batch by batch; payments are a subset of their columns.

    `task` is the second pass as workers run it for these books, and `write` takes its results.
    """

    def task(self, pay: Any) -> Any:
        return pay

    def write(self, receipts: Any) -> None:
        raise NotImplementedError

    def __enter__(self) -> Books:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class MemoryBooks(Books):
    """Books kept as Arrow tables, for a settlement that writes no files."""

    def __init__(self) -> None:
        self._batches: list[Any] = []

    def write(self, receipts: Any) -> None:
        self._batches.append(receipts)

    @property
    def receipts(self) -> Any:
        return receipts_of(pa.Table.from_batches(self._batches))

    @property
    def payments(self) -> Any:
        return payments_of(pa.Table.from_batches(self._batches))


class FileBooks(Books):
    """Books written to a directory in constant memory: payments as Parquet and CSV, receipts as Parquet.

    `kept`: "all", or "payments" for payments.parquet alone.
    """

    def __init__(self, directory: Path, kept: str) -> None:
        self._directory, self._kept = directory, kept
        self._writers: list[tuple[Any, bool]] = []  # and whether it writes payments alone

    def write(self, receipts: Any) -> None:
        paid, receipts = payments_of(receipts), receipts_of(receipts)
        if not self._writers:
            self._writers = [(parquet_writer(self._directory / PAYMENTS, paid.schema), True)]
            if self._kept == "all":
                self._writers += [
                    (parquet_writer(self._directory / RECEIPTS, receipts.schema), False),
                    (pa.csv.CSVWriter(self._directory / PAYMENTS_CSV, paid.schema), True),
                ]
        for writer, payments in self._writers:
            writer.write(paid if payments else receipts)

    def __exit__(self, *exception: object) -> None:
        for writer, _ in self._writers:
            writer.close()


def payments_of(paid: Any) -> Any:
    """The columns of a table or batch that the payer may see; all others are the player's own."""
    return paid.select(["player", "payment", PAID])


def receipts_of(paid: Any) -> Any:
    """Everybody's receipt, from a table or batch of payments."""
    return paid.select([name for name in paid.schema.names if name != PAID])


def read_bill(directory: Path) -> Bill:
    """The debts of a settlement in a directory, in coins."""
    currency = read_release(directory / "release.json").payment.currency
    try:
        paid = pa.parquet.read_table(directory / PAYMENTS)
    except (OSError, pa.ArrowException) as problem:
        raise InputError(f"{PAYMENTS} in {str(directory)!r} cannot be read: {problem}.") from None
    if PAID not in paid.column_names:
        raise InputError(
            f"{PAYMENTS} in {str(directory)!r} has no column {PAID!r}: it was written before payments were rounded to "
            "coins. Round its exact amounts yourself."
        )
    digits = coin_digits(currency)
    coins = np.rint(paid.column(PAID).to_numpy() * 10**digits).astype(np.int64).tolist()
    return Bill(currency, digits, list(zip(paid.column("player").to_pylist(), coins, strict=True)))


def parquet_writer(path: Path, schema: Any) -> Any:
    """A writer that encodes each column well at little cost.

    Payments and scores hardly repeat, so compressing them takes longer than computing them. Player numbers are
    consecutive and groups are bits: encoding these as such is smaller and faster than compression.
    """
    texts = {field.name for field in schema if pa.types.is_string(field.type)}
    numbered = {"player"} - texts
    packed = {field.name for field in schema} - numbered - {*SCORES, "payment"}
    return pa.parquet.ParquetWriter(
        path,
        schema,
        compression={name: "zstd" if name in packed else "none" for name in schema.names},
        compression_level=dict.fromkeys(packed, 1),
        use_dictionary=sorted(texts - {"player"}),
        column_encoding=dict.fromkeys(numbered, "DELTA_BINARY_PACKED") or None,
        write_statistics=["player"],
    )

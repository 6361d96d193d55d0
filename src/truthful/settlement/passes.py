"""The two passes over the reports: exact statistics of the two random halves, then everybody's payment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from truthful.check import Floats
from truthful.files import sha256
from truthful.groups import groups_of, player_hashes
from truthful.intake import Checked, Counts, Intake
from truthful.intake.duplicates import NO_REPEATS, Duplicates, Repeats, find_duplicates
from truthful.intake.stream import Reports
from truthful.moments import Moments, group_moments
from truthful.payments import PAYMENT_STEPS, Paymaster
from truthful.settlement.books import Books
from truthful.study import Study

#: Told how many rows are done, and how many there are if known.
RowsDone = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the first pass leaves: the exact statistics of each half, and how records were treated."""

    halves: tuple[Moments, Moments]
    key: bytes
    on_bad: str
    repeats: Repeats
    treated: Counts

    @property
    def counts(self) -> tuple[int, int]:
        """Players in each half."""
        return self.halves[0].count, self.halves[1].count

    @property
    def players(self) -> int:
        """Players in all."""
        return sum(self.counts)

    @property
    def digest(self) -> str:
        """The hash of the exact statistics: equal only for reports that lead to the same estimates."""
        return sha256([half.digest() for half in self.halves])


@dataclass(frozen=True)
class Paid:
    """What the second pass leaves, for the private summary."""

    total: Fraction
    least: float
    most: float


def gather(reports: Reports, study: Study, key: bytes, on_bad: str, rows_done: RowsDone) -> Statistics:
    """First pass: check every record and add up the exact statistics of the two halves.

    Bad records end it (or are left out, or moved into range, as `on_bad` says) before anything is drawn. Players
    with two records are found by the same pass; only if there are any is the source read again without them.
    """
    with Duplicates() as duplicates:
        first = _gather(reports, Intake(study, on_bad), study, key, rows_done, duplicates)
        repeated = duplicates.repeated()
    if not len(repeated):
        return _finished(*first, key, on_bad, NO_REPEATS)
    repeats = find_duplicates(reports.batches(), key, repeated)
    again = _gather(reports, Intake(study, on_bad, repeats=repeats), study, key, rows_done, None)
    return _finished(*again, key, on_bad, repeats)


def pay(
    reports: Reports,
    study: Study,
    statistics: Statistics,
    master: Paymaster,
    books: Books,
    rows_done: RowsDone,
) -> Paid:
    """Second pass: pay everybody, and write her receipt."""
    total, least, most, done = 0, np.inf, -np.inf, 0
    intake = Intake(study, statistics.on_bad, repeats=statistics.repeats)
    for batch, groups in _grouped(reports, intake, statistics.key):
        payments = master.payments(batch.kx, batch.ky, groups)
        books.write(_receipts(batch, groups, payments))
        total += _steps(payments)
        least, most = min(least, payments.min(initial=least)), max(most, payments.max(initial=most))
        done += len(payments)
        rows_done(done, statistics.players)
    return Paid(Fraction(total, PAYMENT_STEPS), float(least), float(most))


def _steps(payments: Floats) -> int:
    """The payments' exact total in steps: whole numbers, added in two parts so that no sum overflows."""
    high, low = np.divmod(np.rint(payments * PAYMENT_STEPS).astype(np.int64), 2**32)
    return int(high.sum()) * 2**32 + int(low.sum())


def _gather(
    reports: Reports,
    intake: Intake,
    study: Study,
    key: bytes,
    rows_done: RowsDone,
    duplicates: Duplicates | None,
) -> tuple[tuple[Moments, Moments], Intake]:
    halves = (Moments.zero(study.dimension), Moments.zero(study.dimension))
    for batch in intake.batches(reports):
        if duplicates is not None:
            duplicates.add(player_hashes(batch.everyone, key))
        groups = groups_of(player_hashes(batch.players, key))
        more = group_moments(batch.kx, batch.ky, groups)
        halves = (halves[0] + more[0], halves[1] + more[1])
        rows_done(batch.first_row + len(batch.players) - 1, reports.rows)
    return halves, intake


def _finished(
    halves: tuple[Moments, Moments], intake: Intake, key: bytes, on_bad: str, repeats: Repeats
) -> Statistics:
    return Statistics(halves, key, on_bad, repeats, intake.finish())


def _grouped(reports: Reports, intake: Intake, key: bytes) -> Iterator[tuple[Checked, npt.NDArray[np.uint8]]]:
    for batch in intake.batches(reports):
        yield batch, groups_of(player_hashes(batch.players, key))


def _receipts(batch: Checked, groups: npt.NDArray[np.uint8], payments: Any) -> Any:
    """Each player's record as it was used, her group and her payment."""
    columns = {
        "player": batch.players,
        **dict(zip(batch.records.schema.names, batch.records.columns, strict=True)),
        "group": pa.array(groups),
        "payment": pa.array(payments),
    }
    return pa.record_batch(columns)

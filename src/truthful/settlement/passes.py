"""The two passes over the reports: exact statistics of the two random halves, then everybody's payment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from truthful.files import sha256
from truthful.intake import Counts, Intake
from truthful.intake.duplicates import NO_REPEATS, Repeats, later_records
from truthful.intake.stream import Reports
from truthful.moments import Moments
from truthful.payments import Paymaster
from truthful.settlement.books import Books
from truthful.settlement.engines import Engine
from truthful.settlement.tasks import Gather, Paid, Pay, Suspect
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


def gather(
    reports: Reports, study: Study, key: bytes, on_bad: str, engine: Engine, rows_done: RowsDone
) -> Statistics:
    """First pass: check every record and add up the exact statistics of the two halves.

    Bad records end it (or are left out, or moved into range, as `on_bad` says) before anything is drawn. Players
    with two records are found by the same pass; only if there are any is the source read again without them.
    """
    with engine.duplicates(reports) as duplicates:
        first = _gather(reports, Gather(study, key, on_bad, NO_REPEATS), engine, rows_done, duplicates)
        repeated = duplicates.repeated()
    if not len(repeated):
        return first()
    suspects = engine.run(Suspect(key, repeated), engine.pieces(reports))
    repeats = later_records(chain.from_iterable(suspects))
    if not len(repeats):  # different players who share a hash
        return first()
    return _gather(reports, Gather(study, key, on_bad, repeats), engine, rows_done, None)()


def pay(
    reports: Reports,
    study: Study,
    statistics: Statistics,
    master: Paymaster,
    books: Books,
    engine: Engine,
    rows_done: RowsDone,
) -> Paid:
    """Second pass: pay everybody, and write her receipt."""
    task = books.task(Pay(study, statistics.key, statistics.on_bad, statistics.repeats, master))
    paid = Paid()
    for receipts, more in engine.run(task, engine.pieces(reports)):
        books.write(receipts)
        paid += more
        rows_done(paid.players, statistics.players)
    reports.read_whole(statistics.treated.records)
    pa.default_memory_pool().release_unused()
    return paid


def _gather(
    reports: Reports, task: Gather, engine: Engine, rows_done: RowsDone, duplicates: Any | None
) -> Callable[[], Statistics]:
    """Run the first pass; the statistics are asked for once duplicates are known to be none."""
    intake = Intake(task.study, task.on_bad)
    intake.open(reports)
    halves = (Moments.zero(task.study.dimension), Moments.zero(task.study.dimension))
    work = task if duplicates is None else duplicates.task(task)
    for part in engine.run(work, engine.pieces(reports)):
        if duplicates is not None:
            duplicates.add(part.hashes)
        halves = (halves[0] + part.halves[0], halves[1] + part.halves[1])
        intake.account.extend(part.account)
        rows_done(intake.account.all_records, reports.rows)
    reports.read_whole(intake.account.all_records)
    pa.default_memory_pool().release_unused()  # what was read is not kept
    return lambda: Statistics(halves, task.key, task.on_bad, task.repeats, intake.finish())

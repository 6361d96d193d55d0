"""The passes over the reports: exact sums, then, given the release, everybody's payment. Between them features may be
looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from truthful.asked_release import AskedPaymaster
from truthful.check import Floats
from truthful.errors import InputError
from truthful.instruments import Transform
from truthful.intake import Counts, Intake
from truthful.intake.duplicates import NO_REPEATS, Repeats, later_records
from truthful.intake.intake import Cells
from truthful.intake.stream import Reports
from truthful.moments import Sums
from truthful.one_release_payments import Paymaster
from truthful.settlement.books import Books
from truthful.settlement.engines import Engine
from truthful.settlement.tasks import Gather, Measure, Paid, Pay, Rows, Suspect
from truthful.share_release import SharePaymaster
from truthful.study import Study

#: Told how many rows are done, and how many there are if known.
RowsDone = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the first pass leaves: exact sums, how many people have which levels, and how records were treated."""

    sums: Sums
    cells: Cells
    on_bad: str
    repeats: Repeats
    treated: Counts

    @property
    def players(self) -> int:
        """Players in all."""
        return self.sums.count

    @property
    def digest(self) -> str:
        """The hash of the exact sums: equal only for reports that lead to the same estimate."""
        return self.sums.digest()


def gather(
    reports: Reports,
    study: Study,
    transform: Transform | None,
    norm: str,
    key: bytes,
    on_bad: str,
    engine: Engine,
    rows_done: RowsDone,
) -> Statistics:
    """First pass: check every record and add up products with its instruments, exactly.

    Bad records end it (or are left out, or moved into range, as `on_bad` says) before anything is drawn. Players
    with two records are found by the same pass; only if there are any is the source read again without them. `key` is
    a fresh one for that search, so that nobody can choose ids that share a hash; nothing else depends on it.
    """
    task = Gather(study, transform, norm, key, on_bad, NO_REPEATS)
    with engine.duplicates(reports) as duplicates:
        first = _gather(reports, task, engine, rows_done, duplicates)
        repeated = duplicates.repeated()
    if not len(repeated):
        return first()
    suspects = engine.run(Suspect(key, repeated), engine.pieces(reports))
    repeats = later_records(chain.from_iterable(suspects))
    if not len(repeats):  # different players who share a hash
        return first()
    return _gather(reports, replace(task, repeats=repeats), engine, rows_done, None)()


def measure(
    reports: Reports, study: Study, statistics: Statistics, engine: Engine
) -> Iterator[tuple[Rows, Any, Floats]]:
    """Features once more: rows counted from 1, players and features on the grid, of the good records in their order."""
    task = Measure(study, statistics.on_bad, statistics.repeats)
    rows = 0
    for numbers, players, kx in engine.run(task, engine.pieces(reports)):
        yield numbers, players, kx
        rows += len(numbers)
    if rows != statistics.players:
        raise InputError(
            f"In {reports.where} there were {statistics.players:,} good records and now there are {rows:,}. "
            "Start again on reports that nobody writes to."
        )


def pay(
    reports: Reports,
    study: Study,
    statistics: Statistics,
    master: Paymaster | SharePaymaster | AskedPaymaster,
    books: Books,
    engine: Engine,
    rows_done: RowsDone,
) -> Paid:
    """Second pass: pay everybody, and write her receipt."""
    task = books.task(Pay(study, statistics.on_bad, statistics.repeats, master))
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
    sums, cells = Sums.zero(task.study.dimension), Cells.zero(task.study)
    work = task if duplicates is None else duplicates.task(task)
    for part in engine.run(work, engine.pieces(reports)):
        if duplicates is not None:
            duplicates.add(part.hashes)
        sums, cells = sums + part.sums, cells + part.cells
        intake.account.extend(part.account)
        rows_done(intake.account.all_records, reports.rows)
    reports.read_whole(intake.account.all_records)
    pa.default_memory_pool().release_unused()  # what was read is not kept
    return lambda: Statistics(sums, cells, task.on_bad, task.repeats, intake.finish())

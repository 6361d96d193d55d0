"""The passes over the reports: exact sums, then, given the release, everybody's payment. Between them features may be
looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from truthful.check import Floats
from truthful.errors import InputError
from truthful.intake import Checked, Counts, Intake
from truthful.intake.columns import arrow_numbers
from truthful.intake.duplicates import (
    NO_REPEATS,
    NOTHING,
    Hashes,
    Repeats,
    later_records,
    player_hashes,
    suspects,
)
from truthful.intake.intake import LevelCounts
from truthful.intake.rules import BadRecords
from truthful.intake.sources import Piece
from truthful.intake.stream import Reports
from truthful.moments import Sums, SumsTally, Transform
from truthful.one_release import Paymaster
from truthful.settlement.books import Books, PaidTotals, paid_in
from truthful.settlement.engines import Engine
from truthful.study import Study
from truthful.study.declaration import PLAYER

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gathered:
    """What the first pass leaves of a piece: exact sums, and what was found of records, levels and players."""

    sums: Sums
    cells: LevelCounts
    account: BadRecords
    hashes: Any  # of all players, or where they lie


@dataclass(frozen=True, eq=False)
class Gather:
    """The first pass: check every record, add up products with its instruments.

    Hashes are given as long as no repeats are known: players with two records are looked for once.
    """

    study: Study
    transform: Transform | None
    norm: str
    key: bytes
    on_bad: str
    repeats: Repeats

    def __call__(self, piece: Piece) -> Iterator[Gathered]:
        intake = Intake(self.study, self.on_bad, repeats=self.repeats)
        tally = SumsTally(self.study.dimension, self.transform, self.norm)
        cells = LevelCounts.zero(self.study)
        hashes, predictions = [NOTHING], 0
        for batch in intake.batches(piece):
            kx, ky, *asked = batch.on_grid()
            tally.add(kx, ky)
            for km in asked:
                predictions += int(km.sum())  # whole numbers below 2⁵³, so exact
            cells.add(batch.values)
            if not len(self.repeats):
                hashes.append(player_hashes(batch.everyone, self.key))
        sums = tally.sums if self.study.levels is None else replace(tally.sums, predictions=predictions)
        yield Gathered(sums, cells, intake.account, np.concatenate(hashes))


@dataclass(frozen=True, eq=False)
class Measure:
    """A look at features alone: the row of every good record, its player, and her features on the grid."""

    study: Study
    on_bad: str
    repeats: Repeats

    def __call__(self, piece: Piece) -> Iterator[tuple[Rows, Any, Floats]]:
        for batch in Intake(self.study, self.on_bad, repeats=self.repeats).batches(piece):
            yield batch.rows, batch.players, batch.on_grid()[0]


@dataclass(frozen=True, eq=False)
class Suspect:
    """A look at the ids that share a hash: the rows of a piece that have one, and their players."""

    key: bytes
    repeated: Hashes

    def __call__(self, piece: Piece) -> Iterator[list[tuple[int, str | int]]]:
        yield list(suspects(piece.only(PLAYER).batches(), piece.first_row, self.key, self.repeated))


@dataclass(frozen=True, eq=False)
class Pay:
    """The second pass: pay everybody, and write her receipt."""

    study: Study
    on_bad: str
    repeats: Repeats
    master: Paymaster

    def __call__(self, piece: Piece) -> Iterator[tuple[Any, PaidTotals]]:
        """Receipts, batch by batch, each with what was paid."""
        for batch in Intake(self.study, self.on_bad, repeats=self.repeats).batches(piece):
            scored = self.master.score_players(*batch.on_grid())
            yield receipts_of(batch, vars(scored)), paid_in(scored.payment)


def receipts_of(batch: Checked, columns: Mapping[str, Any]) -> Any:
    """Each player's record as it was used, and the columns that say what came of it, the payment last."""
    records = batch.records
    arrays = [batch.players, *records.columns, *(arrow_numbers(column) for column in columns.values())]
    return pa.record_batch(arrays, names=[PLAYER, *records.schema.names, *columns])


#: Told how many rows are done, and how many there are if known.
RowsDone = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the first pass leaves: exact sums, how many people have which levels, and how records were treated."""

    sums: Sums
    cells: LevelCounts
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
        added = _add_up(reports, task, engine, rows_done, duplicates)
        repeated = duplicates.repeated()
    if len(repeated):
        suspected = engine.run(Suspect(key, repeated), engine.pieces(reports))
        repeats = later_records(chain.from_iterable(suspected))
        if len(repeats):  # else different players share a hash
            task = replace(task, repeats=repeats)
            added = _add_up(reports, task, engine, rows_done)
    return Statistics(added.sums, added.cells, on_bad, task.repeats, added.intake.finish())


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
    master: Paymaster,
    books: Books,
    engine: Engine,
    rows_done: RowsDone,
) -> PaidTotals:
    """Second pass: pay everybody, and write her receipt."""
    task = books.task(Pay(study, statistics.on_bad, statistics.repeats, master))
    paid = PaidTotals()
    for receipts, more in engine.run(task, engine.pieces(reports)):
        books.write(receipts)
        paid += more
        rows_done(paid.players, statistics.players)
    reports.read_whole(statistics.treated.records)
    pa.default_memory_pool().release_unused()
    return paid


class _Added(NamedTuple):
    """What a first pass comes to, before it is asked whether there were bad records."""

    sums: Sums
    cells: LevelCounts
    intake: Intake


def _add_up(
    reports: Reports, task: Gather, engine: Engine, rows_done: RowsDone, duplicates: Any = None
) -> _Added:
    """One pass over the reports; hashes of players go to `duplicates`."""
    intake = Intake(task.study, task.on_bad)
    intake.open(reports)
    sums, cells = Sums.zero(task.study.dimension), LevelCounts.zero(task.study)
    work = task if duplicates is None else duplicates.task(task)
    for part in engine.run(work, engine.pieces(reports)):
        if duplicates is not None:
            duplicates.add(part.hashes)
        sums, cells = sums + part.sums, cells + part.cells
        intake.account.extend(part.account)
        rows_done(intake.account.all_records, reports.rows)
    reports.read_whole(intake.account.all_records)
    pa.default_memory_pool().release_unused()  # what was read is not kept
    return _Added(sums, cells, intake)

"""The passes over the reports: exact sums, then, given the release, everybody's payment. Between them features may be
read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.coins import Ints, Lot, in_coins
from truthful.errors import InputError
from truthful.intake import Counts, Intake
from truthful.intake.duplicates import NOTHING, Hashes, later_records, player_hashes, suspects
from truthful.intake.intake import LevelCounts
from truthful.intake.rules import NO_REPEATS, BadRecords, Repeats, Rows, arrow_numbers
from truthful.intake.sources import Piece
from truthful.intake.stream import Reports
from truthful.moments import Sums, SumsTally, Transform
from truthful.one_release import Paymaster
from truthful.scoring import PAYMENT_STEPS
from truthful.settlement.books import PAID, Books, PaidTotals, paid_in
from truthful.settlement.engines import Engine
from truthful.study import Study
from truthful.study.declaration import PLAYER


@dataclass(frozen=True, eq=False)
class Gathered:
    """The result of the first pass over a piece: exact sums, and findings about records, levels and players."""

    sums: Sums
    cells: LevelCounts
    account: BadRecords
    hashes: Any  # of all players, or where they are stored
    most: int = 0  # the most they can be due together, in millionths, where that depends on features


def gather_piece(
    study: Study,
    transform: Transform | None,
    norm: str,
    key: bytes,
    on_bad: str,
    repeats: Repeats,
    piece: Piece,
    most_of: MostOf | None = None,
) -> Iterator[Gathered]:
    """The first pass: check every record, sum products with its instruments, and the most that people can be due.

    Hashes are included until repeats are known: players with two records are searched for once.
    """
    intake = Intake(study, on_bad, repeats=repeats)
    tally, cells = SumsTally(study.dimension, transform, norm), LevelCounts.zero(study)
    hashes, predictions, most = [NOTHING], 0, 0
    for batch in intake.batches(piece):
        kx, ky, *asked = batch.on_grid()
        tally.add(kx, ky)
        for km in asked:
            predictions += int(km.sum())  # whole numbers below 2⁵³, so exact
        cells.add(batch.values)
        most += 0 if most_of is None else int(most_of(kx).sum())
        if not len(repeats):
            hashes.append(player_hashes(batch.everyone, key))
    sums = tally.sums if study.levels is None else replace(tally.sums, predictions=predictions)
    yield Gathered(sums, cells, intake.account, np.concatenate(hashes), most)


def measure_piece(
    study: Study, on_bad: str, repeats: Repeats, piece: Piece
) -> Iterator[tuple[Rows, Any, Floats]]:
    """A pass over features alone: the row of every good record, its player, and her features on the grid."""
    for batch in Intake(study, on_bad, repeats=repeats).batches(piece):
        yield batch.rows, batch.players, batch.on_grid()[0]


def suspect_piece(key: bytes, repeated: Hashes, piece: Piece) -> Iterator[list[tuple[int, str | int]]]:
    """A pass over ids that share a hash: the rows of a piece that have one, and their players."""
    yield list(suspects(piece.only(PLAYER).batches(), piece.first_row, key, repeated))


def pay_piece(
    study: Study, on_bad: str, repeats: Repeats, master: Paymaster, till: Till, piece: Piece
) -> Iterator[tuple[Any, PaidTotals]]:
    """The second pass: each player's record as used and its results, and totals paid, batch by batch."""
    lot = till.lots[piece.number]
    for batch in Intake(study, on_bad, repeats=repeats).batches(piece):
        grid, records = batch.on_grid(), batch.records
        scored = master.score_players(*grid)
        most = till.most(grid[0])
        coins = in_coins(np.rint(scored.payment * PAYMENT_STEPS).astype(np.int64), most, lot, till.digits)
        lot = lot.after(len(most), int(most.sum()), till.digits)
        columns = {name: arrow_numbers(column) for name, column in vars(scored).items()}
        columns[PAID] = arrow_numbers(coins / 10**till.digits)
        arrays = [batch.players, *records.columns, *columns.values()]
        receipts = pa.record_batch(arrays, names=[PLAYER, *records.schema.names, *columns])
        yield receipts, paid_in(scored.payment, coins)


#: The most that people with these features on the grid can be due, in millionths.
MostOf = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Till:
    """Rounds payments to coins (`truthful.coins`): the lot of each piece's first player, and the most people can be
    due, each by her features or all alike.
    """

    digits: int
    lots: tuple[Lot, ...]
    most_of: MostOf | None
    most_each: int

    def most(self, kx: Floats) -> Ints:
        """The most that every player can be due, in millionths."""
        each = np.full(len(kx), self.most_each) if self.most_of is None else self.most_of(kx)
        return each.astype(np.int64)


def open_till(digits: int, lot: Lot, statistics: Statistics, most_of: MostOf | None, most_each: int) -> Till:
    """A till for the people of the first pass."""
    lots = [lot]
    for players, most in statistics.pieces:
        lots.append(lots[-1].after(players, players * most_each if most_of is None else most, digits))
    return Till(digits, tuple(lots), most_of, most_each)


#: Called with the number of rows done, and of all rows if known.
RowsDone = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Statistics:
    """The result of the first pass: exact sums, counts of levels, and how records were treated."""

    sums: Sums
    cells: LevelCounts
    on_bad: str
    repeats: Repeats
    treated: Counts
    pieces: tuple[tuple[int, int], ...] = ()
    """For every piece its players, and the most they can be due together where that depends on features."""

    @property
    def players(self) -> int:
        """The total number of players."""
        return self.sums.count


def gather(
    reports: Reports,
    study: Study,
    transform: Transform | None,
    norm: str,
    key: bytes,
    on_bad: str,
    engine: Engine,
    rows_done: RowsDone,
    most_of: MostOf | None = None,
) -> Statistics:
    """First pass: check every record and sum products with its instruments, exactly.

    Bad records end it (or are dropped, or clipped, as `on_bad` says) before anything is drawn. Players with two records
    are found by the same pass; only if there are any, the source is read again without them. `key` is a fresh one for
    that search, so that nobody can choose ids that share a hash; nothing else depends on it.
    """
    task, repeats = partial(gather_piece, study, transform, norm, key, on_bad, most_of=most_of), NO_REPEATS
    with engine.duplicates(reports) as duplicates:
        first = duplicates.task(partial(task, NO_REPEATS))
        added = _add_up(reports, study, on_bad, first, engine, rows_done, duplicates.add)
        repeated = duplicates.repeated()
    if len(repeated):
        suspected = engine.run(partial(suspect_piece, key, repeated), engine.pieces(reports))
        repeats = later_records(chain.from_iterable(suspected))
        if len(repeats):  # else different players share a hash
            again = partial(task, repeats)
            added = _add_up(reports, study, on_bad, again, engine, rows_done)
    sums, cells, intake, pieces = added
    return Statistics(sums, cells, on_bad, repeats, intake.finish(), pieces)


def measure(
    reports: Reports, study: Study, statistics: Statistics, engine: Engine
) -> Iterator[tuple[Rows, Any, Floats]]:
    """Read features again: rows, players and features on the grid, of the good records in order."""
    task = partial(measure_piece, study, statistics.on_bad, statistics.repeats)
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
    till: Till,
    books: Books,
    engine: Engine,
    rows_done: RowsDone,
) -> PaidTotals:
    """Second pass: pay everybody, and write her receipt."""
    task = books.task(partial(pay_piece, study, statistics.on_bad, statistics.repeats, master, till))
    paid = PaidTotals()
    for receipts, more in engine.run(task, engine.pieces(reports)):
        books.write(receipts)
        paid += more
        rows_done(paid.players, statistics.players)
    reports.read_whole(statistics.treated.records)
    pa.default_memory_pool().release_unused()
    return paid


def _add_up(
    reports: Reports,
    study: Study,
    on_bad: str,
    task: Callable[[Piece], Iterator[Gathered]],
    engine: Engine,
    rows_done: RowsDone,
    take_hashes: Callable[[Any], None] | None = None,
) -> tuple[Sums, LevelCounts, Intake, tuple[tuple[int, int], ...]]:
    """A pass over the reports, before bad records are considered."""
    intake = Intake(study, on_bad)
    intake.open(reports)
    sums, cells, pieces = Sums.zero(study.dimension), LevelCounts.zero(study), []
    for part in engine.run(task, engine.pieces(reports)):
        if take_hashes is not None:
            take_hashes(part.hashes)
        sums, cells = sums + part.sums, cells + part.cells
        intake.account.extend(part.account)
        pieces.append((part.sums.count, part.most))
        rows_done(intake.account.all_records, reports.rows)
    reports.read_whole(intake.account.all_records)
    pa.default_memory_pool().release_unused()  # what was read is not needed again
    return sums, cells, intake, tuple(pieces)

"""What is done with one piece of the reports, by whichever worker has it.

Tasks can be sent to other processes, and done again if a worker is lost: what they give depends on the piece alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from truthful import kernels
from truthful.asked_release import AskedPaymaster, AskedScored
from truthful.check import Floats
from truthful.groups import Hashes, player_hashes
from truthful.instruments import Transform
from truthful.intake import Checked, Intake
from truthful.intake.columns import arrow_numbers
from truthful.intake.duplicates import NOTHING, Repeats, suspects
from truthful.intake.intake import Cells
from truthful.intake.records import BadRecords
from truthful.intake.sources import Piece
from truthful.intake.tiles import Tiles
from truthful.moments import Sums, SumsTally
from truthful.one_release_payments import Paymaster, Scored
from truthful.payments import PAYMENT_STEPS
from truthful.share_release import SharePaymaster
from truthful.study import Study
from truthful.study.declaration import PLAYER

T = TypeVar("T")
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gathered:
    """What the first pass leaves of a piece: exact sums, and what was found of records, levels and players."""

    sums: Sums
    cells: Cells
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
        intake, tiles = Intake(self.study, self.on_bad, repeats=self.repeats), Tiles(self.study)
        tally = SumsTally(self.study.dimension, self.transform, self.norm)
        cells = Cells.zero(self.study)
        hashes, predictions = [NOTHING], 0
        for batch, added in _used(intake, piece, lambda batch: tiles.add(batch.values, batch.count, tally)):
            if not added:
                tally.add(*batch.on_grid())
            for km in batch.predictions_on_grid():
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
        intake, tiles = Intake(self.study, self.on_bad, repeats=self.repeats), Tiles(self.study)
        for batch, grid in _used(intake, piece, lambda batch: tiles.on_grid(batch.values, batch.count)):
            yield batch.rows, batch.players, (batch.on_grid() if grid is None else grid)[0]


@dataclass(frozen=True, eq=False)
class Suspect:
    """A look at the ids that share a hash: the rows of a piece that have one, and their players."""

    key: bytes
    repeated: Hashes

    def __call__(self, piece: Piece) -> Iterator[list[tuple[int, str | int]]]:
        yield list(suspects(piece.only(PLAYER).batches(), piece.first_row, self.key, self.repeated))


@dataclass(frozen=True)
class Paid:
    """How many players were paid how much, exactly, and the extremes, for the private summary."""

    players: int = 0
    total: Fraction = Fraction(0)
    least: float = np.inf
    most: float = -np.inf

    def __add__(self, other: Paid) -> Paid:
        return Paid(
            self.players + other.players,
            self.total + other.total,
            min(self.least, other.least),
            max(self.most, other.most),
        )


@dataclass(frozen=True, eq=False)
class Pay:
    """The second pass: pay everybody, and write her receipt."""

    study: Study
    on_bad: str
    repeats: Repeats
    master: Paymaster | SharePaymaster | AskedPaymaster

    def __call__(self, piece: Piece) -> Iterator[tuple[Any, Paid]]:
        """Receipts, batch by batch, each with what was paid."""
        intake, tiles = Intake(self.study, self.on_bad, repeats=self.repeats), Tiles(self.study)
        master = self.master

        def without_each(batch: Checked) -> tuple[Floats, ...] | None:
            if not isinstance(master, Paymaster):
                return None  # what is paid for shares and predictions follows from features themselves
            return tiles.without_each(batch.values, batch.count, master.others)

        for batch, found in _used(intake, piece, without_each):
            scored: Scored | AskedScored
            if found is None or not isinstance(master, Paymaster):
                scored = master.scored(*batch.on_grid(), *batch.predictions_on_grid())
            else:
                scored = master.score(*found)
            yield receipts_of(batch, vars(scored)), paid_in(scored.payment)


def _used(
    intake: Intake, piece: Piece, use: Callable[[Checked], T | None]
) -> Iterator[tuple[Checked, T | None]]:
    """The good records of each batch, and what `use` makes of them.

    `use` sees values that are out of range, and then makes nothing of them: only such a batch is checked rule by rule.
    """
    for first_row, batch in piece.numbered():
        glanced = intake.glance(batch, first_row)
        if glanced is not None:
            made = use(glanced)
            if made:
                intake.account.all_records += batch.num_rows
                yield glanced, made
                continue
        checked = intake.check(batch, first_row)
        yield checked, use(checked)


def paid_in(payments: Floats) -> Paid:
    """Payments are whole numbers of steps: added as integers, in two parts so that no sum overflows."""
    high, low = kernels.total_steps(payments, float(PAYMENT_STEPS))
    total = Fraction(int(high) * 2**32 + int(low), PAYMENT_STEPS)
    return Paid(len(payments), total, payments.min(initial=np.inf), payments.max(initial=-np.inf))


def receipts_of(batch: Checked, columns: Mapping[str, Any]) -> Any:
    """Each player's record as it was used, and the columns that say what came of it, the payment last."""
    records = batch.records
    arrays = [batch.players, *records.columns, *(arrow_numbers(column) for column in columns.values())]
    return pa.record_batch(arrays, names=[PLAYER, *records.schema.names, *columns])

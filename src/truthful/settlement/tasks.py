"""What is done with one piece of the reports, by whichever worker has it.

Tasks can be sent to other processes, and done again if a worker is lost: what they give depends on the piece alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from truthful import kernels
from truthful.check import Floats
from truthful.groups import Hashes, groups_of, player_hashes
from truthful.intake import Checked, Intake
from truthful.intake.duplicates import NOTHING, Repeats, suspects
from truthful.intake.pieces import Piece
from truthful.intake.records import BadRecords
from truthful.intake.tiles import Tiles, Values
from truthful.moments import Groups, Moments, Tally
from truthful.payments import PAYMENT_STEPS, Paymaster
from truthful.study import Study
from truthful.study.declaration import PLAYER

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Gathered:
    """What the first pass leaves of a piece: the moments of each half, and what was found of records and players."""

    halves: tuple[Moments, Moments]
    account: BadRecords
    hashes: Any  # of all players, or where they lie


@dataclass(frozen=True, eq=False)
class Gather:
    """The first pass: check every record, add up the exact statistics of the two halves.

    Hashes are given as long as no repeats are known: players with two records are looked for once.
    """

    study: Study
    key: bytes
    on_bad: str
    repeats: Repeats

    def __call__(self, piece: Piece) -> Iterator[Gathered]:
        intake, tiles = Intake(self.study, self.on_bad, repeats=self.repeats), Tiles(self.study)
        tally, hashes = Tally(self.study.dimension), [NOTHING]

        def add(values: Values, groups: Groups) -> bool:
            return tiles.add(values, groups, tally)

        for batch, everyone, groups, added in _used(intake, piece, self.key, add):
            hashes.append(everyone)
            if not added:
                tally.add(*batch.on_grid(), groups)
        yield Gathered(tally.halves, intake.account, NOTHING if len(self.repeats) else np.concatenate(hashes))


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
    key: bytes
    on_bad: str
    repeats: Repeats
    master: Paymaster

    def __call__(self, piece: Piece) -> Iterator[tuple[Any, Paid]]:
        """Receipts, batch by batch, each with what was paid."""
        intake, tiles = Intake(self.study, self.on_bad, repeats=self.repeats), Tiles(self.study)
        master = self.master

        def predict(values: Values, groups: Groups) -> tuple[Floats, ...] | None:
            return tiles.predictions(values, groups, master.peers)

        for batch, _, groups, seen in _used(intake, piece, self.key, predict):
            if seen is None:
                payments = master.payments(*batch.on_grid(), groups)
            else:
                r, y, p, noise = seen
                payments = master.payable(p, master.own_predictions(r, y, noise, groups))
            yield _receipts(batch, groups, payments), _paid(payments)


def _used(
    intake: Intake, piece: Piece, key: bytes, use: Callable[[Values, Groups], T | None]
) -> Iterator[tuple[Checked, Hashes, Groups, T | None]]:
    """The good records of each batch, everyone's hashes, the groups of the good, and what `use` makes of them.

    `use` sees values that are out of range, and then makes nothing of them: only such a batch is checked rule by rule.
    """
    for first_row, batch in piece.numbered():
        glanced = intake.glance(batch, first_row)
        if glanced is not None:
            hashes = player_hashes(glanced.players, key)
            groups = groups_of(hashes)
            made = use(glanced.values, groups)
            if made:
                intake.account.all_records += batch.num_rows
                yield glanced, hashes, groups, made
                continue
        checked = intake.check(batch, first_row)
        hashes = player_hashes(checked.everyone, key)
        good = hashes if checked.players is checked.everyone else player_hashes(checked.players, key)
        groups = groups_of(good)
        yield checked, hashes, groups, use(checked.values, groups)


def _paid(payments: Floats) -> Paid:
    """Payments are whole numbers of steps: added as integers, in two parts so that no sum overflows."""
    high, low = kernels.total_steps(payments, float(PAYMENT_STEPS))
    total = Fraction(int(high) * 2**32 + int(low), PAYMENT_STEPS)
    return Paid(len(payments), total, payments.min(initial=np.inf), payments.max(initial=-np.inf))


def _receipts(batch: Checked, groups: Groups, payments: Floats) -> Any:
    """Each player's record as it was used, her group and her payment."""
    columns = {
        "player": batch.players,
        **dict(zip(batch.records.schema.names, batch.records.columns, strict=True)),
        "group": pa.array(groups),
        "payment": pa.array(payments),
    }
    return pa.record_batch(columns)

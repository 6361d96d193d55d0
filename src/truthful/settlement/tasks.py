"""What is done with one piece of the reports, by whichever worker has it.

Tasks can be sent to other processes, and done again if a worker is lost: what they give depends on the piece alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from truthful import kernels
from truthful.check import Floats
from truthful.groups import Hashes, groups_of, player_hashes
from truthful.intake import Checked, Intake
from truthful.intake.duplicates import NOTHING, Repeats, suspects
from truthful.intake.pieces import Piece
from truthful.intake.records import BadRecords
from truthful.intake.tiles import Tiles
from truthful.moments import Moments, Tally
from truthful.payments import PAYMENT_STEPS, Paymaster
from truthful.study import Study
from truthful.study.declaration import PLAYER


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
        intake, tally = Intake(self.study, self.on_bad, repeats=self.repeats), Tally(self.study.dimension)
        hashes, tiles = [NOTHING], Tiles(self.study)
        for batch in intake.batches(piece):
            hashes.append(player_hashes(batch.everyone, self.key))
            groups = groups_of(
                hashes[-1] if batch.players is batch.everyone else player_hashes(batch.players, self.key)
            )
            if not tiles.add(batch.values, groups, tally):
                tally.add(*batch.on_grid(), groups)
        wanted = NOTHING if len(self.repeats) else np.sort(np.concatenate(hashes))
        yield Gathered(tally.halves, intake.account, wanted)


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
        intake, tiles, master = (
            Intake(self.study, self.on_bad, repeats=self.repeats),
            Tiles(self.study),
            self.master,
        )
        for batch in intake.batches(piece):
            groups = groups_of(player_hashes(batch.players, self.key))
            seen = tiles.predictions(batch.values, groups, master.peers)
            if seen is None:
                payments = master.payments(*batch.on_grid(), groups)
            else:
                r, y, p, noise = seen
                payments = master.payable(p, master.own_predictions(r, y, noise, groups))
            yield _receipts(batch, groups, payments), _paid(payments)


def _paid(payments: Floats) -> Paid:
    """Payments are whole numbers of steps: added as integers, in two parts so that no sum overflows."""
    high, low = kernels.total_steps(payments, float(PAYMENT_STEPS))
    total = Fraction(int(high) * 2**32 + int(low), PAYMENT_STEPS)
    return Paid(len(payments), total, payments.min(initial=np.inf), payments.max(initial=-np.inf))


def _receipts(batch: Checked, groups: npt.NDArray[np.uint8], payments: Floats) -> Any:
    """Each player's record as it was used, her group and her payment."""
    columns = {
        "player": batch.players,
        **dict(zip(batch.records.schema.names, batch.records.columns, strict=True)),
        "group": pa.array(groups),
        "payment": pa.array(payments),
    }
    return pa.record_batch(columns)

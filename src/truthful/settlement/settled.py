"""A settled study, as `settle` gives it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet

from truthful.errors import InputError
from truthful.files import pretty_json, write_atomically
from truthful.release import AnyReceipt, AnyRelease, find_receipt
from truthful.report import report_or_notice
from truthful.settlement.atomic_release import Account, Target
from truthful.settlement.books import PAYMENTS, RECEIPTS, MemoryBooks
from truthful.settlement.draw import Draw

#: Told as a settlement goes on: the stage, rows done, rows in all if known.
Progress = Callable[[str, int, int | None], None]
#: Told how many rows are done, and how many there are if known.
RowsDone = Callable[[int, int | None], None]


@dataclass(frozen=True, eq=False)
class Settlement:
    """A settled study: the public release, and the books, private to whoever pays and to each player."""

    release: AnyRelease
    summary: dict[str, Any]
    directory: Path | None = None
    memory: MemoryBooks | None = None

    @cached_property
    def payments(self) -> Any:
        """Arrow table: player, payment."""
        if self.memory is not None:
            return self.memory.payments
        return pyarrow.parquet.read_table(self._file(PAYMENTS))

    @cached_property
    def receipts(self) -> Any:
        """Arrow table of every player's receipt."""
        return (
            self.memory.receipts
            if self.memory is not None
            else pyarrow.parquet.read_table(self._file(RECEIPTS))
        )

    def receipt(self, player: str | int) -> AnyReceipt:
        """One player's receipt."""
        return find_receipt(self.receipts, player)

    def _file(self, name: str) -> Path:
        if self.directory is None:
            raise InputError(f"This settlement was not written to a directory; it has no {name}.")
        if not (self.directory / name).exists():
            raise InputError(f"This settlement has no {name}: it was told to keep its payments alone.")
        return self.directory / name


def stage(progress: Progress | None, name: str) -> RowsDone:
    """How one stage tells of itself."""

    def rows_done(done: int, rows: int | None) -> None:
        if progress is not None:
            progress(name, done, rows)

    return rows_done


def finished(
    target: Target, account: Account, draw: Draw, release: AnyRelease, summary: dict[str, Any]
) -> Settlement:
    """The last writes, in the order that truthful.settlement.atomic_release argues for: files, ledger, one rename."""
    release.save(target.unfinished / "release.json")
    write_atomically(target.unfinished / "report.html", report_or_notice(release, account.plan))
    write_atomically(target.unfinished / "settlement.json", pretty_json(summary))
    target.tidy()
    account.enter(draw, target.final.name)
    target.publish()
    return Settlement(release, summary, directory=target.final)

"""Players who appear twice, found without holding the players in memory.

One pass collects a 64-bit keyed hash of every id. Hashes that repeat are found by sorting: in memory or, past
a threshold, in partition files split by the top bits of the hash. Equal ids have equal hashes, so no repeat
is missed; different ids may share one (among n players with probability below n²/2⁶⁵), so a second look at
the source compares the ids themselves. That look is taken only if some hash repeats.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.groups import player_hashes
from truthful.intake.columns import missing_text, player_ids

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
T = TypeVar("T")

NOTHING: Hashes = np.zeros(0, dtype=np.uint64)
IN_MEMORY = 2_000_000  # hashes, 16 MB
PARTITION_BITS = 8  # 256 files: a billion hashes make files of 32 MB


@dataclass(frozen=True, eq=False)
class Repeats:
    """Records whose player already had one: their rows, ascending from 1, and the row of her first record."""

    rows: Rows
    first_rows: Rows

    def __len__(self) -> int:
        return len(self.rows)


NO_REPEATS = Repeats(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class Duplicates:
    """Collects hashes and tells which of them came more than once. Use it in a `with` block.

    `task` is a pass over the reports as workers make it for this search: here, one that gives the hashes themselves.
    """

    def __init__(self, directory: Path | None = None, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = check.integer("in_memory", in_memory)
        self._directory = directory
        self._held: list[Hashes] = []
        self._held_count = 0
        self._spill: Path | None = None

    def task(self, gather: T) -> T:
        return gather

    def add(self, hashes: Hashes) -> None:
        """Take in the hashes of one piece; workers have sorted them already."""
        self._held.append(hashes if (hashes[1:] >= hashes[:-1]).all() else np.sort(hashes))
        self._held_count += len(hashes)
        if self._held_count > self._in_memory:
            self._spill_held()

    def repeated(self) -> Hashes:
        """The hashes that came more than once, each once, ascending."""
        if self._spill is None:
            return repeated_in(_merged(self._held))
        self._spill_held()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            return np.concatenate(list(pool.map(_repeated_on_disk, sorted(self._spill.iterdir()))))

    def close(self) -> None:
        """Forget the hashes and remove the partition files."""
        self._held, self._held_count = [], 0
        if self._spill is not None:
            self._remove()
            self._spill = None

    def __enter__(self) -> Duplicates:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spill_held(self) -> None:
        if self._spill is None:
            self._spill = Path(tempfile.mkdtemp(prefix="truthful-", dir=self._directory))
            self._remove = weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        tops = np.arange(1, 2**PARTITION_BITS, dtype=np.uint64) << np.uint64(64 - PARTITION_BITS)
        runs = [np.split(run, np.searchsorted(run, tops)) for run in self._held]
        self._held, self._held_count = [], 0
        for number, parts in enumerate(zip(*runs, strict=True)):
            with open(self._spill / f"{number:03d}", "ab") as file:
                np.concatenate([NOTHING, *parts]).tofile(file)


def _merged(runs: list[Hashes]) -> Hashes:
    hashes = np.concatenate([NOTHING, *runs])
    hashes.sort()
    return hashes


def _repeated_on_disk(path: Path) -> Hashes:
    hashes = np.fromfile(path, dtype=np.uint64)
    hashes.sort()
    return repeated_in(hashes)


def repeated_in(ascending: Hashes) -> Hashes:
    """The hashes that come more than once among sorted ones, each once."""
    return np.unique(ascending[1:][ascending[1:] == ascending[:-1]])


def find_duplicates(batches: Iterable[Any], key: bytes, repeated: Hashes) -> Repeats:
    """The records whose player already had one, among those whose id has one of the `repeated` hashes.

    `batches` are the reports from the beginning. Ids are compared themselves: a shared hash is no duplicate.
    """
    return later_records(suspects(batches, 1, key, repeated))


def suspects(
    batches: Iterable[Any], first_row: int, key: bytes, repeated: Hashes
) -> Iterator[tuple[int, str | int]]:
    """The rows, counted on from `first_row`, whose player has one of the `repeated` hashes, and who that is."""
    for batch in batches:
        ids = player_ids(batch.column("player"))
        given = np.flatnonzero(~missing_text(ids))
        hashes = player_hashes(ids.take(given), key)
        for index in given[np.isin(hashes, repeated)]:
            yield first_row + int(index), ids[int(index)].as_py()
        first_row += batch.num_rows


def later_records(found: Iterable[tuple[int, str | int]]) -> Repeats:
    """Of rows and their players, in order, those whose player came before."""
    first_rows: dict[str | int, int] = {}
    pairs = []
    for row, player in found:
        first_row = first_rows.setdefault(player, row)
        if first_row != row:
            pairs.append((row, first_row))
    rows, firsts = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Repeats(rows, firsts)

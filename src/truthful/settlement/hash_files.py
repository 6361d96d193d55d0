"""Players who appear twice, found by many workers: hashes stay in files that all of them see, and never meet.

Each worker leaves the sorted hashes of its piece in a file. A hash repeats somewhere if it does in the range of values
it lies in, and a range is looked through by one worker, which reads its part of every file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np

from truthful.errors import InputError
from truthful.files import written_whole
from truthful.groups import Hashes
from truthful.intake.duplicates import IN_MEMORY, NOTHING, repeated_in
from truthful.intake.sources import Piece
from truthful.settlement.tasks import Gathered

Gathering = Callable[[Piece], Iterator[Gathered]]
Range = tuple[int, int]  # the least and the largest value


@dataclass(frozen=True)
class HashFile:
    """The sorted hashes of one piece."""

    path: str
    count: int


@dataclass(frozen=True, eq=False)
class FileHashes:
    """A first pass that leaves its hashes in a file, and gives only its name."""

    gather: Gathering
    directory: Path

    def __call__(self, piece: Piece) -> Iterator[Gathered]:
        path = self.directory / f"{piece.number:05d}.npy"
        for part in self.gather(piece):
            with written_whole(path) as temporary, open(temporary, "wb") as file:
                np.save(file, np.sort(part.hashes))
            yield replace(part, hashes=HashFile(str(path), len(part.hashes)))


@dataclass(frozen=True, eq=False)
class RepeatedWithin:
    """The hashes of a range that come more than once in all files together."""

    paths: tuple[str, ...]

    def __call__(self, within: Range) -> Iterator[Hashes]:
        found = np.concatenate([NOTHING, *(_within(path, *map(np.uint64, within)) for path in self.paths)])
        yield repeated_in(found)


class FiledDuplicates:
    """Does what Duplicates does, with hashes that lie in a directory shared by all workers.

    `run` has a task done for each of some ranges, by whichever worker.
    """

    def __init__(
        self,
        directory: Path,
        run: Callable[[RepeatedWithin, Iterable[Range]], Iterator[Hashes]],
        in_memory: int = IN_MEMORY,
    ) -> None:
        self._directory, self._run, self._in_memory = directory, run, in_memory
        self._files: list[HashFile] = []

    def task(self, gather: Gathering) -> Gathering:
        return FileHashes(gather, self._directory)

    def add(self, hashes: HashFile) -> None:
        if not os.path.exists(hashes.path):
            raise InputError(
                f"A worker wrote to {str(self._directory.parent)!r}, but what it wrote is not there on this machine. "
                "Let the settlement go to a directory that the workers and this machine share."
            )
        self._files.append(hashes)

    def repeated(self) -> Hashes:
        """The hashes that came more than once, each once, ascending."""
        count = sum(file.count for file in self._files)
        task = RepeatedWithin(tuple(file.path for file in self._files if file.count))
        return np.concatenate([NOTHING, *self._run(task, ranges(-(-count // self._in_memory)))])

    def __enter__(self) -> FiledDuplicates:
        self._directory.mkdir(mode=0o700)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def ranges(number: int) -> Iterator[Range]:
    """So many ranges of nearly equal length that make up all 64-bit values: keyed hashes fill them evenly."""
    edges = [k * 2**64 // number for k in range(number + 1)] if number else []
    for low, end in pairwise(edges):
        yield low, end - 1


def _within(path: str, low: np.uint64, high: np.uint64) -> Hashes:
    hashes: Hashes = np.load(path, mmap_mode="r")  # only what is looked at is read
    part = hashes[np.searchsorted(hashes, low, "left") : np.searchsorted(hashes, high, "right")]
    return np.array(part)

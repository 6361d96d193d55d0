"""Players who appear twice, found without holding the players in memory.

One pass collects a 64-bit keyed hash of every id, those of a piece parted by their top bits: in memory or, past a
threshold, in a file. Hashes that repeat are in one part, which is looked through on its own. Equal ids have equal
hashes, so no repeat is missed; different ids may share one (among n players with probability below n²/2⁶⁵), so a
second look at the source compares the ids themselves. That look is taken only if some hash repeats.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from truthful import check
from truthful.compiled import compiled
from truthful.errors import InputError
from truthful.intake.columns import missing_text, player_ids

Hashes = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]
T = TypeVar("T")

NOTHING: Hashes = np.zeros(0, dtype=np.uint64)
IN_MEMORY = 2_000_000  # hashes, 16 MB
PART_BITS = 8  # 256 parts: of a billion hashes each has 32 MB


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
        self._held: list[Hashes] = []  # pieces, each ordered by parts
        self._held_count = 0
        self._starts: list[Rows] = []  # of the parts of every piece, among all hashes
        self._file: Any = None

    def task(self, gather: T) -> T:
        return gather

    def add(self, hashes: Hashes) -> None:
        """Take in the hashes of one piece."""
        parts = (hashes >> np.uint64(64 - PART_BITS)).astype(np.uint8)
        before = self._starts[-1][-1] if self._starts else 0
        counts = np.bincount(parts, minlength=2**PART_BITS)
        self._starts.append(before + np.concatenate([[0], np.cumsum(counts)]))
        self._held.append(hashes[np.argsort(parts, kind="stable")])
        self._held_count += len(hashes)
        if self._held_count > self._in_memory:
            self._spill()

    def repeated(self) -> Hashes:
        """The hashes that came more than once, each once, ascending."""
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = pool.map(lambda part: repeated_in(self._part(part)), range(2**PART_BITS))
            return np.concatenate(list(found))

    def close(self) -> None:
        """Forget the hashes and remove the file."""
        self._held, self._held_count, self._starts = [], 0, []
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Duplicates:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _spill(self) -> None:
        if self._file is None:
            self._file = _open_unnamed(self._directory)
        for ordered in self._held:
            ordered.tofile(self._file)
        self._held, self._held_count = [], 0

    def _part(self, part: int) -> Hashes:
        """The hashes that begin with these bits."""
        spilled = len(self._starts) - len(self._held)
        runs = [NOTHING]
        for piece, starts in enumerate(self._starts):
            start, end = starts[part], starts[part + 1]
            if piece < spilled:
                data = os.pread(self._file.fileno(), 8 * (end - start), 8 * start)
                runs.append(np.frombuffer(data, dtype=np.uint64))
            else:
                runs.append(self._held[piece - spilled][start - starts[0] : end - starts[0]])
        return np.concatenate(runs)


def _open_unnamed(directory: Path | None) -> Any:
    """A file that nobody else can open, and that is gone when it is closed."""
    return tempfile.TemporaryFile(prefix="truthful-", dir=directory, buffering=0)


def repeated_in(hashes: Hashes) -> Hashes:
    """The hashes that come more than once, each once, ascending."""
    ordered = np.sort(hashes)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


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


Groups = npt.NDArray[np.uint8]


def player_hashes(ids: Any, key: bytes) -> Hashes:
    """SipHash-2-4 of every id: of a string's UTF-8 bytes, of the 8 little-endian bytes of a 64-bit integer.

    `ids` is an Arrow array (strings of any layout, dictionaries of strings, integers of any width) or a NumPy
    array. The string "7" and the integer 7 are different ids.
    """
    if len(key) != 16:
        raise InputError(f"The key of player hashes has {len(key)} bytes; it must have 16.")
    k0, k1 = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    array = _plain(ids)
    hashes = np.empty(len(array), dtype=np.uint64)
    if pa.types.is_integer(array.type):
        _hash_words(_words(array), k0, k1, hashes)
    else:
        _hash_bytes(*_bytes(array), k0, k1, hashes)
    return hashes


def groups_of(hashes: Hashes) -> Groups:
    """The group, 0 or 1, of every player: the lowest bit of her hash."""
    return hashes.astype(np.uint8) & np.uint8(1)


def _plain(ids: Any) -> Any:
    """One contiguous Arrow array of integers or of large strings, without nulls."""
    array = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        raise InputError(
            f"The player id in row {pc.index(array.is_null(), True)} is missing; every player needs one."
        )
    if pa.types.is_integer(array.type):
        return array
    if (
        pa.types.is_string(array.type)
        or pa.types.is_large_string(array.type)
        or pa.types.is_string_view(array.type)
    ):
        return array.cast(pa.large_string())
    raise InputError(f"Player ids are of type {array.type}; they must be strings or whole numbers.")


def _words(array: Any) -> Hashes:
    """The integers as 64-bit words; unsigned ones past 2⁶³ keep their bytes."""
    wide = array if pa.types.is_uint64(array.type) else array.cast(pa.int64())
    words: Hashes = np.from_dlpack(wide).view(np.uint64)
    return words


def _bytes(array: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets and bytes of an Arrow array of large strings, which may be a slice of a longer one."""
    _, offsets, data = array.buffers()
    if data is None or not len(array):
        return np.zeros(len(array) + 1, dtype=np.int64), np.zeros(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, dtype=np.int64, count=len(array) + 1, offset=8 * array.offset)
    return bounds, np.frombuffer(data, dtype=np.uint8)


# Words of 64 bits overflow as they should in compiled code alone.
_loop: Any = compiled(few=False)
_inlined: Any = compiled(few=False, inline="always")


@_inlined
def _rotate(word, bits):  # type: ignore[no-untyped-def]
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@_inlined
def _round(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v0 += v1
    v2 += v3
    v1 = _rotate(v1, 13) ^ v0
    v3 = _rotate(v3, 16) ^ v2
    v0 = _rotate(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotate(v1, 17) ^ v2
    v3 = _rotate(v3, 21) ^ v0
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@_inlined
def _start(k0, k1):  # type: ignore[no-untyped-def]
    return (
        k0 ^ np.uint64(0x736F6D6570736575),
        k1 ^ np.uint64(0x646F72616E646F6D),
        k0 ^ np.uint64(0x6C7967656E657261),
        k1 ^ np.uint64(0x7465646279746573),
    )


@_inlined
def _absorb(v0, v1, v2, v3, word):  # type: ignore[no-untyped-def]
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@_inlined
def _finish(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v2 ^= np.uint64(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@_loop
def _hash_bytes(offsets, data, k0, k1, hashes):  # type: ignore[no-untyped-def]
    for i in range(hashes.size):
        at, end = offsets[i], offsets[i + 1]
        last = np.uint64(end - at) << np.uint64(56)
        v0, v1, v2, v3 = _start(k0, k1)
        while at + 8 <= end:
            word = np.uint64(0)
            for j in range(8):
                word |= np.uint64(data[at + j]) << np.uint64(8 * j)
            v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, word)
            at += 8
        for j in range(end - at):
            last |= np.uint64(data[at + j]) << np.uint64(8 * j)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, last)
        hashes[i] = _finish(v0, v1, v2, v3)


@_loop
def _hash_words(words, k0, k1, hashes):  # type: ignore[no-untyped-def]
    for i in range(hashes.size):
        v0, v1, v2, v3 = _start(k0, k1)
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, words[i])
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, np.uint64(8) << np.uint64(56))
        hashes[i] = _finish(v0, v1, v2, v3)

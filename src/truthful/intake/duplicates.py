"""Players who appear twice, found without holding the players in memory.

One pass collects a 64-bit keyed hash of every id, partitioned by its top bits: in memory or, past a threshold, in a
file. Equal hashes are in one part, and parts are searched one by one. Equal ids have equal hashes, so no repeat is
missed; different ids may share one (among n players with probability below n²/2⁶⁵), so a second look at the source
compares the ids themselves. It is skipped if no hash repeats.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from truthful import check
from truthful.errors import InputError
from truthful.intake.rules import Repeats, Rows, missing_text, player_ids

Hashes = npt.NDArray[np.uint64]
T = TypeVar("T")

NOTHING: Hashes = np.zeros(0, dtype=np.uint64)
IN_MEMORY = 2_000_000  # hashes, 16 MB
FEW = 100_000  # up to this many, one search is faster
PART_BITS = 8  # 256 parts: of a billion hashes each has 32 MB


class Duplicates:
    """Collects hashes and finds those that occur more than once. Use it in a `with` block.

    `task` is the pass over the reports that workers run for this search: here, one that returns the hashes themselves.
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
        """Add the hashes of one piece."""
        parts = (hashes >> np.uint64(64 - PART_BITS)).astype(np.uint8)
        before = self._starts[-1][-1] if self._starts else 0
        counts = np.bincount(parts, minlength=2**PART_BITS)
        self._starts.append(before + np.concatenate([[0], np.cumsum(counts)]))
        self._held.append(hashes[np.argsort(parts, kind="stable")])
        self._held_count += len(hashes)
        if self._held_count > self._in_memory:
            self._spill()

    def repeated(self) -> Hashes:
        """Hashes that occur more than once, each once, ascending."""
        if self._file is None and self._held_count <= FEW:
            return repeated_in(np.concatenate([NOTHING, *self._held]))
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

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _spill(self) -> None:
        if self._file is None:
            # A file that nobody else can open, gone when closed.
            self._file = tempfile.TemporaryFile(prefix="truthful-", dir=self._directory, buffering=0)  # noqa: SIM115
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


def repeated_in(hashes: Hashes) -> Hashes:
    """Hashes that occur more than once, each once, ascending."""
    ordered = np.sort(hashes)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def suspects(
    batches: Iterable[Any], first_row: int, key: bytes, repeated: Hashes
) -> Iterator[tuple[int, str | int]]:
    """Rows, numbered from `first_row`, whose player has one of the `repeated` hashes, with the player."""
    for batch in batches:
        ids = player_ids(batch.column("player"))
        given = np.flatnonzero(~missing_text(ids))
        hashes = player_hashes(ids.take(given), key)
        for index in given[np.isin(hashes, repeated)]:
            yield first_row + int(index), ids[int(index)].as_py()
        first_row += batch.num_rows


def later_records(found: Iterable[tuple[int, str | int]]) -> Repeats:
    """Among rows and their players, in order, the rows whose player came before."""
    first_rows: dict[str | int, int] = {}
    pairs = []
    for row, player in found:
        first_row = first_rows.setdefault(player, row)
        if first_row != row:
            pairs.append((row, first_row))
    rows, firsts = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Repeats(rows, firsts)


AT_A_TIME = 1 << 13  # ids hashed together, so that they stay in a near cache


def player_hashes(ids: Any, key: bytes) -> Hashes:
    """SipHash-2-4 of every id: of a string's UTF-8 bytes, of the 8 little-endian bytes of a 64-bit integer.

    `ids` is an Arrow array without nulls. The string "7" and the integer 7 are different ids.
    """
    if len(key) != 16:
        raise InputError(f"The key of player hashes has {len(key)} bytes; it must have 16.")
    parts = (ids.slice(start, AT_A_TIME) for start in range(0, len(ids), AT_A_TIME))
    return np.concatenate([NOTHING, *(_hash_part(part, key) for part in parts)])


def _hash_part(ids: Any, key: bytes) -> Hashes:
    """Mix the words of every id into its state v; longer ids take further rounds."""
    k0, k1 = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    start = [k0 ^ SEEDS[0], k1 ^ SEEDS[1], k0 ^ SEEDS[2], k1 ^ SEEDS[3]]
    v = np.repeat(np.array(start)[:, None], len(ids), axis=1)
    if pa.types.is_integer(ids.type):
        words = np.from_dlpack(ids if pa.types.is_uint64(ids.type) else ids.cast(pa.int64())).view(np.uint64)
        _absorb(v, words)
        _absorb(v, np.full(len(ids), 8 << 56, dtype=np.uint64))
    else:
        for rows, words in _words(ids.cast(pa.large_string())):
            some = v[:, rows]
            _absorb(some, words)
            v[:, rows] = some
    v[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round(*v)
    return np.asarray(v[0] ^ v[1] ^ v[2] ^ v[3])


SEEDS = np.frombuffer(b"somepseudorandomlygeneratedbytes", dtype=">u8").astype(np.uint64)


def _words(ids: Any) -> Iterator[tuple[Any, Hashes]]:
    """The 8-byte words: the ids that have a first word, and it, and so on. The last holds the length as well."""
    _, offsets, data = ids.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64, count=len(ids) + 1, offset=8 * ids.offset)
    text = (b"" if data is None else memoryview(data)[ends[0] : ends[-1]].tobytes()) + bytes(8)
    from_each_byte = np.ndarray(len(text) - 7, dtype="<u8", buffer=text, strides=(1,))
    at, lengths = ends[:-1] - ends[0], np.diff(ends)
    for begin in range(0, int(lengths.max(initial=-1)) + 1, 8):
        rows = np.flatnonzero(lengths >= begin)
        words, left = from_each_byte[at[rows] + begin].astype(np.uint64), lengths[rows] - begin
        last = left < 8
        bits = (8 * left[last]).astype(np.uint64)
        words[last] &= (np.uint64(1) << bits) - np.uint64(1)
        words[last] |= lengths[rows][last].astype(np.uint64) << np.uint64(56)
        yield rows, words


def _absorb(v: Hashes, words: Hashes) -> None:
    v[3] ^= words
    _round(*v)
    _round(*v)
    v[0] ^= words


def _round(v0: Hashes, v1: Hashes, v2: Hashes, v3: Hashes) -> None:
    v0 += v1
    v2 += v3
    v1[:] = _rotate(v1, 13) ^ v0
    v3[:] = _rotate(v3, 16) ^ v2
    v0[:] = _rotate(v0, 32)
    v2 += v1
    v0 += v3
    v1[:] = _rotate(v1, 17) ^ v2
    v3[:] = _rotate(v3, 21) ^ v0
    v2[:] = _rotate(v2, 32)


def _rotate(words: Hashes, bits: int) -> Hashes:
    return np.asarray((words << np.uint64(bits)) | (words >> np.uint64(64 - bits)))

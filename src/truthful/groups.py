"""A keyed pseudo-random function of the player's id: who has two records, and where there are random halves, her group.

SipHash-2-4 (Aumasson and Bernstein, 2012) under a secret key drawn per settlement. Nobody without the key can choose
ids that share a hash or predict a group, and whoever holds it gets the same for the same id in any batch, order or
process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from truthful.compiled import compiled
from truthful.errors import InputError

Hashes = npt.NDArray[np.uint64]
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

"""Slow, obviously right twins of the moments, the groups, the solves, the estimators and the shrinkage."""

from __future__ import annotations

from typing import Any

from truthful.check import Floats
from truthful.moments import GRID, Moments


def python_moments(kx: Floats, ky: Floats) -> Moments:
    """Sums of products, one Python integer at a time."""
    total = Moments.zero(kx.shape[1])
    gram, cross, square = total.gram, total.cross, 0
    for row, response in zip(kx.astype(int).tolist(), ky.astype(int).tolist(), strict=True):
        for i, a in enumerate(row):
            cross[i] += a * response
            for j, b in enumerate(row):
                gram[i, j] += a * b
        square += response * response
    return Moments(len(kx), gram, cross, square)


def integer_norm_excess(k: Floats) -> int:
    """The largest Σk² − 2⁴⁰ of any row, in Python integers."""
    return max(sum(int(value) ** 2 for value in row) for row in k) - GRID**2


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 as its paper describes it, on Python integers."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & mask

    def half_round(a: int, b: int, c: int, d: int, s: int, t: int) -> None:
        v[a], v[c] = (v[a] + v[b]) & mask, (v[c] + v[d]) & mask
        v[b], v[d] = rotate(v[b], s) ^ v[a], rotate(v[d], t) ^ v[c]
        v[a] = rotate(v[a], 32)

    def rounds(count: int) -> None:
        for _ in range(count):
            half_round(0, 1, 2, 3, 13, 16)
            half_round(2, 1, 0, 3, 17, 21)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def id_bytes(value: Any) -> bytes:
    """What is hashed of a player's id: its UTF-8 bytes, or its 8 little-endian bytes if it is a number."""
    return value.encode() if isinstance(value, str) else (int(value) % 2**64).to_bytes(8, "little")

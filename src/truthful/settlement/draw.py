"""Randomness of a release: derived from a secret key of the study and the exact statistics.

The same statistics give the same draw, whatever was killed, restored or copied meanwhile; other statistics give an
independent draw. So a repeated settlement releases the same again and spends nothing, and no draw has to be stored. The
key is made once, lies beside the ledger, and is destroyed when the release is in place: with it, anybody who guesses
the statistics could remove the noise.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from truthful.errors import InputError
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.files import sha256, sync, write_atomically
from truthful.lattice import KEY_BYTES, Bits, KeyedBits, SeededBits, sample, sample_sup

#: The version of this derivation and this sampler. Change it with either: two ways of drawing from one stream of bits
#: would give two draws that are not independent.
LABEL = "truthful/draw/1"


@dataclass(frozen=True, eq=False)
class Chance:
    """All randomness of one plan with one set of statistics, and its name in the ledger.

    `secret` determines the other draws: the rounding to coins, and the salt of a matrix that is withheld. The name
    reveals nothing of it: ledgers outlive what they name.
    """

    name: str
    secret: str
    noise: Bits


def keyed_chance(key: bytes, plan_sha256: str, statistics: str) -> Chance:
    """Randomness derived from a study's key and the hash of its exact statistics."""
    name, secret = (derived_name(key, use, plan_sha256, statistics) for use in ("name", "secret"))
    return Chance(name, secret, KeyedBits(key, f"{LABEL}/noise/{plan_sha256}/{statistics}"))


def derived_name(key: bytes, use: str, plan_sha256: str, about: str) -> str:
    """128 bits derived from the key and their use."""
    return f"{KeyedBits(key, f'{LABEL}/{use}/{plan_sha256}/{about}').bits(128):032x}"


def seeded_chance(seed: int, plan_sha256: str, statistics: str) -> Chance:
    """A rehearsal's randomness: repeatable, and no protection to anybody."""
    name = sha256([LABEL, seed, plan_sha256, statistics])[:32]
    return Chance(name, str(seed), SeededBits(seed))


@dataclass(frozen=True)
class Draw:
    """The outcome of chance: the released lattice points, in order, and names as in `Chance`."""

    name: str
    secret: str
    answers: tuple[tuple[int, ...], ...]


class Drawing:
    """Answers queries with exact lattice noise, and records its answers."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self.answers: list[tuple[int, ...]] = []

    def __call__(self, query: Query, epsilon: Fraction) -> Sequence[int]:
        size, scale = len(query.value), query.sensitivity / epsilon
        if query.norm == "sup":
            noise = sample_sup(size, scale, self._bits)
        else:
            noise = sample(size, scale, self._bits, query.weights)
        answer = tuple(value + k for value, k in zip(query.value, noise, strict=True))
        self.answers.append(answer)
        return answer


def replay(answers: Sequence[tuple[int, ...]]) -> AddNoise:
    """Answer queries with an earlier release, in the same order."""
    remaining = iter(answers)

    def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
        return next(remaining)

    return answer


# The key


def key_path(directory: Path, plan_sha256: str) -> Path:
    """The path of a plan's key, beside the ledger."""
    return directory / f"draw-{plan_sha256[:16]}.key"


def read_key(path: Path) -> bytes | None:
    """The key, if there is one; a file of zeros is a key about to be removed."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    if text and not text.strip(b"\0"):
        return None
    if not re.fullmatch(rb"[0-9a-f]{%d}\n" % (2 * KEY_BYTES), text):
        raise InputError(
            f"{path} decides the noise of a settlement and is not a key as this program writes them. Restore it from a "
            "backup; if no result of the study was ever released, remove it, and the next settlement makes another."
        )
    return bytes.fromhex(text.decode())


def ensure_key(path: Path) -> bytes:
    """The key, made if there is none: durable, and readable by its owner alone, before anything is derived from it."""
    key = read_key(path)
    if key is None:
        key = secrets.token_bytes(KEY_BYTES)
        write_atomically(path, f"{key.hex()}\n", private=True)
    return key


def destroy_key(path: Path) -> None:
    """Overwrite and remove the key. Copies that a disk or a backup keeps are out of reach."""
    if not path.exists():
        return
    with open(path, "r+b") as file:
        file.write(bytes(os.fstat(file.fileno()).st_size))
        file.flush()
        os.fsync(file.fileno())
    path.unlink()
    sync(path.parent)

"""One draw of noise, kept privately until its release is whole, so that a crash never leads to a second draw.

A settlement that is killed after drawing finds its draw again in the unfinished directory and completes
it: the same noise, the same release. Two draws on the same data would spend twice the privacy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

from truthful.errors import InputError
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.files import pretty_json, write_atomically
from truthful.lattice import Bits, sample, sample_sup

FILE = "draw.json"


@dataclass(frozen=True)
class Draw:
    """What chance decided: the released lattice points, in their order.

    `statistics` is the hash of the exact statistics they were drawn for: a draw belongs to one set of reports.
    """

    name: str
    plan_sha256: str
    seed: int | None
    statistics: str
    answers: tuple[tuple[int, ...], ...]

    @property
    def secret(self) -> str:
        """What else chance decides follows from it: the same whenever the draw is finished."""
        return self.name if self.seed is None else str(self.seed)

    def save(self, directory: Path) -> None:
        """Make the draw durable, readable by its owner only, before anything computed from it can be seen."""
        # Integers beyond 2^53 are written as text: not every reader of JSON keeps them whole.
        record = {**asdict(self), "answers": [[str(k) for k in answer] for answer in self.answers]}
        write_atomically(directory / FILE, pretty_json(record))
        os.chmod(directory / FILE, 0o600)


def read_draw(directory: Path) -> Draw | None:
    """The draw of an unfinished settlement, if there is one."""
    path = directory / FILE
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        answers = tuple(tuple(int(k) for k in answer) for answer in record.pop("answers"))
        return Draw(**record, answers=answers)
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} holds the noise of an unfinished settlement and cannot be read ({error}). Restore it, or remove "
            f"the directory {directory.name!r} to give that settlement up."
        ) from None


class Drawing:
    """Answers queries with exact lattice noise and keeps what it released."""

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
    """Answers queries with what was released before, in the same order."""
    remaining = iter(answers)

    def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
        return next(remaining)

    return answer

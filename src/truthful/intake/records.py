"""Bad records, told so that an analyst can correct them: which row, whose, what it says and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.errors import InputError

Mask = npt.NDArray[np.bool_]
Player = str | int | None
Tell = Callable[[int, Player], tuple[str, str]]  # place in the batch, player -> the value shown, the sentence

TEXT_SHOWN = 40  # characters


class Bad(StrEnum):
    """What can be wrong with a value, in the order in which advice is given."""

    NO_PLAYER = "without a player id"
    DUPLICATE = "duplicate"
    MISSING = "missing"
    NOT_A_NUMBER = "not a number"
    OUT_OF_RANGE = "out of range"
    OUT_OF_BALL = "out of the unit ball"
    UNKNOWN_LEVEL = "unknown level"
    NO_ANSWER = "not an answer"


ADVICE = {
    Bad.NO_PLAYER: "Give every record the id of its player.",
    Bad.DUPLICATE: "Keep one record for each player.",
    Bad.MISSING: "Fill in the value or leave the record out.",
    Bad.NOT_A_NUMBER: "Write a plain number, such as 12.5.",
    Bad.OUT_OF_RANGE: "Correct the record or widen the range in {study} (the range is public).",
    Bad.OUT_OF_BALL: "Correct the record or divide all features by one public number.",
    Bad.UNKNOWN_LEVEL: "Correct the record or add the level in {study} (the levels are public).",
    Bad.NO_ANSWER: "Correct the record, or leave it out if there is no answer.",
}


@dataclass(frozen=True, eq=False)
class Fault:
    """One kind of fault in one column of a batch: the records that have it, and how to tell each."""

    kind: Bad
    column: str
    mask: Mask
    tell: Tell


@dataclass(frozen=True)
class BadRecord:
    """One bad value. `row` counts records from 1; `column` is empty where the whole record is at fault."""

    row: int
    player: Player
    column: str
    value: str
    kind: Bad
    sentence: str


class BadRecords:
    """Counts every bad value and keeps the first ones, in the order of the source.

    `clipped` counts the values that were moved into their range, and are bad no more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = check.integer("limit", limit)
        self.first: list[BadRecord] = []
        self.counts: Counter[Bad] = Counter()
        self.all_records = 0
        self.bad_records = 0
        self.clipped = 0

    def note(self, faults: Sequence[Fault], ids: Any, first_row: int) -> Mask:
        """Take in the faults of one batch; gives which of its records are bad."""
        bad = np.zeros(len(ids), dtype=np.bool_)
        for fault in faults:
            bad |= fault.mask
            self.counts[fault.kind] += int(fault.mask.sum())
        self.all_records += len(ids)
        self.bad_records += int(bad.sum())
        room = self._limit - len(self.first)
        if room and faults:
            # Sorted by record; among the faults of one record, in the order given.
            places = [(int(i), fault) for fault in faults for i in np.flatnonzero(fault.mask)[:room]]
            places.sort(key=lambda place: place[0])
            self.first += [_told(fault, i, ids, first_row) for i, fault in places[:room]]
        return bad

    def extend(self, later: BadRecords) -> None:
        """Take in what was found in the records that follow."""
        self.first += later.first[: self._limit - len(self.first)]
        self.counts += later.counts
        self.all_records += later.all_records
        self.bad_records += later.bad_records
        self.clipped += later.clipped

    def error(self, where: str, study: Path | None) -> BadReports:
        """All of it as one error; `study` is the file in which ranges are declared."""
        return BadReports(where, "study.toml" if study is None else study.name, self)


class BadReports(InputError):
    """Some records are bad: the first of them, how many there are of each kind, and what to do."""

    def __init__(self, where: str, study: str, found: BadRecords) -> None:
        self.records = tuple(found.first)
        self.counts = {kind: found.counts[kind] for kind in Bad if found.counts[kind]}
        self.bad_records = found.bad_records
        self.all_records = found.all_records
        super().__init__(
            self._only(where, study) if sum(self.counts.values()) == 1 else self._all(where, study)
        )

    def _only(self, where: str, study: str) -> str:
        bad = self.records[0]
        return f"In {where}, row {bad.row}: {bad.sentence} {ADVICE[bad.kind].format(study=study)}"

    def _all(self, where: str, study: str) -> str:
        values, records = _plural(sum(self.counts.values()), "bad value"), _plural(self.all_records, "record")
        left = Counter(self.counts) - Counter(record.kind for record in self.records)
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in left.items())
        lines = [
            f"In {where} there are {values}, in {self.bad_records:,} of {records}:",
            *(f"  row {record.row}: {record.sentence}" for record in self.records),
            *([f"  and {left.total():,} more: {kinds}"] if left else []),
            *(f"{kind.capitalize()}: {ADVICE[kind].format(study=study)}" for kind in self.counts),
            "Or choose on_bad='clip' to move numbers into their range; where records are protected, 'drop' leaves "
            "out bad ones.",
        ]
        return "\n".join(lines)


def _told(fault: Fault, index: int, ids: Any, first_row: int) -> BadRecord:
    player = ids[index].as_py()
    player = None if isinstance(player, str) and not player.strip() else player
    value, sentence = fault.tell(index, player)
    return BadRecord(first_row + index, player, fault.column, value, fault.kind, sentence)


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def owner(player: Player) -> str:
    """Whose value it is."""
    return "a player without an id" if player is None else f"player {quoted(player)}"


def quoted(value: object) -> str:
    """A value as it was given, short enough to be read; control characters are escaped."""
    if isinstance(value, str) and len(value) > TEXT_SHOWN:
        return f"{value[:TEXT_SHOWN]!r}…"
    return repr(value)


def shown(number: float) -> str:
    """A number in the shortest form that tells it apart from its neighbours."""
    return repr(float(number)).removesuffix(".0")

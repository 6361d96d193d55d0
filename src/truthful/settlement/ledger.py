"""The ledger beside a study: every release ever drawn from it, and the privacy they spent together.

A second release of the same data lets an observer average the noise away, so its epsilon adds to the
first. The entry is made durable before a release can be seen: a crash can leave an entry without a release, never
a release without its entry.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from truthful.errors import InputError
from truthful.files import pretty_json, write_atomically

FORMAT = "truthful/ledger/1"


@dataclass(frozen=True)
class Entry:
    """One release: of which study by which plan, how much privacy, where it went, and when."""

    draw: str
    study: str
    study_sha256: str
    plan_sha256: str
    epsilon: float
    rehearsal: bool
    directory: str
    time: str
    protects: str = "records"
    """What epsilon is the level of: whole records before there was a choice."""


@dataclass(frozen=True)
class Ledger:
    """All releases made from the studies of one directory, in order."""

    entries: tuple[Entry, ...] = ()

    def spent(self, study: str, study_sha256: str) -> float:
        """Privacy a study has spent: the sum over its real releases, rehearsals being none of people's data.

        A study is the same if its name or its declaration is: editing the file does not refill the budget.
        """
        return sum(
            entry.epsilon
            for entry in self.entries
            if not entry.rehearsal and (entry.study == study or entry.study_sha256 == study_sha256)
        )

    def holds(self, draw: str) -> bool:
        """Whether this very draw of noise is entered already, so that finishing it spends nothing new."""
        return any(entry.draw == draw for entry in self.entries)

    def with_entry(self, entry: Entry) -> Ledger:
        """The ledger after one more release."""
        return Ledger((*self.entries, entry))

    def save(self, path: Path) -> None:
        """Write the ledger, whole or not at all."""
        record = {"format": FORMAT, "releases": [asdict(entry) for entry in self.entries]}
        write_atomically(path, pretty_json(record))


def read_ledger(path: Path) -> Ledger:
    """The ledger at this path, empty if there is none yet. One that cannot be read stops everything."""
    if not path.exists():
        return Ledger()
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise InputError(f"{path} has format {record['format']!r}; this version reads {FORMAT!r}.")
        entries = tuple(Entry(**entry) for entry in record["releases"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a readable ledger ({error}). It says how much privacy was spent, so nothing is "
            "released without it: restore it from a backup."
        ) from None
    return Ledger(entries)

"""Exactly once: a release is built unseen, entered in the ledger, then made visible whole.

The order of the writes is the whole argument. (1) The key is durable beside the ledger: it and the exact statistics
determine every draw. (2) Everything is written in an unfinished directory. (3) The ledger's entry is durable. (4) One
rename shows the release. (5) The key is destroyed. A crash before (3) leaves nothing that anybody has seen; after it,
the same reports give the same draw, which is entered already; other reports give another draw, and are refused.

The ledger lies beside a study: every release ever drawn from it, and the privacy they spent together. A second release
of the same data lets an observer average the noise away, so its epsilon adds to the first. A crash can leave an entry
without a release, never a release without its entry.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet

from truthful.errors import InputError, Refused
from truthful.files import PAYMENTS, RECEIPTS, exclusive, pretty_json, publish_directory, write_atomically
from truthful.formatting import Viewable
from truthful.intake import Counts
from truthful.plan import Plan
from truthful.release import Receipt, Release, find_receipt
from truthful.report import report_or_notice
from truthful.settlement.books import MemoryBooks, PaidTotals
from truthful.settlement.draw import (
    Chance,
    Draw,
    destroy_key,
    ensure_key,
    key_path,
    keyed_chance,
    read_key,
    seeded_chance,
)

FORMAT = "truthful/ledger/1"


@dataclass(frozen=True)
class Entry:
    """A release: which study by which plan, how much privacy, where it went, and when."""

    draw: str
    study: str
    study_sha256: str
    plan_sha256: str
    epsilon: float
    rehearsal: bool
    directory: str
    time: str
    protects: str = "records"
    """What epsilon protects; whole records, before there was a choice."""


@dataclass(frozen=True)
class Ledger:
    """All releases from the studies of one directory, in order."""

    entries: tuple[Entry, ...] = ()

    def spent_epsilon(self, study: str, study_sha256: str) -> float:
        """The privacy a study has spent: the sum over its real releases; rehearsals do not count.

        A study is the same if its name or its declaration is: editing the file does not refill the budget.
        """
        return sum(
            entry.epsilon
            for entry in self.entries
            if not entry.rehearsal and (entry.study == study or entry.study_sha256 == study_sha256)
        )

    def holds(self, draw: str) -> bool:
        """Whether this very draw of noise is entered already, so that finishing it spends nothing more."""
        return any(entry.draw == draw for entry in self.entries)

    def with_entry(self, entry: Entry) -> Ledger:
        """The ledger with one more release."""
        return Ledger((*self.entries, entry))

    def save(self, path: Path) -> None:
        """Write the ledger, whole or not at all."""
        record = {"format": FORMAT, "releases": [asdict(entry) for entry in self.entries]}
        write_atomically(path, pretty_json(record))


def read_ledger(path: Path) -> Ledger:
    """Read the ledger at this path, empty if there is none yet. An unreadable one stops everything."""
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


LEDGER, LOCK = "ledger.json", ".ledger.lock"


@dataclass(frozen=True)
class ReleaseDirectory:
    """The place of a settlement: built under one name, visible under the other."""

    final: Path
    unfinished: Path

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Keep everybody else out while a settlement is built here; remove it unless it is finished."""
        self.unfinished.mkdir(mode=0o700, exist_ok=True)
        os.chmod(self.unfinished, 0o700)
        with exclusive(self.unfinished) as free:
            if not free:
                raise Refused(
                    f"Another settlement is being written to {str(self.final)!r}. Wait until it has ended."
                )
            require_new(self.final)
            _remove(self.unfinished.iterdir())  # left by a settlement that was killed
            try:
                yield
            finally:
                with suppress(OSError):  # already gone: then it was published
                    _remove(self.unfinished.iterdir())
                    self.unfinished.rmdir()


def _remove(paths: Iterable[Path]) -> None:
    """Rename before removing: a process on another machine that still writes there finds the directory gone."""
    for path in list(paths):
        if path.is_dir():
            path = path.rename(path.with_name(f".gone-{secrets.token_hex(8)}"))
            shutil.rmtree(path)
        else:
            path.unlink()


@dataclass(frozen=True)
class LedgerAccount:
    """A study's ledger, locked for one settlement; without a path for a study that has no file."""

    plan: Plan
    rehearsal: bool
    ledger: Ledger
    path: Path | None

    @property
    def spent(self) -> float:
        """The ε the study has spent."""
        return self.ledger.spent_epsilon(self.plan.study.name, self.plan.study.sha256)

    @property
    def key(self) -> Path | None:
        """The path of the key that determines this plan's draws."""
        return None if self.path is None else key_path(self.path.parent, self.plan.sha256)

    @property
    def unfinished(self) -> bool:
        """Whether there is a key, so that an entered release may have to be finished."""
        return self.key is not None and read_key(self.key) is not None

    def require_unspent(self, spend_again: bool, *, entered: bool) -> None:
        """Refuse a second real release, unless it is asked for or finishes the first, which is entered already."""
        spent, epsilon = self.spent, self.plan.mechanism.epsilon
        if spent > 0 and not (self.rehearsal or entered or spend_again):
            raise Refused(
                f"This study has already released its data, at epsilon {spent:g} (see ledger.json beside it). Another "
                f"release would bring the total to {spent + epsilon:g}. If that is what you want, add --spend-again."
            )

    def chance(self, statistics: str, spend_again: bool) -> Chance:
        """The randomness for these statistics, from the study's key; a new key is made durable first."""
        if self.key is None:
            raise InputError("Noise that protects people follows from a key, which needs a study in a file.")
        chance = keyed_chance(ensure_key(self.key), self.plan.sha256, statistics)
        self.require_unspent(spend_again, entered=self.ledger.holds(chance.name))
        return chance

    def released_in(self, out: Path) -> bool:
        """Whether the last draw entered for this plan is released there already."""
        mine = (e for e in self.ledger.entries if e.plan_sha256 == self.plan.sha256 and not e.rehearsal)
        try:
            there = json.loads((out / "settlement.json").read_text(encoding="utf-8"))["draw"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return [entry.draw for entry in mine][-1:] == [there]

    def destroy_key(self) -> None:
        """Destroy the key, the release being in place: whoever had it could remove the noise."""
        if self.key is not None and not self.rehearsal:
            destroy_key(self.key)

    def enter(self, draw: Draw, directory: str) -> None:
        """Make this release's entry durable; a draw finished after a crash is entered already."""
        if self.path is None or self.ledger.holds(draw.name):
            return
        study = self.plan.study
        entry = Entry(
            draw=draw.name,
            study=study.name,
            study_sha256=study.sha256,
            plan_sha256=self.plan.sha256,
            epsilon=self.plan.mechanism.epsilon,
            rehearsal=self.rehearsal,
            directory=directory,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            protects=self.plan.mechanism.protects,
        )
        self.ledger.with_entry(entry).save(self.path)


def read_account(plan: Plan, rehearsal: bool) -> LedgerAccount:
    """The study's ledger as it is now, without a lock."""
    file = plan.study.path
    if file is None or not file.exists():
        if not rehearsal:
            raise Refused(
                "This study is not in a file, so its ledger has no place, and a second draw could spend more privacy "
                "unnoticed. Save the study to a file and load it from there, or give a seed to rehearse."
                if file is None
                else f"There is no {str(file)!r}, from which the plan was made and beside which the ledger of releases "
                "is kept: without it a second draw could spend more privacy unnoticed. Put the study file and its "
                f"{LEDGER} back, or move the plan so that they are where it expects them; or give a seed to rehearse."
            )
        return LedgerAccount(plan, rehearsal, Ledger(), None)
    path = file.parent / LEDGER
    return LedgerAccount(plan, rehearsal, read_ledger(path), path)


@contextmanager
def open_account(plan: Plan, rehearsal: bool) -> Iterator[LedgerAccount]:
    """The study's ledger, locked while a settlement runs."""
    file = plan.study.path
    if file is None or not file.exists():
        yield read_account(plan, rehearsal)
        return
    with exclusive(file.with_name(LOCK)) as free:
        if not free:
            raise Refused(f"Another settlement beside {file.name} is running. Wait until it has ended.")
        yield read_account(plan, rehearsal)


def open_target(out: Path) -> ReleaseDirectory:
    """Prepare a place for a release: the directory must not exist yet, its parent must."""
    require_new(out)
    if out.name in (LEDGER, LOCK):
        raise InputError(
            f"A release cannot be called {out.name!r}; that is the ledger's. Name another directory."
        )
    if not out.absolute().parent.is_dir():
        raise InputError(f"The directory {str(out.absolute().parent)!r} does not exist. Create it first.")
    return ReleaseDirectory(out, unfinished_name(out))


def unfinished_name(out: Path) -> Path:
    """Where a release is built before it is shown."""
    return out.with_name(f".{out.name}.unfinished")


def require_new(out: Path) -> None:
    """Refuse a name that is taken, even by a dangling link."""
    if os.path.lexists(out):
        raise Refused(
            f"{str(out)!r} exists already. A release is never overwritten, and a second draw of noise on the same "
            "data would spend more privacy. Name a directory that does not exist."
        )


#: Called as a settlement proceeds: the stage, rows done, and rows in all if known.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, eq=False)
class Settlement(Viewable):
    """A settled study: the public release, and the books, private to the payer and to each player."""

    release: Release
    summary: dict[str, Any]
    directory: Path | None = None
    memory: MemoryBooks | None = None

    @cached_property
    def payments(self) -> Any:
        """Arrow table: player, payment, and the amount paid in coins."""
        return self._read(PAYMENTS) if self.memory is None else self.memory.payments

    @cached_property
    def receipts(self) -> Any:
        """Arrow table of every player's receipt."""
        return self._read(RECEIPTS) if self.memory is None else self.memory.receipts

    def receipt(self, player: str | int) -> Receipt:
        """One player's receipt."""
        return find_receipt(self.receipts, player)

    def _read(self, name: str) -> Any:
        if self.directory is None:
            raise InputError(f"This settlement was not written to a directory; it has no {name}.")
        if not (self.directory / name).exists():
            raise InputError(f"This settlement has no {name}: it was told to keep its payments alone.")
        return pyarrow.parquet.read_table(self.directory / name)


@dataclass(frozen=True)
class OpenRelease:
    """A release in the making: the study's account, and its place (None: memory only)."""

    account: LedgerAccount
    target: ReleaseDirectory | None
    seed: int | None
    spend_again: bool

    @property
    def unfinished(self) -> Path | None:
        """The directory in which the release is built."""
        return None if self.target is None else self.target.unfinished

    def chance(self, statistics: str) -> Chance:
        """The randomness for these exact statistics, durable before anything computed from it can be seen."""
        if self.seed is not None:
            return seeded_chance(self.seed, self.account.plan.sha256, statistics)
        return self.account.chance(statistics, self.spend_again)

    def finish(self, draw: Draw, release: Release, summary: dict[str, Any], books: Any) -> Settlement:
        """The last writes, in the order argued for above: files, ledger, one rename; then the key is destroyed."""
        if self.target is None:
            self.account.enter(draw, "memory")
            self.account.destroy_key()
            return Settlement(release, summary, memory=books)
        unfinished = self.target.unfinished
        release.save(unfinished / "release.json")
        write_atomically(unfinished / "report.html", report_or_notice(release, self.account.plan))
        write_atomically(unfinished / "settlement.json", pretty_json(summary))
        _remove(unfinished.glob(".*"))  # left by workers that were killed
        self.account.enter(draw, self.target.final.name)
        publish_directory(unfinished, self.target.final)
        self.account.destroy_key()
        return Settlement(release, summary, directory=self.target.final)

    def left_behind(self) -> str:
        """Say what remains of an interrupted settlement, and how to go on."""
        if self.target is not None and self.target.final.exists():
            return f"The release was finished before that: everything is in {str(self.target.final)!r}."
        if self.seed is None and self.account.unfinished:
            return (
                f"Nothing was released. The noise follows from the key in {str(self.account.key)!r}: leave that file "
                "where it is, and give the same command again to finish with the same draw."
            )
        return "Nothing was drawn, spent or left behind. Give the same command again."


@contextmanager
def open_release(
    plan: Plan, out: str | Path | None, seed: int | None, spend_again: bool
) -> Iterator[OpenRelease]:
    """Lock the study's ledger and claim the directory; refuse a study that has been released already.

    An error that interrupts a settlement gets a note on what is left of it.
    """
    with open_account(plan, seed is not None) as account:
        if out is not None and account.released_in(Path(out)):
            account.destroy_key()  # a crash came first
        target = None if out is None else open_target(Path(out))
        account.require_unspent(spend_again, entered=account.unfinished)
        opened = OpenRelease(account, target, seed, spend_again)
        try:
            with nullcontext() if target is None else target.claim():
                yield opened
        except (OSError, KeyboardInterrupt) as stopped:  # a full disk, or Ctrl-C
            if target is not None:
                stopped.add_note(opened.left_behind())
            raise


def private_summary(
    draw: Draw,
    treated: Counts,
    on_bad: str,
    paid: PaidTotals,
    digits: int,
    seconds: float,
    warnings: tuple[str, ...],
) -> dict[str, Any]:
    """The content of settlement.json: private to the analyst's side, as it holds unprotected functions of the data."""
    return {
        "format": "truthful/settlement/2",
        "private": "Not for publication: this file holds unprotected functions of people's data.",
        "draw": draw.name,
        "salt": draw.secret,
        "players": paid.players,
        "records": asdict(treated),
        "on_bad": on_bad,
        "total_paid": float(paid.total),
        "total_in_coins": paid.coins / 10**digits,
        "least_payment": paid.least,
        "largest_payment": paid.most,
        "warnings": list(warnings),
        "seconds": round(seconds, 3),
    }

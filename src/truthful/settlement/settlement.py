"""Settle: from a plan and a source of reports to three private estimates, everybody's payment and a release.

One report flows through: range check → grid → statistics → (estimate) → payment → receipt. Two passes over the
source, in constant memory: the first ends in exact statistics, the noise is drawn, the second pays.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet

from truthful import check
from truthful.errors import InputError, Refused
from truthful.files import pretty_json, write_atomically
from truthful.intake import report_columns
from truthful.intake.stream import open_reports
from truthful.lattice import Bits, SeededBits, SystemBits
from truthful.mechanism import Answer, Estimates, peer_curve, private_estimates
from truthful.payments import paymaster
from truthful.plan import Plan
from truthful.release import Receipt, Release, find_receipt, publish
from truthful.report import report_or_notice
from truthful.settlement.books import KEPT, PAYMENT_COLUMNS, PAYMENTS, RECEIPTS, MemoryBooks
from truthful.settlement.cluster import open_engine, require_engine
from truthful.settlement.draw import Draw, Drawing, replay
from truthful.settlement.once import open_account, open_target, pending_draw, require_same_reports
from truthful.settlement.passes import RowsDone, Statistics, gather, pay
from truthful.settlement.tasks import Paid

#: Told as a settlement goes on: the stage, rows done, rows in all if known.
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, eq=False)
class Settlement:
    """A settled study: the public release, and the books, private to whoever pays and to each player."""

    release: Release
    summary: dict[str, Any]
    directory: Path | None = None
    memory: MemoryBooks | None = None

    @cached_property
    def payments(self) -> Any:
        """Arrow table: player, group, payment."""
        if self.memory is not None:
            return self.memory.receipts.select(list(PAYMENT_COLUMNS))
        return pyarrow.parquet.read_table(self._file(PAYMENTS))

    @cached_property
    def receipts(self) -> Any:
        """Arrow table of every player's receipt."""
        return (
            self.memory.receipts
            if self.memory is not None
            else pyarrow.parquet.read_table(self._file(RECEIPTS))
        )

    def receipt(self, player: str | int) -> Receipt:
        """One player's receipt."""
        return find_receipt(self.receipts, player)

    def _file(self, name: str) -> Path:
        if self.directory is None:
            raise InputError(f"This settlement was not written to a directory; it has no {name}.")
        if not (self.directory / name).exists():
            raise InputError(f"This settlement has no {name}: it was told to keep its payments alone.")
        return self.directory / name


def settle(
    plan: Plan,
    reports: Any,
    *,
    out: str | Path | None = None,
    on_bad: str = "error",
    seed: int | None = None,
    spend_again: bool = False,
    books: str = "all",
    engine: str = "threads",
    scheduler: Any = None,
    progress: Progress | None = None,
) -> Settlement:
    """Draw the release and pay everybody.

    reports: a path (CSV, Parquet, a directory of Parquet parts), the URL of Parquet files, an Arrow, pandas or polars
    table, or an iterator of batches.
    out: a directory that does not exist yet, written whole or not at all; without it the books stay in memory.
    A seed makes a rehearsal: repeatable, marked as such everywhere, and no protection to anybody.
    books: "all", or "payments" to write payments.parquet alone: neither receipts nor CSV, for very many players.
    engine: "threads" of this process, or "dask": workers at `scheduler`, an address or one of Dask's clusters, or one
    process for each processor of this machine. It needs Parquet reports, and an `out` that all workers share.
    """
    started = time.perf_counter()
    check.choice("books", books, KEPT)
    if seed is None and plan.mechanism.payments == "expected":
        raise Refused(
            "With payments = 'expected' a player can end up owing money, so it is for research and rehearsals only. "
            "Plan with never-negative payments, or give a seed to rehearse."
        )
    target = None if out is None else open_target(Path(out))
    unfinished = None if target is None else target.unfinished
    require_engine(engine, scheduler, unfinished)
    with (
        open_account(plan, seed is not None) as account,
        nullcontext() if target is None else target.claimed(),
    ):
        pending = None if target is None else pending_draw(account, target, seed)
        account.require_unspent(pending, spend_again)
        bits = SystemBits() if seed is None else SeededBits(seed)
        key = bits.bits(128).to_bytes(16, "little") if pending is None else bytes.fromhex(pending.key)
        with (
            open_reports(reports, report_columns(plan.study)) as source,
            open_engine(engine, scheduler, source, unfinished) as workers,
        ):
            statistics = gather(source, plan.study, key, on_bad, workers, _stage(progress, "statistics"))
            _require_settleable(plan, statistics)
            if pending is None:
                draw, estimates = _draw(plan, statistics, bits, seed)
            else:
                require_same_reports(account, pending, statistics.digest)
                draw, estimates = pending, _estimates(plan, statistics, replay(pending.answers))
            if target is not None:
                draw.save(target.unfinished)
            release = publish(plan, estimates, statistics.counts, on_bad, rehearsal=seed is not None)
            master = paymaster(plan.mechanism, plan.study.beliefs, estimates, statistics.counts)
            memory = MemoryBooks()
            with memory if target is None else workers.books(target.unfinished, books) as written:
                paid = pay(
                    source, plan.study, statistics, master, written, workers, _stage(progress, "payments")
                )
        summary = _summary(draw, statistics, paid, time.perf_counter() - started)
        if target is None:
            account.enter(draw, "memory")
            return Settlement(release, summary, memory=memory)
        release.save(target.unfinished / "release.json")
        write_atomically(target.unfinished / "report.html", report_or_notice(release, plan))
        write_atomically(target.unfinished / "settlement.json", pretty_json(summary))
        target.tidy()
        account.enter(draw, target.final.name)
        target.publish()
    return Settlement(release, summary, directory=target.final)


def _stage(progress: Progress | None, stage: str) -> RowsDone:
    def rows_done(done: int, rows: int | None) -> None:
        if progress is not None:
            progress(stage, done, rows)

    return rows_done


def _require_settleable(plan: Plan, statistics: Statistics) -> None:
    """Refuse, before anything is drawn, what public numbers decide: afterwards nothing may fail."""
    if statistics.players > plan.players:
        raise Refused(
            f"There are {statistics.players:,} reports, but the plan is for {plan.players:,} players and its budget "
            f"covers no more. Plan again with --players {statistics.players}."
        )
    if min(statistics.counts) == 0:
        raise Refused(
            f"Of {statistics.players} players, one random half is empty; nobody can be scored against it. Collect more "
            "reports and settle again: nothing was released."
        )
    plan.guarantees_for(statistics.players)
    for count in statistics.counts:
        peer_curve(plan.mechanism, plan.study.beliefs, count)


def _draw(plan: Plan, statistics: Statistics, bits: Bits, seed: int | None) -> tuple[Draw, Estimates]:
    """The three private estimates from fresh noise, and the draw that can repeat them."""
    drawing = Drawing(bits)
    estimates = _estimates(plan, statistics, drawing)
    draw = Draw(
        name=secrets.token_hex(16),
        plan_sha256=plan.sha256,
        seed=seed,
        key=statistics.key.hex(),
        statistics=statistics.digest,
        answers=tuple(drawing.answers),
    )
    return draw, estimates


def _estimates(plan: Plan, statistics: Statistics, answer: Answer) -> Estimates:
    return private_estimates(statistics.halves, plan.mechanism, plan.study.beliefs, answer)


def _summary(draw: Draw, statistics: Statistics, paid: Paid, seconds: float) -> dict[str, Any]:
    """settlement.json: private to the analyst's side, since it holds unprotected functions of the data."""
    return {
        "format": "truthful/settlement/1",
        "private": "Not for publication: this file holds unprotected functions of people's data.",
        "draw": draw.name,
        "group_key": draw.key,
        "players": statistics.players,
        "records": asdict(statistics.treated),
        "on_bad": statistics.on_bad,
        "total_paid": float(paid.total),
        "least_payment": paid.least,
        "largest_payment": paid.most,
        "seconds": round(seconds, 3),
    }

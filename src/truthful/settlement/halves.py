"""Settle a plan with random halves, the paper's Algorithm 2: in memory, from reports to three private estimates and a
payment for everybody against the other half's.

The group of a player is one bit of a keyed hash of her id. The key is drawn first and then the noise, so that a seed
rehearses both.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.estimators.sensitivity import AddNoise
from truthful.files import sha256
from truthful.intake import Checked, Counts, Intake, report_columns
from truthful.intake.columns import missing_text, player_ids
from truthful.intake.duplicates import (
    NO_REPEATS,
    NOTHING,
    Groups,
    Repeats,
    find_duplicates,
    groups_of,
    player_hashes,
    repeated_in,
)
from truthful.intake.stream import Reports, open_reports
from truthful.lattice import Bits, SeededBits, SystemBits
from truthful.moments import Moments, group_moments
from truthful.plan import Plan
from truthful.random_halves import Estimates, Mechanism, paymaster, peer_curve, private_estimates
from truthful.release.release_of_halves import publish_halves
from truthful.settlement.atomic_release import (
    Progress,
    RowsDone,
    Settlement,
    open_release,
    private_summary,
    stage,
)
from truthful.settlement.books import Books, Paid, paid_in
from truthful.settlement.draw import Draw, Drawing, replay
from truthful.settlement.engines import Threads, open_books
from truthful.settlement.passes import receipts_of
from truthful.study import Study
from truthful.study.declaration import PLAYER


@dataclass(frozen=True, eq=False)
class Reported:
    """Everybody's good report on the grid, with her group, and the exact moments of each group."""

    batches: tuple[Checked, ...]
    kx: Floats
    ky: Floats
    groups: Groups
    halves: tuple[Moments, Moments]
    treated: Counts

    @property
    def counts(self) -> tuple[int, int]:
        """Players in each half."""
        return self.halves[0].count, self.halves[1].count

    @property
    def digest(self) -> str:
        """The hash of the exact statistics: equal only for reports that lead to the same estimates."""
        return sha256([half.digest() for half in self.halves])


def settle_halves(
    plan: Plan,
    reports: Any,
    *,
    out: str | Path | None = None,
    on_bad: str = "error",
    seed: int | None = None,
    spend_again: bool = False,
    books: str = "all",
    progress: Progress | None = None,
) -> Settlement:
    """Draw the three estimates and pay everybody; the parameters are those of `settle`."""
    started, mechanism = time.perf_counter(), plan.mechanism
    if not isinstance(mechanism, Mechanism):
        raise InputError("The plan has no random halves; settle it with `settle`.")
    with open_release(plan, out, seed, spend_again) as opened:
        bits = SystemBits() if seed is None else SeededBits(seed)
        key = bits.bits(128).to_bytes(16, "little") if opened.pending is None else _key(opened.pending)
        with open_reports(reports, report_columns(plan.study)) as source:
            reported = _reported(source, plan.study, key, on_bad, stage(progress, "statistics"))
        _require_settleable(plan, mechanism, reported.counts)
        draw = opened.pending_for(reported.digest)
        if draw is None:
            draw, estimates = _draw(plan, mechanism, reported, key, bits, seed)
        else:
            estimates = _estimates(plan, mechanism, reported, replay(draw.answers))
        opened.keep(draw)
        release = publish_halves(plan, estimates, reported.counts, on_bad, rehearsal=seed is not None)
        with open_books(opened.unfinished, books, Threads()) as written:
            paid = _pay(plan, mechanism, reported, estimates, written, stage(progress, "payments"))
        summary = private_summary(draw, reported.treated, on_bad, paid, time.perf_counter() - started)
        return opened.finish(draw, release, summary, written)


def _key(pending: Draw) -> bytes:
    if pending.key is None:
        raise InputError("The unfinished settlement has no key of random halves. Name another directory.")
    return bytes.fromhex(pending.key)


def _reported(source: Reports, study: Study, key: bytes, on_bad: str, rows_done: RowsDone) -> Reported:
    """Check every record and add up the exact statistics of the two halves."""
    intake = Intake(study, on_bad)
    intake.open(source)
    intake = Intake(study, on_bad, repeats=_repeats(source, key), where=source.where)
    batches = []
    for piece in source.pieces():
        batches += list(intake.batches(piece))
        rows_done(intake.account.all_records, source.rows)
    source.read_whole(intake.account.all_records)
    treated = intake.finish()
    kx, ky = (np.concatenate(part) for part in zip(*(batch.on_grid() for batch in batches), strict=True))
    groups = np.concatenate([groups_of(player_hashes(batch.players, key)) for batch in batches])
    return Reported(tuple(batches), kx, ky, groups, group_moments(kx, ky, groups), treated)


def _repeats(source: Reports, key: bytes) -> Repeats:
    """The records whose player already had one."""
    hashes = [NOTHING]
    for batch in source.batches():
        ids = player_ids(batch.column(PLAYER))
        hashes.append(player_hashes(ids.take(np.flatnonzero(~missing_text(ids))), key))
    repeated = repeated_in(np.concatenate(hashes))
    return find_duplicates(source.batches(), key, repeated) if len(repeated) else NO_REPEATS


def _require_settleable(plan: Plan, mechanism: Mechanism, counts: tuple[int, int]) -> None:
    """Refuse, before anything is drawn, what public numbers decide: afterwards nothing may fail."""
    players = sum(counts)
    if players > plan.players:
        raise Refused(
            f"There are {players:,} reports, but the plan is for {plan.players:,} players and its budget covers no "
            f"more. Plan again with --players {players}."
        )
    if min(counts) == 0:
        raise Refused(
            f"Of {players} players, one random half is empty; nobody can be scored against it. Collect more reports "
            "and settle again: nothing was released."
        )
    plan.guarantees_for(players)
    for count in counts:
        peer_curve(mechanism, plan.study.beliefs, count)


def _draw(
    plan: Plan, mechanism: Mechanism, reported: Reported, key: bytes, bits: Bits, seed: int | None
) -> tuple[Draw, Estimates]:
    """The three private estimates from fresh noise, and the draw that can repeat them."""
    drawing = Drawing(bits)
    estimates = _estimates(plan, mechanism, reported, drawing)
    draw = Draw(
        name=secrets.token_hex(16),
        plan_sha256=plan.sha256,
        seed=seed,
        statistics=reported.digest,
        answers=tuple(drawing.answers),
        key=key.hex(),
    )
    return draw, estimates


def _estimates(plan: Plan, mechanism: Mechanism, reported: Reported, add_noise: AddNoise) -> Estimates:
    return private_estimates(reported.halves, mechanism, plan.study.beliefs, add_noise)


def _pay(
    plan: Plan,
    mechanism: Mechanism,
    reported: Reported,
    estimates: Estimates,
    books: Books,
    rows_done: RowsDone,
) -> Paid:
    """Pay everybody, and write her receipt."""
    master = paymaster(mechanism, plan.study.beliefs, estimates, reported.counts)
    payments, paid, start = master.payments(reported.kx, reported.ky, reported.groups), Paid(), 0
    for batch in reported.batches:
        part = slice(start, start + batch.count)
        books.write(receipts_of(batch, {"group": reported.groups[part], "payment": payments[part]}))
        paid += paid_in(payments[part])
        start = part.stop
        rows_done(paid.players, len(payments))
    return paid

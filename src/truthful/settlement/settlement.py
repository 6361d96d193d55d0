"""Settle: from a plan and a source of reports to one private release and everybody's payment.

One report flows through: range check → grid → sums → (estimate) → payment → receipt. Two passes over the source, in
constant memory: the first ends in exact sums; features are checked, and what can be guaranteed for those who answered;
the noise is drawn; the second pays.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from truthful import check
from truthful.asked_release import AskedPaymaster, AskedRelease, Level, level_of
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.guarantees import Guarantees
from truthful.intake import report_columns
from truthful.intake.intake import ON_BAD
from truthful.intake.stream import open_reports
from truthful.lattice import SeededBits, SystemBits
from truthful.one_release import LeaveOneOut, OneRelease, Paymaster, SumRelease, paymaster
from truthful.plan import Plan
from truthful.release import publish
from truthful.settlement import checks
from truthful.settlement.atomic_release import Progress, Settlement, open_release, private_summary
from truthful.settlement.books import KEPT, MemoryBooks
from truthful.settlement.draw import Draw, Drawing
from truthful.settlement.engines import open_engine, require_engine
from truthful.settlement.passes import Statistics, gather, measure, pay
from truthful.share_release import SharePaymaster, ShareRelease


def settle(
    plan: Plan,
    reports: Any,
    *,
    out: str | Path | None = None,
    on_bad: str = "error",
    seed: int | None = None,
    spend_again: bool = False,
    accept_less: bool = False,
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
    accept_less: settle also if less can be guaranteed for those who answered than was promised.
    books: "all", or "payments" to write payments.parquet alone: neither receipts nor CSV, for very many players.
    engine: "threads" of this process, or "dask": workers at `scheduler`, an address or one of Dask's clusters, or one
    process for each processor of this machine. It needs Parquet reports, and an `out` that all workers share.
    """
    check.instance("plan", plan, Plan, "Read one with Plan.load(path), or make one with design.")
    check.function("progress", progress)
    out = None if out is None else check.path("out", out)
    started, study, mechanism = time.perf_counter(), plan.study, plan.mechanism
    tell = progress or (lambda stage, done, rows: None)
    check.choice("books", books, KEPT)
    check.choice("on_bad", on_bad, ON_BAD)
    if seed is None and mechanism.payments == "expected":
        raise Refused(
            "With payments = 'expected' a player can end up owing money, so it is for research and rehearsals only. "
            "Plan with never-negative payments, or give a seed to rehearse."
        )
    checks.require_no_dropping(mechanism, on_bad)
    checks.require_whole_answers(study, on_bad)
    require_engine(engine, scheduler, out)
    with open_release(plan, out, seed, spend_again) as opened:
        with (
            open_reports(reports, report_columns(study)) as source,
            open_engine(engine, scheduler, source, opened.unfinished) as workers,
        ):
            transform, norm, key = mechanism.transform, mechanism.norm, secrets.token_bytes(16)
            rows_done = partial(tell, "statistics")
            statistics = gather(source, study, transform, norm, key, on_bad, workers, rows_done)
            people = partial(measure, source, study, statistics, workers)
            found, warnings, features = _check_people(plan, mechanism, statistics, accept_less, people)
            draw = opened.pending_for(statistics.sums.digest()) or _draw(plan, mechanism, statistics, seed)
            opened.keep(draw)
            estimate = _estimate(plan, mechanism, statistics, draw)
            level = None  # what features say of it, where people are asked what the others will say
            if study.levels is not None:
                level = level_of(study.levels, statistics.sums, (kx for _, _, kx in people()))
            release = publish(
                plan,
                mechanism,
                estimate,
                statistics.sums,
                found,
                on_bad,
                features,
                level,
                salt=draw.name if seed is None else str(seed),
                rehearsal=seed is not None,
            )
            master = _paymaster(plan, mechanism, estimate, statistics.players, level)
            rows_done = partial(tell, "payments")
            place = opened.unfinished
            with MemoryBooks() if place is None else workers.books(place, books) as written:
                paid = pay(source, study, statistics, master, written, workers, rows_done)
        seconds = time.perf_counter() - started
        summary = private_summary(draw, statistics.treated, on_bad, paid, seconds, warnings)
        return opened.finish(draw, release, summary, written)


def _check_people(
    plan: Plan,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    statistics: Statistics,
    accept_less: bool,
    people: Callable[[], Iterator[Any]],
) -> tuple[Guarantees, tuple[str, ...], Floats | None]:
    """What can be guaranteed for those who answered, warnings, and their features if they are known and not too many.

    Refused before anything is drawn if it must be.

    Answers have no part in it, and where records are protected only the number of people has.
    """
    checks.require_people(plan, statistics.players)
    warnings: tuple[str, ...] = ()
    features = None
    if mechanism.protects == "records":
        found = plan.guarantees_for(statistics.players)
    else:
        warnings = checks.require_common_levels(plan.study, statistics.cells)
        geometry, features = checks.people_measured(plan, mechanism, statistics.sums, people)
        found = plan.guarantees_for(statistics.players, geometry)
    checks.require_promised(plan, found, accept_less)
    return found, warnings, features


def _draw(plan: Plan, mechanism: SumRelease, statistics: Statistics, seed: int | None) -> Draw:
    """The released vectors, with fresh noise."""
    drawing = Drawing(SystemBits() if seed is None else SeededBits(seed))
    epsilon = Fraction(mechanism.epsilon)
    for query in mechanism.queries(statistics.sums, plan.study.believed):
        drawing(query, epsilon * query.share)
    return Draw(
        name=secrets.token_hex(16),
        plan_sha256=plan.sha256,
        seed=seed,
        statistics=statistics.sums.digest(),
        answers=tuple(drawing.answers),
    )


def _estimate(plan: Plan, mechanism: SumRelease, statistics: Statistics, draw: Draw) -> LeaveOneOut:
    return mechanism.estimate(draw.answers, statistics.players, plan.study.believed, statistics.sums.matrix)


def _paymaster(
    plan: Plan,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    estimate: LeaveOneOut,
    players: int,
    level: Level | None,
) -> Paymaster:
    """Who pays: numbers, shares, or answers with predictions."""
    if isinstance(mechanism, AskedRelease):
        if plan.study.levels is None or level is None:
            raise InputError("The plan asks for predictions, and the study does not.")
        return AskedPaymaster(mechanism, plan.study.levels, estimate, level)
    if isinstance(mechanism, OneRelease):
        return paymaster(mechanism, plan.study.beliefs, estimate, players)
    beliefs = plan.study.shares
    if beliefs is None:
        raise InputError("The plan is for shares, and the study asks for numbers.")
    return SharePaymaster(mechanism, beliefs, estimate)

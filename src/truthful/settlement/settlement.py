"""Settle: from a plan and a source of reports to one private release and everybody's payment.

One report flows through: range check → grid → sums → (estimate) → payment → receipt. Two passes over the source, in
constant memory: the first ends in exact sums; features are checked, and guarantees computed for those who answered; the
noise is drawn; the second pass pays.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from truthful import check
from truthful.asked_release import AskedPaymaster, AskedRelease, Level, level_of
from truthful.check import Floats
from truthful.coins import coin_digits, first_lot
from truthful.errors import InputError, Refused
from truthful.guarantees import Guarantees
from truthful.intake import number_columns, report_columns
from truthful.intake.intake import ON_BAD
from truthful.intake.stream import open_reports
from truthful.one_release import LeaveOneOut, OneRelease, Paymaster, SumRelease, largest_payments, paymaster
from truthful.plan import Plan
from truthful.release import publish
from truthful.scoring import PAYMENT_STEPS
from truthful.settlement import checks
from truthful.settlement.atomic_release import (
    OpenRelease,
    Progress,
    Settlement,
    open_release,
    private_summary,
)
from truthful.settlement.books import KEPT, MemoryBooks
from truthful.settlement.draw import Draw, Drawing
from truthful.settlement.engines import open_engine, require_engine
from truthful.settlement.passes import MostOf, Statistics, Till, gather, measure, open_till, pay
from truthful.share_release import SharePaymaster, ShareRelease


def settle(
    plan: Plan,
    reports: Any,
    *,
    out: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
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

    reports: a path (text, spreadsheets, Stata, SPSS, Parquet, a directory of Parquet parts), the URL of Parquet files,
    an Arrow, pandas or polars table, or an iterator of batches. columns: the header of every column that has another
    one there, as {"weekly_spend": "Q7"}; others are then ignored. out: a directory that does not exist yet, written
    whole or not at all; without it the books stay in memory. A seed makes a rehearsal: repeatable, marked as such
    everywhere, and no protection to anybody. accept_less: settle even if less can be guaranteed for those who answered
    than was promised. books: "all", or "payments" to write payments.parquet alone: neither receipts nor CSV, for very
    many players. engine: "threads" of this process, or "dask": workers at `scheduler`, an address or one of Dask's
    clusters, or one process for each processor of this machine. It needs Parquet reports, and an `out` that all workers
    share.
    """
    check.instance("plan", plan, Plan, "Read one with Plan.load(path), or make one with design.")
    check.function("progress", progress)
    out = None if out is None else check.path("out", out)
    started, study, mechanism = time.perf_counter(), plan.study, plan.mechanism
    tell = progress or (lambda stage, done, rows: None)
    check.choice("books", books, KEPT)
    check.choice("on_bad", on_bad, ON_BAD)
    seed = None if seed is None else check.integer("seed", seed, least=0)
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
            open_reports(
                reports, report_columns(study), numbers=number_columns(study), columns=columns or {}
            ) as source,
            open_engine(engine, scheduler, source, opened.unfinished) as workers,
        ):
            transform, norm, key = mechanism.transform, mechanism.norm, secrets.token_bytes(16)
            rows_done = partial(tell, "statistics")
            most_of = _most_by_features(mechanism)
            statistics = gather(source, study, transform, norm, key, on_bad, workers, rows_done, most_of)
            people = partial(measure, source, study, statistics, workers)
            found, warnings, features = _check_people(plan, statistics, accept_less, people)
            draw = _draw(plan, mechanism, statistics, opened)
            estimate = _estimate(plan, mechanism, statistics, draw)
            level = None  # features' part in the average answer, where people predict the others'
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
                salt=draw.secret,
                rehearsal=seed is not None,
            )
            master = _paymaster(plan, mechanism, estimate, statistics.players, level)
            till = _open_till(plan, found, draw, statistics, most_of)
            rows_done = partial(tell, "payments")
            place = opened.unfinished
            with MemoryBooks() if place is None else workers.books(place, books) as written:
                paid = pay(source, study, statistics, master, till, written, workers, rows_done)
        seconds = time.perf_counter() - started
        summary = private_summary(draw, statistics.treated, on_bad, paid, till.digits, seconds, warnings)
        return opened.finish(draw, release, summary, written)


def _check_people(
    plan: Plan,
    statistics: Statistics,
    accept_less: bool,
    people: Callable[[], Iterator[Any]],
) -> tuple[Guarantees, tuple[str, ...], Floats | None]:
    """The guarantees for those who answered, warnings, and their features if known and not too many.

    Refusals come before anything is drawn.
    """
    found = checks.find_people(plan, statistics.sums, statistics.cells, people)
    checks.require_promised(plan, found, statistics.players, accept_less)
    return found.guarantees, found.warnings, found.features


def _draw(plan: Plan, mechanism: SumRelease, statistics: Statistics, opened: OpenRelease) -> Draw:
    """The released vectors, with the noise that belongs to these statistics."""
    chance = opened.chance(statistics.sums.digest())
    drawing, epsilon = Drawing(chance.noise), Fraction(mechanism.epsilon)
    for query in mechanism.queries(statistics.sums, plan.study.believed):
        drawing(query, epsilon * query.share)
    return Draw(chance.name, chance.secret, tuple(drawing.answers))


def _estimate(plan: Plan, mechanism: SumRelease, statistics: Statistics, draw: Draw) -> LeaveOneOut:
    return mechanism.estimate(draw.answers, statistics.players, plan.study.believed, statistics.sums.matrix)


def _most_by_features(mechanism: SumRelease) -> MostOf | None:
    """The most that people can be due, where a cap follows from features; elsewhere it is the same for everybody.

    Where records are protected features may play no part: the coins paid to others would depend on them.
    """
    if isinstance(mechanism, OneRelease) and mechanism.estimator == "instruments":
        return partial(largest_payments, mechanism)
    return None


def _open_till(
    plan: Plan, found: Guarantees, draw: Draw, statistics: Statistics, most_of: MostOf | None
) -> Till:
    """The till that rounds payments to coins. The draw determines it, so that finishing it pays everybody the same."""
    digits, cap = coin_digits(plan.study.currency), found.budget.cap
    payable = plan.players if statistics.players == plan.answering else statistics.players
    # Payments are rounded down to millionths; float error must not take one more away.
    most_each = 0 if cap is None else math.floor(cap / payable * PAYMENT_STEPS + 1e-6)
    return open_till(digits, first_lot(draw.secret, digits), statistics, most_of, most_each)


def _paymaster(
    plan: Plan,
    mechanism: OneRelease | ShareRelease | AskedRelease,
    estimate: LeaveOneOut,
    players: int,
    level: Level | None,
) -> Paymaster:
    """The paymaster: for numbers, shares, or answers with predictions."""
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

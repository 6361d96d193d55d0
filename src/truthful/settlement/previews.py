"""Previews of `settle`: the same checks in the same order, with nothing drawn, spent or written.

They are for the analyst, who holds the reports. Of answers they only count unusable ones, and never show a value.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from truthful.errors import TruthfulError
from truthful.guarantees import Guarantees
from truthful.intake import number_columns, report_columns
from truthful.intake.rules import BadRecord, BadReports
from truthful.intake.stream import open_reports
from truthful.moments import as_floats
from truthful.plan import Plan
from truthful.settlement import checks
from truthful.settlement.atomic_release import Progress, read_account
from truthful.settlement.engines import Threads
from truthful.settlement.passes import Statistics, gather, measure
from truthful.study import Study
from truthful.study.features import Levels


@dataclass(frozen=True)
class NumberBalance:
    """A number among those who answered, and as declared by the design; None where nothing is declared or known."""

    feature: str
    mean: float | None
    spread: float
    declared_mean: float | None = None
    declared_spread: float | None = None


@dataclass(frozen=True)
class LevelBalance:
    """A level among those who answered: its count, its share, and the declared share. `few`: too few to hide."""

    feature: str
    level: str
    people: int
    share: float
    declared_share: float | None
    few: bool


@dataclass(frozen=True, eq=False)
class Preview:
    """Findings about reports before they are settled.

    `records` are the rows, of which `people` can be used; `clipped` values are moved into their range. `bad` counts
    faults by kind, and `first` are the first such rows. `found` is what could be guaranteed for these people, if they
    could be settled at all. `spent` is the ε in the study's ledger; `refusals` are the messages of `settle`.
    """

    where: str
    plan: Plan
    records: int
    people: int
    clipped: int
    bad: dict[str, int]
    first: tuple[BadRecord, ...]
    numbers: tuple[NumberBalance, ...]
    levels: tuple[LevelBalance, ...]
    found: Guarantees | None
    warnings: tuple[str, ...]
    spent: float
    refusals: tuple[TruthfulError, ...]

    @property
    def settles(self) -> bool:
        """Whether `settle` would go on to draw."""
        return not self.refusals

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons why `settle` would refuse, in its words, but without bad values, which may be answers."""
        return tuple(map(_reason, self.refusals))

    def record(self) -> dict[str, Any]:
        """The preview as JSON. Values of bad records are left out: they may be answers."""
        return {
            "settles": self.settles,
            "refusals": list(self.reasons),
            "records": self.records,
            "people": self.people,
            "planned": self.plan.players,
            "clipped": self.clipped,
            "bad": self.bad,
            "first_bad": [{"row": bad.row, "column": bad.column, "kind": bad.kind} for bad in self.first],
            "numbers": [asdict(row) for row in self.numbers],
            "levels": [asdict(row) for row in self.levels],
            "promised": self.plan.guarantees.record(),
            "guarantees": None if self.found is None else self.found.record(),
            "warnings": list(self.warnings),
            "epsilon": self.plan.mechanism.epsilon,
            "spent_epsilon": self.spent,
        }


def preview(
    plan: Plan,
    reports: Any,
    *,
    columns: Mapping[str, str] | None = None,
    on_bad: str = "error",
    accept_less: bool = False,
    progress: Progress | None = None,
) -> Preview:
    """Check reports as `settle` does before it draws: nothing is drawn, spent or written.

    reports, columns, on_bad and accept_less are as for `settle`. If there are bad records that it would refuse, all
    else is about the good ones.
    """
    study, mechanism, refusals = plan.study, plan.mechanism, list[TruthfulError]()
    spent, statistics, found = 0.0, None, None
    with _note_refusals(refusals):
        checks.require_no_dropping(mechanism, on_bad)
        checks.require_whole_answers(study, on_bad)
    with _note_refusals(refusals):
        account = read_account(plan, rehearsal=False)
        spent = account.spent
        account.require_unspent(spend_again=False, entered=False)
    with open_reports(
        reports, report_columns(study), numbers=number_columns(study), columns=columns
    ) as source:
        transform, norm, key, engine = mechanism.transform, mechanism.norm, secrets.token_bytes(16), Threads()
        rows_done = partial(progress or (lambda *done: None), "statistics")
        for treating in dict.fromkeys((on_bad, "drop")):
            with _note_refusals(refusals if treating == on_bad else []):
                statistics = gather(source, study, transform, norm, key, treating, engine, rows_done)
                break
        if statistics is not None:
            people = partial(measure, source, study, statistics, engine)
            with _note_refusals(refusals):
                found = checks.find_people(plan, statistics.sums, statistics.cells, people)
                checks.require_promised(plan, found, statistics.players, accept_less)
        return _preview(source.where, plan, statistics, found, spent, tuple(refusals))


@contextmanager
def _note_refusals(refusals: list[TruthfulError]) -> Iterator[None]:
    """Note a refusal, and go on."""
    try:
        yield
    except TruthfulError as refusal:
        refusals.append(refusal)


def _reason(refusal: TruthfulError) -> str:
    if not isinstance(refusal, BadReports):
        return refusal.on_command_line
    return (
        f"{refusal.bad_records:,} of {refusal.all_records:,} records are bad. Correct them, or see what --on-bad clip "
        "would do, which moves numbers into their range."
    )


def _preview(
    where: str,
    plan: Plan,
    statistics: Statistics | None,
    found: checks.MeasuredPeople | None,
    spent: float,
    refusals: tuple[TruthfulError, ...],
) -> Preview:
    bad = next((refusal for refusal in refusals if isinstance(refusal, BadReports)), None)
    if statistics is None and bad is None:
        raise refusals[-1]  # nothing can be read at all
    study = plan.study
    return Preview(
        where=where,
        plan=plan,
        records=statistics.treated.records if statistics is not None else bad.all_records if bad else 0,
        people=0 if statistics is None else statistics.players,
        clipped=0 if statistics is None else statistics.treated.clipped,
        bad={str(kind): count for kind, count in bad.counts.items()}
        if bad
        else statistics.treated.bad
        if statistics
        else {},
        first=() if bad is None else bad.records,
        numbers=() if statistics is None else tuple(_numbers(study, statistics)),
        levels=() if statistics is None else tuple(_levels(study, statistics)),
        found=None if found is None else found.guarantees,
        warnings=() if found is None else found.warnings,
        spent=spent,
        refusals=refusals,
    )


def _numbers(study: Study, statistics: Statistics) -> Iterator[NumberBalance]:
    encoding, declared = study.declared.encoding, study.second_moments
    moments = as_floats(statistics.sums.features) / statistics.players
    for feature in encoding.features:
        if not isinstance(feature, Levels):
            now = checks.mean_and_spread(encoding, feature, moments)
            before = () if declared is None else checks.mean_and_spread(encoding, feature, declared)
            yield NumberBalance(feature.name, *now, *before)


def _levels(study: Study, statistics: Statistics) -> Iterator[LevelBalance]:
    encoding, declared = study.declared.encoding, study.second_moments
    for feature in encoding.features:
        if isinstance(feature, Levels):
            counts = statistics.cells.levels[feature.name].tolist()
            shares = (
                [None] * len(counts) if declared is None else checks.level_shares(encoding, feature, declared)
            )
            for level, people, share in zip(feature.levels, counts, shares, strict=True):
                before, few = None if share is None else float(share), people < checks.FEWEST_ALIKE
                yield LevelBalance(feature.name, level, people, people / max(1, sum(counts)), before, few)

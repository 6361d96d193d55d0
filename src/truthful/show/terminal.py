"""The terminal: tables and notices that all views share, and views of the notation, errata, audits and simulations."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from textwrap import fill
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.symbols import SYMBOLS

if TYPE_CHECKING:
    from truthful.auditor import Audit, Finding
    from truthful.errata import Erratum
    from truthful.promises import Promise
    from truthful.settlement import Progress
    from truthful.simulation import Simulation

#: Letters of a line.
WIDTH = 114
#: Seconds; a quicker command shows no bar.
DELAY = 1.0
STAGES = {"statistics": "Reading answers", "payments": "Computing payments"}


def terminal(stderr: bool = False) -> Console:
    """A console that prints names unchanged: no markup, no emoji codes, no guessed colours."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show(console: Console, *views: RenderableType) -> None:
    """Print views one below the other. Outside a terminal, lines end where their text ends."""
    with nullcontext() if console.is_terminal else console.capture() as capture:
        for view in views:
            console.print(view, soft_wrap=isinstance(view, str))
    if capture is not None:
        print("\n".join(line.rstrip() for line in capture.get().splitlines()))


@contextmanager
def rich_progress(console: Console) -> Iterator[Progress]:
    """One bar for each stage of work that takes more than a second, removed at the end."""
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bars = Bars(*columns, console=console, transient=True)
    tasks: dict[str, TaskID] = {}
    started = time.monotonic()

    def tell(stage: str, done: int, rows: int | None) -> None:
        if time.monotonic() - started < DELAY:
            return
        if not tasks:
            bars.start()
        if stage not in tasks:
            tasks[stage] = bars.add_task(STAGES.get(stage, stage), total=rows)
        bars.update(tasks[stage], completed=done, total=rows)

    try:
        yield tell
    finally:
        bars.stop()


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[RenderableType]] = (),
    right: Sequence[str] = (),
) -> Table:
    """A table in the house style; `right` are the columns aligned to the right."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left")
    for row in rows:
        grid.add_row(*row)
    return grid


def name_groups(rows: Iterable[tuple[str, str, str, str]]) -> Iterable[Sequence[RenderableType]]:
    """The rows, the first cell left empty where it repeats."""
    before = ""
    for group, *cells in rows:
        yield Text("" if group == before else group, "bold"), *cells
        before = group


def notice(words: str) -> RenderableType:
    """A notice in a frame, not to be overlooked."""
    return Panel(words, border_style="yellow", expand=False)


def guarantees_table(promised: Sequence[Promise]) -> Group:
    """The five guarantees, always in this order: promise, probability, assumptions."""
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    grid = table("What is guaranteed", ("", "guarantee", "probability", "assuming"))
    for promise in promised:
        assumed = " ".join(str(assumptions.index(words) + 1) for words in promise.assumptions)
        none = "nothing" if promise.probability else ""
        given = promise.given.format(assumed) if assumed else none
        grid.add_row(Text(promise.name, "bold"), promise.words, promise.probability, given)
    notes = Table.grid(padding=(0, 1))
    for place, words in enumerate(assumptions, 1):
        notes.add_row(Text(f" {place}", "dim"), Text(words, "dim"))
    return Group(grid, Text("Assuming", "dim"), notes, "")


# The notation, and the errata of the paper


def symbols_table() -> Table:
    """The notation."""
    rows = [(symbol.paper, symbol.meaning, symbol.formula, symbol.door) for symbol in SYMBOLS]
    return table("Symbols", ("paper", "meaning", "in formulas", "in files and commands"), rows)


def errata_view(errata: Sequence[Erratum]) -> list[RenderableType]:
    """One row for each erratum: its subject, and the two numbers of its example, computed now."""
    rows = [
        (Text(erratum.number, "bold"), erratum.title, erratum.meaning, *erratum.numbers())
        for erratum in errata
    ]
    columns = ("", "about", "measured", "the paper", "in fact")
    return [
        table("The paper's claims, and what holds", columns, rows, right=("the paper",)),
        "Every number was computed just now. One of them in full: truthful errata E3. All of them, and the tests that\n"
        "show them: docs/errata.md.",
    ]


def erratum_view(erratum: Erratum) -> list[RenderableType]:
    """One erratum in full."""
    claimed, true = erratum.numbers()
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    for name, words in (
        ("where", erratum.where),
        ("the paper says", erratum.claim),
        ("in fact", erratum.fact),
        ("because", erratum.because),
        ("example", erratum.example),
        ("measured", erratum.meaning),
        ("the paper", claimed),
        ("in fact", true),
        ("shown by", erratum.test),
    ):
        rows.add_row(name, words)
    return [Panel(rows, title=Text(f"{erratum.number}: {erratum.title}", "bold"), title_align="left")]


# Simulations: observed next to guaranteed, who earned what, the best response


def simulation_view(simulation: Simulation) -> list[RenderableType]:
    """The five guarantees, the earnings of each kind of people, and the best report."""
    from truthful.simulation.observations import (
        EARNINGS,
        best_reports,
        earnings_rows,
        excess_liars,
        name_guarantees,
        observations,
    )

    observed = table(
        f"Observed in {simulation.runs:,} studies of {simulation.plan.answering:,} players, and guaranteed",
        ("", "number", "observed", "guaranteed"),
        name_groups(
            (row.guarantee, row.words, row.observed, row.guaranteed) for row in observations(simulation)
        ),
        right=("observed", "guaranteed"),
    )
    title = f"Earnings ({simulation.plan.study.currency})"
    earnings = table(title, EARNINGS, earnings_rows(simulation), right=EARNINGS[1:])
    said = _lines(excess_liars(simulation), name_guarantees(simulation))
    views: list[RenderableType] = [observed, said, earnings, _lines(*best_reports(simulation))]
    return [view for view in views if view]


def _lines(*sentences: str) -> str:
    return "".join(f"{fill(sentence, WIDTH)}\n" for sentence in sentences if sentence)


# Audits, as a security engineer reads them


def audit_view(audit: Audit) -> list[RenderableType]:
    """One row for each attack, then the verdict and what to do."""
    grid = table(
        "Attacks on what the plan promises",
        ("check", "claim", "found", "confidence", "verdict"),
        (
            (Text(finding.name, "bold"), finding.claim, finding.found, finding.confidence, _mark(finding))
            for finding in audit.findings
        ),
    )
    return [grid, _verdict(audit), _power(audit), f"Repeat it: --seed {audit.seed} --samples {audit.samples}"]


def _mark(finding: Finding) -> Text:
    if finding.informational:
        return Text("not protected", "yellow")
    return Text("stands", "green") if finding.passed else Text("BROKEN", "bold red")


def _power(audit: Audit) -> str:
    """The faults that this audit would detect or miss, in a few lines."""
    caught = {
        finding.name: f"{finding.figures['scale_error_caught']:.0%}"
        for finding in audit.findings
        if "scale_error_caught" in finding.figures
    }
    sampler, settled = caught.get("noise", "any size"), caught.get("settlements: noise")
    seen = f"Would have seen: a scale of noise off by {sampler} in the sampler"
    if settled is None:
        return (
            f"{seen}.\n"
            "Would have missed: smaller errors; faults in settlements, of which none was made; faults that\n"
            "only other data show; from outside, less than ε = 1."
        )
    return (
        f"{seen}, by {settled} in settlements;\n"
        "reports, releases and payments of its settlements that do not follow from what they may.\n"
        "Would have missed: smaller errors; faults that only other data show; from outside, less than ε = 1."
    )


def _verdict(audit: Audit) -> RenderableType:
    broken = [finding.name for finding in audit.findings if not finding.passed]
    if broken:
        return Text(
            f"FAILED: {'; '.join(broken)}. Do not settle real answers with this installation; report it privately,\n"
            "with the output of --json (see docs/security.md).",
            "bold red",
        )
    attacks = sum(not finding.informational for finding in audit.findings)
    exposed = [finding.name for finding in audit.findings if finding.informational]
    but = f", not {', '.join(exposed)}" if exposed else ""
    words = f"Passed: {attacks} attacks, none broke a claim. The plan protects {audit.protects}{but}."
    return Text(words, "bold green")

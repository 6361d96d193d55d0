"""Records as people read them in a terminal. Nothing is computed here but the width of a bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.check import Floats
from truthful.demo import Demonstration
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.release import Release, Verdict
from truthful.settlement import Settlement
from truthful.study import Study
from truthful.symbols import SYMBOLS


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the house style."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left")
    return grid


def money(amount: float, currency: str, decimals: int = 2) -> str:
    """An amount with its currency, never in scientific notation."""
    return f"{amount:,.{decimals}f} {currency}"


def number(value: float, digits: int = 3) -> str:
    """A number in plain digits, at least `digits` of them significant."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 12)}f}"


def odds(epsilon: float) -> str:
    """ε as betting odds: the best anybody can do at telling two answers apart, starting from even."""
    percent = 100 / (1 + math.exp(-epsilon))
    digits = 0 if percent < 99 else 1
    return f"{percent:.{digits}f}:{100 - percent:.{digits}f}"


def guarantees_table(promised: Guarantees, study: Study) -> Group:
    """The five guarantees, always in this order: what, how surely, assuming what."""
    grid = table("What is guaranteed", "", "guarantee", "surely", "assuming")
    rows = (
        ("privacy", _privacy(promised), promised.privacy),
        ("truthfulness", _truthfulness(promised, study.currency), promised.truthfulness),
        ("accuracy", _accuracy(promised, study), promised.accuracy),
        ("participation", _participation(promised, study), promised.participation),
        ("budget", _budget(promised, study.currency), promised.budget),
    )
    assumptions = list(dict.fromkeys(words for _, _, group in rows for words in group.assumptions))
    for name, words, group in rows:
        surely = "certain" if group.probability == 1 else f"{group.probability:.0%}"
        assumed = " ".join(str(assumptions.index(words) + 1) for words in group.assumptions)
        grid.add_row(f"[bold]{name}[/]", words, surely, assumed or "nothing")
    notes = "\n".join(f"  {number}  {words}" for number, words in enumerate(assumptions, 1))
    return Group(grid, Text(f"Assuming\n{notes}\n", style="dim"))


def _privacy(promised: Guarantees) -> str:
    epsilon = promised.privacy.epsilon
    return (
        f"whatever you answer, nobody who sees the result can tell it from another answer with better than "
        f"{odds(epsilon)} odds (ε = {epsilon:g})"
    )


def _truthfulness(promised: Guarantees, currency: str) -> str:
    lie, slack = promised.truthfulness.lie, promised.truthfulness.slack
    if lie is None or slack is None:
        return (
            "nothing is promised: the study does not say how spread out the features are (least_eigenvalue)"
        )
    gain = money(slack, currency, 4)
    return f"no lie that moves a prediction by more than {number(lie)} pays; none gains over {gain}"


def _accuracy(promised: Guarantees, study: Study) -> str:
    rmse = promised.accuracy.rmse
    if rmse is None:
        return "nothing is promised: see the intervals of the coefficients"
    scale = f"{study.response.low:,g} to {study.response.high:,g}"
    return f"predictions are off by at most {number(rmse)} on the scale from {scale} (root mean square)"


def _participation(promised: Guarantees, study: Study) -> str:
    share, threshold = promised.participation.share, promised.participation.cost_threshold
    if share is None or threshold is None:
        return "nothing is promised beyond payments that are never negative"
    cost = money(threshold * study.privacy_cost(promised.privacy.epsilon), study.currency, 4)
    return (
        f"taking part pays for {share:.2%} of people: all to whom this much privacy is worth {cost} or less"
    )


def _budget(promised: Guarantees, currency: str) -> str:
    expected, cap = promised.budget.expected, promised.budget.cap
    words = [] if cap is None else [f"at most {money(cap, currency)} in all"]
    words += [] if expected is None else [f"{money(expected, currency)} or less on average"]
    return ", ".join(words) or "nothing is promised"


def plan_view(plan: Plan) -> list[RenderableType]:
    """A plan: what it promises, then its parameters."""
    grid = table("How", "parameter", "value", right=("value",))
    grid.add_row("players", f"{plan.players:,}")
    for name, value in plan.parameters().items():
        if value is not None:
            grid.add_row(name, f"{value:g}" if isinstance(value, float) else str(value))
    study = plan.study
    return [guarantees_table(plan.guarantees, study), grid]


def coefficients_table(release: Release, truth: dict[str, float] | None = None) -> Table:
    """The published coefficients with their intervals, next to the truth where it is known (invented people)."""
    level = f"{release.interval_level:.0%}"
    columns = ["coefficient", "estimate", f"{level} from", f"{level} to", *(["truth", ""] if truth else [])]
    grid = table("Coefficients", *columns, right=tuple(columns[1:5]))
    for row in release.coefficients:
        cells = [row.name, number(row.value), number(row.low), number(row.high)]
        if truth:
            inside = row.low <= truth[row.name] <= row.high
            cells += [number(truth[row.name]), "[green]inside[/]" if inside else "[yellow]outside[/]"]
        grid.add_row(*cells)
    return grid


def payments_chart(payments: Floats, currency: str, width: int = 40) -> Table:
    """The distribution of payments as bars."""
    counts, edges = np.histogram(payments, bins=12)
    grid = table(f"Payments ({currency})", "from", "to", "players", "", right=("from", "to", "players"))
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "█" * round(width * count / counts.max()) or ("▏" if count else "")
        grid.add_row(f"{low:.3f}", f"{high:.3f}", f"{count:,}", f"[cyan]{bar}[/]")
    return grid


def verdict_view(verdict: Verdict, currency: str) -> RenderableType:
    """One payment, recomputed."""
    colour, word = ("green", "verified") if verdict.verified else ("red", "NOT verified")
    text = Text.assemble(
        (f"{word}\n", f"bold {colour}"),
        f"player {verdict.player} was paid {money(verdict.paid, currency, 6)}\n",
        f"recomputed from the release:  {money(verdict.recomputed, currency, 6)}\n",
        f"her peers predicted {verdict.peer_prediction:.6f}, her own report predicts {verdict.own_prediction:.6f}",
    )
    return Panel(text, title="Payment", title_align="left", border_style=colour, expand=False)


def rehearsal_notice() -> RenderableType:
    """What a seeded run must always say."""
    return Panel(
        "This is a rehearsal: its noise comes from a seed, so it protects nobody. Do not use it on people's answers.",
        border_style="yellow",
        expand=False,
    )


def settlement_view(settlement: Settlement) -> list[RenderableType]:
    """A settlement: the coefficients, the guarantees, and what to do with the files."""
    release = settlement.release
    views: list[RenderableType] = [rehearsal_notice()] if release.rehearsal else []
    views.append(coefficients_table(release))
    if settlement.directory is not None:
        views.append(_files(settlement.directory))
    return views


def _files(directory: Path) -> Table:
    grid = table(f"Written to {directory}", "file", "for whom", "what")
    grid.add_row(
        "release.json", "everybody", "coefficients, guarantees, all that is needed to check a payment"
    )
    grid.add_row("payments.csv, .parquet", "whoever pays", "player, group, payment")
    grid.add_row("receipts.parquet", "each player her own", "her record as used, her group, her payment")
    grid.add_row("settlement.json", "nobody else", "the group key and unprotected counts and totals")
    return grid


def demo_view(shown: Demonstration) -> list[RenderableType]:
    """A demonstration, in the order in which it happened."""
    settlement, study = shown.settlement, shown.plan.study
    views: list[RenderableType] = [rehearsal_notice()] if settlement.release.rehearsal else []
    paid = settlement.payments.column("payment").to_numpy()
    return [
        *views,
        guarantees_table(shown.plan.guarantees, study),
        coefficients_table(settlement.release, shown.truth),
        payments_chart(paid, study.currency),
        f"Total paid: {money(settlement.summary['total_paid'], study.currency)}",
        verdict_view(shown.verdict, study.currency),
        f"Everything is in {shown.directory}: look at settlement/release.json, or check a payment yourself:\n"
        f"  truthful verify {shown.directory}/settlement/release.json {shown.directory}/receipt.json",
    ]


def symbols_table() -> Table:
    """The notation."""
    grid = table("Symbols", "paper", "meaning", "in formulas", "in files and commands")
    for symbol in SYMBOLS:
        grid.add_row(symbol.paper, symbol.meaning, symbol.formula, symbol.door)
    return grid


def show(console: Console, *views: RenderableType) -> None:
    """Print views one under the other."""
    for view in views:
        console.print(view)

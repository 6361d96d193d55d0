"""Records as people read them in a terminal. Nothing is computed here but the width of a bar."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.files import PAYMENTS, PAYMENTS_CSV, RECEIPTS
from truthful.formatting import REHEARSAL, money, number, to_within
from truthful.symbols import SYMBOLS

if TYPE_CHECKING:
    from truthful.check import Floats
    from truthful.demo import Demonstration
    from truthful.pilot import Calibration
    from truthful.plan import Plan
    from truthful.promises import Promise
    from truthful.release import AnyRelease, Payment, Release, Verdict
    from truthful.release.release import Predictions
    from truthful.release.release_of_halves import HalvesPayment
    from truthful.report.findings import Found
    from truthful.settlement import Settlement
    from truthful.study import Study

OWN_CENTRE = "own-centre"
NOT_YET = (
    "Pay the people of the pilot, and keep all else in {out} to yourself until the main wave has answered. Whoever "
    "knows the average learns little from her own answer any more, and then the truth can become ten times as dear to "
    "pay for."
)
FORMULAS = {"quadratic": "{a} + {b} × (2pq − q²)", "brier": "{a} − {b} × (p − 2pq + q²)"}


def terminal(stderr: bool = False) -> Console:
    """A console that prints names as they are: no markup, no emoji codes, nothing coloured by guess."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show(console: Console, *views: RenderableType) -> None:
    """Print views one under the other. Away from a terminal lines end where their text ends."""
    if console.is_terminal:
        for view in views:
            console.print(view, soft_wrap=isinstance(view, str))
        return
    with console.capture() as capture:
        for view in views:
            console.print(view, soft_wrap=isinstance(view, str))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table in the house style."""
    grid = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(column, justify="right" if column in right else "left")
    return grid


def guarantees_table(promised: Sequence[Promise]) -> Group:
    """The five guarantees, always in this order: what, how surely, assuming what."""
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    grid = table("What is guaranteed", "", "guarantee", "probability", "assuming")
    for promise in promised:
        assumed = " ".join(str(assumptions.index(words) + 1) for words in promise.assumptions)
        none = "nothing" if promise.probability else ""
        given = promise.given.format(assumed) if assumed else none
        grid.add_row(Text(promise.name, "bold"), promise.words, promise.probability, given)
    notes = Table.grid(padding=(0, 1))
    for place, words in enumerate(assumptions, 1):
        notes.add_row(Text(f" {place}", "dim"), Text(words, "dim"))
    return Group(grid, Text("Assuming", "dim"), notes, "")


def coefficients_table(release: AnyRelease, truth: dict[str, float] | None = None) -> Table:
    """The published coefficients with their intervals, next to the truth where it is known (invented people)."""
    level = f"{release.interval_level:.0%}"
    columns = ["coefficient", "estimate", f"{level} from", f"{level} to", *(["truth", ""] if truth else [])]
    unit = release.response["name"]
    grid = table(f"Coefficients (effects on {unit})", *columns, right=tuple(columns[1:5]))
    for row in release.coefficients:
        width = row.high - row.low
        cells: list[RenderableType] = [
            row.name,
            *(to_within(value, width) for value in (row.value, row.low, row.high)),
        ]
        if truth:
            inside = row.low <= truth[row.name] <= row.high
            word = Text("inside", "green") if inside else Text("outside", "yellow")
            cells += [to_within(truth[row.name], width), word]
        grid.add_row(*cells)
    return grid


def share_tables(release: Release, study: Study) -> list[RenderableType]:
    """The published share or mean rating, differences between people, and odds ratios, with their intervals."""
    from truthful.report.findings import NOT_ESTIMABLE, answer, tables, without_odds

    views: list[RenderableType] = [Text(f"{answer(release, study)}\n", "bold")]
    views += [_found_table(found, release.interval_level) for found in tables(release, study)]
    return views + ([f"{NOT_ESTIMABLE}\n"] if without_odds(release, study) else [])


def averages_tables(release: Release, found: Predictions, study: Study) -> list[RenderableType]:
    """What people answered and predicted on average, with intervals, and what they expected beforehand."""
    from truthful.report.averages import answer, averages

    told: list[RenderableType] = [Text(f"{answer(found)}\n", "bold")] if study.shares is None else []
    return [*told, _found_table(averages(found, study), release.interval_level)]


def _found_table(found: Found, level: float) -> Table:
    columns = [found.first.lower(), "estimate", f"{level:.0%} from", f"{level:.0%} to"]
    grid = table(found.title, *columns, right=tuple(columns[1:]))
    for row in found.rows:
        grid.add_row(*row)
    return grid


def coverage(release: AnyRelease, truth: dict[str, float]) -> str:
    """How many intervals hold the truth, and how many should in the long run."""
    inside = sum(row.low <= truth[row.name] <= row.high for row in release.coefficients)
    return (
        f"{inside} of {len(release.coefficients)} intervals hold the truth; in the long run, "
        f"{release.interval_level:.0%} do.\n"
    )


def payments_chart(payments: Floats, currency: str, width: int = 40) -> Table:
    """The distribution of payments as bars."""
    counts, edges = np.histogram(payments, bins=12)
    grid = table(f"Payments ({currency})", "from", "to", "players", "", right=("from", "to", "players"))
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "█" * round(width * count / counts.max()) or ("▏" if count else "")
        grid.add_row(f"{low:.4f}", f"{high:.4f}", f"{count:,}", Text(bar, "cyan"))
    return grid


def verdict_view(verdict: Verdict, payment: Payment | HalvesPayment) -> list[RenderableType]:
    """One payment, recomputed, and what must be said of it besides."""
    views: list[RenderableType] = [verdict_panel(verdict, payment)]
    if verdict.rehearsal:
        views.append(REHEARSAL)
    if not verdict.verified:
        views.append(
            "The amount does not follow from this release and this record. Check that the two belong together;\n"
            "if they do, the payment is wrong: ask whoever paid it."
        )
    return views


def verdict_panel(verdict: Verdict, payment: Payment | HalvesPayment) -> Panel:
    """One payment, recomputed, with the arithmetic."""
    colour, word = ("green", "Verified") if verdict.verified else ("red", "NOT verified")
    rows = Table.grid(padding=(0, 2))
    rows.add_row("paid", money(verdict.paid, payment.currency, 6))
    rows.add_row("recomputed", money(verdict.recomputed, payment.currency, 6))
    if verdict.surprise is not None:
        _surprise_rows(rows, verdict, payment)
    elif verdict.switch is not None:
        _bonus_rows(rows, verdict, payment)
    else:
        _score_rows(rows, verdict, payment)
    title = Text(f"{word}: the payment of player {verdict.player}", f"bold {colour}")
    return Panel(rows, title=title, title_align="left", border_style=colour, expand=False)


def _score_rows(rows: Table, verdict: Verdict, payment: Payment | HalvesPayment) -> None:
    """For numbers: the two predictions that a payment compares."""
    rows.add_row("payment rule", FORMULAS[payment.rule].format(a=f"{verdict.base:g}", b=f"{payment.b:g}"))
    others = "the other half's" if verdict.leverage is None else "everybody else's"
    rows.add_row("p", f"{verdict.peer_prediction:.6f}, what {others} answers predict here")
    rows.add_row("q", f"{verdict.own_prediction:.6f}, what this answer says they will predict")
    if verdict.leverage is not None:
        rows.add_row(
            "h", f"{verdict.leverage:.6f}, how much of that prediction was this answer, and was taken out"
        )


def _surprise_rows(rows: Table, verdict: Verdict, payment: Payment | HalvesPayment) -> None:
    """Where she is asked what the others will say: both averages without her, and the surprise that was paid for."""
    w = f"{getattr(payment, 'prediction', 0.0):g}"
    rows.add_row("for the answer", _surprise_rule(verdict, payment))
    rows.add_row("for the prediction", f"{w} × (4 − (m − p₀)²)")
    rows.add_row(
        "y, m", f"{verdict.answer:.6f}, {verdict.prediction:.6f}: this answer and prediction, from −1 to 1"
    )
    rows.add_row(
        "p", f"{verdict.peer_prediction:.6f}: what everybody else's answers predict here, noise included"
    )
    rows.add_row("p₀", f"{verdict.others_answer:.6f}: their average")
    rows.add_row("m₀", f"{verdict.others_prediction:.6f}: their average prediction")
    if verdict.plausible:
        rows.add_row(
            "Δ", f"{verdict.surprise:.6f}: by how much answers exceed what was expected, as far as it counts"
        )
    if verdict.plausible and payment.rule == OWN_CENTRE:
        rows.add_row(
            "s", f"{verdict.slope:.6f}: how much an answer moves what is expected of people like her"
        )
    rows.add_row("h", f"{verdict.leverage:.6f}: how much of p was this answer, and was taken out")


def _surprise_rule(verdict: Verdict, payment: Payment | HalvesPayment) -> str:
    if not verdict.plausible:
        return f"{verdict.base:g}, whatever it is: p₀ is beyond all that was thought possible"
    if payment.rule == OWN_CENTRE:
        return f"{verdict.base:g} + {payment.b:g} × (2s(1 − s)(y − p)Δ − s²(y − p)²)"
    return f"{verdict.base:g} + {payment.b:g} × yΔ/{getattr(payment, 'clip', 0.0):g}"


def _bonus_rows(rows: Table, verdict: Verdict, payment: Payment | HalvesPayment) -> None:
    """For yes and no, and for ratings: where the others' share lies, and what this answer is paid there."""
    p, t, y = verdict.peer_prediction, verdict.switch or 0.0, verdict.answer or 0.0
    rows.add_row("payment rule", _bonus_rule(verdict, f"{verdict.base:g} + {payment.b:g}"))
    if verdict.bend is None:
        rows.add_row("p", f"{p:.6f}: the others' share of yes, noise included, for people like her")
        rows.add_row("t", f"{t:.6f}: the switch point, the share at which yes and no pay the same")
    else:
        rows.add_row(
            "p", f"{p:.6f}: how far up the scale the others' mean is, noise included, for people like her"
        )
        rows.add_row("t", f"{t:.6f}: the switch point, where the lowest and the highest rating pay the same")
        rows.add_row("y", f"{y:.6f}: this answer, from −1 for the lowest rating to 1 for the highest")
        rows.add_row("s", f"{verdict.bend:.6f}: what answers between them have besides")
    if verdict.plausible:
        rows.add_row("φ", f"{verdict.phi:.6f}: how far p is above t, as a part of the width that counts")
    rows.add_row(
        "h", f"{verdict.leverage:.6f}: how much of the prediction was this answer, and was taken out"
    )


def _bonus_rule(verdict: Verdict, start: str) -> str:
    if not verdict.plausible:
        return f"{start}/2, whatever the answer: p is beyond all that was thought possible"
    if verdict.bend is not None:
        return f"{start} × (1 + φy + s(1 − y²))/2"
    sign, word = ("+", "yes") if (verdict.answer or 0.0) > 0 else ("−", "no")
    return f"{start} × (1 {sign} φ)/2, for {word}"


def rehearsal_notice() -> RenderableType:
    """What a seeded run must always say."""
    return notice(REHEARSAL)


def notice(words: str) -> RenderableType:
    """What must not be overlooked."""
    return Panel(words, border_style="yellow", expand=False)


def settlement_view(settlement: Settlement, plan: Plan) -> list[RenderableType]:
    """A settlement: what was learned, what is guaranteed, what was paid, and what to do with the files."""
    release, currency = settlement.release, plan.study.currency
    views: list[RenderableType] = [rehearsal_notice()] if release.rehearsal else []
    views += [notice(warning) for warning in getattr(release, "warnings", ())]
    from truthful.promises import compared, released
    from truthful.release import Release

    if isinstance(release, Release) and release.shares is not None:
        views += share_tables(release, plan.study)
    if isinstance(release, Release) and release.predictions is not None:
        views += averages_tables(release, release.predictions, plan.study)
    if plan.study.shares is None and (plan.study.levels is None or plan.study.features):
        views.append(coefficients_table(release))
    views.append(guarantees_table(released(release, plan)))
    if isinstance(release, Release) and release.guarantees != release.promised:
        grid = table(
            "As promised, and for those who answered", "", "promised", "now", right=("promised", "now")
        )
        for row in compared(release, plan):
            grid.add_row(*row)
        views.append(grid)
    views.append(paid_line(settlement, currency) + intake_line(settlement))
    views += [Text(f"{warning}\n", "yellow") for warning in settlement.summary.get("warnings", ())]
    if settlement.directory is not None:
        directory = settlement.directory
        views.append(_files(directory))
        if (directory / RECEIPTS).exists():
            views.append("Check a payment:")
            views.append(f"  truthful verify {directory}/release.json {directory}/{RECEIPTS} --player ID")
    return views


def pilot_view(
    settlement: Settlement, found: Calibration, plan: Plan, out: Path, save: Path
) -> list[RenderableType]:
    """What a pilot found of people's beliefs, and what to do with it."""
    views: list[RenderableType] = [rehearsal_notice()] if settlement.release.rehearsal else []
    views += [notice(warning) for warning in getattr(settlement.release, "warnings", ())]
    unit = " of 100" if plan.study.kind == "yes-no" else ""
    return [
        *views,
        Text(
            f"People expect {number(found.centre)}{unit}, standard error {number(found.error, 2)}.\n", "bold"
        ),
        paid_line(settlement, plan.study.currency) + intake_line(settlement),
        notice(NOT_YET.format(out=out)),
        f"Wrote {save}, the study of the main wave: one question, asked of other people. See what it can promise:",
        f"  truthful plan {save} --players 2000 --budget 2000 --save main.json",
    ]


def paid_line(settlement: Settlement, currency: str) -> str:
    """What was paid in all, and to one player."""
    summary = settlement.summary
    low, high = (money(summary[key], currency, 4) for key in ("least_payment", "largest_payment"))
    total = money(summary["total_paid"], currency)
    return f"Paid {total} to {summary['players']:,} players, from {low} to {high} each.\n"


def intake_line(settlement: Settlement) -> str:
    """What was done to bad records, if there were any."""
    records = settlement.summary["records"]
    done = [
        (records["clipped"], "values were moved into their range"),
        (records["records"] - records["kept"], "records were left out"),
    ]
    told = [f"{count:,} {words}" for count, words in done if count]
    return f"Of {records['records']:,} records: {', '.join(told)}.\n" if told else ""


def _files(directory: Path) -> Table:
    grid = table(f"Written to {directory}", "file", "for whom", "what")
    grid.add_row("release.json", "everybody", "coefficients, guarantees, all that checks a payment")
    grid.add_row("report.html", "everybody", "the release as a page to read and print")
    payments = f"{PAYMENTS_CSV}, .parquet" if (directory / PAYMENTS_CSV).exists() else PAYMENTS
    grid.add_row(payments, "whoever pays", "player and payment")
    if (directory / RECEIPTS).exists():
        grid.add_row(RECEIPTS, "each her own row", "her record as used, and how her payment came about")
    grid.add_row("settlement.json", "you alone", "unprotected counts and totals")
    return grid


def demo_view(shown: Demonstration) -> list[RenderableType]:
    """A demonstration, in the order in which it happened."""
    from truthful.promises import released

    settlement, study, directory = shown.settlement, shown.plan.study, shown.directory
    paid = settlement.payments.column("payment").to_numpy()
    return [
        *([rehearsal_notice()] if settlement.release.rehearsal else []),
        *(notice(warning) for warning in getattr(settlement.release, "warnings", ())),
        guarantees_table(released(settlement.release, shown.plan)),
        coefficients_table(settlement.release, shown.truth),
        coverage(settlement.release, shown.truth),
        payments_chart(paid, study.currency),
        paid_line(settlement, study.currency),
        verdict_panel(shown.verdict, settlement.release.payment),
        f"Everything is in {directory}. To check that payment yourself:",
        f"  truthful verify {directory}/settlement/release.json {directory}/receipt.json",
    ]


def symbols_table() -> Table:
    """The notation."""
    grid = table("Symbols", "paper", "meaning", "in formulas", "in files and commands")
    for symbol in SYMBOLS:
        grid.add_row(symbol.paper, symbol.meaning, symbol.formula, symbol.door)
    return grid

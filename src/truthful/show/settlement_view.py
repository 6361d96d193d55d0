"""The results of a study in a terminal: settlements, pilots, verified payments, the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.files import PAYMENTS, PAYMENTS_CSV, RECEIPTS
from truthful.formatting import REHEARSAL, command, interval, money, number, to_within
from truthful.show.terminal import guarantees_table, notice, table

if TYPE_CHECKING:
    from truthful.check import Floats
    from truthful.demo import Demonstration
    from truthful.elicitation import Calibration
    from truthful.plan import Plan
    from truthful.release import Payment, Release, Verdict
    from truthful.report.page import EstimateTable
    from truthful.settlement import Preview, Settlement
    from truthful.study import Study

OWN_CENTRE = "own-centre"
#: The longest bar of a chart, in characters.
BAR = 40
NOT_YET = (
    "Pay the people of the pilot, and keep everything else in {out} to yourself until the main wave has answered. "
    "Somebody who knows the average learns little more from her own answer, and honest answers can then cost ten times "
    "as much."
)
FROM_THE_MEAN = "The coefficient of a level is its difference from the mean of all levels."
#: How a payment came about, by symbols and words.
Steps = list[tuple[str, str]]
FORMULAS = {"quadratic": "{a} + {b} × (2pq − q²)", "brier": "{a} − {b} × (p − 2pq + q²)"}


def coefficients_table(release: Release, truth: dict[str, float] | None = None) -> Table:
    """The published coefficients with their intervals, next to the truth where it is known (invented people)."""
    level, rows = f"{release.interval_level:.0%}", []
    columns = ["coefficient", "estimate", f"{level} from", f"{level} to", *(["truth", ""] if truth else [])]
    for row in release.coefficients:
        cells: list[RenderableType] = [row.name, *interval(row.value, row.low, row.high)]
        if truth:
            inside = row.low <= truth[row.name] <= row.high
            word = Text("inside", "green") if inside else Text("outside", "yellow")
            cells += [to_within(truth[row.name], row.high - row.low), word]
        rows.append(cells)
    title = f"Coefficients (effects on {release.response['name']})"
    return table(title, columns, rows, right=columns[1:5])


def estimates_views(release: Release, study: Study) -> list[RenderableType]:
    """Shares or mean ratings, differences and odds ratios, and the average answer and prediction."""
    from truthful.report import page

    views: list[RenderableType] = []
    if release.shares is not None:
        views.append(Text(f"{page.share_sentence(release, study)}\n", "bold"))
        views += [_estimates_table(shares, release) for shares in page.share_tables(release, study)]
        views += _show_interactions(study)
        views += [f"{page.NOT_ESTIMABLE}\n"] if page.lacks_odds(release, study) else []
    if release.predictions is not None:
        if study.shares is None:
            views.append(Text(f"{page.averages_sentence(release.predictions)}\n", "bold"))
        views.append(_estimates_table(page.averages_table(release.predictions, study), release))
    return views


def differences_views(release: Release, study: Study) -> list[RenderableType]:
    """Differences between people who answered with numbers, if they have features."""
    from truthful.report import page

    if not release.differences:
        return []
    levels = any(feature.levels for feature in study.features)
    return [
        _estimates_table(page.differences_table(release, study), release),
        *([f"{FROM_THE_MEAN}\n"] if levels else []),
        *_show_interactions(study),
    ]


def _show_interactions(study: Study) -> list[RenderableType]:
    from truthful.report import page

    return [Text(f"{words}\n")] if (words := page.explain_interactions(study)) else []


def _estimates_table(found: EstimateTable, release: Release) -> Table:
    level = f"{release.interval_level:.0%}"
    columns = [found.first.lower(), "estimate", f"{level} from", f"{level} to"]
    return table(found.title, columns, found.rows, right=columns[1:])


def coverage(release: Release, truth: dict[str, float]) -> str:
    """How many intervals contain the truth, and how many should in the long run."""
    inside = sum(row.low <= truth[row.name] <= row.high for row in release.coefficients)
    return (
        f"{inside} of {len(release.coefficients)} intervals hold the truth; in the long run, "
        f"{release.interval_level:.0%} do.\n"
    )


def payments_chart(payments: Floats, currency: str) -> Table:
    """The distribution of payments as bars."""
    counts, edges = np.histogram(payments, bins=12)
    rows: list[tuple[RenderableType, ...]] = []
    for count, low, high in zip(counts, edges, edges[1:], strict=False):
        bar = "█" * round(BAR * count / counts.max()) or ("▏" if count else "")
        rows.append((f"{low:.4f}", f"{high:.4f}", f"{count:,}", Text(bar, "cyan")))
    columns = ("from", "to", "players", "")
    return table(f"Payments ({currency})", columns, rows, right=columns[:3])


def verdict_view(verdict: Verdict, payment: Payment) -> list[RenderableType]:
    """One payment, recomputed, and the notices that go with it."""
    views: list[RenderableType] = [verdict_panel(verdict, payment)]
    if verdict.rehearsal:
        views.append(REHEARSAL)
    if not verdict.verified:
        views.append(
            "The amount does not follow from this release and this record. Check that the two belong together;\n"
            "if they do, the payment is wrong: ask whoever paid it."
        )
    return views


def verdict_panel(verdict: Verdict, payment: Payment) -> Panel:
    """One payment, recomputed, with the arithmetic."""
    if verdict.surprise is not None:
        steps = _surprise_steps(verdict, payment)
    elif verdict.switch is not None:
        steps = _bonus_steps(verdict, payment)
    else:
        steps = _score_steps(verdict, payment)
    rows = Table.grid(padding=(0, 2))
    rows.add_row("paid", money(verdict.paid, payment.currency, 6))
    rows.add_row("recomputed", money(verdict.recomputed, payment.currency, 6))
    for name, words in steps:
        rows.add_row(name, words)
    colour = "green" if verdict.verified else "red"
    return Panel(rows, title=verdict_title(verdict), title_align="left", border_style=colour, expand=False)


def verdict_title(verdict: Verdict) -> Text:
    """Whose payment it is, and whether it is verified."""
    colour, word = ("green", "Verified") if verdict.verified else ("red", "NOT verified")
    return Text(f"{word}: the payment of player {verdict.player}", f"bold {colour}")


def _score_steps(verdict: Verdict, payment: Payment) -> Steps:
    """For numbers: the two predictions that a payment compares."""
    return [
        ("payment rule", FORMULAS[payment.rule].format(a=f"{verdict.base:g}", b=f"{payment.b:g}")),
        ("p", f"{verdict.peer_prediction:.6f}, what everybody else's answers predict here"),
        ("q", f"{verdict.own_prediction:.6f}, what this answer says they will predict"),
        ("h", f"{verdict.leverage:.6f}, how much of that prediction was this answer, and was taken out"),
    ]


def _surprise_steps(verdict: Verdict, payment: Payment) -> Steps:
    """With predictions: both averages without her, and the surprise that was paid for."""
    sloped = verdict.plausible and payment.rule == OWN_CENTRE
    if not verdict.plausible:
        rule = f"{verdict.base:g}, whatever it is: p₀ is beyond all that was thought possible"
    elif sloped:
        rule = f"{verdict.base:g} + {payment.b:g} × (2s(1 − s)(y − p)Δ − s²(y − p)²)"
    else:
        rule = f"{verdict.base:g} + {payment.b:g} × yΔ/{payment.clip:g}"
    surprise = f"{verdict.surprise:.6f}: by how much answers exceed what was expected, as far as it counts"
    slope = f"{verdict.slope:.6f}: how much an answer moves what is expected of people like her"
    return [
        ("for the answer", rule),
        ("for the prediction", f"{payment.prediction:g} × (4 − (m − p₀)²)"),
        (
            "y, m",
            f"{verdict.answer:.6f}, {verdict.prediction:.6f}: this answer and prediction, from −1 to 1",
        ),
        ("p", f"{verdict.peer_prediction:.6f}: what everybody else's answers predict here, noise included"),
        ("p₀", f"{verdict.others_answer:.6f}: their average"),
        ("m₀", f"{verdict.others_prediction:.6f}: their average prediction"),
        *([("Δ", surprise)] if verdict.plausible else []),
        *([("s", slope)] if sloped else []),
        ("h", f"{verdict.leverage:.6f}: how much of p was this answer, and was taken out"),
    ]


def _bonus_steps(verdict: Verdict, payment: Payment) -> Steps:
    """For yes and no and ratings: the others' share, and the payment for this answer there."""
    p, t, y = (f"{at:.6f}" for at in (verdict.peer_prediction, verdict.switch, verdict.answer))
    if verdict.bend is None:
        compared = [
            ("p", f"{p}: the others' share of yes, noise included, for people like her"),
            ("t", f"{t}: the switch point, the share at which yes and no pay the same"),
        ]
    else:
        compared = [
            ("p", f"{p}: how far up the scale the others' mean is, noise included, for people like her"),
            ("t", f"{t}: the switch point, where the lowest and the highest rating pay the same"),
            ("y", f"{y}: this answer, from −1 for the lowest rating to 1 for the highest"),
            ("s", f"{verdict.bend:.6f}: what answers between them have besides"),
        ]
    above = ("φ", f"{verdict.phi:.6f}: how far p is above t, as a part of the width that counts")
    return [
        ("payment rule", _bonus_rule(verdict, f"{verdict.base:g} + {payment.b:g}")),
        *compared,
        *([above] if verdict.plausible else []),
        ("h", f"{verdict.leverage:.6f}: how much of the prediction was this answer, and was taken out"),
    ]


def _bonus_rule(verdict: Verdict, start: str) -> str:
    if not verdict.plausible:
        return f"{start}/2, whatever the answer: p is beyond all that was thought possible"
    if verdict.bend is not None:
        return f"{start} × (1 + φy + s(1 − y²))/2"
    sign, word = ("+", "yes") if verdict.answer > 0 else ("−", "no")
    return f"{start} × (1 {sign} φ)/2, for {word}"


def _notices(release: Release) -> list[RenderableType]:
    """Notices that come first: that a run is a rehearsal, and warnings."""
    rehearsal = [REHEARSAL] if release.rehearsal else []
    return [notice(words) for words in (*rehearsal, *release.warnings)]


def release_view(release: Release, study: Study) -> list[RenderableType]:
    """The estimates, after the notices."""
    views = [*_notices(release), *estimates_views(release, study)]
    if study.shares is None and (study.levels is None or study.features):
        views += [coefficients_table(release), *differences_views(release, study)]
    return views


def settlement_view(settlement: Settlement, plan: Plan) -> list[RenderableType]:
    """A settlement: estimates, guarantees, payments, and what to do with the files."""
    from truthful.promises import compare_promised, released_promises

    release, study, directory = settlement.release, plan.study, settlement.directory
    views = release_view(release, study)
    views.append(guarantees_table(released_promises(release, plan)))
    if release.guarantees != release.promised:
        title, columns = "As promised, and for those who answered", ("", "promised", "now")
        views.append(table(title, columns, compare_promised(release, plan), right=columns[1:]))
    views.append(paid_line(settlement, study.currency) + intake_line(settlement))
    views += [Text(f"{warning}\n", "yellow") for warning in settlement.summary.get("warnings", ())]
    if directory is not None:
        views.append(_files(directory))
        if (directory / RECEIPTS).exists():
            check = command("verify", directory / "release.json", directory / RECEIPTS, "--player", "ID")
            views += ["Check a payment:", f"  {check}"]
    return views


ANSWERS_UNSEEN = "Answers are checked for their range only: nothing about them is shown."


def preview_view(seen: Preview) -> list[RenderableType]:
    """What `settle` would do with reports: records, features, what could be promised, and reasons to refuse."""
    from truthful.promises import compare_guarantees

    plan = seen.plan
    usable = f"{seen.people:,} people can be used" if seen.people else "none can be used"
    views: list[RenderableType] = [
        f"{seen.where}: {seen.records:,} records, {usable}; the plan is for {plan.players:,}.",
        ANSWERS_UNSEEN,
    ]
    if seen.clipped:
        views.append(f"{seen.clipped:,} values would be moved into their range.")
    if seen.bad:
        rows = [(kind, f"{count:,}", _rows_of(seen, kind)) for kind, count in seen.bad.items()]
        views.append(table("Bad values", ("what is wrong", "values", "first rows"), rows, right=("values",)))
    if seen.numbers or seen.levels:
        cells = ("feature", "declared", "found", "people")
        views.append(table("Features", cells, _balance(seen), right=cells[1:]))
    if seen.found is not None:
        title, columns = "What would be promised", ("", "by the plan", "for these people")
        views.append(
            table(title, columns, compare_guarantees(plan.guarantees, seen.found, plan), right=columns[1:])
        )
    spent = f"ε = {seen.spent:g} is spent already" if seen.spent else "nothing is spent yet"
    views.append(f"The ledger: {spent}; settling spends ε = {plan.mechanism.epsilon:.3g}.")
    views += [Text(f"{warning}\n", "yellow") for warning in seen.warnings]
    if seen.settles:
        return [*views, Text("These reports can be settled:", "bold green")]
    views.append(Text("truthful settle would refuse:", "bold red"))
    return views + [Text(f"- {reason}") for reason in seen.reasons]


def _rows_of(seen: Preview, kind: str) -> str:
    """The places of the first values with this fault; never the values themselves, which may be answers."""
    first = [
        f"{bad.row} ({bad.column})" if bad.column else f"{bad.row}" for bad in seen.first if bad.kind == kind
    ]
    return ", ".join(first[:5])


def _balance(seen: Preview) -> list[tuple[str, str, str, str]]:
    """Features as declared and as observed: means and standard deviations of numbers, shares of levels."""

    def show_spread(mean: float | None, spread: float | None) -> str:
        if spread is None:
            return "—"
        return number(spread) if mean is None else f"{number(mean)} ± {number(spread)}"

    rows = [
        (
            row.feature,
            show_spread(row.declared_mean, row.declared_spread),
            show_spread(row.mean, row.spread),
            "",
        )
        for row in seen.numbers
    ]
    for level in seen.levels:
        declared = "—" if level.declared_share is None else f"{level.declared_share:.1%}"
        people = f"{level.people:,}{' (few)' if level.few else ''}"
        rows.append((f"{level.feature} = {level.level}", declared, f"{level.share:.1%}", people))
    return rows


def pilot_view(
    settlement: Settlement, found: Calibration, plan: Plan, out: Path, save: Path
) -> list[RenderableType]:
    """A pilot's estimate of people's centre, and what to do with it."""
    expected = f"People expect {number(found.centre)}{' of 100' if plan.study.kind == 'yes-no' else ''}"
    return [
        *_notices(settlement.release),
        Text(f"{expected}, standard error {number(found.error, 2)}.\n", "bold"),
        paid_line(settlement, plan.study.currency) + intake_line(settlement),
        notice(NOT_YET.format(out=out)),
        f"Wrote {save}, the study of the main wave: one question, asked of other people. See what it can promise:",
        f"  {command('plan', save, '--players', '2000', '--budget', '2000', '--save', 'main.json')}",
    ]


def paid_line(settlement: Settlement, currency: str) -> str:
    """The total of payments, and the range of single ones."""
    summary = settlement.summary
    low, high = (money(summary[key], currency, 4) for key in ("least_payment", "largest_payment"))
    total = money(summary["total_in_coins"], currency)
    return f"Paid {total} to {summary['players']:,} players, from {low} to {high} each.\n"


def intake_line(settlement: Settlement) -> str:
    """How bad records were treated, if there were any."""
    records = settlement.summary["records"]
    done = [
        (records["clipped"], "values were moved into their range"),
        (records["records"] - records["kept"], "records were left out"),
    ]
    told = [f"{count:,} {words}" for count, words in done if count]
    return f"Of {records['records']:,} records: {', '.join(told)}.\n" if told else ""


def _files(directory: Path) -> Table:
    payments = f"{PAYMENTS_CSV}, .parquet" if (directory / PAYMENTS_CSV).exists() else PAYMENTS
    receipts = (RECEIPTS, "each her own row", "her record as used, and how her payment came about")
    rows = [
        ("release.json", "everybody", "coefficients, guarantees, all that checks a payment"),
        ("report.html", "everybody", "the release as a page to read and print"),
        (payments, "whoever pays", "player, payment, and what is paid in coins"),
        *([receipts] if (directory / RECEIPTS).exists() else []),
        ("settlement.json", "you alone", "unprotected counts and totals"),
    ]
    return table(f"Written to {directory}", ("file", "for whom", "what"), rows)


def demo_view(shown: Demonstration) -> list[RenderableType]:
    """The demonstration, in the order of its steps."""
    from truthful.promises import released_promises

    settlement, study, directory = shown.settlement, shown.plan.study, shown.directory
    paid = settlement.payments.column("payment").to_numpy()
    return [
        *_notices(settlement.release),
        guarantees_table(released_promises(settlement.release, shown.plan)),
        coefficients_table(settlement.release, shown.truth),
        coverage(settlement.release, shown.truth),
        payments_chart(paid, study.currency),
        paid_line(settlement, study.currency),
        verdict_panel(shown.verdict, settlement.release.payment),
        f"Everything is in {directory}. To check that payment yourself:",
        f"  {command('verify', directory / 'settlement' / 'release.json', directory / 'receipt.json')}",
    ]

"""A plan in a terminal: its promises, the paper's claims, the reason for its numbers, and what more money buys."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from truthful.elicitation import ElicitedBeliefs, PlanVariant
from truthful.formatting import money, number, percent, points
from truthful.plan import Plan
from truthful.planner import Worth, worth
from truthful.planner.asked_planning import SMALL_SLOPE, AskedSolution
from truthful.planner.number_planning import NumberSolution
from truthful.planner.share_planning import ShareSolution
from truthful.promises import (
    caveats,
    compare_published,
    precisions_table,
    promises,
    published_penalty,
    slope_words,
    wrong_beliefs,
)
from truthful.share_release import ShareRelease
from truthful.show.terminal import guarantees_table, name_groups, notice, table

#: What the parameters of a plan for yes or no, for ratings, or one that asks for predictions mean.
MEANINGS = {
    "epsilon": "privacy: smaller is more private",
    "flat": "what everybody is paid",
    "bonus": "the most that is paid beside it",
    "margin": "how far beyond those believed shares count",
    "tolerance": "beyond by more, all get half the bonus",
    "norm": "by which noise falls off",
    "ratio": "predictions beside answers in the release",
    "clip": "surprises count up to here, half the scale = 1",
    "base_payment": "what an answer earns before its score",
    "score_weight": "what a score of 1 adds or takes away",
    "prediction_weight": "a prediction earns up to four times this",
    "plausible_low": "averages below pay all alike, −1: lowest",
    "plausible_high": "averages above pay all alike, 1: highest",
    "absent_share": "people who may misreport",
    "failure_probability": "that more do",
}
KNOWN_LESS = (
    "Ask about people of whom they know less, or declare a larger beliefs.sure if that is what they are."
)
BOUND = "Declare beliefs.plausible, the averages that can be: beyond them all answers then pay alike."
FOUND = "An effect as large as in the last column is told from 0 by its interval in 80% of studies.\n"
ALL_BONUS = (
    "All of the money goes into the bonus, for the smallest error. With --accuracy the bonus is as small as honesty "
    "allows, and the rest of the budget is a flat fee: people whose beliefs differ from the declared ones then have "
    "little to gain by lying."
)
LEAST_BONUS = (
    "The bonus is the smallest that makes honesty pay at this accuracy{rest}. People whose beliefs differ from the "
    "declared ones have little to gain by lying."
)


def plan_view(plan: Plan) -> list[RenderableType]:
    """Guarantees, the paper's claims, compared estimators, parameters and margins; for shares how the money is spent;
    for predictions their limits.
    """
    asked, shares, found = plan.asked_mechanism, plan.share_mechanism, plan.solution
    views: list[RenderableType] = [guarantees_table(promises(plan)), *intervals_views(plan)]
    if told := wrong_beliefs(plan):
        views += [Text("If people believe otherwise", "bold"), Text(" ".join(told) + "\n")]
    if asked is None and shares is None:
        views += [published_table(plan), _note(plan)]
    if isinstance(found, NumberSolution):
        views += [compared_table(found), Text(reason(found))]
    views.append(parameters_table(plan))
    if asked is not None:
        little = plan.guarantees.truthfulness.slope < SMALL_SLOPE
        slope = slope_words(plan)
        views.append(Text(f"{slope} {KNOWN_LESS}\n", "yellow") if little else Text(f"{slope}\n"))
    lines = [] if found is None else [worth_line(worth(found), plan)]
    if isinstance(found, ShareSolution) and shares is not None:
        lines.append(advice(found, shares))
    if isinstance(found, AskedSolution) and found.goals.accuracy_of == "centre":
        lines.append(_centre_line(plan, found))
    if asked is not None:
        *others, level = caveats(plan)
        bound = f" {BOUND}" if math.isinf(asked.plausible[1]) else ""
        lines += [f"{sentence}\n" for sentence in (*others, level + bound)]
    return [*views, *(Text(line) for line in lines if line)]


def intervals_views(plan: Plan) -> list[RenderableType]:
    """The widths of a release's intervals, and the smallest effects that they detect."""
    columns, rows = precisions_table(plan.guarantees, plan.study)
    if not rows:
        return []
    effects = any(effect for _, _, effect in rows)
    kept = columns if effects else columns[:2]
    shown = [row[: len(kept)] for row in rows]
    views: list[RenderableType] = [table("Intervals to expect", kept, shown, right=kept[1:])]
    return [*views, Text(FOUND, "dim")] if effects else views


def _centre_line(plan: Plan, found: AskedSolution) -> str:
    """The error of a pilot's estimate of what people expect."""
    told = points if plan.study.kind == "yes-no" else number
    error = told(plan.study.response_unit * math.sqrt(found.error))
    return f"A pilot: what people expect is found to within {error}, root mean square.\n"


def advice(found: ShareSolution, mechanism: ShareRelease) -> str:
    """How the money is spent, and what would be wiser where all of it is bonus."""
    if found.goals.accuracy is not None:
        rest = ", and the rest of the budget is a flat fee" if mechanism.flat > 0 else ""
        return LEAST_BONUS.format(rest=rest) + "\n"
    return f"{ALL_BONUS}\n" if found.goals.budget is not None else ""


def published_table(plan: Plan) -> Table:
    """Proved next to published."""
    title, columns = (
        "Proved, and the paper's formulas at the same parameters",
        ("", "number", "proved", "published"),
    )
    return table(title, columns, name_groups(compare_published(plan)), right=columns[2:])


def _note(plan: Plan) -> Text:
    gamma = number(published_penalty(plan))
    return Text(
        "Published: as printed, mistakes included (truthful errata), for features on the unit ball, at the ridge "
        f"penalty that suits it best, {gamma}.\n",
        "dim",
    )


def compared_table(found: NumberSolution) -> Table:
    """The best plan with each estimator."""
    study = found.study
    prior = found.goals.prior_error(study)
    rows: list[tuple[RenderableType, ...]] = []
    for solution in (found, *found.others):
        name = solution.terms.estimator
        if not math.isfinite(solution.cost):
            rows.append((name, "–", "–", "–", "cannot meet the goals"))
            continue
        error = number(study.response_unit * math.sqrt(solution.error))
        beaten = "" if solution.error < prior else "worse than the prior mean"
        remark = Text("chosen" if solution is found else beaten, "green")
        rows.append((name, error, money(solution.cost, study.currency), f"{solution.epsilon:.3g}", remark))
    columns = ("estimator", "error", "cost", "ε", "")
    return table("Estimators compared", columns, rows, right=("error", "cost", "ε"))


def reason(found: NumberSolution) -> str:
    """Why the first estimator was chosen."""
    what = {"error": "the least guaranteed error for the money", "cost": "the least cost"}.get(
        found.minimised, "the least product of cost and squared error"
    )
    study = found.study
    lie = found.goals.lie_size(study)
    by_default = ", half the largest prediction" if found.goals.lie is None else ""
    moved = f"{number(lie * study.response_unit)} ({lie:g} in normalised units{by_default}; --lie changes it)"
    chosen = f"Chosen: {found.terms.estimator}, for {what}, when no lie may pay that moves a prediction"
    matched = (
        ".\nPredictions are clipped at c and the size of lies is matched, so that no more of all answers go undeterred"
        if found.goals.payments == "never-negative"
        else ""
    )
    return f"{chosen} by more than {moved}{matched}.\n"


def parameters_table(plan: Plan) -> Table:
    """The number of players and the parameters, under the names in files; some numbers with their meaning."""
    rows = [("players", f"{plan.players:,}")]
    if plan.roster is not None:
        rows.append(("roster", f"{plan.roster.players:,} people"))
    if plan.response_share < 1:
        rows.append(("response_share", f"{plan.response_share:g}: {plan.answering:,} answer"))
    rows += [
        (name, f"{value:,.6g}" if isinstance(value, float) else str(value))
        for name, value in plan.parameters().items()
        if value is not None
    ]
    if plan.asked_mechanism is None and plan.share_mechanism is None:
        return table("How", ("parameter", "value"), rows, right=("value",))
    explained = [(*row, Text(MEANINGS.get(row[0], ""), "dim")) for row in rows]
    return table("How", ("parameter", "value", ""), explained, right=("value",))


def worth_line(margins: Worth, plan: Plan) -> str:
    """The worth of one more dollar or one more player, in words."""
    currency = plan.study.currency
    if margins.of == "cost":
        if margins.player is None:
            return ""
        word = "saves" if margins.player < 0 else "costs"
        return f"One more player {word} {money(abs(margins.player), currency)}.\n"
    told = points if plan.study.kind == "yes-no" else number
    parts = [
        f"{what} {'lowers' if change < 0 else 'raises'} the error by {told(abs(change), 2)}"
        for what, change in (
            (f"1 {currency} more", margins.currency_unit),
            ("one more player", margins.player),
        )
        if change is not None
    ]
    return f"{' and '.join(parts)}.\n" if parts else ""


# Beliefs

EARLIER = (
    "These numbers come from people's answers, without noise, and will be public. Declare them only if that is allowed "
    "for {file}, and never from the answers of those you are about to ask."
)
VARIED = {
    "signal": "signal",
    "noise_sd": "noise",
    "sure": "doubt of people about the average",
    "spread": "scatter of answers",
    "share": "width of the share",
    "effect": "effects of features",
    "costs": "worth of privacy",
}


def beliefs_view(
    found: ElicitedBeliefs | None, changed: Sequence[PlanVariant], study: Path, data: Path | None
) -> list[RenderableType]:
    """Sections for the study file with their reasons, and plans with beliefs and costs halved and doubled."""
    views: list[RenderableType] = []
    if found is not None:
        views += [f"Put this into {study}:\n", found.toml() + "\n"]
        if data is not None:
            views += [notice(EARLIER.format(file=data))]
    if changed:
        rows = [_changed_row(variant) for variant in changed]
        columns = ("if", "ε", "error", f"most, {changed[0].currency}", "lies not deterred")
        views.append(table("The plan, and what it would be", columns, rows, right=columns[1:]))
    return views


def _changed_row(changed: PlanVariant) -> tuple[str, ...]:
    times = {0.5: "half the ", 2.0: "twice the "}.get(changed.factor, "")
    what, found = times + VARIED.get(changed.what, changed.what), changed.record()
    if not found["feasible"]:
        return what, "no plan", "", "", ""
    error = "no bound" if found["error"] is None else number(found["error"])
    cost = "no cap" if found["cost"] is None else f"{found['cost']:,.0f}"
    lies = "" if found["undeterred"] is None else percent(found["undeterred"])
    return what, f"{found['epsilon']:.3g}", error, cost, lies

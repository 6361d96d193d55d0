"""The public report of a settlement: one page, made from the release and the plan alone.

It says no more about people's answers than the release: every number in it is public or follows from the private
estimates. So it is the same page whenever it is made again. Nothing here sees a record, a payment or a total: those are
functions of raw answers. Every chart has its numbers in a table.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Any

import numpy as np

from truthful import one_release
from truthful.asked_release import AskedRelease
from truthful.charts.estimate_charts import BEFORE, Averages, Forest, Odds, Share
from truthful.charts.payment_charts import LieRow, Lies, PaymentsChart, chart_answers, chart_surprises
from truthful.check import Floats
from truthful.deterrence import Typical, typical
from truthful.files import pretty_json
from truthful.formatting import REHEARSAL, money, number, to_within
from truthful.guarantees import Guarantees, Truthfulness
from truthful.moments import grid_features, grid_responses
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.promises import (
    Promise,
    caveats,
    compare_promised,
    precisions_table,
    released_promises,
    slope_words,
    wrong_beliefs,
)
from truthful.release import Release
from truthful.release.consistency import require_planned
from truthful.release.release import Predictions
from truthful.report import page
from truthful.report.page import Facts, all_assumptions, declared_beliefs, render
from truthful.share_release import ShareRelease
from truthful.study.credibility import ShareBeliefs

#: Sizes of lies in the table, as shares of the response's range.
LIES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
#: Points of the curve of lies, and invented people whose payments are predicted.
POINTS, DRAWS = 101, 2000
#: It needs no file and no library, so nothing in it can fail.
NOTICE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>No report</title></head>
<body>
<h1>No report</h1>
<p>The report could not be made. Everything else is whole: release.json beside this page holds all results. To make the
report again, from the release and its plan:</p>
<pre>truthful report release.json plan.json --out report.html</pre>
</body>
</html>
"""


def report(release: Release, plan: Plan) -> str:
    """The report as an HTML page."""
    require_planned(release, plan)
    promised, kept = released_promises(release, plan), Guarantees.from_record(release.guarantees)
    assumptions, odds = all_assumptions(promised), Odds(release.total_epsilon)
    # What holds for people who believed otherwise, unless nothing is promised even to those who did not.
    truthful = any(promise.name == "truthfulness" and promise.probability for promise in promised)
    return render(
        "settlement.html",
        plan.study,
        release.players,
        assumptions,
        kind="report",
        notices=[*([REHEARSAL] if release.rehearsal else []), *release.warnings],
        answer=_answer(release, plan),
        level=f"{release.interval_level:.0%}",
        found=_find_shares(release, plan) or _find_coefficients(release, plan),
        guarantees=[(promise, _number_assumptions(promise, assumptions)) for promise in promised],
        precisions=precisions_table(kept, plan.study),
        kept=compare_promised(release, plan),
        odds=odds,
        surer=[(f"{before:.0%}", *odds.in_words(before)) for before in BEFORE],
        paid=_payment_facts(release, plan, kept.truthfulness),
        declared=declared_beliefs(plan.study, wrong_beliefs(plan, kept) if truthful else ()),
        identity=_identity(release),
        file_sha256=hashlib.sha256(pretty_json(release.record()).encode()).hexdigest(),
    )


def report_or_notice(release: Release, plan: Plan) -> str:
    """The report, or a page that says there is none.

    At this point the noise is already drawn. If a chart could stop a settlement, it would never be finished.
    """
    try:
        return report(release, plan)
    except Exception as problem:
        logging.getLogger(__name__).warning(
            "report.html could not be made (%r); the settlement is whole.", problem
        )
        return NOTICE


def _answer(release: Release, plan: Plan) -> str:
    """The result, where it is a single number."""
    if release.shares is not None:
        return page.share_sentence(release, plan.study)
    if release.predictions is not None:
        return page.averages_sentence(release.predictions)
    return ""


def _number_assumptions(promise: Promise, assumptions: list[str]) -> str:
    """The assumptions of a guarantee by their numbers, in the words of `truthful plan`, which stand in lines."""
    numbers = ", ".join(str(assumptions.index(words) + 1) for words in promise.assumptions)
    return promise.given.format(f"assumptions {numbers}").replace("\n", "; ") if numbers else "nothing"


def _identity(release: Release) -> Facts:
    """The hashes and numbers that identify this release."""
    epsilon = f"{release.epsilon.answers:.6g}, of answers; features are not protected"
    if release.epsilon.records is not None:
        epsilon = f"{release.epsilon.records:.6g}, of whole records"
    return [
        ("Release", release.sha256),
        ("Plan", release.plan_sha256),
        ("Study", release.study.sha256),
        ("Estimator", f"{release.estimator}; everybody is scored against everybody else"),
        ("ε", epsilon),
        ("Program", f"truthful {release.version}"),
    ]


# What was found


def _find_coefficients(release: Release, plan: Plan) -> dict[str, Any]:
    """Averages, if people were asked for predictions, and coefficients: comparable in the chart, as published below."""
    study, averages = plan.study, _averages(release, plan)
    found = page.differences(release.differences or (), study)
    alone = averages["averages"] is not None and not found
    compared = (page.differences_table(release, study),) if found else ()
    return {
        "share": None,
        "everybody": None,
        **averages,
        "forest": Forest(found, study.response.name, release.interval_level) if found else None,
        "tables": () if alone else (*compared, page.coefficients_table(release)),
        "lacks_odds": "",
        "interacting": page.explain_interactions(study),
    }


def _find_shares(release: Release, plan: Plan) -> dict[str, Any] | None:
    """The share and its interval, what was predicted, then differences between people."""
    study, beliefs = plan.study, plan.study.shares
    if release.shares is None or beliefs is None:
        return None
    first, *others = page.share_tables(release, study)
    response, level, points = study.response, release.interval_level, study.kind == "yes-no"
    width = response.high - response.low
    axis = "Difference, percentage points" if points else "Difference in the mean rating"
    rows = page.differences(release.differences or (), study, in_points=points)
    return {
        "share": Share(
            *page.share_of_everybody(release, study),
            level,
            scale=(response.low, response.high),
            believed=(response.low + width * beliefs.low, response.low + width * beliefs.high),
            rating=study.kind == "rating",
            response=response.name,
        ),
        "measure": page.measure(study),
        "everybody": first,
        **_averages(release, plan),
        "forest": Forest(rows, response.name, level, axis) if study.features else None,
        "tables": others,
        "lacks_odds": page.NOT_ESTIMABLE if page.lacks_odds(release, study) else "",
        "interacting": page.explain_interactions(study),
    }


def _averages(release: Release, plan: Plan) -> dict[str, Any]:
    """The average answer and prediction, where people were asked for both."""
    if release.predictions is None:
        return {"averages": None}
    shown, study = release.predictions, plan.study
    (low, high), beliefs, section = study.prediction_range, study.levels, study.declared.beliefs
    plausible, unit = None, (high - low) / 2
    if beliefs is not None and (section.plausible is not None or section.share is not None):
        plausible = low + unit * (beliefs.low + 1), low + unit * (beliefs.high + 1)
    chart = Averages(
        page.averages(shown),
        shown.centre,
        release.interval_level,
        scale=(low, high),
        plausible=plausible,
        response=page.average_name(study),
    )
    return {"averages": chart, "predicted": page.averages_table(shown, study)}


# How people were paid, and what a lie would have earned: never payments themselves, which depend on raw answers


def _payment_facts(release: Release, plan: Plan, kept: Truthfulness) -> dict[str, Any]:
    shown = release.predictions
    if plan.asked_mechanism is not None and shown is not None:
        return _paid_for_predictions(plan, plan.asked_mechanism, shown)
    if plan.share_mechanism is not None and plan.study.shares is not None:
        return _paid_for_shares(plan, plan.share_mechanism, plan.study.shares)
    return _paid_for_numbers(release, plan, kept)


def _paid_for_predictions(plan: Plan, mechanism: AskedRelease, shown: Predictions) -> dict[str, Any]:
    """How a payment follows from an answer and a surprise."""
    chart, currency = chart_surprises(plan, shown.answer.value), plan.study.currency
    if chart.strict:
        head = [
            "More say yes than predicted, of 100",
            *(f"{line.name.capitalize()} pays" for line in chart.lines),
        ]
    else:
        head = ["Answer", *(f"If answers are {line.name}" for line in chart.lines)]
    return {
        "kind": "predictions",
        "chart": chart,
        "prediction": money(mechanism.prediction_payment, currency),
        "most": money((plan.guarantees.budget.cap or 0.0) / plan.players, currency),
        "head": head,
        "payment_rows": [
            (number(at), *(f"{chart.payment(line, at):,.4f}" for line in chart.lines)) for at in chart.places
        ],
        "moved": slope_words(plan),
        "caveats": caveats(plan),
    }


def _paid_for_shares(plan: Plan, mechanism: ShareRelease, beliefs: ShareBeliefs) -> dict[str, Any]:
    """How a payment follows from what the others say, and what people with average features could expect from a lie."""
    chart, currency = chart_answers(plan), plan.study.currency
    flat, bonus = (money(amount, currency) for amount in (mechanism.flat, mechanism.bonus))
    ends = (chart.lines[-1], chart.lines[0])
    lies = []
    for k, expects in reversed(list(enumerate(_expectations(plan, beliefs)))):
        earned = [chart.payment(line, expects) for line in chart.lines]
        truth, lie = earned.pop(k), max(earned)
        name = chart.lines[k].name.capitalize()
        lies.append((name, chart.in_words(expects), f"{truth:,.4f}", f"{lie:,.4f}"))
    return {
        "kind": "shares",
        "chart": chart,
        "each": f"{flat}, and up to {bonus} more" if mechanism.flat > 0 else f"up to {bonus}",
        "bounds": [money(end, currency) for end in mechanism.payment_range],
        "payment_rows": [
            (chart.in_words(at), *(f"{chart.payment(line, at):,.4f}" for line in ends)) for at in chart.places
        ],
        "lie_rows": lies,
    }


def _expectations(plan: Plan, beliefs: ShareBeliefs) -> list[float]:
    """The others' share that a person with average features expects, for each true answer, the lowest first."""
    study = plan.study
    expected = beliefs.expects(np.eye(1, study.dimension) / beliefs.scale)
    shares = expected.switch + expected.advantage * np.linspace(-1, 1, beliefs.levels)
    raw: list[float] = (study.response.low + 2 * study.response_unit * shares).tolist()
    return raw


def _paid_for_numbers(release: Release, plan: Plan, kept: Truthfulness) -> dict[str, Any]:
    """The predicted payments for lies of a typical person, and the predicted spread of payments."""
    mechanism, currency = plan.number_mechanism, plan.study.currency
    shown, predicted = lies(plan, release.players, kept), predicted_payments(release, plan)
    ends = one_release.payment_range(mechanism)
    never_negative = mechanism.payments == "never-negative"
    return {
        "kind": "numbers",
        "scored": mechanism.score_weight > 0,
        "lies": shown,
        "lie_rows": _lie_rows(shown, plan.study.response.high - plan.study.response.low),
        "slack": money(kept.slack or 0.0, currency),
        "bounds": [money(end, currency) for end in ends] if never_negative else None,
        "predicted": None
        if predicted is None
        else PaymentsChart(predicted, currency, "Payments, as predicted"),
    }


def _lie_rows(shown: Lies, width: float) -> list[tuple[str, str, str, str]]:
    """Rows for the truth and lies of some sizes: the move, the payment, and whether it can pay."""
    rows = []
    for lie in (shown.at(share * width) for share in (0.0, *LIES) if share * width <= shown.curve[-1].size):
        pays = "no promise" if shown.D is None else "who values privacy" if shown.may_pay(lie) else "no"
        rows.append(
            (
                number(lie.size) if lie.size else "0, the truth",
                number(lie.moved),
                to_within(lie.payment, shown.truth - shown.curve[-1].payment),
                pays if lie.size else "",
            )
        )
    return rows


def lies(plan: Plan, players: int, promised: Truthfulness) -> Lies:
    """A typical player's expected payment against her lie: features of typical length, and the truth y = 0.

    Her peers tell the truth, so E[p | x, y] = q(x, y), and payments are affine in p: a lie earns rule(q(y), q(y′)).
    Lies beyond R‖x‖ + M, which the beliefs exclude, are moved there. D in answers is her own.
    """
    study, mechanism = plan.study, plan.number_mechanism
    beliefs, unit = study.beliefs, study.response_unit
    r, along, curve = _typical(plan, players, promised)
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, POINTS)
    q = beliefs.prediction(r, y, curve, along)
    paid = mechanism.scoring(q[0], q, a=float(mechanism.base(np.array(r))), b=mechanism.score_weight)
    sizes, moved = unit * y, unit * np.abs(q - q[0])
    D = promised.lie
    # Predictions differ by 2R at most: a larger D promises nothing.
    D = None if D is None or promised.slack is None or not 2 * beliefs.radius > D else unit * D
    threshold = None if D is None or not moved[-1] > D else float(np.interp(D, moved, sizes))
    points = zip(sizes.tolist(), moved.tolist(), paid.tolist(), strict=True)
    return Lies(tuple(LieRow(*values) for values in points), D, threshold, study.currency)


def _typical(plan: Plan, players: int, promised: Truthfulness) -> Typical:
    """A person with typical features, by the guarantees or else by the design."""
    mechanism, length, noise = plan.number_mechanism, promised.typical_length, promised.typical_noise
    if length is not None and noise is not None:
        return Typical(length, noise, mechanism.curve(plan.study.beliefs))
    return typical(plan.study, mechanism, players)


def predicted_payments(release: Release, plan: Plan) -> Floats | None:
    """Payments of invented people: features from the design, answers from the published estimate and the noise law.

    Always the same people. None if the design does not say how features are distributed, or too little is published.
    """
    study = plan.study
    if not study.assigned:
        return None
    rng, beliefs = np.random.default_rng(0), study.beliefs
    theta = np.array(release.theta)
    theta *= min(1.0, beliefs.radius / max(float(np.linalg.norm(theta)), 1e-300))

    estimate, mechanism = release.estimate(), release.mechanism(study)
    if estimate is None or not isinstance(mechanism, OneRelease):
        return None
    X = study.normalise(study.sample_features(rng, DRAWS), DRAWS)
    y = X @ theta + beliefs.noise.sample(rng, DRAWS)
    master = one_release.paymaster(mechanism, beliefs, estimate, DRAWS)
    return master.score_players(grid_features(X), grid_responses(y, beliefs.response_bound)).payment

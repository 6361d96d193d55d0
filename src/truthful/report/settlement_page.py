"""The public report of a settlement: one page, made from the release and the plan alone.

It holds nothing of people's answers but what the release holds: every number in it is public or follows from the
private estimates. So it is the same page whenever it is made again. Nothing here sees a record, a payment or a total:
those are functions of raw answers. Every chart has its numbers in a table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from truthful import one_release
from truthful.charts.estimate_charts import BEFORE, Forest, Odds
from truthful.charts.payment_charts import Lie, Lies, Payments
from truthful.check import Floats
from truthful.deterrence import Typical, typical
from truthful.errors import InputError
from truthful.formatting import money, number, odds, to_within
from truthful.guarantees import Guarantees, Truthfulness
from truthful.moments import grid_features, grid_responses
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.promises import REHEARSAL, Promise, compared, otherwise, released
from truthful.random_halves import lengths, noise_along, payable, payment_range, peer_curve, peer_prediction
from truthful.release import AnyRelease, Release, ReleaseOfHalves
from truthful.report import asked, averages, shares
from truthful.report.declared import assumed, identity, question
from truthful.report.findings import answer, effects
from truthful.report.markup import command, figure, page, paragraph, section, table, text

VERIFY = "truthful verify release.json receipt.json"
#: Sizes of lies in the table, as shares of the response's range.
LIES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
SCORED = (
    "A payment depends on how well a person's answer foretells what others' answers predict. The truth foretells it "
    "best: no lie raises the expected payment, and the further it moves the prediction made from an answer, the more "
    "it costs. A small lie may still pay for some, because it may save privacy and because a few others may lie."
)
UNSCORED = "Payments do not depend on answers in this study: a lie earns what the truth earns."
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


def report(release: AnyRelease, plan: Plan) -> str:
    """The report as an HTML page."""
    if release.plan_sha256 != plan.sha256:
        raise InputError(
            f"The release was made with plan {release.plan_sha256[:12]}…, and this is plan {plan.sha256[:12]}…. Give "
            "the plan that was settled."
        )
    promised = released(release, plan)
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    return page(
        f"{release.study.name}: report",
        _top(release, plan),
        question(plan.study, release.players),
        _found(release, plan),
        _guarantees(promised, assumptions),
        *([_kept(release, plan)] if isinstance(release, Release) else []),
        _privacy(release),
        *_paid(release, plan),
        assumed(plan.study, assumptions, _otherwise(release, plan, promised)),
        _checking(),
        identity(release),
    )


def report_or_notice(release: AnyRelease, plan: Plan) -> str:
    """The report, or a page that says there is none.

    When it is made the noise is drawn already. A settlement that a chart could stop would never be finished.
    """
    try:
        return report(release, plan)
    except Exception as problem:
        logging.getLogger(__name__).warning(
            "report.html could not be made (%r); the settlement is whole.", problem
        )
        return NOTICE


def _found(release: AnyRelease, plan: Plan) -> str:
    predicted = asked.found(release, plan) if isinstance(release, Release) and release.predictions else []
    if isinstance(release, Release) and release.shares is not None:
        return shares.found(release, plan, predicted)
    return _coefficients(release, plan, predicted)


def _paid(release: AnyRelease, plan: Plan) -> tuple[str, str]:
    """What payments depended on, and what a lie would have earned."""
    if isinstance(release, Release) and plan.asked_mechanism is not None:
        return asked.payments(release, plan), asked.lying(plan)
    if plan.share_mechanism is not None:
        return shares.payments(plan), shares.lying(plan)
    return _lying(release, plan), _payments(release, plan)


def _top(release: AnyRelease, plan: Plan) -> str:
    """The name, the answer where it is a single number, and what must not be overlooked."""
    notices = [REHEARSAL] if release.rehearsal else []
    notices += release.warnings if isinstance(release, Release) else ()
    banner = "".join(f'\n<p class="banner"><strong>{text(notice)}</strong></p>' for notice in notices)
    answered = ""
    if isinstance(release, Release) and release.shares is not None:
        answered = "\n" + paragraph(answer(release, plan.study), "answer")
    elif isinstance(release, Release) and release.predictions is not None:
        answered = "\n" + paragraph(averages.answer(release.predictions), "answer")
    name = text(release.study.name)
    return f'<header>\n<p class="over">Report</p>\n<h1>{name}</h1>{banner}{answered}\n</header>'


def _guarantees(promised: tuple[Promise, ...], assumptions: list[str]) -> str:
    """The five, in their order, in the words of `truthful plan`."""
    parts = []
    for promise in promised:
        numbers = ", ".join(str(assumptions.index(words) + 1) for words in promise.assumptions)
        given = promise.given.format(f"assumptions {numbers}").replace("\n", "; ") if numbers else "nothing"
        surely = f"Probability: {promise.probability}. Assuming: {given}." if promise.probability else ""
        words = promise.words[0].upper() + promise.words[1:]
        parts.append(
            f'<div class="guarantee">\n<h3>{text(promise.name.capitalize())}</h3>\n{paragraph(f"{words}.")}\n'
            + (f"{paragraph(surely, 'note')}\n" if surely else "")
            + "</div>"
        )
    return section("What is guaranteed", *parts)


def _checking() -> str:
    return section(
        "How to check a payment",
        paragraph(
            "Whoever took part has a receipt of her own. With it and the release she can recompute her payment:"
        ),
        command(VERIFY),
        paragraph(
            "The release is the file release.json beside this page. It is the same for everybody and enough for one's "
            "own payment; nobody can recompute anybody else's without her record."
        ),
    )


def _coefficients(release: AnyRelease, plan: Plan, predicted: Sequence[str] = ()) -> str:
    """What was predicted, if anything was, and coefficients: comparable in the chart, as published in the table."""
    level = f"{release.interval_level:.0%}"
    rows = [
        (row.name, *(to_within(value, row.high - row.low) for value in (row.value, row.low, row.high)))
        for row in release.coefficients
    ]
    found, charts = effects(release, plan.study), []
    if found:
        caption = (
            f"What each feature does to “{plan.study.response.name}”: numbers over their whole range, levels against "
            f"the mean of all levels. Bars are {level} intervals; a filled marker means that the whole interval is on "
            "one side of zero."
        )
        charts = [figure(Forest(found, plan.study.response.name, release.interval_level), "forest", caption)]
    coefficients = table(
        "Coefficients, per unit of each feature",
        ("Coefficient", "Estimate", f"{level} from", f"{level} to"),
        rows,
    )
    alone = bool(predicted) and not found
    what = "truth" if alone else "true coefficient"
    return section(
        "What was found",
        *predicted,
        *charts,
        *([] if alone else [coefficients]),
        paragraph(
            f"Each interval holds the {what} with {level} probability if answers are truthful and the "
            "declared beliefs hold. It counts both the chance of who was asked and the noise that protects them.",
            "note",
        ),
    )


def _privacy(release: AnyRelease) -> str:
    shown = Odds(release.total_epsilon)
    rows = [(f"{before:.0%}", *shown.told(before)) for before in BEFORE]
    return section(
        "How private it is",
        paragraph(
            "Whoever suspected something of a person's answer may become a little surer by seeing this page, or a "
            f"little less sure. With ε = {release.total_epsilon:.4g} the bounds below hold for everybody, whatever she "
            f"knows already and whatever the answers were: even odds become {odds(release.total_epsilon)} at most."
        ),
        figure(
            shown,
            "odds",
            "How sure anybody can become of one person's answer. On the dotted line nothing is learned: the nearer "
            "to it, the safer.",
        ),
        table("How sure anybody can be of an answer", ("Before", "After, at least", "After, at most"), rows),
    )


def _otherwise(release: AnyRelease, plan: Plan, promised: tuple[Promise, ...]) -> tuple[str, ...]:
    """What holds for people who believed otherwise, unless nothing is promised even to those who did not."""
    truthful = any(promise.name == "truthfulness" and promise.probability for promise in promised)
    return otherwise(plan, _held(release, plan)) if truthful else ()


def _held(release: AnyRelease, plan: Plan) -> Guarantees:
    """The guarantees for those who took part."""
    if isinstance(release, Release):
        return Guarantees.from_record(release.guarantees)
    return plan.guarantees_for(release.players)


def _kept(release: Release, plan: Plan) -> str:
    """What was promised before anybody answered, and what holds for those who did."""
    return section(
        "As promised, and as it is",
        paragraph(
            "The promises were made before anybody answered. What holds for those who did was computed from their "
            "features alone, before anything was drawn."
        ),
        table(
            "Promised and found", ("Guarantee", "Promised", "For those who answered"), compared(release, plan)
        ),
    )


def _lying(release: AnyRelease, plan: Plan) -> str:
    promised, study = _held(release, plan).truthfulness, plan.study
    shown = lies(plan, release.players, promised)
    width = study.response.high - study.response.low
    told = [
        shown.curve[0],
        *(shown.at(share * width) for share in LIES if share * width <= shown.curve[-1].size),
    ]
    rows = []
    for lie in told:
        pays = "no promise" if shown.D is None else "for some" if shown.may_pay(lie) else "no"
        rows.append(
            (
                number(lie.size) if lie.size else "0, the truth",
                number(lie.moved),
                to_within(lie.payment, shown.truth - shown.curve[-1].payment),
                "" if not lie.size else pays,
            )
        )
    caption = (
        "The expected payment of a typical person, for whom the true answer is just what was expected of her, against "
        "how far she strays from it. Computed from the declared beliefs, with others telling the truth; not from "
        "anybody's answers."
    )
    if shown.D is not None and shown.threshold is not None:
        caption += (
            f" D is where a lie moves a prediction by {number(shown.D)} even where predictions follow answers least, "
            f"in answers about {number(shown.threshold)}: beyond it no lie pays. The shaded lies cost so little that "
            "they may pay for some."
        )
    return section(
        "What lying would have earned",
        paragraph(SCORED if plan.number_mechanism.score_weight > 0 else UNSCORED),
        figure(shown, "lies", caption),
        table(
            "Lies of a typical person",
            (
                "Answer off by",
                "Moves her prediction by",
                f"Expected payment, {study.currency}",
                "Can it pay?",
            ),
            rows,
        ),
        *([] if shown.D is None else [paragraph(_gain(promised.slack or 0.0, study.currency), "note")]),
    )


def _gain(slack: float, currency: str) -> str:
    return f"Nobody of those to whom truthfulness is promised gains more than {money(slack, currency)} by any lie."


def _payments(release: AnyRelease, plan: Plan) -> str:
    """Predicted, never the payments themselves: those are functions of raw answers."""
    mechanism, currency = plan.number_mechanism, plan.study.currency
    if isinstance(mechanism, OneRelease):
        least, most = one_release.payment_range(mechanism)
    else:
        least, most = payment_range(mechanism, plan.study.beliefs)
    bounds = (
        f"No payment is below {money(least, currency)} or above {money(most, currency)}, whatever anybody "
        "does."
        if mechanism.payments == "never-negative"
        else "Payments can be negative: this is a rehearsal of a mechanism for research."
    )
    predicted = predicted_payments(release, plan)
    if predicted is None:
        more = [
            paragraph(
                "The study does not declare how features are distributed, so no more can be said of them here."
            )
        ]
    else:
        shown = Payments(predicted, currency, "Payments, as predicted")
        width = float(np.ptp(predicted))
        rows = [(f"{share:.0%}", f"{to_within(paid, width)} {currency}") for share, paid in shown.quantiles]
        caption = (
            "Predicted, from the declared beliefs and the published estimates, for invented people. The payments that "
            "were made are not shown: they depend on raw answers, which this page must not reveal."
        )
        more = [
            figure(shown, "payments", caption),
            table("Payments, as predicted", ("Share of people", "Get at most"), rows),
        ]
    return section("What people could expect to be paid", paragraph(bounds), *more)


# What public numbers alone say of payments: what lies would earn, and how payments spread


def lies(plan: Plan, players: int, promised: Truthfulness) -> Lies:
    """The expected payment of a typical player against her lie: features of typical length, and the truth y = 0.

    Her peers tell the truth, so E[p | x, y] = q(x, y), and payments are affine in p: a lie earns rule(q(y), q(y′)).
    Lies beyond R‖x‖ + M, which the beliefs exclude, are moved there. D in answers is the guarantees' own.
    """
    study, mechanism = plan.study, plan.number_mechanism
    beliefs, unit = study.beliefs, study.response_unit
    r, along, curve = _typical(plan, players, promised)
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, POINTS)
    q = beliefs.prediction(r, y, curve, along)
    base = float(mechanism.base(np.array(r))) if isinstance(mechanism, OneRelease) else mechanism.base_payment
    paid = mechanism.scoring(q[0], q, a=base, b=mechanism.score_weight)
    moved, D = np.abs(q - q[0]), _promised_lie(promised, beliefs.radius)
    points = tuple(
        Lie(*values)
        for values in zip((unit * y).tolist(), (unit * moved).tolist(), paid.tolist(), strict=True)
    )
    shown = Lies(points, None if D is None else unit * D, None, study.currency)
    return replace(shown, threshold=_in_answers(shown, promised.lie_in_answer))


def _typical(plan: Plan, players: int, promised: Truthfulness) -> Typical:
    """Someone of typical features: as the guarantees have it, or with halves as the design has it."""
    mechanism, length, noise = plan.number_mechanism, promised.typical_length, promised.typical_noise
    if isinstance(mechanism, OneRelease) and length is not None and noise is not None:
        return Typical(length, noise, mechanism.curve(plan.study.beliefs))
    return typical(plan.study, mechanism, players)


def _promised_lie(promised: Truthfulness, radius: float) -> float | None:
    """D, if it promises anything: predictions differ by 2R at most."""
    if promised.lie is None or promised.slack is None or not promised.lie < 2 * radius:
        return None
    return promised.lie


def _in_answers(shown: Lies, promised: float | None) -> float | None:
    """D in answers, where it is true of her: beyond central reports predictions may follow answers less steeply."""
    if shown.D is None or promised is None or not promised < shown.curve[-1].size:
        return None
    return promised if shown.at(promised).moved >= shown.D else None


def predicted_payments(release: AnyRelease, plan: Plan) -> Floats | None:
    """Payments of invented people: features from the design, answers from the published estimate and the noise law.

    Always the same people. None if the study does not say how features are distributed, or too little is published.
    """
    study = plan.study
    if study.design.kind not in ("uniform", "unit-ball"):
        return None
    rng, beliefs = np.random.default_rng(0), study.beliefs
    theta = np.array(release.theta)
    theta *= min(1.0, beliefs.radius / max(float(np.linalg.norm(theta)), 1e-300))

    def invented(count: int) -> tuple[Floats, Floats]:
        X = study.normalise(study.sample_features(rng, count), count)
        return X, X @ theta + beliefs.noise.sample(rng, count)

    if isinstance(release, ReleaseOfHalves):
        return _paid_by_halves(release, plan, invented)
    estimate, mechanism = release.estimate(), release.mechanism(study)
    if estimate is None or not isinstance(mechanism, OneRelease):
        return None
    X, y = invented(DRAWS)
    master = one_release.paymaster(mechanism, beliefs, estimate, DRAWS)
    return master.scored(grid_features(X), grid_responses(y, beliefs.response_bound)).payment


def _paid_by_halves(
    release: ReleaseOfHalves, plan: Plan, invented: Callable[[int], tuple[Floats, Floats]]
) -> Floats:
    beliefs, mechanism, paid = plan.study.beliefs, release.mechanism(plan.study), []
    for group in (0, 1):
        X, y = invented(DRAWS // 2)
        r, peer = lengths(X), release.peer(group)
        curve = peer_curve(mechanism, beliefs, release.groups[1 - group])
        p = peer_prediction(mechanism, beliefs, peer, X, r)
        q = beliefs.prediction(r, y, curve, noise_along(peer, X, r))
        paid.append(payable(mechanism, beliefs, p, q))
    return np.concatenate(paid)

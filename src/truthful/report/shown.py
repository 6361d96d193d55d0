"""The parts of a report that have charts, each with its numbers in a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truthful import one_release_payments
from truthful.charts import Forest, Odds, Payments
from truthful.charts.odds import BEFORE
from truthful.guarantees import Guarantees
from truthful.one_release import OneRelease
from truthful.payments import payment_range
from truthful.plan import Plan
from truthful.promises import compared
from truthful.release import AnyRelease, Release
from truthful.report.effects import effects
from truthful.report.markup import figure, paragraph, section, table
from truthful.report.predicted import lies, predicted_payments
from truthful.words import money, number, odds, to_within

#: Sizes of lies in the table, as shares of the response's range.
LIES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
SCORED = (
    "A payment depends on how well a person's answer foretells what others' answers predict. The truth foretells it "
    "best: no lie raises the expected payment, and the further it moves the prediction made from an answer, the more "
    "it costs. A small lie may still pay for some, because it may save privacy and because a few others may lie."
)
UNSCORED = "Payments do not depend on answers in this study: a lie earns what the truth earns."


def found(release: AnyRelease, plan: Plan, predicted: Sequence[str] = ()) -> str:
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


def privacy(release: AnyRelease) -> str:
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


def held(release: AnyRelease, plan: Plan) -> Guarantees:
    """The guarantees for those who took part."""
    if isinstance(release, Release):
        return Guarantees.from_record(release.guarantees)
    return plan.guarantees_for(release.players)


def kept(release: Release, plan: Plan) -> str:
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


def lying(release: AnyRelease, plan: Plan) -> str:
    promised, study = held(release, plan).truthfulness, plan.study
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


def payments(release: AnyRelease, plan: Plan) -> str:
    """Predicted, never the payments themselves: those are functions of raw answers."""
    mechanism, currency = plan.number_mechanism, plan.study.currency
    if isinstance(mechanism, OneRelease):
        least, most = one_release_payments.payment_range(mechanism)
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

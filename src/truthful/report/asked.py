"""The parts of a report that studies with predictions have of their own: both averages, and how people were paid."""

from __future__ import annotations

from truthful.asked_release import SERUM, AskedRelease
from truthful.charts.estimate_charts import Averages, Effect
from truthful.charts.payment_charts import Surprises, chart_surprises
from truthful.errors import InputError
from truthful.formatting import money, number
from truthful.plan import Plan
from truthful.promises import caveats, moved
from truthful.release import Release
from truthful.release.release import Predictions
from truthful.report.averages import averages, title
from truthful.report.markup import figure, paragraph, section, table

SURPRISED = (
    "Everybody said what she thought the others would say on average, and then all answers were compared with all "
    "predictions. If answers come out higher than people expected, answers above the others' average earn more; if "
    "they come out lower, answers below it do. The further from the average, the more an answer stakes."
)
SURPRISED_STRICT = (
    "Everybody said how many of 100 others she thought would say yes, and then all answers were compared with all "
    "predictions. If more say yes than was predicted, yes earns more; if fewer, no does."
)
WHY = (
    "Whoever gives a high answer has reason to expect higher answers than others do. So she should expect answers to "
    "come out above what people predict, and then high answers earn more; downwards it is the same. The truth pays "
    "best on average, wherever people expect the average to be, if each takes others to expect what she does."
)


def found(release: Release, plan: Plan) -> list[str]:
    """Both averages, in a chart and a table."""
    shown, study = _predictions(release), plan.study
    level = f"{release.interval_level:.0%}"
    rows = averages(shown, study)
    chart = Averages(
        tuple(
            Effect(name, row.value, row.low, row.high)
            for name, row in (("answers", shown.answer), ("predictions", shown.prediction))
        ),
        shown.centre,
        release.interval_level,
        study.prediction_range,
        _plausible(plan),
        title(study).removeprefix("Averages, "),
    )
    expected = (
        ""
        if shown.centre is None
        else " What was expected is what people thought of the average before they looked at their own answers: it "
        "follows from the other two."
    )
    caption = (
        f"What people answered, and what they predicted of the others, with {level} intervals.{expected}"
    )
    return [
        figure(chart, "averages", caption),
        table(rows.title, (rows.first, "Estimate", f"{level} from", f"{level} to"), rows.rows),
    ]


def _plausible(plan: Plan) -> tuple[float, float] | None:
    """What was declared possible of the average, in units of predictions."""
    beliefs, declared = plan.study.levels, plan.study.declared.beliefs
    if beliefs is None or (declared.plausible is None and declared.share is None):
        return None
    low, high = plan.study.prediction_range
    ends = [low + (high - low) / 2 * (end + 1) for end in (beliefs.low, beliefs.high)]
    return ends[0], ends[1]


def payments(release: Release, plan: Plan) -> str:
    """How a payment follows from an answer and a surprise; never the payments themselves, which depend on answers."""
    mechanism, shown = _mechanism(plan), _predictions(release)
    chart, currency = chart_surprises(plan, shown.answer.value), plan.study.currency
    strict = mechanism.rule == SERUM
    return section(
        "How people were paid",
        paragraph(f"{SURPRISED_STRICT if strict else SURPRISED} {_bounds(plan, mechanism)}"),
        figure(chart, "surprises", _caption(chart)),
        table(
            f"Payments for answers, {currency}",
            (
                "More say yes than predicted, of 100" if strict else "Answer",
                *(_head(chart, line.name) for line in chart.lines),
            ),
            [
                (number(at), *(f"{chart.payment(line, at):,.4f}" for line in chart.lines))
                for at in _places(chart)
            ],
        ),
    )


def _places(chart: Surprises) -> list[float]:
    first, last = (float(end) for end in chart.along[[0, -1]])
    return sorted({first, (first + chart.mark) / 2, chart.mark, (chart.mark + last) / 2, last})


def _head(chart: Surprises, name: str) -> str:
    if chart.strict:
        return f"{name.capitalize()} pays"
    return "If answers are as expected" if name == "as expected" else f"If answers are {name}"


def _caption(chart: Surprises) -> str:
    if chart.strict:
        return "What yes and no pay, against the surprise. Nobody's own answer or prediction is in that."
    return (
        "What an answer pays if all answers are on average as much higher or lower than people expected as is written "
        "at each line, or just as expected. Nobody's own answer or prediction is in that."
    )


def _bounds(plan: Plan, mechanism: AskedRelease) -> str:
    """The part of predictions, and the range of payments."""
    predicted = money(mechanism.prediction_payment, plan.study.currency)
    most = money((plan.guarantees.budget.cap or 0.0) / plan.players, plan.study.currency)
    return (
        f"Up to {predicted} is for the prediction: the nearer to the others' average answer, the more. No payment is "
        f"below 0 or above {most}, whatever anybody does."
    )


def lying(plan: Plan) -> str:
    """Why the truth pays, and where that ends."""
    return section(
        "Why the truth pays",
        paragraph(WHY),
        paragraph(moved(plan)),
        *(paragraph(sentence, "note") for sentence in caveats(plan)),
    )


def _mechanism(plan: Plan) -> AskedRelease:
    if plan.asked_mechanism is None:
        raise InputError("The study does not ask what the others will say.")
    return plan.asked_mechanism


def _predictions(release: Release) -> Predictions:
    if release.predictions is None:
        raise InputError("The release holds no predictions.")
    return release.predictions

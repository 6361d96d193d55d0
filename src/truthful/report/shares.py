"""The parts of a report that yes and no, and ratings, have of their own: what was found, and how people were paid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truthful.charts.estimate_charts import Forest, Share
from truthful.charts.payment_charts import Answers, chart_answers
from truthful.errors import InputError
from truthful.formatting import money
from truthful.plan import Plan
from truthful.release import Release
from truthful.report.findings import (
    NOT_ESTIMABLE,
    differences,
    everybody,
    measure,
    tables,
    without_odds,
)
from truthful.report.markup import figure, paragraph, section, table
from truthful.share_release import ShareRelease


def found(release: Release, plan: Plan, predicted: Sequence[str] = ()) -> str:
    """The share and its interval, what was predicted, then differences between people, in charts and tables."""
    study, level = plan.study, f"{release.interval_level:.0%}"
    first, *others = (
        table(one.title, (one.first, "Estimate", f"{level} from", f"{level} to"), one.rows)
        for one in tables(release, study)
    )
    parts = [_share(release, plan), first, *predicted]
    if study.features:
        parts.append(_forest(release, plan))
    parts += others
    if without_odds(release, study):
        parts.append(paragraph(NOT_ESTIMABLE))
    parts.append(
        paragraph(
            f"Each interval holds the truth with {level} probability if answers are truthful. It counts both the "
            "chance of who was asked and the noise that protects them.",
            "note",
        )
    )
    return section("What was found", *parts)


def _share(release: Release, plan: Plan) -> str:
    study, shares = plan.study, plan.study.shares
    if shares is None:
        raise InputError("The study asks for numbers.")
    low, width = study.response.low, study.response.high - study.response.low
    believed = (low + width * shares.low, low + width * shares.high)
    chart = Share(
        *everybody(release, study),
        release.interval_level,
        (study.response.low, study.response.high),
        believed,
        study.kind == "rating",
        study.response.name,
    )
    caption = (
        f"The {measure(study)} among people like those who answered, with its {release.interval_level:.0%} interval. "
        "What is shaded was thought possible beforehand"
        + (" for people with average features." if study.features else ".")
    )
    return figure(chart, "share", caption)


def _forest(release: Release, plan: Plan) -> str:
    study, points = plan.study, plan.study.kind == "yes-no"
    axis = "Difference, percentage points" if points else "Difference in the mean rating"
    rows = differences(release.differences or (), study, in_points=points)
    caption = (
        "What differs between people: numbers from one end of their range to the other, levels against the first. Bars "
        f"are {release.interval_level:.0%} intervals; a filled marker means that the whole interval is on one side of "
        "zero."
    )
    return figure(Forest(rows, study.response.name, release.interval_level, axis), "forest", caption)


def lying(plan: Plan) -> str:
    """What a lie would have earned a person with average features, as she had to expect it."""
    chart = chart_answers(plan)
    expected = "Expected mean" if chart.rating else "Expected share of yes"
    rows = []
    for k, expects in reversed(list(enumerate(_expectations(plan)))):
        earned = [chart.payment(paid, expects) for paid in chart.lines]
        truth, lie = earned.pop(k), max(earned)
        told = (f"{amount:,.4f}" for amount in (truth, lie))
        rows.append((chart.lines[k].name.capitalize(), chart.told(expects), *told))
    return section(
        "What lying would have earned",
        paragraph(
            "Whoever gives an answer has reason to expect that more of the others give it too than people believe who "
            "do not. So the true answer is the one that pays best on average, if people believe what is declared."
        ),
        table(
            f"Expected payments{_whose(chart)}, {chart.currency}",
            (
                "True answer",
                expected,
                "The truth earns",
                "The best lie" if chart.rating else "The other answer",
            ),
            rows,
        ),
    )


def _expectations(plan: Plan) -> list[float]:
    """What somebody with average features expects of the others, for each true answer, the lowest first."""
    study, beliefs = plan.study, plan.study.shares
    if beliefs is None:
        raise InputError("The study asks for numbers.")
    expected = beliefs.expects(np.eye(1, study.dimension) / beliefs.scale)
    shares = expected.switch + expected.advantage * np.linspace(-1, 1, beliefs.levels)
    raw: list[float] = (study.response.low + 2 * study.response_unit * shares).tolist()
    return raw


def payments(plan: Plan) -> str:
    """How a payment follows from what the others say; never the payments themselves, which depend on raw answers."""
    mechanism, chart, currency = plan.share_mechanism, chart_answers(plan), plan.study.currency
    if mechanism is None:
        raise InputError("The study asks for numbers.")
    shown = (chart.lines[-1], chart.lines[0])
    first, last = (float(end) for end in chart.others[[0, -1]])
    told = (first, (first + chart.switch) / 2, chart.switch, (chart.switch + last) / 2, last)
    rows = [(chart.told(value), *(f"{chart.payment(paid, value):,.4f}" for paid in shown)) for value in told]
    return section(
        "How people were paid",
        paragraph(_rule(chart, mechanism)),
        figure(chart, "answers", _caption(chart)),
        table(
            f"Payments{_whose(chart)}, {currency}",
            ("The others", *(f"{paid.name.capitalize()} pays" for paid in shown)),
            rows,
        ),
    )


def _rule(chart: Answers, mechanism: ShareRelease) -> str:
    """The payment rule in words."""
    currency, (least, most) = chart.currency, mechanism.payment_range
    flat, bonus = (money(amount, currency) for amount in (mechanism.flat, mechanism.bonus))
    each = f"{flat}, and up to {bonus} more" if mechanism.flat > 0 else f"up to {bonus}"
    rule = (
        "High ratings pay more the higher the others' mean is, and low ones the lower it is"
        if chart.rating
        else "Yes pays more the more of the others say yes, and no the more say no"
    )
    bounds = f"No payment is below {money(least, currency)} or above {money(most, currency)}, whatever anybody does."
    return (
        f"Everybody gets {each}, depending on what all the others said, with the noise that protects them. {rule}; "
        f"{chart.lines[-1].name} and {chart.lines[0].name} pay the same at the switch point, "
        f"{chart.told(chart.switch)}. {bounds}"
    )


def _caption(chart: Answers) -> str:
    words = (
        f"What each answer{_whose(chart)} pays, against what the others say. Nobody's own answer is in that."
    )
    low, high = chart.others[0] > chart.scale[0], chart.others[-1] < chart.scale[1]
    if not (low or high):
        return words
    same = ": nothing is won by all giving the lowest answer, or the highest" if low and high else ""
    return (
        f"{words} Where the others' share is beyond all that was thought possible (grey) everybody gets "
        f"{money(chart.middle, chart.currency)}, whatever she said{same}."
    )


def _whose(chart: Answers) -> str:
    return " of people with average features" if chart.average else ""

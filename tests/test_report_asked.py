"""The report of studies that ask people what the others will say: both averages, how people were paid, the limits."""

import html
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.html_page import Page, check_needs_nothing, check_reads_aloud
from support.shares import plan_of as share_plan_of
from support.shown_asked import TEXTS, plan_of, released
from test_report_shares import lines, rows, words

from truthful.asked_release import AskedPaymaster
from truthful.charts.drawing import draw_chart
from truthful.charts.estimate_charts import Averages, Effect
from truthful.charts.frontier_chart import draw_plan
from truthful.charts.payment_charts import DRAWN, chart_surprises
from truthful.errors import InputError
from truthful.moments import GRID
from truthful.plan import Plan
from truthful.promises import caveats, slope_words
from truthful.release import Release
from truthful.report import report

AVERAGES = Averages(
    (Effect("answers", 44.1, 41.8, 46.3), Effect("predictions", 40.0, 36.8, 51.2)),
    38.5,
    0.95,
    (0.0, 100.0),
    (5.0, 70.0),
    "units",
)


def text_of(source: str) -> str:
    """All that a page says, in one line."""
    told = re.sub(r"<style>.*?</style>|<svg.*?</svg>|<[^>]+>", " ", source, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(told))


@cache
def reported(name: str, surprise: float = 0.0) -> tuple[Plan, Release, str]:
    plan, release = released(name, surprise)
    return plan, release, report(release, plan)


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_needs_nothing_but_itself_and_can_be_read_without_seeing_it(name: str) -> None:
    source = reported(name)[2]
    check_needs_nothing(source)
    check_reads_aloud(source, "Units a week: report")


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_says_what_was_predicted_and_how_people_were_paid(name: str) -> None:
    plan, release, source = reported(name)
    text = text_of(source)
    assert slope_words(plan) in text
    assert "off what is declared" not in text
    for sentence in caveats(plan):
        assert sentence in text
    for heading in ("How people were paid", "Why the truth pays", "What was found"):
        assert heading in text
    assert ("of 100 others, how many say yes" in text) == (name == "yes-no")
    assert "Nobody declares it: people are asked." in text
    assert release.predictions is not None
    title = "Averages, percent of yes" if name == "yes-no" else f"Averages, {plan.study.response.name}"
    found = rows(Page(source), title)
    assert [row[0] for row in found[:2]] == ["answers", "predictions"]
    assert float(found[1][1]) == pytest.approx(
        release.predictions.prediction.value,
        abs=0.06 * (release.predictions.prediction.high - release.predictions.prediction.low),
    )
    assert ("Coefficients, per unit of each feature" in text) == (name == "features")


def test_a_page_tells_that_truthfulness_is_withdrawn() -> None:
    _, _, source = reported("number", 45.0)
    text = text_of(source)
    assert "surer than they should be, or predictions were careless" in text
    assert "Nothing is promised: the result contradicts the declared beliefs." in text


def test_the_chart_of_numbers_is_what_the_paymaster_pays() -> None:
    """At the released average, and for the surprises that are drawn; predictions apart."""
    plan, release, source = reported("number")
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    estimate, level = release.estimate(), release.level()
    assert mechanism is not None
    assert beliefs is not None
    assert estimate is not None
    assert level is not None
    assert release.predictions is not None
    chart = chart_surprises(plan, release.predictions.answer.value)
    p = float(estimate.theta[0])
    y = np.linspace(-1, 1, 201)
    master, nobody = AskedPaymaster(mechanism, beliefs, estimate, level), np.full(201, 0.0)
    for part, line in zip(DRAWN, chart.lines, strict=True):
        paid = master.pay_amounts(
            np.full((201, 1), float(GRID)),
            y,
            np.full(201, p),
            np.full(201, p),
            np.full(201, p),
            nobody + part * mechanism.clip,
        )
        assert paid == pytest.approx(line.payments + mechanism.prediction_payment, abs=2e-6)
    table = rows(Page(source), "Payments for answers, USD")
    assert [float(cell) for cell in table[0][1:]] == pytest.approx(
        [float(line.payments[0]) for line in chart.lines], abs=1e-4
    )


def test_yes_and_no_pay_the_same_where_nobody_was_surprised() -> None:
    chart = chart_surprises(plan_of("yes-no"))
    no, yes = chart.lines
    assert chart.payment(no, 0.0) == pytest.approx(chart.payment(yes, 0.0))
    assert chart.payment(yes, 5.0) > chart.payment(no, 5.0)
    assert chart.along[-1] == pytest.approx(50 * plan_of("yes-no").parameters()["clip"])
    assert "All pay the same at as predicted" in chart.describe()


@pytest.mark.parametrize("name", ["number", "yes-no", "rating"])
def test_every_line_of_the_chart_has_its_name(name: str) -> None:
    chart = chart_surprises(plan_of(name))
    written = words(chart)
    for line in chart.lines:
        assert line.name in written
    assert chart.marked in written
    drawn = lines(chart)
    assert len(drawn) == len(chart.lines) + 1


def test_the_chart_of_averages_shows_intervals_and_what_was_expected(tmp_path: Path) -> None:
    written = words(AVERAGES)
    for label in ("answers", "predictions", "expected", "44.1", "40.0", "38.5"):
        assert label in written
    assert "Expected beforehand: 38.5. Between 5.00 and 70.0, which is shaded, was thought possible." in (
        AVERAGES.describe()
    )
    intervals = [line for line in lines(AVERAGES) if len(line) == 2]
    assert [tuple(line[:, 0]) for line in intervals] == [(41.8, 46.3), (36.8, 51.2)]
    draw_chart(AVERAGES, tmp_path / "averages.png")
    assert (tmp_path / "averages.png").stat().st_size > 5_000


def test_the_chart_of_a_plan_is_what_answers_pay(tmp_path: Path) -> None:
    draw_plan(plan_of("number"), tmp_path / "plan.svg")
    assert "What an answer pays" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="where people are asked"):
        chart_surprises(share_plan_of("yes-no"))

"""The report of yes and no, and of ratings: the answer first, every chart's numbers in a table, nothing private."""

import math
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.html_page import Page, check_needs_nothing, check_reads_aloud, section
from support.shares import TEXTS, WITH_FEATURES, YES_NO, plan_of, released, reports
from support.studies import DESIGNED, planned

from truthful.charts.drawing import Chart, canvas, draw_chart, inline
from truthful.charts.estimate_charts import Effect, Forest, Share
from truthful.charts.frontier_chart import chart_frontier, draw_plan
from truthful.charts.payment_charts import Answers, chart_answers
from truthful.check import Floats
from truthful.errors import InputError
from truthful.plan import Plan, design
from truthful.promises import compare_published
from truthful.promises import released_promises as holding
from truthful.release import Release, read_release
from truthful.report import report
from truthful.settlement import settle
from truthful.study import Study

SVG = "{http://www.w3.org/2000/svg}"
FIVE = ["Privacy", "Truthfulness", "Accuracy", "Participation", "Budget"]
HOSTILE = "</title><script>alert(1)</script>&\"'\u202e<!--"
SHARE = Share(0.21, 0.19, 0.23, 0.95, (0.0, 1.0), (0.05, 0.4), False, "evaded")
MEAN = Share(2.8, 2.65, 2.95, 0.95, (1.0, 5.0), (2.2, 3.4), True, "trust")


@cache
def reported(name: str, **parameters: Any) -> tuple[Plan, Release, str]:
    plan, release = released(name, **parameters)
    return plan, release, report(release, plan)


def words(chart: Chart) -> list[str]:
    """All texts of a chart, as they stand in a page."""
    root = ElementTree.fromstring(inline(chart, "c"))
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def lines(chart: Chart) -> list[Floats]:
    """The corners of all lines of a chart, in the units of its axes."""
    with canvas() as figure:
        chart.paint(figure)
        return [np.asarray(line.get_xydata()) for line in figure.axes[0].lines]


def rows(page: Page, caption: str) -> list[list[str]]:
    """The cells of the table with this caption, row by row."""
    found: list[list[str]] = []
    inside = False
    for element in page.elements:
        if element.tag == "caption":
            inside = element.text == caption
        elif inside and element.tag == "tr":
            found.append([])
        elif inside and element.tag in ("th", "td"):
            found[-1].append(element.text)
    assert found, caption
    return found[1:]


# Pages


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_needs_nothing_but_itself_and_can_be_read_without_seeing_it(name: str) -> None:
    source = reported(name)[2]
    check_needs_nothing(source)
    check_reads_aloud(source, "Undeclared income: report")
    page = Page(source)
    assert [heading.text for heading in page.all("h3")] == FIVE
    assert len(page.all("svg")) == (3 if name == "yes-no" else 4)
    assert not re.search(r"\bnan\b|\binf\b|\bNone\b", page.one("main").text)


@pytest.mark.parametrize("name", TEXTS)
def test_the_answer_comes_before_everything_but_the_name(name: str) -> None:
    _, release, source = reported(name)
    page = Page(source)
    (told,) = (element.text for element in page.all("p") if element.attributes.get("class") == "answer")
    (row,) = release.shares or ()
    value, low, high = (float(end) for end in re.findall(r"\d+\.\d+", told))
    unit = 1 if name == "rating" else 100
    assert (value, low, high) == pytest.approx((unit * row.value, unit * row.low, unit * row.high), abs=0.06)
    assert ("% say yes, between " in told) == (name != "rating")
    assert ("on the scale from 1 to 5" in told) == (name == "rating")
    text = page.one("body").text
    assert (
        text.index(told)
        < text.index("The question")
        < text.index("What was found")
        < text.index("guaranteed")
    )


def test_the_differences_are_those_of_the_release_in_points() -> None:
    _, release, source = reported("features")
    told = rows(Page(source), "Differences in the share of yes, percentage points")
    assert [label for label, *_ in told] == [
        "age, from 18 to 80",
        "region: south, not north",
        "region: east, not north",
    ]
    for (_, *cells), one in zip(told, release.differences or (), strict=True):
        ends = (100 * one.value, 100 * one.low, 100 * one.high)
        assert [float(cell) for cell in cells] == pytest.approx(ends, abs=0.6)
    ratios = rows(Page(source), "Odds ratios of yes")
    for (_, *cells), one in zip(ratios, release.odds_ratios or (), strict=True):
        assert [float(cell) for cell in cells] == pytest.approx((one.value, one.low, one.high), rel=0.1)


def test_odds_ratios_that_are_not_estimable_are_said_not_to_be() -> None:
    text = Page(reported("features", epsilon=0.001)[2]).one("body").text
    assert "Odds ratios are not estimable from what was released." in text
    assert "Odds ratios of yes" not in text
    for name in ("yes-no", "rating"):
        assert "Odds ratios" not in reported(name)[2]


@pytest.mark.parametrize("name", TEXTS)
def test_the_guarantees_stand_in_their_words_and_beliefs_are_declared(name: str) -> None:
    plan, release, source = reported(name)
    text = Page(source).one("body").text
    places = [text.index(promise.words[1:]) for promise in holding(release, plan)]
    assert places == sorted(places)
    believed = {
        "yes-no": "Of people between 5% and 40% say yes; all equally likely.",
        "features": "Of people with average features between 20% and 50% say yes; all equally likely.",
        "rating": "The mean rating of people with average features is between 2.2 and 3.4; all equally likely.",
    }
    assert believed[name] in text
    assert ("region changes that by at most 10 percentage points" in text) == (name == "features")
    assert ("region changes that by at most 0.4." in text) == (name == "rating")
    assert ("evaded, yes or no" in text) == (name != "rating")
    assert ("trust, a rating from 1 to 5" in text) == (name == "rating")
    for foreign in ("radius R", "Normalised", "coefficients lie", "Coefficient"):
        assert foreign not in text


def test_effects_of_their_own_are_declared_one_by_one() -> None:
    text = WITH_FEATURES.replace("effect = 0.1", "effect = { age = 0.1, region = 0.05 }")
    plan = design(Study.parse(text), players=500, epsilon=0.5, bonus=1.0)
    release = settle(plan, reports(plan.study, 500), seed=1, accept_less=True).release
    said = Page(report(release, plan)).one("body").text
    assert (
        "age changes that by at most 10 percentage points; region changes that by at most 5 percentage"
        in said
    )


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_of_raw_answers_is_in_it(name: str, tmp_path: Path) -> None:
    """What a settlement writes is made from its release and its plan alone."""
    path = tmp_path / "study.toml"
    path.write_text(TEXTS[name])
    plan = design(Study.load(path), players=500, epsilon=0.5, bonus=1.0)
    settle(plan, reports(plan.study, 500), out=tmp_path / "out", accept_less=True)
    release = read_release(tmp_path / "out" / "release.json")
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == report(release, plan)


def test_a_name_is_never_markup() -> None:
    text, places = WITH_FEATURES, ["Undeclared income", "evaded", "age", "region", "north", "south"]
    for k, place in enumerate(places):
        assert f'"{place}"' in text
        toml = HOSTILE.replace("alert(1)", f"alert({k})").replace('"', '\\"')
        text = text.replace(f'"{place}"', f'"{toml}"')
    plan = design(Study.parse(text), players=300, epsilon=0.5, bonus=1.0)
    source = report(settle(plan, reports(plan.study, 300), seed=1, accept_less=True).release, plan)
    page = Page(source)
    assert not page.all("script")
    assert "<!--" not in source
    assert [k for k in range(len(places)) if f"alert({k})" not in page.one("body").text] == []
    assert len(page.all("svg")) == 4


#: The ends of what can be chosen; those that move numbers furthest, of every kind of study.
FURTHEST = [{"bonus": 0.0}, {"bonus": 1e6}, {"epsilon": 1e-6}, {"epsilon": 100.0}]
ENDS = [
    {"bonus": 0.0, "flat": 1.0},
    {"bonus": 1e-6},
    {"tolerance": 0.001},
    {"margin": 0.25},
    {"absent_share": 0.4},
]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [*((name, end) for name in TEXTS for end in FURTHEST), *(("features", end) for end in ENDS)],
)
def test_a_report_can_be_made_of_every_plan(name: str, parameters: dict[str, Any]) -> None:
    page = Page(reported(name, players=300, **parameters)[2])
    assert len(page.all("svg")) == (3 if name == "yes-no" else 4)
    assert not re.search(r"\bnan\b|\binf\b", page.one("main").text)


def test_a_result_that_contradicts_the_beliefs_is_shown_with_a_warning() -> None:
    _, release, source = reported("yes-no", share=0.9)
    (warning,) = release.warnings
    page = Page(source)
    assert warning in [
        element.text for element in page.all("p") if element.attributes.get("class") == "banner"
    ]
    assert "the share of everybody is 9" in warning
    assert "nothing is promised: the result contradicts" in page.one("body").text.lower()


# Payments


PAID, LYING = "How people were paid", "What lying would have earned"


def part(name: str, heading: str, **parameters: Any) -> Page:
    """One section of a report."""
    return Page(section(reported(name, **parameters)[2], heading))


@pytest.mark.parametrize("name", TEXTS)
def test_the_rule_and_its_bounds_are_told(name: str) -> None:
    text = part(name, PAID, flat=0.25, bonus=1.0, tolerance=0.04).one("section").text
    assert "Everybody gets 25 cents, and up to 1.00 USD more, depending on what all the others said" in text
    assert "No payment is below 25 cents or above 1.25 USD, whatever anybody does." in text
    assert (
        "everybody gets 75 cents, whatever she said: nothing is won by all giving the lowest answer" in text
    )
    without = part(name, PAID, tolerance=math.inf).one("section").text
    assert "Everybody gets up to 1.00 USD, depending" in without
    assert "whatever she said" not in without


def test_nothing_is_said_to_be_won_by_agreeing_only_where_both_ends_are_implausible() -> None:
    """At 5 % to 40 %, with a tolerance of 10 points, nobody saying yes is still plausible."""
    text = part("yes-no", PAID, tolerance=0.1).one("section").text
    assert "everybody gets 50 cents, whatever she said." in text
    assert "nothing is won" not in text


def test_the_truth_earns_more_than_the_other_answer() -> None:
    """As on page 4 of the rule: at 5 % to 40 % yes expects 27.0 % and no 21.2 %, and truth gains δ/w of the bonus."""
    told = rows(part("yes-no", LYING), "Expected payments, USD")
    assert [row[:2] for row in told] == [["Yes", "27.0%"], ["No", "21.2%"]]
    for _, _, truth, lie in told:
        assert float(truth) - float(lie) == pytest.approx(0.1531728665, abs=2e-4)


def test_the_truth_is_the_best_of_all_ratings() -> None:
    told = rows(
        part("rating", LYING),
        "Expected payments of people with average features, USD",
    )
    assert [row[0] for row in told] == [f"Rating {k}" for k in (5, 4, 3, 2, 1)]
    expected = [float(row[1]) for row in told]
    assert expected == sorted(expected, reverse=True)
    for _, _, truth, lie in told:
        assert float(truth) > float(lie)


def test_the_table_of_payments_has_the_numbers_of_the_rule() -> None:
    told = rows(part("yes-no", PAID, bonus=0.25, tolerance=math.inf), "Payments, USD")
    shares, yes, no = (
        [float(cell.removesuffix("%")) for cell in column] for column in zip(*told, strict=True)
    )
    assert (shares[0], shares[2], shares[-1]) == (0, 24.1, 100)
    assert (yes[0], no[0]) == (0, 0.25)
    assert yes[2] == no[2] == pytest.approx(0.125, abs=1e-4)
    assert (yes[-1], no[-1]) == (0.25, 0)


# Charts


def paid(chart: Answers, at: float) -> list[float]:
    return [chart.payment(one, at) for one in chart.lines]


def test_the_chart_of_payments_has_the_golden_numbers() -> None:
    """At 5 % to 40 % and a bonus of 0.25: 30 % of the others pay yes 0.163527 and no 0.086472; from 43.22 % on all."""
    chart = chart_answers(plan_of("yes-no", bonus=0.25, tolerance=math.inf))
    assert chart.mark == pytest.approx(0.2410991637)
    for share, no, yes in ((0.30, 0.086472, 0.163527), (0.10, 0.217294, 0.032705), (0.44, 0.0, 0.25)):
        assert paid(chart, share) == pytest.approx([no, yes], abs=2e-4)


@pytest.mark.parametrize("name", TEXTS)
def test_the_lines_cross_at_the_switch_point_and_the_words_say_so(name: str) -> None:
    chart = chart_answers(plan_of(name, tolerance=0.1))
    lowest, *_, highest = paid(chart, chart.mark)
    assert lowest == pytest.approx(highest, abs=1e-3)
    below, above = (paid(chart, chart.mark + step) for step in (-0.02, 0.02))
    assert below[0] > below[-1]
    assert above[-1] > above[0]
    said = chart.describe()
    told = "2.81" if name == "rating" else {"yes-no": "24.1%", "features": "35.5%"}[name]
    assert f"two lines that cross at the switch point, {told}" in said
    texts = words(chart)
    assert told in " ".join(texts)
    names = {f"rating {k}" for k in range(1, 6)} if name == "rating" else {"yes", "no"}
    assert names <= set(texts)


def test_implausible_shares_pay_everybody_the_same() -> None:
    chart = chart_answers(plan_of("yes-no", tolerance=0.02))
    assert chart.along[[0, -1]].tolist() == pytest.approx([0.03, 0.42])
    assert paid(chart, 0.02) == paid(chart, 0.43) == [0.5, 0.5]
    assert any("grey: implausible" in text for text in words(chart))
    everywhere = chart_answers(plan_of("yes-no", tolerance=math.inf))
    assert everywhere.along[[0, -1]].tolist() == [0, 1]
    assert not any("implausible" in text for text in words(everywhere))


def test_the_payments_of_numbers_have_no_such_chart() -> None:
    with pytest.raises(InputError, match="these answers are numbers"):
        chart_answers(planned(Study.parse(DESIGNED)))


def test_what_is_published_of_numbers_is_not_compared_with_shares() -> None:
    plan = plan_of("yes-no")
    for ask in (compare_published, chart_frontier):
        with pytest.raises(InputError, match="possible for answers that are numbers"):
            ask(plan)


@pytest.mark.parametrize(("chart", "told"), [(SHARE, "21.0%"), (MEAN, "2.80")])
def test_a_share_is_drawn_on_its_whole_scale(chart: Share, told: str) -> None:
    interval, middle = (line[:, 0].tolist() for line in lines(chart))
    assert interval == [chart.low, chart.high]
    assert middle == [chart.value]
    texts = words(chart)
    assert told in texts
    ends = {"0%", "25%", "50%", "75%", "100%"} if chart is SHARE else {"1", "2", "3", "4", "5"}
    assert ends <= set(texts)
    assert chart.describe().startswith(f"{told}, from ")
    with canvas() as figure:
        chart.paint(figure)
        assert figure.axes[0].get_xlim() == chart.scale


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_share_at_an_end_keeps_its_number_inside_the_chart(value: float) -> None:
    chart = Share(
        value, max(0.0, value - 0.01), min(1.0, value + 0.01), 0.95, (0.0, 1.0), (0.1, 0.9), False, "x"
    )
    with canvas(5.0, chart.height) as figure:
        chart.paint(figure)
        (note,) = (text for text in figure.axes[0].texts if "%" in text.get_text())
        box = note.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_a_forest_says_in_what_unit_it_is() -> None:
    forest = Forest((Effect("age", 3.0, 1.0, 5.0),), "evaded", 0.95, "Difference, percentage points")
    assert "Difference, percentage points" in words(forest)
    assert "Change of “evaded”" not in words(forest)


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_of_a_chart_is_cut(name: str) -> None:
    """All of it lies on the canvas, also with long names."""
    long = (
        TEXTS[name].replace('"evaded"', f'"{"evaded income " * 5}"').replace('"region"', f'"{"region " * 9}"')
    )
    study = Study.parse(long)
    given: list[dict[str, Any]] = [{"tolerance": 0.05}, {}, {"bonus": 0.0}, {"bonus": 900.0, "flat": 9000.0}]
    drawn: list[Chart] = [SHARE, MEAN]
    drawn += [
        chart_answers(design(study, players=300, epsilon=0.5, **{"bonus": 1.0, **one})) for one in given
    ]
    for chart in drawn:
        with canvas(5.0, chart.height) as figure:
            chart.paint(figure)
            figure.draw_without_rendering()
            box = figure.axes[0].get_tightbbox()
            assert box is not None
            assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
            assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_a_chart_is_the_same_file_every_time(tmp_path: Path) -> None:
    plan = plan_of("yes-no")
    for file in ("one.svg", "two.svg"):
        draw_plan(plan, tmp_path / file)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    draw_chart(chart_answers(plan), tmp_path / "three.svg")
    assert (tmp_path / "three.svg").read_bytes() == (tmp_path / "one.svg").read_bytes()


def test_the_yes_no_study_has_the_declared_question() -> None:
    assert "Have you left income undeclared in the last 12 months?" in YES_NO
    assert "Have you left income undeclared in the last 12 months?" in reported("yes-no")[2]

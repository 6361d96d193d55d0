"""The laboratory's charts: numbers in, the same numbers in words and in lines; and the claim that one of them makes."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from rates_chart import RatesChart, power
from support.laboratory import RELEASES, plan_of, planned_like
from support.studies import UNIT_BALL
from test_charts_report import SVG, words

from truthful.charts.drawing import Chart, canvas, draw_chart, inline
from truthful.charts.simulation_charts import (
    BAND,
    BestReports,
    EarningsChart,
    Errors,
)
from truthful.check import Floats
from truthful.deterrence import typical
from truthful.simulation.best_responses import TriedReports, typical_reports
from truthful.simulation.measurements import Earnings, Measurement
from truthful.simulation.simulation import Exponents, Point, RateCurve

PAGE = Path(__file__).resolve().parents[1] / "docs" / "laboratory.md"
POINTS = tuple(
    Point(n, Measurement(900 / n, 90 / n), 1.0, 3.0 / n**0.25, Measurement(5 / n**0.5, 0.0), 1.0)
    for n in (100, 400, 1600)
)
RATES = RatesChart(
    (
        RateCurve("published", POINTS, Exponents(-0.21, -0.09, -0.44), Exponents(-0.25, 0.125, -0.25)),
        RateCurve("proved", POINTS, Exponents(-0.5, -0.23, -0.57), Exponents(-0.5, -0.1375, -0.1)),
    )
)
TRUTH = np.linspace(0.0, 10.0, 11)
REPORTS = TriedReports(
    TRUTH, TRUTH, 5 + 0.3 * (TRUTH - 5), (np.clip(TRUTH - 2, 0, 10), np.clip(TRUTH + 2, 0, 10))
)
BEST = BestReports(REPORTS, "spend")
ERRORS = Errors(np.array([1.0, 2.0, 2.0, 4.0]), 6.0, "spend")
UNKNOWN = Measurement(math.nan, math.nan)


def earned(agent: str, payment: Measurement, gain: Measurement) -> Earnings:
    return Earnings(agent, 10, Measurement(10.0, 0.0), payment, payment, gain)


EARNINGS = EarningsChart(
    (
        earned("exaggerator", Measurement(0.5, 0.01), Measurement(-0.02, 0.005)),
        earned("opt-out", UNKNOWN, UNKNOWN),
        earned("honest", Measurement(0.6, math.nan), Measurement(0.0, 0.0)),
    ),
    "USD",
)
CHARTS: dict[str, Chart] = {"rates": RATES, "best": BEST, "errors": ERRORS, "earnings": EARNINGS}


def panels(chart: Chart) -> list[list[Floats]]:
    """The corners of all lines of a chart, panel by panel, in the units of its axes."""
    with canvas() as figure:
        chart.paint(figure)
        return [[np.asarray(line.get_xydata()) for line in axes.lines] for axes in figure.axes]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_a_file_with_its_words_in_it(tmp_path: Path, name: str) -> None:
    chart = CHARTS[name]
    for file in ("one.svg", "two.svg", "one.png"):
        draw_chart(chart, tmp_path / file)
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert drawn == (tmp_path / "two.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(drawn)
    assert root.findtext(f"{SVG}title") == chart.title
    assert root.findtext(f"{SVG}desc") == chart.describe()
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_in_a_page_has_the_ids_and_colours_of_the_page(name: str) -> None:
    drawn = inline(CHARTS[name], name)
    ids = [element.get("id", "") for element in ElementTree.fromstring(drawn).iter() if element.get("id")]
    assert all(own.startswith(f"{name}-") for own in ids)
    assert len(ids) == len(set(ids))
    assert not re.findall(r"#[0-9a-fA-F]{6}\b", re.sub(r'(id|href)="[^"]*"|url\([^)]*\)', "", drawn))


def test_no_word_of_a_chart_is_cut_off_or_lies_over_another() -> None:
    for chart in CHARTS.values():
        with canvas(5.0, chart.height) as figure:
            chart.paint(figure)
            figure.canvas.draw()
            texts = [
                text
                for axes in figure.axes
                for text in (*axes.texts, axes.xaxis.label, *(axes.legend_.texts if axes.legend_ else ()))
                if text.get_text()
            ]
            boxes = [text.get_window_extent() for text in texts]
            frame = figure.bbox
        for at, box in enumerate(boxes):
            assert frame.x0 <= box.x0 < box.x1 <= frame.x1
            assert frame.y0 <= box.y0 < box.y1 <= frame.y1
            assert not any(box.overlaps(other) for other in boxes[at + 1 :])


# Rates


def test_every_line_has_its_fitted_power_of_n_next_to_the_theorems() -> None:
    texts = words(RATES)
    assert "ours: fitted n^−0.50, theorem n^−0.50" in texts
    assert "the paper's: fitted n^−0.09, in the limit n^+0.13" in texts
    assert "ours: fitted n^−0.57, theorem n^−0.10" in texts
    assert "from 9.00 to 0.562" in RATES.describe()


@pytest.mark.parametrize(
    ("exponent", "written"), [(0.125, "n^+0.13"), (-0.125, "n^−0.13"), (-0.5, "n^−0.50"), (0.0, "n^+0.00")]
)
def test_powers_are_rounded_away_from_zero_at_halves(exponent: float, written: str) -> None:
    assert power(exponent) == written


def test_panels_show_what_was_seen_with_95_percent_intervals() -> None:
    with canvas() as figure:
        RATES.paint(figure)
        for axes, seen in zip(
            figure.axes,
            ([point.error.value for point in POINTS], [point.lie for point in POINTS]),
            strict=False,
        ):
            drawn = axes.containers[1].lines  # type: ignore[attr-defined]
            np.testing.assert_allclose(drawn[0].get_xydata(), np.column_stack([(100, 400, 1600), seen]))
        bars = figure.axes[0].containers[1].lines[2][0].get_segments()  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        [bar[:, 1] for bar in bars],
        [(p.error.value - 1.96 * p.error.error, p.error.value + 1.96 * p.error.error) for p in POINTS],
    )


def test_the_page_of_the_laboratory_says_the_powers_that_its_chart_shows() -> None:
    page = PAGE.read_text(encoding="utf-8")
    drawn = ElementTree.parse(PAGE.parent / "rates.svg").getroot().findtext(f"{SVG}desc") or ""
    for start, name in (("| the paper's schedule |", "the paper's"), ("| ours |", "ours")):
        row = next(line for line in page.splitlines() if line.startswith(start))
        shown = re.findall(
            rf"{name}: fitted (n^[+−][\d.]+), [\w ]+ (n^[+−][\d.]+)".replace("^", r"\^"), drawn
        )
        assert [power for pair in shown for power in pair] == re.findall(r"n\^[+−][\d.]+", row)
        assert len(shown) == 3


# Best reports


def test_best_reports_are_lines_and_what_is_guaranteed_is_a_band() -> None:
    [[ours, papers, truth]] = panels(BEST)
    np.testing.assert_array_equal(ours, np.column_stack([TRUTH, TRUTH]))
    np.testing.assert_array_equal(papers[:, 1], REPORTS.papers)
    np.testing.assert_array_equal(truth, [(0, 0), (10, 10)])
    assert BAND in words(BEST)
    assert BEST.furthest == (0.0, 3.5)
    assert "Here it is the truth" in BEST.describe()
    assert "up to 3.50 away from the truth" in BEST.describe()


def test_without_a_guarantee_there_is_no_band_and_a_best_lie_is_told() -> None:
    chart = BestReports(TriedReports(TRUTH, TRUTH + 0.5, TRUTH, None), "spend")
    assert BAND not in words(chart)
    assert "at most 0.500 from the truth" in chart.describe()


@pytest.mark.parametrize("name", RELEASES)
def test_typical_people_do_best_with_the_truth_here_and_far_from_it_under_the_papers_rule(name: str) -> None:
    plan = planned_like(name, 2000, score_weight=500.0)
    found, study = typical_reports(plan), plan.study
    width = study.response.high - study.response.low
    assert study.response.low <= found.truth[0] < found.truth[-1] <= study.response.high
    assert np.abs(found.ours - found.truth).max() <= 1e-6 * width
    assert np.abs(found.papers - found.truth).max() > 0.2 * width
    if found.within is not None:
        low, high = found.within
        assert np.all((low <= found.truth) & (found.truth <= high))


def test_the_band_ends_where_a_report_moves_the_prediction_by_the_guaranteed_lie() -> None:
    plan = plan_of(UNIT_BALL, 20_000, score_weight=500.0)
    found, told, beliefs = typical_reports(plan), plan.guarantees.truthfulness, plan.study.beliefs
    r, scale, curve = typical(plan.study, plan.number_mechanism, plan.players)
    D = told.lie
    if told.typical_length is not None and told.typical_noise is not None:
        r, scale = told.typical_length, told.typical_noise
    assert found.within is not None
    middle, unit = len(found.truth) // 2, plan.study.response_unit
    for side in found.within:
        q = beliefs.prediction(r, np.array([found.truth[middle], side[middle]]) / unit, curve, scale)
        assert abs(q[1] - q[0]) == pytest.approx(D, rel=0.01)


# Errors and earnings


def test_errors_are_bars_of_all_studies_with_both_root_mean_squares() -> None:
    with canvas() as figure:
        ERRORS.paint(figure)
        axes = figure.axes[0]
        assert sum(patch.get_height() for patch in axes.patches) == pytest.approx(1)  # type: ignore[attr-defined]
        assert [line.get_xdata()[0] for line in axes.lines] == [2.5, 6.0]  # type: ignore[index]
        assert axes.get_xlim()[1] > 6
    assert {"root mean square: 2.50", "guaranteed to be at most 6.00"} <= set(words(ERRORS))
    assert ERRORS.quantiles[-1] == (1.0, 4.0)
    unpromised = Errors(ERRORS.errors, None, "spend")
    assert not [text for text in words(unpromised) if "guaranteed" in text]
    assert "guaranteed" not in unpromised.describe()


def test_one_study_alone_is_one_bar() -> None:
    assert "root mean square: 3.00" in words(Errors(np.array([3.0]), 4.0, "spend"))


def test_everybody_who_came_has_a_row_of_earnings_with_her_interval() -> None:
    paid, gained = panels(EARNINGS)
    assert next(tuple(line[:, 0]) for line in paid if len(line) == 2) == pytest.approx((0.4804, 0.5196))
    assert [line[0, 0] for line in paid if len(line) == 1] == [0.5, 0.6]
    assert [line[0, 0] for line in gained if len(line) == 1] == [-0.02, 0.0]
    assert "opt-out" not in words(EARNINGS)
    assert "exaggerator: paid 0.500 ± 0.020 each, -0.0200 ± 0.0098 over the truth" in EARNINGS.describe()


def test_if_nobody_lied_what_lies_earned_is_drawn_at_zero() -> None:
    honest = EarningsChart((earned("honest", Measurement(0.6, 0.01), Measurement(0.0, 0.0)),), "USD")
    assert panels(honest)[1][1].tolist() == [[0.0, 0.72]]
    assert any(re.fullmatch(r"0\.0+", text) for text in words(honest))

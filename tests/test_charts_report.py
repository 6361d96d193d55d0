"""The charts of a report: numbers in, the same numbers in words and in lines, in a file or in a page."""

import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.studies import DESIGNED, RELEASES, UNIT_BALL, planned

from truthful.beliefs.laws import Clipped
from truthful.charts.drawing import BLUE, NARROW, Chart, canvas, draw_chart, inline, shorten, wrap
from truthful.charts.estimate_charts import MOST_ROWS, Effect, Forest, Odds
from truthful.charts.payment_charts import LieRow, Lies, PaymentsChart
from truthful.check import Floats
from truthful.one_release import OneRelease
from truthful.report.settlement_page import lies
from truthful.study import Study

SVG = "{http://www.w3.org/2000/svg}"
FOREST = Forest(
    (Effect("age, from 18 to 90", 12.0, 4.0, 20.0), Effect("region: north", -1.0, -6.0, 4.0)), "spend", 0.95
)
CURVE = tuple(LieRow(float(k), 0.8 * k, 2 - 0.01 * k**2) for k in range(11))
LIES = Lies(CURVE, 4.0, 5.0, "USD")
PAYMENTS = PaymentsChart(np.linspace(0.1, 0.3, 101), "USD", "Payments, as predicted")
CHARTS: dict[str, Chart] = {"forest": FOREST, "lies": LIES, "odds": Odds(0.5), "payments": PAYMENTS}


def words(chart: Chart) -> list[str]:
    """All texts of a chart, as they stand in a page."""
    root = ElementTree.fromstring(inline(chart, "c"))
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def lines(chart: Chart) -> list[Floats]:
    """The corners of all lines of a chart, in the units of its axes."""
    with canvas() as figure:
        chart.paint(figure)
        return [np.asarray(line.get_xydata()) for line in figure.axes[0].lines]


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
def test_a_chart_in_a_page_has_ids_colours_and_style_of_the_page(name: str) -> None:
    drawn = inline(CHARTS[name], name)
    root = ElementTree.fromstring(drawn)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert all(str(own).startswith(f"{name}-") for own in ids)
    assert len(ids) == len(set(ids))
    assert "viewBox" in root.attrib
    assert not {"width", "height"} & set(root.attrib)
    assert not [element for element in root.iter() if element.tag in (f"{SVG}style", f"{SVG}metadata")]
    assert BLUE.lower() not in drawn
    assert "var(--blue)" in drawn


def test_names_that_look_like_colours_or_ids_are_left_alone() -> None:
    effect = Effect(f'id="x" {BLUE.lower()} url(#x)', 1.0, 0.5, 1.5)
    assert effect.label in " ".join(words(Forest((effect,), "spend", 0.95)))


def test_the_signs_at_the_ticks_are_those_of_a_language() -> None:
    effect = Effect("age", -1500.0, -2000.0, 0.5)
    assert "−2,000" in words(Forest((effect,), "spend", 0.95))
    assert "−2.000" in words(Forest((effect,), "spend", 0.95, decimal=","))
    small = Effect("age", 0.25, 0.0, 0.5)
    assert "0.40" in words(Forest((small,), "y", 0.95))
    assert "0,40" in words(Forest((small,), "y", 0.95, decimal=","))


def test_letters_that_no_xml_may_hold_are_replaced() -> None:
    assert "a\ufffdb" in words(Forest((Effect("a\x01b", 1.0, 0.5, 1.5),), "spend", 0.95))


def test_a_forest_has_a_row_for_every_effect_with_its_interval() -> None:
    texts, drawn = words(FOREST), lines(FOREST)
    assert {"age, from 18 to 90", "region: north", "Change of “spend”"} <= set(texts)
    intervals = [tuple(line[:, 0]) for line in drawn if len(line) == 2 and line[0, 1] == line[1, 1]]
    assert intervals == [(4.0, 20.0), (-6.0, 4.0)]
    assert [line[0, 0] for line in drawn if len(line) == 1] == [12.0, -1.0]
    assert FOREST.describe().startswith("age, from 18 to 90: 12.0, from 4.0 to 20.0; region: north: -1.0")


def test_a_label_stands_at_the_height_of_its_interval_and_left_of_all_of_them() -> None:
    long = "how often she stays away when nobody looks: now and then, or whenever she can manage"
    forest = Forest((*FOREST.effects, Effect(long, 1.0, -2.0, 4.0)), "spend", 0.95)
    with canvas(NARROW, forest.height) as figure:
        forest.paint(figure)
        axes = figure.axes[0]
        figure.canvas.draw()
        boxes = [label.get_window_extent() for label in axes.get_yticklabels()]
        bars = [line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() != "o"][1:]  # type: ignore[arg-type]
        for box, bar in zip(boxes, bars, strict=True):
            start = axes.transData.transform(bar.get_xydata()[0])  # type: ignore[index]
            assert box.x0 > 0
            assert box.x1 < start[0]
            assert box.y0 < start[1] < box.y1
        assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
        assert [label.get_text().count("\n") for label in axes.get_yticklabels()] == [0, 0, 2]


def test_only_intervals_on_one_side_of_zero_are_filled() -> None:
    assert [effect.sure for effect in FOREST.effects] == [True, False]
    assert Effect("down", -2.0, -3.0, -1.0).sure
    with canvas() as figure:
        FOREST.paint(figure)
        markers = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
        assert [marker.get_markerfacecolor() for marker in markers] == [BLUE, "white"]


def test_of_too_many_effects_the_largest_are_drawn_in_their_order() -> None:
    effects = tuple(Effect(f"x{k}", float(k % 70), -1.0, 70.0) for k in range(100))
    shown = Forest(effects, "spend", 0.95).rows
    assert len(shown) == MOST_ROWS
    assert [effects.index(effect) for effect in shown] == sorted(effects.index(effect) for effect in shown)
    assert min(abs(e.value) for e in shown) >= max(abs(e.value) for e in effects if e not in shown)


@given(epsilon=st.floats(1e-6, 100), before=st.floats(1e-6, 1 - 1e-6))
def test_odds_move_by_no_more_than_epsilon_and_words_are_rounded_outwards(
    epsilon: float, before: float
) -> None:
    """Bayes: afterwards the odds are those of before, times a likelihood ratio between e^−ε and e^ε."""
    least, most = Odds(epsilon).after(before)
    prior = math.log(before / (1 - before))
    assert least == pytest.approx(1 / (1 + math.exp(-(prior - epsilon))), rel=1e-9)
    assert most == pytest.approx(1 / (1 + math.exp(-(prior + epsilon))), rel=1e-9)
    low, high = (float(word.rstrip("%")) / 100 for word in Odds(epsilon).in_words(before))
    assert 0 <= low <= least + 1e-11
    assert most - 1e-11 <= high <= 1


@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 0.5, 1.5, 2.0, 2.5, 3.0, 5.0, 20.0, 100.0])
def test_the_odds_are_written_beside_the_band_however_wide_it_is(epsilon: float) -> None:
    told = Odds(epsilon).in_words(0.5)[1]
    assert [text for text in words(Odds(epsilon)) if text in (f"to {told} at most", f"≤ {told}")]


def test_a_curve_of_lies_marks_where_they_stop_paying_only_if_there_is_such_a_lie() -> None:
    assert "D: no larger lie pays" in words(LIES)
    assert 5.0 in [line[0, 0] for line in lines(LIES) if line[0, 0] == line[-1, 0]]
    for unmarked in (Lies(CURVE, None, None, "USD"), Lies(CURVE, 9.0, None, "USD")):
        assert not [text for text in words(unmarked) if text.startswith("D:")]
        assert "marked D" not in unmarked.describe()


@pytest.mark.parametrize("threshold", [0.4, 3.0, 5.1, 7.0, 9.0, 9.9])
@pytest.mark.parametrize("bend", [0.3, 1.0, 2.0, 6.0])
def test_the_words_at_the_mark_are_off_the_curve_and_inside(threshold: float, bend: float) -> None:
    curve = tuple(LieRow(float(k), 0.8 * k, 2 - (k / 10) ** bend) for k in range(11))
    chart = Lies(curve, 4.0, threshold, "USD")
    with canvas(NARROW, chart.height) as figure:
        chart.paint(figure)
        figure.canvas.draw()
        axes = figure.axes[0]
        (words,) = (text for text in axes.texts if text.get_text().startswith("D: no"))
        box, frame = words.get_window_extent(), axes.get_window_extent()
        sizes = np.linspace(0, 10, 4001)
        places = axes.transData.transform([(size, chart.at(size).payment) for size in sizes])
    assert not np.any(((places > box.p0) & (places < box.p1)).all(axis=1))
    assert frame.x0 <= box.x0 < box.x1 <= frame.x1
    assert frame.y0 <= box.y0 < box.y1 <= frame.y1


def test_a_lie_between_two_of_the_curve_is_between_them() -> None:
    lie = LIES.at(2.5)
    assert lie.moved == pytest.approx(2.0)
    assert lie.payment == pytest.approx((CURVE[2].payment + CURVE[3].payment) / 2)


@pytest.mark.parametrize("estimator", RELEASES)
@pytest.mark.parametrize("rule", ["quadratic", "brier"])
def test_a_lie_costs_the_weight_times_the_square_of_what_it_moves(estimator: str, rule: str) -> None:
    """Both rules are proper: E[rule(p, q′)] = E[rule(p, q)] − b(q′ − q)² if E[p] = q. So the truth earns most."""
    plan = planned(Study.parse(RELEASES[estimator]), 2000, estimator, rule=rule)
    shown = lies(plan, 2000, plan.guarantees.truthfulness)
    unit, b = plan.study.response_unit, plan.number_mechanism.score_weight
    for lie in shown.curve:
        assert shown.truth - lie.payment == pytest.approx(b * (lie.moved / unit) ** 2, abs=1e-12)
    assert all(after.payment <= before.payment for before, after in pairwise(shown.curve))


def test_the_mark_is_where_everybody_else_s_noise_has_it() -> None:
    """Noise along x of scale 2Y/ε·√(tr Σ⁻¹/E‖x‖²)/(n − 1), and predictions clipped at c."""
    plan = planned(Study.parse(RELEASES["known-design"]), 20_000, score_weight=50.0, epsilon=1.0)
    study, mechanism, promised = plan.study, plan.mechanism, plan.guarantees.truthfulness
    assert isinstance(mechanism, OneRelease)
    shown = lies(plan, 20_000, promised)
    assert promised.lie is not None
    assert shown.threshold is not None
    beliefs, square = study.beliefs, study.mean_square_norm
    assert study.second_moments is not None
    along = math.sqrt(float(np.trace(np.linalg.inv(study.second_moments))) / square) / 19_999
    y, curve = shown.threshold / study.response_unit, Clipped(mechanism.clip, study.dimension)
    q = beliefs.prediction(
        math.sqrt(square), y, curve, 2 * beliefs.response_bound / mechanism.epsilon * along
    )
    assert float(q) == pytest.approx(promised.lie, rel=1e-3)
    assert shown.at(shown.threshold).moved == pytest.approx(study.response_unit * float(q), rel=1e-3)


def test_a_size_that_no_lie_of_hers_reaches_is_not_marked() -> None:
    plan = planned(Study.parse(DESIGNED), 20_000, score_weight=50.0, epsilon=1.0)
    shown = lies(plan, 20_000, replace(plan.guarantees.truthfulness, lie=0.999))
    assert shown.threshold is None
    assert shown.D is not None
    assert [shown.may_pay(lie) for lie in shown.curve] == [lie.moved <= shown.D for lie in shown.curve]


def test_lies_may_pay_up_to_the_mark() -> None:
    assert [LIES.may_pay(lie) for lie in CURVE] == [lie.size <= 5 for lie in CURVE]
    assert all(Lies(CURVE, None, None, "USD").may_pay(lie) for lie in CURVE)


def test_no_mark_where_no_lie_of_hers_is_so_large() -> None:
    plan = planned(Study.parse(UNIT_BALL), 200)
    shown = lies(plan, 200, plan.guarantees.truthfulness)
    assert shown.threshold is None
    assert shown.D is None or shown.curve[-1].moved <= shown.D


def test_payments_are_bars_of_all_people_with_their_median() -> None:
    with canvas() as figure:
        PAYMENTS.paint(figure)
        bars = [patch.get_height() for patch in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert sum(bars) == pytest.approx(1)
    assert "half get 20 cents or less" in words(PAYMENTS)
    assert "5% get 11 cents or less" in PAYMENTS.describe()


def test_payments_that_are_all_the_same_are_one_bar() -> None:
    with canvas() as figure:
        PaymentsChart(np.full(50, 0.25), "USD", "Flat").paint(figure)
        bars = [patch.get_height() for patch in figure.axes[0].patches]  # type: ignore[attr-defined]
    assert sorted(bars)[-1] == 1
    assert sum(bars) == 1


def test_a_name_is_cut_to_its_line_also_if_it_is_one_long_word() -> None:
    assert shorten("a b\n c", 10) == "a b c"
    assert shorten("x" * 99, 10) == "x" * 9 + "…"
    assert len(shorten("two words here", 10)) <= 10


def test_a_name_is_wrapped_and_what_does_not_fit_is_cut_and_seen_to_be() -> None:
    assert wrap("two words here", 10, 3) == ["two words", "here"]
    assert wrap("", 10, 3) == [""]
    cut = wrap("word " * 20, 10, 3)
    assert len(cut) == 3
    assert all(len(line) <= 10 for line in cut)
    assert cut[-1].endswith("…")

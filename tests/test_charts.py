"""Charts are files with words in them: the same bytes each time, whole or not at all, and no label over another."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.studies import DESIGNED, OBSERVED, RECORDS, UNIT_BALL, planned

from truthful.charts.drawing import WIDTH, Labels, canvas, draw_chart, plain_number, round_ticks
from truthful.charts.frontier_chart import BEST, PRIOR, Frontier, chart_frontier, draw_frontier
from truthful.errors import InputError
from truthful.plan import Plan, design
from truthful.planner.number_planning import FrontierPoint, Purchase
from truthful.study import Study

SVG = "{http://www.w3.org/2000/svg}"
TOO_LITTLE = "too little money"


@cache
def ball_plan() -> Plan:
    return design(Study.parse(UNIT_BALL), players=5000, budget=1500)


@cache
def ball_chart() -> Frontier:
    return chart_frontier(ball_plan())


@cache
def explicit() -> tuple[Plan, Frontier]:
    """A plan whose numbers were given, and its chart."""
    plan = planned(Study.parse(DESIGNED), 5000, epsilon=0.3)
    return plan, chart_frontier(plan)


@cache
def shown() -> Frontier:
    """A picture as of a plan, made by hand."""
    budgets = np.geomspace(50, 45_000, 21).tolist()
    points = [
        FrontierPoint(
            budget,
            Purchase(5 * budget**-0.4, 0.003 * budget**0.5),
        )
        for budget in budgets
    ]
    return Frontier(
        study=Study.parse(UNIT_BALL),
        players=5000,
        accuracy_of="coefficients",
        points=tuple(points),
        prior=0.7,
        budget=1500.0,
        error=5 * 1500**-0.4,
        epsilon=0.116,
        lie=0.5,
        capped=True,
    )


def words(path: Path) -> list[str]:
    """All texts of an SVG."""
    return ["".join(text.itertext()) for text in ElementTree.parse(path).iter(f"{SVG}text")]


def drawn(picture: Frontier, directory: Path) -> list[str]:
    draw_chart(picture, directory / "chart.svg", WIDTH)
    return words(directory / "chart.svg")


def test_the_chart_of_a_plan_says_what_it_shows(tmp_path: Path) -> None:
    plan = ball_plan()
    texts = "\n".join(drawn(ball_chart(), tmp_path))
    rmse = plan.guarantees.accuracy.rmse
    assert rmse is not None
    for said in ("What money buys: Ball, 5,000 players", "Guaranteed error of coefficients", "Budget, EUR"):
        assert said in texts
    for said in (BEST, PRIOR, "this plan: 1,500 EUR", f"ε {plan.mechanism.epsilon:.2g}"):
        assert said in texts
    # ε along the curve, besides the plan's own and the one that the subtitle explains.
    assert len(re.findall(r"^ε [0-9.]+$", texts, re.MULTILINE)) >= 4


def test_those_who_cannot_see_it_are_told_what_it_shows(tmp_path: Path) -> None:
    draw_chart(shown(), tmp_path / "chart.svg", WIDTH)
    root = ElementTree.parse(tmp_path / "chart.svg").getroot()
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title description"
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert (title.get("id"), description.get("id")) == ("title", "description")
    assert title.text == "What money buys: Ball, 5,000 players"
    assert description.text == shown().describe()
    assert "This plan guarantees" in shown().describe()
    assert "The best plan: from" in shown().describe()


def test_the_curve_goes_through_the_plan() -> None:
    found = ball_chart()
    middle = found.points[len(found.points) // 2]
    assert middle.best is not None
    assert middle.budget == pytest.approx(found.budget)
    assert middle.best.error == pytest.approx(found.error, rel=5e-3)


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_picture_is_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name in ("one", "two"):
        draw_chart(shown(), tmp_path / f"{name}.{suffix}", WIDTH)
    first = (tmp_path / f"one.{suffix}").read_bytes()
    assert first == (tmp_path / f"two.{suffix}").read_bytes()
    assert first.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert b"dc:date" not in first
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one.{suffix}", f"two.{suffix}"]


@pytest.mark.parametrize("name", ["chart.pdf", "chart", "chart.svg.txt"])
def test_other_kinds_of_files_are_refused_before_anything_is_computed(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        draw_frontier(ball_plan(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        draw_chart(shown(), tmp_path / "nowhere" / "chart.svg", WIDTH)
    (tmp_path / "chart.svg").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        draw_chart(shown(), tmp_path / "chart.svg", WIDTH)
    assert [path.name for path in tmp_path.iterdir()] == ["chart.svg"]


def test_names_with_signs_of_formulas_and_markup_stay_words(tmp_path: Path) -> None:
    text = UNIT_BALL.replace('name = "Ball"', 'name = "Cash $x_1$ & <co>"')
    texts = drawn(replace(shown(), study=Study.parse(text)), tmp_path)
    assert "What money buys: Cash $x_1$ & <co>, 5,000 players" in texts


# What there may be to show


def only(points: tuple[FrontierPoint, ...], left: int) -> tuple[FrontierPoint, ...]:
    """The frontier with so many points of its curve left, those of the largest budgets."""
    return tuple(
        FrontierPoint(p.budget, p.best if len(points) - at <= left else None) for at, p in enumerate(points)
    )


@pytest.mark.parametrize("left", [0, 1, 3, 21])
def test_curves_with_few_points_or_none_are_drawn(tmp_path: Path, left: int) -> None:
    texts = drawn(replace(shown(), points=only(shown().points, left), error=None), tmp_path)
    assert (BEST in texts) == (left > 0)
    assert any(text.startswith(PRIOR) for text in texts)
    assert (TOO_LITTLE in texts) == (left < 21)


def test_errors_over_many_powers_of_ten_are_drawn(tmp_path: Path) -> None:
    points = tuple(FrontierPoint(10.0**at, Purchase(10.0 ** (-at / 2), 1.0)) for at in range(21))
    texts = drawn(replace(shown(), points=points), tmp_path)
    assert BEST in texts


def test_the_chart_of_a_plan_with_given_numbers_names_its_cost(tmp_path: Path) -> None:
    plan, found = explicit()
    texts = drawn(found, tmp_path)
    assert BEST in texts
    cap = plan.guarantees.budget.cap
    assert f"this plan: {cap:,.0f} USD" in texts


def test_an_explicit_plan_is_shown_among_those_of_its_own_lie_size() -> None:
    plan, found = explicit()
    lie = plan.guarantees.truthfulness.lie
    assert lie is not None
    assert found.lie == pytest.approx(plan.study.response_unit * lie)
    middle = found.points[len(found.points) // 2].best
    assert middle is not None
    assert found.error is not None
    assert middle.error <= found.error


def test_a_plan_without_promises_has_a_chart_without_its_point(tmp_path: Path) -> None:
    text = re.sub(r"least_eigenvalue = .*\n", "", OBSERVED) + RECORDS
    draw_frontier(planned(Study.parse(text), 5000), tmp_path / "chart.svg")
    texts = words(tmp_path / "chart.svg")
    assert not any(text.startswith("this plan") for text in texts)
    assert TOO_LITTLE in texts


# Labels, numbers, the library's state


def test_labels_never_lie_over_each_other_over_a_line_or_outside() -> None:
    rng = np.random.default_rng(5)
    with canvas() as figure:
        axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        labels = Labels(axes)
        labels.avoid((0.0, 1.0), (0.0, 1.0))
        places = rng.random((200, 2))
        written = [labels.put(f"label {at}", [tuple(place)]) for at, place in enumerate(places.tolist())]
        boxes = [text.get_window_extent() for text in axes.texts]
        frame = axes.get_window_extent()
        diagonal = axes.transData.transform(np.linspace(0, 1, 2000)[:, None] * np.ones(2))
    assert 20 < sum(written) == len(boxes) < 200
    for at, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:at])
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
        assert frame.y0 <= box.y0
        assert box.y1 <= frame.y1
        assert not np.any(((diagonal > box.p0) & (diagonal < box.p1)).all(axis=1))


@pytest.mark.parametrize(("low", "high"), [(0.3, 1.2), (130.0, 1.6e5), (1e-9, 1e12), (4.9, 51.0)])
def test_ticks_are_few_round_numbers_in_range(low: float, high: float) -> None:
    found = round_ticks(low, high)
    assert 2 <= len(found) <= 8
    assert all(low <= tick <= high for tick in found)


def test_numbers_are_written_plainly() -> None:
    values = (0.02, 0.5, 1.0, 300.0, 20_000.0, 3e6, 5e9, 1e12, 1e-9)
    expected = ["0.02", "0.5", "1", "300", "20,000", "3 million", "5 billion", "1 trillion", "1e-9"]
    assert [plain_number(value) for value in values] == expected


def test_drawing_leaves_no_state_and_matplotlib_is_not_loaded_before(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import truthful.charts.frontier_chart, test_charts
assert "matplotlib" not in sys.modules
test_charts.draw_chart(test_charts.shown(), Path({str(tmp_path / "a.svg")!r}))
import matplotlib
assert "matplotlib.pyplot" not in sys.modules
assert matplotlib.rcParams["svg.hashsalt"] is None
assert matplotlib.rcParams["text.parse_math"]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)
    assert (tmp_path / "a.svg").exists()


def test_charts_drawn_at_once_leave_matplotlib_as_it_was() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)

    def draw(_: int) -> None:
        with canvas() as figure:
            figure.subplots().plot([0, 1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(draw, range(24)))
    assert dict(matplotlib.rcParams) == before

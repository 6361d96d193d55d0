"""The frontier of a plan as a chart: the guaranteed error at each budget, ours and the paper's, and the plan itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthful.charts import house
from truthful.charts.answers import answers
from truthful.charts.chart import draw_chart
from truthful.charts.labels import AROUND, Labels
from truthful.charts.picture import OURS, PAPER, PRIOR, Curve, Picture, describe, picture, title
from truthful.charts.surprises import surprises
from truthful.plan import Plan
from truthful.words import money, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: ε is written at every so many points of a curve.
EVERY = 3
ABOVE, BELOW = ((1, 1), (0, 1), (-1, 1)), ((-1, -1), (0, -1), (1, -1))
DASHES = (0, (5, 2))
#: The least ratio of the ends of an axis.
NARROWEST = 4.0
#: From here on cents are left out.
WHOLE = 100.0


def draw_plan(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan: its frontier, or what answers pay of yes and no, ratings, and with predictions."""
    if plan.asked_mechanism is not None:
        draw_chart(surprises(plan), path)
    elif plan.share_mechanism is not None:
        draw_chart(answers(plan), path)
    else:
        draw_frontier(plan, path)


def draw_frontier(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan's frontier to an SVG or PNG file."""
    path = Path(path)
    house.check_suffix(path)
    draw(picture(plan), path)


def draw(shown: Picture, path: Path) -> None:
    """Write the chart of a picture."""
    with house.canvas() as figure:
        _paint(figure, shown)
        house.write(figure, path, title(shown), describe(shown))


def _paint(figure: Figure, shown: Picture) -> None:
    """Lines first, so that labels keep off them; then the labels, those that matter most first."""
    axes = figure.add_axes((0.095, 0.105, 0.86, 0.73))
    _words(figure, axes, shown)
    _scales(axes, shown)
    labels = Labels(axes)
    axes.axhline(shown.prior, color=house.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
    labels.avoid(axes.get_xlim(), (shown.prior, shown.prior))
    _line(axes, labels, shown.ours, house.BLUE, "-")
    _line(axes, labels, shown.paper, house.ORANGE, DASHES)
    _plan(axes, labels, shown)
    _prior(axes, labels, shown)
    _too_little(axes, labels, shown)
    _name(labels, shown.ours, OURS, house.BLUE, BELOW)
    _name(labels, shown.paper, PAPER, house.ORANGE, ABOVE)
    _epsilons(axes, labels, shown.ours, house.BLUE)
    _epsilons(axes, labels, shown.paper, house.ORANGE)


def _words(figure: Figure, axes: Axes, shown: Picture) -> None:
    response = shown.study.response.name
    figure.text(0.02, 0.955, title(shown), fontsize=house.TITLE, fontweight="bold", va="center")
    figure.text(
        0.02,
        0.907,
        f"No lie that moves a prediction by more than {number(shown.lie)} pays. "
        "ε is the privacy level, the smaller the safer.",
        color=house.GREY,
        va="center",
    )
    figure.text(0.02, 0.86, f"Guaranteed error of {shown.accuracy_of}, in units of “{response}”", va="center")
    axes.set_xlabel(f"Budget, {shown.study.currency}{_meaning(shown)}", labelpad=8)


def _meaning(shown: Picture) -> str:
    """What the budget bounds: the paper's payments can be negative, and their total has no bound."""
    ours = "never exceeded" if shown.capped else "on average"
    return f": {ours} (the paper's mechanism: on average)" if shown.paper and shown.capped else f": {ours}"


def _scales(axes: Axes, shown: Picture) -> None:
    """Both logarithmic, with room around all that is shown."""
    errors = [shown.prior, *(offer.error for _, offer in shown.ours + shown.paper)]
    if shown.error is not None:
        errors.append(shown.error)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_widened([shown.budget, *(point.budget for point in shown.points)], 0.02))
    axes.set_ylim(_widened(errors, 0.09))
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        places = house.ticks(low, high)
        axis.set_ticks(places, [house.plain(place) for place in places])
        axis.set_ticks([], minor=True)
    axes.tick_params(length=0, pad=6)


def _widened(values: list[float], room: float) -> tuple[float, float]:
    """A range with some room on both sides, and never so narrow that a hair's breadth looks like a difference."""
    low, high = min(values), max(values)
    spread = math.log(high / low)
    factor = math.exp(max(room * spread, (math.log(NARROWEST) - spread) / 2))
    return low / factor, high * factor


def _line(axes: Axes, labels: Labels, curve: Curve, colour: str, dashes: Any) -> None:
    budgets, errors = [budget for budget, _ in curve], [offer.error for _, offer in curve]
    # One point alone has no line to show it.
    marker = "o" if len(curve) == 1 else ""
    axes.plot(budgets, errors, color=colour, linewidth=2.4, linestyle=dashes, marker=marker, markersize=4.5)
    labels.avoid(budgets, errors)


def _too_little(axes: Axes, labels: Labels, shown: Picture) -> None:
    """A shade over the budgets with which nothing deters lies."""
    without = [point.budget for point in shown.points if point.ours is None]
    if not without:
        return
    left, right = axes.get_xlim()
    end = math.sqrt(without[-1] * shown.ours[0][0]) if shown.ours else right
    axes.axvspan(left, end, color=house.FAINT, linewidth=0, alpha=0.6)
    low, high = axes.get_ylim()
    middle = math.sqrt(left * end)
    places = [(middle, low * (high / low) ** part) for part in (0.3, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8)]
    text = "too little money\nto make lies\nunprofitable"
    labels.put(text, places, around=((0, 0),), color=house.GREY, multialignment="center", bbox=None)


def _plan(axes: Axes, labels: Labels, shown: Picture) -> None:
    """The plan itself, and its numbers."""
    if shown.error is None:
        return
    place = (shown.budget, shown.error)
    axes.plot(
        *place, "o", color=house.INK, markersize=9, markeredgecolor="white", markeredgewidth=1.5, zorder=5
    )
    labels.avoid_marker(*place)
    text = (
        f"this plan: {money(shown.budget, shown.study.currency, 0 if shown.budget >= WHOLE else None)}\n"
        f"error {number(shown.error)} at ε {shown.epsilon:.2g}"
    )
    labels.put(text, [place], distance=9, around=(*ABOVE, *BELOW), fontweight="bold")


def _prior(axes: Axes, labels: Labels, shown: Picture) -> None:
    left, right = axes.get_xlim()
    places = [(left * (right / left) ** part, shown.prior) for part in (0.985, 0.8, 0.65, 0.5)]
    text = f"{PRIOR}: {number(shown.prior)}"
    for distance in (3, 24, 48):
        if labels.put(text, places, distance=distance, around=((-1, 1), (-1, -1)), color=house.GREY):
            return


def _name(labels: Labels, curve: Curve, name: str, colour: str, around: Sequence[tuple[int, int]]) -> None:
    """The name of a curve beside it, near its middle if there is room."""
    middle = (len(curve) - 1) / 2
    order = sorted(range(len(curve)), key=lambda at: abs(at - middle))
    places = [(curve[at][0], curve[at][1].error) for at in order]
    for side in (around, AROUND):
        if labels.put(name, places, around=side, color=colour, fontweight="bold"):
            return


def _epsilons(axes: Axes, labels: Labels, curve: Curve, colour: str) -> None:
    """ε at a few points of a curve, where there is room."""
    for budget, offer in curve[::EVERY]:
        place = (budget, offer.error)
        text = f"ε {offer.epsilon:.2g}"
        if labels.put(text, [place], color=colour, fontsize=house.SMALL):
            axes.plot(*place, "o", color=colour, markersize=4.5)

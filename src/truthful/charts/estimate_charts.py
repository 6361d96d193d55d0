"""Charts of a release: estimates with their intervals, and privacy as odds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import drawing
from truthful.charts.drawing import BLUE, GREY, INK, ORANGE, Labels
from truthful.formatting import interval, number, odds, protects, share, to_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: More rows than a page holds are left to the table.
MOST_ROWS = 40
#: In inches: a row of one line, each further line of its label, and what stands around the rows.
ROW, LINE, MARGIN = 0.3, 0.17, 0.62
#: The share of the width that labels have, their longest line, and how many lines there are at most.
LABELS, LETTERS, LINES = 0.42, 24, 3
#: Of averages, in inches: a row, and what stands around the rows. And the share of the width that labels have.
AVERAGE_ROW, AVERAGE_MARGIN, AVERAGE_LABELS = 0.42, 0.6, 0.2
POINTS = 201
#: Where the words about odds may stand.
PLACES = ((0.24, 0.9), (0.26, 0.8), (0.26, 0.7), (0.24, 0.6), (0.76, 0.3), (0.76, 0.2), (0.76, 0.1))
#: Beliefs beforehand that are told one by one.
BEFORE = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class Effect:
    """The effect of one feature on the response, in raw units."""

    label: str
    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval has one sign only."""
        return self.low > 0 or self.high < 0

    def describe(self) -> str:
        value, low, high = interval(self.value, self.low, self.high)
        return f"{self.label}: {value}, from {low} to {high}"


@dataclass(frozen=True)
class Forest:
    """Effects on one response, in its raw units, at one level of confidence."""

    effects: tuple[Effect, ...]
    response: str
    level: float
    axis: str | None = None
    """What the axis says; by default that it is the change of the response."""
    decimal: str = "."

    @property
    def rows(self) -> tuple[Effect, ...]:
        """The effects that get a row, in their order: if there are too many, the largest."""
        largest = sorted(self.effects, key=lambda effect: -abs(effect.value))[:MOST_ROWS]
        return tuple(effect for effect in self.effects if effect in largest)

    @property
    def title(self) -> str:
        return drawing.shorten(f"Effects on “{self.response}”, with {self.level:.0%} intervals", 84)

    @property
    def height(self) -> float:
        return MARGIN + sum(self._heights)

    @property
    def _labels(self) -> list[str]:
        """The names of the rows, in lines that fit."""
        return ["\n".join(drawing.wrap(effect.label, LETTERS, LINES)) for effect in self.rows]

    @property
    def _heights(self) -> list[float]:
        """The heights of the rows, in inches."""
        return [ROW + LINE * label.count("\n") for label in self._labels]

    def describe(self) -> str:
        """The chart in words."""
        rows = "; ".join(effect.describe() for effect in self.rows)
        return f"{rows}. Filled markers: the whole interval is on one side of zero."

    def paint(self, figure: Figure) -> None:
        """One row each: the name at the left of its interval. The marker is filled if the interval excludes zero."""
        heights, height = self._heights, self.height
        axes = figure.add_axes((LABELS, 0.5 / height, 0.97 - LABELS, (sum(heights) + 0.06) / height))
        axes.set_ylim(sum(heights), -0.06)
        ends = [0.0, *(end for effect in self.rows for end in (effect.low, effect.high))]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.locator_params(axis="x", nbins=5)
        drawing.label_ticks(axes.xaxis, max(ends) - min(ends), self.decimal)
        middles = [end - own / 2 for end, own in zip(accumulate(heights), heights, strict=True)]
        axes.set_yticks(middles, self._labels, fontsize=drawing.TEXT)
        drawing.hide_left(axes)
        axes.axvline(0, color=GREY, linewidth=1.2)
        looks: Any = {"markersize": 6.5, "color": BLUE, "markeredgewidth": 1.6}
        for middle, effect in zip(middles, self.rows, strict=True):
            axes.plot([effect.low, effect.high], [middle] * 2, color=BLUE, linewidth=2.4)
            axes.plot(effect.value, middle, "o", markerfacecolor=BLUE if effect.sure else "white", **looks)
        axes.set_xlabel(self.axis or f"Change of “{drawing.shorten(self.response, 30)}”", labelpad=5)


def _draw_interval(axes: Axes, row: float, effect: Effect) -> None:
    axes.plot([effect.low, effect.high], [row] * 2, color=BLUE, linewidth=3.2)
    axes.plot(effect.value, row, "o", color=BLUE, markersize=7.5)


@dataclass(frozen=True)
class Share:
    """The estimate of a share and the ends of its interval; scale: the least and the largest possible value."""

    value: float
    low: float
    high: float
    level: float
    scale: tuple[float, float]
    believed: tuple[float, float]
    rating: bool
    response: str

    height = 1.45

    @property
    def title(self) -> str:
        return drawing.shorten(f"{self._what}, “{self.response}”, with its {self.level:.0%} interval", 84)

    @property
    def _what(self) -> str:
        return "Mean rating" if self.rating else "Share of yes"

    def write(self, value: float) -> str:
        """In percent, or as a rating."""
        width = self.high - self.low
        return to_within(value, width) if self.rating else share(value, width)

    def _plain(self, value: float) -> str:
        return f"{value:.4g}" if self.rating else f"{100 * value:.3g}%"

    def describe(self) -> str:
        """The chart in words."""
        value, low, high = (self.write(end) for end in (self.value, self.low, self.high))
        thought = " and ".join(self._plain(end) for end in self.believed)
        return (
            f"{value}, from {low} to {high}, on a scale from {self._plain(self.scale[0])} to "
            f"{self._plain(self.scale[1])}. Beforehand between {thought} was thought possible for the average person, "
            "which is shaded."
        )

    def paint(self, figure: Figure) -> None:
        """One interval on the whole scale, with its number above."""
        axes = figure.add_axes((0.06, 0.5 / self.height, 0.88, (self.height - 0.55) / self.height))
        (left, right), middle = self.scale, 0.38
        axes.set_xlim(left, right)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        drawing.hide_left(axes)
        steps = round(right - left) if self.rating else 4
        places = [left + (right - left) * at / steps for at in range(steps + 1)]
        axes.set_xticks(places, [self._plain(place) for place in places])
        axes.axvspan(*self.believed, **drawing.SHADE)
        _draw_interval(axes, middle, Effect("", self.value, self.low, self.high))
        part = (self.value - left) / (right - left)
        axes.annotate(
            self.write(self.value),
            (self.value, middle),
            xytext=(0, 9),
            textcoords="offset points",
            ha="left" if part < 0.05 else "right" if part > 0.95 else "center",
            fontweight="bold",
            annotation_clip=False,
        )
        axes.set_xlabel(f"{self._what}; shaded: thought possible beforehand", labelpad=5)


@dataclass(frozen=True)
class Averages:
    """The average answer and prediction, and what people expected beforehand where that can be computed.

    scale: the least and the largest possible value. plausible: the declared plausible range, if any.
    """

    rows: tuple[Effect, ...]
    centre: float | None
    level: float
    scale: tuple[float, float]
    plausible: tuple[float, float] | None
    response: str

    @property
    def title(self) -> str:
        return drawing.shorten(
            f"Answers and predictions, “{self.response}”, with {self.level:.0%} intervals", 84
        )

    @property
    def height(self) -> float:
        return AVERAGE_MARGIN + AVERAGE_ROW * len(self._labels)

    @property
    def _labels(self) -> list[str]:
        return [row.label for row in self.rows] + ([] if self.centre is None else ["expected"])

    def describe(self) -> str:
        """The chart in words."""
        words = f"{'; '.join(row.describe() for row in self.rows)}."
        if self.centre is not None:
            words += f" Expected beforehand: {number(self.centre)}."
        if self.plausible is not None:
            low, high = (number(end) for end in self.plausible)
            words += f" Between {low} and {high}, which is shaded, was thought possible."
        return words

    def paint(self, figure: Figure) -> None:
        """One row each, the last for what was expected, with its number at the right of its interval."""
        labels, height = self._labels, self.height
        rows = AVERAGE_ROW * len(labels) / height
        axes = figure.add_axes((AVERAGE_LABELS, 0.5 / height, 0.95 - AVERAGE_LABELS, rows))
        axes.set_xlim(*self.scale)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_yticks(range(len(labels)), labels, fontsize=drawing.TEXT)
        drawing.hide_left(axes)
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}".replace("-", "−"))
        if self.plausible is not None:
            axes.axvspan(*self.plausible, **drawing.SHADE)
        for place, row in enumerate(self.rows):
            _draw_interval(axes, place, row)
            self._write(axes, row.value, place, row.high, to_within(row.value, row.high - row.low))
        if self.centre is not None:
            axes.plot(self.centre, len(self.rows), "o", color=ORANGE, markersize=7.5)
            self._write(axes, self.centre, len(self.rows), self.centre, number(self.centre))
        shaded = "" if self.plausible is None else "; shaded: thought possible beforehand"
        axes.set_xlabel(f"{drawing.shorten(self.response, 30)}{shaded}", labelpad=5)

    def _write(self, axes: Axes, value: float, place: int, end: float, words: str) -> None:
        low, high = self.scale
        right = end < low + 0.85 * (high - low)
        axes.annotate(
            words,
            (min(max(end, value), high) if right else value, place),
            xytext=(9, 0) if right else (-9, 7),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )


@dataclass(frozen=True)
class Odds:
    """The odds that ε-differential privacy allows: they move by a factor between e^−ε and e^ε, whatever is known."""

    epsilon: float

    title = "How sure anybody can become of an answer"
    height = 3.7

    def after(self, before: float) -> tuple[float, float]:
        """How sure somebody who was `before` sure can be afterwards: the least and the most."""
        doubt, factor = 1 - before, math.exp(-self.epsilon)
        return before * factor / (before * factor + doubt), before / (before + doubt * factor)

    def in_tenths(self, before: float) -> tuple[float, float]:
        """The same to a tenth of a percent, rounded outwards."""
        least, most = self.after(before)
        return math.floor(1000 * least + 1e-9) / 1000, math.ceil(1000 * most - 1e-9) / 1000

    def in_words(self, before: float) -> tuple[str, str]:
        """The same in words."""
        least, most = self.in_tenths(before)
        return f"{100 * least:g}%", f"{100 * most:g}%"

    def describe(self) -> str:
        """The chart in words."""
        better = f"with odds of {odds(self.epsilon)} at best" if protects(self.epsilon) else "almost surely"
        return (
            "How sure somebody can be of an answer after seeing the release, against before. Who thought two answers "
            f"equally likely can tell them apart {better} (ε = {self.epsilon:.4g}). On the diagonal nothing is "
            "learned; the band around it is all that can be."
        )

    def paint(self, figure: Figure) -> None:
        """The band of possible beliefs afterwards, around the diagonal where nothing is learned."""
        axes = figure.add_axes((0.14, 0.145, 0.81, 0.83))
        before = np.linspace(0, 1, POINTS)
        least, most = np.transpose([self.after(value) for value in before])
        axes.fill_between(before, least, most, color=BLUE, alpha=0.18, linewidth=0)
        for edge in (least, most):
            axes.plot(before, edge, color=BLUE, linewidth=2.4)
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=1.2, linestyle=drawing.DOTTED)
        even = self.after(0.5)
        axes.plot([0.5, 0.5], even, color=INK, linewidth=1.2)
        axes.plot([0.5, 0.5], even, "o", color=INK, markersize=5)
        places = [0, 0.25, 0.5, 0.75, 1]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(places, [f"{place:.0%}" for place in places])
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("How sure somebody was of an answer before")
        axes.set_ylabel("How sure after seeing the release")
        labels = Labels(axes)
        for edge in (least, most, before):
            labels.avoid(before.tolist(), edge.tolist())
        # In the corner above the band, or inside where it is wide, or in short beside the point itself.
        most_sure, bold = self.in_words(0.5)[1], dict[str, Any](fontweight="bold", bbox=None)
        if not labels.put(f"from 50%\nto {most_sure} at most", PLACES, around=((0, 0),), **bold):
            labels.put(f"≤ {most_sure}", [(0.5, even[1])], distance=6, around=((1, -1),), **bold)

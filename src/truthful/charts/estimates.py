"""What a release says, and what it gives away: coefficients and shares with their intervals, and privacy as odds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import style
from truthful.charts.style import Labels
from truthful.formatting import odds, share, to_within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More rows than a page holds are left to the table.
MOST_ROWS = 40
#: In inches: a row of one line, each further line of its label, and what stands around the rows.
ROW, LINE, MARGIN = 0.3, 0.17, 0.62
#: The share of the width that labels have, their longest line, and how many lines there are at most.
LABELS, LETTERS, LINES = 0.42, 24, 3


@dataclass(frozen=True)
class Effect:
    """What a change of one feature does to the response, in its raw units."""

    label: str
    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval has one sign only."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Forest:
    """Effects on one response, all in its raw units, at one level of confidence."""

    effects: tuple[Effect, ...]
    response: str
    level: float
    axis: str | None = None
    """What the axis says; by default that it is the change of the response."""

    @property
    def shown(self) -> tuple[Effect, ...]:
        """The effects that have a row, in their order: if there are too many, the largest."""
        largest = sorted(self.effects, key=lambda effect: -abs(effect.value))[:MOST_ROWS]
        return tuple(effect for effect in self.effects if effect in largest)

    @property
    def title(self) -> str:
        return style.fitted(f"Effects on “{self.response}”, with {self.level:.0%} intervals", 84)

    @property
    def height(self) -> float:
        return MARGIN + sum(self._heights)

    @property
    def _labels(self) -> list[str]:
        """The names of the rows, in lines that fit."""
        return ["\n".join(style.wrapped(effect.label, LETTERS, LINES)) for effect in self.shown]

    @property
    def _heights(self) -> list[float]:
        """Of the rows, in inches."""
        return [ROW + LINE * label.count("\n") for label in self._labels]

    def describe(self) -> str:
        """The chart in words."""
        rows = (
            f"{effect.label}: {to_within(effect.value, width)}, from {to_within(effect.low, width)} to "
            f"{to_within(effect.high, width)}"
            for effect in self.shown
            for width in [effect.high - effect.low]
        )
        return f"{'; '.join(rows)}. Filled markers: the whole interval is on one side of zero."

    def paint(self, figure: Figure) -> None:
        """One row each: the name at the left of its interval. Filled if the interval keeps clear of zero."""
        heights, height = self._heights, self.height
        axes = figure.add_axes((LABELS, 0.5 / height, 0.97 - LABELS, (sum(heights) + 0.06) / height))
        axes.set_ylim(sum(heights), -0.06)
        ends = [0.0, *(end for effect in self.shown for end in (effect.low, effect.high))]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.locator_params(axis="x", nbins=5)
        style.label(axes.xaxis, max(ends) - min(ends))
        middles = [end - own / 2 for end, own in zip(accumulate(heights), heights, strict=True)]
        axes.set_yticks(middles, self._labels, fontsize=style.TEXT)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0, pad=5)
        axes.axvline(0, color=style.GREY, linewidth=1.2)
        for middle, effect in zip(middles, self.shown, strict=True):
            axes.plot([effect.low, effect.high], [middle] * 2, color=style.BLUE, linewidth=2.4)
            axes.plot(
                effect.value,
                middle,
                "o",
                markersize=6.5,
                color=style.BLUE,
                markerfacecolor=style.BLUE if effect.sure else "white",
                markeredgewidth=1.6,
            )
        unit = style.fitted(self.response, 30)
        axes.set_xlabel(self.axis or f"Change of “{unit}”", labelpad=5)


@dataclass(frozen=True)
class Share:
    """The estimate and the ends of its interval; scale: from the least that can be to the most."""

    value: float
    low: float
    high: float
    level: float
    scale: tuple[float, float]
    believed: tuple[float, float]
    rating: bool
    response: str

    @property
    def title(self) -> str:
        what = "Mean rating" if self.rating else "Share of yes"
        return style.fitted(f"{what}, “{self.response}”, with its {self.level:.0%} interval", 84)

    @property
    def height(self) -> float:
        return 1.45

    def told(self, value: float) -> str:
        """In percent, or as a rating."""
        width = self.high - self.low
        return to_within(value, width) if self.rating else share(value, width)

    def describe(self) -> str:
        """The chart in words."""
        thought = " and ".join(self._plain(end) for end in self.believed)
        return (
            f"{self.told(self.value)}, from {self.told(self.low)} to {self.told(self.high)}, on a scale from "
            f"{self._plain(self.scale[0])} to {self._plain(self.scale[1])}. Beforehand between {thought} was thought "
            "possible for the average person, which is shaded."
        )

    def _plain(self, value: float) -> str:
        return f"{value:.4g}" if self.rating else f"{100 * value:.3g}%"

    def paint(self, figure: Figure) -> None:
        """One interval on the whole scale, its number above it."""
        height = self.height
        axes = figure.add_axes((0.06, 0.5 / height, 0.88, (height - 0.55) / height))
        (left, right), middle = self.scale, 0.38
        axes.set_xlim(left, right)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        places = [left + (right - left) * at / 4 for at in range(5)]
        if self.rating:
            places = [left + at for at in range(round(right - left) + 1)]
        axes.set_xticks(places, [self._plain(place) for place in places])
        axes.tick_params(length=0, pad=5)
        axes.axvspan(*self.believed, color=style.FAINT, linewidth=0, alpha=0.6)
        axes.plot([self.low, self.high], [middle] * 2, color=style.BLUE, linewidth=3.2)
        axes.plot(self.value, middle, "o", color=style.BLUE, markersize=7.5)
        part = (self.value - left) / (right - left)
        axes.annotate(
            self.told(self.value),
            (self.value, middle),
            xytext=(0, 9),
            textcoords="offset points",
            ha="left" if part < 0.05 else "right" if part > 0.95 else "center",
            fontweight="bold",
            annotation_clip=False,
        )
        what = "Mean rating" if self.rating else "Share of yes"
        axes.set_xlabel(f"{what}; shaded: thought possible beforehand", labelpad=5)


POINTS = 201
#: Where the words may stand.
PLACES = ((0.24, 0.9), (0.26, 0.8), (0.26, 0.7), (0.24, 0.6), (0.76, 0.3), (0.76, 0.2), (0.76, 0.1))
#: Beliefs beforehand that are told one by one.
BEFORE = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


@dataclass(frozen=True)
class Odds:
    """What ε-differential privacy allows: odds move by a factor between e^−ε and e^ε, whatever is known beforehand."""

    epsilon: float

    def after(self, before: float) -> tuple[float, float]:
        """The least and the most that somebody who was so sure can be afterwards."""
        doubt, factor = 1 - before, math.exp(-self.epsilon)
        return before * factor / (before * factor + doubt), before / (before + doubt * factor)

    def told(self, before: float) -> tuple[str, str]:
        """The same in words, rounded outwards."""
        least, most = self.after(before)
        return f"{math.floor(1000 * least + 1e-9) / 10:g}%", f"{math.ceil(1000 * most - 1e-9) / 10:g}%"

    @property
    def title(self) -> str:
        return "How sure anybody can become of an answer"

    @property
    def height(self) -> float:
        return 3.7

    def describe(self) -> str:
        """The chart in words."""
        return (
            "How sure somebody can be of an answer after seeing the release, against before. Who thought two answers "
            f"equally likely can tell them apart with odds of {odds(self.epsilon)} at best (ε = {self.epsilon:.4g}). "
            "On the diagonal nothing is learned; the band around it is all that can be."
        )

    def paint(self, figure: Figure) -> None:
        """The band of all that can be believed afterwards, about the diagonal where nothing is learned."""
        axes = figure.add_axes((0.14, 0.145, 0.81, 0.83))
        before = np.linspace(0, 1, POINTS)
        least, most = np.transpose([self.after(value) for value in before])
        axes.fill_between(before, least, most, color=style.BLUE, alpha=0.18, linewidth=0)
        for edge in (least, most):
            axes.plot(before, edge, color=style.BLUE, linewidth=2.4)
        axes.plot([0, 1], [0, 1], color=style.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        even = self.after(0.5)
        axes.plot([0.5, 0.5], even, color=style.INK, linewidth=1.2)
        axes.plot([0.5, 0.5], even, "o", color=style.INK, markersize=5)
        places = [0, 0.25, 0.5, 0.75, 1]
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_ticks(places, [f"{place:.0%}" for place in places])
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel("How sure somebody was of an answer before")
        axes.set_ylabel("How sure after seeing the release")
        labels = Labels(axes)
        for edge in (least, most, before):
            labels.avoid(before.tolist(), edge.tolist())
        # In the corner above the band, or inside where it is wide, or in short beside the point itself.
        most_sure, bold = self.told(0.5)[1], dict[str, Any](fontweight="bold", bbox=None)
        if not labels.put(f"from 50%\nto {most_sure} at most", PLACES, around=((0, 0),), **bold):
            labels.put(f"≤ {most_sure}", [(0.5, even[1])], distance=6, around=((1, -1),), **bold)

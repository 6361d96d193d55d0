"""Coefficients as a forest plot: what each does to the response, with its interval, beside no effect at all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from truthful.charts import house
from truthful.formatting import to_within

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
        return house.fitted(f"Effects on “{self.response}”, with {self.level:.0%} intervals", 84)

    @property
    def height(self) -> float:
        return MARGIN + sum(self._heights)

    @property
    def _labels(self) -> list[str]:
        """The names of the rows, in lines that fit."""
        return ["\n".join(house.wrapped(effect.label, LETTERS, LINES)) for effect in self.shown]

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
        house.label(axes.xaxis, max(ends) - min(ends))
        middles = [end - own / 2 for end, own in zip(accumulate(heights), heights, strict=True)]
        axes.set_yticks(middles, self._labels, fontsize=house.TEXT)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(length=0, pad=5)
        axes.axvline(0, color=house.GREY, linewidth=1.2)
        for middle, effect in zip(middles, self.shown, strict=True):
            axes.plot([effect.low, effect.high], [middle] * 2, color=house.BLUE, linewidth=2.4)
            axes.plot(
                effect.value,
                middle,
                "o",
                markersize=6.5,
                color=house.BLUE,
                markerfacecolor=house.BLUE if effect.sure else "white",
                markeredgewidth=1.6,
            )
        unit = house.fitted(self.response, 30)
        axes.set_xlabel(self.axis or f"Change of “{unit}”", labelpad=5)

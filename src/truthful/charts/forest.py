"""Coefficients as a forest plot: what each does to the response, with its interval, beside no effect at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truthful.charts import house
from truthful.charts.labels import CLEAR
from truthful.words import to_within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: More rows than a page holds are left to the table.
MOST_ROWS = 40
ROW, MARGIN = 0.42, 0.62
LONGEST_LABEL = 52


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
        return MARGIN + ROW * len(self.shown)

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
        """One row each: the name above its interval. Filled if the interval keeps clear of zero."""
        rows, height = len(self.shown), self.height
        axes = figure.add_axes((0.03, 0.5 / height, 0.94, (ROW * rows + 0.06) / height))
        axes.set_ylim(rows, -0.1)
        ends = [0.0, *(end for effect in self.shown for end in (effect.low, effect.high))]
        room = 0.04 * (max(ends) - min(ends)) or 1.0
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.locator_params(axis="x", nbins=6)
        house.label(axes.xaxis, max(ends) - min(ends))
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="x", length=0, pad=5)
        axes.axvline(0, color=house.GREY, linewidth=1.2)
        for row, effect in enumerate(self.shown):
            words = house.fitted(effect.label, LONGEST_LABEL)
            axes.annotate(words, (0, row + 0.3), xycoords=("axes fraction", "data"), va="center", bbox=CLEAR)
            axes.plot([effect.low, effect.high], [row + 0.74] * 2, color=house.BLUE, linewidth=2.4)
            axes.plot(
                effect.value,
                row + 0.74,
                "o",
                markersize=6.5,
                color=house.BLUE,
                markerfacecolor=house.BLUE if effect.sure else "white",
                markeredgewidth=1.6,
            )
        unit = house.fitted(self.response, 30)
        axes.set_xlabel(f"Change of “{unit}”", labelpad=5)

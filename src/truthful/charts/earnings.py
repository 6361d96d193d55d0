"""What people of each kind earned: what they were paid, and what their lies added to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truthful.charts import house
from truthful.charts.labels import CLEAR
from truthful.formatting import number
from truthful.simulation.found import Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Standard errors on either side of a mean that hold it 95 times in 100.
SURELY = 1.96
ROW, MARGIN = 0.5, 1.0
LONGEST_LABEL = 30


@dataclass(frozen=True)
class Earned:
    """A kind of people: what each was paid on average, and what that is over the truth's payment."""

    agent: str
    payment: Found
    gain: Found


@dataclass(frozen=True)
class Earnings:
    """All kinds of people who took part, each with means and their standard errors."""

    kinds: Sequence[Earned]
    currency: str

    @property
    def shown(self) -> list[Earned]:
        """The kinds of whom anybody took part."""
        return [one for one in self.kinds if math.isfinite(one.payment.value)]

    @property
    def title(self) -> str:
        return "What honest people and liars earned"

    @property
    def height(self) -> float:
        return MARGIN + ROW * len(self.shown)

    def describe(self) -> str:
        """The chart in words."""
        said = "; ".join(
            f"{one.agent}: paid {_told(one.payment)} each, {_told(one.gain)} over the truth"
            for one in self.shown
        )
        return f"Means in {self.currency} with 95% intervals. {said}."

    def paint(self, figure: Figure) -> None:
        """Two panels, a row for each kind: its name above its intervals."""
        wide, height = 0.43, self.height
        for left, name, words in ((0.04, "payment", "Paid each"), (0.54, "gain", "Lying earned")):
            place = (left, 0.5 / height, wide, ROW * len(self.shown) / height)
            axes = figure.add_axes(place)
            axes.set_title(f"{words}, {self.currency}", loc="left", fontsize=house.TEXT, pad=8)
            self._panel(axes, [getattr(one, name) for one in self.shown])
            if name == "gain":
                axes.axvline(0, color=house.GREY, linewidth=1.2)
                axes.set_xlabel("more than the truth would", labelpad=4)

    def _panel(self, axes: Axes, means: Sequence[Found]) -> None:
        spreads = [SURELY * one.error if math.isfinite(one.error) else 0.0 for one in means]
        ends = [one.value + sign * off for one, off in zip(means, spreads, strict=True) for sign in (-1, 1)]
        # Where all are the same, a thousandth of a payment is still a difference to look at.
        least = 1e-3 * max(abs(one.payment.value) for one in self.shown)
        room = max(0.08 * (max(ends) - min(ends)), least, 1e-9)
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.set_ylim(len(means), 0)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=3)
        house.label(axes.xaxis, max(ends) - min(ends) + 2 * room)
        axes.tick_params(axis="x", length=0, pad=5)
        for row, (kind, one, off) in enumerate(zip(self.shown, means, spreads, strict=True)):
            words = house.fitted(kind.agent, LONGEST_LABEL)
            axes.annotate(words, (0, row + 0.3), xycoords=("axes fraction", "data"), va="center", bbox=CLEAR)
            axes.plot([one.value - off, one.value + off], [row + 0.72] * 2, color=house.BLUE, linewidth=2.4)
            axes.plot(one.value, row + 0.72, "o", color=house.BLUE, markersize=6.5)


def _told(found: Found) -> str:
    # A spread of rounding errors is none.
    off = f" ± {number(SURELY * found.error, 2)}" if found.error > 1e-9 * abs(found.value) else ""
    return f"{number(found.value)}{off}"

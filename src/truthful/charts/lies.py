"""What lying earns: the expected payment of one person against how far her answer is from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.charts.labels import Labels
from truthful.formatting import money, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Where the words at D may stand, as shares of the height: the lowest where they are off the curve.
HEIGHTS = tuple(at / 50 for at in range(4, 46))


@dataclass(frozen=True)
class Lie:
    """A lie in raw units: how far the answer is off, how far that moves the own prediction, what is paid on average."""

    size: float
    moved: float
    payment: float


@dataclass(frozen=True)
class Lies:
    """Lies of one person from the truth (of size 0) on, the larger the later, and the size from which none pays.

    D: in units of predictions; None if no size is promised. threshold: the same in answers, as the guarantees have it;
    None if no lie of hers is so large, or if one of that size does not move her own prediction so far.
    """

    curve: tuple[Lie, ...]
    D: float | None
    threshold: float | None
    currency: str

    @property
    def truth(self) -> float:
        """What the truth earns."""
        return self.curve[0].payment

    def at(self, size: float) -> Lie:
        """A lie of this size, between two of the curve."""
        sizes = [lie.size for lie in self.curve]
        moved, payment = (
            float(np.interp(size, sizes, values))
            for values in ([lie.moved for lie in self.curve], [lie.payment for lie in self.curve])
        )
        return Lie(size, moved, payment)

    def may_pay(self, lie: Lie) -> bool:
        """Whether nothing is promised of this lie: of a size below the threshold or, where there is none, below D."""
        if self.threshold is not None:
            return not lie.size > self.threshold
        return self.D is None or not lie.moved > self.D

    @property
    def title(self) -> str:
        return "What a lie would have earned"

    @property
    def height(self) -> float:
        return 3.5

    def describe(self) -> str:
        """The chart in words."""
        worst = self.curve[-1]
        said = (
            f"The truth earns {money(self.truth, self.currency)} on average; an answer that is off by "
            f"{number(worst.size)} earns {money(worst.payment, self.currency)}, and the curve falls in between."
        )
        if self.threshold is None:
            return said
        return f"{said} From {number(self.threshold)} on, marked D, no lie pays."

    def paint(self, figure: Figure) -> None:
        """The curve, the truth's payment as a level, and a shade over the lies that are too small to be promised."""
        axes = figure.add_axes((0.165, 0.15, 0.8, 0.76))
        sizes, payments = [lie.size for lie in self.curve], [lie.payment for lie in self.curve]
        least, room = min(payments), (self.truth - min(payments)) or max(abs(self.truth), 1e-6)
        axes.set_xlim(0, sizes[-1])
        axes.set_ylim(least - 0.08 * room, self.truth + 0.22 * room)
        axes.axhline(self.truth, color=house.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        axes.plot(sizes, payments, color=house.BLUE, linewidth=2.4)
        axes.annotate(
            f"the truth earns {money(self.truth, self.currency)}",
            (0, self.truth),
            xytext=(5, 5),
            textcoords="offset points",
        )
        if self.threshold is not None:
            self._mark(axes, self.threshold)
        axes.locator_params(nbins=5)
        house.label(axes.xaxis, sizes[-1])
        house.label(axes.yaxis, room)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel("How far the answer is from the truth")
        axes.set_title(f"Expected payment, {self.currency}", loc="left", fontsize=house.TEXT, pad=8)

    def _mark(self, axes: Axes, threshold: float) -> None:
        axes.axvspan(0, threshold, color=house.FAINT, linewidth=0, alpha=0.6)
        axes.axvline(threshold, color=house.ORANGE, linewidth=2)
        labels = Labels(axes)
        labels.avoid([lie.size for lie in self.curve], [lie.payment for lie in self.curve])
        labels.avoid((0, self.curve[-1].size), (self.truth, self.truth))
        low, high = axes.get_ylim()
        places = [(threshold, low + at * (high - low)) for at in HEIGHTS]
        sides = ((1, 0), (-1, 0)) if threshold <= self.curve[-1].size / 2 else ((-1, 0), (1, 0))
        for words in ("D: no larger lie pays", "D: no lie\nlarger pays"):
            if labels.put(words, places, around=sides, fontweight="bold", bbox=None):
                return
        # Nowhere beside the line is there room for words.
        labels.put("D", places, around=sides, fontweight="bold", bbox=None)

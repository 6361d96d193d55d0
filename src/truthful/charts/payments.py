"""The distribution of payments as a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.check import Floats
from truthful.words import money

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20
#: The shares of people of whom the table tells what they get at most.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Payments:
    """Payments in currency, of however many people; what they are of is for the title to say."""

    payments: Floats
    currency: str
    title: str

    @cached_property
    def quantiles(self) -> Sequence[tuple[float, float]]:
        """(share of people, what they get at most)."""
        return list(zip(SHARES, np.quantile(self.payments, SHARES).tolist(), strict=True))

    @property
    def height(self) -> float:
        return 3.2

    def describe(self) -> str:
        """The chart in words."""
        said = (f"{share:.0%} get {money(paid, self.currency)} or less" for share, paid in self.quantiles)
        return f"A histogram: {', '.join(said)}."

    def paint(self, figure: Figure) -> None:
        """Bars of the share of people, and the median."""
        axes = figure.add_axes((0.13, 0.165, 0.84, 0.72))
        low, high = float(self.payments.min()), float(self.payments.max())
        if not high > low:  # all the same: one bar in the middle
            low, high = low - 0.01 * max(low, 0.01), high + 0.01 * max(high, 0.01)
        counts, edges = np.histogram(self.payments, BINS, (low, high))
        shares = counts / len(self.payments)
        axes.bar(
            edges[:-1],
            shares,
            np.diff(edges),
            align="edge",
            color=house.BLUE,
            edgecolor="white",
            linewidth=0.8,
        )
        median = dict(self.quantiles)[0.5]
        axes.axvline(median, color=house.ORANGE, linewidth=2)
        axes.set_ylim(0, 1.2 * shares.max())
        right = median > (low + high) / 2
        axes.annotate(
            f"half get {money(median, self.currency)} or less",
            (median, 0.98),
            xycoords=("data", "axes fraction"),
            xytext=(-6 if right else 6, 0),
            textcoords="offset points",
            ha="right" if right else "left",
            va="top",
            fontweight="bold",
        )
        axes.locator_params(axis="x", nbins=7)
        axes.locator_params(axis="y", nbins=5)
        house.label(axes.xaxis, high - low)
        axes.yaxis.set_major_formatter(lambda share, place: f"{100 * share:g}%")
        axes.tick_params(length=0, pad=5)
        axes.grid(False, axis="x")
        axes.set_xlabel(f"Payment, {self.currency}")
        axes.set_title("Share of people", loc="left", fontsize=house.TEXT, pad=8)

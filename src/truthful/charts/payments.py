"""The distribution of payments as a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.charts.bars import across, bars
from truthful.check import Floats
from truthful.formatting import money

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        ends, median = bars(axes, self.payments), dict(self.quantiles)[0.5]
        across(axes, median, f"half get {money(median, self.currency)} or less", ends)
        axes.set_xlabel(f"Payment, {self.currency}")
        axes.set_title("Share of people", loc="left", fontsize=house.TEXT, pad=8)

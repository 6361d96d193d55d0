"""How far whole studies were off, as a histogram, beside what is guaranteed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.charts.bars import bars
from truthful.check import Floats
from truthful.formatting import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The shares of studies of which the table tells how far off they are at most.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Errors:
    """The error of every study, in raw units, and the guaranteed root of its mean square; None if there is none."""

    errors: Floats
    guaranteed: float | None
    response: str
    what: str = "coefficients"

    @property
    def title(self) -> str:
        return "How far studies were off"

    @property
    def height(self) -> float:
        return 3.2

    @property
    def quantiles(self) -> Sequence[tuple[float, float]]:
        """(share of studies, how far off they are at most)."""
        return list(zip(SHARES, np.quantile(self.errors, SHARES).tolist(), strict=True))

    @property
    def observed(self) -> float:
        """Root mean square."""
        return float(np.sqrt(np.mean(self.errors**2)))

    def describe(self) -> str:
        """The chart in words."""
        said = ", ".join(f"{share:.0%} are off by {number(error)} or less" for share, error in self.quantiles)
        promised = (
            "" if self.guaranteed is None else f", and guaranteed to be at most {number(self.guaranteed)}"
        )
        mean = number(self.observed)
        return f"A histogram of the studies' errors: {said}. Their root mean square is {mean}{promised}."

    def paint(self, figure: Figure) -> None:
        """Bars of the share of studies, and their root mean square, as it is and as it is guaranteed."""
        axes = figure.add_axes((0.15, 0.155, 0.82, 0.67))
        bars(axes, self.errors, also=self.guaranteed)
        seen = f"root mean square: {number(self.observed)}"
        axes.axvline(self.observed, color=house.INK, linewidth=2, linestyle=(0, (1, 1.5)), label=seen)
        if self.guaranteed is not None:
            promised = f"guaranteed to be at most {number(self.guaranteed)}"
            axes.axvline(self.guaranteed, color=house.ORANGE, linewidth=2, label=promised)
        house.legend(axes)
        axes.set_xlabel(f"Error of the {self.what}, in units of “{house.fitted(self.response, 30)}”")
        axes.set_ylabel("Share of studies")

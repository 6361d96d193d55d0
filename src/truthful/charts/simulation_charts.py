"""Charts of simulations: errors of whole studies, people's earnings, and best reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import drawing
from truthful.charts.drawing import BLUE, CLEAR, GREY, INK, ORANGE
from truthful.check import Floats
from truthful.formatting import number
from truthful.simulation.best_responses import TriedReports
from truthful.simulation.measurements import Earnings, Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The shares of studies of which the table tells how far off they are at most.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True, eq=False)
class Errors:
    """The error of every study, in raw units, and the guaranteed root mean square; None if none is guaranteed."""

    errors: Floats
    guaranteed: float | None
    response: str
    what: str = "coefficients"

    title = "How far studies were off"
    height = 3.2

    @property
    def quantiles(self) -> Sequence[tuple[float, float]]:
        """(share of studies, their largest error)."""
        return list(zip(SHARES, np.quantile(self.errors, SHARES).tolist(), strict=True))

    @property
    def observed(self) -> float:
        """The observed root mean square."""
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
        """Bars of the share of studies, and the root mean square, observed and guaranteed."""
        seen: Any = {"color": INK, "linestyle": (0, (1, 1.5))}
        marks = [(self.observed, f"root mean square: {number(self.observed)}", seen)]
        if self.guaranteed is not None:
            promised = f"guaranteed to be at most {number(self.guaranteed)}"
            marks.append((self.guaranteed, promised, {"color": ORANGE}))
        axis = f"Error of the {self.what}, in units of “{drawing.shorten(self.response, 30)}”"
        drawing.draw_histogram(figure, self.errors, marks, axis, "studies")


#: Standard errors on either side of a mean that hold it 95 times in 100.
SURELY = 1.96
ROW, MARGIN = 0.5, 1.0
LONGEST_LABEL = 30


@dataclass(frozen=True)
class EarningsChart:
    """The earnings of each kind of people: means and standard errors."""

    kinds: Sequence[Earnings]
    currency: str

    @property
    def rows(self) -> list[Earnings]:
        """The kinds of whom somebody took part."""
        return [kind for kind in self.kinds if math.isfinite(kind.payment.value)]

    title = "What honest people and liars earned"

    @property
    def height(self) -> float:
        return MARGIN + ROW * len(self.rows)

    def describe(self) -> str:
        """The chart in words."""
        said = "; ".join(
            f"{row.agent}: paid {_describe(row.payment)} each, {_describe(row.gain)} over the truth"
            for row in self.rows
        )
        return f"Means in {self.currency} with 95% intervals. {said}."

    def paint(self, figure: Figure) -> None:
        """Two panels, a row for each kind: its name above its intervals."""
        wide, height = 0.43, self.height
        for left, name, words in ((0.04, "payment", "Paid each"), (0.54, "gain", "Lying earned")):
            place = (left, 0.5 / height, wide, ROW * len(self.rows) / height)
            axes = figure.add_axes(place)
            axes.set_title(f"{words}, {self.currency}")
            self._panel(axes, [getattr(row, name) for row in self.rows])
            if name == "gain":
                axes.axvline(0, color=GREY, linewidth=1.2)
                axes.set_xlabel("more than the truth would", labelpad=4)

    def _panel(self, axes: Axes, means: Sequence[Measurement]) -> None:
        spreads = [SURELY * mean.error if math.isfinite(mean.error) else 0.0 for mean in means]
        ends = [mean.value + sign * off for mean, off in zip(means, spreads, strict=True) for sign in (-1, 1)]
        # Where all are the same, a thousandth of a payment is still a difference to look at.
        least = 1e-3 * max(abs(row.payment.value) for row in self.rows)
        room = max(0.08 * (max(ends) - min(ends)), least, 1e-9)
        axes.set_xlim(min(ends) - room, max(ends) + room)
        axes.set_ylim(len(means), 0)
        axes.set_yticks([])
        drawing.hide_left(axes)
        axes.locator_params(axis="x", nbins=3)
        drawing.label_ticks(axes.xaxis, max(ends) - min(ends) + 2 * room)
        for row, (kind, mean, off) in enumerate(zip(self.rows, means, spreads, strict=True)):
            words = drawing.shorten(kind.agent, LONGEST_LABEL)
            axes.annotate(words, (0, row + 0.3), xycoords=("axes fraction", "data"), va="center", bbox=CLEAR)
            axes.plot([mean.value - off, mean.value + off], [row + 0.72] * 2, color=BLUE, linewidth=2.4)
            axes.plot(mean.value, row + 0.72, "o", color=BLUE, markersize=6.5)


def _describe(found: Measurement) -> str:
    # A spread of rounding errors is none.
    off = f" ± {number(SURELY * found.error, 2)}" if found.error > 1e-9 * abs(found.value) else ""
    return f"{number(found.value)}{off}"


OURS, PAPERS, TRUTH = "pays most here", "pays most under the paper's rule", "the truth"
BAND = "guaranteed here: no lie outside it pays (D)"


@dataclass(frozen=True)
class BestReports:
    """The best reports of one person, for all her possible true answers."""

    reports: TriedReports
    response: str

    title = "The report that pays most"
    height = 5.0

    @property
    def furthest(self) -> tuple[float, float]:
        """The largest distance of the best report from the truth: here, and under the paper's rule."""
        found = self.reports
        ours, papers = (float(np.abs(best - found.truth).max()) for best in (found.ours, found.papers))
        return ours, papers

    def describe(self) -> str:
        """The chart in words."""
        ours, papers = self.furthest
        low, high = (number(float(end)) for end in self.reports.truth[[0, -1]])
        here = "is the truth" if ours == 0 else f"is at most {number(ours)} from the truth"
        return (
            f"The report that pays a typical person most, for every true answer from {low} to {high}. Here it {here}: "
            f"the line lies on the diagonal. Under the paper's rule it is up to {number(papers)} away from the truth."
        )

    def paint(self, figure: Figure) -> None:
        """Both lines, and the diagonal on which ours should lie. Their names are above, in the order of the lines."""
        found, height = self.reports, self.height
        axes = figure.add_axes((0.15, 0.5 / height, 0.82, (height - 1.5) / height))
        if found.within is not None:
            axes.fill_between(found.truth, *found.within, color=BLUE, alpha=0.14, linewidth=0, label=BAND)
        axes.plot(found.truth, found.ours, color=BLUE, linewidth=5, label=OURS, solid_capstyle="butt")
        axes.plot(
            found.truth, found.papers, color=ORANGE, linewidth=2.4, linestyle=drawing.DASHED, label=PAPERS
        )
        ends = found.truth[[0, -1]]
        axes.plot(ends, ends, color=INK, linewidth=1.2, linestyle=drawing.DOTTED, label=TRUTH)
        room = 0.02 * float(ends[1] - ends[0])
        for set_limits in (axes.set_xlim, axes.set_ylim):
            set_limits(float(ends[0]) - room, float(ends[1]) + room)
        axes.locator_params(nbins=6)
        for axis in (axes.xaxis, axes.yaxis):
            drawing.label_ticks(axis, float(ends[1] - ends[0]))
        name = drawing.shorten(self.response, 30)
        axes.set_xlabel(f"True answer, “{name}”")
        axes.set_ylabel("Report")
        drawing.legend(axes, reverse=True)

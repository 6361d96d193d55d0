"""Where honesty pays: the report that pays most against the true answer, under a plan and under the paper's rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.formatting import number
from truthful.simulation.responses import Reports

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS, PAPERS, TRUTH = "pays most here", "pays most under the paper's rule", "the truth"
BAND = "guaranteed here: no lie outside it pays (D)"


@dataclass(frozen=True)
class BestReports:
    """The best reports of one person, for all answers to a question that she can have."""

    reports: Reports
    response: str

    @property
    def title(self) -> str:
        return "The report that pays most"

    @property
    def height(self) -> float:
        return 5.0

    @property
    def furthest(self) -> tuple[float, float]:
        """How far from the truth the best report can be: here, and under the paper's rule."""
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
        """Both lines, and the diagonal on which ours should lie. Their names stand above, in the order of the lines."""
        found, height = self.reports, self.height
        axes = figure.add_axes((0.15, 0.5 / height, 0.82, (height - 1.5) / height))
        if found.within is not None:
            axes.fill_between(
                found.truth, *found.within, color=house.BLUE, alpha=0.14, linewidth=0, label=BAND
            )
        axes.plot(found.truth, found.ours, color=house.BLUE, linewidth=5, label=OURS, solid_capstyle="butt")
        axes.plot(
            found.truth, found.papers, color=house.ORANGE, linewidth=2.4, linestyle=(0, (5, 2)), label=PAPERS
        )
        ends = found.truth[[0, -1]]
        axes.plot(ends, ends, color=house.INK, linewidth=1.2, linestyle=(0, (1, 2)), label=TRUTH)
        room = 0.02 * float(ends[1] - ends[0])
        for set_limits in (axes.set_xlim, axes.set_ylim):
            set_limits(float(ends[0]) - room, float(ends[1]) + room)
        axes.locator_params(nbins=6)
        for axis in (axes.xaxis, axes.yaxis):
            house.label(axis, float(ends[1] - ends[0]))
        axes.tick_params(length=0, pad=5)
        name = house.fitted(self.response, 30)
        axes.set_xlabel(f"True answer, “{name}”")
        axes.set_ylabel("Report")
        house.legend(axes, reverse=True)

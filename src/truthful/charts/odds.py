"""Privacy as odds: how far the release can move what somebody believed of an answer beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import house
from truthful.charts.labels import Labels
from truthful.formatting import odds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        axes.fill_between(before, least, most, color=house.BLUE, alpha=0.18, linewidth=0)
        for edge in (least, most):
            axes.plot(before, edge, color=house.BLUE, linewidth=2.4)
        axes.plot([0, 1], [0, 1], color=house.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        even = self.after(0.5)
        axes.plot([0.5, 0.5], even, color=house.INK, linewidth=1.2)
        axes.plot([0.5, 0.5], even, "o", color=house.INK, markersize=5)
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
        most_sure, style = self.told(0.5)[1], dict[str, Any](fontweight="bold", bbox=None)
        if not labels.put(f"from 50%\nto {most_sure} at most", PLACES, around=((0, 0),), **style):
            labels.put(f"≤ {most_sure}", [(0.5, even[1])], distance=6, around=((1, -1),), **style)

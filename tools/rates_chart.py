"""The picture docs/rates.svg: error, lies that can pay and cost as studies grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from truthful.charts import drawing
from truthful.charts.drawing import BLUE, ORANGE
from truthful.charts.simulation_charts import SURELY
from truthful.formatting import number
from truthful.simulation.measurements import Measurement
from truthful.simulation.simulation import Point, RateCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"published": "the paper's", "proved": "ours"}
#: Told apart by marker and dashes as well as by colour.
LOOKS: dict[str, Any] = {
    "published": {"color": ORANGE, "marker": "s", "linestyle": drawing.DASHED, "markerfacecolor": "white"},
    "proved": {"color": BLUE, "marker": "o", "linestyle": "-"},
}
#: What is shown of every point, its name, and whether its power of n is a theorem's or that of a limit.
PANELS = (
    ("error", "Mean squared error of the coefficients, simulated", "theorem"),
    ("lie", "Largest lie that can pay, D, computed", "in the limit"),
    ("budget", "Cost of all payments, simulated", "theorem"),
)
#: In inches: of a panel, the words above it, and all the rest.
PANEL, WORDS, FOOT = 1.4, 0.82, 0.5


@dataclass(frozen=True)
class RatesChart:
    """Schedules of parameters, each with what was seen at every number of players."""

    curves: Sequence[RateCurve]

    title = "As a study grows: error, lies that can pay, and cost"

    @property
    def height(self) -> float:
        return len(PANELS) * (PANEL + WORDS) + FOOT

    def describe(self) -> str:
        """The chart in words."""
        first, last = (self.curves[0].points[place].players for place in (0, -1))
        said = [f"Three panels, from {first:,} to {last:,} players, all on logarithmic scales."]
        for name, words, _ in PANELS:
            parts = []
            for curve in self.curves:
                start, end = (_measurement_at(curve.points[place], name).value for place in (0, -1))
                parts.append(f"{powers(curve, name)}, from {number(start)} to {number(end)}")
            said.append(f"{words}: {'; '.join(parts)}.")
        return " ".join(said)

    def paint(self, figure: Figure) -> None:
        """A panel each, one above the other, so that the players' scale is the same."""
        for row, (name, words, _) in enumerate(PANELS):
            top = self.height - row * (PANEL + WORDS) - WORDS
            axes = figure.add_axes((0.13, (top - PANEL) / self.height, 0.82, PANEL / self.height))
            self._panel(axes, name, words)
            axes.tick_params(axis="x", labelbottom=row == len(PANELS) - 1)
        axes.set_xlabel("Players", labelpad=4)

    def _panel(self, axes: Axes, name: str, words: str) -> None:
        axes.set_xscale("log")
        axes.set_yscale("log")
        for curve in self.curves:
            found = [_measurement_at(point, name) for point in curve.points]
            axes.errorbar(
                [point.players for point in curve.points],
                [one.value for one in found],
                yerr=[SURELY * one.error for one in found],
                label=powers(curve, name),
                linewidth=1.8,
                markersize=5,
                capsize=3,
                **LOOKS[curve.schedule],
            )
        drawing.label_logarithms(axes)
        drawing.legend(axes)
        place: Any = {"xycoords": "axes fraction", "xytext": (0, 38), "textcoords": "offset points"}
        axes.annotate(words, (0, 1), fontweight="bold", **place)


def powers(curve: RateCurve, name: str) -> str:
    """A schedule with the power of n that fits what was seen, next to its theorem's."""
    fitted, stated = (power(getattr(of, name)) for of in (curve.fitted, curve.theorem))
    kind = next(kind for panel, _, kind in PANELS if panel == name)
    return f"{NAMES[curve.schedule]}: fitted {fitted}, {kind} {stated}"


def power(exponent: float) -> str:
    """A power of n, to two decimals, with its sign."""
    # The addend rounds halves up in size: 0.125 is written 0.13.
    return f"n^{exponent + math.copysign(1e-9, exponent):+.2f}".replace("-", "−")


def _measurement_at(point: Point, name: str) -> Measurement:
    """A mean and its error; what is computed has none."""
    value = getattr(point, name)
    return value if isinstance(value, Measurement) else Measurement(value, 0.0)

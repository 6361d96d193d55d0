"""What people answered and predicted on average, with intervals, on the whole scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truthful.charts import style
from truthful.charts.estimates import Effect
from truthful.formatting import number, to_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: In inches: a row, and what stands below the rows.
ROW, BELOW = 0.42, 0.55
#: The share of the width that labels have.
LABELS = 0.2


@dataclass(frozen=True)
class Averages:
    """Averages with their intervals, and what was expected beforehand where that can be told.

    scale: from the least that can be to the most. plausible: what was declared so, if anything was.
    """

    rows: tuple[Effect, ...]
    centre: float | None
    level: float
    scale: tuple[float, float]
    plausible: tuple[float, float] | None
    response: str

    @property
    def title(self) -> str:
        return style.fitted(
            f"Answers and predictions, “{self.response}”, with {self.level:.0%} intervals", 84
        )

    @property
    def height(self) -> float:
        return BELOW + ROW * len(self._labels) + 0.05

    @property
    def _labels(self) -> list[str]:
        return [row.label for row in self.rows] + ([] if self.centre is None else ["expected"])

    def describe(self) -> str:
        """The chart in words."""
        said = "; ".join(
            f"{row.label}: {to_within(row.value, width)}, from {to_within(row.low, width)} to "
            f"{to_within(row.high, width)}"
            for row in self.rows
            for width in [row.high - row.low]
        )
        expected = "" if self.centre is None else f" Expected beforehand: {number(self.centre)}."
        thought = ""
        if self.plausible is not None:
            low, high = (number(end) for end in self.plausible)
            thought = f" Between {low} and {high}, which is shaded, was thought possible."
        return f"{said}.{expected}{thought}"

    def paint(self, figure: Figure) -> None:
        """A row each, the last for what was expected, its number at the right of its interval."""
        labels, height = self._labels, self.height
        axes = figure.add_axes((LABELS, 0.5 / height, 0.95 - LABELS, ROW * len(labels) / height))
        axes.set_xlim(*self.scale)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.set_yticks(range(len(labels)), labels, fontsize=style.TEXT)
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}".replace("-", "−"))
        axes.tick_params(length=0, pad=5)
        if self.plausible is not None:
            axes.axvspan(*self.plausible, color=style.FAINT, linewidth=0, alpha=0.6)
        for place, row in enumerate(self.rows):
            axes.plot([row.low, row.high], [place] * 2, color=style.BLUE, linewidth=3.2)
            self._dot(axes, row.value, place, row.high, to_within(row.value, row.high - row.low), style.BLUE)
        if self.centre is not None:
            self._dot(axes, self.centre, len(self.rows), self.centre, number(self.centre), style.ORANGE)
        shaded = "" if self.plausible is None else "; shaded: thought possible beforehand"
        axes.set_xlabel(f"{style.fitted(self.response, 30)}{shaded}", labelpad=5)

    def _dot(self, axes: Axes, value: float, place: int, end: float, told: str, colour: str) -> None:
        axes.plot(value, place, "o", color=colour, markersize=7.5)
        low, high = self.scale
        right = end < low + 0.85 * (high - low)
        axes.annotate(
            told,
            (min(max(end, value), high) if right else value, place),
            xytext=(9, 0) if right else (-9, 7),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontweight="bold",
            annotation_clip=False,
        )

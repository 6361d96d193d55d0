"""A share, or a mean rating, with its interval on its whole scale, beside what was thought possible beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from truthful.charts import house
from truthful.formatting import share, to_within

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Share:
    """The estimate and the ends of its interval; scale: from the least that can be to the most."""

    value: float
    low: float
    high: float
    level: float
    scale: tuple[float, float]
    believed: tuple[float, float]
    rating: bool
    response: str

    @property
    def title(self) -> str:
        what = "Mean rating" if self.rating else "Share of yes"
        return house.fitted(f"{what}, “{self.response}”, with its {self.level:.0%} interval", 84)

    @property
    def height(self) -> float:
        return 1.45

    def told(self, value: float) -> str:
        """In percent, or as a rating."""
        width = self.high - self.low
        return to_within(value, width) if self.rating else share(value, width)

    def describe(self) -> str:
        """The chart in words."""
        thought = " and ".join(self._plain(end) for end in self.believed)
        return (
            f"{self.told(self.value)}, from {self.told(self.low)} to {self.told(self.high)}, on a scale from "
            f"{self._plain(self.scale[0])} to {self._plain(self.scale[1])}. Beforehand between {thought} was thought "
            "possible for the average person, which is shaded."
        )

    def _plain(self, value: float) -> str:
        return f"{value:.4g}" if self.rating else f"{100 * value:.3g}%"

    def paint(self, figure: Figure) -> None:
        """One interval on the whole scale, its number above it."""
        height = self.height
        axes = figure.add_axes((0.06, 0.5 / height, 0.88, (height - 0.55) / height))
        (left, right), middle = self.scale, 0.38
        axes.set_xlim(left, right)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        places = [left + (right - left) * at / 4 for at in range(5)]
        if self.rating:
            places = [left + at for at in range(round(right - left) + 1)]
        axes.set_xticks(places, [self._plain(place) for place in places])
        axes.tick_params(length=0, pad=5)
        axes.axvspan(*self.believed, color=house.FAINT, linewidth=0, alpha=0.6)
        axes.plot([self.low, self.high], [middle] * 2, color=house.BLUE, linewidth=3.2)
        axes.plot(self.value, middle, "o", color=house.BLUE, markersize=7.5)
        part = (self.value - left) / (right - left)
        axes.annotate(
            self.told(self.value),
            (self.value, middle),
            xytext=(0, 9),
            textcoords="offset points",
            ha="left" if part < 0.05 else "right" if part > 0.95 else "center",
            fontweight="bold",
            annotation_clip=False,
        )
        what = "Mean rating" if self.rating else "Share of yes"
        axes.set_xlabel(f"{what}; shaded: thought possible beforehand", labelpad=5)

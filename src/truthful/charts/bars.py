"""A histogram's bars, and a line across them with words beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.check import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20


def bars(axes: Axes, values: Floats, also: float | None = None) -> tuple[float, float]:
    """Bars of the share of all values, with room above for words; the ends of the axis, so far that `also` shows."""
    low, high = float(values.min()), float(values.max())
    if not high > low:  # all the same: one bar in the middle
        room = 0.01 * max(abs(low), 0.01)
        low, high = low - room, high + room
    counts, edges = np.histogram(values, BINS, (low, high))
    shares = counts / len(values)
    axes.bar(
        edges[:-1],
        shares,
        np.diff(edges),
        align="edge",
        color=house.BLUE,
        edgecolor="white",
        linewidth=0.8,
    )
    axes.set_ylim(0, 1.2 * shares.max())
    if also is not None and not low <= also <= high:
        low, high = min(low, also), max(high, also)
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.locator_params(axis="x", nbins=7)
    axes.locator_params(axis="y", nbins=5)
    house.label(axes.xaxis, high - low)
    axes.yaxis.set_major_formatter(lambda share, place: f"{100 * share:g}%")
    axes.tick_params(length=0, pad=5)
    axes.grid(False, axis="x")
    return low, high


def across(axes: Axes, place: float, words: str, ends: tuple[float, float]) -> None:
    """A line at a place between the ends, its words on the side where there is more room."""
    axes.axvline(place, color=house.ORANGE, linewidth=2)
    right = place > sum(ends) / 2
    axes.annotate(
        words,
        (place, 0.98),
        xycoords=("data", "axes fraction"),
        xytext=(-6 if right else 6, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="top",
        fontweight="bold",
    )

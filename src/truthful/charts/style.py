"""How all charts look and how they are written: the same bytes each time, labels that cover nothing, words for all."""

from __future__ import annotations

import html
import io
import math
import textwrap
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.files import write_atomically
from truthful.formatting import to_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

SUFFIXES = (".svg", ".png")
#: In inches; 900 pixels wide in a browser.
WIDTH, HEIGHT = 9.375, 6.0
PNG_DPI = 192
#: Of Okabe and Ito, apart for all kinds of colour vision; they also differ in lightness.
BLUE, ORANGE = "#0072B2", "#D55E00"
INK, GREY, FAINT = "#222222", "#666666", "#E6E6E6"
TITLE, TEXT, SMALL = 13.0, 10.0, 9.0
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": TEXT,
    "text.color": INK,
    # Names from a study are words: a dollar sign in them starts no formula.
    "text.parse_math": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",
    "svg.hashsalt": "truthful",
}
MOST_TICKS = 8
SMALLEST = 1e-5
#: Bars of a histogram.
BINS = 20
#: Pixels that a label keeps from others, between the points at which a line is felt, and around a marker's centre.
GAP, STEP, MARKER = 3.0, 3.0, 6.0
#: Where a label may stand, seen from what it names: (right, up), each −1, 0 or 1.
AROUND = ((1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
CLEAR = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


def check_suffix(path: Path) -> None:
    """Refuse what cannot be written, before anything is computed."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"A chart cannot be written to {str(path)!r}: name a file that ends in {' or '.join(SUFFIXES)}."
        )


#: The style and the warnings are the whole process's while a chart is drawn: threads take turns.
_DRAWING = threading.RLock()


@contextmanager
def canvas(width: float = WIDTH, height: float = HEIGHT) -> Iterator[Figure]:
    """An empty figure in the house style, and nothing of matplotlib's global state changed afterwards."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _DRAWING, matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Letters that this font does not have are drawn by whoever shows the chart; only their width is a guess.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
        FigureCanvasAgg(figure)
        yield figure


def write(figure: Figure, path: Path, title: str, description: str) -> None:
    """The figure as a whole file. Its title and description are read out by screen readers (SVG), or found (PNG)."""
    check_suffix(path)
    if path.suffix.lower() == ".png":
        drawn, metadata = io.BytesIO(), {"Title": title, "Description": description, "Software": None}
        figure.savefig(drawn, format="png", dpi=PNG_DPI, metadata=metadata)
        content = drawn.getvalue()
    else:
        content = svg(figure, title, description).encode()
    try:
        write_atomically(path, content)
    except OSError as problem:
        raise InputError(
            f"The chart cannot be written to {str(path)!r}: {problem.strerror}. Name a file in a directory that exists."
        ) from None


def svg(figure: Figure, title: str, description: str) -> str:
    """The figure as the text of an SVG file."""
    drawn = io.BytesIO()
    metadata = {"Title": title, "Description": description, "Date": None, "Creator": None}
    figure.savefig(drawn, format="svg", metadata=metadata)
    return _described(drawn.getvalue().decode(), title, description)


def _described(drawn: str, title: str, description: str) -> str:
    """The SVG as one image whose title and description are announced."""
    words = f'<title id="title">{html.escape(title, quote=False)}</title>'
    words += f'\n <desc id="description">{html.escape(description, quote=False)}</desc>'
    start = drawn.index("<title>")
    drawn = drawn[:start] + words + drawn[drawn.index("</title>", start) + len("</title>") :]
    return drawn.replace("<svg ", '<svg role="img" aria-labelledby="title description" ', 1)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high on a logarithmic axis: 1, 2, 5 of each decade, or less where those are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps, every in (((1, 2, 3, 5, 7), 1), ((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
        found = [
            step * 10.0**decade
            for decade in decades
            for step in steps
            if decade % every == 0 and low <= step * 10.0**decade <= high
        ]
        if len(found) <= MOST_TICKS:
            break
    return found


def label(axis: Axis, width: float) -> None:
    """Plain digits at the ticks, as many as a range of this width needs, never an offset or a power of ten."""
    axis.set_major_formatter(lambda value, place: to_within(value, width).replace("-", "−"))


def legend(axes: Axes, reverse: bool = False) -> None:
    """The names of all that is drawn, in lines above the axes, where they cover nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        frameon=False,
        borderaxespad=0.2,
        labelspacing=0.3,
        handlelength=2.8,
        reverse=reverse,
    )


def plain(value: float) -> str:
    """A round number in plain digits, millions in words, and tiny ones as powers of ten."""
    if value < SMALLEST:
        return f"{value:.0e}".replace("e-0", "e-")
    for unit, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= unit:
            return f"{value / unit:,g} {word}"
    decimals = max(0, -math.floor(math.log10(value) + 1e-9))
    return f"{value:,.{decimals}f}"


def fitted(text: str, most: int) -> str:
    """A name in one line of at most so many letters, also if it is one long word."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def wrapped(text: str, letters: int, most: int) -> list[str]:
    """A name in lines of at most so many letters, and so many lines; what is left over is cut, and seen to be."""
    lines = textwrap.wrap(" ".join(text.split()), letters) or [""]
    return [*lines[: most - 1], fitted(" ".join(lines[most - 1 :]), letters)] if len(lines) > most else lines


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
        color=BLUE,
        edgecolor="white",
        linewidth=0.8,
    )
    axes.set_ylim(0, 1.2 * shares.max())
    if also is not None and not low <= also <= high:
        low, high = min(low, also), max(high, also)
        axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.locator_params(axis="x", nbins=7)
    axes.locator_params(axis="y", nbins=5)
    label(axes.xaxis, high - low)
    axes.yaxis.set_major_formatter(lambda share, place: f"{100 * share:g}%")
    axes.tick_params(length=0, pad=5)
    axes.grid(False, axis="x")
    return low, high


def across(axes: Axes, place: float, words: str, ends: tuple[float, float]) -> None:
    """A line at a place between the ends, its words on the side where there is more room."""
    axes.axvline(place, color=ORANGE, linewidth=2)
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


class Labels:
    """The labels of one pair of axes, whose limits and size are final."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes
        self._taken: list[Bbox] = []
        self._lines: list[Floats] = []

    def avoid(self, x: Sequence[float], y: Sequence[float]) -> None:
        """Keep labels off this line."""
        corners = self._axes.transData.transform(np.column_stack([x, y]))
        for start, end in pairwise(corners):
            steps = max(2, int(np.hypot(*(end - start)) / STEP))
            self._lines.append(start + np.linspace(0, 1, steps)[:, None] * (end - start))
        self._lines.append(corners)

    def avoid_marker(self, x: float, y: float) -> None:
        """Keep labels off a marker there."""
        from matplotlib.transforms import Bbox

        centre = self._axes.transData.transform((x, y))
        self._taken.append(Bbox([centre - MARKER, centre + MARKER]))

    def put(
        self,
        text: str,
        places: Sequence[tuple[float, float]],
        distance: float = 7.0,
        around: Sequence[tuple[int, int]] = AROUND,
        **style: Any,
    ) -> bool:
        """Write a text beside the first of the places where it fits; False, and nothing written, if it fits nowhere."""
        figure = self._axes.figure
        renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
        for place in places:
            for right, up in around:
                note = self._axes.annotate(
                    text,
                    place,
                    xytext=(distance * right, distance * up),
                    textcoords="offset points",
                    ha=("right", "center", "left")[right + 1],
                    va=("top", "center", "bottom")[up + 1],
                    annotation_clip=False,
                    **{"bbox": CLEAR, **style},
                )
                box = note.get_window_extent(renderer).padded(GAP)
                if self._free(box):
                    self._taken.append(box)
                    return True
                note.remove()
        return False

    def _free(self, box: Bbox) -> bool:
        inside = self._axes.bbox
        if not (inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1):
            return False
        if any(box.overlaps(other) for other in self._taken):
            return False
        points = np.concatenate(self._lines) if self._lines else np.empty((0, 2))
        hit = (points > box.p0) & (points < box.p1)
        return not np.any(hit.all(axis=1))

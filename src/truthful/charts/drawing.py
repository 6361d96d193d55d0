"""The look of all charts and how they are written: the same bytes each time, and labels that cover nothing."""

from __future__ import annotations

import html
import io
import math
import re
import textwrap
import threading
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

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
#: In inches. On a phone such a chart shrinks little, so that its words can still be read.
NARROW = 5.0
PNG_DPI = 192
#: Of Okabe and Ito, apart for all kinds of colour vision; they also differ in lightness.
BLUE, ORANGE = "#0072B2", "#D55E00"
INK, GREY, FAINT = "#222222", "#666666", "#E6E6E6"
#: The colours by the names of a page's own, which has them once for light and once for dark.
COLOURS = {INK: "ink", GREY: "grey", FAINT: "faint", BLUE: "blue", ORANGE: "orange", "#ffffff": "paper"}
TITLE, TEXT, SMALL = 13.0, 10.0, 9.0
DOTTED, DASHED = (0, (1, 2)), (0, (5, 2))
SHADE: Any = {"color": FAINT, "linewidth": 0, "alpha": 0.6}
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
    "axes.titlelocation": "left",
    "axes.titlesize": TEXT,
    "axes.titlepad": 8,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    **{f"{axis}tick.color": GREY for axis in "xy"},
    **{f"{axis}tick.labelsize": SMALL for axis in "xy"},
    **{f"{axis}tick.labelcolor": INK for axis in "xy"},
    **{f"{axis}tick.major.size": 0 for axis in "xy"},
    **{f"{axis}tick.major.pad": 5 for axis in "xy"},
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
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
#: What no XML may hold, escaped or not.
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
#: The style and the warnings are the whole process's while a chart is drawn: threads take turns.
_DRAWING = threading.RLock()


class Chart(Protocol):
    """Numbers that can be painted, and described in words."""

    @property
    def title(self) -> str: ...
    @property
    def height(self) -> float: ...
    def describe(self) -> str: ...
    def paint(self, figure: Figure) -> None: ...


# A chart in a file of its own, and as a part of a page


def draw_chart(chart: Chart, path: str | Path, width: float = NARROW) -> None:
    """Write a chart to an SVG or PNG file. Its title and words are read by screen readers (SVG), or metadata (PNG)."""
    path = Path(path)
    check_suffix(path)
    with canvas(width, chart.height) as figure:
        chart.paint(figure)
        content = _png(figure, chart) if path.suffix.lower() == ".png" else _svg(figure, chart).encode()
    try:
        write_atomically(path, content)
    except OSError as problem:
        raise InputError(
            f"The chart cannot be written to {str(path)!r}: {problem.strerror}. Name a file in a directory that exists."
        ) from None


def check_suffix(path: str | Path) -> None:
    """Refuse a file name that no chart can have, before anything is computed."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(
            f"A chart cannot be written to {str(path)!r}: name a file that ends in {' or '.join(SUFFIXES)}."
        )


def inline(chart: Chart, name: str) -> str:
    """A chart as an element of an HTML page: its own ids, the page's colours, no metadata and no style sheet."""
    with canvas(NARROW, chart.height) as figure:
        chart.paint(figure)
        drawn = _svg(figure, chart)
    root = ElementTree.fromstring(_FORBIDDEN.sub("\ufffd", drawn))
    for parent in root.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_NAMESPACE)
        element.attrib = {key: _rename(key, value, name) for key, value in element.attrib.items()}
        if _LINK in element.attrib:
            element.set("href", element.attrib.pop(_LINK))
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.set("xmlns", _NAMESPACE.strip("{}"))
    return ElementTree.tostring(root, encoding="unicode")


def _rename(key: str, value: str, name: str) -> str:
    """An attribute whose ids begin with this chart's name, so that a page may hold many charts."""
    if key == "id":
        return f"{name}-{value}"
    if key == "aria-labelledby":
        return " ".join(f"{name}-{part}" for part in value.split())
    if key == _LINK:
        return value.replace("#", f"#{name}-")
    if key == "style":
        for colour, word in COLOURS.items():
            value = value.replace(colour.lower(), f"var(--{word})")
    return value.replace("url(#", f"url(#{name}-")


@contextmanager
def canvas(width: float = WIDTH, height: float = HEIGHT) -> Iterator[Figure]:
    """An empty figure in the house style; matplotlib's global state is the same afterwards."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with _DRAWING, matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Letters that this font does not have are drawn by whoever shows the chart; only their width is a guess.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), dpi=100, facecolor="white")
        FigureCanvasAgg(figure)
        yield figure


def _png(figure: Figure, chart: Chart) -> bytes:
    drawn, metadata = io.BytesIO(), {"Title": chart.title, "Description": chart.describe(), "Software": None}
    figure.savefig(drawn, format="png", dpi=PNG_DPI, metadata=metadata)
    return drawn.getvalue()


def _svg(figure: Figure, chart: Chart) -> str:
    """The figure as one image whose title and description screen readers announce."""
    drawn, (title, description) = io.BytesIO(), (chart.title, chart.describe())
    metadata = {"Title": title, "Description": description, "Date": None, "Creator": None}
    figure.savefig(drawn, format="svg", metadata=metadata)
    words = (
        f'<title id="title">{html.escape(title, quote=False)}</title>\n'
        f' <desc id="description">{html.escape(description, quote=False)}</desc>'
    )
    before, _, rest = drawn.getvalue().decode().partition("<title>")
    image = before + words + rest.partition("</title>")[2]
    return image.replace("<svg ", '<svg role="img" aria-labelledby="title description" ', 1)


# Axes, and words that fit


def round_ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high on a logarithmic axis: 1, 2, 5 of each decade, or fewer."""
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


def label_logarithms(axes: Axes) -> None:
    """Round numbers along both axes, in plain digits."""
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        places = round_ticks(*ends)
        axis.set_ticks(places, [plain_number(place) for place in places])
        axis.set_ticks([], minor=True)


def label_ticks(axis: Axis, width: float, decimal: str = ".") -> None:
    """Plain digits at the ticks, as many as a range of this width needs, never an offset or a power of ten."""
    signs = str.maketrans("-,.", f"−{'.' if decimal == ',' else ','}{decimal}")
    axis.set_major_formatter(lambda value, place: to_within(value, width).translate(signs))


def hide_left(axes: Axes) -> None:
    """No vertical axis, where rows have names instead."""
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def legend(axes: Axes, reverse: bool = False) -> None:
    """The legend, in lines above the axes, where it covers nothing."""
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        frameon=False,
        borderaxespad=0.2,
        labelspacing=0.3,
        handlelength=2.8,
        reverse=reverse,
    )


def plain_number(value: float) -> str:
    """A round number in plain digits, millions in words, and tiny ones as powers of ten."""
    if value < SMALLEST:
        return f"{value:.0e}".replace("e-0", "e-")
    for unit, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= unit:
            return f"{value / unit:,g} {word}"
    decimals = max(0, -math.floor(math.log10(value) + 1e-9))
    return f"{value:,.{decimals}f}"


def shorten(text: str, most: int) -> str:
    """A name in one line of at most this many letters, even if it is one long word."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def wrap(text: str, letters: int, most: int) -> list[str]:
    """A name in at most this many lines of at most this many letters; an ellipsis marks what is cut."""
    lines = textwrap.wrap(" ".join(text.split()), letters) or [""]
    return [*lines[: most - 1], shorten(" ".join(lines[most - 1 :]), letters)] if len(lines) > most else lines


def draw_histogram(
    figure: Figure, values: Floats, marks: Sequence[tuple[float, str, Any]], axis: str, of: str
) -> None:
    """Bars of the share of all values, and a line at each mark, named above the bars.

    A mark is a value, a name and a style. `of` says what the values are.
    """
    axes = figure.add_axes((0.15, 0.155, 0.82, 0.67))
    low, high = float(values.min()), float(values.max())
    if not high > low:  # all the same: one bar in the middle
        room = 0.01 * max(abs(low), 0.01)
        low, high = low - room, high + room
    counts, edges = np.histogram(values, BINS, (low, high))
    shares = counts / len(values)
    looks: Any = {"align": "edge", "color": BLUE, "edgecolor": "white", "linewidth": 0.8}
    axes.bar(edges[:-1], shares, np.diff(edges), **looks)
    axes.set_ylim(0, 1.2 * shares.max())
    for value, name, looks in marks:
        axes.axvline(value, linewidth=2, label=name, **looks)
        low, high = min(low, value), max(high, value)
    axes.set_xlim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    axes.locator_params(axis="x", nbins=7)
    axes.locator_params(axis="y", nbins=5)
    label_ticks(axes.xaxis, high - low)
    axes.yaxis.set_major_formatter(lambda share, place: f"{100 * share:g}%")
    axes.grid(False, axis="x")
    legend(axes)
    axes.set_xlabel(axis)
    axes.set_ylabel(f"Share of {of}")


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
        """Write a text beside the first of the places where it fits; return False if it fits nowhere."""
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
                if self._is_free(box):
                    self._taken.append(box)
                    return True
                note.remove()
        return False

    def _is_free(self, box: Bbox) -> bool:
        inside = self._axes.bbox
        if not (inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1):
            return False
        if any(box.overlaps(taken) for taken in self._taken):
            return False
        points = np.concatenate(self._lines) if self._lines else np.empty((0, 2))
        hit = (points > box.p0) & (points < box.p1)
        return not np.any(hit.all(axis=1))

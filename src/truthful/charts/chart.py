"""A chart, and the two ways to show it: in a file of its own, and as a part of a page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from truthful.charts import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: In inches. On a phone such a chart shrinks little, so that its words can still be read.
NARROW = 5.0
#: The colours of the house, by the names of the page's own, which has them once for light and once for dark.
COLOURS = {
    style.INK: "ink",
    style.GREY: "grey",
    style.FAINT: "faint",
    style.BLUE: "blue",
    style.ORANGE: "orange",
    "#ffffff": "paper",
}
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
#: What no XML may hold, escaped or not.
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


class Chart(Protocol):
    """Numbers that can paint themselves, and say in words what they show."""

    @property
    def title(self) -> str: ...
    @property
    def height(self) -> float: ...
    def describe(self) -> str: ...
    def paint(self, figure: Figure) -> None: ...


def draw_chart(chart: Chart, path: str | Path) -> None:
    """Write a chart to an SVG or PNG file."""
    path = Path(path)
    style.check_suffix(path)
    with style.canvas(NARROW, chart.height) as figure:
        chart.paint(figure)
        style.write(figure, path, chart.title, chart.describe())


def inline(chart: Chart, name: str) -> str:
    """A chart as an element of an HTML page: names of its own, the page's colours, no metadata and no style sheet."""
    with style.canvas(NARROW, chart.height) as figure:
        chart.paint(figure)
        drawn = style.svg(figure, chart.title, chart.describe())
    root = ElementTree.fromstring(_FORBIDDEN.sub("\ufffd", drawn))
    for parent in root.iter():
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_NAMESPACE)
        element.attrib = {key: _own(key, value, name) for key, value in element.attrib.items()}
        if _LINK in element.attrib:
            element.set("href", element.attrib.pop(_LINK))
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.set("xmlns", _NAMESPACE.strip("{}"))
    return ElementTree.tostring(root, encoding="unicode")


def _own(key: str, value: str, name: str) -> str:
    """An attribute in which ids begin with this chart's name, so that a page may hold many charts."""
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

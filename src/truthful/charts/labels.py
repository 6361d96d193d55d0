"""Labels beside what they name, none over another and none over a line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.check import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

#: Pixels that a label keeps from others, between the points at which a line is felt, and around a marker's centre.
GAP, STEP, MARKER = 3.0, 3.0, 6.0
#: Where a label may stand, seen from what it names: (right, up), each −1, 0 or 1.
AROUND = ((1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1))
CLEAR = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}


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

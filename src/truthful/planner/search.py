"""Deterministic search on closed forms: a grid, pattern search from its best points, and root finding along one axis.

Whole grids are evaluated at once, so a plan takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from truthful.check import Floats

#: How many of the grid's best points to search from, and for how many rounds; after that only the best.
STARTS, TOGETHER = 4, 6
ROUNDS = 60
#: The first step, and that of a restart where a search ended, as parts of the grid's step; the most restarts; and the
#: step, as a part of an axis, at which a search ends.
FIRST, AGAIN, TIMES, FINEST = 0.5, 0.1, 3, 1e-4
ROOT_STEPS = 30
#: How often, and in how many steps each time, to zoom in on a minimum or root between two neighbours.
ZOOMS, ZOOM_STEPS = 2, 9
#: Roots are aimed at this far below their target, so that they are met from below, and found to this precision.
AIM, CLOSE = 1e-9, 1e-7


@dataclass(frozen=True)
class Axis:
    """A number to choose between low and high, on a logarithmic scale if `log`. A place on the axis lies in [0, 1]."""

    low: float
    high: float
    points: int
    log: bool = True

    @property
    def places(self) -> Floats:
        """Places on the first search grid."""
        return np.linspace(0, 1, self.points) if self.high > self.low else np.zeros(1)

    def value(self, place: Floats) -> Floats:
        """The number at a place; exact at the ends, despite rounding."""
        low, high = self._ends
        between = low + place * (high - low)
        return np.clip(np.exp(between) if self.log else between, self.low, self.high)

    def place(self, value: float) -> float:
        """The place of a number."""
        low, high = self._ends
        at = float(np.log(value)) if self.log else value
        return float(np.clip((at - low) / (high - low), 0, 1)) if high > low else 0.0

    @property
    def _ends(self) -> tuple[float, float]:
        return (float(np.log(self.low)), float(np.log(self.high))) if self.log else (self.low, self.high)


Point = dict[str, float]
#: For each point: by how much it misses the constraints (0: they hold), and the value to minimise.
Objective = Callable[[dict[str, Floats]], tuple[Floats, Floats]]


#: `Objective` on an array of places of any shape, coordinates last.
Ranks = Callable[[Floats], tuple[Floats, Floats]]
#: From x and a point near which to look, to a value that falls with x, and the point where it was found.
Falling = Callable[[float, Point | None], tuple[float, Point | None]]


def minimise(objective: Objective, axes: dict[str, Axis], near: Point | None = None) -> Point | None:
    """The best point found: the least violation of constraints, then the least value; None if all violations are
    infinite.

    A pattern search starts at a few of the best grid points, or near a known point, and restarts where it ended as long
    as that helps.
    """
    wide = np.array([1 / (len(axis.places) - 1) if len(axis.places) > 1 else 0.0 for axis in axes.values()])

    def ranks(places: Floats) -> tuple[Floats, Floats]:
        mesh = _mesh(axes, places.reshape(-1, len(axes)))
        short, value = (np.nan_to_num(part, nan=np.inf, posinf=np.inf) for part in objective(mesh))
        return short.reshape(places.shape[:-1]), value.reshape(places.shape[:-1])

    if near is None:
        grid = np.array(list(product(*(axis.places for axis in axes.values()))))
        place, rank = _descend(ranks, _spread_out(grid[np.lexsort(ranks(grid)[::-1])], wide), wide, FIRST)
    else:
        place = np.array([axis.place(near[name]) for name, axis in axes.items()])
        place, rank = _descend(ranks, place[None], wide, FIRST)
    # On one axis, or near a known point, once is enough.
    for _ in range(TIMES if near is None and np.isfinite(rank[0]) and np.count_nonzero(wide) > 1 else 0):
        next_place, next_rank = _descend(ranks, place[None], wide, AGAIN)
        if not next_rank < rank:
            break
        place, rank = next_place, next_rank
    return (
        {name: float(v[0]) for name, v in _mesh(axes, place[None]).items()} if np.isfinite(rank[0]) else None
    )


def _descend(ranks: Ranks, centres: Floats, wide: Floats, step: float) -> tuple[Floats, tuple[float, float]]:
    """Pattern search: move each centre to the best of its neighbours in all directions, diagonals included; halve its
    step where it stays. After some rounds keep only the best.
    """
    around = np.array(list(product(*((0, -1, 1) if width else (0,) for width in wide)))) * wide
    steps, rank = np.full(len(centres), step), (np.inf, np.inf)
    for turn in range(ROUNDS):
        tried = np.clip(centres[:, None] + steps[:, None, None] * around, 0, 1)
        short, value = ranks(tried)
        rows, best = np.arange(len(centres)), np.lexsort((value, short), axis=1)[:, 0]
        # A tie does not move: the first neighbour of a centre is the centre itself.
        short, value, steps = short[rows, best], value[rows, best], np.where(best == 0, steps / 2, steps)
        lead = np.lexsort((value, short))[: STARTS if turn < TOGETHER else 1]
        centres, steps = tried[rows, best][lead], steps[lead]
        rank = float(short[lead[0]]), float(value[lead[0]])
        if np.isinf(rank[0]) or not steps[0] * wide.max() >= FINEST:
            break
    return centres[0], rank


def _mesh(axes: dict[str, Axis], places: Floats) -> dict[str, Floats]:
    return {name: axis.value(places[:, at]) for at, (name, axis) in enumerate(axes.items())}


def _spread_out(points: Iterable[Floats], spread: Floats) -> Floats:
    """The first few points that do not neighbour an earlier one."""
    found: list[Floats] = []
    for point in points:
        if all(np.any(np.abs(point - earlier) > 1.5 * spread) for earlier in found):
            found.append(point)
        if len(found) == STARTS:
            break
    return np.array(found)


def geometric_rows(low: Floats, high: Floats, steps: int) -> Floats:
    """A row from each low to its high at equal ratios, ends exact: `geomspace`, but faster."""
    row = low[:, None] * (high / low)[:, None] ** np.linspace(0, 1, steps)
    row[:, -1] = high
    return row


def lowest(f: Callable[[Floats], Floats], grid: Floats, known: Floats | None = None) -> Floats:
    """Per row of the grid, about the x of the least f: zooms in, by ratios, between the neighbours of the lowest.

    known: f(grid), if already computed.
    """
    rows, found, x = np.arange(len(grid)), grid, grid[:, 0]
    for turn in range(ZOOMS + 1):
        at = np.argmin(f(found) if turn or known is None else known, axis=1)
        x = found[rows, at]
        low, high = found[rows, np.maximum(at - 1, 0)], found[rows, np.minimum(at + 1, found.shape[1] - 1)]
        found = geometric_rows(low, high, ZOOM_STEPS)
    return x


def last_below(
    f: Callable[[Floats], Floats], target: float, grid: Floats, known: Floats | None = None
) -> Floats:
    """Per row of the grid, the largest x with f(x) ≤ target, f rising from there on; NaN where there is none.

    The grid brackets the crossing, then finer grids inside the bracket do. In logarithms f is then nearly straight, so
    secants close in from below; one that leaves the bracket is replaced by bisection, and so is every third. known:
    f(grid), if already computed.
    """
    values = f(grid) if known is None else known
    none = ~np.any(values <= target, axis=1)
    for _ in range(ZOOMS):
        lo, hi, _, _ = _bracket(grid, values, target)
        grid = geometric_rows(lo, hi, ZOOM_STEPS)
        values = f(grid)
    lo, hi, y_lo, y_hi = _bracket(grid, values, target)
    done = none | (hi <= lo)
    for step in range(ROOT_STEPS):
        if np.all(done | (y_lo >= target * (1 - CLOSE)) | (hi <= lo * (1 + CLOSE))):
            break
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.log(y_hi / y_lo) / np.log(hi / lo)
            guess = lo * (target * (1 - AIM) / y_lo) ** (1 / slope)
        x = np.where((guess > lo) & (guess < hi) & (step % 3 < 2), guess, np.sqrt(lo * hi))
        y = f(x[:, None])[:, 0]
        below = y <= target
        lo, y_lo = np.where(below, x, lo), np.where(below, y, y_lo)
        hi, y_hi = np.where(below, hi, x), np.where(below, y_hi, y)
    return np.where(none, np.nan, lo)


def _bracket(grid: Floats, values: Floats, target: float) -> tuple[Floats, Floats, Floats, Floats]:
    """The last x of each row that fits, the next x, and their values. At the end of a row both are its last."""
    rows, last = np.arange(len(grid)), grid.shape[1] - 1
    at = last - np.argmax((values <= target)[:, ::-1], axis=1)
    following = np.minimum(at + 1, last)
    return grid[rows, at], grid[rows, following], values[rows, at], values[rows, following]


def crossing(f: Falling, low: float, high: float, close: float, at_high: tuple[float, Point | None]) -> float:
    """About the least x at which f ≤ 0, f falling from f(low) > 0 to f(high) ≤ 0: at most a part `close` above it.

    f gets the point that solved its last x, as the next is near. Every second x is where f would cross if it were
    straight in ln x; the others halve the bracket.
    """
    (y_high, point), y_low, straight = at_high, np.inf, False
    while high > low * (1 + close):
        part = y_low / (y_low - y_high) if straight and np.isfinite(y_low - y_high) else 0.5
        # Keep off the ends, where the bracket would hardly shrink.
        x = low * (high / low) ** min(max(part, 0.02), 0.98)
        y, found = f(x, point)
        low, y_low, high, y_high = (x, y, high, y_high) if y > 0 else (low, y_low, x, y)
        point, straight = found or point, not straight
    return high

"""Deterministic search on smooth closed forms: a grid that closes in on its best point, and roots of rising functions.

Everything is evaluated on whole grids at once, which is what makes a plan a matter of milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.check import Floats

ROUNDS, SHRINK = 9, 0.35
ROOT_STEPS = 40
#: Roots are aimed at this much below their target, so that they are reached from below.
AIM = 1e-10


@dataclass(frozen=True)
class Axis:
    """One number to be chosen, between low and high; by ratios if `log`."""

    low: float
    high: float
    points: int
    log: bool = True

    def grid(self, centre: float | None, width: float) -> Floats:
        """Points over the part of the axis that lies around a centre; over all of it if there is none."""
        low, high = self._ends
        if not high > low:
            return np.array([self.low])
        if centre is not None:
            middle, half = float(np.log(centre) if self.log else centre), width * (high - low) / 2
            low, high = max(low, middle - half), min(high, middle + half)
        places = np.linspace(low, high, self.points)
        # The ends themselves, not what rounding makes of them.
        return np.clip(np.exp(places) if self.log else places, self.low, self.high)

    @property
    def _ends(self) -> tuple[float, float]:
        return (float(np.log(self.low)), float(np.log(self.high))) if self.log else (self.low, self.high)


Point = dict[str, float]


def minimise(
    objective: Callable[[dict[str, Floats]], Floats], axes: dict[str, Axis]
) -> tuple[Point | None, float]:
    """The best point found, and its value; None if the objective is infinite on the whole first grid.

    Each round lays a grid around the best point so far, a third as wide as the one before. Sound where the objective
    has one valley, which the first grid only has to hit.
    """
    best: Point | None = None
    value, width = np.inf, 2.0
    for _ in range(ROUNDS):
        grids = [axis.grid(best[name] if best else None, width) for name, axis in axes.items()]
        mesh = dict(zip(axes, (g.ravel() for g in np.meshgrid(*grids, indexing="ij")), strict=True))
        values = np.nan_to_num(objective(mesh), nan=np.inf, posinf=np.inf)
        lowest = int(np.argmin(values))
        if values[lowest] < value:
            value, best = (
                float(values[lowest]),
                {name: float(column[lowest]) for name, column in mesh.items()},
            )
        if best is None:
            return None, np.inf
        width *= SHRINK
    return best, value


def last_below(f: Callable[[Floats], Floats], target: float, grid: Floats) -> Floats:
    """For each row of the grid the largest x with f(x) ≤ target, f rising from there on; NaN where no x fits.

    The grid brackets the crossing. In logarithms f is nearly straight, so that secants there close in on it from below;
    a secant that leaves the bracket is replaced by bisection.
    """
    values = f(grid)
    fits = values <= target
    last = grid.shape[1] - 1 - np.argmax(fits[:, ::-1], axis=1)
    rows = np.arange(len(grid))
    lo, y_lo = grid[rows, last], values[rows, last]
    following = np.minimum(last + 1, grid.shape[1] - 1)
    hi, y_hi = grid[rows, following], values[rows, following]
    for _ in range(ROOT_STEPS):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.log(y_hi / y_lo) / np.log(hi / lo)
            guess = lo * (target * (1 - AIM) / y_lo) ** (1 / slope)
        x = np.where((guess > lo) & (guess < hi), guess, np.sqrt(lo * hi))
        y = f(x[:, None])[:, 0]
        below = y <= target
        lo, y_lo = np.where(below, x, lo), np.where(below, y, y_lo)
        hi, y_hi = np.where(below, hi, x), np.where(below, y_hi, y)
        if np.all((y_lo >= target * (1 - 4 * AIM)) | (last == following) | (hi <= lo * (1 + 1e-14))):
            break
    return np.where(fits.any(axis=1), lo, np.nan)

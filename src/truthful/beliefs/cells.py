"""What a table is fitted to: regions of reports, each the unit square, and polynomials on cells of the square.

The half-plane of reports is cut where the posterior stops being analytic. For r = ‖x‖ in [0, 1] and y ≥ 0 the support
of u = θ·x/‖x‖ is [max(-R, (y-M)/r), min(R, (y+M)/r)]. As one end or the other passes ±R, E[ψ(u) | r, y] is continuous
but not smooth. Between these lines it is an analytic function of well chosen coordinates (X, Y) in the unit square:

    whole   rR ≤ M, y ≤ M - rR: all of [-R, R].     X = r/r₁,  Y = y/(M - rR)
    upper   rR ≤ M, y > M - rR: [a, R].             X = r/r₁,  Y = ω with κ = 1
    short   rR > M, y ≥ rR - M: [a, R].             X = x/x₁,  Y = (ω - ω₀)/(1 - ω₀)
    middle  rR > M, y < rR - M: [a, b].             X = x/x₁,  Y = √((R - b)/(R - M/r))

with a = (y - M)/r, b = (y + M)/r, κ = M/(rR), x = √(1-κ)/(√(1-κ) + √κ), ω = √(R+a)/(√(R+a) + √((R-a)/κ)), ω₀ the
smallest ω there is at that r, where a = R - 2κR; r₁ = min(1, M/R) and x₁ are the largest r and x. The square roots
take the place of the powers (R ± u)^((d+1)/2) with which the integrals begin at the ends of the ball, and they widen
the thin layers there: of the width M/r of the support when there is little noise, of the width of the peer noise
when that is clipped. `coordinates` in truthful.beliefs.lookup is the inverse map.

The square is cut into 4 × 4 roots, and each root into kx × ky equal cells (powers of two, its own). On a cell each
function is the polynomial of degree 7 in each coordinate through its values at 8 × 8 Chebyshev nodes. An interpolation
error looks like c·T₈ in the coordinate that causes it, so it is measured on the 9 × 9 grid where |T₈| = 1, between the
nodes and on the cell's border. A root whose error is above what is wanted is cut again, across the coordinate whose
Chebyshev coefficients have not died out; one that stays above it is left open. A root that was cut is first looked at
where it was worst, and all of it only when it is good enough there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.beliefs.lookup import MIDDLE, OPEN, ORDER, ROOTS, SHORT, UPPER, WHOLE, Integers
from truthful.beliefs.posterior import Laws, Support
from truthful.check import Floats
from truthful.polynomials import chebyshev_coefficients, chebyshev_extrema, chebyshev_nodes, monomials, times

# Cells of a root: many, and too many. A square may cost this many points, and values at them.
_MANY_CELLS, _MOST_CELLS = 16, 1024
_MOST_POINTS = 400_000
_MOST_VALUES = 24_000_000
_POINTS = ORDER**2 + (ORDER + 1) ** 2  # of a cell: where it is fitted and where it is measured

Function = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Region:
    """One of the four, as the map from the unit square to supports."""

    kind: int
    radius: float
    bound: float

    def support(self, X: Floats, Y: Floats) -> Support:
        """The players at (X, Y). Angles come from the coordinates, not from r and y: exact at r = 0 and at the edge."""
        R, M = self.radius, self.bound
        if self.kind in (WHOLE, UPPER):
            r = min(1.0, M / R) * X
            return self._whole(r, Y) if self.kind == WHOLE else self._above(r, Y, np.ones_like(r))
        x = np.sqrt(R - M) / (np.sqrt(R - M) + np.sqrt(M)) * X
        kappa = (1 - x) ** 2 / (x**2 + (1 - x) ** 2)
        r, root = M / (kappa * R), np.sqrt(1 - kappa)
        if self.kind == SHORT:
            least = root / (root + 1)
            return self._above(r, least + (1 - least) * Y, kappa)
        low = 2 * np.arcsin(root * Y / np.sqrt(2))
        high = np.pi - 2 * np.arcsin(root * np.sqrt((2 - Y**2) / 2))
        return Support(r, r * R * root**2 * (1 - Y**2), low, high)

    def _whole(self, r: Floats, Y: Floats) -> Support:
        zero = np.zeros_like(r)
        return Support(r, Y * np.maximum(0.0, self.bound - r * self.radius), zero, zero + np.pi)

    def _above(self, r: Floats, omega: Floats, kappa: Floats) -> Support:
        # a = R cos t with tan(t/2) = √((R - a)/(R + a)) = √κ (1 - ω)/ω.
        high = np.maximum(2 * np.arctan2(np.sqrt(kappa) * (1 - omega), omega), 1e-100)
        return Support(r, self.bound + r * self.radius * np.cos(high), np.zeros_like(r), high)


def regions(laws: Laws) -> tuple[Region, ...]:
    """All regions that reports with ‖x‖ ≤ 1 can fall in."""
    R, M = laws.prior.radius, laws.noise.bound
    kinds = (WHOLE, UPPER, SHORT, MIDDLE) if R > M else (WHOLE, UPPER)
    return tuple(Region(kind, R, M) for kind in kinds)


@dataclass(frozen=True)
class Cells:
    """One or more functions (columns) on the unit square.

    Root (i, j), in row i·ROOTS + j of `roots`, has (first, kx, ky): its cells are the rows first + a·ky + b of
    `coefficients`, whose axes are cell, power of x, power of y and column, with x and y in [-1, 1] across the cell.
    `first` is OPEN where the tolerance was not reached. `error` is the largest measured elsewhere.
    """

    roots: Integers
    coefficients: Floats
    error: float


def left_open(columns: int) -> Cells:
    """No cells at all."""
    return Cells(np.full((ROOTS**2, 3), OPEN, dtype=np.int64), np.empty((0, ORDER, ORDER, columns)), 0.0)


def fit(function: Function, columns: int, tolerance: float, enough: float) -> Cells:
    """Cells for function(X, Y), which maps points (n,) of the square to values (n, columns).

    A root of more than 16 cells, which are costly, need not come below `tolerance` if it comes below `enough`.
    """
    empty = left_open(columns)
    roots, pieces = empty.roots, [empty.coefficients]
    error, left = 0.0, min(_MOST_POINTS, _MOST_VALUES // columns)
    pending = [_Root(number, 1, 1) for number in range(ROOTS**2)]
    while pending:
        left -= _POINTS * sum(root.cells for root in pending)
        good, rough = _sorted(function, pending, [root.all_cells() for root in pending], tolerance, enough)
        for root, polynomials, measured in good:
            roots[root.number] = (sum(map(len, pieces)), root.kx, root.ky)
            pieces.append(polynomials)
            error = max(error, measured)
        pending = []
        while rough and left > 0:
            left -= _POINTS * len(rough)
            good, rough = _sorted(function, rough, [root.worst_cell() for root in rough], tolerance, enough)
            pending += [root for root, _, _ in good]
        pending = _affordable(pending, left)
    return Cells(roots, np.concatenate(pieces), error)


@dataclass(frozen=True)
class _Root:
    """A root of kx × ky cells, and the point of the square where it was worst when it had fewer."""

    number: int
    kx: int
    ky: int
    x: float = 0.0
    y: float = 0.0

    @property
    def cells(self) -> int:
        return self.kx * self.ky

    def all_cells(self) -> Floats:
        """The centres of its cells and their half-widths, (x, y, half_x, half_y), in the order of `Cells`."""
        a, b = np.divmod(np.arange(self.cells), self.ky)
        return self._boxes(a, b)

    def worst_cell(self) -> Floats:
        """The same of the cell at the worst point."""
        i, j = divmod(self.number, ROOTS)
        a = min(max(int((self.x * ROOTS - i) * self.kx), 0), self.kx - 1)
        b = min(max(int((self.y * ROOTS - j) * self.ky), 0), self.ky - 1)
        return self._boxes(np.array([a]), np.array([b]))

    def _boxes(self, a: Integers, b: Integers) -> Floats:
        i, j = divmod(self.number, ROOTS)
        half_x, half_y = 0.5 / self.kx / ROOTS, 0.5 / self.ky / ROOTS
        x, y = (i + (a + 0.5) / self.kx) / ROOTS, (j + (b + 0.5) / self.ky) / ROOTS
        return np.stack([x, y, np.full(len(a), half_x), np.full(len(a), half_y)], axis=1)


def _sorted(
    function: Function, roots: list[_Root], boxes: list[Floats], tolerance: float, enough: float
) -> tuple[list[tuple[_Root, Floats, float]], list[_Root]]:
    """Roots that are good enough in these boxes, with the polynomials there and their error; and the others, cut."""
    every = np.concatenate(boxes)
    values, points = _sample(function, every, chebyshev_nodes(ORDER)), chebyshev_extrema(ORDER)
    polynomials = monomials(monomials(values, axis=1), axis=2)
    powers = np.vander(points, ORDER, increasing=True)
    # As Horner's rule will see it.
    off = times(powers, times(powers, polynomials, 1), 2) - _sample(function, every, points)
    errors = np.abs(off).max(axis=3).reshape((len(every), -1))
    good, rough, ends = [], [], np.cumsum([0, *map(len, boxes)])
    for k, root in enumerate(roots):
        part = slice(ends[k], ends[k + 1])
        box, point = np.unravel_index(int(errors[part].argmax()), errors[part].shape)
        error = float(errors[part][box, point])
        if error <= (enough if root.cells > _MANY_CELLS else tolerance):
            good.append((root, polynomials[part], error))
            continue
        x, y, half_x, half_y = boxes[k][box]
        at_x, at_y = points[point // len(points)], points[point % len(points)]
        rough += _cut(root, values[part], float(x + half_x * at_x), float(y + half_y * at_y))
    return good, rough


def _cut(root: _Root, values: Floats, x: float, y: float) -> list[_Root]:
    """The root with twice the cells across each coordinate whose last two coefficients are not small; or nothing."""
    coefficients = np.abs(chebyshev_coefficients(chebyshev_coefficients(values, axis=1), axis=2))
    tail_x, tail_y = coefficients[:, -2:].max(), coefficients[:, :, -2:].max()
    kx = root.kx * (2 if tail_x > 0.3 * tail_y else 1)
    ky = root.ky * (2 if tail_y > 0.3 * tail_x else 1)
    return [_Root(root.number, kx, ky, x, y)] if kx * ky <= _MOST_CELLS else []


def _affordable(roots: list[_Root], points: int) -> list[_Root]:
    """As many of the roots as so many points are enough for, those of the fewest cells first."""
    roots = sorted(roots, key=lambda root: root.cells)
    costs = _POINTS * np.cumsum([root.cells for root in roots])
    return roots[: int(np.searchsorted(costs, points, "right"))]


def _sample(function: Function, boxes: Floats, points: Floats) -> Floats:
    """Values on the tensor grid of the points in every box: axes box, x, y, column."""
    shape = (len(boxes), len(points), len(points))
    X = np.broadcast_to((boxes[:, :1] + boxes[:, 2:3] * points)[:, :, None], shape)
    Y = np.broadcast_to((boxes[:, 1:2] + boxes[:, 3:] * points)[:, None, :], shape)
    return function(X.ravel(), Y.ravel()).reshape((*shape, -1))

"""Own predictions for millions of players: E[ψ(u) | r, y] by table, with a bound on the table's error.

What is proved and what is verified. The regions below are where the tabulated function is analytic, so
polynomials on cells converge geometrically. In the scale of the peer noise the table interpolates ψ itself: an
expectation of ψ is off by no more than ψ is, whatever the posterior, and the interpolant multiplies errors at its
nodes by at most its Lebesgue constant; both are proved, and so is the bound on what is not kept of the polynomials. The
errors that enter there are verified: the distance of each cell from direct quadrature, on a grid between the nodes
where an interpolation error is largest, and that of ψ from its interpolant, on such a grid too. `error` doubles what
was measured, for what lies between the points of the grid. Reports in cells that could not be verified are answered by
direct quadrature.

What a table is fitted to: regions of reports, each the unit square, and polynomials on cells of the square.
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

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numba
import numpy as np

from truthful import check
from truthful.beliefs import posterior
from truthful.beliefs.laws import (
    Curve,
    chebyshev_coefficients,
    chebyshev_extrema,
    chebyshev_nodes,
    from_chebyshev,
    monomials,
    times,
)
from truthful.beliefs.lookup import (
    HALF,
    HIGH,
    KEPT,
    LOW,
    MIDDLE,
    OPEN,
    ORDER,
    PLANE,
    ROOTS,
    SCALE_ORDER,
    SHORT,
    UPPER,
    WHOLE,
    Integers,
    Limits,
    evaluate,
)
from truthful.beliefs.posterior import Laws, Support
from truthful.check import Floats
from truthful.errors import InputError

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
class TableCells:
    """One or more functions (columns) on the unit square.

    Root (i, j), in row i·ROOTS + j of `roots`, has (first, kx, ky): its cells are the rows first + a·ky + b of
    `coefficients`, whose axes are cell, power of x, power of y and column, with x and y in [-1, 1] across the cell.
    `first` is OPEN where the tolerance was not reached. `error` is the largest measured elsewhere.
    """

    roots: Integers
    coefficients: Floats
    error: float


def left_open(columns: int) -> TableCells:
    """No cells at all."""
    return TableCells(np.full((ROOTS**2, 3), OPEN, dtype=np.int64), np.empty((0, ORDER, ORDER, columns)), 0.0)


def fit(function: Function, columns: int, tolerance: float, enough: float) -> TableCells:
    """Cells for function(X, Y), which maps points (n,) of the square to values (n, columns).

    A root of more than 16 cells, which are costly, need not come below `tolerance` if it comes below `enough`.
    """
    empty = left_open(columns)
    roots, pieces = empty.roots, [empty.coefficients]
    error, left = 0.0, min(_MOST_POINTS, _MOST_VALUES // columns)
    pending = [_Root(number, 1, 1) for number in range(ROOTS**2)]
    while pending:
        left -= _POINTS * sum(root.cells for root in pending)
        good, rough = _sort(function, pending, [root.all_cells() for root in pending], tolerance, enough)
        for root, polynomials, measured in good:
            roots[root.number] = (sum(map(len, pieces)), root.kx, root.ky)
            pieces.append(polynomials)
            error = max(error, measured)
        pending = []
        while rough and left > 0:
            left -= _POINTS * len(rough)
            good, rough = _sort(function, rough, [root.worst_cell() for root in rough], tolerance, enough)
            pending += [root for root, _, _ in good]
        pending = _affordable(pending, left)
    return TableCells(roots, np.concatenate(pieces), error)


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


def _sort(
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


_SAFETY = 2.0
# One scale is exact to 1e-10 at no cost in time.
_ONE_SCALE_TOLERANCE, _CELL_TOLERANCE = 4e-11, 1e-10
_QUADRATURE = 1e-11
_DROPPED = 2e-10

# Pieces of the scale axis, of SCALE_ORDER nodes. Narrow ranges are one piece that needs fewer.
_PIECES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
_FEWER = (3, 4, 6)
_SCALE_TOLERANCE = 1.5e-10

# Scales this close, relatively, to a fixed one count as equal to it: |dψ/d log s| ≤ E[|e| 1{|m + e| ≤ R}] ≤ 2R.
_CLOSE = 1e-12

# ψ at a list of scales: the degree of its polynomials and one more, their error, and that of a straight line.
_CURVE_ORDER = 12
_CURVE_TOLERANCE = 1e-13
_STRAIGHT = 2e-13
_MOST_CURVE_CELLS = 8192

# A cell in which the scale matters by no more is steady.
_STEADY = 1e-10


@dataclass(frozen=True)
class PredictionTable:
    """q = r E[ψ(u) | r, y] for r ≤ 1 and scales in the range the table was built for, off by at most `error`.

    Anything else is answered too, by direct quadrature, at some microseconds a player instead of some ten nanoseconds.
    """

    laws: Laws
    curve: Curve
    axis: ScaleAxis
    roots: Integers
    coefficients: Floats
    planes: Floats
    steady: Integers
    error: float

    def __call__(self, r: Any, y: Any, scale: Any = 0.0, out: Floats | None = None) -> Floats:
        """q for one-dimensional arrays r = ‖x‖ and y; `scale` is one number or one per player.

        Contiguous arrays of floats are read where they are. `out`, if given, is filled and returned; it shares no
        memory with the others.
        """
        lengths, reports, scales = (np.ascontiguousarray(array, dtype=np.float64) for array in (r, y, scale))
        if lengths.shape != reports.shape or scales.shape not in ((1,), lengths.shape):
            arrays = np.broadcast_arrays(lengths, reports, scales)
            lengths, reports, scales = (np.ascontiguousarray(array) for array in arrays)
        if out is None:
            out = np.empty(len(lengths))
        if evaluate(lengths, reports, scales, out, *self._arguments):
            self._fill(lengths, reports, np.broadcast_to(scales, lengths.shape), out)
        return out

    @cached_property
    def _arguments(self) -> tuple[Limits, int, Integers, Floats, Floats, Integers]:
        """What `evaluate` is told of the table."""
        R, M, axis = self.laws.prior.radius, self.laws.noise.bound, self.axis
        limits = (R, M, axis.lowest, axis.highest, axis.origin, axis.step)
        return limits, axis.pieces, self.roots, self.coefficients, self.planes, self.steady

    def _fill(self, r: Floats, y: Floats, scale: Floats, out: Floats) -> None:
        """Direct quadrature where the kernel left NaN."""
        left = np.flatnonzero(np.isnan(out))
        for name, values in (("r", r[left]), ("y", y[left]), ("scale", scale[left])):
            bad = ~(np.isfinite(values) & ((values >= 0) | (name == "y")))
            if bad.any():
                raise InputError(
                    f"{name} is {values[bad][0]}; it must be finite, and r and scale not below 0."
                )
        out[left] = r[left] * posterior.mean(self.laws, r[left], y[left], self.curve, scale[left])


def prediction_table(
    laws: Laws, curve: Curve, scale_low: float = 0.0, scale_high: float | None = None
) -> PredictionTable:
    """A table for peer noise scales in [scale_low, scale_high], with error at most 1e-9, and less for one scale.

    Curves that do not depend on the scale ignore the range. If the noise density is not smooth nothing is tabulated.
    """
    R, high = laws.prior.radius, scale_low if scale_high is None else scale_high
    axis = scale_axis(curve, R, scale_low, high)
    table, dropped = _table(laws, curve, axis)
    while dropped > _DROPPED:
        axis = scale_axis(curve, R, scale_low, high, least_pieces=2 * axis.pieces)
        table, dropped = _table(laws, curve, axis)
    return table


def table_of_two(laws: Laws, curve: Curve, one: float, other: float) -> PredictionTable:
    """A table for two peer noise scales and none between, as exact and as quick as a table for one."""
    return _table(laws, curve, two_scales(curve, laws.prior.radius, min(one, other), max(one, other)))[0]


def _table(laws: Laws, curve: Curve, axis: ScaleAxis) -> tuple[PredictionTable, float]:
    """The table on one scale axis, and the part of its error that more pieces would make smaller."""
    R = laws.prior.radius
    sampled = SampledCurve(curve, R, axis.nodes) if curve.needs_scale else None
    found = [_fit_region(laws, sampled or curve, axis, region) for region in regions(laws)]
    starts = np.cumsum([0, *(len(cells.coefficients) for cells in found)])
    roots = np.concatenate(
        [_shift(cells, int(start)) for cells, start in zip(found, starts[:-1], strict=True)]
    )
    polynomials = pack(np.concatenate([cells.coefficients for cells in found]), axis)
    dropped = polynomials.dropped
    at_nodes = max(cells.error for cells in found) + (sampled.error if sampled else 0.0)
    error = _SAFETY * (axis.error + axis.lebesgue * at_nodes) + dropped + _QUADRATURE * R
    return PredictionTable(laws, curve, axis, roots, *polynomials[:3], error), dropped


def _fit_region(laws: Laws, curve: Curve, axis: ScaleAxis, region: Region) -> TableCells:
    def function(X: Floats, Y: Floats) -> Floats:
        return posterior.mean_on(laws, region.support(X, Y), curve, axis.nodes[None, :])

    columns, tolerance = len(axis.nodes), _ONE_SCALE_TOLERANCE if axis.order == 1 else _CELL_TOLERANCE
    return fit(function, columns, tolerance, _CELL_TOLERANCE) if laws.noise.smooth else left_open(columns)


def _shift(cells: TableCells, start: int) -> Integers:
    roots = cells.roots.copy()
    roots[roots[:, 0] != OPEN, 0] += start
    return roots


# The scale of the peer noise as a coordinate: pieces of log s, interpolated at Chebyshev nodes.


@dataclass(frozen=True)
class ScaleAxis:
    """`pieces` equal pieces of [log low, log high], each with `order` Chebyshev nodes.

    Scales in [lowest, highest] are answered; piece and place of s are those of (log s - origin) · step. `error` is the
    largest interpolation error of ψ over u and s that was measured. With order 1 and two pieces there are two scales
    and nothing between them: those up to `origin` are the first, those from `step` on the second.
    """

    order: int
    pieces: int
    nodes: Floats
    lowest: float
    highest: float
    origin: float
    step: float
    error: float

    @property
    def lebesgue(self) -> float:
        """What errors at the nodes of a piece are multiplied by, at most (Rivlin, Chebyshev polynomials, 1.3)."""
        return 1 + 2 / math.pi * math.log(self.order)


def scale_axis(curve: Curve, radius: float, low: float, high: float, least_pieces: int = 1) -> ScaleAxis:
    """The cheapest axis that interpolates ψ to 1.5e-10 over all |u| ≤ R and scales in [low, high]."""
    check.nonnegative("scale_low", low)
    check.nonnegative("scale_high", high)
    if not low <= high:
        raise InputError(f"scale_low is {low}, above scale_high, which is {high}.")
    if not curve.needs_scale:
        return ScaleAxis(1, 1, np.zeros(1), -math.inf, math.inf, 0.0, 0.0, 0.0)
    if high <= low * (1 + _CLOSE):
        ends = (low * (1 - _CLOSE), high * (1 + _CLOSE))
        return ScaleAxis(1, 1, np.array([low]), *ends, 0.0, 0.0, 4 * radius * _CLOSE)
    check.positive("scale_low", low)
    fewer, pieces = [(1, order) for order in _FEWER], [(number, SCALE_ORDER) for number in _PIECES]
    for number, order in [*fewer, *pieces] if least_pieces == 1 else pieces:
        axis = _axis(curve, radius, low, high, number, order)
        if axis.error <= _SCALE_TOLERANCE and number >= least_pieces:
            return axis
    raise InputError(
        f"Peer noise scales from {low} to {high} span too wide a range for one table; the table would not be exact "
        f"to 1e-9. Narrow the range."
    )


def two_scales(curve: Curve, radius: float, low: float, high: float) -> ScaleAxis:
    """Just these two scales; one if they are the same, or if the curve does not ask."""
    if not curve.needs_scale or high <= low * (1 + 4 * _CLOSE):
        return scale_axis(curve, radius, low, low)
    check.positive("scale_low", low)
    ends = (low * (1 - _CLOSE), high * (1 + _CLOSE), low * (1 + _CLOSE), high * (1 - _CLOSE))
    return ScaleAxis(1, 2, np.array([low, high]), *ends, 4 * radius * _CLOSE)


def _axis(curve: Curve, radius: float, low: float, high: float, pieces: int, order: int) -> ScaleAxis:
    step = pieces / math.log(high / low)
    middles = np.arange(pieces)[:, None] + 0.5

    def scales(x: Floats) -> Floats:
        return low * np.exp((middles + x / 2) / step)

    nodes = scales(chebyshev_nodes(order))
    # Clipping sets in near u = R, in a layer as thin as the noise: points crowd there quadratically.
    u = radius * np.sin(np.linspace(0, math.pi / 2, 257))[:, None, None]
    x = chebyshev_extrema(2 * order)
    fitted = monomials(curve(u, nodes)) @ np.vander(x, order, increasing=True).T
    error = float(np.abs(fitted - curve(u, scales(x))).max())
    return ScaleAxis(
        order, pieces, nodes.ravel(), low * (1 - 1e-9), high * (1 + 1e-9), math.log(low), step, error
    )


class SampledCurve:
    """ψ(u) for |u| ≤ R at every scale of a list: the last axis of u, of length 1, becomes the scales'.

    ψ is odd, so only u ≥ 0 is kept, as polynomials of degree 11 on equal cells in h = √(1 - u/R): the square root
    resolves the layer of width s√d at u = R where clipping sets in. The number of cells doubles until the error,
    measured where the interpolation error is largest, is below 1e-13 R or no longer falls; `error` holds it. Below the
    layer ψ is a straight line through 0, to 2e-13 R, and is read off as one; `error` counts that too.
    """

    needs_scale = True

    def __init__(self, curve: Curve, radius: float, scales: Floats) -> None:
        self.radius = radius
        self.scales = scales
        cells, self.error = 16, np.inf
        while cells <= _MOST_CURVE_CELLS and not self.error <= _CURVE_TOLERANCE * radius:
            self._coefficients, self.error = _fit_curve(curve, radius, scales, cells)
            cells *= 2
        self._slopes, self._straight = _straight_line(curve, radius, scales, len(self._coefficients))
        self.error += _STRAIGHT * radius

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        flat = np.ascontiguousarray(u).ravel()
        out = _evaluate_curve(flat, self.radius, self._coefficients, self._slopes, self._straight)
        return np.asarray(out).reshape((*u.shape[:-1], len(self.scales)))


def _fit_curve(curve: Curve, radius: float, scales: Floats, cells: int) -> tuple[Floats, float]:
    """Coefficients (cell, degree, scale), and the largest error between the nodes."""
    middles = (np.arange(cells) + 0.5)[:, None]

    def values(x: Floats) -> Floats:
        h = (middles + x / 2) / cells
        return curve(radius * (1 - h**2)[:, :, None], scales)

    coefficients = monomials(values(chebyshev_nodes(_CURVE_ORDER)), axis=1)
    x = chebyshev_extrema(_CURVE_ORDER)
    fitted = np.einsum("xk,cks->cxs", np.vander(x, _CURVE_ORDER, increasing=True), coefficients)
    return np.ascontiguousarray(coefficients), float(np.abs(fitted - values(x)).max())


def _straight_line(curve: Curve, radius: float, scales: Floats, cells: int) -> tuple[Floats, int]:
    """The slope of ψ at every scale, and the first cell from which on ψ is that line, off by 2e-13 R at most."""
    middle = radius / 2
    slopes = np.ravel(curve(np.full((1, 1), middle), scales)) / middle
    nearest = np.arange(cells) / cells  # the end of each cell that is nearest the layer
    u = radius * (1 - nearest**2)[:, None]
    off = np.abs(curve(u, scales) - slopes * u).max(axis=1) > _STRAIGHT * radius
    return slopes, int(np.flatnonzero(off).max(initial=-1)) + 1


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _evaluate_curve(u: Floats, radius: float, coefficients: Floats, slopes: Floats, straight: int) -> Floats:
    cells, _, scales = coefficients.shape
    out = np.empty((len(u), scales))
    for i in range(len(u)):
        h = cells * np.sqrt(max(0.0, 1 - abs(u[i]) / radius))
        cell = min(int(h), cells - 1)
        if cell >= straight:
            for s in range(scales):
                out[i, s] = slopes[s] * u[i]
            continue
        x = 2 * (h - cell) - 1
        sign = -1.0 if u[i] < 0 else 1.0
        w = coefficients[cell]
        # Horner's rule, written out: a loop over the degrees would keep its sums in memory.
        for s in range(scales):
            high = ((w[11, s] * x + w[10, s]) * x + w[9, s]) * x + w[8, s]
            middle = (((high * x + w[7, s]) * x + w[6, s]) * x + w[5, s]) * x + w[4, s]
            out[i, s] = sign * ((((middle * x + w[3, s]) * x + w[2, s]) * x + w[1, s]) * x + w[0, s])
    return out


class Packed(NamedTuple):
    """One row of `coefficients` for each piece of the scale axis and cell; row steady[cell] of `planes` instead if the
    cell is steady, OPEN if not; and what was dropped, at most."""

    coefficients: Floats
    planes: Floats
    steady: Integers
    dropped: float


def pack(planes: Floats, axis: ScaleAxis) -> Packed:
    """What a table has of its cells' polynomials: with more than one scale, the products that lookup keeps.

    What is not kept costs at most the sum of its Chebyshev coefficients, which falls as the pieces of the scale axis
    get shorter. Where clipping hardly ever sets in, the scale hardly matters: a steady cell has a polynomial in (x, y)
    alone as well, the mean over the pieces.

    With one scale a row has the powers of x, for each those of y. With more it has the powers of x, for each those of s
    that are kept, for each the first four of y; and then the same for the last four of y.
    """
    if axis.order == 1:
        each = np.ascontiguousarray(np.moveaxis(planes, -1, 0)).reshape((-1, PLANE))
        return Packed(each, np.empty((0, PLANE)), np.full(len(planes), OPEN), 0.0)
    powers = np.vander(chebyshev_nodes(ORDER), ORDER, increasing=True)
    values = times(powers, times(powers, planes, 1), 2)
    values = values.reshape((*values.shape[:3], axis.pieces, axis.order))
    # From (cell, x, y, piece, s) to (piece, cell, x, s, y).
    coefficients = np.transpose(values, (3, 0, 1, 4, 2))
    for direction in (2, 3, 4):
        coefficients = chebyshev_coefficients(coefficients, direction)
    more = SCALE_ORDER - axis.order
    coefficients = np.pad(coefficients, ((0, 0), (0, 0), (0, 0), (0, more), (0, 0)))
    dropped = np.abs(coefficients[:, :, ~KEPT]).sum(axis=-1).max(axis=0)
    means = coefficients[:, :, :, :1].mean(axis=0)
    off = np.concatenate([coefficients[:, :, :, :1] - means, coefficients[:, :, :, 1:]], axis=3)
    unsteady = np.abs(off).sum(axis=(2, 3, 4)).max(axis=0)
    is_steady = unsteady <= _STEADY
    steady = np.where(is_steady, np.cumsum(is_steady) - 1, OPEN)
    flat = from_chebyshev(from_chebyshev(means[is_steady, :, 0], 1), 2)
    coefficients = coefficients * KEPT
    for direction in (2, 3, 4):
        coefficients = from_chebyshev(coefficients, direction)
    rows = axis.pieces * len(planes)
    low, high = coefficients[:, :, LOW, :HALF], coefficients[:, :, HIGH, HALF:]
    return Packed(
        np.hstack([low.reshape((rows, LOW.sum() * HALF)), high.reshape((rows, HIGH.sum() * HALF))]),
        flat.reshape((-1, PLANE)),
        steady,
        float(np.where(is_steady, unsteady, dropped).max(initial=0.0)),
    )

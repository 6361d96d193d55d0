"""Own predictions for millions of players: E[ψ(u) | r, y] by table, with a bound on the table's error.

What is proved and what is verified. The regions below are where the tabulated function is analytic, so polynomials on
cells converge geometrically. In the scale of the peer noise the table interpolates ψ itself: an expectation of ψ is off
by no more than ψ is, whatever the posterior, and the interpolant multiplies errors at its nodes by at most its Lebesgue
constant; both are proved, and so is the bound on the terms dropped from the polynomials. The errors that enter there
are verified: the distance of each cell from direct quadrature, on a grid between the nodes where an interpolation error
is largest, and that of ψ from its interpolant, on such a grid too. `error` doubles what was measured, for what lies
between the points of the grid. Reports in cells that could not be verified are answered by direct quadrature.

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
when that is clipped. `coordinates` is the inverse map.

The square is cut into 4 × 4 roots, and each root into kx × ky equal cells (powers of two, its own). On a cell each
function is the polynomial of degree 7 in each coordinate through its values at 8 × 8 Chebyshev nodes. An interpolation
error looks like c·T₈ in the coordinate that causes it, so it is measured on the 9 × 9 grid where |T₈| = 1, between the
nodes and on the cell's border. A root whose error is above what is wanted is cut again, across the coordinate whose
Chebyshev coefficients have not died out; one that stays above it is left open. A root that was cut is checked first
where it was worst, and as a whole only once it is good enough there.

Players are looked up by loops over a block of them without branches or calls, so that they vectorise: two or three
nanoseconds a player for each of region, cell and piece of the scale axis. They round as written, so that a vectorised
loop and its last few turns give the same bits, and nobody's result depends on the rest of the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
from truthful.beliefs.posterior import Laws, Support
from truthful.check import Floats
from truthful.errors import InputError
from truthful.lazily import njit

#: The four regions of reports; the root of the number of roots in each; and the number of powers of each coordinate.
WHOLE, UPPER, SHORT, MIDDLE = range(4)
ROOTS, ORDER, SCALE_ORDER = 4, 8, 8
#: The largest a + k of a product x^a s^k that is kept: Chebyshev coefficients of smooth functions decay with degree.
DEGREE = 9
KEPT = np.add.outer(np.arange(ORDER), np.arange(SCALE_ORDER)) <= DEGREE
#: The number of coefficients of a cell, for one scale and for a piece of the scale axis.
PLANE, WEDGE = ORDER**2, ORDER * int(KEPT.sum())
#: Marks a place without a cell: players there are left to direct quadrature.
OPEN = -1

# A block of players that fits the nearest caches.
_BLOCK = 1024
_EXPONENT, _MANTISSA, _ONE = 52, (1 << 52) - 1, 1023 << 52

# Cells of a root: many, and too many. A square may cost this many points, and function values at them.
_MANY_CELLS, _MOST_CELLS = 16, 1024
_MOST_POINTS = 400_000
_MOST_VALUES = 24_000_000
_POINTS = ORDER**2 + (ORDER + 1) ** 2  # of a cell: where it is fitted and where it is measured

Function = Callable[[Floats, Floats], Floats]
Integers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Limits = tuple[float, float, float, float, float, float]

each = njit(error_model="numpy")
# The polynomials of one player may use fused multiply-adds: every player takes the same path through them.
_fused = njit(error_model="numpy", fastmath={"contract"})


@dataclass(frozen=True)
class Region:
    """One of the four regions, as the map from the unit square to supports."""

    kind: int
    radius: float
    bound: float

    def support(self, X: Floats, Y: Floats) -> Support:
        """The support of players at (X, Y). Angles come from the coordinates, not from r and y: exact at r = 0 and the
        edge.
        """
        R, M = self.radius, self.bound
        if self.kind in (WHOLE, UPPER):
            r = min(1.0, M / R) * X
            if self.kind == UPPER:
                return self._above(r, Y, np.ones_like(r))
            return Support(r, Y * np.maximum(0.0, M - r * R), np.zeros_like(r), np.full_like(r, np.pi))
        x = np.sqrt(R - M) / (np.sqrt(R - M) + np.sqrt(M)) * X
        kappa = (1 - x) ** 2 / (x**2 + (1 - x) ** 2)
        r, root = M / (kappa * R), np.sqrt(1 - kappa)
        if self.kind == SHORT:
            least = root / (root + 1)
            return self._above(r, least + (1 - least) * Y, kappa)
        low = 2 * np.arcsin(root * Y / np.sqrt(2))
        high = np.pi - 2 * np.arcsin(root * np.sqrt((2 - Y**2) / 2))
        return Support(r, r * R * root**2 * (1 - Y**2), low, high)

    def _above(self, r: Floats, omega: Floats, kappa: Floats) -> Support:
        # a = R cos t with tan(t/2) = √((R - a)/(R + a)) = √κ (1 - ω)/ω.
        high = np.maximum(2 * np.arctan2(np.sqrt(kappa) * (1 - omega), omega), 1e-100)
        return Support(r, self.bound + r * self.radius * np.cos(high), np.zeros_like(r), high)


def regions(laws: Laws) -> tuple[Region, ...]:
    """All regions that contain reports with ‖x‖ ≤ 1."""
    R, M = laws.prior.radius, laws.noise.bound
    kinds = (WHOLE, UPPER, SHORT, MIDDLE) if R > M else (WHOLE, UPPER)
    return tuple(Region(kind, R, M) for kind in kinds)


@dataclass(frozen=True)
class TableCells:
    """One or more functions (columns) on the unit square.

    Root (i, j), in row i·ROOTS + j of `roots`, has (first, kx, ky): its cells are the rows first + a·ky + b of
    `coefficients`, whose axes are cell, power of x, power of y and column, with x and y in [-1, 1] across the cell.
    `first` is OPEN where the tolerance was not reached. `error` is the largest error measured elsewhere.
    """

    roots: Integers
    coefficients: Floats
    error: float


def left_open(columns: int) -> TableCells:
    """A table without cells."""
    return TableCells(np.full((ROOTS**2, 3), OPEN, dtype=np.int64), np.empty((0, ORDER, ORDER, columns)), 0.0)


def fit(function: Function, columns: int, tolerance: float, enough: float) -> TableCells:
    """Fit cells to function(X, Y), which maps points (n,) of the square to values (n, columns).

    A root that needs more than 16 cells, which are costly, need not reach `tolerance` if it reaches `enough`.
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
    """A root of kx × ky cells, and the point of the square where its error was largest with fewer cells."""

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
        """The centre and half-widths of the cell at that point."""
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
    """The roots that are good enough in these boxes, with their polynomials and error; and the others, cut."""
    every = np.concatenate(boxes)
    values, points = _sample(function, every, chebyshev_nodes(ORDER)), chebyshev_extrema(ORDER)
    polynomials = monomials(monomials(values, axis=1), axis=2)
    powers = np.vander(points, ORDER, increasing=True)
    # As Horner's rule will evaluate it.
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
    """The root with twice the cells along each coordinate whose last two coefficients are not small; or nothing."""
    coefficients = np.abs(chebyshev_coefficients(chebyshev_coefficients(values, axis=1), axis=2))
    tail_x, tail_y = coefficients[:, -2:].max(), coefficients[:, :, -2:].max()
    kx = root.kx * (2 if tail_x > 0.3 * tail_y else 1)
    ky = root.ky * (2 if tail_y > 0.3 * tail_x else 1)
    return [_Root(root.number, kx, ky, x, y)] if kx * ky <= _MOST_CELLS else []


def _affordable(roots: list[_Root], points: int) -> list[_Root]:
    """The roots, those with the fewest cells first, up to this number of points in total."""
    roots = sorted(roots, key=lambda root: root.cells)
    costs = _POINTS * np.cumsum([root.cells for root in roots])
    return roots[: int(np.searchsorted(costs, points, "right"))]


def _sample(function: Function, boxes: Floats, points: Floats) -> Floats:
    """Values on the tensor grid of points in every box: axes box, x, y, column."""
    shape = (len(boxes), len(points), len(points))
    X = np.broadcast_to((boxes[:, :1] + boxes[:, 2:3] * points)[:, :, None], shape)
    Y = np.broadcast_to((boxes[:, 1:2] + boxes[:, 3:] * points)[:, None, :], shape)
    return function(X.ravel(), Y.ravel()).reshape((*shape, -1))


_SAFETY = 2.0
# For one scale, 1e-10 costs no extra time.
_ONE_SCALE_TOLERANCE, _CELL_TOLERANCE = 4e-11, 1e-10
_QUADRATURE = 1e-11
# The promised error; and the part of it, from dropped powers, that more pieces would hardly lower.
_PROMISED, _DROPPED = 1e-9, 1e-10

# Numbers of pieces of the scale axis to try, and nodes of each. Narrow ranges are one piece with fewer nodes.
_PIECES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
_FEWER = (3, 4, 6)
_SCALE_TOLERANCE = 1.5e-10

# Scales this close, relatively, to a fixed one count as equal to it: |dψ/d log s| ≤ E[|e| 1{|m + e| ≤ R}] ≤ 2R.
_CLOSE = 1e-12

# ψ at a list of scales: the degree of its polynomials and one more, and their error.
_CURVE_ORDER = 12
_CURVE_TOLERANCE = 1e-13
_MOST_CURVE_CELLS = 8192


@dataclass(frozen=True)
class PredictionTable:
    """q = r E[ψ(u) | r, y] for r ≤ 1 and scales in the table's range, within `error`.

    Other arguments go to direct quadrature, at microseconds per player instead of some ten nanoseconds.
    """

    laws: Laws
    curve: Curve
    axis: ScaleAxis
    roots: Integers
    coefficients: Floats
    """A row for each piece of the scale axis and cell: the powers of x, for each those of s, for each those of y."""
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
        R, M, axis = self.laws.prior.radius, self.laws.noise.bound, self.axis
        limits = (R, M, axis.lowest, axis.highest, axis.origin, axis.step)
        if evaluate(lengths, reports, scales, out, limits, axis.pieces, self.roots, self.coefficients):
            self._fill(lengths, reports, np.broadcast_to(scales, lengths.shape), out)
        return out

    def _fill(self, r: Floats, y: Floats, scale: Floats, out: Floats) -> None:
        """Compute by direct quadrature where the kernel left NaN."""
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

    For R above 8 the bound is 9e-10 + 1.2e-11 R, as direct quadrature has its error too. Curves that do not depend on
    the scale ignore the range. If the noise density is not smooth, nothing is tabulated.
    """
    R, high = laws.prior.radius, scale_low if scale_high is None else scale_high
    axis = scale_axis(curve, R, scale_low, high)
    table, dropped = _table_on(laws, curve, axis)
    while table.error > _PROMISED and dropped > _DROPPED:
        axis = scale_axis(curve, R, scale_low, high, least_pieces=2 * axis.pieces)
        table, dropped = _table_on(laws, curve, axis)
    return table


def _table_on(laws: Laws, curve: Curve, axis: ScaleAxis) -> tuple[PredictionTable, float]:
    """The table on one scale axis, and the part of its error that more pieces would reduce."""
    R = laws.prior.radius
    sampled = SampledCurve(curve, R, axis.nodes) if curve.needs_scale else None
    found = [_fit_region(laws, sampled or curve, axis, region) for region in regions(laws)]
    starts = np.repeat(np.cumsum([0, *(len(cells.coefficients) for cells in found[:-1])]), ROOTS**2)
    roots = np.concatenate([cells.roots for cells in found])
    roots[:, 0] += np.where(roots[:, 0] == OPEN, 0, starts)
    coefficients, dropped = _pack(np.concatenate([cells.coefficients for cells in found]), axis)
    at_nodes = max(cells.error for cells in found) + (sampled.error if sampled else 0.0)
    error = _SAFETY * (axis.error + axis.lebesgue * at_nodes) + dropped + _QUADRATURE * R
    return PredictionTable(laws, curve, axis, roots, coefficients, error), dropped


def _pack(planes: Floats, axis: ScaleAxis) -> tuple[Floats, float]:
    """A table's coefficients, and a bound on the error from dropped powers."""
    if axis.order == 1:
        return planes.reshape((-1, PLANE)), 0.0
    powers = np.vander(chebyshev_nodes(ORDER), ORDER, increasing=True)
    values = times(powers, times(powers, planes, 1), 2)
    # From (cell, x, y, piece, s) to (piece, cell, x, s, y).
    values = np.transpose(values.reshape((*values.shape[:3], axis.pieces, axis.order)), (3, 0, 1, 4, 2))
    for direction in (2, 3, 4):
        values = chebyshev_coefficients(values, direction)
    values = np.pad(values, ((0, 0), (0, 0), (0, 0), (0, SCALE_ORDER - axis.order), (0, 0)))
    dropped = float(np.abs(values[:, :, ~KEPT]).sum(axis=(2, 3)).max(initial=0.0))
    values = values * KEPT[:, :, None]
    for direction in (2, 3, 4):
        values = from_chebyshev(values, direction)
    return values[:, :, KEPT].reshape((axis.pieces * len(planes), WEDGE)), dropped


def _fit_region(laws: Laws, curve: Curve, axis: ScaleAxis, region: Region) -> TableCells:
    def function(X: Floats, Y: Floats) -> Floats:
        return posterior.mean_on(laws, region.support(X, Y), curve, axis.nodes[None, :])

    columns, tolerance = len(axis.nodes), _ONE_SCALE_TOLERANCE if axis.order == 1 else _CELL_TOLERANCE
    return fit(function, columns, tolerance, _CELL_TOLERANCE) if laws.noise.smooth else left_open(columns)


# The scale of the peer noise as a coordinate: pieces of log s, interpolated at Chebyshev nodes


@dataclass(frozen=True)
class ScaleAxis:
    """`pieces` equal pieces of [log low, log high], each with `order` Chebyshev nodes.

    The axis covers scales in [lowest, highest]; (log s - origin) · step gives the piece of s and the place in it.
    `error` is the largest measured interpolation error of ψ over u and s.
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
        """The bound on how much errors at the nodes of a piece are multiplied (Rivlin, Chebyshev polynomials, 1.3)."""
        return 1 + 2 / math.pi * math.log(self.order)


def scale_axis(curve: Curve, radius: float, low: float, high: float, least_pieces: int = 1) -> ScaleAxis:
    """The cheapest axis, with at least this many pieces, interpolating ψ to 1.5e-10 over |u| ≤ R and [low, high]."""
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
    for pieces, order in [(1, few) for few in _FEWER] + [(several, SCALE_ORDER) for several in _PIECES]:
        if pieces < least_pieces:
            continue
        axis = _axis(curve, radius, low, high, pieces, order)
        if axis.error <= _SCALE_TOLERANCE:
            return axis
    raise InputError(
        f"Peer noise scales from {low} to {high} span too wide a range for one table; the table would not be exact "
        f"to 1e-9. Narrow the range."
    )


def _axis(curve: Curve, radius: float, low: float, high: float, pieces: int, order: int) -> ScaleAxis:
    step = pieces / math.log(high / low)
    middles = np.arange(pieces)[:, None] + 0.5

    def scales(x: Floats) -> Floats:
        return low * np.exp((middles + x / 2) / step)

    nodes = scales(chebyshev_nodes(order))
    # Clipping sets in near u = R, in a layer as thin as the noise: points cluster there quadratically.
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
    measured where the interpolation error is largest, is below 1e-13 R or no longer falls; `error` holds it.
    """

    needs_scale = True

    def __init__(self, curve: Curve, radius: float, scales: Floats) -> None:
        self.radius = radius
        self.scales = scales
        cells, self.error = 16, np.inf
        while cells <= _MOST_CURVE_CELLS and not self.error <= _CURVE_TOLERANCE * radius:
            self._coefficients, self.error = _fit_curve(curve, radius, scales, cells)
            cells *= 2

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        flat = np.ascontiguousarray(u).ravel()
        out = _evaluate_curve(flat, self.radius, self._coefficients)
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


@_fused
def _evaluate_curve(u: Floats, radius: float, coefficients: Floats) -> Floats:
    cells, _, scales = coefficients.shape
    out = np.empty((len(u), scales))
    for i in range(len(u)):
        h = cells * np.sqrt(max(0.0, 1 - abs(u[i]) / radius))
        cell = min(int(h), cells - 1)
        x = 2 * (h - cell) - 1
        sign = -1.0 if u[i] < 0 else 1.0
        w = coefficients[cell]
        # Horner's rule, unrolled: a loop over the degrees would keep its sums in memory.
        for s in range(scales):
            high = ((w[11, s] * x + w[10, s]) * x + w[9, s]) * x + w[8, s]
            middle = (((high * x + w[7, s]) * x + w[6, s]) * x + w[5, s]) * x + w[4, s]
            out[i, s] = sign * ((((middle * x + w[3, s]) * x + w[2, s]) * x + w[1, s]) * x + w[0, s])
    return out


# From players to their places in the table, and through the polynomials there


@each
def coordinates(
    r: Floats,
    y: Floats,
    R: float,
    M: float,
    region: Rows,
    X: Floats,
    Y: Floats,
    under_x: Floats,
    under_y: Floats,
) -> None:
    """Region and coordinates in the unit square, X / under_x and Y / under_y: the inverse of Region.support.

    Numerators and denominators are kept apart, as a division here would be done once per region. In `upper` the
    smallest ω is 0, which makes it a case of `short`. Players with r outside [0, 1] or y not finite get arbitrary
    values.
    """
    per_r, root_M, per_M = 1 / min(1.0, M / R), math.sqrt(M), 1 / math.sqrt(M)
    per_x = 1 + root_M / math.sqrt(max(R - M, 1e-300))
    for i in range(len(r)):
        reach, size = r[i] * R, abs(y[i])
        over = reach - M
        outside, near = over > 0, size <= abs(over)
        depth = math.sqrt(max(over, 0.0))
        stretch = math.sqrt(reach) if outside else 1.0
        edge = math.sqrt(max(over - size if near & outside else over + size, 0.0))
        above = math.sqrt(max(reach + M - size, 0.0)) * (stretch * per_M if outside else 1.0)
        X[i] = depth * per_x if outside else r[i] * per_r
        under_x[i] = depth + root_M if outside else 1.0
        Y[i] = (edge if outside else size) if near else edge * stretch - depth * above
        under_y[i] = (depth if outside else -over) if near else (edge + above) * stretch
        region[i] = (MIDDLE if near else SHORT) if outside else (WHOLE if near else UPPER)


@each
def roots_of(
    r: Floats, y: Floats, nowhere: int, row: Rows, X: Floats, Y: Floats, under_x: Floats, under_y: Floats
) -> None:
    """From the region to the root in it, X and Y the place in the root, in [0, 1]; `nowhere` if r or y is out of range.

    Only at r = M/R, y = 0 are both the numerator and the denominator of Y zero.
    """
    for i in range(len(r)):
        known = (r[i] >= 0) & (r[i] <= 1) & (abs(y[i]) < np.inf)
        ratio = Y[i] / under_y[i]
        x = ROOTS * min(X[i] / under_x[i], 1.0)
        y_ = ROOTS * min(max(ratio if under_y[i] > 0 else 0.0, 0.0), 1.0)
        a, b = min(math.floor(x), ROOTS - 1.0), min(math.floor(y_), ROOTS - 1.0)
        X[i], Y[i] = x - a if known else 0.0, y_ - b if known else 0.0
        row[i] = row[i] * ROOTS**2 + np.int32(ROOTS * a + b) if known else nowhere


@each
def cells_of(row: Rows, X: Floats, Y: Floats, roots: Floats, kx: Floats, ky: Floats, first: Floats) -> None:
    """From the root to the cell, or OPEN; X and Y become the place in the cell, in [-1, 1]."""
    for i in range(len(row)):
        root = np.uint32(row[i])
        first[i], kx[i], ky[i] = roots[0, root], roots[1, root], roots[2, root]
    for i in range(len(row)):
        x, y = X[i] * kx[i], Y[i] * ky[i]
        a, b = min(math.floor(x), kx[i] - 1), min(math.floor(y), ky[i] - 1)
        X[i], Y[i] = 2 * (x - a) - 1, 2 * (y - b) - 1
        row[i] = np.int32(first[i] + (a * ky[i] + b) if first[i] != OPEN else OPEN)


@each
def known_scales(scale: Floats, lowest: float, highest: float, row: Rows) -> None:
    """Set OPEN where the table does not cover the scale."""
    for i in range(len(row)):
        row[i] = row[i] if (lowest <= scale[i]) & (scale[i] <= highest) else OPEN


@each
def pieces_of(scale: Floats, origin: float, step: float, pieces: int, cells: int, row: Rows) -> None:
    """From the cell to its row in the piece of the scale axis; `scale` becomes the place in the piece.

    With s = 2^k m and z = (m - √2)/(m + √2), |z| < 0.172, log s = (k + 1/2) log 2 + 2 artanh z: to 2e-14 by its series.
    """
    half, root = math.log(2.0) / 2, math.sqrt(2.0)
    for i in range(len(row)):
        known = row[i] >= 0
        bits = np.float64(scale[i]).view(np.int64)
        m = np.int64((bits & _MANTISSA) | _ONE).view(np.float64)
        z = (m - root) / (m + root)
        w = z * z
        series = (
            (((((w / 15 + 1 / 13) * w + 1 / 11) * w + 1 / 9) * w + 1 / 7) * w + 1 / 5) * w + 1 / 3
        ) * w + 1
        log = half * (2 * ((bits >> _EXPONENT) - 1023) + 1) + 2 * z * series
        t = (log - origin) * step if known else 0.0
        piece = min(max(math.floor(t), 0.0), pieces - 1.0)
        scale[i] = 2 * (t - piece) - 1
        row[i] = row[i] + np.int32(piece) * cells if known else OPEN


@_fused
def _in_y(v: Floats, y: float) -> float:
    """Σ v[b] y^b, by Estrin's rule."""
    y2 = y * y
    low = (v[0] + v[1] * y) + (v[2] + v[3] * y) * y2
    return float(low + ((v[4] + v[5] * y) + (v[6] + v[7] * y) * y2) * (y2 * y2))


@_fused
def _one_scale(row: Rows, X: Floats, Y: Floats, coefficients: Floats, mean: Floats) -> None:
    """Σ w[a, b] x^a y^b, by Horner's rule in x for all b at once: the loop over b vectorises.

    It does so only if its length is unknown at compile time; else it would be unrolled to single numbers.
    """
    v = np.empty(ORDER)
    lanes = ORDER * (coefficients.shape[1] // PLANE)
    for i in range(len(row)):
        if row[i] >= 0:
            w, x = coefficients[np.uint32(row[i])], X[i]
            for b in range(lanes):
                high = ((w[56 + b] * x + w[48 + b]) * x + w[40 + b]) * x + w[32 + b]
                v[b] = (((high * x + w[24 + b]) * x + w[16 + b]) * x + w[8 + b]) * x + w[b]
            mean[i] = _in_y(v, Y[i])


@_fused
def _many_scales(row: Rows, X: Floats, Y: Floats, S: Floats, coefficients: Floats, mean: Floats) -> None:
    """Σ w[a, k, b] x^a s^k y^b over the powers kept, in the same way."""
    v = np.empty(ORDER)
    lanes = ORDER * (coefficients.shape[1] // WEDGE)
    for i in range(len(row)):
        if row[i] >= 0:
            w, x, s = coefficients[np.uint32(row[i])], X[i], S[i]
            for b in range(lanes):
                total, at = 0.0, WEDGE
                for a in range(ORDER - 1, -1, -1):
                    part = 0.0
                    for _ in range(min(SCALE_ORDER, DEGREE + 1 - a)):
                        at -= ORDER
                        part = part * s + w[at + b]
                    total = total * x + part
                v[b] = total
            mean[i] = _in_y(v, Y[i])


@each
def _finish(r: Floats, y: Floats, row: Rows, mean: Floats, out: Floats) -> int:
    """q = ±r E[ψ(u)], 0 where r = 0, NaN where there is no answer; returns the number of NaN."""
    left = 0
    for i in range(len(row)):
        nothing = (r[i] == 0) & (abs(y[i]) < np.inf)
        q = math.copysign(r[i], y[i]) * mean[i] if row[i] >= 0 else math.nan
        out[i] = 0.0 if nothing else q
        left += 1 if (row[i] < 0) & (not nothing) else 0
    return left


@each
def evaluate(
    r: Floats,
    y: Floats,
    scale: Floats,
    out: Floats,
    limits: Limits,
    pieces: int,
    roots: Integers,
    coefficients: Floats,
) -> int:
    """Write every player's q into `out`, NaN where the table has no answer; return the number of NaN.

    `scale` has one entry for each player, or one for all. `limits` are R, M and the scale axis's lowest, highest,
    origin and step; roots and coefficients are a table's.
    """
    R, M, lowest, highest, origin, step = limits
    columns = np.ones((3, len(roots) + 1))  # by column, and one more root at the end that is OPEN
    for root in range(len(roots)):  # a loop compiles faster than a copy of the array
        for column in range(3):
            columns[column, root] = roots[root, column]
    columns[0, -1] = OPEN
    block = max(1, min(len(r), _BLOCK))
    rows, scratch = np.empty(block, np.int32), np.empty((6, block))
    left = 0
    for start in range(0, len(r), block):
        end = min(start + block, len(r))
        n = end - start
        row, X, Y, S = rows[:n], scratch[0, :n], scratch[1, :n], scratch[2, :n]
        A, B, mean = scratch[3, :n], scratch[4, :n], scratch[5, :n]
        for i in range(n):
            S[i] = scale[start + i] if len(scale) == len(r) else scale[0]
        coordinates(r[start:end], y[start:end], R, M, row, X, Y, A, B)
        roots_of(r[start:end], y[start:end], len(roots), row, X, Y, A, B)
        cells_of(row, X, Y, columns, A, B, mean)
        known_scales(S, lowest, highest, row)
        if coefficients.shape[1] == PLANE:
            _one_scale(row, X, Y, coefficients, mean)
        else:
            pieces_of(S, origin, step, pieces, len(coefficients) // pieces, row)
            _many_scales(row, X, Y, S, coefficients, mean)
        left += _finish(r[start:end], y[start:end], row, mean, out[start:end])
    return left

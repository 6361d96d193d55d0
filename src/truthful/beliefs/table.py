"""Own predictions for millions of players: E[ψ(u) | r, y] by table, with a bound on the table's error.

What is proved and what is verified. The regions of beliefs.regions are where the tabulated function is analytic, so
polynomials on cells converge geometrically. In the scale of the peer noise the table interpolates ψ itself: an
expectation of ψ is off by no more than ψ is, whatever the posterior, and the interpolant multiplies errors at its
nodes by at most its Lebesgue constant; both are proved, and so is the bound on what beliefs.packed leaves out. The
errors that enter there are verified: the distance of each cell from direct quadrature, on a grid between the nodes
where an interpolation error is largest, and that of ψ from its interpolant, on such a grid too. `error` doubles what
was measured, for what lies between the points of the grid. Reports in cells that could not be verified are answered by
direct quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from truthful.beliefs import posterior
from truthful.beliefs.cells import OPEN, Cells, Integers, fit, left_open
from truthful.beliefs.curves import Curve
from truthful.beliefs.lookup import Limits, evaluate
from truthful.beliefs.packed import packed
from truthful.beliefs.posterior import Laws
from truthful.beliefs.regions import Region, regions
from truthful.beliefs.sampled import SampledCurve
from truthful.beliefs.scales import ScaleAxis, scale_axis, two_scales
from truthful.check import Floats
from truthful.errors import InputError

_SAFETY = 2.0
# One scale is exact to 1e-10 at no cost in time.
_ONE_SCALE_TOLERANCE, _CELL_TOLERANCE = 4e-11, 1e-10
_QUADRATURE = 1e-11
_DROPPED = 2e-10


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
        if evaluate(lengths, reports, scales, out, *self.arguments):
            self._fill(lengths, reports, np.broadcast_to(scales, lengths.shape), out)
        return out

    @cached_property
    def arguments(self) -> tuple[Limits, int, Integers, Floats, Floats, Integers]:
        """What `evaluate` is told of the table: for loops that call it themselves."""
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
    found = [_fit(laws, sampled or curve, axis, region) for region in regions(laws)]
    starts = np.cumsum([0, *(len(cells.coefficients) for cells in found)])
    roots = np.concatenate(
        [_shifted(cells, int(start)) for cells, start in zip(found, starts[:-1], strict=True)]
    )
    polynomials = packed(np.concatenate([cells.coefficients for cells in found]), axis)
    dropped = polynomials.dropped
    at_nodes = max(cells.error for cells in found) + (sampled.error if sampled else 0.0)
    error = _SAFETY * (axis.error + axis.lebesgue * at_nodes) + dropped + _QUADRATURE * R
    return PredictionTable(laws, curve, axis, roots, *polynomials[:3], error), dropped


def _fit(laws: Laws, curve: Curve, axis: ScaleAxis, region: Region) -> Cells:
    def function(X: Floats, Y: Floats) -> Floats:
        return posterior.mean_on(laws, region.support(X, Y), curve, axis.nodes[None, :])

    columns, tolerance = len(axis.nodes), _ONE_SCALE_TOLERANCE if axis.order == 1 else _CELL_TOLERANCE
    return fit(function, columns, tolerance, _CELL_TOLERANCE) if laws.noise.smooth else left_open(columns)


def _shifted(cells: Cells, start: int) -> Integers:
    roots = cells.roots.copy()
    roots[roots[:, 0] != OPEN, 0] += start
    return roots

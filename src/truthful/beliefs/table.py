"""Own predictions for millions of players: E[ψ(u) | r, y] by table, with a bound on the table's error.

What is proved and what is verified. The regions of beliefs.regions are where the tabulated function is analytic, so
polynomials on cells converge geometrically. In the scale of the peer noise the table interpolates ψ itself: an
expectation of ψ is off by no more than ψ is, whatever the posterior, and the interpolant multiplies errors at its
nodes by at most its Lebesgue constant; both are proved. The errors that enter there are verified: the distance of each
cell from direct quadrature, on a grid between the nodes where an interpolation error is largest, and that of ψ from its
interpolant, on such a grid too. `error` doubles what was measured, for what lies between the points of the grid.
Reports in cells that could not be verified are answered by direct quadrature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.beliefs import posterior
from truthful.beliefs.cells import OPEN, ORDER, Cells, Integers, fit, left_open
from truthful.beliefs.curves import Curve
from truthful.beliefs.lookup import evaluate
from truthful.beliefs.polynomials import monomials
from truthful.beliefs.posterior import Laws
from truthful.beliefs.regions import Region, regions
from truthful.beliefs.sampled import SampledCurve
from truthful.beliefs.scales import ScaleAxis, scale_axis
from truthful.check import Floats
from truthful.errors import InputError

_SAFETY = 2.0
_CELL_TOLERANCE = 1e-10
_QUADRATURE = 1e-11


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
    error: float

    def __call__(self, r: Any, y: Any, scale: Any = 0.0) -> Floats:
        """q for one-dimensional arrays r = ‖x‖ and y; `scale` is one number or one per player."""
        arrays = np.broadcast_arrays(np.atleast_1d(r), y, scale)
        lengths, reports, scales = (np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
        out = np.empty(len(lengths))
        R, M = self.laws.prior.radius, self.laws.noise.bound
        axis = self.axis
        limits = (R, M, axis.lowest, axis.highest, axis.origin, axis.step)
        if evaluate(lengths, reports, scales, out, limits, axis.pieces, self.roots, self.coefficients):
            self._fill(lengths, reports, scales, out)
        return out

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
    """A table for peer noise scales in [scale_low, scale_high], with error at most 1e-9.

    Curves that do not depend on the scale ignore the range. If the noise density is not smooth nothing is tabulated.
    """
    R = laws.prior.radius
    axis = scale_axis(curve, R, scale_low, scale_low if scale_high is None else scale_high)
    sampled = SampledCurve(curve, R, axis.nodes) if curve.needs_scale else None
    found = [_fit(laws, sampled or curve, axis, region) for region in regions(laws)]
    starts = np.cumsum([0, *(len(cells.coefficients) for cells in found)])
    roots = np.concatenate(
        [_shifted(cells, int(start)) for cells, start in zip(found, starts[:-1], strict=True)]
    )
    planes = np.concatenate([cells.coefficients for cells in found])
    at_nodes = max(cells.error for cells in found) + (sampled.error if sampled else 0.0)
    error = _SAFETY * (axis.error + axis.lebesgue * at_nodes) + _QUADRATURE * R
    return PredictionTable(laws, curve, axis, roots, _rows(planes, axis), error)


def _fit(laws: Laws, curve: Curve, axis: ScaleAxis, region: Region) -> Cells:
    def function(X: Floats, Y: Floats) -> Floats:
        return posterior.mean_on(laws, region.support(X, Y), curve, axis.nodes[None, :])

    columns = len(axis.nodes)
    return fit(function, columns, _CELL_TOLERANCE) if laws.noise.smooth else left_open(columns)


def _shifted(cells: Cells, start: int) -> Integers:
    roots = cells.roots.copy()
    roots[roots[:, 0] != OPEN, 0] += start
    return roots


def _rows(planes: Floats, axis: ScaleAxis) -> Floats:
    """One row for each piece of the scale axis and cell: the powers of the scale, each with its plane of (x, y)."""
    values = planes.reshape((len(planes), ORDER**2, axis.pieces, axis.order))
    powers = np.moveaxis(monomials(values), (2, 3), (0, 2))
    return np.ascontiguousarray(powers).reshape((-1, axis.order * ORDER**2))

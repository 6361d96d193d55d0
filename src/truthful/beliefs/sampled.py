"""A peer curve at a fixed list of noise scales, for building tables: one pass over u gives every scale."""

from __future__ import annotations

import numba
import numpy as np

from truthful.beliefs.curves import Curve
from truthful.beliefs.polynomials import chebyshev_extrema, chebyshev_nodes, monomials
from truthful.check import Floats

_ORDER = 12
_TOLERANCE = 1e-13
_STRAIGHT = 2e-13
_MOST = 8192


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
        while cells <= _MOST and not self.error <= _TOLERANCE * radius:
            self._coefficients, self.error = _fit(curve, radius, scales, cells)
            cells *= 2
        self._slopes, self._straight = _line(curve, radius, scales, len(self._coefficients))
        self.error += _STRAIGHT * radius

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        flat = np.ascontiguousarray(u).ravel()
        out = _evaluate(flat, self.radius, self._coefficients, self._slopes, self._straight)
        return np.asarray(out).reshape((*u.shape[:-1], len(self.scales)))


def _fit(curve: Curve, radius: float, scales: Floats, cells: int) -> tuple[Floats, float]:
    """Coefficients (cell, degree, scale), and the largest error between the nodes."""
    middles = (np.arange(cells) + 0.5)[:, None]

    def values(x: Floats) -> Floats:
        h = (middles + x / 2) / cells
        return curve(radius * (1 - h**2)[:, :, None], scales)

    coefficients = monomials(values(chebyshev_nodes(_ORDER)), axis=1)
    x = chebyshev_extrema(_ORDER)
    fitted = np.einsum("xk,cks->cxs", np.vander(x, _ORDER, increasing=True), coefficients)
    return np.ascontiguousarray(coefficients), float(np.abs(fitted - values(x)).max())


def _line(curve: Curve, radius: float, scales: Floats, cells: int) -> tuple[Floats, int]:
    """The slope of ψ at every scale, and the first cell from which on ψ is that line, off by 2e-13 R at most."""
    middle = radius / 2
    slopes = np.ravel(curve(np.full((1, 1), middle), scales)) / middle
    nearest = np.arange(cells) / cells  # the end of each cell that is nearest the layer
    u = radius * (1 - nearest**2)[:, None]
    off = np.abs(curve(u, scales) - slopes * u).max(axis=1) > _STRAIGHT * radius
    return slopes, int(np.flatnonzero(off).max(initial=-1)) + 1


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _evaluate(u: Floats, radius: float, coefficients: Floats, slopes: Floats, straight: int) -> Floats:
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
        for s in range(
            scales
        ):  # Horner's rule, written out: a loop over the degrees would keep its sums in memory
            high = ((w[11, s] * x + w[10, s]) * x + w[9, s]) * x + w[8, s]
            middle = (((high * x + w[7, s]) * x + w[6, s]) * x + w[5, s]) * x + w[4, s]
            out[i, s] = sign * ((((middle * x + w[3, s]) * x + w[2, s]) * x + w[1, s]) * x + w[0, s])
    return out

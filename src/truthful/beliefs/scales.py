"""The scale of the peer noise as a coordinate of the table: pieces of log s, interpolated at Chebyshev nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truthful import check
from truthful.beliefs.curves import Curve
from truthful.beliefs.polynomials import chebyshev_extrema, chebyshev_nodes, monomials
from truthful.check import Floats
from truthful.errors import InputError

# Nodes a piece, where there is more than a single scale; and pieces. Narrow ranges are one piece that needs fewer.
SCALE_ORDER = 8
_CHOICES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
_FEWER = (3, 4, 6)
_TOLERANCE = 1.5e-10

# Scales this close, relatively, to a fixed one count as equal to it: |dψ/d log s| ≤ E[|e| 1{|m + e| ≤ R}] ≤ 2R.
_CLOSE = 1e-12


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
    fewer, pieces = [(1, order) for order in _FEWER], [(number, SCALE_ORDER) for number in _CHOICES]
    for number, order in [*fewer, *pieces] if least_pieces == 1 else pieces:
        axis = _axis(curve, radius, low, high, number, order)
        if axis.error <= _TOLERANCE and number >= least_pieces:
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

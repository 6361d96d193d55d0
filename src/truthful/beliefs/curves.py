"""The peer curve ψ: what a peer predicts on average, as a function of the truth.

Write u = θ·x/‖x‖. A player is scored against her peers' prediction x·peer, and ψ(u) is its expectation divided by
‖x‖ when the truth is u. Truth-telling is optimal exactly when her own prediction is ‖x‖ E[ψ(u) | x, y].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy import special

from truthful import check
from truthful.check import Floats
from truthful.compiled import compiled
from truthful.polynomials import chebyshev_nodes, monomials, piecewise


class Curve(Protocol):
    """ψ(u) for an array of u; `scale` (broadcast against u) is the scale of the peer noise along x."""

    @property
    def needs_scale(self) -> bool:
        """Whether ψ depends on the scale at all."""

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats: ...


@dataclass(frozen=True)
class Identity:
    """ψ(u) = u: peers are unbiased and not clipped. The paper's own prediction."""

    @property
    def needs_scale(self) -> bool:
        return False

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        return u


IDENTITY = Identity()


@dataclass(frozen=True)
class Shrunk:
    """ψ(u) = factor · u: peers are a ridge estimate that shrinks every direction alike."""

    factor: float

    def __post_init__(self) -> None:
        check.positive("factor", self.factor)

    @property
    def needs_scale(self) -> bool:
        return False

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        return self.factor * u


@dataclass(frozen=True)
class Clipped:
    """ψ(u) = E[clip(factor·u + e, -R, R)]: peer predictions are kept where the truth is.

    e is one coordinate of an L2-Laplace vector (density ∝ exp(-‖v‖/s)) in `dimension` dimensions. With F its
    distribution function at s = 1 and K(z) = ∫_0^z (F - 1/2), an even function,

        ψ(u) = s [K((R + m)/s) - K((R - m)/s)],   m = factor·u,

    because both sides vanish at m = 0 and have the derivative P(|m + e| ≤ R). Error below 1e-13 R.
    """

    radius: float
    dimension: int
    factor: float = 1.0

    def __post_init__(self) -> None:
        check.positive("radius", self.radius)
        check.integer("dimension", self.dimension)
        check.positive("factor", self.factor)

    @property
    def needs_scale(self) -> bool:
        return True

    def __call__(self, u: Floats, scale: Floats | float = 0.0) -> Floats:
        m, s = np.broadcast_arrays(self.factor * np.asarray(u, dtype=np.float64), scale)
        value = _clipped(
            np.ravel(m), np.ravel(s).astype(np.float64), self.radius, *antiderivative(self.dimension)
        )
        return np.asarray(value).reshape(m.shape)


# K is tabulated on half-octaves of z from 2^_LOW on: its only singularity, at z = 0, is then five half-widths away
# from the middle of each cell, and 16 Chebyshev coefficients leave a relative error near 1e-15.
_LOW = -24
_ORDER = 16


@lru_cache(maxsize=64)
def antiderivative(dimension: int) -> tuple[Floats, Floats]:
    """Coefficients of K(z)/z² on half-octaves, and (K(z)/z² at 0, E|e|/2): all that K needs."""
    top = math.ceil(math.log2(40 + 9 * math.sqrt(dimension + 1)))
    octaves = 2.0 ** np.arange(_LOW, top)
    centres = np.outer(octaves, [1.25, 1.75]).ravel()
    widths = np.repeat(octaves / 4, 2)
    z = centres[:, None] + widths[:, None] * chebyshev_nodes(_ORDER)
    coefficients = monomials(over_normals(z.ravel(), dimension, _normal_k).reshape(z.shape) / z**2)
    # Density at 0 and E|e| of the marginal law.
    ratio = math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)
    spread = (
        math.exp(math.lgamma(dimension / 2 + 1) - math.lgamma((dimension + 1) / 2)) * 2 / math.sqrt(math.pi)
    )
    return np.ascontiguousarray(coefficients), np.array([ratio / 4, spread / 2])


def over_normals(z: Floats, dimension: int, function: Callable[[Floats], Floats]) -> Floats:
    """E[√τ f(z/√τ)] with e = √τ Z, Z normal and τ/2 ~ Gamma((d+1)/2): what f of a normal law is of e's.

    The trapezoidal rule in log τ converges geometrically: the integrand is analytic in the strip |Im log τ| < π/2.
    """
    a = (dimension + 1) / 2
    end = math.log(2 * (a + 50 + 10 * math.sqrt(a)))
    tau = np.exp(np.arange(math.log(2 * a) - 42 / a - 9 / math.sqrt(a), end, min(0.2, 0.5 / math.sqrt(a))))
    log_weight = a * np.log(tau) - tau / 2
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(function(z[:, None] / np.sqrt(tau)) @ (np.sqrt(tau) * weight / weight.sum()))


def _normal_k(x: Floats) -> Floats:
    """K of the normal law: x erf(x/√2)/2 + (exp(-x²/2) - 1)/√(2π)."""
    return x * special.erf(x / math.sqrt(2)) / 2 + np.expm1(-(x**2) / 2) / math.sqrt(2 * math.pi)


def _clipped_in_numpy(m: Floats, s: Floats, radius: float, coefficients: Floats, ends: Floats) -> Floats:
    """`_clipped`, at half its speed."""
    table = np.ascontiguousarray(coefficients.T)

    def k(z: Floats) -> Floats:
        mantissa, exponent = np.frexp(z)
        upper = mantissa >= 0.75
        cell = 2 * (exponent.astype(np.intp) - 1 - _LOW) + upper
        inside = piecewise(table, cell, 8 * mantissa - 5 - 2.0 * upper) * z * z
        outside = np.where(z < 2.0**_LOW, ends[0] * z * z, z / 2 - ends[1])
        return np.where((cell >= 0) & (cell < len(coefficients)), inside, outside)

    with np.errstate(all="ignore"):
        value = s * (k(np.abs(radius + m) / s) - k(np.abs(radius - m) / s))
    return np.where(s > 0, value, np.clip(m, -radius, radius))


@compiled(few=False)
def _k(z: float, coefficients: Floats, ends: Floats) -> float:
    """K(|z|): by table, and beyond it by its two limits."""
    z = abs(z)
    if z < 2.0**_LOW:
        return float(ends[0] * z * z)
    mantissa, exponent = math.frexp(z)
    cell = 2 * (exponent - 1 - _LOW)
    if cell >= len(coefficients):
        return float(z / 2 - ends[1])
    x = 8 * mantissa - 5
    if mantissa >= 0.75:
        cell += 1
        x -= 2
    row = coefficients[cell]
    value = row[_ORDER - 1]
    for k in range(_ORDER - 2, -1, -1):
        value = value * x + row[k]
    return float(value * z * z)


@compiled(few=_clipped_in_numpy)
def _clipped(m: Floats, s: Floats, radius: float, coefficients: Floats, ends: Floats) -> Floats:
    out = np.empty_like(m)
    for i in range(len(m)):
        if s[i] > 0:
            difference = _k((radius + m[i]) / s[i], coefficients, ends) - _k(
                (radius - m[i]) / s[i], coefficients, ends
            )
            out[i] = s[i] * difference
        else:
            out[i] = min(max(m[i], -radius), radius)
    return out

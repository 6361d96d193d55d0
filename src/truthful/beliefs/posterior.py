"""The law of u = θ·x/‖x‖ given one report, by quadrature: the reference everything faster is checked against.

Given r = ‖x‖ and the report y, u has the density ∝ f(u) g(y - ru) on the interval where |u| ≤ R and |y - ru| ≤ M.
The substitution u = R cos t removes the endpoint singularity of the prior (f(u) du becomes sin^d t dt for the uniform
ball), and t, measured from the top of the ball, keeps its relative accuracy where the support shrinks to a point.
Everything is odd in y, so only y ≥ 0 is ever computed.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from truthful.beliefs.curves import Clipped, Curve
from truthful.beliefs.laws import Noise, Prior
from truthful.beliefs.quadrature import Expectation, Indices, LogWeight, expectation
from truthful.check import Floats

_CHUNK = 4096
_MANY = 4  # chunks, from which on they are shared among the processors

# Where the support is a single point its width is replaced by one that is nothing beside R, but not zero.
_POINT = 1e-100


class Laws(Protocol):
    """Whatever declares a dimension, a prior and a noise law."""

    @property
    def dimension(self) -> int: ...
    @property
    def prior(self) -> Prior: ...
    @property
    def noise(self) -> Noise: ...


@dataclass(frozen=True)
class Support:
    """The support of u, as angles 0 ≤ low ≤ t ≤ high ≤ π with u = R cos t, of players with r > 0 and y ≥ 0."""

    r: Floats
    y: Floats
    low: Floats
    high: Floats

    def of(self, part: slice) -> Support:
        return Support(self.r[part], self.y[part], self.low[part], self.high[part])


def support(laws: Laws, r: Floats, y: Floats) -> Support:
    """Reports beyond what the beliefs allow, y > Rr + M, are moved to that edge."""
    R, M = laws.prior.radius, laws.noise.bound
    y = np.minimum(y, R * r + M)
    # R - u at both ends, each in the form that does not cancel near the top of the ball.
    with np.errstate(over="ignore"):
        below = np.minimum((R * r + M - y) / r, 2 * R)
        above = np.maximum((R * r - M - y) / r, 0.0)
    low, high = (2 * np.arcsin(np.sqrt(gap / (2 * R))) for gap in (above, below))
    return Support(r, y, low, np.maximum(high, np.maximum(np.nextafter(low, 4.0), _POINT)))


def _log_weight(laws: Laws, where: Support) -> LogWeight:
    """log of the unnormalised posterior density of the angle t."""

    def value(owner: Indices, t: Floats) -> Floats:
        prior = laws.prior.log_weight(t, laws.dimension)
        return prior + laws.noise.log_density(_residual(laws, where, owner, t))

    return value


def _residual(laws: Laws, where: Support, owner: Indices, t: Floats) -> Floats:
    """The noise z = y - ru at u = R cos t, kept in [-M, M] against rounding."""
    M = laws.noise.bound
    return np.clip(where.y[owner, None] - where.r[owner, None] * (laws.prior.radius * np.cos(t)), -M, M)


def mean(laws: Laws, r: Floats, y: Floats, curve: Curve, scale: Floats) -> Floats:
    """E[ψ(u) | r, y] for arrays of one length, to 1e-11 R; 0 where r = 0, since q = r E[ψ(u)] does not ask there."""
    out = np.zeros(len(r))
    inside = np.flatnonzero(r > 0)
    where = support(laws, r[inside], np.abs(y[inside]))
    out[inside] = np.sign(y[inside]) * mean_on(laws, where, curve, scale[inside, None])[:, 0]
    return out


def mean_on(laws: Laws, where: Support, curve: Curve, scales: Floats) -> Floats:
    """E[ψ(u)] for every player (a row) and peer noise (a column); `scales` has a row for each player or one for all."""
    size = max(64, _CHUNK // scales.shape[1])
    scales = np.broadcast_to(scales, (len(where.r), scales.shape[1]))
    parts = [slice(start, start + size) for start in range(0, len(scales), size)]

    def means(part: slice) -> Floats:
        return _mean(laws, where.of(part), curve, scales[part]).value

    if len(parts) < _MANY:
        return np.concatenate([np.empty((0, scales.shape[1])), *map(means, parts)])
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return np.concatenate(list(pool.map(means, parts)))


def slope(laws: Laws, r: Floats, y: Floats, curve: Curve, scale: Floats) -> Floats:
    """∂q/∂y for arrays of one length; 0 where r = 0 and beyond the edge, where q no longer moves.

    With a, b the ends of the support and m = E[ψ(u) | r, y], differentiating q = r ∫ψfg/∫fg under the integral gives

        ∂q/∂y = r E[(ψ(u) - m) (log g)'(y - ru)] + [(ψ(b) - m) f(b) 1{b < R} - (ψ(a) - m) f(a) 1{a > -R}] g(M) / ∫fg,

    the second term because g jumps to zero at ±M. Within 1e-8 R of the edge its value there is given.
    """
    R, M = laws.prior.radius, laws.noise.bound
    out = np.zeros(len(r))
    inside = np.flatnonzero((r > 0) & (np.abs(y) <= R * r + M))
    for start in range(0, len(inside), _CHUNK):
        chosen = inside[start : start + _CHUNK]
        rs, ys = r[chosen], np.abs(y[chosen])
        where = support(laws, rs, np.minimum(ys, R * rs * (1 - 1e-8) + M))
        out[chosen] = _slope(laws, where, curve, scale[chosen])
    return out


def _mean(laws: Laws, where: Support, curve: Curve, scales: Floats) -> Expectation:
    R = laws.prior.radius

    def integrand(owner: Indices, t: Floats) -> Floats:
        return curve((R * np.cos(t))[:, :, None], scales[owner, None, :])

    return expectation(where.low, where.high, _log_weight(laws, where), integrand, R, _corners(laws, curve))


def _corners(laws: Laws, curve: Curve) -> tuple[float, ...]:
    """The angles at which a curve that is clipped inside the ball has its corners."""
    if not isinstance(curve, Clipped) or not curve.radius < curve.factor * laws.prior.radius:
        return ()
    c = curve.radius / (curve.factor * laws.prior.radius)
    return math.acos(c), math.acos(-c)


def _slope(laws: Laws, where: Support, curve: Curve, scale: Floats) -> Floats:
    R, M, noise = laws.prior.radius, laws.noise.bound, laws.noise
    log_weight = _log_weight(laws, where)
    centre = _mean(laws, where, curve, scale[:, None])
    m = centre.value[:, 0]

    def tilt(owner: Indices, t: Floats) -> Floats:
        score = noise.score(_residual(laws, where, owner, t))
        return ((curve(R * np.cos(t), scale[owner, None]) - m[owner, None]) * score)[:, :, None]

    def jump(t: Floats) -> Floats:
        t = np.clip(t, _POINT, np.pi - 1e-9)
        logs = log_weight(np.arange(len(t)), t[:, None])[:, 0] - centre.peak
        return (curve(R * np.cos(t), scale) - m) * np.exp(logs) / (np.sin(t) * R * centre.mass)

    unit = R * max(1 / M, float(np.abs(noise.score(np.array([M])))[0]))
    cuts = _corners(laws, curve)
    inner = where.r * expectation(where.low, where.high, log_weight, tilt, unit, cuts).value[:, 0]
    return (
        inner
        + np.where(where.low > 0, jump(where.low), 0.0)
        - np.where(where.high < np.pi, jump(where.high), 0.0)
    )

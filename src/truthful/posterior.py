"""The law of u = θ·x/‖x‖ given one report, by quadrature: the reference everything faster is checked against.

Given r = ‖x‖ and the report y, u has the density ∝ f(u) g(y - ru) on the interval where |u| ≤ R and |y - ru| ≤ M.
The substitution u = R cos t removes the endpoint singularity of the prior (f(u) du becomes sin^d t dt for the uniform
ball), and t, measured from the top of the ball, keeps its relative accuracy where the support shrinks to a point.
Everything is odd in y, so only y ≥ 0 is ever computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.curves import Curve
from truthful.laws import Noise, Prior

Indices = npt.NDArray[np.intp]
Integrand = Callable[[Indices, Floats], Floats]

# Two Gauss-Legendre rules a panel; their difference bounds the error of the finer one far from above.
_FINE = np.polynomial.legendre.leggauss(64)
_COARSE = np.polynomial.legendre.leggauss(48)
_NODES = np.concatenate([_FINE[0], _COARSE[0]])
_SPLIT = len(_FINE[0])

_TOLERANCE = 1e-12
_DEEPEST = 50
_CHUNK = 4096

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


def support(laws: Laws, r: Floats, y: Floats) -> Support:
    """Reports beyond what the beliefs allow, y > Rr + M, are moved to that edge."""
    R, M = laws.prior.radius, laws.noise.bound
    y = np.minimum(y, R * r + M)
    # R - u at both ends, each in the form that does not cancel near the top of the ball.
    with np.errstate(over="ignore"):
        below = np.minimum((R * r + M - y) / r, 2 * R)
        above = np.maximum((R * r - M - y) / r, 0.0)
    low, high = (2 * np.arcsin(np.sqrt(gap / (2 * R))) for gap in (above, below))
    return Support(r, y, low, np.maximum(high, low + np.maximum(_POINT, low * 1e-15)))


def log_weight(laws: Laws, r: Floats, y: Floats, t: Floats) -> Floats:
    """log of the unnormalised posterior density of the angle t."""
    return laws.prior.log_weight(t, laws.dimension) + laws.noise.log_density(residual(laws, r, y, t))


def residual(laws: Laws, r: Floats, y: Floats, t: Floats) -> Floats:
    """The noise z = y - ru at u = R cos t, kept in [-M, M] against rounding."""
    M = laws.noise.bound
    return np.clip(y - r * laws.prior.radius * np.cos(t), -M, M)


def mean(laws: Laws, r: Floats, y: Floats, curve: Curve, scale: Floats) -> Floats:
    """E[ψ(u) | r, y] for arrays of one length, to 1e-11 R; 0 where r = 0, since q = r E[ψ(u)] does not ask there."""
    out = np.zeros(len(r))
    for chosen in _chunks(r):
        where = support(laws, r[chosen], np.abs(y[chosen]))
        out[chosen] = np.sign(y[chosen]) * _mean(laws, where, curve, scale[chosen]).value
    return out


def slope(laws: Laws, r: Floats, y: Floats, curve: Curve, scale: Floats) -> Floats:
    """∂q/∂y for arrays of one length; 0 where r = 0 and beyond the edge, where q no longer moves.

    With a, b the ends of the support and m = E[ψ(u) | r, y], differentiating q = r ∫ψfg/∫fg under the integral gives

        ∂q/∂y = r E[(ψ(u) - m) (log g)'(y - ru)] + [(ψ(b) - m) f(b) 1{b < R} - (ψ(a) - m) f(a) 1{a > -R}] g(M) / ∫fg,

    the second term because g jumps to zero at ±M. Within 1e-8 R of the edge its value there is given.
    """
    R, M = laws.prior.radius, laws.noise.bound
    out = np.zeros(len(r))
    for chosen in _chunks(r):
        rs, ys = r[chosen], np.abs(y[chosen])
        where = support(laws, rs, np.minimum(ys, R * rs * (1 - 1e-8) + M))
        out[chosen] = np.where(ys <= R * rs + M, _slope(laws, where, curve, scale[chosen]), 0.0)
    return out


def _slope(laws: Laws, where: Support, curve: Curve, scale: Floats) -> Floats:
    R, M = laws.prior.radius, laws.noise.bound
    centre = _mean(laws, where, curve, scale)

    def tilt(owner: Indices, t: Floats) -> Floats:
        z = residual(laws, where.r[owner, None], where.y[owner, None], t)
        return (curve(R * np.cos(t), scale[owner, None]) - centre.value[owner, None]) * laws.noise.score(z)

    def jump(t: Floats) -> Floats:
        t = np.clip(t, _POINT, np.pi - 1e-9)
        logs = log_weight(laws, where.r, where.y, t) - centre.peak
        return (curve(R * np.cos(t), scale) - centre.value) * np.exp(logs) / (np.sin(t) * R * centre.mass)

    unit = R * max(1 / M, float(np.abs(laws.noise.score(np.array([M])))[0]))
    inner = where.r * _expectation(laws, where, tilt, unit).value
    return (
        inner
        + np.where(where.low > 0, jump(where.low), 0.0)
        - np.where(where.high < np.pi, jump(where.high), 0.0)
    )


def _chunks(r: Floats) -> Iterator[Indices]:
    inside = np.flatnonzero(r > 0)
    for start in range(0, len(inside), _CHUNK):
        yield inside[start : start + _CHUNK]


@dataclass(frozen=True)
class _Panels:
    """Integrals over panels, each in units of exp(peak): of the weight and of ψ times the weight."""

    owner: Indices
    peak: Floats
    mass: Floats
    moment: Floats

    def __add__(self, other: _Panels) -> _Panels:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("owner", "peak", "mass", "moment"))
        return _Panels(*(np.concatenate(pair) for pair in pairs))

    def of(self, chosen: npt.NDArray[np.bool_]) -> _Panels:
        return _Panels(self.owner[chosen], self.peak[chosen], self.mass[chosen], self.moment[chosen])

    def total(self, players: int) -> _Total:
        peak = np.full(players, -np.inf)
        np.maximum.at(peak, self.owner, self.peak)
        units = np.exp(self.peak - peak[self.owner])
        mass, moment = (
            np.bincount(self.owner, weights=units * part, minlength=players).astype(np.float64)
            for part in (self.mass, self.moment)
        )
        return _Total(peak, mass, moment / mass)


@dataclass(frozen=True)
class _Total:
    """For every player ∫ weight = mass · exp(peak), and the expectation."""

    peak: Floats
    mass: Floats
    value: Floats


def _mean(laws: Laws, where: Support, curve: Curve, scale: Floats) -> _Total:
    R = laws.prior.radius
    return _expectation(laws, where, lambda owner, t: curve(R * np.cos(t), scale[owner, None]), R)


def _expectation(laws: Laws, where: Support, integrand: Integrand, unit: float) -> _Total:
    """Posterior expectation of integrand(owner, t), to 1e-12 `unit` a panel.

    Each player's support is one panel at first. Where the rules of 48 and 64 nodes disagree, panels are halved until
    they agree, so that peaks (little noise, many dimensions) and kinks cost more nodes, not accuracy.
    """
    players = len(where.r)
    owner = np.arange(players)
    low, high = where.low, where.high
    done = _Panels(owner[:0], low[:0], low[:0], low[:0])
    for _ in range(_DEEPEST):
        fine, coarse = _integrate(laws, where, owner, low, high, integrand)
        total = (done + fine).total(players)
        gap = (fine.moment - coarse.moment) - total.value[owner] * (fine.mass - coarse.mass)
        error = np.abs(gap) * np.exp(fine.peak - total.peak[owner]) / total.mass[owner]
        rough = ~(error <= _TOLERANCE * unit)
        done += fine.of(~rough)
        if not rough.any():
            return total
        middle = (low[rough] + high[rough]) / 2
        owner = np.tile(owner[rough], 2)
        low, high = np.concatenate([low[rough], middle]), np.concatenate([middle, high[rough]])
    return (done + fine.of(rough)).total(players)


def _integrate(
    laws: Laws, where: Support, owner: Indices, low: Floats, high: Floats, integrand: Integrand
) -> tuple[_Panels, _Panels]:
    """Both rules on every panel [low, high] of its owner's support."""
    half = ((high - low) / 2)[:, None]
    t = low[:, None] + half * (1 + _NODES)
    logs = log_weight(laws, where.r[owner, None], where.y[owner, None], t)
    peak = np.maximum(logs.max(axis=1), -1e300)
    weight = half * np.exp(logs - peak[:, None])
    moment = weight * integrand(owner, t)
    fine, coarse = (
        _Panels(owner, peak, weight[:, part] @ rule, moment[:, part] @ rule)
        for part, rule in ((slice(_SPLIT), _FINE[1]), (slice(_SPLIT, None), _COARSE[1]))
    )
    return fine, coarse

"""The distribution of u = θ·x/‖x‖ given one report, by quadrature: the reference for all that is faster.

Given r = ‖x‖ and the report y, u has the density ∝ f(u) g(y - ru) on the interval where |u| ≤ R and |y - ru| ≤ M.
The substitution u = R cos t removes the endpoint singularity of the prior (f(u) du becomes sin^d t dt for the uniform
ball), and t, measured from the top of the ball, keeps its relative accuracy where the support shrinks to a point.
Everything is odd in y, so only y ≥ 0 is ever computed.

The quadrature itself, at the end, computes expectations under many one-dimensional densities at once, each given by its
logarithm up to a constant.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from truthful.beliefs.laws import Clipped, Curve, Noise, Prior
from truthful.check import Floats

Indices = npt.NDArray[np.intp]
LogWeight = Callable[[Indices, Floats], Floats]
Integrand = Callable[[Indices, Floats], Floats]

_CHUNK = 4096
_SHARED = 4  # chunks, from which on they are shared among the processors

# A support of a single point gets a width that is negligible beside R, but not zero.
_POINT = 1e-100


class Laws(Protocol):
    """Anything that declares a dimension, a prior and a noise distribution."""

    @property
    def dimension(self) -> int: ...
    @property
    def prior(self) -> Prior: ...
    @property
    def noise(self) -> Noise: ...


class Support(NamedTuple):
    """The support of u, as angles 0 ≤ low ≤ t ≤ high ≤ π with u = R cos t, of players with r > 0 and y ≥ 0."""

    r: Floats
    y: Floats
    low: Floats
    high: Floats

    def of(self, part: slice) -> Support:
        return Support(*(array[part] for array in self))


def support(laws: Laws, r: Floats, y: Floats) -> Support:
    """The support; reports beyond what the beliefs allow, y > Rr + M, are moved to that edge."""
    R, M = laws.prior.radius, laws.noise.bound
    y = np.minimum(y, R * r + M)
    # R - u at both ends, each in the form without cancellation near the top of the ball.
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

    if len(parts) < _SHARED:
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
    """The angles of the corners of a curve that is clipped inside the ball."""
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


# Expectations under many densities at once


class _Rules(NamedTuple):
    """Two Gauss-Legendre rules per panel: the nodes of both, the weights of each.

    Their difference bounds the error of the finer one, generously where the integrand is analytic.
    """

    nodes: Floats
    fine: Floats
    coarse: Floats


def _rules(fine: int, coarse: int) -> _Rules:
    (x, a), (y, b) = (np.polynomial.legendre.leggauss(order) for order in (fine, coarse))
    return _Rules(np.concatenate([x, y]), a, b)


# The first is enough for most densities.
_FEW, _MANY = _rules(32, 24), _rules(64, 48)


_TOLERANCE = 1e-12
_MASS_TOLERANCE = 1e-10
# More halvings than a jump needs, and more rough panels at once than a few dozen jumps need.
_DEEPEST = 60
_MOST = 128
# Anything below the peak times exp(-40) = 4e-18 is negligible.
_DROP = 40.0
_GOLDEN = (np.sqrt(5.0) - 1) / 2
# Steps of the searches for the peak and its width: both end at the spacing of floats.
_STEPS = 80


class Expectation(NamedTuple):
    """For every density: its integral is mass · exp(peak), and `value` has the expectations, one per column."""

    peak: Floats
    mass: Floats
    value: Floats


def expectation(
    low: Floats,
    high: Floats,
    log_weight: LogWeight,
    integrand: Integrand,
    unit: float,
    corners: tuple[float, ...] = (),
) -> Expectation:
    """Expectations on [low_i, high_i] under densities ∝ exp(log_weight), to about 1e-12 `unit`.

    `log_weight(i, t)` gives one number for every entry of t, whose rows belong to the densities i; `integrand(i, t)`
    gives one or more, along a last axis. Each interval is one panel at first. Where the rules of 24 and 32 nodes
    disagree, those of 48 and 64 are tried; where these disagree too, the interval is cut around its peak, and then
    panels are halved until the rules agree: peaks and kinks cost more nodes, not accuracy. Logarithms are relative to
    the largest seen, so nothing underflows that matters.

    There is always a value, with the same bits whatever else is in the batch: halving ends, for each density by itself,
    where only rounding is left to disagree about. A weight that is nowhere a positive number gives the integrand in the
    middle of the interval. Intervals are cut at the `corners` of the integrand: between their nodes both rules could
    miss one, and agree.
    """
    count = len(low)
    owner, start, end = _cut(low, high, corners)
    done: _Panels | None = None
    for depth in range(-1, _DEEPEST):
        fine, coarse = _integrate(owner, start, end, log_weight, integrand, _FEW if depth < 0 else _MANY)
        total = fine.join(done).total(count)
        rough = _rough(fine, coarse, total, unit) & _worth_halving(owner, start, end, count)
        if not rough.any():
            break
        done = fine.of(~rough).join(done)
        owner, start, end = owner[rough], start[rough], end[rough]
        if depth >= 0:
            cut = _halves if depth else partial(_around_peak, log_weight)
            owner, start, end = cut(owner, start, end)
    lost = np.flatnonzero(~np.isfinite(total.value).all(axis=1))
    if len(lost):
        total.value[lost] = integrand(lost, ((low + high) / 2)[lost, None])[:, 0]
    return total


def _cut(low: Floats, high: Floats, corners: tuple[float, ...]) -> tuple[Indices, Floats, Floats]:
    """Panels from one end to the next corner and so on; corners outside an interval are ignored."""
    owner = np.arange(len(low))
    if not corners:
        return owner, low, high
    ends = [low, *(np.clip(corner, low, high) for corner in sorted(corners)), high]
    start, end = np.concatenate(ends[:-1]), np.concatenate(ends[1:])
    kept = (start < end) | (np.tile(low, len(ends) - 1) == np.tile(high, len(ends) - 1))
    return np.tile(owner, len(ends) - 1)[kept], start[kept], end[kept]


def _worth_halving(owner: Indices, low: Floats, high: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Whether a panel holds floats to halve it at, and its density has panels left to spend."""
    middle = (low + high) / 2
    return (low < middle) & (middle < high) & (np.bincount(owner, minlength=count)[owner] <= _MOST)


def _halves(owner: Indices, low: Floats, high: Floats) -> tuple[Indices, Floats, Floats]:
    middle = (low + high) / 2
    return np.tile(owner, 2), np.concatenate([low, middle]), np.concatenate([middle, high])


def _around_peak(
    log_weight: LogWeight, owner: Indices, low: Floats, high: Floats
) -> tuple[Indices, Floats, Floats]:
    """Cuts at the peak, and on both sides where the weight has all but vanished.

    Halving alone could lose a part of a narrow peak: a neighbouring panel whose nodes all lie outside it seems empty.
    If there is one peak, as for log-concave densities, the search finds it; for others the cuts are as good as any.
    """

    def logs(t: Floats) -> Floats:
        return _finite(log_weight(owner, t[:, None]))[:, 0]

    peak = _peak(logs, *_bracket(log_weight, owner, low, high))
    least = logs(peak) - _DROP
    cuts = [low, _reach(logs, least, peak, low), peak, _reach(logs, least, peak, high), high]
    start, end = np.concatenate(cuts[:-1]), np.concatenate(cuts[1:])
    kept = start < end
    return np.tile(owner, len(cuts) - 1)[kept], start[kept], end[kept]


def _bracket(log_weight: LogWeight, owner: Indices, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The neighbours of the highest node, between which the peak lies."""
    nodes = low[:, None] + ((high - low) / 2)[:, None] * (1 + _MANY.nodes[: len(_MANY.fine)])
    best = _finite(log_weight(owner, nodes)).argmax(axis=1)[:, None]
    edges = np.concatenate([low[:, None], nodes, high[:, None]], axis=1)
    return tuple(np.take_along_axis(edges, best + step, axis=1)[:, 0] for step in (0, 2))  # type: ignore[return-value]


def _peak(logs: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """The maximum of a function with one peak, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = logs(left), logs(right)
    for _ in range(_STEPS):
        rising = at_left < at_right
        low, high = np.where(rising, left, low), np.where(rising, high, right)
        fresh = np.where(rising, low + _GOLDEN * (high - low), high - _GOLDEN * (high - low))
        value = logs(fresh)
        left, right = np.where(rising, right, fresh), np.where(rising, fresh, left)
        at_left, at_right = np.where(rising, at_right, value), np.where(rising, value, at_left)
    return np.asarray((low + high) / 2)


def _reach(logs: Callable[[Floats], Floats], least: Floats, peak: Floats, end: Floats) -> Floats:
    """How far from the peak toward an end the logarithm stays above `least`, by halving."""
    inside, outside = peak, end
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        # The ends themselves are never evaluated: a weight may vanish there.
        high = (logs(np.where(middle == end, peak, middle)) >= least) & (middle != end)
        inside, outside = np.where(high, middle, inside), np.where(high, outside, middle)
    return outside


def _finite(logs: Floats) -> Floats:
    """Give NaN no weight."""
    return np.where(np.isfinite(logs), logs, -np.inf)


class _Panels(NamedTuple):
    """Integrals over panels, in units of exp(peak): the weight's, and that of the integrand times the weight."""

    owner: Indices
    peak: Floats
    mass: Floats
    moment: Floats

    def join(self, other: _Panels | None) -> _Panels:
        if other is None:
            return self
        names = ("owner", "peak", "mass", "moment")
        return _Panels(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def of(self, chosen: npt.NDArray[np.bool_]) -> _Panels:
        return _Panels(self.owner[chosen], self.peak[chosen], self.mass[chosen], self.moment[chosen])

    def total(self, count: int) -> Expectation:
        peak = np.full(count, -np.inf)
        np.maximum.at(peak, self.owner, self.peak)
        units = np.exp(self.peak - peak[self.owner])
        mass = np.zeros(count)
        moment = np.zeros((count, self.moment.shape[1]))
        np.add.at(mass, self.owner, units * self.mass)
        np.add.at(moment, self.owner, units[:, None] * self.moment)
        with np.errstate(invalid="ignore"):
            return Expectation(peak, mass, moment / mass[:, None])


def _integrate(
    owner: Indices, low: Floats, high: Floats, log_weight: LogWeight, integrand: Integrand, rules: _Rules
) -> tuple[_Panels, _Panels]:
    """Both rules on every panel [low, high]."""
    half = ((high - low) / 2)[:, None]
    t = low[:, None] + half * (1 + rules.nodes)
    logs = _finite(log_weight(owner, t))
    peak = np.maximum(logs.max(axis=1), -1e300)
    weight = half * np.exp(logs - peak[:, None])
    values = np.ascontiguousarray(integrand(owner, t))
    fine = _Panels(owner, peak, *_sums(weight, values, rules.fine, 0))
    coarse = _Panels(owner, peak, *_sums(weight, values, rules.coarse, len(rules.fine)))
    return fine, coarse


def _sums(weight: Floats, values: Floats, rule: Floats, start: int) -> tuple[Floats, Floats]:
    """Integrals of the weight, and of the values times the weight, over the nodes from `start` on.

    Summed node by node: NumPy's products round by batch size and memory layout, and nobody's payment may depend on
    these.
    """
    shares = weight[:, start : start + len(rule)] * rule
    mass, moment = np.zeros(len(weight)), np.zeros((len(values), values.shape[2]))
    for n, share in enumerate(shares.T, start):
        mass += share
        moment += share[:, None] * values[:, n]
    return mass, moment


def _rough(fine: _Panels, coarse: _Panels, total: Expectation, unit: float) -> npt.NDArray[np.bool_]:
    """Where the two rules disagree: about the expectation, d(N/D) = (dN - (N/D) dD)/D, or about the mass D itself.

    The mass matters where a peak is so narrow that a single node sees it: N/D is then that node's value, and the rules
    seem to agree. Comparisons are written so that NaN and infinity, from a peak that only one rule sees or that its
    nodes nearly miss, are rough.
    """
    mass_gap = fine.mass - coarse.mass
    gap = (fine.moment - coarse.moment) - total.value[fine.owner] * mass_gap[:, None]
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        units = np.exp(fine.peak - total.peak[fine.owner]) / total.mass[fine.owner]
        means_agree = np.abs(gap).max(axis=1) * units <= _TOLERANCE * unit
        masses_agree = np.abs(mass_gap) * units <= _MASS_TOLERANCE
    return np.asarray(~(means_agree & masses_agree))

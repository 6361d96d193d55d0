"""Own predictions where peers are clipped inside the ball, at c < R, by fixed rules that know the corners.

With v₊ = max(v, 0), e the noise and H(v) = E[(v + e)₊] − v₊, a bump as wide as the noise,

    ψ(u) = E[clip(u + e, ±c)] = clip(u, ±c) − H(u − c) + H(u + c)

so that E[ψ(u) | r, y] needs the integrals of clip(u, ±c), in the angle t of truthful.beliefs.posterior on panels that
end at ±c, and those of the two bumps: far from the ends of the support by a Gauss rule for H itself, else on panels
that end at ±c and at the ends. Two rules must agree on the mean; where they do not, panels are cut, and what remains
open goes to the quadrature that searches for peaks itself.

That one alone is not enough: a corner rounded by little noise can lie where both of its rules miss it, with errors of
up to 3e-6. It also takes some fifty times as long.

Everybody's numbers take the same path through these loops, whoever is in the batch with her.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful.beliefs import posterior
from truthful.beliefs.laws import (
    Clipped,
    Curve,
    NormalBall,
    TruncatedNormal,
    UniformBall,
    UniformNoise,
    antiderivative,
    chebyshev_coefficients,
    chebyshev_nodes,
    over_normals,
)
from truthful.beliefs.posterior import Laws
from truthful.check import Floats
from truthful.lazily import compiled

_FINE, _COARSE = 24, 16
_TOLERANCE, _MASS_TOLERANCE = 1e-12, 1e-10
#: How many pieces to cut each of the three panels into, tried in turn.
_PIECES = (1, 4, 16)
#: Nodes of the rule for the bump; nodes on each of its panels, which end at the multiples of the scale below.
_BUMP_NODES, _BUMP_ORDER = 10, 16
_ENDS = (0.0, 1.0, 4.0, 12.0, 30.0)
#: The longest of its panels, in units of the length over which the posterior changes.
_LONGEST = 1.5
#: The rule for the bump is used for scales up to this part of the length over which the posterior changes.
_NEAR = 0.01
#: Numbers of Chebyshev coefficients to try for the prior's logarithm.
_ORDERS = (8, 16, 32, 64)
_NODES_LEFT = 1e-13
#: Distributions narrower than this part of their bound are left to the adaptive quadrature.
_WIDE = 0.1

# Series of sine (over x), cosine and exponential, which are exact to rounding for |x| ≤ π/2 and |x| ≤ (log 2)/2.
_SINE = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(12))
_COSINE = tuple((-1.0) ** k / math.factorial(2 * k) for k in range(12))
_EXP = tuple(1.0 / math.factorial(k) for k in range(14))
_LOG_2_HIGH, _LOG_2_LOW, _PER_LOG_2 = 0.693147180369123816490, 1.90821492927058770002e-10, 1 / math.log(2)

Integers = npt.NDArray[np.int64]
_fused = compiled(error_model="numpy", fastmath={"contract", "reassoc", "nsz"})


class _CornerRules(NamedTuple):
    """Nodes and weights: of a panel, first the finer rule's, then the coarser one's; of a panel of the bump, which end
    at `ends`; and of the bump itself."""

    nodes: Floats
    weights: Floats
    panel: Floats
    panel_weights: Floats
    ends: Floats
    bump: Floats
    bump_weights: Floats
    octaves: Floats  # K(z)/z² on half-octaves of z
    limits: Floats  # K(z)/z² at 0, and E|e|/2


class _Law(NamedTuple):
    """d, R, M, c, 1/(2·sd²) of the noise (0: uniform), the least length, as a part of R, over which the posterior
    changes, and the logarithm of what the prior has beside (R² − u²)^((d−1)/2), a Chebyshev series in 2u²/R² − 1."""

    dimension: int
    radius: float
    bound: float
    clip: float
    decay: float
    width: float
    series: Floats


def corner_predictor(laws: Laws, curve: Curve) -> CornerPredictor | None:
    """The predictor for a curve with corners inside the ball, if these loops know its distributions and none is narrow;
    else None.
    """
    prior, noise = laws.prior, laws.noise
    known = (
        isinstance(prior, UniformBall) or (isinstance(prior, NormalBall) and prior.sd >= _WIDE * prior.radius)
    ) and (
        isinstance(noise, UniformNoise)
        or (isinstance(noise, TruncatedNormal) and noise.sd >= _WIDE * noise.bound)
    )
    inside = isinstance(curve, Clipped) and curve.factor == 1.0 and curve.radius < laws.prior.radius
    return CornerPredictor(laws, curve) if known and inside and isinstance(curve, Clipped) else None


@dataclass(frozen=True)
class CornerPredictor:
    """q = r E[ψ(u) | r, y] for a curve clipped inside the ball, to 1e-11 R."""

    laws: Laws
    curve: Clipped

    def __call__(self, r: Floats, y: Floats, scale: Floats) -> Floats:
        """q for arrays of one length, finite, with r and scale not below 0."""
        r, y, scale = (np.ascontiguousarray(array, dtype=np.float64) for array in (r, y, scale))
        out = np.empty(len(r))
        if _means(r, y, scale, self._law, _rules(self.curve.dimension), np.array(_PIECES), out):
            left = np.flatnonzero(np.isnan(out))
            out[left] = posterior.mean(self.laws, r[left], y[left], self.curve, scale[left])
        return np.asarray(r * out)

    @cached_property
    def _law(self) -> _Law:
        prior, noise, d = self.laws.prior, self.laws.noise, self.laws.dimension
        R, decay, widths = prior.radius, 0.0, [1.0, d**-0.5]
        if isinstance(noise, TruncatedNormal):
            decay = 0.5 / noise.sd**2
            widths.append(noise.sd / R)
        if isinstance(prior, NormalBall):
            widths.append(prior.sd / R)
        return _Law(d, R, noise.bound, self.curve.radius, decay, min(widths), _series(prior, d))


def _series(prior: Any, dimension: int) -> Floats:
    """Chebyshev coefficients of the prior's logarithm beside the power of R² − u²; empty for a uniform prior."""
    if isinstance(prior, UniformBall):
        return np.zeros(0)

    def value(x: Floats) -> Floats:
        t = np.arccos(np.sqrt((x + 1) / 2))
        return np.asarray(prior.log_weight(t, dimension) - dimension * np.log(np.sin(t)))

    for order in _ORDERS:
        series = chebyshev_coefficients(value(chebyshev_nodes(order)))
        if np.abs(series[-2:]).max() <= _NODES_LEFT * max(1.0, np.abs(series).max()):
            break
    return np.ascontiguousarray(series)


@lru_cache(maxsize=64)
def _rules(dimension: int) -> _CornerRules:
    (x, a), (y, b), (p, w) = (np.polynomial.legendre.leggauss(n) for n in (_FINE, _COARSE, _BUMP_ORDER))
    octaves, limits = antiderivative(dimension)
    farthest = 40 + 9 * math.sqrt(dimension + 1)
    ends = np.array([*_ENDS, max(farthest, _ENDS[-1] + 1)])
    z, weights = _bump_rule(dimension, ends)
    return _CornerRules(
        np.concatenate([x, y]), np.concatenate([a, b]), p, w, ends, z, weights, octaves, limits
    )


def _bump_rule(dimension: int, ends: Floats) -> tuple[Floats, Floats]:
    """The Gauss rule for the weight H on [0, ∞), scale 1, from a fine discretisation of it (Stieltjes)."""
    x, w = np.polynomial.legendre.leggauss(40)
    halves, middles = np.diff(ends) / 2, (ends[1:] + ends[:-1]) / 2
    z = (middles[:, None] + halves[:, None] * x).ravel()
    weights = (halves[:, None] * w).ravel() * over_normals(z, dimension, _normal_tail)
    alphas: list[float] = []
    betas = [float(weights.sum())]
    before, here = np.zeros_like(z), np.ones_like(z)
    for _ in range(_BUMP_NODES):
        norm = weights @ here**2
        alpha = float(weights @ (z * here**2) / norm)
        after: Floats = (z - alpha) * here - (betas[-1] if alphas else 0.0) * before
        alphas.append(alpha)
        betas.append(float(weights @ after**2 / norm))
        before, here = here, after
    off = np.sqrt(betas[1:_BUMP_NODES])
    values, vectors = np.linalg.eigh(np.diag(alphas) + np.diag(off, 1) + np.diag(off, -1))
    return np.ascontiguousarray(values), np.ascontiguousarray(betas[0] * vectors[0] ** 2)


def _normal_tail(x: Floats) -> Floats:
    """H(x) = E[(Z − x)₊] of the normal law for x ≥ 0, without cancellation: φ(x)(1 − x√(π/2) erfcx(x/√2))."""
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    return density * np.maximum(1 - x * math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2)), 0.0)


@_fused
def _bump(z: float, octaves: Floats, limits: Floats) -> float:
    """H(z) at scale 1 for z ≥ 0: K(z) − z/2 + E|e|/2, K as in truthful.beliefs.laws."""
    if z < 2.0**-24:
        return float(limits[1] - z / 2 + limits[0] * z * z)
    mantissa, exponent = math.frexp(z)
    cell = 2 * (exponent + 23)
    if cell >= len(octaves):
        return 0.0
    x = 8 * mantissa - 5
    if mantissa >= 0.75:
        cell += 1
        x -= 2
    row = octaves[cell]
    value = row[len(row) - 1]
    for k in range(len(row) - 2, -1, -1):
        value = value * x + row[k]
    return float(value * z * z - z / 2 + limits[1])


@_fused
def _angles(t: Floats, low: float, high: float, sine: Floats, cosine: Floats) -> None:
    """Sine and cosine of angles between low and high, by their series, so that loops vectorise.

    Near an end of [0, π] the sine keeps its relative accuracy.
    """
    middle = math.pi / 2
    shift, turn = (0.0, 1.0) if high <= middle else ((math.pi, -1.0) if low >= middle else (middle, 0.0))
    for j in range(len(t)):
        x = t[j] - shift
        v = x * x
        odd = even = 0.0
        for k in range(len(_SINE) - 1, -1, -1):
            odd, even = odd * v + _SINE[k], even * v + _COSINE[k]
        odd *= x
        sine[j] = even if turn == 0 else turn * odd
        cosine[j] = -odd if turn == 0 else turn * even


@_fused
def _weigh(
    t: Floats,
    low: float,
    high: float,
    r: float,
    y: float,
    law: _Law,
    sine: Floats,
    x: Floats,
    weight: Floats,
    work: Floats,
) -> None:
    """The posterior's weight of angles in a support from low to high, in units that do not underflow, and x = u/R."""
    _angles(t, low, high, sine, x)
    most = 1.0 if low <= math.pi / 2 <= high else max(math.sin(low), math.sin(high))
    n, exponent = len(t), law.dimension
    base = work[0, :n]
    for j in range(n):
        base[j] = sine[j] / most
        weight[j] = 1.0
    while exponent > 0:
        if exponent & 1:
            for j in range(n):
                weight[j] *= base[j]
        exponent >>= 1
        if exponent > 0:
            for j in range(n):
                base[j] *= base[j]
    terms = len(law.series)
    if law.decay == 0 and terms == 0:
        return
    logs, b1, b2, v = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
    for j in range(n):
        z = y - r * law.radius * x[j]
        logs[j] = -law.decay * z * z
    if terms:
        for j in range(n):
            v[j], b1[j], b2[j] = 2 * (2 * x[j] * x[j] - 1), 0.0, 0.0
        for k in range(terms - 1, 0, -1):
            for j in range(n):
                new = law.series[k] + v[j] * b1[j] - b2[j]
                b2[j] = b1[j]
                b1[j] = new
        for j in range(n):
            logs[j] += law.series[0] + v[j] / 2 * b1[j] - b2[j]
    for j in range(n):
        weight[j] *= _exponential(logs[j])


@_fused
def _exponential(x: float) -> float:
    """exp(x) for -700 < x < 700, and its value at the nearer end beyond: inlined, so that loops vectorise."""
    x = min(max(x, -700.0), 700.0)
    k = np.floor(x * _PER_LOG_2 + 0.5)
    v = (x - k * _LOG_2_HIGH) - k * _LOG_2_LOW
    value = _EXP[len(_EXP) - 1]
    for i in range(len(_EXP) - 2, -1, -1):
        value = value * v + _EXP[i]
    return float(value * np.int64((np.int64(k) + 1023) << 52).view(np.float64))


@_fused
def _panels(low: float, high: float, cut: int, rules: _CornerRules, count: int, t: Floats, w: Floats) -> int:
    """Add the nodes of `count` equal panels between two angles, with the weights of their rule."""
    width = (high - low) / cut
    for piece in range(cut):
        middle, half = low + (piece + 0.5) * width, width / 2
        for j in range(len(rules.nodes)):
            t[count + j] = middle + half * rules.nodes[j]
            w[count + j] = half * rules.weights[j]
        count += len(rules.nodes)
    return count


@_fused
def _sharp(
    low: float,
    high: float,
    cut: int,
    r: float,
    y: float,
    law: _Law,
    rules: _CornerRules,
    work: Floats,
    sums: Floats,
) -> None:
    """∫ weight and ∫ clip(x, ±c/R) weight over the support, by the finer and by the coarser rule."""
    clip, count = law.clip / law.radius, 0
    corner = math.acos(clip)
    t, w = work[0], work[1]
    before = low
    for end in (corner, math.pi - corner, math.pi):
        if before < min(end, high):
            count = _panels(before, min(end, high), cut, rules, count, t, w)
            before = end
    x, weight = work[3, :count], work[4, :count]
    _weigh(t[:count], low, high, r, y, law, work[2, :count], x, weight, work[5:, :count])
    sums[:] = 0.0
    for start in range(0, count, _FINE + _COARSE):
        for part in range(2):
            mass = moment = 0.0
            first = start if part == 0 else start + _FINE
            for j in range(first, first + (_FINE if part == 0 else _COARSE)):
                value = w[j] * weight[j]
                mass += value
                moment += value * min(max(x[j], -clip), clip)
            sums[2 * part] += mass
            sums[2 * part + 1] += moment


@_fused
def _bump_integral(
    corner: float,
    low: float,
    high: float,
    s: float,
    r: float,
    y: float,
    law: _Law,
    rules: _CornerRules,
    cut: int,
    work: Floats,
) -> float:
    """∫ H(R(x − corner))/R · weight over the support; s is the scale of the noise divided by R."""
    bottom, top, reach = math.cos(high), math.cos(low), s * rules.ends[len(rules.ends) - 1]
    if s == 0 or corner - top >= reach or bottom - corner >= reach:
        return 0.0
    t, w, sine, x, weight = work[0], work[1], work[2], work[3], work[4]
    count, whole = 0, s <= _NEAR * min(law.width, 1 - abs(corner))
    whole = whole and top - corner >= reach and corner - bottom >= reach
    if whole:
        for j in range(len(rules.bump)):
            for side in (-1.0, 1.0):
                t[count] = math.acos(corner + side * s * rules.bump[j])
                w[count] = s * s * rules.bump_weights[j]
                count += 1
    else:
        for side in (-1.0, 1.0):
            for k in range(len(rules.ends) - 1):
                # Angles fall as x grows.
                near, far = corner + side * s * rules.ends[k], corner + side * s * rules.ends[k + 1]
                least, most = max(min(near, far), bottom), min(max(near, far), top)
                if least < most:
                    begin, end = math.acos(most), math.acos(least)
                    begin, end = max(begin, low), min(end, high)
                    parts = int(cut * (end - begin) / (_LONGEST * law.width)) + 1
                    half = (end - begin) / (2 * parts)
                    for part in range(parts):
                        middle = begin + (2 * part + 1) * half
                        for j in range(len(rules.panel)):
                            t[count] = middle + half * rules.panel[j]
                            w[count] = half * rules.panel_weights[j]
                            count += 1
    _weigh(t[:count], low, high, r, y, law, sine[:count], x[:count], weight[:count], work[5:, :count])
    total = 0.0
    for j in range(count):
        if whole:
            total += w[j] * weight[j] / sine[j]
        else:
            z = abs(x[j] - corner) / s
            total += w[j] * weight[j] * s * _bump(z, rules.octaves, rules.limits)
    return float(total)


@_fused
def _mean(
    r: float, y: float, s: float, law: _Law, rules: _CornerRules, cuts: Integers, work: Floats, sums: Floats
) -> float:
    """E[ψ(u) | r, y] for y ≥ 0, or NaN if the rules disagree; the support is that of truthful.beliefs.posterior."""
    R, M, c = law.radius, law.bound, law.clip / law.radius
    y = min(y, R * r + M)
    below, above = min((R * r + M - y) / r, 2 * R), max((R * r - M - y) / r, 0.0)
    low, high = 2 * math.asin(math.sqrt(above / (2 * R))), 2 * math.asin(math.sqrt(below / (2 * R)))
    s /= R
    if high <= 1e-9:  # a point, u = R
        upper = lower = 0.0
        if s > 0:
            upper = s * _bump((1 - c) / s, rules.octaves, rules.limits)
            lower = s * _bump((1 + c) / s, rules.octaves, rules.limits)
        return float(R * (c - upper + lower))
    if not high - low > 1e-9:
        return math.nan
    for cut in cuts:
        _sharp(low, high, cut, r, y, law, rules, work, sums)
        mean, mean_again = sums[1] / sums[0], sums[3] / sums[2]
        if abs(mean - mean_again) <= _TOLERANCE and abs(sums[2] / sums[0] - 1) <= _MASS_TOLERANCE:
            upper = _bump_integral(c, low, high, s, r, y, law, rules, cut, work)
            lower = _bump_integral(-c, low, high, s, r, y, law, rules, cut, work)
            return float(R * (mean + (lower - upper) / sums[0]))
    return math.nan


@_fused
def _means(
    r: Floats, y: Floats, s: Floats, law: _Law, rules: _CornerRules, cuts: Integers, out: Floats
) -> int:
    """Fill `out`, with NaN where there is no answer; return how many those are."""
    most = cuts[len(cuts) - 1]
    parts = 2 * len(rules.ends) + int(most * math.pi / (_LONGEST * law.width)) + 1
    nodes = max(3 * most * len(rules.nodes), parts * len(rules.panel))
    work, sums, left = np.empty((9, nodes)), np.zeros(4), 0
    for i in range(len(r)):
        if r[i] == 0:
            out[i] = 0.0
            continue
        out[i] = math.copysign(1.0, y[i]) * _mean(r[i], abs(y[i]), s[i], law, rules, cuts, work, sums)
        left += 1 if np.isnan(out[i]) else 0
    return left

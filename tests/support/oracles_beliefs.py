"""Slow, obviously right twins of laws, curves, posterior and table: the definitions, integrated slowly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import mpmath as mp
import numpy as np
from flint import arb, ctx
from scipy import special, stats

from truthful.beliefs import Beliefs
from truthful.beliefs.laws import Curve, NormalBall, Prior, TruncatedNormal
from truthful.check import Floats

mp.mp.dps = 30


def prior_density(beliefs: Beliefs, u: arb) -> arb:
    """f(u), as the specification of each prior writes it."""
    R, d, prior = arb(beliefs.radius), beliefs.dimension, beliefs.prior
    if not isinstance(prior, NormalBall):
        return (R**2 - u**2) ** (arb(d - 1) / 2)
    s = arb(prior.sd)
    inside = ((R**2 - u**2) / (2 * s**2)).gamma_lower(arb(d - 1) / 2, regularized=1) if d > 1 else 1
    return (-(u**2) / (2 * s**2)).exp() * inside


def projected_density(prior: Prior, u: Floats, dimension: int) -> Floats:
    """f(u) likewise, up to a constant, in floating point; zero outside [-R, R]."""
    inside = np.maximum(prior.radius**2 - np.square(u), 0.0)
    if isinstance(prior, NormalBall):
        shell = stats.chi2.cdf(inside / prior.sd**2, dimension - 1) if dimension > 1 else 1.0
        value = np.exp(-np.square(u / prior.sd) / 2) * shell
    else:
        value = inside ** ((dimension - 1) / 2)
    return np.where(np.abs(u) <= prior.radius, value, 0.0)


def noise_density(beliefs: Beliefs, z: arb) -> arb:
    """g(z) up to a constant, for the two named laws."""
    if isinstance(beliefs.noise, TruncatedNormal):
        return (-((z / arb(beliefs.noise.sd)) ** 2) / 2).exp()
    return arb(1)


def own_prediction(beliefs: Beliefs, r: float, y: float) -> float:
    """q = r ∫ u f(u) g(y - ru) du / ∫ f(u) g(y - ru) du for ψ(u) = u and y not below the lower edge.

    In ball arithmetic of 256 bits, so that no rounding goes unseen, on panels that shrink towards the peak.
    """
    with ctx.workprec(256):
        R, M, r_, y_ = arb(beliefs.radius), arb(beliefs.noise_bound), arb(r), arb(y)
        if y_ >= R * r_ + M:  # the edge, or beyond it by a rounding
            return float(r_ * R)
        quarter, low, high = arb.pi() / 2, (y_ - M) / (r_ * R), (y_ + M) / (r_ * R)
        low, high = low.asin() if low > -1 else -quarter, high.asin() if high < 1 else quarter

        def weight(angle: arb) -> arb:
            u = R * angle.sin()
            return prior_density(beliefs, u) * noise_density(beliefs, y_ - r_ * u) * angle.cos()

        peak = _peak(weight, low, high)
        cuts = [peak - (peak - low) / 3**k for k in range(9)] + [
            peak + (high - peak) / 3**k for k in range(8, -1, -1)
        ]
        mass = moment = arb(0)
        for start, end in itertools.pairwise(cuts):
            for node, share in _gauss_rule():
                angle = start + (end - start) * (1 + node) / 2
                part = (end - start) * share * weight(angle)
                mass, moment = mass + part, moment + part * R * angle.sin()
        q = r_ * moment / mass
        assert q.rad() < 1e-20
        return float(q)


@cache
def _gauss_rule() -> list[tuple[arb, arb]]:
    """Nodes and weights on [-1, 1], to the precision in force."""
    return [arb.legendre_p_root(50, k, weight=True) for k in range(50)]


def one_dimensional_prediction(beliefs: Beliefs, r: float, y: float) -> float:
    """q for d = 1, normal noise and y ≥ 0, in closed form: given y, u is normal and truncated to its support."""
    R, M, prior, noise = mp.mpf(beliefs.radius), mp.mpf(beliefs.noise_bound), beliefs.prior, beliefs.noise
    assert isinstance(noise, TruncatedNormal)
    r_, y_ = mp.mpf(r), mp.mpf(y)
    if y_ >= R * r_ + M:
        return float(r_ * R)
    with mp.workdps(60):
        precision = (r_ / mp.mpf(noise.sd)) ** 2
        weight = precision + (1 / mp.mpf(prior.sd) ** 2 if isinstance(prior, NormalBall) else 0)
        centre, width = precision * y_ / r_ / weight, 1 / mp.sqrt(weight)
        low, high = ((end - centre) / width for end in (max(-R, (y_ - M) / r_), min(R, (y_ + M) / r_)))
        if low > high:
            return float(r_ * R)
        if high < -3 or low > 3:
            near, sign = (high, -1) if high < -3 else (low, 1)
            return float(r_ * (centre + width * (near + sign * _tail_excess(abs(near), high - low))))
        mass = (mp.erf(high / mp.sqrt(2)) - mp.erf(low / mp.sqrt(2))) / 2
        return float(r_ * (centre + width * (mp.npdf(low) - mp.npdf(high)) / mass))


def _tail_excess(start: mp.mpf, length: mp.mpf) -> mp.mpf:
    """E[w] for w in [0, length] with a density ∝ exp(-start w - w²/2): a normal variable's way beyond `start`."""
    end = min(length * start, mp.mpf(120))
    cuts = [0, end / 50, end / 8, end / 2, end]
    with mp.workdps(20):
        mass, moment = (
            mp.quad(lambda s, power=power: s**power * mp.exp(-s - (s / start) ** 2 / 2), cuts)
            for power in (0, 1)
        )
    return moment / mass / start


def _peak(weight: Callable[[arb], arb], low: arb, high: arb) -> arb:
    """Where a weight with a single peak is largest, by thirds, to 2^-17 of the support."""
    left, right = low, high
    while right - left > (high - low) / 2**17:
        third = (right - left) / 3
        if weight(left + third) < weight(right - third):
            left += third
        else:
            right -= third
    return (left + right) / 2


def clipped_curve(u: float, radius: float, dimension: int, factor: float, scale: float) -> float:
    """E[clip(factor·u + scale·e, -R, R)] with the Bessel density of e, piece by piece, to about 1e-14."""
    nu, m, spread = dimension / 2, factor * u, math.sqrt(dimension + 1)
    constant = 1 / (math.sqrt(math.pi) * math.gamma(nu + 0.5) * 2**nu)

    def density(v: Floats) -> Floats:
        v = np.maximum(np.abs(v), 1e-9)  # flat there to all digits, and K overflows further down
        return np.asarray(constant * v**nu * special.kve(nu, v) * np.exp(-v))

    def integral(function: Callable[[Floats], Floats], low: float, high: float) -> float:
        cuts = [low, *(k * spread for k in (-12, -5, -2, 0, 2, 5, 12) if low < k * spread < high), high]
        rules = [_dense_rule(a, b) for a, b in itertools.pairwise(cuts)]
        return math.fsum(float(function(nodes) @ weights) for nodes, weights in rules)

    end = 60 + 12 * spread
    low, high = max((-radius - m) / scale, -end), min((radius - m) / scale, end)
    middle = integral(lambda v: (m + scale * v) * density(v), low, high)
    return middle + radius * (integral(density, high, end) - integral(density, -end, low))


def dense_mean(beliefs: Beliefs, r: float, y: float, curve: Curve, scale: float) -> float:
    """E[ψ(u) | r, y] for y ≥ 0 on 400 panels of 40 Gauss nodes in arcsin(u/R): no adaptation, no logarithms."""
    R, M = beliefs.radius, beliefs.noise_bound
    ends = np.arcsin(np.array([max(-R, (y - M) / r), min(R, (y + M) / r)]) / R)
    angle, rule = _dense_rule(float(ends[0]), float(ends[1]))
    u = R * np.sin(angle)
    weight = rule * np.cos(angle) * projected_density(beliefs.prior, u, beliefs.dimension)
    weight *= beliefs.noise.density(np.clip(y - r * u, -M, M))
    return float(curve(u, scale) @ weight / weight.sum())


def _dense_rule(low: float, high: float) -> tuple[Floats, Floats]:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(low, high, 401)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()

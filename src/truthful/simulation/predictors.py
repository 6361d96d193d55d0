"""Own predictions for every study of a simulation, from tables built once per plan.

q = ‖x‖·E[ψ(u) | x, y] depends on r = ‖x‖, on y and, if ψ is clipped, on the scale of the peers' noise along x. Where it
is needed millions of times it is interpolated, to 1e-5 R: payments of simulated people need no more, and a table as
exact as a settlement's takes far longer to build. Anything outside the table (a scale far from those foreseen) goes to
direct quadrature: slower, and exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from truthful.agents.games import expected_people, foresee_peers
from truthful.beliefs import Beliefs, Predictor, posterior
from truthful.beliefs.laws import Curve, chebyshev_nodes, monomials
from truthful.beliefs.table import SampledCurve, prediction_table
from truthful.check import Floats
from truthful.lazily import njit
from truthful.moments import lengths
from truthful.plan import Plan

#: Up to this many own predictions, direct computation is faster than building a table.
FEW = 40_000
#: How far beyond the foreseen noise tables reach: for other people, for released matrices; and the largest ratio of
#: scales in a table: lower ones are computed directly.
REACH, WIDE_REACH, WIDEST = (0.8, 1.6), (0.5, 4.0), 50.0

# Points of a table: lengths, and answers in each part of their range (at first, and at most). Scales at which ψ is
# evaluated, per factor of e that they span; and those kept.
LENGTHS, ANSWERS, MOST_ANSWERS, ASKED, KEPT = 33, 65, 513, 3, 14
#: The largest error of a table, in units of R, and the number of points at which it is measured.
TOLERANCE, TRIED = 1e-5, 500
# Panels of each posterior, nodes on each, and posteriors at a time.
PANELS, NODES, CHUNK = 6, 32, 1024


def predictor_of(plan: Plan, count: int, people: Floats | None = None) -> Predictor:
    """The own predictions of a plan's players: by table if `count` of them are worth one, else by direct quadrature.

    `people` take part, or are similar to those who do.
    """
    mechanism, beliefs = plan.number_mechanism, plan.study.beliefs
    curve: Any = mechanism.curve(beliefs)
    if count <= FEW:
        return _direct(beliefs, curve)
    return own_predictor(beliefs, curve, *_scales(plan, expected_people(plan) if people is None else people))


def _scales(plan: Plan, people: Floats) -> tuple[float, float]:
    """The range of foreseen scales of the peers' noise, over these people or over all directions."""
    peers, r = foresee_peers(plan, people), lengths(people)
    along = peers.noise_along(people, r)[r > 0]
    low, high = (float(along.min()), float(along.max())) if len(along) else peers.noise_range
    below, above = WIDE_REACH if plan.number_mechanism.estimator == "noisy-statistics" else REACH
    return max(below * low, above * high / WIDEST), above * high


def _direct(beliefs: Beliefs, curve: Curve) -> Predictor:
    return lambda r, y, scale: beliefs.prediction(r, y, curve, scale)


@lru_cache(maxsize=32)
def own_predictor(beliefs: Beliefs, curve: Any, low: float = 0.0, high: float = 0.0) -> Predictor:
    """A table for these scales of the noise, cached: several simulations of a plan share it."""
    if not curve.needs_scale:
        return prediction_table(beliefs, curve)
    answers = ANSWERS
    while answers <= MOST_ANSWERS:
        table = PredictorTable.of(beliefs, curve, low, high, answers)
        if table.error() <= TOLERANCE * beliefs.radius:
            return table
        answers = 2 * answers - 1
    return _direct(beliefs, curve)


@dataclass(frozen=True, eq=False)
class PredictorTable:
    """E[ψ(u) | r, y] at equally spaced lengths, answers and logarithms of the scale.

    The support of u changes its shape at |y| = |M − Rr| and at r = M/R, where q may have a kink: answers on either side
    of the former, and lengths on either side of the latter, have grids of their own. Interpolation is cubic between
    grid points, and quadratic between scales. Outer answers cluster at both ends, where the support begins to shrink
    and where it nearly vanishes.
    """

    beliefs: Beliefs
    curve: Curve
    ends: Floats
    """The ends of each part of the lengths."""
    scales: tuple[float, float]
    values: Floats
    """Values by part of the lengths, length, part of the answers, answer, and scale."""

    @classmethod
    def of(cls, beliefs: Beliefs, curve: Curve, low: float, high: float, answers: int) -> PredictorTable:
        R, M = beliefs.radius, beliefs.noise_bound
        cuts = np.array([0.0, M / R, 1.0] if M < R else [0.0, 1.0])
        ends = np.stack([cuts[:-1], cuts[1:]], axis=1)
        r = np.linspace(ends[:, 0], ends[:, 1], LENGTHS, axis=1)
        # r = 0 itself carries no information; q is continuous there.
        r[0, 0] = 1e-6
        kink, edge, share = np.abs(M - R * r), R * r + M, np.linspace(0, 1, answers)
        inner, crowded = kink[..., None] * share, np.square(np.sin(share * np.pi / 2))
        outer = kink[..., None] + (edge - kink)[..., None] * crowded
        y = np.stack([inner, outer], axis=2)
        span = math.log(high / low)
        asked, kept = ASKED + math.ceil(ASKED * span), ASKED + math.ceil(KEPT * span)
        scales = low * (high / low) ** ((1 + chebyshev_nodes(asked)) / 2)
        where = posterior.support(beliefs, np.broadcast_to(r[..., None, None], y.shape).ravel(), y.ravel())
        sampled = SampledCurve(curve, R, scales)
        parts = (slice(start, start + CHUNK) for start in range(0, y.size, CHUNK))
        means = np.concatenate([_means(beliefs, where.of(part), sampled) for part in parts])
        values = (
            monomials(means.reshape((*y.shape, asked)))
            @ np.vander(np.linspace(-1, 1, kept), asked, increasing=True).T
        )
        return cls(beliefs, curve, ends, (low, high), np.ascontiguousarray(values))

    def __call__(self, r: Floats, y: Floats, scale: Floats) -> Floats:
        out = np.empty(len(y))
        scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), out.shape)
        R, M = self.beliefs.radius, self.beliefs.noise_bound
        _interpolate(r, y, scales, R, M, self.ends, *self.scales, self.values, out)
        left = np.flatnonzero(np.isnan(out))
        if len(left):
            out[left] = self.beliefs.prediction(r[left], y[left], self.curve, scales[left])
        return out

    def error(self) -> float:
        """The largest error at random points."""
        rng, (low, high) = np.random.default_rng(0), self.scales
        r, scale = rng.random(TRIED), low * (high / low) ** rng.random(TRIED)
        y = rng.random(TRIED) * (self.beliefs.radius * r + self.beliefs.noise_bound)
        return float(np.abs(self(r, y, scale) - self.beliefs.prediction(r, y, self.curve, scale)).max())


def _means(beliefs: Beliefs, where: posterior.Support, curve: SampledCurve) -> Floats:
    """E[ψ(u)] for every player (a row) and scale, by Gauss's rule on equal panels of the support, in u = R cos t."""
    x, rule = np.polynomial.legendre.leggauss(NODES)
    places = ((np.arange(PANELS)[:, None] + (1 + x) / 2) / PANELS).ravel()
    t = where.low[:, None] + (where.high - where.low)[:, None] * places
    u, M = beliefs.radius * np.cos(t), beliefs.noise_bound
    z = np.clip(where.y[:, None] - where.r[:, None] * u, -M, M)
    logs = beliefs.prior.log_weight(t, beliefs.dimension) + beliefs.noise.log_density(z)
    logs = np.where(np.isfinite(logs), logs, -1e300)
    mass = np.exp(logs - logs.max(axis=1, keepdims=True)) * np.tile(rule, PANELS)
    mass /= mass.sum(axis=1, keepdims=True)
    return np.asarray(np.einsum("ij,ijk->ik", mass, curve(u[:, :, None])))


@njit(error_model="numpy", fastmath={"contract"})
def _interpolate(
    r: Floats,
    y: Floats,
    scale: Floats,
    R: float,
    M: float,
    ends: Floats,
    low: float,
    high: float,
    values: Floats,
    out: Floats,
) -> None:
    """r·E[ψ(u) | r, y]; NaN where the table does not reach."""
    _, lengths, _, answers, scales = values.shape
    origin, step = math.log(low), (scales - 1) / (math.log(high) - math.log(low))
    row, flat = 2 * answers * scales, values.ravel()
    for i in range(len(y)):
        if not (scale[i] >= low and scale[i] <= high and r[i] <= 1.0):
            out[i] = math.nan
            continue
        part = 0 if len(ends) == 1 or r[i] <= ends[0, 1] else 1
        place = (r[i] - ends[part, 0]) / (ends[part, 1] - ends[part, 0]) * (lengths - 1)
        first = min(max(int(place) - 1, 0), lengths - 4)
        along = _cubic(place - first)
        kink, edge = abs(M - R * r[i]), R * r[i] + M
        said = min(abs(y[i]), edge)
        side = 1 if said > kink else 0
        share = said / kink if kink > 0 else 0.0
        if side:
            share = math.asin(math.sqrt((said - kink) / (edge - kink))) * (2 / math.pi)
        place = share * (answers - 1)
        start = min(max(int(place) - 1, 0), answers - 4)
        b0, b1, b2, b3 = _cubic(place - start)
        place = (math.log(scale[i]) - origin) * step
        k = min(max(int(place + 0.5) - 1, 0), scales - 3)
        t = place - k
        w0, w1, w2 = (t - 1) * (t - 2) / 2, -t * (t - 2), t * (t - 1) / 2
        at, total = ((part * lengths + first) * 2 + side) * answers * scales + start * scales + k, 0.0
        for a in along:
            f0 = w0 * flat[at] + w1 * flat[at + 1] + w2 * flat[at + 2]
            at_1, at_2, at_3 = at + scales, at + 2 * scales, at + 3 * scales
            f1 = w0 * flat[at_1] + w1 * flat[at_1 + 1] + w2 * flat[at_1 + 2]
            f2 = w0 * flat[at_2] + w1 * flat[at_2 + 1] + w2 * flat[at_2 + 2]
            f3 = w0 * flat[at_3] + w1 * flat[at_3 + 1] + w2 * flat[at_3 + 2]
            total += a * (b0 * f0 + b1 * f1 + b2 * f2 + b3 * f3)
            at += row
        out[i] = math.copysign(r[i] * total, y[i])


@njit(error_model="numpy", fastmath={"contract"})
def _cubic(t: float) -> tuple[float, float, float, float]:
    """Lagrange's weights for values at 0, 1, 2 and 3."""
    low, high = t * (t - 1), (t - 2) * (t - 3)
    return -(t - 1) * high / 6, t * high / 2, -low * (t - 3) / 2, low * (t - 2) / 6

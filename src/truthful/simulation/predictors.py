"""Own predictions for every study of a simulation, from tables that are built once a plan.

q depends on the size m of the other half through the scale of its noise, which is a coordinate of the table, and for
`ridge-free` through its shrinkage 1 − γκ_m. That is a smooth parameter which varies little: q is interpolated in it
between tables at Chebyshev nodes, over all m that a random half of the planned players takes but for a chance of
10⁻¹². Whatever lies outside (many stayed away) is answered by direct quadrature: slower, and just as exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from truthful.agents.game import foreseen_half
from truthful.beliefs.beliefs import WIDEST_RANGE, Beliefs, Predictor
from truthful.beliefs.curves import Clipped, Curve, Shrunk
from truthful.beliefs.polynomials import chebyshev_nodes
from truthful.beliefs.table import PredictionTable, prediction_table
from truthful.bounds.spectrum import least_half
from truthful.check import Floats
from truthful.mechanism import Mechanism, peer_curve
from truthful.payments import noise_range
from truthful.plan import Plan
from truthful.simulation.one_scale import EQUAL, table_at

NODES = 6
#: So many own predictions are sooner computed one by one than a table is built, which further simulations could use.
FEW = 40_000
#: How far beyond the noise that is foreseen the tables reach, for halves of other sizes; and for released matrices.
REACH, WIDE_REACH = (0.8, 1.6), (0.5, 4.0)
#: So many tables for one scale are kept.
KEPT = 256


#: The predictor of players who are scored against a half of so many.
Predictors = Callable[[int], Predictor]


def predictors(plan: Plan, count: int) -> Predictors:
    """The own predictions of a plan's players, for every size of the other half.

    By table if `count` of them are worth one, else by direct quadrature.
    """
    mechanism, beliefs = plan.mechanism, plan.study.beliefs
    low, high = noise_range(foreseen_half(plan))
    below, above = WIDE_REACH if mechanism.peers == "noisy-statistics" else REACH
    scales = below * low, min(above * high, WIDEST_RANGE * below * low)
    if count <= FEW:
        return lambda m: _direct(beliefs, peer_curve(mechanism, beliefs, m))
    estimator = mechanism.half_estimator(beliefs)
    stretch = high / estimator.noise_scale(max(1, plan.players // 2), mechanism.epsilon_peer)

    def scale(m: int) -> float:
        return stretch * estimator.noise_scale(m, mechanism.epsilon_peer)

    if mechanism.peers == "ridge-free":
        return lru_cache(KEPT)(_Shrinking.between(plan, scales, scale))
    curve: Any = peer_curve(mechanism, beliefs, 1)
    table = own_predictor(beliefs, curve, *scales)
    if mechanism.peers == "noisy-statistics" or high > low * (1 + EQUAL):
        return lambda m: table
    return lru_cache(KEPT)(lambda m: table_at(table, scale(m)))


def _direct(beliefs: Beliefs, curve: Curve) -> Predictor:
    return lambda r, y, scale: beliefs.prediction(r, y, curve, scale)


@lru_cache(maxsize=32)
def own_predictor(beliefs: Beliefs, curve: Any, low: float, high: float) -> PredictionTable:
    """A table for these scales of the noise, kept: several simulations of a plan share it."""
    return prediction_table(beliefs, curve, low, high)


@dataclass(frozen=True, eq=False)
class _Shrinking:
    """Predictors against ridges: tables at several shrinkage factors, and a polynomial through them."""

    mechanism: Mechanism
    beliefs: Beliefs
    factors: Floats
    tables: tuple[PredictionTable, ...]
    ends: tuple[float, float]
    scale: Callable[[int], float]

    @classmethod
    def between(cls, plan: Plan, scales: tuple[float, float], scale: Callable[[int], float]) -> _Shrinking:
        mechanism, beliefs, n = plan.mechanism, plan.study.beliefs, plan.players
        fewest = max(1, int(least_half(n)))
        low, high = (_factor(peer_curve(mechanism, beliefs, m)) for m in (fewest, max(1, n - fewest)))
        factors = (low + high) / 2 + (high - low) / 2 * chebyshev_nodes(NODES)
        tables = tuple(
            own_predictor(beliefs, _with_factor(mechanism, beliefs, float(factor)), *scales)
            for factor in factors
        )
        return cls(mechanism, beliefs, factors, tables, (low, high), scale)

    def __call__(self, m: int) -> Predictor:
        curve = peer_curve(self.mechanism, self.beliefs, m)
        if not self.ends[0] <= _factor(curve) <= self.ends[1]:
            return _direct(self.beliefs, curve)
        tables = [table_at(table, self.scale(m)) for table in self.tables]
        return partial(_interpolated, self._weights(_factor(curve)), tables)

    def _weights(self, factor: float) -> Floats:
        """Lagrange's: of each table."""
        others = [np.delete(self.factors, k) for k in range(NODES)]
        return np.array([np.prod((factor - o) / (f - o)) for f, o in zip(self.factors, others, strict=True)])


def _interpolated(
    weights: Floats, tables: Sequence[PredictionTable], r: Floats, y: Floats, scale: Floats
) -> Floats:
    total: Floats = np.zeros(len(y))
    for weight, table in zip(weights, tables, strict=True):
        total += weight * table(r, y, scale)
    return total


def _factor(curve: Curve) -> float:
    """1 − γκ_m of a ridge's curve."""
    return curve.factor if isinstance(curve, Clipped | Shrunk) else 1.0


def _with_factor(mechanism: Mechanism, beliefs: Beliefs, factor: float) -> Clipped | Shrunk:
    if mechanism.payments == "never-negative":
        return Clipped(beliefs.radius, beliefs.dimension, factor)
    return Shrunk(factor)

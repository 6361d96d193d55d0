"""Steps 2 and 3 of Algorithm 2 for one simulated study after the other: three private estimates, with fast noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from truthful.check import Floats
from truthful.estimators import Estimate, Estimator, KnownDesign
from truthful.mechanism import Estimates
from truthful.moments import Moments
from truthful.noise import L2Laplace
from truthful.plan import Plan
from truthful.regression import fast_answer


@dataclass(frozen=True, eq=False)
class Drawn:
    """The three estimates, and the published one as it would be without noise."""

    estimates: Estimates
    exact: Estimate

    def averaged_error(self, theta: Floats) -> float:
        """The squared error on average over the noise: ‖θ̂₀ − θ‖² + E‖Av‖² for θ̂ = θ̂₀ + Av, E‖Av‖² = (d+1)s²‖A‖²_F.

        NaN for `noisy-statistics`: its A is random too.
        """
        if self.exact.gram_scale is not None:
            return math.nan
        off, noise = self.exact.theta - theta, L2Laplace(len(theta), self.exact.scale)
        return float(off @ off + noise.marginal_variance * np.sum(self.exact.spread**2))


@dataclass(frozen=True, eq=False)
class Drawing:
    """The estimators of a plan. Making one takes as long as a thousand players do, so that they are made once."""

    public: Estimator
    half: Estimator
    epsilon_public: Fraction
    epsilon_peer: Fraction

    @classmethod
    def of(cls, plan: Plan) -> Drawing:
        mechanism, beliefs = plan.mechanism, plan.study.beliefs
        return cls(
            mechanism.public_estimator(beliefs),
            mechanism.half_estimator(beliefs),
            mechanism.epsilon_public,
            mechanism.epsilon_peer,
        )

    def draw(self, halves: Sequence[Moments], rng: np.random.Generator) -> Drawn:
        """As `private_estimates` does, in the same order and from the same random numbers."""
        public, exact = _drawn(self.public, halves[0] + halves[1], self.epsilon_public, rng)
        (half_0, _), (half_1, _) = (_drawn(self.half, half, self.epsilon_peer, rng) for half in halves)
        return Drawn(Estimates(public, (half_0, half_1)), exact)


def _drawn(
    estimator: Estimator, moments: Moments, epsilon: Fraction, rng: np.random.Generator
) -> tuple[Estimate, Estimate]:
    """With noise, and without."""
    if isinstance(estimator, KnownDesign):
        return _known_design(estimator, moments, epsilon, rng)
    queries, answer = estimator.queries(moments), fast_answer(rng)
    noisy, exact = (
        [answer(query, epsilon * query.share) for query in queries],
        [query.value for query in queries],
    )
    return (
        estimator.estimate(noisy, moments.count, epsilon),
        estimator.estimate(exact, moments.count, epsilon),
    )


def _known_design(
    estimator: KnownDesign, moments: Moments, epsilon: Fraction, rng: np.random.Generator
) -> tuple[Estimate, Estimate]:
    """θ̂ = Σ⁻¹(Xᵀy/n + v) in floating point: the integers of a release would take as long as all the rest."""
    nothing = _of_nothing(estimator, moments.count, epsilon)
    mean = moments.cross_float / moments.count
    v = L2Laplace(len(mean), nothing.scale).sample(rng, 1)[0]
    return (
        replace(nothing, theta=nothing.spread @ (mean + v)),
        replace(nothing, theta=nothing.spread @ mean),
    )


@lru_cache(maxsize=4096)
def _of_nothing(estimator: KnownDesign, count: int, epsilon: Fraction) -> Estimate:
    """Its estimate for so many players whose Xᵀy is 0: of others only θ̂ is different."""
    return estimator.estimate([[0] * len(estimator.Sigma)], count, epsilon)

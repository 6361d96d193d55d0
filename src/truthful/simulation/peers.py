"""What a player can expect of truthful peers, p̄(x, y) = E[p | x, y], by drawing them. Nothing here knows of q or ψ.

θ is drawn from the prior and counts as much as it makes her answer likely, g(y − θ·x). Her peers are drawn: halves of
truthful people (X, z), and the privacy noise v of the mechanism's own estimator. Every half's estimate is linear in its
answers y = Xθ + z, so that one half serves many θ:

    θ̂ = A(XᵀXθ + Xᵀz) + S v,   p = x·θ̂, clipped where the mechanism clips.

With (θ, z, v) also (−θ, −z, −v) is drawn, which turns p into −p: luck that leans to one side is cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.beliefs.beliefs import Beliefs
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.mechanism import Mechanism
from truthful.moments import Moments, grid_features, grid_responses, moments
from truthful.noise import L2Laplace
from truthful.payments import lengths
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.simulation.features import Features

#: How many halves are drawn, and for each of them θ and noise.
HALVES, DRAWS = 24, 1000


@dataclass(frozen=True, eq=False)
class Half:
    """Half of the players without their θ: XᵀX and Xᵀz; θ̂ = A(XᵀXθ + Xᵀz) without noise; and draws of θ and S v."""

    gram: Floats
    cross: Floats
    A: Floats
    theta: Floats
    noise: Floats

    @property
    def estimates(self) -> Floats:
        """θ̂ for every θ."""
        return (self.theta @ self.gram + self.cross) @ self.A.T + self.noise


@dataclass(frozen=True, eq=False)
class Expected:
    """For each half and player Σ w·p and Σ w over its draws: over any halves the ratio of the sums estimates p̄."""

    sums: Floats
    counts: Floats

    def mean(self, part: slice) -> tuple[Floats, Floats]:
        """p̄ by some of the halves, and its standard error by how they differ. NaN where no θ makes an answer likely."""
        sums, counts = self.sums[part], self.counts[part]
        total = np.where(counts.sum(axis=0) > 0, counts.sum(axis=0), np.nan)
        means, halves = sums.sum(axis=0) / total, len(sums)
        spread = np.sum((sums - means * counts) ** 2, axis=0) * halves / (halves - 1)
        return means, np.sqrt(spread) / total


def drawn_halves(plan: Plan, features: Features, rng: np.random.Generator) -> list[Half]:
    """Halves of truthful people, their estimates made as the mechanism makes them."""
    beliefs, mechanism = plan.study.beliefs, plan.mechanism
    estimator, m = mechanism.half_estimator(beliefs), max(1, plan.players // 2)
    halves = []
    for _ in range(HALVES):
        kx = grid_features(features(rng, m))
        half = moments(kx, grid_responses(beliefs.noise.sample(rng, m), beliefs.response_bound))
        answer, epsilon = fast_answer(rng), mechanism.epsilon_peer
        answers = [answer(query, epsilon * query.share) for query in estimator.queries(half)]
        estimate = estimator.estimate(answers, m, epsilon)
        v = L2Laplace(beliefs.dimension, estimate.scale).sample(rng, DRAWS)
        halves.append(
            Half(
                half.gram_float,
                half.cross_float,
                linear(mechanism, half, estimate),
                theta=beliefs.prior.sample(rng, beliefs.dimension, DRAWS),
                noise=v @ estimate.spread.T,
            )
        )
    return halves


def linear(mechanism: Mechanism, half: Moments, estimate: Estimate) -> Floats:
    """A: for a ridge (γI + XᵀX)⁻¹. The others add the noise to Xᵀy/m, so that it goes the way of the answers."""
    if mechanism.peers == "ridge-free":
        return ridge(half.gram_float, mechanism.peer_gamma)
    return estimate.spread / half.count


def ridge(gram: Floats, gamma: float) -> Floats:
    """(γI + XᵀX)⁻¹."""
    return np.asarray(np.linalg.inv(gamma * np.eye(len(gram)) + gram))


def expected(beliefs: Beliefs, halves: list[Half], x: Floats, y: Floats, *, clipped: bool) -> Expected:
    """What players with these features and answers can expect of these halves."""
    limit = beliefs.radius * lengths(x) if clipped else np.inf
    sums, counts = np.empty((2, len(halves), len(x)))
    for k, half in enumerate(halves):
        p, u = np.clip(half.estimates @ x.T, -limit, limit), half.theta @ x.T
        likely, turned = beliefs.noise.density(y - u), beliefs.noise.density(y + u)
        sums[k], counts[k] = ((likely - turned) * p).sum(axis=0), (likely + turned).sum(axis=0)
    return Expected(sums, counts)

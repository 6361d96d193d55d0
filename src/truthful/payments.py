"""Step 4 of Algorithm 2: what each player is paid, given the three private estimates.

Every sum runs over the features in their order, one player at a time: a matrix product would round a player's
payment by the size of the batch she comes in. The grid's step is a power of two, so that records may stay in grid steps
until the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truthful import kernels
from truthful.beliefs import Beliefs, Predictor
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.mechanism import Estimates, Mechanism, peer_curve
from truthful.moments import GRID
from truthful.moments import Groups as Groups
from truthful.scoring import PAYMENT_STEPS as PAYMENT_STEPS


def in_millionths(payment: float) -> int:
    """A payment, which is a whole number of millionths, as that number: a float is near enough to tell which."""
    return round(payment * PAYMENT_STEPS)


@dataclass(frozen=True, eq=False)
class Paymaster:
    """Pays players, given the three estimates.

    predictors[j] is the own prediction for players of group j, who are scored against the other half.
    """

    mechanism: Mechanism
    beliefs: Beliefs
    estimates: Estimates
    predictors: tuple[Predictor, Predictor]

    def predictions(self, kx: Floats, ky: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """(p, q): what each player's peers predict of her, and what her own report says they will."""
        r, p, noise = np.empty(len(ky)), np.empty(len(ky)), np.empty(len(ky))
        kernels.peer_predictions(_columns(kx), 1 / GRID, groups, self.peers, r, p, noise)
        return p, self.own_predictions(r, ky / GRID, noise, groups)

    def own_predictions(self, r: Floats, y: Floats, noise: Floats, groups: Groups) -> Floats:
        """q of players with features of length r and report y, whose peers have noise of this scale along them."""
        own, others = self.predictors
        if own is others:
            return own(r, y, noise)
        q = np.empty(len(y))
        for predictor, group in ((own, 0), (others, 1)):
            mine = np.flatnonzero(groups == group)
            q[mine] = predictor(r[mine], y[mine], noise[mine])
        return q

    @cached_property
    def peers(self) -> kernels.Peers:
        """What the kernel knows of the two halves."""
        halves, d = self.estimates.peers, self.beliefs.dimension
        ranges = [noise_range(peer) for peer in halves]
        isotropic = all(low == high for low, high in ranges)
        return kernels.Peers(
            np.array([peer.theta for peer in halves]),
            np.zeros((0, d, d)) if isotropic else np.array([peer.spread for peer in halves]),
            np.array([(peer.scale, *ends) for peer, ends in zip(halves, ranges, strict=True)]),
            self.beliefs.radius if self.mechanism.payments == "never-negative" else math.inf,
        )

    def payments(self, kx: Floats, ky: Floats, groups: Groups) -> Floats:
        """The payments, in currency."""
        return self.payable(*self.predictions(kx, ky, groups))

    def payable(self, p: Floats, q: Floats) -> Floats:
        """The payments for these predictions."""
        return payable(self.mechanism, self.beliefs, p, q)


def paymaster(
    mechanism: Mechanism, beliefs: Beliefs, estimates: Estimates, counts: tuple[int, int]
) -> Paymaster:
    """Everything needed to pay groups of so many players: the estimates and both groups' own predictions."""
    curves = [peer_curve(mechanism, beliefs, counts[1 - group]) for group in (0, 1)]
    ranges = [noise_range(estimates.peers[1 - group]) for group in (0, 1)]
    if curves[0] != curves[1]:
        own, others = (beliefs.predictor(curves[group], ranges[group], counts[group]) for group in (0, 1))
        return Paymaster(mechanism, beliefs, estimates, (own, others))
    if all(low == high for low, high in ranges):
        own = beliefs.predictor_of_two(curves[0], ranges[0][0], ranges[1][0], sum(counts))
    else:
        both = min(low for low, _ in ranges), max(high for _, high in ranges)
        own = beliefs.predictor(curves[0], both, sum(counts))
    return Paymaster(mechanism, beliefs, estimates, (own, own))


def payable(mechanism: Mechanism, beliefs: Beliefs, p: Floats, q: Floats) -> Floats:
    """The rule's payment in whole millionths of the currency unit, rounded down."""
    a, b, rule = mechanism.base_payment, mechanism.score_weight, mechanism.scoring
    low, high = -np.inf, np.inf
    if mechanism.payments == "never-negative":
        # True already in exact arithmetic; this keeps the last bit of a float from breaking a promise.
        low, high = 0.0, a + b * rule.gain(beliefs.radius)
    out = np.empty(len(p))
    kernels.paid(p, q, rule.linear, a, b, low, high, float(PAYMENT_STEPS), out)
    return out


def payment_range(mechanism: Mechanism, beliefs: Beliefs) -> tuple[float, float]:
    """The least and the most that anybody can be paid where payments are never negative, whatever anybody does."""
    a, b, rule = mechanism.base_payment, mechanism.score_weight, mechanism.scoring
    ends = (max(0.0, a - b * rule.loss(beliefs.radius)), a + b * rule.gain(beliefs.radius))
    least, most = (math.floor(end * PAYMENT_STEPS) / PAYMENT_STEPS for end in ends)
    return least, most


def peer_prediction(mechanism: Mechanism, beliefs: Beliefs, peer: Estimate, x: Floats, r: Floats) -> Floats:
    """p = x·θ̂ of the other half; inside ±R‖x‖, where the truth lies, if payments are never negative."""
    p = _along(x, peer.theta)
    if mechanism.payments == "expected":
        return p
    limit = beliefs.radius * r
    clipped: Floats = np.clip(p, -limit, limit)
    return clipped


def noise_along(peer: Estimate, x: Floats, r: Floats) -> Floats:
    """The scale of a peer estimate's noise along each x: s·‖xᵀA‖/‖x‖, where the noise in θ̂ is A v."""
    least, most = noise_range(peer)
    if least == most:
        return np.full(len(r), most)
    stretched = np.empty(len(x))
    kernels.stretched(_columns(x), np.ascontiguousarray(peer.spread), stretched)
    along: Floats = np.clip(peer.scale * stretched / np.where(r > 0, r, 1.0), least, most)
    return along


def noise_range(peer: Estimate) -> tuple[float, float]:
    """The least and largest that noise_along can be, over all directions."""
    least, most = peer.stretch
    return peer.scale * least, peer.scale * most


def lengths(x: Floats) -> Floats:
    """‖x‖ of every row."""
    r = np.empty(len(x))
    kernels.lengths(_columns(x), r)
    return r


def _along(x: Floats, direction: Floats) -> Floats:
    """x·direction of every row."""
    total = np.empty(len(x))
    kernels.along(_columns(x), np.ascontiguousarray(direction), total)
    return total


def _columns(x: Floats) -> Floats:
    return np.ascontiguousarray(x.T)

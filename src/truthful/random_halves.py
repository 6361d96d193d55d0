"""Algorithm 2's parameters, and its first half: three private estimates.

It serves every door: a settlement draws its noise exactly, on a lattice, from the operating system; research
draws it fast, from a seeded generator. What they compute with it is the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from truthful import check
from truthful.beliefs import Beliefs, Predictor
from truthful.beliefs.laws import Clipped, Curve, Identity, Shrunk
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import (
    Estimate,
    Estimator,
    KnownDesign,
    NoisyStatistics,
    RidgeBall,
    RidgeFree,
)
from truthful.estimators.sensitivity import AddNoise
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.moments import GRID, Groups, Moments, along, lengths
from truthful.scoring import RULES, Rule, pay, round_down

PUBLIC_ESTIMATORS = ("known-design", "noisy-statistics", "ridge-ball", "ridge-free")
PEER_ESTIMATORS = ("known-design", "noisy-statistics", "ridge-free")
PAYMENTS = ("never-negative", "expected")
#: Below, noise drowns everything; above, nobody is protected.
EPSILON_RANGE = (1e-6, 100.0)


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The parameters of Algorithm 2, in normalised units.

    epsilon is the total: public_share of it buys the published estimate, the rest the two peer estimates
    (each made from one half of the players, so they share one allowance).
    design is E[x xᵀ], needed by `known-design`; regularization is the ridge penalty γ, needed by the ridges.
    """

    epsilon: float
    base_payment: float
    score_weight: float
    estimator: str = "known-design"
    peer_estimator: str | None = None
    public_share: float = 0.9
    regularization: float | None = None
    peer_regularization: float | None = None
    gram_share: float = 0.5
    rule: str = "quadratic"
    payments: str = "never-negative"
    design: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.positive("epsilon", self.epsilon)
        check.nonnegative("base_payment", self.base_payment)
        check.nonnegative("score_weight", self.score_weight)
        check.share("public_share", self.public_share)
        check.share("gram_share", self.gram_share)
        for name, gamma in (
            ("regularization", self.regularization),
            ("peer_regularization", self.peer_regularization),
        ):
            if gamma is not None:
                check.positive(name, gamma)
        check.choice("rule", self.rule, tuple(RULES))
        check.choice("payments", self.payments, PAYMENTS)
        check.choice("estimator", self.estimator, PUBLIC_ESTIMATORS)
        check.choice("peer_estimator", self.peers, PEER_ESTIMATORS)
        for name in (self.estimator, self.peers):
            if name.startswith("ridge") and self.regularization is None:
                raise InputError(f"Estimator {name!r} needs a regularization (the ridge penalty, above 0).")
            if name == "known-design" and self.design is None:
                raise InputError(
                    "Estimator 'known-design' needs the features' second moments E[x xᵀ]. Declare a design of "
                    "kind uniform, covariance or unit-ball, or choose 'noisy-statistics' for observed features."
                )

    @property
    def peers(self) -> str:
        """The estimator of the two peer estimates; by default the public one, free instead of ball for ridges."""
        if self.peer_estimator is not None:
            return self.peer_estimator
        return "ridge-free" if self.estimator == "ridge-ball" else self.estimator

    @property
    def gamma(self) -> float:
        """The ridge penalty of the published estimate."""
        return check.positive("regularization", self.regularization or 0.0)

    @property
    def peer_gamma(self) -> float:
        """The ridge penalty of the peer estimates; by default the same."""
        return self.peer_regularization or self.gamma

    @property
    def scoring(self) -> Rule:
        """The payment rule."""
        return RULES[self.rule]

    @property
    def epsilon_public(self) -> Fraction:
        """Privacy spent on the published estimate, exactly."""
        return Fraction(self.epsilon) * Fraction(self.public_share)

    @property
    def epsilon_peer(self) -> Fraction:
        """Privacy spent on each peer estimate, exactly: the two spend it once, their players are disjoint."""
        return Fraction(self.epsilon) - self.epsilon_public

    def with_base_payment(self, base_payment: float) -> Mechanism:
        """The same mechanism with another base payment."""
        return replace(self, base_payment=base_payment)

    def require_payable(self, radius: float) -> None:
        """Refuse a base payment that would leave some payment negative: a ≥ b·loss(R)."""
        least = self.score_weight * self.scoring.loss(radius)
        # A last-bit difference is rounding in the product, not a payment anybody could see.
        if self.payments == "never-negative" and not self.base_payment >= least * (1 - 1e-12):
            raise InputError(
                f"base_payment is {self.base_payment:g}; payments of the rule '{self.rule}' with score_weight "
                f"{self.score_weight:g} and coefficient bound {radius:g} can fall to "
                f"{self.base_payment - least:.6g}. Raise base_payment to at least {least:.6g} or lower score_weight."
            )

    def public_estimator(self, beliefs: Beliefs) -> Estimator:
        """The estimator of the published coefficients."""
        if self.estimator == "ridge-ball":
            return RidgeBall(beliefs.dimension, self.gamma, beliefs.radius, beliefs.response_bound)
        return self._make_estimator(self.estimator, beliefs, self.regularization)

    def half_estimator(self, beliefs: Beliefs) -> Estimator:
        """The estimator of each half's coefficients."""
        return self._make_estimator(self.peers, beliefs, self.peer_regularization or self.regularization)

    def _make_estimator(self, name: str, beliefs: Beliefs, gamma: float | None) -> Estimator:
        d, Y = beliefs.dimension, beliefs.response_bound
        if name == "ridge-free" and gamma is not None:
            return RidgeFree(d, gamma, Y)
        if name == "known-design" and self.design is not None:
            return KnownDesign(self.design, Y)
        return NoisyStatistics(d, Y, Fraction(self.gram_share))


@dataclass(frozen=True, eq=False)
class Estimates:
    """The three private estimates: what everybody may see."""

    public: Estimate
    peers: tuple[Estimate, Estimate]


def private_estimates(
    moments: tuple[Moments, Moments], mechanism: Mechanism, beliefs: Beliefs, add_noise: AddNoise
) -> Estimates:
    """Steps 2 and 3 of Algorithm 2: everybody's estimate and each half's, each with its own fresh noise."""
    everybody = moments[0] + moments[1]
    peer = mechanism.half_estimator(beliefs)
    public = _estimate(mechanism.public_estimator(beliefs), everybody, mechanism.epsilon_public, add_noise)
    half_0, half_1 = (_estimate(peer, half, mechanism.epsilon_peer, add_noise) for half in moments)
    return Estimates(public, (half_0, half_1))


def _estimate(estimator: Estimator, moments: Moments, epsilon: Fraction, add_noise: AddNoise) -> Estimate:
    answers = [add_noise(query, epsilon * query.share) for query in estimator.queries(moments)]
    return estimator.estimate(answers, moments.count, epsilon)


def peer_curve(mechanism: Mechanism, beliefs: Beliefs, peer_count: int) -> Curve:
    """ψ: what a peer estimate of so many players predicts, on average, when the truth along x is u.

    Shrinkage (`ridge-free`) and clipping (never-negative payments) are both public functions of u, so
    scoring against E[ψ(u) | x, y] removes them from the incentives exactly.
    """
    factor = 1.0
    if mechanism.peers == "ridge-free":
        gamma = (
            mechanism.regularization
            if mechanism.peer_regularization is None
            else mechanism.peer_regularization
        )
        factor = shrinkage_factor(
            peer_count, check.positive("regularization", gamma or 0.0), beliefs.dimension
        )
    if mechanism.payments == "never-negative":
        return Clipped(beliefs.radius, beliefs.dimension, factor)
    return Identity() if factor == 1.0 else Shrunk(factor)


@dataclass(frozen=True, eq=False)
class HalvesPaymaster:
    """Pays players, given the three estimates.

    predictors[j] is the own prediction for players of group j, who are scored against the other half.
    """

    mechanism: Mechanism
    beliefs: Beliefs
    estimates: Estimates
    predictors: tuple[Predictor, Predictor]

    def predictions(self, kx: Floats, ky: Floats, groups: Groups) -> tuple[Floats, Floats]:
        """(p, q): what each player's peers predict of her, and what her own report says they will."""
        r, p, noise = self.peer_predictions(kx, groups)
        return p, self.own_predictions(r, ky / GRID, noise, groups)

    def peer_predictions(self, kx: Floats, groups: Groups) -> tuple[Floats, Floats, Floats]:
        """‖x‖ of each player, what the half that she is not in predicts of her, and the scale of its noise along x."""
        x = kx / GRID
        r, (first, second) = lengths(x), self.estimates.peers
        predicted = [peer_prediction(self.mechanism, self.beliefs, peer, x, r) for peer in (second, first)]
        noise = [noise_along(peer, x, r) for peer in (second, first)]
        return r, np.where(groups == 0, *predicted), np.where(groups == 0, *noise)

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

    def payments(self, kx: Floats, ky: Floats, groups: Groups) -> Floats:
        """The payments, in currency."""
        return self.payable(*self.predictions(kx, ky, groups))

    def payable(self, p: Floats, q: Floats) -> Floats:
        """The payments for these predictions."""
        return payable(self.mechanism, self.beliefs, p, q)


def paymaster(
    mechanism: Mechanism, beliefs: Beliefs, estimates: Estimates, counts: tuple[int, int]
) -> HalvesPaymaster:
    """Everything needed to pay groups of so many players: the estimates and both groups' own predictions."""
    curves = [peer_curve(mechanism, beliefs, counts[1 - group]) for group in (0, 1)]
    ranges = [noise_range(estimates.peers[1 - group]) for group in (0, 1)]
    if curves[0] != curves[1]:
        own, others = (beliefs.predictor(curves[group], ranges[group], counts[group]) for group in (0, 1))
        return HalvesPaymaster(mechanism, beliefs, estimates, (own, others))
    both = min(low for low, _ in ranges), max(high for _, high in ranges)
    own = beliefs.predictor(curves[0], both, sum(counts))
    return HalvesPaymaster(mechanism, beliefs, estimates, (own, own))


def payable(mechanism: Mechanism, beliefs: Beliefs, p: Floats, q: Floats) -> Floats:
    """The rule's payment in whole millionths of the currency unit, rounded down."""
    reach = beliefs.radius if mechanism.payments == "never-negative" else None
    return pay(mechanism.scoring, p, q, mechanism.base_payment, mechanism.score_weight, reach)


def payment_range(mechanism: Mechanism, beliefs: Beliefs) -> tuple[float, float]:
    """The least and the most that anybody can be paid where payments are never negative, whatever anybody does."""
    a, b, rule = mechanism.base_payment, mechanism.score_weight, mechanism.scoring
    ends = (max(0.0, a - b * rule.loss(beliefs.radius)), a + b * rule.gain(beliefs.radius))
    least, most = round_down(np.array(ends)).tolist()
    return least, most


def peer_prediction(mechanism: Mechanism, beliefs: Beliefs, peer: Estimate, x: Floats, r: Floats) -> Floats:
    """p = x·θ̂ of the other half; inside ±R‖x‖, where the truth lies, if payments are never negative."""
    p = along(x, peer.theta)
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
    stretched = np.sqrt(sum((along(x, column) ** 2 for column in peer.spread.T), np.zeros(len(x))))
    return np.clip(peer.scale * stretched / np.where(r > 0, r, 1.0), least, most)


def noise_range(peer: Estimate) -> tuple[float, float]:
    """The least and largest that noise_along can be, over all directions."""
    least, most = peer.stretch
    return peer.scale * least, peer.scale * most

"""The paper's Algorithm 2, for research: its parameters, three private estimates, and what each half predicts.

`truthful.private_regression` runs it on arrays. No study is planned or settled by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from truthful import check
from truthful.beliefs import Beliefs
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
from truthful.scoring import RULES, Rule, pay

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


def predictions(
    mechanism: Mechanism, beliefs: Beliefs, estimates: Estimates, kx: Floats, ky: Floats, groups: Groups
) -> tuple[Floats, Floats]:
    """(p, q): what the other half predicts of each player, and what her own report says that it will.

    p is inside ±R‖x‖, where the truth lies, if payments are never negative.
    """
    x, y, sizes = kx / GRID, ky / GRID, np.bincount(groups, minlength=2).tolist()
    p, q, r = np.empty(len(y)), np.empty(len(y)), lengths(x)
    for group, peer in ((0, estimates.peers[1]), (1, estimates.peers[0])):
        mine = np.flatnonzero(groups == group)
        curve = peer_curve(mechanism, beliefs, sizes[1 - group])
        own = beliefs.predictor(curve, peer.noise_range, len(mine))
        p[mine] = along(x[mine], peer.theta)
        if mechanism.payments == "never-negative":
            p[mine] = np.clip(p[mine], -beliefs.radius * r[mine], beliefs.radius * r[mine])
        q[mine] = own(r[mine], y[mine], peer.noise_along(x[mine], r[mine]))
    return p, q


def payable(mechanism: Mechanism, beliefs: Beliefs, p: Floats, q: Floats) -> Floats:
    """The rule's payment in whole millionths of the currency unit, rounded down."""
    reach = beliefs.radius if mechanism.payments == "never-negative" else None
    return pay(mechanism.scoring, p, q, mechanism.base_payment, mechanism.score_weight, reach)

"""Step 4 of Algorithm 2: what each player is paid, given the three private estimates.

Every sum runs over the features in their order, one player at a time: a matrix product would round a player's
payment by the size of the batch she comes in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful.beliefs.beliefs import Beliefs, Predictor
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.mechanism import Estimates, Mechanism, peer_curve
from truthful.moments import GRID

# A payment is a whole number of millionths of the currency unit, rounded down: never above its cap.
PAYMENT_STEPS = 1_000_000

Groups = npt.NDArray[np.uint8]


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
        p, q = np.empty(len(ky)), np.empty(len(ky))
        for group, own_prediction in enumerate(self.predictors):
            mine = np.flatnonzero(groups == group)
            x, y, peer = kx[mine] / GRID, ky[mine] / GRID, self.estimates.peers[1 - group]
            r = lengths(x)
            p[mine] = peer_prediction(self.mechanism, self.beliefs, peer, x, r)
            q[mine] = own_prediction(r, y, noise_along(peer, x, r))
        return p, q

    def payments(self, kx: Floats, ky: Floats, groups: Groups) -> Floats:
        """The payments, in currency."""
        return payable(self.mechanism, self.beliefs, *self.predictions(kx, ky, groups))


def paymaster(
    mechanism: Mechanism, beliefs: Beliefs, estimates: Estimates, counts: tuple[int, int]
) -> Paymaster:
    """Everything needed to pay groups of so many players: the estimates and both groups' own predictions."""
    curves = [peer_curve(mechanism, beliefs, counts[1 - group]) for group in (0, 1)]
    ranges = [noise_range(estimates.peers[1 - group]) for group in (0, 1)]
    if curves[0] == curves[1]:  # one predictor serves both groups
        both = min(low for low, _ in ranges), max(high for _, high in ranges)
        own = beliefs.predictor(curves[0], both, sum(counts))
        return Paymaster(mechanism, beliefs, estimates, (own, own))
    own_0, own_1 = (beliefs.predictor(curves[group], ranges[group], counts[group]) for group in (0, 1))
    return Paymaster(mechanism, beliefs, estimates, (own_0, own_1))


def payable(mechanism: Mechanism, beliefs: Beliefs, p: Floats, q: Floats) -> Floats:
    """The rule's payment in whole millionths of the currency unit, rounded down."""
    a, b = mechanism.base_payment, mechanism.score_weight
    exact = mechanism.scoring(p, q, a=a, b=b)
    if mechanism.payments == "never-negative":
        # True already in exact arithmetic; this keeps the last bit of a float from breaking a promise.
        exact = np.clip(exact, 0.0, a + b * mechanism.scoring.gain(beliefs.radius))
    paid: Floats = np.floor(exact * PAYMENT_STEPS) / PAYMENT_STEPS
    return paid


def peer_prediction(mechanism: Mechanism, beliefs: Beliefs, peer: Estimate, x: Floats, r: Floats) -> Floats:
    """p = x·θ̂ of the other half; inside ±R‖x‖, where the truth lies, if payments are never negative."""
    p = _along(x, peer.theta)
    if mechanism.payments == "expected":
        return p
    limit = beliefs.radius * r
    clipped: Floats = np.clip(p, -limit, limit)
    return clipped


def noise_along(peer: Estimate, x: Floats, r: Floats) -> Floats:
    """The scale of a peer estimate's noise along each x: s·‖A x‖/‖x‖, where the noise in θ̂ is A v."""
    stretched = np.sqrt(sum(_along(x, column) ** 2 for column in peer.spread.T))
    least, most = noise_range(peer)
    along: Floats = np.clip(peer.scale * stretched / np.where(r > 0, r, 1.0), least, most)
    return along


def noise_range(peer: Estimate) -> tuple[float, float]:
    """The least and largest that noise_along can be, over all directions."""
    stretches = np.linalg.svd(peer.spread, compute_uv=False)
    return float(peer.scale * stretches[-1]), float(peer.scale * stretches[0])


def lengths(x: Floats) -> Floats:
    """‖x‖ of every row."""
    squares = np.zeros(len(x))
    for column in x.T:
        squares += column * column
    return np.sqrt(squares)


def _along(x: Floats, direction: Floats) -> Floats:
    """x·direction of every row."""
    total = np.zeros(len(x))
    for column, weight in zip(x.T, direction, strict=True):
        if weight != 0:
            total += column * weight
    return total

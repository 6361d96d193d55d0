"""What everybody is paid, given one release: each is scored against what everybody else's reports predict of her.

With w = M⁻ᵀx, her leverage h = w·ζ and what M keeps without her, 1 − h or (n−1)/n (truthful.one_release),

    p = (x·θ̂ − hy)/kept, within ±c‖x‖      the others' prediction, in which there is nothing of her report y
    t = s‖w‖/kept                           the scale of the noise in it
    q = ‖x‖·E[ψ(u) | x, y]                  her own prediction, ψ at the scale t/‖x‖
    payment = max(a, b·loss(c‖x‖)) + b·score(p, q)

Sums run over the features in their order, one player at a time: nobody's payment depends on who stands beside her.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truthful import kernels
from truthful.beliefs import WIDEST_RANGE, Beliefs, Predictor
from truthful.check import Floats
from truthful.moments import in_fours, stacked
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.payments import PAYMENT_STEPS

#: Nobody whose leverage is larger is scored: more than half of what is known of people like her is she herself.
LARGEST_LEVERAGE = 0.5
#: Instruments are rounded to the grid, which can leave a leverage that little below 0.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Scored:
    """What decided each player's payment, one entry for each: her leverage, the scale of the noise in her peers'
    prediction, that prediction, her own, and the payment."""

    leverage: Floats
    noise_scale: Floats
    peer_prediction: Floats
    own_prediction: Floats
    payment: Floats


@dataclass(frozen=True, eq=False)
class Paymaster:
    """Pays players, given the estimate from which anybody's own report can be taken out."""

    mechanism: OneRelease
    beliefs: Beliefs
    estimate: LeaveOneOut
    predictor: Predictor

    def scored(self, kx: Floats, ky: Floats) -> Scored:
        """The scores and payments of players on the grid."""
        found = tuple(np.empty(len(ky)) for _ in range(6))
        k = stacked(kx, ky, self.others.transform)
        kernels.predict_columns(k, self.others, np.empty((6, kernels.PANEL)), *found)
        return self.score(*found)

    def score(self, r: Floats, y: Floats, h: Floats, p: Floats, noise: Floats, along: Floats) -> Scored:
        """The same, from what the kernel finds: ‖x‖, y, h, p, t and t/‖x‖."""
        q = self.predictor(r, y, along)
        return Scored(h, noise, p, q, payable(self.mechanism, r, p, q))

    @cached_property
    def others(self) -> kernels.Others:
        """What the kernel knows of the release."""
        estimate = self.estimate
        return kernels.Others(
            np.ascontiguousarray(estimate.theta, dtype=np.float64),
            in_fours(estimate.inverse.T),
            in_fours(estimate.transform),
            float(estimate.scale),
            float(estimate.kept or 0.0),
            float(self.mechanism.clip) if self.mechanism.clipped else math.inf,
        )


def paymaster(
    mechanism: OneRelease,
    beliefs: Beliefs,
    estimate: LeaveOneOut,
    count: int,
    noise: tuple[float, float] | None = None,
) -> Paymaster:
    """Everything needed to pay so many players; `noise` is the range of t/‖x‖ among them, if it is known."""
    low, high = noise_range(estimate) if noise is None else noise
    # A table for so wide a range serves all but the few below it; they are answered directly.
    low = max(low, high / WIDEST_RANGE)
    return Paymaster(
        mechanism, beliefs, estimate, beliefs.predictor(mechanism.curve(beliefs), (low, high), count)
    )


def noise_range(estimate: LeaveOneOut) -> tuple[float, float]:
    """The least and the largest that the scale of noise along x, t/‖x‖ = s‖M⁻ᵀx‖/(kept·‖x‖), can be for any x.

    Where kept = 1 − h: h ≤ ‖M⁻¹‖, as ‖x‖ and ‖ζ‖ are at most 1, and nobody has a leverage above ½.
    """
    stretches = np.linalg.svd(estimate.inverse, compute_uv=False)
    least, most = float(stretches[-1]), float(stretches[0])
    if estimate.kept is not None:
        return estimate.scale * least / estimate.kept, estimate.scale * most / estimate.kept
    kept = 1.0 - min(LARGEST_LEVERAGE, most)
    return estimate.scale * least / (1.0 + _ROUNDING), estimate.scale * most / kept


def payable(mechanism: OneRelease, r: Floats, p: Floats, q: Floats) -> Floats:
    """The payments for these predictions, in whole millionths of the currency unit, rounded down."""
    a, b, linear = float(mechanism.base_payment), float(mechanism.score_weight), mechanism.scoring.linear
    out = np.empty(len(p))
    if mechanism.clipped:
        clip = float(mechanism.clip)
        kernels.paid_by_length(p, q, r, linear, a, b, clip, float(PAYMENT_STEPS), out)
    else:
        kernels.paid(p, q, linear, a, b, -np.inf, np.inf, float(PAYMENT_STEPS), out)
    return out


def payment_range(mechanism: OneRelease) -> tuple[float, float]:
    """The least and the most that anybody can be paid where payments are never negative, whatever anybody does."""
    a, b, rule, c = mechanism.base_payment, mechanism.score_weight, mechanism.scoring, mechanism.clip
    most = max(a, b * rule.loss(c)) + b * rule.gain(c)
    ends = (max(0.0, a - b * rule.loss(c)), most)
    low, high = (math.floor(end * PAYMENT_STEPS) / PAYMENT_STEPS for end in ends)
    return low, high

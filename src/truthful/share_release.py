"""The mechanism for yes or no and for ratings: one release, and a bonus that follows what the others say.

With p the share of yes that everybody else's answers predict for people like her (her own answer removed), t the switch
point, w the width and δ from the beliefs about such people (truthful.study.credibility), and y from −1 (no, or the
lowest rating) to 1 (yes, or the highest),

    φ = (p − t)/w, within ±1
    payment = flat + (bonus/2)·(1 + φy + (δ/2w)(1 − y²))        which lies between flat and flat + bonus

It is the quadratic rule a + b(2(p − t)(q − t) − (q − t)²) at her own prediction q = t + δy, with b = bonus/4δw and the
least a with which no payment is below the flat fee. For yes and no the last term is 0: yes pays flat + bonus·(1 + φ)/2
and no flat + bonus·(1 − φ)/2.

Where p is further than `tolerance` beyond every share thought possible, everybody like her is paid flat + bonus/2,
whatever she said: so all saying no wins nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.moments import GRID
from truthful.one_release import LeaveOneOut, Scored, SumRelease, peer_predictions
from truthful.scoring import round_down
from truthful.study.credibility import ShareBeliefs

#: The name of the payment rule.
SWITCH = "switch"


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareRelease(SumRelease):
    """The release for yes and no or ratings, and the payments: flat for everybody, and up to bonus more.

    margin widens the range of shares that count beyond those thought possible; tolerance is how far beyond them a share
    is implausible, math.inf if none is.
    """

    flat: float
    bonus: float
    margin: float = 0.0
    tolerance: float = math.inf

    payments = "never-negative"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("flat", "bonus", "margin"):
            check.nonnegative(name, getattr(self, name))
        if not self.tolerance > 0:
            check.positive("tolerance", self.tolerance)

    def steps(self, beliefs: ShareBeliefs, x: Floats, y: Floats, p: Floats) -> tuple[Floats, Floats, Floats]:
        """φ, the own prediction, and the payment in whole millionths, rounded down; p is a share, y from −1 to 1."""
        expected = beliefs.expects(x)
        switch, delta, width = expected.switch, expected.advantage, expected.width(self.margin)
        plausible = (p >= expected.low - self.tolerance) & (p <= expected.high + self.tolerance)
        phi = np.clip((p - switch) / width, -1.0, 1.0)
        paid = 1.0 + phi * y + delta / (2 * width) * (1.0 - y * y)
        amount = self.flat + self.bonus / 2 * np.where(plausible, paid, 1.0)
        amount = np.minimum(np.maximum(amount, self.flat), self.flat + self.bonus)
        return np.where(plausible, phi, 0.0), np.asarray(switch + delta * y), round_down(amount)

    @property
    def payment_range(self) -> tuple[float, float]:
        """The least and the largest payment, whatever anybody does."""
        low, high = round_down(np.array([self.flat, self.flat + self.bonus])).tolist()
        return low, high


@dataclass(frozen=True, eq=False)
class SharePaymaster:
    """Pays for yes or no, and for ratings."""

    mechanism: ShareRelease
    beliefs: ShareBeliefs
    estimate: LeaveOneOut

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> Scored:
        """The scores and payments of players on the grid; predictions are shares, and are not clipped."""
        found = peer_predictions(self.estimate, kx, ky)
        share = (1.0 + found.prediction) / 2
        _, q, payment = self.mechanism.steps(self.beliefs, kx / GRID, found.report, share)
        return Scored(found.leverage, found.noise_scale / 2, share, q, payment)

"""Payment rules: the pay for the prediction that a player's report implies, given her peers' prediction.

Both rules are affine in the peers' prediction p and strictly concave in her own prediction q, with the maximum at q =
p. So whatever the distribution of p given what she knows, her expected payment is largest, and only there, at q = E[p]:
the rules are strictly proper (the paper, appendix "Peer Prediction and the Brier Scoring Rule").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.check import Floats

# A payment is a whole number of millionths of the currency unit, rounded down: never above its cap.
PAYMENT_STEPS = 1_000_000


def brier(p: npt.ArrayLike, q: npt.ArrayLike, *, a: float, b: float) -> Floats:
    """The paper's rule, B_{a,b}(p, q) = a − b(p − 2pq + q²)."""
    p, q = check.floats("p", p), check.floats("q", q)
    return np.asarray(a - b * (p - 2 * p * q + q * q))


def quadratic(p: npt.ArrayLike, q: npt.ArrayLike, *, a: float, b: float) -> Floats:
    """a + b(2pq − q²): the paper's rule without −bp, which no report can change."""
    p, q = check.floats("p", p), check.floats("q", q)
    return np.asarray(a + b * (2 * p * q - q * q))


def basic_brier(event: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
    """BasicBrier(I, q) = 2Iq + 2(1−I)(1−q) − q² − (1−q)², for an event that happened (I = 1) or not."""
    happened, q = check.floats("event", event), check.floats("q", q)
    return np.asarray(2 * happened * q + 2 * (1 - happened) * (1 - q) - q**2 - (1 - q) ** 2)


def binary_score(p: npt.ArrayLike, q: npt.ArrayLike) -> Floats:
    """B(p, q) = 1 − 2(p − 2pq + q²), the mean of BasicBrier(I, q) over an event of probability p.

    It is brier with a = 1 and b = 2. The paper calls it positive; it lies in [−1, 1], and B(1, 0) = −1.
    """
    return brier(p, q, a=1.0, b=2.0)


@dataclass(frozen=True)
class Rule:
    """A payment rule a + b·score(p, q), and the extremes of its score over |p| ≤ R, |q| ≤ R.

    Payments lie in [a − b·loss(R), a + b·gain(R)], and both ends are attained.
    """

    name: str
    function: Callable[..., Floats]
    linear: float
    """The score's term −linear·p: 0 for quadratic, 1 for brier."""

    def __call__(self, p: npt.ArrayLike, q: npt.ArrayLike, *, a: float, b: float) -> Floats:
        return self.function(p, q, a=a, b=b)

    def loss(self, radius: float) -> float:
        """The least base payment, per unit of b, that makes no payment negative: needed at (p, q) = (R, −R)."""
        R = check.nonnegative("radius", radius)
        return self.linear * R + 3 * R**2

    def gain(self, radius: float) -> float:
        """The most by which a payment exceeds the base payment, per unit of b: attained at (p, q) = (−R, −R)."""
        R = check.nonnegative("radius", radius)
        return self.linear * R + R**2


def round_down(amounts: Floats) -> Floats:
    """Round amounts down to millionths of the currency unit."""
    return np.asarray(np.floor(amounts * PAYMENT_STEPS) / PAYMENT_STEPS)


def pay(
    rule: Rule, p: Floats, q: Floats, base: Floats | float, weight: float, reach: Floats | float | None
) -> Floats:
    """base + weight·score(p, q), rounded down; never below 0 or above what |p| ≤ reach allows; None: no limits."""
    exact = base + weight * (2.0 * p * q - q * q - rule.linear * p)
    if reach is not None:
        # True in exact arithmetic; this keeps the last bit of a float from breaking the promise.
        most = base + weight * (rule.linear * reach + reach * reach)
        exact = np.minimum(np.maximum(exact, 0.0), most)
    return round_down(exact)


RULES: Mapping[str, Rule] = MappingProxyType(
    {"quadratic": Rule("quadratic", quadratic, 0.0), "brier": Rule("brier", brier, 1.0)}
)

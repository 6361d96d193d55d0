"""Slow, obviously right twins of truthful.costs."""

from __future__ import annotations

from fractions import Fraction
from math import comb

from truthful.costs import Costs


def chance_enough_stay(n: int, most_absent: int, miss: Fraction) -> Fraction:
    """P[Binomial(n, miss) ≤ most_absent], term by term in exact arithmetic."""
    return sum(
        (comb(n, k) * miss**k * (1 - miss) ** (n - k) for k in range(most_absent + 1)), start=Fraction(0)
    )


def is_enough(costs: Costs, tau: float, n: int, alpha: Fraction, beta: Fraction) -> bool:
    """Whether the threshold tau meets both conditions of its definition."""
    miss = Fraction(float(costs.survival(tau)))
    return chance_enough_stay(n, int(alpha * n), miss) >= 1 - beta and miss <= alpha

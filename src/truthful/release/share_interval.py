"""The interval of a single share of yes: exact, from the law of what was released.

n people answer ±1, each yes with probability P, and S + K is released, K Laplace of scale 2/ε. In units of a count of
yes that is T = (S + K + n)/2 = Binomial(n, P) + Laplace(1/ε). Whatever n, P and ε, T is continuous and rises with P in
distribution: an end of the interval is the P at which a T beyond the one released has the chance (1 − level)/2.

A T outside 0…n is read as 0 or n. So no interval is a single point, as one that lies wholly outside would be if it were
cut to 0…1. It covers P with probability `level`, and (1 + level)/2 for a P so near to 0 or 1 that noise alone decides.
"""

from __future__ import annotations

import math

import numpy as np

from truthful import check
from truthful.noise import L2Laplace

#: Chances below e^−36 = 2e-16 are left out.
SMALL = 36.0


def share_interval(
    noisy_sum: float, players: int, epsilon: float, level: float = 0.95
) -> tuple[float, float]:
    """The ends of the equal-tailed interval for P, given the released sum of answers ±1 of so many players."""
    check.finite("noisy_sum", noisy_sum)
    n = check.integer("players", players)
    noise = L2Laplace(1, 1 / check.positive("epsilon", epsilon))
    tail = (1 - check.share("level", level)) / 2
    t = min(max((noisy_sum + n) / 2, 0.0), float(n))
    return _share_at(tail, t, n, noise), _share_at(1 - tail, t, n, noise)


def _share_at(chance: float, t: float, n: int, noise: L2Laplace) -> float:
    """The P with P(T ≥ t) = chance; 0 or 1 where every P has more, or less."""
    from scipy import optimize  # takes long to load, and few releases are of a single share

    if _upper_tail(0.0, t, n, noise) >= chance:
        return 0.0
    if _upper_tail(1.0, t, n, noise) <= chance:
        return 1.0

    def excess(P: float) -> float:
        return _upper_tail(P, t, n, noise) - chance

    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-16, rtol=4 * np.finfo(float).eps))


def _upper_tail(P: float, t: float, n: int, noise: L2Laplace) -> float:
    """P(T ≥ t), to 1e-11: a sum over the counts k of yes that are neither out of reach nor far from t.

    A Binomial(n, P) is out of nP ± r with chance 2e^−L at most, r = L/3 + sqrt(L²/9 + 2LnP(1 − P)) (Bernstein).
    """
    from scipy import stats

    reach = SMALL / 3 + math.sqrt(SMALL**2 / 9 + 2 * SMALL * n * P * (1 - P))
    far = SMALL * noise.scale
    first = math.ceil(max(0.0, n * P - reach, t - far))
    last = math.floor(min(float(n), n * P + reach, t + far))
    k = np.arange(first, last + 1)
    near = stats.binom.pmf(k, n, P) @ noise.marginal_cdf(k - t)
    # Counts above those: T ≥ t all but surely, or they are out of reach. (special.bdtrc is off by 1e-4 at n = 10^7.)
    return float(near + stats.binom.sf(last, n, P))

"""A player's peers: how many there are, the eigenvalues of their XᵀX, and how far the liars among them pull.

For independent x with ‖x‖ ≤ 1, μ = count·λ_min(Σ) and μ⁺ = count·λ_max(Σ), matrix Chernoff bounds have the exponents
(Tropp, "User-friendly tail bounds for sums of random matrices", 2012, theorem 1.1, not rounded to ξ²/2 and ξ²/3):

    P(λ_min(XᵀX) ≤ (1−ξ)μ)  ≤ d·exp(−μ[ξ + (1−ξ)ln(1−ξ)]),
    P(λ_max(XᵀX) ≥ (1+ξ)μ⁺) ≤ d·exp(−μ⁺[(1+ξ)ln(1+ξ) − ξ]).

Liars choose their reports, never their features. Who lies is decided by privacy costs, which may depend on a player's
own features and answer; a player believes of each of the others that she lies with probability at most α, independently
of the rest (the paper's lemma on the expected share of misreports). What the liars report may be agreed between them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from truthful.bounds.setting import Model, Numbers, Setting
from truthful.check import Floats

#: The chance that a random half is smaller than `least_half` says, and that it is larger than `most_half` says.
HALF_MISS = 1e-12
_DEVIATION = math.log(1 / HALF_MISS) / 2


def least_half(n: Numbers) -> Floats:
    """The fewest players a player is scored against: of the n−1 others each is in the other half with chance ½.

    Fewer with probability below HALF_MISS, by Hoeffding's inequality; never none, since nothing is settled with an
    empty half.
    """
    others = np.asarray(n, dtype=np.float64) - 1
    return np.maximum(1.0, np.ceil(others / 2 - np.sqrt(others * _DEVIATION)))


def most_half(n: Numbers) -> Floats:
    """The most players a player is scored against; more with probability below HALF_MISS."""
    others = np.asarray(n, dtype=np.float64) - 1
    return np.maximum(1.0, np.minimum(others, np.floor(others / 2 + np.sqrt(others * _DEVIATION))))


def fewest_peers(s: Setting) -> Floats:
    """The fewest players that a player is scored against: all others, or those of the least half."""
    return np.asarray(s.n, dtype=np.float64) - 1 if s.leave_one_out else least_half(s.n)


def most_peers(s: Setting) -> Floats:
    """The most players that a player is scored against: all others, or those of the largest half."""
    return np.asarray(s.n, dtype=np.float64) - 1 if s.leave_one_out else most_half(s.n)


def shortfall_chance(model: Model, count: Numbers, xi: Numbers) -> Floats:
    """P(λ_min(XᵀX) ≤ (1−ξ)·count·λ_min(Σ)) is at most this."""
    mu, kept = np.asarray(count) * model.least_eigenvalue, 1 - np.asarray(xi)
    return np.asarray(np.minimum(1.0, model.dimension * np.exp(-mu * (xi + special.xlogy(kept, kept)))))


def excess_chance(model: Model, count: Numbers, xi: Numbers) -> Floats:
    """P(λ_max(XᵀX) ≥ (1+ξ)·count·λ_max(Σ)) is at most this."""
    mu, grown = np.asarray(count) * model.greatest_eigenvalue, 1 + np.asarray(xi)
    return np.asarray(np.minimum(1.0, model.dimension * np.exp(-mu * (special.xlogy(grown, grown) - xi))))


def least_spectrum(model: Model, count: Numbers, beta: Numbers) -> Floats:
    """A lower bound of λ_min(XᵀX) that fails with probability at most β; 0 if there is none.

    w = 1−ξ solves 1 − w + w·ln w = L, L = ln(d/β)/μ: with w = e^(1+v), v·e^v = (L−1)/e on the lower branch.
    """
    mu = np.asarray(count * model.least_eigenvalue, dtype=np.float64)
    with np.errstate(divide="ignore"):
        L = np.log(model.dimension / np.asarray(beta)) / mu
    v = special.lambertw((np.minimum(L, 1.0) - 1) / np.e, -1).real
    # At L = 1, w = 0: the least bound there is.
    return np.where(L < 1, np.exp(1 + np.where(L < 1, v, 0.0)) * mu, 0.0)


def greatest_spectrum(model: Model, count: Numbers, beta: Numbers) -> Floats:
    """Exceeded by λ_max(XᵀX) with probability at most β; `count`, which is never exceeded, if that is less.

    w = 1+ξ solves w·ln w − w + 1 = L: the upper branch of the same equation.
    """
    mu = np.asarray(count * model.greatest_eigenvalue, dtype=np.float64)
    L = np.log(model.dimension / np.asarray(beta)) / mu
    w = np.exp(1 + special.lambertw((L - 1) / np.e, 0).real)
    return np.asarray(np.minimum(count, w * mu))


def expected_pull(model: Model, alpha: Numbers) -> Floats:
    """sup over the features x of E[|xᵀΣ⁻¹x'|·1(x' lies)]: liars move Σ⁻¹Xᵀy/m, along x, by 2Y times this on average.

    Each lie changes a report by at most 2Y. A liar's features are still drawn from the design, so the worst liars are
    the α share of the design with the greatest weight |xᵀΣ⁻¹x'|. On the ball that weight is (d+2)|t|, t having the
    density C(1−t²)^((d−1)/2): with P(|t| > c) = α it adds up to (d+2)·2C(1−c²)^((d+1)/2)/(d+1). For other designs
    |xᵀΣ⁻¹x'| ≤ leverage, and E[(xᵀΣ⁻¹x')²] = xᵀΣ⁻¹x ≤ leverage, so it is at most min(α·leverage, √(α·leverage)).
    """
    alpha = np.asarray(alpha, dtype=np.float64)
    if not model.ball:
        most = alpha * model.leverage if math.isfinite(model.leverage) else np.where(alpha > 0, np.inf, 0.0)
        return np.minimum(most, np.sqrt(most))
    d = model.dimension
    C = math.exp(math.lgamma(d / 2 + 1) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)
    # 1 − t² ~ Beta((d+1)/2, 1/2)
    beyond = special.betaincinv((d + 1) / 2, 0.5, alpha)
    return np.asarray((d + 2) * 2 * C / (d + 1) * beyond ** ((d + 1) / 2))


def pull(model: Model, alpha: Numbers) -> Floats:
    """sup of ‖Σ⁻¹·Σ_j x_j/n‖ over any αn of the players: α·sup‖Σ⁻¹x‖. Liars who know everything move θ̂ by 2Y this."""
    if not math.isfinite(model.reach):
        return np.full(np.shape(alpha), np.inf)
    return np.asarray(alpha * model.reach)

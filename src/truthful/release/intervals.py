"""How far a published share or odds ratio can be from the truth: the exact interval of a single share; odds ratios.
Post-processing all of it, which costs no privacy. Those of coefficients follow from `truthful.error_laws`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.noise import L2Laplace, laplace
from truthful.one_release import WORST_CONDITION

#: Chances below e^−36 = 2e-16 are left out.
REMOTE = 36.0


def share_interval(
    noisy_sum: float, players: int, epsilon: float, level: float = 0.95
) -> tuple[float, float]:
    """The ends of the equal-tailed interval for a share P of yes, given the released sum of answers ±1 of n players.

    Each says yes with probability P, and S + K is released, K Laplace of scale 2/ε. In units of a count of yes that is
    T = (S + K + n)/2 = Binomial(n, P) + Laplace(1/ε). Whatever n, P and ε, T is continuous and rises with P in
    distribution: an end of the interval is the P at which a T beyond the one released has the chance (1 − level)/2.

    A T outside 0…n is read as 0 or n. So no interval is a single point, as one that lies wholly outside would be if it
    were cut to 0…1. It covers P with probability `level`, and (1 + level)/2 for a P so near to 0 or 1 that noise alone
    decides.
    """
    check.finite("noisy_sum", noisy_sum)
    n = check.integer("players", players)
    noise = L2Laplace(1, 1 / check.positive("epsilon", epsilon))
    tail = (1 - check.share("level", level)) / 2
    t = min(max((noisy_sum + n) / 2, 0.0), float(n))
    return _share_at(tail, t, n, noise), _share_at(1 - tail, t, n, noise)


def _share_at(chance: float, t: float, n: int, noise: L2Laplace) -> float:
    """The P with P(T ≥ t) = chance; 0 or 1 where every P has more, or less."""
    from scipy import optimize  # takes long to load, and few releases are of a single share

    def excess(P: float) -> float:
        return _upper_tail(P, t, n, noise) - chance

    if excess(0.0) >= 0:
        return 0.0
    if excess(1.0) <= 0:
        return 1.0
    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-16, rtol=4 * np.finfo(float).eps))


def _upper_tail(P: float, t: float, n: int, noise: L2Laplace) -> float:
    """P(T ≥ t), to 1e-11: a sum over the counts k of yes that are not out of reach.

    A Binomial(n, P) is out of nP ± r with chance 2e^−L at most, r = L/3 + sqrt(L²/9 + 2LnP(1 − P)) (Bernstein). The
    count k is P(n − k + 1)/((1 − P)k) times as likely as k − 1. (Of n = 10^7 special.gammaln would be off by 1e-8.)
    """
    if P in (0, 1):
        return float(noise.marginal_cdf(n * P - t))
    reach = REMOTE / 3 + math.sqrt(REMOTE**2 / 9 + 2 * REMOTE * n * P * (1 - P))
    k = np.arange(math.ceil(max(0.0, n * P - reach)), math.floor(min(float(n), n * P + reach)) + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(P / (1 - P) * (n - k[1:] + 1) / k[1:])))
    likely = np.exp(logarithms - logarithms.max())
    return float(likely @ noise.marginal_cdf(k - t) / likely.sum())


#: Log odds of anybody beyond this (a share below 0.005 % or above 99.995 %) are not estimable.
LARGEST_LOG_ODDS = 10.0
#: Newton steps, the log odds at which they are given up, and the change of log odds after which the last is taken: what
#: is left is of the order of its square.
STEPS, FARTHEST, LAST_STEP = 100, 100.0, 1e-8
#: e to the power of this is still a float.
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Coefficients ϑ̂ of log odds, per unit of normalised features, and the covariance of their error."""

    theta: Floats
    covariance: Floats


def log_odds(
    X: npt.ArrayLike, Z: npt.ArrayLike, vector: npt.ArrayLike, scale: float, norm: str = "l2"
) -> LogOdds | None:
    """ϑ̂ from everybody's features and instruments, and the released vector with noise of this scale (0: none).

    If P(y = +1 | x) = σ(x·ϑ), σ logistic, the released b̃ = Σ ζ_i y_i + N has the mean Σ ζ_i (2σ(x_i·ϑ) − 1), features
    and instruments ζ being public. ϑ̂ is where that mean is b̃ itself: maximum likelihood if ζ = x and there is no noise.

    By the delta method the covariance is J⁻¹(Σ ζζᵀ4p(1 − p) + vI)J⁻ᵀ, J = Σ ζxᵀ2p(1 − p) at ϑ̂, v the noise's. None: not
    estimable, as no log odds of at most 10 give that sum, or features follow from each other.
    """
    X = check.matrix("X", X)
    n, d = X.shape
    Z = check.matrix("Z", Z, columns=d)
    if len(Z) != n:
        raise InputError(f"Z has {len(Z)} rows; {n} were expected.")
    vector = check.vector("vector", vector, d)
    variance = laplace(norm, d, 1.0).marginal_variance * check.nonnegative("scale", scale) ** 2

    theta = _solution(X, Z, vector)
    if theta is None or not np.abs(X @ theta).max() <= LARGEST_LOG_ODDS:
        return None
    spread = _spread(X @ theta)
    J = _jacobian(X, Z, spread)
    if not _invertible(J):
        return None
    inverse = np.linalg.inv(J)
    answers = (Z * spread[:, None]).T @ Z
    return LogOdds(theta, inverse @ (answers + variance * np.eye(d)) @ inverse.T)


def odds_ratios(
    rows: npt.ArrayLike, log_odds: LogOdds, level: float = 0.95
) -> list[tuple[float, float, float]]:
    """For each row w, a difference of log odds w·ϑ: the odds ratio exp(w·ϑ̂), and the ends of its normal interval."""
    W = check.matrix("rows", rows, columns=len(log_odds.theta))
    middle = W @ log_odds.theta
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", W, log_odds.covariance, W))
    width = special.ndtri((1 + check.share("level", level)) / 2) * deviations
    exponents = np.clip([middle, middle - width, middle + width], -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return [(ratio, low, high) for ratio, low, high in np.exp(exponents).T.tolist()]


def _solution(X: Floats, Z: Floats, vector: Floats) -> Floats | None:
    """The ϑ with Σ ζ_i (2σ(x_i·ϑ) − 1) = vector, by Newton steps of which ln(1 + D)/D is taken.

    D is the most that a step would move anybody's log odds. With ζ ∝ Tx the equations are T times those of the least of
    a convex function, whose curvature changes at most e-fold as log odds move by 1: what is taken of a step lowers it,
    whatever T (Sun and Tran-Dinh, "Generalized self-concordant functions", 2019). Without a solution ϑ only grows. Cut
    in the sup norm ζ is not ∝ Tx where entries are cut in part: the same steps are taken there, without that proof.
    """
    if not _invertible(_jacobian(X, Z, np.ones(len(X)))):
        return None
    theta = np.zeros(X.shape[1])
    for _ in range(STEPS):
        logits = X @ theta
        if np.abs(logits).max() > FARTHEST:
            return None
        try:
            step = np.linalg.solve(_jacobian(X, Z, _spread(logits)), vector - Z.T @ np.tanh(logits / 2))
        except np.linalg.LinAlgError:
            return None
        D = float(np.abs(X @ step).max())
        if D <= LAST_STEP:
            return np.asarray(theta + step)
        theta += step * (math.log1p(D) / D)
    return None


def _spread(logits: Floats) -> Floats:
    """The variance of answers ±1, 4p(1 − p)."""
    return np.asarray(4 * special.expit(logits) * special.expit(-logits))


def _jacobian(X: Floats, Z: Floats, spread: Floats) -> Floats:
    """J = Σ ζxᵀ2p(1 − p)."""
    return np.asarray((Z * (spread / 2)[:, None]).T @ X)


def _invertible(J: Floats) -> bool:
    return bool(np.linalg.cond(J) <= WORST_CONDITION)

"""What all payments together cost: on average, with high probability, and for certain."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from truthful.bounds.accuracy import ERRORS
from truthful.bounds.gap import GAPS
from truthful.bounds.scales import peer_scale
from truthful.bounds.setting import Numbers, Setting
from truthful.bounds.spectrum import greatest_spectrum, least_half
from truthful.check import Floats
from truthful.scoring import RULES


def expected(s: Setting) -> Floats:
    """n·(a + b·E[score]), where E[score] = E[2pq − q²] ≤ E[q²] + 2g·E|q| for a truthful player.

    E[q²] ≤ Q = E[(θ·x)²] under the prior: q is a conditional mean of ψ, and |ψ(u)| ≤ |u|. A liar's score is at most
    its largest value. The term −p of `brier` has mean zero under a prior symmetric about its centre, up to the gap.
    """
    g, Q, linear = GAPS[s.peer_estimator](s), s.model.mean_square, RULES[s.rule].linear
    reach = s.model.radius + (0.0 if s.clipped else g)
    with np.errstate(invalid="ignore"):
        truthful = Q + 2 * g * math.sqrt(Q) + linear * g
        score = (1 - np.asarray(s.alpha)) * truthful + s.alpha * (linear * reach + reach**2)
    total = s.n * (s.a + times(s.b, np.nan_to_num(score, nan=np.inf, posinf=np.inf)))
    return np.minimum(total, cap(s))


def likely(s: Setting) -> Floats:
    """Exceeded with probability at most β, on top of more than αn liars.

    A score is at most p² (and |p| more for `brier`). Never-negative: |p| ≤ R‖x‖, and Hoeffding's inequality bounds
    Σ‖x‖². Otherwise Σp² ≤ λ_max(XᵀX)·max‖θ̂_j‖² over the halves, with ‖θ̂_j‖ ≤ R + error + noise: the error of a half by
    Chebyshev's inequality, its noise by the quantile of its Gamma law. Nothing is known so of `noisy-statistics`.
    """
    model, n, linear = s.model, np.asarray(s.n, dtype=np.float64), RULES[s.rule].linear
    if s.clipped:
        norms = n * model.mean_square_norm + np.sqrt(n * np.log(1 / np.asarray(s.beta)) / 2)
        squares = model.radius**2 * np.minimum(norms, n)
    elif s.peer_estimator == "noisy-statistics":
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    else:
        squares = greatest_spectrum(model, n, s.beta / 5) * _largest_half(s, s.beta / 5) ** 2
    return np.asarray(n * s.a + s.b * (squares + linear * np.sqrt(n * squares)))


def cap(s: Setting) -> Floats:
    """n·(a + b·gain(R)): no draw and no report can cost more when payments are never negative; else there is no cap."""
    n = np.asarray(s.n, dtype=np.float64)
    if not s.clipped:
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    return np.asarray(n * (s.a + s.b * RULES[s.rule].gain(s.model.radius)))


def times(b: Numbers, value: Numbers) -> Floats:
    """b·value, and 0 where b is 0 even if value is infinite: a flat fee needs no bound on lies."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(b) > 0, b * np.asarray(value), 0.0)


def _largest_half(s: Setting, beta: Numbers) -> Floats:
    """A bound on ‖θ̂_j‖ of both halves that fails with probability at most 4β: of each, its error and its noise.

    All αn liars may be in one half.
    """
    m, model = least_half(s.n), s.model
    silent = s.at(
        n=m,
        alpha=s.alpha * s.n / m,
        estimator=s.peer_estimator,
        gamma=s.half_gamma,
        epsilon=math.inf,
        beta=beta,
    )
    stretch = 1.0 if s.peer_estimator == "ridge-free" else 1 / model.least_eigenvalue
    noise = stretch * peer_scale(s, m) * stats.gamma.isf(beta, model.dimension)
    return np.asarray(model.radius + np.sqrt(ERRORS[s.peer_estimator](silent) / beta) + noise)

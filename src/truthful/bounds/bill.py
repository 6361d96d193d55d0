"""What all payments together cost: on average, with high probability, and for certain."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from truthful.bounds.gap import GAPS
from truthful.bounds.liars import pull
from truthful.bounds.scales import peer_scale
from truthful.bounds.setting import Numbers, Setting
from truthful.bounds.spectrum import greatest_spectrum, least_half, least_spectrum, most_half
from truthful.check import Floats
from truthful.scoring import RULES


def expected(s: Setting) -> Floats:
    """n·(a + b·E[score]), where E[score] ≤ Q + 2g√Q + α·(largest score): truthful players, and liars on top.

    A truthful player's is E[2pq − q²] ≤ E[q²] + 2g·E|q|, and E[q²] ≤ Q = E[(θ·x)²] under the prior: q is a conditional
    mean of ψ, and |ψ(u)| ≤ |u|. Those who lie may be those of whom little is predicted, so that truthful ones keep all
    of Q. A liar who knows her own record scores at most p̄², |p̄| ≤ R + g, and R² if p is clipped. The term −p of
    `brier` has mean zero under a prior symmetric about its centre, up to the gap. A ridge that is not matched pays less
    than a matched one: p̄ is shrunk, q is not.
    """
    peers = "ridge-free" if s.peer_estimator == "ridge-unmatched" else s.peer_estimator
    g, Q, linear = GAPS[peers](s), s.model.mean_square, RULES[s.rule].linear
    reach = s.model.radius + (0.0 if s.clipped else g)
    with np.errstate(invalid="ignore"):
        score = Q + 2 * g * math.sqrt(Q) + linear * g + s.alpha * (linear * reach + reach**2)
    total = s.n * (s.a + times(s.b, np.nan_to_num(score, nan=np.inf, posinf=np.inf)))
    return np.minimum(total, cap(s))


def likely(s: Setting) -> Floats:
    """Exceeded with probability at most β, on top of more than αn liars, whatever these know.

    A score is at most p² (and |p| more for `brier`). Σp² = Σ_j θ̂ᵀX_jᵀX_jθ̂ over the halves j, θ̂ being the other
    half's: at most Σ_j λ_max(X_jᵀX_j)·max‖θ̂‖². The bound of λ_max is concave in the size of a half, so n/2 is worst.
    Never-negative: also |p| ≤ R‖x‖, and Hoeffding's inequality bounds Σ‖x‖²; the less counts.
    """
    model, n, linear = s.model, np.asarray(s.n, dtype=np.float64), RULES[s.rule].linear
    squares = 2 * greatest_spectrum(model, n / 2, s.beta / 8) * _largest_half(s, s.beta / 8) ** 2
    if s.clipped:
        norms = n * model.mean_square_norm + np.sqrt(n * np.log(1 / np.asarray(s.beta)) / 2)
        squares = np.minimum(squares, model.radius**2 * np.minimum(norms, n))
    scores = squares + linear * np.sqrt(n * squares) if linear else squares
    return np.asarray(n * s.a + times(s.b, scores))


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
    """A bound on ‖θ̂‖ of both halves that fails with probability at most 6β: for each, spectrum, sampling and noise.

    R, what all αn liars move if they are in one half, the sampling error by Chebyshev's inequality, and the noise by
    the quantile of its Gamma law. A ridge shrinks, so its bias adds nothing. Nothing is known so of `noisy-statistics`.
    """
    model, m, liars = s.model, least_half(s.n), s.alpha * np.asarray(s.n)
    if s.peer_estimator == "noisy-statistics" or not model.least_eigenvalue > 0:
        return np.full(np.shape(m), np.inf)
    if s.peer_estimator.startswith("ridge"):
        D = s.half_gamma + least_spectrum(model, m, beta)
        lies, variance, stretch = liars / D, model.noise_variance * model.dimension / D, 1.0
    else:
        lies, variance = pull(model, liars / m), model.sampling_variance / m
        stretch = 1 / model.least_eigenvalue
    scale = np.maximum(peer_scale(s, m), peer_scale(s, most_half(s.n)))
    noise = stretch * scale * special.gammainccinv(model.dimension, beta)
    return np.asarray(model.radius + 2 * model.response_bound * lies + np.sqrt(variance / beta) + noise)

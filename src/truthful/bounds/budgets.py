"""What all payments together cost: on average, with high probability, and for certain."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from truthful.bounds.gap import GAPS
from truthful.bounds.peers import greatest_spectrum, least_half, least_spectrum, most_half, pull
from truthful.bounds.privacy_noise import peer_scale, public_scale
from truthful.bounds.setting import Numbers, Setting
from truthful.check import Floats
from truthful.scoring import RULES


def expected(s: Setting) -> Floats:
    """n·(a + b·E[score]), where E[score] ≤ Q + 2g√Q + α·(largest score): truthful players, and liars on top.

    A truthful player's is E[2pq − q²] ≤ E[q²] + 2g·E|q|, and E[q²] ≤ Q = E[(θ·x)²] under the prior: q is a conditional
    mean of ψ, and |ψ(u)| ≤ |u|. Those who lie may be those of whom little is predicted, so that truthful ones keep all
    of Q. A liar who knows her own record scores at most p̄², |p̄| ≤ R + g, and c² if p is clipped. The term −p of
    `brier` has mean zero under a prior symmetric about its centre, up to the gap. A ridge that is not matched pays less
    than a matched one: p̄ is shrunk, q is not.

    Leave-one-out, liars count with their chance, and base payments as `_base` says. Clipped, |q| ≤ c‖x‖ bounds Q too,
    and no score is above p² ≤ c²‖x‖² (and c‖x‖ more for `brier`), whoever tells what.
    """
    if s.estimator == "instruments":
        from truthful.bounds import answers

        return answers.expected(s)
    peers = "ridge-free" if s.peer_estimator == "ridge-unmatched" else s.peer_estimator
    g, norm, linear = GAPS[peers](s), s.model.mean_square_norm, RULES[s.rule].linear
    reach = s.reach if s.clipped else s.model.radius + g
    Q, most = np.asarray(s.model.mean_square), np.asarray(np.inf)
    if s.clipped and s.leave_one_out:
        Q = np.minimum(Q, np.square(reach) * norm)
        most = np.asarray(linear * reach * math.sqrt(norm) + np.square(reach) * norm)
    with np.errstate(invalid="ignore"):
        score = Q + 2 * g * np.sqrt(Q) + linear * g + s.lying_chance * (linear * reach + np.square(reach))
    score = np.minimum(np.nan_to_num(score, nan=np.inf, posinf=np.inf), most)
    return np.minimum(s.n * (_base(s, norm) + times(s.b, score)), cap(s))


def likely(s: Setting) -> Floats:
    """Exceeded with probability at most β, on top of more than αn liars, whatever these know.

    A score is at most p² (and |p| more for `brier`). Σp² = Σ_j θ̂ᵀX_jᵀX_jθ̂ over the halves j, θ̂ being the other
    half's: at most Σ_j λ_max(X_jᵀX_j)·max‖θ̂‖². The bound of λ_max is concave in the size of a half, so n/2 is worst.
    Never-negative: also |p| ≤ c‖x‖, and Hoeffding's inequality bounds Σ‖x‖²; the less counts.

    Leave-one-out, with probability β/2 for Σ‖x‖², on which base payments depend too, and β/6 for each event of
    `_left_out`. For `instruments` nothing but the cap is stated.
    """
    model, n, linear = s.model, np.asarray(s.n, dtype=np.float64), RULES[s.rule].linear
    beta = np.asarray(s.beta)
    if s.estimator == "instruments":
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    if s.leave_one_out:
        beta = beta / 2
        squares = _left_out(s, beta / 3)
    else:
        squares = 2 * greatest_spectrum(model, n / 2, s.beta / 8) * _largest_half(s, s.beta / 8) ** 2
    norms = np.minimum(n * model.mean_square_norm + np.sqrt(n * np.log(1 / beta) / 2), n)
    if s.clipped:
        squares = np.minimum(squares, np.square(s.reach) * norms)
    scores = squares + linear * np.sqrt(n * squares) if linear else squares
    return np.asarray(n * _base(s, norms / n) + times(s.b, scores))


def cap(s: Setting) -> Floats:
    """n·(a + b·gain(c)): no draw and no report can cost more when payments are never negative; else there is no cap.

    Leave-one-out: n·(max(a, b·loss(c)) + b·gain(c)), as ‖x‖ ≤ 1 and base and gain grow with ‖x‖.
    """
    if s.estimator == "instruments":
        from truthful.bounds import answers

        return answers.cap(s)
    n = np.asarray(s.n, dtype=np.float64)
    if not s.clipped:
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    return np.asarray(n * (_base(s, 1.0) + s.b * gain(s)))


def loss(s: Setting) -> Numbers:
    """The rule's loss(c), for any number of clip levels at once."""
    c = s.reach
    return RULES[s.rule].linear * c + 3 * c**2


def gain(s: Setting) -> Numbers:
    """The rule's gain(c), for any number of clip levels at once."""
    c = s.reach
    return RULES[s.rule].linear * c + c**2


def times(b: Numbers, value: Numbers) -> Floats:
    """b·value, and 0 where b is 0 even if value is infinite: a flat fee needs no bound on lies."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(b) > 0, b * np.asarray(value), 0.0)


def _base(s: Setting, mean_square_norm: Numbers) -> Floats:
    """A bound on the mean base payment of people of whom ‖x‖² has this mean: a, unless bases go by length.

    max(a, l) is convex in l = b·loss(c‖x‖), which lies between 0 and L = b·loss(c): at most a + (max(a, L) − a)·l/L.
    The mean of l/L is that of (linear·c‖x‖ + 3c²‖x‖²)/loss(c), and the mean of ‖x‖ at most the root of that of ‖x‖².
    """
    a = np.asarray(s.a, dtype=np.float64)
    if not (s.leave_one_out and s.clipped):
        return a
    linear, c = RULES[s.rule].linear, s.reach
    share = (linear * np.sqrt(mean_square_norm) + 3 * c * mean_square_norm) / (linear + 3 * c)
    with np.errstate(invalid="ignore"):
        more = np.maximum(s.b * loss(s) - a, 0.0) * share
    return np.where(np.isfinite(a), a + more, np.inf)


def _left_out(s: Setting, beta: Numbers) -> Floats:
    """A bound on Σp² over leave-one-out predictions of a known design, which fails with probability at most 3β.

    |p_i| ≤ n/(n−1)·(|x_i·θ̂| + h_i|y_i|) with h_i = x_iᵀΣ⁻¹x_i/n ≤ leverage/n. So √Σp² is at most
    n/(n−1)·(√λ_max(XᵀX)·‖θ̂‖ + leverage·Y/√n), and ‖θ̂‖ at most R, what αn liars move, the sampling error by Chebyshev's
    inequality, and the noise by the quantile of its Gamma law. Nothing is known so of `noisy-statistics`.
    """
    model, n = s.model, np.asarray(s.n, dtype=np.float64)
    if s.estimator == "noisy-statistics" or not math.isfinite(model.leverage):
        return np.full(n.shape, np.inf)
    theta = (
        model.radius
        + 2 * model.response_bound * pull(model, s.alpha)
        + np.sqrt(model.sampling_variance / n / beta)
        + public_scale(s) * special.gammainccinv(model.dimension, beta) / model.least_eigenvalue
    )
    along = np.sqrt(greatest_spectrum(model, n, beta)) * theta
    own = model.leverage * model.response_bound / np.sqrt(n)
    return np.asarray(np.square(n / (n - 1) * (along + own)))


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

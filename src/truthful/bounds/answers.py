"""What holds for the one release that protects answers, given everybody's features: closed forms of their geometry.

Setting: s.geometry is that of a roster (truthful.geometry); if s.n is another number of people, they are taken to be
spread as those are, so that h, τ, v and influences are as 1/n. Noise N in b̃ has the scale s = 2Y/ε and, in each
direction, the variance (d+1)s², or (d+1)(d+2)s²/3 by the sup norm. Derivations: docs/theory.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truthful.bounds.setting import Setting
from truthful.check import Floats
from truthful.costs import miss_probability
from truthful.errors import InputError
from truthful.geometry import Geometry, peak
from truthful.noise import L2Laplace
from truthful.scoring import RULES


def gap(s: Setting) -> Floats:
    """g = max_i g_i, the furthest that what a truthful player expects of the others is from her own prediction.

    p_i = x_i·θ + Σ_{j≠i} w_ij z_j + Σ_{j∈A} w_ij δ_j + e_i: |w_ij| ≤ τ_i, Σ w_ij² = v_i, e_i the noise, of scale sτ_i.
    Liars: |δ| ≤ 2Y, and Σ_A|w_ij| is at most T(|A|), the sum of the |A| largest, which is concave; so by Jensen's
    inequality E|Σ_A w_ij δ_j| ≤ 2Y·T(E|A|) ≤ 2Y·min(κτ_i, √(κv_i)), as E|A| ≤ κ = n(1−F(τ)): see `liars_expected`.
    Clipped, ψ has slopes up to S_i = P(|e_i| ≤ c r_i), so that lies count S_i times; and the sampling error, which has
    mean zero given θ and which ψ leaves out, counts at most min(½S_iσ√v_i, ½f₁(0)σ²v_i/(sτ_i)), as in `bounds.gap`.
    """
    geometry, f = _scaled(s)
    d, Y, sigma2 = geometry.dimension, s.model.response_bound, s.model.noise_variance
    kappa = np.asarray(liars_expected(s))
    scale = noise_scale(s)
    shape = np.broadcast_shapes(kappa.shape, scale.shape, np.shape(f), np.shape(s.reach))
    tau, v, ratio, reach, r = (row.reshape(-1, *(1,) * len(shape)) for row in geometry.worst.T)
    tau, v = tau * f, v * f
    lies = 2 * Y * np.minimum(kappa * tau, np.sqrt(kappa * v))
    if not s.clipped:
        return np.asarray(np.broadcast_to(lies.max(axis=0), shape))
    c = np.asarray(s.reach)
    with np.errstate(divide="ignore"):
        slope = 2 * L2Laplace(d, 1.0).marginal_cdf(c * (reach / f) / scale) - 1
    sampling = np.minimum(slope * np.sqrt(sigma2 * v), peak(d) * sigma2 * ratio / scale) / 2
    return np.asarray(np.minimum(slope * lies + sampling, 2 * c * r).max(axis=0))


def coefficient_error(s: Setting) -> Floats:
    """E‖θ̂ − θ‖² ≤ (L + σ‖B‖_F)² + (d+1)s²‖M⁻¹‖²_F with at most k = αn liars, whatever they know and agree on.

    θ̂ − θ = Bz + B_Aδ + M⁻¹N: Minkowski's inequality for lies and sampling, and N is independent of both, of mean zero.
    ‖B_Aδ‖ ≤ L = 2Y·min(sum of the k largest ‖B_j‖, √k‖B‖). Without liars it is an equation.
    """
    return _error(s, 0)


def prediction_error(s: Setting) -> Floats:
    """The same for predictions, on average over those who answered: with G^½B and G^½M⁻¹."""
    return _error(s, 1)


def liars(s: Setting) -> Floats:
    """L, how far a share α of liars can move θ̂."""
    return _lies(s, 0)


def liars_expected(s: Setting) -> Floats:
    """κ ≥ E|A|: n·min(p, α), p = 1 − F(τ) the chance of a cost above the threshold, which every liar's is.

    Costs are independent given features and coefficients, and above τ for at most a share p of people on average.
    """
    miss = miss_probability(n=s.n, alpha=s.alpha, beta=s.beta)
    return np.asarray(np.asarray(s.n) * np.minimum(miss, s.alpha))


def cap(s: Setting) -> Floats:
    """Σ (max(a, b·loss(c r)) + b·gain(c r)) over all who may have to be paid: no draw and no report can cost more."""
    geometry, _ = _scaled(s)
    if not s.clipped:
        return np.full(np.broadcast_shapes(np.shape(s.n), np.shape(s.a), np.shape(s.b)), np.inf)
    base, gain = _totals(s, geometry)
    return base + gain


def expected(s: Setting) -> Floats:
    """On average: the bases, and n·b·(Q + 2g√Q + α·(largest score)) as in `budgets.expected`; never above the cap.

    Q bounds E[q²] on average over these people: E[(θ·x)²] under the prior and, as |q| ≤ c‖x‖, c² times their mean ‖x‖².
    """
    geometry, _ = _scaled(s)
    g, linear, n = gap(s), RULES[s.rule].linear, np.asarray(s.n, dtype=np.float64)
    Q = np.asarray(s.model.prior_square / geometry.dimension * geometry.lengths.mean_square)
    if s.clipped:
        Q = np.minimum(Q, np.asarray(s.reach) ** 2 * geometry.lengths.mean_square)
    reach = np.asarray(s.reach) if s.clipped else s.model.radius + g
    score = Q + 2 * g * np.sqrt(Q) + linear * g + s.alpha * (linear * reach + reach**2)
    base = _totals(s, geometry)[0] if s.clipped else n * s.a
    with np.errstate(invalid="ignore"):
        total = base + np.where(np.asarray(s.b) > 0, n * s.b * score, 0.0)
    return np.minimum(total, cap(s))


def noise_scale(s: Setting) -> Floats:
    """s = 2Y/ε, of the noise in b̃."""
    return np.asarray(2 * s.model.response_bound / np.asarray(s.epsilon, dtype=np.float64))


def _error(s: Setting, of: int) -> Floats:
    geometry, f = _scaled(s)
    sampling = np.sqrt(s.model.noise_variance * geometry.sampling[of] * f)
    noise = geometry.noise_variance * noise_scale(s) ** 2 * geometry.noise[of] * f**2
    return np.asarray((_lies(s, of) + sampling) ** 2 + noise)


def _lies(s: Setting, of: int) -> Floats:
    geometry, f = _scaled(s)
    k = np.asarray(s.alpha) * np.asarray(s.n)
    # Each part is f times as large, and each person of the geometry stands for 1/f people.
    largest = geometry.influence[of](np.ceil(np.round(k, 9)) * f)
    return np.asarray(
        2 * s.model.response_bound * np.minimum(largest, np.sqrt(k * f) * geometry.operator[of])
    )


def _totals(s: Setting, geometry: Geometry) -> tuple[Floats, Floats]:
    """Those of everybody who may have to be paid: of a roster as they are, else in proportion to their number."""
    a, b = (np.where(np.isfinite(part), part, np.inf) for part in (np.asarray(s.a), np.asarray(s.b)))
    payable = np.isfinite(a) & np.isfinite(b)
    base, gain = geometry.lengths.totals(
        np.where(payable, a, 0.0), np.where(payable, b, 0.0), np.asarray(s.reach), RULES[s.rule].linear
    )
    factor = np.asarray(s.n) / geometry.players
    return np.where(payable, base * factor, np.inf), np.where(payable, gain * factor, np.inf)


def _scaled(s: Setting) -> tuple[Geometry, Any]:
    """The geometry, and n₀/n: how much smaller each person's part is among n than among the n₀ that it is of."""
    if s.geometry is None:
        raise InputError("Estimator 'instruments' needs the geometry of a roster.")
    return s.geometry, s.geometry.players / np.asarray(s.n, dtype=np.float64)

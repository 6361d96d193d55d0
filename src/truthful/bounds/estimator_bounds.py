"""The basis of `proved`, for each estimator: gaps of truthful players, and errors of estimates.

A gap is the largest distance between a truthful player's own prediction and the expected prediction of her peers.
Clipped predictions are compared with the clipped curve ψ, whose
noise is the privacy noise alone. The sampling error ε₀ of the peers, which ψ leaves out, has mean zero given θ. So with
0 ≤ ψ' ≤ S and |ψ''| ≤ K, by the slopes of ψ(u + ε₀) − Sε₀/2 and by Taylor's formula,

    |E[ψ(u + ε₀)] − ψ(u)| ≤ min(½S·sd(ε₀), ½K·Var(ε₀)),    ψ'(u) = P(|u + e| ≤ R) ≤ P(|e| ≤ R) = S,
                                                            |ψ''(u)| = |f(R+u) − f(R−u)| ≤ f(0) = K,

f being the density of the noise e. Noise that protects people also smooths: the second is often far smaller. With a
clip level c, predictions are kept in ±c‖x‖: c then stands for R here, and no two are further apart than 2c.

A player's own report is taken out of what is released of everybody: what is left is Σ_{j≠i} x_j y_j and the noise of
the release, of which her report is independent. So the m = n−1 others are her peers, at the whole ε. Liars among them
have costs above τ, each with the chance p = 1 − F(τ) at most, whatever θ is (Setting.above_threshold): as a gap is an
average, of everybody E|A| ≤ κ = np count, and not the αn that are exceeded with probability β.

Where q depends on what is drawn later (a released matrix), a root mean square counts instead of a mean: a lie that
moves q by Δ changes a payment by b(−Δ² + 2Δg), with both Δ and g in the mean square.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from truthful.bounds.setting import (
    Model,
    Setting,
    expected_pull,
    gram_floor,
    gram_scale,
    noise_scale,
    pull,
)
from truthful.bounds.spectrum import (
    drop_quantile,
    least_spectrum,
    mean_square_along,
    operator_quantile,
)
from truthful.check import Floats
from truthful.errors import InputError
from truthful.geometry import Geometry, peak
from truthful.noise import L2Laplace

_CHANCES: Floats = np.logspace(-1, -15, 15)


def known_design_gap(s: Setting) -> Floats:
    """Liars move Σ⁻¹Xᵀy/m along x by 2Y·E[|xᵀΣ⁻¹x'|; x' lies]; otherwise the peers' prediction is unbiased.

    Its sampling error has a variance of at most (R²+σ²)·xᵀΣ⁻¹x/m, and its noise the scale s‖Σ⁻¹x‖ ≥ s·xᵀΣ⁻¹x: their
    ratio, which counts in the second order, is at most (R²+σ²)/(ms) in every direction.

    θ̂ without i is Σ⁻¹(Σ_{j≠i} x_j y_j + K)/m. Given θ the others are independent draws of the design, so its mean is θ
    but for lies. These add up to E Σ_{j∈A}|xᵀΣ⁻¹x_j|·2Y/m, where each j is in A with the chance p at most, on an event
    of her own record and cost: at most 2Y·expected_pull(p), also if they agree on what to say. Σ, n and ε are public,
    so q depends on nothing that is drawn: a mean counts, not a root mean square. No prediction is further than 2c from
    another.
    """
    model = s.model
    lies = 2 * model.response_bound * expected_pull(model, s.above_threshold)
    if not s.clipped:
        return lies
    m, square = np.asarray(s.n, dtype=np.float64) - 1, model.radius**2 + model.noise_variance
    scale = noise_scale(s, m)
    variance = min(model.direction_variance, square * model.leverage) / m
    ratio = min(model.direction_variance * model.greatest_eigenvalue, square) / (m * scale)
    slope = (
        2 * L2Laplace(model.dimension, 1.0).marginal_cdf(s.reach / (scale / model.greatest_eigenvalue)) - 1
    )
    gap = slope * lies + np.minimum(slope * np.sqrt(variance), peak(model.dimension) * ratio) / 2
    return np.where(np.isfinite(gap), np.minimum(gap, 2 * s.reach), np.inf)


def noisy_statistics_gap(s: Setting) -> Floats:
    """For p = xᵀ(nĜ − xxᵀ)⁻¹(nẑ − xy), Ĝ the published matrix with its floor ℓ; best over the chance of a bad event.

    Let G = Σ_{j≠i} x_j x_jᵀ/m and N be the noise of the released Σ x xᵀ, over m. Where the floor is not in force
    nĜ − xxᵀ = m(G + N), so that p = x·(G+N)⁻¹(Gθ + Xᵀz/m + lies + v). ν is a quantile of ‖N‖, and the bad event, one of
    the others' features and of N, is ‖N‖ > ν or a failing spectrum. Off it G ≥ λ = (1−ξ)λ_min(Σ), the floor is not in
    force, as the released matrix is (m(G + N) + xxᵀ)/n and m(λ−ν)/n ≥ ℓ, and k lies move p by
    2Y·min(k/m, √(λk/m))/(λ−ν), as (G+N)⁻¹G(G+N)⁻¹ ≤ λ/(λ−ν)². In any case nĜ − xxᵀ ≥ nℓ − 1 ≥ 1.

    Unclipped, q = E[x·θ | x, y] depends on nothing that is drawn, and a mean counts. v and z have mean 0 given X, N and
    θ, and N is independent of X and of θ. (G+N)⁻¹G − I = −G⁻¹N + (G⁻¹N)² − (G⁻¹N)³ + G⁻¹N(G+N)⁻¹NG⁻¹NG⁻¹N, and N and
    −N have one law: along x it moves θ by at most R·E‖Nθ'‖²/λ²·(1 + t²/(1−t)), t = ν/λ, θ' a unit vector. On the bad
    event p is, on average over v, at most ‖(nĜ − xxᵀ)⁻¹‖·mY ≤ mY/(nℓ−1), and x·θ at most R.

    Clipped, q = ‖x‖·E[ψ(u) | x, y] at the noise scale s‖(nĜ − xxᵀ)⁻¹x‖ depends on Ĝ, and so the root mean square of
    E[p | Ĝ] − q counts. Given X, N and θ, the mean of p over v is ‖x‖ψ(u + w/‖x‖), w = ε₀ − B + lies, at this very
    scale, ε₀ = x·(G+N)⁻¹Xᵀz/m, B = x·(G+N)⁻¹Nθ. As ψ' ≤ 1, lies count by their root mean square: E k² ≤ (mp)² + mp, and
    E k ≤ mp. ε₀ has mean 0 and the variance V ≤ σ²λ/(m(λ−ν)²). By the slopes ±½ of ψ(u + w) − w/2, and by Taylor's
    formula at u − B,

        ‖x‖·|E[ψ(u + (ε₀ − B)/‖x‖) | X, N, θ] − ψ(u)| ≤ min(½√(V + B²) + ½|B|, |B| + ½f₁(0)·V/t),

    t = s‖(G+N)⁻¹x‖ being the scale, s that of v, so that V/t ≤ σ²‖G(G+N)⁻¹‖/(ms) ≤ σ²λ/((λ−ν)ms). Between two unit
    vectors N has a mean square of at most 2/(d+1)·E‖Nθ'‖², so that √E[B²] is at most
    R·√E‖Nθ'‖²/λ·(√(2/(d+1)) + ν/(λ−ν)). And 2c on the bad event, as it is at most in any.
    """
    model, n, p = s.model, np.asarray(s.n, dtype=np.float64), np.asarray(s.above_threshold)
    d, R, Y, m = model.dimension, model.radius, model.response_bound, n - 1
    shape = np.broadcast_shapes(n.shape, p.shape, *map(np.shape, (s.epsilon, s.gram_share, s.reach)))
    beta = _CHANCES.reshape(-1, *(1,) * len(shape))
    scale, floor = gram_scale(s, m), gram_floor(s)
    least, most = _at_chances(model, float(n), len(shape)) if n.ndim == 0 else _spectra(model, m, beta)
    margin = least - scale * most
    statistics, bad = scale**2 * mean_square_along(d), 2 * beta
    with np.errstate(divide="ignore", invalid="ignore"):
        if not s.clipped:
            t = 1 - margin / least
            second_order = R * statistics / least**2 * (1 + t**2 / (1 - t))
            lies = 2 * Y * np.minimum(p, np.sqrt(p * least)) / margin
            bounds = lies + second_order + bad * (R + m * Y / (n * floor - 1))
        else:
            # p² + p/m: the mean square of k/m
            lies = 2 * Y * np.sqrt(np.minimum(p**2 + p / m, p * least)) / margin
            along = R * np.sqrt(statistics) / least * (math.sqrt(2 / (d + 1)) + (least - margin) / margin)
            variance, furthest = model.noise_variance * least / m / margin**2, 2 * np.asarray(s.reach)
            second = along + peak(d) * model.noise_variance * least / margin / (m * noise_scale(s, m)) / 2
            sampling = np.minimum((np.sqrt(variance + along**2) + along) / 2, second)
            bounds = np.minimum(lies + np.sqrt(sampling**2 + bad * furthest**2), furthest)
    return np.asarray(np.where(margin * m / n >= floor, bounds, np.inf).min(axis=0))


@lru_cache(maxsize=64)
def _at_chances(model: Model, n: float, dimensions: int) -> tuple[Floats, Floats]:
    """Cached: a search asks for the same number of people at every ε."""
    return _spectra(model, np.asarray(n - 1), _CHANCES.reshape(-1, *(1,) * dimensions))


def _spectra(model: Model, m: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """λ, and ν at scale 1."""
    return least_spectrum(model, m, beta) / m, operator_quantile(model.dimension, beta)


# Accuracy: E‖θ̂−θ‖² when at most a share α lies, whatever the liars know and agree on, and on the events named


def known_design_error(s: Setting) -> Floats:
    """(L̄ + √(V/n))² + E‖Σ⁻¹v‖², with L̄ = 2Yα·sup‖Σ⁻¹x‖, V the sampling variance, E‖Σ⁻¹v‖² = (d+1)s²‖Σ⁻¹‖²_F."""
    model = s.model
    lies = 2 * model.response_bound * pull(model, s.alpha)
    noise = (model.dimension + 1) * noise_scale(s, s.n) ** 2 * model.inverse_square
    return np.asarray((lies + np.sqrt(model.sampling_variance / np.asarray(s.n))) ** 2 + noise)


def ridge_error(s: Setting) -> Floats:
    """(2Y·min(κ, √κ) + √((γR/D)² + σ²·min(d/D, n/D²)))² + d(d+1)s², κ = αn/D, except with probability β.

    D = γ + (1−ξ)μ bounds the eigenvalues of H = γI + XᵀX from below. θ̂ − θ = H⁻¹(Xᵀδ + Xᵀz − γθ) has the norm
    ‖w‖_H = √(wᵀHw) ≥ √D‖w‖; in it lies δ count at most min(2Yαn/√D, 2Y√(αn)), the bias γR/√D, and the noise, in the
    mean square, σ²·tr(H⁻¹XᵀX) ≤ σ²·min(d, n/D). The minimiser over the ball is the projection of the free one in this
    norm, so it is no further from θ, which lies in the ball; and never further than 2R.
    """
    model, d, R, n = s.model, s.model.dimension, s.model.radius, np.asarray(s.n, dtype=np.float64)
    D = s.gamma + least_spectrum(model, n, s.beta)
    kappa = s.alpha * n / D
    lies = 2 * model.response_bound * np.minimum(kappa, np.sqrt(kappa))
    sampling = model.noise_variance * np.minimum(d / D, n / D**2)
    error = (lies + np.sqrt((s.gamma * R / D) ** 2 + sampling)) ** 2
    if s.estimator == "ridge-ball":
        error = np.minimum(error, (2 * R) ** 2)
    return np.asarray(error + d * (d + 1) * noise_scale(s, s.n) ** 2)


def noisy_statistics_error(s: Setting) -> Floats:
    """[(L + √(σ²dλ/n))² + N² + 2√β·LN + d(d+1)s²] / (λ − ν)², L = 2Yα, N² = R²·E‖N‖²_F/d, but with probability 2β.

    θ̂ − θ = Ĝ⁻¹(Xᵀz/n + lies + v − Nθ) where the floor ℓ ≤ λ − ν is not in force, λ = (1−ξ)λ_min(Σ); N lowers no
    eigenvalue by more than ν except with probability β. With G = XᵀX/n ≥ λ and Ĝ ≥ (1 − ν/λ)G,
    tr(Ĝ⁻¹GĜ⁻¹) ≤ dλ/(λ − ν)²: that is the sampling. Lies know nothing of N, whose mean is 0; where ν is not exceeded it
    is at most √β of its root mean square.
    """
    model, d, n = s.model, s.model.dimension, np.asarray(s.n, dtype=np.float64)
    scale, margin = gram_scale(s, n), least_released(s)
    lies, statistics = (
        2 * model.response_bound * s.alpha,
        model.radius * scale * math.sqrt(mean_square_along(d)),
    )
    sampling = np.sqrt(model.noise_variance * d * _least_spectrum(s)) / n
    noise = d * (d + 1) * noise_scale(s, s.n) ** 2
    total = (lies + sampling) ** 2 + statistics**2 + 2 * np.sqrt(s.beta) * lies * statistics + noise
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(margin >= gram_floor(s), total / margin**2, np.inf))


def least_released(s: Setting) -> Floats:
    """λ − ν: with `noisy-statistics` no eigenvalue of the released XᵀX/n is smaller, except with probability 2β."""
    n = np.asarray(s.n, dtype=np.float64)
    drop = gram_scale(s, n) * _drop_quantile(s)
    return np.asarray(_least_spectrum(s) / n - drop)


def _least_spectrum(s: Setting) -> Floats:
    if np.ndim(s.n) or np.ndim(s.beta):
        return least_spectrum(s.model, np.asarray(s.n, dtype=np.float64), s.beta)
    return _one_spectrum(s.model, float(s.n), float(s.beta))


def _drop_quantile(s: Setting) -> Floats:
    d = s.model.dimension
    return drop_quantile(d, s.beta) if np.ndim(s.beta) else _one_drop(d, float(s.beta))


_one_spectrum, _one_drop = (lru_cache(maxsize=64)(function) for function in (least_spectrum, drop_quantile))


# Instruments: the one release that protects answers, given everybody's features. Closed forms of their geometry:
# s.geometry is that of a roster (truthful.geometry); for another number of people s.n, they are assumed to be
# distributed alike, so that h, τ, v and influences scale as 1/n. Noise N in b̃ has the scale s = 2Y/ε and, in each
# direction, the variance (d+1)s², or (d+1)(d+2)s²/3 by the sup norm.


def instruments_gap(s: Setting) -> Floats:
    """g = max_i g_i, the furthest that what a truthful player expects of the others is from her own prediction.

    p_i = x_i·θ + Σ_{j≠i} w_ij z_j + Σ_{j∈A} w_ij δ_j + e_i: |w_ij| ≤ τ_i, Σ w_ij² = v_i, e_i the noise, of scale sτ_i.
    Liars: |δ| ≤ 2Y, and Σ_A|w_ij| is at most T(|A|), the sum of the |A| largest, which is concave; so by Jensen's
    inequality E|Σ_A w_ij δ_j| ≤ 2Y·T(E|A|) ≤ 2Y·min(κτ_i, √(κv_i)), as E|A| ≤ κ = n(1−F(τ)).
    Clipped, ψ has slopes up to S_i = P(|e_i| ≤ c r_i), so that lies count S_i times; and the sampling error, which has
    mean zero given θ and which ψ leaves out, counts at most min(½S_iσ√v_i, ½f₁(0)σ²v_i/(sτ_i)), as above.
    """
    geometry, f = scaled_geometry(s)
    d, Y, sigma2 = geometry.dimension, s.model.response_bound, s.model.noise_variance
    kappa, scale = np.asarray(s.n) * s.above_threshold, _sum_scale(s)
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


def instruments_error(s: Setting, predictions: bool = False) -> Floats:
    """E‖θ̂ − θ‖² ≤ (L + σ‖B‖_F)² + (d+1)s²‖M⁻¹‖²_F with at most k = αn liars, whatever they know and agree on.

    θ̂ − θ = Bz + B_Aδ + M⁻¹N: Minkowski's inequality for lies and sampling, and N is independent of both, of mean zero.
    Without liars it is an equation. Of predictions, on average over those who answered: with G^½B and G^½M⁻¹.
    """
    geometry, f = scaled_geometry(s)
    sampling = np.sqrt(s.model.noise_variance * geometry.sampling[predictions] * f)
    noise = geometry.noise_variance * _sum_scale(s) ** 2 * geometry.noise[predictions] * f**2
    return np.asarray((instruments_lies(s, predictions) + sampling) ** 2 + noise)


def instruments_lies(s: Setting, predictions: bool = False) -> Floats:
    """‖B_Aδ‖ ≤ L = 2Y·min(sum of the k largest ‖B_j‖, √k‖B‖): how far a share α of liars can move θ̂."""
    geometry, f = scaled_geometry(s)
    k = np.asarray(s.alpha) * np.asarray(s.n)
    # Each part is f times as large, and each person of the geometry stands for 1/f people.
    largest = geometry.influence[predictions](np.ceil(np.round(k, 9)) * f)
    most = np.minimum(largest, np.sqrt(k * f) * geometry.operator[predictions])
    return np.asarray(2 * s.model.response_bound * most)


def scaled_geometry(s: Setting) -> tuple[Geometry, Floats]:
    """The geometry, and n₀/n: how much smaller each person's part is among n than among the geometry's n₀."""
    if s.geometry is None:
        raise InputError("Estimator 'instruments' needs the geometry of a roster.")
    return s.geometry, np.asarray(s.geometry.players / np.asarray(s.n, dtype=np.float64))


def _sum_scale(s: Setting) -> Floats:
    """s = 2Y/ε, the scale of the noise in b̃."""
    return np.asarray(2 * s.model.response_bound / np.asarray(s.epsilon, dtype=np.float64))


GAPS = {
    "known-design": known_design_gap,
    "noisy-statistics": noisy_statistics_gap,
    "instruments": instruments_gap,
}
ERRORS = {
    "known-design": known_design_error,
    "ridge-ball": ridge_error,
    "ridge-free": ridge_error,
    "noisy-statistics": noisy_statistics_error,
    "instruments": instruments_error,
}
#: How many events of probability β an accuracy needs: few liars, the least eigenvalue of XᵀX, the noise in it.
EVENTS = {"known-design": 1, "ridge-free": 2, "ridge-ball": 2, "noisy-statistics": 3, "instruments": 1}

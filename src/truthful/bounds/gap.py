"""Gaps: the largest distance between a truthful player's own prediction and the expected prediction of her peers.

Among the peers each lies with probability at most α. Clipped predictions are compared with the clipped curve ψ, whose
noise is the privacy noise alone. The sampling error ε₀ of the peers, which ψ leaves out, has mean zero given θ. So with
0 ≤ ψ' ≤ S and |ψ''| ≤ K, by the slopes of ψ(u + ε₀) − Sε₀/2 and by Taylor's formula,

    |E[ψ(u + ε₀)] − ψ(u)| ≤ min(½S·sd(ε₀), ½K·Var(ε₀)),    ψ'(u) = P(|u + e| ≤ R) ≤ P(|e| ≤ R) = S,
                                                            |ψ''(u)| = |f(R+u) − f(R−u)| ≤ f(0) = K,

f being the density of the noise e. Noise that protects people also smooths: the second is often far smaller. With a
clip level c, predictions are kept in ±c‖x‖: c then stands for R here, and no two are further apart than 2c.

Leave-one-out, a player's own report is taken out of what is released of everybody: what is left is Σ_{j≠i} x_j y_j and
the noise of the release, of which her report is independent. So the n−1 others are her peers, at the whole ε. Liars
among them have costs above τ, each with the chance p = 1 − F(τ) at most, whatever θ is (Setting.lying_chance): as a gap
is an average, of everybody E|A| ≤ κ = np count, and not the αn that are exceeded with probability β.

Where q depends on what is drawn later (the size of a half, a released matrix), a root mean square counts instead of a
mean: a lie that moves q by Δ changes a payment by b(−Δ² + 2Δg), with both Δ and g in the mean square.
"""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds.peers import (
    HALF_MISS,
    excess_chance,
    expected_pull,
    fewest_peers,
    least_half,
    least_spectrum,
    most_half,
    most_peers,
    shortfall_chance,
)
from truthful.bounds.privacy_noise import (
    FLOOR_POWER,
    gram_floor,
    gram_scale,
    mean_square_along,
    operator_quantile,
    peer_scale,
)
from truthful.bounds.setting import Numbers, Setting
from truthful.check import Floats
from truthful.estimators.shrinkage import RELATIVE_ERROR
from truthful.noise import L2Laplace

_TOLERANCES: Floats = np.arange(1, 33) / 33
_CHANCES: Floats = np.logspace(-1, -15, 15)


def known_design_gap(s: Setting) -> Floats:
    """Liars move Σ⁻¹Xᵀy/m along x by 2Y·E[|xᵀΣ⁻¹x'|; x' lies]; otherwise the peers' prediction is unbiased.

    Its sampling error has a variance of at most (R²+σ²)·xᵀΣ⁻¹x/m, and its noise the scale s‖Σ⁻¹x‖ ≥ s·xᵀΣ⁻¹x: their
    ratio, which counts in the second order, is at most (R²+σ²)/(ms) in every direction.

    Leave-one-out, θ̂ without i is Σ⁻¹(Σ_{j≠i} x_j y_j + K)/m with m = n−1. Given θ the others are independent draws of
    the design, so its mean is θ but for lies. These add up to E Σ_{j∈A}|xᵀΣ⁻¹x_j|·2Y/m, where each j is in A with the
    chance p at most, on an event of her own record and cost: at most 2Y·expected_pull(p), also if they agree on what
    to say. Σ, n and ε are public, so q depends on nothing that is drawn: a mean counts, not a root mean square.
    """
    model = s.model
    lies = 2 * model.response_bound * expected_pull(model, s.lying_chance)
    if not s.clipped:
        return lies
    m, scale, square = fewest_peers(s), peer_scale(s, most_peers(s)), model.radius**2 + model.noise_variance
    variance = min(model.direction_variance, square * model.leverage) / m
    ratio = min(model.direction_variance * model.greatest_eigenvalue, square) / (m * scale)
    return _smoothed(s, lies, variance, ratio, scale / model.greatest_eigenvalue)


def ridge_gap(s: Setting) -> Floats:
    """The free ridge scored against its own shrunk curve, for features uniform on the ball; A = (γI + XᵀX)⁻¹.

    Lies δ by k of the m peers move it by ‖AXᵀδ‖ ≤ 2Y·min(k/(γ+λ_min), √(k/(γ+λ_min)), √(k/4γ)), and E[k] ≤ αm: so by
    2Y·min(κ, √κ), κ = α/(γ/m + (1−ξ)λ_min(Σ)), on the spectrum event, by Y√(m/γ) off it, and by Y√(αm/γ) in any case,
    m being at most the largest half. The factor of the curve is known up to RELATIVE_ERROR.
    """
    model, gamma = s.model, np.asarray(s.half_gamma, dtype=np.float64)
    Y, n = model.response_bound, np.asarray(s.n, dtype=np.float64)
    if not model.ball:
        return np.full(np.broadcast_shapes(n.shape, gamma.shape), np.inf)
    most, xi = most_half(n), _leading(_TOLERANCES, n, s.alpha, gamma)
    off = shortfall_chance(model, least_half(n), xi)
    kappa = s.alpha / (gamma / most + (1 - xi) * model.least_eigenvalue)
    on_event = 2 * Y * np.minimum(kappa, np.sqrt(kappa))
    always = Y * np.sqrt(s.alpha * n / gamma)
    lies = np.minimum((on_event + off * Y * np.sqrt(most / gamma)).min(axis=0), always)
    lies = lies + RELATIVE_ERROR * model.radius
    if s.clipped:
        variance, scale = _ridge_variance(s, gamma), peer_scale(s, least_half(n))
        return _smoothed(s, lies, variance, variance / scale, scale)
    return _unless_lopsided(s, lies, always + RELATIVE_ERROR * model.radius)


def _ridge_variance(s: Setting, gamma: Floats) -> Floats:
    """Var(x·θ̂) of a half's free ridge along a unit vector: of −γx·Aθ and of x·AXᵀz, the best over the tolerance ξ.

    Where (1−ξ)μ ≤ XᵀX ≤ (1+ξ)μ, γA lies within ±γξμ/(D₋D₊) of a multiple of I, D± = γ + (1±ξ)μ, and the second is at
    most σ²/D₋. Off that event they are at most R² and σ²/4γ.
    """
    model = s.model
    R, sigma2, m = model.radius, model.noise_variance, least_half(s.n)
    mu, xi = m * model.least_eigenvalue, _leading(_TOLERANCES, s.n, s.alpha, gamma)
    low, high = gamma + (1 - xi) * mu, gamma + (1 + xi) * mu
    shape = gamma * xi * most_half(s.n) * model.least_eigenvalue / (low * high)
    off = np.minimum(1.0, shortfall_chance(model, m, xi) + excess_chance(model, m, xi))
    bounds = (R * shape) ** 2 + sigma2 / low + off * (R**2 + sigma2 / (4 * gamma))
    return np.asarray(bounds.min(axis=0))


def noisy_statistics_gap(s: Setting) -> Floats:
    """For θ̂ = Ĝ⁻¹(Xᵀy/m + v) with Ĝ = G + N, G = XᵀX/m: the best over the probability of the bad event.

    ν is a quantile of ‖N‖, the bad event is ‖N‖ > ν or a failing spectrum; off it G ≥ λ = (1−ξ)λ_min(Σ), the floor ℓ
    changes nothing, because λ − ν ≥ ℓ, and k lies move θ̂ by 2Y·min(k/m, √(λk/m))/(λ−ν), as Ĝ⁻¹GĜ⁻¹ ≤ λ/(λ−ν)².

    Unclipped, Ĝ⁻¹G − I = −G⁻¹N + (G⁻¹N)² − (G⁻¹N)³ + G⁻¹NĜ⁻¹NG⁻¹NG⁻¹N, and N and −N have one law: along x it moves θ
    by at most R·E‖Nθ'‖²/λ²·(1 + t²/(1−t)), t = ν/λ, θ' a unit vector. On the bad event by at most R + Y/ℓ.
    Clipped, its whole effect x·Ĝ⁻¹Nθ = x·G⁻¹Nθ − x·G⁻¹NĜ⁻¹Nθ counts as the sampling error x·Ĝ⁻¹Xᵀz/m does; between two
    unit vectors N has a mean square of at most 2/(d+1)·E‖Nθ'‖². And 2c on the bad event.
    The scale of N and the floor fall as 1/m: what is taken at the least half holds at every other, the floor as ℓm/n.
    """
    if s.leave_one_out:
        return _noisy_statistics_of_others(s)
    model, m = s.model, least_half(s.n)
    d, R, Y = model.dimension, model.radius, model.response_bound
    beta = _leading(_CHANCES, s.n, s.alpha, s.epsilon, s.public_share, s.gram_share, s.reach)
    scale = gram_scale(s, m, s.epsilon_peer)
    floor, bad = scale * d**FLOOR_POWER, 2 * beta + HALF_MISS
    least = least_spectrum(model, m, beta) / m
    margin = least - scale * operator_quantile(d, beta)
    statistics = scale**2 * mean_square_along(d)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not s.clipped:
            t = 1 - margin / least
            second_order = R * statistics / least**2 * (1 + t**2 / (1 - t))
            lies = 2 * Y * np.minimum(s.alpha, np.sqrt(s.alpha * least)) / margin
            bounds = lies + second_order + bad * (R + Y * s.n / (floor * m))
        else:
            liars = np.square(s.alpha) + s.alpha / m  # the mean square of k/m
            lies = 2 * Y * np.sqrt(np.minimum(liars, s.alpha * least)) / margin
            sampling = model.noise_variance * least / m / margin**2
            along = R * np.sqrt(statistics) / least * (math.sqrt(2 / (d + 1)) + (least - margin) / margin)
            bounds = lies + np.sqrt(sampling + along**2 + bad * (2 * s.reach) ** 2)
    return np.asarray(np.where(margin >= floor, bounds, np.inf).min(axis=0))


def _noisy_statistics_of_others(s: Setting) -> Floats:
    """Leave-one-out: p = xᵀ(nĜ − xxᵀ)⁻¹(nẑ − xy), Ĝ the published matrix with its floor ℓ, m = n−1.

    Let G = Σ_{j≠i} x_j x_jᵀ/m and N be the noise of the released Σ x xᵀ, over m. Where the floor is not in force
    nĜ − xxᵀ = m(G + N), so that p = x·(G+N)⁻¹(Gθ + Xᵀz/m + lies + v): the halves' estimate, of all others and without a
    floor. It is not in force off the bad event, where G ≥ λ and ‖N‖ ≤ ν: the released matrix is (m(G + N) + xxᵀ)/n,
    and m(λ−ν)/n ≥ ℓ. The bad event is one of the others' features and of N. In any case nĜ − xxᵀ ≥ nℓ − 1 ≥ 1.

    Unclipped, q = E[x·θ | x, y] depends on nothing that is drawn, and a mean counts. v and z have mean 0 given X, N and
    θ, and N is independent of X and of θ: lies and second order as in `noisy_statistics_gap`. On the bad event p is, on
    average over v, at most ‖(nĜ − xxᵀ)⁻¹‖·mY ≤ mY/(nℓ−1), and x·θ at most R.

    Clipped, q = ‖x‖·E[ψ(u) | x, y] at the noise scale s‖(nĜ − xxᵀ)⁻¹x‖ depends on Ĝ, and so the root mean square of
    E[p | Ĝ] − q counts. Given X, N and θ, the mean of p over v is ‖x‖ψ(u + w/‖x‖), w = ε₀ − B + lies, at this very
    scale, ε₀ = x·(G+N)⁻¹Xᵀz/m, B = x·(G+N)⁻¹Nθ. As ψ' ≤ 1, lies count by their root mean square: E k² ≤ (mp)² + mp, and
    E k ≤ mp. ε₀ has mean 0 and the variance V ≤ σ²λ/(m(λ−ν)²). By the slopes ±½ of ψ(u + w) − w/2, and by Taylor's
    formula at u − B,

        ‖x‖·|E[ψ(u + (ε₀ − B)/‖x‖) | X, N, θ] − ψ(u)| ≤ min(½√(V + B²) + ½|B|, |B| + ½f₁(0)·V/t),

    t = s‖(G+N)⁻¹x‖ being the scale, s that of v, so that V/t ≤ σ²‖G(G+N)⁻¹‖/(ms) ≤ σ²λ/((λ−ν)ms). √E[B²] is at most
    R·√E‖Nθ'‖²/λ·(√(2/(d+1)) + ν/(λ−ν)). And 2c on the bad event, as it is at most in any.
    """
    model, n = s.model, np.asarray(s.n, dtype=np.float64)
    d, R, Y, m, p = model.dimension, model.radius, model.response_bound, n - 1, np.asarray(s.lying_chance)
    beta = _leading(_CHANCES, n, p, s.epsilon, s.gram_share, s.reach)
    scale, floor = gram_scale(s, m, s.epsilon), gram_floor(s)
    least = least_spectrum(model, m, beta) / m
    margin, bad = least - scale * operator_quantile(d, beta), 2 * beta
    statistics = scale**2 * mean_square_along(d)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not s.clipped:
            t = 1 - margin / least
            second_order = R * statistics / least**2 * (1 + t**2 / (1 - t))
            lies = 2 * Y * np.minimum(p, np.sqrt(p * least)) / margin
            bounds = lies + second_order + bad * (R + m * Y / (n * floor - 1))
        else:
            lies = 2 * Y * np.sqrt(np.minimum(p**2 + p / m, p * least)) / margin
            along = R * np.sqrt(statistics) / least * (math.sqrt(2 / (d + 1)) + (least - margin) / margin)
            variance = model.noise_variance * least / m / margin**2
            ratio = model.noise_variance * least / margin / (m * peer_scale(s, m))
            sampling = np.minimum((np.sqrt(variance + along**2) + along) / 2, along + _peak(d) * ratio / 2)
            furthest = 2 * np.asarray(s.reach)
            bounds = np.minimum(lies + np.sqrt(sampling**2 + bad * furthest**2), furthest)
    return np.asarray(np.where(margin * m / n >= floor, bounds, np.inf).min(axis=0))


def _smoothed(s: Setting, lies: Numbers, variance: Numbers, ratio: Numbers, scale: Numbers) -> Floats:
    """The gap of clipped predictions: lies, and the sampling error by the better of its two orders.

    ratio is the most that a variance is of the scale of the noise in the same direction, and scale the least that that
    scale can be. No prediction is further than 2c from another.
    """
    c, d = s.reach, s.model.dimension
    slope = 2 * L2Laplace(d, 1.0).marginal_cdf(c / np.asarray(scale)) - 1
    sampling = np.minimum(slope * np.sqrt(variance), _peak(d) * ratio) / 2
    return _unless_lopsided(s, slope * lies + sampling, 2 * c)


def _unless_lopsided(s: Setting, gap: Numbers, otherwise: Numbers) -> Floats:
    """The root mean square of a gap that is `otherwise` for a half below `least_half` or above `most_half`.

    Leave-one-out there are no halves; `otherwise` is never exceeded, and of use where the gap is bounded at all.
    """
    if s.leave_one_out:
        return np.where(np.isfinite(gap), np.minimum(gap, otherwise), np.inf)
    return np.sqrt(np.square(gap) + 2 * HALF_MISS * np.square(otherwise))


def _peak(d: int) -> float:
    """The density at 0 of one coordinate of the L2-Laplace law at scale 1: Γ(d/2)/(2√π·Γ((d+1)/2))."""
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / (2 * math.sqrt(math.pi))


def _leading(values: Floats, *numbers: Numbers) -> Floats:
    """Values along a new first axis, to be minimised over, before the shape of the setting."""
    shape = np.broadcast_shapes(*(np.shape(number) for number in numbers))
    return values.reshape(-1, *(1,) * len(shape))


def ridge_unmatched_gap(s: Setting) -> Floats:
    """The paper's own: the free ridge, which shrinks the truth by γκ_m, scored against q all the same. For comparison.

    With A = γ + μ, μ = m/(d+2), and E = XᵀX − μI, E tr E = 0 and exactly γκ_m = γ/A·(1 + E tr[E²(γI + XᵀX)⁻¹]/(dA)).
    So γκ_m ≤ γ/A·(1 + vm/(AD)), D = γ + (1−ξ)μ and v = E tr E²/(dm) = 1/(d+4) − 1/(d+2)², and (m/A)² more where the
    spectrum fails. It falls with m. Clipping is not the paper's: then nothing is promised.
    """
    lies, gamma, d = ridge_gap(s.at(payments="expected")), np.asarray(s.half_gamma), s.model.dimension
    if s.clipped or not s.model.ball:
        return np.full(np.shape(lies), np.inf)
    m, xi = least_half(s.n), _leading(_TOLERANCES, s.n, s.alpha, gamma)
    mu, off = m / (d + 2), shortfall_chance(s.model, m, xi)
    A, D = gamma + mu, gamma + (1 - xi) * mu
    v = 1 / (d + 4) - 1 / (d + 2) ** 2
    shrunk = (gamma / A * (1 + v * m / (A * D)) + off * (m / A) ** 2).min(axis=0)
    return np.asarray(lies + s.model.radius * np.minimum(1.0, shrunk + HALF_MISS))


def instruments_gap(s: Setting) -> Floats:
    """Given everybody's features: `bounds.answers`."""
    from truthful.bounds import answers

    return answers.gap(s)


GAPS = {
    "known-design": known_design_gap,
    "ridge-free": ridge_gap,
    "noisy-statistics": noisy_statistics_gap,
    "ridge-unmatched": ridge_unmatched_gap,
    "instruments": instruments_gap,
}

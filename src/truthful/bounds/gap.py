"""Gaps: the largest distance between a truthful player's own prediction and the expected prediction of her peers.

Among the peers each lies with probability at most α. Clipped predictions are compared with the clipped curve ψ, whose
noise is the privacy noise alone. The sampling error ε₀ of the peers, which ψ leaves out, has mean zero given θ, and so

    |E[ψ(u + ε₀)] − ψ(u)| ≤ min(max|ψ'|·sd(ε₀), ½·max|ψ''|·Var(ε₀)),    ψ'(u) = P(|u + e| ≤ R) ≤ P(|e| ≤ R),
                                                                        |ψ''| ≤ f(0), the density of e at 0.

Noise that protects people also smooths: the second is often a hundred times smaller than the first. Where q depends on
a released matrix (`noisy-statistics`), a root mean square counts instead of a mean: a lie that moves q by Δ changes a
payment by b(−Δ² + 2Δg), with both Δ and g in the mean square.
"""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds.gram_noise import mean_square_along, operator_quantile
from truthful.bounds.liars import expected_pull
from truthful.bounds.scales import FLOOR_POWER, gram_scale, peer_scale
from truthful.bounds.setting import Numbers, Setting
from truthful.bounds.spectrum import HALF_MISS, least_half, least_spectrum, most_half, shortfall_chance
from truthful.check import Floats
from truthful.estimators.shrinkage import RELATIVE_ERROR
from truthful.noise import L2Laplace

_TOLERANCES: Floats = np.arange(1, 100) / 100
_CHANCES: Floats = np.logspace(-1, -15, 15)


def known_design_gap(s: Setting) -> Floats:
    """Liars move Σ⁻¹Xᵀy/m along x by 2Y·E[|xᵀΣ⁻¹x'|; x' lies]; otherwise the peers' prediction is unbiased."""
    model = s.model
    lies = 2 * model.response_bound * expected_pull(model, s.alpha)
    if not s.clipped:
        return lies
    noise = peer_scale(s, most_half(s.n)) / model.greatest_eigenvalue
    return _smoothed(s, lies, model.direction_variance / least_half(s.n), noise)


def ridge_gap(s: Setting) -> Floats:
    """The free ridge scored against its own shrunk curve, for features uniform on the ball; A = (γI + XᵀX)⁻¹.

    Lies δ by k of the m peers move it by ‖AXᵀδ‖ ≤ min(2Yk/(γ+λ_min), Y√(k/γ)), and E[k] ≤ αm: so by
    2Yα/(γ/n + (1−ξ)λ_min(Σ)) on the spectrum event, by Y√(n/γ) off it, and by Y√(αn/γ) in any case.
    Its sampling error γx·(A − E[A])θ + x·AXᵀz has variance at most (γR/D)² + σ²/D on the event, D = γ + (1−ξ)μ, and
    R² + σ²/4γ off it. The factor of the curve is known up to RELATIVE_ERROR.
    """
    model, gamma = s.model, np.asarray(s.half_gamma, dtype=np.float64)
    R, Y, sigma2, least = model.radius, model.response_bound, model.noise_variance, model.least_eigenvalue
    if not model.ball:
        return np.full(np.broadcast_shapes(np.shape(s.n), gamma.shape), np.inf)
    m, xi = least_half(s.n), _leading(_TOLERANCES, s.n, s.alpha, gamma)
    off, kept = shortfall_chance(model, m, xi), (1 - xi) * least
    on_event = 2 * Y * s.alpha / (gamma / s.n + kept) + off * Y * np.sqrt(s.n / gamma)
    lies = np.minimum(on_event.min(axis=0), Y * np.sqrt(s.alpha * np.asarray(s.n) / gamma))
    lies = lies + RELATIVE_ERROR * R
    if not s.clipped:
        return np.asarray(lies)
    D = gamma + kept * m
    variance = (gamma * R / D) ** 2 + sigma2 / D + off * (R**2 + sigma2 / (4 * gamma))
    return _smoothed(s, lies, variance.min(axis=0), peer_scale(s, m))


def noisy_statistics_gap(s: Setting) -> Floats:
    """For θ̂ = Ĝ⁻¹(Xᵀy/m + v) with Ĝ = XᵀX/m + N: the best over the probability of the bad event.

    ν is a quantile of ‖N‖, the bad event is ‖N‖ > ν or a failing spectrum; off it the floor ℓ changes nothing, because
    (1−ξ)λ_min − ν ≥ ℓ, and lies move θ̂ by 2Yk/m/((1−ξ)λ_min−ν), k being their number.

    Unclipped, N has mean zero and a second-order effect: R·t²/(1−t) + (R+Y/ℓ)·P(bad), t = ν/((1−ξ)λ_min).
    Clipped, its whole effect Ĝ⁻¹Nθ counts as the sampling error Ĝ⁻¹Xᵀz/m does, and 2R on the bad event.
    The scale of N and the floor fall as 1/m: what is taken at the least half holds at every other, the floor as ℓm/n.
    """
    model, m = s.model, least_half(s.n)
    d, R, Y = model.dimension, model.radius, model.response_bound
    beta = _leading(_CHANCES, s.n, s.alpha, s.epsilon, s.public_share, s.gram_share)
    scale = gram_scale(s, m, s.epsilon_peer)
    floor, bad = scale * d**FLOOR_POWER, 2 * beta + HALF_MISS
    least = least_spectrum(model, m, beta) / m
    margin = least - scale * operator_quantile(d, beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not s.clipped:
            t = 1 - margin / least
            bounds = 2 * Y * s.alpha / margin + R * t**2 / (1 - t) + bad * (R + Y * s.n / (floor * m))
        else:
            liars = np.sqrt(np.square(s.alpha) + s.alpha / m)  # the root mean square of k/m
            sampling = model.noise_variance * least / m
            statistics = (R * scale) ** 2 * mean_square_along(d)
            bounds = 2 * Y * liars / margin + np.sqrt(
                (sampling + statistics) / margin**2 + bad * (2 * R) ** 2
            )
    return np.asarray(np.where(margin >= floor, bounds, np.inf).min(axis=0))


def _smoothed(s: Setting, lies: Numbers, variance: Numbers, scale: Numbers) -> Floats:
    """The gap of clipped predictions: lies, and the sampling error by the better of its two orders.

    scale is the least that the noise along x can have; 2R, the range of predictions, counts if the half is small.
    """
    R, d = s.model.radius, s.model.dimension
    marginal = L2Laplace(d, 1.0)
    slope = 2 * marginal.marginal_cdf(R / np.asarray(scale)) - 1
    curvature = _peak(d) / np.asarray(scale)
    sampling = np.minimum(slope * np.sqrt(variance), curvature * variance / 2)
    return np.asarray(slope * lies + sampling + HALF_MISS * 2 * R)


def _peak(d: int) -> float:
    """The density at 0 of one coordinate of the L2-Laplace law at scale 1: Γ(d/2)/(2√π·Γ((d+1)/2))."""
    return math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / (2 * math.sqrt(math.pi))


def _leading(values: Floats, *numbers: Numbers) -> Floats:
    """Values along a new first axis, to be minimised over, before the shape of the setting."""
    shape = np.broadcast_shapes(*(np.shape(number) for number in numbers))
    return values.reshape(-1, *(1,) * len(shape))


GAPS = {
    "known-design": known_design_gap,
    "ridge-free": ridge_gap,
    "noisy-statistics": noisy_statistics_gap,
}

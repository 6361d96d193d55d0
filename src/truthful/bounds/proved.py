"""What a plan may promise: bounds that hold, as functions of public numbers. Derivations: docs/theory.md.

A bound that needs an event (the features' spectrum, few enough liars) says so, and gives infinity where the
event cannot be had: infinity is the honest "nothing is promised".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import stats

_TOLERANCES = tuple(k / 100 for k in range(1, 100))


@dataclass(frozen=True)
class Design:
    """What the declared features contribute to the bounds; Σ = E[x xᵀ].

    sampling_variance: sup over ‖θ‖ ≤ R of tr Cov(Σ⁻¹xy); direction_variance: sup over unit e, ‖θ‖ ≤ R, of
    Var(e·Σ⁻¹xy). Infinite where Σ is unknown. least_eigenvalue: of Σ; 0 where nothing is declared.
    """

    dimension: int
    least_eigenvalue: float
    inverse_square: float = math.inf
    sampling_variance: float = math.inf
    direction_variance: float = math.inf


@dataclass(frozen=True)
class Response:
    """What the declared beliefs contribute: R, M, and the noise variance σ²."""

    radius: float
    noise_bound: float
    noise_variance: float

    @property
    def bound(self) -> float:
        """Y = R + M."""
        return self.radius + self.noise_bound


def spectrum_tolerance(least: float, count: int, dimension: int, beta: float) -> float:
    """The ξ with P(λ_min(XᵀX) ≤ (1−ξ)·count·λ_min(Σ)) ≤ β. Matrix Chernoff: d·exp(−ξ²μ/2) = β."""
    mu = count * least
    return math.sqrt(2 * math.log(dimension / beta) / mu) if mu > 0 else math.inf


def known_design_gap(design: Design, Y: float, count: int, alpha: float, clipped: bool) -> float:
    """Largest distance between own prediction and expected peer prediction, an α share of the peers lying.

    Liars change y, never x: they move Σ⁻¹Xᵀy/m by at most 2Yα/λ_min(Σ). Matching removes the clipping up to the
    peers' sampling error, whose law is only bounded: clipping is 1-Lipschitz, so that adds at most its sd.
    """
    lies = 2 * Y * alpha / design.least_eigenvalue if alpha > 0 else 0.0
    return lies + (math.sqrt(design.direction_variance / count) if clipped else 0.0)


def ridge_gap(
    design: Design, response: Response, count: int, gamma: float, alpha: float, clipped: bool
) -> float:
    """The same for the free ridge scored against its own shrunk curve (features uniform on the ball).

    Lies: 2Yαm/(γ+(1−ξ)μ) on the spectrum event, 2Yαm/γ off it; the best ξ. Clipping adds the sampling sd of
    x·θ̂: its noise part is at most σ/√(γ+λ_min), its design part at most the shrinkage's own range 2R·γ/(γ+λ_min).
    """
    lies = 2 * response.bound * alpha * count
    mu = count * design.least_eigenvalue

    def expected(on_event: Callable[[float], float], off_event: float) -> float:
        bounds = [
            on_event(gamma + (1 - xi) * mu)
            + min(1.0, design.dimension * math.exp(-(xi**2) * mu / 2)) * off_event
            for xi in _TOLERANCES
        ]
        return min([*bounds, off_event])

    gap = expected(lambda D: lies / D, lies / gamma) if alpha > 0 else 0.0
    if clipped:
        sigma, R = math.sqrt(response.noise_variance), response.radius
        gap += expected(
            lambda D: sigma / math.sqrt(D) + 2 * R * gamma / D, sigma / (2 * math.sqrt(gamma)) + 2 * R
        )
    return gap


def noisy_statistics_gap(
    design: Design,
    response: Response,
    count: int,
    gram_scale: float,
    floor: float,
    alpha: float,
    clipped: bool,
) -> float:
    """R·t²/(1−t) + (R+Y/ℓ)·P(bad), t = ν/((1−ξ)λ_min), plus lies 2Yα/((1−ξ)λ_min−ν), plus the clipped sampling sd.

    ν is a quantile of ‖N‖_F ~ Gamma(d(d+1)/2, s_N); bad: ‖N‖ > ν or the spectrum fails; the best probability.
    """
    d, Y, R = design.dimension, response.bound, response.radius

    def bound(beta: float) -> float:
        nu = float(stats.gamma.isf(beta, d * (d + 1) // 2, scale=gram_scale))
        least = _spectrum(design, count, beta) / count
        if not least - nu > 0:
            return math.inf
        t = nu / least
        sampling = math.sqrt(response.noise_variance / (count * least)) / (1 - t) if clipped else 0.0
        return R * t**2 / (1 - t) + 2 * beta * (R + Y / floor) + 2 * Y * alpha / (least - nu) + sampling

    return min(bound(10.0**-k) for k in range(1, 16))


def truth_slack(gap: float, tau: float, privacy_cost: float, b: float) -> float:
    """η = b·g² + τ·h(ε): the most any lie can gain, whoever tells it among costs ≤ τ."""
    return b * gap**2 + tau * privacy_cost


def lie_size(gap: float, tau: float, privacy_cost: float, b: float) -> float:
    """D = g + √(g² + τ·h(ε)/b): no lie that moves the own prediction by more than D can pay."""
    if not b > 0:
        return math.inf
    return gap + math.sqrt(gap**2 + tau * privacy_cost / b)


def joining_threshold(a: float, b: float, gap: float, privacy_cost: float, rule: str) -> float:
    """The largest cost τ for which taking part pays in expectation: a ≥ b·g² + τ·h(ε), and b/4 more for `brier`."""
    least = b * (gap**2 + (0.25 if rule == "brier" else 0.0))
    return max(0.0, (a - least) / privacy_cost)


def budget_cap(n: int, a: float, b: float, gain: float) -> float:
    """n·(a + b·gain(R)): no draw and no report can cost more when payments are never negative."""
    return n * (a + b * gain)


def known_design_error(design: Design, response: Response, n: int, epsilon: float, alpha: float) -> float:
    """E‖θ̂−θ‖² ≤ (L̄ + √V)² + E‖Σ⁻¹v‖², with E‖Σ⁻¹v‖² = (d+1)s²‖Σ⁻¹‖²_F and s = 2Y/(nε)."""
    shift = 2 * response.bound * alpha / design.least_eigenvalue if alpha > 0 else 0.0
    s = 2 * response.bound / (n * epsilon)
    noise = (design.dimension + 1) * s**2 * design.inverse_square
    return (shift + math.sqrt(design.sampling_variance / n)) ** 2 + noise


def ridge_error(
    design: Design,
    response: Response,
    n: int,
    scale: float,
    gamma: float,
    alpha: float,
    beta: float,
    ball: bool,
) -> float:
    """E‖θ̂−θ‖² ≤ ρ(L̄ + √((γR/D)² + σ²d·λ_max/D²))² + d(d+1)s², D = γ + (1−ξ)μ; ρ = 1 for the free ridge.

    With ‖x‖ ≤ 1 the largest eigenvalue of XᵀX is at most n, so no second spectrum event is needed.
    """
    d = design.dimension
    D = gamma + _spectrum(design, n, beta)
    shift = 2 * response.bound * alpha * n / D
    rho = (gamma + n) / D if ball else 1.0
    error = math.sqrt((gamma * response.radius / D) ** 2 + response.noise_variance * n / D**2)
    return rho * (shift + error) ** 2 + d * (d + 1) * scale**2


def noisy_statistics_error(
    design: Design, response: Response, n: int, scale: float, gram_scale: float, alpha: float, beta: float
) -> float:
    """[(2Yα + √(σ²/n))² + d(d+1)s² + R²·D_N(D_N+1)s_N²/d] / ((1−ξ)λ_min − ν)², D_N = d(d+1)/2.

    ν is the 1−β quantile of ‖N‖_F ~ Gamma(D_N, s_N).
    """
    d = design.dimension
    D_N = d * (d + 1) // 2
    nu = float(stats.gamma.ppf(1 - beta, D_N, scale=gram_scale))
    least = _spectrum(design, n, beta) / n - nu
    if not least > 0:
        return math.inf
    sampling = (2 * response.bound * alpha + math.sqrt(response.noise_variance / n)) ** 2
    noise = d * (d + 1) * scale**2 + response.radius**2 * D_N * (D_N + 1) * gram_scale**2 / d
    return (sampling + noise) / least**2


def _spectrum(design: Design, count: int, beta: float) -> float:
    """(1−ξ)·count·λ_min(Σ): a lower bound of λ_min(XᵀX) that fails with probability at most β; 0 if none."""
    xi = spectrum_tolerance(design.least_eigenvalue, count, design.dimension, beta)
    return max(0.0, 1 - xi) * count * design.least_eigenvalue if xi < 1 else 0.0

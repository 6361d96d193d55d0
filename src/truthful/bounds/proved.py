"""What a plan may promise: bounds that hold, as functions of public numbers. Derivations: docs/theory.md.

A bound that needs an event (the features' spectrum, few enough liars) says so, and gives infinity where the
event cannot be had: infinity is the honest "nothing is promised". Numerical errors below 1e-6 (the grid on which
records lie, the table of own predictions) are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import stats

#: The chance that a random half is smaller than `least_half` says.
HALF_MISS = 1e-9
_TOLERANCES = tuple(k / 100 for k in range(1, 100))


@dataclass(frozen=True)
class Design:
    """What the declared features contribute to the bounds; Σ = E[x xᵀ].

    sampling_variance: sup over ‖θ‖ ≤ R of tr Cov(Σ⁻¹xy); direction_variance: sup over unit e, ‖θ‖ ≤ R, of
    Var(e·Σ⁻¹xy); inverse_square: ‖Σ⁻¹‖²_F. Infinite where Σ is unknown. least_eigenvalue: of Σ, 0 where nothing is
    declared. greatest_eigenvalue: of Σ, at most 1 because ‖x‖ ≤ 1.
    """

    dimension: int
    least_eigenvalue: float
    greatest_eigenvalue: float = 1.0
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


# Random halves and spectra


def least_half(n: int) -> int:
    """The fewest players a player is scored against: of the n−1 others each is in the other half with chance ½.

    Fewer with probability below HALF_MISS; never none, since nothing is settled with an empty half.
    """
    return max(1, int(stats.binom.ppf(HALF_MISS, n - 1, 0.5)))


def spectrum_tolerance(least: float, count: int, dimension: int, beta: float) -> float:
    """The ξ with P(λ_min(XᵀX) ≤ (1−ξ)·count·λ_min(Σ)) ≤ β. Matrix Chernoff: d·exp(−ξ²μ/2) = β."""
    mu = count * least
    return math.sqrt(2 * math.log(dimension / beta) / mu) if mu > 0 else math.inf


def least_spectrum(design: Design, count: int, beta: float) -> float:
    """(1−ξ)·count·λ_min(Σ): a lower bound of λ_min(XᵀX) that fails with probability at most β; 0 if there is none."""
    xi = spectrum_tolerance(design.least_eigenvalue, count, design.dimension, beta)
    return (1 - xi) * count * design.least_eigenvalue if xi < 1 else 0.0


def greatest_spectrum(design: Design, count: int, beta: float) -> float:
    """(1+ξ)·count·λ_max(Σ), exceeded by λ_max(XᵀX) with probability at most β; count, never exceeded, if that is less.

    Matrix Chernoff: d·exp(−ξ²μ/3) = β for ξ ≤ 1.
    """
    mu = count * design.greatest_eigenvalue
    xi = math.sqrt(3 * math.log(design.dimension / beta) / mu)
    return min(float(count), (1 + xi) * mu) if xi <= 1 else float(count)


# Gaps: the largest distance between a player's own prediction and the expected prediction of her peers, among whom an
# α share lies. Liars change y, never x. Where a part of the gap is itself random, its root mean square counts: a lie
# that moves q by Δ changes a payment by b(−Δ² + 2Δg), with both Δ and g in the mean square.


def known_design_gap(design: Design, response: Response, n: int, alpha: float, clipped: bool) -> float:
    """Liars move Σ⁻¹Xᵀy/m by at most 2Yα/λ_min(Σ); otherwise the peers' prediction is unbiased.

    Scoring against the clipped curve removes the clipping up to the peers' sampling error, whose law is only bounded:
    clipping is 1-Lipschitz, so that adds at most its standard deviation √(direction_variance/m).
    """
    if not design.least_eigenvalue > 0:
        return math.inf
    lies = _share_moves(response, alpha, design.least_eigenvalue)
    if not clipped:
        return lies
    return lies + _unless_half_is_small(math.sqrt(design.direction_variance / least_half(n)), response)


def ridge_gap(design: Design, response: Response, n: int, gamma: float, alpha: float, clipped: bool) -> float:
    """The free ridge scored against its own shrunk curve, for features uniform on the ball; A = (γI + XᵀX)⁻¹.

    Lies: ‖AXᵀδ‖ ≤ 2Yαm/(γ+λ_min), so at most 2Yα/(γ/n + (1−ξ)λ_min(Σ)) on the spectrum event, 2Yαn/γ off it.
    Clipping adds the deviation of x·θ̂ from its mean. Its noise part x·AXᵀz is at most σ/√(γ+λ_min), always at most
    σ/(2√γ). Its design part γx·(A − E[A])θ is at most Rγ/D, D = γ + (1−ξ)μ, and 2R·P off the event.
    """
    if not design.least_eigenvalue > 0:
        return math.inf
    m, R, sigma = least_half(n), response.radius, math.sqrt(response.noise_variance)
    mu = m * design.least_eigenvalue

    def expected(on_event: Callable[[float], float], off_event: float) -> float:
        """The best over ξ of what holds on the spectrum event, and off it with its probability."""
        chances = (min(1.0, design.dimension * math.exp(-(xi**2) * mu / 2)) for xi in _TOLERANCES)
        on = (on_event(1 - xi) + chance * off_event for xi, chance in zip(_TOLERANCES, chances, strict=True))
        return min(off_event, min(on))

    lies = 2 * response.bound * alpha
    gap = expected(lambda share: lies / (gamma / n + share * design.least_eigenvalue), lies * n / gamma)
    if not clipped:
        return gap + HALF_MISS * lies * n / gamma
    deviation = expected(
        lambda share: sigma / math.sqrt(gamma + share * mu) + R * gamma / (gamma + share * mu),
        sigma / (2 * math.sqrt(gamma)) + 2 * R,
    )
    return gap + _unless_half_is_small(deviation, response)


def noisy_statistics_gap(
    design: Design,
    response: Response,
    n: int,
    gram_scale: float,
    floor: float,
    alpha: float,
    clipped: bool,
) -> float:
    """For θ̂ = Ĝ⁻¹(Xᵀy/m + v) with Ĝ = XᵀX/m + N: the best over the probability of the bad event.

    ν is a quantile of ‖N‖_F ~ Gamma(d(d+1)/2, s_N), the bad event is ‖N‖ > ν or a failing spectrum; off it the floor ℓ
    changes nothing, because (1−ξ)λ_min − ν ≥ ℓ, and lies move θ̂ by 2Yα/((1−ξ)λ_min−ν).

    Unclipped, N has mean zero and a second-order effect: R·t²/(1−t) + (R+Y/ℓ)·P(bad), t = ν/((1−ξ)λ_min).
    Clipped, its whole effect Ĝ⁻¹Nθ counts as the sampling error Ĝ⁻¹Xᵀz/m does, and 2R on the bad event.
    gram_scale and floor are those of `least_half(n)` players; both fall as 1/m, so the floor is at least ℓm/n.
    """
    d, R, Y, m = design.dimension, response.radius, response.bound, least_half(n)

    def bound(beta: float) -> float:
        least = least_spectrum(design, m, beta) / m
        margin = least - float(stats.gamma.isf(beta, _symmetric(d), scale=gram_scale))
        if not margin >= floor:
            return math.inf
        lies, bad, t = _share_moves(response, alpha, margin), 2 * beta + HALF_MISS, 1 - margin / least
        if not clipped:
            return lies + R * t**2 / (1 - t) + bad * (R + Y * n / (floor * m))
        sampling = response.noise_variance / (m * least * (1 - t) ** 2)
        statistics = _gram_error(response, d, gram_scale) / margin**2
        return lies + math.sqrt(sampling + statistics + bad * (2 * R) ** 2)

    return min(bound(10.0**-k) for k in range(1, 16))


def _share_moves(response: Response, alpha: float, least: float) -> float:
    """How far an α share of arbitrary reports moves (XᵀX/m)⁻¹Xᵀy/m, the least eigenvalue of XᵀX/m being given."""
    return 2 * response.bound * alpha / least


def _unless_half_is_small(gap: float, response: Response) -> float:
    """A gap that holds unless the half is smaller than `least_half`; 2R, the range of predictions, if it is."""
    return math.sqrt(gap**2 + HALF_MISS * (2 * response.radius) ** 2)


# Truthfulness, participation, budget


def truth_slack(gap: float, tau: float, privacy_cost: float, b: float) -> float:
    """η = b·g² + τ·h(ε): the most any lie can gain, whoever tells it among costs ≤ τ."""
    return b * gap**2 + tau * privacy_cost if b > 0 else tau * privacy_cost


def lie_size(gap: float, tau: float, privacy_cost: float, b: float) -> float:
    """D = g + √(g² + τ·h(ε)/b): no lie that moves the own prediction by more than D can pay."""
    return gap + math.sqrt(gap**2 + tau * privacy_cost / b) if b > 0 else math.inf


def joining_threshold(a: float, b: float, gap: float, privacy_cost: float, rule: str) -> float:
    """The largest cost τ for which taking part pays in expectation: a ≥ b·g² + τ·h(ε), and b/4 more for `brier`."""
    least = b * (gap**2 + (0.25 if rule == "brier" else 0.0)) if b > 0 else 0.0
    if not a > least:
        return 0.0
    return (a - least) / privacy_cost if privacy_cost > 0 else math.inf


def budget_cap(n: int, a: float, b: float, gain: float) -> float:
    """n·(a + b·gain(R)): no draw and no report can cost more when payments are never negative."""
    return n * (a + b * gain)


def expected_budget(
    n: int, a: float, b: float, gap: float, alpha: float, mean_square: float, largest: float, rule: str
) -> float:
    """n·(a + b·E[score]), where a truthful player's score is E[2pq − q²] ≤ E[q²] + 2g·E|q|, a liar's at most `largest`.

    mean_square is E[(θ·x)²] ≥ E[q²]: q is a conditional mean of ψ, and |ψ(u)| ≤ |u|. The term −p of `brier` has mean
    zero under a prior that is symmetric about its centre, up to the gap.
    """
    if not b > 0:
        return n * a
    truthful = mean_square + 2 * gap * math.sqrt(mean_square) + (gap if rule == "brier" else 0.0)
    return n * (a + b * ((1 - alpha) * truthful + alpha * largest))


# Accuracy: E‖θ̂−θ‖² when at most a share α lies, and on the events named.


def known_design_error(design: Design, response: Response, n: int, scale: float, alpha: float) -> float:
    """(L̄ + √V)² + E‖Σ⁻¹v‖², with L̄ = 2Yα/λ_min(Σ), V = sampling_variance/n and E‖Σ⁻¹v‖² = (d+1)s²‖Σ⁻¹‖²_F."""
    if not design.least_eigenvalue > 0:
        return math.inf
    lies = _share_moves(response, alpha, design.least_eigenvalue)
    noise = (design.dimension + 1) * scale**2 * design.inverse_square
    return (lies + math.sqrt(design.sampling_variance / n)) ** 2 + noise


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
    """ρ(2Yαn/D + √((γR/D)² + σ²·min(d/D, n/D²)))² + d(d+1)s², D = γ + (1−ξ)μ, except with probability β.

    The free ridge has ρ = 1. The minimiser over the ball is the projection of the free one in the norm of γI + XᵀX,
    so ρ = (γ + λ_max(XᵀX))/D, which takes another event of probability β; and it is never further than 2R.
    """
    d, R = design.dimension, response.radius
    D = gamma + least_spectrum(design, n, beta)
    lies = 2 * response.bound * alpha * n / D
    sampling = response.noise_variance * min(d / D, n / D**2)
    error = (lies + math.sqrt((gamma * R / D) ** 2 + sampling)) ** 2
    if ball:
        error = min((gamma + greatest_spectrum(design, n, beta)) / D * error, (2 * R) ** 2)
    return error + d * (d + 1) * scale**2


def noisy_statistics_error(
    design: Design,
    response: Response,
    n: int,
    scale: float,
    gram_scale: float,
    floor: float,
    alpha: float,
    beta: float,
) -> float:
    """[(2Yα + √(σ²/n))² + d(d+1)s² + R²·E‖N‖²_F/d] / ((1−ξ)λ_min − ν)², except with probability 2β.

    θ̂ − θ = Ĝ⁻¹(Xᵀz/n + lies + v − Nθ) where the floor ℓ ≤ (1−ξ)λ_min − ν is not in force; ν is the quantile that
    ‖N‖_F ~ Gamma(d(d+1)/2, s_N) exceeds with probability β.
    """
    d = design.dimension
    nu = float(stats.gamma.isf(beta, _symmetric(d), scale=gram_scale))
    margin = least_spectrum(design, n, beta) / n - nu
    if not margin >= floor:
        return math.inf
    sampling = (2 * response.bound * alpha + math.sqrt(response.noise_variance / n)) ** 2
    noise = d * (d + 1) * scale**2 + _gram_error(response, d, gram_scale)
    return (sampling + noise) / margin**2


def _symmetric(d: int) -> int:
    """D_N = d(d+1)/2, the dimension of the symmetric matrices."""
    return d * (d + 1) // 2


def _gram_error(response: Response, d: int, gram_scale: float) -> float:
    """E‖Nθ‖² ≤ R²·E‖N‖²_F/d, with E‖N‖²_F = D_N(D_N+1)s_N²: N has no preferred direction."""
    D_N = _symmetric(d)
    return response.radius**2 * D_N * (D_N + 1) * gram_scale**2 / d

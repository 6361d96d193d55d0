"""What holds, as functions of public numbers: the same names and arguments as `published`. Derivations: docs/theory.md.

A bound that needs an event (the features' spectrum, few enough liars) says so, and gives infinity where the
event cannot be had: infinity is the honest "nothing is promised". Numerical errors below 1e-6 (the grid on which
records lie, the table of own predictions) are left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.bounds import budgets, privacy_noise
from truthful.bounds.accuracy import ERRORS, least_released, least_squares_error, prediction_error
from truthful.bounds.budgets import times
from truthful.bounds.gap import GAPS
from truthful.bounds.peers import least_spectrum, pull, shortfall_chance
from truthful.bounds.setting import Model, Numbers, Setting
from truthful.check import Floats
from truthful.costs import Costs
from truthful.errors import InputError
from truthful.scoring import RULES

__all__ = [
    "accuracy",
    "budget",
    "budget_cap",
    "composition",
    "covariance",
    "gap",
    "hessian",
    "joining_threshold",
    "least_squares_error",
    "liars",
    "lie_size",
    "likely_budget",
    "noise_error",
    "noise_moments",
    "noise_scale",
    "participation",
    "payable",
    "prediction_error",
    "privacy",
    "ridge_bias",
    "ridge_variance",
    "schedule",
    "sensitivity",
    "spectrum",
    "strong_convexity",
    "threshold",
    "truthfulness",
]

# Privacy


def sensitivity(s: Setting) -> Floats:
    """How far one record can move the published estimate's released vector: proved in `truthful.estimators`."""
    return privacy_noise.sensitivity(s.estimator, s.model, s.n, s.gamma)


def noise_scale(s: Setting) -> Floats:
    """The scale of its noise, sensitivity/ε_public (and for `noisy-statistics` its share of that ε)."""
    return privacy_noise.public_scale(s)


def noise_moments(d: int, scale: Numbers) -> tuple[Numbers, Numbers]:
    """E‖v‖ = d·s and E‖v‖² = d(d+1)s²: the norm of noise with density ∝ exp(−‖v‖/s) on R^d is Gamma(d, s)."""
    return d * scale, d * (d + 1) * scale**2


def privacy(s: Setting) -> Numbers:
    """ε_public + ε_peer, the total joint level: the halves are disjoint, so they spend ε_peer once.

    Leave-one-out: ε, as all payments are functions of one release and of each player's own record.
    """
    return s.epsilon if s.leave_one_out else s.epsilon_public + s.epsilon_peer


# Features and liars


def spectrum(s: Setting) -> Floats:
    """The chance that λ_min(XᵀX) ≤ (1−ξ)nλ_min(Σ): matrix Chernoff, explicit for every d ≥ 1."""
    return shortfall_chance(s.model, s.n, s.xi)


def threshold(s: Setting) -> Floats:
    """The smallest τ with P[Binomial(n, 1−F(τ)) ≤ αn] ≥ 1−β and F(τ) ≥ 1−α. Exact."""
    return s.costs.upper_quantile(s.above_threshold)


def liars(s: Setting) -> Floats:
    """How far a share α of arbitrary reports can move the published estimate: liars change y, never x.

    Σ⁻¹Xᵀy/n by 2Yα·sup‖Σ⁻¹x‖; a free ridge by 2Y·min(κ, √κ), κ = αn/D; `noisy-statistics` by 2Yα over the least
    eigenvalue it can release. The last two on the events that their accuracy needs. `instruments`: `bounds.answers`.
    """
    if s.estimator == "instruments":
        from truthful.bounds import answers

        return answers.liars(s)
    Y = s.model.response_bound
    if s.estimator == "known-design":
        return 2 * Y * pull(s.model, s.alpha)
    if s.estimator == "noisy-statistics":
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = 2 * Y * s.alpha / np.maximum(least_released(s), 0.0)
        return np.where(np.asarray(s.alpha) > 0, moved, 0.0)
    kappa = s.alpha * np.asarray(s.n) / _ridge_divisor(s)
    return np.asarray(2 * Y * np.minimum(kappa, np.sqrt(kappa)))


# Truthfulness, participation, budget


def gap(s: Setting) -> Floats:
    """g + Γ: the largest distance between a truthful player's own prediction and what she expects of her peers.

    g as declared beliefs have it, and Γ more if hers may be others.
    """
    if s.peer_estimator not in GAPS:
        raise InputError(
            f"No gap is known for the peer estimator {s.peer_estimator!r}; choose {', '.join(GAPS)}."
        )
    return np.asarray(GAPS[s.peer_estimator](s) + s.belief_gap)


def truthfulness(s: Setting) -> Floats:
    """η = b·g² + τ·h(ε): the most any lie can gain, whoever tells it among costs ≤ τ; a step more by rounding."""
    return times(s.b, gap(s) ** 2) + _saved(s)


def lie_size(s: Setting) -> Floats:
    """D = g + √(g² + τ·h(ε)/b): no lie that moves the own prediction by more than D can pay.

    A lie that moves q by Δ gains at most b(2Δg − Δ²) in payment, τ·h(ε) in privacy and one step of rounding.
    """
    g = gap(s)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = g + np.sqrt(g**2 + _saved(s) / s.b)
    return np.where(np.asarray(s.b) > 0, size, np.inf)


def participation(s: Setting) -> Floats:
    """The least base payment with which joining pays for every cost ≤ τ: b·g² + τ·h(ε), and b/4 more for `brier`."""
    return times(s.b, gap(s) ** 2 + RULES[s.rule].linear / 4) + _saved(s)


def payable(s: Setting) -> Floats:
    """The least a with which no payment is negative, p being clipped: 3bc², and bc more for `brier`.

    Leave-one-out: none, since the base payment max(a, b·loss(c‖x‖)) covers what a player of this length can lose.
    """
    if s.leave_one_out:
        return np.zeros(np.broadcast_shapes(np.shape(s.b), np.shape(s.reach)))
    return np.asarray(s.b * budgets.loss(s))


def joining_threshold(s: Setting) -> Floats:
    """The largest cost for which taking part pays in expectation, at the base payment a: inverts `participation`."""
    left = s.a - s.rounding - times(s.b, gap(s) ** 2 + RULES[s.rule].linear / 4)
    return np.where(left > 0, left / s.privacy_cost, 0.0)


def budget(s: Setting) -> Floats:
    """The expected total of all payments, under the declared beliefs: `bounds.budgets.expected`."""
    return budgets.expected(s)


def likely_budget(s: Setting) -> Floats:
    """A total that is exceeded with probability at most β: `bounds.budgets.likely`."""
    return budgets.likely(s)


def budget_cap(s: Setting) -> Floats:
    """A total that no draw and no report can exceed, if payments are never negative: `bounds.budgets.cap`."""
    return budgets.cap(s)


# Accuracy


def accuracy(s: Setting) -> Floats:
    """E‖θ̂−θ‖² of the published estimate, on the events counted in `bounds.accuracy.EVENTS`."""
    return ERRORS[s.estimator](s)


def ridge_bias(s: Setting) -> Floats:
    """‖γ(γI+XᵀX)⁻¹θ‖ ≤ γR/D, D = γ + λ_min(XᵀX)."""
    return np.asarray(s.gamma * s.model.radius / _ridge_divisor(s))


def ridge_variance(s: Setting) -> Floats:
    """σ²·tr(A XᵀX A) ≤ σ²·min(d/D, n/D²): λ/(γ+λ)² ≤ 1/(γ+λ), and tr(XᵀX) ≤ n."""
    D = _ridge_divisor(s)
    return np.asarray(s.model.noise_variance * np.minimum(s.model.dimension / D, s.n / D**2))


def noise_error(s: Setting) -> Floats:
    """E‖(γI+XᵀX)⁻¹Xᵀz‖ ≤ √(its mean square)."""
    return np.sqrt(ridge_variance(s))


# Schedule


def schedule(
    model: Model,
    costs: Costs,
    n: Numbers,
    *,
    delta: float,
    tail: float,
    k: float,
    estimator: str = "known-design",
) -> Setting:
    """The corollary's parameters, with a base payment that is enough and b = n^(−1−k), 0 < k < ½−δ.

    ε = 2n^(−1+δ) in all, α = n^(−δ), β = n^(−p/2+δ(1+p)), γ = n^(1−δ/2). The paper's b = n^(−3/2) falls faster than
    what privacy is worth to people, so that no lie is deterred; with this one D → 0 and the budget is O(n^(−k)).
    """
    n = np.asarray(n, dtype=np.float64)
    if not 0 < delta < tail / (2 + 2 * tail):
        raise InputError(
            f"delta is {delta!r}; it must lie between 0 and p/(2+2p) = {tail / (2 + 2 * tail):g}."
        )
    if not 0 < k < 0.5 - delta:
        raise InputError(f"k is {k!r}; it must lie between 0 and 1/2 − delta = {0.5 - delta:g}.")
    s = Setting(
        model=model,
        costs=costs,
        n=n,
        epsilon=2 * n ** (-1 + delta),
        alpha=n**-delta,
        beta=n ** (-tail / 2 + delta * (1 + tail)),
        b=n ** (-1 - k),
        gamma=n ** (1 - delta / 2),
        estimator=estimator,
        peer_estimator="ridge-free" if estimator == "ridge-ball" else estimator,
        payments="expected",
    )
    return s.at(a=participation(s))


# The appendix


def hessian(X: npt.ArrayLike, gamma: float) -> Floats:
    """2XᵀX + 2γI, of Σ(y−θ·x)² + γ‖θ‖²."""
    X = check.matrix("X", X)
    return np.asarray(2 * (X.T @ X) + 2 * gamma * np.eye(X.shape[1]))


def strong_convexity(gamma: Numbers) -> Numbers:
    """2γ: the least eigenvalue of the Hessian is at least that, and equal to it if XᵀX is singular."""
    return 2 * gamma


def composition(c: Numbers, epsilon: Numbers) -> tuple[Numbers, Numbers]:
    """What a lie can change in an expected privacy cost between 0 and c·ε: c·ε·tanh(ε/2) ≤ c·ε²/2, for every ε.

    The two laws of the output differ by a factor of at most e^ε, so their total variation distance is at most
    (e^ε−1)/(e^ε+1) = tanh(ε/2), and the cost ranges over an interval of length c·ε.
    """
    return c * epsilon * np.tanh(epsilon / 2), c * epsilon**2 / 2


def covariance(d: int) -> Floats:
    """E[x xᵀ] = I/(d+2) for x uniform on the unit ball: E‖x‖² = ∫₀¹ r²·d·r^(d−1) dr = d/(d+2), by symmetry."""
    return np.eye(check.integer("d", d)) / (d + 2)


def _saved(s: Setting) -> Floats:
    """τ·h(ε), the most that a lie can save in privacy, and what rounding can give or take."""
    return np.asarray(threshold(s) * s.privacy_cost + s.rounding)


def _ridge_divisor(s: Setting) -> Floats:
    return np.asarray(s.gamma + least_spectrum(s.model, s.n, s.beta))

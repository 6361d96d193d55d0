"""Bounds that hold, as functions of public numbers; names and arguments as in `published`. Derivations: docs/theory.md.

A bound that needs an event (the features' spectrum, few enough liars) says so, and is infinite where the event cannot
be had: nothing is promised there. Numerical errors below 1e-6 (the grid on which records lie, the table of own
predictions) are left out.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.bounds.estimator_bounds import (
    ERRORS,
    GAPS,
    instruments_error,
    instruments_lies,
    least_released,
    scaled_geometry,
)
from truthful.bounds.setting import Model, Numbers, Setting, pull
from truthful.bounds.setting import noise_scale as noise_scale_of
from truthful.bounds.setting import sensitivity as sensitivity_of
from truthful.bounds.spectrum import greatest_spectrum, least_spectrum, shortfall_chance
from truthful.check import Floats
from truthful.costs import Costs
from truthful.errors import InputError
from truthful.scoring import RULES

# Privacy


def sensitivity(s: Setting) -> Floats:
    """How far one record can move the estimate's released vector: proved in `truthful.estimators`."""
    return sensitivity_of(s.estimator, s.model, s.n, s.gamma)


def noise_scale(s: Setting) -> Floats:
    """The scale of its noise, sensitivity/ε (and for `noisy-statistics` its share of ε)."""
    return noise_scale_of(s, s.n)


def noise_moments(d: int, scale: Numbers) -> tuple[Numbers, Numbers]:
    """E‖v‖ = d·s and E‖v‖² = d(d+1)s²: the norm of noise with density ∝ exp(−‖v‖/s) on R^d is Gamma(d, s)."""
    return d * scale, d * (d + 1) * scale**2


def privacy(s: Setting) -> Numbers:
    """ε, the joint level: all payments are functions of one release and of each player's own record."""
    return s.epsilon


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
    eigenvalue it can release. The last two on the events that their accuracy needs. `instruments` by as much as
    the geometry of the roster lets them.
    """
    if s.estimator == "instruments":
        return instruments_lies(s)
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

    g under the declared beliefs, plus Γ if hers may differ.
    """
    if s.estimator not in GAPS:
        raise InputError(
            f"Nobody can be left out of the estimator {s.estimator!r}; choose {', '.join(GAPS)}."
        )
    if not np.all(np.asarray(s.n) >= 2):
        raise InputError(f"n is {np.min(s.n)}; who is scored against all others needs one at least.")
    return np.asarray(_declared_gap(s) + s.belief_gap)


def _declared_gap(s: Setting) -> Floats:
    """g, computed once for all payments."""
    return s.memoise("gap", GAPS[s.estimator])


def truthfulness(s: Setting) -> Floats:
    """η = b·g² + τ·h(ε): the most any lie can gain, whoever tells it among costs ≤ τ; a step more by rounding."""
    return _times(s.b, gap(s) ** 2) + _saving(s)


def lie_size(s: Setting) -> Floats:
    """D = g + √(g² + τ·h(ε)/b): no lie that moves the own prediction by more than D can pay.

    A lie that moves q by Δ gains at most b(2Δg − Δ²) in payment, τ·h(ε) in privacy and one step of rounding.
    """
    g = gap(s)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = g + np.sqrt(g**2 + _saving(s) / s.b)
    return np.where(np.asarray(s.b) > 0, size, np.inf)


def participation(s: Setting) -> Floats:
    """The least base payment with which joining pays for every cost ≤ τ: b·g² + τ·h(ε), and b/4 more for `brier`."""
    return _times(s.b, gap(s) ** 2 + RULES[s.rule].linear / 4) + _saving(s)


def joining_threshold(s: Setting) -> Floats:
    """The largest cost for which taking part pays in expectation, at the base payment a: inverts `participation`."""
    left = s.a - s.rounding - _times(s.b, gap(s) ** 2 + RULES[s.rule].linear / 4)
    return np.where(left > 0, left / s.privacy_cost, 0.0)


def budget(s: Setting) -> Floats:
    """The expected total of all payments, under the declared beliefs.

    n·(a + b·E[score]), where E[score] ≤ Q + 2g√Q + α·(largest score): truthful players, and liars on top.

    A truthful player's is E[2pq − q²] ≤ E[q²] + 2g·E|q|, and E[q²] ≤ Q = E[(θ·x)²] under the prior: q is a conditional
    mean of ψ, and |ψ(u)| ≤ |u|. Liars may be the people of whom little is predicted, so truthful ones keep all of Q. A
    liar who knows her own record scores at most p̄², |p̄| ≤ R + g, and c² if p is clipped; liars count with their
    chance. The term −p of `brier` has mean zero under a prior symmetric about its centre, up to the gap.

    Base payments are bounded by `_base`. Clipped, |q| ≤ c‖x‖ bounds Q too, and no score exceeds p² ≤ c²‖x‖² (and c‖x‖
    more for `brier`), whatever anybody reports.
    """
    if s.estimator == "instruments":
        return _instruments_budget(s)
    g, norm, linear = _declared_gap(s), s.model.mean_square_norm, RULES[s.rule].linear
    reach = s.reach if s.clipped else s.model.radius + g
    Q, most = np.asarray(s.model.mean_square), np.asarray(np.inf)
    if s.clipped:
        Q = np.minimum(Q, np.square(reach) * norm)
        most = np.asarray(linear * reach * math.sqrt(norm) + np.square(reach) * norm)
    with np.errstate(invalid="ignore"):
        score = Q + 2 * g * np.sqrt(Q) + linear * g + s.above_threshold * (linear * reach + np.square(reach))
    score = np.minimum(np.nan_to_num(score, nan=np.inf, posinf=np.inf), most)
    return np.minimum(s.n * (_base(s, norm) + _times(s.b, score)), budget_cap(s))


def likely_budget(s: Setting) -> Floats:
    """A total that is exceeded with probability at most β, beside the event of more than αn liars, whatever they know.

    A score is at most p² (and |p| more for `brier`). Never-negative: also |p| ≤ c‖x‖, and Hoeffding's inequality bounds
    Σ‖x‖²; the smaller counts. With probability β/2 for Σ‖x‖², on which base payments depend too, and β/6 for each event
    of `_left_out`. For `instruments` nothing but the cap is stated.
    """
    model, n, linear = s.model, np.asarray(s.n, dtype=np.float64), RULES[s.rule].linear
    if s.estimator == "instruments":
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    beta = np.asarray(s.beta) / 2
    squares = _left_out(s, beta / 3)
    norms = np.minimum(n * model.mean_square_norm + np.sqrt(n * np.log(1 / beta) / 2), n)
    if s.clipped:
        squares = np.minimum(squares, np.square(s.reach) * norms)
    scores = squares + linear * np.sqrt(n * squares) if linear else squares
    return np.asarray(n * _base(s, norms / n) + _times(s.b, scores))


def budget_cap(s: Setting) -> Floats:
    """No draw and no report can cost more when payments are never negative; else there is no cap.

    n·(max(a, b·loss(c)) + b·gain(c)), as ‖x‖ ≤ 1 and base and gain grow with ‖x‖. `instruments`:
    Σ (max(a, b·loss(c r)) + b·gain(c r)) over all who may have to be paid.
    """
    n = np.asarray(s.n, dtype=np.float64)
    if not s.clipped:
        return np.full(np.broadcast_shapes(n.shape, np.shape(s.a), np.shape(s.b)), np.inf)
    if s.estimator == "instruments":
        base, gain = _totals(s)
        return base + gain
    return np.asarray(n * (_base(s, 1.0) + s.b * s.gain))


# Accuracy


def accuracy(s: Setting) -> Floats:
    """E‖θ̂−θ‖² of the published estimate, on the events counted in `estimator_bounds.EVENTS`."""
    return ERRORS[s.estimator](s)


def least_squares_error(s: Setting) -> Floats:
    """Algorithm 1 on truthful reports: σ²·E[tr (XᵀX)⁻¹] ≤ σ²d/((1−ξ)μ), except with probability β."""
    least = least_spectrum(s.model, s.n, s.beta)
    with np.errstate(divide="ignore"):
        return np.asarray(s.model.noise_variance * s.model.dimension / least)


def prediction_error(s: Setting) -> Floats:
    """E[(x·θ̂ − x·θ)²] for a person x drawn from the design: never more than λ_max(Σ) times the error of θ̂.

    `known-design`: as its error with Σ^(1/2)θ̂ for θ̂, sup‖Σ^(−1/2)x‖² = leverage, E‖Σ^(−1/2)v‖² = (d+1)s²·tr Σ⁻¹.
    `instruments`: on average over those who answered, whose features are known.
    """
    if s.estimator == "instruments":
        return instruments_error(s, predictions=True)
    model = s.model
    bound = model.greatest_eigenvalue * ERRORS[s.estimator](s)
    if s.estimator != "known-design":
        return np.asarray(bound)
    lies = 2 * model.response_bound * s.alpha * math.sqrt(model.leverage)
    noise = (model.dimension + 1) * noise_scale(s) ** 2 * model.inverse_trace
    return np.minimum(bound, (lies + np.sqrt(model.prediction_variance / np.asarray(s.n))) ** 2 + noise)


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
) -> Setting:
    """The corollary's parameters, with a base payment that is enough and b = n^(−1−k), 0 < k < ½−δ.

    ε = 2n^(−1+δ) in all, α = n^(−δ), β = n^(−p/2+δ(1+p)). The paper's b = n^(−3/2) falls faster than
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


def _instruments_budget(s: Setting) -> Floats:
    """The bases, and n·b·(Q + 2g√Q + α·(largest score)); never above the cap.

    Q bounds E[q²] on average over these people: E[(θ·x)²] under the prior and, as |q| ≤ c‖x‖, c² times their mean ‖x‖².
    """
    geometry, _ = scaled_geometry(s)
    g, linear, n = _declared_gap(s), RULES[s.rule].linear, np.asarray(s.n, dtype=np.float64)
    Q = np.asarray(s.model.prior_square / geometry.dimension * geometry.lengths.mean_square)
    if s.clipped:
        Q = np.minimum(Q, np.asarray(s.reach) ** 2 * geometry.lengths.mean_square)
    reach = np.asarray(s.reach) if s.clipped else s.model.radius + g
    score = Q + 2 * g * np.sqrt(Q) + linear * g + s.alpha * (linear * reach + reach**2)
    base = _totals(s)[0] if s.clipped else n * s.a
    with np.errstate(invalid="ignore"):
        total = base + np.where(np.asarray(s.b) > 0, n * s.b * score, 0.0)
    return np.minimum(total, budget_cap(s))


def _totals(s: Setting) -> tuple[Floats, Floats]:
    """Bases and gains of all who may have to be paid: exact for a roster, else in proportion to their number."""
    geometry, _ = scaled_geometry(s)
    a, b = np.asarray(s.a), np.asarray(s.b)
    payable = np.isfinite(a) & np.isfinite(b)
    totals = geometry.lengths.totals(
        np.where(payable, a, 0.0), np.where(payable, b, 0.0), np.asarray(s.reach), RULES[s.rule].linear
    )
    factor = np.asarray(s.n) / geometry.players
    base, gain = (np.where(payable, part * factor, np.inf) for part in totals)
    return base, gain


def _base(s: Setting, mean_square_norm: Numbers) -> Floats:
    """A bound on the mean base payment where ‖x‖² has this mean: a, unless bases go by length.

    max(a, l) is convex in l = b·loss(c‖x‖), which lies between 0 and L = b·loss(c): at most a + (max(a, L) − a)·l/L.
    The mean of l/L is that of (linear·c‖x‖ + 3c²‖x‖²)/loss(c), and the mean of ‖x‖ at most the root of that of ‖x‖².
    """
    a = np.asarray(s.a, dtype=np.float64)
    if not s.clipped:
        return a
    linear, c = RULES[s.rule].linear, s.reach
    share = (linear * np.sqrt(mean_square_norm) + 3 * c * mean_square_norm) / (linear + 3 * c)
    with np.errstate(invalid="ignore"):
        more = np.maximum(s.b * s.loss - a, 0.0) * share
    return np.where(np.isfinite(a), a + more, np.inf)


def _left_out(s: Setting, beta: Numbers) -> Floats:
    """A bound on Σp² over leave-one-out predictions of a known design, which fails with probability at most 3β.

    |p_i| ≤ n/(n−1)·(|x_i·θ̂| + h_i|y_i|) with h_i = x_iᵀΣ⁻¹x_i/n ≤ leverage/n. So √Σp² is at most
    n/(n−1)·(√λ_max(XᵀX)·‖θ̂‖ + leverage·Y/√n), and ‖θ̂‖ at most R, what αn liars move, the sampling error by
    Chebyshev's inequality, and the noise by the quantile of its Gamma law. No such bound is known for
    `noisy-statistics`.
    """
    model, n = s.model, np.asarray(s.n, dtype=np.float64)
    if s.estimator == "noisy-statistics" or not math.isfinite(model.leverage):
        return np.full(n.shape, np.inf)
    theta = (
        model.radius
        + 2 * model.response_bound * pull(model, s.alpha)
        + np.sqrt(model.sampling_variance / n / beta)
        + noise_scale(s) * special.gammainccinv(model.dimension, beta) / model.least_eigenvalue
    )
    along = np.sqrt(greatest_spectrum(model, n, beta)) * theta
    own = model.leverage * model.response_bound / np.sqrt(n)
    return np.asarray(np.square(n / (n - 1) * (along + own)))


def _times(b: Numbers, value: Numbers) -> Floats:
    """b·value, and 0 where b is 0 even if value is infinite: a flat fee needs no bound on lies."""
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(b) > 0, b * np.asarray(value), 0.0)


def _saving(s: Setting) -> Floats:
    """τ·h(ε), the most that a lie can save in privacy, and what rounding can add or take."""
    return np.asarray(threshold(s) * s.privacy_cost + s.rounding)


def _ridge_divisor(s: Setting) -> Floats:
    return np.asarray(s.gamma + least_spectrum(s.model, s.n, s.beta))

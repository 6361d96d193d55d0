"""The paper's guarantees to the letter, mistakes included, for comparison. No plan or release may rest on them.

One function per result, named like its counterpart in `proved`; each names its errata (docs/errata.md). What the paper
fixes is fixed here whatever the setting says: x is uniform on the unit ball, every estimate is a free ridge at one γ,
the rule is `brier`, a level ε costs c·ε², and ε is split evenly. Our epsilon is the total, so the paper's ε is half of
it; B = R². All functions work on arrays of settings at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.bounds.setting import Model, Numbers, Setting
from truthful.check import Floats
from truthful.costs import Costs
from truthful.errors import InputError

# Privacy


def sensitivity(s: Setting) -> Numbers:
    """Lemma `sensitivity`: (4B+2M)/γ. E1, E2, E3: false for the free ridge, for B < 1 and for unclipped reports."""
    # 4B+2M is half the bound on ‖∇g‖ in its proof.
    return (4 * s.model.radius**2 + 2 * s.model.noise_bound) / _penalty(s.gamma)


def noise_scale(s: Setting) -> Numbers:
    """The parameter (4B+2M)/(γε) of P_L, Algorithm 2. E4: the proof has 8B+4M; E7: the even split is wasteful."""
    return sensitivity(s) / _epsilon(s)


def noise_moments(d: int, scale: Numbers) -> tuple[Numbers, Numbers]:
    """Lemma `noise`: (E‖v‖, E‖v‖²) = (s, 2s²), whatever d. E6: that is d = 1; in truth (d·s, d(d+1)s²)."""
    return scale, 2 * scale**2


def privacy(s: Setting) -> Numbers:
    """Theorem `priv`: 2ε-jointly differentially private. E1, E2, E3: not with the noise of `noise_scale`."""
    return 2 * _epsilon(s)


def composition(c: Numbers, epsilon: Numbers) -> tuple[Numbers, Numbers]:
    """Lemma `comp` (Appendix D), at the level given: (2cε(e^ε−1), 4cε²), for ε ≤ 1.

    E8: the mechanism's level is 2ε. E9: it bounds what a lie saves, not what taking part costs.
    """
    if not np.all((np.asarray(epsilon) >= 0) & (np.asarray(epsilon) <= 1)):
        raise InputError(f"epsilon is {epsilon!r}; the composition lemma is for levels from 0 to 1.")
    return 2 * c * epsilon * np.expm1(epsilon), 4 * c * epsilon**2


# Ridge regression


def covariance(d: int) -> Floats:
    """Lemma `covariance`: I/(d+2), for x uniform on the unit ball. Right."""
    return np.eye(check.integer("d", d)) / (d + 2)


def hessian(X: npt.ArrayLike, gamma: float) -> Floats:
    """The Hessian of the ridge loss as printed in Appendix E: XᵀX + 2γI. E5: it is 2XᵀX + 2γI."""
    X = check.matrix("X", X)
    return np.asarray(X.T @ X + strong_convexity(gamma) * np.eye(X.shape[1]))


def strong_convexity(gamma: Numbers) -> Numbers:
    """Lemma `strongconv`: the ridge loss is 2γ-strongly convex. Right, whichever Hessian (E5) is meant."""
    return 2 * _penalty(gamma)


def spectrum(s: Setting, *, C: float = 1.0) -> Numbers:
    """Theorem `converge`: the chance d^(−t²) that ‖XᵀX/n − I/(d+2)‖ > ξ/(d+2), with n = C(t/ξ)²(d+2)log d.

    So t = ξ√(n/(C(d+2)log d)) is the largest allowed; below t = 1 nothing is said, which is 1. E10: how it is proved.
    E11: the absolute constant C is not known, and at d = 1, where t is infinite, 1^(−t²) = 1 is vacuous for every n.
    """
    d, C = s.model.dimension, check.positive("C", C)
    with np.errstate(divide="ignore"):
        t = s.xi * np.sqrt(np.divide(s.n, C * (d + 2) * math.log(d)))
    return np.where(t >= 1, float(d) ** -(t**2), 1.0)[()]


def least_squares_error(s: Setting) -> Numbers:
    """Lemma `acc`: E‖θ̂−θ‖² ≤ σ²/((1−ξ)n/(d+2)) for Algorithm 1. E13: a factor d is missing."""
    return s.model.noise_variance / ((1 - s.xi) * _mu(s))


def ridge_bias(s: Setting) -> Numbers:
    """Lemma `ridge`: ‖bias‖ ≤ γB/(γ+(1−ξ)n/(d+2)). E1: ‖θ‖ ≤ √B; E20: the peers are n/2, and X is not known."""
    return _penalty(s.gamma) * s.model.radius**2 / _least(s)


def ridge_variance(s: Setting) -> Numbers:
    """Lemma `ridge`: "tr Cov = ‖Cov‖²" ≤ σ⁴((1+ξ)μ/(γ+(1−ξ)μ)²)², μ = n/(d+2). E13: of the wrong order, 1/n²."""
    return s.model.noise_variance**2 * ((1 + s.xi) * _mu(s) / _least(s) ** 2) ** 2


def noise_error(s: Setting) -> Numbers:
    """Lemma `ridge`: E‖(γI+XᵀX)⁻¹Xᵀz‖ ≤ Mn/(γ+(1−ξ)n/(d+2)). E14: true and loose, it does not fall with n."""
    return s.model.noise_bound * s.n / _least(s)


# Truthfulness


def threshold(s: Setting) -> Numbers:
    """Lemma `tail`: τ ≤ max{F⁻¹(1−αβ), F⁻¹(1−α)}. E19: Markov's inequality, right and very weak."""
    alpha = np.asarray(s.alpha, dtype=np.float64)
    return np.maximum(s.costs.upper_quantile(alpha * s.beta), s.costs.upper_quantile(alpha))[()]


def liars(s: Setting) -> Numbers:
    """Lemma `alpha`, k = αn: misreports move the ridge by at most αn(4B+2M)/γ. E15: far too large; E3: not proved."""
    return s.alpha * s.n * sensitivity(s)


def gap(s: Setting) -> Numbers:
    """Theorem `equil`: ‖E[θ̂−θ | x, y]‖ ≤ `liars` + `ridge_bias`. E20: n is everybody, the peers are half of them."""
    return liars(s) + ridge_bias(s)


def truthfulness(s: Setting) -> Numbers:
    """Theorem `equil`: η = b·gap² + τε². E8: the cost is that of 2ε; E22: an η that rules out no lie at all."""
    return s.b * gap(s) ** 2 + _largest_cost(s)


def lie_size(s: Setting) -> Numbers:
    """No lie that moves q by more than gap + √(gap² + τε²/b) can pay, by the paper's gap and cost; infinite at b = 0.

    The paper states no such number: a lie of size Δ gains at most b(2Δ·gap − Δ²) + τε². E8, E20, E21, E23.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        size = gap(s) + np.sqrt(gap(s) ** 2 + np.divide(_largest_cost(s), s.b))
    return np.where(np.asarray(s.b) > 0, size, np.inf)[()]


# Participation and budget


def participation(s: Setting) -> Numbers:
    """Theorem `privateir`: the least a, (gap + B)(b+2bB) + bB² + τε². E1: |q| ≤ √B, not B; E8: the cost of 2ε."""
    return _worst_score(s) + _largest_cost(s)


def joining_threshold(s: Setting) -> Numbers:
    """Theorem `privateir` the other way: the largest cost c that joins at s.a; 0 where a is too small. E1, E8."""
    return np.maximum(s.a - _worst_score(s), 0) / _epsilon(s) ** 2


def budget(s: Setting) -> Numbers:
    """Theorem `budget`: n[a + (gap + B)(b+2bB)], a bound on the *expected* total. E1; E28: payments are unbounded."""
    return s.n * (s.a + _largest_prediction(s) * _slope(s))


def budget_cap(s: Setting) -> Numbers:
    """Infinite: the paper bounds only the expected total, and noise makes payments unbounded (E28)."""
    return math.inf


def nonprivate_payments(model: Model, n: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """(a, b, budget) of the remark in section 3, for Algorithm 1. E26: the −1 can make every payment negative."""
    B, M = model.radius**2, model.noise_bound
    b = np.asarray(n, dtype=np.float64)[()] ** -2
    a = b * (B + 2 * B * (B + M) + (B + M) ** 2 - 1)
    return a, b, (2 * B + 4 * B * (B + M) + (B + M) ** 2) / n


# Accuracy


def accuracy(s: Setting) -> Numbers:
    """Theorem `accuracy`, the last display of its proof: a bound on E‖θ̂−θ‖². E3, E6, E13, E14, E15.

    liars² + 2s² + bias² + variance + 2(liars + s)(γB+Mn)/(γ+(1−ξ)n/(d+2)), with s the noise scale.
    """
    first, second = noise_moments(s.model.dimension, noise_scale(s))
    moved = liars(s)
    squares = moved**2 + second + ridge_bias(s) ** 2 + ridge_variance(s)
    return squares + 2 * (moved + first) * (ridge_bias(s) + noise_error(s))


# The main result


@dataclass(frozen=True)
class Rates:
    """Exponents of n in the formal corollary: privacy n^(−1+δ), η n^(−3/2+δ), accuracy n^(−δ), budget n^(−1/2+δ)."""

    privacy: float
    truthfulness: float
    accuracy: float
    budget: float


def rates(delta: float) -> Rates:
    """Corollary `formal`, items 1, 2, 3 and 5. E16: its proof has accuracy n^(−δ/2), and so has `accuracy`."""
    delta = _delta(delta, limit=0.5)
    return Rates(privacy=-1 + delta, truthfulness=-1.5 + delta, accuracy=-delta, budget=-0.5 + delta)


def schedule(model: Model, costs: Costs, n: Numbers, *, delta: float, tail: float) -> Setting:
    """Corollary `formal`: all parameters at n players, for costs with F(τ) ≥ 1 − τ^(−p), p = tail > 1.

    E17: useless at any n in reach; E18: β as in the statement, not as in the proof; E22: b is too small to matter;
    E24: a does not pay for the cost of 2ε; E30: nor for the score if B < 1.
    """
    if not np.all(np.asarray(n) > 1):
        raise InputError(f"n is {n!r}; the corollary needs more than one player.")
    if not (p := check.finite("tail", tail)) > 1:
        raise InputError(f"tail is {tail!r}; the corollary is for costs whose tail exponent p is above 1.")
    delta = _delta(delta, limit=p / (2 + 2 * p))
    # Whole numbers have no negative powers in numpy.
    n, B, M = np.asarray(n, dtype=np.float64)[()], model.radius**2, model.noise_bound
    return Setting(
        model=model,
        costs=costs,
        n=n,
        epsilon=2 * n ** (-1 + delta),
        alpha=n**-delta,
        beta=n ** (-p / 2 + delta * (1 + p)),
        a=(6 * B + 2 * M) * (1 + B) ** 2 * n**-1.5 + n ** (-1.5 + delta),
        b=n**-1.5,
        gamma=n ** (1 - delta / 2),
        estimator="ridge-free",
        rule="brier",
        payments="expected",
        xi=0.5,
    )


def _delta(delta: float, limit: float) -> float:
    if not 0 < check.finite("delta", delta) < limit:
        raise InputError(
            f"delta is {delta!r}; the corollary needs one above 0 and below {limit:.6g} (p/(2+2p), at most 1/2)."
        )
    return float(delta)


# Parts that several results share


def _epsilon(s: Setting) -> Numbers:
    """The paper's ε, at which each of the two releases is private."""
    return s.epsilon / 2


def _penalty(gamma: Numbers) -> Numbers:
    if not np.all(np.asarray(gamma) > 0):
        raise InputError(
            f"gamma is {gamma!r}; the paper's estimates are ridge regressions: give one above 0."
        )
    return gamma


def _mu(s: Setting) -> Numbers:
    """n/(d+2), both eigenvalues of E[XᵀX]."""
    return s.n / (s.model.dimension + 2)


def _least(s: Setting) -> Numbers:
    """γ + (1−ξ)n/(d+2), below every eigenvalue of γI + XᵀX by Theorem `converge`."""
    return _penalty(s.gamma) + (1 - s.xi) * _mu(s)


def _largest_cost(s: Setting) -> Numbers:
    """τε², by Assumption `costs`."""
    return threshold(s) * _epsilon(s) ** 2


def _largest_prediction(s: Setting) -> Numbers:
    """The bound gap + B on the peers' expected prediction |p|, from the proof of Theorem `privateir`."""
    return gap(s) + s.model.radius**2


def _slope(s: Setting) -> Numbers:
    """b + 2bB, the bound on |∂B_{a,b}/∂p|."""
    return s.b * (1 + 2 * s.model.radius**2)


def _worst_score(s: Setting) -> Numbers:
    """(gap + B)(b+2bB) + bB², the most that a payment falls below a, in expectation over the peers."""
    return _largest_prediction(s) * _slope(s) + s.b * s.model.radius**4

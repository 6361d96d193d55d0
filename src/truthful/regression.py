"""The paper's two algorithms on arrays, in normalised units, seeded: for research. No study is planned or settled with
them.

Nothing here protects anybody: the noise of `private_regression` comes from a seeded floating-point
generator. A release that people rely on is made by `truthful.settle`.

Algorithm 2 has two random halves, each paid by the other's predictions, and three private estimates. The average
shrinkage of ridge regression is E[θ̂] = (1 − γκ_m)θ when x is uniform on the unit ball. κ_m = E[tr(γI + G)⁻¹]/d, with G
= Σ x xᵀ over m players, is a public number: the expected peer prediction is the truth times 1 − γκ_m, so scoring
against that removes the bias of ridge regression from the incentives.

Write μ = m/(d+2) = E of every eigenvalue of G, A = γ + μ and E = G − μI. Then, exactly,

    Aκ_m = 1 + e₂ − e₃ + δ,   e_k = E tr Eᵏ/(d Aᵏ),   δ = E tr[E⁴(A + E)⁻¹]/(d A³) ≥ 0.

- Large m or γ: where λ_min(G) ≥ (1−ξ)μ, A(A + E)⁻¹ ⪯ A/(γ+(1−ξ)μ) = L, so 0 ≤ δ ≤ L·e₄ but for a rare event,
  whose probability the matrix Chernoff bound limits. Taking δ = e₄ is then off by a known, tiny amount.
- Otherwise: Monte Carlo with tr E, tr E², tr E³ and tr E⁴, whose means are known in closed form, as control
  variates, until 1e-4 is five standard errors.
- d = 1: 1/(γ+G) = ∫exp(−s(γ+G))ds factors over the players, so κ_m is one integral.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from math import comb, exp, inf, log, pi, sqrt
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, qr, solve_triangular
from scipy.special import erf

from truthful import check
from truthful.beliefs import IDENTITY, Beliefs, Predictor
from truthful.beliefs.laws import Clipped, Curve, Identity, Shrunk
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.estimators.private import (
    Estimate,
    Estimator,
    KnownDesign,
    NoisyStatistics,
    RidgeBall,
    RidgeFree,
)
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.moments import (
    GRID,
    Groups,
    Moments,
    along,
    grid_features,
    grid_responses,
    group_moments,
    lengths,
)
from truthful.noise import laplace
from truthful.scoring import RULES, Rule, pay

PUBLIC_ESTIMATORS = ("known-design", "noisy-statistics", "ridge-ball", "ridge-free")
PEER_ESTIMATORS = ("known-design", "noisy-statistics", "ridge-free")
PAYMENTS = ("never-negative", "expected")


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The parameters of Algorithm 2, in normalised units.

    epsilon is the total: public_share of it buys the published estimate, the rest the two peer estimates
    (each made from one half of the players, so they share one allowance).
    design is E[x xᵀ], needed by `known-design`; regularization is the ridge penalty γ, needed by the ridges.
    """

    epsilon: float
    base_payment: float
    score_weight: float
    estimator: str = "known-design"
    peer_estimator: str | None = None
    public_share: float = 0.9
    regularization: float | None = None
    peer_regularization: float | None = None
    gram_share: float = 0.5
    rule: str = "quadratic"
    payments: str = "never-negative"
    design: Floats | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check.positive("epsilon", self.epsilon)
        check.nonnegative("base_payment", self.base_payment)
        check.nonnegative("score_weight", self.score_weight)
        check.share("public_share", self.public_share)
        check.share("gram_share", self.gram_share)
        for name in ("regularization", "peer_regularization"):
            if getattr(self, name) is not None:
                check.positive(name, getattr(self, name))
        check.choice("rule", self.rule, tuple(RULES))
        check.choice("payments", self.payments, PAYMENTS)
        check.choice("estimator", self.estimator, PUBLIC_ESTIMATORS)
        check.choice("peer_estimator", self.peers, PEER_ESTIMATORS)
        for name in (self.estimator, self.peers):
            if name.startswith("ridge") and self.regularization is None:
                raise InputError(f"Estimator {name!r} needs a regularization (the ridge penalty, above 0).")
            if name == "known-design" and self.design is None:
                raise InputError(
                    "Estimator 'known-design' needs the features' second moments E[x xᵀ]. Declare a design of "
                    "kind uniform, assigned, covariance or unit-ball, or choose 'noisy-statistics' for observed "
                    "features."
                )

    @property
    def peers(self) -> str:
        """The estimator of the two peer estimates; by default the public one, free instead of ball for ridges."""
        if self.peer_estimator is not None:
            return self.peer_estimator
        return "ridge-free" if self.estimator == "ridge-ball" else self.estimator

    @property
    def gamma(self) -> float:
        """The ridge penalty of the published estimate."""
        return check.positive("regularization", self.regularization or 0.0)

    @property
    def peer_gamma(self) -> float:
        """The ridge penalty of the peer estimates; by default the same."""
        return self.peer_regularization or self.gamma

    @property
    def scoring(self) -> Rule:
        """The payment rule."""
        return RULES[self.rule]

    @property
    def epsilon_public(self) -> Fraction:
        """Privacy spent on the published estimate, exactly."""
        return Fraction(self.epsilon) * Fraction(self.public_share)

    @property
    def epsilon_peer(self) -> Fraction:
        """Privacy spent on each peer estimate, exactly: the two spend it once, their players are disjoint."""
        return Fraction(self.epsilon) - self.epsilon_public

    def require_payable(self, radius: float) -> None:
        """Refuse a base payment that would leave some payment negative: a ≥ b·loss(R)."""
        least = self.score_weight * self.scoring.loss(radius)
        # A last-bit difference is rounding in the product, not a payment anybody could see.
        if self.payments == "never-negative" and not self.base_payment >= least * (1 - 1e-12):
            raise InputError(
                f"base_payment is {self.base_payment:g}; payments of the rule '{self.rule}' with score_weight "
                f"{self.score_weight:g} and coefficient bound {radius:g} can fall to "
                f"{self.base_payment - least:.6g}. Raise base_payment to at least {least:.6g} or lower score_weight."
            )

    def public_estimator(self, beliefs: Beliefs) -> Estimator:
        """The estimator of the published coefficients."""
        if self.estimator == "ridge-ball":
            return RidgeBall(beliefs.dimension, self.gamma, beliefs.radius, beliefs.response_bound)
        return self._make_estimator(self.estimator, beliefs)

    def half_estimator(self, beliefs: Beliefs) -> Estimator:
        """The estimator of each half's coefficients."""
        return self._make_estimator(self.peers, beliefs, self.peer_regularization)

    def _make_estimator(self, name: str, beliefs: Beliefs, gamma: float | None = None) -> Estimator:
        d, Y = beliefs.dimension, beliefs.response_bound
        if name == "ridge-free":
            return RidgeFree(d, gamma or self.gamma, Y)
        if name == "known-design" and self.design is not None:
            return KnownDesign(self.design, Y)
        return NoisyStatistics(d, Y, Fraction(self.gram_share))


@dataclass(frozen=True, eq=False)
class Estimates:
    """The three private estimates, which everybody may see."""

    public: Estimate
    peers: tuple[Estimate, Estimate]


def private_estimates(
    moments: tuple[Moments, Moments], mechanism: Mechanism, beliefs: Beliefs, add_noise: AddNoise
) -> Estimates:
    """Steps 2 and 3 of Algorithm 2: everybody's estimate and each half's, each with its own fresh noise."""
    everybody = moments[0] + moments[1]
    peer = mechanism.half_estimator(beliefs)
    public = _estimate(mechanism.public_estimator(beliefs), everybody, mechanism.epsilon_public, add_noise)
    half_0, half_1 = (_estimate(peer, half, mechanism.epsilon_peer, add_noise) for half in moments)
    return Estimates(public, (half_0, half_1))


def _estimate(estimator: Estimator, moments: Moments, epsilon: Fraction, add_noise: AddNoise) -> Estimate:
    answers = [add_noise(query, epsilon * query.share) for query in estimator.queries(moments)]
    return estimator.estimate(answers, moments.count, epsilon)


def peer_curve(mechanism: Mechanism, beliefs: Beliefs, peer_count: int) -> Curve:
    """ψ: the average prediction of a peer estimate from this many players when the truth along x is u.

    Shrinkage (`ridge-free`) and clipping (never-negative payments) are both public functions of u, so
    scoring against E[ψ(u) | x, y] removes them from the incentives exactly.
    """
    factor = 1.0
    if mechanism.peers == "ridge-free":
        factor = shrinkage_factor(peer_count, mechanism.peer_gamma, beliefs.dimension)
    if mechanism.payments == "never-negative":
        return Clipped(beliefs.radius, beliefs.dimension, factor)
    return Identity() if factor == 1.0 else Shrunk(factor)


def predictions(
    mechanism: Mechanism, beliefs: Beliefs, estimates: Estimates, kx: Floats, ky: Floats, groups: Groups
) -> tuple[Floats, Floats]:
    """(p, q): the other half's prediction for each player, and the one her own report implies.

    p is inside ±R‖x‖, where the truth lies, if payments are never negative.
    """
    x, y, sizes = kx / GRID, ky / GRID, np.bincount(groups, minlength=2).tolist()
    p, q, r = np.empty(len(y)), np.empty(len(y)), lengths(x)
    for group, peer in ((0, estimates.peers[1]), (1, estimates.peers[0])):
        mine = np.flatnonzero(groups == group)
        curve = peer_curve(mechanism, beliefs, sizes[1 - group])
        own = beliefs.predictor(curve, peer.noise_range, len(mine))
        p[mine] = along(x[mine], peer.theta)
        if mechanism.payments == "never-negative":
            p[mine] = np.clip(p[mine], -beliefs.radius * r[mine], beliefs.radius * r[mine])
        q[mine] = own(r[mine], y[mine], peer.noise_along(x[mine], r[mine]))
    return p, q


def payable(mechanism: Mechanism, beliefs: Beliefs, p: Floats, q: Floats) -> Floats:
    """The rule's payment in whole millionths of the currency unit, rounded down."""
    reach = beliefs.radius if mechanism.payments == "never-negative" else None
    return pay(mechanism.scoring, p, q, mechanism.base_payment, mechanism.score_weight, reach)


RELATIVE_ERROR = 1e-4
SERIES_ERROR = 5e-5
STANDARD_ERROR = RELATIVE_ERROR / 5
BLOCK = 2_000_000  # normal draws at a time
BLOCK_GROUPS = 20_000
LARGEST_DRAWS = 200_000_000
LEAST_GROUPS = 16


def shrinkage_factor(m: int, gamma: float, d: int) -> float:
    """1 − γκ_m: the part of the truth that remains in the average ridge estimate of m players with d features."""
    return 1 - gamma * mean_inverse(m, gamma, d)


@cache
def mean_inverse(m: int, gamma: float, d: int) -> float:
    """κ_m = E[tr(γI + G)⁻¹]/d for m players uniform on the unit ball, to a relative error below 1e-4."""
    check.integer("m", m, least=0)
    check.positive("gamma", gamma)
    check.integer("d", d)
    if m == 0:
        return 1 / gamma
    if d == 1:
        return _one_dimension(m, gamma)
    if _series_error(m, gamma, d) <= SERIES_ERROR:
        _, e2, e3, e4 = _relative_moments(m, gamma, d).tolist()
        series: float = 1 + e2 - e3 + e4
        return series / (gamma + m / (d + 2))
    return _simulate(m, gamma, d)


def central_moments(m: int, d: int) -> Floats:
    """E tr Eᵏ for k = 1…4, E = Σ(x xᵀ − cI) over m players, c = 1/(d+2).

    With ξ = x xᵀ − cI, of eigenvalues ‖x‖² − c once and −c otherwise, and E‖x‖²ʲ = d/(d+2j): E tr ξᵏ by the
    binomial theorem; mixed terms need ξ in pairs, E ξ² = vI and E[ξBξ] = κ(tr B)I + (2κ − c²)B, κ = 1/((d+2)(d+4)).
    """
    c, kappa = 1 / (d + 2), 1 / ((d + 2) * (d + 4))
    t1, t2, t3, t4 = (
        sum(comb(k, j) * d / (d + 2 * j) * (-c) ** (k - j) for j in range(k + 1)) + (d - 1) * (-c) ** k
        for k in (1, 2, 3, 4)
    )
    variance_of_trace = d / (d + 4) - (d * c) ** 2
    pairs = 2 * t2**2 / d + kappa * variance_of_trace + (2 * kappa - c**2) * t2
    return np.array([m * t1, m * t2, m * t3, m * t4 + m * (m - 1) * pairs])


def _relative_moments(m: int, gamma: float, d: int) -> Floats:
    """e₁…e₄ = E tr Eᵏ/(d Aᵏ)."""
    moments: Floats = central_moments(m, d) / (d * (gamma + m / (d + 2)) ** np.arange(1, 5))
    return moments


def _series_error(m: int, gamma: float, d: int) -> float:
    """A bound on |δ − e₄|, the best over ξ: max(1, L−1)·e₄ and the rare event's part m⁴/(γA³)·exp(−ξ²μ/2).

    The rare event has probability at most d·exp(−ξ²μ/2); on it tr E⁴ ≤ (tr E²)² ≤ m⁴ and (A+E)⁻¹ ⪯ 1/γ.
    """
    mu = m / (d + 2)
    A, e4 = gamma + mu, float(_relative_moments(m, gamma, d)[3])
    bounds = [max(1.0, A / gamma - 1) * e4]
    for xi in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
        log_rare = 4 * log(m) - log(gamma) - 3 * log(A) - xi**2 * mu / 2
        bounds.append(max(1.0, A / (gamma + (1 - xi) * mu) - 1) * e4 + exp(min(log_rare, 100.0)))
    return min(bounds)


def _one_dimension(m: int, gamma: float) -> float:
    """∫₀^∞ e^(−γs)·(E e^(−s x²))^m ds at s = t², with E e^(−t²x²) = √π erf(t)/(2t)."""
    from scipy.integrate import quad  # one dimension is rare, and this takes long to load

    width = 1 / sqrt(gamma + m / 3)

    def integrand(t: float) -> float:
        return float(2 * t * exp(-gamma * t * t) * (sqrt(pi) * erf(t) / (2 * t)) ** m) if t else 0.0

    cuts = [0.0, width, 4 * width, 16 * width, 64 * width, inf]
    return float(sum(quad(integrand, a, b, epsabs=0.0, epsrel=1e-9, limit=200)[0] for a, b in pairwise(cuts)))


def _simulate(m: int, gamma: float, d: int) -> float:
    """Aκ_m by regression on the control variates; the answer is the intercept at their true means."""
    groups, total = 0, np.zeros((6, 6))
    for block in range(LARGEST_DRAWS // (m * d)):
        rows = _regression_rows(_spectra(m, d, block), m, gamma)
        total += rows.T @ rows
        groups += len(rows)
        mean, error = _intercept(total, groups)
        if groups >= LEAST_GROUPS and error <= STANDARD_ERROR * mean:
            return mean / (gamma + m / (d + 2))
        if groups >= LEAST_GROUPS and groups * m * d * (error / (STANDARD_ERROR * mean)) ** 2 > LARGEST_DRAWS:
            break
    raise Refused(
        f"The shrinkage of ridge regression with gamma = {gamma:g} on {m} players and {d} features is not known to "
        f"{RELATIVE_ERROR:g}: so few players give an estimate too unstable to score against. Raise gamma or the "
        "number of players."
    )


def _regression_rows(spectra: Floats, m: int, gamma: float) -> Floats:
    """For every simulated group: 1, the four centred control variates, and A·tr(γI + G)⁻¹/d."""
    d = spectra.shape[1]
    A = gamma + m / (d + 2)
    E = (spectra - m / (d + 2)) / A
    controls = np.stack([E, E * E, E * E * E, (E * E) * (E * E)]).mean(axis=2).T - _relative_moments(
        m, gamma, d
    )
    return np.column_stack([np.ones(len(spectra)), controls, (A / (gamma + spectra)).mean(axis=1)])


def _intercept(total: Floats, groups: int) -> tuple[float, float]:
    """The regression's intercept and its standard error, from the sums of products of its rows."""
    weights = np.linalg.lstsq(total[:5, :5], total[:5, 5], rcond=1e-14)[0]
    residual = max(0.0, float(total[5, 5] - weights @ total[:5, 5]))
    spread = float(np.linalg.pinv(total[:5, :5], rcond=1e-14, hermitian=True)[0, 0])
    return float(weights[0]), sqrt(residual / max(1, groups - 5) * spread)


@lru_cache(maxsize=16)
def _spectra(m: int, d: int, block: int) -> Floats:
    """Eigenvalues of G for many simulated groups of m players; they serve every γ."""
    rng = np.random.default_rng([m, d, block])
    groups = min(BLOCK_GROUPS, max(1, BLOCK // (m * d)))
    X = rng.normal(size=(groups, m, d))
    X *= (rng.random((groups, m)) ** (1 / d) / np.linalg.norm(X, axis=2))[:, :, None]
    return np.asarray(np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X), dtype=np.float64)


# The algorithms on arrays

BELIEFS = "Say, Beliefs(2, UniformBall(0.5), UniformNoise(0.5))."
ALONE = 1e-10  # 1 − leverage below this is rounding: without the player the fit does not exist

# The worst condition of XᵀX with columns scaled to length 1: about six of sixteen digits are lost.
_WORST_CONDITION = 1e5


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """θ̂, the leverages h_i and, for every i, x_i·θ̂_{−i}: her prediction by the fit without her."""

    theta: Floats
    leverages: Floats
    peer_predictions: Floats


def least_squares(X: Any, y: Any) -> LeastSquares:
    """Least squares of y on X, and all n leave-one-out predictions from the one factorisation X = QR."""
    X = check.matrix("X", X)
    y = check.vector("y", y, len(X))
    Q, triangle, order = qr(X, mode="economic", pivoting=True, check_finite=False)
    _require_full_rank(X, triangle)
    coordinates = Q.T @ y
    theta = np.empty(X.shape[1])
    theta[order] = solve_triangular(triangle, coordinates)
    leverages: Floats = np.einsum("ij,ij->i", Q, Q)
    require_company(leverages)
    return LeastSquares(theta, leverages, (Q @ coordinates - leverages * y) / (1 - leverages))


def _require_full_rank(X: Floats, triangle: Floats) -> None:
    n, d = X.shape
    pivots = np.abs(np.diag(triangle))
    rank = int(np.sum(pivots > pivots[0] * max(n, d) * np.finfo(np.float64).eps)) if n and d else 0
    if rank < d or d == 0:
        raise InputError(
            f"The features of the {n} players span only {rank} of {d} dimensions, so least squares has no unique "
            "solution. Drop features that others determine, or add players."
        )


def require_company(leverages: Floats, first: int = 0) -> None:
    """Refuse a player whom nobody can predict; `first` is the row of the first leverage."""
    i = int(np.argmax(leverages))
    if not 1 - leverages[i] > ALONE:
        raise InputError(
            f"Row {first + i} has leverage 1: without that player the others' features do not determine the fit, so "
            "her peers make no prediction. Leave her out, or add players like her."
        )


@dataclass(frozen=True, eq=False)
class Fit:
    """θ̂, and the triangle L⁻¹ that turns features into leverages."""

    theta: Floats
    triangle: Floats

    def without_each(self, X: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Per player of these rows: x·θ̂ without her, her leverage ‖L⁻¹x‖² and ‖x‖, independent of the rest of the
        batch.
        """
        x, h = np.asfortranarray(X), np.zeros(len(y))
        for a, row in enumerate(self.triangle):
            h += along(x[:, : a + 1], row[: a + 1]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return (along(x, self.theta) - h * y) / (1 - h), h, lengths(x)


def products(X: Floats, y: Floats) -> Floats:
    """ZᵀZ, where Z is X with y as one more column."""
    Z = np.column_stack([X, y])
    with np.errstate(all="ignore"):
        return Z.T @ Z


def solve_sums(sums: Floats, d: int) -> Fit | None:
    """The fit, or None if the sums do not determine it to ten digits."""
    if not np.isfinite(sums).all() or not (np.diag(sums)[:d] > 0).all():
        return None
    # Scaling changes neither the fit nor the leverages, and features may differ in size.
    scale = 1 / np.sqrt(np.diag(sums)[:d])
    unit = scale[:, None] * sums[:d, :d] * scale
    values = np.linalg.eigvalsh(unit)
    if not values[0] * _WORST_CONDITION > values[-1]:
        return None
    triangle = solve_triangular(cholesky(unit, lower=True), np.eye(d), lower=True) * scale
    return Fit(triangle.T @ (triangle @ sums[:d, d]), triangle)


#: Players a thread takes at a time. Sums are added part by part: another size would round differently.
PART = 65_536

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TruthfulRegression:
    """The result of Algorithm 1: coefficients, and for each player p, q and her payment."""

    theta: Floats
    peer_predictions: Floats
    own_predictions: Floats
    payments: Floats


@dataclass(frozen=True, eq=False)
class PrivateRegression:
    """The result of Algorithm 2. Public: theta, peer_thetas. For each player alone: her group and payment."""

    theta: Floats
    peer_thetas: Floats
    groups: npt.NDArray[np.uint8]
    peer_predictions: Floats
    own_predictions: Floats
    payments: Floats
    estimates: Estimates


def truthful_regression(
    X: npt.ArrayLike, y: npt.ArrayLike, beliefs: Beliefs, *, a: float, b: float, rule: str = "brier"
) -> TruthfulRegression:
    """Algorithm 1 (the paper's section 3): truthful regression, no privacy.

    1. θ̂ = least squares on everybody.
    2. For every i, her peers' prediction x_i·θ̂_{−i}: all n of them in one pass, by leverages.
    3. Pay player i rule(x_i·θ̂_{−i}, q_i), with q_i = E[θ | x_i, y_i]·x_i.
    """
    check.choice("rule", rule, tuple(RULES))
    check.instance("beliefs", beliefs, Beliefs, BELIEFS)
    features, reports = _arrays(X, y, beliefs.dimension)

    def part_of(part: slice) -> tuple[Floats, Floats]:
        return np.ascontiguousarray(features[part]), reports[part]

    nobody = products(*part_of(slice(0)))
    sums = sum(_in_parts(lambda part: products(*part_of(part)), len(reports)), start=nobody)
    fit = solve_sums(sums, beliefs.dimension)
    if fit is None:  # features nearly determine each other: slower, with n × d more numbers in memory
        exact, own_predictions = least_squares(features, reports), beliefs.own_prediction(features, reports)
        paid = RULES[rule](exact.peer_predictions, own_predictions, a=a, b=b)
        return TruthfulRegression(exact.theta, exact.peer_predictions, own_predictions, paid)
    own = _own_predictor(beliefs, len(reports))
    p, q, payments = np.empty((3, len(reports)))

    def pay(part: slice) -> None:
        x, y = part_of(part)
        p[part], leverages, r = fit.without_each(x, y)
        require_company(leverages, part.start)
        q[part] = own(r, y, np.zeros(1))
        payments[part] = RULES[rule](p[part], q[part], a=a, b=b)

    for _ in _in_parts(pay, len(reports)):
        pass
    return TruthfulRegression(fit.theta, p, q, payments)


def _arrays(X: Any, y: Any, d: int) -> tuple[Floats, Floats]:
    """Both as arrays. Values that are not finite show in the sums and need no pass of their own."""
    plain = isinstance(X, np.ndarray) and isinstance(y, np.ndarray) and X.dtype == y.dtype == np.float64
    if plain and y.ndim == 1 and X.shape == (len(y), d):
        return X, np.ascontiguousarray(y)
    X = check.matrix("X", X, d)
    return X, check.vector("y", y, len(X))


@lru_cache(maxsize=8)
def _own_predictor(beliefs: Beliefs, players: int) -> Predictor:
    """Cached: regressions under the same beliefs share a table."""
    return beliefs.predictor(IDENTITY, (0.0, 0.0), players)


def _in_parts(task: Callable[[slice], T], count: int) -> Iterator[T]:
    """Run the task on every part of the players, in order, on all processors."""
    parts = [slice(start, min(start + PART, count)) for start in range(0, count, PART)]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        yield from pool.map(task, parts)


def private_regression(
    X: npt.ArrayLike, y: npt.ArrayLike, beliefs: Beliefs, mechanism: Mechanism, *, rng: np.random.Generator
) -> PrivateRegression:
    """Algorithm 2 (the paper's section 4), made rigorous: private, truthful regression.

    1. Random halves.
    2. One pass gives both halves' exact sufficient statistics.
    3. Three private estimates: everybody's (published), and each half's.
    4. Pay player i of half j by comparing her own prediction q_i with p_i = x_i·θ̂_{1−j}.
    """
    check.instance("beliefs", beliefs, Beliefs, BELIEFS)
    check.instance("mechanism", mechanism, Mechanism, "See truthful.Mechanism.")
    check.instance("rng", rng, np.random.Generator, "Give numpy.random.default_rng(seed).")
    kx = grid_features(check.matrix("X", X, beliefs.dimension))
    ky = grid_responses(check.vector("y", y, len(kx)), beliefs.response_bound)
    mechanism.require_payable(beliefs.radius)
    groups = rng.integers(0, 2, size=len(kx), dtype=np.uint8)
    halves = group_moments(kx, ky, groups)
    counts = (halves[0].count, halves[1].count)
    if min(counts) == 0:
        raise InputError(
            f"The random halves have {counts[0]} and {counts[1]} players; both need at least one."
        )
    estimates = private_estimates(halves, mechanism, beliefs, fast_answer(rng))
    p, q = predictions(mechanism, beliefs, estimates, kx, ky, groups)
    return PrivateRegression(
        theta=estimates.public.theta,
        peer_thetas=np.stack([peer.theta for peer in estimates.peers]),
        groups=groups,
        peer_predictions=p,
        own_predictions=q,
        payments=payable(mechanism, beliefs, p, q),
        estimates=estimates,
    )


def fast_answer(rng: np.random.Generator) -> AddNoise:
    """Noise from the floating-point sampler, rounded to the lattice: the right distribution, no protection."""

    def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
        law = laplace(query.norm, len(query.value), float(query.sensitivity / epsilon))
        noise = law.sample(rng, 1)[0] / np.sqrt(np.array(query.weights, dtype=np.float64))
        return [value + round(float(v)) for value, v in zip(query.value, noise, strict=True)]

    return answer

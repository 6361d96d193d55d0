"""The paper's two algorithms on arrays, in normalised units, seeded: for research.

Nothing here protects anybody: the noise of `private_regression` comes from a seeded floating-point
generator. A release that people rely on is made by `truthful.settle`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, qr, solve_triangular

from truthful import check
from truthful.beliefs import IDENTITY, Beliefs, Predictor
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.moments import along, grid_features, grid_responses, group_moments, lengths
from truthful.noise import laplace
from truthful.random_halves import Estimates, Mechanism, payable, predictions, private_estimates
from truthful.scoring import RULES

BELIEFS = "Say, Beliefs(2, UniformBall(0.5), UniformNoise(0.5))."
ALONE = 1e-10  # 1 − leverage below this is rounding: without the player the fit does not exist

# Of XᵀX with columns scaled to length 1: about six of sixteen digits are lost.
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
    """Refuses a player whom nobody can predict; `first` is the row of the first leverage."""
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
        """For every player of these rows x·θ̂ without her, her leverage ‖L⁻¹x‖² and ‖x‖, whoever she stands beside."""
        x, h = np.asfortranarray(X), np.zeros(len(y))
        for a, row in enumerate(self.triangle):
            h += along(x[:, : a + 1], row[: a + 1]) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            return (along(x, self.theta) - h * y) / (1 - h), h, lengths(x)


def products(X: Floats, y: Floats) -> Floats:
    """ZᵀZ, Z being X with y as one more column."""
    Z = np.column_stack([X, y])
    with np.errstate(all="ignore"):
        return Z.T @ Z


def solve_sums(sums: Floats, d: int) -> Fit | None:
    """The fit, or None if the sums do not determine it to ten digits."""
    if not np.isfinite(sums).all() or not (np.diag(sums)[:d] > 0).all():
        return None
    # Scaling changes neither the fit nor the leverages, and features need not be of one size.
    scale = 1 / np.sqrt(np.diag(sums)[:d])
    unit = scale[:, None] * sums[:d, :d] * scale
    values = np.linalg.eigvalsh(unit)
    if not values[0] * _WORST_CONDITION > values[-1]:
        return None
    triangle = solve_triangular(cholesky(unit, lower=True), np.eye(d), lower=True) * scale
    return Fit(triangle.T @ (triangle @ sums[:d, d]), triangle)


#: Players a thread takes at a time. Sums are added part by part: another size would round them differently.
PART = 65_536

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class TruthfulRegression:
    """What Algorithm 1 computes: coefficients, and for each player p, q and her payment."""

    theta: Floats
    peer_predictions: Floats
    own_predictions: Floats
    payments: Floats


@dataclass(frozen=True, eq=False)
class PrivateRegression:
    """What Algorithm 2 computes. Public: theta, peer_thetas. For each player alone: her group and payment."""

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
    if fit is None:  # features all but determine each other: slower, with n × d numbers more in memory
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
    """Both as arrays. Numbers that are not finite show in the sums, and need no pass of their own."""
    plain = isinstance(X, np.ndarray) and isinstance(y, np.ndarray) and X.dtype == y.dtype == np.float64
    if plain and y.ndim == 1 and X.shape == (len(y), d):
        return X, np.ascontiguousarray(y)
    X = check.matrix("X", X, d)
    return X, check.vector("y", y, len(X))


@lru_cache(maxsize=8)
def _own_predictor(beliefs: Beliefs, players: int) -> Predictor:
    """Kept: regressions under the same beliefs share a table."""
    return beliefs.predictor(IDENTITY, (0.0, 0.0), players)


def _in_parts(task: Callable[[slice], T], count: int) -> Iterator[T]:
    """What the task gives for every part of so many players, in order, on all processors."""
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
    """Noise from the floating-point sampler, rounded to the lattice: the right law, no protection."""

    def answer(query: Query, epsilon: Fraction) -> Sequence[int]:
        law = laplace(query.norm, len(query.value), float(query.sensitivity / epsilon))
        noise = law.sample(rng, 1)[0] / np.sqrt(np.array(query.weights, dtype=np.float64))
        return [value + round(float(v)) for value, v in zip(query.value, noise, strict=True)]

    return answer

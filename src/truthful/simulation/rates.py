"""How error, lies and cost fall as a study grows: simulated, under the paper's schedule of parameters and under ours.

The corollary lets privacy, payments and penalty change with n. Both schedules are run with people of the paper's
strategy σ_τ, who lie as far as they can if their privacy cost is above τ. The paper's ridge is given the noise that
protects, which its own does not (E3). Its b = n^(−3/2) deters no lie: in the end D grows with n (E22).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.bounds import Setting, proved, published
from truthful.costs import ParetoCosts
from truthful.errors import InputError
from truthful.guarantees import model
from truthful.mechanism import Mechanism
from truthful.plan import Plan
from truthful.simulation.found import Found, mean
from truthful.simulation.simulation import simulate
from truthful.study import Study

PLAYERS = (1_000, 3_162, 10_000, 31_623, 100_000)


@dataclass(frozen=True)
class Point:
    """At n players: E‖θ̂ − θ‖² and the total of payments, simulated and bounded, and D, the largest lie that can pay.

    The error is averaged over the noise, whose own part of it is known exactly. Bounds and D are the schedule's own:
    published for the paper's, mistakes and all, and proved for ours.
    """

    players: int
    error: Found
    error_bound: float
    lie: float
    budget: Found
    budget_bound: float


@dataclass(frozen=True)
class Exponents:
    """Powers of n."""

    error: float
    lie: float
    budget: float


@dataclass(frozen=True)
class Curve:
    """One schedule: its points, powers of n fitted to what was simulated (D: computed), and those of its theorem."""

    schedule: str
    points: tuple[Point, ...]
    fitted: Exponents
    theorem: Exponents


def rates(
    study: Study,
    *,
    players: Sequence[int] = PLAYERS,
    delta: float = 0.25,
    k: float = 0.1,
    runs: int = 40,
    seed: int = 0,
) -> tuple[Curve, Curve]:
    """The paper's schedule and ours, on a study of its kind: features on the unit ball, costs of Pareto's law."""
    costs = study.costs
    if study.design.kind != "unit-ball" or not isinstance(costs, ParetoCosts):
        raise InputError(
            f"The study has design {study.design.kind!r} and {type(costs).__name__}; the corollary is for "
            "design.kind = 'unit-ball' and costs.kind = 'pareto'."
        )
    tail, n = costs.tail, np.asarray(players, dtype=np.float64)
    theirs = published.schedule(model(study), costs, n, delta=delta, tail=tail)
    ours = proved.schedule(model(study), costs, n, delta=delta, tail=tail, k=k)
    promised = published.rates(delta)
    # E16: the paper's proof has accuracy n^(−δ/2). D is √(τε²/b) in the end, with its τ = n^(1/2−δ).
    stated = Exponents(promised.accuracy, delta / 2, promised.budget)
    # D is made of g, which falls as α, and of √(τh(ε)/b).
    holds = Exponents(-2 * delta, max(-delta, (delta / tail - 1 + 2 * delta + k) / 2), -k)
    return (
        Curve("published", *_fitted(_points(study, theirs, published, runs, seed)), stated),
        Curve("proved", *_fitted(_points(study, ours, proved, runs, seed)), holds),
    )


def _points(study: Study, s: Setting, bounds: Any, runs: int, seed: int) -> tuple[Point, ...]:
    lies, errors, bills = (
        np.broadcast_to(bound(s), np.shape(s.n)).tolist()
        for bound in (bounds.lie_size, bounds.accuracy, bounds.budget)
    )
    weights = np.asarray(s.b).tolist()
    seen = [simulate(plan, {"cost-threshold": 1.0}, runs=runs, seed=seed) for plan in _plans(study, s)]
    return tuple(
        Point(
            players=int(n),
            error=mean(np.array([run.mean_squared_error for run in one.studies])),
            error_bound=error,
            lie=lie,
            budget=one.observed.budget.total.times(b),
            budget_bound=bill,
        )
        for n, one, error, lie, bill, b in zip(
            np.asarray(s.n).tolist(), seen, errors, lies, bills, weights, strict=True
        )
    )


def _plans(study: Study, s: Setting) -> list[Plan]:
    """The plan at each n of a schedule, in units of b: real payments of these sizes would be rounded to nothing."""
    numbers = ("n", "epsilon", "alpha", "beta", "a", "b", "gamma")
    rows = zip(*(np.broadcast_to(getattr(s, name), np.shape(s.n)).tolist() for name in numbers), strict=True)
    return [
        Plan(
            study,
            int(n),
            Mechanism(
                epsilon=epsilon,
                base_payment=a / b,
                score_weight=1.0,
                estimator=s.estimator,
                peer_estimator=s.peer_estimator,
                public_share=float(s.public_share),
                regularization=gamma,
                rule=s.rule,
                payments=s.payments,
                design=study.second_moments,
            ),
            absent_share=alpha,
            failure_probability=beta,
        )
        for n, epsilon, alpha, beta, a, b, gamma in rows
    ]


def _fitted(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], Exponents]:
    """The slopes of logarithms over log n, by least squares."""
    n = np.log([point.players for point in points])

    def power(values: list[float]) -> float:
        return float(np.polyfit(n, np.log(values), 1)[0])

    return points, Exponents(
        error=power([point.error.value for point in points]),
        lie=power([point.lie for point in points]),
        budget=power([point.budget.value for point in points]),
    )

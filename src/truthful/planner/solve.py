"""Solve for a plan: the best accuracy that the money buys, or the least money that the accuracy needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.bounds import Setting
from truthful.check import Floats
from truthful.mechanism import EPSILON_RANGE
from truthful.planner.candidates import axes, candidates
from truthful.planner.goals import Goals
from truthful.planner.search import NEAR_ROUNDS, ROUNDS, Point, last_below, minimise
from truthful.planner.terms import MARGIN, MOST_PUBLIC, Choice, Terms
from truthful.study import Study

#: Values of ε that are tried at each point before the root is closed in on.
GRID = 24


@dataclass(frozen=True, eq=False)
class Solution:
    """The numbers of a plan for two estimators, what it costs and its guaranteed mean squared error (normalised).

    Infinite error or cost: nothing is feasible with these estimators.
    """

    terms: Terms
    point: Point
    epsilon: float
    cost: float
    error: float

    @property
    def pair(self) -> tuple[str, str]:
        """The public and the peer estimator."""
        return self.terms.estimator, self.terms.peer_estimator

    @property
    def setting(self) -> Setting:
        """With the payments that go with it."""
        return self.terms.setting(
            _choice(self.terms, {k: np.array(v) for k, v in self.point.items()}), self.epsilon
        )

    def parameters(self) -> dict[str, Any]:
        """The plan's parameters, by the names people use."""
        s, terms = self.setting, self.terms
        ridge = terms.estimator.startswith("ridge")
        free = terms.peer_estimator == "ridge-free"
        penalty, peer_penalty = float(np.asarray(s.gamma)), float(np.asarray(s.half_gamma))
        return {
            "epsilon": self.epsilon,
            "public_share": float(np.asarray(s.public_share)),
            "gram_share": float(np.asarray(s.gram_share)),
            "estimator": terms.estimator,
            "peer_estimator": terms.peer_estimator,
            "regularization": penalty if ridge else peer_penalty if free else None,
            "peer_regularization": peer_penalty if free and ridge else None,
            "rule": s.rule,
            "payments": s.payments,
            "base_payment": float(np.asarray(s.a)),
            "score_weight": float(np.asarray(s.b)),
            "absent_share": float(np.asarray(s.alpha)),
            "failure_probability": terms.goals.failure_probability,
        }


def solve(study: Study, goals: Goals, players: int) -> tuple[Solution, ...]:
    """One solution for each pair of estimators, the best first; all infeasible if none can do it."""
    found = [solve_pair(study, goals, players, pair) for pair in candidates(study, goals)]
    return tuple(sorted(found, key=lambda solution: objective_value(goals, solution)))


def objective_value(goals: Goals, solution: Solution) -> float:
    """What is minimised: the cost where an accuracy (or only ε) is given, else the error."""
    return solution.error if minimises_error(goals) else solution.cost


def minimises_error(goals: Goals) -> bool:
    """Whether the best accuracy is wanted: a budget is given, and no accuracy."""
    return goals.accuracy is None and goals.budget is not None


def solve_pair(
    study: Study, goals: Goals, players: int, pair: tuple[str, str], near: Point | None = None
) -> Solution:
    """The best numbers for two estimators; near those for almost the same goals, if they are known, which is faster."""
    terms, space, rounds = Terms(study, goals, players, *pair), axes(pair, goals, players), ROUNDS
    if near is not None:
        space, rounds = {name: axis.near(near[name]) for name, axis in space.items()}, NEAR_ROUNDS

    def evaluate(mesh: dict[str, Floats]) -> tuple[Floats, Floats, Floats]:
        choice = _choice(terms, mesh)
        epsilon = _epsilon(terms, choice)
        usable = np.isfinite(epsilon)
        tried = np.where(usable, epsilon, EPSILON_RANGE[0])
        cost, error = terms.cost(choice, tried), terms.error(choice, tried)
        fits = usable & (cost <= _limit(goals.budget)) & (error <= _limit(goals.error(study)))
        return epsilon, np.where(fits, cost, np.inf), np.where(fits, error, np.inf)

    best, _ = minimise(lambda mesh: evaluate(mesh)[2 if minimises_error(goals) else 1], space, rounds)
    if best is None:
        return Solution(terms, {}, math.nan, math.inf, math.inf)
    epsilon, cost, error = (float(v[0]) for v in evaluate({name: np.array([v]) for name, v in best.items()}))
    return Solution(terms, best, epsilon, cost, error)


def _epsilon(terms: Terms, choice: Choice) -> Floats:
    """ε for each point: given, or the most that the budget affords, or the cheapest that the accuracy allows."""
    goals, rows = terms.goals, len(choice.alpha)
    if goals.epsilon is not None:
        return np.full(rows, goals.epsilon)
    low = np.broadcast_to(terms.least_epsilon(choice), rows)
    grid = np.geomspace(low, EPSILON_RANGE[1], GRID, axis=1)
    each = choice.column()
    target = goals.error(terms.study)
    if target is None:
        budget = _limit(goals.budget) * (1 - MARGIN)
        return last_below(lambda epsilon: terms.cost(each, epsilon), budget, grid)
    # As 1/ε rises, so does the error: the largest 1/ε within the target is the least ε.
    inverse = last_below(lambda x: terms.error(each, 1 / x), target * (1 - MARGIN), 1 / grid[:, ::-1])
    # More than the least ε can be cheaper: with noisy statistics lies are then easier to see.
    epsilon = np.fmax(grid, 1 / inverse[:, None])
    cheapest = np.argmin(terms.cost(each, epsilon), axis=1)
    return np.where(np.isnan(inverse), np.nan, epsilon[np.arange(rows), cheapest])


def _choice(terms: Terms, mesh: dict[str, Floats]) -> Choice:
    """The numbers of a mesh. A share of liars is a whole number of players, unless the analyst has fixed it."""
    alpha = mesh["absent_share"]
    if "absent_share" not in terms.goals.pins:
        alpha = np.round(alpha * terms.players) / terms.players
    return Choice(
        alpha=alpha,
        public_share=mesh.get("public_share", MOST_PUBLIC[terms.goals.payments]),
        gram_share=mesh.get("gram_share", 0.5),
        gamma=(gamma := mesh.get("regularization", math.nan)),
        peer_gamma=mesh.get("peer_regularization", gamma),
    )


def _limit(value: float | None) -> float:
    return math.inf if value is None else value

"""Solve for a plan: the best accuracy that the money buys, or the least money that the accuracy needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truthful.bounds import Setting
from truthful.check import Floats
from truthful.mechanism import EPSILON_RANGE
from truthful.planner.candidates import axes, candidates
from truthful.planner.goals import Goals
from truthful.planner.leave_one_out import LeaveOneOutTerms
from truthful.planner.panel import SHORTENINGS
from truthful.planner.search import Point, last_below, lowest, minimise
from truthful.planner.terms import MARGIN, MOST_PUBLIC, Choice, Terms
from truthful.study import Study

#: Values of ε that are tried at each point before the root is closed in on.
GRID = 16
#: Other instruments are tried if they promise a mean squared error that is smaller by this part of it.
WORTH_SHORTENING = 1e-3
#: An accuracy is nearly all that the largest ε has, if it leaves less than this part of the mean squared error.
NEARLY = 0.2


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
        if isinstance(terms, LeaveOneOutTerms):
            return {
                "epsilon": self.epsilon,
                "gram_share": float(np.asarray(s.gram_share)),
                "estimator": terms.estimator,
                "rule": s.rule,
                "payments": s.payments,
                "clip": float(np.asarray(s.reach)),
                "base_payment": float(np.asarray(s.a)),
                "score_weight": float(np.asarray(s.b)),
                "absent_share": float(np.asarray(s.alpha)),
                "failure_probability": terms.goals.failure_probability,
            }
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
    """What is minimised, of a solution."""
    return float(_objective(goals, np.array(solution.cost), np.array(solution.error)))


def minimises_error(goals: Goals) -> bool:
    """Whether the best accuracy is wanted: a budget is given, and no accuracy."""
    return goals.accuracy is None and goals.budget is not None


def minimised(goals: Goals) -> str:
    """What is the least: the error within a budget, or the cost of an accuracy; with neither, that of one 1/error."""
    if goals.accuracy is None and goals.budget is None:
        return "cost × squared error"
    return "error" if minimises_error(goals) else "cost"


def _objective(goals: Goals, cost: Floats, error: Floats) -> Floats:
    return {"error": error, "cost": cost, "cost × squared error": cost * error}[minimised(goals)]


def solve_pair(
    study: Study, goals: Goals, players: int, pair: tuple[str, str], near: Point | None = None
) -> Solution:
    """The best numbers for two estimators; near those for almost the same goals, if they are known, which is faster."""
    if goals.peers == "halves":
        return _solve_terms(Terms(study, goals, players, *pair), pair, near)
    terms = LeaveOneOutTerms(study, goals, players, *pair)
    found = _solve_terms(terms, pair, near)
    if pair[0] != "instruments":
        return found
    better = _better_shortening(found) if math.isfinite(found.error) else _more_accurate(terms, pair)
    if better is None:
        return found
    other = _solve_terms(better, pair, found.point or None)
    return min(found, other, key=lambda solution: objective_value(goals, solution))


def _better_shortening(found: Solution) -> LeaveOneOutTerms | None:
    """Other instruments with which the same numbers leave a smaller error: fewer people shortened, if ε is large."""
    if not isinstance(found.terms, LeaveOneOutTerms):
        return None
    choice = _choice(found.terms, {k: np.array([v]) for k, v in found.point.items()})
    return _least_error(found.terms, choice, found.epsilon)


def _more_accurate(terms: LeaveOneOutTerms, pair: tuple[str, str]) -> LeaveOneOutTerms | None:
    """Other instruments, where an accuracy is asked for that not even the largest ε has with these, and has with them.

    There the chance of who is asked is all that is left of the error, and shortening adds to it.
    """
    at = {name: np.array([axis.low]) for name, axis in axes(pair, terms).items()}
    choice, most = _choice(terms, at), EPSILON_RANGE[1]
    if not float(terms.rough_error(choice, most).item()) > terms.largest_error * (1 - NEARLY):
        return None
    other = _least_error(terms, choice, most)
    if other is None or not float(other.rough_error(choice, most).item()) < terms.largest_error:
        return None
    return other


def _least_error(terms: LeaveOneOutTerms, choice: Choice, epsilon: float) -> LeaveOneOutTerms | None:
    """The instruments of the least error with these numbers, unless these are as good."""
    others = [replace(terms, shortening=share) for share in SHORTENINGS]
    errors = [float(term.rough_error(choice, epsilon).item()) for term in others]
    best = min(range(len(others)), key=errors.__getitem__)
    return others[best] if errors[best] < errors[0] * (1 - WORTH_SHORTENING) else None


def _solve_terms(terms: Terms, pair: tuple[str, str], near: Point | None) -> Solution:
    """The best numbers on these terms."""
    study, goals = terms.study, terms.goals

    def objective(mesh: dict[str, Floats]) -> tuple[Floats, Floats]:
        _, short, cost, error = _evaluate(terms, mesh)
        return np.where(np.isfinite(cost) & np.isfinite(error), short, np.inf), _objective(goals, cost, error)

    best = minimise(objective, axes(pair, terms), near)
    if best is None:
        return Solution(terms, {}, math.nan, math.inf, math.inf)
    at = {name: np.array([value]) for name, value in best.items()}
    epsilon, short, cost, error = (float(part[0]) for part in _evaluate(terms, at))
    if short > 0 or not cost <= _limit(goals.budget) or not error <= _limit(goals.error(study)):
        return Solution(terms, {}, math.nan, math.inf, math.inf)
    return Solution(terms, best, epsilon, cost, error)


def _evaluate(terms: Terms, mesh: dict[str, Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """ε, by how much the budget or the accuracy is missed (a logarithm; 0: it is met), the cost and the error."""
    goals, choice = terms.goals, _choice(terms, mesh)
    if goals.epsilon is not None:
        epsilon = np.full(len(choice.alpha), goals.epsilon)
    elif minimises_error(goals):
        epsilon = _most_affordable(terms, choice)
    else:
        epsilon = _cheapest(terms, choice)
    cost, error = terms.cost(choice, epsilon), terms.error(choice, epsilon)
    ratio = cost / _limit(goals.budget) if minimises_error(goals) else error / terms.largest_error
    with np.errstate(divide="ignore"):
        return epsilon, np.maximum(0.0, np.log(ratio)), cost, error


def _most_affordable(terms: Terms, choice: Choice) -> Floats:
    """The largest ε within the budget at each point; where none is, that of the least cost."""
    grid, each, budget = _grid(terms, choice), choice.column(), _limit(terms.goals.budget) * (1 - MARGIN)

    def cost(epsilon: Floats) -> Floats:
        return terms.cost(each, epsilon)

    found = last_below(cost, budget, grid)
    if np.isnan(found).any():
        # Costs can fall before they rise: with noisy statistics lies are easier to see at a larger ε.
        least = lowest(cost, grid)
        found = last_below(cost, budget, np.sort(np.column_stack([grid, least]), axis=1))
        found = np.where(np.isnan(found), least, found)
    return found


def _cheapest(terms: Terms, choice: Choice) -> Floats:
    """The ε of the least cost within the accuracy at each point; where none is, the largest."""
    grid, each, most = _grid(terms, choice), choice.column(), terms.largest_error * (1 - MARGIN)
    # As 1/ε rises, so does the error: the largest 1/ε within the target is the least ε.
    inverse = last_below(lambda x: terms.error(each, 1 / x), most, 1 / grid[:, ::-1])
    least = np.fmin(1 / inverse, EPSILON_RANGE[1])
    return lowest(lambda epsilon: terms.cost(each, epsilon), np.maximum(grid, least[:, None]))


def _grid(terms: Terms, choice: Choice) -> Floats:
    low = np.minimum(terms.least_epsilon(choice), EPSILON_RANGE[1])
    return np.geomspace(np.broadcast_to(low, len(choice.alpha)), EPSILON_RANGE[1], GRID, axis=1)


def _choice(terms: Terms, mesh: dict[str, Floats]) -> Choice:
    """The numbers of a mesh. A share of liars is a whole number of players, unless the analyst has fixed it."""
    alpha = mesh["absent_share"]
    if "absent_share" not in terms.goals.pins:
        alpha = np.round(alpha * terms.answering) / terms.answering
    return Choice(
        alpha=alpha,
        public_share=mesh.get("public_share", MOST_PUBLIC[terms.goals.payments]),
        gram_share=mesh.get("gram_share", 0.5),
        gamma=(gamma := mesh.get("regularization", math.nan)),
        peer_gamma=mesh.get("peer_regularization", gamma),
        clip=mesh.get("clip", math.nan),
    )


def _limit(value: float | None) -> float:
    return math.inf if value is None else value

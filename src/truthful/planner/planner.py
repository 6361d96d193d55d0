"""Goals in, the numbers of a plan out: which estimators, why, and what a little more would buy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from truthful.errors import InputError
from truthful.guarantees import model
from truthful.planner.candidates import candidates
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.infeasible import Infeasible, infeasible, prior_error, require_worth_asking
from truthful.planner.players import choose_players
from truthful.planner.solve import Solution, minimised, minimises_error, solve, solve_pair
from truthful.study import Study

#: The relative change from which the worth of one more dollar or player is read off.
STEP = 0.05


@dataclass(frozen=True, eq=False)
class Answer:
    """The best solution for the goals, and the others it was chosen from, the best of them first."""

    goals: Goals
    players: int
    best: Solution
    others: tuple[Solution, ...]

    def record(self) -> dict[str, Any]:
        """What was asked, and what each pair of estimators would have given."""
        return {
            "asked": self.goals.record(),
            "minimised": minimised(self.goals),
            "compared": [_summary(solution) for solution in (self.best, *self.others)],
        }


@dataclass(frozen=True)
class Worth:
    """What a little more buys: the change of the error (raw units), or of the cost, for one more dollar or player."""

    of: str
    currency_unit: float | None
    player: float | None


def answer(study: Study, goals: Goals) -> Answer:
    """The best plan's numbers; Infeasible if there is none, or none better than answering with the prior mean."""
    if not candidates(study, goals):
        asked = (
            f"estimator {goals.estimator!r} and peer_estimator {goals.peer_estimator!r}"
            if goals.peers == "halves"
            else f"{goals.estimator or 'none'!r}, where {study.protects} are protected,"
        )
        raise InputError(
            f"No estimator fits: {asked} for a design of kind {study.design.kind!r}, with "
            f"{', '.join(goals.pins) or 'nothing else'} fixed. Leave some of them out to have them chosen."
        )
    if goals.panel is None and not model(study).least_eigenvalue > 0:
        raise Infeasible(
            "the study does not say how spread out its features are. Declare design.least_eigenvalue, the least "
            f"eigenvalue of E[x xᵀ] that you can vouch for. {study.even_eigenvalue:.3g} is that of numbers spread "
            "evenly over their ranges and levels equally frequent; people mostly differ less. Or give epsilon and "
            "score_weight yourself."
        )
    require_worth_asking(study, goals)
    players = choose_players(study, goals)
    if players is None:
        raise Infeasible(
            "no number of players up to a billion meets these goals. Raise the budget or the error."
        )
    solutions = solve(study, goals, players)
    best = solutions[0]
    if not (math.isfinite(best.cost) and best.error < prior_error(study, goals)):
        raise infeasible(study, goals, players, best.error)
    return Answer(goals, players, best, solutions[1:])


def worth(study: Study, answered: Answer) -> Worth:
    """By how much a twentieth more money, or players, changes what is minimised, for each unit of it."""
    goals, n, best = answered.goals, answered.players, answered.best
    pair = (best.terms.estimator, best.terms.peer_estimator)
    more = round(n * (1 + STEP)) if n * (1 + STEP) <= MOST_PLAYERS else round(n * (1 - STEP))
    with_players = solve_pair(study, replace(goals, players=more), more, pair, best.point)
    if not minimises_error(goals):
        return Worth("cost", None, _per(with_players.cost - best.cost, more - n))
    budget = goals.budget or 0.0
    with_money = solve_pair(study, replace(goals, budget=budget * (1 + STEP)), n, pair, best.point)
    unit, before = study.response_unit, math.sqrt(best.error)
    return Worth(
        "error",
        _per(unit * (math.sqrt(with_money.error) - before), budget * STEP),
        _per(unit * (math.sqrt(with_players.error) - before), more - n),
    )


def _per(change: float, units: float) -> float | None:
    return change / units if math.isfinite(change) and units != 0 else None


def _summary(solution: Solution) -> dict[str, Any]:
    study = solution.terms.study
    finite = math.isfinite(solution.cost)
    return {
        "estimator": solution.terms.estimator,
        "peer_estimator": solution.terms.peer_estimator,
        "epsilon": solution.epsilon if finite else None,
        "cost": solution.cost if finite else None,
        "error": study.response_unit * math.sqrt(solution.error) if finite else None,
    }

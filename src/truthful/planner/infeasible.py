"""Infeasible is an answer: what stands in the way, and the least change of each goal that would remove it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from truthful.errors import Refused
from truthful.guarantees import model
from truthful.planner.candidates import candidates
from truthful.planner.goals import Goals
from truthful.planner.players import least_players
from truthful.planner.solve import minimises_error, solve
from truthful.study import Study
from truthful.words import money, number

LIE_STEPS = 12


@dataclass(frozen=True)
class Remedy:
    """One goal, and the least change of it that makes a plan feasible, the others being kept."""

    goal: str
    value: float
    words: str


class Infeasible(Refused):
    """No plan meets the goals. `remedies` holds what would, the smallest change first: that goal binds."""

    def __init__(self, reason: str, remedies: tuple[Remedy, ...] = ()) -> None:
        self.reason, self.remedies = reason, remedies
        ways = "; or with ".join(remedy.words for remedy in remedies)
        super().__init__(f"Infeasible: {reason}" + (f" It would be feasible with {ways}." if ways else ""))

    @property
    def binding(self) -> str | None:
        """The goal whose relative change is the least."""
        return self.remedies[0].goal if self.remedies else None

    def record(self) -> dict[str, Any]:
        """For machines."""
        changes = {remedy.goal: remedy.value for remedy in self.remedies}
        return {"feasible": False, "reason": self.reason, "binding": self.binding, "feasible_with": changes}


def prior_error(study: Study, goals: Goals) -> float:
    """The mean squared error of answering with the prior mean, asking nobody."""
    return model(study).prior_square if goals.accuracy_of == "coefficients" else model(study).mean_square


def require_worth_asking(study: Study, goals: Goals) -> None:
    """Refuse an accuracy that the prior mean has already."""
    target, prior = goals.error(study), prior_error(study, goals)
    if target is not None and not target < prior:
        raise Infeasible(
            f"accuracy is {number(goals.accuracy or 0.0)}, and answering with the prior mean, without asking anybody, "
            f"is off by {number(study.response_unit * math.sqrt(prior))} only. Ask for a smaller error."
        )


def infeasible(study: Study, goals: Goals, players: int, error: float) -> Infeasible:
    """Why goals that name the players cannot be met (error is the best that was found), with what would help."""
    return Infeasible(_reason(study, goals, players, error), _remedies(study, goals, players))


def _reason(study: Study, goals: Goals, players: int, error: float) -> str:
    unit, prior = study.response_unit, prior_error(study, goals)
    money_given = f" and {money(goals.budget, study.currency)}" if goals.budget is not None else ""
    privacy = f" at epsilon {goals.epsilon:g}" if goals.epsilon is not None else ""
    who = f"with {players:,} players{money_given}{privacy}"
    if goals.accuracy is not None:
        return f"{who} no plan guarantees an error of {goals.accuracy:g} or less{_and_lie(study, goals)}."
    if math.isfinite(error):
        return (
            f"{who} the error that could be guaranteed is {number(unit * math.sqrt(error))}, and answering with the "
            f"prior mean, without asking anybody, is off by {number(unit * math.sqrt(prior))}."
        )
    return f"{who} no payments make lies{_beyond(study, goals)} unprofitable."


def _beyond(study: Study, goals: Goals) -> str:
    return f" beyond {goals.lie_size(study):g} (in units of the own prediction)"


def _and_lie(study: Study, goals: Goals) -> str:
    return f", with lies{_beyond(study, goals)} unprofitable"


def _remedies(study: Study, goals: Goals, players: int) -> tuple[Remedy, ...]:
    """Each goal relaxed on its own, as far as it must be; ordered by how far that is."""
    aim = goals
    if goals.accuracy is None:
        # A plan must at least beat the prior mean.
        enough = study.response_unit * math.sqrt(prior_error(study, goals)) * (1 - 1e-3)
        aim = replace(goals, accuracy=enough)
    found = [
        (remedy, remedy.value / before)
        for remedy, before in (
            (_budget(study, aim, players), goals.budget),
            (_players(study, aim), float(players)),
            (_lie(study, aim, players), goals.lie_size(study)),
            (_accuracy(study, goals, players), goals.accuracy),
        )
        if remedy is not None and before is not None
    ]
    return tuple(remedy for remedy, _ in sorted(found, key=lambda pair: abs(math.log(pair[1]))))


def _budget(study: Study, goals: Goals, players: int) -> Remedy | None:
    if goals.budget is None:
        return None
    cost = solve(study, replace(goals, budget=None), players)[0].cost
    if not math.isfinite(cost):
        return None
    cost = math.ceil(cost * 100) / 100
    return Remedy("budget", cost, f"a budget of {money(cost, study.currency)}")


def _players(study: Study, goals: Goals) -> Remedy | None:
    found = (least_players(study, goals, pair) for pair in candidates(study, goals)[:1])
    n = min((n for n in found if n is not None), default=None)
    return None if n is None else Remedy("players", float(n), f"{n:,} players")


def _lie(study: Study, goals: Goals, players: int) -> Remedy | None:
    """The least lie size, up to the whole range 2R of predictions, beyond which nothing would be deterred."""
    low, high = goals.lie_size(study), 2 * study.beliefs.radius

    def feasible(lie: float) -> bool:
        return math.isfinite(solve(study, replace(goals, lie=lie), players)[0].cost)

    if not high > low or not feasible(high):
        return None
    for _ in range(LIE_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if feasible(middle) else (middle, high)
    lie = math.ceil(high * 1e3) / 1e3
    return Remedy("lie", lie, f"lies of up to {lie:g} let pass")


def _accuracy(study: Study, goals: Goals, players: int) -> Remedy | None:
    """The best accuracy that the budget buys, where an accuracy was asked for."""
    best_wanted = replace(goals, accuracy=None)
    if goals.accuracy is None or not minimises_error(best_wanted):
        return None
    error = solve(study, best_wanted, players)[0].error
    if not error < prior_error(study, goals):
        return None
    accuracy = study.response_unit * math.sqrt(error)
    return Remedy("accuracy", accuracy, f"an error of {number(accuracy)} allowed")

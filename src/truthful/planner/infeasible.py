"""Infeasible is an answer: what stands in the way, and the least change of each goal that would remove it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from functools import partial
from typing import Any

from truthful.errors import Refused
from truthful.formatting import money, number
from truthful.planner.candidates import candidates
from truthful.planner.goals import Goals
from truthful.planner.players import UNLIMITED, excess, nearest_players
from truthful.planner.search import Point, crossing
from truthful.planner.solve import solve
from truthful.study import Study

#: How close the lie size that would do is found, and how much of an accuracy is spared.
LIE_CLOSE, SPARE = 5e-3, 5e-4
#: Parts of a declared tolerance that are tried where the whole is too much.
TOLERANCES = (0.75, 0.5, 0.25, 0.1)


@dataclass(frozen=True)
class Remedy:
    """One goal, and the least change of it that makes a plan feasible, the others being kept."""

    goal: str
    value: float
    words: str


class Infeasible(Refused):
    """No plan meets the goals. `remedies` holds what would, the smallest change first: that goal binds."""

    title = "Infeasible"

    def __init__(self, reason: str, remedies: tuple[Remedy, ...] = ()) -> None:
        self.reason, self.remedies = reason, remedies
        ways = "; or with ".join(remedy.words for remedy in remedies)
        super().__init__(reason + (f" It would be feasible with {ways}." if ways else ""))

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
    return goals.prior_error(study)


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
    fixed = f" if absent_share is {goals.pins['absent_share']:g}" if "absent_share" in goals.pins else ""
    return f"{who} no payments make lies{_beyond(study, goals)} unprofitable{fixed}{believing(study)}."


def _beyond(study: Study, goals: Goals) -> str:
    lie = goals.lie_size(study)
    return f" that move a prediction by more than {number(lie * study.response_unit)} ({lie:g} normalised)"


def _and_lie(study: Study, goals: Goals) -> str:
    return f", with lies{_beyond(study, goals)} unprofitable{believing(study)}"


def believing(study: Study) -> str:
    """What people may believe, where a tolerance is declared."""
    tolerance = study.declared.beliefs.tolerance
    return "" if tolerance is None else f" even if people's centre is {tolerance:g} off (beliefs.tolerance)"


def less_tolerance(study: Study, feasible: Callable[[Study], bool]) -> Remedy | None:
    """The largest of some parts of the declared tolerance with which a plan is feasible."""
    declared = study.declared.beliefs.tolerance
    for part in TOLERANCES if declared is not None else ():
        if feasible(study.tolerating(part)):
            value = part * (declared or 0.0)
            return Remedy("tolerance", value, f"a beliefs.tolerance of {value:g}")
    return None


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
            (_players(study, aim, players), float(players)),
            (_lie(study, aim, players), goals.lie_size(study)),
            (_accuracy(study, goals, players), goals.accuracy),
            (_tolerance(study, aim, players), study.declared.beliefs.tolerance),
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


def _players(study: Study, goals: Goals, players: int) -> Remedy | None:
    n = nearest_players(study, goals, players)
    if n is None:
        return None
    listed = None if goals.panel is None else goals.panel.size
    more = listed is not None and n > listed
    return Remedy("players", float(n), f"{n:,} people like those on the roster" if more else f"{n:,} players")


def _lie(study: Study, goals: Goals, players: int) -> Remedy | None:
    """The least lie size, up to R: hardly anybody could tell a larger lie, so that nothing would be deterred."""
    low, high = goals.lie_size(study), study.beliefs.radius
    if not high > low:
        return None

    def dear(lie: float, near: Point | None, pair: tuple[str, str]) -> tuple[float, Point | None]:
        return excess(study, replace(goals, lie=lie), players, pair, near)

    found = None
    for pair in candidates(study, goals):
        at_most = dear(high * (1 - LIE_CLOSE), None, pair)
        if at_most[0] <= 0:
            high *= 1 - LIE_CLOSE
            found = high = crossing(partial(dear, pair=pair), low, high, LIE_CLOSE, at_most)
    lie = None if found is None else rounded_up(found)
    return None if lie is None else Remedy("lie", lie, f"lies of up to {lie:g} let pass")


def _accuracy(study: Study, goals: Goals, players: int) -> Remedy | None:
    """The best accuracy that the budget, or any money, buys, where an accuracy was asked for."""
    if goals.accuracy is None:
        return None
    budget = UNLIMITED if goals.budget is None else goals.budget
    error = solve(study, replace(goals, accuracy=None, budget=budget), players)[0].error
    if not error < prior_error(study, goals):
        return None
    # With a little to spare: what a budget just buys, a search for the least cost just misses.
    accuracy = rounded_up(study.response_unit * math.sqrt(error) * (1 + SPARE))
    return Remedy("accuracy", accuracy, f"an error of {accuracy:g} allowed")


def _tolerance(study: Study, goals: Goals, players: int) -> Remedy | None:
    def feasible(other: Study) -> bool:
        return any(excess(other, goals, players, pair)[0] <= 0 for pair in candidates(other, goals))

    return less_tolerance(study, feasible)


def rounded_up(value: float) -> float:
    """The next number of four digits, so that what is shown is what will do."""
    return float(f"{Decimal(value).normalize(Context(prec=4, rounding=ROUND_CEILING))}")

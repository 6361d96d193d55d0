"""Plans for yes or no and for ratings: how private, how accurate, and the least bonus with which the truth pays.

At each share α of liars and margin s the bonus must outweigh what a lie saves: B·gain(ε) ≥ τ·h(ε) + rounding. With a
budget the largest such ε is the most accurate; with an accuracy the least bonus is sought among the ε that have it, and
what is left of a budget becomes a flat fee: a person who believes otherwise is then tempted by little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truthful.bounds.share_bounds import ShareSetting, error, gain
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number
from truthful.noise import NORMS
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.number_planning import Infeasible, Remedy, believing, less_tolerance
from truthful.planner.panel import SHORTENINGS, Panel
from truthful.random_halves import EPSILON_RANGE
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

#: Margins that are tried, and values of ε before the best is closed in on.
MARGINS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.25)
GRID = 96
#: Between these a search tries values of ε: below, noise drowns everything, and beyond nothing is gained.
LEAST_EPSILON, MOST_EPSILON = 1e-3, 5.0
#: How much of what the truth earns may be lost to shares that are implausible by chance: the first of these with which
#: a share of 0 is implausible too, so that nothing is won by all saying no; the first one if none is.
SPARED = (0.01, 0.03, 0.1)
#: A share of 0 is implausible if the tolerance is below this part of the least share that is thought possible.
NEAR_ZERO = 0.9
#: How many times the gap between her prediction and what her answer expects a lie must move it, by default.
ROOM = 4.0
#: Met from below, so that rounding breaks no promise.
MARGIN = 1e-9


#: What is minimised, and where: the share of liars, the margin and ε.
Found = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class ShareSolution:
    """The numbers of a plan: what it costs a head at most, and its guaranteed mean squared error (normalised)."""

    goals: Goals
    players: int
    shortening: float
    norm: str
    epsilon: float
    absent_share: float
    margin: float
    tolerance: float
    bonus: float
    flat: float
    error: float

    @property
    def cost(self) -> float:
        return self.players * (self.bonus + self.flat)

    def record(self) -> dict[str, Any]:
        """What was asked."""
        return {
            "asked": self.goals.record(),
            "minimised": "error" if self.goals.accuracy is None else "bonus",
        }


@dataclass(frozen=True, eq=False)
class _Numbers:
    """One study's numbers at one size: what gains and errors are, on a grid of ε."""

    study: Study
    beliefs: ShareBeliefs
    goals: Goals
    panel: Panel
    players: int
    shortening: float
    norm: str
    spared: float = SPARED[0]

    @property
    def answering(self) -> int:
        return self.panel.answering(self.players)

    def setting(
        self, alpha: Floats, margin: float, epsilon: Floats, tolerance: float = math.inf
    ) -> ShareSetting:
        return ShareSetting(
            beliefs=self.beliefs,
            geometry=self.panel.geometry(self.players, self.shortening, self.norm),
            costs=self.study.costs,
            n=self.answering,
            alpha=alpha,
            epsilon=epsilon,
            beta=self.goals.failure_probability,
            margin=margin,
            tolerance=tolerance,
            privacy=self.study.declared.costs.privacy,
            assigned=self.study.assigned or not self.study.features,
            belief_gap=self.study.tolerance,
        )

    @property
    def steps(self) -> int:
        return lie_steps(self.beliefs, self.goals)

    def least_bonus(self, alpha: Floats, margin: float, epsilon: Floats) -> Floats:
        """B with which the truth pays for all of cost τ or less; infinite where no bonus does."""
        s = self.setting(alpha, margin, epsilon)
        earned = gain(s, self.steps) * (1 - self.spared * self._tolerates)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(earned > 0, s.saved / earned, np.inf)

    @property
    def _tolerates(self) -> bool:
        return self.study.declared.beliefs.implausible != "paid"

    def errors(self, alpha: Floats, epsilon: Floats) -> Floats:
        return error(self.setting(alpha, 0.0, epsilon), self.goals.accuracy_of)

    def tolerance(self, alpha: float, margin: float, epsilon: float) -> float:
        """How far a share must be beyond those thought possible to be implausible.

        By chance that costs the truth no more of what it earns than may be spared.
        """
        if not self._tolerates:
            return math.inf

        def earned(tolerance: float) -> float:
            s = self.setting(np.array([alpha]), margin, np.array([epsilon]), tolerance)
            return float(gain(s, self.steps)[0, 0])

        enough, low, high = earned(math.inf) * (1 - self.spared), 1e-3, 1.0
        for _ in range(30):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if earned(middle) >= enough else (middle, high)
        return math.ceil(high * 1000) / 1000  # in tenths of a percentage point, which people can be told

    @property
    def liars(self) -> Floats:
        """Shares of liars to try: whole numbers of people, or the one that is given."""
        if "absent_share" in self.goals.pins:
            return np.array([self.goals.pins["absent_share"]])
        counts = np.round(np.geomspace(1, max(2.0, self.answering / 20), 28))
        return np.unique(counts) / self.answering

    @property
    def grid(self) -> Floats:
        """Values of ε to try, or the one that is given."""
        if self.goals.epsilon is not None:
            return np.array([self.goals.epsilon])
        return np.geomspace(LEAST_EPSILON, MOST_EPSILON, GRID)

    @property
    def head(self) -> float:
        """What there is for each person."""
        budget = self.goals.budget
        return math.inf if budget is None else budget / self.players * (1 - MARGIN)


def lie_steps(
    beliefs: ShareBeliefs, goals: Goals, believed: Floats | None = None, belief_gap: float = 0.0
) -> int:
    """From how many steps on no lie may pay: as asked for, else one for yes and no.

    For ratings about a quarter of all steps, and as many as move her prediction four times as far as it is from what
    her answer really expects (`believed` has that gap, to which a belief_gap is added that is to be tolerated): then
    half of what a lie would lose is left.
    """
    if goals.lie is None:
        usual = max(1, round((beliefs.levels - 1) / 4))
        if believed is None:
            return usual
        moved, gaps = 2 * believed[:, 0] / (beliefs.levels - 1), believed[:, 3] + belief_gap
        return min(beliefs.levels - 1, max(usual, math.ceil(float((ROOM * gaps / moved).max()) - 1e-9)))
    if goals.lie != int(goals.lie) or not 1 <= goals.lie < beliefs.levels:
        raise InputError(
            f"lie is {goals.lie:g}; of {beliefs.levels} answers a lie is from 1 to {beliefs.levels - 1} steps long. "
            "Give a whole number of them."
        )
    return int(goals.lie)


def solve_shares(study: Study, goals: Goals, panel: Panel) -> ShareSolution:
    """The best plan's numbers; Infeasible if there is none, or none better than the middle of what is believed."""
    beliefs = study.shares
    if beliefs is None:
        raise InputError("The study asks for numbers.")
    goals = replace(goals, lie=float(lie_steps(beliefs, goals, panel.believed, study.tolerance)))
    if goals.players is not None:
        found = _solve(study, beliefs, goals, panel, goals.players)
        if found is None:
            raise _infeasible(study, beliefs, goals, panel, goals.players)
        return found
    return _fewest_players(study, beliefs, goals, panel)


def usual_tolerance(
    study: Study,
    panel: Panel,
    players: int,
    alpha: float,
    beta: float,
    margin: float,
    epsilon: float,
    norm: str,
) -> float:
    """The tolerance of a plan that is not solved for: infinite if implausible shares are paid as others are."""
    beliefs = study.shares
    if beliefs is None:
        raise InputError("The study asks for numbers.")
    goals = Goals(players=players, epsilon=epsilon, failure_probability=beta)
    goals = replace(goals, lie=float(lie_steps(beliefs, goals, panel.believed, study.tolerance)))
    return _Numbers(study, beliefs, goals, panel, players, 1.0, norm).tolerance(alpha, margin, epsilon)


def usual_norm(study: Study, panel: Panel, players: int, alpha: float, beta: float, epsilon: float) -> str:
    """The norm of a plan that is not solved for: that with which the guaranteed error is smaller."""
    beliefs, goals = study.shares, Goals(players=players, epsilon=epsilon, failure_probability=beta)
    if beliefs is None:
        raise InputError("The study asks for numbers.")

    def error_with(norm: str) -> float:
        numbers = _Numbers(study, beliefs, goals, panel, players, 1.0, norm)
        return float(numbers.errors(np.array([alpha]), np.array([epsilon]))[0, 0])

    return min(_norms(study, goals), key=error_with)


def _norms(study: Study, goals: Goals) -> tuple[str, ...]:
    """The norms that a plan chooses from: without features there is one coordinate, and both are the same."""
    if goals.norm is not None:
        return (goals.norm,)
    return NORMS if study.features else NORMS[:1]


def _solve(
    study: Study, beliefs: ShareBeliefs, goals: Goals, panel: Panel, players: int
) -> ShareSolution | None:
    """For so many players, so that all saying no is implausible if that can be had."""
    first = _solve_sparing(study, beliefs, goals, panel, players, SPARED[0])
    if first is None or math.isinf(first.tolerance):
        return first
    for spared in SPARED[1:]:
        if first.tolerance < NEAR_ZERO * beliefs.low or not beliefs.low > 0:
            break
        other = _solve_sparing(study, beliefs, goals, panel, players, spared)
        if other is not None and other.tolerance < NEAR_ZERO * beliefs.low:
            return other
    return first


def _solve_sparing(
    study: Study,
    beliefs: ShareBeliefs,
    goals: Goals,
    panel: Panel,
    players: int,
    spared: float,
    shortenings: tuple[float, ...] = SHORTENINGS,
) -> ShareSolution | None:
    """The best for so many players: by the better norm, and with other instruments where they are more accurate."""

    def solved(norm: str, shortening: float) -> ShareSolution | None:
        numbers = _Numbers(study, beliefs, goals, panel, players, shortening, norm, spared)
        return _most_accurate(numbers) if goals.accuracy is None else _cheapest(numbers)

    def rank(one: ShareSolution) -> float:
        return one.error if goals.accuracy is None else one.bonus

    found = [one for norm in _norms(study, goals) if (one := solved(norm, shortenings[0])) is not None]
    if not found:
        return None
    best = min(found, key=rank)
    for shortening in shortenings[1:] if study.features else ():
        best = min((best, solved(best.norm, shortening) or best), key=rank)
    return best if best.error < goals.prior_error(study) else None


def _most_accurate(numbers: _Numbers) -> ShareSolution | None:
    """The least error that the money buys, or, where ε is given, its least bonus."""
    liars, grid, head = numbers.liars, numbers.grid, numbers.head
    errors = numbers.errors(liars, grid)
    found = []
    for margin in MARGINS:
        bonus = numbers.least_bonus(liars, margin, grid)
        rank = np.where(bonus <= head, errors if numbers.goals.epsilon is None else bonus, np.inf)
        i, j = np.unravel_index(int(np.argmin(rank)), rank.shape)
        found.append((float(rank[i, j]), float(liars[i]), margin, float(grid[j])))
    closer = [_closer(numbers, *one) for one in found if math.isfinite(one[0])]
    return _solution(numbers, *min(closer)[1:]) if closer else None


def _closer(numbers: _Numbers, rank: float, alpha: float, margin: float, epsilon: float) -> Found:
    """The largest ε beyond this one that the money still buys, which is the most accurate."""
    if numbers.goals.epsilon is not None:
        return rank, alpha, margin, epsilon
    at, low, high = np.array([alpha]), epsilon, epsilon * (MOST_EPSILON / LEAST_EPSILON) ** (1 / (GRID - 1))
    for _ in range(30):
        middle = math.sqrt(low * high)
        dear = float(numbers.least_bonus(at, margin, np.array([middle]))[0, 0]) > numbers.head
        low, high = (low, middle) if dear else (middle, high)
    return float(numbers.errors(at, np.array([low]))[0, 0]), alpha, margin, low


def _cheapest(numbers: _Numbers) -> ShareSolution | None:
    """The least bonus with which the accuracy is had."""
    liars, target = numbers.liars, (numbers.goals.error(numbers.study) or math.inf) * (1 - MARGIN)
    grid = numbers.grid
    if numbers.goals.epsilon is None:
        # From the least ε that is accurate enough at some share of liars on.
        grid = np.unique(np.concatenate([grid, _first(numbers, liars, target)]))
    enough = numbers.errors(liars, grid) <= target * (1 + 1e-12)
    found = []
    for margin in MARGINS:
        bonus = np.where(enough, numbers.least_bonus(liars, margin, grid), np.inf)
        i, j = np.unravel_index(int(np.argmin(bonus)), bonus.shape)
        found.append((float(bonus[i, j]), float(liars[i]), margin, float(grid[j])))
    least, *chosen = min(found)
    return _solution(numbers, *chosen) if least <= numbers.head and math.isfinite(least) else None


def _first(numbers: _Numbers, alpha: Floats, target: float) -> Floats:
    """The least ε that is accurate enough, for each share of liars; the largest there is if none is."""
    low, high = (np.full(len(alpha), end) for end in EPSILON_RANGE)
    for _ in range(50):
        middle = np.sqrt(low * high)
        enough = np.diagonal(numbers.errors(alpha, middle)) <= target
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _solution(numbers: _Numbers, alpha: float, margin: float, epsilon: float) -> ShareSolution:
    at, goals = np.array([alpha]), numbers.goals
    bonus = float(numbers.least_bonus(at, margin, np.array([epsilon]))[0, 0]) * (1 + MARGIN)
    left = max(0.0, numbers.head - bonus) if goals.budget is not None else 0.0
    if goals.accuracy is None:
        bonus, left = bonus + left, 0.0  # nothing else was asked for the money
    return ShareSolution(
        goals=goals,
        players=numbers.players,
        shortening=numbers.shortening,
        norm=numbers.norm,
        epsilon=epsilon,
        absent_share=alpha,
        margin=margin,
        tolerance=numbers.tolerance(alpha, margin, epsilon),
        bonus=bonus,
        flat=left,
        error=float(numbers.errors(at, np.array([epsilon]))[0, 0]),
    )


def _fewest_players(study: Study, beliefs: ShareBeliefs, goals: Goals, panel: Panel) -> ShareSolution:
    """The fewest who are enough: with more people each costs less, until the budget is spent on too many of them."""
    few = max(2, math.ceil((2 * study.dimension + 2) / panel.response_share))
    high = few
    found = None
    while found is None and high <= MOST_PLAYERS:
        high *= 2
        found = _solve(study, beliefs, replace(goals, players=high), panel, high)
    if found is None:
        raise Infeasible(
            "no number of players up to a billion meets these goals. Raise the budget or the error."
        )
    low = high // 2
    while high - low > max(1, high // 500):
        middle = (low + high) // 2
        one = _solve(study, beliefs, replace(goals, players=middle), panel, middle)
        low, high, found = (middle, high, found) if one is None else (low, middle, one)
    return found


def _infeasible(study: Study, beliefs: ShareBeliefs, goals: Goals, panel: Panel, players: int) -> Infeasible:
    """Why not, and what would help: more money, more people, or less accuracy."""
    unit = study.response_unit
    prior = goals.prior_error(study)
    asked = (
        f"an error of {number(goals.accuracy)}"
        if goals.accuracy is not None
        else (
            f"an error below {number(unit * math.sqrt(prior))}, which the middle of what is believed has without "
            "asking anybody"
        )
    )
    spent = f" and {money(goals.budget, study.currency)}" if goals.budget is not None else ""
    remedies = []
    aim = (
        goals if goals.accuracy is not None else replace(goals, accuracy=unit * math.sqrt(prior) * (1 - 1e-3))
    )
    dearer = (
        _solve(study, beliefs, replace(aim, budget=None), panel, players)
        if goals.budget is not None
        else None
    )
    if dearer is not None:
        cost = math.ceil(dearer.cost * 100) / 100
        remedies.append(Remedy("budget", cost, f"a budget of {money(cost, study.currency)}"))
    if panel.size is None and (goals.budget is not None or goals.epsilon is not None):
        head = None if goals.budget is None else goals.budget / players
        more = _more_players(study, beliefs, aim, panel, players, head)
        if more is not None:
            remedies.append(Remedy("players", float(more), f"{more:,} players at as much each"))
    if goals.accuracy is not None:
        looser = (
            _solve(study, beliefs, replace(goals, accuracy=None), panel, players)
            if (goals.budget is not None or goals.epsilon is not None)
            else None
        )
        if looser is not None:
            reached = unit * math.sqrt(looser.error) * (1 + 1e-3)
            remedies.append(Remedy("accuracy", reached, f"an error of {number(reached)}"))
    aimed = replace(goals, accuracy=aim.accuracy)
    smaller = less_tolerance(study, lambda other: _solve(other, beliefs, aimed, panel, players) is not None)
    remedies += [] if smaller is None else [smaller]
    return Infeasible(
        f"with {players:,} players{spent} no plan guarantees {asked}, with {_paying(beliefs, goals)}"
        f"{believing(study)}.",
        tuple(remedies),
    )


def _paying(beliefs: ShareBeliefs, goals: Goals) -> str:
    if beliefs.levels == 2:
        return "the truth paying"
    return f"no lie of {lie_steps(beliefs, goals)} steps or more paying (--lie changes it)"


def _more_players(
    study: Study, beliefs: ShareBeliefs, goals: Goals, panel: Panel, players: int, head: float | None
) -> int | None:
    def solved(n: int) -> bool:
        at = replace(goals, players=n, budget=None if head is None else head * n)
        return _solve_sparing(study, beliefs, at, panel, n, SPARED[0], SHORTENINGS[:1]) is not None

    high = players
    while not solved(high):
        high *= 2
        if high > MOST_PLAYERS:
            return None
    low = high // 2
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        low, high = (low, middle) if solved(middle) else (middle, high)
    return high

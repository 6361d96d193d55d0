"""What all kinds of plan share: solutions, the fewest players who suffice, remedies, the worth of more money.

Infeasible is an answer too: it says what stands in the way, and the least change of each goal that would remove it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from truthful.check import Floats
from truthful.errors import Refused
from truthful.formatting import money, number, points
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.panel import Panel
from truthful.study import Study

#: The relative change in money or players from which the worth of one more is computed.
STEP = 0.05
#: By how much, relatively, an accuracy must beat the prior mean; and by how much the best feasible one is rounded up.
BETTER, SPARE = 1e-3, 5e-4
#: The rounding where neither a budget nor ε is given: the last bit of accuracy would cost all the money there is, at a
#: huge ε.
UNLIMITED_SPARE = 0.05
#: Parts of a declared tolerance to try where all of it is too much.
TOLERANCES = (0.75, 0.5, 0.25, 0.1)
#: A budget that stands for none.
UNLIMITED = 1e30
#: Targets are met from below by this part, so that rounding breaks no promise.
MARGIN = 1e-9
#: Digits of an ε that is solved for. Its last bits differ between processors, and all of them decide a seed's noise.
EPSILON_DIGITS = 10
#: The ratio at which more players are tried where a first guess is too few; its logarithm doubles each time.
NEAR = 1.03
#: The number of players in a remedy is at most a part 1/CLOSE above the least that works.
CLOSE = 100
#: How often to halve the bracket of the ε in a remedy.
EPSILON_STEPS = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """The best numbers for the goals, with their cost and the guaranteed mean squared error (normalised)."""

    study: Study
    goals: Goals
    players: int
    cost: float
    error: float
    epsilon: float

    @property
    def rmse(self) -> float:
        """The guaranteed root mean square error, in raw units."""
        return self.study.response_unit * math.sqrt(self.error)

    @property
    def minimised(self) -> str:
        """What is minimised: the error, or the cost where an accuracy is given."""
        return "error" if self.goals.accuracy is None else "cost"

    @property
    def cheapest(self) -> bool:
        """Whether no cheaper plan works. Otherwise what is left of a budget may be paid as a flat fee."""
        return self.goals.accuracy is not None and self.goals.budget is None

    def solve_again(self, goals: Goals, players: int) -> Solution | None:
        """Solve for other goals; None if they cannot be met."""
        raise NotImplementedError

    def record(self) -> dict[str, Any]:
        """The goals, and the error bound in raw units."""
        of = {"error_of": self.goals.accuracy_of, "error": self.rmse}
        return {"asked": self.goals.record(), "minimised": self.minimised, **of}


#: Solve for a number of players; None if no plan is feasible, or none beats asking nobody.
S = TypeVar("S", bound=Solution)
S_co = TypeVar("S_co", bound=Solution, covariant=True)
Solve = Callable[[Study, Goals, int], S | None]


class PanelSolve(Protocol[S_co]):
    """`Solve`, for the people of a panel."""

    def __call__(self, study: Study, goals: Goals, players: int, panel: Panel) -> S_co | None: ...


#: A rank that was minimised, and where: the share of liars, the option and ε.
Found = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False, kw_only=True)
class PanelSolution(Solution):
    """A solution computed from people's features, with this shortening of instruments."""

    panel: Panel
    shortening: float
    absent_share: float


@dataclass(frozen=True, eq=False)
class PanelSearch:
    """A search for the numbers of one study, size and kind of instruments, on a grid of shares of liars and of ε."""

    study: Study
    goals: Goals
    panel: Panel
    players: int
    shortening: float

    #: How many shares of liars and values of ε to try before closing in on the best. Below the least ε noise drowns
    #: everything; beyond the largest nothing is gained.
    LIARS: ClassVar[int]
    GRID: ClassVar[int]
    EPSILONS: ClassVar[tuple[float, float]]
    #: Where to look for the least ε that is accurate enough.
    ENOUGH: ClassVar[tuple[float, float]]

    @property
    def options(self) -> tuple[float, ...]:
        """Values to try of a third number."""
        raise NotImplementedError

    def errors(self, alpha: Floats, epsilon: Floats) -> Floats:
        """Guaranteed mean squared errors: α × ε."""
        raise NotImplementedError

    def price(self, alpha: Floats, option: float, epsilon: Floats) -> Floats:
        """The least maximum payment at which the truth pays; infinite where none is enough: α × ε."""
        raise NotImplementedError

    def rank(self, errors: Floats, price: Floats) -> Floats:
        """What to minimise where ε is given without an accuracy; by default the price."""
        return price

    @cached_property
    def answering(self) -> int:
        """The number of people expected to answer."""
        return self.panel.answering(self.players)

    @cached_property
    def liars(self) -> Floats:
        """Shares of liars to try: whole numbers of people, or the given share."""
        if "absent_share" in self.goals.pins:
            return np.array([self.goals.pins["absent_share"]])
        counts = np.round(np.geomspace(1, max(2.0, self.answering / 20), self.LIARS))
        return np.unique(counts) / self.answering

    @cached_property
    def grid(self) -> Floats:
        """Values of ε to try, or the given one."""
        if self.goals.epsilon is not None:
            return np.array([self.goals.epsilon])
        return np.geomspace(*self.EPSILONS, self.GRID)

    @property
    def step(self) -> float:
        """The ratio of neighbouring ε on the grid."""
        least, most = self.EPSILONS
        return float((most / least) ** (1 / (self.GRID - 1)))

    @property
    def budget_each(self) -> float:
        """The budget per person."""
        budget = self.goals.budget
        return math.inf if budget is None else budget / self.players * (1 - MARGIN)

    @property
    def target(self) -> float:
        """The mean squared error asked for."""
        return (self.goals.error(self.study) or math.inf) * (1 - MARGIN)

    def remaining(self, price: float) -> float:
        """What remains of the budget per person; it becomes a flat fee."""
        return max(0.0, self.budget_each - price) if self.goals.budget is not None else 0.0

    def most_accurate(self, grid: Floats) -> Iterator[Found]:
        """The least error within the budget for each option; where ε is given, the least rank."""
        errors, free = self.errors(self.liars, grid), self.goals.epsilon is None

        def rank(price: Floats) -> Floats:
            return np.where(price <= self.budget_each, errors if free else self.rank(errors, price), np.inf)

        return self._lowest(grid, rank)

    def cheapest(self) -> Iterator[Found]:
        """The least price of the accuracy for each option."""
        grid = self.grid
        if self.goals.epsilon is None:
            # Add the least ε that is accurate enough at each share of liars.
            grid = np.unique(np.concatenate([grid, self._first()]))
        enough = self.errors(self.liars, grid) <= self.target * (1 + 1e-12)
        return self._lowest(grid, lambda price: np.where(enough & (price <= self.budget_each), price, np.inf))

    def _first(self) -> Floats:
        """The least ε that is accurate enough, for each share of liars; the end of the range if there is none."""
        low, high = (np.full(len(self.liars), end) for end in self.ENOUGH)
        for _ in range(50):
            middle = np.sqrt(low * high)
            enough = np.diagonal(self.errors(self.liars, middle)) <= self.target
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _lowest(self, grid: Floats, rank: Callable[[Floats], Floats]) -> Iterator[Found]:
        """The least rank of each option, where finite, and where it is."""
        for option in self.options:
            values = rank(self.price(self.liars, option, grid))
            i, j = np.unravel_index(int(np.argmin(values)), values.shape)
            if math.isfinite(values[i, j]):
                yield float(values[i, j]), float(self.liars[i]), option, float(grid[j])

    def last_affordable(self, alpha: float, option: float, epsilon: float) -> float:
        """The largest affordable ε between this one and the next on the grid: the most accurate."""

        def dear(level: float) -> bool:
            return not self.price(np.array([alpha]), option, np.array([level])).item() <= self.budget_each

        return bisect(dear, epsilon, epsilon * self.step, 30)[0]

    def common_fields(self, alpha: float, epsilon: float, paid: float) -> dict[str, Any]:
        """Fields that all solutions share, where a person may be paid at most this much."""
        return {
            "study": self.study,
            "goals": self.goals,
            "players": self.players,
            "cost": self.players * paid,
            "error": self.errors(np.array([alpha]), np.array([epsilon])).item(),
            "panel": self.panel,
            "shortening": self.shortening,
            "epsilon": epsilon,
            "absent_share": alpha,
        }


def round_epsilon(goals: Goals, epsilon: float) -> float:
    """An ε that was solved for, without the digits that depend on the processor; a given one is kept."""
    return epsilon if goals.epsilon is not None else float(f"{epsilon:.{EPSILON_DIGITS}g}")


def bisect(feasible: Callable[[float], bool], low: float, high: float, steps: int) -> tuple[float, float]:
    """Halve, in logarithms, a bracket that is infeasible at its low end and feasible at its high end."""
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if feasible(middle) else (middle, high)
    return low, high


# Players


def fewest(solve: Callable[[int], S | None], first: int, most: int, close: int) -> S | None:
    """Solve for about the fewest players, by doubling from the first: at most a part 1/close above.

    With more people each costs less, until the budget is spent on too many of them.
    """
    high = first
    while high <= most:
        if (found := solve(high)) is not None:
            return _close_in(solve, high // 2, found, close)
        high *= 2
    return None


def _close_in(solve: Callable[[int], S | None], low: int, found: S, close: int) -> S:
    """Bisect between too few players and a number that works."""
    high = found.players
    while high - low > max(1, high // close):
        middle = (low + high) // 2
        solution = solve(middle)
        low, high, found = (middle, high, found) if solution is None else (low, middle, solution)
    return found


def fewest_of(
    panel: Panel, solve: Callable[[Panel, int], S | None], first: int, most: int, close: int
) -> S | None:
    """`fewest` for a panel. The rough start ignores sampling of respondents, so it is too low."""
    rough = fewest(lambda n: solve(panel.roughly, n), first, most, close)
    if rough is None:
        return None
    low, high, step = rough.players - 1, rough.players, NEAR
    while (found := solve(panel, high)) is None:
        low, high, step = high, math.ceil(high * step), step**2
        if high > most:
            return None
    return found if low < rough.players else _close_in(partial(solve, panel), low, found, close)


# What would help


@dataclass(frozen=True)
class Remedy:
    """One change of a goal or of the study that makes a plan feasible, all else equal.

    goal: what to change; value: the new value, a number or a word. words: a sentence that says so, with what it buys.
    change: its size, the logarithm of a ratio. study: the changed study, where it is the study that changes.
    """

    goal: str
    value: Any
    words: str
    change: float
    study: Study | None = None


#: Goals that a remedy may change; other remedies change the study.
CHANGEABLE = ("budget", "players", "accuracy", "epsilon", "lie", "tolerance")
#: The most remedies listed, and the most that change the study.
MOST_REMEDIES, MOST_LEVERS = 6, 3


NO_ONE_CHANGE = "No single change of a goal or of the study is enough: change more than one of them."


class Infeasible(Refused):
    """No plan meets the goals. `remedies`: what would help, the smallest change first; letting lies pass comes last.

    They are computed on demand, which may take seconds.
    """

    title = "Infeasible"

    def __init__(self, reason: str, find: Callable[[], Iterable[Remedy]] | None = None) -> None:
        super().__init__(reason)
        self.reason, self._find = reason, find

    @cached_property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would help, the smallest change first: each has a goal, a value and words."""
        return () if self._find is None else best_first(self._find())

    def __str__(self) -> str:
        ways = "".join(f"\n- {remedy.words}" for remedy in self.remedies)
        if ways:
            return f"{self.reason}\nWhat would help, the smallest change first:{ways}"
        return self.reason if self._find is None else f"{self.reason} {NO_ONE_CHANGE}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _infeasible, (self.reason, None if self._find is None else self.remedies)

    @property
    def binding(self) -> str | None:
        """The goal whose relative change is least."""
        return next((remedy.goal for remedy in self.remedies if remedy.goal in CHANGEABLE), None)

    def record(self) -> dict[str, Any]:
        """For machines."""
        changes = {remedy.goal: remedy.value for remedy in self.remedies if remedy.goal in CHANGEABLE}
        told = [
            {"change": remedy.goal, "to": remedy.value, "words": remedy.words} for remedy in self.remedies
        ]
        return {
            "feasible": False,
            "reason": self.reason,
            "binding": self.binding,
            "feasible_with": changes,
            "remedies": told,
        }

    @property
    def details(self) -> dict[str, Any]:
        return self.record()


def with_levers(problem: Infeasible, levers: Callable[[], Iterable[Remedy]]) -> Infeasible:
    """Add remedies that change the study."""

    def find() -> Iterator[Remedy]:
        yield from problem.remedies
        yield from sorted(levers(), key=attrgetter("change"))[:MOST_LEVERS]

    return Infeasible(problem.reason, find)


def _infeasible(reason: str, remedies: tuple[Remedy, ...] | None) -> Infeasible:
    return Infeasible(reason, None if remedies is None else lambda: remedies)


def best_first(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """The smallest change first, but letting lies pass last; a handful."""
    return tuple(sorted(remedies, key=lambda remedy: (remedy.goal == "lie", remedy.change))[:MOST_REMEDIES])


def changed_goal(goal: str, value: float, asked: float, words: str) -> Remedy:
    """Another value for a goal."""
    return Remedy(goal, value, words, abs(math.log(value / asked)))


def relax_goals(study: Study, goals: Goals, players: int, solve: Solve[S]) -> Iterator[Remedy]:
    """Relax each goal alone, as little as needed: budget, accuracy, ε, tolerance."""
    for relax in (_budget, _accuracy, _epsilon, _tolerance):
        if (found := relax(study, goals, players, solve)) is not None:
            yield found


def no_number_suffices(study: Study, goals: Goals) -> Infeasible:
    """Say that no number of players is enough."""
    ways = {
        "budget": f"Raise the budget from {money(goals.budget or 0.0, study.currency)}",
        "accuracy": f"allow a larger error than {in_units(study, goals.accuracy or 0.0)}",
        "epsilon": f"choose another epsilon than {goals.epsilon}",
    }
    told = ", or ".join(words for name, words in ways.items() if getattr(goals, name) is not None)
    return Infeasible(f"no number of players up to a billion meets these goals. {told[0].upper()}{told[1:]}.")


def with_accuracy(study: Study, goals: Goals) -> Goals:
    """The goals, with an accuracy: a plan must at least beat the prior mean."""
    if goals.accuracy is not None:
        return goals
    # On its grid a search for the least error within a budget falls a little short of one for the least cost.
    better = BETTER if study.shares is None and study.levels is None else 10 * BETTER
    return replace(goals, accuracy=study.response_unit * math.sqrt(goals.prior_error(study)) * (1 - better))


def in_units(study: Study, error: float, digits: int = 3) -> str:
    """Format an error in units of the answer; for yes or no, in percentage points."""
    return points(error, digits) if study.kind == "yes-no" else number(error, digits)


def describe_goals(study: Study, goals: Goals, players: int) -> str:
    """Begin a reason: how many players, and with what budget and ε."""
    spent = f" and {money(goals.budget, study.currency)}" if goals.budget is not None else ""
    privacy = f" at epsilon {goals.epsilon:g}" if goals.epsilon is not None else ""
    return f"with {players:,} players{spent}{privacy}"


def describe_tolerance(study: Study) -> str:
    """Say what people may believe, where a tolerance is declared."""
    tolerance = study.declared.beliefs.tolerance
    return "" if tolerance is None else f" even if people's centre is {tolerance:g} off (beliefs.tolerance)"


def solve_panel(
    study: Study,
    goals: Goals,
    panel: Panel,
    solve: PanelSolve[S],
    *,
    first: int,
    close: int,
    quick: PanelSolve[S],
    most: int,
    known: str,
    paying: str = "",
) -> S:
    """Solve for the given number of players, or for the fewest who suffice, searching from `first`.

    If there is no solution, Infeasible says what would help; a remedy of more players, at most `most`, is found by
    `quick`. `known` is what is known without asking anybody.
    """
    players = goals.players
    if players is None:
        found = fewest_of(panel, lambda people, n: solve(study, goals, n, people), first, MOST_PLAYERS, close)
        if found is None:
            raise no_number_suffices(study, goals)
        return found
    found = solve(study, goals, players, panel)
    if found is not None:
        return found
    prior = study.response_unit * math.sqrt(goals.prior_error(study))
    error = (
        f"an error of {in_units(study, goals.accuracy)}"
        if goals.accuracy is not None
        else f"an error below {in_units(study, prior)}, which {known} has without asking anybody"
    )
    reason = f"{describe_goals(study, goals, players)} no plan guarantees {error}{paying}{describe_tolerance(study)}."

    def find() -> Iterator[Remedy]:
        yield from relax_goals(study, goals, players, partial(solve, panel=panel))
        yield from filter(None, (_more_players(study, goals, players, panel, quick, most),))

    raise Infeasible(reason, find)


def _more_players(
    study: Study, goals: Goals, players: int, panel: Panel, solve: PanelSolve[S], most: int
) -> Remedy | None:
    """Ask more people, each paid as much."""
    aim, head = with_accuracy(study, goals), None if goals.budget is None else goals.budget / players

    def solve_larger(people: Panel, n: int) -> S | None:
        return solve(study, replace(aim, budget=None if head is None else head * n), n, people)

    # If the largest number is not enough, no smaller one is.
    enough = solve_larger(panel.roughly, most) is not None
    found = fewest_of(panel, solve_larger, players, most, CLOSE) if enough else None
    if found is not None and head is None and goals.epsilon is None:
        found = solve_larger(panel, math.ceil(found.players * (1 + UNLIMITED_SPARE)))
    if found is None:
        return None
    n = found.players
    people = "players" if panel.size is None else "people like those on the roster"
    price = "" if head is None else f" at as much each, {money(head * n, study.currency)} in all"
    return changed_goal(
        "players", float(n), float(players), f"Ask {n:,} {people}{price}{describe_purchase(goals, found)}."
    )


def _budget(study: Study, goals: Goals, players: int, solve: Solve[S]) -> Remedy | None:
    if goals.budget is None:
        return None
    dearer = solve(study, replace(with_accuracy(study, goals), budget=None), players)
    if dearer is None:
        return None
    cost = math.ceil(dearer.cost * 100) / 100
    words = f"Raise the budget to {money(cost, study.currency)}{describe_purchase(goals, dearer)}."
    return changed_goal("budget", cost, goals.budget, words)


def describe_purchase(goals: Goals, found: Solution) -> str:
    """Say what a change leads to: the error where none was given, the cost where there is no budget."""
    error = f"the error is then {in_units(found.study, found.rmse)}" if goals.accuracy is None else ""
    cost = f"it costs {format_cost(found)}" if goals.budget is None else ""
    return ": " * bool(error or cost) + ", and ".join(filter(None, (error, cost)))


def format_cost(found: Solution) -> str:
    """Format a plan's cost, rounded up to cents."""
    return money(math.ceil(found.cost * 100) / 100, found.study.currency)


def _accuracy(study: Study, goals: Goals, players: int, solve: Solve[S]) -> Remedy | None:
    """The best accuracy within the budget (or for any money), where an accuracy was given."""
    if goals.accuracy is None:
        return None
    budget = UNLIMITED if goals.budget is None else goals.budget
    looser = solve(study, replace(goals, accuracy=None, budget=budget), players)
    if looser is None:
        return None
    # Rounded up: a search for the least cost just misses what a budget just buys.
    accuracy = rounded_up(looser.rmse * (1 + least_spare(goals)))
    found = looser if goals.budget is not None else solve(study, replace(goals, accuracy=accuracy), players)
    if found is None:
        return None
    words = f"Allow an error of {in_units(study, accuracy, 4)}{describe_purchase(goals, found)}."
    return changed_goal("accuracy", accuracy, goals.accuracy, words)


def least_spare(goals: Goals) -> float:
    """The part by which the least feasible error is rounded up."""
    return UNLIMITED_SPARE if goals.budget is None and goals.epsilon is None else SPARE


def _epsilon(study: Study, goals: Goals, players: int, solve: Solve[S]) -> Remedy | None:
    """The nearest feasible ε, on the side of the one chosen where ε is free."""
    asked, aim = goals.epsilon, with_accuracy(study, goals)
    if asked is None or (free := solve(study, replace(aim, epsilon=None), players)) is None:
        return None

    def at(epsilon: float) -> S | None:
        return solve(study, replace(aim, epsilon=epsilon), players)

    found, low, high = None, asked, free.epsilon
    for _ in range(EPSILON_STEPS):
        middle = math.sqrt(low * high)
        nearer = at(float(f"{middle:.3g}"))
        low, high, found = (middle, high, found) if nearer is None else (low, middle, nearer)
    if found is None or found.epsilon == asked:
        return None
    verb = "Raise" if found.epsilon > asked else "Lower"
    words = f"{verb} epsilon to {found.epsilon:g}{describe_purchase(goals, found)}."
    return changed_goal("epsilon", found.epsilon, asked, words)


def _tolerance(study: Study, goals: Goals, players: int, solve: Solve[S]) -> Remedy | None:
    """The largest part of the declared tolerance, of a few, with which a plan is feasible."""
    declared, aim = study.declared.beliefs.tolerance, with_accuracy(study, goals)
    for part in TOLERANCES if declared else ():
        if declared and solve(study.with_tolerance(part), aim, players) is not None:
            value = part * declared
            return changed_goal("tolerance", value, declared, f"Declare a beliefs.tolerance of {value:g}.")
    return None


def rounded_up(value: float) -> float:
    """Round up to four digits, so that the number shown is enough."""
    return float(f"{Decimal(value).normalize(Context(prec=4, rounding=ROUND_CEILING))}")


# What more would buy


@dataclass(frozen=True)
class Worth:
    """The change of the error (raw units) or of the cost for one more dollar or player."""

    of: str
    currency_unit: float | None
    player: float | None


def worth(found: Solution) -> Worth:
    """Differences of what is minimised at a twentieth more money or players, per unit."""
    goals, n = found.goals, found.players
    more = round(n * (1 + STEP)) if n * (1 + STEP) <= MOST_PLAYERS else round(n * (1 - STEP))
    crowd = found.solve_again(goals, more)
    if not goals.minimises_error:
        saved = None if crowd is None or not found.cheapest else crowd.cost - found.cost
        return Worth("cost", None, _per(saved, more - n))
    budget = goals.budget or 0.0
    richer = found.solve_again(replace(goals, budget=budget * (1 + STEP)), n)
    # More money never hurts: it need not be spent.
    gained = None if richer is None else min(0.0, richer.rmse - found.rmse)
    changed = None if crowd is None else crowd.rmse - found.rmse
    return Worth("error", _per(gained, budget * STEP) or None, _per(changed, more - n) or None)


def _per(change: float | None, units: float) -> float | None:
    return change / units if change is not None and math.isfinite(change) and units != 0 else None

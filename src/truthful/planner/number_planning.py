"""Plans for numeric answers: the estimator, the best numbers, how many players, what helps, what money buys.

A budget buys the best accuracy, and an accuracy is bought for the least money. If no number of players is given: the
fewest who suffice, or the number that meets the goal best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number
from truthful.guarantees import model
from truthful.one_release import EPSILON_RANGE
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.panel import LEAST_CLIP, SHORTENINGS
from truthful.planner.planning import (
    MARGIN,
    UNLIMITED,
    UNLIMITED_SPARE,
    Infeasible,
    Remedy,
    Solution,
    changed_goal,
    describe_goals,
    describe_purchase,
    describe_tolerance,
    fewest,
    no_number_suffices,
    relax_goals,
    round_epsilon,
    rounded_up,
    with_accuracy,
)
from truthful.planner.search import Axis, Point, crossing, geometric_rows, last_below, lowest, minimise
from truthful.planner.terms import Choice, Terms
from truthful.study import Study

MOST_LIARS = 0.3
#: Values of ε to try at each point before closing in on the root.
GRID = 16
#: Other instruments are tried if they promise to cut the mean squared error by this part.
WORTH_SHORTENING = 1e-3
#: An accuracy is near the best possible if the mean squared error at the largest ε is within this part of it.
NEARLY = 0.2

#: The fewest players of any plan.
LEAST_PLAYERS = 4
#: The ratio of the first numbers of players tried.
STRIDE = 16
#: How close a number of players is to the least that is enough.
CLOSE = 2e-3
#: How often to add a little to a number of players found near another, until it works by itself.
SPARE_STEPS = 6
ZOOMS, ZOOM_STEPS = 4, 12
#: How close to the least sufficient lie size to get.
LIE_CLOSE = 2e-2
#: The number of budgets on a frontier, and its reach: from 1/REACH of the given budget to REACH times it.
POINTS, REACH = 15, 30.0

N = TypeVar("N", float, Floats)


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberSolution(Solution):
    """The numbers of a plan for one estimator, with the solutions for other estimators considered, best first.

    Infinite error or cost: nothing is feasible with this estimator.
    """

    terms: Terms
    point: Point
    others: tuple[NumberSolution, ...] = ()

    @property
    def choice(self) -> Choice:
        """The numbers other than ε."""
        return _choice(self.terms, {name: np.array([value]) for name, value in self.point.items()})

    @property
    def minimised(self) -> str:
        return minimised(self.goals)

    @property
    def objective(self) -> float:
        """The value of what is minimised."""
        return _objective(self.goals, self.cost, self.error)

    @property
    def cheapest(self) -> bool:
        return not self.goals.minimises_error

    @property
    def feasible(self) -> bool:
        """Whether the goals are met, and the error beats the prior mean's."""
        return math.isfinite(self.cost) and self.error < self.goals.prior_error(self.study)

    def solve_again(self, goals: Goals, players: int) -> NumberSolution:
        """Solve with the same estimator, near these numbers."""
        return solve_with(self.study, goals, players, self.terms.estimator, self.point)

    def parameters(self) -> dict[str, Any]:
        """The plan's parameters under their public names, with the payments that go with them."""
        s = self.terms.setting(self.choice, self.epsilon)
        chosen = {
            "gram_share": s.gram_share,
            "clip": s.reach,
            "base_payment": s.a,
            "score_weight": s.b,
            "absent_share": s.alpha,
        }
        numbers = {name: np.asarray(value).item() for name, value in chosen.items()}
        named = {"estimator": s.estimator, "rule": s.rule, "payments": s.payments}
        return {"epsilon": self.epsilon, **numbers, **named}

    def record(self) -> dict[str, Any]:
        """The goals, and what each estimator would have given."""
        return {**super().record(), "compared": [solution._summary() for solution in (self, *self.others)]}

    def _summary(self) -> dict[str, Any]:
        finite = math.isfinite(self.cost)
        return {
            "estimator": self.terms.estimator,
            "epsilon": self.epsilon if finite else None,
            "cost": self.cost if finite else None,
            "error": self.rmse if finite else None,
        }


def solve_numbers(study: Study, goals: Goals) -> NumberSolution:
    """The best plan's numbers; Infeasible if there is none, or none better than answering with the prior mean."""
    if not candidates(study, goals):
        raise InputError(
            f"No estimator fits: {goals.estimator or 'none'!r}, where {study.protects} are protected, for a design of "
            f"kind {study.design.kind!r}, with {', '.join(goals.pins) or 'nothing else'} fixed. Leave some of them out "
            "to have them chosen."
        )
    if goals.panel is None and not model(study).least_eigenvalue > 0:
        raise Infeasible(
            "the study does not say how spread out its features are. Declare design.least_eigenvalue, the least "
            f"eigenvalue of E[x xᵀ] that you can vouch for. {study.even_eigenvalue:.3g} is that of numbers spread "
            "evenly over their ranges and levels equally frequent; people mostly differ less. Or give epsilon and "
            "score_weight yourself."
        )
    target, prior = goals.error(study), goals.prior_error(study)
    if target is not None and not target < prior:
        raise Infeasible(
            f"accuracy is {number(goals.accuracy or 0.0)}, and answering with the prior mean, without asking anybody, "
            f"is off by {number(study.response_unit * math.sqrt(prior))} only. Ask for a smaller error."
        )
    players = choose_players(study, goals)
    if players is None:
        raise no_number_suffices(study, goals)
    best, *others = solve_all(study, goals, players)
    if not best.feasible:
        raise _infeasible(study, goals, players, best.error)
    return replace(best, others=tuple(others))


# Estimators


def candidates(study: Study, goals: Goals) -> tuple[str, ...]:
    """Estimators that fit, the likeliest to be best first.

    For answers alone: instruments. For whole records: the declared second moments, or noisy ones of the respondents,
    which from some number of people on leave less to the chance of who was asked.
    """
    if study.protects == "answers":
        fitting: tuple[str, ...] = ("instruments",)
    elif study.second_moments is not None:
        fitting = ("known-design", "noisy-statistics")
    else:
        fitting = ("noisy-statistics",)
    blurred = ("noisy-statistics",) if "gram_share" in goals.pins else fitting
    return tuple(name for name in fitting if goals.estimator in (None, name) and name in blurred)


def axes(terms: Terms) -> dict[str, Axis]:
    """The numbers to choose for an estimator. What the analyst has fixed is an axis of one point.

    A share of liars below half a player means none, which a bounded cost distribution allows.
    """
    goals = terms.goals
    bounded = math.isfinite(terms.study.costs.upper_quantile(0.0))
    fewest = (0.4 if bounded else 1.0) / terms.answering
    found = {"absent_share": Axis(min(fewest, MOST_LIARS), MOST_LIARS, 9)}
    if goals.payments == "never-negative":
        R = terms.study.beliefs.radius
        found["clip"] = Axis(LEAST_CLIP * R, R, 5, log=False)
    if terms.estimator == "noisy-statistics":
        found["gram_share"] = Axis(0.01, 0.99, 6, log=False)
    return found | {name: Axis(value, value, 1, log=False) for name, value in goals.pins.items()}


# The best numbers


def solve_all(study: Study, goals: Goals, players: int) -> tuple[NumberSolution, ...]:
    """One solution per estimator, best first; all infeasible if none works."""
    found = [solve_with(study, goals, players, name) for name in candidates(study, goals)]
    return tuple(sorted(found, key=attrgetter("objective")))


def minimised(goals: Goals) -> str:
    """What is minimised: the error within a budget, or the cost of an accuracy; with neither, cost × squared error."""
    if goals.accuracy is None and goals.budget is None:
        return "cost × squared error"
    return "error" if goals.minimises_error else "cost"


def _objective(goals: Goals, cost: N, error: N) -> N:
    return {"error": error, "cost": cost, "cost × squared error": cost * error}[minimised(goals)]


def solve_with(
    study: Study, goals: Goals, players: int, estimator: str, near: Point | None = None
) -> NumberSolution:
    """The best numbers for an estimator; faster near those for almost the same goals, if known."""
    terms = Terms(study, goals, players, estimator)
    found = _solve_terms(terms, near)
    if estimator != "instruments":
        return found
    # At a large ε, shortening fewer people's instruments leaves a smaller error.
    solved = math.isfinite(found.error)
    better = _least_error(terms, found.choice, found.epsilon) if solved else _more_accurate(terms)
    if better is None:
        return found
    return min(found, _solve_terms(better, found.point or None), key=attrgetter("objective"))


def _more_accurate(terms: Terms) -> Terms | None:
    """Other instruments, where they meet the accuracy asked for and these do not even at the largest ε.

    There the chance of who is asked is all that is left of the error, and shortening adds to it.
    """
    at = {name: np.array([axis.low]) for name, axis in axes(terms).items()}
    choice, most = _choice(terms, at), EPSILON_RANGE[1]
    if not float(terms.rough_error(choice, most).item()) > terms.largest_error * (1 - NEARLY):
        return None
    best = _least_error(terms, choice, most)
    if best is None or not float(best.rough_error(choice, most).item()) < terms.largest_error:
        return None
    return best


def _least_error(terms: Terms, choice: Choice, epsilon: float) -> Terms | None:
    """The instruments with the least error at these numbers, unless the present ones are as good."""
    others = [replace(terms, shortening=share) for share in SHORTENINGS]
    errors = [float(term.rough_error(choice, epsilon).item()) for term in others]
    best = min(range(len(others)), key=errors.__getitem__)
    return others[best] if errors[best] < errors[0] * (1 - WORTH_SHORTENING) else None


def _solve_terms(terms: Terms, near: Point | None) -> NumberSolution:
    """The best numbers on these terms."""
    study, goals = terms.study, terms.goals

    def objective(mesh: dict[str, Floats]) -> tuple[Floats, Floats]:
        _, short, cost, error = _evaluate(terms, mesh)
        return np.where(np.isfinite(cost) & np.isfinite(error), short, np.inf), _objective(goals, cost, error)

    none = NumberSolution(
        study=study,
        goals=goals,
        players=terms.players,
        cost=math.inf,
        error=math.inf,
        terms=terms,
        point={},
        epsilon=math.nan,
    )
    best = minimise(objective, axes(terms), near)
    if best is None:
        return none
    at = {name: np.array([value]) for name, value in best.items()}
    epsilon, short, cost, error = (float(part[0]) for part in _evaluate(terms, at))
    if short > 0 or not cost <= _limit(goals.budget) or not error <= _limit(goals.error(study)):
        return none
    return replace(none, point=best, epsilon=round_epsilon(goals, epsilon), cost=cost, error=error)


def _evaluate(terms: Terms, mesh: dict[str, Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """ε, the logarithm by which the budget or the accuracy is missed (0: met), the cost and the error."""
    goals, choice = terms.goals, _choice(terms, mesh)
    if goals.epsilon is not None:
        epsilon = np.full(len(choice.alpha), goals.epsilon)
    elif goals.minimises_error:
        epsilon = _most_affordable(terms, choice)
    else:
        epsilon = _cheapest(terms, choice)
    cost, error = terms.cost(choice, epsilon), terms.error(choice, epsilon)
    ratio = cost / _limit(goals.budget) if goals.minimises_error else error / terms.largest_error
    with np.errstate(divide="ignore"):
        return epsilon, np.maximum(0.0, np.log(ratio)), cost, error


def _most_affordable(terms: Terms, choice: Choice) -> Floats:
    """The largest ε within the budget at each point; where there is none, the ε of the least cost."""
    grid, each, budget = _grid(terms, choice), choice.column(), _limit(terms.goals.budget) * (1 - MARGIN)

    def cost(epsilon: Floats) -> Floats:
        return terms.cost(each, epsilon)

    costs = cost(grid)
    if (costs <= budget).any(axis=1).all():
        return last_below(cost, budget, grid, costs)
    # Costs can fall before they rise: with noisy statistics, lies are easier to see at a larger ε.
    least = lowest(cost, grid, costs)
    found = last_below(cost, budget, np.sort(np.column_stack([grid, least]), axis=1))
    return np.where(np.isnan(found), least, found)


def _cheapest(terms: Terms, choice: Choice) -> Floats:
    """The ε of the least cost within the accuracy at each point; where there is none, the largest."""
    grid, each, most = _grid(terms, choice), choice.column(), terms.largest_error * (1 - MARGIN)
    # As 1/ε rises, so does the error: the largest 1/ε within the target is the least ε.
    inverse = last_below(lambda x: terms.error(each, 1 / x), most, 1 / grid[:, ::-1])
    least = np.fmin(1 / inverse, EPSILON_RANGE[1])
    return lowest(lambda epsilon: terms.cost(each, epsilon), np.maximum(grid, least[:, None]))


def _grid(terms: Terms, choice: Choice) -> Floats:
    low = np.minimum(terms.least_epsilon(choice), EPSILON_RANGE[1])
    ends = np.broadcast_to(low, len(choice.alpha)), np.full(len(choice.alpha), EPSILON_RANGE[1])
    return geometric_rows(*ends, GRID)


def _choice(terms: Terms, mesh: dict[str, Floats]) -> Choice:
    """The numbers of a mesh. The share of liars is a whole number of players, unless the analyst has fixed it."""
    alpha = mesh["absent_share"]
    if "absent_share" not in terms.goals.pins:
        alpha = np.round(alpha * terms.answering) / terms.answering
    return Choice(
        alpha=alpha,
        gram_share=mesh.get("gram_share", 0.5),
        clip=mesh.get("clip", terms.study.beliefs.radius),
    )


def _limit(value: float | None) -> float:
    return math.inf if value is None else value


# Players


def choose_players(study: Study, goals: Goals) -> int | None:
    """The number of players to plan for; None if no number works.

    A budget and an accuracy need the fewest with whom both hold. With ε given the number is the one free choice: the
    most accurate within the budget, or the cheapest within the accuracy.
    """
    if goals.players is not None:
        return goals.players
    return _fewest(study, goals) if goals.epsilon is None else _best(study, goals)


def _fewest(study: Study, goals: Goals) -> int | None:
    """The fewest over estimators; each is tried below the number that the last one needed."""
    found: int | None = None
    for estimator in candidates(study, goals):
        most = MOST_PLAYERS if found is None else int(found * (1 - CLOSE))
        if found is None or excess(study, goals, most, estimator)[0] <= 0:
            found = _fewest_with(study, goals, estimator, most) or found
    return found


def _fewest_with(study: Study, goals: Goals, estimator: str, most: int) -> int | None:
    """The least n at which the accuracy costs no more than the budget, rounded up to four digits.

    Cost falls with n until n times the least possible payment dominates.
    """

    def dear(n: float, near: Point | None = None) -> tuple[float, Point | None]:
        return excess(study, goals, round(n), estimator, near)

    tried = [LEAST_PLAYERS]
    found = [dear(LEAST_PLAYERS)]
    while found[-1][0] > 0 and tried[-1] < most and not _is_rising([ln for ln, _ in found]):
        tried.append(min(STRIDE * tried[-1], most))
        found.append(dear(tried[-1]))
    if found[-1][0] > 0:
        at = min(range(len(tried)), key=lambda i: found[i][0])
        # Between two strides cost falls by no more than the ratio of players.
        if found[at][0] > math.log(STRIDE):
            return None
        ends = tried[max(at - 1, 0)], tried[min(at + 1, len(tried) - 1)]
        tried = [round(n) for n in np.geomspace(*ends, ZOOM_STEPS)]
        found = [dear(n) for n in tried]
    first = next((i for i, (ln, _) in enumerate(found) if ln <= 0), None)
    if first is None:
        return None
    n = round(crossing(dear, tried[max(first - 1, 0)], tried[first], CLOSE, found[first]))
    return _rounded_up(n, lambda n: dear(n)[0] <= 0)


def _rounded_up(n: int, enough: Callable[[int], bool]) -> int:
    """The next number of four digits that works also for a search without a starting point, approximately."""
    unit = int(10 ** max(0, len(str(n)) - 4))
    for step in range(SPARE_STEPS):
        rounded = -(-n // unit) * unit + step * max(unit, round(CLOSE * n))
        if enough(rounded):
            return rounded
    return n


def _is_rising(values: list[float]) -> bool:
    """Whether the last two steps both went up from a finite value."""
    return len(values) > 2 and math.isfinite(values[-3]) and values[-3] < values[-2] < values[-1]


def excess(
    study: Study, goals: Goals, players: int, estimator: str, near: Point | None = None
) -> tuple[float, Point | None]:
    """ln(cost/budget) of meeting the accuracy, positive if too expensive, infinite if impossible; and the point."""
    solution = solve_with(study, replace(goals, budget=None, players=players), players, estimator, near)
    budget = math.inf if goals.budget is None else math.log(goals.budget)
    return math.log(solution.cost) - budget, solution.point or None


def _best(study: Study, goals: Goals) -> int | None:
    """The best n at a given ε, refining around the best of a few; where cost is minimised, a budget does not bind."""
    free = goals if goals.accuracy is None else replace(goals, budget=None)
    tried = np.geomspace(LEAST_PLAYERS, MOST_PLAYERS, 12)
    estimators, best = candidates(study, goals), None
    for _ in range(ZOOMS):
        numbers = sorted({round(n) for n in tried})
        value, n, estimator = min((_value(study, free, n, e), n, e) for n in numbers for e in estimators)
        if math.isinf(value):
            return None
        # Keep the estimator that did best.
        estimators, best, at = (estimator,), n, numbers.index(n)
        # Go two neighbours out: liars are whole players, so the objective is jagged in n.
        around = numbers[max(at - 2, 0)], numbers[min(at + 2, len(numbers) - 1)]
        tried = np.geomspace(*around, ZOOM_STEPS)
    return best


def _value(study: Study, goals: Goals, players: int, estimator: str) -> float:
    return solve_with(study, goals, players, estimator).objective


# Where there is none


def solve_numbers_for(study: Study, goals: Goals, players: int) -> NumberSolution | None:
    """The best solution for this many players; None if there is no plan."""
    best = solve_all(study, goals, players)[0]
    return best if best.feasible else None


def _infeasible(study: Study, goals: Goals, players: int, error: float) -> Infeasible:
    """Why the goals cannot be met with this many players, with what would help; error: the best found."""
    reason = f"{describe_goals(study, goals, players)} {_reason(study, goals, error)}."

    def find() -> Iterator[Remedy]:
        yield from relax_goals(study, goals, players, solve_numbers_for)
        yield from filter(None, (_more_players(study, goals, players), _larger_lie(study, goals, players)))

    return Infeasible(reason, find)


def _reason(study: Study, goals: Goals, error: float) -> str:
    unit, lie = study.response_unit, goals.lie_size(study)
    lies = f"lies that move a prediction by more than {number(lie * unit)} ({lie:g} normalised)"
    if goals.accuracy is not None:
        return (
            f"no plan guarantees an error of {goals.accuracy:g} or less, with {lies} unprofitable"
            f"{describe_tolerance(study)}"
        )
    if math.isfinite(error):
        prior = number(unit * math.sqrt(goals.prior_error(study)))
        return (
            f"the error that could be guaranteed is {number(unit * math.sqrt(error))}, and answering with the prior "
            f"mean, without asking anybody, is off by {prior}"
        )
    fixed = f" if absent_share is {goals.pins['absent_share']:g}" if "absent_share" in goals.pins else ""
    return f"no payments make {lies} unprofitable{fixed}{describe_tolerance(study)}"


def _more_players(study: Study, goals: Goals, players: int) -> Remedy | None:
    aim = with_accuracy(study, goals)
    n = _nearest_players(study, aim, players)
    if n is not None and goals.budget is None and goals.epsilon is None:
        n = math.ceil(n * (1 + UNLIMITED_SPARE))
    found = None if n is None else solve_numbers_for(study, replace(aim, players=n), n)
    same = "" if goals.budget is None else " at the same budget"
    if found is None and goals.budget is not None:
        # If the budget is too small for any number of players, keep the pay of each.
        head = goals.budget / players

        def solve_paying(n: int) -> NumberSolution | None:
            return solve_numbers_for(study, replace(aim, players=n, budget=head * n), n)

        # More people at the same pay each are never worse: if the largest number fails, all do.
        most = solve_paying(MOST_PLAYERS)
        found = None if most is None else fewest(solve_paying, 2 * players, MOST_PLAYERS, 100)
        n = None if found is None else found.players
        same = "" if n is None else f" at as much each, {money(head * n, study.currency)} in all"
    if n is None or found is None:
        return None
    listed = None if goals.panel is None else goals.panel.size
    people = "people like those on the roster" if listed is not None and n > listed else "players"
    verb = "Ask" if n > players else "Ask only"
    return changed_goal(
        "players", n, players, f"{verb} {n:,} {people}{same}{describe_purchase(goals, found)}."
    )


def _nearest_players(study: Study, goals: Goals, players: int) -> int | None:
    """The number of players that meets the goals nearest to this one, which does not."""
    if goals.budget is None and goals.epsilon is None:
        goals = replace(goals, budget=UNLIMITED)
    enough = choose_players(study, replace(goals, players=None))
    if enough is None or (goals.epsilon is None and enough > players):
        return enough
    value, estimator = min((_value(study, goals, enough, name), name) for name in candidates(study, goals))
    if math.isinf(value):
        return None
    while abs(enough - players) > max(1, CLOSE * players):
        # Bisect by ratios, while they lie strictly between.
        middle = round(math.sqrt(players * enough))
        if middle in (players, enough):
            middle = (players + enough) // 2
        if math.isfinite(_value(study, goals, middle, estimator)):
            enough = middle
        else:
            players = middle
    return enough


def _larger_lie(study: Study, goals: Goals, players: int) -> Remedy | None:
    """The least feasible lie size, up to R: hardly anybody can tell a larger lie, so nothing would be deterred."""
    goals, asked, high = with_accuracy(study, goals), goals.lie_size(study), study.beliefs.radius
    if not high > asked:
        return None

    def dear(lie: float, near: Point | None, estimator: str) -> tuple[float, Point | None]:
        return excess(study, replace(goals, lie=lie), players, estimator, near)

    found = None
    for estimator in candidates(study, goals):
        at_most = dear(high * (1 - LIE_CLOSE), None, estimator)
        if at_most[0] <= 0:
            high *= 1 - LIE_CLOSE
            found = high = crossing(partial(dear, estimator=estimator), asked, high, LIE_CLOSE, at_most)
    if found is None:
        return None
    lie = rounded_up(found)
    moved = number(lie * study.response_unit, 4)
    words = f"Let lies pass that move a prediction by up to {moved} (lie = {lie:g})."
    return changed_goal("lie", lie, asked, words)


# What money buys


@dataclass(frozen=True)
class Purchase:
    """The guaranteed root mean square error (raw units) that a budget buys, and its ε."""

    error: float
    epsilon: float


@dataclass(frozen=True)
class FrontierPoint:
    """A budget and the best plan within it; None where lies would pay."""

    budget: float
    best: Purchase | None


def budgets_around(budget: float) -> tuple[float, ...]:
    """Budgets at equal ratios around the given one."""
    middle = check.positive("budget", budget)
    return tuple(float(b) for b in np.geomspace(middle / REACH, middle * REACH, POINTS))


def frontier(study: Study, goals: Goals, players: int, budgets: Sequence[float]) -> tuple[FrontierPoint, ...]:
    """The best that each budget buys, at the goals' lie size and failure probability, ε being free.

    Each is solved from scratch: the last solution is often at a corner, where the search would stay.
    """
    budgets = sorted(check.positive("budget", budget) for budget in budgets)
    goals = replace(goals, players=players, accuracy=None, epsilon=None, budget=budgets[0])

    def buy(budget: float) -> NumberSolution:
        return solve_all(study, replace(goals, budget=budget), players)[0]

    if len(candidates(study, goals)) > 1:
        first, last = (buy(budget).terms.estimator for budget in (budgets[0], budgets[-1]))
        # An estimator that is best at both ends is the only one tried between them.
        goals = replace(goals, estimator=first if first == last else None)
    found: list[NumberSolution] = []
    for budget in reversed(budgets):
        best = buy(budget)
        if not math.isfinite(best.error):
            break  # No smaller budget buys what a larger one cannot.
        found.append(best)
    bought: list[Purchase] = []
    for solution in reversed(found):
        # A larger budget buys at least what a smaller one does, even where its search did a little worse.
        better = not bought or solution.rmse < bought[-1].error
        bought.append(Purchase(solution.rmse, solution.epsilon) if better else bought[-1])
    none = [None] * (len(budgets) - len(bought))
    return tuple(map(FrontierPoint, budgets, [*none, *bought]))

"""Plans that ask people what the others will say: how private, how accurate, and what must be paid.

At each share α of liars, ratio ρ of the second question and clip level C, b must outweigh what a lie saves; the base
payment is then the least with which nobody can owe, and a share of all is for predictions. With a budget the largest ε
that it buys is the most accurate; with an accuracy the least cost is sought among the ε that have it, and what is left
of a budget becomes a flat fee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from truthful.asked_release import OWN_CENTRE, RATIO_UNIT, SCALE, SERUM, largest_gain, largest_loss
from truthful.bounds.asked_bounds import (
    AskedSetting,
    error,
    largest_deviation,
    least_bonus,
    least_weight,
    surprise_noise,
)
from truthful.check import Floats
from truthful.errors import InputError, Refused
from truthful.formatting import money, number
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.number_planning import Infeasible, Remedy
from truthful.planner.panel import SHORTENINGS, Panel
from truthful.planner.share_planning import ROOM, lie_steps
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs

#: Ratios of the second question that are tried, in units of 1/1024.
RATIOS = (64, 102, 154, 205, 307, 461, 717, 1024)
#: The same for a pilot, whose predictions matter more than its answers.
CENTRE_RATIOS = (512, 717, 1024, 1434, 2048, 3072)
#: Clip levels: so many standard deviations of the surprise and its errors. With fewer a plan costs a hundredth less,
#: and the best answers of people far from the average move toward it by some points more.
CLIPS = (3.0, 3.5, 4.0, 5.0, 7.0)
#: The same for yes and no, beyond its reach.
STRICT_CLIPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
#: Values of ε before the best is closed in on, and between which.
GRID, LEAST_EPSILON, MOST_EPSILON = 72, 2e-3, 5.0
#: The size of lies that may not pay, of the whole scale, if nothing is asked for.
USUAL_LIE = 0.2
#: Below the first slope answers say nearly nothing of the others, and nothing is promised; below the second, little.
LEAST_SLOPE, SMALL_SLOPE = 0.02, 0.1
#: No more than this may an answer decide what somebody predicts: then the centre could not be told.
MOST_SLOPE = 0.9
#: Spared for people who lie further apart than those a plan is made for.
SPARE = 1.02
#: Met from below, so that rounding breaks no promise.
MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class AskedSolution:
    """The numbers of a plan: what it costs a head at most, and its guaranteed mean squared error (normalised)."""

    goals: Goals
    players: int
    shortening: float
    epsilon: float
    absent_share: float
    ratio: float
    clip: float
    score_weight: float
    base_payment: float
    prediction_weight: float
    plausible: tuple[float, float]
    head: float
    error: float

    @property
    def cost(self) -> float:
        return self.players * self.head

    def record(self) -> dict[str, Any]:
        """What was asked."""
        return {"asked": self.goals.record(), "minimised": "error" if self.goals.accuracy is None else "cost"}


def require_slope(beliefs: LevelBeliefs) -> None:
    """Refuse beliefs with which an answer says too little, or too much, of what somebody expects."""
    k = beliefs.slope
    if beliefs.strict:
        return
    if not k >= LEAST_SLOPE:
        raise Refused(
            f"An answer moves what its giver expects of the others by {k:.2g} of it, and below {LEAST_SLOPE:g} no "
            "payment can tell the truth from a lie: people are too sure of the average, or answers scatter too much. "
            "Ask about people whom they know less of, or declare a larger beliefs.sure if that is true."
        )
    if not k <= MOST_SLOPE:
        raise Refused(
            f"An answer moves what its giver expects of the others by {k:.2g} of it: above {MOST_SLOPE:g} predictions "
            "say nothing beside answers. Declare a smaller beliefs.sure or a larger spread if that is true."
        )


def lie_size(study: Study, goals: Goals, rows: Floats) -> float:
    """From which size on no lie may pay, half the scale being 1: asked for in units of the answer, or of steps.

    By default of ratings it moves what she expects four times as far as that is from a line, at least.
    """
    width = study.response.high - study.response.low
    if study.shares is not None:
        step, steps = SCALE / (study.shares.levels - 1), lie_steps(study.shares, goals)
        bent = math.ceil(float((ROOM * rows[:, 7] / rows[:, 0]).max()) / step - 1e-9)
        return step * (max(steps, min(bent, study.shares.levels - 1)) if goals.lie is None else steps)
    if goals.lie is None:
        return SCALE * USUAL_LIE
    if not goals.lie <= width:
        raise InputError(f"lie is {goals.lie:g}; no lie is larger than {width:g}. Give a smaller one.")
    return SCALE * goals.lie / width


@dataclass(frozen=True, eq=False)
class Numbers:
    """One study's numbers at one size, ratio and kind of instruments: what is paid and how accurate it is."""

    study: Study
    beliefs: LevelBeliefs
    goals: Goals
    panel: Panel
    players: int
    shortening: float
    ratio: float

    @cached_property
    def answering(self) -> int:
        return self.panel.answering(self.players)

    @cached_property
    def lie(self) -> float:
        return lie_size(self.study, self.goals, self.believed)

    def setting(self, alpha: Floats, epsilon: Floats, clip: Floats | None = None) -> AskedSetting:
        return AskedSetting(
            beliefs=self.beliefs,
            geometry=self.panel.geometry(self.players, self.shortening),
            costs=self.study.costs,
            n=self.answering,
            alpha=alpha,
            epsilon=epsilon,
            beta=self.goals.failure_probability,
            ratio=self.ratio,
            clip=np.ones(len(epsilon)) if clip is None else clip,
            judged=judged(self.study),
            tolerance=self.study.level_tolerance,
            privacy=self.study.declared.costs.privacy,
            assigned=self.study.assigned or not self.study.features,
        )

    def clip(self, times: float, epsilon: Floats) -> Floats:
        """C at each ε: the reach of what can be believed, and a few standard deviations of noise and sampling."""
        s = self.setting(np.array([0.0]), epsilon)
        scale, sampling = surprise_noise(s)
        noise = np.sqrt((self.beliefs.dimension + 2) * scale**2 + sampling**2)
        rows = s.believed
        if self.beliefs.strict:
            return np.asarray(rows[:, 6].max() * (1 + s.most) + times * noise)
        return np.asarray(times * np.sqrt(rows[:, 3].max() + noise**2))

    def weights(self, alpha: Floats, epsilon: Floats, times: float) -> tuple[Floats, Floats]:
        """b, and the most that somebody can be paid, predictions included: α × ε."""
        clip = self.clip(times, epsilon)
        s = self.setting(alpha, epsilon, clip)
        b = least_bonus(s) if self.beliefs.strict else least_weight(s, self.lie)
        gain, loss = self.extremes(clip)
        return b, b * (gain + loss) / (1 - self.study.prediction_bonus)

    def extremes(self, clip: Floats) -> tuple[Floats, Floats]:
        """The most that a score adds and takes away, for a unit of b, at each clip level."""
        s = self.believed[:, :2].reshape(-1, 1)
        # Who answers moves the mean of features, and with it how far apart people are from it.
        spare = 1.0 if self.beliefs.strict or not self.study.features else SPARE
        loss = largest_loss(self.rule, s, clip).max(axis=0) * spare
        return largest_gain(self.rule, s, clip).max(axis=0) * spare, loss

    @cached_property
    def believed(self) -> Floats:
        """What groups of people believe."""
        found = self.panel.believed_by(self.players)
        return np.empty((0, 8)) if found is None else found

    @property
    def clips(self) -> tuple[float, ...]:
        return STRICT_CLIPS if self.beliefs.strict else CLIPS

    @property
    def rule(self) -> str:
        return rule_of(self.beliefs)

    def errors(self, alpha: Floats, epsilon: Floats) -> Floats:
        return error(self.setting(alpha, epsilon), self.goals.accuracy_of)

    @cached_property
    def liars(self) -> Floats:
        """Shares of liars to try: whole numbers of people, or the one that is given."""
        if "absent_share" in self.goals.pins:
            return np.array([self.goals.pins["absent_share"]])
        counts = np.round(np.geomspace(1, max(2.0, self.answering / 20), 20))
        return np.unique(counts) / self.answering

    @cached_property
    def grid(self) -> Floats:
        if self.goals.epsilon is not None:
            return np.array([self.goals.epsilon])
        return np.geomspace(LEAST_EPSILON, MOST_EPSILON, GRID)

    @property
    def budget(self) -> float:
        """What there is for each person."""
        budget = self.goals.budget
        return math.inf if budget is None else budget / self.players * (1 - MARGIN)

    def solution(self, alpha: float, epsilon: float, times: float) -> AskedSolution:
        at, e = np.array([alpha]), np.array([epsilon])
        b = float(self.weights(at, e, times)[0][0, 0]) * (1 + MARGIN)
        clip = self.clip(times, e)
        gain, loss = (float(part[0]) for part in self.extremes(clip))
        bonus = self.study.prediction_bonus
        head = b * (gain + loss) / (1 - bonus)
        left = max(0.0, self.budget - head) if self.goals.budget is not None else 0.0
        return AskedSolution(
            goals=self.goals,
            players=self.players,
            shortening=self.shortening,
            epsilon=epsilon,
            absent_share=alpha,
            ratio=self.ratio,
            clip=float(clip[0]),
            score_weight=b,
            base_payment=b * loss + left,
            prediction_weight=head * bonus / SCALE**2,
            plausible=plausible(self.study, self.setting(at, e, clip)),
            head=head + left,
            error=float(self.errors(at, e)[0, 0]),
        )


def rule_of(beliefs: LevelBeliefs) -> str:
    """The payment rule: of yes and no, or of numbers and ratings."""
    return SERUM if beliefs.strict else OWN_CENTRE


def judged(study: Study) -> bool:
    """Whether averages that nobody thought possible are paid alike."""
    declared = study.declared.beliefs
    if declared.implausible is not None:
        return declared.implausible == "flat"
    return study.shares is not None or declared.plausible is not None


def plausible(study: Study, s: AskedSetting) -> tuple[float, float]:
    """Between what the others' average answer must lie: what is thought possible, and what noise may add."""
    if not judged(study):
        return -math.inf, math.inf
    spare = float(largest_deviation(s)[0])
    return s.beliefs.low - spare, s.beliefs.high + spare


def solve_asked(study: Study, goals: Goals, panel: Panel) -> AskedSolution:
    """The best plan's numbers; Infeasible if there is none, or none better than the centre of people's beliefs."""
    beliefs = study.levels
    if beliefs is None:
        raise InputError("The study does not ask what the others will say.")
    require_slope(beliefs)

    def solve(goals: Goals, players: int) -> AskedSolution | None:
        return _solve(study, beliefs, replace(goals, players=players), panel, players)

    if goals.players is None:
        return _fewest_players(goals, max(4, 2 * study.dimension + 3), solve)
    found = solve(goals, goals.players)
    if found is None:
        raise _infeasible(study, goals, panel, goals.players, solve)
    return found


Solve = Callable[[Goals, int], AskedSolution | None]


def _solve(
    study: Study, beliefs: LevelBeliefs, goals: Goals, panel: Panel, players: int
) -> AskedSolution | None:
    """The best for so many players, of all instruments and ratios."""
    found: list[tuple[float, Numbers, tuple[float, float, float]]] = []
    for shortening in SHORTENINGS if study.features else SHORTENINGS[:1]:
        for ratio in CENTRE_RATIOS if goals.accuracy_of == "centre" else RATIOS:
            numbers = Numbers(study, beliefs, goals, panel, players, shortening, ratio / RATIO_UNIT)
            one = _most_accurate(numbers, numbers.grid) if goals.accuracy is None else _cheapest(numbers)
            if one is not None:
                found.append((one[0], numbers, one[1]))
        if not found:
            break
    if not found:
        return None
    _, numbers, at = min(found, key=lambda one: one[0])
    best = _closer(numbers, at)
    return best if best.error < goals.prior_error(study) else None


def _most_accurate(numbers: Numbers, grid: Floats) -> tuple[float, tuple[float, float, float]] | None:
    """The least error that the money buys, or, where ε is given, the least product of squared error and cost."""
    liars = numbers.liars
    errors, best = numbers.errors(liars, grid), None
    for times in numbers.clips:
        _, head = numbers.weights(liars, grid, times)
        rank = np.where(
            head <= numbers.budget, errors if numbers.goals.epsilon is None else errors * head, np.inf
        )
        i, j = np.unravel_index(int(np.argmin(rank)), rank.shape)
        if math.isfinite(rank[i, j]) and (best is None or rank[i, j] < best[0]):
            best = float(rank[i, j]), (float(liars[i]), float(grid[j]), times)
    return best


def _cheapest(numbers: Numbers) -> tuple[float, tuple[float, float, float]] | None:
    """The least cost with which the accuracy is had."""
    liars, target = numbers.liars, (numbers.goals.error(numbers.study) or math.inf) * (1 - MARGIN)
    grid = numbers.grid
    if numbers.goals.epsilon is None:
        first = [_first(numbers, alpha, target) for alpha in liars]
        grid = np.unique(np.concatenate([grid, [e for e in first if math.isfinite(e)]]))
    enough, best = numbers.errors(liars, grid) <= target * (1 + 1e-12), None
    for times in numbers.clips:
        _, head = numbers.weights(liars, grid, times)
        rank = np.where(enough & (head <= numbers.budget), head, np.inf)
        i, j = np.unravel_index(int(np.argmin(rank)), rank.shape)
        if math.isfinite(rank[i, j]) and (best is None or rank[i, j] < best[0]):
            best = float(rank[i, j]), (float(liars[i]), float(grid[j]), times)
    return best


def _first(numbers: Numbers, alpha: float, target: float) -> float:
    """The least ε that is accurate enough; infinite if none is."""
    at, low, high = np.array([alpha]), LEAST_EPSILON, MOST_EPSILON
    if not float(numbers.errors(at, np.array([high]))[0, 0]) <= target:
        return math.inf
    for _ in range(40):
        middle = math.sqrt(low * high)
        enough = float(numbers.errors(at, np.array([middle]))[0, 0]) <= target
        low, high = (low, middle) if enough else (middle, high)
    return high


def _closer(numbers: Numbers, at: tuple[float, float, float]) -> AskedSolution:
    """With a budget alone, the best on a finer grid, and the largest ε beyond it that the money still buys."""
    alpha, epsilon, times = at
    if numbers.goals.accuracy is None and numbers.goals.epsilon is None:
        step = (MOST_EPSILON / LEAST_EPSILON) ** (1 / (GRID - 1))
        finer = _most_accurate(numbers, np.geomspace(epsilon / step, epsilon * step, GRID))
        alpha, epsilon, times = at if finer is None else finer[1]
        low, high = epsilon, epsilon * step
        for _ in range(30):
            middle = math.sqrt(low * high)
            head = float(numbers.weights(np.array([alpha]), np.array([middle]), times)[1][0, 0])
            low, high = (middle, high) if head <= numbers.budget else (low, middle)
        epsilon = low
    return numbers.solution(alpha, epsilon, times)


def _fewest_players(goals: Goals, few: int, solve: Solve) -> AskedSolution:
    """The fewest who are enough: with more people each costs less, until the budget is spent on too many of them."""
    high, found = few, None
    while found is None and high <= MOST_PLAYERS:
        high *= 2
        found = solve(goals, high)
    if found is None:
        raise Infeasible(
            "no number of players up to a billion meets these goals. Raise the budget or the error."
        )
    low = high // 2
    while high - low > max(1, high // 200):
        middle = (low + high) // 2
        one = solve(goals, middle)
        low, high, found = (middle, high, found) if one is None else (low, middle, one)
    return found


def _infeasible(study: Study, goals: Goals, panel: Panel, players: int, solve: Solve) -> Infeasible:
    """Why not, and what would help: more money, more people, less accuracy, or larger lies."""
    unit, prior = study.response_unit, goals.prior_error(study)
    least = unit * math.sqrt(prior) * (1 - 1e-3)
    asked = (
        f"an error of {number(goals.accuracy)}"
        if goals.accuracy is not None
        else f"an error below {number(least)}, which the centre of people's beliefs has without asking anybody"
    )
    spent = f" and {money(goals.budget, study.currency)}" if goals.budget is not None else ""
    aim, remedies = goals if goals.accuracy is not None else replace(goals, accuracy=least), []
    if goals.budget is not None:
        dearer = solve(replace(aim, budget=None), players)
        if dearer is not None:
            cost = math.ceil(dearer.cost * 100) / 100
            remedies.append(Remedy("budget", cost, f"a budget of {money(cost, study.currency)}"))
        if panel.size is None:
            more = players
            while (
                more <= 64 * players
                and solve(replace(aim, budget=goals.budget / players * more), more) is None
            ):
                more *= 2
            if more <= 64 * players:
                remedies.append(Remedy("players", float(more), f"{more:,} players at as much each"))
    if goals.accuracy is not None and (goals.budget is not None or goals.epsilon is not None):
        looser = solve(replace(goals, accuracy=None), players)
        if looser is not None:
            reached = unit * math.sqrt(looser.error) * (1 + 1e-3)
            remedies.append(Remedy("accuracy", reached, f"an error of {number(reached)}"))
    return Infeasible(f"with {players:,} players{spent} no plan guarantees {asked}.", tuple(remedies))

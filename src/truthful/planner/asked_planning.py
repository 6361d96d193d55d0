"""Plans that ask people what the others will say: privacy, accuracy, and payments.

At each share α of liars, ratio ρ of the second question and clip level C, b must outweigh what a lie saves; the base
payment is then the least with which nobody can owe, and a share of all pay is for predictions. With a budget the
largest affordable ε is the most accurate; with an accuracy the least cost is sought among the ε that meet it, and what
is left of a budget becomes a flat fee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter

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
from truthful.planner.goals import Goals
from truthful.planner.panel import SHORTENINGS, Panel
from truthful.planner.planning import MARGIN, Found, PanelSearch, PanelSolution, round_epsilon, solve_panel
from truthful.planner.share_planning import ROOM, lie_steps
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs

#: Ratios of the second question to try, in units of 1/1024.
RATIOS = (64, 102, 154, 205, 307, 461, 717, 1024)
#: Ratios for a pilot, whose predictions matter more than its answers.
CENTRE_RATIOS = (512, 717, 1024, 1434, 2048, 3072)
#: Clip levels, in standard deviations of the surprise and its errors. Lower ones cost a hundredth less, and move the
#: best answers of people far from the average some points more toward it.
CLIPS = (3.0, 3.5, 4.0, 5.0, 7.0)
#: Clip levels for yes and no, beyond its reach.
STRICT_CLIPS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0)
#: The size from which lies must not pay, of the whole scale, if no goal says.
USUAL_LIE = 0.2
#: Slopes below the first say next to nothing of the others: no promise is made; below the second, a weak one.
LEAST_SLOPE, SMALL_SLOPE = 0.02, 0.1
#: The largest slope: beyond it the centre could not be estimated.
MOST_SLOPE = 0.9
#: Slack for respondents whose features are further apart than planned.
SPARE = 1.02
#: Remedies ask at most this many times the players.
MOST_TIMES = 64


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedSolution(PanelSolution):
    """The numbers of a plan that asks for predictions."""

    rule: str
    ratio: float
    clip: float
    score_weight: float
    base_payment: float
    prediction_weight: float
    plausible: tuple[float, float]

    def solve_again(self, goals: Goals, players: int) -> AskedSolution | None:
        return solve_asked_for(self.study, goals, players, self.panel)


def require_slope(beliefs: LevelBeliefs) -> None:
    """Refuse beliefs with which an answer says too little, or too much, of what a person expects."""
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


@dataclass(frozen=True, eq=False)
class AskedSearch(PanelSearch):
    """Payments and accuracy at one ratio of the second question."""

    ratio: float

    LIARS, GRID, EPSILONS = 20, 72, (2e-3, 5.0)
    ENOUGH = EPSILONS

    @property
    def options(self) -> tuple[float, ...]:
        return STRICT_CLIPS if self.beliefs.strict else CLIPS

    @cached_property
    def beliefs(self) -> LevelBeliefs:
        return _beliefs(self.study)

    @cached_property
    def lie(self) -> float:
        """The size from which no lie may pay, half the scale being 1: as given, in units of the answer or in steps.

        By default, for ratings, it moves what she expects by at least four times as much as that is off a line.
        """
        asked, response, shares = self.goals.lie, self.study.response, self.study.shares
        if shares is not None:
            step, steps = SCALE / (shares.levels - 1), lie_steps(shares, self.goals)
            bent = math.ceil(float((ROOM * self.believed[:, 7] / self.believed[:, 0]).max()) / step - 1e-9)
            return step * (max(steps, min(bent, shares.levels - 1)) if asked is None else steps)
        width = response.high - response.low
        if asked is not None and not asked <= width:
            raise InputError(
                f"lie is {asked:g}; no lie is larger than {width:g}. Give a smaller one.", argument="lie"
            )
        return SCALE * (USUAL_LIE if asked is None else asked / width)

    def setting(self, alpha: Floats, epsilon: Floats, clip: Floats | None = None) -> AskedSetting:
        return AskedSetting(
            study=self.study,
            beliefs=self.beliefs,
            geometry=self.panel.geometry(self.players, self.shortening),
            n=self.answering,
            alpha=alpha,
            epsilon=epsilon,
            beta=self.goals.failure_probability,
            ratio=self.ratio,
            clip=np.ones(len(epsilon)) if clip is None else clip,
            judged=self.judged,
            tolerance=self.study.level_tolerance,
        )

    def clip(self, times: float, epsilon: Floats) -> Floats:
        """C at each ε: the reach of possible beliefs, and a few standard deviations of noise and sampling."""
        s = self.setting(np.array([0.0]), epsilon)
        scale, sampling = surprise_noise(s)
        noise = np.sqrt((self.beliefs.dimension + 2) * scale**2 + sampling**2)
        rows = s.believed
        if self.beliefs.strict:
            return np.asarray(rows[:, 6].max() * (1 + s.most) + times * noise)
        return np.asarray(times * np.sqrt(rows[:, 3].max() + noise**2))

    def weight(self, alpha: Floats, epsilon: Floats, clip: Floats) -> Floats:
        """b: α × ε."""
        s = self.setting(alpha, epsilon, clip)
        return least_bonus(s) if self.beliefs.strict else least_weight(s, self.lie)

    def price(self, alpha: Floats, option: float, epsilon: Floats) -> Floats:
        """The maximum payment, predictions included; the option is the clip level in standard deviations."""
        clip = self.clip(option, epsilon)
        gain, loss = self.extremes(clip)
        return self.weight(alpha, epsilon, clip) * (gain + loss) / (1 - self.study.prediction_bonus)

    def rank(self, errors: Floats, price: Floats) -> Floats:
        return errors * price

    def extremes(self, clip: Floats) -> tuple[Floats, Floats]:
        """The most that a score adds and subtracts per unit of b, at each clip level."""
        s = self.believed[:, :2].reshape(-1, 1)
        # Respondents shift the mean of features, and with it how far apart people are from it.
        spare = 1.0 if self.beliefs.strict or not self.study.features else SPARE
        loss = largest_loss(self.rule, s, clip).max(axis=0) * spare
        return largest_gain(self.rule, s, clip).max(axis=0) * spare, loss

    @cached_property
    def believed(self) -> Floats:
        """Beliefs by groups of people."""
        return np.asarray(self.panel.believed_by(self.players))

    @property
    def rule(self) -> str:
        """The payment rule: for yes and no, or for numbers and ratings."""
        return SERUM if self.beliefs.strict else OWN_CENTRE

    @property
    def judged(self) -> bool:
        """Whether everybody is paid alike if the average is one that nobody thought possible."""
        declared = self.study.declared.beliefs
        if declared.implausible is not None:
            return declared.implausible == "flat"
        return self.study.shares is not None or declared.plausible is not None

    def errors(self, alpha: Floats, epsilon: Floats) -> Floats:
        return error(self.setting(alpha, epsilon), self.goals.accuracy_of)

    def least(self) -> Found | None:
        """On the grid, the least cost of the accuracy, or the least error within the budget."""
        found = self.most_accurate(self.grid) if self.goals.accuracy is None else self.cheapest()
        return min(found, key=itemgetter(0), default=None)

    def closer(self, found: Found) -> AskedSolution:
        """With a budget alone, refine on a finer grid, then take the largest affordable ε beyond."""
        if self.goals.accuracy is not None or self.goals.epsilon is not None:
            return self._solution(*found[1:])
        around = np.geomspace(found[3] / self.step, found[3] * self.step, self.GRID)
        _, alpha, times, epsilon = min(self.most_accurate(around), key=itemgetter(0), default=found)
        return self._solution(alpha, times, self.last_affordable(alpha, times, epsilon))

    def _solution(self, alpha: float, times: float, epsilon: float) -> AskedSolution:
        epsilon = round_epsilon(self.goals, epsilon)
        at, e = np.array([alpha]), np.array([epsilon])
        clip, bonus = self.clip(times, e), self.study.prediction_bonus
        b = self.weight(at, e, clip).item() * (1 + MARGIN)
        gain, loss = (part.item() for part in self.extremes(clip))
        price = b * (gain + loss) / (1 - bonus)
        left = self.remaining(price)
        return AskedSolution(
            **self.common_fields(alpha, epsilon, price + left),
            rule=self.rule,
            ratio=self.ratio,
            clip=clip.item(),
            score_weight=b,
            base_payment=b * loss + left,
            prediction_weight=price * bonus / SCALE**2,
            plausible=plausible(self.setting(at, e, clip)),
        )


def plausible(s: AskedSetting) -> tuple[float, float]:
    """The range of plausible average answers: what is thought possible, widened by noise."""
    if not s.judged:
        return -math.inf, math.inf
    spare = float(largest_deviation(s)[0])
    return s.beliefs.low - spare, s.beliefs.high + spare


def solve_asked(study: Study, goals: Goals, panel: Panel) -> AskedSolution:
    """The best plan's numbers; Infeasible if there is none, or none better than the centre of people's beliefs."""
    require_slope(_beliefs(study))
    return solve_panel(
        study,
        goals,
        panel,
        solve_asked_for,
        first=2 * max(4, 2 * study.dimension + 3),
        close=200,
        quick=solve_asked_for,
        most=MOST_TIMES * (goals.players or 1),
        known="the centre of people's beliefs",
    )


def _beliefs(study: Study) -> LevelBeliefs:
    if study.levels is None:
        raise InputError("The study does not ask what the others will say.")
    return study.levels


def solve_asked_for(study: Study, goals: Goals, players: int, panel: Panel) -> AskedSolution | None:
    """The best solution for this many players over instruments and ratios; None if there is no plan."""
    goals, found = replace(goals, players=players), []
    for shortening in SHORTENINGS if study.features else SHORTENINGS[:1]:
        for ratio in CENTRE_RATIOS if goals.accuracy_of == "centre" else RATIOS:
            search = AskedSearch(study, goals, panel, players, shortening, ratio / RATIO_UNIT)
            if (least := search.least()) is not None:
                found.append((least, search))
        if not found:
            return None
    least, search = min(found, key=lambda pair: pair[0][0])
    best = search.closer(least)
    return best if best.error < goals.prior_error(study) else None

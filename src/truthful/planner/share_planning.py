"""Plans for yes or no and for ratings: privacy, accuracy, and the least bonus with which the truth pays.

At each share α of liars and margin s the bonus must outweigh what a lie saves: B·gain(ε) ≥ τ·h(ε) + rounding. With a
budget the largest such ε is the most accurate; with an accuracy the least bonus is sought among the ε that meet it, and
what is left of a budget becomes a flat fee: it gives a person who believes otherwise little reason to lie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from truthful.bounds.share_bounds import ShareSetting, error, gain
from truthful.check import Floats
from truthful.errors import InputError
from truthful.noise import NORMS
from truthful.one_release import EPSILON_RANGE
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.panel import SHORTENINGS, Panel
from truthful.planner.planning import (
    MARGIN,
    Found,
    PanelSearch,
    PanelSolution,
    bisect,
    round_epsilon,
    solve_panel,
)
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

#: Margins to try.
MARGINS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.25)
#: How much of the truth's gain may be lost to shares that are implausible by chance: the first value with which a share
#: of 0 is implausible too, so that all saying no wins nothing; else the first.
SPARED = (0.01, 0.03, 0.1)
#: A share of 0 is implausible if the tolerance is below this part of the least share thought possible.
NEAR_ZERO = 0.9
#: By default a lie must move her prediction by this many times its gap to what her answer really expects.
ROOM = 4.0


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareSolution(PanelSolution):
    """The numbers of a plan for yes or no, or for ratings."""

    norm: str
    margin: float
    tolerance: float
    bonus: float
    flat: float

    @property
    def minimised(self) -> str:
        return "error" if self.goals.accuracy is None else "bonus"

    def solve_again(self, goals: Goals, players: int) -> ShareSolution | None:
        return solve_shares_for(self.study, goals, players, self.panel)


@dataclass(frozen=True, eq=False)
class ShareSearch(PanelSearch):
    """Gains and errors on a grid of ε."""

    norm: str
    spared: float = SPARED[0]

    LIARS, GRID, EPSILONS, ENOUGH = 28, 96, (1e-3, 5.0), EPSILON_RANGE

    @property
    def options(self) -> tuple[float, ...]:
        return MARGINS

    @cached_property
    def beliefs(self) -> ShareBeliefs:
        return _beliefs(self.study)

    def setting(
        self, alpha: Floats, margin: float, epsilon: Floats, tolerance: float = math.inf
    ) -> ShareSetting:
        return ShareSetting(
            study=self.study,
            beliefs=self.beliefs,
            geometry=self.panel.geometry(self.players, self.shortening, self.norm),
            n=self.answering,
            alpha=alpha,
            epsilon=epsilon,
            beta=self.goals.failure_probability,
            margin=margin,
            tolerance=tolerance,
            belief_gap=self.study.tolerance,
        )

    @cached_property
    def steps(self) -> int:
        return lie_steps(self.beliefs, self.goals)

    def price(self, alpha: Floats, option: float, epsilon: Floats) -> Floats:
        """B with which the truth pays for everybody of cost τ or less; the option is a margin."""
        s = self.setting(alpha, option, epsilon)
        earned = gain(s, self.steps) * (1 - self.spared * self._tolerates)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(earned > 0, s.saved / earned, np.inf)

    @property
    def _tolerates(self) -> bool:
        return self.study.declared.beliefs.implausible != "paid"

    def errors(self, alpha: Floats, epsilon: Floats) -> Floats:
        return error(self.setting(alpha, 0.0, epsilon), self.goals.accuracy_of)

    def tolerance(self, alpha: float, margin: float, epsilon: float) -> float:
        """How far a share must lie beyond those thought possible to be implausible.

        The least distance at which chance costs the truth no more of its gain than may be lost.
        """
        if not self._tolerates:
            return math.inf

        def truth_gain(tolerance: float) -> float:
            s = self.setting(np.array([alpha]), margin, np.array([epsilon]), tolerance)
            return gain(s, self.steps).item()

        enough = truth_gain(math.inf) * (1 - self.spared)
        _, least = bisect(lambda tolerance: truth_gain(tolerance) >= enough, 1e-3, 1.0, 30)
        return math.ceil(least * 1000) / 1000  # in tenths of a percentage point, which people can read

    def best(self) -> ShareSolution | None:
        """The least bonus that meets the accuracy, or the least error within the budget."""
        if self.goals.accuracy is not None:
            found = list(self.cheapest())
        else:
            found = [self._closer(*point) for point in self.most_accurate(self.grid)]
        return self._solution(*min(found)[1:]) if found else None

    def _closer(self, rank: float, alpha: float, margin: float, epsilon: float) -> Found:
        if self.goals.epsilon is not None:
            return rank, alpha, margin, epsilon
        most = self.last_affordable(alpha, margin, epsilon)
        return self.errors(np.array([alpha]), np.array([most])).item(), alpha, margin, most

    def _solution(self, alpha: float, margin: float, epsilon: float) -> ShareSolution:
        epsilon = round_epsilon(self.goals, epsilon)
        bonus = self.price(np.array([alpha]), margin, np.array([epsilon])).item() * (1 + MARGIN)
        flat = self.remaining(bonus)
        if self.goals.accuracy is None:
            bonus, flat = bonus + flat, 0.0  # the money has no other use
        return ShareSolution(
            **self.common_fields(alpha, epsilon, bonus + flat),
            norm=self.norm,
            margin=margin,
            tolerance=self.tolerance(alpha, margin, epsilon),
            bonus=bonus,
            flat=flat,
        )


def lie_steps(
    beliefs: ShareBeliefs, goals: Goals, believed: Floats | None = None, belief_gap: float = 0.0
) -> int:
    """The least number of steps from which no lie may pay: as given; else one for yes and no.

    For ratings about a quarter of all steps, and enough to move her prediction by four times its distance from what her
    answer really expects (the gap in `believed`, plus the belief_gap to tolerate): half of what a lie would lose is
    then left.
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
            "Give a whole number of them.",
            argument="lie",
        )
    return int(goals.lie)


def solve_shares(study: Study, goals: Goals, panel: Panel) -> ShareSolution:
    """The best plan's numbers; Infeasible if there is none, or none better than the middle of what is believed."""
    goals, levels = _with_lie(study, goals, panel), _beliefs(study).levels
    paying = "the truth" if levels == 2 else f"no lie of {goals.lie:g} steps or more"
    changed = "" if levels == 2 else " (--lie changes it)"
    return solve_panel(
        study,
        goals,
        panel,
        solve_shares_for,
        first=2 * max(2, math.ceil((2 * study.dimension + 2) / panel.response_share)),
        close=500,
        quick=_solve_quickly,
        most=MOST_PLAYERS,
        known="the middle of what is believed",
        paying=f", with {paying} paying{changed}",
    )


def usual_rule(study: Study, panel: Panel, players: int, goals: Goals, margin: float) -> dict[str, Any]:
    """The norm and tolerance of a plan whose weight is given: the norm with the smaller guaranteed error, unless one is
    given; an infinite tolerance if implausible shares are paid like others.
    """
    goals = _with_lie(study, goals, panel)
    searches = [ShareSearch(study, goals, panel, players, 1.0, norm) for norm in _norms(study, goals)]
    best = min(searches, key=lambda search: search.errors(search.liars, search.grid).item())
    return {"norm": best.norm, "tolerance": best.tolerance(best.liars.item(), margin, best.grid.item())}


def _beliefs(study: Study) -> ShareBeliefs:
    if study.shares is None:
        raise InputError("The study asks for numbers.")
    return study.shares


def _with_lie(study: Study, goals: Goals, panel: Panel) -> Goals:
    """The goals, with the size from which lies must not pay."""
    steps = lie_steps(_beliefs(study), goals, panel.believed, study.tolerance)
    return replace(goals, lie=float(steps))


def _norms(study: Study, goals: Goals) -> tuple[str, ...]:
    """Norms to choose from; without features there is one coordinate, and they agree."""
    if goals.norm is not None:
        return (goals.norm,)
    return NORMS if study.features else NORMS[:1]


def solve_shares_for(study: Study, goals: Goals, players: int, panel: Panel) -> ShareSolution | None:
    """Solve for this many players, with all saying no implausible where possible; None if there is no plan."""
    goals = _with_lie(study, goals, panel)
    first, low = _solve_sparing(study, goals, players, panel, SPARED[0]), _beliefs(study).low
    if first is None or math.isinf(first.tolerance) or first.tolerance < NEAR_ZERO * low or not low > 0:
        return first
    for spared in SPARED[1:]:
        sparing = _solve_sparing(study, goals, players, panel, spared)
        if sparing is not None and sparing.tolerance < NEAR_ZERO * low:
            return sparing
    return first


def _solve_quickly(study: Study, goals: Goals, players: int, panel: Panel) -> ShareSolution | None:
    """Solve with one kind of instruments, whether or not all saying no is implausible."""
    return _solve_sparing(study, goals, players, panel, SPARED[0], SHORTENINGS[:1])


def _solve_sparing(
    study: Study,
    goals: Goals,
    players: int,
    panel: Panel,
    spared: float,
    shortenings: tuple[float, ...] = SHORTENINGS,
) -> ShareSolution | None:
    """The best over norms and, where more accurate, other instruments."""
    goals = replace(goals, players=players)

    def solve(norm: str, shortening: float) -> ShareSolution | None:
        return ShareSearch(study, goals, panel, players, shortening, norm, spared).best()

    def rank(solution: ShareSolution) -> float:
        return solution.error if goals.accuracy is None else solution.bonus

    found = [
        solution for norm in _norms(study, goals) if (solution := solve(norm, shortenings[0])) is not None
    ]
    if not found:
        return None
    best = min(found, key=rank)
    for shortening in shortenings[1:] if study.features else ():
        best = min((best, solve(best.norm, shortening) or best), key=rank)
    return best if best.error < goals.prior_error(study) else None

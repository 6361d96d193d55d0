"""What the chart of a plan's frontier shows, as numbers and as words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from textwrap import shorten

import numpy as np

from truthful.deterrence import Deterrence
from truthful.mechanism import Mechanism
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.planner import Goals
from truthful.planner.frontier import FrontierPoint, Offer, budgets_around, frontier, rivals
from truthful.planner.infeasible import prior_error
from truthful.planner.panel import panel_of_design
from truthful.study import Study
from truthful.words import money, number

OURS, PAPER, PRIOR = (
    "truthful, at its best",
    "the paper's mechanism, at its best",
    "answering with the prior mean, asking nobody",
)
LONGEST_TITLE = 84

Curve = list[tuple[float, Offer]]


@dataclass(frozen=True)
class Picture:
    """What the chart shows, errors in raw response units: budget, error and epsilon are the plan's own.

    error: None where none is guaranteed. prior: the error of the prior mean. lie: the largest that may pay.
    capped: whether our budgets are never exceeded; else they hold on average.
    """

    study: Study
    players: int
    accuracy_of: str
    points: tuple[FrontierPoint, ...]
    prior: float
    budget: float
    error: float | None
    epsilon: float
    lie: float
    capped: bool

    @property
    def ours(self) -> Curve:
        """Our best plans: budgets, and what each buys."""
        return [(point.budget, point.ours) for point in self.points if point.ours is not None]

    @property
    def paper(self) -> Curve:
        """The paper's mechanism."""
        return [(point.budget, point.paper) for point in self.points if point.paper is not None]


def picture(plan: Plan) -> Picture:
    """The plan among what other budgets would buy, for its own goals; if it has none, for its own lie size and cost."""
    study, promised, mechanism, solved = plan.study, plan.guarantees, plan.number_mechanism, plan.answer
    cost = promised.budget.cap or promised.budget.expected or 1.0
    if solved is not None:
        goals = solved.goals
        pairs = rivals((solved.best, *solved.others))
    else:
        goals = _goals(plan, mechanism, cost)
        peers = mechanism.peers if isinstance(mechanism, Mechanism) else mechanism.estimator
        pairs = [(mechanism.estimator, peers)]
    accuracy = promised.accuracy
    return Picture(
        study=study,
        players=plan.players,
        accuracy_of=goals.accuracy_of,
        points=frontier(study, goals, plan.players, budgets_around(cost), pairs),
        prior=study.response_unit * math.sqrt(prior_error(study, goals)),
        budget=cost,
        error=accuracy.rmse if goals.accuracy_of == "coefficients" else accuracy.prediction_rmse,
        epsilon=mechanism.epsilon,
        lie=study.response_unit * goals.lie_size(study),
        capped=goals.payments == "never-negative",
    )


def _goals(plan: Plan, mechanism: OneRelease | Mechanism, cost: float) -> Goals:
    """What would be asked for, where a plan's numbers were given: as much deterred, at the same cost."""
    panel = plan.panel
    if panel is None and mechanism.estimator == "instruments":
        # Raises, with what to do, where only the people themselves could tell.
        panel = panel_of_design(plan.study, plan.response_share)
    return Goals(
        players=plan.players,
        budget=cost,
        lie=_lie_without_clip(plan, mechanism),
        rule=mechanism.rule,
        payments=mechanism.payments,
        failure_probability=plan.failure_probability,
        peers="halves" if isinstance(mechanism, Mechanism) else mechanism.peers,
        panel=panel,
    )


def _lie_without_clip(plan: Plan, mechanism: OneRelease | Mechanism) -> float | None:
    """The lie that at c = R leaves as much undeterred of a typical person as the plan's does at its clip level."""
    promised, beliefs = plan.guarantees.truthfulness, plan.study.beliefs
    lie, length, noise = promised.lie, promised.typical_length, promised.typical_noise
    R = beliefs.radius
    if isinstance(mechanism, Mechanism) or lie is None or length is None or noise is None:
        return lie
    if not mechanism.clipped or not mechanism.clip < R:
        return lie
    person = Deterrence(beliefs, np.array([length]), np.array([length]))
    free = person.undeterred(lie, mechanism.clip, noise)
    if not free < person.undeterred(2 * R, R, noise):
        return lie * R / mechanism.clip
    from scipy.optimize import brentq  # takes long to load, and most charts need none

    return float(brentq(lambda size: person.undeterred(size, R, noise) - free, 0.0, 2 * R))


def describe(shown: Picture) -> str:
    """The chart in words."""
    currency = shown.study.currency
    said = [f"The guaranteed error of {shown.accuracy_of} against the budget, both on logarithmic scales."]
    if shown.error is not None:
        said.append(f"This plan guarantees {_bought(shown.budget, shown.error, shown.epsilon, currency)}.")
    for name, curve in ((OURS, shown.ours), (PAPER, shown.paper)):
        if curve:
            first, last = (
                _bought(budget, offer.error, offer.epsilon, currency)
                for budget, offer in (curve[0], curve[-1])
            )
            said.append(f"{_sentence(name)}: from {first} to {last}.")
    said.append(f"{_sentence(PRIOR)}: {number(shown.prior)}.")
    return " ".join(said)


def _bought(budget: float, error: float, epsilon: float, currency: str) -> str:
    return f"{number(error)} for {money(budget, currency)} at ε {epsilon:.2g}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def title(shown: Picture) -> str:
    """At the head of the chart."""
    return shorten(
        f"What money buys: {shown.study.name}, {shown.players:,} players", LONGEST_TITLE, placeholder=" …"
    )

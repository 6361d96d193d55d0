"""A plan's proved guarantees next to the paper's published ones, at the same parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from truthful.bounds import proved, published
from truthful.guarantees import setting
from truthful.plan import Plan, solved
from truthful.planner import Infeasible
from truthful.words import money, number, percent

STEEPER = 0.9


@dataclass(frozen=True)
class Beside:
    """One number of a guarantee in words, as proved and as published."""

    guarantee: str
    number: str
    proved: str
    published: str


def beside_published(plan: Plan) -> tuple[Beside, ...]:
    """The numbers of the five guarantees, in their order, proved and as the paper's formulas give them."""
    ours = setting(plan.study, plan.mechanism, plan.players, plan.absent_share, plan.failure_probability)
    theirs = replace(ours, gamma=published_penalty(plan))
    study = plan.study
    unit, currency = study.response_unit, study.currency

    def both(guarantee: str, what: str, function: str, show: Callable[[float], str]) -> Beside:
        values = (float(getattr(module, function)(s)) for module, s in ((proved, ours), (published, theirs)))
        return Beside(guarantee, what, *(show(v) if math.isfinite(v) else "no bound" for v in values))

    return (
        both("privacy", "total ε", "privacy", lambda v: f"{v:.4g}"),
        both(
            "truthfulness",
            "a lie pays up to a change in prediction of",
            "lie_size",
            lambda v: number(unit * v),
        ),
        both("truthfulness", "and gains at most", "truthfulness", lambda v: money(v, currency)),
        both("accuracy", "error of coefficients", "accuracy", lambda v: number(unit * math.sqrt(v))),
        both("participation", "share who gain by joining", "joining_threshold", lambda v: _share(plan, v)),
        both("budget", "on average at most", "budget", lambda v: money(v, currency)),
        both("budget", "for certain at most", "budget_cap", lambda v: money(v, currency)),
    )


def published_penalty(plan: Plan) -> float:
    """The paper's γ: the plan's own, or the one at which the paper's bound on the error is least."""
    if plan.mechanism.regularization is not None:
        return plan.mechanism.regularization
    s = setting(plan.study, plan.mechanism, plan.players, plan.absent_share, plan.failure_probability)
    tried = np.geomspace(1e-2, 1e3 * plan.players, 2000)
    return float(tried[np.argmin(published.accuracy(s.at(gamma=tried)))])


def _share(plan: Plan, threshold: float) -> str:
    return percent(float(plan.study.costs.cdf(threshold)))


def steeper(plan: Plan) -> Plan | None:
    """The same goals with peer predictions that follow the truth more steeply; None where that is not to be had.

    Less noise for the halves makes predictions follow answers, so that a lie of a given size in predictions is a
    smaller one in answers. The published estimate pays for it with a little accuracy.
    """
    answered = plan.answer
    if (
        answered is None
        or plan.mechanism.payments != "never-negative"
        or answered.goals.least_slope >= STEEPER
    ):
        return None
    try:
        return solved(plan.study, replace(answered.goals, least_slope=STEEPER))
    except Infeasible:
        return None

"""A plan's proved guarantees next to the paper's published ones, at the same parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.bounds import Setting, published
from truthful.formatting import money, number, percent
from truthful.guarantees import setting
from truthful.plan import Plan


@dataclass(frozen=True)
class Beside:
    """One number of a guarantee in words, as proved and as published."""

    guarantee: str
    number: str
    proved: str
    published: str


def beside_published(plan: Plan) -> tuple[Beside, ...]:
    """The numbers of the five guarantees, in their order, proved and as the paper's formulas give them."""
    theirs = _papers_setting(plan).at(gamma=published_penalty(plan))
    found = plan.guarantees
    ours = {
        "privacy": found.privacy.epsilon,
        "lie_size": found.truthfulness.lie,
        "truthfulness": found.truthfulness.slack,
        "accuracy": found.accuracy.mean_squared_error,
        "joining_threshold": found.participation.cost_threshold,
        "budget": found.budget.expected,
        "budget_cap": found.budget.cap,
    }
    study = plan.study
    unit, currency = study.response_unit, study.currency

    def both(guarantee: str, what: str, function: str, show: Callable[[float], str]) -> Beside:
        own = ours[function]
        values = (math.inf if own is None else own, float(getattr(published, function)(theirs)))
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
    """The paper's γ: the one at which the paper's bound on the error is least."""
    s = _papers_setting(plan)
    tried = np.geomspace(1e-2, 1e3 * plan.players, 2000)
    return float(tried[np.argmin(published.accuracy(s.at(gamma=tried)))])


def _papers_setting(plan: Plan) -> Setting:
    """The plan's numbers, at which the paper's formulas for random halves are evaluated.

    The paper pays everybody the same base: that of a typical person, where ours follows the length of features.
    """
    mechanism = plan.number_mechanism
    s = setting(plan.study, mechanism, plan.answering, plan.absent_share, plan.failure_probability)
    length = plan.guarantees.truthfulness.typical_length or 1.0
    return s.at(a=float(mechanism.base(np.array(length))))


def _share(plan: Plan, threshold: float) -> str:
    return percent(float(plan.study.costs.cdf(threshold)))

"""What more money or more people would buy of a plan for yes or no, or for ratings."""

from __future__ import annotations

import math
from dataclasses import replace

from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.infeasible import Infeasible
from truthful.planner.panel import Panel
from truthful.planner.planner import STEP, Worth
from truthful.planner.shares import ShareSolution, solve_shares
from truthful.study import Study


def share_worth(study: Study, found: ShareSolution, panel: Panel) -> Worth:
    """By how much a twentieth more money, or players, changes the error; or, where an accuracy is asked, the cost.

    With both an accuracy and a budget more of either only makes the flat fee larger: nothing is told.
    """
    goals, n = found.goals, found.players
    more = round(n * (1 + STEP))
    crowd = _solved(study, replace(goals, players=more), panel) if more <= MOST_PLAYERS else None
    if goals.accuracy is not None:
        saved = None if crowd is None or goals.budget is not None else (crowd.cost - found.cost) / (more - n)
        return Worth("cost", None, saved)
    if goals.budget is None:
        return Worth("error", None, None)
    richer = _solved(study, replace(goals, players=n, budget=goals.budget * (1 + STEP)), panel)

    def per(other: ShareSolution | None, units: float) -> float | None:
        if other is None:
            return None
        change = study.response_unit * (math.sqrt(other.error) - math.sqrt(found.error))
        return change / units or None

    return Worth("error", per(richer, goals.budget * STEP), per(crowd, more - n))


def _solved(study: Study, goals: Goals, panel: Panel) -> ShareSolution | None:
    try:
        return solve_shares(study, goals, panel)
    except Infeasible:
        return None

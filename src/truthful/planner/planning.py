"""What more money or more people would buy of a plan for yes or no, for ratings, or one that asks for predictions."""

from __future__ import annotations

import math
from dataclasses import replace

from truthful.planner.asked_planning import AskedSolution, solve_asked
from truthful.planner.goals import MOST_PLAYERS, Goals
from truthful.planner.number_planning import STEP, Infeasible, Worth
from truthful.planner.panel import Panel
from truthful.planner.share_planning import ShareSolution, solve_shares
from truthful.study import Study

PanelSolution = ShareSolution | AskedSolution


def solution_worth(study: Study, found: PanelSolution, panel: Panel) -> Worth:
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

    def change(other: PanelSolution) -> float:
        return study.response_unit * (math.sqrt(other.error) - math.sqrt(found.error))

    # More money is never worse: it need not be spent.
    money = None if richer is None else min(0.0, change(richer)) / (goals.budget * STEP)
    people = None if crowd is None else change(crowd) / (more - n)
    return Worth("error", money or None, people or None)


def _solved(study: Study, goals: Goals, panel: Panel) -> PanelSolution | None:
    solve = solve_shares if study.levels is None else solve_asked
    try:
        return solve(study, goals, panel)
    except Infeasible:
        return None

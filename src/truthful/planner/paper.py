"""The paper's own mechanism at its best parameters, under bounds that hold: to compare plans with, never to run.

Ridge regression with one penalty γ for the public estimate and both halves, ε split evenly, the rule `brier`, payments
rational in expectation, and players scored against q = E[θ·x | x, ŷ] although ridge regression shrinks. What is left to
choose is chosen best: γ, α, ε, and the least a and b that deter lies beyond the goals' size.
"""

from __future__ import annotations

from dataclasses import replace

from truthful.planner.goals import Goals
from truthful.planner.solve import Solution, solve_pair
from truthful.study import Study

PAIR = ("ridge-free", "ridge-unmatched")
EVEN_SPLIT = 0.5


def paper_solution(study: Study, goals: Goals, players: int) -> Solution | None:
    """The most accurate that the budget buys, or the cheapest for the goals where they name none.

    None unless features are uniform on the unit ball: the paper has no result for others. Infinite error and cost if
    no payments within the budget deter lies.
    """
    if study.design.kind != "unit-ball":
        return None
    return solve_pair(study, replace(paper_goals(goals), players=players), players, PAIR)


def paper_goals(goals: Goals) -> Goals:
    """The same goals, with what the paper's mechanism leaves no choice of. A budget stands before an accuracy."""
    return replace(
        goals,
        accuracy=goals.accuracy if goals.budget is None else None,
        estimator=None,
        peer_estimator=None,
        rule="brier",
        payments="expected",
        peers="halves",
        panel=None,
        pins={"public_share": EVEN_SPLIT},
    )

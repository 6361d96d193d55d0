"""What a player who looks only to her payment would report: under this plan, and under the paper's mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.agents import Game, best_reports
from truthful.beliefs import IDENTITY
from truthful.check import Floats
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.payments import lengths
from truthful.plan import Plan
from truthful.simulation.predictors import own_predictor

PEOPLE, ANSWERS = 6, 11
# Corollary 1 at δ = ¼: γ = n^(1−δ/2).
PAPERS_PENALTY = 7 / 8


@dataclass(frozen=True)
class BestResponse:
    """The furthest that any player's best report is from the truth, if all others are truthful.

    `move` is in own predictions, `lie` in raw units of the answer, `gain` the most it earns her over the truth.
    """

    move: float
    lie: float
    gain: float


def matched(plan: Plan, game: Game, features: Floats) -> BestResponse:
    """Under this plan: players are scored against what truthful peers predict on average, bias and all."""
    x, y = _audience(plan, features)

    def own(reports: Floats) -> Floats:
        return game.own_prediction(x, reports)

    return _searched(plan, own, own(y), y)


def unmatched(plan: Plan, features: Floats) -> BestResponse:
    """Under the paper's: peers are a ridge that shrinks by 1 − γκ, and she is scored against E[θ·x | x, ŷ] (E21)."""
    n, beliefs = plan.players, plan.study.beliefs
    x, y = _audience(plan, features)
    r, table = lengths(x), own_predictor(beliefs, IDENTITY, 0.0, 0.0)
    kept = shrinkage_factor(n // 2, n**PAPERS_PENALTY, beliefs.dimension)

    def own(reports: Floats) -> Floats:
        return table(r, reports, np.zeros(len(r)))

    return _searched(plan, own, kept * own(y), y)


def _audience(plan: Plan, features: Floats) -> tuple[Floats, Floats]:
    """Each of a few people with every answer she can have, in steps: |y| ≤ R‖x‖ + M."""
    beliefs, x = plan.study.beliefs, features
    edge = beliefs.radius * lengths(x) + beliefs.noise_bound
    answers = edge[:, None] * np.linspace(-1, 1, ANSWERS)
    return np.repeat(x, ANSWERS, axis=0), answers.ravel()


def _searched(plan: Plan, own: Callable[[Floats], Floats], expected: Floats, truth: Floats) -> BestResponse:
    best = best_reports(own, expected, truth, plan.study.beliefs.response_bound)
    said, meant = own(best), own(truth)
    gain = (meant - expected) ** 2 - (said - expected) ** 2
    return BestResponse(
        move=float(np.abs(said - meant).max()),
        lie=float(np.abs(best - truth).max()) * plan.study.response_unit,
        gain=float(gain.max()) * plan.mechanism.score_weight,
    )

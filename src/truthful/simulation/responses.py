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
from truthful.slope import typical

PEOPLE, ANSWERS = 6, 11
#: Answers of the typical person.
STEPS = 41
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
    x, y = _audience(plan, features)
    r, table = lengths(x), own_predictor(plan.study.beliefs, IDENTITY, 0.0, 0.0)

    def own(reports: Floats) -> Floats:
        return table(r, reports, np.zeros(len(r)))

    return _searched(plan, own, _kept(plan) * own(y), y)


@dataclass(frozen=True, eq=False)
class Reports:
    """What pays a person most to report for every answer that she can have, if the others are truthful: raw units.

    Her features are of typical length, and the middle of the range is expected of her. within: the least and the most
    that she can report without moving her prediction by more than the guaranteed D; None if everything is.
    """

    truth: Floats
    ours: Floats
    papers: Floats
    within: tuple[Floats, Floats] | None


def typical_reports(plan: Plan) -> Reports:
    """The best reports of a typical person, under this plan and under the paper's mechanism."""
    study, beliefs = plan.study, plan.study.beliefs
    r, scale, curve = typical(study, plan.mechanism, plan.players)
    edge = beliefs.radius * r + beliefs.noise_bound
    y = np.linspace(-edge, edge, STEPS)

    def ours(reports: Floats) -> Floats:
        return beliefs.prediction(r, reports, curve, scale)

    def papers(reports: Floats) -> Floats:
        return beliefs.prediction(r, reports)

    def raw(values: Floats) -> Floats:
        return np.asarray((study.response.low + study.response.high) / 2 + study.response_unit * values)

    q, D = ours(y), plan.guarantees.truthfulness.lie
    within = None
    if D is not None and q[-1] - q[0] > D:
        within = raw(np.interp(q - D, q, y)), raw(np.interp(q + D, q, y))
    return Reports(
        truth=raw(y),
        ours=raw(best_reports(ours, q, y, beliefs.response_bound)),
        papers=raw(best_reports(papers, _kept(plan) * papers(y), y, beliefs.response_bound)),
        within=within,
    )


def _kept(plan: Plan) -> float:
    """1 − γκ: what the paper's ridge leaves of a truthful half's predictions."""
    n = plan.players
    return float(shrinkage_factor(n // 2, n**PAPERS_PENALTY, plan.study.dimension))


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

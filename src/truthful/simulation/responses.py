"""What a player who looks only to her payment would report: under this plan, and under the paper's mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from truthful.agents import Game, best_reports
from truthful.beliefs import IDENTITY
from truthful.check import Floats
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.payments import lengths
from truthful.plan import Plan
from truthful.simulation.features import Features
from truthful.simulation.found import UNKNOWN, Found
from truthful.simulation.peers import Expected, drawn_halves, expected, ridge
from truthful.simulation.predictors import own_predictor
from truthful.slope import typical

#: Whose best reports are sought.
PEOPLE = 48
#: So many standard errors of twelve halves are more than luck.
SURE = 4
#: Answers of the typical person.
STEPS = 41
# Corollary 1 at δ = ¼: γ = n^(1−δ/2).
PAPERS_PENALTY = 7 / 8


@dataclass(frozen=True)
class BestResponse:
    """The best lie that was found among a few people, if all others are truthful.

    It was sought against one half of the drawn peers and tried against the other. `move` is how far it moves her own
    prediction, `lie` how far it is from her answer in raw units, `gain` what it earns her over the truth.
    """

    move: Found
    lie: float
    gain: Found

    @property
    def pays(self) -> bool:
        """Whether what it gains is more than luck: by chance alone it would seem so once in a thousand times."""
        return self.gain.value > SURE * self.gain.error


def best_responses(
    plan: Plan, game: Game, features: Features, rng: np.random.Generator
) -> tuple[BestResponse, BestResponse]:
    """Under this plan, and under the paper's, whose peers are a ridge and who scores against E[θ·x | x, ŷ] (E21).

    The paper's peers are given no noise: theirs has mean 0, and is not clipped.
    """
    beliefs, n = plan.study.beliefs, plan.players
    x = features(rng, PEOPLE)
    theta = beliefs.prior.sample(rng, beliefs.dimension, PEOPLE)
    y = (x * theta).sum(axis=1) + beliefs.noise.sample(rng, PEOPLE)
    halves = drawn_halves(plan, features, rng)
    papers = [
        replace(half, A=ridge(half.gram, n**PAPERS_PENALTY), noise=np.zeros_like(half.noise))
        for half in halves
    ]
    r, table = lengths(x), own_predictor(beliefs, IDENTITY, 0.0, 0.0)
    peers = expected(beliefs, halves, x, y, clipped=plan.mechanism.payments == "never-negative")
    return (
        _best(plan, lambda reports: game.own_prediction(x, reports), peers, y),
        _best(
            plan,
            lambda reports: table(r, reports, np.zeros(PEOPLE)),
            expected(beliefs, papers, x, y, clipped=False),
            y,
        ),
    )


def _best(plan: Plan, own: Callable[[Floats], Floats], peers: Expected, truth: Floats) -> BestResponse:
    """A lie that moves q by Δ gains b(2(p̄ − q)Δ − Δ²)."""
    q = own(truth)
    (sought, off), (tried, error) = (peers.mean(slice(start, None, 2)) for start in (0, 1))
    known = ~np.isnan(sought + tried)
    if not known.any():
        return BestResponse(UNKNOWN, np.nan, UNKNOWN)
    sought = np.where(known, sought, q)
    best = best_reports(own, sought, truth, plan.study.beliefs.response_bound)
    moves = own(best) - q
    who = _most_promising(moves, 2 * (sought - q) * moves - moves**2, np.where(known, off, np.inf))
    move = float(moves[who])
    gain = Found(2 * float(tried[who] - q[who]) * move - move**2, 2 * abs(move) * float(error[who]))
    return BestResponse(
        move=Found(move, float(off[who])),
        lie=float(best[who] - truth[who]) * plan.study.response_unit,
        gain=gain.times(plan.mechanism.score_weight),
    )


def _most_promising(moves: Floats, gains: Floats, off: Floats) -> int:
    """The move that seems to gain most: of those that are more than luck, if there are any."""
    sure = np.abs(moves) > SURE * off
    return int(np.where(sure, gains, 0.0).argmax() if sure.any() else gains.argmax())


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

"""Best responses: what a player who looks only to her payment would report, under this plan and under the paper's.

Her expectation of truthful peers, p̄(x, y) = E[p | x, y], is estimated by drawing them; nothing in that uses q or ψ. θ
is drawn from the prior and weighted by the likelihood of her answer, g(y − θ·x). Her peers are drawn: truthful people
(X, z) with instruments Z, all other players, and the privacy noise v of the mechanism's own estimator. Every estimate
is linear in its answers y = Xθ + z, so that one draw of people serves many θ:

    θ̂ = A(ZᵀXθ + Zᵀz) + S v,   p = x·θ̂, clipped where the mechanism clips.

Each (θ, z, v) is paired with (−θ, −z, −v), which turns p into −p: luck that leans to one side cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.agents import Game, best_reports
from truthful.beliefs import IDENTITY, Beliefs
from truthful.check import Floats
from truthful.guarantees import Truthfulness
from truthful.moments import as_floats, grid_features, grid_responses, lengths, sums
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.regression import fast_answer, shrinkage_factor
from truthful.simulation.measurements import UNKNOWN, Measurement
from truthful.simulation.population import Features
from truthful.simulation.predictors import own_predictor

#: How often peers are drawn; and for each crowd, how often θ and noise.
CROWDS, DRAWS = 24, 1000
#: The number of people whose best reports are sought.
PEOPLE = 48
#: More standard errors of twelve crowds than this are not luck.
SURE = 4
#: The number of the typical person's answers.
STEPS = 41
# Corollary 1 at δ = ¼: γ = n^(1−δ/2).
PAPERS_PENALTY = 7 / 8


@dataclass(frozen=True, eq=False)
class Crowd:
    """Peers without their θ: ZᵀX and Zᵀz; θ̂ = A(ZᵀXθ + Zᵀz) without noise; and draws of θ and S v."""

    matrix: Floats
    vector: Floats
    A: Floats
    theta: Floats
    noise: Floats

    @property
    def estimates(self) -> Floats:
        """θ̂ for every θ."""
        return (self.theta @ self.matrix.T + self.vector) @ self.A.T + self.noise


@dataclass(frozen=True, eq=False)
class ExpectedPayment:
    """Per crowd and player, Σ w·p and Σ w over its draws: the ratio of the sums over any crowds estimates p̄."""

    sums: Floats
    counts: Floats

    def mean(self, part: slice) -> tuple[Floats, Floats]:
        """p̄ from some crowds, and its standard error from their spread. NaN where no θ makes an answer likely."""
        sums, counts = self.sums[part], self.counts[part]
        total = np.where(counts.sum(axis=0) > 0, counts.sum(axis=0), np.nan)
        means, crowds = sums.sum(axis=0) / total, len(sums)
        spread = np.sum((sums - means * counts) ** 2, axis=0) * crowds / (crowds - 1)
        return means, np.sqrt(spread) / total


def draw_crowds(plan: Plan, features: Features, rng: np.random.Generator) -> tuple[list[Crowd], list[Crowd]]:
    """Crowds of truthful people: with estimates by this mechanism, and by the paper's.

    The paper's peers are a ridge of half of the players, without noise: it has mean 0, and is not clipped.
    """
    mechanism, beliefs, n = plan.number_mechanism, plan.study.beliefs, plan.answering
    ours, papers = [], []
    for _ in range(CROWDS):
        x = features(rng, n - 1)
        kx, z = grid_features(x), beliefs.noise.sample(rng, len(x))
        theta = beliefs.prior.sample(rng, beliefs.dimension, DRAWS)
        ky = grid_responses(z, beliefs.response_bound)
        ours.append(_without_one(mechanism, beliefs, kx, ky, theta, rng))
        half = slice(0, max(1, n // 2))
        gram, cross = x[half].T @ x[half], x[half].T @ z[half]
        ridge = np.linalg.inv(n**PAPERS_PENALTY * np.eye(len(gram)) + gram)
        papers.append(Crowd(gram, cross, ridge, theta, np.zeros_like(theta)))
    return ours, papers


def _without_one(
    mechanism: OneRelease, beliefs: Beliefs, kx: Floats, ky: Floats, theta: Floats, rng: np.random.Generator
) -> Crowd:
    """Everybody else: the sums without her give the estimate of all others, at the same noise."""
    added = sums(kx, ky, mechanism.transform)
    estimate = mechanism.release(added, beliefs, fast_answer(rng))
    v = L2Laplace(beliefs.dimension, estimate.scale).sample(rng, len(theta))
    A = estimate.inverse
    return Crowd(as_floats(added.matrix), as_floats(added.vector), A, theta, v @ A.T)


def expect(
    beliefs: Beliefs, crowds: list[Crowd], x: Floats, y: Floats, reach: float = np.inf
) -> ExpectedPayment:
    """The expectation of players with these features and answers about these crowds, whose predictions reach
    ±reach·‖x‖.
    """
    limit = np.inf if np.isinf(reach) else reach * lengths(x)
    sums, counts = np.empty((2, len(crowds), len(x)))
    for k, crowd in enumerate(crowds):
        p, u = np.clip(crowd.estimates @ x.T, -limit, limit), crowd.theta @ x.T
        likely, turned = beliefs.noise.density(y - u), beliefs.noise.density(y + u)
        sums[k], counts[k] = ((likely - turned) * p).sum(axis=0), (likely + turned).sum(axis=0)
    return ExpectedPayment(sums, counts)


@dataclass(frozen=True)
class BestResponse:
    """The best lie found among a few people, if all others are truthful.

    It was sought against one half of the drawn peers and measured against the other. `move` is how far it moves her own
    prediction, `lie` how far it is from her answer in raw units, `gain` what it earns her over the truth.
    """

    move: Measurement
    lie: float
    gain: Measurement

    @property
    def pays(self) -> bool:
        """Whether its gain is more than luck: by chance alone it would seem so once in a thousand times."""
        return self.gain.value > SURE * self.gain.error


def best_responses(
    plan: Plan, game: Game, features: Features, rng: np.random.Generator
) -> tuple[BestResponse, BestResponse]:
    """The best lie under this plan, and under the paper's, whose peers are a ridge and which scores E[θ·x | x, ŷ]
    (E21).
    """
    beliefs = plan.study.beliefs
    x = features(rng, PEOPLE)
    theta = beliefs.prior.sample(rng, beliefs.dimension, PEOPLE)
    y = (x * theta).sum(axis=1) + beliefs.noise.sample(rng, PEOPLE)
    ours, papers = draw_crowds(plan, features, rng)
    r, table = lengths(x), own_predictor(beliefs, IDENTITY, 0.0, 0.0)
    expected = expect(beliefs, ours, x, y, plan.number_mechanism.reach), expect(beliefs, papers, x, y)
    return (
        _best(plan, lambda reports: game.own_prediction(x, reports), expected[0], y),
        _best(plan, lambda reports: table(r, reports, np.zeros(PEOPLE)), expected[1], y),
    )


def _best(plan: Plan, own: Callable[[Floats], Floats], peers: ExpectedPayment, truth: Floats) -> BestResponse:
    """The lie with the largest gain: one that moves q by Δ gains b(2(p̄ − q)Δ − Δ²)."""
    q = own(truth)
    (sought, off), (tried, error) = (peers.mean(slice(start, None, 2)) for start in (0, 1))
    known = ~np.isnan(sought + tried)
    if not known.any():
        return BestResponse(UNKNOWN, np.nan, UNKNOWN)
    sought = np.where(known, sought, q)
    best = best_reports(own, sought, truth, plan.study.beliefs.response_bound)
    moves = own(best) - q
    gains, sure = 2 * (sought - q) * moves - moves**2, known & (np.abs(moves) > SURE * off)
    # The one with the largest apparent gain: among those beyond luck, if there are any.
    person = int(np.where(sure, gains, 0.0).argmax() if sure.any() else gains.argmax())
    move = float(moves[person])
    gain = Measurement(
        2 * float(tried[person] - q[person]) * move - move**2, 2 * abs(move) * float(error[person])
    )
    return BestResponse(
        move=Measurement(move, float(off[person])),
        lie=float(best[person] - truth[person]) * plan.study.response_unit,
        gain=gain.times(plan.number_mechanism.score_weight),
    )


@dataclass(frozen=True, eq=False)
class TriedReports:
    """A person's best report for each of her possible answers, if the others are truthful: raw units.

    Her features have typical length, and she is expected to answer the middle of the range. within: the least and the
    most that she can report without moving her prediction by more than the guaranteed D; None if everything is.
    """

    truth: Floats
    ours: Floats
    papers: Floats
    within: tuple[Floats, Floats] | None


def typical_reports(plan: Plan, promised: Truthfulness | None = None) -> TriedReports:
    """The best reports of a typical person, under this plan and under the paper's mechanism.

    `promised` replaces the plan's truthfulness, if given.
    """
    study, mechanism, beliefs = plan.study, plan.number_mechanism, plan.study.beliefs
    told = plan.guarantees.truthfulness if promised is None else promised
    r, scale, curve = told.typical_length or 1.0, told.typical_noise or 0.0, mechanism.curve(beliefs)
    edge = beliefs.radius * r + beliefs.noise_bound
    y, table = np.linspace(-edge, edge, STEPS), own_predictor(beliefs, IDENTITY, 0.0, 0.0)

    def papers(reports: Floats) -> Floats:
        return table(np.full(STEPS, r), reports, np.zeros(STEPS))

    def raw(values: Floats) -> Floats:
        return np.asarray((study.response.low + study.response.high) / 2 + study.response_unit * values)

    # The part of a truthful half's predictions that remains in the paper's ridge, 1 − γκ.
    n = plan.answering
    kept = shrinkage_factor(n // 2, n**PAPERS_PENALTY, study.dimension)
    q, D = beliefs.prediction(r, y, curve, scale), told.lie
    within = None
    if D is not None and q[-1] - q[0] > D:
        within = raw(np.interp(q - D, q, y)), raw(np.interp(q + D, q, y))
    return TriedReports(
        truth=raw(y),
        ours=raw(y),  # she expects of the others what her own answer predicts: the truth is exactly best
        papers=raw(best_reports(papers, kept * papers(y), y, beliefs.response_bound)),
        within=within,
    )

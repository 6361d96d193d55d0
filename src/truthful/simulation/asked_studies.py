"""One simulated study that also asks people what the others will say, from the level to what everybody earned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from truthful.agents import AskedGame, Players
from truthful.agents.asked_game import asked_geometry
from truthful.asked_release import SERUM, AskedPaymaster, level_of
from truthful.check import Floats
from truthful.errors import Refused
from truthful.moments import GRID, grid_features, grid_responses, sums
from truthful.one_release import require_invertible
from truthful.people import draw_answers, draw_centre, draw_level
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.release.coefficients import everybody_row, released_coefficients, released_shares
from truthful.release.release import Coefficient
from truthful.simulation.share_studies import (
    LEVEL,
    ShareBounds,
    ShareRun,
    ShareSettled,
    SumStage,
    earned_by_role,
)
from truthful.simulation.studies import LOOKED_AT, Kinds, along, quantiles
from truthful.study.credibility import REACH, expected_shares

#: Answers that are numbers are told apart by how many standard deviations they are from what was expected.
EDGES = (-1.0, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class AskedStage(SumStage):
    """Everything that the studies of a simulation share."""

    game: AskedGame

    @property
    def kinds(self) -> int:
        """How many kinds of answers are told apart."""
        return self.game.levels or len(EDGES) + 1

    @property
    def cells(self) -> int:
        """In how many cells people are put, to look for lies that pay: by signs of features, and by the true answer."""
        return int(2**self.signs * self.kinds)

    def cells_of(self, game: AskedGame, players: Players) -> Kinds:
        """The cell of each."""
        signs = (players.x[:, 1 : 1 + self.signs] > game.mean[1 : 1 + self.signs]) @ (
            1 << np.arange(self.signs)
        )
        if game.levels:
            kind = game.places(players.y)
        else:
            beliefs = game.beliefs
            sd = np.sqrt(beliefs.variances(players.x, game.mean) + beliefs.variance)
            off = players.y - game.centre - beliefs.offsets(players.x, game.mean)
            kind = np.searchsorted(EDGES, off / sd).astype(np.int64)
        return np.asarray(signs * self.kinds + kind, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class AskedSettled(ShareSettled):
    """A settlement of those who came. The surprise is what is left of it, p what others say of people like her."""

    surprise: Floats


def run_asked_study(
    stage: AskedStage, rng: np.random.Generator, bounded: bool = False, intervals: bool = True
) -> ShareRun:
    """Draw what people expect, what is true, people and their costs, let them answer, and carry the mechanism out.

    bounded: also compute what is guaranteed for just these people. intervals: also make those that are published.
    """
    game, theta, everybody = asked_people(stage, rng)
    told = [role.agent.both(everybody[role.players], game, rng) for role in stage.roles]
    reports, predictions = (np.concatenate(part) for part in zip(*told, strict=True))
    looked_at = np.arange(0, len(reports), max(1, len(reports) // LOOKED_AT))
    cells = stage.cells_of(game, everybody[looked_at])
    cell_people = np.bincount(cells, minlength=stage.cells).astype(np.float64)
    here = ~np.isnan(reports)
    came, seen = np.flatnonzero(here), here[looked_at]
    cells, looked_at = cells[seen], np.searchsorted(came, looked_at[seen])
    joined, roles, reports = everybody[came], stage.role_of[came], reports[came]
    outcome = settled_predictions(game, joined.x, reports, predictions[came], rng)
    off = outcome.estimate.theta - theta
    lied = np.flatnonzero(np.abs(reports - joined.y) > 1 / GRID)
    return ShareRun(
        squared_error=float(off @ off),
        mean_squared_error=float(off @ off),
        prediction_error=float(np.mean(np.square(along(everybody.x, off)))),
        misreports=len(lied),
        **earned_by_role(stage, outcome, roles, joined, lied),
        cell_people=cell_people,
        **_by_cell(stage, game, outcome, cells, looked_at, joined, lied, theta),
        payments=quantiles(outcome.paid),
        **_errors(stage, outcome, theta, intervals),
        promised=_promised(stage.plan, joined.x) if bounded else None,
    )


def _promised(plan: Plan, x: Floats) -> ShareBounds:
    """What is guaranteed for people of just these features."""
    found = plan.guarantees_for(len(x), asked_geometry(plan, x))
    gain = found.truthfulness.gain
    return ShareBounds(found.accuracy, math.nan if gain is None else gain)


def asked_people(stage: AskedStage, rng: np.random.Generator) -> tuple[AskedGame, Floats, Players]:
    """What people expect, θ as they believe, and people whose answers follow it. The worst liars mind most."""
    study, n, beliefs = stage.plan.study, stage.plan.answering, stage.game.beliefs
    x = stage.features(rng, n)
    game = stage.game.of(draw_centre(beliefs, rng), x.mean(axis=0))
    theta = draw_level(study, beliefs, game.centre, game.mean, rng)
    y = draw_answers(beliefs, along(x, theta), rng)
    return game, theta, Players(x, y, stage.costs(x, rng))


def settled_predictions(
    game: AskedGame, x: Floats, reports: Floats, predictions: Floats, rng: np.random.Generator
) -> AskedSettled:
    """What the code that settles real studies makes of these answers and predictions, with fast noise."""
    mechanism, beliefs, (n, d) = game.mechanism, game.beliefs, x.shape
    if n < 2 * d + 3:
        raise Refused(
            f"{n} people come to a simulated study, too few to tell {d} coefficients. Plan for more players, or let "
            "fewer of them opt out."
        )
    kx = grid_features(x)
    ky, km = (
        grid_responses(part, beliefs.response_bound) for part in (reports, np.clip(predictions, -1.0, 1.0))
    )
    added = replace(sums(kx, ky, mechanism.transform), predictions=int(km.sum()))
    require_invertible(added.matrix)
    answer = fast_answer(rng)
    released = [
        answer(query, Fraction(mechanism.epsilon) * query.share)
        for query in mechanism.queries(added, beliefs)
    ]
    estimate = mechanism.estimate(released, n, beliefs, added.matrix)
    master = AskedPaymaster(mechanism, beliefs, estimate, level_of(beliefs, added, lambda: iter([kx])))
    scored = master.scored(kx, ky, km)

    def pay(who: Kinds, said: Floats) -> Floats:
        y = grid_responses(said, beliefs.response_bound) / GRID
        others = scored.peer_prediction[who], scored.others_answer[who], scored.surprise[who]
        return master.paid(kx[who], y, km[who] / GRID, *others)

    return AskedSettled(added, estimate, scored.peer_prediction, scored.payment, pay, scored.surprise)


def _by_cell(
    stage: AskedStage,
    game: AskedGame,
    outcome: AskedSettled,
    cells: Kinds,
    who: Kinds,
    joined: Players,
    lied: Kinds,
    theta: Floats,
) -> dict[str, Any]:
    """Sums over cells of players who are alike, of those who are looked at.

    The surplus is what q of the truth is compared with, less q; of yes and no, the surprise less what is expected of
    it. Less the luck of the draw, x·θ − E[x·θ | x, y]: it is 0 on average over studies, and moves what is earned.
    """
    beliefs, count, people, mechanism = game.beliefs, stage.cells, joined[who], game.mechanism
    truthful = np.ones(len(joined.y))
    truthful[lied] = 0.0
    truthful, told = truthful[who], outcome.pay(who, people.y)
    luck = along(people.x, theta) - expected_alike(game, people)
    p, surprise = np.clip(outcome.p[who], -1.0, 1.0), outcome.surprise[who]
    if mechanism.rule == SERUM:
        foreseen = game.foresees(people.x, people.y)
        surplus = surprise - game.surprise(people.x, foreseen) - luck
        weight = np.full(len(who), mechanism.score_weight / mechanism.clip)
    else:
        s = beliefs.slopes(people.x, game.mean)
        surplus = (1 - s) * surprise + s * (p - people.y) - luck
        weight = 2 * mechanism.score_weight * s
    paid = [outcome.pay(who, np.full(len(who), said)) for said in game.answers.tolist()]

    def added(values: Floats | None = None) -> Floats:
        return np.bincount(cells, weights=values, minlength=count).astype(np.float64)

    def by_answer(columns: list[Floats]) -> Floats:
        return np.stack([added(each) for each in columns], axis=1) if columns else np.zeros((count, 0))

    lost = [
        told - each - weight * luck * (people.y - said)
        for each, said in zip(paid, game.answers.tolist(), strict=True)
    ]
    return {
        "cell_players": added(),
        "cell_surplus": added(surplus),
        "cell_truthful": added(truthful),
        "cell_paid": added(truthful * outcome.paid[who]),
        "cell_lost": by_answer(lost),
        "cell_earned": by_answer(paid),
    }


def expected_alike(game: AskedGame, people: Players) -> Floats:
    """E[x·θ | x, y] of people as they are drawn: of ratings what is really expected, and not the line."""
    shares = game.beliefs.shares
    if shares is None or shares.levels == 2:
        return game.foresees(people.x, people.y).alike
    middle, reach = (1 + game.centre) / 2, REACH * game.beliefs.sure / 2
    around = replace(shares, low=middle - reach, high=middle + reach)
    x = people.x - game.mean
    x[:, 0] = people.x[:, 0]
    found = expected_shares(around, x)[np.arange(len(x)), game.places(people.y)]
    return np.asarray(2 * found - 1)


def _errors(stage: AskedStage, outcome: AskedSettled, theta: Floats, intervals: bool) -> dict[str, Any]:
    """How far what is published is off, and whether its intervals cover the truth."""
    study, estimate, mechanism = stage.plan.study, outcome.estimate, stage.game.mechanism
    row, constant = everybody_row(study, outcome.sums)
    rows = np.array([row, *(difference for _, difference in study.differences)])
    off = rows @ (estimate.theta - theta)
    covered = None
    if intervals:
        found: tuple[Coefficient, ...]
        if study.shares is None:
            found = released_coefficients(study, mechanism, estimate, outcome.sums, LEVEL)
            truth = np.array([value for _, value in study.raw_coefficients(theta)])
        else:
            of_shares = released_shares(study, mechanism, estimate, outcome.sums, None, LEVEL)
            found, truth = (*of_shares.shares, *of_shares.differences), rows @ theta
            truth[0] += constant
        covered = np.array(
            [one.low <= value <= one.high for one, value in zip(found, truth.tolist(), strict=True)],
            dtype=np.float64,
        )
    return {"share_error": float(off[0]), "effect_errors": off[1:], "covered": covered}

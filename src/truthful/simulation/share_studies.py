"""One simulated study of yes and no, or of ratings, from shares to what everybody earned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from truthful import kernels
from truthful.agents import Players, ShareGame
from truthful.agents.share_game import SumGame, share_geometry, share_mechanism, share_promise
from truthful.bounds.shares import gain
from truthful.check import Floats
from truthful.errors import Refused
from truthful.guarantees import Accuracy
from truthful.moments import (
    GRID,
    Sums,
    SumsTally,
    exact_sums,
    grid_features,
    grid_responses,
    response_limit,
    stacked,
)
from truthful.one_release import LeaveOneOut, require_invertible
from truthful.people import answers, draw_shares
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.release.coefficients import everybody_row, released_shares
from truthful.share_release import SharePaymaster
from truthful.simulation.cast import Features, Role
from truthful.simulation.studies import LOOKED_AT, Kinds, Run, along, quantiles
from truthful.study.credibility import expected_shares

#: Cells of people are told apart by the signs of so many features at most.
SIGNS = 4
#: The probability with which published intervals are to cover the truth.
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class SumStage:
    """Everything that the studies of a simulation share, where answers are released once."""

    plan: Plan
    roles: tuple[Role, ...]
    features: Features
    cost_threshold: float
    """The cost up to which it is promised that taking part pays."""
    game: SumGame

    @cached_property
    def role_of(self) -> Kinds:
        """The place of each player's role among the roles."""
        return np.repeat(np.arange(len(self.roles)), [role.count for role in self.roles])

    @property
    def signs(self) -> int:
        """Columns of x by whose signs people are told apart: not the intercept's."""
        return min(SIGNS, self.plan.study.dimension - 1)

    def costs(self, x: Floats, rng: np.random.Generator) -> Floats:
        """What privacy is worth to people with these features. The worst liars are those who mind most."""
        costs = self.plan.study.costs.sample(rng, len(x))
        for role in self.roles:
            weights = role.agent.weights(x[role.players], self.game)
            if weights is not None:
                mine = costs[role.players].copy()
                costs[role.players][np.argsort(-weights, kind="stable")] = np.sort(mine)[::-1]
        return costs


@dataclass(frozen=True, eq=False)
class ShareStage(SumStage):
    """The same of yes and no, and of ratings."""

    game: ShareGame

    @property
    def cells(self) -> int:
        """In how many cells people are put, to look for lies that pay: by signs, and by the true answer."""
        return int(2**self.signs * self.game.beliefs.levels)

    def cells_of(self, players: Players) -> Kinds:
        """The cell of each: answers of people with the same signs lie next to each other."""
        signs = (players.x[:, 1 : 1 + self.signs] > 0) @ (1 << np.arange(self.signs))
        return np.asarray(signs * self.game.beliefs.levels + self.game.places(players.y), dtype=np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareRun(Run):
    """What is kept of one study. Errors are in raw units: of the share of everybody, and of each difference."""

    share_error: float
    effect_errors: Floats
    covered: Floats | None
    """Of these numbers in the same order, whether the interval covers the truth; None where no intervals were made."""
    cell_lost: Floats
    """By cell, and by what is said there: what the truth earns over it, added up over those who were looked at."""
    cell_earned: Floats
    """The same, of what is paid for it."""
    promised: ShareBounds | None = None
    """What is guaranteed for just those who came, where that was computed."""


@dataclass(frozen=True, eq=False)
class ShareBounds:
    """What is guaranteed for people of just these features: accuracy, and what the truth earns over a lie.

    A lie of as many steps as the plan speaks of.
    """

    accuracy: Accuracy
    gain: float

    @classmethod
    def of(cls, plan: Plan, x: Floats) -> ShareBounds:
        mechanism, _ = share_mechanism(plan)
        geometry, steps = share_geometry(plan, x), plan.guarantees.truthfulness.steps or 1
        earned = mechanism.bonus * gain(share_promise(plan, geometry, len(x)), steps)
        return cls(plan.guarantees_for(len(x), geometry).accuracy, float(earned.item()))


@dataclass(frozen=True, eq=False)
class ShareSettled:
    """A settlement of those who came: their peers' predictions, which are shares, and what each is paid.

    `pay` is what some of them would be paid had each said something else: peers' predictions do not change with it.
    """

    sums: Sums
    estimate: LeaveOneOut
    p: Floats
    paid: Floats
    pay: Callable[[Kinds, Floats], Floats]


def run_share_study(
    stage: ShareStage, rng: np.random.Generator, bounded: bool = False, intervals: bool = True
) -> ShareRun:
    """Draw shares, people and their costs, let them answer, and carry the mechanism out.

    bounded: also compute what is guaranteed for just these people. intervals: also make those that are published.
    """
    theta, everybody = share_people(stage, rng)
    said = [role.agent.answers(everybody[role.players], stage.game, rng) for role in stage.roles]
    reports = np.concatenate(said)
    looked_at = np.arange(0, len(reports), max(1, len(reports) // LOOKED_AT))
    cells = stage.cells_of(everybody[looked_at])
    cell_people = np.bincount(cells, minlength=stage.cells).astype(np.float64)
    here = ~np.isnan(reports)
    came, seen = np.flatnonzero(here), here[looked_at]
    cells, looked_at = cells[seen], np.searchsorted(came, looked_at[seen])
    joined, roles, reports = everybody[came], stage.role_of[came], reports[came]
    outcome = settled_shares(stage, joined.x, reports, rng)
    off = outcome.estimate.theta - theta
    lied = np.flatnonzero(stage.game.places(reports) != stage.game.places(joined.y))
    return ShareRun(
        squared_error=float(off @ off),
        mean_squared_error=float(off @ off),
        prediction_error=float(np.mean(np.square(along(everybody.x, off)))),
        misreports=len(lied),
        **earned_by_role(stage, outcome, roles, joined, lied),
        cell_people=cell_people,
        **_by_cell(stage, outcome, cells, looked_at, joined, lied, theta),
        payments=quantiles(outcome.paid),
        **_errors(stage, outcome, theta, intervals),
        promised=ShareBounds.of(stage.plan, joined.x) if bounded else None,
    )


def share_people(stage: ShareStage, rng: np.random.Generator) -> tuple[Floats, Players]:
    """θ as is believed, and people whose answers follow it."""
    study, n = stage.plan.study, stage.plan.answering
    theta = draw_shares(study, stage.game.beliefs, rng)
    x = stage.features(rng, n)
    y = answers(stage.game.beliefs, along(x, theta), rng)
    return theta, Players(x, y, stage.costs(x, rng))


def settled_shares(stage: ShareStage, x: Floats, reports: Floats, rng: np.random.Generator) -> ShareSettled:
    """What the code that settles real studies makes of people with these features and answers, with fast noise."""
    mechanism, beliefs, (n, d) = stage.game.mechanism, stage.game.beliefs, x.shape
    if n < 2 * d + 2:
        raise Refused(
            f"{n} people come to a simulated study, too few to tell {d} coefficients. Plan for more players, or let "
            "fewer of them opt out."
        )
    kx, ky = grid_features(x), grid_responses(reports, beliefs.response_bound)
    tally, (panel, block) = (
        SumsTally(d, mechanism.transform, mechanism.norm),
        exact_sums(response_limit(beliefs.response_bound)),
    )
    products = tally.nothing
    kernels.add_columns(stacked(kx, ky, tally.transform, tally.sup), panel, products)
    tally.add_sums(products, n, block)
    sums = tally.sums
    require_invertible(sums.matrix)
    answer = fast_answer(rng)
    released = [
        answer(query, Fraction(mechanism.epsilon) * query.share) for query in mechanism.queries(sums, beliefs)
    ]
    estimate = mechanism.estimate(released, n, beliefs, sums.matrix)
    scored = SharePaymaster(mechanism, beliefs, estimate).scored(kx, ky)

    def pay(who: Kinds, said: Floats) -> Floats:
        y = grid_responses(said, beliefs.response_bound) / GRID
        return mechanism.steps(beliefs, kx[who] / GRID, y, scored.peer_prediction[who])[2]

    return ShareSettled(sums, estimate, scored.peer_prediction, scored.payment, pay)


def earned_by_role(
    stage: SumStage, outcome: ShareSettled, roles: Kinds, joined: Players, lied: Kinds
) -> dict[str, Any]:
    """By role, who came, what they were paid, and what for their answers over the truth, given what peers say.

    And of those who are promised that taking part pays how many came, and how many it paid as it turned out.
    """
    count, covered = len(stage.roles), joined.costs <= stage.cost_threshold
    utility = outcome.paid - joined.costs * stage.game.privacy_cost
    gained = np.zeros(len(roles))
    gained[lied] = outcome.paid[lied] - outcome.pay(lied, joined.y[lied])
    return {
        "covered_joined": int(np.count_nonzero(covered)),
        "covered_paid": int(np.count_nonzero(covered & (utility >= 0))),
        "joined": np.bincount(roles, minlength=count).astype(np.float64),
        **{
            name: np.bincount(roles, weights=values, minlength=count)
            for name, values in (("paid", outcome.paid), ("utility", utility), ("gain", gained))
        },
    }


def _by_cell(
    stage: ShareStage,
    outcome: ShareSettled,
    cells: Kinds,
    who: Kinds,
    joined: Players,
    lied: Kinds,
    theta: Floats,
) -> dict[str, Any]:
    """Sums over cells of players who are alike, of those who are looked at. The surplus is p − q of the truth.

    Less the luck of the draw, m − E[m | x, y], m being the true share of people like her: it is 0 on average over
    studies, and moves what is earned by its slope.
    """
    game, count, people = stage.game, stage.cells, joined[who]
    truthful = np.ones(len(joined.y))
    truthful[lied] = 0.0
    truthful, told = truthful[who], outcome.pay(who, people.y)
    paid = [outcome.pay(who, np.full(len(who), said)) for said in game.answers.tolist()]
    q = game.expected_share(people.x, people.y)
    mean = expected_shares(game.beliefs, people.x)[np.arange(len(who)), game.places(people.y)]
    luck = (1 + along(people.x, theta)) / 2 - mean
    slope = game.mechanism.bonus / 2 / game.beliefs.expects(people.x).width(game.mechanism.margin)

    def added(values: Floats | None = None) -> Floats:
        return np.bincount(cells, weights=values, minlength=count).astype(np.float64)

    lost = [
        told - each - slope * luck * (people.y - said)
        for each, said in zip(paid, game.answers.tolist(), strict=True)
    ]
    return {
        "cell_players": added(),
        "cell_surplus": added(outcome.p[who] - q - luck),
        "cell_truthful": added(truthful),
        "cell_paid": added(truthful * outcome.paid[who]),
        "cell_lost": np.stack([added(each) for each in lost], axis=1),
        "cell_earned": np.stack([added(each) for each in paid], axis=1),
    }


def _errors(stage: ShareStage, outcome: ShareSettled, theta: Floats, intervals: bool) -> dict[str, Any]:
    """How far what is published is off, and whether its intervals cover the truth."""
    study, estimate = stage.plan.study, outcome.estimate
    row, constant = everybody_row(study, outcome.sums)
    rows = np.array([row, *(difference for _, difference in study.differences)])
    off = rows @ (estimate.theta - theta)
    covered = None
    if intervals:
        found = released_shares(study, stage.game.mechanism, estimate, outcome.sums, None, LEVEL)
        truth = rows @ theta
        truth[0] += constant
        covered = np.array(
            [
                one.low <= value <= one.high
                for one, value in zip((*found.shares, *found.differences), truth.tolist(), strict=True)
            ],
            dtype=np.float64,
        )
    return {"share_error": float(off[0]), "effect_errors": off[1:], "covered": covered}

"""One simulated study, from the coefficients to what everybody earned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import kernels, one_release, random_halves
from truthful.agents import AskedGame, Game, Players, ShareGame
from truthful.agents.games import SumGame, asked_geometry, share_geometry, share_mechanism, share_promise
from truthful.asked_release import SERUM, AskedPaymaster, level_of
from truthful.bounds import proved
from truthful.bounds.share_bounds import gain
from truthful.check import Floats
from truthful.errors import Refused
from truthful.geometry import measured
from truthful.guarantees import Accuracy, setting
from truthful.instruments import instruments_on_grid
from truthful.moments import (
    GRID,
    Sums,
    SumsTally,
    exact_sums,
    grid_features,
    grid_responses,
    group_moments,
    response_limit,
    stacked,
    sums,
)
from truthful.noise import L2Laplace
from truthful.one_release import LeaveOneOut, OneRelease, require_invertible
from truthful.people import answers, draw_answers, draw_centre, draw_level, draw_shares
from truthful.plan import Plan
from truthful.random_halves import Mechanism, private_estimates
from truthful.regression import fast_answer
from truthful.release.coefficients import everybody_row, released_coefficients, released_shares
from truthful.release.release import Coefficient
from truthful.share_release import SharePaymaster
from truthful.simulation.population import Features, Role, Sampler
from truthful.simulation.predictors import Predictors
from truthful.study.credibility import REACH, expected_shares

Kinds = npt.NDArray[np.int64]

#: So finely is the distribution of payments kept, by so many people for each share of them.
SHARES, ENOUGH = 50, 40
#: So many people of a study are looked at in cells. Their peers are the same, so that more would say little more.
LOOKED_AT = 2_000


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything that the studies of a simulation share."""

    plan: Plan
    roles: tuple[Role, ...]
    game: Game
    predictors: Predictors
    features: Features
    noise: Sampler
    cost_threshold: float
    """The cost up to which it is promised that taking part pays."""
    typical_answer: float
    """√E[y²]."""

    @cached_property
    def role_of(self) -> Kinds:
        """The place of each player's role among the roles."""
        return np.repeat(np.arange(len(self.roles)), [role.count for role in self.roles])

    @property
    def cells(self) -> int:
        """In how many cells people are put, to look for lies that pay; the target of the worst liars has her own."""
        return 8 * self.plan.study.dimension + 1


@dataclass(frozen=True)
class Bounds:
    """What is guaranteed for people of just these features."""

    gap: float
    slack: float
    lie: float
    mean_squared_error: float
    prediction_error: float
    expected: float
    cap: float

    @classmethod
    def of(cls, plan: Plan, x: Floats) -> Bounds:
        """For plans that protect answers."""
        mechanism, kx = plan.number_mechanism, grid_features(x)
        known = measured(kx, instruments_on_grid(kx, getattr(mechanism, "transform", None)))
        s = setting(plan.study, mechanism, len(x), plan.absent_share, plan.failure_probability, known)
        found = (
            bound(s)
            for bound in (
                proved.gap,
                proved.truthfulness,
                proved.lie_size,
                proved.accuracy,
                proved.prediction_error,
                proved.budget,
                proved.budget_cap,
            )
        )
        return cls(*(float(value) for value in found))


@dataclass(frozen=True, eq=False)
class Run:
    """What is kept of one study. Arrays have an entry for each role, or each cell."""

    squared_error: float
    mean_squared_error: float
    """The same on average over the noise in the published estimate, all else being as it is."""
    prediction_error: float
    misreports: int
    covered_joined: int
    covered_paid: int
    joined: Floats
    paid: Floats
    utility: Floats
    gain: Floats
    cell_people: Floats
    """Of those who were looked at; players are those of them who came, and cell_surplus is Σ(p̄ − q) over these."""
    cell_players: Floats
    cell_surplus: Floats
    cell_truthful: Floats
    cell_paid: Floats
    """What the truthful of each cell were paid, together."""
    payments: Floats
    """Quantiles of what people were paid, at the middles of SHARES equal shares of them."""
    bounds: Bounds | None = None
    """What is guaranteed for just those who came, where that was computed."""

    @property
    def total(self) -> float:
        """What all payments together cost."""
        return float(self.paid.sum())


@dataclass(frozen=True, eq=False)
class Settled:
    """A settlement of those who came.

    p and q are what peers and her own report predict, y is that report on the grid. own: q of some players, had they
    reported otherwise. expected: p of some players, on average over the noise, if its law is known.
    """

    theta: Floats
    exact: Floats
    """θ̂ as it would be without noise."""
    noise_error: float
    """E‖θ̂ − exact‖²; NaN for `noisy-statistics`, whose matrix is random too."""
    y: Floats
    p: Floats
    q: Floats
    paid: Floats
    own: Callable[[Kinds, Floats], Floats]
    expected: Callable[[Kinds], Floats]

    def averaged_error(self, theta: Floats) -> float:
        """The squared error on average over the noise."""
        off = self.exact - theta
        return float(off @ off) + self.noise_error


def run_study(stage: Stage, rng: np.random.Generator, bounded: bool = False) -> Run:
    """Draw θ, people and their costs, let them report, and carry the mechanism out.

    bounded: also compute what is guaranteed for just these people, where answers are protected.
    """
    theta, everybody = people(stage, rng)
    answers = [role.agent.reports(everybody[role.players], stage.game, rng) for role in stage.roles]
    reports = answers[0] if len(answers) == 1 else np.concatenate(answers)
    joined, roles, away = everybody, stage.role_of, np.isnan(reports)
    looked_at = _looked_at(stage, everybody.x)
    cells = cells_of(stage, everybody[looked_at])
    cell_people = np.bincount(cells, minlength=stage.cells).astype(np.float64)
    if away.any():
        came, here = np.flatnonzero(~away), ~away[looked_at]
        cells, looked_at = cells[here], np.searchsorted(came, looked_at[here])
        joined, roles, reports = everybody[came], roles[came], reports[came]
    outcome = settled(stage, joined.x, reports, rng)
    lied = _lied(outcome, reports, joined.y)
    off = outcome.theta - theta
    return Run(
        squared_error=float(off @ off),
        mean_squared_error=outcome.averaged_error(theta),
        prediction_error=float(np.mean(np.square(along(everybody.x, off)))),
        misreports=len(lied),
        **_earned(stage, outcome, roles, joined, lied),
        cell_people=cell_people,
        **_number_cells(stage, outcome, cells, looked_at, joined, lied),
        payments=quantiles(outcome.paid),
        bounds=Bounds.of(stage.plan, joined.x) if bounded else None,
    )


def people(stage: Stage, rng: np.random.Generator) -> tuple[Floats, Players]:
    """θ by the prior, and people whose answers follow it: y = θ·x + z. The worst liars are those who mind most."""
    study, n = stage.plan.study, stage.plan.answering
    theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    x = stage.features(rng, n)
    y = along(x, theta)
    y += stage.noise(rng, n)
    costs = study.costs.sample(rng, n)
    for role in stage.roles:
        weights = role.agent.weights(x[role.players], stage.game)
        if weights is not None:
            mine = costs[role.players].copy()
            costs[role.players][np.argsort(-weights, kind="stable")] = np.sort(mine)[::-1]
    return theta, Players(x, y, costs)


def along(x: Floats, direction: Floats) -> Floats:
    """x·direction, without the threads of a matrix product: studies have their own."""
    total = np.empty(len(x))
    kernels.along(np.ascontiguousarray(x.T), direction, total)
    return total


def _looked_at(stage: Stage, x: Floats) -> Kinds:
    """Some of all people, in their order, and her who is nearest to the target of the worst liars."""
    some, target = np.arange(0, len(x), max(1, len(x) // LOOKED_AT)), _nearest(x, stage.game.target)
    at = int(np.searchsorted(some, target))
    return some if at < len(some) and some[at] == target else np.insert(some, at, target)


def _nearest(x: Floats, target: Floats) -> int:
    """Whose features are nearest to these."""
    return int((2 * along(x, target) - np.einsum("ij,ij->i", x, x)).argmax())


def cells_of(stage: Stage, players: Players) -> Kinds:
    """Cells of people who are alike: by main feature and its sign, and by sign and size of the answer.

    There are 8 for each feature, and a last one for her whose features are nearest to the target's.
    """
    # An intercept is the same for all, and would be everybody's main feature.
    start = int(stage.plan.study.declared.encoding.intercept and players.x.shape[1] > 1)
    varying = players.x[:, start:]
    main = np.abs(varying).argmax(axis=1)
    positive = varying[np.arange(len(main)), main] > 0
    cells: Kinds = 8 * main + 4 * positive + 2 * (players.y > 0) + (np.abs(players.y) > stage.typical_answer)
    cells[_nearest(players.x, stage.game.target)] = stage.cells - 1
    return cells


# Settling


def settled(stage: Stage, x: Floats, reports: Floats, rng: np.random.Generator) -> Settled:
    """What the code that settles real studies makes of people with these features and reports, with fast noise."""
    kx, ky = grid_features(x), grid_responses(reports, stage.plan.study.beliefs.response_bound)
    if isinstance(stage.plan.number_mechanism, OneRelease):
        return _one_release(stage, stage.plan.number_mechanism, kx, ky, rng)
    return _halves(stage, stage.plan.number_mechanism, kx, ky, rng)


def _one_release(
    stage: Stage, mechanism: OneRelease, kx: Floats, ky: Floats, rng: np.random.Generator
) -> Settled:
    """One noisy vector, and everybody else as peers."""
    beliefs, (n, d) = stage.plan.study.beliefs, kx.shape
    if n < 2 * d + 2:
        raise Refused(
            f"{n} people come to a simulated study, too few to tell {d} coefficients. Plan for more players, or let "
            "fewer of them opt out."
        )
    tally, (panel, block) = (
        SumsTally(d, mechanism.transform),
        exact_sums(response_limit(beliefs.response_bound)),
    )
    k, products = stacked(kx, ky, tally.transform), tally.nothing
    kernels.add_columns(k, panel, products)
    tally.add_sums(products, n, block)
    added = tally.sums
    if mechanism.estimator == "instruments":
        require_invertible(added.matrix)
    answer = fast_answer(rng)
    answers = [
        answer(query, Fraction(mechanism.epsilon) * query.share)
        for query in mechanism.queries(added, beliefs)
    ]
    estimate = mechanism.estimate(answers, n, beliefs, added.matrix)
    exact = estimate.inverse @ (added.vector / kernels.PRODUCT).astype(np.float64)
    master = one_release.Paymaster(mechanism, beliefs, estimate, stage.predictors(n))
    found = np.empty((6, n))
    r, y, h, p, _, along = found
    kernels.predict_columns(k, master.others, np.empty((6, kernels.PANEL)), *found)
    q = master.predictor(r, y, along)

    def expected(who: Kinds) -> Floats:
        kept = 1 - h[who] if estimate.kept is None else estimate.kept
        unclipped = (kx[who] @ exact / GRID - h[who] * y[who]) / kept
        length = np.where(r[who] > 0, r[who], 1.0)
        return np.asarray(r[who] * mechanism.curve(beliefs)(unclipped / length, along[who]))

    return Settled(
        estimate.theta,
        exact,
        _noise_error(estimate),
        y,
        p,
        q,
        one_release.payable(mechanism, r, p, q),
        own=lambda who, reports: master.predictor(r[who], reports, along[who]),
        expected=expected,
    )


def _noise_error(estimate: LeaveOneOut) -> float:
    """(d+1)s²‖M⁻¹‖²_F."""
    if estimate.matrix_scale is not None:
        return math.nan
    variance = L2Laplace(len(estimate.theta), estimate.scale).marginal_variance
    return float(variance * np.sum(estimate.inverse**2))


def _halves(stage: Stage, mechanism: Mechanism, kx: Floats, ky: Floats, rng: np.random.Generator) -> Settled:
    """Algorithm 2: three private estimates, and the other half as peers."""
    beliefs, n = stage.plan.study.beliefs, len(kx)
    groups = rng.integers(0, 2, size=n, dtype=np.uint8)
    halves = group_moments(kx, ky, groups)
    sizes = halves[0].count, halves[1].count
    if min(sizes) == 0:
        raise Refused(
            f"A simulated study has halves of {sizes[0]} and {sizes[1]} players; both need at least one. Plan for "
            "more players, or let fewer of them opt out."
        )
    estimates = private_estimates(halves, mechanism, beliefs, fast_answer(rng))
    against = stage.predictors(sizes[1]), stage.predictors(sizes[0])
    master = random_halves.Paymaster(mechanism, beliefs, estimates, against)
    r, p, noise = np.empty((3, n))
    y = ky / GRID
    kernels.peer_predictions(np.ascontiguousarray(kx.T), 1 / GRID, groups, master.peers, r, p, noise)
    q = master.own_predictions(r, y, noise, groups)
    public = mechanism.public_estimator(beliefs)
    everybody = halves[0] + halves[1]
    exact = public.estimate([query.value for query in public.queries(everybody)], n, mechanism.epsilon_public)
    variance = L2Laplace(beliefs.dimension, exact.scale).marginal_variance
    return Settled(
        estimates.public.theta,
        exact.theta,
        math.nan if exact.gram_scale is not None else float(variance * np.sum(exact.spread**2)),
        y,
        p,
        q,
        random_halves.payable(mechanism, beliefs, p, q),
        own=lambda who, reports: master.own_predictions(r[who], reports, noise[who], groups[who]),
        expected=lambda who: p[who],
    )


# What is kept


def _lied(outcome: Settled, reports: Floats, truth: Floats) -> Kinds:
    """Who did not tell the truth, to the step of the grid."""
    different = np.flatnonzero(reports != truth)
    return np.asarray(different[outcome.y[different] != np.trunc(truth[different] * GRID) / GRID])


def _earned(stage: Stage, outcome: Settled, roles: Kinds, joined: Players, lied: Kinds) -> dict[str, Any]:
    """By role, who came, what they were paid, and what for their reports over the truth, given what peers predict.

    And of those who are promised that taking part pays how many came, and how many it paid as it turned out.
    """
    game, count = stage.game, len(stage.roles)
    utility, covered = outcome.paid - joined.costs * game.privacy_cost, joined.costs <= stage.cost_threshold
    gain = np.zeros(len(roles))
    if len(lied):
        meant = outcome.own(lied, np.trunc(joined.y[lied] * GRID) / GRID)
        gain[lied] = game.score(outcome.p[lied], outcome.q[lied]) - game.score(outcome.p[lied], meant)
    return {
        "covered_joined": int(np.count_nonzero(covered)),
        "covered_paid": int(np.count_nonzero(covered & (utility >= 0))),
        "joined": np.bincount(roles, minlength=count).astype(np.float64),
        **{
            name: np.bincount(roles, weights=values, minlength=count)
            for name, values in (("paid", outcome.paid), ("utility", utility), ("gain", gain))
        },
    }


def _number_cells(
    stage: Stage, outcome: Settled, cells: Kinds, who: Kinds, joined: Players, lied: Kinds
) -> dict[str, Any]:
    """Sums over cells of players who are alike, of those who are looked at.

    The surplus is p̄ − q, q being the own prediction of the truth: if its mean in a cell is δ, the best lie there moves
    q by δ, and none pays that moves it by more than 2δ.
    """
    count, meant, truthful = stage.cells, outcome.q[who], np.ones(len(joined.y))
    truthful[lied] = 0.0
    truthful = truthful[who]
    lies = np.flatnonzero(truthful == 0)
    if len(lies):
        meant[lies] = outcome.own(who[lies], np.trunc(joined.y[who[lies]] * GRID) / GRID)
    return {
        "cell_players": np.bincount(cells, minlength=count).astype(np.float64),
        "cell_surplus": np.bincount(cells, weights=outcome.expected(who) - meant, minlength=count),
        "cell_truthful": np.bincount(cells, weights=truthful, minlength=count),
        "cell_paid": np.bincount(cells, weights=truthful * outcome.paid[who], minlength=count),
    }


def quantiles(values: Floats) -> Floats:
    """At the middles of SHARES equal shares: np.quantile, by one sort of enough of them."""
    values = values[:: max(1, len(values) // (ENOUGH * SHARES))]
    place = (np.arange(SHARES) + 0.5) / SHARES * (len(values) - 1)
    return np.asarray(np.interp(place, np.arange(len(values)), np.sort(values)))


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
        **_share_cells(stage, outcome, cells, looked_at, joined, lied, theta),
        payments=quantiles(outcome.paid),
        **_share_errors(stage, outcome, theta, intervals),
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


def _share_cells(
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


def _share_errors(stage: ShareStage, outcome: ShareSettled, theta: Floats, intervals: bool) -> dict[str, Any]:
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
        **_asked_cells(stage, game, outcome, cells, looked_at, joined, lied, theta),
        payments=quantiles(outcome.paid),
        **_asked_errors(stage, outcome, theta, intervals),
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


def _asked_cells(
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


def _asked_errors(stage: AskedStage, outcome: AskedSettled, theta: Floats, intervals: bool) -> dict[str, Any]:
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

"""One simulated study, from the coefficients to what everybody earned."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import kernels, one_release_payments, payments
from truthful.agents import Game, Players
from truthful.bounds import proved
from truthful.check import Floats
from truthful.errors import Refused
from truthful.geometry import measured
from truthful.guarantees import setting
from truthful.instruments import instruments_on_grid
from truthful.mechanism import Mechanism, private_estimates
from truthful.moments import (
    GRID,
    SumsTally,
    exact_sums,
    grid_features,
    grid_responses,
    group_moments,
    response_limit,
    stacked,
)
from truthful.noise import L2Laplace
from truthful.one_release import LeaveOneOut, OneRelease, require_invertible
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.simulation.cast import Features, Role, Sampler
from truthful.simulation.predictors import Predictors

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
        **_by_cell(stage, outcome, cells, looked_at, joined, lied),
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
    master = one_release_payments.Paymaster(mechanism, beliefs, estimate, stage.predictors(n))
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
        one_release_payments.payable(mechanism, r, p, q),
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
    master = payments.Paymaster(mechanism, beliefs, estimates, against)
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
        payments.payable(mechanism, beliefs, p, q),
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


def _by_cell(
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

"""One simulated study, from the coefficients to the payments: the code that settles real ones, with fast noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.agents import Game, Players
from truthful.check import Floats
from truthful.errors import Refused
from truthful.guarantees import model
from truthful.mechanism import Estimates, peer_curve, private_estimates
from truthful.moments import GRID, Moments, grid_features, grid_responses, group_moments
from truthful.noise import L2Laplace
from truthful.payments import Groups, Paymaster, lengths, noise_along, payable
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.simulation.cast import Role
from truthful.simulation.features import Features
from truthful.simulation.predictors import Predictors

Indices = npt.NDArray[np.int64]
#: So finely is the distribution of payments kept.
SHARES = 50


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything that the studies of a simulation share."""

    plan: Plan
    roles: tuple[Role, ...]
    game: Game
    predictors: Predictors
    features: Features
    cost_threshold: float
    """The cost up to which the plan promises that taking part pays."""

    @property
    def cells(self) -> int:
        """In how many cells people are put, to look for lies that pay."""
        return 8 * self.plan.study.dimension


@dataclass(frozen=True, eq=False)
class Run:
    """What is kept of one study. Arrays have an entry for each role, or each cell."""

    squared_error: float
    mean_squared_error: float
    """The same on average over the noise in the published estimate, all else being as it is."""
    prediction_error: float
    misreports: int
    covered: int
    covered_ahead: int
    covered_joined: int
    covered_paid: int
    ahead: int
    joined: Floats
    paid: Floats
    utility: Floats
    gain: Floats
    cell_players: Floats
    cell_surplus: Floats
    payments: Floats
    """Quantiles of what people were paid, at the middles of SHARES equal shares of them."""

    @property
    def total(self) -> float:
        """What all payments together cost."""
        return float(self.paid.sum())


def run_study(stage: Stage, rng: np.random.Generator) -> Run:
    """Draw θ, people and their costs, let them report, and carry the mechanism out."""
    plan, beliefs, n = stage.plan, stage.plan.study.beliefs, stage.plan.players
    theta = beliefs.prior.sample(rng, beliefs.dimension, 1)[0]
    x = stage.features(rng, n)
    y = x @ theta + beliefs.noise.sample(rng, n)
    everybody = Players(x, y, plan.study.costs.sample(rng, n))
    reports = np.concatenate(
        [role.agent.reports(everybody[role.players], stage.game, rng) for role in stage.roles]
    )
    came = np.flatnonzero(~np.isnan(reports))
    kx = grid_features(x[came])
    ky, truth = (grid_responses(answers[came], beliefs.response_bound) for answers in (reports, y))
    groups = rng.integers(0, 2, size=len(came), dtype=np.uint8)
    halves = group_moments(kx, ky, groups)
    estimates, master = _carried_out(stage, halves, rng)
    p, q = master.predictions(kx, ky, groups)
    surplus = p - _foretold(master, kx, groups, theta)
    lied, honest_q = np.flatnonzero(ky != truth), q.copy()
    honest_q[lied] = master.predictions(kx[lied], truth[lied], groups[lied])[1]
    paid, off = payable(plan.mechanism, beliefs, p, q), estimates.public.theta - theta
    utility = paid - everybody.costs[came] * stage.game.privacy_cost
    gain = stage.game.expected_payment(p, q) - stage.game.expected_payment(p, honest_q)
    return Run(
        squared_error=float(off @ off),
        mean_squared_error=_averaged_error(stage, halves[0] + halves[1], theta),
        prediction_error=float(np.mean((x @ off) ** 2)),
        misreports=len(lied),
        **_participation(stage, everybody, came, utility),
        **_by_role(stage, came, paid=paid, utility=utility, gain=gain, joined=np.ones(len(came))),
        **_by_cell(stage, x[came], y[came], surplus),
        payments=np.quantile(paid, (np.arange(SHARES) + 0.5) / SHARES),
    )


def _carried_out(
    stage: Stage, halves: tuple[Moments, Moments], rng: np.random.Generator
) -> tuple[Estimates, Paymaster]:
    """Steps 2 to 4 of Algorithm 2."""
    mechanism, beliefs = stage.plan.mechanism, stage.plan.study.beliefs
    sizes = halves[0].count, halves[1].count
    if min(sizes) == 0:
        raise Refused(
            f"A simulated study has halves of {sizes[0]} and {sizes[1]} players; both need at least one. Plan for "
            "more players, or let fewer of them opt out."
        )
    estimates = private_estimates(halves, mechanism, beliefs, fast_answer(rng))
    against = stage.predictors(sizes[1]), stage.predictors(sizes[0])
    return estimates, Paymaster(mechanism, beliefs, estimates, against)


def _averaged_error(stage: Stage, everybody: Moments, theta: Floats) -> float:
    """‖θ̂₀ − θ‖² + E‖Av‖² for θ̂ = θ̂₀ + Av, E‖Av‖² = (d+1)s²‖A‖²_F. NaN for `noisy-statistics`: its A is random too."""
    mechanism, beliefs = stage.plan.mechanism, stage.plan.study.beliefs
    if mechanism.estimator == "noisy-statistics":
        return math.nan
    estimator = mechanism.public_estimator(beliefs)
    exact = [query.value for query in estimator.queries(everybody)]
    unprotected = estimator.estimate(exact, everybody.count, mechanism.epsilon_public)
    off, noise = unprotected.theta - theta, L2Laplace(beliefs.dimension, unprotected.scale)
    return float(off @ off + noise.marginal_variance * np.sum(unprotected.spread**2))


def _foretold(master: Paymaster, kx: Floats, groups: Groups, theta: Floats) -> Floats:
    """‖x‖·ψ(θ·x/‖x‖): what truthful peers predict of each player on average, θ being what it is.

    Given x and y its mean is q. It varies less than q does about p: all players of a study have the same θ.
    """
    foretold, sizes = np.empty(len(kx)), np.bincount(groups, minlength=2)
    for group in (0, 1):
        mine = np.flatnonzero(groups == group)
        x, peer = kx[mine] / GRID, master.estimates.peers[1 - group]
        curve, r = peer_curve(master.mechanism, master.beliefs, int(sizes[1 - group])), lengths(x)
        u = x @ theta / np.where(r > 0, r, 1.0)
        foretold[mine] = r * curve(u, noise_along(peer, x, r))
    return foretold


def _participation(stage: Stage, everybody: Players, came: Indices, utility: Floats) -> dict[str, Any]:
    """For how many taking part pays: as each expects beforehand, and as it turned out."""
    ahead = stage.game.expected_utility(everybody) >= 0
    covered = everybody.costs <= stage.cost_threshold
    return {
        "ahead": int(ahead.sum()),
        "covered": int(covered.sum()),
        "covered_ahead": int((covered & ahead).sum()),
        "covered_joined": int(covered[came].sum()),
        "covered_paid": int((covered[came] & (utility >= 0)).sum()),
    }


def _by_role(stage: Stage, came: Indices, **values: Floats) -> dict[str, Any]:
    """Sums over the players of each role who came."""
    counts = [role.count for role in stage.roles]
    role = np.repeat(np.arange(len(counts)), counts)[came]
    return {name: np.bincount(role, weights=each, minlength=len(counts)) for name, each in values.items()}


def _by_cell(stage: Stage, x: Floats, y: Floats, surplus: Floats) -> dict[str, Any]:
    """p less what truthful peers predict, summed over cells of players who are alike.

    Cells are by main feature and its sign, and by sign and size of the answer. The mean in a cell is that of p − q: if
    it is δ, the best lie there moves q by δ, and none pays that moves it by more than 2δ.
    """
    study = stage.plan.study
    # An intercept is the same for all, and would be everybody's main feature.
    varying = x[:, 1:] if study.declared.encoding.intercept and x.shape[1] > 1 else x
    main = np.abs(varying).argmax(axis=1)
    sign = varying[np.arange(len(x)), main] > 0
    typical = math.sqrt(model(study).mean_square + study.beliefs.noise_variance)
    cell = ((main * 2 + sign) * 2 + (y > 0)) * 2 + (np.abs(y) > typical)
    return {
        "cell_players": np.bincount(cell, minlength=stage.cells).astype(np.float64),
        "cell_surplus": np.bincount(cell, weights=surplus, minlength=stage.cells),
    }

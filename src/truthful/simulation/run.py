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
from truthful.mechanism import Estimates, private_estimates
from truthful.moments import Moments, grid_features, grid_responses, group_moments
from truthful.noise import L2Laplace
from truthful.payments import Paymaster, payable
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.simulation.cast import Role
from truthful.simulation.features import Features
from truthful.simulation.predictors import Predictors

Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
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
    covered_joined: int
    covered_paid: int
    joined: Floats
    paid: Floats
    utility: Floats
    gain: Floats
    cell_people: Floats
    """All of them; players are those who came."""
    cell_players: Floats
    cell_surplus: Floats
    cell_truthful: Floats
    cell_paid: Floats
    """What the truthful of each cell were paid, together."""
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
        **_by_cell(stage, everybody, came, surplus=p - honest_q, truthful=ky == truth, paid=paid),
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


def _participation(stage: Stage, everybody: Players, came: Indices, utility: Floats) -> dict[str, Any]:
    """How many of those who are promised that taking part pays came, and how many it paid as it turned out."""
    covered = everybody.costs[came] <= stage.cost_threshold
    return {"covered_joined": int(covered.sum()), "covered_paid": int((covered & (utility >= 0)).sum())}


def _by_role(stage: Stage, came: Indices, **values: Floats) -> dict[str, Any]:
    """Sums over the players of each role who came."""
    counts = [role.count for role in stage.roles]
    role = np.repeat(np.arange(len(counts)), counts)[came]
    return {name: np.bincount(role, weights=each, minlength=len(counts)) for name, each in values.items()}


def _by_cell(
    stage: Stage, everybody: Players, came: Indices, surplus: Floats, truthful: Bools, paid: Floats
) -> dict[str, Any]:
    """Sums over cells of players who are alike.

    Cells are by main feature and its sign, and by sign and size of the answer. surplus is p − q, q being the own
    prediction of the truth: if its mean in a cell is δ, the best lie there moves q by δ, and none pays that moves it by
    more than 2δ.
    """
    study, x, y = stage.plan.study, everybody.x, everybody.y
    # An intercept is the same for all, and would be everybody's main feature.
    varying = x[:, 1:] if study.declared.encoding.intercept and x.shape[1] > 1 else x
    main = np.abs(varying).argmax(axis=1)
    sign = varying[np.arange(len(x)), main] > 0
    typical = math.sqrt(model(study).mean_square + study.beliefs.noise_variance)
    cell = ((main * 2 + sign) * 2 + (y > 0)) * 2 + (np.abs(y) > typical)

    def summed(cells: Indices, weights: Floats | None = None) -> Floats:
        return np.bincount(cells, weights, stage.cells).astype(np.float64)

    return {
        "cell_people": summed(cell),
        "cell_players": summed(cell[came]),
        "cell_surplus": summed(cell[came], surplus),
        "cell_truthful": summed(cell[came][truthful]),
        "cell_paid": summed(cell[came][truthful], paid[truthful]),
    }

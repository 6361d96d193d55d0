"""One simulated study, from the coefficients to what everybody earned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful import kernels
from truthful.agents import Players
from truthful.check import Floats
from truthful.moments import GRID
from truthful.simulation.cells import cells_of
from truthful.simulation.stage import Settled, Stage, settled
from truthful.simulation.sums import Kinds, sums

#: So finely is the distribution of payments kept, by so many people for each share of them.
SHARES, ENOUGH = 50, 40


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
    theta, everybody = people(stage, rng)
    answers = [role.agent.reports(everybody[role.players], stage.game, rng) for role in stage.roles]
    reports = answers[0] if len(answers) == 1 else np.concatenate(answers)
    cells = cells_of(everybody, stage.plan.study.declared.encoding.intercept, stage.typical_answer)
    cell_people = np.bincount(cells, minlength=stage.cells).astype(np.float64)
    joined, roles, away = everybody, stage.role_of, np.isnan(reports)
    if away.any():
        came = np.flatnonzero(~away)
        joined, roles, cells, reports = everybody[came], roles[came], cells[came], reports[came]
    outcome = settled(stage, joined.x, reports, rng)
    truthful, meant = _truth(outcome, reports, joined.y)
    off = outcome.drawn.estimates.public.theta - theta
    return Run(
        squared_error=float(off @ off),
        mean_squared_error=outcome.drawn.averaged_error(theta),
        prediction_error=float(np.mean(np.square(_along(everybody.x, off)))),
        misreports=len(truthful) - int(np.count_nonzero(truthful)),
        **_earned(stage, outcome, roles, joined.costs, meant),
        cell_people=cell_people,
        **_by_cell(stage, outcome, cells, truthful, meant),
        payments=_quantiles(outcome.paid),
    )


def people(stage: Stage, rng: np.random.Generator) -> tuple[Floats, Players]:
    """θ by the prior, and people whose answers follow it: y = θ·x + z."""
    study, n = stage.plan.study, stage.plan.players
    theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    x = stage.features(rng, n)
    y = _along(x, theta)
    y += stage.noise(rng, n)
    return theta, Players(x, y, study.costs.sample(rng, n))


def _along(x: Floats, direction: Floats) -> Floats:
    """x·direction, without the threads of a matrix product: studies have their own."""
    total = np.empty(len(x))
    kernels.along(np.ascontiguousarray(x.T), direction, total)
    return total


def _truth(outcome: Settled, reports: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """1 for who told the truth, to the step of the grid, else 0; and the own predictions of the truth."""
    truthful, meant, different = np.ones(len(truth)), outcome.q, reports != truth
    if different.any():
        answers = np.trunc(truth[outcome.halves.order] * GRID)
        truthful, meant = (outcome.halves.k[-1] == answers).astype(np.float64), outcome.q.copy()
        for other, place in zip(outcome.against, outcome.halves.places, strict=True):
            lied = place.start + np.flatnonzero(truthful[place] == 0)
            meant[lied] = other(outcome.r[lied], answers[lied] / GRID, outcome.scale[lied])
    return truthful, meant


def _earned(stage: Stage, outcome: Settled, roles: Kinds, costs: Floats, meant: Floats) -> dict[str, Any]:
    """By role, who came, what they were paid, and what for their reports over the truth, given what peers predict.

    And of those who are promised that taking part pays how many came, and how many it paid as it turned out.
    """
    order, game = outcome.halves.order, stage.game
    mine = costs[order]
    utility, covered = outcome.paid - mine * game.privacy_cost, mine <= stage.cost_threshold
    gain = np.zeros(len(mine))
    if meant is not outcome.q:
        gain = game.expected_payment(outcome.p, outcome.q) - game.expected_payment(outcome.p, meant)
    totals = sums(order, roles, len(stage.roles), outcome.paid, utility, gain)
    return {
        "covered_joined": int(np.count_nonzero(covered)),
        "covered_paid": int(np.count_nonzero(covered & (utility >= 0))),
        **dict(zip(("joined", "paid", "utility", "gain"), totals, strict=True)),
    }


def _by_cell(stage: Stage, outcome: Settled, cells: Kinds, truthful: Floats, meant: Floats) -> dict[str, Any]:
    """Sums over cells of players who are alike.

    The surplus is p − q, q being the own prediction of the truth: if its mean in a cell is δ, the best lie there moves
    q by δ, and none pays that moves it by more than 2δ.
    """
    totals = sums(
        outcome.halves.order, cells, stage.cells, outcome.p - meant, truthful, truthful * outcome.paid
    )
    names = ("cell_players", "cell_surplus", "cell_truthful", "cell_paid")
    return dict(zip(names, totals, strict=True))


def _quantiles(values: Floats) -> Floats:
    """At the middles of SHARES equal shares: np.quantile, by one sort of enough of them."""
    values = values[:: max(1, len(values) // (ENOUGH * SHARES))]
    place = (np.arange(SHARES) + 0.5) / SHARES * (len(values) - 1)
    return np.asarray(np.interp(place, np.arange(len(values)), np.sort(values)))

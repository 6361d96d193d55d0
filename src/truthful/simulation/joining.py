"""Whom taking part pays: judged by what truthful people like her were really paid, on average over all studies.

People are alike if they are in one cell. Taking part pays a person of cost c if the mean payment of her cell is at
least c·h(ε). Costs are drawn independently of all else, so that their law says of how many in a cell that is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from truthful.check import Floats
from truthful.costs import Costs
from truthful.simulation.found import UNKNOWN, Found, enough_people
from truthful.simulation.run import Run
from truthful.simulation.stage import Stage


def whom_it_pays(stage: Stage, runs: Sequence[Run]) -> tuple[Found, Found]:
    """The share of people whom taking part pays: of all, and of those who are promised it."""
    people, truthful, paid = (
        np.array([getattr(run, f"cell_{name}") for run in runs]) for name in ("people", "truthful", "paid")
    )
    seen = enough_people(truthful)
    if not seen.any():
        return UNKNOWN, UNKNOWN
    shares = people.sum(0)[seen] / people.sum(0)[seen].sum()
    sums, counts = paid[:, seen], truthful[:, seen]
    # Jackknife: once with all studies, then without each of them.
    worth = _with_and_without(sums) / _with_and_without(counts) / stage.game.privacy_cost
    costs = stage.plan.study.costs
    return _share(costs, worth, shares, math.inf), _share(costs, worth, shares, stage.cost_threshold)


def _share(costs: Costs, worth: Floats, shares: Floats, most: float) -> Found:
    """Of people with costs up to `most`, those whose cost is not above what a payment is worth."""
    everybody = 1.0 if math.isinf(most) else float(costs.cdf(most))
    if not everybody > 0:
        return UNKNOWN
    # From above, so that all are exactly 1.
    value, *rest = (1 - (1 - costs.cdf(np.minimum(worth, most)) / everybody) @ shares).tolist()
    return Found(value, math.sqrt((len(rest) - 1) * np.var(rest)))


def _with_and_without(studies: Floats) -> Floats:
    """The sum over all studies, and without each of them."""
    return np.vstack([studies.sum(0), studies.sum(0) - studies])

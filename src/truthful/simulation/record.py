"""What a simulation saw, next to what its plan guarantees."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from truthful.plan import Plan
from truthful.simulation.cast import Role
from truthful.simulation.features import Brought
from truthful.simulation.found import Found
from truthful.simulation.responses import BestResponse
from truthful.simulation.run import Run
from truthful.version import __version__

FORMAT = "truthful/simulation/1"


@dataclass(frozen=True)
class Truthfulness:
    """gap: how far peers' predictions lie from truthful own predictions, where that is furthest (compare g).

    gain: what the best lie found gains in payments. slack and lie: the formulas of η and D with that gap for g, all of
    the privacy cost that a lie may save included; nobody observed them. All four need as many studies as a standard
    error needs. misreports: the share of reports that were lies. beyond: the share of studies with more of them than
    the plan allows for; of those nothing is guaranteed here and under accuracy.
    """

    gap: Found
    gain: Found
    slack: Found
    lie: Found
    misreports: Found
    beyond: float


@dataclass(frozen=True)
class Accuracy:
    """mean_squared_error: of the normalised coefficients. rmse: its root, raw. prediction_rmse: of predictions."""

    mean_squared_error: Found
    rmse: float
    prediction_rmse: float


@dataclass(frozen=True)
class Participation:
    """share: of people whom taking part pays, by what truthful people like them were paid on average. Of those whose
    privacy costs are at most the threshold: covered, the same share (all are promised it); covered_paid, of those who
    took part, whom it did pay.
    """

    share: Found
    covered: Found
    covered_paid: Found


@dataclass(frozen=True)
class Budget:
    """total: what a study cost on average. largest: at most. above_likely: the share that cost more than `likely`."""

    total: Found
    largest: float
    above_likely: float | None


@dataclass(frozen=True)
class Observed:
    """The guarantees in their order. Privacy is not seen in answers and payments; an audit measures it."""

    truthfulness: Truthfulness
    accuracy: Accuracy
    participation: Participation
    budget: Budget


@dataclass(frozen=True)
class Earnings:
    """Per player of one kind: how many joined, what they were paid and were left with after their privacy cost, and
    what their lies earned them over the truth.
    """

    agent: str
    players: int
    joined: Found
    payment: Found
    utility: Found
    gain: Found


@dataclass(frozen=True, eq=False)
class Simulation:
    """Whole studies with simulated people. Plan, agents, runs, seed, versions (of numpy too, whose chance it is) and
    the features that were brought make the same one again."""

    plan: Plan
    roles: tuple[Role, ...]
    runs: int
    seed: int
    features: Brought
    observed: Observed
    guaranteed_gap: float
    """g, the plan's bound on the gap, from which its η and D follow."""
    earnings: tuple[Earnings, ...]
    best_response: BestResponse
    papers_best_response: BestResponse
    studies: tuple[Run, ...] = field(repr=False)
    """What was kept of each study, in order."""

    def record(self) -> dict[str, Any]:
        """As printed by `truthful simulate --json`; numbers that are not known are null."""
        plan = self.plan
        record = {
            "format": FORMAT,
            "version": __version__,
            "numpy": np.__version__,
            "plan": plan.record(),
            "agents": [role.record() for role in self.roles],
            "runs": self.runs,
            "seed": self.seed,
            "features": asdict(self.features),
            "observed": asdict(self.observed),
            "guaranteed": plan.guarantees.record(),
            "guaranteed_gap": self.guaranteed_gap,
            "earnings": [asdict(one) for one in self.earnings],
            "best_response": asdict(self.best_response),
            "papers_best_response": asdict(self.papers_best_response),
        }
        return {name: _known(value) for name, value in record.items()}


def _known(record: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(record, dict):
        return {name: _known(value) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [_known(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record

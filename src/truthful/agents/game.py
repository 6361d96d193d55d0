"""What a simulated player knows when she chooses her report: herself, and the published mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful.beliefs.beliefs import Beliefs, Predictor
from truthful.bounds import proved
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.guarantees import setting
from truthful.mechanism import Mechanism
from truthful.payments import lengths, noise_along
from truthful.plan import Plan
from truthful.slope import stretch


@dataclass(frozen=True, eq=False)
class Players:
    """Simulated players, one a row: features x, true answer y and privacy cost c of each, in normalised units."""

    x: Floats
    y: Floats
    costs: Floats

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Players:
        return Players(self.x[rows], self.y[rows], self.costs[rows])


@dataclass(frozen=True, eq=False)
class Game:
    """The mechanism as it is published before anybody reports.

    Nobody knows her half yet: she reckons with the other one being half of all, of which `half` has the noise.
    threshold is τ, up to which the plan promises that the truth pays; gap is g, how far the liars above it can push
    her peers' prediction from her own; privacy_cost is h(ε).
    """

    mechanism: Mechanism
    beliefs: Beliefs
    threshold: float
    gap: float
    privacy_cost: float
    half: Estimate
    predictor: Predictor

    def own_prediction(self, x: Floats, reports: Floats) -> Floats:
        """q(x, ŷ). Of a true answer it is also p̄, what she expects her peers to predict if they are truthful."""
        r = lengths(x)
        return self.predictor(r, reports, noise_along(self.half, x, r))

    def expected_payment(self, p: Floats, q: Floats) -> Floats:
        """What she expects for an own prediction q if she expects her peers' to be p: rules are affine in p."""
        mechanism = self.mechanism
        return mechanism.scoring(p, q, a=mechanism.base_payment, b=mechanism.score_weight)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        q = self.own_prediction(players.x, players.y)
        return np.asarray(self.expected_payment(q, q) - players.costs * self.privacy_cost)


def game(plan: Plan, predictor: Predictor) -> Game:
    """The game of a plan; `predictor` gives own predictions against a half of half the players."""
    study, mechanism = plan.study, plan.mechanism
    promised = setting(study, mechanism, plan.players, plan.absent_share, plan.failure_probability)
    return Game(
        mechanism,
        study.beliefs,
        threshold=float(proved.threshold(promised)),
        gap=float(proved.gap(promised)),
        privacy_cost=study.privacy_cost(mechanism.epsilon),
        half=foreseen_half(plan),
        predictor=predictor,
    )


def foreseen_half(plan: Plan) -> Estimate:
    """An estimate by half of the players, as far as it is known beforehand: its noise.

    `noisy-statistics` adds noise shaped by a matrix that is yet to be released; E[x xᵀ] stands for it, or where that
    is unknown features equally spread in all directions.
    """
    study, mechanism, d = plan.study, plan.mechanism, plan.study.dimension
    estimator = mechanism.half_estimator(study.beliefs)
    Sigma = study.second_moments
    if mechanism.peers == "ridge-free" or Sigma is None:
        spread = np.eye(d) * stretch(study, mechanism.peers)
    else:
        spread = np.asarray(np.linalg.inv(Sigma), dtype=np.float64)
    scale = estimator.noise_scale(max(1, plan.players // 2), mechanism.epsilon_peer)
    return Estimate(np.zeros(d), spread, scale)

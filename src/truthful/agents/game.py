"""What a simulated player knows when she chooses her report: herself, and the published mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from truthful.beliefs import Beliefs, Predictor
from truthful.bounds import Setting, proved
from truthful.check import Floats
from truthful.estimators import Estimate
from truthful.geometry import Geometry, geometry
from truthful.guarantees import setting
from truthful.instruments import instruments_on_grid
from truthful.mechanism import Mechanism
from truthful.moments import GRID, grid_features, sums
from truthful.one_release import Bounded, OneRelease, require_invertible
from truthful.payments import lengths, noise_along
from truthful.plan import Plan
from truthful.slope import stretch
from truthful.study.features import sample_uniform

#: People who stand for all, where nobody brought them.
FORESEEN = 4_000
#: Of a search for the best report: points of the first grid and of finer ones, and how many of these.
FIRST, ZOOMED, ROUNDS = 65, 9, 12
#: Reports of each player that a search looks at.
LOOKS = FIRST + ZOOMED * ROUNDS


@dataclass(frozen=True, eq=False)
class Players:
    """Simulated players, one a row: features x, true answer y and privacy cost c of each, in normalised units."""

    x: Floats
    y: Floats
    costs: Floats

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Players:
        return Players(self.x[rows], self.y[rows], self.costs[rows])


class Swayed(Protocol):
    """A game whose estimate answers move, of numbers or of shares: see `Game`."""

    @property
    def beliefs(self) -> Bounded: ...

    @property
    def threshold(self) -> float: ...

    @property
    def furthest(self) -> Floats: ...

    @property
    def target(self) -> Floats: ...

    def influence(self, x: Floats) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Game:
    """The mechanism as it is published before anybody reports.

    `peers` is the estimate that she will be scored against as far as it can be foreseen: its noise. threshold is τ, up
    to which the plan promises that the truth pays; gap is g, how far the liars above it can push her peers' prediction
    from her own, if they are `liars` on average; privacy_cost is h(ε). The estimate is moved most easily in the
    direction `furthest`, and of all predictions that of the person with features `target`.
    """

    mechanism: Mechanism | OneRelease
    beliefs: Beliefs
    threshold: float
    gap: float
    liars: float
    privacy_cost: float
    peers: Estimate
    predictor: Predictor
    furthest: Floats
    target: Floats

    def own_prediction(self, x: Floats, reports: Floats) -> Floats:
        """q(x, ŷ). Of a true answer it is also p̄, what she expects her peers to predict if they are truthful."""
        r = lengths(x)
        return self.predictor(r, reports, noise_along(self.peers, x, r))

    def base(self, x: Floats) -> Floats:
        """What payments start from."""
        if isinstance(self.mechanism, OneRelease):
            return self.mechanism.base(lengths(x))
        return np.full(len(x), self.mechanism.base_payment)

    def score(self, p: Floats, q: Floats) -> Floats:
        """What is added to that, for an own prediction q if she expects her peers' to be p: rules are affine in p."""
        return self.mechanism.scoring(p, q, a=0.0, b=self.mechanism.score_weight)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        q = self.own_prediction(players.x, players.y)
        return np.asarray(self.base(players.x) + self.score(q, q) - players.costs * self.privacy_cost)

    def influence(self, x: Floats) -> Floats:
        """How an answer of each would move the estimate, a row each, in any unit: M⁻¹ζ."""
        return instruments(self.mechanism, grid_features(x)) @ self.peers.spread.T


def game(plan: Plan, predictor: Predictor, people: Floats | None = None) -> Game:
    """The game of a plan; `predictor` gives own predictions. People are those whom it is played with, or like them."""
    study, mechanism = plan.study, plan.number_mechanism
    x = foreseen_people(plan) if people is None else people
    promised, peers = promise(plan, x), foreseen(plan, x)
    z = instruments(mechanism, grid_features(x))
    moved = peers.spread @ (z.T @ z) @ peers.spread.T
    return Game(
        mechanism,
        study.beliefs,
        threshold=float(proved.threshold(promised)),
        gap=float(proved.gap(promised)),
        liars=float(promised.lying_chance) * plan.answering,
        privacy_cost=study.privacy_cost(mechanism.epsilon),
        peers=peers,
        predictor=predictor,
        furthest=np.asarray(np.linalg.eigh(moved)[1][:, -1]),
        target=x[np.linalg.norm(x @ peers.spread, axis=1).argmax()],
    )


def promise(plan: Plan, people: Floats) -> Setting:
    """What a plan's bounds depend on, for as many as are expected of people like these."""
    return setting(
        plan.study,
        plan.number_mechanism,
        plan.answering,
        plan.absent_share,
        plan.failure_probability,
        geometry_of(plan, people),
    )


def geometry_of(plan: Plan, people: Floats) -> Geometry | None:
    """The geometry of these people, where what is promised follows from it."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, OneRelease) or mechanism.protects != "answers":
        return None
    require_invertible(sums(grid_features(people), np.zeros(len(people)), mechanism.transform).matrix)
    return geometry(people, mechanism.transform)


def instruments(mechanism: Mechanism | OneRelease, kx: Floats) -> Floats:
    """ζ of everybody, given her features on the grid: x itself, unless the mechanism has a transform."""
    transform = mechanism.transform if isinstance(mechanism, OneRelease) else None
    return instruments_on_grid(kx, transform) / GRID


def foreseen_people(plan: Plan) -> Floats:
    """People as the study says they are spread; where it does not say, evenly over what it declares."""
    study, rng, n = plan.study, np.random.default_rng(0), min(plan.answering, FORESEEN)
    if not study.features:
        return study.normalise({}, n)
    told = study.design.kind in ("uniform", "unit-ball")
    columns = (
        study.sample_features(rng, n) if told else sample_uniform(rng, n, study.declared.encoding.features)
    )
    return study.normalise(columns, n)


def foreseen(plan: Plan, people: Floats) -> Estimate:
    """The estimate that players are scored against, as far as it is known beforehand: its noise.

    With one release M is n times its mean over these people, and a player is taken to have the mean leverage d/n; where
    M is declared it is known. `noisy-statistics` adds noise shaped by a matrix that is yet to be released: what it is
    without noise stands for it. Nobody knows her half yet, if there are halves: the other is half of all.
    """
    study, mechanism, n, d = plan.study, plan.number_mechanism, plan.answering, plan.study.dimension
    if not isinstance(mechanism, OneRelease):
        return foreseen_half(plan, mechanism)
    scale = mechanism.scale(study.beliefs)
    if mechanism.estimator == "known-design":
        return Estimate(np.zeros(d), _inverse(np.asarray(mechanism.design)), scale / (n - 1))
    kx = grid_features(people)
    mean = instruments(mechanism, kx).T @ (kx / GRID) / len(kx)
    return Estimate(np.zeros(d), _inverse(mean), scale / max(n - d, 1))


def foreseen_half(plan: Plan, mechanism: Mechanism) -> Estimate:
    """An estimate by half of the players.

    For the matrix of `noisy-statistics` E[x xᵀ] stands or, where that is unknown, one for features that are equally
    spread in all directions.
    """
    study, d = plan.study, plan.study.dimension
    estimator = mechanism.half_estimator(study.beliefs)
    Sigma = study.second_moments
    if mechanism.peers == "ridge-free" or Sigma is None:
        spread = np.eye(d) * stretch(study, mechanism.peers)
    else:
        spread = _inverse(Sigma)
    scale = estimator.noise_scale(max(1, plan.players // 2), mechanism.epsilon_peer)
    return Estimate(np.zeros(d), spread, scale)


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def best_reports(own: Callable[[Floats], Floats], expected: Floats, truth: Floats, bound: float) -> Floats:
    """For each player, the report in [−Y, Y] that is paid most, to Y·10⁻⁸.

    `own` gives all players' own predictions q(ŷ) for a report each, `expected` is what each expects of her peers, p̄.
    Her expected payment is a constant + b(2p̄q − q²), so the best report has its q nearest to p̄, whatever a, b and
    the rule are. She lies only if that pays: of reports that pay the same as the truth the truth is chosen.
    """

    def loss(reports: Floats) -> Floats:
        return np.asarray((own(reports) - expected) ** 2)

    best = least(loss, np.full(len(truth), -bound), np.full(len(truth), bound))
    return np.where(loss(best) < loss(truth), best, truth)


def least(loss: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """For each player, the report between low and high of least loss: on a grid, then on ever finer ones about it."""
    best, step = (low + high) / 2, (high - low) / 2
    for points in (FIRST, *(ZOOMED,) * ROUNDS):
        grid = np.clip(best + step * np.linspace(-1, 1, points)[:, None], low, high)
        losses = np.stack([loss(reports) for reports in grid])
        best = np.take_along_axis(grid, losses.argmin(axis=0)[None], 0)[0]
        step = step * 2 / (points - 1)
    return best

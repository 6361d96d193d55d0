"""What a simulated player knows when she chooses her report: herself, and the published mechanism.

Where she is also asked what the others will say, half the scale of answers is the unit. In one study people's centre is
μ, which nobody declares. A player whose own centre is μ_i, and who believes that the others' is μ°, expects, with o, s
and k of truthful.study.credibility,

    of people like her      P = μ_i + o + s(y − μ_i − o)
    of everybody            m = μ_i + k(y − μ_i − o), her prediction
    of their predictions    m̄ = μ° + k̄(m − μ°)

and from these the surprise, in which payments are linear: with Q = (1−s)(P − μ̂ − o) + s·P the best answer is Q/s, which
is y + γ/s; for yes and no it is the sign of P − m̄ − o.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.asked_release import SCALE, SERUM, AskedRelease
from truthful.beliefs import Beliefs, Predictor
from truthful.bounds import Setting, asked_bounds, proved, share_bounds
from truthful.bounds.asked_bounds import AskedSetting, advantage, gap, level_rows
from truthful.bounds.share_bounds import ShareSetting, believed_rows, pull
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import Estimate
from truthful.geometry import Geometry, effects_of, geometry, measure
from truthful.guarantees import asked_setting, setting, share_setting
from truthful.moments import GRID, grid_features, instruments_on_grid, lengths, sums
from truthful.one_release import Bounded, OneRelease, SumRelease, require_invertible
from truthful.plan import Plan
from truthful.planner.panel import difference_rows
from truthful.share_release import ShareRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs
from truthful.study.features import draw_columns

#: People who stand for all, where nobody brought them.
FORESEEN = 4_000
#: Of a search for the best report: points of the first grid and of finer ones, and how many of these.
FIRST, ZOOMED, ROUNDS = 65, 9, 12
#: Reports of each player that a search looks at.
LOOKS = FIRST + ZOOMED * ROUNDS


@dataclass(frozen=True, eq=False)
class Players:
    """Simulated players, one in each row: features x, true answer y and privacy cost c, in normalised units."""

    x: Floats
    y: Floats
    costs: Floats

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Players:
        return Players(self.x[rows], self.y[rows], self.costs[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class AnyGame:
    """The mechanism as it is published before anybody answers, whatever the answers are.

    threshold is τ, up to which the plan promises that the truth pays; gap is g, how far the liars above it can push
    what peers predict of her, if they are `liars` on average; privacy_cost is h(ε). spread is M⁻¹ in any unit. The
    estimate is moved most easily in the direction `furthest`, and of all predictions that of the person with features
    `target`.
    """

    mechanism: SumRelease
    beliefs: Bounded
    threshold: float
    gap: float
    liars: float
    privacy_cost: float
    spread: Floats
    furthest: Floats
    target: Floats

    def influence(self, x: Floats) -> Floats:
        """How each person's answer would move the estimate, one row for each, in any unit: M⁻¹ζ."""
        return np.asarray(instruments(self.mechanism, grid_features(x)) @ self.spread.T)


def instruments(mechanism: SumRelease, kx: Floats) -> Floats:
    """Everybody's ζ, from features on the grid: x itself, unless there is a transform."""
    return instruments_on_grid(kx, mechanism.transform, mechanism.norm) / GRID


def influences(mechanism: SumRelease, spread: Floats, x: Floats) -> dict[str, Any]:
    """How answers of these people move an estimate of this spread, in the terms of a game."""
    z = instruments(mechanism, grid_features(x))
    moved = spread @ (z.T @ z) @ spread.T
    return {
        "mechanism": mechanism,
        "spread": spread,
        "furthest": np.asarray(np.linalg.eigh(moved)[1][:, -1]),
        "target": x[np.linalg.norm(x @ spread, axis=1).argmax()],
    }


# Numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class Game(AnyGame):
    """The game where answers are numbers.

    `peers` is the estimate that she will be scored against as far as it can be foreseen: its noise.
    """

    mechanism: OneRelease
    beliefs: Beliefs
    peers: Estimate
    predictor: Predictor

    def own_prediction(self, x: Floats, reports: Floats) -> Floats:
        """q(x, ŷ). For a true answer it is also p̄, what she expects truthful peers to predict."""
        r = lengths(x)
        return self.predictor(r, reports, self.peers.noise_along(x, r))

    def base(self, x: Floats) -> Floats:
        """The base payment."""
        return self.mechanism.base(lengths(x))

    def score(self, p: Floats, q: Floats) -> Floats:
        """The score on top, for an own prediction q if she expects her peers to predict p: rules are affine in p."""
        return self.mechanism.scoring(p, q, a=0.0, b=self.mechanism.score_weight)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        q = self.own_prediction(players.x, players.y)
        return np.asarray(self.base(players.x) + self.score(q, q) - players.costs * self.privacy_cost)


def game(plan: Plan, predictor: Predictor, people: Floats | None = None) -> Game:
    """The game of a plan; `predictor` gives own predictions. `people` take part, or are like those who do."""
    study, mechanism = plan.study, plan.number_mechanism
    x = expected_people(plan) if people is None else people
    promised, peers = promise(plan, x), foresee_peers(plan, x)
    return Game(
        beliefs=study.beliefs,
        threshold=float(proved.threshold(promised)),
        gap=float(proved.gap(promised)),
        liars=float(promised.above_threshold) * plan.answering,
        privacy_cost=study.privacy_cost(mechanism.epsilon),
        peers=peers,
        predictor=predictor,
        **influences(mechanism, peers.spread, x),
    )


def promise(plan: Plan, people: Floats) -> Setting:
    """The setting of a plan's bounds, for as many people like these as are expected to answer."""
    return setting(
        plan.study,
        plan.number_mechanism,
        plan.answering,
        plan.absent_share,
        plan.failure_probability,
        geometry_of(plan, people),
    )


def geometry_of(plan: Plan, people: Floats) -> Geometry | None:
    """The geometry of these people, where the promises follow from it."""
    mechanism = plan.mechanism
    if not isinstance(mechanism, OneRelease) or mechanism.protects != "answers":
        return None
    require_invertible(sums(grid_features(people), np.zeros(len(people)), mechanism.transform).matrix)
    return geometry(people, mechanism.transform)


def expected_people(plan: Plan) -> Floats:
    """People drawn from the study's design; where it is not declared, spread evenly over ranges and levels."""
    study, rng, n = plan.study, np.random.default_rng(0), min(plan.answering, FORESEEN)
    if not study.features:
        return study.normalise({}, n)
    columns = (
        study.sample_features(rng, n)
        if study.assigned
        else draw_columns(rng, n, study.declared.encoding.features)
    )
    return study.normalise(columns, n)


def foresee_peers(plan: Plan, people: Floats) -> Estimate:
    """The estimate against which players are scored, as far as it is known beforehand: its noise.

    With one release M is n times its mean over these people, and every player is assumed to have the mean leverage d/n;
    a declared M is known. The noise of `noisy-statistics` is shaped by a matrix that is yet to be released: the same
    matrix without noise stands in for it.
    """
    study, mechanism, n, d = plan.study, plan.number_mechanism, plan.answering, plan.study.dimension
    scale = mechanism.scale(study.beliefs)
    if mechanism.estimator == "known-design":
        return Estimate(np.zeros(d), np.linalg.inv(np.asarray(mechanism.design)), scale / (n - 1))
    return Estimate(np.zeros(d), expected_spread(mechanism, people), scale / max(n - d, 1))


def expected_spread(mechanism: SumRelease, people: Floats) -> Floats:
    """M⁻¹ times the number of these people."""
    kx = grid_features(people)
    z = instruments(mechanism, kx)
    return np.asarray(np.linalg.inv(z.T @ (kx / GRID) / len(kx)))


def best_reports(own: Callable[[Floats], Floats], expected: Floats, truth: Floats, bound: float) -> Floats:
    """For each player, the report in [−Y, Y] that is paid most, to Y·10⁻⁸.

    `own` gives all players' own predictions q(ŷ) for a report each, `expected` is what each expects of her peers, p̄.
    Her expected payment is a constant + b(2p̄q − q²), so the best report has its q nearest to p̄, whatever a, b and
    the rule are. She lies only if that pays: among reports that pay the same as the truth, the truth is chosen.
    """

    def loss(reports: Floats) -> Floats:
        return np.asarray((own(reports) - expected) ** 2)

    best = least(loss, np.full(len(truth), -bound), np.full(len(truth), bound))
    return np.where(loss(best) < loss(truth), best, truth)


def least(loss: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """For each player, the report between low and high with the least loss, on finer and finer grids."""
    best, step = (low + high) / 2, (high - low) / 2
    for points in (FIRST, *(ZOOMED,) * ROUNDS):
        grid = np.clip(best + step * np.linspace(-1, 1, points)[:, None], low, high)
        losses = np.stack([loss(reports) for reports in grid])
        best = np.take_along_axis(grid, losses.argmin(axis=0)[None], 0)[0]
        step = step * 2 / (points - 1)
    return best


# Yes and no, ratings, and whatever asks people what the others will say


@dataclass(frozen=True, eq=False, kw_only=True)
class SumGame(AnyGame):
    """The game where answers have this number of `levels`; 0: numbers, where people are asked for predictions."""

    levels: int

    @property
    def answers(self) -> Floats:
        """All possible answers, from −1 (no, or the lowest rating) to 1."""
        return np.linspace(-1.0, 1.0, self.levels)

    def nearest(self, values: Floats) -> Floats:
        """The answers nearest to these numbers."""
        steps = (self.levels - 1) / 2
        return np.asarray(np.rint((np.clip(values, -1.0, 1.0) + 1.0) * steps) / steps - 1.0)

    def places(self, y: Floats) -> npt.NDArray[np.int64]:
        """The place of each answer among all of them."""
        return np.rint((y + 1.0) * (self.levels - 1) / 2).astype(np.int64)

    def pay_of(self, paid: Floats, y: Floats) -> Floats:
        """The payments for these answers, from those for each answer (a column)."""
        return np.asarray(paid[np.arange(len(y)), self.places(y)])


def sum_geometry(plan: Plan, people: Floats) -> Geometry:
    """The geometry of these people, with their beliefs and the numbers that single effects need."""
    mechanism, study, kx = plan.mechanism, plan.study, grid_features(people)
    assert isinstance(mechanism, SumRelease)
    require_invertible(sums(kx, np.zeros(len(kx)), mechanism.transform, mechanism.norm).matrix)
    kz, x = instruments_on_grid(kx, mechanism.transform, mechanism.norm), kx / GRID
    if study.levels is not None:
        believed = asked_bounds.group_levels(level_rows(study.levels, x, x.mean(axis=0)))
    else:
        believed = share_bounds.group_beliefs(believed_rows(share_mechanism(plan)[1], x))
    return replace(
        measure(kx, kz, norm=mechanism.norm),
        believed=believed,
        effects=effects_of(kx, kz, difference_rows(study)),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareGame(SumGame):
    """The game of yes and no, and of ratings."""

    mechanism: ShareRelease
    beliefs: ShareBeliefs

    @property
    def mean(self) -> Floats:
        """The features to which the declared beliefs refer."""
        return np.zeros(self.beliefs.dimension)

    def expected_share(self, x: Floats, y: Floats, off: Floats | float = 0.0) -> Floats:
        """The share that a person with this answer expects of people like her; her mean is `off` from the declared."""
        believed = self.beliefs.expects(x)
        mean = believed.mean + off
        return np.asarray(mean + believed.credibility * ((1.0 + y) / 2 - mean))

    def expected_payments(self, x: Floats, share: Floats) -> Floats:
        """The payment for each answer (a column) to a person who expects this share: φ follows it, clipping aside."""
        believed = self.beliefs.expects(x)
        width = believed.width(self.mechanism.margin)
        phi = np.clip((share - believed.switch) / width, -1.0, 1.0)
        y, bent = self.answers, believed.advantage / (2 * width)
        scored = 1.0 + phi[:, None] * y + bent[:, None] * (1.0 - y * y)
        return np.asarray(self.mechanism.flat + self.mechanism.bonus / 2 * scored)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        paid = self.expected_payments(players.x, self.expected_share(players.x, players.y))
        return self.pay_of(paid, players.y) - players.costs * self.privacy_cost


def share_game(plan: Plan, people: Floats | None = None) -> ShareGame:
    """The game of a plan whose answers are shares. `people` take part, or are like those who do."""
    mechanism, beliefs = share_mechanism(plan)
    x = expected_people(plan) if people is None else people
    s = share_promise(plan, sum_geometry(plan, x), plan.answering)
    return ShareGame(
        beliefs=beliefs,
        levels=beliefs.levels,
        threshold=float(s.threshold[0]),
        gap=float(pull(s).max()),
        liars=float(s.liars_expected[0]),
        privacy_cost=plan.study.privacy_cost(mechanism.epsilon),
        **influences(mechanism, expected_spread(mechanism, x), x),
    )


def share_mechanism(plan: Plan) -> tuple[ShareRelease, ShareBeliefs]:
    """Mechanism and beliefs of a plan whose answers are shares."""
    mechanism, beliefs = plan.share_mechanism, plan.study.shares
    if mechanism is None or beliefs is None:
        raise InputError(f"Answers of {plan.study.name!r} are numbers, not yes and no, or ratings.")
    return mechanism, beliefs


def share_promise(plan: Plan, geometry: Geometry, players: int) -> ShareSetting:
    """The setting of a plan's bounds, for this many people of this geometry."""
    mechanism, _ = share_mechanism(plan)
    s = share_setting(plan.study, mechanism, players, plan.absent_share, plan.failure_probability, geometry)
    return replace(s, belief_gap=0.0)


@dataclass(frozen=True, eq=False)
class Expectations:
    """A player's expectations: of people like her, of everybody (her prediction), and of others' predictions."""

    alike: Floats
    prediction: Floats
    others: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedGame(SumGame):
    """The game of people who are asked what the others will say.

    centre is the average answer that they expect, which no analyst knows, and mean their mean features. It has all that
    agents use of a `Game` or a `ShareGame`.
    """

    mechanism: AskedRelease
    beliefs: LevelBeliefs
    mean: Floats
    centre: float = 0.0

    def of(self, centre: float, mean: Floats) -> AskedGame:
        """The game of people with this centre and these mean features."""
        return replace(self, centre=centre, mean=mean)

    def expectations(
        self, x: Floats, y: Floats, off: Floats | float = 0.0, aware: float = 1.0, steeper: float = 1.0
    ) -> Expectations:
        """Expectations of people with these answers whose own centre is `off` from the common one.

        aware is λ: 1 if they know what the others expect, 0 if they believe that the others think as they do. An answer
        moves their expectation `steeper` times as much as it should.
        """
        beliefs = self.beliefs
        o, mine = beliefs.offsets(x, self.mean), self.centre + off
        s, variances = beliefs.slopes(x, self.mean), beliefs.variances(x, self.mean)
        if beliefs.shares is not None:  # of shares it depends on the centre
            s = beliefs.shares.credibility(np.clip((1 + mine + o) / 2, 0.01, 0.99), variances / SCALE**2)
        s = np.minimum(steeper * s, 1.0)
        k = s * beliefs.sure**2 / variances
        prediction = mine + k * (y - mine - o)
        theirs = aware * self.centre + (1 - aware) * mine
        return Expectations(
            mine + o + s * (y - mine - o), prediction, theirs + k.mean() * (prediction - theirs)
        )

    def surprise(self, x: Floats, foreseen: Expectations) -> Floats:
        """The expected Δ, clipping aside."""
        o = self.beliefs.offsets(x, self.mean)
        if self.mechanism.rule == SERUM:
            return np.asarray(foreseen.alike - foreseen.others - o)
        k = float(self.beliefs.level_slopes(x, self.mean).mean())
        centre = (foreseen.others - k * foreseen.prediction) / (1 - k)
        return np.asarray(foreseen.alike - centre - o)

    def best_answers(self, x: Floats, truth: Floats, foreseen: Expectations) -> Floats:
        """The best-paid answer on the scale; the truth where it pays as much."""
        found = self.surprise(x, foreseen)
        if self.mechanism.rule == SERUM:
            return np.where(found == 0, truth, np.sign(found))
        s = self.beliefs.slopes(x, self.mean)
        best = np.clip(((1 - s) * found + s * foreseen.alike) / s, -1.0, 1.0)
        if self.beliefs.shares is not None:
            return self.nearest(best)
        return np.where(np.abs(best - truth) < 1e-12, truth, best)

    # As of other games

    def own_prediction(self, x: Floats, reports: Floats) -> Floats:
        """q, in which payments are quadratic: s times an answer's distance from the one expected of people like her.

        For a true answer it is also what q is compared with, on average.
        """
        s, o = self.beliefs.slopes(x, self.mean), self.beliefs.offsets(x, self.mean)
        return np.asarray(s * (reports - self.centre - o))

    def base(self, x: Floats) -> Floats:
        """The base payment, on average: the square of the surprise costs everybody the same."""
        mechanism, beliefs = self.mechanism, self.beliefs
        paid = mechanism.base_payment + mechanism.prediction_weight * (SCALE**2 - beliefs.sure**2)
        if mechanism.rule == SERUM:
            return np.full(len(x), paid)
        s, v = beliefs.slopes(x, self.mean), beliefs.variances(x, self.mean)
        return np.asarray(paid - mechanism.score_weight * s * (2 - s) * v)

    def score(self, p: Floats, q: Floats) -> Floats:
        """The score added to it, if q is compared with p."""
        return np.asarray(self.mechanism.score_weight * (2 * p - q) * q)

    def expected_share(self, x: Floats, y: Floats) -> Floats:
        """The expectation of what payments depend on, given this answer: for yes and no the surprise, otherwise q."""
        if self.mechanism.rule == SERUM:
            return self.surprise(x, self.expectations(x, y))
        return self.own_prediction(x, y)

    def expected_payments(self, x: Floats, expected: Floats) -> Floats:
        """The payment for each answer (a column) to a person who expects that."""
        if self.mechanism.rule == SERUM:
            counted = np.clip(expected / self.mechanism.clip, -1.0, 1.0)
            scored = self.mechanism.score_weight * counted[:, None] * self.answers
        else:
            q = np.stack([self.own_prediction(x, np.full(len(x), y)) for y in self.answers.tolist()], axis=1)
            scored = self.score(expected[:, None], q)
        return np.asarray(self.base(x)[:, None] + scored)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        at_stake = players.costs * self.privacy_cost
        if self.mechanism.rule == SERUM:
            paid = self.expected_payments(players.x, self.expected_share(players.x, players.y))
            return self.pay_of(paid, players.y) - at_stake
        q = self.own_prediction(players.x, players.y)
        return np.asarray(self.base(players.x) + self.score(q, q) - at_stake)


def asked_game(plan: Plan, people: Floats | None = None) -> AskedGame:
    """The game of a plan that asks for predictions. `people` take part, or are like those who do."""
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    if mechanism is None or beliefs is None:
        raise InputError(f"{plan.study.name!r} does not ask people what the others will say.")
    x = expected_people(plan) if people is None else people
    s = asked_setting(
        plan.study,
        mechanism,
        plan.answering,
        plan.absent_share,
        plan.failure_probability,
        sum_geometry(plan, x),
    )
    return AskedGame(
        beliefs=beliefs,
        levels=0 if beliefs.shares is None else beliefs.shares.levels,
        threshold=float(s.threshold[0]),
        gap=_gap(s),
        liars=float(s.liars_expected[0]),
        privacy_cost=plan.study.privacy_cost(mechanism.epsilon),
        mean=x.mean(axis=0),
        **influences(mechanism, expected_spread(mechanism, x), x),
    )


def _gap(s: AskedSetting) -> float:
    """The largest distance of what payments depend on from what a truthful player expects of it."""
    if not s.beliefs.strict:
        return float(gap(s).max())
    truthful = replace(s, alpha=np.array([0.0]), clip=np.array([1e6]), tolerance=0.0, judged=False)
    return float(advantage(truthful)[0, 0] - advantage(s)[0, 0])

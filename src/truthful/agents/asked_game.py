"""What a simulated player knows who is also asked what the others will say: herself, and the published mechanism.

Half the scale of answers is the unit. In one study people's centre is μ, which nobody declares. Somebody whose own is
μ_i and who takes the others' to be μ° expects, with o, s and k of truthful.study.credibility,

    of people like her      P = μ_i + o + s(y − μ_i − o)
    of everybody            m = μ_i + k(y − μ_i − o), her prediction
    of their predictions    m̄ = μ° + k̄(m − μ°)

and from these the surprise, in which payments are linear: with Q = (1−s)(P − μ̂ − o) + s·P the best answer is Q/s, which
is y + γ/s, and of yes and no the sign of P − m̄ − o.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from truthful.agents.game import Players, foreseen_people
from truthful.agents.share_game import SumGame, moved_by
from truthful.asked_guarantees import asked_setting
from truthful.asked_release import SCALE, SERUM, AskedRelease
from truthful.bounds.asked import AskedSetting, advantage, gap, grouped, level_rows
from truthful.check import Floats
from truthful.errors import InputError
from truthful.geometry import Geometry, effects_of, measured
from truthful.instruments import instruments_on_grid
from truthful.moments import GRID, grid_features, sums
from truthful.one_release import require_invertible
from truthful.plan import Plan
from truthful.planner.panel import difference_rows
from truthful.study.credibility import LevelBeliefs


@dataclass(frozen=True, eq=False)
class Foreseen:
    """What somebody expects: of people like her, of everybody (which is her prediction), and of their predictions."""

    alike: Floats
    prediction: Floats
    others: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedGame(SumGame):
    """The mechanism as it is published before anybody answers, and one study's people.

    centre is what these expect the average answer to be, which no analyst knows, and mean their mean features. What
    agents ask of a `Game` or a `ShareGame` they can ask here.
    """

    mechanism: AskedRelease
    beliefs: LevelBeliefs
    mean: Floats
    centre: float = 0.0

    def of(self, centre: float, mean: Floats) -> AskedGame:
        """The game of people with this centre and these mean features."""
        return replace(self, centre=centre, mean=mean)

    def believed_slopes(self, x: Floats, centre: Floats | float) -> Floats:
        """s as it is for people of this centre: of shares it depends on it."""
        beliefs = self.beliefs
        if beliefs.shares is None:
            return beliefs.slopes(x, self.mean)
        share = (1 + centre + beliefs.offsets(x, self.mean)) / 2
        variance = beliefs.variances(x, self.mean) / SCALE**2
        return beliefs.shares.credibility(np.clip(share, 0.01, 0.99), variance)

    def foresees(
        self, x: Floats, y: Floats, off: Floats | float = 0.0, aware: float = 1.0, steeper: float = 1.0
    ) -> Foreseen:
        """What people with these answers expect whose own centre is `off` from the common one.

        aware is λ: 1 if they know what the others expect, 0 if they take them to think as they do. An answer moves
        what they expect `steeper` times as much as it should.
        """
        beliefs = self.beliefs
        o, mine = beliefs.offsets(x, self.mean), self.centre + off
        s = np.minimum(steeper * self.believed_slopes(x, mine), 1.0)
        k = s * beliefs.sure**2 / beliefs.variances(x, self.mean)
        prediction = mine + k * (y - mine - o)
        theirs = aware * self.centre + (1 - aware) * mine
        return Foreseen(mine + o + s * (y - mine - o), prediction, theirs + k.mean() * (prediction - theirs))

    def surprise(self, x: Floats, foreseen: Foreseen) -> Floats:
        """Δ as it is expected, but for what is clipped."""
        o = self.beliefs.offsets(x, self.mean)
        if self.mechanism.rule == SERUM:
            return np.asarray(foreseen.alike - foreseen.others - o)
        k = float(self.beliefs.level_slopes(x, self.mean).mean())
        centre = (foreseen.others - k * foreseen.prediction) / (1 - k)
        return np.asarray(foreseen.alike - centre - o)

    def best_answers(self, x: Floats, truth: Floats, foreseen: Foreseen) -> Floats:
        """What pays most, cut to the scale; the truth where it pays as much."""
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
        """q, in which payments are quadratic: s times how far an answer is from what was expected of people like her.

        Of a true answer it is also what q is compared with, on average.
        """
        s, o = self.beliefs.slopes(x, self.mean), self.beliefs.offsets(x, self.mean)
        return np.asarray(s * (reports - self.centre - o))

    def base(self, x: Floats) -> Floats:
        """What payments start from, on average: the square of the surprise costs everybody the same."""
        mechanism, beliefs = self.mechanism, self.beliefs
        paid = mechanism.base_payment + mechanism.prediction_weight * (SCALE**2 - beliefs.sure**2)
        if mechanism.rule == SERUM:
            return np.full(len(x), paid)
        s, v = beliefs.slopes(x, self.mean), beliefs.variances(x, self.mean)
        return np.asarray(paid - mechanism.score_weight * s * (2 - s) * v)

    def score(self, p: Floats, q: Floats) -> Floats:
        """What is added to that, if q is compared with p."""
        return np.asarray(self.mechanism.score_weight * (2 * p - q) * q)

    def expected_share(self, x: Floats, y: Floats) -> Floats:
        """What somebody with this answer expects payments to depend on: of yes and no the surprise, otherwise q."""
        if self.mechanism.rule == SERUM:
            return self.surprise(x, self.foresees(x, y))
        return self.own_prediction(x, y)

    def expected_payments(self, x: Floats, expected: Floats) -> Floats:
        """What each answer (a column) pays somebody who expects that."""
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
            return np.asarray(paid[np.arange(len(paid)), self.places(players.y)] - at_stake)
        q = self.own_prediction(players.x, players.y)
        return np.asarray(self.base(players.x) + self.score(q, q) - at_stake)


def asked_game(plan: Plan, people: Floats | None = None) -> AskedGame:
    """The game of a plan that asks for predictions. People are those whom it is played with, or like them."""
    mechanism, beliefs = asked_mechanism(plan)
    x = foreseen_people(plan) if people is None else people
    s = asked_promise(plan, asked_geometry(plan, x), plan.answering)
    return AskedGame(
        mechanism=mechanism,
        beliefs=beliefs,
        levels=0 if beliefs.shares is None else beliefs.shares.levels,
        threshold=float(s.costs.threshold(n=s.n, alpha=plan.absent_share, beta=s.beta)),
        gap=_gap(s),
        liars=float(s.liars_expected[0]),
        privacy_cost=plan.study.privacy_cost(mechanism.epsilon),
        mean=x.mean(axis=0),
        **moved_by(mechanism, x),
    )


def _gap(s: AskedSetting) -> float:
    """How far what payments depend on can be from what a truthful answer expects."""
    if not s.beliefs.strict:
        return float(gap(s).max())
    truthful = replace(s, alpha=np.array([0.0]), clip=np.array([1e6]), tolerance=0.0, judged=False)
    return float(advantage(truthful)[0, 0] - advantage(s)[0, 0])


def asked_mechanism(plan: Plan) -> tuple[AskedRelease, LevelBeliefs]:
    """Mechanism and beliefs of a plan that asks for predictions."""
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    if mechanism is None or beliefs is None:
        raise InputError(f"{plan.study.name!r} does not ask people what the others will say.")
    return mechanism, beliefs


def asked_promise(plan: Plan, geometry: Geometry, players: int) -> AskedSetting:
    """What a plan's bounds depend on, for so many of people of this geometry."""
    mechanism, _ = asked_mechanism(plan)
    return asked_setting(
        plan.study, mechanism, players, plan.absent_share, plan.failure_probability, geometry
    )


def asked_geometry(plan: Plan, people: Floats) -> Geometry:
    """The geometry of these people, with what they believe and what single effects need."""
    mechanism, beliefs = asked_mechanism(plan)
    kx = grid_features(people)
    require_invertible(sums(kx, np.zeros(len(kx)), mechanism.transform).matrix)
    kz, x = instruments_on_grid(kx, mechanism.transform), kx / GRID
    return replace(
        measured(kx, kz),
        believed=grouped(level_rows(beliefs, x, x.mean(axis=0))),
        effects=effects_of(kx, kz, difference_rows(plan.study)),
    )

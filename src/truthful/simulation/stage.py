"""What the studies of a simulation share, and the settlement of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truthful.agents import Game
from truthful.beliefs.beliefs import Predictor
from truthful.check import Floats
from truthful.errors import Refused
from truthful.moments import GRID
from truthful.payments import noise_along, payable
from truthful.plan import Plan
from truthful.simulation.answers import Sampler
from truthful.simulation.cast import Role
from truthful.simulation.drawing import Drawing, Drawn
from truthful.simulation.features import Features
from truthful.simulation.halves import Halves, predicted, sorted_halves
from truthful.simulation.predictors import Predictors
from truthful.simulation.sums import Kinds


@dataclass(frozen=True, eq=False)
class Stage:
    """Everything that the studies of a simulation share."""

    plan: Plan
    roles: tuple[Role, ...]
    game: Game
    predictors: Predictors
    features: Features
    noise: Sampler
    drawing: Drawing
    cost_threshold: float
    """The cost up to which the plan promises that taking part pays."""
    typical_answer: float
    """√E[y²]."""

    @cached_property
    def role_of(self) -> Kinds:
        """The place of each player's role among the roles."""
        return np.repeat(np.arange(len(self.roles), dtype=np.uint16), [role.count for role in self.roles])

    @cached_property
    def stretch(self) -> float | None:
        """By how much the noise of every half is stretched, if that is known beforehand and alike in all directions."""
        least, most = self.game.half.stretch
        return most if least == most and self.plan.mechanism.peers != "noisy-statistics" else None

    @property
    def cells(self) -> int:
        """In how many cells people are put, to look for lies that pay."""
        return 8 * self.plan.study.dimension


@dataclass(frozen=True, eq=False)
class Settled:
    """A settlement of those who came, in the order of `halves`.

    r = ‖x‖, p and q are what peers and her own report predict, scale is that of the noise in p.
    """

    halves: Halves
    drawn: Drawn
    against: tuple[Predictor, Predictor]
    r: Floats
    scale: Floats
    p: Floats
    q: Floats
    paid: Floats


def settled(stage: Stage, x: Floats, reports: Floats, rng: np.random.Generator) -> Settled:
    """Algorithm 2 for people with these features and reports."""
    mechanism, beliefs, n = stage.plan.mechanism, stage.plan.study.beliefs, len(reports)
    groups = rng.integers(0, 2, size=n, dtype=np.uint8)
    halves = sorted_halves(x, reports, groups, beliefs.response_bound)
    sizes = halves.moments[0].count, halves.moments[1].count
    if min(sizes) == 0:
        raise Refused(
            f"A simulated study has halves of {sizes[0]} and {sizes[1]} players; both need at least one. Plan for "
            "more players, or let fewer of them opt out."
        )
    drawn = stage.drawing.draw(halves.moments, rng)
    against = stage.predictors(sizes[1]), stage.predictors(sizes[0])
    R = beliefs.radius if mechanism.payments == "never-negative" else math.inf
    r, y, scale, p, q = np.empty((5, n))
    for peer, other, place in zip(drawn.estimates.peers[::-1], against, halves.places, strict=True):
        predicted(halves.k, place.start, place.stop, peer.theta, R, r[place], y[place], p[place])
        scale[place] = (
            peer.scale * stage.stretch
            if stage.stretch
            else noise_along(peer, halves.k[:-1, place].T, GRID * r[place])
        )
        q[place] = other(r[place], y[place], scale[place])
    return Settled(halves, drawn, against, r, scale, p, q, payable(mechanism, beliefs, p, q))

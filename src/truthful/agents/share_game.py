"""What a simulated player knows who answers yes or no, or with a rating: herself, and the published mechanism."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truthful.agents.game import Players, foreseen_people
from truthful.bounds.shares import ShareSetting, believed_rows, grouped, pull
from truthful.check import Floats
from truthful.errors import InputError
from truthful.geometry import Geometry, effects_of, measured
from truthful.instruments import Transform, instruments_on_grid
from truthful.moments import GRID, grid_features, sums
from truthful.one_release import Bounded, SumRelease, require_invertible
from truthful.plan import Plan
from truthful.planner.panel import difference_rows
from truthful.share_release import ShareRelease
from truthful.study.credibility import ShareBeliefs


@dataclass(frozen=True, eq=False, kw_only=True)
class SumGame:
    """What players know of one release before anybody answers.

    threshold is τ, up to which the plan promises that the truth pays; gap is g, how far the liars above it can push
    what others predict of her, if they are `liars` on average; privacy_cost is h(ε). spread is M⁻¹ in any unit. The
    estimate is moved most easily in the direction `furthest`, and of all predictions that of the person with features
    `target`. levels is how many answers there are.
    """

    beliefs: Bounded
    transform: Transform | None
    norm: str = "l2"
    levels: int
    threshold: float
    gap: float
    liars: float
    privacy_cost: float
    spread: Floats
    furthest: Floats
    target: Floats

    @property
    def answers(self) -> Floats:
        """All that can be answered, from −1 (no, or the lowest rating) to 1."""
        return np.linspace(-1.0, 1.0, self.levels)

    def nearest(self, values: Floats) -> Floats:
        """The answers next to these numbers."""
        steps = (self.levels - 1) / 2
        return np.asarray(np.rint((np.clip(values, -1.0, 1.0) + 1.0) * steps) / steps - 1.0)

    def places(self, y: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The place of each answer among all of them."""
        return np.rint((y + 1.0) * (self.levels - 1) / 2).astype(np.int64)

    def influence(self, x: Floats) -> Floats:
        """How an answer of each would move the estimate, a row each, in any unit: M⁻¹ζ."""
        z = instruments_on_grid(grid_features(x), self.transform, self.norm) / GRID
        return np.asarray(z @ self.spread.T)


def moved_by(mechanism: SumRelease, x: Floats) -> dict[str, Any]:
    """How answers of these people move an estimate: spread, furthest and target of their game, and its transform."""
    kx = grid_features(x)
    Z = instruments_on_grid(kx, mechanism.transform, mechanism.norm) / GRID
    spread = np.asarray(np.linalg.inv(Z.T @ (kx / GRID) / len(x)), dtype=np.float64)
    moved = spread @ (Z.T @ Z) @ spread.T
    return {
        "transform": mechanism.transform,
        "norm": mechanism.norm,
        "spread": spread,
        "furthest": np.asarray(np.linalg.eigh(moved)[1][:, -1]),
        "target": x[np.linalg.norm(x @ spread, axis=1).argmax()],
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareGame(SumGame):
    """The mechanism as it is published before anybody answers."""

    mechanism: ShareRelease
    beliefs: ShareBeliefs

    def expected_share(self, x: Floats, y: Floats, off: Floats | float = 0.0) -> Floats:
        """What somebody with this answer expects of people like her, if her mean is `off` from what is declared."""
        believed = self.beliefs.expects(x)
        mean = believed.mean + off
        return np.asarray(mean + believed.credibility * ((1.0 + y) / 2 - mean))

    def expected_payments(self, x: Floats, share: Floats) -> Floats:
        """What each answer (a column) pays somebody who expects this share: φ follows it, but for what is clipped."""
        believed = self.beliefs.expects(x)
        width = believed.width(self.mechanism.margin)
        phi = np.clip((share - believed.switch) / width, -1.0, 1.0)
        y, bent = self.answers, believed.advantage / (2 * width)
        scored = 1.0 + phi[:, None] * y + bent[:, None] * (1.0 - y * y)
        return np.asarray(self.mechanism.flat + self.mechanism.bonus / 2 * scored)

    def expected_utility(self, players: Players) -> Floats:
        """Expected payment less privacy cost c·h(ε) of telling the truth, if the others do."""
        share = self.expected_share(players.x, players.y)
        paid = self.expected_payments(players.x, share)
        told = paid[np.arange(len(share)), self.places(players.y)]
        return np.asarray(told - players.costs * self.privacy_cost)


def share_game(plan: Plan, people: Floats | None = None) -> ShareGame:
    """The game of a plan whose answers are shares. People are those whom it is played with, or like them."""
    mechanism, beliefs = share_mechanism(plan)
    x = foreseen_people(plan) if people is None else people
    s = share_promise(plan, share_geometry(plan, x), plan.answering)
    return ShareGame(
        mechanism=mechanism,
        beliefs=beliefs,
        levels=beliefs.levels,
        threshold=float(s.threshold[0]),
        gap=float(pull(s).max()),
        liars=float(s.liars_expected[0]),
        privacy_cost=plan.study.privacy_cost(mechanism.epsilon),
        **moved_by(mechanism, x),
    )


def share_mechanism(plan: Plan) -> tuple[ShareRelease, ShareBeliefs]:
    """Mechanism and beliefs of a plan whose answers are shares."""
    mechanism, beliefs = plan.share_mechanism, plan.study.shares
    if mechanism is None or beliefs is None:
        raise InputError(f"Answers of {plan.study.name!r} are numbers, not yes and no, or ratings.")
    return mechanism, beliefs


def share_promise(plan: Plan, geometry: Geometry, players: int) -> ShareSetting:
    """What a plan's bounds depend on, for so many of people of this geometry."""
    mechanism, beliefs = share_mechanism(plan)
    study = plan.study
    return ShareSetting(
        beliefs=beliefs,
        geometry=geometry,
        costs=study.costs,
        n=players,
        alpha=np.array([plan.absent_share]),
        epsilon=np.array([mechanism.epsilon]),
        beta=plan.failure_probability,
        margin=mechanism.margin,
        tolerance=mechanism.tolerance,
        privacy=study.declared.costs.privacy,
        assigned=study.assigned or not study.features,
    )


def share_geometry(plan: Plan, people: Floats) -> Geometry:
    """The geometry of these people, with what they believe and what single effects need."""
    mechanism, beliefs = share_mechanism(plan)
    kx = grid_features(people)
    require_invertible(sums(kx, np.zeros(len(kx)), mechanism.transform, mechanism.norm).matrix)
    kz = instruments_on_grid(kx, mechanism.transform, mechanism.norm)
    return replace(
        measured(kx, kz, norm=mechanism.norm),
        believed=grouped(believed_rows(beliefs, kx / GRID)),
        effects=effects_of(kx, kz, difference_rows(plan.study)),
    )

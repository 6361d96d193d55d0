"""Simulations of yes and no, and of ratings: what whole studies look like, next to what is guaranteed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truthful.agents import asked_game
from truthful.agents.share_game import share_game
from truthful.check import Floats
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.simulation.asked_studies import AskedStage
from truthful.simulation.cast import Features, Role
from truthful.simulation.found import FEWEST, UNKNOWN, Found, enough_people, mean, ratio
from truthful.simulation.share_studies import LEVEL, ShareRun, ShareStage

#: Of so many studies the intervals that they would publish are made: each takes longer than all else in a study.
INTERVALS = 200


@dataclass(frozen=True)
class ShareObserved:
    """What only studies of shares have. Errors are root mean squares in raw units.

    steps: from how many steps on no lie is to pay. advantage: what the truth earned over such a lie, on average over
    those people of whom it was least. effect_rmse: of the difference that was off most, None without features.
    coverage: of intervals that are to cover the truth with probability `level`. payments: by true answer (a row) and
    by what is said, what it earned on average.
    """

    steps: int
    advantage: Found
    share_rmse: float
    effect_rmse: float | None
    level: float
    coverage: Found
    payments: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LevelObserved:
    """What only studies of numbers have that ask people what the others will say. Errors are in units of the answer.

    answer_rmse: of the average answer. effect_rmse: of the difference that was off most, None without features.
    coverage: of intervals of coefficients that are to cover the truth with probability `level`.
    """

    answer_rmse: float
    effect_rmse: float | None
    level: float
    coverage: Found


@dataclass(frozen=True)
class Lie:
    """What somebody says instead of her answer, in places among all answers, and what it earned her over the truth."""

    truth: int
    said: int
    gain: Found

    @property
    def steps(self) -> int:
        return abs(self.said - self.truth)


NO_LIE = Lie(0, 0, UNKNOWN)


def set_up_shares(plan: Plan, roles: tuple[Role, ...], features: Features, people: Floats) -> ShareStage:
    """What all studies share."""
    threshold = plan.guarantees.participation.cost_threshold
    return ShareStage(
        plan, roles, features, math.inf if threshold is None else threshold, share_game(plan, people)
    )


def set_up_predictions(plan: Plan, roles: tuple[Role, ...], features: Features, people: Floats) -> AskedStage:
    """The same where people are asked what the others will say."""
    threshold = plan.guarantees.participation.cost_threshold
    return AskedStage(
        plan, roles, features, math.inf if threshold is None else threshold, asked_game(plan, people)
    )


def best_share_lie(runs: Sequence[ShareRun], levels: int, steps: int) -> Lie:
    """Of lies of so many steps or more, the one that seemed best in every second study, as it did in the others.

    Sought by cells of people who are alike. A lie is chosen because it looked good: so the studies that chose it do not
    measure it.
    """
    players = np.array([run.cell_players for run in runs])
    lost = np.array([run.cell_lost for run in runs])
    sought, tried = slice(0, None, 2), slice(1, None, 2)
    enough = enough_people(players[sought]) & enough_people(players[tried])
    place = np.arange(players.shape[1]) % levels
    far = np.abs(place[:, None] - np.arange(levels)) >= steps
    if len(runs) < FEWEST or not enough.any():
        return NO_LIE
    means = lost[sought].sum(axis=0) / np.maximum(players[sought].sum(axis=0), 1)[:, None]
    cell, said = np.unravel_index(int(np.where(far & enough[:, None], means, np.inf).argmin()), means.shape)
    found = ratio(lost[tried, cell, said], players[tried, cell])
    return Lie(int(place[cell]), int(said), found.times(-1.0))


def observed_level(plan: Plan, runs: Sequence[ShareRun]) -> LevelObserved:
    """What only studies of numbers have that ask people what the others will say."""
    rmse, effect_rmse, coverage = _errors(plan, runs)
    return LevelObserved(rmse, effect_rmse, LEVEL, coverage)


def _errors(plan: Plan, runs: Sequence[ShareRun]) -> tuple[float, float | None, Found]:
    """Root mean square errors of the average and of the difference that was off most, and the coverage of intervals."""
    effects = np.array([run.effect_errors for run in runs])
    covered = np.array([run.covered for run in runs if run.covered is not None])
    return (
        math.sqrt(mean(np.array([run.share_error**2 for run in runs])).value),
        float(np.sqrt(np.mean(effects**2, axis=0)).max()) if plan.study.features else None,
        mean(covered.mean(axis=1)),
    )


def observed_shares(plan: Plan, promised: Guarantees, runs: Sequence[ShareRun], levels: int) -> ShareObserved:
    """What only studies of shares have."""
    steps = promised.truthfulness.steps or 1
    rmse, effect_rmse, coverage = _errors(plan, runs)
    players = np.array([run.cell_players for run in runs]).sum(axis=0).reshape(-1, levels).sum(axis=0)
    earned = np.array([run.cell_earned for run in runs]).sum(axis=0).reshape(-1, levels, levels).sum(axis=0)
    with np.errstate(invalid="ignore"):
        payments = earned / players[:, None]
    return ShareObserved(
        steps=steps,
        advantage=best_share_lie(runs, levels, steps).gain.times(-1.0),
        share_rmse=rmse,
        effect_rmse=effect_rmse,
        level=LEVEL,
        coverage=coverage,
        payments=tuple(tuple(row) for row in payments.tolist()),
    )


def guaranteed_shares(plan: Plan, runs: Sequence[ShareRun]) -> Guarantees:
    """What holds for the people of the studies, on average over those for which it was computed."""
    found = [run.promised for run in runs if run.promised is not None]
    promised, errors = plan.guarantees, [one.accuracy for one in found]
    rmse, predicted, effects = (
        _root_mean_square([getattr(one, name) for one in errors])
        for name in ("rmse", "prediction_rmse", "effect_rmse")
    )
    squared = None if rmse is None else (rmse / plan.study.response_unit) ** 2
    gain = None if promised.truthfulness.steps is None else float(np.mean([one.gain for one in found]))
    return replace(
        promised,
        truthfulness=replace(promised.truthfulness, gain=gain),
        accuracy=replace(
            promised.accuracy,
            mean_squared_error=squared,
            rmse=rmse,
            prediction_rmse=predicted,
            effect_rmse=effects,
        ),
    )


def _root_mean_square(values: Sequence[float | None]) -> float | None:
    """Of numbers that are all known."""
    known = [value for value in values if value is not None]
    return math.sqrt(float(np.mean(np.square(known)))) if len(known) == len(values) else None

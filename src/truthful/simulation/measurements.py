"""Numbers that simulations find, with their standard errors: means, the best lie there is, whom taking part pays.

The best lie: one that moves the own prediction from q to q + Δ gains b(2(p̄ − q)Δ − Δ²), so where peers predict δ more
than q on average, the best lie is Δ = δ. It is sought among cells of players, by features and answers. A cell chosen
because δ looks large there looks larger than it is; so δ is measured on the studies that had no part in the choice. The
parts are not exchanged for a second look: the two would share their luck, and their mean look surer than it is.

Whom taking part pays is judged by what truthful people like her, of one cell, were really paid, on average over all
studies: a person of cost c, if that is at least c·h(ε). The law of costs says of how many in a cell that is true.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from truthful.agents import asked_game
from truthful.agents.games import share_game
from truthful.check import Floats
from truthful.costs import Costs
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.simulation.population import Features, Role
from truthful.simulation.runs import LEVEL, AskedStage, ShareRun, ShareStage

#: A cell says nothing of fewer people, nor if they are as unequally spread over studies as if those were so few.
PEOPLE, STUDIES = 100, 10
#: Of fewer studies a standard error of the best lie is not to be had.
FEWEST = 30


@dataclass(frozen=True)
class Found:
    """A mean, and its standard error; NaN where too little was seen."""

    value: float
    error: float

    def times(self, factor: float) -> Found:
        """The same in other units."""
        return Found(self.value * factor, self.error * abs(factor))


UNKNOWN = Found(math.nan, math.nan)


def mean(values: Floats) -> Found:
    """Of one value a study."""
    return ratio(values, np.ones(len(values)))


def ratio(sums: Floats, counts: Floats) -> Found:
    """The mean of all that was summed over studies, with the error from how it varies between them."""
    runs, total = len(counts), float(counts.sum())
    if not total > 0:
        return UNKNOWN
    value = float(sums.sum()) / total
    spread = math.sqrt(float(np.sum((sums - value * counts) ** 2)) * runs / max(runs - 1, 1)) / total
    return Found(value, spread if runs > 1 else math.nan)


def enough_people(players: Floats) -> npt.NDArray[np.bool_]:
    """Which cells hold enough people, by study and cell, of enough studies: (Σn)²/Σn² of them.

    Answers are large in the few studies whose θ is: a mean over those is that of few θ, however many people there are.
    """
    total, squares = players.sum(axis=0), np.square(players).sum(axis=0)
    return np.asarray((total >= PEOPLE) & (total**2 >= STUDIES * squares))


@dataclass(frozen=True)
class BestLie:
    """δ, how far peers' predictions lie from q where that is furthest, and what a lie of that size gains per b."""

    gap: Found
    gain: Found


def best_lie(players: Floats, surplus: Floats) -> BestLie:
    """The best move of q by every second study, and δ in the same cell by the others.

    Players and Σ(p − q) over them, by study (a row) and cell.
    """
    sought, tried = slice(0, None, 2), slice(1, None, 2)
    enough = enough_people(players[sought]) & enough_people(players[tried])
    if len(players) < FEWEST or not enough.any():
        return BestLie(UNKNOWN, UNKNOWN)
    means = np.where(enough, surplus[sought].sum(0) / np.maximum(players[sought].sum(0), 1), 0.0)
    cell = int(np.abs(means).argmax())
    move, found = float(means[cell]), ratio(surplus[tried, cell], players[tried, cell])
    return BestLie(
        gap=Found(math.copysign(1.0, move) * found.value, found.error),
        gain=Found(2 * move * found.value - move**2, 2 * abs(move) * found.error),
    )


@dataclass(frozen=True, eq=False)
class Paid:
    """By study (a row) and cell: all people, those who took part and told the truth, and what those were paid."""

    people: Floats
    truthful: Floats
    paid: Floats

    def worthwhile(self, costs: Costs, privacy_cost: float, threshold: float) -> tuple[Found, Found]:
        """The share of people whom taking part pays: of all, and of those with costs up to the threshold."""
        seen = enough_people(self.truthful)
        if not seen.any():
            return UNKNOWN, UNKNOWN
        shares = self.people.sum(0)[seen] / self.people.sum(0)[seen].sum()
        # Jackknife: once with all studies, then without each of them.
        sums, counts = (_with_and_without(part[:, seen]) for part in (self.paid, self.truthful))
        worth = sums / counts / privacy_cost
        return _share(costs, worth, shares, math.inf), _share(costs, worth, shares, threshold)


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

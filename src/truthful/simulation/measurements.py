"""Measurements of simulations, with standard errors: the five guarantees as observed, and the best lie.

A lie that moves the own prediction from q to q + Δ gains b(2(p̄ − q)Δ − Δ²), so where peers predict δ more than q on
average, the best lie is Δ = δ. It is sought among cells of players, by features and answers. A cell chosen because δ
looks large there looks larger than it is; so δ is measured on the studies that had no part in the choice. The halves
are not swapped for a second measurement: the two would share their luck, and their mean look surer than it is.

Taking part pays a person of cost c if truthful people in her cell were paid at least c·h(ε), on average over all
studies. The distribution of costs gives the share of people in a cell for whom that holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.costs import Costs
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.simulation.population import PopulationRole
from truthful.simulation.runs import LEVEL, Context, Run

#: A cell with fewer people is ignored, or if its people are as unevenly spread over studies as if there were this few.
PEOPLE, STUDIES = 100, 10
#: The least number of studies for a standard error of the best lie.
FEWEST = 30


@dataclass(frozen=True)
class Measurement:
    """A mean, and its standard error; NaN where too little was observed."""

    value: float
    error: float

    def times(self, factor: float) -> Measurement:
        """The measurement in other units."""
        return Measurement(self.value * factor, self.error * abs(factor))


UNKNOWN = Measurement(math.nan, math.nan)
#: The size of lies that cost nothing.
NO_LIMIT = Measurement(math.inf, math.nan)
#: Studies in which a lie is sought, and those in which it is measured.
SOUGHT, TRIED = slice(0, None, 2), slice(1, None, 2)


def mean(values: Floats) -> Measurement:
    """The mean of one value per study."""
    return ratio(values, np.ones(len(values)))


def ratio(sums: Floats, counts: Floats) -> Measurement:
    """The mean of all that was summed over studies, with the error from its variation between them."""
    runs, total = len(counts), float(counts.sum())
    if not total > 0:
        return UNKNOWN
    value = float(sums.sum()) / total
    spread = math.sqrt(float(np.sum((sums - value * counts) ** 2)) * runs / max(runs - 1, 1)) / total
    return Measurement(value, spread if runs > 1 else math.nan)


def enough_people(players: Floats) -> npt.NDArray[np.bool_]:
    """Which cells hold enough people, by study and cell, from enough studies: (Σn)²/Σn² of them.

    Large answers come from the few studies with a large θ: their mean is one over few θ, however many people there are.
    """
    total, squares = players.sum(axis=0), np.square(players).sum(axis=0)
    return np.asarray((total >= PEOPLE) & (total**2 >= STUDIES * squares))


@dataclass(frozen=True)
class BestLie:
    """δ, the largest distance of peers' predictions from q, and the gain per b of a lie of that size."""

    gap: Measurement
    gain: Measurement


def best_lie(players: Floats, surplus: Floats) -> BestLie:
    """The best move of q by every second study, and δ in the same cell by the others.

    Players and Σ(p − q) over them, by study (a row) and cell.
    """
    enough = enough_people(players[SOUGHT]) & enough_people(players[TRIED])
    if len(players) < FEWEST or not enough.any():
        return BestLie(UNKNOWN, UNKNOWN)
    means = np.where(enough, surplus[SOUGHT].sum(0) / np.maximum(players[SOUGHT].sum(0), 1), 0.0)
    cell = int(np.abs(means).argmax())
    move, found = float(means[cell]), ratio(surplus[TRIED, cell], players[TRIED, cell])
    return BestLie(
        gap=Measurement(math.copysign(1.0, move) * found.value, found.error),
        gain=Measurement(2 * move * found.value - move**2, 2 * abs(move) * found.error),
    )


def joining_shares(
    people: Floats, truthful: Floats, paid: Floats, costs: Costs, privacy_cost: float, threshold: float
) -> tuple[Measurement, Measurement]:
    """The share of people for whom taking part pays: of all, and of those with costs up to the threshold.

    Arguments are by study (a row) and cell: all people, those who took part and told the truth, and their total pay.
    """
    seen = enough_people(truthful)
    if not seen.any():
        return UNKNOWN, UNKNOWN
    shares = people.sum(0)[seen] / people.sum(0)[seen].sum()
    # Jackknife: with all studies, then without each of them.
    sums, counts = (
        np.vstack([part.sum(0), part.sum(0) - part]) for part in (paid[:, seen], truthful[:, seen])
    )
    worth = sums / counts / privacy_cost
    return _share(costs, worth, shares, math.inf), _share(costs, worth, shares, threshold)


def _share(costs: Costs, worth: Floats, shares: Floats, most: float) -> Measurement:
    """The share of people with costs up to `most` whose cost is at most the worth of a payment."""
    everybody = 1.0 if math.isinf(most) else float(costs.cdf(most))
    if not everybody > 0:
        return UNKNOWN
    # From above, so that everybody is exactly 1.
    value, *rest = (1 - (1 - costs.cdf(np.minimum(worth, most)) / everybody) @ shares).tolist()
    return Measurement(value, math.sqrt((len(rest) - 1) * np.var(rest)))


@dataclass(frozen=True)
class MeasuredTruthfulness:
    """gap: the largest distance of peers' predictions from truthful own predictions (compare g).

    gain: what the best lie found gains in payments. slack and lie: the formulas for η and D with that gap as g,
    including all the privacy cost that a lie may save; they are not observed. All four need enough studies for a
    standard error. misreports: the share of reports that were lies; liars: their number per study. beyond: the share of
    studies with more of them than the plan allows for; accuracy guarantees nothing about those.
    """

    gap: Measurement
    gain: Measurement
    slack: Measurement
    lie: Measurement
    misreports: Measurement
    liars: Measurement
    beyond: float


@dataclass(frozen=True)
class MeasuredAccuracy:
    """mean_squared_error: of the normalised coefficients. rmse: its root, raw. prediction_rmse: of predictions."""

    mean_squared_error: Measurement
    rmse: float
    prediction_rmse: float


@dataclass(frozen=True)
class MeasuredParticipation:
    """share: the share of people for whom taking part pays, judged by the average pay of truthful people like them.
    Among people with costs up to the threshold, covered is the same share (all are promised it), and covered_paid is
    the share of participants for whom it did pay.
    """

    share: Measurement
    covered: Measurement
    covered_paid: Measurement


@dataclass(frozen=True)
class MeasuredBudget:
    """total: the average cost of a study. largest: the largest. above_likely: the share of studies that cost more than
    `likely`.
    """

    total: Measurement
    largest: float
    above_likely: float | None


@dataclass(frozen=True)
class MeasuredGuarantees:
    """The guarantees in their order. Privacy does not show in answers and payments; an audit measures it."""

    truthfulness: MeasuredTruthfulness
    accuracy: MeasuredAccuracy
    participation: MeasuredParticipation
    budget: MeasuredBudget


@dataclass(frozen=True)
class Earnings:
    """Per player of one kind: how many joined, their pay, what is left after their privacy cost, and what lies earned
    them over the truth.
    """

    agent: str
    players: int
    joined: Measurement
    payment: Measurement
    utility: Measurement
    gain: Measurement


@dataclass(frozen=True)
class ShareObserved:
    """Observations of studies of shares only. Errors are root mean squares in raw units.

    steps: the number of steps from which no lie should pay. advantage: what the truth earned over such a lie, on
    average over the people for whom it was least. effect_rmse: of the difference with the largest error, None without
    features. coverage: the share of intervals that cover the truth, which should be `level`. payments: average pay by
    true answer (a row) and by answer given.
    """

    steps: int
    advantage: Measurement
    share_rmse: float
    effect_rmse: float | None
    level: float
    coverage: Measurement
    payments: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LevelObserved:
    """Observations of studies of numbers that ask people what the others will say. Errors are in units of the answer.

    answer_rmse: of the average answer. effect_rmse: of the difference with the largest error, None without features.
    coverage: the share of intervals of coefficients that cover the truth, which should be `level`.
    """

    answer_rmse: float
    effect_rmse: float | None
    level: float
    coverage: Measurement


@dataclass(frozen=True)
class Lie:
    """The answer somebody gives instead of hers, as a place among all answers, and its gain over the truth."""

    truth: int
    said: int
    gain: Measurement

    @property
    def steps(self) -> int:
        return abs(self.said - self.truth)


def column(runs: Sequence[Run], name: str) -> Floats:
    """One number, or one array, per study."""
    return np.array([getattr(run, name) for run in runs], dtype=np.float64)


def measure(
    context: Context, promised: Guarantees, runs: Sequence[Run], best: Lie | None = None
) -> MeasuredGuarantees:
    """The guarantees as observed; `best` is the best lie where answers are shares."""
    study = context.plan.study
    error, predicted, totals = (column(runs, name) for name in ("squared_error", "prediction_error", "total"))
    people, truthful, paid = (column(runs, f"cell_{name}") for name in ("people", "truthful", "paid"))
    costs, threshold = study.costs, context.cost_threshold
    share, covered = joining_shares(people, truthful, paid, costs, context.game.privacy_cost, threshold)
    unit, likely = study.response_unit, promised.budget.likely
    return MeasuredGuarantees(
        _measure_truthfulness(context, runs, best),
        MeasuredAccuracy(
            mean(error),
            rmse=unit * math.sqrt(mean(error).value),
            prediction_rmse=unit * math.sqrt(mean(predicted).value),
        ),
        MeasuredParticipation(
            share, covered, covered_paid=ratio(column(runs, "covered_paid"), column(runs, "covered_joined"))
        ),
        MeasuredBudget(
            mean(totals),
            largest=float(totals.max()),
            above_likely=None if likely is None else float(np.mean(totals > likely)),
        ),
    )


def _measure_truthfulness(context: Context, runs: Sequence[Run], best: Lie | None) -> MeasuredTruthfulness:
    """The best lie, and η and D with its gap: bδ² + τh(ε) and δ + √(δ² + τh(ε)/b).

    For shares η and D are not known, and the best lie's gain is the observed one.
    """
    plan, saved = context.plan, context.game.threshold * context.game.privacy_cost
    found = best_lie(column(runs, "cell_players"), column(runs, "cell_surplus"))
    if best is not None:
        gain, slack, lie = best.gain, UNKNOWN, UNKNOWN
    else:
        b = (plan.asked_mechanism or plan.number_mechanism).score_weight
        gain, slack, lie = found.gain.times(b), _with_gap(found.gap, lambda gap: b * gap**2 + saved), NO_LIMIT
        if b > 0:
            lie = _with_gap(found.gap, lambda gap: gap + math.sqrt(gap**2 + saved / b))
    misreports, joined = column(runs, "misreports"), column(runs, "joined").sum(axis=1)
    return MeasuredTruthfulness(
        gap=found.gap,
        gain=gain,
        slack=slack,
        lie=lie,
        misreports=ratio(misreports, joined),
        liars=mean(misreports),
        beyond=float(np.mean(misreports > plan.absent_share * joined + 1e-9)),
    )


def _with_gap(gap: Measurement, formula: Callable[[float], float]) -> Measurement:
    """A formula of the gap, with the increase for a gap larger by one standard error."""
    value = formula(max(gap.value, 0.0))
    return Measurement(value, formula(max(gap.value, 0.0) + gap.error) - value)


def measure_earnings(roles: Sequence[PopulationRole], runs: Sequence[Run]) -> tuple[Earnings, ...]:
    joined, paid, utility, gain = (column(runs, name) for name in ("joined", "paid", "utility", "gain"))
    return tuple(
        Earnings(
            agent=role.agent.name,
            players=role.count,
            joined=mean(joined[:, k]),
            payment=ratio(paid[:, k], joined[:, k]),
            utility=ratio(utility[:, k], joined[:, k]),
            gain=ratio(gain[:, k], joined[:, k]),
        )
        for k, role in enumerate(roles)
    )


def best_share_lie(runs: Sequence[Run], levels: int, steps: int) -> Lie:
    """The best of lies of this many steps or more, chosen in every second study and measured in the others.

    It is sought by cells of similar people. A lie is chosen because it looked good: so the studies that chose it do not
    measure it.
    """
    players, lost = column(runs, "cell_players"), column(runs, "cell_lost")
    enough = enough_people(players[SOUGHT]) & enough_people(players[TRIED])
    place = np.arange(players.shape[1]) % levels
    far = np.abs(place[:, None] - np.arange(levels)) >= steps
    if len(runs) < FEWEST or not enough.any():
        return Lie(0, 0, UNKNOWN)
    means = lost[SOUGHT].sum(axis=0) / np.maximum(players[SOUGHT].sum(axis=0), 1)[:, None]
    cell, said = np.unravel_index(int(np.where(far & enough[:, None], means, np.inf).argmin()), means.shape)
    found = ratio(lost[TRIED, cell, said], players[TRIED, cell])
    return Lie(int(place[cell]), int(said), found.times(-1.0))


def measure_shares(plan: Plan, promised: Guarantees, runs: Sequence[Run], levels: int) -> ShareObserved:
    """The observations of studies of shares only."""
    steps = promised.truthfulness.steps or 1
    rmse, effect_rmse, coverage = _errors(plan, runs)
    players = column(runs, "cell_players").sum(axis=0).reshape(-1, levels).sum(axis=0)
    earned = column(runs, "cell_earned").sum(axis=0).reshape(-1, levels, levels).sum(axis=0)
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


def measure_level(plan: Plan, runs: Sequence[Run]) -> LevelObserved:
    """The observations of studies of numbers with predictions only."""
    rmse, effect_rmse, coverage = _errors(plan, runs)
    return LevelObserved(rmse, effect_rmse, LEVEL, coverage)


def _errors(plan: Plan, runs: Sequence[Run]) -> tuple[float, float | None, Measurement]:
    """Root mean square errors of the average and of the difference with the largest error, and the coverage of
    intervals.
    """
    covered = np.array([run.covered for run in runs if run.covered is not None])
    effects = column(runs, "effect_errors")
    return (
        math.sqrt(mean(np.array([run.share_error**2 for run in runs])).value),
        float(np.sqrt(np.mean(effects**2, axis=0)).max()) if plan.study.features else None,
        mean(covered.mean(axis=1)),
    )


def average_guarantees(context: Context, runs: Sequence[Run]) -> tuple[Guarantees, float]:
    """The guarantees for the people of the studies, averaged over those for which they were computed; and their gap."""
    plan, promised, threshold = context.plan, context.plan.guarantees, context.cost_threshold
    found = [run.bounds for run in runs if run.bounds is not None]
    means = {name: float(np.mean([run[name] for run in found])) for name in found[0]}
    for name in ("prediction_rmse", "effect_rmse"):
        if name in means:
            means[name] = math.sqrt(np.mean([run[name] ** 2 for run in found]))
    means["rmse"] = plan.study.response_unit * math.sqrt(means["mean_squared_error"])
    known = {name: value if math.isfinite(value) else None for name, value in means.items()}
    groups: dict[str, Any] = {
        name: getattr(promised, name) for name in ("truthfulness", "accuracy", "budget")
    }
    for group, numbers in groups.items():
        groups[group] = replace(
            numbers, **{name: known[name] for name in known.keys() & vars(numbers).keys()}
        )
    groups["participation"] = replace(
        promised.participation,
        share=float(plan.study.costs.cdf(threshold)),
        cost_threshold=threshold if math.isfinite(threshold) else None,
    )
    return replace(promised, **groups), means.get("gap", context.game.gap)

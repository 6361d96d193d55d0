"""A simulation in words: observed next to guaranteed, who earned what, what would have paid most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthful.formatting import money, number, percent, points
from truthful.simulation import AskedSimulation, ShareSimulation, Simulation
from truthful.simulation.best_responses import SURE, BestResponse
from truthful.simulation.measurements import LevelObserved, Measurement, ShareObserved
from truthful.simulation.simulation import BOUNDED, PEOPLES
from truthful.study import Study

#: Not known, or not guaranteed.
NOT_KNOWN = "–"
#: Shown where the search for lies needs more studies.
TOO_FEW = "too few studies"
EARNINGS = ("agent", "players", "joined", "paid each", "after privacy", "over the truth")


@dataclass(frozen=True)
class Observation:
    """A number of one of the five guarantees, as observed and as guaranteed; empty where there is none."""

    guarantee: str
    words: str
    observed: str
    guaranteed: str


#: The name of a number, as observed, and as guaranteed.
Row = tuple[str, str, str]


def observations(simulation: Simulation) -> tuple[Observation, ...]:
    """Observed next to guaranteed, in the guarantees' order."""
    guarantees = {
        "privacy": [("total ε", "as claimed", f"{simulation.guaranteed.privacy.epsilon:.4g}")],
        "truthfulness": _truthfulness(simulation),
        "accuracy": _accuracy(simulation),
        "participation": _participation(simulation),
        "budget": _budget(simulation),
    }
    return tuple(Observation(name, *row) for name, rows in guarantees.items() for row in rows)


def excess_liars(simulation: Simulation) -> str:
    """Say that the plan's guarantees are silent where more people lied than it allows for.

    Accuracy allows for a share of liars in each study, truthfulness for a number on average over studies.
    """
    seen, allowed = simulation.observed.truthfulness, simulation.plan.absent_share
    said = ""
    if seen.beyond:
        said = (
            f"In {percent(seen.beyond)} of the studies more people lied than the plan allows for ({percent(allowed)}): "
            "of those nothing is guaranteed about truthfulness, accuracy and average cost."
        )
    elif seen.liars.value > simulation.guaranteed_liars + 3 * np.nan_to_num(seen.liars.error):
        said = (
            f"On average {number(seen.liars.value)} people lied in a study. What is guaranteed about truthfulness and "
            f"average cost is so for up to {number(simulation.guaranteed_liars)}: so many have privacy costs above the "
            "plan's threshold."
        )
    return said


def name_guarantees(simulation: Simulation) -> str:
    """Say which guarantees stand next to the observations, where there are two."""
    if simulation.guaranteed_for == PEOPLES:
        return (
            "What is guaranteed follows from people's features. Here it is computed for those of each study, a mean "
            f"over the first {min(simulation.runs, BOUNDED)}; of a real one, for those who answer."
        )
    if simulation.features.everybody:
        return "These are the people whom the plan was made for, all of them: what is guaranteed is as in the plan."
    return ""


def earnings_rows(simulation: Simulation) -> list[tuple[str, ...]]:
    """For people of each kind: pay, the rest after their privacy cost, and the gain from lying: columns of EARNINGS."""
    return [
        (
            row.agent,
            f"{row.players:,}",
            f"{row.joined.value:,.0f}",
            *(_number(found) for found in (row.payment, row.utility, row.gain)),
        )
        for row in simulation.earnings
    ]


def best_reports(simulation: Simulation) -> tuple[str, ...]:
    """The best lie found under this plan and under the paper's rule, a sentence each; for shares, under this plan."""
    if isinstance(simulation, ShareSimulation):
        return (_best_answer(simulation),)
    if isinstance(simulation, AskedSimulation):
        return (_best_number(simulation),)
    ours, papers = simulation.best_response, simulation.papers_best_response
    found = _best_lie(simulation, ours)
    none = "no report was found that pays more than the truth"
    return (
        f"If the others are truthful, {found if ours.pays else f'{none}: {found}'}.",
        f"Under the paper's ridge at this size {_best_lie(simulation, papers)} (truthful errata E21).",
    )


def _best_lie(simulation: Simulation, best: BestResponse) -> str:
    study = simulation.plan.study
    if math.isnan(best.gain.value):
        return "peers' predictions could not be sought"
    return (
        f"the best lie found is {number(abs(best.lie))} (of {study.response.high - study.response.low:,g}) off the "
        f"truth, moves a prediction by {number(abs(best.move.value) * study.response_unit)} and adds "
        f"{_number(best.gain)} {study.currency}"
    )


def _best_answer(simulation: ShareSimulation) -> str:
    """The lie that did best for similar people, and its gain."""
    study, lie = simulation.plan.study, simulation.best_lie
    if math.isnan(lie.gain.value):
        return "Too few studies were simulated to look for the best lie."
    truth, said = (answer_name(study, place) for place in (lie.truth, lie.said))
    what = f"to say {said} where {truth} is true"
    value, error = lie.gain.value, lie.gain.error
    if value > SURE * error:
        return f"The best lie found is {what}: on average it added {_number(lie.gain)} {study.currency}."
    return (
        f"No lie was found that pays more than the truth: the best is {what}, and on average it cost "
        f"{_number(lie.gain.times(-1.0))} {study.currency}."
    )


def _best_number(simulation: AskedSimulation) -> str:
    """The effect of the best lie in a number, where people are asked what the others will say."""
    study, seen = simulation.plan.study, simulation.observed.truthfulness
    slope = simulation.plan.guarantees.truthfulness.slope
    if math.isnan(seen.gain.value):
        return "Too few studies were simulated to look for the best lie."
    lie = number(abs(seen.gap.value) / slope * study.response_unit)
    what = f"{lie} (of {study.response.high - study.response.low:,g}) off the truth"
    if seen.gap.value > SURE * seen.gap.error:
        return f"The best lie found is {what}, and adds {_number(seen.gain)} {study.currency} on average."
    return (
        f"No lie was found that pays more than the truth: the best is {what}, which is no more than chance."
    )


def answer_name(study: Study, place: int) -> str:
    """The name of an answer by its place among all of them: no and yes, or the rating."""
    return ("no", "yes")[place] if study.kind == "yes-no" else f"{place + 1}"


def _truthfulness(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.truthfulness, simulation.guaranteed.truthfulness
    unit, currency = simulation.plan.study.response_unit, simulation.plan.study.currency
    if isinstance(simulation, ShareSimulation):
        return _share_truthfulness(simulation)
    gap, size, in_answers, lie = "peers' predictions off own ones by", "D with the observed gap", unit, None
    if promised.lie is not None:
        lie = promised.lie * unit
    if isinstance(simulation, AskedSimulation):
        gap, size = (
            "answers off what would pay most, times their slope",
            "size from which on no lie pays, with that",
        )
        in_answers, lie = unit / promised.slope, promised.lie_in_answer
    return [
        (gap, _looked_for(seen.gap.times(unit)), _maybe(simulation.guaranteed_gap * unit)),
        ("payment that the best lie found adds", _looked_for(seen.gain, currency), ""),
        ("η with the observed gap", _looked_for(seen.slack, currency), _money(promised.slack, currency)),
        (size, _looked_for(seen.lie.times(in_answers)), _maybe(lie)),
    ]


def _share_truthfulness(simulation: ShareSimulation) -> list[Row]:
    """The least gain of the truth over a lie, and the distance of peers from what was expected of them."""
    study, seen, promised = simulation.plan.study, simulation.shares, simulation.guaranteed.truthfulness
    steps = "1 step" if seen.steps == 1 else f"{seen.steps} steps"
    lie, unit, what = f"a lie of {steps} or more", 2 * study.response_unit, "levels"
    if study.kind == "yes-no":
        lie, unit, what = "the other answer", 100.0, "points"
    said = "prediction"
    if simulation.plan.asked_mechanism is not None:
        said, unit = "surprise", unit / 2  # there the unit is half the scale
    advantage = f"the truth earns more than {lie}, at least by"
    gap = simulation.observed.truthfulness.gap
    return [
        (advantage, _looked_for(seen.advantage, study.currency), _money(promised.gain, study.currency)),
        (
            f"others' {said} off what people expect, {what}",
            _looked_for(gap.times(unit)),
            _maybe(simulation.guaranteed_gap * unit),
        ),
    ]


def _accuracy(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.accuracy, simulation.guaranteed.accuracy
    if isinstance(simulation, ShareSimulation):
        return _share_accuracy(simulation, simulation.shares, simulation.shares.share_rmse)
    if isinstance(simulation, AskedSimulation):
        return _share_accuracy(simulation, simulation.level, simulation.level.answer_rmse)
    squared = _maybe(promised.mean_squared_error)
    return [
        ("mean squared error, normalised", _number(seen.mean_squared_error), squared),
        ("error of coefficients", number(seen.rmse), _maybe(promised.rmse)),
        ("error of predictions, on average", number(seen.prediction_rmse), _maybe(promised.prediction_rmse)),
    ]


def _share_accuracy(simulation: Simulation, seen: ShareObserved | LevelObserved, rmse: float) -> list[Row]:
    """Errors of everybody's average and of differences, and how often intervals covered the truth."""
    study, everybody = simulation.plan.study, simulation.observed.accuracy
    promised = simulation.guaranteed.accuracy

    def row(of: str, value: float | None, guaranteed: float | None) -> Row:
        shown = points if study.kind == "yes-no" else number
        return f"error of {of}", _maybe(value, shown), _maybe(guaranteed, shown)

    what = {"yes-no": "share of yes", "rating": "mean rating"}.get(study.kind, "average answer")
    # Everybody's average errs no more than predictions for people do on average.
    rows = [row(f"the {what}", rmse, promised.prediction_rmse)]
    if seen.effect_rmse is not None:
        if isinstance(simulation, AskedSimulation):
            rows.append(row("coefficients", everybody.rmse, promised.rmse))
        else:
            rows.append(row("differences", seen.effect_rmse, promised.effect_rmse))
        rows.append(row("predictions, on average", everybody.prediction_rmse, promised.prediction_rmse))
    return [*rows, ("intervals that cover the truth", _estimate(seen.coverage), percent(seen.level))]


def _participation(simulation: Simulation) -> list[Row]:
    seen, share = simulation.observed.participation, simulation.guaranteed.participation.share
    return [
        ("taking part pays for", _estimate(seen.share), _maybe(share, percent)),
        ("of those who are promised it", _estimate(seen.covered), "100%" if share else NOT_KNOWN),
        ("and in the end it paid for", _maybe(seen.covered_paid.value, percent), ""),
    ]


def _budget(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.budget, simulation.guaranteed.budget
    currency = simulation.plan.study.currency
    rows = [
        ("total, on average", money(seen.total.value, currency), _money(promised.expected, currency)),
        ("largest total", money(seen.largest, currency), _money(promised.cap, currency)),
    ]
    if seen.above_likely is not None:
        within = f"totals within {_money(promised.likely, currency)}"
        surely = percent(1 - 2 * simulation.plan.failure_probability)
        rows.append((within, percent(1 - seen.above_likely), surely))
    return rows


def _number(found: Measurement) -> str:
    """A mean, with its standard error."""
    if not math.isfinite(found.value):
        return NOT_KNOWN
    # A spread that is only rounding counts as none.
    error = f" ± {number(found.error, 2)}" if found.error > 1e-9 * abs(found.value) else ""
    return f"{number(found.value)}{error}"


def _looked_for(found: Measurement, currency: str = "") -> str:
    """A measurement that needs a search over enough studies."""
    return TOO_FEW if math.isnan(found.value) else f"{_number(found)} {currency}".rstrip()


def _estimate(found: Measurement) -> str:
    """A share to the nearest hundredth of a per cent, with its standard error if that is no less."""
    if not math.isfinite(found.value):
        return NOT_KNOWN
    error = f" ± {number(100 * found.error, 2)}%" if found.error >= 5e-5 else ""
    return f"{round(100 * found.value, 2):g}%{error}"


def _maybe(value: float | None, shown: Callable[[float], str] = number) -> str:
    return shown(value) if value is not None and math.isfinite(value) else NOT_KNOWN


def _money(value: float | None, currency: str) -> str:
    return _maybe(value, lambda known: f"{number(known) if 0 < known < 1 else f'{known:,.2f}'} {currency}")

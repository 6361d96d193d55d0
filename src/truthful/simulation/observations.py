"""What a simulation saw, in words: observed next to guaranteed, who earned what, what would have paid most."""

from __future__ import annotations

import math
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
#: The search for lies needs more.
TOO_FEW = "too few studies"
EARNINGS = ("agent", "players", "joined", "paid each", "after privacy", "over the truth")


@dataclass(frozen=True)
class Observation:
    """A number of one of the five guarantees: as it was seen, and as it is guaranteed; empty where nothing is."""

    guarantee: str
    words: str
    observed: str
    guaranteed: str


def observations(simulation: Simulation) -> tuple[Observation, ...]:
    """Observed next to guaranteed, in the guarantees' order."""
    return (
        *_privacy(simulation),
        *_truthfulness(simulation),
        *_accuracy(simulation),
        *_participation(simulation),
        *_budget(simulation),
    )


def beyond(simulation: Simulation) -> str:
    """Where more lied than the plan allows for, its guarantees are silent.

    Accuracy allows for a share of liars in a study, and truthfulness for so many on average over studies.
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


def compared_with(simulation: Simulation) -> str:
    """Which guarantees stand next to what was observed, where there are two."""
    if simulation.guaranteed_for == PEOPLES:
        return (
            "What is guaranteed follows from people's features. Here it is computed for those of each study, a mean "
            f"over the first {min(simulation.runs, BOUNDED)}; of a real one, for those who answer."
        )
    if simulation.features.everybody:
        return "These are the people whom the plan was made for, all of them: what is guaranteed is as in the plan."
    return ""


def earned(simulation: Simulation) -> list[tuple[str, ...]]:
    """What people of each kind were paid, what privacy left of it, and what lying earned them: columns of EARNINGS."""
    return [
        (
            one.agent,
            f"{one.players:,}",
            f"{one.joined.value:,.0f}",
            *(_number(found) for found in (one.payment, one.utility, one.gain)),
        )
        for one in simulation.earnings
    ]


def best_reports(simulation: Simulation) -> tuple[str, ...]:
    """The best lie found under this plan and under the paper's rule, a sentence each; of shares, under this plan."""
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
    """The lie that did best for people who are alike, and what it earned them."""
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
    """What the best lie in a number moves, where people are asked what the others will say."""
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
    """An answer by its place among all of them: no and yes, or the rating."""
    return ("no", "yes")[place] if study.kind == "yes-no" else f"{place + 1}"


def _privacy(simulation: Simulation) -> list[Observation]:
    epsilon = f"{simulation.guaranteed.privacy.epsilon:.4g}"
    return [Observation("privacy", "total ε", "as claimed", epsilon)]


def _truthfulness(simulation: Simulation) -> list[Observation]:
    seen, promised = simulation.observed.truthfulness, simulation.guaranteed.truthfulness
    unit, currency, name = simulation.plan.study.response_unit, simulation.plan.study.currency, "truthfulness"
    if isinstance(simulation, ShareSimulation):
        return _share_truthfulness(simulation, name)
    asked, slope = isinstance(simulation, AskedSimulation), promised.slope
    lie = promised.lie_in_answer if asked else None if promised.lie is None else promised.lie * unit
    return [
        Observation(
            name,
            "answers off what would pay most, times their slope"
            if asked
            else "peers' predictions off own ones by",
            _looked_for(seen.gap.times(unit)),
            _maybe(simulation.guaranteed_gap * unit),
        ),
        Observation(name, "payment that the best lie found adds", _looked_for(seen.gain, currency), ""),
        Observation(
            name,
            "η with the observed gap",
            _looked_for(seen.slack, currency),
            _money(promised.slack, currency),
        ),
        Observation(
            name,
            "size from which on no lie pays, with that" if asked else "D with the observed gap",
            _looked_for(seen.lie.times(unit / slope if asked else unit)),
            _maybe(lie),
        ),
    ]


def _accuracy(simulation: Simulation) -> list[Observation]:
    seen, promised = simulation.observed.accuracy, simulation.guaranteed.accuracy
    name = "accuracy"
    if isinstance(simulation, ShareSimulation | AskedSimulation):
        return _share_accuracy(simulation, name)
    return [
        Observation(
            name,
            "mean squared error, normalised",
            _number(seen.mean_squared_error),
            _maybe(promised.mean_squared_error),
        ),
        Observation(name, "error of coefficients", number(seen.rmse), _maybe(promised.rmse)),
        Observation(
            name,
            "error of predictions, on average",
            number(seen.prediction_rmse),
            _maybe(promised.prediction_rmse),
        ),
    ]


def _share_truthfulness(simulation: ShareSimulation, name: str) -> list[Observation]:
    """What the truth earned over a lie, where that was least, and how far peers were from what was expected of them."""
    study, seen, promised = simulation.plan.study, simulation.shares, simulation.guaranteed.truthfulness
    lie = "the other answer" if study.kind == "yes-no" else f"a lie of {_steps(seen.steps)} or more"
    unit = 100.0 if study.kind == "yes-no" else 2 * study.response_unit
    unit = (
        unit / 2 if simulation.plan.asked_mechanism is not None else unit
    )  # half the scale is the unit there
    what = "points" if study.kind == "yes-no" else "levels"
    said = "prediction" if simulation.plan.asked_mechanism is None else "surprise"
    return [
        Observation(
            name,
            f"the truth earns more than {lie}, at least by",
            _looked_for(seen.advantage, study.currency),
            _money(promised.gain, study.currency),
        ),
        Observation(
            name,
            f"others' {said} off what people expect, {what}",
            _looked_for(simulation.observed.truthfulness.gap.times(unit)),
            _maybe(simulation.guaranteed_gap * unit),
        ),
    ]


def _steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count} steps"


def _share_accuracy(simulation: ShareSimulation | AskedSimulation, name: str) -> list[Observation]:
    """Errors of the average of everybody and of differences, and how often intervals covered the truth."""
    study, promised = simulation.plan.study, simulation.guaranteed.accuracy
    seen: ShareObserved | LevelObserved
    if isinstance(simulation, ShareSimulation):
        seen, rmse = simulation.shares, simulation.shares.share_rmse
    else:
        seen, rmse = simulation.level, simulation.level.answer_rmse

    def error(value: float | None) -> str:
        if value is None or not math.isfinite(value):
            return NOT_KNOWN
        return points(value) if study.kind == "yes-no" else number(value)

    what = {"yes-no": "share of yes", "rating": "mean rating"}.get(study.kind, "average answer")
    rows = [
        # Of everybody together no more than of people on average.
        Observation(name, f"error of the {what}", error(rmse), error(promised.prediction_rmse))
    ]
    if seen.effect_rmse is not None:
        single = Observation(
            name, "error of differences", error(seen.effect_rmse), error(promised.effect_rmse)
        )
        if isinstance(simulation, AskedSimulation):
            off = simulation.observed.accuracy.rmse
            single = Observation(name, "error of coefficients", error(off), error(promised.rmse))
        rows += [
            single,
            Observation(
                name,
                "error of predictions, on average",
                error(simulation.observed.accuracy.prediction_rmse),
                error(promised.prediction_rmse),
            ),
        ]
    covered = "intervals that cover the truth"
    return [*rows, Observation(name, covered, _estimated(seen.coverage), f"{percent(seen.level)}")]


def _participation(simulation: Simulation) -> list[Observation]:
    seen, promised = simulation.observed.participation, simulation.guaranteed.participation
    name, share = "participation", promised.share
    return [
        Observation(
            name,
            "taking part pays for",
            _estimated(seen.share),
            NOT_KNOWN if share is None else percent(share),
        ),
        Observation(
            name, "of those who are promised it", _estimated(seen.covered), "100%" if share else NOT_KNOWN
        ),
        Observation(name, "and in the end it paid for", _percent(seen.covered_paid), ""),
    ]


def _budget(simulation: Simulation) -> list[Observation]:
    seen, promised = simulation.observed.budget, simulation.guaranteed.budget
    currency, name = simulation.plan.study.currency, "budget"
    surely = percent(1 - 2 * simulation.plan.failure_probability)
    rows = [
        Observation(
            name,
            "total, on average",
            money(seen.total.value, currency),
            _money(promised.expected, currency),
        ),
        Observation(name, "largest total", money(seen.largest, currency), _money(promised.cap, currency)),
    ]
    if seen.above_likely is not None:
        within = f"totals within {_money(promised.likely, currency)}"
        rows.append(Observation(name, within, percent(1 - seen.above_likely), surely))
    return rows


def _number(found: Measurement) -> str:
    """A mean, with its standard error."""
    if not math.isfinite(found.value):
        return NOT_KNOWN
    # A spread of rounding errors is none.
    error = f" ± {number(found.error, 2)}" if found.error > 1e-9 * abs(found.value) else ""
    return f"{number(found.value)}{error}"


def _looked_for(found: Measurement, currency: str = "") -> str:
    """What only a search in enough studies finds."""
    return TOO_FEW if math.isnan(found.value) else f"{_number(found)} {currency}".rstrip()


def _percent(found: Measurement) -> str:
    """A share that was counted."""
    return percent(found.value) if math.isfinite(found.value) else NOT_KNOWN


def _estimated(found: Measurement) -> str:
    """A share to the nearest hundredth of a per cent, with its standard error if that is no less."""
    if not math.isfinite(found.value):
        return NOT_KNOWN
    error = f" ± {number(100 * found.error, 2)}%" if found.error >= 5e-5 else ""
    return f"{round(100 * found.value, 2):g}%{error}"


def _maybe(value: float | None) -> str:
    return number(value) if value is not None and math.isfinite(value) else NOT_KNOWN


def _money(value: float | None, currency: str) -> str:
    return money(value, currency) if value is not None and math.isfinite(value) else NOT_KNOWN

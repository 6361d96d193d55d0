"""What is paid to somebody who is also asked what the others will say, as she is told: beforehand, and at the end.

Beforehand nothing is told of what the study believes: she is asked what she believes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful.asked_release import SCALE, AskedRelease, largest_gain, largest_loss, score
from truthful.payments import PAYMENT_STEPS
from truthful.plan import Plan
from truthful.release.verdict import Steps
from truthful.service.bonus import ENDS, features_of
from truthful.study import Study

#: How far from the others' average the answers are that are told of, as parts of the scale of answers.
APART = (-0.25, 0.0, 0.25)


@dataclass(frozen=True)
class Stakes:
    """What answers and predictions pay, in units of predictions: of the answer, or of 100 others.

    `columns` are answers, as distances from the others' average; for yes or no they are no and yes, −1 and 1. `rows`
    are surprises, each with what these answers are paid. A prediction that is off by `apart`, `far` or not at all is
    paid what `predictions` say. `judged` is whether averages that nobody thought possible pay all answers alike.
    """

    base: float
    clip: float
    columns: tuple[float, ...]
    rows: tuple[tuple[float, tuple[float, ...]], ...]
    apart: float
    far: float
    predictions: tuple[float, float, float]
    judged: bool


def stakes_of(plan: Plan, features: Mapping[str, Any]) -> Stakes | None:
    """What somebody with these features is told; None where nobody is asked what the others will say."""
    mechanism, beliefs, study = plan.asked_mechanism, plan.study.levels, plan.study
    if mechanism is None or beliefs is None:
        return None
    unit = _unit(study)
    # Who will take part is not known: as if their features were in the middle.
    middle = np.eye(1, beliefs.dimension)[0] / beliefs.scale
    slope = float(beliefs.slopes(features_of(study, features), middle)[0])
    answers = ENDS if beliefs.strict else tuple(SCALE * part for part in APART)
    surprise = _round(mechanism.clip * unit / 2)
    rows = [
        (told, tuple(_paid(mechanism, _score(mechanism, slope, y, 0.0, told / unit)) for y in answers))
        for told in (-surprise, 0.0, surprise)
    ]
    apart, far = unit / 2, unit
    return Stakes(
        base=mechanism.base_payment,
        clip=mechanism.clip * unit,
        columns=answers if beliefs.strict else tuple(y * unit for y in answers),
        rows=tuple(rows),
        apart=apart,
        far=far,
        predictions=(
            _predicted(mechanism, 0.0),
            _predicted(mechanism, apart / unit),
            _predicted(mechanism, far / unit),
        ),
        judged=np.isfinite(mechanism.plausible).all().item(),
    )


@dataclass(frozen=True)
class Earned:
    """How a payment came about: others' averages and the surprise in units of predictions, and both its parts."""

    others_answer: float
    others_prediction: float
    surprise: float
    clip: float
    limit: float
    """The same on the scale of answers from −1 to 1, and so all below."""
    peer: float
    """What the others' answers predict of people like her, cut to the scale."""
    average: float
    """And of everybody."""
    score: float
    for_answer: float
    for_prediction: float
    weight: float
    """w, of the square of how far a prediction is off."""
    plausible: bool


def earned(mechanism: AskedRelease, study: Study, found: Steps) -> Earned:
    """The parts of one payment, from its steps."""
    (low, _), unit = study.prediction_range, _unit(study)
    answer, prediction = found.others_answer or 0.0, found.others_prediction or 0.0
    peer, average = (min(max(value, -1.0), 1.0) for value in (found.peer_prediction, answer))
    counts = bool(found.plausible)
    scored = _score(mechanism, found.slope or 0.0, found.y, peer, found.score) if counts else 0.0
    return Earned(
        others_answer=low + unit * (answer + 1),
        others_prediction=low + unit * (prediction + 1),
        surprise=unit * found.score,
        clip=unit * mechanism.clip,
        limit=mechanism.clip,
        peer=peer,
        average=average,
        score=scored,
        for_answer=_paid(mechanism, scored),
        for_prediction=_predicted(mechanism, (found.prediction or 0.0) - average),
        weight=mechanism.prediction_weight,
        plausible=counts,
    )


def payment_range(mechanism: AskedRelease, study: Study) -> tuple[float, float]:
    """The least and the most that anybody is paid, whoever answers whatever."""
    low, high = (0.0, 1.0) if study.levels is None else study.levels.slope_range
    C = mechanism.clip
    # Where the most that a score adds is largest, and where what it takes away is, if it is not largest at an end.
    peaks = (C / (2 * (1 + C)), C / (2 * (C - 1)) if C > 1 else high)
    slopes = np.clip(np.array([low, high, *peaks]), low, high)
    gain, loss = (float(of(mechanism.rule, slopes, C).max()) for of in (largest_gain, largest_loss))
    least = max(0.0, mechanism.base_payment - mechanism.score_weight * loss)
    most = mechanism.base_payment + mechanism.score_weight * gain + mechanism.prediction_payment
    return math.floor(least * PAYMENT_STEPS) / PAYMENT_STEPS, math.floor(most * PAYMENT_STEPS) / PAYMENT_STEPS


def _unit(study: Study) -> float:
    """Half the scale of predictions."""
    low, high = study.prediction_range
    return (high - low) / 2


def _score(mechanism: AskedRelease, slope: float, y: float, p: float, surprise: float) -> float:
    """Of one answer."""
    s, answer, peer, counted = (np.array(value) for value in (slope, y, p, surprise))
    return float(score(mechanism.rule, s, answer, peer, counted, mechanism.clip))


def _paid(mechanism: AskedRelease, scored: float) -> float:
    return max(0.0, mechanism.base_payment + mechanism.score_weight * scored)


def _predicted(mechanism: AskedRelease, off: float) -> float:
    """What a prediction that is off by so much earns, half the scale being 1."""
    return mechanism.prediction_weight * (SCALE**2 - off * off)


def _round(value: float) -> float:
    """A number of one digit."""
    return float(f"{value:.1g}")

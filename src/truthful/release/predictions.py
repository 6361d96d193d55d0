"""What is published where people were asked what the others will say: both averages, and the centre of beliefs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from truthful.asked_release import SERUM, AskedRelease, Level
from truthful.moments import GRID, PRODUCT, Sums
from truthful.one_release import LeaveOneOut
from truthful.release.intervals import ErrorLaw, Laplace
from truthful.release.records import Coefficient, Predictions
from truthful.study import Study

LEVEL = 0.95


@dataclass(frozen=True)
class AverageLaw:
    """How far a published average can be from that of those who answered: sampling, and noise of d + 1 dimensions."""

    sampling: float
    dimension: int
    scale: float

    @property
    def noise_variance(self) -> float:
        return (self.dimension + 1) * self.scale**2

    def half_width(self) -> float:
        return ErrorLaw(self.sampling, (Laplace(self.dimension, self.scale),)).half_width(LEVEL)


def averages(mechanism: AskedRelease, estimate: LeaveOneOut, level: Level) -> tuple[float, float]:
    """The average answer at the mean of features, and the average prediction, from −1 to 1, with their noise."""
    return float(level.mean @ estimate.theta), mechanism.predicted(estimate) / level.count


def centre_of(mechanism: AskedRelease, estimate: LeaveOneOut, level: Level) -> float | None:
    """μ̂ of everybody: what people expected before they knew their own answers. None for yes and no."""
    if mechanism.rule == SERUM:
        return None
    _, predicted = averages(mechanism, estimate, level)
    weighted = np.array([w / PRODUCT for w in level.weighted]) / level.count
    moved = float(weighted @ estimate.theta) - level.offset / PRODUCT / level.count
    return (predicted - moved) / (1 - level.weight / GRID / level.count)


def average_laws(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> tuple[AverageLaw, AverageLaw]:
    """Of answers, as estimates of what features predict, and of predictions, which are all known."""
    variance = 0.0 if study.levels is None else study.levels.variance
    w = estimate.inverse.T @ level.mean
    spread = (sums.instruments / PRODUCT).astype(np.float64)
    along = estimate.scale * float(np.linalg.norm(w))
    aside = estimate.scale / (mechanism.ratio * level.count)
    return (
        AverageLaw(variance * float(w @ spread @ w), estimate.noise_dimension, along),
        AverageLaw(0.0, estimate.noise_dimension, aside),
    )


def released_predictions(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> Predictions:
    """All that everybody needs to compute a payment again, and what it says, in the units of predictions."""
    low, high = study.prediction_range
    unit = (high - low) / 2
    found = [
        Coefficient(
            name=name,
            value=low + unit * (value + 1),
            low=low + unit * (value + 1 - law.half_width()),
            high=low + unit * (value + 1 + law.half_width()),
        )
        for name, value, law in zip(
            ("answers", "predictions"),
            averages(mechanism, estimate, level),
            average_laws(study, mechanism, estimate, sums, level),
            strict=True,
        )
    ]
    centre = centre_of(mechanism, estimate, level)
    return Predictions(
        total=str(estimate.predictions),
        mean=tuple(level.mean.tolist()),
        weight=str(level.weight),
        weighted=tuple(str(w) for w in level.weighted),
        offset=str(level.offset),
        answer=found[0],
        prediction=found[1],
        centre=None if centre is None or not math.isfinite(centre) else low + unit * (centre + 1),
    )

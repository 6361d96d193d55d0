"""What is published of answers, in raw units, each number with an interval from its whole error law under truthful
reports: coefficients, the share of everybody, differences between people, odds ratios, averages of predictions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from truthful.asked_release import SERUM, AskedRelease, Level
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import Estimate
from truthful.moments import GRID, PRODUCT, Sums, instruments_on_grid
from truthful.noise import SupLaplace, laplace
from truthful.one_release import LeaveOneOut, SumRelease
from truthful.release.intervals import ErrorLaw, Laplace, SupErrorLaw, log_odds, odds_ratios, share_interval
from truthful.release.release import Coefficient, Predictions
from truthful.study import Study

INTERVAL_LEVEL = 0.95


def released_coefficients(
    study: Study, mechanism: SumRelease, estimate: LeaveOneOut, sums: Sums, level: float = INTERVAL_LEVEL
) -> tuple[Coefficient, ...]:
    """Each raw coefficient is a row of L times θ plus a constant, so its error is that row's combination."""
    laws = [_released_law(study, mechanism, estimate, sums, row) for row in study.coefficient_map[0]]
    return _with_intervals(study, estimate.theta, laws, level)


def _with_intervals(
    study: Study, theta: Floats, laws: list[ErrorLaw], level: float
) -> tuple[Coefficient, ...]:
    named = study.raw_coefficients(theta)
    return tuple(_number(*one, law.half_width(level)) for one, law in zip(named, laws, strict=True))


def _number(name: str, value: float, width: float) -> Coefficient:
    return Coefficient(name=name, value=value, low=value - width, high=value + width)


def _released_law(
    study: Study, mechanism: SumRelease, estimate: LeaveOneOut, sums: Sums, row: Floats
) -> ErrorLaw:
    """Given everybody's features, row·(θ̂ − θ) = row·Bz + row·M⁻¹N, the one exact in variance and the other in law.

    Where records are protected the features are not given, and the laws are those of means over the design.
    """
    n = sums.count
    if mechanism.estimator == "instruments":
        w = estimate.inverse.T @ row
        spread = (sums.instruments / PRODUCT).astype(np.float64)
        each = study.beliefs.noise_variance if study.levels is None else study.levels.variance
        noise = Laplace(estimate.noise_dimension, estimate.scale * float(np.linalg.norm(w)))
        return ErrorLaw(each * float(w @ spread @ w), (noise,))
    mean = Estimate(estimate.theta, estimate.inverse * n, estimate.scale / n)
    if mechanism.estimator == "known-design":
        return _known_design_law(study, mean, n, row)
    return _noisy_law(study, mean, (estimate.matrix_scale or 0.0) / n, n, row)


def _known_design_law(study: Study, estimate: Estimate, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Σ⁻¹(mean of xy − E[xy]) + Σ⁻¹v; Var(w·xy) = E[(w·x)²(θ·x)²] + σ²wᵀΣw − (w·Σθ)², at w = Σ⁻¹row."""
    Sigma = study.second_moments
    if Sigma is None:
        raise InputError("Estimator 'known-design' needs a declared design.")
    w, theta = estimate.spread @ row, _inside(estimate.theta, study.beliefs.radius)
    signal = study.fourth_moment(w, theta) - float(row @ theta) ** 2
    variance = (max(0.0, signal) + study.beliefs.noise_variance * float(w @ Sigma @ w)) / players
    return ErrorLaw(variance, (Laplace(study.dimension, estimate.scale * float(np.linalg.norm(w))),))


def _noisy_law(study: Study, estimate: Estimate, gram_scale: float, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Ĝ⁻¹(Xᵀz/n + v − Nθ), Ĝ being published: at w = Ĝ⁻¹row, w·Nθ = ⟨N, sym(wθᵀ)⟩ in the Frobenius product."""
    d, theta = study.dimension, _inside(estimate.theta, study.beliefs.radius)
    w = estimate.spread @ row
    pairing = math.sqrt((float(w @ w) * float(theta @ theta) + float(w @ theta) ** 2) / 2)
    variance = study.beliefs.noise_variance * float(row @ w) / players
    noise = Laplace(d, estimate.scale * float(np.linalg.norm(w)))
    return ErrorLaw(variance, (noise, Laplace(d * (d + 1) // 2, gram_scale * pairing)))


def _inside(theta: Floats, radius: float) -> Floats:
    """θ̂ drawn back into the ball where θ is: a variance is evaluated there."""
    inside: Floats = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return inside


EVERYBODY = "everybody"
#: Beyond what was declared by more than what this share of studies would show, beliefs are contradicted.
BEYOND = 0.99


class Released(NamedTuple):
    """The share of everybody, coefficients, differences, and odds ratios; None: not estimable, or not asked for."""

    shares: tuple[Coefficient, ...]
    coefficients: tuple[Coefficient, ...]
    differences: tuple[Coefficient, ...]
    odds_ratios: tuple[Coefficient, ...] | None


def released_shares(
    study: Study,
    mechanism: SumRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    features: Floats | None,
    level: float,
) -> Released:
    """What is published of shares, in raw units: shares of yes, or the scale of a rating."""
    laws = _Laws(study, estimate, sums)
    rows, offset = study.coefficient_map
    coefficients = tuple(
        laws.found(name, row, constant, level)
        for name, row, constant in zip(study.coefficient_names, rows, offset.tolist(), strict=True)
    )
    return Released(
        (_everybody(study, mechanism, estimate, sums, laws, level),),
        coefficients,
        tuple(laws.found(name, row, 0.0, level) for name, row in study.differences),
        _odds(study, estimate, features, level),
    )


class _Laws:
    """The error of row·θ̂ given everybody's features: sampling and noise, both of known size.

    Answers ±1 have the variance 1 − (x·θ)², here on average over people, at the estimate less what its own error adds.
    """

    def __init__(self, study: Study, estimate: LeaveOneOut, sums: Sums) -> None:
        self._study, self._estimate = study, estimate
        d, n = study.dimension, sums.count
        self._spread = (sums.instruments / PRODUCT).astype(np.float64)
        G = (sums.features / PRODUCT).astype(np.float64) / n
        self._noise = laplace(estimate.norm, estimate.noise_dimension, estimate.scale)
        noise = self._noise.marginal_variance * np.eye(d)
        error = estimate.inverse @ (self._spread + noise) @ estimate.inverse.T
        seen = float(estimate.theta @ G @ estimate.theta - np.sum(G * error))
        largest = 1.0 if study.shares is None else 4 * study.shares.variance
        self.variance = min(max(1.0 - max(seen, 0.0), 0.0), largest)

    def law(self, row: Floats) -> ErrorLaw | SupErrorLaw:
        w = self._estimate.inverse.T @ row
        variance = self.variance * float(w @ self._spread @ w)
        if isinstance(self._noise, SupLaplace):
            return SupErrorLaw(variance, self._noise, w)
        return ErrorLaw(
            variance,
            (Laplace(self._estimate.noise_dimension, self._estimate.scale * float(np.linalg.norm(w))),),
        )

    def found(self, name: str, row: Floats, constant: float, level: float) -> Coefficient:
        value = float(row @ self._estimate.theta) + constant
        return _number(name, value, self.law(row).half_width(level))


def _everybody(
    study: Study, mechanism: SumRelease, estimate: LeaveOneOut, sums: Sums, laws: _Laws, level: float
) -> Coefficient:
    """The share among all who answered, at the mean of their features; exact for yes and no without features."""
    row, constant = everybody_row(study, sums)
    found = laws.found(EVERYBODY, row, constant, level)
    if study.kind == "yes-no" and not study.features and study.levels is None:
        # One column, x = 1, and ζ = ±1 up to the grid: what was released is the sum of answers, with noise.
        instrument = float(laws._spread[0, 0]) / sums.count
        total = float(estimate.vector[0]) / PRODUCT / math.sqrt(instrument)
        low, high = share_interval(total, sums.count, mechanism.epsilon * math.sqrt(instrument), level)
        return found.model_copy(update={"low": low, "high": high})
    return found


def everybody_row(study: Study, sums: Sums) -> tuple[Floats, float]:
    """The mean prediction of those who answered, as a row of θ and a constant, in raw units."""
    # The first column of x is that of the intercept, the same for all: Σ x₀x is x₀ times the sum of x.
    products = (sums.features[0] / PRODUCT).astype(np.float64)
    mean = products / products[0] / study.declared.encoding.scale
    middle = (study.response.low + study.response.high) / 2
    return np.asarray(study.response_unit * mean), middle


def _odds(
    study: Study, estimate: LeaveOneOut, features: Floats | None, level: float
) -> tuple[Coefficient, ...] | None:
    if study.kind != "yes-no" or not study.features or features is None:
        return None
    X = features / GRID
    Z = instruments_on_grid(features, estimate.transform, estimate.norm) / GRID
    vector = np.array([float(k) / PRODUCT for k in estimate.vector])
    found = log_odds(X, Z, vector, estimate.scale, estimate.norm)
    if found is None:
        return None
    # A difference of shares is a row of θ times the answer's unit; of log odds it is the row alone.
    rows = np.array([row / study.response_unit for _, row in study.differences])
    return tuple(
        Coefficient(name=name, value=ratio, low=low, high=high)
        for (name, _), (ratio, low, high) in zip(
            study.differences, odds_ratios(rows, found, level), strict=True
        )
    )


def contradicted_shares(study: Study, estimate: LeaveOneOut, sums: Sums) -> list[str]:
    """What was found beyond all that was thought possible, by more than chance would explain in 99 of 100 studies."""
    beliefs = study.shares
    if beliefs is None:
        return []
    laws, unit = _Laws(study, estimate, sums), 2 * study.response_unit
    row, constant = everybody_row(study, sums)
    share = laws.found(EVERYBODY, row, constant, 2 * BEYOND - 1)
    least, most = (study.response.low + unit * end for end in beliefs.ends)
    said = []
    if share.high < least or share.low > most:
        told, *ends = (_share(study, value) for value in (share.value, least, most))
        said.append(f"the share of everybody is {told}, outside {ends[0]} to {ends[1]}")
    for feature in study.features:
        largest = unit * study.declared.effects[feature.name]
        for name, row in study.differences_of(feature):
            effect = laws.found(name, row, 0.0, 2 * BEYOND - 1)
            if effect.high < -largest or effect.low > largest:
                told, limit = _share(study, effect.value), _share(study, largest)
                said.append(f"the effect of {name} is {told}, beyond {limit}")
    return said


def _share(study: Study, value: float) -> str:
    return f"{100 * value:.3g}%" if study.kind == "yes-no" else f"{value:.3g}"


def averages(mechanism: AskedRelease, estimate: LeaveOneOut, level: Level) -> tuple[float, float]:
    """The average answer at the mean of features, and the average prediction, from −1 to 1, with their noise."""
    return float(level.mean @ estimate.theta), mechanism.predicted_sum(estimate) / level.count


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
) -> tuple[ErrorLaw, ErrorLaw]:
    """Of answers, as estimates of what features predict, and of predictions, which are all known."""
    variance = 0.0 if study.levels is None else study.levels.variance
    w = estimate.inverse.T @ level.mean
    spread = (sums.instruments / PRODUCT).astype(np.float64)
    along = estimate.scale * float(np.linalg.norm(w))
    aside = estimate.scale / (mechanism.ratio * level.count)
    return (
        ErrorLaw(variance * float(w @ spread @ w), (Laplace(estimate.noise_dimension, along),)),
        ErrorLaw(0.0, (Laplace(estimate.noise_dimension, aside),)),
    )


def released_predictions(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> Predictions:
    """All that everybody needs to compute a payment again, and what it says, in the units of predictions."""
    low, high = study.prediction_range
    unit = (high - low) / 2
    answer, prediction = (
        Coefficient(name=name, value=ends[0], low=ends[1], high=ends[2])
        for name, value, law in zip(
            ("answers", "predictions"),
            averages(mechanism, estimate, level),
            average_laws(study, mechanism, estimate, sums, level),
            strict=True,
        )
        for width in (law.half_width(INTERVAL_LEVEL),)
        for ends in ([low + unit * (value + 1 + off) for off in (0.0, -width, width)],)
    )
    centre = centre_of(mechanism, estimate, level)
    return Predictions(
        total=str(estimate.predictions),
        mean=tuple(level.mean.tolist()),
        weight=str(level.weight),
        weighted=tuple(str(w) for w in level.weighted),
        offset=str(level.offset),
        answer=answer,
        prediction=prediction,
        centre=None if centre is None or not math.isfinite(centre) else low + unit * (centre + 1),
    )

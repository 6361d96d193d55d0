"""Published shares: of everybody who answered, differences between people, and odds ratios, each with its interval.

All of it follows from the released vector and from features, which are not protected where answers are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from truthful.check import Floats
from truthful.instruments import instruments_on_grid
from truthful.moments import GRID, PRODUCT, Sums
from truthful.noise import SupLaplace, laplace
from truthful.one_release import LeaveOneOut, SumRelease
from truthful.release.intervals import ErrorLaw, Laplace, SupErrorLaw
from truthful.release.odds import log_odds, odds_ratios
from truthful.release.records import Coefficient
from truthful.release.share_interval import share_interval
from truthful.study import Study

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
        width = self.law(row).half_width(level)
        return Coefficient(name=name, value=value, low=value - width, high=value + width)


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


def contradicted(study: Study, estimate: LeaveOneOut, sums: Sums) -> list[str]:
    """What was found beyond all that was thought possible, by more than chance would explain in 99 of 100 studies."""
    beliefs, laws = study.shares, _Laws(study, estimate, sums)
    if beliefs is None:
        return []
    row, constant = everybody_row(study, sums)
    unit, low = 2 * study.response_unit, study.response.low
    value = float(row @ estimate.theta) + constant
    spare = laws.law(row).half_width(2 * BEYOND - 1)
    least, most = (low + unit * end for end in beliefs.ends)
    said = []
    if not least - spare <= value <= most + spare:
        said.append(
            f"the share of everybody is {_share(study, value)}, outside {_share(study, least)} to {_share(study, most)}"
        )
    effects = {feature.name: effect for feature, effect in zip(study.features, _effects(study), strict=True)}
    for name, row in study.differences:
        value, spare = float(row @ estimate.theta), laws.law(row).half_width(2 * BEYOND - 1)
        largest = unit * effects[name.partition("=")[0]]
        if not abs(value) <= largest + spare:
            said.append(f"the effect of {name} is {_share(study, value)}, beyond {_share(study, largest)}")
    return said


def _effects(study: Study) -> list[float]:
    declared = study.declared.beliefs.effect
    if isinstance(declared, dict):
        return [declared[feature.name] for feature in study.features]
    return [float(declared or 0.0)] * len(study.features)


def _share(study: Study, value: float) -> str:
    return f"{100 * value:.3g}%" if study.kind == "yes-no" else f"{value:.3g}"

"""Quantiles of an estimate's error, and the widths of a release's future intervals.

A bound on the mean square says little about one study: a third of errors are larger than its root. What holds with
probability 1 − β has two parts, each of which fails with probability β/2: the number of liars, and the quantile of the
rest, sampling and noise. Sampling is assumed normal, as in the intervals of a release; all else is exact or an upper
bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from truthful.bounds.estimator_bounds import instruments_lies, least_released, scaled_geometry
from truthful.bounds.setting import Setting, gram_scale, pull
from truthful.bounds.share_bounds import RosterSetting, accuracy_setting
from truthful.bounds.spectrum import least_spectrum
from truthful.check import Floats
from truthful.errors import InputError
from truthful.noise import (
    ErrorLaw,
    L2Laplace,
    Law,
    SupLaplace,
    law_given_features,
    length_quantile,
    smallest_effect,
)
from truthful.study import Study

#: The level of published intervals.
INTERVAL_LEVEL = 0.95
#: The name of the share of all who answer.
EVERYBODY = "everybody"

Noise = L2Laplace | SupLaplace


@dataclass(frozen=True)
class Precision:
    """A number to be published, in raw units: the half-width of its 95 % interval, on average or at most.

    smallest_effect is detected with a probability of 80 %: the interval then excludes 0. None for a level, which is no
    effect.
    """

    name: str
    half_width: float
    smallest_effect: float | None = None


def likely_liars(s: Setting, chance: float) -> float:
    """A share of liars, k/n, that is exceeded with at most this chance, each having a cost above the threshold.

    P[Binomial(n, p) > k] = I_p(k+1, n−k).
    """
    n, p = round(float(np.asarray(s.n))), float(s.above_threshold)
    low, high = math.floor(round(float(np.asarray(s.alpha)) * n, 9)), n
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if special.betainc(middle + 1, n - middle, p) <= chance else (middle + 1, high)
        )
    return low / n


def error_quantile(study: Study, s: Setting, noise: Noise, predictions: bool = False) -> float:
    """A bound on ‖θ̂ − θ‖, which no prediction's error exceeds; it fails with the probability EVENTS·β.

    For predictions, a bound on the root of the mean square over people. noise is the noise in the released sum.
    """
    chance = float(s.beta) / 2
    liars = s.at(alpha=likely_liars(s, chance))
    of = {"instruments": _instruments, "known-design": _known_design, "noisy-statistics": _noisy_statistics}
    return of[s.estimator](study, liars, noise, predictions, chance)


def _instruments(study: Study, s: Setting, noise: Noise, predictions: bool, chance: float) -> float:
    """Lies, and the quantile of Bz + M⁻¹N, both parts as large as the geometry's bounds on their mean squares."""
    (inverse, ZZ, G), (geometry, f) = _matrices(s), scaled_geometry(s)
    if not all(map(math.isfinite, (geometry.noise[predictions], geometry.sampling[predictions]))):
        return math.inf
    B = _root(G) @ inverse if predictions else inverse
    sampling, drawn = B @ ZZ @ B.T, float(np.sum(B**2))
    covariance = sampling * (s.model.noise_variance * f * geometry.sampling[predictions] / np.trace(sampling))
    factor = B * (f * math.sqrt(geometry.noise[predictions] / drawn))
    return float(instruments_lies(s, predictions)) + length_quantile(covariance, factor, noise, chance)


def _known_design(study: Study, s: Setting, noise: Noise, predictions: bool, chance: float) -> float:
    """Cov(xy) ≤ R²·E[‖x‖² x xᵀ] + σ²Σ for every θ: of two normal vectors, the one of larger covariance is longer."""
    model, Sigma, n = s.model, study.second_moments, float(np.asarray(s.n))
    if Sigma is None:
        raise InputError("Estimator 'known-design' needs a declared design.")
    signal = sum(study.weighted_moments(e) for e in np.eye(study.dimension))
    spread = (model.radius**2 * signal + model.noise_variance * Sigma) / n
    A = np.asarray(np.linalg.inv(Sigma), dtype=np.float64)
    A = _root(Sigma) @ A if predictions else A
    lies = float(s.alpha * math.sqrt(model.leverage) if predictions else pull(model, s.alpha))
    return 2 * model.response_bound * lies + length_quantile(A @ spread @ A.T, A / n, noise, chance)


def _noisy_statistics(study: Study, s: Setting, noise: Noise, predictions: bool, chance: float) -> float:
    """(L + R·‖Ne‖)/(λ − ν) and the quantile of the rest, as for its mean square; N in any direction e is a column of
    it.

    Half the chance goes to ‖Ne‖.
    """
    model, d, n = s.model, study.dimension, float(np.asarray(s.n))
    margin, least = float(least_released(s)), float(least_spectrum(model, s.n, s.beta)) / n
    if not margin > 0:
        return math.inf
    rest = model.noise_variance * least / n / margin**2 * np.eye(d)
    column = np.eye(d, d * (d + 1) // 2) * np.append(1.0, np.full(d * (d + 1) // 2 - 1, math.sqrt(0.5)))
    matrix_noise = L2Laplace(d * (d + 1) // 2, float(gram_scale(s, n)))
    statistics = model.radius * length_quantile(np.zeros((d, d)), column, matrix_noise, chance / 2)
    lies = 2 * model.response_bound * float(s.alpha)
    bound = (lies + statistics) / margin + length_quantile(rest, np.eye(d) / n / margin, noise, chance / 2)
    return bound * (math.sqrt(model.greatest_eigenvalue) if predictions else 1.0)


def effect_quantile(study: Study, s: RosterSetting, noise: Noise) -> float | None:
    """The largest, over effects, of the error exceeded with probability β, normalised; None without effects."""
    effects = s.geometry.effects
    if s.shares is None or effects is None or not len(effects):
        return None
    setting, chance, f = accuracy_setting(s).at(alpha=float(s.alpha[0])), s.beta / 2, s.geometry.players / s.n
    liars, (inverse, ZZ, _) = likely_liars(setting, chance) * s.n, s.geometry.matrices_of(s.n)
    found = []
    for (drawn, squares, largest), (_, row) in zip(effects, study.differences, strict=True):
        law = law_given_features(inverse, ZZ, 4 * s.shares.variance, noise, row / study.response_unit)
        along = inverse.T @ (row / study.response_unit)
        # The slack for the chance of who is drawn.
        spared = math.sqrt(max(drawn * f**2 / float(along @ along), squares * f / float(along @ ZZ @ along)))
        lies = 2 * min(math.ceil(round(liars, 9)) * largest * f, math.sqrt(liars * squares * f))
        found.append(lies + spared * law.half_width(1 - chance))
    return float(max(found))


def precisions(study: Study, s: Setting, noise: Noise) -> tuple[Precision, ...]:
    """The precision of each number of a future release; intervals leave liars out.

    Where features are observed and not known, half-widths are bounds, as if every direction had the least spread. Where
    θ matters, they are averages over the prior; those of shares use the largest variance thought possible.
    """
    if s.estimator != "instruments":
        law, rows = _law_of_records(study, s, noise), _rows(study, np.eye(study.dimension))
    else:
        inverse, ZZ, G = _matrices(s)
        law, rows = partial(law_given_features, inverse, ZZ, s.model.noise_variance, noise), _rows(study, G)
    return tuple(_precision(name, law(row), effect) for name, row, effect in rows)


def _precision(name: str, law: Law, effect: bool) -> Precision:
    found = smallest_effect(law, INTERVAL_LEVEL) if effect else None
    return Precision(name, law.half_width(INTERVAL_LEVEL), found)


def _rows(study: Study, G: Floats) -> list[tuple[str, Floats, bool]]:
    """What will be published, as names and rows of θ in raw units, and whether it is an effect."""
    if study.shares is None:
        intercept = study.declared.encoding.names[0]
        named = zip(study.coefficient_names, study.coefficient_map[0], strict=True)
        return [(name, row, name != intercept) for name, row in named]
    # The first column of x is the same for all, so the first row of G is proportional to the mean of x.
    mean = study.response_unit * G[0] / G[0, 0] / study.declared.encoding.scale
    return [(EVERYBODY, mean, False), *((name, row, True) for name, row in study.differences)]


def _law_of_records(study: Study, s: Setting, noise: Noise) -> Callable[[Floats], Law]:
    """Error laws of means over the design, as in `release.coefficients`, averaged over the prior."""
    d, n, beliefs, Sigma = study.dimension, float(np.asarray(s.n)), study.beliefs, study.second_moments
    v = beliefs.prior.variance(d)
    if Sigma is None:
        margin = float(least_released(s))
        inverse = np.eye(d) / margin if margin > 0 else np.full((d, d), np.inf)
    else:
        inverse = np.asarray(np.linalg.inv(Sigma), dtype=np.float64)

    def law(row: Floats) -> Law:
        w = inverse @ row
        along = float(np.linalg.norm(w))
        drawn = (d, noise.scale / n * along)
        if s.estimator == "known-design" and Sigma is not None:
            signal = v * (float(np.trace(study.weighted_moments(w))) - float(row @ row))
            variance = (max(0.0, signal) + beliefs.noise_variance * float(w @ Sigma @ w)) / n
            return ErrorLaw.of(variance, drawn)
        pairing = along * math.sqrt(v * (d + 1) / 2)
        matrix_noise = (d * (d + 1) // 2, float(gram_scale(s, n)) * pairing)
        return ErrorLaw.of(beliefs.noise_variance * float(row @ w) / n, drawn, matrix_noise)

    return law


def _matrices(s: Setting) -> tuple[Floats, Floats, Floats]:
    """M⁻¹, ZᵀZ and G for n people distributed like those of the geometry."""
    geometry, _ = scaled_geometry(s)
    return geometry.matrices_of(round(float(np.asarray(s.n))))


def _root(G: Floats) -> Floats:
    values, vectors = np.linalg.eigh(G)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)

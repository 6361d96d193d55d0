"""Published coefficients: raw units, each with an interval from its whole error law under truthful reports."""

from __future__ import annotations

import math

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators import Estimate, NoisyStatistics
from truthful.mechanism import Mechanism
from truthful.moments import PRODUCT, Sums
from truthful.one_release import LeaveOneOut, SumRelease
from truthful.release.intervals import ErrorLaw, Laplace
from truthful.release.records import Coefficient
from truthful.study import Study

INTERVAL_LEVEL = 0.95


def coefficients(
    study: Study, mechanism: Mechanism, estimate: Estimate, players: int, level: float = INTERVAL_LEVEL
) -> tuple[Coefficient, ...]:
    """Each raw coefficient is a row of L times θ plus a constant, so its error is that row's combination."""
    rows, _ = study.coefficient_map
    widths = [_error_law(study, mechanism, estimate, players, row).half_width(level) for row in rows]
    return tuple(
        Coefficient(name=name, value=value, low=value - width, high=value + width)
        for (name, value), width in zip(study.raw_coefficients(estimate.theta), widths, strict=True)
    )


def released_coefficients(
    study: Study, mechanism: SumRelease, estimate: LeaveOneOut, sums: Sums, level: float = INTERVAL_LEVEL
) -> tuple[Coefficient, ...]:
    """Those of one release."""
    rows, _ = study.coefficient_map
    widths = [_released_law(study, mechanism, estimate, sums, row).half_width(level) for row in rows]
    return tuple(
        Coefficient(name=name, value=value, low=value - width, high=value + width)
        for (name, value), width in zip(study.raw_coefficients(estimate.theta), widths, strict=True)
    )


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


def _error_law(study: Study, mechanism: Mechanism, estimate: Estimate, players: int, row: Floats) -> ErrorLaw:
    if mechanism.estimator == "known-design":
        return _known_design_law(study, estimate, players, row)
    if mechanism.estimator == "noisy-statistics":
        return _noisy_statistics_law(study, mechanism, estimate, players, row)
    return _ridge_law(study, mechanism, estimate, players, row)


def _known_design_law(study: Study, estimate: Estimate, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Σ⁻¹(mean of xy − E[xy]) + Σ⁻¹v; Var(w·xy) = E[(w·x)²(θ·x)²] + σ²wᵀΣw − (w·Σθ)², at w = Σ⁻¹row."""
    Sigma = study.second_moments
    if Sigma is None:
        raise InputError("Estimator 'known-design' needs a declared design.")
    w, theta = estimate.spread @ row, _inside(estimate.theta, study.beliefs.radius)
    signal = study.fourth_moment(w, theta) - float(row @ theta) ** 2
    variance = (max(0.0, signal) + study.beliefs.noise_variance * float(w @ Sigma @ w)) / players
    return ErrorLaw(variance, (Laplace(study.dimension, estimate.scale * float(np.linalg.norm(w))),))


def _noisy_statistics_law(
    study: Study, mechanism: Mechanism, estimate: Estimate, players: int, row: Floats
) -> ErrorLaw:
    estimator = mechanism.public_estimator(study.beliefs)
    if not isinstance(estimator, NoisyStatistics):
        raise TypeError(f"{mechanism.estimator!r} publishes no statistics.")
    gram_scale = estimator.gram_scale(players, mechanism.epsilon_public)
    return _noisy_law(study, estimate, gram_scale, players, row)


def _noisy_law(study: Study, estimate: Estimate, gram_scale: float, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Ĝ⁻¹(Xᵀz/n + v − Nθ), Ĝ being published: at w = Ĝ⁻¹row, w·Nθ = ⟨N, sym(wθᵀ)⟩ in the Frobenius product."""
    d, theta = study.dimension, _inside(estimate.theta, study.beliefs.radius)
    w = estimate.spread @ row
    pairing = math.sqrt((float(w @ w) * float(theta @ theta) + float(w @ theta) ** 2) / 2)
    variance = study.beliefs.noise_variance * float(row @ w) / players
    noise = Laplace(d, estimate.scale * float(np.linalg.norm(w)))
    return ErrorLaw(variance, (noise, Laplace(d * (d + 1) // 2, gram_scale * pairing)))


def _ridge_law(study: Study, mechanism: Mechanism, estimate: Estimate, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = −γAθ + AXᵀz + v with A = (γI + XᵀX)⁻¹, XᵀX being about nΣ; a bias of at most γR‖A row‖.

    Where Σ is not declared nothing is known of A but ‖γA‖ ≤ 1 and ‖AXᵀ‖² ≤ 1/(4γ): wide, and true.
    """
    gamma, R, sigma2 = mechanism.gamma, study.beliefs.radius, study.beliefs.noise_variance
    noise = Laplace(study.dimension, estimate.scale * float(np.linalg.norm(row)))
    Sigma = study.second_moments
    if Sigma is None:
        length = float(np.linalg.norm(row))
        return ErrorLaw(sigma2 * length**2 / (4 * gamma), (noise,), R * length)
    w = np.linalg.solve(gamma * np.eye(study.dimension) + players * Sigma, row)
    return ErrorLaw(sigma2 * players * float(w @ Sigma @ w), (noise,), gamma * R * float(np.linalg.norm(w)))


def _inside(theta: Floats, radius: float) -> Floats:
    """θ̂ drawn back into the ball where θ is: a variance is evaluated there."""
    inside: Floats = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return inside

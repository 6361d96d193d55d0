"""Accuracy: E‖θ̂−θ‖² when at most a share α lies, whatever the liars know and agree on, and on the events named."""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds.peers import least_spectrum, pull
from truthful.bounds.privacy_noise import (
    drop_quantile,
    gram_floor,
    gram_scale,
    mean_square_along,
    public_scale,
)
from truthful.bounds.setting import Setting
from truthful.check import Floats


def known_design_error(s: Setting) -> Floats:
    """(L̄ + √(V/n))² + E‖Σ⁻¹v‖², with L̄ = 2Yα·sup‖Σ⁻¹x‖, V the sampling variance, E‖Σ⁻¹v‖² = (d+1)s²‖Σ⁻¹‖²_F."""
    model = s.model
    lies = 2 * model.response_bound * pull(model, s.alpha)
    noise = (model.dimension + 1) * public_scale(s) ** 2 * model.inverse_square
    return np.asarray((lies + np.sqrt(model.sampling_variance / np.asarray(s.n))) ** 2 + noise)


def prediction_error(s: Setting) -> Floats:
    """E[(x·θ̂ − x·θ)²] for a person x drawn from the design: never more than λ_max(Σ) times the error of θ̂.

    `known-design`: as its error with Σ^(1/2)θ̂ for θ̂, sup‖Σ^(−1/2)x‖² = leverage, E‖Σ^(−1/2)v‖² = (d+1)s²·tr Σ⁻¹.
    `instruments`: on average over those who answered, whose features are known.
    """
    if s.estimator == "instruments":
        from truthful.bounds import answers

        return answers.prediction_error(s)
    model = s.model
    bound = model.greatest_eigenvalue * ERRORS[s.estimator](s)
    if s.estimator != "known-design":
        return np.asarray(bound)
    lies = 2 * model.response_bound * s.alpha * math.sqrt(model.leverage)
    noise = (model.dimension + 1) * public_scale(s) ** 2 * model.inverse_trace
    return np.minimum(bound, (lies + np.sqrt(model.prediction_variance / np.asarray(s.n))) ** 2 + noise)


def ridge_error(s: Setting) -> Floats:
    """(2Y·min(κ, √κ) + √((γR/D)² + σ²·min(d/D, n/D²)))² + d(d+1)s², κ = αn/D, except with probability β.

    D = γ + (1−ξ)μ bounds the eigenvalues of H = γI + XᵀX from below. θ̂ − θ = H⁻¹(Xᵀδ + Xᵀz − γθ) has the norm
    ‖w‖_H = √(wᵀHw) ≥ √D‖w‖; in it lies δ count at most min(2Yαn/√D, 2Y√(αn)), the bias γR/√D, and the noise, in the
    mean square, σ²·tr(H⁻¹XᵀX) ≤ σ²·min(d, n/D). The minimiser over the ball is the projection of the free one in this
    norm, so it is no further from θ, which lies in the ball; and never further than 2R.
    """
    model, d, R, n = s.model, s.model.dimension, s.model.radius, np.asarray(s.n, dtype=np.float64)
    D = s.gamma + least_spectrum(model, n, s.beta)
    kappa = s.alpha * n / D
    lies = 2 * model.response_bound * np.minimum(kappa, np.sqrt(kappa))
    sampling = model.noise_variance * np.minimum(d / D, n / D**2)
    error = (lies + np.sqrt((s.gamma * R / D) ** 2 + sampling)) ** 2
    if s.estimator == "ridge-ball":
        error = np.minimum(error, (2 * R) ** 2)
    return np.asarray(error + d * (d + 1) * public_scale(s) ** 2)


def noisy_statistics_error(s: Setting) -> Floats:
    """[(L + √(σ²dλ/n))² + N² + 2√β·LN + d(d+1)s²] / (λ − ν)², L = 2Yα, N² = R²·E‖N‖²_F/d, but with probability 2β.

    θ̂ − θ = Ĝ⁻¹(Xᵀz/n + lies + v − Nθ) where the floor ℓ ≤ λ − ν is not in force, λ = (1−ξ)λ_min(Σ); N lowers no
    eigenvalue by more than ν except with probability β. With G = XᵀX/n ≥ λ and Ĝ ≥ (1 − ν/λ)G,
    tr(Ĝ⁻¹GĜ⁻¹) ≤ dλ/(λ − ν)²: that is the sampling. Lies know nothing of N, whose mean is 0; where ν is not exceeded it
    is at most √β of its root mean square.
    """
    model, d, n = s.model, s.model.dimension, np.asarray(s.n, dtype=np.float64)
    scale, margin = gram_scale(s, n, s.epsilon_public), least_released(s)
    lies, statistics = (
        2 * model.response_bound * s.alpha,
        model.radius * scale * math.sqrt(mean_square_along(d)),
    )
    sampling = np.sqrt(model.noise_variance * d * least_spectrum(model, n, s.beta)) / n
    noise = d * (d + 1) * public_scale(s) ** 2
    total = (lies + sampling) ** 2 + statistics**2 + 2 * np.sqrt(s.beta) * lies * statistics + noise
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(margin >= gram_floor(s), total / margin**2, np.inf))


def least_released(s: Setting) -> Floats:
    """λ − ν: the released XᵀX/n of `noisy-statistics` has no smaller eigenvalue, except with probability 2β."""
    n = np.asarray(s.n, dtype=np.float64)
    drop = gram_scale(s, n, s.epsilon_public) * drop_quantile(s.model.dimension, s.beta)
    return np.asarray(least_spectrum(s.model, n, s.beta) / n - drop)


def least_squares_error(s: Setting) -> Floats:
    """Algorithm 1 on truthful reports: σ²·E[tr (XᵀX)⁻¹] ≤ σ²d/((1−ξ)μ), except with probability β."""
    least = least_spectrum(s.model, s.n, s.beta)
    with np.errstate(divide="ignore"):
        return np.asarray(s.model.noise_variance * s.model.dimension / least)


def instruments_error(s: Setting) -> Floats:
    """Given everybody's features: `bounds.answers`."""
    from truthful.bounds import answers

    return answers.coefficient_error(s)


ERRORS = {
    "known-design": known_design_error,
    "ridge-ball": ridge_error,
    "ridge-free": ridge_error,
    "noisy-statistics": noisy_statistics_error,
    "instruments": instruments_error,
}
#: Events of probability β that an accuracy needs: few liars, the least eigenvalue of XᵀX, the noise in it.
EVENTS = {"known-design": 1, "ridge-free": 2, "ridge-ball": 2, "noisy-statistics": 3, "instruments": 1}

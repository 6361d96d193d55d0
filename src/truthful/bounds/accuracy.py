"""Accuracy: E‖θ̂−θ‖² when at most a share α lies, whatever the liars know and agree on, and on the events named."""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds.gram_noise import drop_quantile, mean_square_along
from truthful.bounds.liars import pull
from truthful.bounds.scales import FLOOR_POWER, gram_scale, public_scale
from truthful.bounds.setting import Setting
from truthful.bounds.spectrum import greatest_spectrum, least_spectrum
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
    """
    model = s.model
    bound = model.greatest_eigenvalue * ERRORS[s.estimator](s)
    if s.estimator != "known-design":
        return np.asarray(bound)
    lies = 2 * model.response_bound * s.alpha * math.sqrt(model.leverage)
    noise = (model.dimension + 1) * public_scale(s) ** 2 * model.inverse_trace
    return np.minimum(bound, (lies + np.sqrt(model.prediction_variance / np.asarray(s.n))) ** 2 + noise)


def ridge_error(s: Setting) -> Floats:
    """ρ(2Yαn/D + √((γR/D)² + σ²·min(d/D, n/D²)))² + d(d+1)s², D = γ + (1−ξ)μ, except with probability β.

    The free ridge has ρ = 1. The minimiser over the ball is the projection of the free one in the norm of γI + XᵀX,
    so ρ = (γ + λ_max(XᵀX))/D, which takes another event of probability β; and it is never further than 2R.
    """
    model, d, R, n = s.model, s.model.dimension, s.model.radius, np.asarray(s.n, dtype=np.float64)
    D = s.gamma + least_spectrum(model, n, s.beta)
    lies = 2 * model.response_bound * s.alpha * n / D
    sampling = model.noise_variance * np.minimum(d / D, n / D**2)
    error = (lies + np.sqrt((s.gamma * R / D) ** 2 + sampling)) ** 2
    if s.estimator == "ridge-ball":
        error = np.minimum((s.gamma + greatest_spectrum(model, n, s.beta)) / D * error, (2 * R) ** 2)
    return np.asarray(error + d * (d + 1) * public_scale(s) ** 2)


def noisy_statistics_error(s: Setting) -> Floats:
    """[(2Yα + √(σ²dλ/n))² + d(d+1)s² + R²·E‖N‖²_F/d] / (λ − ν)², λ = (1−ξ)λ_min(Σ), except with probability 2β.

    θ̂ − θ = Ĝ⁻¹(Xᵀz/n + lies + v − Nθ) where the floor ℓ ≤ λ − ν is not in force; N lowers no eigenvalue by more than ν
    except with probability β. With G = XᵀX/n ≥ λ and Ĝ ≥ (1 − ν/λ)G, tr(Ĝ⁻¹GĜ⁻¹) ≤ dλ/(λ − ν)²: that is the sampling.
    """
    model, d, n = s.model, s.model.dimension, np.asarray(s.n, dtype=np.float64)
    scale = gram_scale(s, n, s.epsilon_public)
    least = least_spectrum(model, n, s.beta) / n
    margin = least - scale * drop_quantile(d, s.beta)
    sampling = (2 * model.response_bound * s.alpha + np.sqrt(model.noise_variance * d * least / n)) ** 2
    noise = d * (d + 1) * public_scale(s) ** 2 + (model.radius * scale) ** 2 * mean_square_along(d)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = (sampling + noise) / margin**2
    return np.asarray(np.where(margin >= scale * d**FLOOR_POWER, error, np.inf))


def least_squares_error(s: Setting) -> Floats:
    """Algorithm 1 on truthful reports: σ²·E[tr (XᵀX)⁻¹] ≤ σ²d/((1−ξ)μ), except with probability β."""
    least = least_spectrum(s.model, s.n, s.beta)
    with np.errstate(divide="ignore"):
        return np.asarray(s.model.noise_variance * s.model.dimension / least)


ERRORS = {
    "known-design": known_design_error,
    "ridge-ball": ridge_error,
    "ridge-free": ridge_error,
    "noisy-statistics": noisy_statistics_error,
}
#: Events of probability β that an accuracy needs: few liars, the least eigenvalue, the greatest or the noise in XᵀX.
EVENTS = {"known-design": 1, "ridge-free": 2, "ridge-ball": 3, "noisy-statistics": 3}

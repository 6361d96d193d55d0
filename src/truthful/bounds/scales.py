"""Sensitivity and noise scale of the four estimators as closed forms: `truthful.estimators` without the lattice.

A released lattice widens a scale by less than 1e-9 of it, which the bounds leave out.
"""

from __future__ import annotations

import math

import numpy as np

from truthful.bounds.setting import Model, Numbers, Setting
from truthful.check import Floats

#: Of XᵀX in Frobenius norm, and the default floor of its eigenvalues in units of s_N·d^1.5.
GRAM = math.sqrt(2)
FLOOR_POWER = 1.5
#: A record that is to be taken out of a released Σ x xᵀ is at most one part in so many of it, in any direction.
LEAST_PEOPLE = 2


def sensitivity(estimator: str, model: Model, count: Numbers, gamma: Numbers) -> Floats:
    """L2 sensitivity of the released vector: 2Y/count of Xᵀy/count; C/γ, and at most the diameter, of a ridge.

    The free ridge lies in the ball of radius ½Y√(count/γ), so the constant of the ball at that radius holds.
    """
    R, Y = model.radius, model.response_bound
    if not estimator.startswith("ridge"):
        return np.asarray(2 * Y / np.asarray(count, dtype=np.float64))
    radius = R if estimator == "ridge-ball" else Y / 2 * np.sqrt(np.asarray(count) / gamma)
    t = 2 * radius / (Y + np.sqrt(Y**2 + 8 * radius**2))
    C = 2 * np.sqrt(1 - t**2) * (Y + radius * t)
    return np.minimum(C / gamma, 2 * radius)


def public_scale(s: Setting) -> Floats:
    """The noise scale of the published estimate's released vector."""
    spent = _coefficients_share(s, s.estimator) * s.epsilon_public
    return np.asarray(sensitivity(s.estimator, s.model, s.n, s.gamma) / spent)


def peer_scale(s: Setting, count: Numbers) -> Floats:
    """The noise scale in the vector that peers are estimated from, a mean over so many of them."""
    spent = _coefficients_share(s, s.peer_estimator) * s.epsilon_peer
    return np.asarray(sensitivity(s.peer_estimator, s.model, count, s.half_gamma) / spent)


def gram_scale(s: Setting, count: Numbers, epsilon: Numbers) -> Floats:
    """s_N, the scale of the noise in XᵀX/count, of an estimate that spends epsilon."""
    return np.asarray(GRAM / (np.asarray(count) * epsilon * s.gram_share))


def gram_floor(s: Setting) -> Floats:
    """ℓ, below which no eigenvalue of the published XᵀX/n is left: s_N·d^1.5, and 2/n if one may be left out.

    With nĜ ≥ nℓ ≥ 2 a player's leverage is h = xᵀ(nĜ)⁻¹x ≤ ‖x‖²/(nℓ) ≤ ½, and nĜ − xxᵀ ≥ nℓ − 1 ≥ 1.
    """
    floor = np.asarray(gram_scale(s, s.n, s.epsilon_public) * s.model.dimension**FLOOR_POWER)
    return np.maximum(floor, LEAST_PEOPLE / np.asarray(s.n)) if s.leave_one_out else floor


def _coefficients_share(s: Setting, estimator: str) -> Numbers:
    """The share of an estimate's ε that its coefficients get."""
    return 1 - s.gram_share if estimator == "noisy-statistics" else 1.0

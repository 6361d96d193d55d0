"""How steeply the own prediction follows the report: what turns a lie's size in predictions into its size in answers.

Where q hardly moves with the report, lies are nearly free: with uniform noise q is flat for |y| ≤ M − rR, and peer
noise as large as R flattens the clipped curve. So a plan tells the slope, not only the size of lies in units of q.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from truthful.beliefs import posterior
from truthful.beliefs.curves import Curve
from truthful.check import Floats
from truthful.geometry import Geometry
from truthful.mechanism import Mechanism, peer_curve
from truthful.one_release import OneRelease
from truthful.study import Study

CENTRAL = 0.9
DRAWS, POINTS, BETWEEN = 20_000, 41, 129
#: Answers up to the one that this share is below are likely; so many of them are looked at.
LIKELY, ANSWERS = 0.99, 5
#: Of features without an intercept lengths from here on, and so many.
SHORTEST, LENGTHS = 0.05, 9


class Typical(NamedTuple):
    """A person of typical features: ‖x‖, the scale of the peers' noise along the unit vector of x, and their curve."""

    length: float
    scale: float
    curve: Curve


def central_slope(study: Study, person: Typical) -> float:
    """The least ∂q/∂y over the central 90 % of truthful reports, at features of typical length.

    Typical: ‖x‖² and the peer noise along x at their means over the design (for observed features, ‖x‖ = 1 and the
    noise of features equally spread in all directions).
    """
    r, scale, curve = person
    edge = np.quantile(np.abs(_reports(study, r)), CENTRAL)
    y = np.linspace(-edge, edge, POINTS)
    return float(study.beliefs.slope(np.full(POINTS, r), y, curve, np.full(POINTS, scale)).min())


def share_beyond(study: Study, person: Typical, lie: float) -> float:
    """The share of people, at features of typical length, who have any report that moves q by more than `lie`.

    q rises with the report and is odd, so that the furthest are the two extreme reports, ±(Rr + M).
    """
    beliefs, (r, scale, curve) = study.beliefs, person
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, BETWEEN)
    # `beliefs.prediction` would load compiled code for these few where the curve has corners.
    q = r * posterior.mean(beliefs, np.full(len(y), r), y, curve, np.full(len(y), scale))
    own = np.interp(np.abs(_reports(study, r)), y, q)
    return float(np.mean(own + q[-1] > lie))


def typical(
    study: Study, mechanism: Mechanism | OneRelease, players: int, geometry: Geometry | None = None
) -> Typical:
    """Someone whose ‖x‖² and peer noise are at their means, over the design or over those who answered."""
    beliefs = study.beliefs
    if isinstance(mechanism, OneRelease):
        if geometry is not None:
            r, proportion = geometry.typical_length, geometry.typical_noise * geometry.players / players
        else:
            r, proportion = (
                math.sqrt(study.mean_square_norm),
                noise_proportion(study, mechanism.estimator, players),
            )
        return Typical(r, mechanism.scale(beliefs) * proportion, mechanism.curve(beliefs))
    m = max(1, players // 2)
    noise = mechanism.half_estimator(beliefs).noise_scale(m, mechanism.epsilon_peer)
    scale = noise * stretch(study, mechanism.peers)
    return Typical(math.sqrt(study.mean_square_norm), scale, peer_curve(mechanism, beliefs, m))


def noise_proportion(study: Study, estimator: str, players: int) -> float:
    """The noise along a typical unit vector of x as a part of that in the released sum, everybody else being peers."""
    return stretch(study, estimator) / max(1, players - 1)


def least_noise(study: Study) -> tuple[Floats, Floats]:
    """Lengths that features of the design can have, and the least noise along them if that of the released mean is 1.

    ‖Σ⁻¹x‖ ≥ ‖x‖/λ_max(Σ), and λ_max ≤ 1 as ‖x‖ ≤ 1.
    """
    encoding, Sigma = study.declared.encoding, study.second_moments
    shortest = 1 / encoding.scale if encoding.intercept else SHORTEST
    lengths = np.linspace(shortest, 1.0, LENGTHS)
    largest = 1.0 if Sigma is None else float(np.linalg.eigvalsh(Sigma)[-1])
    return lengths, lengths / largest


def likely_answers(study: Study, r: float) -> Floats:
    """Truthful answers, normalised, from the middle to that which 99 % are below, at features of this length."""
    edge = np.quantile(np.abs(_reports(study, r)), 2 * LIKELY - 1)
    return np.linspace(0.0, edge, ANSWERS)


def _reports(study: Study, r: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Truthful reports y = r·u + z of fixed draws: a plan is the same each time it is made."""
    rng, beliefs = np.random.default_rng(0), study.beliefs
    u = beliefs.prior.sample(rng, study.dimension, DRAWS)[:, 0]
    return np.asarray(r * u + beliefs.noise.sample(rng, DRAWS))


def stretch(study: Study, peer_estimator: str) -> float:
    """‖A x‖/‖x‖ for the noise A v in a peer estimate, in root mean square over the design."""
    if peer_estimator == "ridge-free":
        return 1.0
    Sigma = study.second_moments
    if Sigma is None:
        return study.dimension / study.mean_square_norm
    inverse = np.linalg.inv(Sigma)
    # E‖Σ⁻¹x‖² = tr Σ⁻¹.
    return math.sqrt(float(np.trace(inverse)) / study.mean_square_norm)

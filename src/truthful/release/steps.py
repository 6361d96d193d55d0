"""Every number on the way to one payment, from what is public and what one player knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.beliefs.curves import Clipped, Shrunk
from truthful.check import Floats
from truthful.errors import InputError
from truthful.mechanism import peer_curve
from truthful.moments import GRID, grid_features, grid_responses
from truthful.payments import lengths, noise_along, payable, peer_prediction
from truthful.release.records import Receipt, Release
from truthful.study import Study


@dataclass(frozen=True)
class Steps:
    """One payment, step by step, in normalised units; predictions also in those of the answer.

    x, y and length are her record on the grid; noise is the scale of the peers' noise along x and shrinkage what their
    estimate leaves of the truth on average, both of which the own prediction allows for.
    """

    x: tuple[float, ...]
    y: float
    length: float
    noise: float
    shrinkage: float
    peer_prediction: float
    own_prediction: float
    score: float
    payment: float
    peer_answer: float
    own_answer: float


def steps(release: Release, receipt: Receipt) -> Steps:
    """Compute one payment again. The own prediction is integrated directly, never read from a table."""
    study = release.declared_study()
    mechanism, beliefs = release.mechanism(study), study.beliefs
    X, x, y = _record(study, receipt)
    r, peer = lengths(x), release.peer(receipt.group)
    curve = peer_curve(mechanism, beliefs, release.groups[1 - receipt.group])
    noise = noise_along(peer, x, r)
    p = peer_prediction(mechanism, beliefs, peer, x, r)
    q = beliefs.prediction(r, y, curve, noise)
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=float(r[0]),
        noise=float(noise[0]),
        shrinkage=curve.factor if isinstance(curve, Clipped | Shrunk) else 1.0,
        peer_prediction=float(p[0]),
        own_prediction=float(q[0]),
        score=float(mechanism.scoring(p, q, a=0.0, b=1.0)[0]),
        payment=float(payable(mechanism, beliefs, p, q)[0]),
        peer_answer=float(study.raw_response(p, X)[0]),
        own_answer=float(study.raw_response(q, X)[0]),
    )


def _record(study: Study, receipt: Receipt) -> tuple[Floats, Floats, Floats]:
    """One player's normalised features, and features and report on the grid: just what the settlement computed with."""
    missing = [feature.name for feature in study.features if feature.name not in receipt.features]
    if missing:
        raise InputError(
            f"The receipt of player {receipt.player!r} has no feature {missing[0]!r}; the study does."
        )
    for feature in study.features:
        value = receipt.features[feature.name]
        if feature.levels is None and isinstance(value, str):
            raise InputError(
                f"Feature {feature.name!r} of player {receipt.player!r} is {value!r}, not a number."
            )
    X = study.normalise({name: np.array([value]) for name, value in receipt.features.items()}, 1)
    y = study.normalise_response(np.array([receipt.report]), X)
    kx, ky = grid_features(X), grid_responses(y, study.beliefs.response_bound)
    return X, kx / GRID, ky / GRID

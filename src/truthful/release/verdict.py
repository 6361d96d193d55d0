"""Verify: recompute one payment from what is public and what one player knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.mechanism import peer_curve
from truthful.moments import GRID, grid_features, grid_responses
from truthful.payments import PAYMENT_STEPS, lengths, noise_along, payable, peer_prediction
from truthful.release.records import Receipt, Release
from truthful.study import Study


@dataclass(frozen=True)
class Verdict:
    """Whether a payment is what the release says it must be, with the arithmetic."""

    verified: bool
    player: str
    paid: float
    recomputed: float
    peer_prediction: float
    own_prediction: float
    rehearsal: bool


def verify(release: Release, receipt: Receipt) -> Verdict:
    """Recompute one payment from the public release and one's own record.

    The own prediction is always integrated directly. A settlement does so too, up to 100,000 players or so; for more it
    reads a table, which this then checks.
    """
    study = release.declared_study()
    mechanism, beliefs = release.mechanism(study), study.beliefs
    x, y = _grid_point(study, receipt)
    r, peer = lengths(x), release.peer(receipt.group)
    curve = peer_curve(mechanism, beliefs, release.groups[1 - receipt.group])
    p = peer_prediction(mechanism, beliefs, peer, x, r)
    q = beliefs.prediction(r, y, curve, noise_along(peer, x, r))
    recomputed = float(payable(mechanism, beliefs, p, q)[0])
    # A table behind a payment is good to 1e-9, so the last rounding may differ by one step.
    verified = abs(recomputed - receipt.payment) < 1.5 / PAYMENT_STEPS
    return Verdict(
        verified, receipt.player, receipt.payment, recomputed, float(p[0]), float(q[0]), release.rehearsal
    )


def _grid_point(study: Study, receipt: Receipt) -> tuple[Floats, Floats]:
    """One player's normalised record, on the grid: just what the settlement computed with."""
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
    return kx / GRID, ky / GRID

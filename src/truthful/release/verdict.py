"""Verify: recompute one payment, with every number on the way, from public data and one player's own record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from truthful import check
from truthful.asked_release import AskedPaymaster, AskedRelease
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import Viewable
from truthful.moments import GRID, along, grid_features, grid_responses, lengths
from truthful.one_release import OneRelease, payable, peer_predictions
from truthful.release.consistency import require_consistent
from truthful.release.release import Receipt, Release
from truthful.scoring import PAYMENT_STEPS
from truthful.share_release import ShareRelease
from truthful.study import Study


@dataclass(frozen=True)
class Verdict(Viewable):
    """Whether a payment is the one that follows from the release, with the arithmetic, in normalised units."""

    verified: bool
    player: str
    paid: float
    recomputed: float
    peer_prediction: float
    own_prediction: float
    rehearsal: bool
    base: float
    """The base payment."""
    leverage: float
    """The weight of her own answer in the prediction for her, from which it was removed."""
    x: tuple[float, ...]
    """Her features, on the grid."""
    answer: float
    """Her answer; where answers are shares, or she is asked for others', from −1 (no, the lowest rating) to 1."""
    noise: float
    """The scale of the peers' noise; for numbers along the unit vector of x, as in the own prediction."""
    length: float | None = None
    """For numbers: ‖x‖."""
    score: float | None = None
    """For numbers: the payment rule's value for the two predictions, at a = 0 and b = 1."""
    peer_answer: float | None = None
    """For numbers: the peers' prediction in units of the answer."""
    own_answer: float | None = None
    """For numbers: the own prediction in units of the answer."""
    switch: float | None = None
    """Where answers are shares: the share at which the lowest and the highest answer pay the same."""
    phi: float | None = None
    """Where answers are shares: the others' share relative to the switch point, from −1 to 1."""
    plausible: bool | None = None
    """Where answers are shares: whether the others' share was thought possible: if not, half of the bonus is paid."""
    bend: float | None = None
    """For ratings: δ/2w, the extra pay of an answer between the ends beside φ's; None for yes and no."""
    prediction: float | None = None
    """Where she is asked what the others will say: her prediction, from −1 to 1, the ends of the scale."""
    others_answer: float | None = None
    """With predictions: the others' average answer."""
    others_prediction: float | None = None
    """With predictions: the others' average prediction."""
    surprise: float | None = None
    """With predictions: by how much answers exceed predictions, clipped."""
    slope: float | None = None
    """With predictions: s, how much an answer moves what is expected of people like her."""


def verify(release: Release, receipt: Receipt) -> Verdict:
    """Recompute one payment from the public release and one's own record, with her own answer removed from the
    prediction.

    A release whose numbers do not follow from each other is refused: docs/howto-verify.md says what is checked.

    The own prediction is always integrated directly. A settlement does so too, up to 100,000 players or so; for more it
    reads a table, which this then checks.
    """
    check.instance("release", release, Release, "Read one with Release.load(path).")
    check.instance("receipt", receipt, Receipt, "Read one with Receipt.load(path).")
    require_consistent(release)
    her = _on_grid(release.declared_study(), receipt)
    mechanism, estimate = release.mechanism(her.study), release.estimate()
    if estimate is None:  # the matrix is withheld
        h, t = receipt.leverage, receipt.noise_scale
        t *= 2 if isinstance(mechanism, ShareRelease) else 1  # shares are shown as the noise of a share
        p = (along(her.x, np.array(release.theta)) - h * her.y) / (1.0 - h)
    else:
        peers = peer_predictions(estimate, her.x * GRID, her.y * GRID)
        h, t, p = peers.leverage.item(), peers.noise_scale.item(), peers.prediction
    if isinstance(mechanism, OneRelease):
        found = _of_number(mechanism, her, p, t)
    elif isinstance(mechanism, ShareRelease):
        found = _of_share(mechanism, her, p, t)
    else:
        found = _of_predictions(release, receipt, mechanism, her, h, p, t)
    told = {name: part.item() if isinstance(part, np.ndarray) else part for name, part in found.items()}
    return Verdict(
        # The table behind a payment is accurate to 1e-9, so the last rounding may differ by one step.
        verified=abs(told["recomputed"] - receipt.payment) < 1.5 / PAYMENT_STEPS,
        player=receipt.player,
        paid=receipt.payment,
        rehearsal=release.rehearsal,
        leverage=h,
        x=tuple(her.x[0].tolist()),
        answer=float(her.y[0]),
        **told,
    )


class _OnGrid(NamedTuple):
    """One player's normalised features, and her features and report on the grid, exactly as in the settlement."""

    study: Study
    X: Floats
    x: Floats
    y: Floats


def _on_grid(study: Study, receipt: Receipt) -> _OnGrid:
    for feature in study.features:
        if feature.name not in receipt.features:
            raise InputError(
                f"The receipt of player {receipt.player!r} has no feature {feature.name!r}; the study does."
            )
        value = receipt.features[feature.name]
        if feature.levels is None and isinstance(value, str):
            raise InputError(
                f"Feature {feature.name!r} of player {receipt.player!r} is {value!r}, not a number."
            )
    X = study.normalise({name: np.array([value]) for name, value in receipt.features.items()}, 1)
    y = study.normalise_response(np.array([receipt.report]), X)
    return _OnGrid(study, X, grid_features(X) / GRID, grid_responses(y, study.believed.response_bound) / GRID)


def _of_number(mechanism: OneRelease, her: _OnGrid, p: Floats, t: float) -> dict[str, Any]:
    beliefs, r = her.study.beliefs, lengths(her.x)
    if mechanism.clipped:
        p = np.clip(p, -mechanism.clip * r, mechanism.clip * r)
    noise = t / r if r[0] > 0 else np.zeros(1)
    q = beliefs.prediction(r, her.y, mechanism.curve(beliefs), noise)
    peers, own = her.study.raw_response(np.concatenate([p, q]), her.X.repeat(2, axis=0)).tolist()
    return {
        "length": r,
        "noise": noise,
        "peer_prediction": p,
        "own_prediction": q,
        "base": mechanism.base(r),
        "score": mechanism.scoring(p, q, a=0.0, b=1.0),
        "recomputed": payable(mechanism, r, p, q),
        "peer_answer": peers,
        "own_answer": own,
    }


def _of_share(mechanism: ShareRelease, her: _OnGrid, p: Floats, t: float) -> dict[str, Any]:
    """Steps for shares: predictions are shares, and base is the flat fee."""
    beliefs = her.study.shares
    if beliefs is None:
        raise InputError("The release pays for shares, and its study asks for numbers.")
    share, expected = (1.0 + p) / 2, beliefs.expects(her.x)
    phi, q, payment = mechanism.steps(beliefs, her.x, her.y, share)
    bend = expected.advantage / (2 * expected.width(mechanism.margin))
    least, most = expected.low - mechanism.tolerance, expected.high + mechanism.tolerance
    return {
        "noise": t / 2,
        "peer_prediction": share,
        "own_prediction": q,
        "base": mechanism.flat,
        "phi": phi,
        "recomputed": payment,
        "switch": expected.switch,
        "plausible": (least <= share) & (share <= most),
        "bend": bend if beliefs.levels > 2 else None,
    }


def _of_predictions(
    release: Release, receipt: Receipt, mechanism: AskedRelease, her: _OnGrid, h: float, p: Floats, t: float
) -> dict[str, Any]:
    """Steps with predictions: they are answers, from −1 to 1."""
    study, _, x, y = her
    beliefs, estimate, level = study.levels, release.estimate(), release.level()
    if beliefs is None or estimate is None or level is None or receipt.prediction is None:
        raise InputError(
            f"The receipt of player {receipt.player!r} has no prediction of the others' answers, or the release "
            "nothing to compare it with: they do not belong together."
        )
    m = study.normalise_predictions(np.array([receipt.prediction]))
    m = grid_responses(m, beliefs.response_bound) / GRID
    paymaster = AskedPaymaster(mechanism, beliefs, estimate, level)
    scored = paymaster.score(x * GRID, y, m, np.array([h]), p, np.array([t]))
    low, high = mechanism.plausible
    slope = beliefs.slopes(x, level.mean)
    return {
        "noise": t,
        "peer_prediction": p,
        "own_prediction": slope * y,
        "base": mechanism.base_payment,
        "surprise": scored.surprise,
        "recomputed": scored.payment,
        "plausible": (low <= scored.others_answer) & (scored.others_answer <= high),
        "prediction": m,
        "others_answer": scored.others_answer,
        "others_prediction": scored.others_prediction,
        "slope": slope,
    }

"""Verify: recompute one payment from what is public and what one player knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.asked_release import AskedPaymaster, AskedRelease
from truthful.beliefs.laws import Clipped, Shrunk
from truthful.check import Floats
from truthful.errors import InputError
from truthful.instruments import instruments_on_grid
from truthful.moments import GRID, grid_features, grid_responses
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.random_halves import lengths, noise_along, payable, peer_curve, peer_prediction
from truthful.release.release import Receipt, Release
from truthful.release.release_of_halves import ReceiptOfHalves, ReleaseOfHalves
from truthful.scoring import PAYMENT_STEPS
from truthful.share_release import ShareRelease
from truthful.study import Study


@dataclass(frozen=True)
class Steps:
    """One payment, step by step, in normalised units; predictions also in those of the answer.

    x, y and length are her record on the grid; leverage is how much of the prediction of her was her own answer, which
    is taken out (none with random halves); noise is the scale of the peers' noise along the unit vector of x and
    shrinkage what their estimate leaves of the truth on average, both of which the own prediction allows for. base is
    what the payment starts from.
    """

    x: tuple[float, ...]
    y: float
    length: float
    leverage: float | None
    noise: float
    shrinkage: float
    peer_prediction: float
    own_prediction: float
    base: float
    score: float
    payment: float
    peer_answer: float
    own_answer: float
    switch: float | None = None
    """Where answers are shares, the share at which the lowest and the highest answer pay the same; score is φ then."""
    plausible: bool | None = None
    """And whether the others' share is one that was thought possible: if not, half of the bonus is paid."""
    bend: float | None = None
    """And for ratings δ/2w, what is paid for an answer between the ends beside what φ says; None for yes and no."""
    prediction: float | None = None
    """Where she is asked what the others will say, that, from −1 to 1; score is the surprise as far as it counts."""
    others_answer: float | None = None
    """And the others' average answer."""
    others_prediction: float | None = None
    """And their average prediction."""
    slope: float | None = None
    """And s, how much an answer moves what is expected of people like her."""


def recomputed(release: Release, receipt: Receipt) -> Steps:
    study = release.declared_study()
    mechanism = release.mechanism(study)
    if isinstance(mechanism, AskedRelease):
        return _recomputed_asked(release, receipt, study, mechanism)
    if isinstance(mechanism, ShareRelease):
        return _recomputed_share(release, receipt, study, mechanism)
    beliefs = study.beliefs
    X, x, y = record_on_grid(study, receipt)
    r, estimate = float(np.sqrt(sum(v * v for v in x[0].tolist()))), release.estimate()
    if estimate is None:
        h, t, kept = receipt.leverage, receipt.noise_scale, 1.0 - receipt.leverage
    else:
        h, t, kept = taken_out(estimate, x[0])
    p = (float(x[0] @ np.array(release.theta)) - h * float(y[0])) / kept if r > 0 else 0.0
    if mechanism.clipped:
        p = min(max(p, -mechanism.clip * r), mechanism.clip * r)
    noise = t / r if r > 0 else 0.0
    q = float(beliefs.prediction(np.array([r]), y, mechanism.curve(beliefs), np.array([noise]))[0])
    base, score = float(mechanism.base(np.array(r))), float(mechanism.scoring(p, q, a=0.0, b=1.0))
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=r,
        leverage=h,
        noise=noise,
        shrinkage=1.0,
        peer_prediction=p,
        own_prediction=q,
        base=base,
        score=score,
        payment=_paid(mechanism, base, score, r),
        peer_answer=float(study.raw_response(np.array([p]), X)[0]),
        own_answer=float(study.raw_response(np.array([q]), X)[0]),
    )


def _recomputed_share(release: Release, receipt: Receipt, study: Study, mechanism: ShareRelease) -> Steps:
    """Predictions are shares, base is the flat fee, and score is φ, from −1 to 1."""
    beliefs, estimate = study.shares, release.estimate()
    if beliefs is None:
        raise InputError("The release pays for shares, and its study asks for numbers.")
    _, x, y = record_on_grid(study, receipt)
    if estimate is None:
        h, t, kept = receipt.leverage, 2 * receipt.noise_scale, 1.0 - receipt.leverage
    else:
        h, t, kept = taken_out(estimate, x[0])
    share = (1.0 + (float(x[0] @ np.array(release.theta)) - h * float(y[0])) / kept) / 2
    phi, q, paid = (float(part[0]) for part in mechanism.steps(beliefs, x, y, np.array([share])))
    expected, width = beliefs.expects(x), study.response.high - study.response.low
    low, high = (float(end[0]) for end in (expected.low, expected.high))
    bend = expected.advantage / (2 * expected.width(mechanism.margin))
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=float(np.sqrt(sum(v * v for v in x[0].tolist()))),
        leverage=h,
        noise=t / 2,
        shrinkage=1.0,
        peer_prediction=share,
        own_prediction=q,
        base=mechanism.flat,
        score=phi,
        payment=paid,
        peer_answer=study.response.low + width * share,
        own_answer=study.response.low + width * q,
        switch=float(expected.switch[0]),
        plausible=low - mechanism.tolerance <= share <= high + mechanism.tolerance,
        bend=float(bend[0]) if beliefs.levels > 2 else None,
    )


def _recomputed_asked(release: Release, receipt: Receipt, study: Study, mechanism: AskedRelease) -> Steps:
    """The surprise is the score; predictions are answers here, from −1 to 1."""
    beliefs, estimate, level = study.levels, release.estimate(), release.level()
    if beliefs is None or estimate is None or level is None or receipt.prediction is None:
        raise InputError(
            f"The receipt of player {receipt.player!r} has no prediction of the others' answers, or the release "
            "nothing to compare it with: they do not belong together."
        )
    X, x, y = record_on_grid(study, receipt)
    m = study.normalise_predictions(np.array([receipt.prediction]))
    m = grid_responses(m, beliefs.response_bound) / GRID
    h, t, kept = taken_out(estimate, x[0])
    p = np.array([(float(x[0] @ estimate.theta) - h * float(y[0])) / kept])
    scored = AskedPaymaster(mechanism, beliefs, estimate, level).score(
        x * GRID, y, m, np.array([h]), p, np.array([t])
    )
    low, high = mechanism.plausible
    average, slope = float(scored.others_answer[0]), float(beliefs.slopes(x, level.mean)[0])
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=float(np.sqrt(sum(v * v for v in x[0].tolist()))),
        leverage=h,
        noise=t,
        shrinkage=1.0,
        peer_prediction=float(p[0]),
        own_prediction=slope * float(y[0]),
        base=mechanism.base_payment,
        score=float(scored.surprise[0]),
        payment=float(scored.payment[0]),
        peer_answer=float(study.raw_response(p, X)[0]),
        own_answer=float(study.raw_response(y, X)[0]),
        plausible=low <= average <= high,
        prediction=float(m[0]),
        others_answer=average,
        others_prediction=float(scored.others_prediction[0]),
        slope=slope,
    )


def taken_out(estimate: LeaveOneOut, x: Floats) -> tuple[float, float, float]:
    """A player's leverage, the scale of the noise in what others predict of her, and what they keep of the matrix."""
    kz = instruments_on_grid(x[None] * GRID, estimate.transform, estimate.norm)
    w = estimate.inverse.T @ x
    h = float(w @ (kz[0] / GRID))
    kept = 1.0 - h if estimate.kept is None else estimate.kept
    return h, estimate.scale * float(np.linalg.norm(w)) / kept, kept


def _paid(mechanism: OneRelease, base: float, score: float, r: float) -> float:
    """Base and score in whole millionths, rounded down."""
    amount = base + mechanism.score_weight * score
    if mechanism.clipped:
        most = base + mechanism.score_weight * mechanism.scoring.gain(mechanism.clip * r)
        amount = min(max(amount, 0.0), most)
    return float(np.floor(amount * PAYMENT_STEPS) / PAYMENT_STEPS)


def record_on_grid(study: Study, receipt: Receipt | ReceiptOfHalves) -> tuple[Floats, Floats, Floats]:
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
    kx, ky = grid_features(X), grid_responses(y, study.believed.response_bound)
    return X, kx / GRID, ky / GRID


def steps(release: Release | ReleaseOfHalves, receipt: Receipt | ReceiptOfHalves) -> Steps:
    """Compute one payment again. The own prediction is integrated directly, never read from a table."""
    if isinstance(release, ReleaseOfHalves) and isinstance(receipt, ReceiptOfHalves):
        return halves_steps(release, receipt)
    if isinstance(release, Release) and isinstance(receipt, Receipt):
        return recomputed(release, receipt)
    raise InputError(
        f"The release has format {release.format!r} and the receipt {receipt.format!r}: they do not belong together."
    )


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
    base: float
    """What the payment starts from."""
    leverage: float | None
    """How much of the prediction of her was her own answer, which was taken out; None with random halves."""
    switch: float | None = None
    """Where answers are shares: the share at which the lowest and the highest answer pay the same."""
    phi: float | None = None
    """And how far from there, and to which side, the others' share is: from −1 to 1."""
    answer: float | None = None
    """And the answer, from −1 (no, the lowest rating) to 1 (yes, the highest); also where she is asked for others'."""
    plausible: bool | None = None
    """And whether the others' share is one that was thought possible: if not, half of the bonus is paid."""
    bend: float | None = None
    """And for ratings what an answer between the ends is paid beside what φ says; None for yes and no."""
    prediction: float | None = None
    """Where she is asked what the others will say, that, from −1 to 1, the ends of the scale."""
    others_answer: float | None = None
    """And the others' average answer."""
    others_prediction: float | None = None
    """And their average prediction."""
    surprise: float | None = None
    """And by how much answers exceed what was predicted, as far as it counts."""
    slope: float | None = None
    """And how much an answer moves what is expected of people like her."""


def verify(release: Release | ReleaseOfHalves, receipt: Receipt | ReceiptOfHalves) -> Verdict:
    """Recompute one payment from the public release and one's own record.

    The own prediction is always integrated directly. A settlement does so too, up to 100,000 players or so; for more it
    reads a table, which this then checks.
    """
    found = steps(release, receipt)
    # A table behind a payment is good to 1e-9, so the last rounding may differ by one step.
    verified = abs(found.payment - receipt.payment) < 1.5 / PAYMENT_STEPS
    return Verdict(
        verified,
        receipt.player,
        receipt.payment,
        found.payment,
        found.peer_prediction,
        found.own_prediction,
        release.rehearsal,
        found.base,
        found.leverage,
        found.switch,
        None if found.switch is None else found.score,
        None if found.switch is None and found.prediction is None else found.y,
        found.plausible,
        found.bend,
        found.prediction,
        found.others_answer,
        found.others_prediction,
        None if found.prediction is None else found.score,
        found.slope,
    )


def halves_steps(release: ReleaseOfHalves, receipt: ReceiptOfHalves) -> Steps:
    study = release.declared_study()
    mechanism, beliefs = release.mechanism(study), study.beliefs
    X, x, y = record_on_grid(study, receipt)
    r, peer = lengths(x), release.peer(receipt.group)
    curve = peer_curve(mechanism, beliefs, release.groups[1 - receipt.group])
    noise = noise_along(peer, x, r)
    p = peer_prediction(mechanism, beliefs, peer, x, r)
    q = beliefs.prediction(r, y, curve, noise)
    return Steps(
        x=tuple(x[0].tolist()),
        y=float(y[0]),
        length=float(r[0]),
        leverage=None,
        noise=float(noise[0]),
        shrinkage=curve.factor if isinstance(curve, Clipped | Shrunk) else 1.0,
        peer_prediction=float(p[0]),
        own_prediction=float(q[0]),
        base=mechanism.base_payment,
        score=float(mechanism.scoring(p, q, a=0.0, b=1.0)[0]),
        payment=float(payable(mechanism, beliefs, p, q)[0]),
        peer_answer=float(study.raw_response(p, X)[0]),
        own_answer=float(study.raw_response(q, X)[0]),
    )

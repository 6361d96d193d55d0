"""Verify: recompute one payment from what is public and what one player knows."""

from __future__ import annotations

from dataclasses import dataclass

from truthful.release.halves import ReceiptOfHalves, ReleaseOfHalves
from truthful.release.records import Receipt, Release
from truthful.release.steps import steps
from truthful.scoring import PAYMENT_STEPS


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

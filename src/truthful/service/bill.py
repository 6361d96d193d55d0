"""What a plan can cost in coins that exist, for one person and for all: the exact amounts are rounded by lot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from truthful import one_release_payments, payments
from truthful.asked_release import AskedRelease
from truthful.check import Floats
from truthful.coins import coin_range, most_in_coins
from truthful.guarantees import Guarantees
from truthful.intake import read_features
from truthful.mechanism import Mechanism
from truthful.payments import PAYMENT_STEPS, in_millionths
from truthful.plan import Plan
from truthful.service import stakes
from truthful.service.formats import coin_digits
from truthful.service.rosters import feature_columns
from truthful.share_release import ShareRelease
from truthful.study import Study

People = Sequence[Mapping[str, Any]]


def pay_range(plan: Plan) -> tuple[Decimal, Decimal]:
    """The least and the most that anybody is paid, whatever anybody does."""
    return coin_range(*_payment_range(plan), coin_digits(plan.study.currency))


def _payment_range(plan: Plan) -> tuple[float, float]:
    mechanism = plan.mechanism
    if isinstance(mechanism, ShareRelease):
        return mechanism.payment_range
    if isinstance(mechanism, Mechanism):
        return payments.payment_range(mechanism, plan.study.beliefs)
    if isinstance(mechanism, AskedRelease):
        return stakes.payment_range(mechanism, plan.study)
    return one_release_payments.payment_range(mechanism)


def her_pay_range(plan: Plan, features: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """The least and the most that somebody with these features is paid: payments start from what follows from them."""
    mechanism = plan.mechanism
    if isinstance(mechanism, Mechanism | ShareRelease | AskedRelease) or not mechanism.clipped:
        return pay_range(plan)
    r = _lengths(plan.study, [features])
    base, reach, rule = float(mechanism.base(r)[0]), mechanism.clip * float(r[0]), mechanism.scoring
    ends = (
        base - mechanism.score_weight * rule.loss(reach),
        base + mechanism.score_weight * rule.gain(reach),
    )
    least, most = (np.floor(max(0.0, end) * PAYMENT_STEPS) / PAYMENT_STEPS for end in ends)
    return coin_range(float(least), float(most), coin_digits(plan.study.currency))


def most_paid(plan: Plan, players: int, promised: Guarantees) -> Decimal:
    """The most that so many people are paid together: what is promised of exact amounts, and a coin for each."""
    _, most = _payment_range(plan)
    digits = coin_digits(plan.study.currency)
    alike, cap = most_in_coins(players, most, digits), promised.budget.cap
    if cap is None:
        return alike
    coin = Decimal(1).scaleb(-digits)
    return min(alike, (Decimal(cap) + players * coin).quantize(coin, ROUND_FLOOR))


def base_payments(plan: Plan, people: People) -> list[float]:
    """What everybody's payment starts from, in whole millionths: it is paid if the study is cancelled.

    Where a bonus depends on what others say, half of it is added: what is paid if nothing is known of the others. So is
    half of what a prediction can earn.
    """
    mechanism = plan.mechanism
    if isinstance(mechanism, ShareRelease):
        bases = np.full(len(people), mechanism.flat + mechanism.bonus / 2)
    elif isinstance(mechanism, AskedRelease):
        bases = np.full(len(people), mechanism.base_payment + mechanism.prediction_payment / 2)
    elif isinstance(mechanism, Mechanism):
        bases = np.full(len(people), mechanism.base_payment)
    else:
        bases = mechanism.base(_lengths(plan.study, people))
    exact: list[float] = (np.floor(bases * PAYMENT_STEPS) / PAYMENT_STEPS).tolist()
    return exact


@dataclass(frozen=True)
class Bases:
    """What so many people are paid if their study is cancelled: the least, the most, and all together.

    `half` is of what it holds half: of a bonus, or of what predictions earn; None if of nothing.
    """

    people: int
    least: Decimal
    most: Decimal
    total: Decimal
    currency: str
    half: str | None = None


def bases(plan: Plan, people: People) -> Bases:
    exact = [Decimal(in_millionths(amount)) / PAYMENT_STEPS for amount in base_payments(plan, people)]
    return Bases(
        len(exact),
        min(exact),
        max(exact),
        sum(exact, Decimal(0)),
        plan.study.currency,
        "bonus"
        if plan.share_mechanism is not None
        else "predictions"
        if plan.study.levels is not None
        else None,
    )


def _lengths(study: Study, people: People) -> Floats:
    """The length of everybody's features, normalised."""
    if not study.features:
        return payments.lengths(study.normalise({}, len(people)))
    return payments.lengths(read_features(study, pa.table(feature_columns(study, people))))

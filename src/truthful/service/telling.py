"""What a participant is told in numbers: before she consents, and when she is paid. All of them are the library's."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from truthful.charts import Odds
from truthful.coins import in_currency, pays
from truthful.payments import PAYMENT_STEPS
from truthful.plan import Plan
from truthful.release import verify
from truthful.release.steps import Steps, steps
from truthful.service.bill import pay_range
from truthful.service.standing import Standing
from truthful.words import odds

#: Beliefs beforehand that are told one by one.
BEFORE = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class Offer:
    """What she gets and gives away by taking part: pay in coins, and odds as a gambler or a doubter would put them."""

    least: Decimal
    most: Decimal
    scored: bool
    epsilon: float
    even_odds: tuple[float, float]
    surer: tuple[tuple[float, float, float], ...]


def offer(plan: Plan) -> Offer:
    mechanism, (least, most) = plan.mechanism, pay_range(plan)
    shown, (for_it, against) = Odds(mechanism.epsilon), odds(mechanism.epsilon).split(":")
    surer = tuple((before, *_shares(shown.told(before))) for before in BEFORE)
    return Offer(
        least, most, mechanism.score_weight > 0, mechanism.epsilon, (float(for_it), float(against)), surer
    )


def _shares(told: tuple[str, str]) -> tuple[float, float]:
    """The numbers in words as 12.5%, which are rounded outwards."""
    least, most = (float(words.removesuffix("%")) / 100 for words in told)
    return least, most


@dataclass(frozen=True)
class Paid:
    """What she is paid, in coins of 10^-digits and exactly, and how that came about.

    It is verified if the exact amount follows from the release and her record, and the coins are those next to it.
    """

    coins: Decimal
    digits: int
    exact: Decimal
    steps: Steps
    verified: bool
    half_range: float
    rule: str
    base: float
    weight: float


def paid(her: Standing) -> Paid:
    release, receipt, due = her.release, her.receipt, her.owed
    study = release.declared_study()
    return Paid(
        coins=in_currency(due.coins, due.digits),
        digits=due.digits,
        exact=Decimal(due.millionths) / PAYMENT_STEPS,
        steps=steps(release, receipt),
        verified=verify(release, receipt).verified and pays(due.coins, due.millionths, due.digits),
        half_range=study.half_range,
        rule=release.payment.rule,
        base=release.payment.a,
        weight=release.payment.b,
    )

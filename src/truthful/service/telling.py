"""What a participant is told in numbers: before she consents, and when she is paid. All of them are the library's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from truthful.asked_release import AskedRelease
from truthful.charts.estimate_charts import Odds
from truthful.coins import in_currency, pays
from truthful.formatting import odds
from truthful.one_release import SumRelease
from truthful.payments import PAYMENT_STEPS
from truthful.plan import Plan
from truthful.release import Release, ReleaseOfHalves, verify
from truthful.release.verdict import Steps, steps
from truthful.service.bill import her_pay_range
from truthful.service.bonus import Bonus, bonus_at, bonus_of
from truthful.service.stakes import Earned, Stakes, earned, stakes_of
from truthful.service.standing import Standing
from truthful.share_release import ShareRelease
from truthful.study import Study

#: Beliefs beforehand that are told one by one.
BEFORE = (0.1, 0.5, 0.9)
#: Where features are the analyst's own random numbers, and no facts about anybody.
ASSIGNED = ("uniform", "unit-ball")


@dataclass(frozen=True)
class Offer:
    """What she gets and gives away by taking part: pay in coins, and odds as a gambler or a doubter would put them.

    `protects` is what these odds are about: her answer, or all that is known of her; None for random halves, which do
    not say. `shows_sums` is whether sums of features are published as they are.
    """

    least: Decimal
    most: Decimal
    scored: bool
    protects: str | None
    shows_sums: bool
    epsilon: float
    even_odds: tuple[float, float]
    surer: tuple[tuple[float, float, float], ...]
    bonus: Bonus | None
    """How payments follow from what others say, where answers are yes or no, or ratings."""
    stakes: Stakes | None
    """And where she is also asked what they will say."""


def offer(plan: Plan, features: Mapping[str, Any]) -> Offer:
    """What somebody with these features is offered."""
    mechanism, study = plan.mechanism, plan.study
    least, most = her_pay_range(plan, features)
    shown, (for_it, against) = Odds(mechanism.epsilon), odds(mechanism.epsilon).split(":")
    return Offer(
        least=least,
        most=most,
        scored=(mechanism.bonus if isinstance(mechanism, ShareRelease) else mechanism.score_weight) > 0,
        protects=mechanism.protects if isinstance(mechanism, SumRelease) else None,
        shows_sums=study.publishes_matrix,
        epsilon=mechanism.epsilon,
        even_odds=(float(for_it), float(against)),
        surer=tuple((before, *_shares(shown.told(before))) for before in BEFORE),
        bonus=bonus_of(plan, features),
        stakes=stakes_of(plan, features),
    )


def is_assigned(study: Study) -> bool:
    """Whether what stands for her features was drawn by lot, and is no fact about her."""
    return bool(study.features) and study.design.kind in ASSIGNED


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
    halves: bool
    taken: bool
    """Whether two numbers are her receipt's, because the sums that they follow from are not published."""
    verified: bool
    half_range: float
    rule: str
    weight: float
    bonus: Bonus | None
    """Of people like her, where answers are yes or no, or ratings."""
    earned: Earned | None
    """The parts of her payment, where she was asked what the others will say."""

    @property
    def plausible(self) -> bool:
        """Whether what the others say was thought possible."""
        if self.bonus is None or self.bonus.plausible is None:
            return True
        least, most = self.bonus.plausible
        return least <= self.steps.peer_prediction <= most


def paid(her: Standing) -> Paid:
    release, receipt, due = her.release, her.receipt, her.owed
    study, found = release.declared_study(), steps(release, receipt)
    mechanism = release.mechanism(study)
    return Paid(
        coins=in_currency(due.coins, due.digits),
        digits=due.digits,
        exact=Decimal(due.millionths) / PAYMENT_STEPS,
        steps=found,
        halves=isinstance(release, ReleaseOfHalves),
        taken=isinstance(release, Release) and release.inverse is None,
        verified=verify(release, receipt).verified and pays(due.coins, due.millionths, due.digits),
        half_range=study.half_range,
        rule=release.payment.rule,
        weight=release.payment.b,
        bonus=_bonus(mechanism, study, found),
        earned=earned(mechanism, study, found) if isinstance(mechanism, AskedRelease) else None,
    )


def _bonus(mechanism: object, study: Study, found: Steps) -> Bonus | None:
    if not isinstance(mechanism, ShareRelease) or study.shares is None:
        return None
    return bonus_at(mechanism, study.shares, found.x)

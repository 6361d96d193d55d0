"""What a plan can cost in coins that exist, for one person and for all: the exact amounts are rounded by lot."""

from __future__ import annotations

from decimal import Decimal

from truthful.coins import coin_range, most_in_coins
from truthful.payments import payment_range
from truthful.plan import Plan
from truthful.service.formats import coin_digits


def pay_range(plan: Plan) -> tuple[Decimal, Decimal]:
    """The least and the most that anybody is paid, whatever anybody does."""
    return coin_range(*payment_range(plan.mechanism, plan.study.beliefs), coin_digits(plan.study.currency))


def most_paid(plan: Plan, players: int) -> Decimal:
    """The most that so many people are paid together. The plan's cap is on the exact amounts, a little below it."""
    _, most = payment_range(plan.mechanism, plan.study.beliefs)
    return most_in_coins(players, most, coin_digits(plan.study.currency))

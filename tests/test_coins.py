"""Payments in coins: right on average, the same every time, and nobody's to choose."""

from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from truthful.coins import coin_range, in_coins, in_currency, most_in_coins, pays
from truthful.errors import InputError

KEY = bytes(range(16))
PLAYERS = [f"p{i}" for i in range(20_000)]


@pytest.mark.parametrize("digits", [0, 2, 3, 6])
def test_an_amount_that_coins_can_pay_is_paid(digits: int) -> None:
    whole = [coins * 10 ** (6 - digits) for coins in range(50)]
    assert in_coins(whole, PLAYERS[:50], KEY, digits) == list(range(50))


@pytest.mark.parametrize(("millionths", "share"), [(167_078, 0.7078), (160_001, 0.0001), (9_999, 0.9999)])
def test_the_coin_above_comes_as_often_as_the_amount_is_near_it(millionths: int, share: float) -> None:
    """A binomial test of 20,000 tosses with a fixed key; false alarm 1e-6 each."""
    below = millionths // 10_000
    paid = np.array(in_coins([millionths] * len(PLAYERS), PLAYERS, KEY, 2))
    assert set(paid) <= {below, below + 1}
    assert stats.binomtest(int((paid - below).sum()), len(PLAYERS), share).pvalue > 1e-6


def test_a_toss_is_the_same_every_time_and_another_for_another_key_or_player() -> None:
    amounts = [165_000] * 200
    first = in_coins(amounts, PLAYERS[:200], KEY, 2)
    assert first == in_coins(amounts, PLAYERS[:200], KEY, 2)
    assert first != in_coins(amounts, PLAYERS[:200], bytes(16), 2)
    assert first != in_coins(amounts, PLAYERS[200:400], KEY, 2)


@pytest.mark.parametrize("digits", [-1, 7])
def test_coins_smaller_than_the_exact_amounts_are_refused(digits: int) -> None:
    with pytest.raises(InputError, match=f"digits is {digits}"):
        in_coins([1], ["p"], KEY, digits)


def test_a_range_of_exact_amounts_is_widened_to_whole_coins() -> None:
    """Whoever is due 0.824901 may be tossed the coin above."""
    assert coin_range(0.0, 0.824901, 2) == (Decimal("0.00"), Decimal("0.83"))
    assert coin_range(0.1, 0.1, 2) == (Decimal("0.10"), Decimal("0.10"))
    assert coin_range(1.5, 1.5, 2) == (Decimal("1.50"), Decimal("1.50"))
    assert coin_range(149.2, 150.1, 0) == (Decimal(149), Decimal(151))


@pytest.mark.parametrize(("millionths", "good"), [(167_078, {16, 17}), (170_000, {17}), (9_999, {0, 1})])
def test_coins_pay_an_amount_if_they_are_those_next_to_it(millionths: int, good: set[int]) -> None:
    assert {coins for coins in range(40) if pays(coins, millionths, 2)} == good


def test_coins_are_worth_what_their_digits_say() -> None:
    assert in_currency(1_735, 2) == Decimal("17.35")
    assert in_currency(1_735, 0) == 1_735


def test_tossed_coins_can_sum_to_more_than_the_exact_amounts_but_never_to_more_than_told() -> None:
    """Everybody is due 0.104 at most: together 104 exactly, and 110 if every toss goes up."""
    most = most_in_coins(1_000, 0.104, 2)
    assert most == Decimal("110.00")
    paid = [in_currency(coins, 2) for coins in in_coins([104_000] * 1_000, PLAYERS[:1_000], KEY, 2)]
    assert max(paid) * 1_000 == most
    assert in_currency(sum(in_coins([109_999] * 1_000, PLAYERS[:1_000], KEY, 2)), 2) > 1_000 * 0.104
    assert most_in_coins(10, 0.1 + 0.2, 0) == 10

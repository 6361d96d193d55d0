"""Payments in coins: right on average, the same every time, and nobody's to choose."""

from decimal import Decimal

import numpy as np
import pytest
from scipy import stats

from truthful.coins import coin_range, in_coins
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
    assert coin_range(1.5, 1.5, 2) == (Decimal("1.50"), Decimal("1.50"))
    assert coin_range(149.2, 150.1, 0) == (Decimal(149), Decimal(151))

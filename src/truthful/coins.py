"""Payments in coins that exist: the one above or the one below, so that on average the exact amount is paid.

Rounding to the nearest coin would make small lies free. A keyed hash of the player decides, which knows nothing of the
answer but the amount: expected payments, and with them all that is promised of them, stay as they are. The key is the
settlement's own, so that nobody, not even the payer, can toss again.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from truthful.errors import InputError

EXACT = 6
"""Digits after the point in which payments are exact: millionths."""


def in_millionths(payment: float) -> int:
    """A payment, which is a whole number of millionths, as that number: a float is near enough to tell which."""
    return round(payment * 1e6)


def in_coins(millionths: Sequence[int], players: Sequence[str], key: bytes, digits: int) -> list[int]:
    """What is paid, in coins of 10^-digits of the currency unit, for exact amounts in millionths of it."""
    if not 0 <= digits <= EXACT:
        raise InputError(f"digits is {digits}; amounts are exact to {EXACT} digits, so give 0 to {EXACT}.")
    coin = 10 ** (EXACT - digits)
    return [
        (amount + _toss(player, key, coin)) // coin
        for amount, player in zip(millionths, players, strict=True)
    ]


def in_currency(coins: int, digits: int) -> Decimal:
    """What coins of 10^-digits are worth."""
    return Decimal(coins).scaleb(-digits)


def pays(coins: int, millionths: int, digits: int) -> bool:
    """Whether these coins may be paid for an exact amount: itself, the coin above or the coin below."""
    coin: int = 10 ** (EXACT - digits)
    return abs(coins * coin - millionths) < coin


def most_in_coins(players: int, most: float, digits: int) -> Decimal:
    """The most that so many players can cost together, if nobody's exact amount is above `most`.

    Their exact amounts sum to `players`·`most` at most; the toss may give every one of them the coin above.
    """
    return players * coin_range(most, most, digits)[1]


def coin_range(least: float, most: float, digits: int) -> tuple[Decimal, Decimal]:
    """The least and the most that is paid in coins, if exact amounts, which are whole millionths, lie in this range."""
    coin = Decimal(1).scaleb(-digits)
    # The float next to 0.1 is a little above it; the amount is not.
    low, high = (Decimal(end).quantize(Decimal(1).scaleb(-EXACT)) for end in (least, most))
    return low.quantize(coin, ROUND_FLOOR), high.quantize(coin, ROUND_CEILING)


def _toss(player: str, key: bytes, sides: int) -> int:
    """Uniform on 0 … sides − 1 to within 2⁻¹⁰⁰, the same every time."""
    return (
        int.from_bytes(hmac.digest(key, b"coins " + player.encode("utf-8", "surrogatepass"), "sha256"))
        % sides
    )

"""Payments in whole coins: the exact amount rounded up or down at random, so that it is paid on average.

Rounding to the nearest coin would make small lies free. So a random lot U, uniform on 0 … coin − 1, decides: ⌊(amount +
U)/coin⌋ coins have the amount as their mean, so that all promises about expected payments stand. With independent lots
everybody could be rounded up, to more than the cap. So lots follow thresholds, Vᵢ₊₁ = (Vᵢ + mostᵢ) mod coin from a
secret start, mostᵢ being the most that player i can be due. Then ⌊(mostᵢ + Vᵢ)/coin⌋ sum to ⌊(V₁ + Σ mostᵢ)/coin⌋,
which is at most Σ mostᵢ rounded up to one coin. Uᵢ is a fresh lot on the same side as Vᵢ of coin − mostᵢ mod coin, the
point from which the most would be rounded up: it is uniform as Vᵢ is, and ⌊(amountᵢ + Uᵢ)/coin⌋ ≤ ⌊(mostᵢ + Vᵢ)/coin⌋,
so the cap holds for certain in coins. The most that anybody can be due is known before she answers: no lot depends on
an answer, her own or another's.
"""

from __future__ import annotations

import csv
import enum
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.errors import InputError

Ints = npt.NDArray[np.int64]

EXACT = 6
"""Digits after the point of exact payments: millionths."""

#: Currencies whose smallest coin has other than two digits (ISO 4217).
NO_DIGITS = (
    *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG"),
    *("RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"),
)
DIGITS = {
    **dict.fromkeys(NO_DIGITS, 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


def coin_digits(currency: str) -> int:
    """Digits after the point of the smallest coin: 2 for dollars, 0 for yen."""
    return DIGITS.get(currency, 2)


def in_millionths(payment: float) -> int:
    """A payment as a whole number of millionths; the float is close enough to identify it."""
    return round(payment * 1e6)


@dataclass(frozen=True)
class Lot:
    """The state that decides between two coins for the next player: a key, her number and her threshold."""

    key: int
    player: int
    threshold: int

    def after(self, players: int, most: int, digits: int) -> Lot:
        """The lot after this many players, who together can be due this many millionths."""
        return Lot(self.key, self.player + players, (self.threshold + most) % _coin(digits))


def first_lot(secret: str, digits: int) -> Lot:
    """The first player's lot: uniform, and the same every time for one secret."""
    digest = hashlib.sha256(f"coins {secret}".encode()).digest()
    return Lot(int.from_bytes(digest[:8]), 0, int.from_bytes(digest[8:]) % _coin(digits))


def in_coins(millionths: Sequence[int] | Ints, most: Sequence[int] | Ints, lot: Lot, digits: int) -> Ints:
    """Round exact amounts, in millionths of the currency unit, to coins of 10^-digits.

    `most` is the most that each player can be due.
    """
    coin, amounts = _coin(digits), np.asarray(millionths, dtype=np.int64)
    over = np.asarray(most, dtype=np.int64) % coin
    if len(over) != len(amounts):
        raise InputError(
            f"There are {len(amounts)} amounts, and {len(over)} limits to them. Give one for each."
        )
    thresholds = (lot.threshold + np.cumsum(over) - over) % coin
    up = thresholds >= coin - over
    drawn = _mix(lot.key, lot.player, len(amounts)) % np.where(up, over, coin - over).astype(np.uint64)
    return np.asarray((amounts + drawn.astype(np.int64) + np.where(up, coin - over, 0)) // coin)


def _mix(key: int, first: int, count: int) -> npt.NDArray[np.uint64]:
    """Numbers of 64 bits from this index on, all different under one key (SplitMix64)."""
    start = np.uint64((key + first * _STEP) % 2**64)
    z = start + np.arange(count, dtype=np.uint64) * np.uint64(_STEP)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


_STEP = 0x9E3779B97F4A7C15


def _coin(digits: int) -> int:
    if not 0 <= digits <= EXACT:
        raise InputError(f"digits is {digits}; amounts are exact to {EXACT} digits, so give 0 to {EXACT}.")
    return int(10 ** (EXACT - digits))


def in_currency(coins: int, digits: int) -> Decimal:
    """The worth of coins of 10^-digits."""
    return Decimal(coins).scaleb(-digits)


def pays(coins: int, millionths: int, digits: int) -> bool:
    """Whether these coins may be paid for an exact amount: it must be exact, or the coin above or below."""
    return abs(coins * _coin(digits) - millionths) < _coin(digits)


def most_in_coins(cap: float, digits: int) -> Decimal:
    """The largest total in coins if exact amounts sum to at most this: rounded up to a coin."""
    return coin_range(cap, cap, digits)[1]


def coin_range(least: float, most: float, digits: int) -> tuple[Decimal, Decimal]:
    """The least and the largest payment in coins, if exact amounts, in whole millionths, lie in this range."""
    coin = Decimal(1).scaleb(-digits)
    # The float next to 0.1 is a little above it; the amount is not.
    low, high = (Decimal(end).quantize(Decimal(1).scaleb(-EXACT)) for end in (least, most))
    return low.quantize(coin, ROUND_FLOOR), high.quantize(coin, ROUND_CEILING)


# Files of payments


class Kind(enum.StrEnum):
    """The purpose of a file of payments."""

    CSV = "payments.csv"
    PROLIFIC = "prolific.txt"
    MTURK = "mturk.csv"


#: First lines. MTurk's are names from its SendBonus operation; Prolific takes none.
HEADS: dict[Kind, list[tuple[str, ...]]] = {
    Kind.CSV: [("player", "amount")],
    Kind.PROLIFIC: [],
    Kind.MTURK: [("WorkerId", "BonusAmount")],
}
#: Currencies in which a platform pays bonuses.
CURRENCIES = {Kind.PROLIFIC: ("GBP", "USD"), Kind.MTURK: ("USD",)}


@dataclass(frozen=True)
class Bill:
    """The debts of a settlement: to whom how much, in the smallest coins of its currency."""

    currency: str
    digits: int
    rows: list[tuple[Any, int]]

    @property
    def total(self) -> Decimal:
        return in_currency(sum(coins for _, coins in self.rows), self.digits)

    @property
    def paid(self) -> int:
        """The number of people with a payment above 0: platforms refuse a bonus of nothing."""
        return sum(coins > 0 for _, coins in self.rows)

    def takes(self, kind: Kind) -> bool:
        """Whether a platform can pay it: in its currency, to players whose names can be ids there."""
        if kind not in CURRENCIES:
            return True
        names = (str(player) for player, _ in self.rows)
        return self.currency in CURRENCIES[kind] and all(name.isascii() and name.isalnum() for name in names)

    def file(self, kind: Kind) -> str:
        rows = (
            (player, f"{in_currency(coins, self.digits):.{self.digits}f}")
            for player, coins in self.rows
            if coins > 0 or kind == Kind.CSV
        )
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows([*HEADS[kind], *rows])
        return written.getvalue()

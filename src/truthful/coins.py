"""Payments in coins that exist: the one above or the one below, so that on average the exact amount is paid.

Rounding to the nearest coin would make small lies free. So a threshold U, uniform on 0 … coin − 1, decides:
⌊(amount + U)/coin⌋ coins are the amount on average, whatever it is, and all that is promised of expected payments stays
as it is. Thresholds follow each other by the most that people can be due, Uᵢ₊₁ = (Uᵢ + mostᵢ) mod coin, from a secret
start. As ⌊(amountᵢ + Uᵢ)/coin⌋ ≤ ⌊(mostᵢ + Uᵢ)/coin⌋, and these sum to ⌊(U₁ + Σ mostᵢ)/coin⌋, all together are never
paid more than Σ mostᵢ, rounded up to one coin: the cap holds for certain in coins. What anybody can be due is known
before she answers, so that nobody's threshold depends on an answer, her own or another's.
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
"""Digits after the point in which payments are exact: millionths."""

#: Digits of the smallest coins of currencies that have not two (ISO 4217).
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
    """A payment, which is a whole number of millionths, as that number: a float is near enough to tell which."""
    return round(payment * 1e6)


def first_threshold(secret: str, digits: int) -> int:
    """Uniform on 0 … coin − 1 to within 2⁻²³⁰, the same every time for one secret."""
    return int.from_bytes(hashlib.sha256(f"coins {secret}".encode()).digest()) % _coin(digits)


def next_threshold(threshold: int, most: Sequence[int] | Ints, digits: int) -> int:
    """The threshold after people who can be due so many millionths."""
    return int(threshold + np.sum(np.asarray(most, dtype=np.int64) % _coin(digits))) % _coin(digits)


def in_coins(
    millionths: Sequence[int] | Ints, most: Sequence[int] | Ints, threshold: int, digits: int
) -> Ints:
    """What is paid, in coins of 10^-digits of the currency unit, for exact amounts in millionths of it.

    `most` is what each can be due; the first of them has this threshold.
    """
    coin, amounts = _coin(digits), np.asarray(millionths, dtype=np.int64)
    steps = np.asarray(most, dtype=np.int64) % coin
    if len(steps) != len(amounts):
        raise InputError(
            f"There are {len(amounts)} amounts, and {len(steps)} limits to them. Give one for each."
        )
    thresholds = (threshold + np.cumsum(steps) - steps) % coin
    return np.asarray((amounts + thresholds) // coin)


def _coin(digits: int) -> int:
    if not 0 <= digits <= EXACT:
        raise InputError(f"digits is {digits}; amounts are exact to {EXACT} digits, so give 0 to {EXACT}.")
    return int(10 ** (EXACT - digits))


def in_currency(coins: int, digits: int) -> Decimal:
    """What coins of 10^-digits are worth."""
    return Decimal(coins).scaleb(-digits)


def pays(coins: int, millionths: int, digits: int) -> bool:
    """Whether these coins may be paid for an exact amount: itself, the coin above or the coin below."""
    return abs(coins * _coin(digits) - millionths) < _coin(digits)


def most_in_coins(cap: float, digits: int) -> Decimal:
    """The most that is paid in coins, if exact amounts can sum to no more than this: rounded up to a coin."""
    return coin_range(cap, cap, digits)[1]


def coin_range(least: float, most: float, digits: int) -> tuple[Decimal, Decimal]:
    """The least and the most that is paid in coins, if exact amounts, which are whole millionths, lie in this range."""
    coin = Decimal(1).scaleb(-digits)
    # The float next to 0.1 is a little above it; the amount is not.
    low, high = (Decimal(end).quantize(Decimal(1).scaleb(-EXACT)) for end in (least, most))
    return low.quantize(coin, ROUND_FLOOR), high.quantize(coin, ROUND_CEILING)


# Files of payments


class Kind(enum.StrEnum):
    """What a file of payments is for."""

    CSV = "payments.csv"
    PROLIFIC = "prolific.txt"
    MTURK = "mturk.csv"


#: First lines. MTurk's are the names of its SendBonus operation; Prolific wants none.
HEADS: dict[Kind, list[tuple[str, ...]]] = {
    Kind.CSV: [("player", "amount")],
    Kind.PROLIFIC: [],
    Kind.MTURK: [("WorkerId", "BonusAmount")],
}
#: Currencies that a platform pays bonuses in.
CURRENCIES = {Kind.PROLIFIC: ("GBP", "USD"), Kind.MTURK: ("USD",)}


@dataclass(frozen=True)
class Bill:
    """What a settlement owes: to whom how much, in the smallest coins of its currency."""

    currency: str
    digits: int
    rows: list[tuple[Any, int]]

    @property
    def total(self) -> Decimal:
        return in_currency(sum(coins for _, coins in self.rows), self.digits)

    @property
    def paid(self) -> int:
        """How many get anything: platforms take no bonus of nothing."""
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

"""Numbers and commands as people read them."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

#: What a seeded run must say wherever it is seen.
REHEARSAL = (
    "REHEARSAL: the noise comes from a seed, so it protects nobody. Do not use it on people's answers."
)


def command(*words: str | Path) -> str:
    """A command to run, its paths quoted so that a shell reads them as they are."""
    return f"truthful {shlex.join(map(str, words))}"


def number(value: float, digits: int = 3) -> str:
    """A number in plain digits, at least `digits` of them significant."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 0.9999 is 1.00, not 1.000
    decimals = max(0, digits - 1 - math.floor(math.log10(rounded)))
    return f"{value:,.{min(decimals, 12)}f}"


def signed_number(value: float, digits: int = 3) -> str:
    """A number in plain digits, with a true minus sign."""
    return number(value, digits).replace("-", "−")


def to_within(value: float, width: float) -> str:
    """A number as precise as an interval of this width makes it: a hundredth of the width still shows."""
    if not width > 0:
        return number(value)
    decimals = 1 - math.floor(math.log10(width / 2))
    return f"{value:,.{min(max(decimals, 0), 12)}f}"


def interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and the ends of its interval, all as precise as that makes them."""
    width = high - low
    return to_within(value, width), to_within(low, width), to_within(high, width)


def money(amount: float, currency: str, decimals: int | None = None) -> str:
    """An amount with its currency, never in scientific notation: cents, or three digits of less than one unit."""
    if decimals is None and 0 < abs(amount) < 1:
        return f"{number(amount)} {currency}"
    return f"{amount:,.{2 if decimals is None else decimals}f} {currency}"


def percent(share: float, decimals: int = 2) -> str:
    """A share, rounded down: 100% is said only of all."""
    # The tiny addend keeps 0.29, whose float is below it, from becoming 28.99.
    step = 10**decimals
    return f"{math.floor(share * 100 * step + 1e-9) / step:.6g}%"


def points(value: float, digits: int = 3) -> str:
    """A difference between shares, or the error of one, in percentage points."""
    return f"{number(100 * value, digits)} percentage points"


def share(value: float, width: float) -> str:
    """A share in percent, as precise as an interval of this width makes it."""
    return f"{to_within(100 * value, 100 * width)}%"


def even_odds(epsilon: float) -> tuple[float, float, int]:
    """ε as betting odds in percent, rounded up, and their decimals: the best at telling two answers apart."""
    against = 100 * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    if against == 0:
        return 100.0, 0.0, 0
    decimals = 1 if against >= 1 else 1 - math.floor(math.log10(against))
    step = 10.0**decimals
    against = math.floor(against * step + 1e-9) / step
    return round(100 - against, decimals), against, decimals


def odds(epsilon: float) -> str:
    """The same in words, as 52.5:47.5."""
    better, against, decimals = even_odds(epsilon)
    return f"{better:.{decimals}f}:{against:.{decimals}f}"

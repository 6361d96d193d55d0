"""Numbers, commands and records formatted for people."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: The warning that a seeded run must show everywhere.
REHEARSAL = (
    "REHEARSAL: the noise comes from a seed, so it protects nobody. Do not use it on people's answers."
)


def command(*words: str | Path) -> str:
    """A command to run, its paths quoted for a shell."""
    return f"truthful {shlex.join(map(str, words))}"


def plural(count: int, noun: str) -> str:
    """A count and its noun: 1 record, 2 records."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number(value: float, digits: int = 3) -> str:
    """A number in plain digits, at least `digits` of them significant."""
    return f"{value:,.{decimals(value, digits)}f}"


def decimals(value: float, digits: int = 3) -> int:
    """The decimals with which a number has at least this many significant digits."""
    if value == 0 or not math.isfinite(value):
        return 0
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 0.9999 is 1.00, not 1.000
    return min(max(digits - 1 - math.floor(math.log10(rounded)), 0), 12)


def shortest(value: float) -> str:
    """A number in the fewest digits that distinguish it from its neighbours."""
    return repr(float(value)).removesuffix(".0")


def signed_number(value: float, digits: int = 3) -> str:
    """A number in plain digits, with a true minus sign."""
    return number(value, digits).replace("-", "−")


def to_within(value: float, width: float) -> str:
    """A number as precise as an interval of this width allows."""
    return f"{value:,.{decimals_within(value, width)}f}"


def decimals_within(value: float, width: float) -> int:
    """The decimals that an interval of this width allows: a hundredth of the width still shows."""
    return min(max(1 - math.floor(math.log10(width / 2)), 0), 12) if width > 0 else decimals(value)


def interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and the ends of its interval, to the precision it allows."""
    width = high - low
    return to_within(value, width), to_within(low, width), to_within(high, width)


#: The name of a hundredth of a currency's unit, where people use one.
HUNDREDTHS = dict.fromkeys(("USD", "EUR", "CAD", "AUD", "NZD", "SGD", "HKD", "ZAR"), "cents") | {
    "GBP": "pence"
}


def cents(amount: float, currency: str) -> float | None:
    """An amount below one unit in hundredths, to two or three digits; None where it is given in units."""
    told = 100 * amount
    if currency not in HUNDREDTHS or not 0 < abs(told) < 99.5:
        return None
    return float(f"{told:.{1 if abs(told) < 10 else 2}e}")


def money(amount: float, currency: str, decimals: int | None = None) -> str:
    """An amount with its currency, never in scientific notation: in cents below one unit, else to three digits."""
    if decimals is None and (told := cents(amount, currency)) is not None:
        digits = 2 if abs(told) < 10 else 3
        return f"{f'{told:g}' if told >= 2 else number(told, digits)} {HUNDREDTHS[currency]}"
    if decimals is None and 0 < abs(amount) < 0.995:
        return f"{number(amount)} {currency}"
    return f"{amount:,.{2 if decimals is None else decimals}f} {currency}"


def percent(share: float, decimals: int = 2) -> str:
    """A share, rounded down: only the whole is 100%."""
    # The tiny addend keeps 0.29, whose float is below it, from becoming 28.99.
    step = 10**decimals
    return f"{math.floor(share * 100 * step + 1e-9) / step:.6g}%"


def points(value: float, digits: int = 3) -> str:
    """A difference between shares, or the error of one, in percentage points."""
    return f"{number(100 * value, digits)} percentage points"


def share(value: float, width: float) -> str:
    """A share in percent, as precise as an interval of this width allows."""
    return f"{to_within(100 * value, 100 * width)}%"


#: Odds beyond this to one are no privacy, and are not shown as numbers.
MOST_ODDS = 99


def protects(epsilon: float) -> bool:
    """Whether anybody is protected in practice: even odds stay within 99:1."""
    return epsilon <= math.log(MOST_ODDS)


def even_odds(epsilon: float) -> tuple[float, float]:
    """ε as betting odds in percent, rounded up to tenths: the best at telling two answers apart."""
    against = math.floor(1000 * math.exp(-epsilon) / (1 + math.exp(-epsilon)) + 1e-9) / 10
    return round(100 - against, 1), against


def odds(epsilon: float) -> str:
    """The odds in words, as 52.5:47.5; where nobody is protected, only that they are beyond 99:1."""
    better, against = even_odds(epsilon)
    return f"{better:.1f}:{against:.1f}" if protects(epsilon) else f"more than {MOST_ODDS}:1"


# Records that a notebook shows. Their look is defined in a later module, and the package itself says where.

_viewers: list[Callable[[], Any]] = []


def set_viewer(viewer: Callable[[], Any]) -> None:
    """Set the viewer of records; it is asked for when the first one is shown."""
    _viewers[:] = [viewer]


def as_text(record: object) -> str:
    """The record as a terminal shows it, without colours."""
    return str(_viewers[0]().text(record))


class Viewable:
    """A record that a notebook shows as tables."""

    def _repr_html_(self) -> str:
        return str(_viewers[0]().html(self))

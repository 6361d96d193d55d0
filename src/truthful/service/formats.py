"""Numbers, money and dates as people of a language write them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from babel import Locale
from babel.dates import format_datetime
from babel.numbers import (
    NumberFormatError,
    format_currency,
    format_decimal,
    format_percent,
    get_currency_precision,
    parse_decimal,
)

from truthful.coins import EXACT


def coin_digits(currency: str) -> int:
    """Digits after the point of the smallest coin: 2 for dollars, 0 for yen."""
    return min(int(get_currency_precision(currency)), EXACT)


def money(amount: Decimal | float, currency: str, locale: Locale, digits: int | None = None) -> str:
    """An amount with its currency; `digits` after the point if more than its coins have are to be seen."""
    if digits is None:
        return str(format_currency(amount, currency, locale=locale))
    pattern = locale.currency_formats["standard"].pattern.split(";")[0]
    return str(
        format_currency(
            amount,
            currency,
            pattern.replace("0.00", "0." + "0" * digits if digits else "0"),
            locale=locale,
            currency_digits=False,
        )
    )


def number(value: float, locale: Locale) -> str:
    """A number with the digits that it has, up to fifteen."""
    return str(format_decimal(Decimal(f"{value:.15g}"), format="#,##0.###############", locale=locale))


def percent(share: float, locale: Locale, digits: int = 0) -> str:
    pattern = "#,##0" + ("." + "#" * digits if digits else "") + "%"
    return str(format_percent(share, format=pattern, locale=locale))


def moment(time: datetime, locale: Locale) -> str:
    """A day and time, in UTC."""
    return f"{format_datetime(time, 'medium', locale=locale)} UTC"


def read_number(text: str, locale: Locale) -> float | None:
    """The number that somebody typed, in her language or plainly; None if it is none."""
    words = text.strip().replace("\u2212", "-").replace(" ", "").replace("\u00a0", "").replace("\u202f", "")
    try:
        value = float(parse_decimal(words, locale=locale, strict=True))
    except (NumberFormatError, ValueError, ArithmeticError):  # the last for exponents that no decimal has
        try:
            value = float(words) if words.isascii() and "_" not in words else float("nan")
        except ValueError:
            return None
    return value if abs(value) < float("inf") else None

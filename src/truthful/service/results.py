"""What a settled study found, as its pages show it: coefficients, the five guarantees, a chart."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from babel import Locale
from babel.numbers import format_decimal

from truthful.charts import Forest
from truthful.plan import Plan
from truthful.promises import Promise, released
from truthful.release import Release
from truthful.report.effects import effects
from truthful.service.bill import most_paid
from truthful.service.computing import drawn
from truthful.words import to_within


@dataclass(frozen=True, eq=False)
class Results:
    """A release beside the plan it came from."""

    release: Release
    promises: tuple[Promise, ...]
    most: Decimal
    """The most that those who took part are paid together, in coins."""
    currency: str
    forest: bytes | None

    def coefficients(self, locale: Locale) -> list[tuple[str, ...]]:
        """Name, estimate and both ends of its interval, as precise as the interval makes them."""
        return [
            (
                row.name,
                *(
                    _local(to_within(value, row.high - row.low), locale)
                    for value in (row.value, row.low, row.high)
                ),
            )
            for row in self.release.coefficients
        ]


@lru_cache(maxsize=32)
def results(release: str, plan: Plan) -> Results:
    """The results in a release's text."""
    read = Release.model_validate_json(release)
    found = effects(read, plan.study)
    forest = drawn(Forest(found, plan.study.response.name, read.interval_level)) if found else None
    most = most_paid(plan, read.players)
    return Results(read, released(read, plan), most, plan.study.currency, forest)


def _local(text: str, locale: Locale) -> str:
    """A number in another language's signs, with the same digits."""
    value, digits = Decimal(text.replace(",", "")), len(text.partition(".")[2])
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return str(format_decimal(abs(value) if value == 0 else value, format=pattern, locale=locale))

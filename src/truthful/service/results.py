"""What a settled study found, as its pages show it: coefficients, the five guarantees, a chart."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from babel import Locale
from babel.numbers import format_decimal

from truthful.charts import Forest
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.promises import Promise, promises, released
from truthful.release import AnyRelease, Release, read_release
from truthful.report.effects import effects
from truthful.service.bill import most_paid
from truthful.service.computing import drawn
from truthful.words import to_within


@dataclass(frozen=True, eq=False)
class Results:
    """A release beside the plan it came from."""

    release: AnyRelease
    promises: tuple[Promise, ...]
    """What is guaranteed for those who took part."""
    before: tuple[Promise, ...]
    """What was promised before they did."""
    most: Decimal
    """The most that those who took part are paid together, in coins."""
    currency: str
    forest: bytes | None

    @property
    def compared(self) -> list[tuple[Promise, Promise]]:
        """Each guarantee as it was promised, and as it is."""
        return list(zip(self.before, self.promises, strict=True))

    @property
    def not_protected(self) -> list[str]:
        """What of people the result may tell as it is; nothing is said of releases of random halves."""
        return list(self.release.guarantees["privacy"].get("not_protected", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.release.warnings if isinstance(self.release, Release) else ()

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
    read = read_release(release.encode())
    found = effects(read, plan.study)
    forest = drawn(Forest(found, plan.study.response.name, read.interval_level)) if found else None
    most = most_paid(plan, read.players, Guarantees.from_record(read.guarantees))
    return Results(read, released(read, plan), promises(plan), most, plan.study.currency, forest)


def _local(text: str, locale: Locale) -> str:
    """A number in another language's signs, with the same digits."""
    value, digits = Decimal(text.replace(",", "")), len(text.partition(".")[2])
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return str(format_decimal(abs(value) if value == 0 else value, format=pattern, locale=locale))

"""The public pages of a study: what it declared, from the day it is frozen; what it found, once it is published.

A draft and a study that does not exist look the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

from babel import Locale
from babel.numbers import format_decimal
from fastapi import APIRouter
from starlette.responses import Response

from truthful.charts.estimate_charts import Effect, Forest
from truthful.formatting import to_within
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.promises import Promise, promises, released_promises
from truthful.release import Release, read_release
from truthful.release.release import Coefficient, Predictions
from truthful.report.findings import effects
from truthful.service.jobs import chart_svg
from truthful.service.locations import PLAN
from truthful.service.offer import most_paid
from truthful.service.pages import HTML, JSON, SVG, TOML, Visit, Visitor, download, picture_response
from truthful.store import studies
from truthful.store.studies import Unknown
from truthful.store.tables import State, StoredStudy
from truthful.study import Study

#: A name, and three numbers as they are read.
Row = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Results:
    """A release beside the plan it came from."""

    release: Release
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
        """What of people the result may tell as it is."""
        return list(self.release.guarantees["privacy"].get("not_protected", ()))

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.release.warnings

    def coefficients(self, locale: Locale) -> list[Row]:
        """Name, estimate and both ends of its interval, as precise as the interval makes them."""
        return _rows(self.release.coefficients, locale)

    def averages(self, locale: Locale) -> list[Row]:
        """The same of people's answers and predictions, on the scale of the latter; nothing where nobody predicts."""
        found = self._predictions
        return [] if found is None else _rows((found.answer, found.prediction), locale)

    def centre(self, locale: Locale) -> str | None:
        """What people expected before they knew their own answers, as precise as their average prediction."""
        found = self._predictions
        if found is None or found.centre is None:
            return None
        return _local(to_within(found.centre, found.prediction.high - found.prediction.low), locale)

    @property
    def _predictions(self) -> Predictions | None:
        return self.release.predictions

    @property
    def kind(self) -> str:
        """What people answered."""
        return self.release.response.get("kind") or "number"

    def shares(self, locale: Locale) -> list[Row]:
        """The same of the share among all who answered, in percent, or of their mean rating."""
        low, high = (
            (0.0, 1.0) if self.kind == "yes-no" else (self.release.response[end] for end in ("low", "high"))
        )
        return _rows(
            _of_shares(self.release, "shares"), locale, self._unit, (low * self._unit, high * self._unit)
        )

    def differences(self, locale: Locale) -> list[Row]:
        """Between people, in percentage points, or in levels of a rating."""
        return _rows(_of_shares(self.release, "differences"), locale, self._unit)

    def odds_ratios(self, locale: Locale) -> list[Row]:
        """Nothing where they cannot be estimated."""
        return _rows(_of_shares(self.release, "odds_ratios"), locale)

    @property
    def _unit(self) -> float:
        return 100.0 if self.kind == "yes-no" else 1.0


@lru_cache(maxsize=32)
def results(release: str, plan: Plan) -> Results:
    """The results in a release's text."""
    read = read_release(release.encode())
    forest = _forest(read, plan.study)
    most = most_paid(plan, read.players, Guarantees.from_record(read.guarantees))
    return Results(read, released_promises(read, plan), promises(plan), most, plan.study.currency, forest)


def _forest(release: Release, study: Study) -> bytes | None:
    """What each fact does, as a chart; of shares the differences, those of yes in percentage points."""
    if study.shares is None:
        found, name = effects(release, study), study.response.name
    else:
        unit = 100.0 if study.kind == "yes-no" else 1.0
        rows = _of_shares(release, "differences")
        found = tuple(Effect(row.name, unit * row.value, unit * row.low, unit * row.high) for row in rows)
        name = f"{study.response.name}, % yes" if study.kind == "yes-no" else study.response.name
    return chart_svg(Forest(found, name, release.interval_level)) if found else None


def _of_shares(release: Release, name: str) -> tuple[Coefficient, ...]:
    """A part that only releases of shares have."""
    return getattr(release, name, None) or ()


def _rows(
    rows: Iterable[Coefficient],
    locale: Locale,
    unit: float = 1.0,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> list[Row]:
    """Name, estimate and interval of each in this unit, none shown beyond these ends."""
    low, high = within
    return [
        (
            row.name,
            *(
                _local(to_within(min(max(unit * value, low), high), unit * (row.high - row.low)), locale)
                for value in (row.value, row.low, row.high)
            ),
        )
        for row in rows
    ]


def _local(text: str, locale: Locale) -> str:
    """A number in another language's signs, with the same digits."""
    value, digits = Decimal(text.replace(",", "")), len(text.partition(".")[2])
    pattern = "#,##0" + ("." + "0" * digits if digits else "")
    return str(format_decimal(abs(value) if value == 0 else value, format=pattern, locale=locale))


router = APIRouter()


@router.get("/s/{study_id}")
def public_page(visit: Visitor, study_id: str) -> Response:
    stored, plan = _frozen(visit, study_id), visit.service.locations.plan(study_id)
    values: dict[str, Any] = {
        "stored": stored,
        "plan": plan,
        "place": f"/s/{study_id}",
        "withheld": _withheld(stored, plan),
    }
    if stored.state != State.PUBLISHED:
        most = most_paid(plan, plan.players, plan.guarantees)
        return visit.page("public/declared.html", **values, promises=promises(plan), most=most)
    return visit.page("public/published.html", **values, **shown_results(stored, plan, visit.locale))


@router.get("/s/{study_id}/study.toml")
def declaration_file(visit: Visitor, study_id: str) -> Response:
    return download(_require_public(visit, study_id).declaration or "", TOML, "study.toml")


@router.get("/s/{study_id}/plan.json")
def plan_file(visit: Visitor, study_id: str) -> Response:
    """As it will be carried out."""
    _require_public(visit, study_id)
    path = visit.service.locations.study(study_id) / PLAN
    return download(path.read_bytes(), JSON, "plan.json")


@router.get("/s/{study_id}/release.json")
def release_file(visit: Visitor, study_id: str) -> Response:
    """Byte for byte as it was stored."""
    return download(_require_published(visit, study_id).release or "", JSON, "release.json")


@router.get("/s/{study_id}/report")
def report(visit: Visitor, study_id: str) -> Response:
    return picture_response(_require_published(visit, study_id).report or "", HTML)


@router.get("/s/{study_id}/forest.svg")
def forest(visit: Visitor, study_id: str) -> Response:
    return forest_chart(_require_published(visit, study_id), visit.service.locations.plan(study_id))


def forest_chart(stored: StoredStudy, plan: Plan) -> Response:
    """What each fact does, as a chart, if there is one."""
    chart = results(stored.release or "", plan).forest
    if chart is None:
        raise Unknown("There is no chart.")
    return picture_response(chart, SVG)


def shown_results(stored: StoredStudy, plan: Plan, locale: Locale) -> dict[str, Any]:
    """What pages of results show."""
    found = results(stored.release or "", plan)
    return {"found": found, "coefficients": found.coefficients(locale), "locale": locale}


def _frozen(visit: Visit, study_id: str) -> StoredStudy:
    with visit.reading() as session:
        stored = studies.find(session, study_id)
    if stored.state == State.DRAFT:
        raise Unknown("There is no such study.")
    return stored


def _withheld(stored: StoredStudy, plan: Plan) -> bool:
    """Whether what is believed is not told yet: people are being asked what they believe."""
    return stored.state == State.OPEN and plan.study.levels is not None


def _require_public(visit: Visit, study_id: str) -> StoredStudy:
    """A study whose files everybody may see."""
    stored = _frozen(visit, study_id)
    if _withheld(stored, visit.service.locations.plan(study_id)):
        raise Unknown("The files are there once the study has closed.")
    return stored


def _require_published(visit: Visit, study_id: str) -> StoredStudy:
    stored = _frozen(visit, study_id)
    if stored.state != State.PUBLISHED:
        raise Unknown("Nothing is published.")
    return stored

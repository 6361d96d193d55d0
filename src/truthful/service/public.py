"""The public pages of a study: its declaration and plan once it is frozen, its results once it is published.

A draft looks like a study that does not exist.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from babel import Locale
from babel.numbers import get_decimal_symbol
from fastapi import APIRouter
from starlette.responses import Response

from truthful.charts.estimate_charts import Effect, Forest
from truthful.formatting import decimals_within
from truthful.guarantees import Guarantees
from truthful.plan import Plan
from truthful.promises import promises, released_promises
from truthful.release import Release, read_release
from truthful.release.release import Coefficient
from truthful.report.page import difference_labels
from truthful.service.jobs import apart, chart_svg
from truthful.service.locations import PLAN
from truthful.service.middleware import KEPT
from truthful.service.offer import most_paid, terms
from truthful.service.pages import (
    HTML,
    SVG,
    Visit,
    Visitor,
    download,
    go,
    languages,
    picture_response,
    rounded,
)
from truthful.store import roster, studies
from truthful.store.studies import Unknown
from truthful.store.tables import State, StoredStudy
from truthful.study import Study

#: A name, and an estimate with the ends of its interval, formatted.
Row = tuple[str, ...]


@lru_cache(maxsize=32)
def results(release: str, plan: Plan, language: str) -> dict[str, Any]:
    """A release, with its guarantees for those who took part, and `before`, the guarantees promised by the plan.

    `most` is the most that all players together are paid, in coins; `not_protected` lists facts about people that the
    result may reveal.
    """
    read = read_release(release.encode())
    between = difference_labels(plan.study, plan.study.in_language(language))
    return {
        "release": read,
        "promises": released_promises(read, plan),
        "before": promises(plan),
        "most": most_paid(plan, read.players, Guarantees.from_record(read.guarantees)),
        "between": between,
        "forest": _forest(read, plan.study, between, language),
        "not_protected": list(read.guarantees["privacy"].get("not_protected", ())),
    }


def shown_results(stored: StoredStudy, plan: Plan, locale: Locale) -> dict[str, Any]:
    """The values for pages of results: tables of names, estimates and intervals, rounded to the interval's precision.

    Shares are in percent, mean ratings on their scale; averages of answers and predictions are added if there are any.
    """
    found = results(stored.release or "", plan, locale.language)
    release: Release = found["release"]
    predictions = release.predictions
    unit = 100.0 if plan.study.kind == "yes-no" else 1.0
    low, high = (
        (0.0, 1.0) if plan.study.kind == "yes-no" else (release.response[end] for end in ("low", "high"))
    )
    averages = [] if predictions is None else [predictions.answer, predictions.prediction]
    centre = None
    if predictions is not None and predictions.centre is not None:
        width = predictions.prediction.high - predictions.prediction.low
        centre = _within(predictions.centre, width, locale)
    return {
        "found": found,
        "coefficients": _rows(release.coefficients, locale),
        "shares": _rows(release.shares or (), locale, unit, (low * unit, high * unit)),
        "differences": _rows(release.differences or (), locale, unit),
        "odds_ratios": _rows(release.odds_ratios or (), locale),
        "between": found["between"],
        "averages": _rows(averages, locale),
        "centre": centre,
    }


def _forest(release: Release, study: Study, between: dict[str, str], language: str) -> bytes | None:
    """The chart of differences between people; for shares of yes in percentage points."""
    unit = 100.0 if study.kind == "yes-no" else 1.0
    found = tuple(
        Effect(between[row.name], unit * row.value, unit * row.low, unit * row.high)
        for row in release.differences or ()
    )
    key = "public.axis_points" if study.kind == "yes-no" else "public.axis"
    texts = languages()[language]
    axis, decimal = texts(key, response=study.response.name), get_decimal_symbol(texts.locale)
    return (
        chart_svg(Forest(found, study.response.name, release.interval_level, axis, decimal))
        if found
        else None
    )


def _rows(
    rows: Iterable[Coefficient],
    locale: Locale,
    unit: float = 1.0,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> list[Row]:
    """Each coefficient's name, estimate and interval in this unit, clipped to `within`."""
    low, high = within
    return [
        (
            row.name,
            *(
                _within(min(max(unit * value, low), high), unit * (row.high - row.low), locale)
                for value in (row.value, row.low, row.high)
            ),
        )
        for row in rows
    ]


def _within(value: float, width: float, locale: Locale) -> str:
    """A number as precise as an interval of this width allows."""
    return rounded(value, decimals_within(value, width), locale)


router = APIRouter()


@router.get("/logo")
def logo(visit: Visitor) -> Response:
    if visit.service.logo is None:
        raise Unknown("There is no logo.")
    content, kind = visit.service.logo
    return Response(content, media_type=kind, headers={"Cache-Control": KEPT})


@router.get("/s/{study_id}")
@apart("public")
def public_page(visit: Visitor, study_id: str) -> Response:
    stored, plan = _frozen(visit, study_id), visit.plan(study_id)
    values: dict[str, Any] = {
        "stored": stored,
        "plan": plan,
        "place": f"/s/{study_id}",
        "withheld": _withheld(stored, plan),
        "logo": visit.service.logo is not None,
    }
    if stored.state != State.PUBLISHED:
        return visit.page("public/declared.html", **values, **terms(plan))
    return visit.page("public/published.html", **values, **shown_results(stored, plan, visit.locale))


@router.get("/s/{study_id}/study.toml")
def declaration_file(visit: Visitor, study_id: str) -> Response:
    return download(_require_public(visit, study_id).declaration or "", "study.toml")


#: The query parameters in which panels pass people's ids.
PANEL_IDS = ("PROLIFIC_PID", "participant", "workerId")


@router.get("/s/{study_id}/enter")
def enter(visit: Visitor, study_id: str) -> Response:
    """Redirect somebody who comes from a panel, with her id there, to her own page if she is on the roster."""
    player = next(filter(None, map(visit.request.query_params.get, PANEL_IDS)), "")
    stored = _frozen(visit, study_id)
    with visit.reading() as session:  # strangers must not block writers
        if stored.panel is None or not roster.holds(session, study_id, player):
            raise Unknown("Nobody with this id is asked.")
    key = visit.service.locations.links_key(study_id)
    with visit.writing() as session:
        token = roster.enter(session, study_id, player, key)
    return go(f"/a/{token}")


@router.get("/s/{study_id}/consent")
def consent_document(visit: Visitor, study_id: str) -> Response:
    """The consent document, byte for byte as uploaded."""
    _frozen(visit, study_id)
    with visit.reading() as session:
        document = studies.document(session, study_id)
    if document is None:
        raise Unknown("There is no consent document.")
    return download(document.content, f"consent.{document.kind}")


@router.get("/s/{study_id}/plan.json")
def plan_file(visit: Visitor, study_id: str) -> Response:
    """The frozen plan."""
    _require_public(visit, study_id)
    path = visit.service.locations.study(study_id) / PLAN
    return download(path.read_bytes(), "plan.json")


@router.get("/s/{study_id}/release.json")
def release_file(visit: Visitor, study_id: str) -> Response:
    """The release, byte for byte as stored."""
    return download(_require_published(visit, study_id).release or "", "release.json")


@router.get("/s/{study_id}/report")
def report(visit: Visitor, study_id: str) -> Response:
    return picture_response(_require_published(visit, study_id).report or "", HTML)


@router.get("/s/{study_id}/forest.svg")
@apart("public")
def forest(visit: Visitor, study_id: str) -> Response:
    return forest_chart(visit, _require_published(visit, study_id))


def forest_chart(visit: Visit, stored: StoredStudy) -> Response:
    """The chart of each feature's effect; Unknown if there is none."""
    chart = results(stored.release or "", visit.plan(stored.id), visit.locale.language)["forest"]
    if chart is None:
        raise Unknown("There is no chart.")
    return picture_response(chart, SVG)


def _frozen(visit: Visit, study_id: str) -> StoredStudy:
    with visit.reading() as session:
        stored = studies.find(session, study_id)
    if stored.state == State.DRAFT:
        raise Unknown("There is no such study.")
    return stored


def _withheld(stored: StoredStudy, plan: Plan) -> bool:
    """Whether beliefs are still withheld, because people are being asked for their own predictions."""
    return stored.state == State.OPEN and plan.study.levels is not None


def _require_public(visit: Visit, study_id: str) -> StoredStudy:
    """A study whose files are public; Unknown if they are not."""
    stored = _frozen(visit, study_id)
    if _withheld(stored, visit.plan(study_id)):
        raise Unknown("The files are there once the study has closed.")
    return stored


def _require_published(visit: Visit, study_id: str) -> StoredStudy:
    stored = _frozen(visit, study_id)
    if stored.state != State.PUBLISHED:
        raise Unknown("Nothing is published.")
    return stored

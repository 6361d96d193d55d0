"""The public pages of a study: what it declared, from the day it is frozen; what it found, once it is published.

A draft and a study that does not exist look the same.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from truthful.plan import Plan
from truthful.promises import promises
from truthful.service.bill import most_paid
from truthful.service.places import PLAN
from truthful.service.results import results
from truthful.service.sending import HTML, JSON, SVG, TOML, download, styled
from truthful.service.web import Language, Running, Service, page
from truthful.store import surveys
from truthful.store.surveys import Unknown
from truthful.store.tables import State, Survey

router = APIRouter()


@router.get("/s/{survey_id}")
def public_page(request: Request, service: Running, texts: Language, survey_id: str) -> Response:
    survey = _frozen(service, survey_id)
    plan = service.places.plan(survey_id)
    values: dict[str, Any] = {
        "survey": survey,
        "plan": plan,
        "place": f"/s/{survey_id}",
        "withheld": _withheld(survey, plan),
    }
    if survey.state != State.PUBLISHED:
        most = most_paid(plan, plan.players, plan.guarantees)
        return page(request, "public/declared.html", **values, promises=promises(plan), most=most)
    found = results(survey.release or "", plan)
    return page(
        request,
        "public/published.html",
        **values,
        found=found,
        coefficients=found.coefficients(texts.locale),
        locale=texts.locale,
    )


@router.get("/s/{survey_id}/study.toml")
def declaration_file(service: Running, survey_id: str) -> Response:
    return download(_told(service, survey_id).declaration or "", TOML, "study.toml")


@router.get("/s/{survey_id}/plan.json")
def plan_file(service: Running, survey_id: str) -> Response:
    """As it will be carried out."""
    _told(service, survey_id)
    return download((service.places.study(survey_id) / PLAN).read_bytes(), JSON, "plan.json")


@router.get("/s/{survey_id}/release.json")
def release_file(service: Running, survey_id: str) -> Response:
    """Byte for byte as it was stored."""
    return download(_published(service, survey_id).release or "", JSON, "release.json")


@router.get("/s/{survey_id}/report")
def report(service: Running, survey_id: str) -> Response:
    return styled(_published(service, survey_id).report or "", HTML)


@router.get("/s/{survey_id}/forest.svg")
def forest(service: Running, survey_id: str) -> Response:
    survey = _published(service, survey_id)
    chart = results(survey.release or "", service.places.plan(survey_id)).forest
    if chart is None:
        raise Unknown("There is no chart.")
    return styled(chart, SVG)


def _frozen(service: Service, survey_id: str) -> Survey:
    with service.database.reading() as session:
        survey = surveys.find(session, survey_id)
    if survey.state == State.DRAFT:
        raise Unknown("There is no such study.")
    return survey


def _withheld(survey: Survey, plan: Plan) -> bool:
    """Whether what is believed is not told yet: people are being asked what they believe."""
    return survey.state == State.OPEN and plan.study.levels is not None


def _told(service: Service, survey_id: str) -> Survey:
    """A study whose files everybody may see."""
    survey = _frozen(service, survey_id)
    if _withheld(survey, service.places.plan(survey_id)):
        raise Unknown("The files are there once the study has closed.")
    return survey


def _published(service: Service, survey_id: str) -> Survey:
    survey = _frozen(service, survey_id)
    if survey.state != State.PUBLISHED:
        raise Unknown("Nothing is published.")
    return survey

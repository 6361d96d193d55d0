"""Freezing: the last look at what will be published and can never change."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import Refused
from truthful.promises import promises
from truthful.service.analyst.shared import Sent, draft, text
from truthful.service.bill import most_paid, pay_range
from truthful.service.computing import kept
from truthful.service.freezing import NOT_PLANNED, akin, freeze
from truthful.service.signing import Analyst
from truthful.service.web import Running, go, page

router = APIRouter()


@router.get("/studies/{survey_id}/freeze")
def freeze_page(request: Request, service: Running, account: Analyst, survey_id: str) -> Response:
    survey = draft(service, survey_id)
    if survey.plan is None:
        raise Refused(NOT_PLANNED)
    plan = kept(survey.plan)
    with service.database.reading() as session:
        before = akin(session, survey_id, plan.study)
    return page(
        request,
        "analyst/freeze.html",
        account=account,
        survey=survey,
        plan=plan,
        promises=promises(plan),
        pay=pay_range(plan),
        before=before,
        most=most_paid(plan, plan.players, plan.guarantees),
    )


@router.post("/studies/{survey_id}/freeze")
def freeze_study(service: Running, account: Analyst, survey_id: str, sent: Sent) -> Response:
    """Open the study to people, or to programs in a rehearsal; one of the two must be chosen."""
    chosen = text(sent, "for")
    if chosen not in ("people", "rehearsal"):
        raise Refused("Choose whether people are asked, or the study is a rehearsal.")
    freeze(service.database, service.places, survey_id, account.name, rehearsal=chosen == "rehearsal")
    return go(f"/studies/{survey_id}")

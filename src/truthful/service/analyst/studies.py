"""All studies, a new one, and the page of each: what its state asks for next."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from truthful.guarantees import Guarantees
from truthful.promises import promises
from truthful.service.analyst.shared import find
from truthful.service.bill import Bases, bases
from truthful.service.computing import needs_roster, plans_from_roster
from truthful.service.drafting import BEGINNING
from truthful.service.places import FilesMissing
from truthful.service.results import results
from truthful.service.signing import Analyst
from truthful.service.web import Language, Running, Service, go, page
from truthful.store import answers, roster, surveys
from truthful.store.tables import Account, State, Survey
from truthful.study import Study

router = APIRouter()
#: Seconds after which a page of something under way shows itself again, without a script.
RENEWED = "4"


@router.get("/studies")
def every_study(request: Request, service: Running, account: Analyst) -> Response:
    return studies_page(request, service, account)


def studies_page(
    request: Request, service: Service, account: Account, problem: str | None = None
) -> Response:
    """The list."""
    with service.database.reading() as session:
        found = surveys.everything(session)
    status = 200 if problem is None else 400
    return page(
        request, "analyst/studies.html", status=status, account=account, surveys=found, problem=problem
    )


@router.post("/studies")
def new_study(service: Running, account: Analyst) -> Response:
    with service.database.writing() as session:
        survey = surveys.create(session, account.name, {"name": "", "fields": BEGINNING})
        return go(f"/studies/{survey.id}/edit/question")


@router.get("/studies/{survey_id}")
def one_study(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str
) -> Response:
    """What is to be done next."""
    survey = find(service, survey_id)
    values: dict[str, Any] = {"account": account, "survey": survey}
    if survey.state == State.DRAFT:
        return draft_page(request, service, account, survey)
    if survey.state == State.OPEN:
        return open_page(request, service, account, survey)
    if survey.state == State.CLOSED:
        return settling_page(request, service, account, survey)
    if survey.state == State.CANCELLED:
        return page(request, "analyst/cancelled.html", **values)
    plan = service.places.plan(survey_id)
    found = results(survey.release or "", plan)
    return page(
        request,
        "analyst/settled.html",
        **values,
        plan=plan,
        found=found,
        coefficients=found.coefficients(texts.locale),
        locale=texts.locale,
        place=f"/studies/{survey_id}",
    )


@router.post("/studies/{survey_id}/remove")
def remove(service: Running, account: Analyst, survey_id: str) -> Response:
    """Throw a draft away."""
    with service.database.writing() as session:
        surveys.remove(session, survey_id, account.name)
    return go("/studies")


def draft_page(
    request: Request, service: Service, account: Account, survey: Survey, *, status: int = 200, **values: Any
) -> Response:
    """A draft: what it says, its people if they are known already, its plan."""
    study = None if survey.declaration is None else Study.parse(survey.declaration)
    with service.database.reading() as session:
        people = roster.size(session, survey.id)
    return page(
        request,
        "analyst/draft.html",
        status=status,
        account=account,
        survey=survey,
        study=study,
        people=people,
        used=study is not None and plans_from_roster(study),
        needed=study is not None and needs_roster(study) and not people,
        **{"problem": None, "bad": None, **values},
    )


def settling_page(request: Request, service: Service, account: Account, survey: Survey) -> Response:
    """A closed study: how far it is; or, if less can be guaranteed than was promised, what is to become of it."""
    values: dict[str, Any] = {"account": account, "survey": survey}
    doing = service.settler.doing(survey.id)
    stopped = survey.problem is not None and doing is None
    if survey.refused is None or survey.accepts_less:
        paid = None
        with suppress(FilesMissing):
            paid = _bases(service, survey) if stopped else None
        shown = page(request, "analyst/settling.html", **values, doing=doing, stopped=stopped, paid=paid)
        shown.headers["Refresh"] = RENEWED
        return shown
    plan, paid = service.places.plan(survey.id), _bases(service, survey)
    found = Guarantees.from_record(survey.refused["found"])
    compared = zip(promises(plan), promises(replace(plan, stated=found, players=paid.people)), strict=True)
    return page(request, "analyst/refused.html", **values, compared=list(compared), paid=paid)


def _bases(service: Service, survey: Survey) -> Bases:
    with service.database.reading() as session:
        return bases(service.places.plan(survey.id), answers.features(session, survey.id))


def open_page(
    request: Request,
    service: Service,
    account: Account,
    survey: Survey,
    *,
    status: int = 200,
    **values: Any,
) -> Response:
    """An open study: counts of people, too coarse to tell who did what."""
    with service.database.reading() as session:
        counts = surveys.progress(session, survey)
    plan = service.places.plan(survey.id)
    return page(
        request,
        "analyst/open.html",
        status=status,
        account=account,
        survey=survey,
        plan=plan,
        counts=counts,
        coarse=surveys.COARSE,
        **{"problem": None, "bad": None, **values},
    )

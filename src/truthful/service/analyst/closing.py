"""The end of a study: closed by typing its name, settled in the background, published."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import Refused
from truthful.service.analyst.shared import Sent, find, text
from truthful.service.once import cancel_survey
from truthful.service.results import results
from truthful.service.sending import HTML, JSON, SVG, download, styled
from truthful.service.signing import Analyst
from truthful.service.web import Running, Service, go, page
from truthful.store import surveys
from truthful.store.log import log
from truthful.store.tables import Account, State, Survey

router = APIRouter()


@router.get("/studies/{survey_id}/close")
def close_page(request: Request, service: Running, account: Analyst, survey_id: str) -> Response:
    with service.database.reading() as session:
        survey = surveys.find(session, survey_id)
    if survey.state != State.OPEN:
        return go(f"/studies/{survey_id}")
    return _page(request, service, account, survey)


def _page(
    request: Request, service: Service, account: Account, survey: Survey, wrong: str | None = None
) -> Response:
    """How many have answered, coarsely, of how many the plan counts on; and what was typed, if it is not the name."""
    with service.database.reading() as session:
        counts = surveys.progress(session, survey)
    return page(
        request,
        "analyst/close.html",
        status=200 if wrong is None else 400,
        account=account,
        survey=survey,
        counts=counts,
        coarse=surveys.COARSE,
        expected=service.places.plan(survey.id).answering,
        wrong=wrong is not None,
        typed=wrong or "",
    )


@router.post("/studies/{survey_id}/close")
def close(request: Request, service: Running, account: Analyst, survey_id: str, sent: Sent) -> Response:
    """End the answering for good. Answers on their way count or are refused; none is half counted.

    Whether it can be closed tells no more than the study's page does.
    """
    typed = text(sent, "name")
    with service.database.reading() as session:
        survey = surveys.find(session, survey_id)
    if survey.state == State.OPEN and typed.split() != survey.name.split():
        return _page(request, service, account, survey, wrong=typed)
    with service.database.writing() as session:
        surveys.step(session, survey_id, State.CLOSED, account.name, accepts_less=False)
        if surveys.counts(session, survey_id)["answered"] < surveys.COARSE:
            raise Refused(
                f"Fewer than {surveys.COARSE} people have answered. A result and payments from so few would tell too "
                "much of each of them. Wait for more."
            )
    service.settler.ask(survey_id)
    return go(f"/studies/{survey_id}")


@router.post("/studies/{survey_id}/settle")
def settle_again(service: Running, account: Analyst, survey_id: str) -> Response:
    """Try again what stopped. What was drawn is not drawn again."""
    if find(service, survey_id).state == State.CLOSED:
        with service.database.writing() as session:
            log(session, account.name, "asked to settle again", survey_id)
        service.settler.ask(survey_id)
    return go(f"/studies/{survey_id}")


@router.post("/studies/{survey_id}/accept")
def accept_less(service: Running, account: Analyst, survey_id: str) -> Response:
    """Settle although less can be guaranteed for those who answered than was promised."""
    with service.database.writing() as session:
        surveys.accept_less(session, survey_id, account.name)
    service.settler.ask(survey_id)
    return go(f"/studies/{survey_id}")


@router.post("/studies/{survey_id}/reopen")
def reopen(service: Running, account: Analyst, survey_id: str) -> Response:
    """Take answers again. That the study was closed is forgotten on the disk first: it may be closed once more."""
    find(service, survey_id)
    with service.places.settling(survey_id):
        service.places.require_undrawn(survey_id)
        with service.database.writing() as session:
            surveys.reopen(session, survey_id, account.name)
            service.places.reopen(survey_id)
    return go(f"/studies/{survey_id}")


@router.post("/studies/{survey_id}/cancel")
def cancel(service: Running, account: Analyst, survey_id: str) -> Response:
    """End it without a result; everybody who answered is paid her base payment."""
    survey = find(service, survey_id)
    if survey.state == State.CLOSED and (survey.refused or survey.problem):
        cancel_survey(service.database, service.places, survey_id, account.name)
    return go(f"/studies/{survey_id}")


@router.post("/studies/{survey_id}/publish")
def publish(service: Running, account: Analyst, survey_id: str) -> Response:
    with service.database.writing() as session:
        surveys.step(session, survey_id, State.PUBLISHED, account.name)
    return go(f"/studies/{survey_id}")


@router.get("/studies/{survey_id}/report")
def report(service: Running, account: Analyst, survey_id: str) -> Response:
    return styled(settled(service, survey_id).report or "", HTML)


@router.get("/studies/{survey_id}/release.json")
def release(service: Running, account: Analyst, survey_id: str) -> Response:
    return download(settled(service, survey_id).release or "", JSON, "release.json")


@router.get("/studies/{survey_id}/forest.svg")
def forest(service: Running, account: Analyst, survey_id: str) -> Response:
    survey = settled(service, survey_id)
    return styled(results(survey.release or "", service.places.plan(survey_id)).forest or b"", SVG)


def settled(service: Service, survey_id: str) -> Survey:
    """A study that has a release, or nothing at all."""
    survey = find(service, survey_id)
    if survey.state not in (State.SETTLED, State.PUBLISHED):
        raise surveys.Unknown("There is no release.")
    return survey

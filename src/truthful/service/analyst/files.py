"""A study as a file: uploaded, looked at, changed as text, downloaded."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError
from truthful.service.analyst.shared import Sent, declare, find, uploaded
from truthful.service.analyst.studies import studies_page
from truthful.service.drafting import parse
from truthful.service.sending import JSON, TOML, download
from truthful.service.signing import Analyst
from truthful.service.web import Running, go, page
from truthful.store import surveys
from truthful.study import Study

router = APIRouter()


@router.post("/studies/upload")
def upload_study(request: Request, service: Running, account: Analyst, sent: Sent) -> Response:
    """A new draft from a study file, which is kept as it is."""
    try:
        text, study = study_file(sent)
    except InputError as problem:
        return studies_page(request, service, account, str(problem))
    with service.database.writing() as session:
        survey = surveys.create(session, account.name, {"name": study.name})
        survey.declaration = text
        return go(f"/studies/{survey.id}")


def study_file(sent: FormData) -> tuple[str, Study]:
    """The text of an uploaded study file, and the study in it."""
    file = uploaded(sent, "file")
    if file is None:
        raise InputError("No file was chosen. Choose a study.toml first.")
    try:
        text = file.file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("The file is not UTF-8 text. Save it as plain text in UTF-8.") from None
    return checked(text)


def checked(text: str) -> tuple[str, Study]:
    """The text of a study file, and the study in it."""
    text = text.replace("\r\n", "\n")
    return text, parse(text)


@router.get("/studies/{survey_id}/study.toml")
def declaration_file(service: Running, account: Analyst, survey_id: str) -> Response:
    return download(find(service, survey_id).declaration or "", TOML, "study.toml")


@router.get("/studies/{survey_id}/plan.json")
def plan_file(service: Running, account: Analyst, survey_id: str) -> Response:
    return download(find(service, survey_id).plan or "", JSON, "plan.json")


@router.get("/studies/{survey_id}/file")
def file_page(request: Request, service: Running, account: Analyst, survey_id: str) -> Response:
    """The study as the file it is."""
    return page(
        request,
        "analyst/file.html",
        account=account,
        survey=find(service, survey_id),
        typed=None,
        problem=None,
    )


@router.post("/studies/{survey_id}/file")
def change_file(request: Request, service: Running, account: Analyst, survey_id: str, sent: Sent) -> Response:
    """Change the study by its file: uploaded, or typed."""
    typed = str(sent.get("text", "")).replace("\0", "")
    try:
        text, study = study_file(sent) if uploaded(sent, "file") else checked(typed)
    except InputError as problem:
        survey = find(service, survey_id)
        values = {"survey": survey, "typed": typed, "problem": str(problem)}
        return page(request, "analyst/file.html", status=400, account=account, **values)
    declare(service, survey_id, account.name, text, name=study.name, draft={"name": study.name})
    return go(f"/studies/{survey_id}")

"""Collecting: who is asked, with verified features; personal links; and those who say that theirs are wrong."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.intake.records import BadReports
from truthful.service.analyst.shared import Sent, declaration, features_declared, find, text, uploaded
from truthful.service.analyst.studies import draft_page, open_page
from truthful.service.rosters import People, read_roster, require_common_levels, roster_columns, table
from truthful.service.sending import CSV, download
from truthful.service.signing import Analyst
from truthful.service.web import Running, Service, go
from truthful.store import roster
from truthful.store.surveys import NotNow
from truthful.store.tables import State, Survey
from truthful.study import Study
from truthful.study.declaration import PLAYER

router = APIRouter()


@router.get("/studies/{survey_id}/roster.csv")
def roster_template(service: Running, account: Analyst, survey_id: str) -> Response:
    """The header of a roster, to be filled in."""
    study = _study(service, find(service, survey_id))
    return download(table(roster_columns(study), []), CSV, "roster.csv")


@router.post("/studies/{survey_id}/roster")
def bring_roster(
    request: Request, service: Running, account: Analyst, survey_id: str, sent: Sent
) -> Response:
    """Put people on the roster of an open study, or give a draft its people: all of the file, or none of it."""
    survey, file = find(service, survey_id), uploaded(sent, "file")
    if survey.state not in (State.DRAFT, State.OPEN):
        raise NotNow(f"The study is {survey.state}; people can be brought only while it is open.")
    shown = draft_page if survey.state == State.DRAFT else open_page
    try:
        if file is None:
            raise InputError("No file was chosen. Choose a CSV file first.")
        _bring(service, survey, account.name, file)
    except BadReports as bad:
        return shown(request, service, account, survey, status=400, bad=bad)
    except (InputError, Refused) as problem:
        return shown(request, service, account, survey, status=400, problem=str(problem))
    return go(f"/studies/{survey_id}")


def _bring(service: Service, survey: Survey, who: str, file: UploadFile) -> None:
    """Those of a draft replace any before, those of an open study are added, up to as many as the plan is for."""
    study = _study(service, survey)
    people = _read(study, file)
    if survey.state == State.DRAFT:
        require_common_levels(study, people.values())
    with service.database.writing() as session:
        if survey.state == State.DRAFT:
            roster.replace(session, survey.id, who, people, features_declared(study))
        else:
            roster.add(session, survey.id, who, people, service.places.plan(survey.id).players)


def _study(service: Service, survey: Survey) -> Study:
    return (
        Study.parse(declaration(survey))
        if survey.state == State.DRAFT
        else service.places.plan(survey.id).study
    )


def _read(study: Study, file: UploadFile) -> People:
    """Intake reads files by their name's end."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "roster.csv"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        return read_roster(study, path)


@router.post("/studies/{survey_id}/links")
def make_links(service: Running, account: Analyst, survey_id: str, sent: Sent) -> Response:
    """Personal links, to be kept at once: they can never be read again."""
    again = text(sent, "which") == "all"
    with service.database.writing() as session:
        made = roster.invite(session, survey_id, account.name, again=again)
    if not made:
        raise Refused("Everybody on the roster has a link already. If links were lost, replace all of them.")
    rows = ((player, f"{service.settings.origin}/a/{token}") for player, token in made)
    return download(table((PLAYER, "link"), rows), CSV, "links.csv")


@router.get("/studies/{survey_id}/disputes.csv")
def disputes(service: Running, account: Analyst, survey_id: str) -> Response:
    """Who says that her features are wrong: ids alone."""
    find(service, survey_id)
    with service.database.reading() as session:
        rows = [(player,) for player in roster.disputes(session, survey_id)]
    return download(table((PLAYER,), rows), CSV, "disputes.csv")

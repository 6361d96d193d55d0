"""Freezing: the last look at what will be published and can never change."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.intake.rules import BadReports
from truthful.promises import promises
from truthful.service.analyst.study_pages import (
    Sent,
    declaration,
    draft,
    draft_page,
    features_declared,
    find,
    open_page,
    text,
    uploaded,
)
from truthful.service.jobs import kept
from truthful.service.offer import most_paid, pay_range
from truthful.service.pages import CSV, HTML, JSON, SVG, Running, Service, download, go, page, styled
from truthful.service.public import results
from truthful.service.roster_file import People, read_roster, require_common_levels, roster_columns, table
from truthful.service.settle_study import NOT_PLANNED, akin, cancel_study, freeze
from truthful.service.signing import Analyst
from truthful.store import roster, studies
from truthful.store.studies import NotNow, log
from truthful.store.tables import Account, State, StoredStudy
from truthful.study import Study
from truthful.study.declaration import PLAYER

router = APIRouter()


@router.get("/studies/{study_id}/freeze")
def freeze_page(request: Request, service: Running, account: Analyst, study_id: str) -> Response:
    stored = draft(service, study_id)
    if stored.plan is None:
        raise Refused(NOT_PLANNED)
    plan = kept(stored.plan)
    with service.database.reading() as session:
        before = akin(session, study_id, plan.study)
    return page(
        request,
        "analyst/freeze.html",
        account=account,
        stored=stored,
        plan=plan,
        promises=promises(plan),
        pay=pay_range(plan),
        before=before,
        most=most_paid(plan, plan.players, plan.guarantees),
    )


@router.post("/studies/{study_id}/freeze")
def freeze_study(service: Running, account: Analyst, study_id: str, sent: Sent) -> Response:
    """Open the study to people, or to programs in a rehearsal; one of the two must be chosen."""
    chosen = text(sent, "for")
    if chosen not in ("people", "rehearsal"):
        raise Refused("Choose whether people are asked, or the study is a rehearsal.")
    freeze(service.database, service.locations, study_id, account.name, rehearsal=chosen == "rehearsal")
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/roster.csv")
def roster_template(service: Running, account: Analyst, study_id: str) -> Response:
    """The header of a roster, to be filled in."""
    study = _study(service, find(service, study_id))
    return download(table(roster_columns(study), []), CSV, "roster.csv")


@router.post("/studies/{study_id}/roster")
def bring_roster(request: Request, service: Running, account: Analyst, study_id: str, sent: Sent) -> Response:
    """Put people on the roster of an open study, or give a draft its people: all of the file, or none of it."""
    stored, file = find(service, study_id), uploaded(sent, "file")
    if stored.state not in (State.DRAFT, State.OPEN):
        raise NotNow(f"The study is {stored.state}; people can be brought only while it is open.")
    shown = draft_page if stored.state == State.DRAFT else open_page
    try:
        if file is None:
            raise InputError("No file was chosen. Choose a CSV file first.")
        _bring(service, stored, account.name, file)
    except BadReports as bad:
        return shown(request, service, account, stored, status=400, bad=bad)
    except (InputError, Refused) as problem:
        return shown(request, service, account, stored, status=400, problem=str(problem))
    return go(f"/studies/{study_id}")


def _bring(service: Service, stored: StoredStudy, who: str, file: UploadFile) -> None:
    """Those of a draft replace any before, those of an open study are added, up to as many as the plan is for."""
    study = _study(service, stored)
    people = _read(study, file)
    if stored.state == State.DRAFT:
        require_common_levels(study, people.values())
    with service.database.writing() as session:
        if stored.state == State.DRAFT:
            roster.replace(session, stored.id, who, people, features_declared(study))
        else:
            roster.add(session, stored.id, who, people, service.locations.plan(stored.id).players)


def _study(service: Service, stored: StoredStudy) -> Study:
    return (
        Study.parse(declaration(stored))
        if stored.state == State.DRAFT
        else service.locations.plan(stored.id).study
    )


def _read(study: Study, file: UploadFile) -> People:
    """Intake reads files by their name's end."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "roster.csv"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        return read_roster(study, path)


@router.post("/studies/{study_id}/links")
def make_links(service: Running, account: Analyst, study_id: str, sent: Sent) -> Response:
    """Personal links, to be kept at once: they can never be read again."""
    again = text(sent, "which") == "all"
    with service.database.writing() as session:
        made = roster.invite(session, study_id, account.name, again=again)
    if not made:
        raise Refused("Everybody on the roster has a link already. If links were lost, replace all of them.")
    rows = ((player, f"{service.settings.origin}/a/{token}") for player, token in made)
    return download(table((PLAYER, "link"), rows), CSV, "links.csv")


@router.get("/studies/{study_id}/disputes.csv")
def disputes(service: Running, account: Analyst, study_id: str) -> Response:
    """Who says that her features are wrong: ids alone."""
    find(service, study_id)
    with service.database.reading() as session:
        rows = [(player,) for player in roster.disputes(session, study_id)]
    return download(table((PLAYER,), rows), CSV, "disputes.csv")


@router.get("/studies/{study_id}/close")
def close_page(request: Request, service: Running, account: Analyst, study_id: str) -> Response:
    with service.database.reading() as session:
        stored = studies.find(session, study_id)
    if stored.state != State.OPEN:
        return go(f"/studies/{study_id}")
    return _page(request, service, account, stored)


def _page(
    request: Request, service: Service, account: Account, stored: StoredStudy, wrong: str | None = None
) -> Response:
    """How many have answered, coarsely, of how many the plan counts on; and what was typed, if it is not the name."""
    with service.database.reading() as session:
        counts = studies.progress(session, stored)
    return page(
        request,
        "analyst/close.html",
        status=200 if wrong is None else 400,
        account=account,
        stored=stored,
        counts=counts,
        coarse=studies.COARSE,
        expected=service.locations.plan(stored.id).answering,
        wrong=wrong is not None,
        typed=wrong or "",
    )


@router.post("/studies/{study_id}/close")
def close(request: Request, service: Running, account: Analyst, study_id: str, sent: Sent) -> Response:
    """End the answering for good. Answers on their way count or are refused; none is half counted.

    Whether it can be closed tells no more than the study's page does.
    """
    typed = text(sent, "name")
    with service.database.reading() as session:
        stored = studies.find(session, study_id)
    if stored.state == State.OPEN and typed.split() != stored.name.split():
        return _page(request, service, account, stored, wrong=typed)
    with service.database.writing() as session:
        studies.step(session, study_id, State.CLOSED, account.name, accepts_less=False)
        if studies.counts(session, study_id)["answered"] < studies.COARSE:
            raise Refused(
                f"Fewer than {studies.COARSE} people have answered. A result and payments from so few would tell too "
                "much of each of them. Wait for more."
            )
    service.settler.ask(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/settle")
def settle_again(service: Running, account: Analyst, study_id: str) -> Response:
    """Try again what stopped. What was drawn is not drawn again."""
    if find(service, study_id).state == State.CLOSED:
        with service.database.writing() as session:
            log(session, account.name, "asked to settle again", study_id)
        service.settler.ask(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/accept")
def accept_less(service: Running, account: Analyst, study_id: str) -> Response:
    """Settle although less can be guaranteed for those who answered than was promised."""
    with service.database.writing() as session:
        studies.accept_less(session, study_id, account.name)
    service.settler.ask(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/reopen")
def reopen(service: Running, account: Analyst, study_id: str) -> Response:
    """Take answers again. That the study was closed is forgotten on the disk first: it may be closed once more."""
    find(service, study_id)
    with service.locations.settling(study_id):
        service.locations.require_undrawn(study_id)
        with service.database.writing() as session:
            studies.reopen(session, study_id, account.name)
            service.locations.reopen(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/cancel")
def cancel(service: Running, account: Analyst, study_id: str) -> Response:
    """End it without a result; everybody who answered is paid her base payment."""
    stored = find(service, study_id)
    if stored.state == State.CLOSED and (stored.refused or stored.problem):
        cancel_study(service.database, service.locations, study_id, account.name)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/publish")
def publish(service: Running, account: Analyst, study_id: str) -> Response:
    with service.database.writing() as session:
        studies.step(session, study_id, State.PUBLISHED, account.name)
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/report")
def report(service: Running, account: Analyst, study_id: str) -> Response:
    return styled(settled(service, study_id).report or "", HTML)


@router.get("/studies/{study_id}/release.json")
def release(service: Running, account: Analyst, study_id: str) -> Response:
    return download(settled(service, study_id).release or "", JSON, "release.json")


@router.get("/studies/{study_id}/forest.svg")
def forest(service: Running, account: Analyst, study_id: str) -> Response:
    stored = settled(service, study_id)
    return styled(results(stored.release or "", service.locations.plan(study_id)).forest or b"", SVG)


def settled(service: Service, study_id: str) -> StoredStudy:
    """A study that has a release, or nothing at all."""
    stored = find(service, study_id)
    if stored.state not in (State.SETTLED, State.PUBLISHED):
        raise studies.Unknown("There is no release.")
    return stored

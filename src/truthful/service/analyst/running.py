"""A study under way: frozen, its people brought and invited, closed, settled in the background, published."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.intake.rules import BadReports
from truthful.promises import promises
from truthful.service.analyst.study_pages import (
    Draft,
    Found,
    Sent,
    declaration_of,
    draft_page,
    features_declared,
    open_page,
    text,
    uploaded_file,
)
from truthful.service.jobs import parse_plan, parse_study
from truthful.service.offer import most_paid, pay_range
from truthful.service.pages import CSV, HTML, JSON, download, go, picture_response
from truthful.service.public import forest_chart
from truthful.service.roster_file import People, read_roster, require_common_levels, roster_columns, table
from truthful.service.settle_study import NOT_PLANNED, cancel_study, freeze, similar_studies
from truthful.service.signing import Analyst, SignedIn
from truthful.store import roster, studies
from truthful.store.studies import NotNow, log
from truthful.store.tables import State, StoredStudy
from truthful.study import Study
from truthful.study.declaration import PLAYER

router = APIRouter()


@router.get("/studies/{study_id}/freeze")
def freeze_page(visit: Analyst, stored: Draft) -> Response:
    """The last look at what will be published and can never change."""
    if stored.plan is None:
        raise Refused(NOT_PLANNED)
    plan = parse_plan(stored.plan)
    with visit.reading() as session:
        before = similar_studies(session, stored.id, plan.study)
    return visit.page(
        "analyst/freeze.html",
        stored=stored,
        plan=plan,
        promises=promises(plan),
        pay=pay_range(plan),
        before=before,
        most=most_paid(plan, plan.players, plan.guarantees),
    )


@router.post("/studies/{study_id}/freeze")
def freeze_study(visit: Analyst, study_id: str, sent: Sent) -> Response:
    """Open the study to people, or to programs in a rehearsal; one of the two must be chosen."""
    chosen, service = text(sent, "for"), visit.service
    if chosen not in ("people", "rehearsal"):
        raise Refused("Choose whether people are asked, or the study is a rehearsal.")
    freeze(service.database, service.locations, study_id, visit.who, rehearsal=chosen == "rehearsal")
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/roster.csv")
def roster_template(visit: Analyst, stored: Found) -> Response:
    """The header of a roster, to be filled in."""
    return download(table(roster_columns(_study(visit, stored)), []), CSV, "roster.csv")


@router.post("/studies/{study_id}/roster")
def bring_roster(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Put people on the roster of an open study, or give a draft its people: all of the file, or none of it."""
    if stored.state not in (State.DRAFT, State.OPEN):
        raise NotNow(f"The study is {stored.state}; people can be brought only while it is open.")
    shown = draft_page if stored.state == State.DRAFT else open_page
    try:
        _bring(visit, stored, uploaded_file(sent, "file"))
    except BadReports as bad:
        return shown(visit, stored, status=400, bad=bad)
    except (InputError, Refused) as problem:
        return shown(visit, stored, status=400, problem=str(problem))
    return go(f"/studies/{stored.id}")


def _bring(visit: SignedIn, stored: StoredStudy, file: UploadFile | None) -> None:
    """Those of a draft replace any before, those of an open study are added, up to as many as the plan is for."""
    if file is None:
        raise InputError("No file was chosen. Choose a CSV file first.")
    study = _study(visit, stored)
    people = _read(study, file)
    if stored.state == State.DRAFT:
        require_common_levels(study, people.values())
        with visit.writing() as session:
            roster.replace(session, stored.id, visit.who, people, features_declared(study))
    else:
        with visit.writing() as session:
            roster.add(session, stored.id, visit.who, people, visit.service.locations.plan(stored.id).players)


def _study(visit: SignedIn, stored: StoredStudy) -> Study:
    if stored.state == State.DRAFT:
        return parse_study(declaration_of(stored))
    return visit.service.locations.plan(stored.id).study


def _read(study: Study, file: UploadFile) -> People:
    """Intake reads files by their name's end."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "roster.csv"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        return read_roster(study, path)


@router.post("/studies/{study_id}/links")
def make_links(visit: Analyst, study_id: str, sent: Sent) -> Response:
    """Personal links, to be kept at once: they can never be read again."""
    with visit.writing() as session:
        made = roster.invite(session, study_id, visit.who, again=text(sent, "which") == "all")
    if not made:
        raise Refused("Everybody on the roster has a link already. If links were lost, replace all of them.")
    rows = ((player, f"{visit.service.settings.origin}/a/{token}") for player, token in made)
    return download(table((PLAYER, "link"), rows), CSV, "links.csv")


@router.get("/studies/{study_id}/disputes.csv")
def disputes(visit: Analyst, stored: Found) -> Response:
    """Who says that her features are wrong: ids alone."""
    with visit.reading() as session:
        rows = [(player,) for player in roster.disputes(session, stored.id)]
    return download(table((PLAYER,), rows), CSV, "disputes.csv")


@router.get("/studies/{study_id}/close")
def close_page(visit: Analyst, stored: Found) -> Response:
    return _close_page(visit, stored) if stored.state == State.OPEN else go(f"/studies/{stored.id}")


def _close_page(visit: SignedIn, stored: StoredStudy, wrong: str | None = None) -> Response:
    """How many have answered, coarsely, of how many the plan counts on; and what was typed, if it is not the name."""
    with visit.reading() as session:
        counts = studies.progress(session, stored)
    return visit.page(
        "analyst/close.html",
        status=200 if wrong is None else 400,
        stored=stored,
        counts=counts,
        coarse=studies.COARSE,
        expected=visit.service.locations.plan(stored.id).answering,
        wrong=wrong is not None,
        typed=wrong or "",
    )


@router.post("/studies/{study_id}/close")
def close(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """End the answering for good. Answers on their way count or are refused; none is half counted.

    Whether it can be closed tells no more than the study's page does.
    """
    typed = text(sent, "name")
    if stored.state == State.OPEN and typed.split() != stored.name.split():
        return _close_page(visit, stored, wrong=typed)
    with visit.writing() as session:
        studies.step(session, stored.id, State.CLOSED, visit.who, accepts_less=False)
        if studies.counts(session, stored.id)["answered"] < studies.COARSE:
            raise Refused(
                f"Fewer than {studies.COARSE} people have answered. A result and payments from so few would tell too "
                "much of each of them. Wait for more."
            )
    return _settle(visit, stored.id)


def _settle(visit: SignedIn, study_id: str) -> Response:
    """In the background; her page says how far it is."""
    visit.service.settler.ask(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/settle")
def settle_again(visit: Analyst, stored: Found) -> Response:
    """Try again what stopped. What was drawn is not drawn again."""
    if stored.state != State.CLOSED:
        return go(f"/studies/{stored.id}")
    with visit.writing() as session:
        log(session, visit.who, "asked to settle again", stored.id)
    return _settle(visit, stored.id)


@router.post("/studies/{study_id}/accept")
def accept_less(visit: Analyst, study_id: str) -> Response:
    """Settle although less can be guaranteed for those who answered than was promised."""
    with visit.writing() as session:
        studies.accept_less(session, study_id, visit.who)
    return _settle(visit, study_id)


@router.post("/studies/{study_id}/reopen")
def reopen(visit: Analyst, stored: Found) -> Response:
    """Take answers again. That the study was closed is forgotten on the disk first: it may be closed once more."""
    locations = visit.service.locations
    with locations.settling(stored.id):
        locations.require_undrawn(stored.id)
        with visit.writing() as session:
            studies.reopen(session, stored.id, visit.who)
            locations.reopen(stored.id)
    return go(f"/studies/{stored.id}")


@router.post("/studies/{study_id}/cancel")
def cancel(visit: Analyst, stored: Found) -> Response:
    """End it without a result; everybody who answered is paid her base payment."""
    if stored.state == State.CLOSED and (stored.refused or stored.problem):
        cancel_study(visit.service.database, visit.service.locations, stored.id, visit.who)
    return go(f"/studies/{stored.id}")


@router.post("/studies/{study_id}/publish")
def publish(visit: Analyst, study_id: str) -> Response:
    with visit.writing() as session:
        studies.step(session, study_id, State.PUBLISHED, visit.who)
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/report")
def report(visit: Analyst, stored: Found) -> Response:
    return picture_response(_require_settled(stored).report or "", HTML)


@router.get("/studies/{study_id}/release.json")
def release(visit: Analyst, stored: Found) -> Response:
    return download(_require_settled(stored).release or "", JSON, "release.json")


@router.get("/studies/{study_id}/forest.svg")
def forest(visit: Analyst, stored: Found) -> Response:
    return forest_chart(_require_settled(stored), visit.service.locations.plan(stored.id))


def _require_settled(stored: StoredStudy) -> StoredStudy:
    """A study that has a release, or nothing at all."""
    if stored.state not in (State.SETTLED, State.PUBLISHED):
        raise studies.Unknown("There is no release.")
    return stored

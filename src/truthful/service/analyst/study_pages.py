"""The list of studies, and each study's page, which shows the next step of its state, from draft to publication.

A study is frozen, its people are brought and invited, it is closed, settled in the background, and published. The parts
that all pages of analysts share stand first.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.guarantees import Guarantees
from truthful.intake.rules import BadReports
from truthful.promises import promises
from truthful.service.drafts import BEGINNING, Fields, fields_of, unfinished
from truthful.service.jobs import DraftRoster, apart, needs_roster, parse_plan, parse_study, plans_from_roster
from truthful.service.locations import FilesMissing
from truthful.service.offer import bases, terms
from truthful.service.pages import HTML, csv_text, download, go, picture_response
from truthful.service.public import forest_chart, shown_results
from truthful.service.purging import today
from truthful.service.settle_study import (
    NOT_PLANNED,
    PLACES,
    Unready,
    cancel_study,
    freeze,
    obstacles,
    require_early_deadline,
    similar_studies,
)
from truthful.service.signing import Analyst, SignedIn
from truthful.store import accounts, answers, mails, roster, studies
from truthful.store.audit_log import events, log
from truthful.store.mails import EMAIL
from truthful.store.studies import NotNow
from truthful.store.tables import State, StoredStudy
from truthful.study import Study
from truthful.study.declaration import PLAYER

router = APIRouter()
LONGEST = 5_000
#: The seconds after which a page that shows progress refreshes itself, without a script.
RENEWED = "4"


def require_access(visit: Analyst) -> None:
    """Refuse analysts without access to the study: they see only their own studies and those shared with them."""
    study_id = visit.request.path_params.get("study_id")
    if study_id is not None:
        with visit.reading() as session:
            if not accounts.may_see(session, visit.account, study_id):
                raise studies.Unknown("There is no such study.")


async def _form(visit: Analyst) -> AsyncIterator[FormData]:
    """The submitted form, read only after the analyst's access was checked."""
    async with visit.request.form(max_files=1, max_fields=400) as sent:
        yield sent


def find(visit: Analyst, study_id: str) -> StoredStudy:
    with visit.reading() as session:
        return studies.find(session, study_id)


def find_draft(visit: Analyst, study_id: str) -> StoredStudy:
    """A study that is still a draft, for reading."""
    return studies.require_draft(find(visit, study_id))


def find_settled(visit: Analyst, study_id: str) -> StoredStudy:
    """A study that has a release; Unknown if it has none."""
    stored = find(visit, study_id)
    if stored.state not in (State.SETTLED, State.PUBLISHED):
        raise studies.Unknown("There is no release.")
    return stored


#: For the arguments of a page's function: the submitted form, and the study in the path.
Sent = Annotated[FormData, Depends(_form)]
Found = Annotated[StoredStudy, Depends(find)]
Draft = Annotated[StoredStudy, Depends(find_draft)]
Settled = Annotated[StoredStudy, Depends(find_settled)]


def text(sent: FormData, name: str) -> str:
    """A text field without NUL characters, with Unix line ends, trimmed and cut to `LONGEST`."""
    value = sent.get(name, "")
    words = value if isinstance(value, str) else ""
    return words.replace("\0", "").replace("\r\n", "\n").strip()[:LONGEST]


def uploaded_file(sent: FormData, name: str) -> UploadFile | None:
    """The uploaded file, or None if no file was chosen."""
    value = sent.get(name)
    return value if isinstance(value, UploadFile) and value.filename else None


#: The audit log's words for a roster removed because the study's features were changed.
REMOVED = "removed people whose facts are no longer those asked for"


def declare(
    visit: SignedIn,
    study_id: str,
    declaration: str | None,
    draft: dict[str, Any],
    also: Callable[[Session], object] = lambda session: None,
) -> None:
    """Store a draft's declaration, together with what follows from it, in one transaction.

    Its plan is removed unless the study is the same as before, and its roster if that no longer fits the features.
    """
    study = None if declaration is None else parse_study(declaration)
    with visit.writing() as session:
        stored = studies.lock_draft(session, study_id)
        if study is None or stored.declaration is None or parse_study(stored.declaration) != study:
            stored.plan = None
        also(session)
        if stored.roster is not None and study is not None and not roster.fits(session, stored, study):
            roster.clear(session, stored)
            log(session, visit.who, REMOVED, study_id)
        stored.name, stored.declaration, stored.draft = str(draft["name"]), declaration, draft
        log(session, visit.who, "changed the study", study_id)


def list_people(visit: SignedIn, stored: StoredStudy) -> DraftRoster | None:
    """The people brought to a draft; None if there are none."""
    if stored.roster is None:
        return None

    def features() -> list[roster.Features]:
        with visit.reading() as session:
            return roster.features(session, stored.id)

    return DraftRoster(stored.roster, features)


def typed_fields(stored: StoredStudy) -> Fields | None:
    """A draft's form fields, as typed or derived from its file; None if the forms cannot express the file."""
    fields = stored.draft.get("fields")
    if isinstance(fields, dict):
        return fields
    return None if stored.declaration is None else fields_of(parse_study(stored.declaration))


def declaration_of(stored: StoredStudy) -> str:
    """A draft's declaration; Unready if it is incomplete."""
    if stored.declaration is None:
        sentence = "The study is not complete yet. Fill in all its steps first."
        raise Unready(sentence, stored.id, "declare")
    return stored.declaration


def plan_of(stored: StoredStudy) -> str:
    if stored.plan is None:
        raise Unready(NOT_PLANNED, stored.id, "plan")
    return stored.plan


@router.get("/studies")
def every_study(visit: Analyst) -> Response:
    return studies_page(visit)


def studies_page(visit: SignedIn, problem: str | None = None) -> Response:
    with visit.reading() as session:
        found = studies.list_studies(session, visit.account)
    status = 200 if problem is None else 400
    return visit.page("analyst/studies.html", status=status, studies=found, problem=problem)


@router.post("/studies")
def new_study(visit: Analyst) -> Response:
    with visit.writing() as session:
        stored = studies.create(session, visit.who, {"name": "", "fields": BEGINNING}, visit.account)
        return go(f"/studies/{stored.id}/edit/question")


@router.get("/studies/{study_id}")
@apart("public")
def one_study(visit: Analyst, stored: Found) -> Response:
    """The page of a study, by its state."""
    if stored.state == State.DRAFT:
        return draft_page(visit, stored)
    if stored.state == State.OPEN:
        return open_page(visit, stored)
    if stored.state == State.CLOSED:
        return settling_page(visit, stored)
    plan = visit.plan(stored.id)
    if stored.state == State.CANCELLED:
        return visit.page(
            "analyst/cancelled.html", stored=stored, plan=plan, **_erasure_status(visit, stored)
        )
    shown = shown_results(stored, plan, visit.locale) | _erasure_status(visit, stored)
    return visit.page(
        "analyst/settled.html", stored=stored, plan=plan, place=f"/studies/{stored.id}", **shown
    )


def _erasure_status(visit: SignedIn, stored: StoredStudy) -> dict[str, Any]:
    """The day of erasure, and whether it has passed while payments are still unsent."""
    invitation = visit.plan(stored.id).study.declared.invitation
    until = None if invitation is None else invitation.delete_after
    over = until is not None and stored.erased is None and until < today()
    with visit.reading() as session:
        waits = over and studies.count_unsent(session, stored.id) > 0
    return {"kept_until": until, "waits": waits}


@router.post("/studies/{study_id}/remove")
def remove(visit: Analyst, study_id: str) -> Response:
    with visit.writing() as session:
        studies.remove(session, study_id, visit.who)
    return go("/studies")


def draft_page(visit: SignedIn, stored: StoredStudy, *, status: int = 200, **values: Any) -> Response:
    """A draft: its declaration, its people if already brought, its plan."""
    study = None if stored.declaration is None else parse_study(stored.declaration)
    with visit.reading() as session:
        people = roster.size(session, stored.id)
        latest = [event.what for event in events(session, stored.id, most=2)]
    return visit.page(
        "analyst/draft.html",
        status=status,
        stored=stored,
        study=study,
        people=people,
        gone=REMOVED in latest and not people,
        open_steps=[] if study is not None else unfinished(typed_fields(stored) or BEGINNING),
        mails_sent=visit.service.mailer is not None,
        used=study is not None and plans_from_roster(study),
        needed=study is not None and needs_roster(study) and not people,
        **{"problem": None, "bad": None, **values},
    )


def open_page(visit: SignedIn, stored: StoredStudy, *, status: int = 200, **values: Any) -> Response:
    """An open study, with counts too coarse to reveal single answers."""
    with visit.reading() as session:
        counts = studies.progress(session, stored)
    return visit.page(
        "analyst/open.html",
        status=status,
        stored=stored,
        plan=visit.plan(stored.id),
        counts=counts,
        coarse=studies.COARSE,
        mails_sent=visit.service.mailer is not None,
        over=stored.deadline is not None and stored.deadline <= datetime.now(UTC),
        **{"problem": None, "bad": None, "wrong": "", "typed": "", **values},
    )


def settling_page(visit: SignedIn, stored: StoredStudy) -> Response:
    """A closed study: its progress, or the analyst's decision if guarantees are weaker than promised."""
    doing = visit.service.settler.progress_of(stored.id)
    stopped = stored.problem is not None and doing is None
    if stored.refused is None or stored.accepts_less:
        paid = None
        with suppress(FilesMissing):
            paid = _bases(visit, stored) if stopped else None
        shown = visit.page("analyst/settling.html", stored=stored, doing=doing, stopped=stopped, paid=paid)
        shown.headers["Refresh"] = RENEWED
        return shown
    plan, paid = visit.plan(stored.id), _bases(visit, stored)
    found = Guarantees.from_record(stored.refused["found"])
    compared = zip(promises(plan), promises(replace(plan, stated=found, players=paid["people"])), strict=True)
    return visit.page("analyst/refused.html", stored=stored, compared=list(compared), paid=paid)


def _bases(visit: SignedIn, stored: StoredStudy) -> dict[str, Any]:
    with visit.reading() as session:
        return bases(visit.plan(stored.id), answers.features(session, stored.id))


@router.get("/studies/{study_id}/freeze")
def freeze_page(visit: Analyst, stored: Draft) -> Response:
    return _freeze_page(visit, stored)


def _freeze_page(
    visit: SignedIn, stored: StoredStudy, wrong: str = "", typed: str = "", chosen: str = ""
) -> Response:
    """The last review before freezing, with the error of a typed deadline and what was chosen beside it."""
    plan = parse_plan(plan_of(stored))
    with visit.reading() as session:
        before = similar_studies(session, stored.id, plan.study)
        brought, document = roster.size(session, stored.id), studies.document(session, stored.id)
        hers = {study.id for study in studies.list_studies(session, visit.account)}
        payers = accounts.payers(session)
    return visit.page(
        "analyst/freeze.html",
        status=400 if wrong else 200,
        wrong=wrong,
        typed=typed,
        chosen=chosen,
        stored=stored,
        plan=plan,
        before=before,
        obstacles=list(obstacles(plan, brought, document, payers)),
        places=PLACES,
        hers=hers,
        **terms(plan),
    )


@router.post("/studies/{study_id}/freeze")
def freeze_study(visit: Analyst, stored: Draft, sent: Sent) -> Response:
    """Freeze and open a study, for people or as a rehearsal; one of the two must be chosen."""
    chosen, service = text(sent, "for"), visit.service
    if chosen not in ("people", "rehearsal"):
        raise Refused("Choose whether people are asked, or the study is a rehearsal.")
    try:
        freeze(
            service.database,
            service.locations,
            stored.id,
            visit.who,
            rehearsal=chosen == "rehearsal",
            deadline=read_time(text(sent, "until")),
        )
    except InputError as problem:
        return _freeze_page(visit, stored, str(problem), text(sent, "until"), chosen)
    return go(f"/studies/{stored.id}")


@router.get("/studies/{study_id}/roster.csv")
def roster_template(visit: Analyst, stored: Found) -> Response:
    """An empty roster with its header, to be filled in."""
    return download(csv_text(roster.columns(_study(visit, stored))), "roster.csv")


@router.post("/studies/{study_id}/roster")
@apart("plans")
def bring_roster(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Add a file of people to an open study's roster, or make it a draft's roster: all of it or nothing."""
    if stored.state not in (State.DRAFT, State.OPEN):
        raise NotNow(f"The study is {stored.state}; people can be brought only while it is open.")
    shown = draft_page if stored.state == State.DRAFT else open_page
    try:
        _bring(visit, stored, uploaded_file(sent, "file"))
    except BadReports as bad:
        return shown(visit, stored, status=400, bad=bad)
    except (InputError, Refused) as problem:
        return shown(visit, stored, status=400, problem=str(problem))
    return go(f"/studies/{stored.id}/plan" if text(sent, "then") == "plan" else f"/studies/{stored.id}")


def _bring(visit: SignedIn, stored: StoredStudy, file: UploadFile | None) -> None:
    """Replace a draft's roster, or add to that of an open study, up to the number of players in its plan."""
    if file is None:
        raise InputError("No file was chosen. Choose a CSV file first.")
    study = _study(visit, stored)
    people, addresses = _read(study, file)
    mails.require_mailing(addresses, visit.service.mailer is not None)
    if stored.state == State.DRAFT:
        roster.require_common_levels(study, people.values())
        with visit.writing() as session:
            roster.replace(session, stored.id, visit.who, people, study)
            mails.keep(session, stored.id, addresses)
    else:
        with visit.writing() as session:
            roster.add(session, stored.id, visit.who, people, visit.plan(stored.id).players)
            mails.keep(session, stored.id, addresses)


def _study(visit: SignedIn, stored: StoredStudy) -> Study:
    if stored.state == State.DRAFT:
        return parse_study(declaration_of(stored))
    return visit.plan(stored.id).study


def _read(study: Study, file: UploadFile) -> tuple[roster.People, Mapping[str, str]]:
    """The people in an uploaded file, and their addresses. It is copied to a .csv file, as intake goes by extension."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "roster.csv"
        with path.open("wb") as copy:
            shutil.copyfileobj(file.file, copy)
        people = roster.read(study, path)
        return people, {} if EMAIL in roster.columns(study) else mails.read_addresses(path)


@router.post("/studies/{study_id}/links")
def make_links(visit: Analyst, study_id: str, sent: Sent) -> Response:
    """New personal links as a file, which must be saved now: they can never be shown again."""
    with visit.writing() as session:
        made = roster.invite(session, study_id, visit.who, again=text(sent, "which") == "all")
    if not made:
        raise Refused("Everybody on the roster has a link already. If links were lost, replace all of them.")
    rows = ((player, f"{visit.service.settings.origin}/a/{token}") for player, token in made)
    return download(csv_text((PLAYER, "link"), *rows), "links.csv")


@router.get("/studies/{study_id}/disputes.csv")
def disputes(visit: Analyst, stored: Found) -> Response:
    """The ids of players who dispute their features."""
    with visit.reading() as session:
        rows = [(player,) for player in roster.disputes(session, stored.id)]
    return download(csv_text((PLAYER,), *rows), "disputes.csv")


def read_time(typed: str) -> datetime | None:
    """Parse a time in UTC as browsers send it, 2026-12-03T18:00; None if empty."""
    if not typed:
        return None
    try:
        return datetime.fromisoformat(typed).replace(tzinfo=UTC)
    except ValueError:
        raise InputError(
            f"The deadline is {typed[:30]!r}; give a day and a time, as 2026-12-03T18:00."
        ) from None


@router.post("/studies/{study_id}/deadline")
def move_deadline(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Set or postpone the deadline of an open study."""
    if stored.state != State.OPEN:
        raise NotNow(f"The study is {stored.state}; a deadline is moved only while people can answer.")
    try:
        deadline = read_time(text(sent, "until"))
        if deadline is None:
            raise InputError("No deadline was given. Give a day and a time.")
        with visit.writing() as session:
            require_early_deadline(visit.plan(stored.id), deadline)
            studies.set_deadline(session, stored.id, visit.who, deadline)
    except InputError as problem:
        return open_page(visit, stored, status=400, wrong=str(problem), typed=text(sent, "until"))
    return go(f"/studies/{stored.id}#deadline")


@router.get("/studies/{study_id}/close")
def close_page(visit: Analyst, stored: Found) -> Response:
    return _close_page(visit, stored) if stored.state == State.OPEN else go(f"/studies/{stored.id}")


def _close_page(
    visit: SignedIn, stored: StoredStudy, wrong: str | None = None, *, too_few: bool = False
) -> Response:
    """Ask to confirm closing by the study's name, beside the coarse count of answers and the number expected."""
    with visit.reading() as session:
        counts = studies.progress(session, stored)
    return visit.page(
        "analyst/close.html",
        status=409 if too_few else 200 if wrong is None else 400,
        stored=stored,
        counts=counts,
        too_few=too_few,
        coarse=studies.COARSE,
        expected=visit.plan(stored.id).answering,
        wrong=wrong is not None,
        typed=wrong or "",
    )


@router.post("/studies/{study_id}/close")
def close(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Close a study. A refusal reveals no more than the coarse counts on the study's page."""
    typed = text(sent, "name")
    if stored.state == State.OPEN and typed.split() != stored.name.split():
        return _close_page(visit, stored, wrong=typed)
    least = studies.COARSE
    if stored.state == State.OPEN:
        least = studies.least_to_close(stored, visit.plan(stored.id).players)
    try:
        with visit.writing() as session:
            studies.close(session, stored.id, visit.who, least)
    except studies.TooFew:
        return _close_page(visit, stored, too_few=True)
    return _settle(visit, stored.id)


def _settle(visit: SignedIn, study_id: str) -> Response:
    """Request settling in the background, and show the study's page with its progress."""
    visit.service.settler.ask(study_id)
    return go(f"/studies/{study_id}")


@router.post("/studies/{study_id}/settle")
def settle_again(visit: Analyst, stored: Found) -> Response:
    """Retry a settlement that stopped. A draw is never repeated."""
    if stored.state != State.CLOSED:
        return go(f"/studies/{stored.id}")
    with visit.writing() as session:
        log(session, visit.who, "asked to settle again", stored.id)
    return _settle(visit, stored.id)


@router.post("/studies/{study_id}/accept")
def accept_less(visit: Analyst, study_id: str) -> Response:
    """Settle with guarantees weaker than promised."""
    with visit.writing() as session:
        studies.accept_less(session, study_id, visit.who)
    return _settle(visit, study_id)


@router.post("/studies/{study_id}/reopen")
def reopen(visit: Analyst, stored: Found) -> Response:
    """Reopen a closed study, and remove the record of its closing from the disk, so that it can be closed again."""
    studies.require_closed(stored)
    locations = visit.service.locations
    with locations.settling(stored.id):
        locations.require_unreleased(stored.id)
        with visit.writing() as session:
            studies.reopen(session, stored.id, visit.who)
            locations.reopen(stored.id)
    return go(f"/studies/{stored.id}")


@router.post("/studies/{study_id}/cancel")
def cancel(visit: Analyst, stored: Found) -> Response:
    """Cancel a study that cannot be settled as promised; everybody who answered gets the base payment."""
    if stored.state == State.CLOSED and (stored.refused or stored.problem):
        cancel_study(visit.service.database, visit.service.locations, stored.id, visit.who)
    return go(f"/studies/{stored.id}")


@router.post("/studies/{study_id}/publish")
def publish(visit: Analyst, study_id: str) -> Response:
    with visit.writing() as session:
        studies.step(session, study_id, State.PUBLISHED, visit.who)
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/report")
def report(visit: Analyst, stored: Settled) -> Response:
    return picture_response(stored.report or "", HTML)


@router.get("/studies/{study_id}/release.json")
def release(visit: Analyst, stored: Settled) -> Response:
    return download(stored.release or "", "release.json")


@router.get("/studies/{study_id}/forest.svg")
@apart("public")
def forest(visit: Analyst, stored: Settled) -> Response:
    return forest_chart(visit, stored)

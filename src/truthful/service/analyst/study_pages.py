"""All studies, a new one, and the page of each: what its state asks for next. And what the analyst's pages share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from truthful.errors import Refused
from truthful.guarantees import Guarantees
from truthful.promises import promises
from truthful.service.drafts import BEGINNING
from truthful.service.jobs import Listed, needs_roster, parse_study, plans_from_roster
from truthful.service.locations import FilesMissing
from truthful.service.offer import Bases, bases
from truthful.service.pages import go
from truthful.service.public import shown_results
from truthful.service.signing import Analyst, SignedIn
from truthful.store import answers, roster, studies
from truthful.store.studies import log
from truthful.store.tables import State, StoredStudy
from truthful.study import Study

router = APIRouter()
LONGEST = 5_000
#: Seconds after which a page of something under way shows itself again, without a script.
RENEWED = "4"


async def _form(visit: Analyst) -> AsyncIterator[FormData]:
    """What was sent; it is not even read if somebody else sends it."""
    async with visit.request.form(max_files=1, max_fields=400) as sent:
        yield sent


def find(visit: Analyst, study_id: str) -> StoredStudy:
    with visit.reading() as session:
        return studies.find(session, study_id)


def find_draft(visit: Analyst, study_id: str) -> StoredStudy:
    """A study that may still be changed, to be looked at."""
    return studies.require_draft(find(visit, study_id))


#: For the arguments of a page's function: what was sent, and the study of its address.
Sent = Annotated[FormData, Depends(_form)]
Found = Annotated[StoredStudy, Depends(find)]
Draft = Annotated[StoredStudy, Depends(find_draft)]


def text(sent: FormData, name: str) -> str:
    """A field as it was typed, without what cannot be stored, and with the ends of lines that files have."""
    value = sent.get(name, "")
    words = value if isinstance(value, str) else ""
    return words.replace("\0", "").replace("\r\n", "\n").strip()[:LONGEST]


def uploaded_file(sent: FormData, name: str) -> UploadFile | None:
    """A file that was sent, if one was chosen."""
    value = sent.get(name)
    return value if isinstance(value, UploadFile) and value.filename else None


def declare(visit: SignedIn, study_id: str, declaration: str | None, **values: object) -> None:
    """Keep what a draft declares now.

    Its plan goes, unless the study says the same as before; people who were brought go if their features are others.
    """
    study = None if declaration is None else parse_study(declaration)
    with visit.writing() as session:
        stored = studies.lock_draft(session, study_id)
        if study is None or stored.declaration is None or parse_study(stored.declaration) != study:
            stored.plan = None
        if stored.roster is not None and study is not None and not _fits(session, stored, study):
            roster.clear(session, stored)
        stored.declaration = declaration
        for name, value in values.items():
            setattr(stored, name, value)
        log(session, visit.who, "changed the study", study_id)


def _fits(session: Session, stored: StoredStudy, study: Study) -> bool:
    """Whether the people brought to a draft were checked for what it declares now."""
    return roster.fits(session, stored, features_declared(study))


def features_declared(study: Study) -> list[dict[str, Any]]:
    """What people's features are checked for."""
    return [feature.model_dump(mode="json", exclude={"sensitive"}) for feature in study.features]


def list_people(visit: SignedIn, stored: StoredStudy) -> Listed | None:
    """The people brought to a draft, if any were."""
    if stored.roster is None:
        return None

    def features() -> list[roster.Features]:
        with visit.reading() as session:
            return roster.features(session, stored.id)

    return Listed(stored.roster, features)


def declaration_of(stored: StoredStudy) -> str:
    """What a draft declares, if it says enough."""
    if stored.declaration is None:
        raise Refused("The study is not complete yet. Fill in all its steps first.")
    return stored.declaration


@router.get("/studies")
def every_study(visit: Analyst) -> Response:
    return studies_page(visit)


def studies_page(visit: SignedIn, problem: str | None = None) -> Response:
    """The list."""
    with visit.reading() as session:
        found = studies.everything(session)
    status = 200 if problem is None else 400
    return visit.page("analyst/studies.html", status=status, studies=found, problem=problem)


@router.post("/studies")
def new_study(visit: Analyst) -> Response:
    with visit.writing() as session:
        stored = studies.create(session, visit.who, {"name": "", "fields": BEGINNING})
        return go(f"/studies/{stored.id}/edit/question")


@router.get("/studies/{study_id}")
def one_study(visit: Analyst, stored: Found) -> Response:
    """What is to be done next."""
    if stored.state == State.DRAFT:
        return draft_page(visit, stored)
    if stored.state == State.OPEN:
        return open_page(visit, stored)
    if stored.state == State.CLOSED:
        return settling_page(visit, stored)
    if stored.state == State.CANCELLED:
        return visit.page("analyst/cancelled.html", stored=stored)
    plan = visit.service.locations.plan(stored.id)
    shown = shown_results(stored, plan, visit.locale)
    return visit.page(
        "analyst/settled.html", stored=stored, plan=plan, place=f"/studies/{stored.id}", **shown
    )


@router.post("/studies/{study_id}/remove")
def remove(visit: Analyst, study_id: str) -> Response:
    """Throw a draft away."""
    with visit.writing() as session:
        studies.remove(session, study_id, visit.who)
    return go("/studies")


def draft_page(visit: SignedIn, stored: StoredStudy, *, status: int = 200, **values: Any) -> Response:
    """A draft: what it says, its people if they are known already, its plan."""
    study = None if stored.declaration is None else parse_study(stored.declaration)
    with visit.reading() as session:
        people = roster.size(session, stored.id)
    return visit.page(
        "analyst/draft.html",
        status=status,
        stored=stored,
        study=study,
        people=people,
        used=study is not None and plans_from_roster(study),
        needed=study is not None and needs_roster(study) and not people,
        **{"problem": None, "bad": None, **values},
    )


def open_page(visit: SignedIn, stored: StoredStudy, *, status: int = 200, **values: Any) -> Response:
    """An open study: counts of people, too coarse to tell who did what."""
    with visit.reading() as session:
        counts = studies.progress(session, stored)
    return visit.page(
        "analyst/open.html",
        status=status,
        stored=stored,
        plan=visit.service.locations.plan(stored.id),
        counts=counts,
        coarse=studies.COARSE,
        **{"problem": None, "bad": None, **values},
    )


def settling_page(visit: SignedIn, stored: StoredStudy) -> Response:
    """A closed study: how far it is; or, if less can be guaranteed than was promised, what is to become of it."""
    doing = visit.service.settler.doing(stored.id)
    stopped = stored.problem is not None and doing is None
    if stored.refused is None or stored.accepts_less:
        paid = None
        with suppress(FilesMissing):
            paid = _bases(visit, stored) if stopped else None
        shown = visit.page("analyst/settling.html", stored=stored, doing=doing, stopped=stopped, paid=paid)
        shown.headers["Refresh"] = RENEWED
        return shown
    plan, paid = visit.service.locations.plan(stored.id), _bases(visit, stored)
    found = Guarantees.from_record(stored.refused["found"])
    compared = zip(promises(plan), promises(replace(plan, stated=found, players=paid.people)), strict=True)
    return visit.page("analyst/refused.html", stored=stored, compared=list(compared), paid=paid)


def _bases(visit: SignedIn, stored: StoredStudy) -> Bases:
    with visit.reading() as session:
        return bases(visit.service.locations.plan(stored.id), answers.features(session, stored.id))

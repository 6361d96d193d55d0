"""What the analyst's pages share: forms that are read only for her, files she downloads, a draft's study."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import Refused
from truthful.guarantees import Guarantees
from truthful.promises import promises
from truthful.service.drafts import BEGINNING
from truthful.service.jobs import Listed, needs_roster, plans_from_roster
from truthful.service.locations import FilesMissing
from truthful.service.offer import Bases, bases
from truthful.service.pages import Language, Running, Service, go, page
from truthful.service.public import results
from truthful.service.signing import Analyst
from truthful.store import answers, roster, studies
from truthful.store.studies import log
from truthful.store.tables import Account, State, StoredStudy
from truthful.study import Study

LONGEST = 5_000


async def _form(request: Request, _: Analyst) -> AsyncIterator[FormData]:
    """What was sent; it is not even read if somebody else sends it."""
    async with request.form(max_files=1, max_fields=400) as sent:
        yield sent


#: For the arguments of a page's function.
Sent = Annotated[FormData, Depends(_form)]


def text(sent: FormData, name: str) -> str:
    """A field as it was typed, without what cannot be stored, and with the ends of lines that files have."""
    value = sent.get(name, "")
    words = value if isinstance(value, str) else ""
    return words.replace("\0", "").replace("\r\n", "\n").strip()[:LONGEST]


def uploaded(sent: FormData, name: str) -> UploadFile | None:
    """A file that was sent, if one was chosen."""
    value = sent.get(name)
    return value if isinstance(value, UploadFile) and value.filename else None


def find(service: Service, study_id: str) -> StoredStudy:
    with service.database.reading() as session:
        return studies.find(session, study_id)


def draft(service: Service, study_id: str) -> StoredStudy:
    """A study that may still be changed, to be looked at."""
    return studies.require_draft(find(service, study_id))


def declare(service: Service, study_id: str, who: str, declaration: str | None, **values: object) -> None:
    """Keep what a draft declares now.

    Its plan goes, unless the study says the same as before; people who were brought go if their features are others.
    """
    with service.database.writing() as session:
        stored = studies.drafted(session, study_id)
        if not _same(stored.declaration, declaration):
            stored.plan = None
        if stored.roster is not None and declaration is not None and not _fit(session, stored, declaration):
            roster.clear(session, stored)
        stored.declaration = declaration
        for name, value in values.items():
            setattr(stored, name, value)
        log(session, who, "changed the study", study_id)


def _same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and Study.parse(one) == Study.parse(other)


def _fit(session: Session, stored: StoredStudy, declaration: str) -> bool:
    """Whether the people brought to a draft were checked for what it declares now."""
    return roster.fits(session, stored, features_declared(Study.parse(declaration)))


def features_declared(study: Study) -> list[dict[str, Any]]:
    """What people's features are checked for."""
    return [feature.model_dump(mode="json", exclude={"sensitive"}) for feature in study.features]


def listed(service: Service, stored: StoredStudy) -> Listed | None:
    """The people brought to a draft, if any were."""
    if stored.roster is None:
        return None

    def features() -> list[roster.Features]:
        with service.database.reading() as session:
            return roster.features(session, stored.id)

    return Listed(stored.roster, features)


def declaration(stored: StoredStudy) -> str:
    """What a draft declares, if it says enough."""
    if stored.declaration is None:
        raise Refused("The study is not complete yet. Fill in all its steps first.")
    return stored.declaration


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
        found = studies.everything(session)
    status = 200 if problem is None else 400
    return page(
        request, "analyst/studies.html", status=status, account=account, studies=found, problem=problem
    )


@router.post("/studies")
def new_study(service: Running, account: Analyst) -> Response:
    with service.database.writing() as session:
        stored = studies.create(session, account.name, {"name": "", "fields": BEGINNING})
        return go(f"/studies/{stored.id}/edit/question")


@router.get("/studies/{study_id}")
def one_study(
    request: Request, service: Running, account: Analyst, texts: Language, study_id: str
) -> Response:
    """What is to be done next."""
    stored = find(service, study_id)
    values: dict[str, Any] = {"account": account, "stored": stored}
    if stored.state == State.DRAFT:
        return draft_page(request, service, account, stored)
    if stored.state == State.OPEN:
        return open_page(request, service, account, stored)
    if stored.state == State.CLOSED:
        return settling_page(request, service, account, stored)
    if stored.state == State.CANCELLED:
        return page(request, "analyst/cancelled.html", **values)
    plan = service.locations.plan(study_id)
    found = results(stored.release or "", plan)
    return page(
        request,
        "analyst/settled.html",
        **values,
        plan=plan,
        found=found,
        coefficients=found.coefficients(texts.locale),
        locale=texts.locale,
        place=f"/studies/{study_id}",
    )


@router.post("/studies/{study_id}/remove")
def remove(service: Running, account: Analyst, study_id: str) -> Response:
    """Throw a draft away."""
    with service.database.writing() as session:
        studies.remove(session, study_id, account.name)
    return go("/studies")


def draft_page(
    request: Request,
    service: Service,
    account: Account,
    stored: StoredStudy,
    *,
    status: int = 200,
    **values: Any,
) -> Response:
    """A draft: what it says, its people if they are known already, its plan."""
    study = None if stored.declaration is None else Study.parse(stored.declaration)
    with service.database.reading() as session:
        people = roster.size(session, stored.id)
    return page(
        request,
        "analyst/draft.html",
        status=status,
        account=account,
        stored=stored,
        study=study,
        people=people,
        used=study is not None and plans_from_roster(study),
        needed=study is not None and needs_roster(study) and not people,
        **{"problem": None, "bad": None, **values},
    )


def settling_page(request: Request, service: Service, account: Account, stored: StoredStudy) -> Response:
    """A closed study: how far it is; or, if less can be guaranteed than was promised, what is to become of it."""
    values: dict[str, Any] = {"account": account, "stored": stored}
    doing = service.settler.doing(stored.id)
    stopped = stored.problem is not None and doing is None
    if stored.refused is None or stored.accepts_less:
        paid = None
        with suppress(FilesMissing):
            paid = _bases(service, stored) if stopped else None
        shown = page(request, "analyst/settling.html", **values, doing=doing, stopped=stopped, paid=paid)
        shown.headers["Refresh"] = RENEWED
        return shown
    plan, paid = service.locations.plan(stored.id), _bases(service, stored)
    found = Guarantees.from_record(stored.refused["found"])
    compared = zip(promises(plan), promises(replace(plan, stated=found, players=paid.people)), strict=True)
    return page(request, "analyst/refused.html", **values, compared=list(compared), paid=paid)


def _bases(service: Service, stored: StoredStudy) -> Bases:
    with service.database.reading() as session:
        return bases(service.locations.plan(stored.id), answers.features(session, stored.id))


def open_page(
    request: Request,
    service: Service,
    account: Account,
    stored: StoredStudy,
    *,
    status: int = 200,
    **values: Any,
) -> Response:
    """An open study: counts of people, too coarse to tell who did what."""
    with service.database.reading() as session:
        counts = studies.progress(session, stored)
    plan = service.locations.plan(stored.id)
    return page(
        request,
        "analyst/open.html",
        status=status,
        account=account,
        stored=stored,
        plan=plan,
        counts=counts,
        coarse=studies.COARSE,
        **{"problem": None, "bad": None, **values},
    )

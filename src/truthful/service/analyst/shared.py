"""What the analyst's pages share: forms that are read only for her, files she downloads, a draft's study."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from truthful.errors import Refused
from truthful.service.computing import Listed
from truthful.service.signing import Analyst
from truthful.service.web import Service
from truthful.store import roster, surveys
from truthful.store.log import log
from truthful.store.tables import Survey
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


def find(service: Service, survey_id: str) -> Survey:
    with service.database.reading() as session:
        return surveys.find(session, survey_id)


def draft(service: Service, survey_id: str) -> Survey:
    """A study that may still be changed, to be looked at."""
    return surveys.require_draft(find(service, survey_id))


def declare(service: Service, survey_id: str, who: str, declaration: str | None, **values: object) -> None:
    """Keep what a draft declares now.

    Its plan goes, unless the study says the same as before; people who were brought go if their features are others.
    """
    with service.database.writing() as session:
        survey = surveys.drafted(session, survey_id)
        if not _same(survey.declaration, declaration):
            survey.plan = None
        if survey.roster is not None and declaration is not None and not _fit(session, survey, declaration):
            roster.clear(session, survey)
        survey.declaration = declaration
        for name, value in values.items():
            setattr(survey, name, value)
        log(session, who, "changed the study", survey_id)


def _same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and Study.parse(one) == Study.parse(other)


def _fit(session: Session, survey: Survey, declaration: str) -> bool:
    """Whether the people brought to a draft were checked for what it declares now."""
    return roster.fits(session, survey, features_declared(Study.parse(declaration)))


def features_declared(study: Study) -> list[dict[str, Any]]:
    """What people's features are checked for."""
    return [feature.model_dump(mode="json", exclude={"sensitive"}) for feature in study.features]


def listed(service: Service, survey: Survey) -> Listed | None:
    """The people brought to a draft, if any were."""
    if survey.roster is None:
        return None

    def features() -> list[roster.Features]:
        with service.database.reading() as session:
            return roster.features(session, survey.id)

    return Listed(survey.roster, features)


def declaration(survey: Survey) -> str:
    """What a draft declares, if it says enough."""
    if survey.declaration is None:
        raise Refused("The study is not complete yet. Fill in all its steps first.")
    return survey.declaration

"""Freeze a draft: what it declares and plans is written down for good, and people may be asked."""

from __future__ import annotations

import secrets

from sqlalchemy.orm import Session

from truthful.errors import Refused
from truthful.service.places import Places
from truthful.store import roster, surveys
from truthful.store.database import Database
from truthful.store.tables import State, Survey
from truthful.study import Study

NOT_PLANNED = "The study has no plan yet. Plan it first; then it can be frozen."
NOT_INVITING = (
    "The study does not say who asks, what for and whom to turn to. People are told that before they answer: fill in "
    "the invitation, plan again, then freeze."
)
CAN_OWE = (
    "With payments = 'expected' a participant can end up owing money, so it is for research alone. Plan with "
    "never-negative payments."
)

TOO_FEW = (
    f"The plan is for fewer than {surveys.COARSE} people, and a study is closed only with {surveys.COARSE} answers or "
    "more. Plan it for more people."
)


def freeze(database: Database, places: Places, survey_id: str, who: str, *, rehearsal: bool) -> None:
    """Open a planned draft for answers, of people or, in a rehearsal, of programs.

    The files are written before the step is durable: a crash in between leaves a draft, which can be frozen again.
    """
    with database.writing() as session:
        survey = surveys.drafted(session, survey_id)
        if survey.declaration is None or survey.plan is None:
            raise Refused(NOT_PLANNED)
        plan = places.freeze(survey_id, survey.declaration, survey.plan)
        if plan.study.declared.invitation is None:
            raise Refused(NOT_INVITING)
        if plan.mechanism.payments == "expected":
            raise Refused(CAN_OWE)
        if plan.players < surveys.COARSE:
            raise Refused(TOO_FEW)
        if (brought := roster.size(session, survey_id)) > plan.players:
            raise Refused(
                f"{brought:,} people were brought, but the plan is for {plan.players:,}. Plan it for all of them, or "
                "bring fewer."
            )
        seed = secrets.randbelow(2**62) if rehearsal else None
        surveys.step(
            session, survey_id, State.OPEN, who, rehearsal=rehearsal, seed=seed, name=plan.study.name
        )


def akin(session: Session, survey_id: str, study: Study) -> list[Survey]:
    """Studies of people that were frozen here before, have the same name or declare the same, and perhaps ask the same.

    For whoever is in two of them ε adds up, and no ledger counts it: each study has its own.
    """
    return [
        other
        for other in surveys.everything(session)
        if other.id != survey_id and other.state != State.DRAFT and not other.rehearsal
        if _like(Study.parse(other.declaration or ""), study)
    ]


def _like(one: Study, other: Study) -> bool:
    same_name = one.name.split() == other.name.split()
    return same_name or {**one.declaration(), "name": ""} == {**other.declaration(), "name": ""}

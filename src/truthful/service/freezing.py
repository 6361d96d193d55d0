"""Freeze a draft: what it declares and plans is written down for good, and people may be asked."""

from __future__ import annotations

import secrets

from truthful.errors import Refused
from truthful.service.places import Places
from truthful.store import surveys
from truthful.store.database import Database
from truthful.store.tables import State

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
        seed = secrets.randbelow(2**62) if rehearsal else None
        surveys.step(
            session, survey_id, State.OPEN, who, rehearsal=rehearsal, seed=seed, name=plan.study.name
        )

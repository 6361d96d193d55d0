"""A service in which every page of the analyst's, and every public one, has something to show."""

from __future__ import annotations

import numpy as np
import pytest

from support.serving import PASSWORD, STUDY, answer, asked, close, draft
from truthful.errors import WorseThanPromised
from truthful.people import invent
from truthful.service.analyst.shared import features_declared
from truthful.service.drafting import BEGINNING
from truthful.service.once import cancel_survey, settle_survey
from truthful.service.settling import refusal
from truthful.service.web import Service
from truthful.store import accounts, answers, roster, surveys
from truthful.store.tables import Role, State
from truthful.study import Study, template

NAME = "ada"
INVITED = {
    "# [invitation]": "[invitation]",
    "# asked_by": "asked_by",
    "# purpose": "purpose",
    "# contact": "contact",
}
STEPS = ("question", "invitation", "people", "beliefs", "costs")


def gambling(kind: str = "uniform") -> str:
    """The study that `truthful new` writes, with its invitation; features assigned, or people's own."""
    text = template().replace('kind = "observed"', f'kind = "{kind}"')
    for before, after in INVITED.items():
        text = text.replace(before, after)
    return text


def sign_up(service: Service) -> None:
    """An analyst of a known name and password."""
    with service.database.writing() as session:
        account = accounts.account(session, NAME, Role.ANALYST, NAME)
        link = accounts.new_link(session, account, NAME)
        accounts.set_password(session, link, accounts.hash_password(PASSWORD))


def pages(service: Service) -> dict[str, str]:
    """The path of every page, by a name for it. Nothing is settled behind its back."""
    service.settler.stop()
    found = {"studies": "/studies"}
    begun, whole, planned = _begun(service), _whole(service), draft(service, gambling(), 20_000)
    found |= {"begun": f"/studies/{begun}", "whole": f"/studies/{whole}", "planned": f"/studies/{planned}"}
    found |= {f"step {step}": f"/studies/{planned}/edit/{step}" for step in STEPS}
    found |= {name: f"/studies/{planned}/{name}" for name in ("file", "rehearse", "freeze")}
    found["plan"] = f"/studies/{whole}/plan"
    found["possible"] = f"/studies/{whole}/plan?players=20000&budget=5000&lie=0.3"
    found["impossible"] = f"/studies/{whole}/plan?players=200&budget=500"
    found["no wish"] = f"/studies/{whole}/plan?players=many"
    own, brought = _whole(service, "observed"), _brought(service)
    found |= {"people needed": f"/studies/{own}", "step people, own": f"/studies/{own}/edit/people"}
    found |= {"brought": f"/studies/{brought}", "plan for them": f"/studies/{brought}/plan?budget=3000"}
    study = asked(service, players=6)
    with service.database.writing() as session:
        answers.dispute(session, next(iter(study.links.values())), True)
    found |= {"open": f"/studies/{study.survey_id}", "few": f"/studies/{study.survey_id}/close"}
    found["frozen file"] = f"/studies/{study.survey_id}/file"
    found["declared"] = f"/s/{study.survey_id}"
    return found | _ended(service)


def _begun(service: Service) -> str:
    with service.database.writing() as session:
        return surveys.create(session, NAME, {"name": "", "fields": BEGINNING}).id


def _whole(service: Service, kind: str = "uniform") -> str:
    with service.database.writing() as session:
        survey = surveys.create(session, NAME, {"name": "Weekly gambling spend"})
        survey.declaration = gambling(kind)
        return survey.id


def _brought(service: Service) -> str:
    """A draft with its people."""
    survey_id, study = _whole(service, "observed"), Study.parse(gambling())
    rows = invent(study, 1_200, np.random.default_rng(3)).reports.to_pylist()
    people = {row["player"]: {feature.name: row[feature.name] for feature in study.features} for row in rows}
    with service.database.writing() as session:
        roster.replace(session, survey_id, NAME, people, features_declared(study))
    return survey_id


def _ended(service: Service) -> dict[str, str]:
    """Studies that are closed, stopped, refused, cancelled, settled and published."""
    found = {}
    for name in ("close", "settling", "stopped", "refused", "cancelled", "settled", "published"):
        study = asked(service, STUDY.replace("Designed", f"Prices, {name}"), rehearsal=name == "settled")
        answer(service, study, list(study.links)[: 50 if name == "refused" else None])
        found[name] = f"/studies/{study.survey_id}"
        if name != "close":
            close(service, study.survey_id)
        if name == "stopped":
            with service.database.writing() as session:
                surveys.note_problem(session, study.survey_id, "The disk is full. Nothing was released.")
        if name == "refused":
            with pytest.raises(WorseThanPromised) as worse:
                settle_survey(service.database, service.places, study.survey_id)
            with service.database.writing() as session:
                surveys.note_refusal(session, study.survey_id, refusal(worse.value))
        if name == "cancelled":
            found["declared, cancelled"] = f"/s/{study.survey_id}"
            cancel_survey(service.database, service.places, study.survey_id, NAME)
        if name in ("settled", "published"):
            settle_survey(service.database, service.places, study.survey_id)
        if name == "published":
            found["results"] = f"/s/{study.survey_id}"
            with service.database.writing() as session:
                surveys.step(session, study.survey_id, State.PUBLISHED, NAME)
    found["close"] += "/close"
    return found

"""A service in which every page of the analyst's, and every public one, has something to show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from support.serving import ANALYST, PASSWORD, PAYER, STUDY, answer, asked, close, draft, owner
from truthful.errors import WorseThanPromised
from truthful.people import invent
from truthful.service.drafts import BEGINNING
from truthful.service.pages import Service
from truthful.service.settle_study import cancel_study, refusal, settle_study
from truthful.store import accounts, answers, mails, roster, studies
from truthful.store.tables import Role, State
from truthful.study import Study, template

NAME = ANALYST
INVITED = {
    "# [invitation]": "[invitation]",
    "# asked_by": "asked_by",
    "\n# purpose": "\npurpose",
    "# contact": "contact",
    '# payer = "Accounts office"': f'payer = "{PAYER}"',
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
        mails.keep(session, study.study_id, {player: f"{player}@example.org" for player in study.links})
        stored = studies.find(session, study.study_id)
        stored.deadline, stored.panel = datetime.now(UTC) + timedelta(days=9), {"completion_code": "C0DE"}
    found |= {"open": f"/studies/{study.study_id}", "few": f"/studies/{study.study_id}/close"}
    found |= {name: f"/studies/{study.study_id}/{name}" for name in ("mail", "panel")}
    found["document"] = f"/studies/{planned}/document"
    found["frozen file"] = f"/studies/{study.study_id}/file"
    found["declared"] = f"/s/{study.study_id}"
    return found | _ended(service)


def _begun(service: Service) -> str:
    with service.database.writing() as session:
        return studies.create(session, NAME, {"name": "", "fields": BEGINNING}, owner(session)).id


def _whole(service: Service, kind: str = "uniform") -> str:
    with service.database.writing() as session:
        stored = studies.create(session, NAME, {"name": "Weekly gambling spend"}, owner(session))
        stored.declaration = gambling(kind)
        return stored.id


def _brought(service: Service) -> str:
    """A draft with its people."""
    study_id, study = _whole(service, "observed"), Study.parse(gambling())
    rows = invent(study, 1_200, np.random.default_rng(3)).reports.to_pylist()
    people = {row["player"]: {feature.name: row[feature.name] for feature in study.features} for row in rows}
    with service.database.writing() as session:
        roster.replace(session, study_id, NAME, people, study)
    return study_id


def _ended(service: Service) -> dict[str, str]:
    """Studies that are closed, stopped, refused, cancelled, settled and published."""
    found = {}
    for name in ("close", "settling", "stopped", "refused", "cancelled", "settled", "published"):
        study = asked(service, STUDY.replace("Designed", f"Prices, {name}"), rehearsal=name == "settled")
        answer(service, study, list(study.links)[: 50 if name == "refused" else None])
        found[name] = f"/studies/{study.study_id}"
        if name != "close":
            close(service, study.study_id)
        if name == "stopped":
            with service.database.writing() as session:
                studies.note_problem(session, study.study_id, "The disk is full. Nothing was released.")
        if name == "refused":
            with pytest.raises(WorseThanPromised) as worse:
                settle_study(service.database, service.locations, study.study_id)
            with service.database.writing() as session:
                studies.note_refusal(session, study.study_id, refusal(worse.value))
        if name == "cancelled":
            found["declared, cancelled"] = f"/s/{study.study_id}"
            cancel_study(service.database, service.locations, study.study_id, NAME)
        if name in ("settled", "published"):
            settle_study(service.database, service.locations, study.study_id)
        if name == "published":
            found["results"] = f"/s/{study.study_id}"
            with service.database.writing() as session:
                studies.step(session, study.study_id, State.PUBLISHED, NAME)
    found["close"] += "/close"
    return found

"""A study to click through: a rehearsal on invented people, most of whom have answered."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

import numpy as np

from truthful.files import pretty_json
from truthful.people import invent
from truthful.plan import Plan, design
from truthful.service.freezing import freeze
from truthful.service.places import Places
from truthful.store import answers, roster, surveys
from truthful.store.database import Database
from truthful.study import Study
from truthful.study.declaration import PLAYER

#: Who does it, in the audit log.
DEMO = "demo"
PLAYERS, BUDGET, ANSWERING = 2_000, 10_000.0, 0.9
#: The last of them have not answered yet: their links are to try out.
TO_ANSWER = 100
INVITATION = """[invitation]
asked_by = "The makers of truthful"
purpose = "To show how a study runs. Everybody in it is invented, and nobody is paid."
contact = "whoever started this service"

[response]"""


@dataclass(frozen=True)
class Demo:
    """What was made: the study, and the token of somebody who has not answered yet."""

    survey_id: str
    token: str


def make_demo(database: Database, places: Places) -> Demo | None:
    """Make the study, in a service that has none; otherwise nothing happens."""
    with database.reading() as session:
        if surveys.everything(session):
            return None
    text = resources.files("truthful").joinpath("demo.toml").read_text(encoding="utf-8")
    text = text.replace("[response]", INVITATION, 1)
    study = Study.parse(text)
    plan = design(study, players=PLAYERS, budget=BUDGET, response_share=ANSWERING)
    with database.writing() as session:
        survey = surveys.create(session, DEMO, tomllib.loads(text))
        survey.declaration, survey.plan = text, pretty_json(plan.record())
        survey_id = survey.id
    freeze(database, places, survey_id, DEMO, rehearsal=True)
    return Demo(survey_id, _collect(database, survey_id, plan))


def _collect(database: Database, survey_id: str, plan: Plan) -> str:
    """Put invented people on the roster and let them answer; the link of the last of them."""
    rows = invent(plan.study, PLAYERS, np.random.default_rng()).reports.to_pylist()
    response = plan.study.response.name
    said = {row[PLAYER]: row.pop(response) for row in rows}
    people = {row.pop(PLAYER): row for row in rows}
    with database.writing() as session:
        roster.add(session, survey_id, DEMO, people, plan.players)
        links = roster.invite(session, survey_id, DEMO)
        for player, token in links[:-TO_ANSWER]:
            answers.submit(session, token, said[player], answers.consent(session, token))
    return links[-1][1]

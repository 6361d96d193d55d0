"""A service that really runs, in this process, with an analyst, a payer and studies as tests need them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from argon2 import PasswordHasher
from argon2.profiles import CHEAPEST
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from support import both_studies
from support.databases import copy_new
from support.shares import reports
from support.studies import DESIGNED, people
from truthful.plan import Plan, design
from truthful.report import page
from truthful.service.app import create_app
from truthful.service.jobs import needs_roster
from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import freeze, settle_study
from truthful.store import accounts, answers, roster, studies
from truthful.store.answers import OpenedAnswer
from truthful.store.tables import Account, Player, Role, State
from truthful.study import Study
from truthful.study.declaration import PREDICTION

URL = "http://testserver"
PASSWORD = "correct horse battery staple"

# Slow passwords are tested where they belong (test_store.py); here hundreds of people sign in.
accounts._HASHER = PasswordHasher.from_parameters(CHEAPEST)
accounts._DUMMY_HASH = accounts._HASHER.hash("nobody has this one")

INVITATION = """
[invitation]
asked_by = "Institute for Household Studies"
purpose = "To learn how spending goes with prices."
contact = "survey@example.org"
payer = "the payer"
"""
#: A study file that can be frozen: price from 1 to 5, region, and a spend between 0 and 200 dollars.
STUDY = DESIGNED.replace("[response]", f"{INVITATION}[response]", 1)
WHO = "ada"
#: Accounts: to the first every study belongs, and the second is named to pay.
ANALYST, PAYER = "the analyst", "the payer"
PLAYERS = 60
#: Only the mean answer is asked for.
WITHOUT_FEATURES = STUDY[: STUDY.index("[[features]]")] + STUDY[STUDY.index("[design]") :]
#: The same with people's own features: protected with the answers, or not.
OBSERVED = STUDY.replace('kind = "uniform"', 'kind = "observed"\nleast_eigenvalue = 0.08')
RECORDS, ANSWERS = (
    OBSERVED.replace("[beliefs]", f'[privacy]\nprotects = "{what}"\n[beliefs]')
    for what in ("records", "answers")
)


@dataclass(frozen=True)
class Served:
    """A running service and a browser that is not signed in."""

    client: TestClient
    service: Service

    def signed_in(self, role: Role, name: str = "") -> TestClient:
        """Another browser, in which somebody of this role is signed in."""
        name = name or f"the {role}"
        with self.service.database.writing() as session:
            accounts.account(session, PAYER, Role.PAYER, WHO)
            account = accounts.account(session, name, role, WHO)
            link = accounts.new_link(session, account, WHO)
        client = TestClient(self.client.app, base_url=URL, follow_redirects=False)
        assert client.post(f"/welcome/{link}", data={"password": PASSWORD}).status_code == 303
        return client

    def state(self, study_id: str) -> State:
        with self.service.database.reading() as session:
            return studies.find(session, study_id).state


@dataclass(frozen=True)
class Asked:
    """An open study: its plan, everybody's link and what everybody will answer, and predict if she is asked to."""

    study_id: str
    plan: Plan
    links: dict[str, str]
    features: dict[str, dict[str, Any]]
    answers: dict[str, float]
    predictions: dict[str, float]


@contextmanager
def served(directory: Path, database: str | None = None, **settings: Any) -> Iterator[Served]:
    """A service in this directory. Its reports have no charts, which take most of a settlement's time."""
    if database is None and not (directory / "studies").exists():
        copy_new(directory / "truthful.db")
    app = create_app(Settings(directory, **{"url": URL, **settings}, database=database))
    with (
        patch.object(page, "inline", lambda chart, name: ""),
        TestClient(app, base_url=URL, follow_redirects=False) as client,
    ):
        yield Served(client, app.state.service)


@cache
def planned(study: Study, players: int = PLAYERS, **parameters: Any) -> Plan:
    """A plan with everyday parameters; from a roster where it must be."""
    if needs_roster(study):
        parameters["roster"] = _reports(study, players)
    if study.levels is not None:
        return design(study, players=players, **{"epsilon": 2.0, "absent_share": 0.002, **parameters})
    paid = {"score_weight": 0.5} if study.shares is None else {"flat": 0.1, "bonus": 0.4}
    chosen: dict[str, Any] = {"epsilon": 2.0, **paid, "absent_share": 0.002, **parameters}
    return design(study, players=players, **chosen)


def draft(service: Service, text: str = STUDY, players: int = PLAYERS, **parameters: Any) -> str:
    """A planned draft, which belongs to the analyst, and names a payer whom there is."""
    text = paying(text)
    plan = planned(Study.parse(text), players, **parameters)
    with service.database.writing() as session:
        stored = studies.create(session, WHO, tomllib.loads(text))
        stored.declaration, stored.plan = text, json.dumps(plan.record())
        accounts.account(session, PAYER, Role.PAYER, WHO)
        accounts.share(session, stored.id, owner(session), WHO)
        return stored.id


def owner(session: Session) -> Account:
    """The analyst to whom studies belong."""
    return accounts.account(session, ANALYST, Role.ANALYST, WHO)


def paying(text: str) -> str:
    """A study that names its payer, if it has an invitation and does not say who pays."""
    if "payer = " in text or "asker_pays" in text:
        return text
    return text.replace("[invitation]\n", f'[invitation]\npayer = "{PAYER}"\n', 1)


def asked(
    service: Service,
    text: str = STUDY,
    players: int = PLAYERS,
    *,
    rehearsal: bool = False,
    **parameters: Any,
) -> Asked:
    """An open study with that many people, all of whom have links; planned for more if they are few."""
    study_id = draft(service, text, max(players, PLAYERS), **parameters)
    freeze(service.database, service.locations, study_id, WHO, rehearsal=rehearsal)
    return bring(service, study_id, players)


def bring(service: Service, study_id: str, players: int) -> Asked:
    """Bring people to an open study, and make them links."""
    plan = service.locations.plan(study_id)
    features, spoken, predicted = invented(plan, players)
    with service.database.writing() as session:
        roster.add(session, study_id, WHO, features, plan.players)
        links = dict(roster.invite(session, study_id, WHO))
    return Asked(study_id, plan, links, features, spoken, predicted)


def invented(
    plan: Plan, players: int
) -> tuple[dict[str, dict[str, Any]], dict[str, float], dict[str, float]]:
    """People's features, their answers, and their predictions of the others' if they are asked."""
    rows = _reports(plan.study, players).to_pylist()
    features = {row.pop("player"): row for row in rows}
    said = {player: float(row.pop(plan.study.response.name)) for player, row in features.items()}
    return features, said, {p: row.pop(PREDICTION) for p, row in features.items() if PREDICTION in row}


def _reports(study: Study, players: int) -> Any:
    if study.levels is not None:
        return both_studies.reports(study, players)
    return people(study, players).reports if study.shares is None else reports(study, players)


def answer_all(service: Service, study: Asked) -> None:
    """Everybody consents and answers."""
    answer(service, study, study.links)


def answer(service: Service, study: Asked, players: Iterable[str]) -> None:
    """These people consent and answer: the first as anybody does, and of the others who are new the rows are written
    that this leaves, all at once.
    """
    order = list(players)
    with service.database.writing() as session:
        for player in order[:1]:
            _answer_one(session, study, player)
        mine = Player.study_id == study.study_id
        new = set(
            session.scalars(select(Player.player).where(mine, Player.sealed_code.is_(None), ~Player.disputed))
        )
        said = {
            player: OpenedAnswer(study.answers[player], study.predictions.get(player)) for player in order
        }
        answers.collect(session, study.study_id, {player: said[player] for player in order if player in new})
        for player in order[1:]:
            if player not in new:
                _answer_one(session, study, player)


def _answer_one(session: Session, study: Asked, player: str) -> None:
    link = study.links[player]
    code = answers.consent(session, link, roster.standing(session, link).code or "")
    prediction = study.predictions.get(player)
    answers.submit(session, link, study.answers[player], code, prediction=prediction)


def code_of(service: Service, link: str) -> str:
    """The code of whoever has this link, as her browser has it; nothing if she has none."""
    with service.database.reading() as session:
        return roster.standing(session, link).code or ""


def settle_with_less(service: Service, study_id: str) -> None:
    """Settle a closed study, although not everybody has answered whom the plan counts on."""
    with service.database.writing() as session:
        studies.note_refusal(session, study_id, {})
        studies.accept_less(session, study_id, WHO)
    settle_study(service.database, service.locations, study_id)


def close(service: Service, study_id: str) -> None:
    """Close a study, without settling it."""
    with service.database.writing() as session:
        studies.step(session, study_id, State.CLOSED, WHO)

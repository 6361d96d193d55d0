"""What an analyst types, and what she and a test see of her study."""

from __future__ import annotations

import csv
import html
import io
import time
from typing import Any

from starlette.testclient import TestClient

from support.serving import PAYER, STUDY, WHO, Served, draft
from truthful.service.settle_study import freeze
from truthful.store import studies
from truthful.store.tables import State, StoredStudy

QUESTION = {
    "name": "Spending",
    "currency": "USD",
    "response": "spend",
    "low": "0",
    "high": "200",
    "question": "How much?",
}
INVITED = {"asked_by": "An institute", "purpose": "To learn.", "contact": "mail@example.org", "payer": PAYER}
PEOPLE = {
    "f0_name": "price",
    "f0_kind": "number",
    "f0_low": "1",
    "f0_high": "5",
    "f1_name": "region",
    "f1_kind": "levels",
    "f1_levels": "north\r\nsouth\r\n\r\neast ",
    "design": "uniform",
}
BELIEFS = {"signal": "0.6", "noise": "normal"}
COSTS = {"costs": "pareto", "tail": "2", "scale": "0.05", "privacy": "quadratic"}
STEPS = {"question": QUESTION, "invitation": INVITED, "people": PEOPLE, "beliefs": BELIEFS, "costs": COSTS}
HEAD = "player,price,region\n"


def stored(here: Served, study_id: str) -> StoredStudy:
    with here.service.database.reading() as session:
        return studies.find(session, study_id)


def new(analyst: TestClient) -> str:
    """A new draft."""
    answer = analyst.post("/studies")
    assert answer.status_code == 303
    return str(answer.headers["location"].split("/")[2])


def declared(analyst: TestClient, **changes: dict[str, str]) -> str:
    """A draft that has been through the whole wizard."""
    study_id = new(analyst)
    for step, fields in STEPS.items():
        answer = analyst.post(f"/studies/{study_id}/edit/{step}", data={**fields, **changes.get(step, {})})
        assert answer.status_code == 303, answer.text
    return study_id


def open_study(here: Served) -> str:
    """An open study, of whose people nobody is known yet."""
    study_id = draft(here.service, STUDY)
    freeze(here.service.database, here.service.locations, study_id, WHO, rehearsal=False)
    return study_id


def shown(analyst: TestClient, path: str, status: int = 200) -> str:
    """A page as it is, with its text unescaped."""
    answer = analyst.get(path)
    assert answer.status_code == status, answer.text
    return html.unescape(answer.text)


def send_roster(analyst: TestClient, study_id: str, text: str | bytes) -> Any:
    content = text if isinstance(text, bytes) else text.encode()
    return analyst.post(f"/studies/{study_id}/roster", files={"file": ("people.csv", content, "text/csv")})


def counts(here: Served, study_id: str) -> dict[str, int]:
    with here.service.database.reading() as session:
        return studies.counts(session, study_id)


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def wait_until_refused(here: Served, study_id: str) -> None:
    """Until less can be guaranteed for those who answered than was promised, and the analyst is asked."""
    for _ in range(600):
        if stored(here, study_id).refused is not None:
            return
        time.sleep(0.1)
    raise AssertionError(stored(here, study_id).problem)


def wait_until_settled(here: Served, study_id: str) -> None:
    for _ in range(600):
        if here.state(study_id) != State.CLOSED:
            return
        time.sleep(0.1)
    raise AssertionError(stored(here, study_id).problem)


def wait_until_stopped(analyst: TestClient, study_id: str) -> str:
    """Until settling has stopped; what her page says then."""
    for _ in range(600):
        if "Settling stopped" in (page := shown(analyst, f"/studies/{study_id}")):
            return page
        time.sleep(0.1)
    raise AssertionError(page)

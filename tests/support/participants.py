"""A participant with her browser, and a service in which nothing happens but what she does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

from sqlalchemy import select
from starlette.testclient import TestClient

from support.sealed import said
from support.serving import URL, Asked, Served, code_of, served
from truthful.store.answers import open_answer
from truthful.store.tables import Answer, Table

GERMAN = "de"
MOVES = ("consent", "dispute", "undispute", "review", "submit", "withdraw")
#: What link scanners, previews and browsers open on their own.
OPENED = (
    "",
    "?done=withdrawn",
    *(f"/{path}" for path in (*MOVES, "answer", "receipt.json", "release.json", "code.txt")),
)
STRANGER = "no-such-link-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"


@contextmanager
def quiet(directory: Path, database: str | None = None) -> Iterator[Served]:
    """A service in which nothing but what a test does happens: closed studies are not settled of themselves."""
    with served(directory, database) as running:
        running.service.settler.stop()
        yield running


class Her:
    """One participant with her browser."""

    def __init__(self, here: Served, study: Asked, player: str = "p-01") -> None:
        self.here, self.study, self.player = here, study, player
        self.link = f"/a/{study.links[player]}"
        self.client = TestClient(here.client.app, base_url=URL, follow_redirects=False)
        self.knows(code_of(here.service, study.links[player]))

    def knows(self, code: str) -> None:
        """Her browser has this code from now on."""
        self.client.cookies.set("code", code, domain="testserver.local", path=self.link)

    def sees(self, path: str = "", status: int = 200) -> str:
        response = self.client.get(self.link + path)
        assert response.status_code == status
        return unescape(response.text)

    def does(
        self,
        move: str,
        status: int = 303,
        answer: str | None = None,
        language: str = "en",
        prediction: str | None = None,
    ) -> str:
        said = {"answer": answer, "prediction": prediction}
        data = {name: value for name, value in said.items() if value is not None}
        spoken = {"Accept-Language": language}
        response = self.client.post(f"{self.link}/{move}", data=data, headers=spoken)
        if move == "review" and response.status_code == 303:
            response = self.client.get(response.headers["location"], headers=spoken)
        assert response.status_code == status
        if status == 303:
            assert response.headers["location"].partition("?")[0] == self.link
        return unescape(response.text)

    def answers(self, value: float) -> None:
        self.does("consent")
        self.does("submit", answer=str(value))

    def stored(self) -> float | None:
        """Her answer in the database."""
        with self.here.service.database.reading() as session:
            found = said(session, self.study.study_id, self.player)
            return None if found is None else found.value

    @property
    def code(self) -> str:
        found = re.search(r"[A-Z2-7]{4}-[A-Z2-7]{4}", self.sees())
        assert found
        return found.group()


def everything(here: Served) -> dict[str, list[Any]]:
    """All that the database holds, with answers as they were given: sealed they look different each time."""
    with here.service.database.reading() as session:
        held = {
            name: sorted(map(repr, session.execute(select(table)).all()))
            for name, table in Table.metadata.tables.items()
        }
        given = session.scalars(select(Answer)).all()
        spoken = {(row.study_id, row.player): open_answer(here.service.database.seals, row) for row in given}
        return held | {"answers": sorted(map(repr, spoken.items()))}

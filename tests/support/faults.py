"""Studies on a service that is killed again and again: while people answer, and while it closes, settles, publishes.

At the end of each study no acknowledged answer is lost or altered, one release was ever seen, the ledger has one
entry, everybody is due what the release implies, and no file is left over.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from support.lives import Lives, until
from support.serving import WITHOUT_FEATURES, Asked, asked, owner
from truthful.release import Receipt, Release, verify
from truthful.service.locations import Settings
from truthful.service.pages import Service
from truthful.service.settle_study import Settler
from truthful.service.signing import COOKIE
from truthful.store import accounts, answers, studies
from truthful.store.studies import RECEIPT_STEPS
from truthful.store.tables import State

PLAYERS, BROWSERS = 24, 4
#: What is left beside a settled study, and in its settlement.
FILES = {
    "study.toml",
    "plan.json",
    "answers.key",
    "closed.json",
    "ledger.json",
    ".ledger.lock",
    ".settling.lock",
    "settlement",
}
SETTLEMENT = {"release.json", "report.html", "books.sealed"}
#: Kills of each kind in one study, and within how many seconds of the beginning of what they interrupt.
KILLS = {"answering": (2, 0.4), "closing": (1, 0.03), "settling": (3, 0.8), "publishing": (1, 0.03)}


@dataclass
class Person:
    """What one participant has been told, and what she tried without being told anything: either may be so."""

    link: str
    code: str = ""
    possible: set[float | None] = field(default_factory=lambda: {None})
    acknowledged: int = 0

    def move(self, browser: httpx2.Client, chance: random.Random) -> bool:
        """Answer, change her answer, or take it back; whether the study still takes answers."""
        value = None if chance.random() < 0.05 else round(chance.uniform(0, 200), 3)
        self.possible.add(value)
        if value is None:
            told = self._told(browser, "withdraw")
        else:
            told = self._told(browser, "consent") and self._told(browser, "submit", answer=f"{value}")
        if told:
            self.possible = {value}
            self.acknowledged += 1
        return told

    def _told(self, browser: httpx2.Client, move: str, **form: str) -> bool:
        """Make a move, with the code that she was told last; whether it was acknowledged."""
        response = browser.post(f"/a/{self.link}/{move}", data=form, headers={"Cookie": f"code={self.code}"})
        if response.status_code == 503:  # the database was away
            raise httpx2.TransportError("A page failed.")
        assert response.status_code in (303, 404, 409), response.text
        self.code = response.cookies.get("code") or self.code
        return response.status_code == 303


@dataclass(frozen=True)
class Theatre:
    """A service under fire, and what was done to it."""

    lives: Lives
    service: Service
    chance: random.Random
    end_database: Callable[[], None] | None = None
    killed: Counter[str] = field(default_factory=Counter)
    acknowledged: list[int] = field(default_factory=list)

    def study(self) -> None:
        """One study from its first answer to its publication, killed on the way, and checked."""
        study = asked(self.service, WITHOUT_FEATURES, PLAYERS)
        cast = {player: Person(link) for player, link in study.links.items()}
        seen: set[str] = set()
        crowd = [
            threading.Thread(
                target=self._browse, args=(list(cast.values())[k::BROWSERS], self.chance.random())
            )
            for k in range(BROWSERS)
        ]
        with self._analyst() as analyst:
            self.lives.start()
            for thread in crowd:
                thread.start()
            self._interrupt("answering", lambda: None)
            self._end_database()
            until(lambda: sum(person.acknowledged for person in cast.values()) >= PLAYERS)
            path = f"/studies/{study.study_id}"
            self._interrupt("closing", lambda: _try(analyst, f"{path}/close", name=study.plan.study.name))
            # It is refused, as often as need be, while fewer are known to have answered than a study is closed with.
            until(
                lambda: (
                    _try(analyst, f"{path}/close", name=study.plan.study.name)
                    and self._past(study, State.OPEN)
                )
            )
            self._interrupt("settling", lambda: None, lambda: self._look(study, seen))
            until(lambda: self._settled(analyst, study))
            self._look(study, seen)
            self._interrupt("publishing", lambda: _try(analyst, f"{path}/publish"))
            until(lambda: _try(analyst, f"{path}/publish") or self._past(study, State.SETTLED))
            for thread in crowd:
                thread.join()
            self._look(study, seen)
            self.lives.kill()
        self.killed["at the end"] += 1
        self.acknowledged.append(sum(person.acknowledged for person in cast.values()))
        require_whole(self.service, study, cast, seen)

    def _interrupt(
        self, phase: str, begin: Callable[[], object], look: Callable[[], None] = lambda: None
    ) -> None:
        """Kill the service soon after something begins, start it again, and so on."""
        kills, seconds = KILLS[phase]
        for _ in range(kills):
            act = threading.Thread(target=begin)
            act.start()
            time.sleep(self.chance.uniform(0, seconds))
            self.lives.kill()
            self.killed[phase] += 1
            act.join()
            look()
            self.lives.start()

    def _end_database(self) -> None:
        """Kill the database's own server while people answer, where it has one; the service goes on."""
        if self.end_database is not None:
            time.sleep(self.chance.uniform(0, 0.4))
            self.end_database()
            self.service.database.engine.dispose()
            self.killed["of PostgreSQL"] += 1

    def _browse(self, people: list[Person], seed: float) -> None:
        """Some of the people, one move after the other, until the study takes no more."""
        chance = random.Random(seed)
        with httpx2.Client(base_url=self.lives.url, timeout=30) as browser:
            while True:
                try:
                    if not chance.choice(people).move(browser, chance):
                        return
                except httpx2.TransportError:
                    time.sleep(0.01)

    def _analyst(self) -> httpx2.Client:
        with self.service.database.writing() as session:
            token = accounts.sign_in(session, owner(session))
        return httpx2.Client(base_url=self.lives.url, cookies={COOKIE: token}, timeout=30)

    def _past(self, study: Asked, state: State) -> bool:
        with self.service.database.reading() as session:
            found = studies.find(session, study.study_id)
            assert found.problem is None, found.problem
            return list(State).index(found.state) > list(State).index(state)

    def _settled(self, analyst: httpx2.Client, study: Asked) -> bool:
        """Whether the study is; if less can be guaranteed than was promised, that is accepted on the way."""
        with self.service.database.reading() as session:
            found = studies.find(session, study.study_id)
        if found.refused is not None and not found.accepts_less:
            _try(analyst, f"/studies/{study.study_id}/accept")
        return self._past(study, State.CLOSED)

    def _look(self, study: Asked, seen: set[str]) -> None:
        """Every release that there is to be seen."""
        path = self.service.locations.settlement(study.study_id) / "release.json"
        if path.exists():
            seen.add(path.read_text("utf-8"))
        with self.service.database.reading() as session:
            if (stored := studies.find(session, study.study_id).release) is not None:
                seen.add(stored)


def _try(analyst: httpx2.Client, path: str, **form: str) -> bool:
    """Post a form; whether an answer came."""
    try:
        response = analyst.post(path, data=form)
    except httpx2.TransportError:
        return False
    assert response.status_code in (303, 409, 503), response.text
    return response.status_code != 503


def require_whole(service: Service, study: Asked, cast: dict[str, Person], seen: set[str]) -> None:
    """All that must hold of a study, whatever was killed when."""
    with service.database.reading() as session:
        found = studies.find(session, study.study_id)
        assert found.state == State.PUBLISHED
        stored = {player: value for player, _, value, _ in answers.reports(session, study.study_id)}
        rows = list(studies.payments(session, study.study_id))
        assert seen == {found.release}
    for player, person in cast.items():
        assert stored.get(player) in person.possible, (player, stored.get(player), person.possible)
    release = Release.model_validate_json(found.release or "")
    assert release.players == len(stored)
    assert {row.player for row in rows} == set(stored)
    for row in rows:
        receipt = Receipt(
            player=row.player,
            features=study.features[row.player],
            report=stored[row.player],
            payment=row.millionths / 1e6,
            **{name: getattr(row, name) for name in RECEIPT_STEPS},
        )
        assert verify(release, receipt).verified, row.player
    directory = service.locations.study(study.study_id)
    assert len(json.loads((directory / "ledger.json").read_text())["releases"]) == 1
    assert {path.name for path in directory.iterdir()} == FILES
    assert {path.name for path in (directory / "settlement").iterdir()} == SETTLEMENT


def run(
    directory: Path,
    url: str,
    studies: int,
    seed: int,
    seconds: float = math.inf,
    end_database: Callable[[], None] | None = None,
) -> Theatre:
    """That many studies in a row on one service, or as many as there is time for."""
    settings, until_then = Settings(directory, database=url), time.monotonic() + seconds
    settings.locations.make()
    database = settings.open_database()
    service = Service(settings, database, Settler(database, settings.locations))
    with Lives(directory, url) as lives:
        theatre = Theatre(lives, service, random.Random(seed), end_database)
        while len(theatre.acknowledged) < studies and time.monotonic() < until_then:
            theatre.study()
    database.close()
    return theatre

"""What is sealed in a database, looked at and changed by whoever has the keys; what files hold; and being killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from support.serving import Served
from truthful.store.answers import ANSWER, OpenedAnswer, code_of, open_answer, pack
from truthful.store.database import Database
from truthful.store.seals import Seals, new_secret, seals_of
from truthful.store.studies import DUE, OpenedDue, open_due, pack_due
from truthful.store.tables import Answer, Due, Player, StoredStudy


def keyed(url: str, directory: Path) -> Database:
    """A database with keys of its own, which are below the directory."""
    return Database(url, Seals(directory / "studies", (new_secret(),)))


def said(session: Session, study_id: str, player: str) -> OpenedAnswer | None:
    row = session.get(Answer, (study_id, player))
    return None if row is None else open_answer(seals_of(session), row)


def say(session: Session, study_id: str, player: str, value: float) -> None:
    """Put another answer in the place of hers."""
    key = seals_of(session).key(study_id, _seal(session, study_id))
    row = session.get_one(Answer, (study_id, player))
    row.sealed = key.seal(ANSWER, player, pack(OpenedAnswer(value, None)))


def due(session: Session, study_id: str, player: str) -> OpenedDue:
    return open_due(seals_of(session), session.get_one(Due, (study_id, player)))


def owe(session: Session, study_id: str, changed: OpenedDue) -> None:
    """Put another payment in the place of hers."""
    key = seals_of(session).key(study_id, _seal(session, study_id))
    session.get_one(Due, (study_id, changed.player)).sealed = key.seal(DUE, changed.player, pack_due(changed))


def codes(session: Session, study_id: str) -> dict[str, str | None]:
    players = session.scalars(select(Player).where(Player.study_id == study_id))
    return {player.player: code_of(session, player) for player in players}


def _seal(session: Session, study_id: str) -> str:
    return session.get_one(StoredStudy, study_id).seal or ""


def files(here: Served, directory: Path) -> Iterator[Path]:
    """Every file of a service and of its database, PostgreSQL's own among them."""
    yield from (path for path in directory.rglob("*") if path.is_file())
    if not here.service.database.is_sqlite:
        with here.service.database.reading() as session:
            session.execute(text("CHECKPOINT"))
            of_server = Path(session.scalar(text("SHOW data_directory")) or "")
        yield from (path for path in of_server.rglob("*") if path.is_file())


def found_in(paths: Iterator[Path], wanted: set[bytes]) -> set[tuple[str, bytes]]:
    """What stands in which files. All of it is looked for at once, wherever two bytes stand that begin any."""
    begins, length = np.zeros(1 << 16, bool), min(map(len, wanted))
    begins[[one[0] | one[1] << 8 for one in wanted]] = True
    beginning: dict[bytes, list[bytes]] = {}
    for one in wanted:
        beginning.setdefault(one[:length], []).append(one)
    found = set()
    for path in paths:
        content = path.read_bytes()
        each = np.frombuffer(content, np.uint8).astype(np.uint16)
        for at in np.flatnonzero(begins[each[:-1] | each[1:] << 8]).tolist():
            for one in beginning.get(content[at : at + length], ()):
                if content.startswith(one, at):
                    found.add((path.name, one))
    return found


class Killed(BaseException):
    """As a program is that does nothing more."""


def dying(real: Callable[..., object], steps: Iterator[int], last: int) -> Callable[..., object]:
    def step(*given: object) -> object:
        if next(steps, None) == last:
            raise Killed
        return real(*given)

    return step

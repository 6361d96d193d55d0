"""What is sealed in a database, looked at and changed by whoever has the keys."""

from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from truthful.store.answers import ANSWER, OpenedAnswer, code_of, opened, pack
from truthful.store.database import Database
from truthful.store.seals import Seals, new_secret, seals_of
from truthful.store.studies import DUE, OpenedDue, opened_due, pack_due
from truthful.store.tables import Answer, Due, Player, StoredStudy


def keyed(url: str, directory: Path) -> Database:
    """A database with keys of its own, which are below the directory."""
    return Database(url, Seals(directory / "studies", (new_secret(),)))


def said(session: Session, study_id: str, player: str) -> OpenedAnswer | None:
    row = session.get(Answer, (study_id, player))
    return None if row is None else opened(seals_of(session), row)


def say(session: Session, study_id: str, player: str, value: float) -> None:
    """Put another answer in the place of hers."""
    key = seals_of(session).key(study_id, _seal(session, study_id))
    row = session.get_one(Answer, (study_id, player))
    row.sealed = key.seal(ANSWER, player, pack(OpenedAnswer(value, None)))


def due(session: Session, study_id: str, player: str) -> OpenedDue:
    return opened_due(seals_of(session), session.get_one(Due, (study_id, player)))


def owe(session: Session, study_id: str, changed: OpenedDue) -> None:
    """Put another payment in the place of hers."""
    key = seals_of(session).key(study_id, _seal(session, study_id))
    session.get_one(Due, (study_id, changed.player)).sealed = key.seal(DUE, changed.player, pack_due(changed))


def codes(session: Session, study_id: str) -> dict[str, str | None]:
    players = session.scalars(select(Player).where(Player.study_id == study_id))
    return {player.player: code_of(session, player) for player in players}


def _seal(session: Session, study_id: str) -> str:
    return session.get_one(StoredStudy, study_id).seal or ""

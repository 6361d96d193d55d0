"""The audit log: who did what, when. It holds no answer, no amount, no link and no address."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from truthful.store.tables import Event


def log(session: Session, who: str, what: str, survey_id: str | None = None) -> None:
    """Add an event, in the transaction that does what it tells."""
    session.add(Event(time=datetime.now(UTC), who=who, what=what, survey_id=survey_id))


def events(session: Session, survey_id: str | None = None, *, most: int = 200) -> list[Event]:
    """The latest events, of one study or of all."""
    wanted = select(Event).order_by(Event.id.desc()).limit(most)
    return list(session.scalars(wanted if survey_id is None else wanted.where(Event.survey_id == survey_id)))

"""The life of a study: draft → open → closed → settled → published. Every step is a compare-and-set.

A closed study that could promise less than it did may be opened again, or cancelled; nothing has been drawn then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session, defer

from truthful.errors import Refused
from truthful.store.log import log
from truthful.store.tables import Answer, Player, State, Survey
from truthful.store.tokens import new_name

#: What each step is called in the log, and the column that says when it was made.
STEPS = {
    State.OPEN: ("froze", "frozen"),
    State.CLOSED: ("closed", "closed"),
    State.SETTLED: ("settled", "settled"),
    State.PUBLISHED: ("published", "published"),
    State.CANCELLED: ("cancelled", "settled"),
}
#: After these, payments are due.
ENDED = (State.SETTLED, State.PUBLISHED, State.CANCELLED)
#: While people answer, progress is told in steps of so many; a study for fewer, or closed by fewer, would tell of each.
COARSE = 10
_BEFORE = {**dict(zip(list(State)[1:], State, strict=False)), State.CANCELLED: State.CLOSED}


class Unknown(Refused):
    """There is no such study."""


class NotNow(Refused):
    """The study is in another state than the one asked for: somebody was quicker, or it is too late."""


def create(session: Session, who: str, draft: dict[str, Any]) -> Survey:
    """A new draft."""
    survey = Survey(
        id=new_name(),
        name=str(draft.get("name", "")),
        state=State.DRAFT,
        draft=draft,
        rehearsal=False,
        created=datetime.now(UTC),
    )
    session.add(survey)
    log(session, who, "created", survey.id)
    return survey


def find(session: Session, survey_id: str) -> Survey:
    survey = session.get(Survey, survey_id)
    if survey is None:
        raise Unknown("There is no such study.")
    return survey


def everything(session: Session) -> list[Survey]:
    """All studies, the newest first. Their files take room, and are read when one asks for them in the session."""
    light = [defer(column) for column in (Survey.plan, Survey.release, Survey.report)]
    return list(session.scalars(select(Survey).options(*light).order_by(Survey.created.desc(), Survey.id)))


def drafted(session: Session, survey_id: str) -> Survey:
    """A study that may still be changed, locked for the rest of the transaction."""
    survey = session.get(Survey, survey_id, with_for_update=True)
    if survey is None:
        raise Unknown("There is no such study.")
    return require_draft(survey)


def remove(session: Session, survey_id: str, who: str) -> None:
    """Throw a draft away, and the people brought to it. What is frozen stays."""
    survey = drafted(session, survey_id)
    session.execute(delete(Player).where(Player.survey_id == survey_id))
    session.delete(survey)
    log(session, who, "removed a draft", survey_id)


def require_draft(survey: Survey) -> Survey:
    if survey.state != State.DRAFT:
        raise NotNow("This study is frozen: nothing it declares can change. Create a new one instead.")
    return survey


def step(session: Session, survey_id: str, to: State, who: str, **values: Any) -> None:
    """Make one step, if the study is where it begins; of two who try at once, one is refused."""
    what, when = STEPS[to]
    moved = session.execute(
        update(Survey)
        .where(Survey.id == survey_id, Survey.state == _BEFORE[to])
        .values({"state": to, when: datetime.now(UTC), **values})
    )
    if not moved.rowcount:  # type: ignore[attr-defined]
        survey = find(session, survey_id)
        raise NotNow(f"The study is {survey.state}; only one that is {_BEFORE[to]} can become {to}.")
    log(session, who, what, survey_id)


def note_problem(session: Session, survey_id: str, problem: str) -> None:
    """Why settling stopped, to be seen by the analyst; nothing, if another has settled the study meanwhile."""
    session.execute(
        update(Survey).where(Survey.id == survey_id, Survey.state == State.CLOSED).values(problem=problem)
    )


def note_refusal(session: Session, survey_id: str, refused: dict[str, Any]) -> None:
    """What can be guaranteed for those who answered is less than was promised. The analyst decides what to do."""
    session.execute(
        update(Survey)
        .where(Survey.id == survey_id, Survey.state == State.CLOSED, ~Survey.accepts_less)
        .values(refused=refused, problem=None)
    )


def accept_less(session: Session, survey_id: str, who: str) -> None:
    """Settle all the same, with what can be promised for those who answered."""
    _decide(session, survey_id, Survey.refused.is_not(None), accepts_less=True)
    log(session, who, "accepted less", survey_id)


def reopen(session: Session, survey_id: str, who: str) -> None:
    """Take answers again."""
    stopped = or_(Survey.refused.is_not(None), Survey.problem.is_not(None))
    _decide(session, survey_id, stopped, state=State.OPEN, closed=None, refused=None, problem=None)
    log(session, who, "opened again", survey_id)


def _decide(session: Session, survey_id: str, waits: ColumnElement[bool], **values: Any) -> None:
    """What becomes of a closed study that waits for it, once; of two who decide at once, one is refused."""
    decided = session.execute(
        update(Survey)
        .where(Survey.id == survey_id, Survey.state == State.CLOSED, ~Survey.accepts_less, waits)
        .values(values)
    )
    if not decided.rowcount:  # type: ignore[attr-defined]
        find(session, survey_id)
        raise NotNow("There is nothing to decide: the study is not closed, is being settled, or has ended.")


def to_settle(session: Session) -> list[str]:
    """Closed studies, the first closed first, but for those that wait for a decision."""
    waiting = or_(Survey.refused.is_(None), Survey.accepts_less)
    closed = select(Survey.id).where(Survey.state == State.CLOSED, waiting)
    return list(session.scalars(closed.order_by(Survey.closed)))


def in_state(session: Session, state: State) -> list[str]:
    """The studies in a state, those that were closed first before others."""
    return list(session.scalars(select(Survey.id).where(Survey.state == state).order_by(Survey.closed)))


def progress(session: Session, survey: Survey) -> dict[str, int]:
    """All that an analyst sees of people's progress.

    While a study is open, who agreed and who answered are told as the tens below them: with exact numbers she could
    invite one person after the other, and see of each whether she has answered.
    """
    found = counts(session, survey.id)
    if survey.state == State.OPEN:
        found |= {name: found[name] // COARSE * COARSE for name in ("consented", "answered")}
    return found


def counts(session: Session, survey_id: str) -> dict[str, int]:
    """How far people are, exactly."""

    def count(*where: Any) -> int:
        return (
            session.scalar(
                select(func.count()).select_from(Player).where(Player.survey_id == survey_id, *where)
            )
            or 0
        )

    return {
        "roster": count(),
        "invited": count(Player.link.is_not(None)),
        "consented": count(Player.consented.is_not(None)),
        "disputed": count(Player.disputed),
        "answered": session.scalar(
            select(func.count()).select_from(Answer).where(Answer.survey_id == survey_id)
        )
        or 0,
    }

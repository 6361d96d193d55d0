"""A player's own moves: consent, an answer, a change of mind. All of them end when the study closes.

Each takes a shared lock on the study, which closing takes for itself: a move is either wholly before the closing,
and counts, or is refused. The lock on the player makes two tabs and double clicks wait for each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from sqlalchemy import Executable, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from truthful.errors import InputError
from truthful.store.surveys import NotNow
from truthful.store.tables import Answer, Player, State, Survey, Table
from truthful.store.tokens import hashed, receipt_code


class TooLate(NotNow):
    """The study has closed."""


class NotReady(NotNow):
    """She has not consented, or has said that her features are wrong."""


def consent(session: Session, token: str) -> None:
    player = _open_player(session, token)
    if player.disputed:
        raise NotReady("Consent is asked for once the features are right.")
    player.consented = player.consented or datetime.now(UTC)


def dispute(session: Session, token: str, wrong: bool) -> None:
    """Say that one's features are wrong, or that they are right after all. An answer given before is taken back."""
    player = _open_player(session, token)
    player.disputed = wrong
    if wrong:
        player.consented = None
        _remove(session, player)


class Unfit(InputError):
    """The study does not take such an answer."""


def submit(
    session: Session, token: str, value: float, fits: Callable[[str], bool] = lambda survey_id: True
) -> str:
    """Give or change an answer; the code stays the same. It counts once the transaction has ended.

    Which study it is comes back from the database: one whose range the answer does not fit undoes it by an error.
    """
    given = {"link": hashed(token), "value": value, "code": receipt_code()}
    kept = session.execute(_submission(session.get_bind().dialect.name), given).first()
    if kept is None:
        _open_player(session, token)
        raise NotReady("An answer is taken after consent, for features that are right.")
    if not fits(kept.survey_id):
        raise Unfit("The answer is outside the range of the study.")
    return str(kept.code)


def withdraw(session: Session, token: str) -> None:
    """Take back answer and consent: as if she had never come."""
    player = _open_player(session, token)
    player.consented = None
    _remove(session, player)


def answer_of(session: Session, player: Player) -> Answer | None:
    return session.get(Answer, (player.survey_id, player.player))


def reports(session: Session, survey_id: str) -> Iterator[tuple[str, dict[str, object], float]]:
    """Everybody's player, features and answer, by player: for the settlement alone."""
    rows = (
        select(Player.player, Player.features, Answer.value)
        .join(Answer, (Answer.survey_id == Player.survey_id) & (Answer.player == Player.player))
        .where(Player.survey_id == survey_id)
        .order_by(Player.player)
    )
    yield from session.execute(rows).yield_per(10_000)


def fingerprint(session: Session, survey_id: str) -> str:
    """A hash of all answers and features: two databases with the same one would settle the same study."""
    whole = hashlib.sha256()
    for line in sorted(repr(report) for report in reports(session, survey_id)):
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()


@cache
def _submission(dialect: str) -> Executable:
    """An answer given or changed in one statement, which gives study and code; nothing, if she may not answer now."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
    # Tables, not their classes: the rows are not kept in the session, which takes longer than the database does.
    player, survey, answer = (Table.metadata.tables[name] for name in ("players", "surveys", "answers"))
    hers = (
        select(
            player.c.survey_id,
            player.c.player,
            bindparam("value", type_=answer.c.value.type),
            bindparam("code", type_=answer.c.code.type),
        )
        .join_from(player, survey, survey.c.id == player.c.survey_id)
        .where(
            player.c.link == bindparam("link"),
            player.c.consented.is_not(None),
            ~player.c.disputed,
            survey.c.state == State.OPEN,
        )
        .with_for_update(read=True)
    )
    given = insert(answer).from_select(["survey_id", "player", "value", "code"], hers)
    change = {"index_elements": ["survey_id", "player"], "set_": {"value": given.excluded.value}}
    statement: Executable = given.on_conflict_do_update(**change).returning(answer.c.survey_id, answer.c.code)
    return statement


def _open_player(session: Session, token: str) -> Player:
    """Whose link it is, locked, in a study that is open and stays so until the transaction ends."""
    found = session.execute(
        select(Player, Survey.state)
        .join(Survey, Survey.id == Player.survey_id)
        .where(Player.link == hashed(token))
        .with_for_update(read=True, of=Survey)
    ).first()
    if found is None or found[1] != State.OPEN:
        raise TooLate("Answers are not taken any more.")
    session.refresh(found[0], with_for_update=True)
    return found[0]


def _remove(session: Session, player: Player) -> None:
    session.execute(
        delete(Answer).where(Answer.survey_id == player.survey_id, Answer.player == player.player)
    )

"""A player's own moves: consent, an answer, a change of mind. All of them end when the study closes.

Each takes a shared lock on the study, which closing takes for itself: a move is either wholly before the closing,
and counts, or is refused. The lock on the player makes two tabs and double clicks wait for each other.

Links are handed out by the analyst, who could open them. So consenting gives a code, and an answer is seen, changed and
taken back only by who knows it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b32encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any, cast

from sqlalchemy import Executable, Select, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from truthful.errors import InputError
from truthful.store.accounts import hash_token
from truthful.store.studies import NotNow
from truthful.store.tables import Answer, ConsentDocument, Player, State, StoredStudy, Table

#: A player, her features, her answer, and what she thinks the others will say, if she was asked.
Reported = tuple[str, dict[str, object], float, float | None]
#: What of it is hers to say.
SAID = ("value", "prediction")
CLOSED = "Answers are not taken any more."
GIVEN_ELSEWHERE = "There is an answer already, given in another browser."


class TooLate(NotNow):
    """The study has closed."""


class NotReady(NotNow):
    """She has not consented, or has said that her features are wrong."""


class NotHers(NotNow):
    """There is an answer, and whoever this is does not know its code."""


class Unfit(InputError):
    """The study does not take such an answer."""


def consent(session: Session, token: str, code: str = "") -> str:
    """Take part; the code that her answer will be opened with. Who brings the code she has keeps it.

    Until there is an answer another browser may begin anew, with a code of its own.
    """
    player = _open_player(session, token)
    if player.disputed:
        raise NotReady("Consent is asked for once the features are right.")
    if player.code is not None and knows(player, code):
        return player.code
    _require_no_answer(session, player)
    player.code, player.consented = _receipt_code(), datetime.now(UTC)
    # The database looks it up as it writes the rest.
    shown = (
        select(ConsentDocument.sha256).where(ConsentDocument.study_id == player.study_id).scalar_subquery()
    )
    player.document = cast(str, shown)
    return player.code


def dispute(session: Session, token: str, wrong: bool, code: str = "") -> None:
    """Say that one's features are wrong, or that they are right after all. An answer given before is taken back."""
    player = _open_player(session, token)
    if wrong:
        _forget(session, player, code)
    player.disputed = wrong


def submit(
    session: Session,
    token: str,
    value: float,
    code: str,
    fits: Callable[[str], bool] = lambda study_id: True,
    prediction: float | None = None,
) -> None:
    """Give or change an answer, and the prediction that goes with it. They count once the transaction has ended.

    Which study it is comes back from the database: one that does not take them undoes it by an error.
    """
    given = {"link": hash_token(token), "value": value, "prediction": prediction, "code": code}
    kept = session.execute(_submission(session.get_bind().dialect.name), given).first()
    if kept is None:
        raise _why_not(session, token)
    if not fits(kept.study_id):
        raise Unfit("The study does not take this answer, or this prediction.")


def _why_not(session: Session, token: str) -> NotNow:
    """Why an answer is not taken, read without a lock.

    PostgreSQL may have locked the player for the statement and then found that she has changed meanwhile. Two who both
    asked for more than that lock would wait for each other for ever.
    """
    found = session.execute(
        select(Player, StoredStudy.state)
        .join(StoredStudy, StoredStudy.id == Player.study_id)
        .where(Player.link == hash_token(token))
    ).first()
    if found is None or found[1] != State.OPEN:
        return TooLate(CLOSED)
    if answer_of(session, found[0]) is not None:
        return NotHers(GIVEN_ELSEWHERE)
    return NotReady("An answer is taken after consent, for features that are right.")


def withdraw(session: Session, token: str, code: str) -> None:
    """Take back answer and consent: as if she had never come."""
    _forget(session, _open_player(session, token), code)


def knows(player: Player, code: str) -> bool:
    """Whether this is the code that opens her answer."""
    return player.code is not None and hmac.compare_digest(
        player.code.encode(), code.encode("utf-8", "surrogatepass")
    )


def answer_of(session: Session, player: Player) -> Answer | None:
    return session.get(Answer, (player.study_id, player.player))


def reports(session: Session, study_id: str) -> Iterator[Reported]:
    """Everybody's player, features, answer and prediction, by player: for the settlement alone."""
    rows = _answered(study_id, Player.player, Player.features, Answer.value, Answer.prediction)
    yield from session.execute(rows)


def features(session: Session, study_id: str) -> list[dict[str, Any]]:
    """The features of those who answered, by player, and nothing of what they said."""
    return list(session.scalars(_answered(study_id, Player.features)))


def _answered(study_id: str, *columns: Any) -> Select[Any]:
    """These columns of everybody who answered, by player."""
    hers = (Answer.study_id == Player.study_id) & (Answer.player == Player.player)
    return select(*columns).join(Answer, hers).where(Player.study_id == study_id).order_by(Player.player)


def fingerprint(session: Session, study_id: str) -> str:
    """A hash of all answers and features: two databases with the same one would settle the same study."""
    whole = hashlib.sha256()
    for line in sorted(map(_line, reports(session, study_id))):
        whole.update(line.encode() + b"\n")
    return whole.hexdigest()


def _line(report: Reported) -> str:
    """A report without a prediction as it was written before there were any: studies closed then keep their hash."""
    return repr(report).removesuffix(", None)") + ("" if report[3] is not None else ")")


@cache
def _submission(dialect: str) -> Executable:
    """An answer given or changed in one statement, which gives the study; nothing, if she may not answer now."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
    # Tables, not their classes: the rows are not kept in the session, which takes longer than the database does.
    player, study, answer = (Table.metadata.tables[name] for name in ("players", "surveys", "answers"))
    hers = (
        select(
            player.c.study_id,
            player.c.player,
            *(bindparam(name, type_=answer.c[name].type) for name in SAID),
        )
        # The study first: who changes a roster locks the study before its players, and would wait for us for ever.
        .join_from(study, player, study.c.id == player.c.study_id)
        .where(
            player.c.link == bindparam("link"),
            player.c.code == bindparam("code"),
            player.c.consented.is_not(None),
            ~player.c.disputed,
            study.c.state == State.OPEN,
        )
        .with_for_update(read=True)
    )
    given = insert(answer).from_select(["study_id", "player", *SAID], hers)
    change = {
        "index_elements": [answer.c.study_id, answer.c.player],
        "set_": {name: given.excluded[name] for name in SAID},
    }
    statement: Executable = given.on_conflict_do_update(**change).returning(answer.c.study_id)
    return statement


def _receipt_code() -> str:
    """What opens a player's answer to her alone: as 7KQ4-M2XD, easy to write down. Forty bits: tries are limited."""
    letters = b32encode(secrets.token_bytes(5)).decode()
    return f"{letters[:4]}-{letters[4:]}"


def _open_player(session: Session, token: str) -> Player:
    """Whose link it is, locked, in a study that is open and stays so until the transaction ends."""
    found = session.execute(
        select(Player, StoredStudy.state)
        .join(StoredStudy, StoredStudy.id == Player.study_id)
        .where(Player.link == hash_token(token))
        .with_for_update(read=True, of=StoredStudy)
    ).first()
    if found is None or found[1] != State.OPEN:
        raise TooLate(CLOSED)
    session.refresh(found[0], with_for_update=True)
    return found[0]


def _require_no_answer(session: Session, player: Player) -> None:
    if answer_of(session, player) is not None:
        raise NotHers(GIVEN_ELSEWHERE)


def _forget(session: Session, player: Player, code: str) -> None:
    """Remove consent, code and answer; an answer is removed only by who knows its code."""
    if not knows(player, code):
        _require_no_answer(session, player)
    player.consented = player.code = player.document = None
    session.execute(delete(Answer).where(Answer.study_id == player.study_id, Answer.player == player.player))

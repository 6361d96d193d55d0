"""A player's own moves: consent, an answer, a change of mind. All of them end when the study closes.

Each takes a shared lock on the study, which closing takes for itself: a move is either wholly before the closing,
and counts, or is refused. The lock on the player makes two tabs and double clicks wait for each other.

Links are handed out by the analyst, who could open them. So consenting gives a code, and an answer is seen, changed and
taken back only by who knows it.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from base64 import b32encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from struct import Struct
from typing import Any, cast

from sqlalchemy import Executable, Select, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from truthful.errors import InputError
from truthful.store.accounts import hash_token
from truthful.store.seals import Seals, Whose, seals_of
from truthful.store.studies import NotNow
from truthful.store.tables import Answer, ConsentDocument, Player, State, StoredStudy, Table

#: A player, her features, her answer, and what she thinks the others will say, if she was asked.
Reported = tuple[str, dict[str, object], float, float | None]
CLOSED = "Answers are not taken any more."
GIVEN_ELSEWHERE = "There is an answer already, given in another browser."


@dataclass(frozen=True)
class OpenedAnswer:
    """What a player reported, in raw units, and what she thinks the others will say, if she is asked."""

    value: float
    prediction: float | None


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
    if knows(code_of(session, player), code):
        return code
    _require_no_answer(session, player)
    given = _receipt_code()
    player.sealed_code, player.consented = _seal_code(session, player, given), datetime.now(UTC)
    # The database looks it up as it writes the rest.
    shown = (
        select(ConsentDocument.sha256).where(ConsentDocument.study_id == player.study_id).scalar_subquery()
    )
    player.document = cast(str, shown)
    return given


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
    link, given = hash_token(token), OpenedAnswer(value, prediction)
    place = seals_of(session).place(link)
    if place is None or not _write(session, link, place, given, code):
        # Nobody has looked at her pages in this process, or the study has another key by now.
        place = _place(session, link)
        if place is None or not _write(session, link, place, given, code):
            raise _why_not(session, token)
    if not fits(place.study_id):
        raise Unfit("The study does not take this answer, or this prediction.")


def _place(session: Session, link: str) -> Whose | None:
    """Where an answer by this link goes, remembered for the next one."""
    found = session.execute(
        select(Player.study_id, Player.player, StoredStudy.seal)
        .join(StoredStudy, StoredStudy.id == Player.study_id)
        .where(Player.link == link, StoredStudy.seal.is_not(None))
    ).first()
    if found is None:
        return None
    place = Whose(found[0], found[1], found[2] or "")
    seals_of(session).remember(link, place)
    return place


def _write(session: Session, link: str, place: Whose, given: OpenedAnswer, code: str) -> bool:
    """Keep an answer, if it may be given and this is where it goes."""
    key = seals_of(session).key(place.study_id, place.seal)
    values = {
        "link": link,
        "player": place.player,
        "seal": place.seal,
        "code": key.seal_code(place.player, code),
        "sealed": key.seal(ANSWER, place.player, pack(given)),
    }
    statement = _submission(session.get_bind().dialect.name)
    return session.execute(statement, values).first() is not None


def _why_not(session: Session, token: str) -> NotNow:
    """Why an answer is not taken, read without a lock; to a stranger with the link it is the same if there is one.

    PostgreSQL may have locked the player for the statement and then found that she has changed meanwhile. Two who both
    asked for more than that lock would wait for each other for ever.
    """
    state = session.scalar(
        select(StoredStudy.state)
        .join(Player, Player.study_id == StoredStudy.id)
        .where(Player.link == hash_token(token))
    )
    if state != State.OPEN:
        return TooLate(CLOSED)
    return NotReady("An answer is taken after consent, for features that are right.")


def withdraw(session: Session, token: str, code: str) -> None:
    """Take back answer and consent: as if she had never come."""
    _forget(session, _open_player(session, token), code)


def knows(kept: str | None, code: str) -> bool:
    """Whether this is the code that opens her answer."""
    return kept is not None and hmac.compare_digest(kept.encode(), code.encode("utf-8", "surrogatepass"))


def code_of(session: Session, player: Player) -> str | None:
    """The code that opens her answer, once she has one."""
    if player.sealed_code is None:
        return None
    return seals_of(session).open_code(player.study_id, player.player, player.sealed_code)


def opened(seals: Seals, row: Answer) -> OpenedAnswer:
    return unpack(seals.open(row.study_id, ANSWER, row.player, row.sealed))


#: What a sealed answer is called where it is bound to its row.
ANSWER = "answer"
_NUMBERS = Struct(">dd")


def pack(answer: OpenedAnswer) -> bytes:
    """As bytes, always as many; no prediction is not a number."""
    return _NUMBERS.pack(answer.value, math.nan if answer.prediction is None else answer.prediction)


def unpack(plain: bytes) -> OpenedAnswer:
    value, prediction = _NUMBERS.unpack(plain)
    return OpenedAnswer(value, None if math.isnan(prediction) else prediction)


def answer_of(session: Session, player: Player) -> Answer | None:
    return session.get(Answer, (player.study_id, player.player))


def reports(session: Session, study_id: str) -> Iterator[Reported]:
    """Everybody's player, features, answer and prediction, by player: for the settlement alone."""
    seals = seals_of(session)
    for features, row in session.execute(_answered(study_id, Player.features, Answer)):
        answer = opened(seals, row)
        yield row.player, features, answer.value, answer.prediction


def in_order(session: Session, study_id: str) -> list[Reported]:
    """The same in an order that no database's own rules for letters change."""
    return sorted(reports(session, study_id), key=lambda report: report[0])


def features(session: Session, study_id: str) -> list[dict[str, Any]]:
    """The features of those who answered, by player, and nothing of what they said."""
    return list(session.scalars(_answered(study_id, Player.features)))


def _answered(study_id: str, *columns: Any) -> Select[Any]:
    """These columns of everybody who answered, by player."""
    hers = (Answer.study_id == Player.study_id) & (Answer.player == Player.player)
    return select(*columns).join(Answer, hers).where(Player.study_id == study_id).order_by(Player.player)


def fingerprint(session: Session, study_id: str) -> str:
    """A hash of all answers and features: two databases with the same one would settle the same study.

    It takes a key, so that nobody can try out which answers have it.
    """
    whole = hmac.new(seals_of(session).hashing(study_id), digestmod=hashlib.sha256)
    for report in in_order(session, study_id):
        whole.update(f"{report!r}\n".encode())
    return whole.hexdigest()


def older_fingerprint(session: Session, study_id: str) -> str:
    """The hash as it was made before it took a key."""
    lines = sorted(
        repr(report if report[3] is not None else report[:3]) for report in reports(session, study_id)
    )
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def seal_again(session: Session, study_id: str, name: str) -> None:
    """Seal answers and codes with the key of this name."""
    seals, key = seals_of(session), seals_of(session).key(study_id, name)
    given = session.scalars(select(Answer).where(Answer.study_id == study_id)).all()
    for row in given:
        row.sealed = key.seal(ANSWER, row.player, seals.open(study_id, ANSWER, row.player, row.sealed))
    coded = select(Player).where(Player.study_id == study_id, Player.sealed_code.is_not(None))
    for player in session.scalars(coded).all():
        player.sealed_code = key.seal_code(player.player, code_of(session, player) or "")
    session.flush()


@cache
def _submission(dialect: str) -> Executable:
    """An answer given or changed in one statement, which gives the study; nothing, if she may not answer now."""
    insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
    # Tables, not their classes: the rows are not kept in the session, which takes longer than the database does.
    player, study, answer = (Table.metadata.tables[name] for name in ("players", "surveys", "answers"))
    hers = (
        select(player.c.study_id, player.c.player, bindparam("sealed", type_=answer.c.sealed.type))
        # The study first: who changes a roster locks the study before its players, and would wait for us for ever.
        .join_from(study, player, study.c.id == player.c.study_id)
        .where(
            player.c.link == bindparam("link"),
            player.c.player == bindparam("player"),
            player.c.sealed_code == bindparam("code"),
            player.c.consented.is_not(None),
            ~player.c.disputed,
            study.c.state == State.OPEN,
            study.c.seal == bindparam("seal"),
        )
        .with_for_update(read=True)
    )
    given = insert(answer).from_select(["study_id", "player", "sealed"], hers)
    change = {
        "index_elements": [answer.c.study_id, answer.c.player],
        "set_": {"sealed": given.excluded.sealed},
    }
    statement: Executable = given.on_conflict_do_update(**change).returning(answer.c.study_id)
    return statement


def _receipt_code() -> str:
    """What opens a player's answer to her alone: as 7KQ4-M2XD, easy to write down. Forty bits: a try is a request."""
    letters = b32encode(secrets.token_bytes(5)).decode()
    return f"{letters[:4]}-{letters[4:]}"


def _seal_code(session: Session, player: Player, code: str) -> bytes:
    """Under the key in use, which stays so until the transaction ends: the study is locked."""
    place = _place(session, player.link or "")
    if place is None:
        raise TooLate(CLOSED)
    return seals_of(session).key(place.study_id, place.seal).seal_code(player.player, code)


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
    if not knows(code_of(session, player), code):
        _require_no_answer(session, player)
    player.consented = player.sealed_code = player.document = None
    session.execute(delete(Answer).where(Answer.study_id == player.study_id, Answer.player == player.player))

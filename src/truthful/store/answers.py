"""A player's own moves: to consent, answer, change her answer and withdraw, until the study closes.

Each move takes a shared lock on the study, and closing an exclusive one: a move either ends before the closing, and
counts, or is refused. A lock on the player makes two tabs and double clicks take turns.

Links are handed out by the analyst, who could open them. So consenting yields a code, and only with this code can an
answer be seen, changed or withdrawn.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from base64 import b32encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from struct import Struct
from typing import Any

from sqlalchemy import Executable, Row, Select, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from truthful.errors import InputError
from truthful.store.accounts import hash_token
from truthful.store.seals import AnswerRow, Seals, seals_of
from truthful.store.studies import NotNow
from truthful.store.tables import Answer, ConsentDocument, Player, State, StoredStudy, Table

#: A player, her features, her answer, and her prediction if one was asked for.
Reported = tuple[str, dict[str, object], float, float | None]
CLOSED = "Answers are not taken any more."
GIVEN_ELSEWHERE = "There is an answer already, given in another browser."


@dataclass(frozen=True)
class OpenedAnswer:
    """A player's answer in raw units, and her prediction if one was asked for."""

    value: float
    prediction: float | None


class TooLate(NotNow):
    """The study has closed."""


class NotReady(NotNow):
    """The player has not consented, or disputes her features."""


class NotHers(NotNow):
    """There is an answer already, and the request does not have its code."""


class Unfit(InputError):
    """The answer or prediction is not one that the study takes."""


def consent(session: Session, token: str, code: str = "") -> str:
    """Note a player's consent; the code that will open her answer: a valid `code` is kept, otherwise a new one.

    Until there is an answer, another browser may consent anew and get a code of its own.
    """
    place = _open_place(session, hash_token(token))
    player = _locked_player(session, place)
    if player.disputed:
        raise NotReady("Consent is asked for once the features are right.")
    if knows(code_of(session, player), code):
        return code
    _require_no_answer(session, player)
    given = _receipt_code()
    sealed = seals_of(session).key(place.study_id, place.seal).seal_code(place.player, given)
    session.execute(_CONSENT, {**_hers(place), "sealed_code": sealed, "consented": datetime.now(UTC)})
    return given


def dispute(session: Session, token: str, wrong: bool, code: str = "") -> None:
    """Dispute a player's features, which withdraws her answer; or, with `wrong` false, end the dispute."""
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
    """Give or change an answer and its prediction. They count once the transaction has ended.

    The write returns the study, and only then does `fits` check the answer: `Unfit` undoes the transaction.
    """
    link, given = hash_token(token), OpenedAnswer(value, prediction)
    place = seals_of(session).place(link)
    if place is None or not _write(session, link, place, given, code):
        # Her link is not cached in this process, or the study has a new key since.
        place = _place(session, link)
        if place is None or not _write(session, link, place, given, code):
            raise _why_not(session, token)
    if not fits(place.study_id):
        raise Unfit("The study does not take this answer, or this prediction.")


def collect(session: Session, study_id: str, given: Mapping[str, OpenedAnswer]) -> None:
    """Consent and answer for these invented people, new to the study: all at once, which is much quicker."""
    study = session.execute(
        select(StoredStudy.seal, ConsentDocument.sha256)
        .outerjoin(ConsentDocument, ConsentDocument.study_id == StoredStudy.id)
        .where(StoredStudy.id == study_id, StoredStudy.state == State.OPEN)
        .with_for_update(read=True, of=StoredStudy)
    ).first()
    if study is None or study[0] is None:
        raise TooLate(CLOSED)
    key = seals_of(session).key(study_id, study[0])
    consent = {"consented": datetime.now(UTC), "document": study[1]}
    coded = [
        {
            "study_id": study_id,
            "player": player,
            "sealed_code": key.seal_code(player, _receipt_code()),
            **consent,
        }
        for player in given
    ]
    sealed = [
        {"study_id": study_id, "player": player, "sealed": key.seal(ANSWER, player, pack(answer))}
        for player, answer in given.items()
    ]
    if given:
        session.execute(update(Player), coded)
        session.execute(insert(Answer), sealed)


def _place(session: Session, link: str) -> AnswerRow | None:
    """The row that belongs to this link, looked up and cached."""
    found = session.execute(_PLACE, {"link": link}).first()
    return None if found is None else _remember(session, link, found)


def _remember(session: Session, link: str, found: Row[*tuple[Any, ...]]) -> AnswerRow:
    """Cache the row that belongs to this link."""
    place = AnswerRow(found.study_id, found.player, found.seal)
    seals_of(session).remember(link, place)
    return place


def _write(session: Session, link: str, place: AnswerRow, given: OpenedAnswer, code: str) -> bool:
    """Store an answer if the player may answer and `place` is current; whether it was stored."""
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
    """The reason why an answer was refused, read without locks. It does not reveal to others whether she has answered.

    PostgreSQL may have locked the player's row for the statement before finding it changed. Two transactions that both
    asked for a stronger lock now would deadlock.
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
    """Remove a player's answer and consent, as if she had never come."""
    _forget(session, _open_player(session, token), code)


def knows(kept: str | None, code: str) -> bool:
    """Whether `code` is the player's code, compared in constant time."""
    return kept is not None and hmac.compare_digest(kept.encode(), code.encode("utf-8", "surrogatepass"))


def code_of(session: Session, player: Player) -> str | None:
    """The code that opens a player's answer, or None before she has consented."""
    if player.sealed_code is None:
        return None
    return seals_of(session).open_code(player.study_id, player.player, player.sealed_code)


def open_answer(seals: Seals, row: Answer) -> OpenedAnswer:
    return unpack(seals.open(row.study_id, ANSWER, row.player, row.sealed))


#: The kind under which answers are sealed.
ANSWER = "answer"
_NUMBERS = Struct(">dd")


def pack(answer: OpenedAnswer) -> bytes:
    """An answer as bytes of constant length; a missing prediction is encoded as NaN."""
    return _NUMBERS.pack(answer.value, math.nan if answer.prediction is None else answer.prediction)


def unpack(plain: bytes) -> OpenedAnswer:
    value, prediction = _NUMBERS.unpack(plain)
    return OpenedAnswer(value, None if math.isnan(prediction) else prediction)


def reports(session: Session, study_id: str) -> Iterator[Reported]:
    """Player, features, answer and prediction of everybody who answered: for the settlement alone."""
    seals = seals_of(session)
    for features, row in session.execute(_select_answers(study_id, Player.features, Answer)):
        answer = open_answer(seals, row)
        yield row.player, features, answer.value, answer.prediction


def in_order(session: Session, study_id: str) -> list[Reported]:
    """All reports in an order that does not depend on the database's collation."""
    return sorted(reports(session, study_id), key=lambda report: report[0])


def features(session: Session, study_id: str) -> list[dict[str, Any]]:
    """The features of everybody who answered, in order of player, without their answers."""
    return list(session.scalars(_select_answers(study_id, Player.features)))


def _select_answers(study_id: str, *columns: Any) -> Select[Any]:
    """A query for these columns of everybody who answered, in order of player."""
    hers = (Answer.study_id == Player.study_id) & (Answer.player == Player.player)
    return select(*columns).join(Answer, hers).where(Player.study_id == study_id).order_by(Player.player)


def fingerprint(session: Session, study_id: str) -> str:
    """A keyed hash of all answers and features: databases with equal fingerprints settle alike.

    Without the key nobody can test guessed answers against it.
    """
    whole = hmac.new(seals_of(session).hashing(study_id), digestmod=hashlib.sha256)
    for report in in_order(session, study_id):
        whole.update(f"{report!r}\n".encode())
    return whole.hexdigest()


def older_fingerprint(session: Session, study_id: str) -> str:
    """The fingerprint of older versions, which had no key."""
    lines = sorted(
        repr(report if report[3] is not None else report[:3]) for report in reports(session, study_id)
    )
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def seal_again(session: Session, study_id: str, name: str) -> None:
    """Reseal all answers and codes with the key of this name."""
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
    """The statement that gives or changes an answer and returns its study, or no row if the player may not answer."""
    insertion: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect]
    # Tables, not mapped classes: tracking the rows in the session would take longer than the statement itself.
    player, study, answer = (Table.metadata.tables[name] for name in ("players", "surveys", "answers"))
    hers = (
        select(player.c.study_id, player.c.player, bindparam("sealed", type_=answer.c.sealed.type))
        # The study first: changes of a roster lock the study before its players, so the other order could deadlock.
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
    given = insertion(answer).from_select(["study_id", "player", "sealed"], hers)
    change = {
        "index_elements": [answer.c.study_id, answer.c.player],
        "set_": {"sealed": given.excluded.sealed},
    }
    statement: Executable = given.on_conflict_do_update(**change).returning(answer.c.study_id)
    return statement


def _receipt_code() -> str:
    """A code such as 7KQ4-M2XD, easy to write down. Forty bits suffice, because each attempt takes a request."""
    letters = b32encode(secrets.token_bytes(5)).decode()
    return f"{letters[:4]}-{letters[4:]}"


def _open_player(session: Session, token: str) -> Player:
    """The player with this link, locked, in a study that stays open until the transaction ends."""
    return _locked_player(session, _open_place(session, hash_token(token)))


def _open_place(session: Session, link: str) -> AnswerRow:
    """The row of this link, in a study that stays open, with this key, until the transaction ends."""
    found = session.execute(_OPEN_PLACE, {"link": link}).first()
    if found is None or found.state != State.OPEN:
        raise TooLate(CLOSED)
    return _remember(session, link, found)


def _locked_player(session: Session, place: AnswerRow) -> Player:
    """The player of this row, locked until the transaction ends."""
    found = session.scalar(_LOCKED_PLAYER, _hers(place))
    if found is None:
        raise TooLate(CLOSED)
    return found


def _hers(row: AnswerRow | Player) -> dict[str, str]:
    return {"of_study": row.study_id, "of_player": row.player}


def _require_no_answer(session: Session, player: Player) -> None:
    if session.scalar(_HER_ANSWER, _hers(player)) is not None:
        raise NotHers(GIVEN_ELSEWHERE)


def _forget(session: Session, player: Player, code: str) -> None:
    """Remove a player's consent, code and answer. If there is an answer, this needs its code."""
    if not knows(code_of(session, player), code):
        _require_no_answer(session, player)
    player.consented = player.sealed_code = player.document = None
    session.execute(delete(Answer).where(Answer.study_id == player.study_id, Answer.player == player.player))


# Statements of every visit, built once, on tables instead of mapped classes where nothing is to be tracked.
_PLAYERS, _STUDIES, _ANSWERS, _DOCUMENTS = (
    Table.metadata.tables[table.__tablename__] for table in (Player, StoredStudy, Answer, ConsentDocument)
)
_PLACE = (
    select(_PLAYERS.c.study_id, _PLAYERS.c.player, _STUDIES.c.seal, _STUDIES.c.state)
    .join_from(_STUDIES, _PLAYERS, _STUDIES.c.id == _PLAYERS.c.study_id)
    .where(_PLAYERS.c.link == bindparam("link"), _STUDIES.c.seal.is_not(None))
)
_OPEN_PLACE = _PLACE.with_for_update(read=True, of=_STUDIES)
_LOCKED_PLAYER = (
    select(Player)
    .where(Player.study_id == bindparam("of_study"), Player.player == bindparam("of_player"))
    .with_for_update()
    .execution_options(populate_existing=True)
)
_HER_ANSWER = select(_ANSWERS.c.player).where(
    _ANSWERS.c.study_id == bindparam("of_study"), _ANSWERS.c.player == bindparam("of_player")
)
_CONSENT = (
    update(_PLAYERS)
    .where(_PLAYERS.c.study_id == bindparam("of_study"), _PLAYERS.c.player == bindparam("of_player"))
    .values(
        sealed_code=bindparam("sealed_code"),
        consented=bindparam("consented"),
        # A subquery, so that the database looks the hash up in the same statement.
        document=select(_DOCUMENTS.c.sha256)
        .where(_DOCUMENTS.c.study_id == bindparam("of_study"))
        .scalar_subquery(),
    )
)

"""The life of a study: draft → open → closed → settled → published. Every step is a compare-and-set.

A closed study whose answers support weaker guarantees than promised may be reopened or cancelled: nothing is drawn yet.
The outcome of a settlement, the release and all payments, is stored in one transaction and read back.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from struct import Struct
from typing import Any

from sqlalchemy import ColumnElement, case, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session, defer

from truthful.coins import pays
from truthful.errors import InputError, Refused
from truthful.lattice import KeyedBits
from truthful.store.audit_log import log
from truthful.store.seals import Seals, Unreadable, seals_of
from truthful.store.tables import (
    Access,
    Account,
    Answer,
    ConsentDocument,
    Due,
    Mail,
    Player,
    Role,
    State,
    StoredStudy,
)

#: Each step's verb in the audit log, and the column of its time.
STEPS = {
    State.OPEN: ("froze", "frozen"),
    State.CLOSED: ("closed", "closed"),
    State.SETTLED: ("settled", "settled"),
    State.PUBLISHED: ("published", "published"),
    State.CANCELLED: ("cancelled", "settled"),
}
#: The final states, in which payments are due.
ENDED = (State.SETTLED, State.PUBLISHED, State.CANCELLED)
#: Analysts see counts of answers in steps of this size. A result from fewer people would reveal too much of each.
COARSE = 10
NOTHING_TO_DECIDE = "There is nothing to decide: the study is not closed, is being settled, or has ended."
_BEFORE = {**dict(zip(list(State)[1:], State, strict=False)), State.CANCELLED: State.CLOSED}


class Unknown(Refused):
    """There is no such study."""


class TooFew(Refused):
    """Too few people have answered to close the study."""


class NotNow(Refused):
    """The study is not in the state that the request needs: somebody was quicker, or it is too late."""


def create(session: Session, who: str, draft: dict[str, Any], owner: Account | None = None) -> StoredStudy:
    """A new draft of this analyst's; without an owner, nobody sees it until the operator shares it."""
    stored = StoredStudy(
        id=secrets.token_hex(6),  # part of public addresses: random, so it reveals nothing and is unique
        name=str(draft.get("name", "")),
        state=State.DRAFT,
        draft=draft,
        rehearsal=False,
        created=datetime.now(UTC),
    )
    session.add(stored)
    session.flush()
    if owner is not None:
        session.add(Access(study_id=stored.id, account_id=owner.id))
    log(session, who, "created", stored.id)
    return stored


def find(session: Session, study_id: str, *, lock: bool = False) -> StoredStudy:
    """The study with this id; with `lock`, locked for the rest of the transaction."""
    stored = session.get(StoredStudy, study_id, with_for_update=lock or None)
    if stored is None:
        raise Unknown("There is no such study.")
    return stored


def require_known(session: Session, study_id: str) -> None:
    """Refuse the operator's word for a study that does not exist, and list those that do."""
    known = {stored.id: stored.name for stored in list_studies(session)}
    if study_id not in known:
        listed = ", ".join(f"{known_id} ({name!r})" for known_id, name in known.items()) or "none yet"
        raise InputError(f"There is no study {study_id!r}. Studies here: {listed}.")


def list_studies(session: Session, account: Account | None = None) -> list[StoredStudy]:
    """All studies, or those that an account has access to, the newest first.

    Their files are large, so they are loaded only when accessed, within the session.
    """
    light = [defer(column) for column in (StoredStudy.plan, StoredStudy.release, StoredStudy.report)]
    newest = select(StoredStudy).order_by(StoredStudy.created.desc(), StoredStudy.id)
    if account is not None:
        newest = newest.join(Access, Access.study_id == StoredStudy.id).where(Access.account_id == account.id)
    return list(session.scalars(newest.options(*light)))


def without_account(session: Session) -> list[StoredStudy]:
    """Studies that no analyst has access to, the newest first."""
    let_in = select(Access.study_id).join(Account).where(Account.role == Role.ANALYST)
    found = select(StoredStudy).where(StoredStudy.id.not_in(let_in)).order_by(StoredStudy.created.desc())
    return list(session.scalars(found))


def lock_draft(session: Session, study_id: str) -> StoredStudy:
    """A study that is still a draft, locked for the rest of the transaction."""
    return require_draft(find(session, study_id, lock=True))


def remove(session: Session, study_id: str, who: str) -> None:
    """Delete a draft and its roster. Frozen studies cannot be deleted."""
    stored = lock_draft(session, study_id)
    for kind in (Mail, Player, ConsentDocument, Access):
        session.execute(delete(kind).where(kind.study_id == study_id))
    session.delete(stored)
    log(session, who, "removed a draft", study_id)


def require_draft(stored: StoredStudy) -> StoredStudy:
    if stored.state != State.DRAFT:
        raise NotNow("This study is frozen: nothing it declares can change. Create a new one instead.")
    return stored


def step(session: Session, study_id: str, to: State, who: str, **values: Any) -> None:
    """Move a study to its next state, if it is in the one before; of two concurrent attempts, one is refused."""
    what, when = STEPS[to]
    if to == State.OPEN:
        values["seal"] = seals_of(session).make(study_id)
    if not _change(session, study_id, _BEFORE[to], **{"state": to, when: datetime.now(UTC), **values}):
        stored = find(session, study_id)
        raise NotNow(f"The study is {stored.state}; only one that is {_BEFORE[to]} can become {to}.")
    log(session, who, what, study_id)


def close(session: Session, study_id: str, who: str, least: int = COARSE) -> None:
    """Close a study. Each answer under way either counts or is refused."""
    step(session, study_id, State.CLOSED, who, accepts_less=False)
    if counts(session, study_id)["answered"] < least:
        raise TooFew(
            f"Too few people have answered. A result and payments from fewer than {COARSE} would tell too much of each "
            "of them, and the number that is needed is kept secret, so that nobody can count answers by trying. Wait "
            "for more."
        )


def least_to_close(stored: StoredStudy, planned: int) -> int:
    """The number of answers from which an analyst may close a study that is planned for `planned` people."""
    return COARSE if stored.rehearsal else min(_threshold(stored, "answered", 1), planned)


def set_deadline(session: Session, study_id: str, who: str, deadline: datetime) -> None:
    """Set the deadline for answers. While the study is open it can only move later: people rely on it."""
    stored = find(session, study_id, lock=True)
    if stored.state not in (State.DRAFT, State.OPEN):
        raise NotNow(f"The study is {stored.state}; people do not answer any more.")
    if deadline <= datetime.now(UTC):
        raise InputError(
            f"The deadline is {deadline:%Y-%m-%d %H:%M} UTC, which is over. Give a time to come."
        )
    if stored.state == State.OPEN and stored.deadline is not None and deadline < stored.deadline:
        raise InputError(
            f"People were told that they can answer until {stored.deadline:%Y-%m-%d %H:%M} UTC. Give a later time."
        )
    stored.deadline = deadline
    log(session, who, "set the deadline", study_id)


def overdue(session: Session) -> list[str]:
    """Open studies whose deadline has passed."""
    over = (StoredStudy.state == State.OPEN, StoredStudy.deadline <= datetime.now(UTC))
    return list(session.scalars(select(StoredStudy.id).where(*over)))


def keep_document(session: Session, study_id: str, who: str, document: ConsentDocument | None) -> None:
    """Replace a draft's consent document; None removes it."""
    lock_draft(session, study_id)
    session.execute(delete(ConsentDocument).where(ConsentDocument.study_id == study_id))
    if document is not None:
        session.add(document)
    log(
        session,
        who,
        "removed the consent document" if document is None else "uploaded a consent document",
        study_id,
    )


def document(session: Session, study_id: str) -> ConsentDocument | None:
    return session.get(ConsentDocument, study_id)


def _change(
    session: Session, study_id: str, state: State, /, *conditions: ColumnElement[bool], **values: Any
) -> bool:
    """Update a study if it is in this state and meets the conditions; whether it was updated."""
    met = update(StoredStudy).where(StoredStudy.id == study_id, StoredStudy.state == state, *conditions)
    return bool(session.execute(met.values(values)).rowcount)  # type: ignore[attr-defined]


def note_problem(session: Session, study_id: str, problem: str) -> None:
    """Store why settling stopped, for the analyst; does nothing if another process has settled the study meanwhile."""
    _change(session, study_id, State.CLOSED, problem=problem)


def note_refusal(session: Session, study_id: str, refused: dict[str, Any]) -> None:
    """Store which guarantees for those who answered fall short of the promised ones; the analyst then decides."""
    _change(session, study_id, State.CLOSED, ~StoredStudy.accepts_less, refused=refused, problem=None)


def accept_less(session: Session, study_id: str, who: str) -> None:
    """Settle nevertheless, with the weaker guarantees for those who answered."""
    _decide(session, study_id, StoredStudy.refused.is_not(None), accepts_less=True)
    log(session, who, "accepted less", study_id)


def reopen(session: Session, study_id: str, who: str) -> None:
    """Reopen a closed study for answers.

    A closed study shows exact counts, so closing and reopening must not become a way to watch single answers: from the
    second time on, at least `COARSE` more people must have answered.
    """
    stopped = or_(StoredStudy.refused.is_not(None), StoredStudy.problem.is_not(None))
    # A deadline that has passed would close the study again at once.
    deadline = case((StoredStudy.deadline > datetime.now(UTC), StoredStudy.deadline))
    changes = {"state": State.OPEN, "closed": None, "refused": None, "problem": None, "deadline": deadline}
    _decide(session, study_id, stopped, **changes)
    stored = find(session, study_id, lock=True)
    now, shown = counts(session, study_id)["answered"], stored.told or {}
    if not stored.rehearsal and now < shown.get(AT_CLOSING, -COARSE) + COARSE:
        raise NotNow(
            f"The study was opened again before, and fewer than {COARSE} more people have answered since. What is told "
            "of a closed study would say too much of each of them. Accept less, or cancel the study."
        )
    stored.told = {**shown, AT_CLOSING: now}
    log(session, who, "opened again", study_id)


def _decide(session: Session, study_id: str, waits: ColumnElement[bool], **values: Any) -> None:
    """Decide a closed study that awaits a decision; of two concurrent decisions, one is refused."""
    if not _change(session, study_id, State.CLOSED, ~StoredStudy.accepts_less, waits, **values):
        find(session, study_id)
        raise NotNow(NOTHING_TO_DECIDE)


def require_closed(stored: StoredStudy) -> None:
    if stored.state != State.CLOSED:
        raise NotNow(NOTHING_TO_DECIDE)


def to_settle(session: Session) -> list[str]:
    """Closed studies in the order of their closing, without those that await the analyst's decision."""
    waiting = or_(StoredStudy.refused.is_(None), StoredStudy.accepts_less)
    closed = select(StoredStudy.id).where(StoredStudy.state == State.CLOSED, waiting)
    return list(session.scalars(closed.order_by(StoredStudy.closed)))


def in_state(session: Session, state: State) -> list[str]:
    """The studies in a state, in the order of their closing."""
    found = select(StoredStudy.id).where(StoredStudy.state == state).order_by(StoredStudy.closed)
    return list(session.scalars(found))


def progress(session: Session, stored: StoredStudy) -> dict[str, int]:
    """The counts that an analyst sees.

    While the study is open, the counts of consents and answers are the coarse ones last announced: with exact ones she
    could invite people one by one and see who has answered.
    """
    found = counts(session, stored.id)
    if stored.state == State.OPEN and not stored.rehearsal:
        found |= {name: (stored.told or {}).get(name, 0) for name in COARSE_COUNTS}
    return found


#: The counts that an open study shows only in steps.
COARSE_COUNTS = ("consented", "answered")
#: The key of the number of answers when the study was last closed and reopened.
AT_CLOSING = "at closing"


def update_counts(session: Session, study_id: str, now: datetime) -> None:
    """Update the counts that the analyst sees: in steps of ten, never downwards.

    The k-th step of a count appears at 10k people plus a secret random 0 to 9, drawn for that step. The only way to
    learn the threshold is to see the step appear, and it appears once.
    """
    stored = find(session, study_id, lock=True)
    found, shown, steps = counts(session, study_id), stored.told or {}, {}
    for name in COARSE_COUNTS:
        steps[name] = shown.get(name, 0)
        while found[name] >= _threshold(stored, name, steps[name] // COARSE + 1):
            steps[name] += COARSE
    stored.told = {**shown, "hour": _hour(now), **steps}


def outdated_counts(session: Session, now: datetime) -> list[str]:
    """Open studies whose counts were not updated in this hour."""
    rows = session.execute(select(StoredStudy.id, StoredStudy.told).where(StoredStudy.state == State.OPEN))
    return [study_id for study_id, before in rows if (before or {}).get("hour") != _hour(now)]


def _hour(now: datetime) -> str:
    return f"{now:%Y-%m-%dT%H}"


def _threshold(stored: StoredStudy, name: str, step: int) -> int:
    """The number of people at which a count takes this step. Studies from before 0.2.0 have no secret."""
    secret = b"" if stored.steps is None else bytes.fromhex(stored.steps)
    return COARSE * step + (KeyedBits(secret, f"truthful/steps/{name}/{step}").below(COARSE) if secret else 0)


def counts(session: Session, study_id: str) -> dict[str, int]:
    """The exact counts of people on the roster, invited, consented, disputing and answered."""
    answered = select(func.count()).select_from(Answer).where(Answer.study_id == study_id)
    counted = {
        "roster": func.count(),
        "invited": func.count(Player.link),
        "consented": func.count(Player.consented),
        "disputed": func.count().filter(Player.disputed),
        "answered": answered.scalar_subquery(),
    }
    found = session.execute(select(*counted.values()).where(Player.study_id == study_id)).one()
    return dict(zip(counted, found, strict=True))


@dataclass(frozen=True)
class OpenedDue:
    """A player's payment: the exact amount in millionths, and the coins of 10^-digits that are actually paid.

    `digits` is stored because a currency's smallest coin may change later. The other numbers are the steps of her
    receipt; all of them are None for a cancelled study.
    """

    player: str
    millionths: int
    coins: int
    digits: int
    leverage: float | None = None
    noise_scale: float | None = None
    peer_prediction: float | None = None
    own_prediction: float | None = None
    others_answer: float | None = None
    others_prediction: float | None = None
    surprise: float | None = None


#: The fields of an `OpenedDue`, by name.
Amount = dict[str, Any]
AMOUNT = tuple(part.name for part in fields(OpenedDue))
#: The steps of a receipt: its fields besides the player's record and her payment.
RECEIPT_STEPS = AMOUNT[4:]

#: The kind under which payments are sealed.
DUE = "due"
_NUMBERS = Struct(f">qqB{len(RECEIPT_STEPS)}d")


def pack_due(due: OpenedDue) -> bytes:
    """A payment as bytes of constant length; None is encoded as NaN."""
    steps = [getattr(due, name) for name in RECEIPT_STEPS]
    return _NUMBERS.pack(
        due.millionths, due.coins, due.digits, *(math.nan if step is None else step for step in steps)
    )


def unpack_due(player: str, plain: bytes) -> OpenedDue:
    millionths, coins, digits, *steps = _NUMBERS.unpack(plain)
    return OpenedDue(
        player, millionths, coins, digits, *(None if math.isnan(step) else step for step in steps)
    )


def open_due(seals: Seals, row: Due) -> OpenedDue:
    return unpack_due(row.player, seals.open(row.study_id, DUE, row.player, row.sealed))


def record(
    session: Session,
    study_id: str,
    release: str | None,
    report: str | None,
    amounts: Sequence[Amount],
    who: str,
) -> None:
    """Store the outcome of a study: its release and payments; without a release it is cancelled, with base payments.

    All of it is read back before the transaction ends; after an error nothing has changed.
    """
    ended = State.CANCELLED if release is None else State.SETTLED
    step(session, study_id, ended, who, release=release, report=report, problem=None)
    session.execute(delete(Mail).where(Mail.study_id == study_id))  # no more mail is sent
    key = seals_of(session).key(study_id, find(session, study_id).seal or "")
    rows = [OpenedDue(**amount) for amount in amounts]
    session.execute(
        insert(Due),
        [
            {
                "study_id": study_id,
                "player": row.player,
                "sealed": key.seal(DUE, row.player, pack_due(row)),
            }
            for row in rows
        ],
    )
    session.expire_all()
    require_recorded(session, study_id, release, amounts)


def require_recorded(session: Session, study_id: str, release: str | None, amounts: Sequence[Amount]) -> None:
    """Refuse if the stored outcome differs from the settlement's, or coins do not match the exact amounts."""
    try:
        stored = {row.player: row for row in payments(session, study_id)}
    except Unreadable:
        stored = {}
    written = {amount["player"]: OpenedDue(**amount) for amount in amounts}
    paid = all(pays(row.coins, row.millionths, row.digits) for row in stored.values())
    if find(session, study_id).release != release or stored != written or not paid:
        raise Refused(
            f"What the database gives back of study {study_id!r} is not what its settlement wrote, so nothing was "
            "stored. The settlement's files are whole. Check the database and its disk."
        )


def mark_sent(session: Session, study_id: str, who: str, players: Sequence[str] | None = None) -> None:
    """Mark these players' payments, or all, as sent now; earlier marks keep their time."""
    find(session, study_id, lock=True)  # concurrent calls take turns: no deadlock
    hers = select(Due.player).where(Due.study_id == Player.study_id, Due.player == Player.player)
    paid = update(Player).where(Player.study_id == study_id, Player.sent.is_(None), hers.exists())
    paid = paid.values(sent=datetime.now(UTC)).execution_options(synchronize_session=False)
    if players is None:
        session.execute(paid)
    else:
        due = set(session.scalars(select(Due.player).where(Due.study_id == study_id)))
        if strangers := [player for player in players if player not in due]:
            raise InputError(
                f"{strangers[0]!r} is not paid in this study ({len(strangers):,} of those in the file are not). "
                "Nothing was marked. Upload ids as they stand in the payment file."
            )
        for player in players:
            session.execute(paid.where(Player.player == player))
    log(session, who, "marked payments as sent", study_id)


def unmark_sent(session: Session, study_id: str, who: str) -> None:
    """Remove the marks of all payments."""
    find(session, study_id, lock=True)
    session.execute(update(Player).where(Player.study_id == study_id).values(sent=None))
    log(session, who, "took back the marks of payments", study_id)


def count_unsent(session: Session, study_id: str) -> int:
    """The number of payments that are due and not marked as sent."""
    hers = (Due.study_id == Player.study_id) & (Due.player == Player.player)
    unsent = select(func.count()).select_from(Due).join(Player, hers)
    return session.scalar(unsent.where(Due.study_id == study_id, Player.sent.is_(None))) or 0


def seal_again(session: Session, study_id: str, name: str) -> None:
    """Reseal all payments with the key of this name."""
    seals, key = seals_of(session), seals_of(session).key(study_id, name)
    for row in session.scalars(select(Due).where(Due.study_id == study_id)).all():
        row.sealed = key.seal(DUE, row.player, seals.open(study_id, DUE, row.player, row.sealed))
    session.flush()


def payments(session: Session, study_id: str) -> Iterator[OpenedDue]:
    """All payments in order of player: for the payer alone."""
    seals = seals_of(session)
    for row in session.scalars(select(Due).where(Due.study_id == study_id).order_by(Due.player)):
        yield open_due(seals, row)

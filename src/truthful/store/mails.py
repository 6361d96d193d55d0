"""Invitations and reminders: their addresses and states. No mail is sent twice.

A mail is marked as being sent before the mail server gets it. If the process dies in between, nobody knows whether it
arrived: the analyst sees that, and it is not sent again by itself. Addresses are stored apart from answers, shown on no
page, and deleted when the study has ended. Links in mails are derived from a key that is not in the database.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, func, insert, or_, select, update
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.intake import open_reports
from truthful.intake.rules import quote
from truthful.store import roster, studies
from truthful.store.audit_log import log
from truthful.store.tables import Answer, Event, Mail, Player, Sending, State, StoredStudy
from truthful.study.declaration import PLAYER

#: The column of addresses in a roster.
EMAIL = roster.EMAIL
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
LONGEST_ADDRESS = 254
#: The start of an encoded word in a mail header (RFC 2047).
ENCODED = "=?"
INTERRUPTED = (
    "The service ended while this was being sent, so it may have arrived. It is not sent again by itself."
)
#: The audit log's words for reminders.
REMINDED = "sent reminders"
REPLACED = "Her link was replaced by one from a file. Send her that one yourself."


def read_addresses(path: Path) -> dict[str, str]:
    """The addresses in a roster file, by player; empty if it has no such column."""
    with open_reports(path, [PLAYER]) as rows:
        if EMAIL not in rows.extra:
            return {}
    found = {}
    with open_reports(path, [PLAYER, EMAIL]) as rows:
        row = rows.place.first_row
        for batch in rows.batches():
            for player, address in zip(
                *(batch.column(name).to_pylist() for name in (PLAYER, EMAIL)), strict=True
            ):
                if address := (address or "").strip():
                    found[player] = _require_address(address, row)
                row += 1
    return found


def _require_address(address: str, row: int) -> str:
    if len(address) > LONGEST_ADDRESS or ENCODED in address or not _ADDRESS.fullmatch(address):
        raise InputError(
            f"Row {row}: {EMAIL} is {quote(address)}, which is no e-mail address. Correct it or leave it out."
        )
    return address


def keep(session: Session, study_id: str, addresses: Mapping[str, str]) -> None:
    """Store people's addresses, replacing earlier ones."""
    there = set(session.scalars(select(Mail.player).where(Mail.study_id == study_id)))
    rows = [
        {"study_id": study_id, "player": player, "address": address} for player, address in addresses.items()
    ]
    if known := [row for row in rows if row["player"] in there]:
        session.execute(update(Mail), known)
    if new := [row for row in rows if row["player"] not in there]:
        session.execute(insert(Mail), [row | {"state": Sending.KEPT, "reminder": False} for row in new])


def addresses(session: Session, study_id: str) -> dict[str, str]:
    rows = session.execute(select(Mail.player, Mail.address).where(Mail.study_id == study_id))
    return {row.player: row.address for row in rows}


def forget(session: Session, study_id: str) -> None:
    session.execute(delete(Mail).where(Mail.study_id == study_id))


def invite(session: Session, study_id: str, who: str, key: bytes) -> int:
    """Queue invitations for everybody with an address and no link yet, and those that failed; how many."""
    _require_open(session, study_id)
    hers = (Mail.study_id == Player.study_id, Mail.player == Player.player)
    asked = select(Player).join(Mail, and_(*hers)).where(Player.study_id == study_id, Player.link.is_(None))
    players = list(session.scalars(asked))
    for player in players:
        roster.derive_link(player, key)
    failed = and_(Mail.state == Sending.FAILED, ~Mail.reminder)
    new = and_(Mail.state == Sending.KEPT, Mail.player.in_([player.player for player in players]))
    sent = _queue(session, study_id, or_(failed, new), problem=None)
    if sent:
        log(session, who, "sent invitations", study_id)
    return sent


def remind(session: Session, study_id: str, who: str) -> None:
    """Queue reminders for everybody who was invited by mail and has not answered. Nobody learns who or how many."""
    _require_open(session, study_id)
    mine = (Answer.study_id == Mail.study_id, Answer.player == Mail.player)
    came = or_(
        Mail.state.in_((Sending.SENT, Sending.UNKNOWN)), and_(Mail.state == Sending.FAILED, Mail.reminder)
    )
    _queue(session, study_id, and_(came, ~exists().where(*mine)), reminder=True)
    log(session, who, REMINDED, study_id)


def _queue(session: Session, study_id: str, which: ColumnElement[bool], **values: Any) -> int:
    waiting = update(Mail).where(Mail.study_id == study_id, which).values(state=Sending.WAITING, **values)
    done = session.execute(waiting, execution_options={"synchronize_session": False})
    return int(done.rowcount)  # type: ignore[attr-defined]


def _require_open(session: Session, study_id: str) -> None:
    if studies.find(session, study_id, lock=True).state != State.OPEN:
        raise studies.NotNow("The study is not open; mails are sent only while people can answer.")


@dataclass(frozen=True)
class Letter:
    """One mail to be sent now."""

    study_id: str
    player: str
    address: str
    reminder: bool
    salt: str | None
    link: str | None
    texts: dict[str, Any]


def take(session: Session) -> Letter | None:
    """Take the next mail and mark it as being sent. Reminders to people who have answered meanwhile are skipped."""
    mine = (Answer.study_id == Mail.study_id, Answer.player == Mail.player)
    answered = exists().where(*mine)
    while True:
        found = session.execute(
            select(Mail, Player.salt, Player.link, StoredStudy.mail, answered)
            .join(Player, and_(Player.study_id == Mail.study_id, Player.player == Mail.player))
            .join(StoredStudy, StoredStudy.id == Mail.study_id)
            .where(Mail.state == Sending.WAITING, StoredStudy.state == State.OPEN)
            .order_by(Mail.study_id, Mail.player)
            .limit(1)
            .with_for_update(of=Mail, skip_locked=True)
        ).first()
        if found is None:
            return None
        mail, salt, link, texts, needless = found
        mail.state = Sending.SENT if needless and mail.reminder else Sending.SENDING
        session.flush()
        if mail.state == Sending.SENDING:
            return Letter(mail.study_id, mail.player, mail.address, mail.reminder, salt, link, texts or {})


def note(session: Session, letter: Letter, state: Sending, problem: str | None = None) -> None:
    """Store the outcome of a mail; of a reminder without the problem, which would reveal who has not answered."""
    changes = {} if letter.reminder else {"problem": problem}
    mine = (Mail.study_id == letter.study_id, Mail.player == letter.player, Mail.state == Sending.SENDING)
    session.execute(update(Mail).where(*mine).values(state=state, **changes))


def note_interrupted(session: Session) -> None:
    """Mark mails that were being sent when a process died as unknown: they may have arrived."""
    invited = and_(Mail.state == Sending.SENDING, ~Mail.reminder)
    session.execute(update(Mail).where(invited).values(state=Sending.UNKNOWN, problem=INTERRUPTED))
    session.execute(update(Mail).where(Mail.state == Sending.SENDING).values(state=Sending.UNKNOWN))


def is_under_way(session: Session) -> bool:
    """Whether any mail waits, or was being sent when a process died."""
    waiting = select(Mail.player).join(StoredStudy, StoredStudy.id == Mail.study_id)
    wanted = waiting.where(
        Mail.state.in_((Sending.WAITING, Sending.SENDING)), StoredStudy.state == State.OPEN
    ).limit(1)
    return session.scalar(wanted) is not None


def progress(session: Session, study_id: str) -> dict[str, int]:
    """Exact counts of invitations; of reminders only how often the analyst asked for them.

    How many reminders went out would reveal who has answered since the last coarse counts.
    """
    rows = session.execute(
        select(Mail.reminder, Mail.state, func.count())
        .where(Mail.study_id == study_id)
        .group_by(Mail.reminder, Mail.state)
    )
    counted = {(reminder, state): count for reminder, state, count in rows}
    under_way = (Sending.WAITING, Sending.SENDING)
    new = (
        select(func.count())
        .select_from(Mail)
        .join(Player, and_(Player.study_id == Mail.study_id, Player.player == Mail.player))
    )
    asked = (Event.study_id == study_id, Event.what == REMINDED)
    reminded = sum(count for (reminder, _), count in counted.items() if reminder)
    return {
        "addresses": sum(counted.values()),
        "new": session.scalar(new.where(Mail.study_id == study_id, Player.link.is_(None))) or 0,
        "waiting": sum(counted.get((False, state), 0) for state in under_way),
        "failed": counted.get((False, Sending.FAILED), 0),
        # A reminded player was invited before, so her invitation was sent.
        "sent": counted.get((False, Sending.SENT), 0) + counted.get((False, Sending.UNKNOWN), 0) + reminded,
        "reminded": session.scalar(select(func.count()).select_from(Event).where(*asked)) or 0,
    }


def problems(session: Session, study_id: str, most: int = 50) -> list[tuple[str, str]]:
    """Players whose invitation failed or may not have arrived, with the reason."""
    rows = select(Mail.player, Mail.problem).where(Mail.study_id == study_id, Mail.problem.is_not(None))
    return [(row.player, row.problem) for row in session.execute(rows.order_by(Mail.player).limit(most))]


def require_mailing(addresses: Mapping[str, str], possible: bool) -> None:
    if addresses and not possible:
        raise Refused(
            f"The file has a column {EMAIL!r}, but this service sends no mail, so addresses are not kept. Leave the "
            "column out, or ask the operator to start the service with --smtp."
        )

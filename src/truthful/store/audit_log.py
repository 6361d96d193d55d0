"""The audit log: who did what, and when, in a hash chain that shows whether events were changed or removed.

It holds no answer, amount, link or address. A transaction's events are written as its last act: writers lock the end of
the chain only once they hold every other lock, so the log causes no deadlock. Refused sign-ins are kept apart, because
strangers can cause any number of them and must not displace events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Select, delete, event, func, insert, or_, select, update
from sqlalchemy.orm import Session

from truthful.store.tables import Event, LogEnd, RefusedSignIn

#: The actor of whatever is done on the command line.
OPERATOR = "command line"
#: The hash that the first event is chained to.
BEGINNING = "0" * 64
#: The most refused sign-ins that are kept.
MOST_REFUSED = 1_000
#: The fields of an event, in the order in which they are hashed and shown.
EVENT_FIELDS = ("time", "who", "what", "whom", "study_id")
_PENDING = "told in this transaction"
_END = select(LogEnd.events, LogEnd.hash)


def log(
    session: Session, who: str, what: str, study_id: str | None = None, *, whom: str | None = None
) -> None:
    """Log an event as part of the transaction that it is about."""
    entry = {"time": datetime.now(UTC), "who": who, "what": what, "whom": whom, "study_id": study_id}
    session.info.setdefault(_PENDING, []).append(entry)


@event.listens_for(Session, "before_commit")
def _write(session: Session) -> None:
    """Append the transaction's events to the chain, whose end stays locked until the transaction has ended."""
    if session.in_nested_transaction() or not (entries := session.info.pop(_PENDING, [])):
        return
    session.flush()
    end = session.execute(_END.with_for_update()).one()
    last = end.hash
    for entry in entries:
        entry["hash"] = last = link(last, entry)
    session.execute(insert(Event), entries)
    session.execute(update(LogEnd).values(events=end.events + len(entries), hash=last))


def link(before: str, entry: dict[str, Any]) -> str:
    """The hash of an event that is chained to the hash `before`."""
    time = entry["time"].astimezone(UTC).isoformat(timespec="microseconds")
    whole = [before, time, *(entry[name] for name in EVENT_FIELDS[1:])]
    return hashlib.sha256(json.dumps(whole, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def events(session: Session, study_id: str | None = None, *, most: int = 200) -> list[Event]:
    """The latest events, of one study or of all."""
    wanted = select(Event).order_by(Event.id.desc()).limit(most)
    return list(session.scalars(wanted if study_id is None else wanted.where(Event.study_id == study_id)))


def events_of(session: Session, name: str, study_ids: Iterable[str], *, most: int) -> list[Event]:
    """The latest events of these studies and of the account with this name."""
    concerned = or_(Event.study_id.in_(list(study_ids)), Event.who == name, Event.whom == name)
    return list(session.scalars(select(Event).where(concerned).order_by(Event.id.desc()).limit(most)))


def every_event(session: Session) -> Iterator[Event]:
    """All events in order, read in batches."""
    part: list[Event] = []
    while part := list(session.scalars(_after(part[-1].id if part else 0))):
        yield from part


def _after(last: int) -> Select[Event]:
    return select(Event).where(Event.id > last).order_by(Event.id).limit(1_000)


@dataclass(frozen=True)
class Chain:
    """The chain as recomputed: its hashes, and the first break as a sentence, if there is one."""

    hashes: list[str]
    broken: str | None

    @property
    def end(self) -> str:
        return self.hashes[-1] if self.hashes else BEGINNING


def check_chain(session: Session) -> Chain:
    """Recompute the chain. Events may be added meanwhile, so its end is read before and after."""
    before, hashes = session.execute(_END).one(), [BEGINNING]
    for entry in every_event(session):
        if entry.hash != link(hashes[-1], {name: getattr(entry, name) for name in EVENT_FIELDS}):
            named = f"Event {entry.id}, {entry.what!r} by {entry.who!r} at {entry.time.isoformat()}"
            why = "it was changed, or one before it was changed, added or removed"
            return Chain(hashes[1:], f"{named}, does not follow from those before it: {why}.")
        hashes.append(entry.hash)
    after, count = session.execute(_END).one(), len(hashes) - 1
    if not before.events <= count <= after.events or hashes[before.events] != before.hash:
        return Chain(
            hashes[1:], f"The log had {after.events:,} events and has {count:,}: the last are others now."
        )
    return Chain(hashes[1:], None)


def note_refused_sign_in(session: Session, whom: str | None) -> None:
    """Note a refused sign-in to an account, or None for an unknown name. The oldest are deleted."""
    session.add(RefusedSignIn(time=datetime.now(UTC), whom=whom))
    session.flush()
    newest = select(func.max(RefusedSignIn.id)).scalar_subquery()
    session.execute(delete(RefusedSignIn).where(RefusedSignIn.id <= newest - MOST_REFUSED))


def refused_sign_ins(
    session: Session, whom: str | None = None, *, most: int = MOST_REFUSED
) -> list[RefusedSignIn]:
    """The latest refused sign-ins, of one account or of all."""
    wanted = select(RefusedSignIn).order_by(RefusedSignIn.id.desc()).limit(most)
    return list(session.scalars(wanted if whom is None else wanted.where(RefusedSignIn.whom == whom)))

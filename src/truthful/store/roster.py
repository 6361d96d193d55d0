"""The roster: who is asked, with verified features, and the personal links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from truthful.errors import InputError, Refused
from truthful.files import sha256
from truthful.store.accounts import hash_token, new_token
from truthful.store.studies import NotNow, Unknown, lock_draft, log
from truthful.store.tables import Player, State, StoredStudy

Features = Mapping[str, Any]


def add(session: Session, study_id: str, who: str, people: Mapping[str, Features], most: int) -> None:
    """Put people on the roster of an open study; all of them, or after an error none.

    Somebody who said that her features are wrong is put right by being brought again. Nobody else can change: what she
    was shown when she consented stays true.
    """
    _require_open(session, study_id)
    brought = select(Player.player, Player.disputed).where(Player.study_id == study_id)
    there = {row.player: row.disputed for row in session.execute(brought)}
    known = [player for player in people if player in there]
    if fixed := [player for player in known if not there[player]]:
        raise InputError(
            f"Player {fixed[0]!r} is on the roster already ({len(fixed):,} of those brought are), and has not said "
            "that her features are wrong. Bring only new people, and those who have."
        )
    if len(there) + len(people) - len(known) > most:
        raise Refused(
            f"The roster would have {len(there) + len(people) - len(known):,} people, but the plan is for {most:,} and "
            f"its budget covers no more. Bring at most {most - len(there):,} new people."
        )
    for player in known:
        session.execute(
            update(Player)
            .where(Player.study_id == study_id, Player.player == player)
            .values(features=dict(people[player]), disputed=False, consented=None, code=None)
        )
    fresh = [
        {"study_id": study_id, "player": player, "features": dict(features), "disputed": False}
        for player, features in people.items()
        if player not in there
    ]
    if fresh:
        session.execute(insert(Player), fresh)
    log(session, who, "brought a roster", study_id)


def replace(session: Session, study_id: str, who: str, people: Mapping[str, Features], checked: Any) -> None:
    """The people of a draft, instead of any that were brought before. A plan that was made for those goes.

    `checked` is the declaration of features that they were checked for.
    """
    stored = lock_draft(session, study_id)
    clear(session, stored)
    stored.roster = _hash(people, checked)
    if people:
        rows = [
            {"study_id": study_id, "player": player, "features": dict(features), "disputed": False}
            for player, features in people.items()
        ]
        session.execute(insert(Player), rows)
    log(session, who, "brought a roster", study_id)


def clear(session: Session, stored: StoredStudy) -> None:
    """Forget the people of a draft."""
    session.execute(delete(Player).where(Player.study_id == stored.id))
    stored.roster = stored.plan = None


def features(session: Session, study_id: str) -> list[Features]:
    """Everybody's features, by player."""
    rows = select(Player.features).where(Player.study_id == study_id).order_by(Player.player)
    return list(session.scalars(rows))


def fits(session: Session, stored: StoredStudy, checked: Any) -> bool:
    """Whether the people of a draft were checked for this declaration of features."""
    rows = select(Player.player, Player.features).where(Player.study_id == stored.id)
    return _hash({row.player: row.features for row in session.execute(rows)}, checked) == stored.roster


def _hash(people: Mapping[str, Features], checked: Any) -> str:
    return sha256({"people": {player: dict(people[player]) for player in sorted(people)}, "checked": checked})


def invite(session: Session, study_id: str, who: str, *, again: bool = False) -> list[tuple[str, str]]:
    """Links for everybody who has none, or, `again`, for all, whose old links then lead nowhere.

    They can be read now and never again: only hashes are kept.
    """
    _require_open(session, study_id)
    asked = select(Player.player).where(Player.study_id == study_id).order_by(Player.player)
    players = list(session.scalars(asked if again else asked.where(Player.link.is_(None))))
    links = [(player, new_token()) for player in players]
    if links:
        session.execute(
            update(Player),
            [{"study_id": study_id, "player": player, "link": hash_token(token)} for player, token in links],
        )
        log(session, who, "replaced all links" if again else "made links", study_id)
    return links


def disputes(session: Session, study_id: str) -> Iterator[str]:
    """Who says that her features are wrong."""
    yield from session.scalars(
        select(Player.player).where(Player.study_id == study_id, Player.disputed).order_by(Player.player)
    )


def player_of(session: Session, token: str) -> Player:
    """Whose link this is."""
    found = session.scalar(select(Player).where(Player.link == hash_token(token)))
    if found is None:
        raise Unknown("This link leads nowhere.")
    return found


def size(session: Session, study_id: str) -> int:
    return session.scalar(select(func.count()).select_from(Player).where(Player.study_id == study_id)) or 0


def _require_open(session: Session, study_id: str) -> None:
    """Lock the study: two who change its roster go one after the other, and closing waits for us or we for it."""
    stored = session.get(StoredStudy, study_id, with_for_update=True)
    if stored is None:
        raise Unknown("There is no such study.")
    if stored.state != State.OPEN:
        raise NotNow(f"The study is {stored.state}; people can be brought and invited only while it is open.")

"""The outcome of a settlement: the release and everybody's payment, stored in one transaction and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from truthful.coins import pays
from truthful.errors import Refused
from truthful.store.surveys import find, step
from truthful.store.tables import Due, Player, State


@dataclass(frozen=True)
class Amount:
    """What one player is due: exactly, in millionths of the currency, and in the coins of 10^-digits that are paid."""

    player: str
    group: int
    millionths: int
    coins: int
    digits: int


def record(
    session: Session, survey_id: str, release: str, report: str, amounts: Iterable[Amount], who: str
) -> None:
    """Store the whole outcome; the study is settled then, or, after an error, nothing has changed."""
    step(session, survey_id, State.SETTLED, who, release=release, report=report, problem=None)
    rows = [{"survey_id": survey_id, **asdict(amount)} for amount in amounts]
    session.execute(insert(Due), rows)


def require_recorded(session: Session, survey_id: str, release: str, amounts: Iterable[Amount]) -> None:
    """Read the outcome back: what the database holds is what the settlement wrote, and coins pay what is due."""
    stored = {
        Amount(row.player, row.group, row.millionths, row.coins, row.digits)
        for row in payments(session, survey_id)
    }
    paid = all(pays(amount.coins, amount.millionths, amount.digits) for amount in stored)
    if find(session, survey_id).release != release or stored != set(amounts) or not paid:
        raise Refused(
            f"What the database gives back of study {survey_id!r} is not what its settlement wrote, so nothing was "
            "stored. The settlement's files are whole. Check the database and its disk."
        )


def payments(session: Session, survey_id: str) -> Iterator[Due]:
    """Everybody's payment, by player: for the payer alone."""
    yield from session.scalars(select(Due).where(Due.survey_id == survey_id).order_by(Due.player))


def payment_of(session: Session, player: Player) -> Due | None:
    return session.get(Due, (player.survey_id, player.player))

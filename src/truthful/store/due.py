"""The outcome of a settlement: the release and everybody's payment, stored in one transaction and read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from truthful.coins import pays
from truthful.errors import Refused
from truthful.store.surveys import find, step
from truthful.store.tables import Due, Player, State


@dataclass(frozen=True)
class Amount:
    """What one player is due: exactly, in millionths of the currency, and in the coins of 10^-digits that are paid.

    The rest is what her receipt says besides: of a settlement of halves the group, of any other how it came about.
    """

    player: str
    millionths: int
    coins: int
    digits: int
    group: int | None = None
    leverage: float | None = None
    noise_scale: float | None = None
    peer_prediction: float | None = None
    own_prediction: float | None = None
    others_answer: float | None = None
    others_prediction: float | None = None
    surprise: float | None = None


def record(
    session: Session, survey_id: str, release: str, report: str, amounts: Iterable[Amount], who: str
) -> None:
    """Store the whole outcome; the study is settled then, or, after an error, nothing has changed."""
    step(session, survey_id, State.SETTLED, who, release=release, report=report, problem=None)
    _insert(session, survey_id, amounts)


def record_cancelled(session: Session, survey_id: str, amounts: Iterable[Amount], who: str) -> None:
    """Store what everybody is paid although nothing was drawn; the study has ended then."""
    step(session, survey_id, State.CANCELLED, who, problem=None)
    _insert(session, survey_id, amounts)


def _insert(session: Session, survey_id: str, amounts: Iterable[Amount]) -> None:
    rows = [{"survey_id": survey_id, **asdict(amount)} for amount in amounts]
    session.execute(insert(Due), rows)


def require_recorded(
    session: Session, survey_id: str, release: str | None, amounts: Iterable[Amount]
) -> None:
    """Read the outcome back: what the database holds is what the settlement wrote, and coins pay what is due."""
    names = [field.name for field in fields(Amount)]
    stored = {Amount(*(getattr(row, name) for name in names)) for row in payments(session, survey_id)}
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

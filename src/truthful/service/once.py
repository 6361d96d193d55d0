"""Settle a closed study once and only once, whatever is killed when.

The order of what becomes durable is the whole argument. (1) The study is closed: no answer changes any more. (2) The
answers' fingerprint is on the disk. (3) `settle` draws, enters the ledger and shows its directory in one rename; killed
on the way, it finishes the same draw. (4) One transaction stores the release and all payments, and ends only if they
read back as they were written: before that nobody sees them. Whatever was done is found done, and the rest follows.
Servers that share a directory take turns by a lock on a file.

`settle` refuses before it draws if less could be promised for those who answered than was. Then the analyst accepts
that, or takes answers again, or cancels: everybody is paid what payments start from, and nothing is ever drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from truthful.coins import in_coins
from truthful.payments import in_millionths
from truthful.plan import Plan
from truthful.service.bill import base_payments
from truthful.service.formats import coin_digits
from truthful.service.places import Places
from truthful.service.rosters import feature_columns
from truthful.settlement import settle
from truthful.settlement.books import RECEIPTS
from truthful.store import answers, due, surveys
from truthful.store.answers import Reported
from truthful.store.database import Database
from truthful.store.due import Amount
from truthful.store.tables import State
from truthful.study.declaration import PLAYER, PREDICTION

#: Who does it, in the audit log.
SERVICE = "service"
#: What receipts say besides records and payments: of random halves the group, of one release the others.
TOLD = (
    *("group", "leverage", "noise_scale", "peer_prediction", "own_prediction"),
    *("others_answer", "others_prediction", "surprise"),
)


@dataclass(frozen=True)
class Doing:
    """How far a settlement is: its stage, rows done, rows in all if known."""

    stage: str
    done: int = 0
    rows: int | None = None


def settle_survey(
    database: Database, places: Places, survey_id: str, tell: Callable[[Doing], None] = lambda doing: None
) -> None:
    """Settle one closed study, or go on where a killed settlement of it stopped."""
    plan = places.plan(survey_id)
    with places.settling(survey_id):
        with database.reading() as session:
            survey = surveys.find(session, survey_id)
            if survey.state != State.CLOSED:
                return  # another server was quicker
            places.require_same_answers(survey_id, answers.fingerprint(session, survey_id))
            reports = _reports(plan, list(answers.reports(session, survey_id)))
        directory = places.settlement(survey_id)
        if not directory.exists():
            settle(
                plan,
                reports,
                out=directory,
                seed=survey.seed,
                accept_less=survey.accepts_less,
                progress=lambda stage, done, rows: tell(Doing(stage, done, rows)),
            )
        tell(Doing("storing"))
        release, report = ((directory / name).read_text("utf-8") for name in ("release.json", "report.html"))
        amounts = _amounts(places, survey_id)
        with database.writing() as session:
            due.record(session, survey_id, release, report, amounts, SERVICE)
            session.expire_all()
            due.require_recorded(session, survey_id, release, amounts)


def cancel_survey(database: Database, places: Places, survey_id: str, who: str) -> None:
    """End a closed study for which nothing was drawn. Everybody who answered is paid her base payment."""
    with places.settling(survey_id):
        places.require_undrawn(survey_id)
        with database.writing() as session:
            places.require_same_answers(survey_id, answers.fingerprint(session, survey_id))
            rows = list(answers.reports(session, survey_id))
            bases = base_payments(places.plan(survey_id), [features for _, features, *_ in rows])
            amounts = _in_coins(places, survey_id, {row[0]: {} for row in rows}, bases)
            due.record_cancelled(session, survey_id, amounts, who)
            session.expire_all()
            due.require_recorded(session, survey_id, None, amounts)


def _reports(plan: Plan, rows: list[Reported]) -> pa.Table:
    """Everybody's reports as `settle` takes them."""
    study = plan.study
    said = {study.response.name: 2} if study.levels is None else {study.response.name: 2, PREDICTION: 3}
    return pa.table(
        {
            PLAYER: pa.array([row[0] for row in rows], pa.string()),
            **feature_columns(study, [row[1] for row in rows]),
            **{name: pa.array([row[at] for row in rows], pa.float64()) for name, at in said.items()},
        }
    )


def _amounts(places: Places, survey_id: str) -> list[Amount]:
    """What the settlement's files say that everybody is due, and how that came about."""
    rows = pyarrow.parquet.read_table(places.settlement(survey_id) / RECEIPTS).to_pylist()
    told = {row[PLAYER]: {name: row[name] for name in TOLD if name in row} for row in rows}
    return _in_coins(places, survey_id, told, [row["payment"] for row in rows])


def _in_coins(
    places: Places, survey_id: str, told: dict[str, dict[str, Any]], payments: Sequence[float]
) -> list[Amount]:
    """These exact payments, to the players told of, in coins too."""
    digits = coin_digits(places.plan(survey_id).study.currency)
    millionths, players = [*map(in_millionths, payments)], list(told)
    coins = in_coins(millionths, players, places.coins_key(survey_id), digits)
    rows = zip(players, millionths, coins, strict=True)
    return [Amount(player, amount, paid, digits, **told[player]) for player, amount, paid in rows]

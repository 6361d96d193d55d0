"""Settle a closed study once and only once, whatever is killed when.

The order of what becomes durable is the whole argument. (1) The study is closed: no answer changes any more. (2) The
answers' fingerprint is on the disk. (3) `settle` draws, enters the ledger and shows its directory in one rename; killed
on the way, it finishes the same draw. (4) One transaction stores the release and all payments, and ends only if they
read back as they were written: before that nobody sees them. Whatever was done is found done, and the rest follows.
Servers that share a directory take turns by a lock on a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

from truthful.coins import in_coins
from truthful.payments import in_millionths
from truthful.plan import Plan
from truthful.service.formats import coin_digits
from truthful.service.places import Places
from truthful.settlement import settle
from truthful.store import answers, due, surveys
from truthful.store.database import Database
from truthful.store.due import Amount
from truthful.store.tables import State
from truthful.study.declaration import PLAYER

#: Who does it, in the audit log.
SERVICE = "service"


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
            if survey.state in (State.SETTLED, State.PUBLISHED):
                return  # another server was quicker
            places.require_same_answers(survey_id, answers.fingerprint(session, survey_id))
            seed, reports = survey.seed, _reports(plan, list(answers.reports(session, survey_id)))
        directory = places.settlement(survey_id)
        if not directory.exists():
            settle(
                plan,
                reports,
                out=directory,
                books="payments",
                seed=seed,
                progress=lambda stage, done, rows: tell(Doing(stage, done, rows)),
            )
        tell(Doing("storing"))
        release, report = ((directory / name).read_text("utf-8") for name in ("release.json", "report.html"))
        amounts = _amounts(places, survey_id, plan)
        with database.writing() as session:
            due.record(session, survey_id, release, report, amounts, SERVICE)
            session.expire_all()
            due.require_recorded(session, survey_id, release, amounts)


def _reports(plan: Plan, rows: list[tuple[str, dict[str, object], float]]) -> pa.Table:
    """Everybody's reports as `settle` takes them."""
    features = {
        feature.name: pa.array(
            [values[feature.name] for _, values, _ in rows],
            pa.float64() if feature.levels is None else pa.string(),
        )
        for feature in plan.study.features
    }
    return pa.table(
        {
            PLAYER: pa.array([player for player, _, _ in rows], pa.string()),
            **features,
            plan.study.response.name: pa.array([value for _, _, value in rows], pa.float64()),
        }
    )


def _amounts(places: Places, survey_id: str, plan: Plan) -> list[Amount]:
    """What the settlement's files say that everybody is due."""
    directory = places.settlement(survey_id)
    payments = pyarrow.parquet.read_table(directory / "payments.parquet").to_pydict()
    key = bytes.fromhex(json.loads((directory / "settlement.json").read_text("utf-8"))["group_key"])
    millionths, digits = [*map(in_millionths, payments["payment"])], coin_digits(plan.study.currency)
    coins = in_coins(millionths, payments[PLAYER], key, digits)
    rows = zip(payments[PLAYER], payments["group"], millionths, coins, strict=True)
    return [Amount(*row, digits) for row in rows]

"""Settle closed studies in the background, once and only once, whatever is killed when.

The order of what becomes durable is the whole argument. (1) The study is closed: no answer changes any more. (2) The
answers' fingerprint is on the disk. (3) `settle` draws, enters the ledger and shows its directory in one rename; killed
on the way, it finishes the same draw. (4) One transaction stores the release and all payments. (5) They are read back.
Whatever was done is found done, and the rest follows.
"""

from __future__ import annotations

import json
import queue
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

from truthful.coins import in_coins
from truthful.errors import TruthfulError
from truthful.payments import PAYMENT_STEPS
from truthful.plan import Plan
from truthful.service.formats import coin_digits
from truthful.service.places import Places
from truthful.settlement import settle
from truthful.store import answers, due, surveys
from truthful.store.database import Database
from truthful.store.due import Amount
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
    plan, directory = places.plan(survey_id), places.settlement(survey_id)
    with database.reading() as session:
        seed = surveys.find(session, survey_id).seed
        places.require_same_answers(survey_id, answers.fingerprint(session, survey_id))
        reports = _reports(plan, list(answers.reports(session, survey_id)))
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
    with database.reading() as session:
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
    millionths = [round(payment * PAYMENT_STEPS) for payment in payments["payment"]]
    coins = in_coins(millionths, payments[PLAYER], key, coin_digits(plan.study.currency))
    return [Amount(*row) for row in zip(payments[PLAYER], payments["group"], millionths, coins, strict=True)]


class Settler:
    """A thread that settles one study after the other; at its start, those that are closed already."""

    def __init__(self, database: Database, places: Places) -> None:
        self._database, self._places = database, places
        self._asked: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._doing: dict[str, Doing] = {}
        self._thread = threading.Thread(target=self._run, name="settler", daemon=True)

    def start(self) -> None:
        with self._database.reading() as session:
            for survey_id in surveys.to_settle(session):
                self.ask(survey_id)
        self._thread.start()

    def ask(self, survey_id: str) -> None:
        """Settle this study as soon as others are done. Asking twice does no harm."""
        self._doing.setdefault(survey_id, Doing("waiting"))
        self._asked.put(survey_id)

    def doing(self, survey_id: str) -> Doing | None:
        """What is being done to a study, if anything is."""
        return self._doing.get(survey_id)

    def stop(self) -> None:
        """End after what is being done."""
        self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (survey_id := self._asked.get()) is not None:
            problem = self._settle(survey_id)
            with self._database.writing() as session:
                surveys.note_problem(session, survey_id, problem)
            self._doing.pop(survey_id, None)

    def _settle(self, survey_id: str) -> str | None:
        """Settle; what went wrong, for the analyst to read."""
        with self._database.reading() as session:
            if survey_id not in surveys.to_settle(session):
                return None
        try:
            settle_survey(
                self._database, self._places, survey_id, lambda doing: self._doing.update({survey_id: doing})
            )
        except TruthfulError as problem:
            return str(problem)
        except Exception as problem:  # the thread must live; the study stays closed, nothing is shown
            traceback.print_exc()
            return f"Settling stopped: {type(problem).__name__}. Nothing was released. See the service's own output."
        return None

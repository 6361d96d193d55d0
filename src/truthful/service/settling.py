"""The thread that settles closed studies beside the pages, and goes on trying whatever goes wrong."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, cast

from truthful.errors import Refused, WorseThanPromised
from truthful.guarantees import Guarantees
from truthful.service.once import SERVICE, Doing, settle_survey
from truthful.service.places import Places, SettledElsewhere
from truthful.store import surveys
from truthful.store.database import Database
from truthful.store.tables import State

#: It looks for closed studies when asked to and this often besides: whoever was asked may have died.
LOOK_SECONDS = 10.0
#: What failed is tried again after the first, then after twice as long each time, up to the last.
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0


class Settler:
    """Settles one study after the other. A study that cannot be settled stays closed, and its page says why."""

    def __init__(self, database: Database, places: Places) -> None:
        self._database, self._places = database, places
        self._asked, self._ended = threading.Event(), threading.Event()
        self._doing: dict[str, Doing] = {}
        self._thread = threading.Thread(target=self._run, name="settler", daemon=True)

    def start(self) -> None:
        self._close_again()
        self._thread.start()

    def ask(self, survey_id: str) -> None:
        """Settle this study as soon as others are done. Asking twice does no harm."""
        self._doing.setdefault(survey_id, Doing("waiting"))
        self._asked.set()

    def doing(self, survey_id: str) -> Doing | None:
        """What is being done to a study, if anything is."""
        return self._doing.get(survey_id)

    def stop(self) -> None:
        """End after what is being done."""
        self._ended.set()
        self._asked.set()
        self._thread.join()

    def _close_again(self) -> None:
        """A study that its directory knows as closed is open only in a database from an older backup.

        An answer given to it now could never be settled. A database server can fall back while we run, so it is looked
        for at the start, before any page is shown, and then each time.
        """
        with self._database.reading() as session:
            known = surveys.in_state(session, State.OPEN)
        for survey_id in filter(self._places.is_closed, known):
            with suppress(surveys.NotNow), self._database.writing() as session:
                surveys.step(session, survey_id, State.CLOSED, SERVICE)

    def _run(self) -> None:
        pause = LOOK_SECONDS
        while not self._ended.is_set():
            self._asked.clear()
            try:
                well = self._settle_all()
            except Exception as failed:  # the database is away: the thread must live
                _complain(failed)
                well = False
            pause = (
                LOOK_SECONDS if well else FIRST_PAUSE if pause == LOOK_SECONDS else min(2 * pause, LAST_PAUSE)
            )
            self._asked.wait(pause)

    def _settle_all(self) -> bool:
        """Settle every closed study; whether all went well."""
        self._close_again()
        with self._database.reading() as session:
            closed = surveys.to_settle(session)
        for survey_id in self._doing.keys() - set(closed):
            self._doing.pop(survey_id, None)
        problems = []
        for survey_id in closed:
            if not self._ended.is_set():
                problems.append(self._settle(survey_id))
        return not any(problems)

    def _settle(self, survey_id: str) -> str | None:
        """Settle; what went wrong, which the study's page shows too."""
        try:
            settle_survey(
                self._database, self._places, survey_id, lambda doing: self._doing.update({survey_id: doing})
            )
            problem = None
        except SettledElsewhere as busy:
            self._doing[survey_id] = Doing("waiting")
            return str(busy)
        except WorseThanPromised as worse:
            self._wait_for_decision(survey_id, worse)
            return None
        except Refused as refused:
            problem = str(refused)
        except Exception as failed:
            _complain(failed)
            problem = f"Settling stopped ({type(failed).__name__}) and is tried again. See the service's own output."
        self._doing.pop(survey_id, None)
        if problem is not None:
            with self._database.writing() as session:
                surveys.note_problem(session, survey_id, problem)
        return problem

    def _wait_for_decision(self, survey_id: str, worse: WorseThanPromised) -> None:
        """Nothing was drawn. The analyst is shown what could be guaranteed for those who answered, and decides."""
        with self._database.writing() as session:
            surveys.note_refusal(session, survey_id, refusal(worse))
        self._doing.pop(survey_id, None)


def refusal(worse: WorseThanPromised) -> dict[str, Any]:
    """What is kept of it: in what less can be guaranteed, and the guarantees themselves."""
    words, _, _ = str(worse).partition(" Nothing was drawn.")
    return {"words": words, "found": cast(Guarantees, worse.found).record()}


def _complain(failed: Exception) -> None:
    """Tell the console where something failed. What the error says may quote an answer, so it is not told."""
    places = "".join(traceback.format_tb(failed.__traceback__))
    print(f"Settling failed.\n{places}{type(failed).__name__}", file=sys.stderr, flush=True)

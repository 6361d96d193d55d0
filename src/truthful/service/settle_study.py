"""Freeze a study, settle it exactly once, or cancel it: the steps that touch both its files and the database.

Correctness rests on the order in which steps become durable. (1) The study is closed: no answer changes any more.
(2) The fingerprint of the answers is on the disk. (3) `settle` draws with the key made at freezing, enters the draw in
the ledger and publishes its directory by one rename; after a crash it completes the same draw. (4) One transaction
stores the release and all payments, and commits only if they read back as written: until then nobody sees them. After
a crash, completed steps are recognised and the others follow. Servers that share a directory take turns by a file lock.

`settle` refuses before it draws if the guarantees for those who answered would be weaker than promised. Then the
analyst accepts them, reopens the study, or cancels it: everybody gets the base payment, and nothing is ever drawn.

A background thread settles closed studies, and retries after every error.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
from sqlalchemy.orm import Session

from truthful.coins import coin_digits, first_lot, in_coins, in_millionths
from truthful.errors import InputError, Refused, SingledOut, WorseThanPromised
from truthful.files import PAYMENTS, RECEIPTS, exclusive, write_quickly
from truthful.guarantees import Guarantees
from truthful.lattice import KEY_BYTES
from truthful.plan import Plan
from truthful.service.keeping import read_books, renew, renew_old, seal_books, seal_older
from truthful.service.locations import Locations, SettledElsewhere
from truthful.service.monitoring import complain
from truthful.service.offer import base_payments
from truthful.service.processors import use_all
from truthful.service.purging import finish, purge_due, today
from truthful.settlement import settle
from truthful.store import accounts, answers, roster, studies
from truthful.store.answers import Reported
from truthful.store.database import Database
from truthful.store.roster import feature_columns
from truthful.store.seals import Seals
from truthful.store.studies import RECEIPT_STEPS, Amount
from truthful.store.tables import ConsentDocument, Role, State, StoredStudy
from truthful.study import Study
from truthful.study.declaration import PLAYER, PREDICTION

NOT_PLANNED = "The study has no plan yet. Plan it first; then it can be frozen."
NO_INVITATION = (
    "The study does not say who asks, what for and whom to turn to. People are told that before they answer: fill in "
    "the invitation, plan again, then freeze."
)
NO_PAYER = (
    "The study does not say who pays. People are told that before they answer: name a payer in the invitation, plan "
    "again, then freeze. Where whoever asks must pay too, say so there instead (asker_pays = true)."
)
OTHER_DOCUMENT = (
    "The consent document that the study names (invitation.consent_sha256) is not the one that is here. Upload it, or "
    "take it away."
)
PEOPLE_MAY_OWE = (
    "With payments = 'expected' a participant can end up owing money, so it is for research alone. Plan with "
    "never-negative payments."
)
TOO_FEW = (
    f"The plan is for fewer than {studies.COARSE} people, and a study is closed only with {studies.COARSE} answers or "
    "more. Plan it for more people."
)


#: The page of each step of a draft, below its study's page.
PLACES = {
    "declare": "/edit",
    "invitation": "/edit/invitation",
    "people": "#people",
    "plan": "/plan",
    "document": "/document",
}


class Unready(Refused):
    """Another step of a draft must be done first, on the page `place`."""

    def __init__(self, sentence: str, study_id: str, step: str) -> None:
        super().__init__(sentence)
        self.step, self.place = step, f"/studies/{study_id}{PLACES[step]}"


def obstacles(
    plan: Plan, brought: int, document: ConsentDocument | None, payers: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """The reasons why a planned study cannot be frozen yet, each with the step that resolves it."""
    invitation = plan.study.declared.invitation
    if invitation is None:
        yield NO_INVITATION, "invitation"
    elif invitation.payer is None and not invitation.asker_pays:
        yield NO_PAYER, "invitation"
    elif invitation.payer is not None and invitation.payer not in payers:
        yield (
            f"The study says that {invitation.payer!r} pays, but nobody can sign in here as a payer of that name; "
            f"payers here: {', '.join(map(repr, payers)) or 'none yet'}. Name one of them; or whoever runs this "
            "service adds one: truthful account add DIRECTORY NAME --role payer",
            "invitation",
        )
    elif invitation.consent_sha256 != (None if document is None else document.sha256):
        yield OTHER_DOCUMENT, "document"
    elif (day := invitation.delete_after) is not None and day < today():
        yield (
            f"People's data would be erased after {day} (invitation.delete_after), which is over. Give a day to come.",
            "invitation",
        )
    if plan.mechanism.payments == "expected":
        yield PEOPLE_MAY_OWE, "plan"
    if plan.players < studies.COARSE:
        yield TOO_FEW, "plan"
    if brought > plan.players:
        yield (
            f"{brought:,} people were brought, but the plan is for {plan.players:,}. Plan it for all of them, or bring "
            "fewer.",
            "plan",
        )


def require_early_deadline(plan: Plan, deadline: datetime) -> None:
    """Refuse a deadline after the day of erasure: both are promised to people."""
    invitation = plan.study.declared.invitation
    if (
        invitation is not None
        and invitation.delete_after is not None
        and invitation.delete_after < deadline.date()
    ):
        raise InputError(
            f"The deadline is {deadline:%Y-%m-%d}, but people are told that their data are erased after "
            f"{invitation.delete_after} (invitation.delete_after). Give an earlier deadline, or a later day in a study "
            "that is not frozen yet."
        )


def freeze(
    database: Database,
    locations: Locations,
    study_id: str,
    who: str,
    *,
    rehearsal: bool,
    deadline: datetime | None = None,
) -> None:
    """Open a planned draft to people or, as a rehearsal, to programs.

    The files are written before the transaction commits: a crash in between leaves a draft, which can be frozen again.
    """
    with database.writing() as session:
        stored = studies.lock_draft(session, study_id)
        if stored.declaration is None or stored.plan is None:
            raise Unready(NOT_PLANNED, study_id, "plan")
        plan = locations.freeze(study_id, stored.declaration, stored.plan)
        brought, document = roster.size(session, study_id), studies.document(session, study_id)
        for sentence, step in obstacles(plan, brought, document, accounts.payers(session)):
            raise Unready(sentence, study_id, step)
        if (invitation := plan.study.declared.invitation) and invitation.payer:
            accounts.share(session, study_id, accounts.lock_account(session, invitation.payer), who)
        if deadline is not None:
            require_early_deadline(plan, deadline)
            studies.set_deadline(session, study_id, who, deadline)
        frozen = {
            "rehearsal": rehearsal,
            "seed": secrets.randbelow(2**62) if rehearsal else None,
            "name": plan.study.name,
            "key_sha256": locations.key_sha256(study_id),
            "steps": secrets.token_hex(KEY_BYTES),
        }
        studies.step(session, study_id, State.OPEN, who, **frozen)


def share(
    session: Session, locations: Locations, study_id: str, name: str, who: str, *, end: bool = False
) -> None:
    """Share a study with an analyst, or end that. A payer can be added only if the declaration names none."""
    stored, account = studies.find(session, study_id), accounts.lock_account(session, name)
    if end:
        accounts.unshare(session, study_id, account, who)
        return
    if account.role == Role.PAYER:
        frozen = stored.state != State.DRAFT
        invitation = locations.plan(study_id).study.declared.invitation if frozen else None
        if not frozen or (invitation and (invitation.payer or invitation.asker_pays)):
            raise Refused(
                f"{name!r} is a payer. Who pays for study {study_id!r} is declared in its file, and people are told: "
                "payer in [invitation]."
            )
    accounts.share(session, study_id, account, who)


def similar_studies(session: Session, study_id: str, study: Study) -> list[StoredStudy]:
    """Frozen studies, but no rehearsals, with the same name or declaration, which may have the same people.

    For people in both, ε adds up, and no ledger counts that: each study has its own.
    """
    declared, found = {**study.declaration(), "name": ""}, []
    for stored in studies.list_studies(session):
        if stored.id != study_id and stored.state != State.DRAFT and not stored.rehearsal:
            earlier = Study.parse(stored.declaration or "")
            if (
                earlier.name.split() == study.name.split()
                or {**earlier.declaration(), "name": ""} == declared
            ):
                found.append(stored)
    return found


#: The service as an actor in the audit log.
SERVICE = "service"


@dataclass(frozen=True)
class Progress:
    """The progress of a settlement: its stage, the rows done, and the total if known."""

    stage: str
    done: int = 0
    rows: int | None = None


def settle_study(
    database: Database,
    locations: Locations,
    study_id: str,
    tell: Callable[[Progress], None] = lambda doing: None,
) -> None:
    """Settle one closed study, or resume an interrupted settlement."""
    plan = locations.plan(study_id)
    with locations.settling(study_id):
        with database.reading() as session:
            stored = studies.find(session, study_id)
            if stored.state != State.CLOSED:
                return  # another server has settled it
        if not locations.is_closed(study_id):
            # New keys: answers changed or withdrawn while the study was open become unreadable.
            renew(database, locations, study_id)
        with database.reading() as session:
            locations.require_same_answers(study_id, answers.fingerprint(session, study_id))
            reports = _reports(plan, answers.in_order(session, study_id))
        directory = locations.settlement(study_id)
        if not directory.exists():
            locations.require_key(study_id, stored.key_sha256)
            settle(
                plan,
                reports,
                out=directory,
                seed=stored.seed,
                accept_less=stored.accepts_less,
                progress=lambda stage, done, rows: tell(Progress(stage, done, rows)),
            )
        tell(Progress("storing"))
        release, report = ((directory / name).read_text("utf-8") for name in ("release.json", "report.html"))
        seal_books(database.seals, locations, study_id)
        amounts = _amounts(database.seals, locations, study_id)
        with database.writing() as session:
            studies.record(session, study_id, release, report, amounts, SERVICE)
        locations.destroy_keys(study_id)


def cancel_study(database: Database, locations: Locations, study_id: str, who: str) -> None:
    """Cancel a closed study of which nothing was drawn. Everybody who answered gets the base payment."""
    with locations.settling(study_id):
        locations.require_unreleased(study_id)
        with database.writing() as session:
            locations.require_same_answers(study_id, answers.fingerprint(session, study_id))
            rows = list(answers.reports(session, study_id))
            bases = base_payments(locations.plan(study_id), [features for _, features, *_ in rows])
            amounts = _base_amounts(locations, study_id, [row[0] for row in rows], bases)
            studies.record(session, study_id, None, None, amounts, who)
        locations.destroy_keys(study_id)


def _reports(plan: Plan, rows: list[Reported]) -> pa.Table:
    """All reports as the table that `settle` takes."""
    study = plan.study
    columns = {study.response.name: 2} if study.levels is None else {study.response.name: 2, PREDICTION: 3}
    return pa.table(
        {
            PLAYER: pa.array([row[0] for row in rows], pa.string()),
            **feature_columns(study, [row[1] for row in rows]),
            **{name: pa.array([row[at] for row in rows], pa.float64()) for name, at in columns.items()},
        }
    )


def _amounts(seals: Seals, locations: Locations, study_id: str) -> list[Amount]:
    """Everybody's payment and its steps, from the settlement's books."""
    kept = read_books(seals, locations, study_id)
    books = (pyarrow.parquet.read_table(pa.BufferReader(kept[name])) for name in (RECEIPTS, PAYMENTS))
    rows, paid = (book.to_pylist() for book in books)
    steps = {row[PLAYER]: {name: row[name] for name in RECEIPT_STEPS if name in row} for row in rows}
    digits = coin_digits(locations.plan(study_id).study.currency)
    coins = [round(row["paid"] * 10**digits) for row in paid]
    return _in_coins(steps, [in_millionths(row["payment"]) for row in rows], coins, digits)


def _base_amounts(
    locations: Locations, study_id: str, players: Sequence[str], bases: Sequence[float]
) -> list[Amount]:
    """Base payments to these players, rounded to coins."""
    digits, millionths = coin_digits(locations.plan(study_id).study.currency), [*map(in_millionths, bases)]
    lot = first_lot(locations.coins_key(study_id), digits)
    coins = in_coins(millionths, millionths, lot, digits).tolist()
    return _in_coins({player: {} for player in players}, millionths, coins, digits)


def _in_coins(
    steps: dict[str, dict[str, Any]], millionths: Sequence[int], coins: Sequence[int], digits: int
) -> list[Amount]:
    return [
        {"player": player, "millionths": amount, "coins": paid, "digits": digits, **steps[player]}
        for player, amount, paid in zip(steps, millionths, coins, strict=True)
    ]


#: The longest pause between looks for closed studies, in case the process that was asked has died.
LOOK_SECONDS = 10.0
#: The first and the longest pause before a retry; pauses double in between.
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0
#: The seconds within which requests of other processes are noticed, and a dead leader is replaced.
HEAR_SECONDS = 0.5
#: Files in the service's directory: the leader's lock, the latest request, and the progress.
LEADER_LOCK, REQUEST_FILE, PROGRESS_FILE = ".settler.lock", ".settler.asked", ".settler.doing"
NO_LOCK = (
    f"Closed studies are not settled for now: {LEADER_LOCK} in the service's directory cannot be written. See whether "
    "it belongs to the user that runs the service, and whether the disk is full."
)


class Settler:
    """Settles one study after the other. A study that cannot be settled stays closed, and its page says why.

    Of all processes on a directory the holder of a lock settles, and reports its progress in a file. If it dies, the
    system frees the lock and another process takes over.
    """

    def __init__(self, database: Database, locations: Locations) -> None:
        self._database, self._locations = database, locations
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._doing: dict[str, Progress] = {}
        self._last_request, self._written_at = "", 0.0
        self._thread = threading.Thread(target=self._run, name="settler", daemon=True)
        self.leads = False

    def start(self) -> None:
        self.recover()
        self._thread.start()

    def recover(self) -> None:
        """Complete whatever a crash, or an older version, left undone in closed or ended studies."""
        finish(self._database, self._locations)
        self._close_again()
        self._destroy_keys()
        seal_older(self._database, self._locations)

    def ask(self, study_id: str) -> None:
        """Request that a study be settled soon. Repeated requests do no harm."""
        write_quickly(self._locations.root / REQUEST_FILE, f"{study_id} {secrets.token_hex(8)}")
        self._wake.set()

    def progress_of(self, study_id: str) -> Progress | None:
        """The progress of a study's settlement in any process; None if there is none."""
        written, request = json.loads(self._read(PROGRESS_FILE) or "{}"), self._read(REQUEST_FILE)
        if study_id in written.get("doing", {}):
            return Progress(*written["doing"][study_id])
        unheard = request != written.get("heard", "") and request.startswith(f"{study_id} ")
        return Progress("waiting") if unheard else None

    def stop(self) -> None:
        """Stop after the work under way."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _read(self, name: str) -> str:
        with suppress(FileNotFoundError):
            return (self._locations.root / name).read_text(encoding="utf-8")
        return ""

    def _note(self, study_id: str, doing: Progress | None) -> None:
        """Report a study's progress to all processes: a new stage at once, rows now and then."""
        before = self._doing.pop(study_id, None)
        if doing is not None:
            self._doing[study_id] = doing
        due = time.monotonic() - self._written_at > HEAR_SECONDS
        if before is None or doing is None or before.stage != doing.stage or due:
            self._write_progress()

    def _write_progress(self) -> None:
        self._written_at = time.monotonic()
        doing = {study_id: astuple(doing) for study_id, doing in self._doing.items()}
        with suppress(OSError):  # such as a full disk: settling goes on
            write_quickly(
                self._locations.root / PROGRESS_FILE,
                json.dumps({"heard": self._last_request, "doing": doing}),
            )

    def _close_again(self) -> None:
        """Close studies that are open in the database but closed in their directory: the database is an older backup.

        Answers given now could never be settled. A database server may be restored while we run, so this is done at the
        start, before any page is shown, and at every look.
        """
        with self._database.reading() as session:
            known = studies.in_state(session, State.OPEN)
        for study_id in filter(self._locations.is_closed, known):
            with suppress(studies.NotNow), self._database.writing() as session:
                studies.step(session, study_id, State.CLOSED, SERVICE)

    def _destroy_keys(self) -> None:
        """Destroy the keys of ended studies that a crash has left."""
        with self._database.reading() as session:
            ended = [stored for state in studies.ENDED for stored in studies.in_state(session, state)]
        for study_id in ended:
            self._locations.destroy_keys(study_id)

    def _run(self) -> None:
        complained = False
        use_all()
        while not self._stopping.is_set():
            try:
                with exclusive(self._locations.root / LEADER_LOCK) as self.leads:
                    if self.leads:
                        self._lead()
            except OSError as failed:
                if not complained:
                    complain(NO_LOCK, failed)
                complained = True
            self.leads = False
            self._stopping.wait(HEAR_SECONDS)

    def _lead(self) -> None:
        pause = LOOK_SECONDS
        while not self._stopping.is_set():
            self._wake.clear()
            self._last_request = self._read(REQUEST_FILE)
            try:
                well = self._settle_all()
            except Exception as failed:  # such as a lost database: the thread must survive
                complain("Settling failed.", failed)
                well = False
            pause = (
                LOOK_SECONDS if well else FIRST_PAUSE if pause == LOOK_SECONDS else min(2 * pause, LAST_PAUSE)
            )
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        """Wait until any process is asked to settle, at most for so many seconds."""
        until = time.monotonic() + seconds
        while not self._wake.wait(max(0.0, min(HEAR_SECONDS, until - time.monotonic()))):
            if time.monotonic() >= until or self._read(REQUEST_FILE) != self._last_request:
                return

    def close_overdue(self) -> None:
        """Close studies whose deadline has passed, if as many have answered as their plans expect.

        With fewer answers the guarantees would be weaker, so the analyst decides, and people can answer until then.
        """
        with self._database.reading() as session:
            overdue = studies.overdue(session)
            answered = {study_id: studies.counts(session, study_id)["answered"] for study_id in overdue}
        for study_id in overdue:
            with suppress(Refused):
                if answered[study_id] >= self._locations.plan(study_id).answering:
                    with self._database.writing() as session:
                        studies.close(session, study_id, SERVICE)

    def tell_counts(self, now: datetime) -> None:
        """Update, once an hour, the counts of answers that analysts see."""
        with self._database.reading() as session:
            due = studies.outdated_counts(session, now)
        for study_id in due:
            with self._database.writing() as session:
                studies.update_counts(session, study_id, now)

    def _settle_all(self) -> bool:
        """Settle every closed study, and do the periodic work; whether all settlements succeeded."""
        self._close_again()
        self.close_overdue()
        self.tell_counts(datetime.now(UTC))
        with self._database.reading() as session:
            closed = studies.to_settle(session)
        for study_id in self._doing.keys() - set(closed):
            self._doing.pop(study_id, None)
        self._doing |= {study_id: Progress("waiting") for study_id in closed}
        self._write_progress()
        problems = []
        for study_id in closed:
            if not self._stopping.is_set():
                problems.append(self._settle(study_id))
        renew_old(self._database, self._locations)
        finish(self._database, self._locations)
        purge_due(self._database, self._locations, today())
        return not any(problems)

    def _settle(self, study_id: str) -> str | None:
        """Settle a study; the problem if that failed, which its page shows too."""
        try:
            settle_study(self._database, self._locations, study_id, lambda doing: self._note(study_id, doing))
            problem = None
        except SettledElsewhere as busy:
            self._note(study_id, Progress("waiting"))
            return str(busy)
        except WorseThanPromised as worse:
            # Nothing was drawn. The analyst sees the guarantees for those who answered, and decides.
            with self._database.writing() as session:
                studies.note_refusal(session, study_id, refusal(worse))
            problem = None
        except SingledOut as refused:
            problem = refused.unnamed  # the analyst must not learn who has answered
        except Refused as refused:
            problem = str(refused)
        except Exception as failed:
            complain("Settling failed.", failed)
            problem = f"Settling stopped ({type(failed).__name__}) and is tried again. See the service's own output."
        if problem is not None:
            with self._database.writing() as session:
                studies.note_problem(session, study_id, problem)
        self._note(study_id, None)
        return problem


def refusal(worse: WorseThanPromised) -> dict[str, Any]:
    """The stored form of a refusal: which guarantees are weaker, and all guarantees for those who answered."""
    return {"words": worse.less, "found": cast(Guarantees, worse.found).record()}

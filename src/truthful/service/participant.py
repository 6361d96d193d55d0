"""A participant's pages: one personal link, from the invitation to a payment she can check.

Opening the link shows how she stands and changes nothing: previews and scanners open links too. Every move is a form,
may be sent twice, and ends when the study closes; after a move that came too late the page says so.

The link comes from the analyst, so it is not enough to see an answer or a payment. That takes a code, which a browser
gets as a cookie when she consents; in another browser she types it in.

Yes is 1 and no is 0; a rating is its number. Where she is also asked what the others will say, that goes with it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from inspect import iscoroutinefunction
from typing import Annotated, Any

import numpy as np
from babel import Locale
from babel.numbers import format_decimal
from fastapi import APIRouter, Depends, Form
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from truthful.coins import in_currency, pays
from truthful.files import pretty_json
from truthful.release import Receipt, read_release, verify
from truthful.scoring import PAYMENT_STEPS
from truthful.service.middleware import wait
from truthful.service.offer import bonus_at, earned, make_offer
from truthful.service.pages import YEAR, Visit, download, go, plain_number, read_number
from truthful.store import answers, roster
from truthful.store.answers import NotHers, TooLate
from truthful.store.studies import ENDED, TOLD, NotNow, Unknown
from truthful.store.tables import Answer, Due, Player, State, StoredStudy
from truthful.study import Study
from truthful.study.sections import Feature
from truthful.study.sections import Response as Question


@dataclass(frozen=True)
class ParticipantView:
    """A player, her study, and what she has in it so far; `code` is what this browser brings.

    A browser without her code is told what anybody who has the link may know: that she is invited, or that the study
    has closed. So who hands out links does not learn from them what she said, nor whether.
    """

    link: str
    code: str
    stored: StoredStudy
    player: Player
    answer: Answer | None
    due: Due | None

    @property
    def knows(self) -> bool:
        return answers.knows(self.player, self.code)

    @property
    def page(self) -> str:
        if self.stored.state != State.OPEN:
            paid = "cancelled" if self.stored.state == State.CANCELLED else "paid"
            return "shut" if not self.knows else paid if self.due is not None else "closed"
        if self.player.disputed:
            return "disputed"
        if not self.knows:
            return "invited"
        return "question" if self.answer is None else "answered"

    @property
    def over(self) -> bool:
        """Whether her study is open although its deadline is over: too few had answered."""
        return self.stored.deadline is not None and self.stored.deadline <= datetime.now(UTC)

    @property
    def may_answer(self) -> bool:
        return self.page in ("question", "answered")

    @property
    def owed(self) -> Due:
        if not self.knows or self.due is None:
            raise Unknown("Nothing is due.")
        return self.due

    @property
    def release(self) -> str:
        """The release she is paid by, as it is published. Before the study is settled there is none."""
        if not self.knows or self.due is None or self.stored.release is None:
            raise Unknown("Nothing is settled.")
        return self.stored.release

    @property
    def receipt(self) -> Receipt:
        """What `truthful verify` takes, and nobody but her gets. Of a study that was cancelled there is none."""
        if self.answer is None or self.owed.leverage is None:
            raise Unknown("Nothing was settled.")
        return Receipt(
            player=self.player.player,
            features=self.player.features,
            report=self.answer.value,
            prediction=self.answer.prediction,
            payment=self.owed.millionths / PAYMENT_STEPS,
            **{name: getattr(self.owed, name) for name in TOLD},
        )


def explain_payment(view: ParticipantView) -> dict[str, Any]:
    """What she is paid, in coins of 10^-digits and exactly, and how that came about, from the release and her record.

    It is verified if the exact amount follows from both, and the coins are those next to it. `taken` is whether two
    numbers are her receipt's, because the sums that they follow from are not published; `plausible`, whether what the
    others say was thought possible.
    """
    release, receipt, due = read_release(view.release.encode()), view.receipt, view.owed
    study, found = release.declared_study(), verify(release, receipt)
    mechanism = release.mechanism(study)
    bonus = bonus_at(mechanism, study, np.array([found.x]))
    least, most = (bonus and bonus["plausible"]) or (-math.inf, math.inf)
    return {
        "coins": in_currency(due.coins, due.digits),
        "digits": due.digits,
        "exact": Decimal(due.millionths) / PAYMENT_STEPS,
        "verdict": found,
        "taken": release.inverse is None,
        "verified": found.verified and pays(due.coins, due.millionths, due.digits),
        "release": release,
        "bonus": bonus,
        "plausible": least <= found.peer_prediction <= most,
        "earned": earned(mechanism, study, found),
    }


#: What is said of no choice, and of something else.
_NO_CHOICE = {
    "yes-no": ("participant.empty_yes_no", "participant.not_yes_no"),
    "rating": ("participant.empty_rating", "participant.not_rating"),
}
#: Characters of an answer: no number that anybody means has more.
LONGEST = 40
#: The cookie of her code, which is sent with her own pages alone.
CODE = "code"


@dataclass(frozen=True)
class Wrong:
    """Why an answer is not taken: the key of the text that says so."""

    key: str
    typed: str


@dataclass(frozen=True)
class Said:
    """An answer, and a prediction of the others' where one is asked for; or why they are not taken."""

    answer: float | Wrong
    prediction: float | Wrong | None

    @property
    def fits(self) -> bool:
        """Whether the study takes both."""
        return not isinstance(self.answer, Wrong) and not isinstance(self.prediction, Wrong)


def read_said(answer: str, prediction: str, study: Study, locale: Locale | None = None) -> Said:
    """What was typed in her language, or chosen; without a language, the plain numbers that programs send."""
    question = study.response
    if question.kind is None:
        said = _read(answer, question.low, question.high, locale)
    else:
        said = read_choice(answer, question)
    return Said(said, None if study.levels is None else _read(prediction, *study.prediction_range, locale))


def read_choice(typed: str, question: Question) -> float | Wrong:
    value, shown = plain_number(typed), typed.strip()[:LONGEST]
    if value is not None and value in choices(question):
        return value
    return Wrong(_NO_CHOICE[question.kind or ""][bool(shown)], shown)


def _read(typed: str, low: float, high: float, locale: Locale | None) -> float | Wrong:
    """A number in this range, or why it is none."""
    shown = typed.strip()[:LONGEST]
    if not shown:
        return Wrong("participant.empty", "")
    value = plain_number(typed) if locale is None else read_number(typed, locale)
    if value is None or len(typed) > LONGEST:
        return Wrong("participant.not_number", shown)
    return value + 0.0 if low <= value <= high else Wrong("participant.outside", shown)  # -0 is 0


def choices(question: Question) -> tuple[float, ...]:
    """What can be chosen from, in order; nothing where any number in the range can be given."""
    return tuple(map(float, range(int(question.low), int(question.high) + 1))) if question.kind else ()


def shown_choices(question: Question, player: Player) -> tuple[float, ...]:
    """The choices as they are shown to her. Whether yes or no comes first is her lot, and stays so."""
    ordered = choices(question)
    if question.kind != "yes-no":
        return ordered
    lot = hashlib.sha256(f"{player.study_id}/{player.player}".encode()).digest()[0] % 2
    return ordered if lot else ordered[::-1]


def as_typed(value: float, locale: Locale) -> str:
    """A number in somebody's language without separators of thousands, which could be taken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))


def shown_features(study: Study, player: Player) -> list[dict[str, Any]]:
    """Her features as she reads them."""
    return [
        {"label": feature.name, "value": _rounded(feature, player.features[feature.name]), "unit": None}
        for feature in study.features
    ]


def _rounded(feature: Feature, value: Any) -> Any:
    """A number to a thousandth of its range, as fine as anybody could check it."""
    if isinstance(value, str):
        return value
    width = 1.0 if feature.low is None or feature.high is None else feature.high - feature.low
    return round(value, math.ceil(3 - math.log10(width)))


@dataclass(frozen=True, eq=False)
class ParticipantVisit(Visit):
    """A request with a participant's link."""

    token: str

    @property
    def code(self) -> str:
        return self.request.cookies.get(CODE, "")

    def look(self) -> ParticipantView:
        """How she stands now."""
        with self.reading() as session:
            player, stored, answer, due = roster.standing(session, self.token)
        # What is due is shown once it can no longer change: it is stored in the step that makes a study settled.
        owed = due if stored.state in ENDED else None
        return ParticipantView(f"/a/{self.token}", self.code, stored, player, answer, owed)

    def keep_code(self, response: Response, code: str) -> Response:
        """Give this browser her code, for her own pages."""
        self.keep(response, CODE, code, YEAR, f"/a/{self.token}")
        return response

    def move(self, move: Callable[[Session], object], then: str = "") -> Response:
        """Make a move, durably; if it cannot be made any more, show how she stands instead."""
        try:
            self.service.database.transact(move)
        except NotNow as problem:
            # To the store a link that leads nowhere is too late as well; looking again tells them apart.
            view = self.look()
            return self.show(view, refused=_refusal(view, problem))
        return go(f"/a/{self.token}{then}")

    def show(
        self, view: ParticipantView, *, done: str = "", refused: str = "", status: int = 409
    ) -> Response:
        """The page of how she stands; with a word on what was asked for and `refused`."""
        values: dict[str, Any] = {"status": status, "notice": refused} if refused else {}
        if view.page == "invited":
            offer = make_offer(self.plan(view.stored.id), view.player.features)
            values |= {"offer": offer, "withdrawn": done == "withdrawn"}
            if done == "consented":
                values["notice"] = "participant.no_cookie"
        elif view.page == "paid":
            values |= {"paid": explain_payment(view)}
        elif view.page == "cancelled":
            values |= {"owed": view.owed, "coins": in_currency(view.owed.coins, view.owed.digits)}
        return self.page_of(view, view.page, **values)

    def ask_again(self, view: ParticipantView, said: Said, answer: str, prediction: str) -> Response:
        """The question once more, with what was typed and what is wrong with it."""
        wrong = {name: part for name, part in vars(said).items() if isinstance(part, Wrong)}
        typed = {"answer": answer.strip()[:LONGEST], "prediction": prediction.strip()[:LONGEST]}
        return self.page_of(view, "question", status=400, wrong=wrong, typed=typed)

    def page_of(self, view: ParticipantView, name: str, **values: Any) -> Response:
        study = self.plan(view.stored.id).study
        given: dict[str, Any] = {
            "view": view,
            "study": study,
            "invitation": study.declared.invitation,
            # Her features are the analyst's own random numbers, and no facts about her.
            "assigned": bool(study.features) and study.assigned,
            "notice": None,
        }
        if name in ("invited", "disputed"):
            given |= {"shown_features": shown_features(study, view.player)}
        if name == "question":
            given |= {"wrong": {}, "typed": {}, "choices": shown_choices(study.response, view.player)}
        return self.page(f"participant/{name}.html", **given | values)


def _participation(request: Request, token: str) -> ParticipantVisit:
    return ParticipantVisit(request, request.app.state.service, token)


#: For the arguments of a page's function.
Link = Annotated[ParticipantVisit, Depends(_participation)]
Field = Annotated[str, Form()]


class PlainRoute(APIRoute):
    """A page of a link, whose other arguments are texts of its query and its form.

    FastAPI describes it, and would find out for every request anew what its arguments are, which takes longer than most
    of these pages do.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **settings: Any) -> None:
        super().__init__(path, endpoint, **settings)
        run = endpoint if iscoroutinefunction(endpoint) else partial(run_in_threadpool, endpoint)
        queries, fields = (
            {field.alias: field.get_default() for field in fields}
            for fields in (self.dependant.query_params, self.dependant.body_params)
        )

        async def answer(request: Request) -> Response:
            given = {name: request.query_params.get(name, plain) for name, plain in queries.items()}
            if fields:
                async with request.form() as form:
                    given |= {name: form.get(name, plain) for name, plain in fields.items()}
            if not all(isinstance(text, str) for text in given.values()):
                raise RequestValidationError(["a file instead of text"])
            visit = _participation(request, request.path_params["token"])
            response: Response = await run(visit, **given)
            return response

        self.app = request_response(answer)


router = APIRouter(prefix="/a/{token}", route_class=PlainRoute)


def _refusal(view: ParticipantView, problem: NotNow | None = None) -> str:
    """The text that says why a move was not made."""
    if isinstance(problem, NotHers):
        return "participant.not_hers"
    too_late = isinstance(problem, TooLate) or view.stored.state != State.OPEN
    return "participant.too_late" if too_late else "participant.not_ready"


@router.head("", include_in_schema=False)
@router.get("")
def show(visit: Link, done: str = "") -> Response:
    """How she stands. It changes nothing."""
    return visit.show(visit.look(), done=done)


@router.get("/answer")
def question(visit: Link) -> Response:
    """The question once more, for another answer."""
    view = visit.look()
    return visit.page_of(view, "question") if view.may_answer else go(view.link)


@router.get("/withdraw")
def confirm(visit: Link) -> Response:
    """Asks whether she means it."""
    view = visit.look()
    return visit.page_of(view, "withdraw") if view.may_answer else go(view.link)


def go_back(visit: Link) -> Response:
    """Where forms are sent to there is nothing to see; who changes her language there comes here."""
    return go(visit.look().link)


for _move in ("consent", "dispute", "undispute", "review", "submit", "code"):
    router.add_api_route(f"/{_move}", go_back, include_in_schema=False)


@router.post("/consent")
def consent(visit: Link) -> Response:
    """She takes part, and her browser gets her code."""
    given = []
    response = visit.move(
        lambda session: given.append(answers.consent(session, visit.token, visit.code)), "?done=consented"
    )
    return visit.keep_code(response, given[-1]) if given else response


@router.post("/code")
async def enter_code(visit: Link, code: Field = "") -> Response:
    """Her code, typed in another browser than the one she consented in.

    Attempts are counted before a thread is taken.
    """
    if seconds := visit.service.limits.codes.attempt(visit.token):
        return wait(visit.request, seconds)
    return await run_in_threadpool(_check_code, visit, code)


def _check_code(visit: ParticipantVisit, code: str) -> Response:
    view = visit.look()
    typed = "-".join(re.findall("[A-Z2-7]{4}", code.upper().replace("-", "").replace(" ", "")))
    if not answers.knows(view.player, typed):
        return visit.show(view, refused="participant.code_wrong", status=403)
    visit.service.limits.codes.forgive(visit.token)
    return visit.keep_code(go(view.link), typed)


@router.post("/dispute")
def dispute(visit: Link) -> Response:
    """Her features are wrong."""
    return visit.move(lambda session: answers.dispute(session, visit.token, True, visit.code))


@router.post("/undispute")
def undispute(visit: Link) -> Response:
    """They are right after all."""
    return visit.move(lambda session: answers.dispute(session, visit.token, False))


@router.post("/review")
def review(visit: Link, answer: Field = "", prediction: Field = "") -> Response:
    """Her answer, and her prediction if she is asked for one, as they were understood. Nothing is stored."""
    view, locale = visit.look(), visit.locale
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    said = read_said(answer, prediction, visit.plan(view.stored.id).study, locale)
    if not said.fits:
        return visit.ask_again(view, said, answer, prediction)
    return visit.page_of(view, "review", said=said, typed=lambda value: as_typed(value, locale))


@router.post("/submit")
def submit(visit: Link, answer: Field = "", prediction: Field = "") -> Response:
    """Her answer, as 1234.5 in every language; yes is 1 and no is 0. It counts once this has been answered.

    So does her prediction of the others' answers; where none is asked for, none is taken.
    """
    value, predicted = plain_number(answer), plain_number(prediction)

    def fits(study_id: str) -> bool:
        said = read_said(answer, prediction, visit.plan(study_id).study)
        return said.fits and said.prediction == predicted

    if value is not None:
        with suppress(answers.Unfit):
            return visit.move(
                lambda session: answers.submit(session, visit.token, value, visit.code, fits, predicted)
            )
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    said = read_said(answer, prediction, visit.plan(view.stored.id).study)
    return visit.ask_again(view, said, answer, prediction)


@router.post("/withdraw")
def withdraw(visit: Link) -> Response:
    return visit.move(lambda session: answers.withdraw(session, visit.token, visit.code), "?done=withdrawn")


@router.get("/receipt.json")
def receipt(visit: Link) -> Response:
    """What she needs, with the release, to compute her payment again."""
    return download(pretty_json(visit.look().receipt.record()), "receipt.json")


@router.get("/release.json")
def release(visit: Link) -> Response:
    """The release she is paid by, also before it is public."""
    return download(visit.look().release, "release.json")

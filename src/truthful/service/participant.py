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
from decimal import Decimal
from typing import Annotated, Any

from babel import Locale
from babel.numbers import format_decimal
from fastapi import APIRouter, Depends, Form
from sqlalchemy.orm import Session
from starlette.responses import Response

from truthful.coins import in_currency
from truthful.files import pretty_json
from truthful.plan import Plan
from truthful.service.middleware import wait
from truthful.service.offer import make_offer
from truthful.service.pages import JSON, Visit, Visitor, download, go, read_number
from truthful.service.participant_view import ParticipantView, explain_payment, is_assigned, participant_view
from truthful.store import answers
from truthful.store.answers import NotHers, TooLate
from truthful.store.studies import NotNow
from truthful.store.tables import Player, State
from truthful.study import Study
from truthful.study.sections import Response as Question

#: What is said of no choice, and of something else.
_NO_CHOICE = {
    "yes-no": ("participant.empty_yes_no", "participant.not_yes_no"),
    "rating": ("participant.empty_rating", "participant.not_rating"),
}
#: Characters of an answer: no number that anybody means has more.
LONGEST = 40
#: The cookie of her code, which is sent with her own pages alone, and its seconds.
CODE, YEAR = "code", 31_536_000

router = APIRouter(prefix="/a/{token}")


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


def read_said(answer: str, prediction: str, study: Study, locale: Locale) -> Said:
    """What was typed in her language, or chosen."""
    read = read_answer(answer, study.response, locale)
    predicted = None if study.levels is None else _read(prediction, *study.prediction_range, locale)
    return Said(read, predicted)


def sent_said(answer: str, prediction: str, study: Study) -> Said:
    """What the review page, or a program, sends, in plain numbers."""
    sent = sent_answer(answer, study.response)
    if study.levels is None:
        return Said(sent, None)
    return Said(sent, _within(plain_number(prediction), prediction, *study.prediction_range))


def read_answer(typed: str, question: Question, locale: Locale) -> float | Wrong:
    """The number that was typed in her language, or the choice that was made, if the study takes it."""
    if question.kind is not None:
        return sent_answer(typed, question)
    return _read(typed, question.low, question.high, locale)


def sent_answer(plain: str, question: Question) -> float | Wrong:
    """The number that the review page, or a program, sends: plain, as 1234.5, whatever the language."""
    value = plain_number(plain)
    if question.kind is None:
        return _within(value, plain, question.low, question.high)
    if value is not None and value in choices(question):
        return value
    shown = plain.strip()[:LONGEST]
    return Wrong(_NO_CHOICE[question.kind][bool(shown)], shown)


def plain_number(plain: str) -> float | None:
    """A number as 1234.5; None if it is none."""
    try:
        value = float(plain) if len(plain) <= LONGEST else math.nan
    except ValueError:
        return None
    return value + 0.0 if math.isfinite(value) else None  # -0 is 0


def _read(typed: str, low: float, high: float, locale: Locale) -> float | Wrong:
    if not typed.strip():
        return Wrong("participant.empty", "")
    return _within(read_number(typed, locale) if len(typed) <= LONGEST else None, typed, low, high)


def _within(value: float | None, typed: str, low: float, high: float) -> float | Wrong:
    """A number in this range, or why it is none."""
    shown = typed.strip()[:LONGEST]
    if value is None or not math.isfinite(value):
        return Wrong("participant.not_number", shown)
    return value + 0.0 if low <= value <= high else Wrong("participant.outside", shown)  # -0 is 0


def choices(question: Question) -> tuple[float, ...]:
    """What can be chosen from, in order; nothing where any number in the range can be given."""
    return tuple(map(float, range(int(question.low), int(question.high) + 1))) if question.kind else ()


def offered(question: Question, player: Player) -> tuple[float, ...]:
    """The choices as they are shown to her. Whether yes or no comes first is her lot, and stays so."""
    ordered = choices(question)
    if question.kind != "yes-no":
        return ordered
    lot = hashlib.sha256(f"{player.study_id}/{player.player}".encode()).digest()[0] % 2
    return ordered if lot else ordered[::-1]


def as_typed(value: float, locale: Locale) -> str:
    """A number in somebody's language without separators of thousands, which could be taken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))


@dataclass(frozen=True, eq=False)
class Participation(Visit):
    """A request with a participant's link."""

    token: str

    @property
    def code(self) -> str:
        return self.request.cookies.get(CODE, "")

    def look(self) -> ParticipantView:
        """How she stands now."""
        with self.reading() as session:
            return participant_view(session, self.token, self.code)

    def plan(self, view: ParticipantView) -> Plan:
        return self.service.locations.plan(view.stored.id)

    def keep(self, response: Response, code: str) -> None:
        """Give this browser her code, for her own pages."""
        secure, path = self.service.settings.secure, f"/a/{self.token}"
        response.set_cookie(CODE, code, max_age=YEAR, path=path, secure=secure, httponly=True, samesite="lax")

    def move(self, move: Callable[[Session], object], then: str = "") -> Response:
        """Make a move, durably; if it cannot be made any more, show how she stands instead."""
        try:
            with self.writing() as session:
                move(session)
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
            offer = make_offer(self.plan(view), view.player.features)
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
        study = self.plan(view).study
        given: dict[str, Any] = {
            "view": view,
            "study": study,
            "invitation": study.declared.invitation,
            "assigned": is_assigned(study),
            "notice": None,
        }
        if name == "question":
            given |= {"wrong": {}, "typed": {}, "choices": offered(study.response, view.player)}
        return self.page(f"participant/{name}.html", **given | values)


async def _participation(visit: Visitor, token: str) -> Participation:
    return Participation(visit.request, visit.service, token)


#: For the arguments of a page's function.
Link = Annotated[Participation, Depends(_participation)]
Field = Annotated[str, Form()]


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


@router.get("/consent", include_in_schema=False)
@router.get("/dispute", include_in_schema=False)
@router.get("/undispute", include_in_schema=False)
@router.get("/review", include_in_schema=False)
@router.get("/submit", include_in_schema=False)
@router.get("/code", include_in_schema=False)
def go_back(visit: Link) -> Response:
    """Where forms are sent to there is nothing to see; who changes her language there comes here."""
    return go(visit.look().link)


@router.post("/consent")
def consent(visit: Link) -> Response:
    """She takes part, and her browser gets her code."""
    given = []
    response = visit.move(
        lambda session: given.append(answers.consent(session, visit.token, visit.code)), "?done=consented"
    )
    if given:
        visit.keep(response, given[0])
    return response


@router.post("/code")
def enter_code(visit: Link, code: Field = "") -> Response:
    """Her code, typed in another browser than the one she consented in."""
    view, codes = visit.look(), visit.service.limits.codes
    if seconds := codes.attempt(view.player.link or ""):
        return wait(visit.request, seconds)
    typed = "-".join(re.findall("[A-Z2-7]{4}", code.upper().replace("-", "").replace(" ", "")))
    if not answers.knows(view.player, typed):
        return visit.show(view, refused="participant.code_wrong", status=403)
    codes.forgive(view.player.link or "")
    response = go(view.link)
    visit.keep(response, typed)
    return response


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
    said = read_said(answer, prediction, visit.plan(view).study, locale)
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
        said = sent_said(answer, prediction, visit.service.locations.plan(study_id).study)
        return said.fits and said.prediction == predicted

    if value is not None:
        with suppress(answers.Unfit):
            return visit.move(
                lambda session: answers.submit(session, visit.token, value, visit.code, fits, predicted)
            )
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    said = sent_said(answer, prediction, visit.plan(view).study)
    return visit.ask_again(view, said, answer, prediction)


@router.post("/withdraw")
def withdraw(visit: Link) -> Response:
    return visit.move(lambda session: answers.withdraw(session, visit.token, visit.code), "?done=withdrawn")


@router.get("/receipt.json")
def receipt(visit: Link) -> Response:
    """What she needs, with the release, to compute her payment again."""
    return download(pretty_json(visit.look().receipt.record()), JSON, "receipt.json")


@router.get("/release.json")
def release(visit: Link) -> Response:
    """The release she is paid by, also before it is public."""
    return download(visit.look().released, JSON, "release.json")

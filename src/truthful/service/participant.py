"""A participant's pages: one personal link, from the invitation to a payment she can check.

Opening the link shows how she stands and changes nothing: previews and scanners open links too. Every move is a form,
may be sent twice, and ends when the study closes; after a move that came too late the page says so.

The link comes from the analyst, so it is not enough to see an answer or a payment. That takes a code, which a browser
gets as a cookie when she consents; in another browser she types it in.
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
from fastapi import APIRouter, Form
from sqlalchemy.orm import Session
from starlette.requests import Request
from starlette.responses import Response

from truthful.coins import in_currency
from truthful.files import pretty_json
from truthful.plan import Plan
from truthful.service.middleware import wait
from truthful.service.pages import Language, Running, Service, go, page, read_number
from truthful.service.participant_view import Standing, is_assigned, offer, paid, standing
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
    if study.levels is None:
        return Said(read, None)
    if not prediction.strip():
        return Said(read, Wrong("participant.empty", ""))
    value = read_number(prediction, locale) if len(prediction) <= LONGEST else None
    return Said(read, _within(value, prediction, *study.prediction_range))


def sent_said(answer: str, prediction: str, study: Study) -> Said:
    """What the review page, or a program, sends, in plain numbers."""
    sent = sent_answer(answer, study.response)
    if study.levels is None:
        return Said(sent, None)
    return Said(sent, _within(plain_number(prediction), prediction, *study.prediction_range))


def read_answer(typed: str, response: Question, locale: Locale) -> float | Wrong:
    """The number that was typed in her language, or the choice that was made, if the study takes it."""
    if response.kind is not None:
        return sent_answer(typed, response)
    if not typed.strip():
        return Wrong("participant.empty", "")
    value = read_number(typed, locale) if len(typed) <= LONGEST else None
    return _checked(value, typed, response)


def sent_answer(plain: str, response: Question) -> float | Wrong:
    """The number that the review page, or a program, sends: plain, as 1234.5, whatever the language."""
    return _checked(plain_number(plain), plain, response)


def plain_number(plain: str) -> float | None:
    """A number as 1234.5; None if it is none."""
    try:
        value = float(plain) if len(plain) <= LONGEST else math.nan
    except ValueError:
        return None
    return value + 0.0 if math.isfinite(value) else None  # -0 is 0


def choices(response: Question) -> tuple[float, ...]:
    """What can be chosen from, in order; nothing where any number in the range can be given."""
    return tuple(map(float, range(int(response.low), int(response.high) + 1))) if response.kind else ()


def offered(response: Question, player: Player) -> tuple[float, ...]:
    """The choices as they are shown to her. Whether yes or no comes first is her lot, and stays so."""
    ordered = choices(response)
    if response.kind != "yes-no":
        return ordered
    lot = hashlib.sha256(f"{player.study_id}/{player.player}".encode()).digest()[0] % 2
    return ordered if lot else ordered[::-1]


def _checked(value: float | None, typed: str, response: Question) -> float | Wrong:
    shown = typed.strip()[:LONGEST]
    if response.kind is not None:
        if value is not None and value in choices(response):
            return value
        return Wrong(_NO_CHOICE[response.kind][bool(shown)], shown)
    return _within(value, typed, response.low, response.high)


def _within(value: float | None, typed: str, low: float, high: float) -> float | Wrong:
    """A number in this range, or why it is none."""
    shown = typed.strip()[:LONGEST]
    if value is None or not math.isfinite(value):
        return Wrong("participant.not_number", shown)
    if not low <= value <= high:
        return Wrong("participant.outside", shown)
    return value + 0.0  # -0 is 0


def as_typed(value: float, locale: Locale) -> str:
    """A number in somebody's language without separators of thousands, which could be taken for a decimal point."""
    return str(format_decimal(Decimal(repr(value)), format="0.####################", locale=locale))


Move = Callable[[Session], object]
CODE, YEAR = "code", 31_536_000
"""The cookie of her code, which is sent with her own pages alone, and its seconds."""

router = APIRouter(prefix="/a/{token}")


@router.head("", include_in_schema=False)
@router.get("")
def show(request: Request, service: Running, token: str, done: str = "") -> Response:
    """How she stands. It changes nothing."""
    return _show(request, service, _standing(request, service, token), done=done)


@router.get("/answer")
def question(request: Request, service: Running, token: str) -> Response:
    """The question once more, for another answer."""
    her = _standing(request, service, token)
    return _page(request, service, her, "question") if her.may_answer else go(her.link)


@router.get("/withdraw")
def confirm(request: Request, service: Running, token: str) -> Response:
    """Asks whether she means it."""
    her = _standing(request, service, token)
    return _page(request, service, her, "withdraw") if her.may_answer else go(her.link)


@router.get("/consent", include_in_schema=False)
@router.get("/dispute", include_in_schema=False)
@router.get("/undispute", include_in_schema=False)
@router.get("/review", include_in_schema=False)
@router.get("/submit", include_in_schema=False)
@router.get("/code", include_in_schema=False)
def go_back(request: Request, service: Running, token: str) -> Response:
    """Where forms are sent to there is nothing to see; who changes her language there comes here."""
    return go(_standing(request, service, token).link)


@router.post("/consent")
def consent(request: Request, service: Running, token: str) -> Response:
    """She takes part, and her browser gets her code."""
    given = []

    def move(session: Session) -> None:
        given.append(answers.consent(session, token, _code(request)))

    response = _move(request, service, token, move, "?done=consented")
    if given:
        _keep(service, response, token, given[0])
    return response


@router.post("/code")
def enter_code(request: Request, service: Running, token: str, code: Annotated[str, Form()] = "") -> Response:
    """Her code, typed in another browser than the one she consented in."""
    her = _standing(request, service, token)
    seconds = service.limits.codes.attempt(her.player.link or "")
    if seconds:
        return wait(request, seconds)
    typed = "-".join(re.findall("[A-Z2-7]{4}", code.upper().replace("-", "").replace(" ", "")))
    if not answers.knows(her.player, typed):
        return _show(request, service, her, refused="participant.code_wrong", status=403)
    service.limits.codes.forgive(her.player.link or "")
    response = go(her.link)
    _keep(service, response, token, typed)
    return response


@router.post("/dispute")
def dispute(request: Request, service: Running, token: str) -> Response:
    """Her features are wrong."""
    code = _code(request)
    return _move(request, service, token, lambda session: answers.dispute(session, token, True, code))


@router.post("/undispute")
def undispute(request: Request, service: Running, token: str) -> Response:
    """They are right after all."""
    return _move(request, service, token, lambda session: answers.dispute(session, token, False))


@router.post("/review")
def review(
    request: Request,
    service: Running,
    texts: Language,
    token: str,
    answer: Annotated[str, Form()] = "",
    prediction: Annotated[str, Form()] = "",
) -> Response:
    """Her answer, and her prediction if she is asked for one, as they were understood. Nothing is stored."""
    her = _standing(request, service, token)
    if not her.may_answer:
        return _show(request, service, her, refused=_refusal(her))
    said = read_said(answer, prediction, _plan(service, her).study, texts.locale)
    if not said.fits:
        return _ask_again(request, service, her, said, answer, prediction)
    return _page(
        request, service, her, "review", said=said, typed=lambda value: as_typed(value, texts.locale)
    )


@router.post("/submit")
def submit(
    request: Request,
    service: Running,
    token: str,
    answer: Annotated[str, Form()] = "",
    prediction: Annotated[str, Form()] = "",
) -> Response:
    """Her answer, as 1234.5 in every language; yes is 1 and no is 0. It counts once this has been answered.

    So does her prediction of the others' answers; where none is asked for, none is taken.
    """
    value, predicted = plain_number(answer), plain_number(prediction)

    def fits(study_id: str) -> bool:
        said = sent_said(answer, prediction, service.locations.plan(study_id).study)
        return said.fits and said.prediction == predicted

    code = _code(request)
    if value is not None:
        with suppress(answers.Unfit):
            return _move(
                request,
                service,
                token,
                lambda session: answers.submit(session, token, value, code, fits, predicted),
            )
    her = _standing(request, service, token)
    if not her.may_answer:
        return _show(request, service, her, refused=_refusal(her))
    said = sent_said(answer, prediction, _plan(service, her).study)
    return _ask_again(request, service, her, said, answer, prediction)


@router.post("/withdraw")
def withdraw(request: Request, service: Running, token: str) -> Response:
    code = _code(request)
    return _move(
        request, service, token, lambda session: answers.withdraw(session, token, code), "?done=withdrawn"
    )


@router.get("/receipt.json")
def receipt(request: Request, service: Running, token: str) -> Response:
    """What she needs, with the release, to compute her payment again."""
    hers = _standing(request, service, token).receipt
    return _file(pretty_json(hers.record()), "receipt.json")


@router.get("/release.json")
def release(request: Request, service: Running, token: str) -> Response:
    """The release she is paid by, also before it is public."""
    return _file(_standing(request, service, token).released, "release.json")


def _code(request: Request) -> str:
    return request.cookies.get(CODE, "")


def _keep(service: Service, response: Response, token: str, code: str) -> None:
    """Give this browser her code, for her own pages."""
    response.set_cookie(
        CODE,
        code,
        max_age=YEAR,
        path=f"/a/{token}",
        secure=service.settings.secure,
        httponly=True,
        samesite="lax",
    )


def _standing(request: Request, service: Service, token: str) -> Standing:
    with service.database.reading() as session:
        return standing(session, token, _code(request))


def _plan(service: Service, her: Standing) -> Plan:
    return service.locations.plan(her.stored.id)


def _move(request: Request, service: Service, token: str, move: Move, then: str = "") -> Response:
    """Make a move, durably; if it cannot be made any more, show how she stands instead."""
    try:
        with service.database.writing() as session:
            move(session)
    except NotNow as problem:
        # To the store a link that leads nowhere is too late as well; looking again tells them apart.
        her = _standing(request, service, token)
        return _show(request, service, her, refused=_refusal(her, problem))
    return go(f"/a/{token}{then}")


def _refusal(her: Standing, problem: NotNow | None = None) -> str:
    """The text that says why a move was not made."""
    if isinstance(problem, NotHers):
        return "participant.not_hers"
    too_late = isinstance(problem, TooLate) or her.stored.state != State.OPEN
    return "participant.too_late" if too_late else "participant.not_ready"


def _show(
    request: Request, service: Service, her: Standing, *, done: str = "", refused: str = "", status: int = 409
) -> Response:
    """The page of how she stands; with a word on what was asked for and `refused`."""
    values: dict[str, Any] = {"status": status, "notice": refused} if refused else {}
    if her.page == "invited":
        values |= {"offer": offer(_plan(service, her), her.player.features), "withdrawn": done == "withdrawn"}
        if done == "consented":
            values["notice"] = "participant.no_cookie"
    elif her.page == "paid":
        values |= {"paid": paid(her)}
    elif her.page == "cancelled":
        values |= {"owed": her.owed, "coins": in_currency(her.owed.coins, her.owed.digits)}
    return _page(request, service, her, her.page, **values)


def _ask_again(
    request: Request, service: Service, her: Standing, said: Said, answer: str, prediction: str
) -> Response:
    """The question once more, with what was typed and what is wrong with it."""
    wrong = {name: part for name, part in vars(said).items() if isinstance(part, Wrong)}
    typed = {"answer": answer.strip()[:LONGEST], "prediction": prediction.strip()[:LONGEST]}
    return _page(request, service, her, "question", status=400, wrong=wrong, typed=typed)


def _page(request: Request, service: Service, her: Standing, name: str, **values: Any) -> Response:
    study = _plan(service, her).study
    given: dict[str, Any] = {
        "her": her,
        "study": study,
        "invitation": study.declared.invitation,
        "assigned": is_assigned(study),
        "notice": None,
    }
    if name == "question":
        given |= {"wrong": {}, "typed": {}, "choices": offered(study.response, her.player)}
    return page(request, f"participant/{name}.html", **given | values)


def _file(text: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="application/json", headers=headers)

"""A participant's pages behind her personal link, from the invitation to a payment that she can check.

Opening the link changes nothing, because mail scanners open links too. Every move is a form that may be sent twice and
is refused once the study has closed; then the page says so.

The analyst hands out the links, so a link alone does not show an answer or a payment. That takes a code, which her
browser gets as a cookie when she consents; in another browser she types it in.
"""

from __future__ import annotations

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
from urllib.parse import quote, unquote

import numpy as np
from fastapi import APIRouter, Depends, Form
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from markupsafe import Markup
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response

from truthful.coins import in_currency, pays
from truthful.files import pretty_json
from truthful.release import Receipt, read_release, verify
from truthful.scoring import PAYMENT_STEPS
from truthful.service.asking import (
    LONGEST,
    ParsedAnswer,
    Wrong,
    as_typed,
    number_signs,
    parse_answer,
    shown_choices,
    shown_features,
    slider_steps,
)
from truthful.service.middleware import wait
from truthful.service.offer import bonus_at, make_offer, steps_with_predictions
from truthful.service.pages import LANGUAGE, YEAR, Visit, download, go, language, plain_number
from truthful.store import answers, roster
from truthful.store.accounts import hash_token
from truthful.store.answers import NotHers, OpenedAnswer, TooLate
from truthful.store.studies import ENDED, RECEIPT_STEPS, NotNow, OpenedDue, Unknown
from truthful.store.tables import Player, State, StoredStudy


@dataclass(frozen=True)
class ParticipantView:
    """A player, her study, and her answer and payment so far; `code` comes from this browser.

    Without her code a browser sees only what anybody with the link may know: that she is invited, or that the study has
    closed. So the analyst, who hands out the links, cannot learn her answer, nor whether there is one.
    """

    link: str
    code: str
    stored: StoredStudy
    player: Player
    answer: OpenedAnswer | None
    due: OpenedDue | None
    kept_code: str | None

    @property
    def knows(self) -> bool:
        return answers.knows(self.kept_code, self.code)

    @property
    def page(self) -> str:
        if self.stored.erased is not None:
            return "erased"
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
        """Whether the deadline has passed, which leaves a study open if too few had answered."""
        return self.stored.deadline is not None and self.stored.deadline <= datetime.now(UTC)

    @property
    def may_answer(self) -> bool:
        return self.page in ("question", "answered")

    @property
    def owed(self) -> OpenedDue:
        if not self.knows or self.due is None:
            raise Unknown("Nothing is due.")
        return self.due

    @property
    def release(self) -> str:
        """The release that her payment follows from. Before the study is settled there is none."""
        if not self.knows or self.due is None or self.stored.release is None:
            raise Unknown("Nothing is settled.")
        return self.stored.release

    @property
    def receipt(self) -> Receipt:
        """Her receipt, for `truthful verify` and for her alone. A cancelled study has none."""
        if self.answer is None or self.owed.leverage is None:
            raise Unknown("Nothing was settled.")
        return Receipt(
            player=self.player.player,
            features=self.player.features,
            report=self.answer.value,
            prediction=self.answer.prediction,
            payment=self.owed.millionths / PAYMENT_STEPS,
            **{name: getattr(self.owed, name) for name in RECEIPT_STEPS},
        )


def explain_payment(view: ParticipantView) -> dict[str, Any]:
    """Her payment, in coins of 10^-digits and exactly, and its steps, recomputed from the release and her receipt.

    It is verified if the exact amount follows from both and the coins are a rounding of it. `taken` is whether two
    numbers are taken from her receipt, because the sums behind them are not published; `plausible`, whether the others'
    answers are within the plausible range.
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
        "earned": steps_with_predictions(mechanism, study, found),
    }


#: The cookie of her code.
CODE = "code"
#: Refusals that her code resolves; the page leads to its field.
CODE_NEXT = ("participant.code_wrong", "participant.not_hers")
#: The mark of the page after a wrong code, which is reached by a redirect, so that a reload sends nothing again.
WRONG_CODE = "wrong-code"
#: The cookie of an answer that she has not confirmed yet, and its lifetime in seconds.
ANSWER_COOKIE, ANSWER_SECONDS = "said", 600


@dataclass(frozen=True, eq=False)
class ParticipantVisit(Visit):
    """A request to a participant's link."""

    token: str

    @property
    def code(self) -> str:
        return self.request.cookies.get(self._code_cookie[0], "")

    @property
    def _code_cookie(self) -> tuple[str, str]:
        """The name and the path of the cookie of her code.

        With TLS no other host can set it: a page of a neighbouring one could plant the code of somebody who began with
        her link before her, and who would then see her answer. Such a cookie is sent with all pages, so each link has
        its own.
        """
        if self.service.settings.secure:
            return f"__Host-{CODE}-{hash_token(self.token)[:16]}", "/"
        return CODE, f"/a/{self.token}"

    def look(self) -> ParticipantView:
        """Her current standing."""
        with self.reading() as session:
            player, stored, answer, due, code = roster.standing(session, self.token)
        # A payment is shown only once it is final: it is stored in the transaction that settles the study.
        owed = due if stored.state in ENDED else None
        return ParticipantView(f"/a/{self.token}", self.code, stored, player, answer, owed, code)

    def keep_code(self, response: Response, code: str) -> Response:
        """Set the cookie of her code."""
        name, path = self._code_cookie
        self.keep(response, name, code, YEAR, path)
        return response

    def drop_code(self, response: Response) -> None:
        """Delete the cookie of her code."""
        self.remove(response, *self._code_cookie)

    @property
    def _review(self) -> str:
        return f"/a/{self.token}/review"

    def keep_answer(self, response: Response, plain: bool, answer: str, prediction: str) -> Response:
        """Keep an unconfirmed answer in a cookie for the review page alone, for some minutes."""
        parts = (quote(part.strip()[: LONGEST + 1], safe="") for part in (answer, prediction))
        self.keep(
            response,
            ANSWER_COOKIE,
            "&".join(("plain" if plain else "typed", *parts)),
            ANSWER_SECONDS,
            self._review,
        )
        return response

    def kept_answer(self) -> tuple[bool, str, str] | None:
        """The unconfirmed answer: whether in plain form or as typed, the answer and the prediction."""
        kind, *parts = self.request.cookies.get(ANSWER_COOKIE, "").split("&")
        return (kind == "plain", unquote(parts[0]), unquote(parts[1])) if len(parts) == 2 else None

    def drop_answer(self, response: Response) -> Response:
        """Delete the cookie of an unconfirmed answer. Only the review page receives it, so there may be none."""
        response.delete_cookie(ANSWER_COOKIE, self._review)
        return response

    def move(self, move: Callable[[Session], object], then: str = "") -> Response:
        """Make a move in one transaction; if it is refused, show her current page instead."""
        try:
            self.service.database.transact(move)
        except NotNow as problem:
            # The store treats an unknown link as too late, too; `look` raises Unknown for it.
            view = self.look()
            return self.show(view, refused=_refusal(view, problem))
        return go(f"/a/{self.token}{then}")

    def show(
        self, view: ParticipantView, *, done: str = "", refused: str = "", status: int = 409
    ) -> Response:
        """The page for her standing, with a notice if a move was `refused`."""
        values: dict[str, Any] = {"status": status, "notice": refused} if refused else {}
        values |= {"code_next": refused in CODE_NEXT and view.page in ("invited", "shut")}
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

    def ask_again(
        self, view: ParticipantView, parsed: ParsedAnswer, answer: str, prediction: str
    ) -> Response:
        """The question again, with the input and its errors."""
        wrong = {name: part for name, part in vars(parsed).items() if isinstance(part, Wrong)}
        typed = {"answer": answer.strip()[:LONGEST], "prediction": prediction.strip()[:LONGEST]}
        return self.page_of(view, "question", status=400, wrong=wrong, typed=typed)

    def page_of(self, view: ParticipantView, name: str, **values: Any) -> Response:
        study = self.plan(view.stored.id).study
        hers = self.locale.language
        told, spoken = study.in_language(hers), study.declared.spoken(hers)
        given: dict[str, Any] = {
            "view": view,
            "study": study,
            # The analyst's texts, in her language if there is a translation; otherwise marked as another language.
            "told": told,
            "logo": self.service.logo is not None,
            "invitation": told.invitation,
            "study_title": told.title,
            "lang": Markup(f' lang="{spoken}"') if spoken not in (None, hers) else "",
            # Assigned features are random numbers of the analyst's, not facts about her.
            "assigned": bool(study.features) and study.assigned,
            "notice": None,
            "code_next": False,
        }
        if name in ("invited", "disputed", "question"):
            given |= {"shown_features": shown_features(told, view.player)}
        if name == "question":
            given |= {"wrong": {}, "typed": {}, "choices": shown_choices(study.response, view.player)}
            given |= {"signs": number_signs(self.locale), "steps": slider_steps(study)}
        return self.page(f"participant/{name}.html", **given | values)


def _participation(request: Request, token: str) -> ParticipantVisit:
    return ParticipantVisit(request, request.app.state.service, token)


#: For the arguments of a page's function.
Link = Annotated[ParticipantVisit, Depends(_participation)]
Field = Annotated[str, Form()]


class PlainRoute(APIRoute):
    """A route below a participant's link whose other arguments are plain query and form fields.

    FastAPI documents it, but its own parsing of arguments on each request would take longer than most of these pages.
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
    """The key of the text that says why a move was refused."""
    if isinstance(problem, NotHers):
        return "participant.not_hers"
    too_late = isinstance(problem, TooLate) or view.stored.state != State.OPEN
    return "participant.too_late" if too_late else "participant.not_ready"


@router.head("", include_in_schema=False)
@router.get("")
def show(visit: Link, done: str = "") -> Response:
    """The page for her standing. Opening it changes nothing."""
    view = visit.look()
    wrong = done == WRONG_CODE and not view.knows
    return visit.show(view, done=done, refused="participant.code_wrong" if wrong else "", status=200)


@router.get("/answer")
def question(visit: Link) -> Response:
    """The question again, to change her answer."""
    view = visit.look()
    return visit.page_of(view, "question") if view.may_answer else go(view.link)


@router.get("/withdraw")
def confirm(visit: Link) -> Response:
    """Ask her to confirm that she withdraws."""
    view = visit.look()
    return visit.page_of(view, "withdraw") if view.may_answer else go(view.link)


@router.get("/forget")
def forget_page(visit: Link) -> Response:
    """Ask whether to delete her cookies from this browser."""
    return visit.page_of(visit.look(), "forget")


@router.post("/forget")
def forget(visit: Link) -> Response:
    """Delete the cookies of her code, her unconfirmed answer and her language from this browser."""
    response = go(visit.look().link)
    visit.drop_code(response)
    visit.remove(response, LANGUAGE)
    return visit.drop_answer(response)


def go_back(visit: Link) -> Response:
    """Redirect a GET of a form's address, as after changing the language there, to her page."""
    return go(visit.look().link)


for _move in ("consent", "dispute", "undispute", "submit", "code"):
    router.add_api_route(f"/{_move}", go_back, include_in_schema=False)


@router.post("/consent")
def consent(visit: Link) -> Response:
    """Consent, and set the cookie of her code."""
    given = []
    response = visit.move(
        lambda session: given.append(answers.consent(session, visit.token, visit.code)), "?done=consented"
    )
    return visit.keep_code(response, given[-1]) if given else response


@router.post("/code")
async def enter_code(visit: Link, code: Field = "") -> Response:
    """Check her code, typed in a browser other than the one she consented in.

    Attempts are counted before a thread is taken.
    """
    if seconds := visit.service.limits.codes.attempt(visit.token):
        return wait(visit.request, seconds)
    return await run_in_threadpool(_check_code, visit, code)


def _check_code(visit: ParticipantVisit, code: str) -> Response:
    view = visit.look()
    typed = "-".join(re.findall("[A-Z2-7]{4}", code.upper().replace("-", "").replace(" ", "")))
    if not answers.knows(view.kept_code, typed):
        return go(f"{view.link}?done={WRONG_CODE}")
    visit.service.limits.codes.forgive(visit.token)
    return visit.keep_code(go(view.link), typed)


@router.post("/dispute")
def dispute(visit: Link) -> Response:
    """Dispute her features."""
    return visit.move(lambda session: answers.dispute(session, visit.token, True, visit.code))


@router.post("/undispute")
def undispute(visit: Link) -> Response:
    """End the dispute of her features."""
    return visit.move(lambda session: answers.dispute(session, visit.token, False))


@router.post("/review")
def hold(visit: Link, answer: Field = "", prediction: Field = "") -> Response:
    """Keep her input in a cookie for the review page, without storing it here.

    Browsers with scripts show the review themselves, and send nothing before she confirms.
    """
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    parsed = parse_answer(answer, prediction, visit.plan(view.stored.id).study, visit.locale)
    plain = parsed.fits and (
        repr(parsed.answer),
        "" if parsed.prediction is None else repr(parsed.prediction),
    )
    return visit.keep_answer(go(f"{view.link}/review"), bool(plain), *(plain or (answer, prediction)))


@router.get("/review")
def review(visit: Link) -> Response:
    """Show her answer and prediction as understood, to be confirmed; or the question again, with their errors."""
    view, unconfirmed = visit.look(), visit.kept_answer()
    if unconfirmed is None or not view.may_answer:
        return go(view.link)
    plain, answer, prediction = unconfirmed
    locale, study = visit.locale, visit.plan(view.stored.id).study
    parsed = parse_answer(answer, prediction, study, None if plain else locale)
    if not parsed.fits:
        return visit.ask_again(view, parsed, answer, prediction)
    return visit.page_of(view, "review", said=parsed, typed=lambda value: as_typed(value, locale))


@router.post("/submit")
def submit(visit: Link, answer: Field = "", prediction: Field = "") -> Response:
    """Store her answer, as 1234.5 in every language; yes is 1 and no is 0. It counts once the response has arrived.

    The same holds for her prediction, which is refused where none is asked for.
    """
    value, predicted = plain_number(answer), plain_number(prediction)

    def fits(study_id: str) -> bool:
        parsed = parse_answer(answer, prediction, visit.plan(study_id).study)
        return parsed.fits and parsed.prediction == predicted

    if value is not None:
        with suppress(answers.Unfit):
            moved = visit.move(
                lambda session: answers.submit(session, visit.token, value, visit.code, fits, predicted)
            )
            return visit.drop_answer(moved)
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    parsed = parse_answer(answer, prediction, visit.plan(view.stored.id).study)
    return visit.ask_again(view, parsed, answer, prediction)


@router.post("/withdraw")
def withdraw(visit: Link) -> Response:
    moved = visit.move(lambda session: answers.withdraw(session, visit.token, visit.code), "?done=withdrawn")
    return visit.drop_answer(moved)


@router.get("/code.txt")
def code_file(visit: Link) -> Response:
    """Her code as a file to keep, without the link: on its own it is useless to a finder."""
    view = visit.look()
    if not view.knows:
        return go(view.link)
    told = visit.plan(view.stored.id).study.in_language(visit.locale.language)
    return download(
        f"{told.title}\n{language(visit.request)('participant.code')}: {view.code}\n", "receipt-code.txt"
    )


@router.get("/receipt.json")
def receipt(visit: Link) -> Response:
    """Her receipt, with which she can recompute her payment from the release."""
    return download(pretty_json(visit.look().receipt.record()), "receipt.json")


@router.get("/release.json")
def release(visit: Link) -> Response:
    """The release that her payment follows from, also before it is published."""
    return download(visit.look().release, "release.json")

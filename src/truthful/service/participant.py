"""A participant's pages: one personal link, from the invitation to a payment she can check.

Opening the link shows how she stands and changes nothing: previews and scanners open links too. Every move is a form,
may be sent twice, and ends when the study closes; after a move that came too late the page says so.

The link comes from the analyst, so it is not enough to see an answer or a payment. That takes a code, which a browser
gets as a cookie when she consents; in another browser she types it in.
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
    Said,
    Wrong,
    as_typed,
    number_signs,
    read_said,
    shown_choices,
    shown_features,
    slider_steps,
)
from truthful.service.middleware import wait
from truthful.service.offer import bonus_at, earned, make_offer
from truthful.service.pages import LANGUAGE, YEAR, Visit, download, go, language, plain_number
from truthful.store import answers, roster
from truthful.store.answers import NotHers, OpenedAnswer, TooLate
from truthful.store.studies import ENDED, TOLD, NotNow, OpenedDue, Unknown
from truthful.store.tables import Player, State, StoredStudy


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
        """Whether her study is open although its deadline is over: too few had answered."""
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


#: The cookie of her code, which is sent with her own pages alone.
CODE = "code"
#: Refusals after which her code is what helps; the page leads to its field.
CODE_NEXT = ("participant.code_wrong", "participant.not_hers")
#: Where she is led after a code that was wrong: no page is what a form was answered with, so none is sent again.
WRONG_CODE = "wrong-code"
#: The cookie of what she said and has not confirmed yet, for seconds.
SAID, MINUTES = "said", 600


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
            player, stored, answer, due, code = roster.standing(session, self.token)
        # What is due is shown once it can no longer change: it is stored in the step that makes a study settled.
        owed = due if stored.state in ENDED else None
        return ParticipantView(f"/a/{self.token}", self.code, stored, player, answer, owed, code)

    def keep_code(self, response: Response, code: str) -> Response:
        """Give this browser her code, for her own pages."""
        self.keep(response, CODE, code, YEAR, f"/a/{self.token}")
        return response

    @property
    def _review(self) -> str:
        return f"/a/{self.token}/review"

    def hold_said(self, response: Response, plain: bool, answer: str, prediction: str) -> Response:
        """Let this browser keep what was said until it is confirmed: for that page alone, and for minutes."""
        parts = (quote(part.strip()[: LONGEST + 1], safe="") for part in (answer, prediction))
        self.keep(response, SAID, "&".join(("plain" if plain else "typed", *parts)), MINUTES, self._review)
        return response

    def held(self) -> tuple[bool, str, str] | None:
        """What it kept: whether as plain numbers or as it was typed, the answer and the prediction."""
        kind, *said = self.request.cookies.get(SAID, "").split("&")
        return (kind == "plain", unquote(said[0]), unquote(said[1])) if len(said) == 2 else None

    def drop_said(self, response: Response) -> Response:
        """Forget it. The cookie is sent with the page of the review alone, so whether there is one is not known."""
        response.delete_cookie(SAID, self._review)
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

    def ask_again(self, view: ParticipantView, said: Said, answer: str, prediction: str) -> Response:
        """The question once more, with what was typed and what is wrong with it."""
        wrong = {name: part for name, part in vars(said).items() if isinstance(part, Wrong)}
        typed = {"answer": answer.strip()[:LONGEST], "prediction": prediction.strip()[:LONGEST]}
        return self.page_of(view, "question", status=400, wrong=wrong, typed=typed)

    def page_of(self, view: ParticipantView, name: str, **values: Any) -> Response:
        study = self.plan(view.stored.id).study
        hers = self.locale.language
        told, spoken = study.in_language(hers), study.declared.spoken(hers)
        given: dict[str, Any] = {
            "view": view,
            "study": study,
            # What the analyst wrote, in her language or in another, which is then marked.
            "told": told,
            "logo": self.service.logo is not None,
            "invitation": told.invitation,
            "study_title": (told.invitation and told.invitation.title) or study.name,
            "lang": Markup(f' lang="{spoken}"') if spoken not in (None, hers) else "",
            # Her features are the analyst's own random numbers, and no facts about her.
            "assigned": bool(study.features) and study.assigned,
            "notice": None,
            "code_next": False,
        }
        if name in ("invited", "disputed"):
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
    view = visit.look()
    wrong = done == WRONG_CODE and not view.knows
    return visit.show(view, done=done, refused="participant.code_wrong" if wrong else "", status=200)


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


@router.get("/forget")
def forget_page(visit: Link) -> Response:
    """Asks whether this browser is to forget her."""
    return visit.page_of(visit.look(), "forget")


@router.post("/forget")
def forget(visit: Link) -> Response:
    """Remove her code, what she has not confirmed yet, and her language from this browser."""
    response = go(visit.look().link)
    visit.remove(response, CODE, f"/a/{visit.token}")
    visit.remove(response, LANGUAGE)
    return visit.drop_said(response)


def go_back(visit: Link) -> Response:
    """Where forms are sent to there is nothing to see; who changes her language there comes here."""
    return go(visit.look().link)


for _move in ("consent", "dispute", "undispute", "submit", "code"):
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
    if not answers.knows(view.kept_code, typed):
        return go(f"{view.link}?done={WRONG_CODE}")
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
def hold(visit: Link, answer: Field = "", prediction: Field = "") -> Response:
    """What she said is given back to her browser, for the page that shows it. Nothing is stored here.

    Browsers that run scripts show it themselves, and do not send it before she confirms it.
    """
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    said = read_said(answer, prediction, visit.plan(view.stored.id).study, visit.locale)
    plain = said.fits and (repr(said.answer), "" if said.prediction is None else repr(said.prediction))
    return visit.hold_said(go(f"{view.link}/review"), bool(plain), *(plain or (answer, prediction)))


@router.get("/review")
def review(visit: Link) -> Response:
    """Her answer, and her prediction if she is asked for one, as they were understood; or what is wrong with them."""
    view, held = visit.look(), visit.held()
    if held is None or not view.may_answer:
        return go(view.link)
    plain, answer, prediction = held
    locale, study = visit.locale, visit.plan(view.stored.id).study
    said = read_said(answer, prediction, study, None if plain else locale)
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
            moved = visit.move(
                lambda session: answers.submit(session, visit.token, value, visit.code, fits, predicted)
            )
            return visit.drop_said(moved)
    view = visit.look()
    if not view.may_answer:
        return visit.show(view, refused=_refusal(view))
    said = read_said(answer, prediction, visit.plan(view.stored.id).study)
    return visit.ask_again(view, said, answer, prediction)


@router.post("/withdraw")
def withdraw(visit: Link) -> Response:
    moved = visit.move(lambda session: answers.withdraw(session, visit.token, visit.code), "?done=withdrawn")
    return visit.drop_said(moved)


@router.get("/code.txt")
def code_file(visit: Link) -> Response:
    """Her code to keep, without the link: whoever finds the file can do nothing with it alone."""
    view = visit.look()
    if not view.knows:
        return go(view.link)
    study = visit.plan(view.stored.id).study
    return download(
        f"{study.name}\n{language(visit.request)('participant.code')}: {view.code}\n", "receipt-code.txt"
    )


@router.get("/receipt.json")
def receipt(visit: Link) -> Response:
    """What she needs, with the release, to compute her payment again."""
    return download(pretty_json(visit.look().receipt.record()), "receipt.json")


@router.get("/release.json")
def release(visit: Link) -> Response:
    """The release she is paid by, also before it is public."""
    return download(visit.look().release, "release.json")

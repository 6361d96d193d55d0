"""Planning with live feedback: two wishes in, the five guarantees out, or why not and what would help."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import Decimal
from urllib.parse import urlencode

from babel import Locale
from fastapi import APIRouter
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from truthful.errors import InputError, Refused
from truthful.files import pretty_json
from truthful.plan import Plan
from truthful.planner import Infeasible
from truthful.promises import Promise, promises
from truthful.service.analyst.shared import Sent, declaration, draft, find
from truthful.service.analyst.wizard import shown
from truthful.service.bill import most_paid, pay_range
from truthful.service.computing import Asked, frontier_chart, kept, planned
from truthful.service.formats import read_number
from truthful.service.sending import SVG, styled
from truthful.service.signing import Analyst
from truthful.service.study_file import plain
from truthful.service.web import Language, Running, go, page
from truthful.store import surveys
from truthful.store.log import log
from truthful.store.tables import Account, Survey
from truthful.study import Study

router = APIRouter()
WISHES, ENOUGH = ("budget", "players", "accuracy", "epsilon"), 2
USUAL = (1e-9, 1e15)
#: Folded away: numbers, and words of which the first is the default.
NUMBERS = ("lie", "least_slope", "absent_share", "failure_probability")
WORDS = {"accuracy_of": ("coefficients", "predictions")}


@dataclass(frozen=True)
class Wishes:
    """What was typed, what of it is no number, and what is asked of the planner."""

    typed: dict[str, str]
    locale: Locale
    wrong: tuple[str, ...] = ()
    asked: Asked = ()

    @property
    def given(self) -> int:
        """How many of the four there are."""
        return sum(bool(self.typed[name]) for name in WISHES)

    @property
    def query(self) -> str:
        return urlencode([(name, value) for name, value in self.typed.items() if value])

    def trying(self, goal: str, value: float) -> str:
        """The same wishes with one of them changed."""
        wished = {name: text for name, text in self.typed.items() if text}
        return urlencode({**wished, goal: shown(plain(value), self.locale)})


@dataclass(frozen=True)
class Outcome:
    """What the planner says: a plan, or why there is none."""

    plan: Plan | None = None
    infeasible: Infeasible | None = None
    problem: str | None = None
    promises: tuple[Promise, ...] = ()
    pay: tuple[Decimal, Decimal] = (Decimal(0), Decimal(0))
    most: Decimal = Decimal(0)


def read_wishes(sent: FormData | QueryParams, locale: Locale) -> Wishes:
    """The form's fields, in the reader's language."""
    typed = {name: str(sent.get(name, "")).strip()[:60] for name in (*WISHES, *NUMBERS, *WORDS)}
    asked: list[tuple[str, float | str]] = []
    wrong = []
    for name in (*WISHES, *NUMBERS):
        number = read_number(typed[name], locale) if typed[name] else None
        if typed[name] and (number is None or not _usual(name, number)):
            wrong.append(name)
        elif number is not None:
            asked.append((name, int(number) if name == "players" else number))
            typed[name] = shown(plain(number), locale)
    asked += [(name, typed[name]) for name, words in WORDS.items() if typed[name] in words]
    return Wishes(typed, locale, tuple(wrong), tuple(asked))


def _usual(name: str, number: float) -> bool:
    """Whether a number can be meant: people are whole, and squares of others stay numbers."""
    low, high = USUAL
    return (number == 0 or low <= abs(number) <= high) and (name != "players" or number == int(number))


def _outcome(survey: Survey, wishes: Wishes) -> Outcome:
    """The answer to what is asked; to nothing, the plan that was kept."""
    if wishes.wrong:
        return Outcome()
    if not wishes.given:
        return _of(kept(survey.plan)) if survey.plan is not None else Outcome()
    if wishes.given < ENOUGH:
        return Outcome()
    try:
        return _of(planned(declaration(survey), wishes.asked))
    except Infeasible as answer:
        return Outcome(infeasible=answer)
    except (InputError, Refused) as problem:
        return Outcome(problem=str(problem))


def _of(plan: Plan) -> Outcome:
    promised, most = promises(plan, plan.players), most_paid(plan, plan.players)
    return Outcome(plan, promises=promised, pay=pay_range(plan), most=most)


@router.get("/studies/{survey_id}/plan")
def plan_page(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str
) -> Response:
    return _page(request, account, draft(service, survey_id), texts.locale, request.query_params)


def _page(
    request: Request, account: Account, survey: Survey, locale: Locale, sent: FormData | QueryParams
) -> Response:
    study = Study.parse(declaration(survey))
    wishes = read_wishes(sent, locale)
    outcome = _outcome(survey, wishes)
    if not any(wishes.typed.values()) and survey.plan is not None:
        wishes = replace(wishes, typed={**wishes.typed, **_asked_before(survey.plan, locale)})
    return page(
        request,
        "analyst/plan.html",
        account=account,
        survey=survey,
        wishes=wishes,
        outcome=outcome,
        currency=study.currency,
        response=study.response.name,
    )


def _asked_before(plan: str, locale: Locale) -> dict[str, str]:
    """What the plan that was kept was asked for."""
    asked = json.loads(plan).get("answer", {}).get("asked", {})
    return {
        name: value if isinstance(value, str) else shown(plain(value), locale)
        for name, value in asked.items()
    }


@router.post("/studies/{survey_id}/plan")
def keep_plan(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str, sent: Sent
) -> Response:
    """Keep the plan that these wishes come to."""
    survey = draft(service, survey_id)
    outcome = _outcome(survey, read_wishes(sent, texts.locale))
    if outcome.plan is None:
        return _page(request, account, survey, texts.locale, sent)
    with service.database.writing() as session:
        now = surveys.drafted(session, survey_id)
        if now.declaration != survey.declaration:
            raise Refused("The study was changed meanwhile, so this plan is not its plan. Plan it again.")
        now.plan = pretty_json(outcome.plan.record())
        log(session, account.name, "planned", survey_id)
    return go(f"/studies/{survey_id}")


@router.get("/studies/{survey_id}/frontier.svg")
def frontier(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str
) -> Response:
    """What other budgets would buy."""
    outcome = _outcome(find(service, survey_id), read_wishes(request.query_params, texts.locale))
    if outcome.plan is None:
        raise surveys.Unknown("There is no plan to draw.")
    return styled(frontier_chart(outcome.plan), SVG)

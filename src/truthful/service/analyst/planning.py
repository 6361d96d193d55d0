"""Planning with live feedback: two wishes in, the five guarantees out, or why not and what would help."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from decimal import Decimal
from urllib.parse import urlencode

from babel import Locale
from fastapi import APIRouter
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from truthful.agents import ASKED, KINDS, SHARES
from truthful.errors import InputError, Refused
from truthful.files import pretty_json
from truthful.plan import Plan
from truthful.planner import Infeasible
from truthful.promises import Promise, otherwise, promises
from truthful.service.analyst.study_pages import Sent, declaration, draft, find, listed
from truthful.service.analyst.wizard import shown
from truthful.service.drafts import plain
from truthful.service.jobs import (
    Asked,
    Listed,
    Shares,
    count_studies,
    frontier_chart,
    kept,
    needs_roster,
    planned,
    plans_from_roster,
    simulated,
)
from truthful.service.offer import most_paid, pay_range
from truthful.service.pages import HTML, SVG, Language, Running, Service, go, page, read_number, styled
from truthful.service.settle_study import NOT_PLANNED
from truthful.service.signing import Analyst
from truthful.store import roster, studies
from truthful.store.studies import log
from truthful.store.tables import Account, StoredStudy
from truthful.study import Study

router = APIRouter()
WISHES, ENOUGH = ("budget", "players", "accuracy", "epsilon"), 2
USUAL = (1e-9, 1e15)
#: Folded away: numbers, and words of which the first is the default.
NUMBERS = ("lie", "least_slope", "absent_share", "failure_probability")
WORDS = {"accuracy_of": ("coefficients", "predictions")}
#: Typed in percent: how many of those invited will answer.
SHARE = "response_share"


NO_PEOPLE = (
    "The facts are people's own, so the plan is made from them. Upload a file of everybody you will invite, on "
    "the page of the study; then plan."
)


@dataclass(frozen=True)
class Wishes:
    """What was typed, what of it is no number, and what is asked of the planner."""

    typed: dict[str, str]
    locale: Locale
    wrong: tuple[str, ...] = ()
    asked: Asked = ()
    listed: bool = False
    """Whether the people are known already: then how many they are is no wish."""
    points: bool = False
    """Whether errors are typed in percentage points, as those of shares are."""

    @property
    def given(self) -> int:
        """How many of the four there are."""
        return sum(bool(self.typed[name]) for name in WISHES) + self.listed

    @property
    def none(self) -> bool:
        return not any(self.typed[name] for name in WISHES)

    @property
    def query(self) -> str:
        return urlencode([(name, value) for name, value in self.typed.items() if value])

    def trying(self, goal: str, value: float) -> str:
        """The same wishes with one of them changed."""
        wished = {name: text for name, text in self.typed.items() if text}
        return urlencode({**wished, goal: shown(plain(self.as_typed(goal, value)), self.locale)})

    def as_typed(self, goal: str, value: float) -> float:
        """What the planner says of a goal, in the units in which it is typed; an error rounded up."""
        return math.ceil(1e6 * value) / 1e4 if self.points and goal == "accuracy" else value


@dataclass(frozen=True)
class Outcome:
    """What the planner says: a plan, or why there is none."""

    plan: Plan | None = None
    infeasible: Infeasible | None = None
    problem: str | None = None
    promises: tuple[Promise, ...] = ()
    otherwise: tuple[str, ...] = ()
    pay: tuple[Decimal, Decimal] = (Decimal(0), Decimal(0))
    most: Decimal = Decimal(0)


def read_wishes(
    sent: FormData | QueryParams, locale: Locale, listed: bool = False, points: bool = False
) -> Wishes:
    """The form's fields, in the reader's language."""
    typed = {name: str(sent.get(name, "")).strip()[:60] for name in (*WISHES, SHARE, *NUMBERS, *WORDS)}
    typed |= {"players": ""} if listed else {}
    asked: list[tuple[str, float | str]] = []
    wrong = []
    for name in (*WISHES, *NUMBERS):
        number = read_number(typed[name], locale) if typed[name] else None
        if typed[name] and (number is None or not _usual(name, number)):
            wrong.append(name)
        elif number is not None:
            asked.append((name, _meant(name, number, points)))
            typed[name] = shown(plain(number), locale)
    asked += [(name, typed[name]) for name, words in WORDS.items() if typed[name] in words]
    if typed[SHARE]:
        percent = read_number(typed[SHARE], locale)
        if percent is None or not 0 < percent <= 100:
            wrong.append(SHARE)
        else:
            asked.append((SHARE, percent / 100))
    return Wishes(typed, locale, tuple(wrong), tuple(asked), listed, points)


def _meant(name: str, number: float, points: bool) -> float:
    """A typed number as the planner takes it."""
    if name == "players":
        return int(number)
    return number / 100 if points and name == "accuracy" else number


def _usual(name: str, number: float) -> bool:
    """Whether a number can be meant: people are whole, and squares of others stay numbers."""
    low, high = USUAL
    return (number == 0 or low <= abs(number) <= high) and (name != "players" or number == int(number))


def _outcome(stored: StoredStudy, wishes: Wishes, people: Listed | None) -> Outcome:
    """The answer to what is asked; to nothing, the plan that was kept."""
    if wishes.wrong:
        return Outcome()
    if wishes.none:
        return _of(kept(stored.plan)) if stored.plan is not None else Outcome()
    if wishes.given < ENOUGH:
        return Outcome()
    try:
        return _of(planned(declaration(stored), wishes.asked, people))
    except Infeasible as answer:
        return Outcome(infeasible=answer)
    except (InputError, Refused) as problem:
        return Outcome(problem=str(problem))


def _of(plan: Plan) -> Outcome:
    most = most_paid(plan, plan.players, plan.guarantees)
    return Outcome(plan, promises=promises(plan), otherwise=otherwise(plan), pay=pay_range(plan), most=most)


def _people(service: Service, stored: StoredStudy) -> Listed | None:
    """Those from whom a plan is made: brought already, and of features that a plan may know."""
    if stored.roster is None or not plans_from_roster(Study.parse(declaration(stored))):
        return None
    return listed(service, stored)


def _in_points(stored: StoredStudy) -> bool:
    """Whether errors are those of shares of yes, which are typed in percentage points."""
    return stored.declaration is not None and Study.parse(stored.declaration).kind == "yes-no"


def _asked(
    service: Service, stored: StoredStudy, sent: FormData | QueryParams, locale: Locale
) -> tuple[Wishes, Outcome]:
    """What is wished, and what comes of it."""
    people = _people(service, stored)
    wishes = read_wishes(sent, locale, listed=people is not None, points=_in_points(stored))
    return wishes, _outcome(stored, wishes, people)


@router.get("/studies/{study_id}/plan")
def plan_page(
    request: Request, service: Running, account: Analyst, texts: Language, study_id: str
) -> Response:
    return _page(request, service, account, draft(service, study_id), texts.locale, request.query_params)


def _page(
    request: Request,
    service: Service,
    account: Account,
    stored: StoredStudy,
    locale: Locale,
    sent: FormData | QueryParams,
) -> Response:
    study = Study.parse(declaration(stored))
    if needs_roster(study) and stored.roster is None:
        raise Refused(NO_PEOPLE)
    wishes, outcome = _asked(service, stored, sent, locale)
    with service.database.reading() as session:
        people = roster.size(session, stored.id) if wishes.listed else None
    if not any(wishes.typed.values()) and stored.plan is not None:
        before = _asked_before(stored.plan, locale, wishes.points)
        wishes = replace(wishes, typed={**wishes.typed, **before})
    return page(
        request,
        "analyst/plan.html",
        account=account,
        stored=stored,
        wishes=wishes,
        outcome=outcome,
        people=people,
        shares=study.protects == "answers",
        kind=study.kind,
        facts=bool(study.features),
        asks=study.levels is not None,
        currency=study.currency,
        response=study.response.name,
    )


def _asked_before(plan: str, locale: Locale, points: bool = False) -> dict[str, str]:
    """What the plan that was kept was asked for."""
    record = json.loads(plan)
    asked, share = dict(record.get("answer", {}).get("asked", {})), record.get(SHARE, 1.0)
    if points and "accuracy" in asked:
        asked["accuracy"] = round(100 * asked["accuracy"], 9)
    typed = {
        name: value if isinstance(value, str) else shown(plain(value), locale)
        for name, value in asked.items()
    }
    return typed if share == 1.0 else {**typed, SHARE: shown(plain(round(100 * share, 9)), locale)}


@router.post("/studies/{study_id}/plan")
def keep_plan(
    request: Request, service: Running, account: Analyst, texts: Language, study_id: str, sent: Sent
) -> Response:
    """Keep the plan that these wishes come to."""
    stored = draft(service, study_id)
    _, outcome = _asked(service, stored, sent, texts.locale)
    if outcome.plan is None:
        return _page(request, service, account, stored, texts.locale, sent)
    with service.database.writing() as session:
        now = studies.drafted(session, study_id)
        if (now.declaration, now.roster) != (stored.declaration, stored.roster):
            raise Refused("The study was changed meanwhile, so this plan is not its plan. Plan it again.")
        now.plan = pretty_json(outcome.plan.record())
        log(session, account.name, "planned", study_id)
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/frontier.svg")
def frontier(
    request: Request, service: Running, account: Analyst, texts: Language, study_id: str
) -> Response:
    """What other budgets would buy. A plan that was kept does not say who its people are: it is worked out again."""
    stored, sent = find(service, study_id), request.query_params
    if not sent and stored.plan is not None:
        sent = QueryParams(_asked_before(stored.plan, texts.locale, _in_points(stored)))
    _, outcome = _asked(service, stored, sent, texts.locale)
    if (
        outcome.plan is None
        or outcome.plan.study.kind != "number"
        or outcome.plan.asked_mechanism is not None
    ):
        raise studies.Unknown("There is no plan to draw.")
    return styled(frontier_chart(outcome.plan), SVG)


HONEST = "honest"
LARGEST_SEED = 2**31


@router.get("/studies/{study_id}/rehearse")
def rehearse_page(request: Request, service: Running, account: Analyst, study_id: str) -> Response:
    stored = find(service, study_id)
    usual = "exaggerator" if kept(_plan(stored)).study.shares is None else "denier"
    return _rehearsal_page(request, account, stored, {usual: "5"})


def _rehearsal_page(
    request: Request, account: Account, stored: StoredStudy, typed: dict[str, str], problem: str | None = None
) -> Response:
    plan = kept(_plan(stored))
    try:
        runs = count_studies(plan)
    except Refused as too_large:
        runs, problem = 0, str(too_large)
    return page(
        request,
        "analyst/rehearse.html",
        status=200 if problem is None or not runs else 400,
        account=account,
        stored=stored,
        others=_others(stored),
        runs=runs,
        players=plan.players,
        invented=bool(plan.study.features)
        and plan.study.design.kind in ("observed", "covariance")
        and plan.roster is None,
        problem=problem,
        typed=typed,
    )


@router.post("/studies/{study_id}/rehearse")
def rehearse(
    request: Request, service: Running, account: Analyst, texts: Language, study_id: str, sent: Sent
) -> Response:
    """Run it, and show its page, whose address says all that makes it again."""
    stored = find(service, study_id)
    try:
        shares, seed = read_mix(sent, texts.locale, _others(stored))
        simulated(_plan(stored), shares, seed, listed(service, stored))
    except (InputError, Refused) as problem:
        typed = {name: str(sent.get(name, ""))[:20] for name in (*_others(stored), "seed")}
        return _rehearsal_page(request, account, stored, typed, str(problem))
    query = {**{name: f"{100 * share:.10g}" for name, share in shares}, "seed": seed}
    return go(f"/studies/{study_id}/rehearse/report?{urlencode(query)}")


@router.get("/studies/{study_id}/rehearse/report")
def rehearsed(request: Request, service: Running, account: Analyst, study_id: str) -> Response:
    stored = find(service, study_id)
    shares, seed = read_mix(request.query_params, Locale("en"), _others(stored))
    return styled(simulated(_plan(stored), shares, seed, listed(service, stored)), HTML)


def _others(stored: StoredStudy) -> tuple[str, ...]:
    """Who can be mixed in; who is left is honest."""
    study = kept(_plan(stored)).study
    more = (*SHARES, *ASKED) if study.levels is not None else SHARES if study.shares is not None else ()
    return tuple(name for name in (*KINDS, *more) if name != HONEST)


def read_mix(sent: FormData | QueryParams, locale: Locale, others: tuple[str, ...]) -> tuple[Shares, int]:
    """The share of each kind of people, typed in percent, and the seed."""
    shares = []
    for name in others:
        typed = str(sent.get(name, "")).strip()
        percent = read_number(typed, locale) if typed else 0.0
        if percent is None or not 0 <= percent <= 100:
            raise InputError(f"The share of {name!r} is {typed[:20]!r}; give a number from 0 to 100.")
        if percent:
            shares.append((name, percent / 100))
    if sum(share for _, share in shares) > 1 + 1e-9:
        raise InputError("The shares add up to more than 100. Make some of them smaller.")
    seed = str(sent.get("seed", "")).strip() or "0"
    if not (seed.isascii() and seed.isdecimal() and int(seed[:12]) < LARGEST_SEED):
        raise InputError(f"The seed is {seed[:20]!r}; give a whole number from 0 to {LARGEST_SEED:,}.")
    return tuple(shares), int(seed)


def _plan(stored: StoredStudy) -> str:
    if stored.plan is None:
        raise Refused(NOT_PLANNED)
    return stored.plan

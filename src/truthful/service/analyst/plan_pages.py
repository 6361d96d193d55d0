"""Planning with live feedback: from two goals to the five guarantees, or to remedies; and simulated rehearsals."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from babel import Locale
from fastapi import APIRouter
from sqlalchemy.orm import Session
from starlette.datastructures import FormData, QueryParams
from starlette.responses import Response

from truthful.agents import ASKED, KINDS, SHARES, Honest
from truthful.errors import InputError, Refused
from truthful.files import pretty_json
from truthful.formatting import decimals, shortest
from truthful.plan import Plan
from truthful.planner import Infeasible
from truthful.promises import caveats, expected_intervals, wrong_beliefs
from truthful.service import drafts, jobs
from truthful.service.analyst.study_pages import (
    Draft,
    Found,
    Sent,
    declaration_of,
    declare,
    list_people,
    plan_of,
    text,
)
from truthful.service.analyst.wizard import shown
from truthful.service.jobs import DraftRoster, PlanArguments, Shares, apart, parse_plan, parse_study
from truthful.service.offer import terms
from truthful.service.pages import HTML, SVG, go, picture_response, read_number, rounded
from truthful.service.signing import Analyst, SignedIn
from truthful.store import mails, roster, studies
from truthful.store.audit_log import log
from truthful.store.tables import StoredStudy

router = APIRouter()
WISHES, ENOUGH = ("budget", "players", "accuracy", "epsilon"), 2
SENSIBLE = (1e-9, 1e15)
#: The advanced fields: numbers, and choices of which the first is the default.
NUMBERS = ("lie", "absent_share", "failure_probability")
WORDS = {"accuracy_of": ("coefficients", "predictions")}
#: The expected share of invited people who answer, typed in percent.
SHARE = "response_share"
LARGEST_SEED = 2**31


@dataclass(frozen=True)
class Wishes:
    """The goals for a plan: the input, the fields with errors, and the arguments for the planner."""

    typed: dict[str, str]
    locale: Locale
    wrong: tuple[str, ...] = ()
    asked: PlanArguments = ()
    listed: bool = False
    """Whether a roster was brought, which fixes the number of players."""
    points: bool = False
    """Whether accuracy is typed in percentage points, as for shares."""

    @property
    def query(self) -> str:
        return urlencode([(name, value) for name, value in self.typed.items() if value])

    def trying(self, goal: str, value: float) -> str:
        """The query of the same goals with one of them changed."""
        wished = {name: text for name, text in self.typed.items() if text}
        return urlencode({**wished, goal: shown(shortest(self.as_typed(goal, value)), self.locale)})

    def as_typed(self, goal: str, value: float) -> float:
        """A goal of the planner's in the units in which it is typed; accuracy is rounded up."""
        return math.ceil(1e6 * value) / 1e4 if self.points and goal == "accuracy" else value


def read_wishes(
    sent: FormData | QueryParams, locale: Locale, listed: bool = False, points: bool = False
) -> Wishes:
    """Parse the form's fields in the reader's language."""
    typed = {name: str(sent.get(name, "")).strip()[:60] for name in (*WISHES, SHARE, *NUMBERS, *WORDS)}
    typed |= {"players": ""} if listed else {}
    asked: list[tuple[str, float | str]] = []
    wrong, units = [], {SHARE: 100.0, "accuracy": 100.0 if points else 1.0}
    for name in (*WISHES, SHARE, *NUMBERS):
        number = read_number(typed[name], locale) if typed[name] else None
        if typed[name] and (number is None or not _is_sensible(name, number)):
            wrong.append(name)
        elif number is not None:
            asked.append((name, int(number) if name == "players" else number / units.get(name, 1.0)))
            typed[name] = shown(shortest(number), locale)
    asked += [(name, typed[name]) for name, words in WORDS.items() if typed[name] in words]
    return Wishes(typed, locale, tuple(wrong), tuple(asked), listed, points)


def _is_sensible(name: str, number: float) -> bool:
    """Whether a number is sensible: people are whole, and others stay finite when squared."""
    if name == SHARE:
        return 0 < number <= 100
    low, high = SENSIBLE
    return (number == 0 or low <= abs(number) <= high) and (name != "players" or number == int(number))


def _find_plan(
    stored: StoredStudy, wishes: Wishes, people: DraftRoster | None
) -> Plan | InputError | Refused | None:
    """The plan for these goals, or why there is none; without goals, the stored plan."""
    wished = sum(bool(wishes.typed[name]) for name in WISHES)
    if wishes.wrong:
        return None
    if not wished and stored.plan is not None:
        return parse_plan(stored.plan)
    if wished + wishes.listed < ENOUGH:
        return None
    try:
        return jobs.make_plan(declaration_of(stored), wishes.asked, people)
    except (InputError, Refused) as problem:
        return problem


def _answer_wishes(
    visit: SignedIn, stored: StoredStudy, sent: FormData | QueryParams
) -> tuple[Wishes, Plan | InputError | Refused | None]:
    """The goals and their plan, made for the draft's roster if plans may use features.

    For shares of yes, accuracy is typed in percentage points.
    """
    study = parse_study(declaration_of(stored))
    people = list_people(visit, stored) if jobs.plans_from_roster(study) else None
    wishes = read_wishes(sent, visit.locale, listed=people is not None, points=study.kind == "yes-no")
    return wishes, _find_plan(stored, wishes, people)


@router.get("/studies/{study_id}/plan")
@apart("plans")
def plan_page(visit: Analyst, stored: Draft) -> Response:
    return _plan_page(visit, stored, visit.request.query_params)


def _plan_page(visit: SignedIn, stored: StoredStudy, sent: FormData | QueryParams) -> Response:
    study = parse_study(declaration_of(stored))
    if jobs.needs_roster(study) and stored.roster is None:
        first = {"needed": True, "study": study, "problem": None, "bad": None}
        possible = visit.service.mailer is not None
        return visit.page("analyst/plan.html", status=200, stored=stored, mails_sent=possible, **first)
    wishes, found = _answer_wishes(visit, stored, sent)
    with visit.reading() as session:
        people = roster.size(session, stored.id) if wishes.listed else None
    if not any(wishes.typed.values()) and stored.plan is not None:
        before = _asked_before(stored.plan, visit.locale, wishes.points)
        wishes = replace(wishes, typed={**wishes.typed, **before})
    plan = found if isinstance(found, Plan) else None
    return visit.page(
        "analyst/plan.html",
        stored=stored,
        needed=False,
        wishes=wishes,
        infeasible=found if isinstance(found, Infeasible) else None,
        problem=None if isinstance(found, Plan | Infeasible) else found,
        at=found.argument if isinstance(found, InputError) and found.argument in wishes.typed else None,
        plan=plan,
        otherwise=plan and (wrong_beliefs(plan) if plan.asked_mechanism is None else caveats(plan)),
        **({} if plan is None else terms(plan) | {"intervals": _intervals(plan, visit.locale)}),
        people=people,
        in_file=_changes_in_file(found) if isinstance(found, Infeasible) else (),
        shares=study.protects == "answers",
        kind=study.kind,
        facts=bool(study.features),
        asks=study.levels is not None,
        currency=study.currency,
        response=study.response.name,
    )


def _changes_in_file(found: Infeasible) -> list[str]:
    """The remedies that change the study to one that the forms cannot express."""
    changed = [remedy for remedy in found.remedies if remedy.study is not None]
    return [remedy.goal for remedy in changed if remedy.study and drafts.fields_of(remedy.study) is None]


def _intervals(plan: Plan, locale: Locale) -> list[tuple[str, str, str]]:
    """The widths of the intervals to expect, and the effects they can detect."""

    def short(value: float) -> str:
        return rounded(value, decimals(value), locale)

    return [
        (name, f"± {short(half_width)}", "" if effect is None else short(effect))
        for name, half_width, effect in expected_intervals(plan.guarantees, plan.study)
    ]


def _asked_before(plan: str, locale: Locale, points: bool) -> dict[str, str]:
    """The goals of the stored plan, as typed fields."""
    record = json.loads(plan)
    asked, share = dict(record.get("answer", {}).get("asked", {})), record.get(SHARE, 1.0)
    if points and "accuracy" in asked:
        asked["accuracy"] = round(100 * asked["accuracy"], 9)
    typed = {
        name: value if isinstance(value, str) else shown(shortest(value), locale)
        for name, value in asked.items()
    }
    return typed if share == 1.0 else {**typed, SHARE: shown(shortest(round(100 * share, 9)), locale)}


@router.post("/studies/{study_id}/plan")
@apart("plans")
def keep_plan(visit: Analyst, stored: Draft, sent: Sent) -> Response:
    """Store the plan for these goals."""
    _, plan = _answer_wishes(visit, stored, sent)
    if not isinstance(plan, Plan):
        return _plan_page(visit, stored, sent)
    with visit.writing() as session:
        now = studies.lock_draft(session, stored.id)
        if (now.declaration, now.roster) != (stored.declaration, stored.roster):
            raise Refused("The study was changed meanwhile, so this plan is not its plan. Plan it again.")
        now.plan = pretty_json(plan.record())
        log(session, visit.who, "planned", stored.id)
    return go(f"/studies/{stored.id}")


@router.post("/studies/{study_id}/change")
@apart("plans")
def change_study(visit: Analyst, stored: Draft, sent: Sent) -> Response:
    """Apply one of the remedies that change the study, and plan again.

    The roster stays, without the removed features and with merged levels.
    """
    wishes, found = _answer_wishes(visit, stored, sent)
    remedies = found.remedies if isinstance(found, Infeasible) else ()
    changed = next(
        (remedy.study for remedy in remedies if f"{remedy.goal}={remedy.value}" == text(sent, "change")), None
    )
    fields = None if changed is None else drafts.fields_of(changed)
    if changed is None or fields is None:
        raise Refused("This change cannot be made here. Change the study in its own steps, or in its file.")
    before, brought = parse_study(declaration_of(stored)), stored.roster is not None

    def bring_again(session: Session) -> None:
        if brought:
            people = roster.in_terms_of(changed, before, roster.people(session, stored.id))
            addresses = mails.addresses(session, stored.id)
            roster.replace(session, stored.id, visit.who, people, changed)
            mails.keep(session, stored.id, addresses)

    draft = {"name": changed.name, "fields": fields}
    declare(visit, stored.id, drafts.document(fields), draft, bring_again)
    if brought and not jobs.plans_from_roster(changed):
        with visit.reading() as session:
            players = str(roster.size(session, stored.id))
        wishes = replace(wishes, typed={**wishes.typed, "players": players})
    return go(f"/studies/{stored.id}/plan?{wishes.query}")


@router.get("/studies/{study_id}/frontier.svg")
@apart("plans")
def frontier(visit: Analyst, stored: Found) -> Response:
    """The chart of other budgets. A stored plan does not hold its roster, so it is planned again."""
    sent = visit.request.query_params
    if stored.declaration is None:
        raise studies.Unknown("There is no plan to draw.")
    if not sent and stored.plan is not None:
        points = parse_study(stored.declaration).kind == "yes-no"
        sent = QueryParams(_asked_before(stored.plan, visit.locale, points))
    _, plan = _answer_wishes(visit, stored, sent)
    if not isinstance(plan, Plan) or plan.study.kind != "number" or plan.asked_mechanism is not None:
        raise studies.Unknown("There is no plan to draw.")
    return picture_response(jobs.frontier_svg(plan), SVG)


@router.get("/studies/{study_id}/rehearse")
def rehearse_page(visit: Analyst, stored: Found) -> Response:
    """The form for a rehearsal with simulated people, before anybody is asked."""
    usual = "exaggerator" if parse_plan(plan_of(stored)).study.shares is None else "denier"
    return _rehearsal_page(visit, stored, {usual: "5"})


def _rehearsal_page(
    visit: SignedIn,
    stored: StoredStudy,
    typed: dict[str, str],
    problem: InputError | Refused | None = None,
) -> Response:
    plan = parse_plan(plan_of(stored))
    try:
        runs = jobs.count_studies(plan)
    except Refused as too_large:
        runs, problem = 0, too_large
    own_facts = plan.study.design.kind in ("observed", "covariance")
    return visit.page(
        "analyst/rehearse.html",
        status=200 if problem is None or not runs else 400,
        stored=stored,
        others=_agent_names(stored),
        runs=runs,
        players=plan.players,
        invented=bool(plan.study.features) and own_facts and plan.roster is None,
        problem=problem,
        at=problem.argument if isinstance(problem, InputError) else None,
        typed=typed,
    )


@router.post("/studies/{study_id}/rehearse")
@apart("plans")
def rehearse(visit: Analyst, stored: Found, sent: Sent) -> Response:
    """Run a simulation, and redirect to its report, whose address holds all its parameters."""
    others = _agent_names(stored)
    try:
        shares, seed = read_mix(sent, visit.locale, others)
        jobs.simulation_page(plan_of(stored), shares, seed, list_people(visit, stored))
    except (InputError, Refused) as problem:
        typed = {name: str(sent.get(name, ""))[:20] for name in (*others, "seed")}
        return _rehearsal_page(visit, stored, typed, problem)
    query = {**{name: f"{100 * share:.10g}" for name, share in shares}, "seed": seed}
    return go(f"/studies/{stored.id}/rehearse/report?{urlencode(query)}")


@router.get("/studies/{study_id}/rehearse/report")
@apart("plans")
def rehearsal_report(visit: Analyst, stored: Found) -> Response:
    shares, seed = read_mix(visit.request.query_params, Locale("en"), _agent_names(stored))
    return picture_response(
        jobs.simulation_page(plan_of(stored), shares, seed, list_people(visit, stored)), HTML
    )


def _agent_names(stored: StoredStudy) -> tuple[str, ...]:
    """The kinds of agents that can be mixed in with honest ones."""
    study = parse_plan(plan_of(stored)).study
    more = (*SHARES, *ASKED) if study.levels is not None else SHARES if study.shares is not None else ()
    return tuple(name for name in (*KINDS, *more) if name != Honest.name)


def read_mix(sent: FormData | QueryParams, locale: Locale, others: tuple[str, ...]) -> tuple[Shares, int]:
    """Parse the share of each kind of agent, typed in percent, and the seed."""
    shares = []
    for name in others:
        typed = str(sent.get(name, "")).strip()
        percent = read_number(typed, locale) if typed else 0.0
        if percent is None or not 0 <= percent <= 100:
            raise InputError(
                f"The share of {name!r} is {typed[:20]!r}; give a number from 0 to 100.", argument=name
            )
        if percent:
            shares.append((name, percent / 100))
    if sum(share for _, share in shares) > 1 + 1e-9:
        raise InputError("The shares add up to more than 100. Make some of them smaller.")
    seed = str(sent.get("seed", "")).strip() or "0"
    if not (seed.isascii() and seed.isdecimal() and len(seed) <= 10 and int(seed) < LARGEST_SEED):
        raise InputError(
            f"The seed is {seed[:20]!r}; give a whole number from 0 to {LARGEST_SEED - 1:,}.", argument="seed"
        )
    return tuple(shares), int(seed)

"""A rehearsal with simulated people, before anybody is asked: observed next to guaranteed."""

from __future__ import annotations

from urllib.parse import urlencode

from babel import Locale
from fastapi import APIRouter
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from truthful.agents import ASKED, KINDS, SHARES
from truthful.errors import InputError, Refused
from truthful.service.analyst.shared import Sent, find, listed
from truthful.service.computing import Shares, kept, simulated, studies
from truthful.service.formats import read_number
from truthful.service.freezing import NOT_PLANNED
from truthful.service.sending import HTML, styled
from truthful.service.signing import Analyst
from truthful.service.web import Language, Running, go, page
from truthful.store.tables import Account, Survey

router = APIRouter()
HONEST = "honest"
LARGEST_SEED = 2**31


@router.get("/studies/{survey_id}/rehearse")
def rehearse_page(request: Request, service: Running, account: Analyst, survey_id: str) -> Response:
    survey = find(service, survey_id)
    usual = "exaggerator" if kept(_plan(survey)).study.shares is None else "denier"
    return _page(request, account, survey, {usual: "5"})


def _page(
    request: Request, account: Account, survey: Survey, typed: dict[str, str], problem: str | None = None
) -> Response:
    plan = kept(_plan(survey))
    try:
        runs = studies(plan)
    except Refused as too_large:
        runs, problem = 0, str(too_large)
    return page(
        request,
        "analyst/rehearse.html",
        status=200 if problem is None or not runs else 400,
        account=account,
        survey=survey,
        others=_others(survey),
        runs=runs,
        players=plan.players,
        invented=bool(plan.study.features)
        and plan.study.design.kind in ("observed", "covariance")
        and plan.roster is None,
        problem=problem,
        typed=typed,
    )


@router.post("/studies/{survey_id}/rehearse")
def rehearse(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str, sent: Sent
) -> Response:
    """Run it, and show its page, whose address says all that makes it again."""
    survey = find(service, survey_id)
    try:
        shares, seed = read_mix(sent, texts.locale, _others(survey))
        simulated(_plan(survey), shares, seed, listed(service, survey))
    except (InputError, Refused) as problem:
        typed = {name: str(sent.get(name, ""))[:20] for name in (*_others(survey), "seed")}
        return _page(request, account, survey, typed, str(problem))
    query = {**{name: f"{100 * share:.10g}" for name, share in shares}, "seed": seed}
    return go(f"/studies/{survey_id}/rehearse/report?{urlencode(query)}")


@router.get("/studies/{survey_id}/rehearse/report")
def rehearsed(request: Request, service: Running, account: Analyst, survey_id: str) -> Response:
    survey = find(service, survey_id)
    shares, seed = read_mix(request.query_params, Locale("en"), _others(survey))
    return styled(simulated(_plan(survey), shares, seed, listed(service, survey)), HTML)


def _others(survey: Survey) -> tuple[str, ...]:
    """Who can be mixed in; who is left is honest."""
    study = kept(_plan(survey)).study
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


def _plan(survey: Survey) -> str:
    if survey.plan is None:
        raise Refused(NOT_PLANNED)
    return survey.plan

"""The wizard: a study in a few short forms. All that is typed is kept, and what it comes to is a study file."""

from __future__ import annotations

from functools import partial
from typing import Any

from babel import Locale
from babel.numbers import get_decimal_symbol
from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from truthful.service.analyst.shared import Sent, declare, draft, text
from truthful.service.drafting import EXAMPLE, STEPS, complaints, declared, fields_of, protecting, unfilled
from truthful.service.formats import read_number
from truthful.service.signing import Analyst
from truthful.service.study_file import (
    NUMBER,
    RATING,
    YES,
    YES_NO,
    Fields,
    asks,
    document,
    kind_of,
    plain,
    read,
)
from truthful.service.web import Language, Running, Service, go, page
from truthful.store.surveys import Unknown
from truthful.store.tables import Account, Survey
from truthful.study import Study

router = APIRouter()
MOST_FEATURES = 40
#: The fields of each step, `#` before those that hold a number. Features come in rows of their own.
TYPED = {
    "question": ("name", "currency", "answer_kind", "response", "#low", "#high", "#levels", "question"),
    "invitation": ("asked_by", "purpose", "contact"),
    "people": ("design", "#least_eigenvalue", "protects", "hide_matrix", "features_public"),
    "beliefs": (
        *("predictions", "#sure", "#spread", "#effect", "#plausible_low", "#plausible_high"),
        *("#signal", "noise", "#noise_sd", "#tolerance"),
    ),
    "costs": ("costs", "#tail", "#scale", "#median", "#sigma", "privacy"),
}
#: The same where people answer yes or no, or with a rating, if it is not as for numbers.
OF_SHARES = {
    "people": ("design", "hide_matrix", "features_public"),
    "beliefs": ("predictions", "#share_low", "#share_high", "#sure", "#effect", "#tolerance"),
}
ROW = ("name", "kind", "#low", "#high", "levels", "sensitive")
#: What a choice must be; anything else is its first word.
CHOICES = {
    "answer_kind": (NUMBER, YES_NO, RATING),
    "design": ("observed", "uniform"),
    "noise": ("normal", "uniform"),
    "costs": ("pareto", "lognormal"),
    "privacy": ("quadratic", "linear"),
    "kind": ("number", "levels"),
    "protects": ("", "answers", "records"),
    **dict.fromkeys(("hide_matrix", "features_public", "sensitive", "predictions"), ("", YES)),
}


@router.get("/studies/{survey_id}/edit")
def edit(service: Running, account: Analyst, survey_id: str) -> Response:
    """The first step that is not finished, or the first of all."""
    fields = _fields(draft(service, survey_id))
    if fields is None:
        return go(f"/studies/{survey_id}/file")
    waiting = (step for step in STEPS if unfilled(fields, step) or complaints(fields, step))
    return go(f"/studies/{survey_id}/edit/{next(waiting, STEPS[0])}")


@router.get("/studies/{survey_id}/edit/{step}")
def edit_step(
    request: Request, service: Running, account: Analyst, texts: Language, survey_id: str, step: str
) -> Response:
    survey = draft(service, survey_id)
    fields = _fields(survey)
    if step not in STEPS:
        raise Unknown("There is no such step.")
    if fields is None:
        return go(f"/studies/{survey_id}/file")
    return _page(request, account, survey, fields, step, texts.locale)


@router.post("/studies/{survey_id}/edit/{step}")
def save_step(
    request: Request,
    service: Running,
    account: Analyst,
    texts: Language,
    sent: Sent,
    survey_id: str,
    step: str,
) -> Response:
    """Keep what was typed, good or bad; go on if it is good."""
    survey = draft(service, survey_id)
    if step not in STEPS:
        raise Unknown("There is no such step.")
    before = _fields(survey) or {}
    fields = {**before, **_typed(sent, step, texts.locale, kind_of(before))}
    pressed = text(sent, "do")
    if step == "people":
        fields["features"] = _rows(sent, pressed, texts.locale)
        fields = protecting(fields, before) if kind_of(fields) == NUMBER else fields
    _keep(service, survey, account, fields)
    here = f"/studies/{survey_id}/edit/{step}"
    if pressed == "add":
        return go(f"{here}#f{len(fields['features']) - 1}_name")
    if pressed.startswith("remove-"):
        return go(f"{here}#features")
    if unfilled(fields, step) or complaints(fields, step):
        return _page(request, account, draft(service, survey_id), fields, step, texts.locale, checked=True)
    later = STEPS[STEPS.index(step) + 1 :]
    return go(f"/studies/{survey_id}/edit/{later[0]}" if later else f"/studies/{survey_id}")


def _keep(service: Service, survey: Survey, account: Account, fields: Fields) -> None:
    name = str(fields.get("name", ""))
    declare(
        service, survey.id, account.name, declared(fields), name=name, draft={"name": name, "fields": fields}
    )


def _fields(survey: Survey) -> Fields | None:
    """What was typed, or what a file says; None if that is more than forms hold."""
    fields = survey.draft.get("fields")
    if isinstance(fields, dict):
        return fields
    return None if survey.declaration is None else fields_of(Study.parse(survey.declaration))


def _page(
    request: Request,
    account: Account,
    survey: Survey,
    fields: Fields,
    step: str,
    locale: Locale,
    *,
    checked: bool = False,
) -> Response:
    empty = unfilled(fields, step) if checked else {}
    return page(
        request,
        f"analyst/edit_{step}.html",
        status=400 if checked else 200,
        account=account,
        survey=survey,
        step=step,
        steps=STEPS,
        fields=fields,
        kind=kind_of(fields),
        asks=asks(fields),
        shown=partial(shown, locale=locale),
        unfilled=empty,
        complaints=complaints(fields, step) if checked and not empty else [],
        **(_even(fields, locale) if step == "people" else {}),
    )


def _even(fields: Fields, locale: Locale) -> dict[str, str | None]:
    """How spread out people would be if they were spread evenly, once the features are known; and half of it."""
    if unfilled(fields, "people") or complaints({**fields, "least_eigenvalue": ""}, "people"):
        return {"even": None, "half": None}
    known = EXAMPLE | {"features": fields.get("features", []), "design": "uniform"}
    even = Study.parse(document(known)).even_eigenvalue
    return {"even": shown(f"{even:.3g}", locale), "half": shown(f"{even / 2:.2g}", locale)}


def _typed(sent: FormData, step: str, locale: Locale, kind: str) -> Fields:
    """What the step's page asks for where people answer in this way. What it does not ask for stays as it is."""
    names = TYPED[step] if kind == NUMBER else OF_SHARES.get(step, TYPED[step])
    return {name.lstrip("#"): _value(sent, name.lstrip("#"), name, locale) for name in names}


def _rows(sent: FormData, pressed: str, locale: Locale) -> list[dict[str, Any]]:
    """The features as typed, with one more or one less if that was asked for."""
    rows = []
    for at in range(MOST_FEATURES):
        if f"f{at}_name" in sent and pressed != f"remove-{at}":
            rows.append(
                {name.lstrip("#"): _value(sent, f"f{at}_{name.lstrip('#')}", name, locale) for name in ROW}
            )
    return [*rows, {"kind": "number"}] if pressed == "add" and len(rows) < MOST_FEATURES else rows


def _value(sent: FormData, key: str, name: str, locale: Locale) -> str:
    """A field: a number in plain form if it is one, a choice that there is, levels one a line."""
    typed = text(sent, key)
    if name.startswith("#"):
        number = read_number(typed, locale) if typed else None
        return typed if number is None else plain(number)
    if name in CHOICES:
        return typed if typed in CHOICES[name] else CHOICES[name][0]
    if name == "levels":
        return "\n".join(filter(None, (line.strip() for line in typed.split("\n"))))
    return typed


def shown(value: str, locale: Locale) -> str:
    """A number as the reader writes it; what is none, as it was typed."""
    if read(value) is None or "e" in value:
        return value
    return value.replace(".", get_decimal_symbol(locale))

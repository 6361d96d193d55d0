"""A draft's declaration: the wizard's few short forms, and the study file that they come to, which can be uploaded too.

All that is typed is kept, good or bad.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from babel import Locale
from babel.numbers import get_decimal_symbol
from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.responses import Response

from truthful.errors import InputError
from truthful.service import drafts
from truthful.service.analyst.study_pages import (
    Draft,
    Found,
    Sent,
    declare,
    find,
    studies_page,
    text,
    uploaded_file,
)
from truthful.service.drafts import NUMBER, RATING, STEPS, YES, YES_NO, Fields
from truthful.service.jobs import parse_study
from truthful.service.pages import download, go, plain_number, read_number
from truthful.service.signing import Analyst, SignedIn
from truthful.store import studies
from truthful.store.studies import Unknown
from truthful.store.tables import StoredStudy
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


@router.post("/studies/upload")
def upload_study(visit: Analyst, sent: Sent) -> Response:
    """A new draft from a study file, which is kept as it is."""
    try:
        declaration, study = _study_file(sent)
    except InputError as problem:
        return studies_page(visit, str(problem))
    with visit.writing() as session:
        stored = studies.create(session, visit.who, {"name": study.name})
        stored.declaration = declaration
        return go(f"/studies/{stored.id}")


def _study_file(sent: FormData, typed: str | None = None) -> tuple[str, Study]:
    """The text of an uploaded study file, or else as it was typed, and the study in it."""
    file = uploaded_file(sent, "file")
    if file is not None:
        try:
            typed = file.file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError("The file is not UTF-8 text. Save it as plain text in UTF-8.") from None
    if typed is None:
        raise InputError("No file was chosen. Choose a study.toml first.")
    declaration = typed.replace("\r\n", "\n")
    return declaration, drafts.parse(declaration)


@router.get("/studies/{study_id}/study.toml")
def declaration_file(visit: Analyst, stored: Found) -> Response:
    return download(stored.declaration or "", "study.toml")


@router.get("/studies/{study_id}/plan.json")
def plan_file(visit: Analyst, stored: Found) -> Response:
    return download(stored.plan or "", "plan.json")


@router.get("/studies/{study_id}/file")
def file_page(visit: Analyst, stored: Found) -> Response:
    """The study as the file it is."""
    return visit.page("analyst/file.html", stored=stored, typed=None, problem=None)


@router.post("/studies/{study_id}/file")
def change_file(visit: Analyst, study_id: str, sent: Sent) -> Response:
    """Change the study by its file: uploaded, or typed."""
    typed = str(sent.get("text", "")).replace("\0", "")
    try:
        declaration, study = _study_file(sent, typed)
    except InputError as problem:
        values = {"stored": find(visit, study_id), "typed": typed, "problem": str(problem)}
        return visit.page("analyst/file.html", status=400, **values)
    declare(visit, study_id, declaration, {"name": study.name})
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/edit")
def edit(visit: Analyst, stored: Draft) -> Response:
    """The first step that is not finished, or the first of all."""
    fields = _fields(stored)
    if fields is None:
        return go(f"/studies/{stored.id}/file")
    waiting = (
        step for step in STEPS if drafts.missing_fields(fields, step) or drafts.complaints(fields, step)
    )
    return go(f"/studies/{stored.id}/edit/{next(waiting, STEPS[0])}")


@router.get("/studies/{study_id}/edit/{step}")
def edit_step(visit: Analyst, stored: Draft, step: str) -> Response:
    fields = _fields(stored)
    if step not in STEPS:
        raise Unknown("There is no such step.")
    if fields is None:
        return go(f"/studies/{stored.id}/file")
    return _step_page(visit, stored, fields, step)


@router.post("/studies/{study_id}/edit/{step}")
def save_step(visit: Analyst, stored: Draft, sent: Sent, step: str) -> Response:
    """Keep what was typed, good or bad; go on if it is good."""
    if step not in STEPS:
        raise Unknown("There is no such step.")
    before = _fields(stored) or {}
    # What the page does not ask for where people answer in this way stays as it is.
    names = TYPED[step] if drafts.kind_of(before) == NUMBER else OF_SHARES.get(step, TYPED[step])
    fields = before | _values(sent, names, visit.locale)
    pressed, here = text(sent, "do"), f"/studies/{stored.id}/edit/{step}"
    if step == "people":
        fields["features"] = _rows(sent, pressed, visit.locale)
        fields = drafts.protect_features(fields, before) if drafts.kind_of(fields) == NUMBER else fields
    draft = {"name": str(fields.get("name", "")), "fields": fields}
    declare(visit, stored.id, drafts.declared(fields), draft)
    if pressed == "add":
        return go(f"{here}#f{len(fields['features']) - 1}_name")
    if pressed.startswith("remove-"):
        return go(f"{here}#features")
    if drafts.missing_fields(fields, step) or drafts.complaints(fields, step):
        return _step_page(visit, find(visit, stored.id), fields, step, checked=True)
    later = STEPS[STEPS.index(step) + 1 :]
    return go(f"/studies/{stored.id}/edit/{later[0]}" if later else f"/studies/{stored.id}")


def _fields(stored: StoredStudy) -> Fields | None:
    """What was typed, or what a file says; None if that is more than forms hold."""
    fields = stored.draft.get("fields")
    if isinstance(fields, dict):
        return fields
    return None if stored.declaration is None else drafts.fields_of(parse_study(stored.declaration))


def _step_page(
    visit: SignedIn, stored: StoredStudy, fields: Fields, step: str, *, checked: bool = False
) -> Response:
    empty = drafts.missing_fields(fields, step) if checked else {}
    return visit.page(
        f"analyst/edit_{step}.html",
        status=400 if checked else 200,
        stored=stored,
        step=step,
        steps=STEPS,
        fields=fields,
        kind=drafts.kind_of(fields),
        asks=drafts.asks(fields),
        shown=partial(shown, locale=visit.locale),
        unfilled=empty,
        complaints=drafts.complaints(fields, step) if checked and not empty else [],
        **(_even(fields, visit.locale) if step == "people" else {}),
    )


def _even(fields: Fields, locale: Locale) -> dict[str, str | None]:
    """How spread out people would be if they were spread evenly, once the features are known; and half of it."""
    if drafts.missing_fields(fields, "people") or drafts.complaints(
        {**fields, "least_eigenvalue": ""}, "people"
    ):
        return {"even": None, "half": None}
    known = drafts.EXAMPLE | {"features": fields.get("features", []), "design": "uniform"}
    even = parse_study(drafts.document(known)).even_eigenvalue
    return {"even": shown(f"{even:.3g}", locale), "half": shown(f"{even / 2:.2g}", locale)}


def _rows(sent: FormData, pressed: str, locale: Locale) -> list[dict[str, str]]:
    """The features as typed, with one more or one less if that was asked for."""
    rows: list[dict[str, str]] = [
        _values(sent, ROW, locale, f"f{at}_")
        for at in range(MOST_FEATURES)
        if f"f{at}_name" in sent and pressed != f"remove-{at}"
    ]
    return [*rows, {"kind": "number"}] if pressed == "add" and len(rows) < MOST_FEATURES else rows


def _values(sent: FormData, names: Iterable[str], locale: Locale, prefix: str = "") -> dict[str, str]:
    bare = {name: name.lstrip("#") for name in names}
    return {bare[name]: _value(text(sent, prefix + bare[name]), name, locale) for name in names}


def _value(typed: str, name: str, locale: Locale) -> str:
    """A field: a number in plain form if it is one, a choice that there is, levels one a line."""
    if name.startswith("#"):
        number = read_number(typed, locale) if typed else None
        return typed if number is None else drafts.plain(number)
    if name in CHOICES:
        return typed if typed in CHOICES[name] else CHOICES[name][0]
    if name == "levels":
        return "\n".join(filter(None, (line.strip() for line in typed.split("\n"))))
    return typed


def shown(value: str, locale: Locale) -> str:
    """A number as the reader writes it; what is none, as it was typed."""
    if plain_number(value) is None or "e" in value:
        return value
    return value.replace(".", get_decimal_symbol(locale))

"""A draft's declaration: the wizard's forms, and the study file that follows from them, which can also be uploaded.

All input is stored, valid or not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import partial

from babel import Locale
from babel.numbers import get_decimal_symbol
from fastapi import APIRouter
from starlette.datastructures import FormData
from starlette.responses import Response

from truthful.errors import InputError
from truthful.formatting import shortest
from truthful.service import drafts
from truthful.service.analyst.study_pages import (
    Draft,
    Found,
    Sent,
    declare,
    find,
    studies_page,
    text,
    typed_fields,
    uploaded_file,
)
from truthful.service.drafts import NUMBER, RATING, STEPS, YES, YES_NO, Fields
from truthful.service.jobs import parse_study
from truthful.service.pages import download, go, plain_number, read_number
from truthful.service.signing import Analyst, SignedIn
from truthful.store import accounts, studies
from truthful.store.studies import Unknown
from truthful.store.tables import ConsentDocument, StoredStudy
from truthful.study import Study

router = APIRouter()
MOST_FEATURES = 40
#: The most bytes of a consent document.
LARGEST_DOCUMENT = 5_000_000
#: The fields of each step, with `#` before numbers. Features have rows of their own.
TYPED = {
    "question": (
        "name",
        "currency",
        "answer_kind",
        "response",
        "#low",
        "#high",
        "unit",
        "#levels",
        "question",
    ),
    "invitation": ("asked_by", "purpose", "contact", "payer", "asker_pays", "delete_after"),
    "people": ("design", "#least_eigenvalue", "protects", "hide_matrix", "features_public"),
    "beliefs": (
        *("predictions", "#sure", "#spread", "#effect", "#plausible_low", "#plausible_high"),
        *("#signal", "noise", "#noise_sd", "#tolerance"),
    ),
    "costs": ("costs", "#tail", "#scale", "#median", "#sigma", "privacy"),
}
#: The fields of steps that differ for yes-or-no and rating questions.
OF_SHARES = {
    "people": ("design", "hide_matrix", "features_public"),
    "beliefs": ("predictions", "#share_low", "#share_high", "#sure", "#effect", "#tolerance"),
}
ROW = ("name", "label", "kind", "#low", "#high", "unit", "levels", "sensitive")
#: The possible values of choices; anything else is read as the first.
CHOICES = {
    "answer_kind": (NUMBER, YES_NO, RATING),
    "design": ("observed", "uniform"),
    "noise": ("normal", "uniform"),
    "costs": ("pareto", "lognormal"),
    "privacy": ("quadratic", "linear"),
    "kind": ("number", "levels"),
    "protects": ("", "answers", "records"),
    **dict.fromkeys(("hide_matrix", "features_public", "sensitive", "predictions", "asker_pays"), ("", YES)),
}


@router.post("/studies/upload")
def upload_study(visit: Analyst, sent: Sent) -> Response:
    """Create a draft from a study file, which is stored unchanged."""
    try:
        declaration, study = _study_file(sent)
    except InputError as problem:
        return studies_page(visit, str(problem))
    with visit.writing() as session:
        stored = studies.create(session, visit.who, {"name": study.name}, visit.account)
        stored.declaration = declaration
        return go(f"/studies/{stored.id}")


def _study_file(sent: FormData, typed: str | None = None) -> tuple[str, Study]:
    """The text of a study file, uploaded or else typed, and the study in it."""
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
    return _file_page(visit, stored)


def _file_page(visit: SignedIn, stored: StoredStudy, typed: str | None = None, problem: str = "") -> Response:
    """The study file for editing; after an error, the typed text with the problem."""
    return visit.page(
        "analyst/file.html",
        status=400 if problem else 200,
        stored=stored,
        typed=typed,
        problem=problem,
        only_here=typed_fields(stored) is None,
    )


@router.post("/studies/{study_id}/file")
def change_file(visit: Analyst, study_id: str, sent: Sent) -> Response:
    """Replace the study by an uploaded or typed file."""
    typed = str(sent.get("text", "")).replace("\0", "")
    try:
        declaration, study = _study_file(sent, typed)
    except InputError as problem:
        return _file_page(visit, find(visit, study_id), typed, str(problem))
    declare(visit, study_id, declaration, {"name": study.name})
    return go(f"/studies/{study_id}")


@router.get("/studies/{study_id}/document")
def document_page(visit: Analyst, stored: Draft) -> Response:
    return _document_page(visit, stored)


def _document_page(visit: SignedIn, stored: StoredStudy, problem: str = "", version: str = "") -> Response:
    """The consent document, with its version and hash."""
    with visit.reading() as session:
        kept = studies.document(session, stored.id)
    named = (typed_fields(stored) or _invitation(stored)).get("consent_version", "")
    values = {"stored": stored, "kept": kept, "problem": problem, "named": version or named}
    return visit.page("analyst/document.html", status=400 if problem else 200, **values)


def _invitation(stored: StoredStudy) -> Fields:
    """The invitation in a draft's study file."""
    invitation: Fields = parse_study(stored.declaration or "").declaration().get("invitation", {})
    return invitation


@router.get("/studies/{study_id}/consent")
def consent_document(visit: Analyst, stored: Found) -> Response:
    with visit.reading() as session:
        document = studies.document(session, stored.id)
    if document is None:
        raise Unknown("There is no consent document.")
    return download(document.content, f"consent.{document.kind}")


@router.post("/studies/{study_id}/document")
def change_document(visit: Analyst, stored: Draft, sent: Sent) -> Response:
    """Upload, replace or remove the consent document. The study declares its version and hash."""
    try:
        document = None if text(sent, "do") == "remove" else _document(stored.id, sent)
        version = text(sent, "version") if document is not None else ""
        _name_document(visit, stored, document, version)
    except InputError as problem:
        return _document_page(visit, stored, str(problem), text(sent, "version"))
    return go(f"/studies/{stored.id}/document" if document is not None else f"/studies/{stored.id}")


def _document(study_id: str, sent: FormData) -> ConsentDocument:
    file = uploaded_file(sent, "file")
    if file is None:
        raise InputError("No file was chosen. Choose a PDF or a text file first.")
    if not text(sent, "version"):
        raise InputError(
            "The version is missing. Say which version of your document this is, such as 2 or May 2026."
        )
    content = file.file.read(LARGEST_DOCUMENT + 1)
    if not 0 < len(content) <= LARGEST_DOCUMENT:
        raise InputError(f"The file has {file.size:,} bytes; give 1 to {LARGEST_DOCUMENT:,}.")
    if content.startswith(b"%PDF-"):
        kind = "pdf"
    elif _is_text(content):
        kind = "txt"
    else:
        raise InputError("The file is neither a PDF nor plain text in UTF-8. Save it as one of them.")
    return ConsentDocument(
        study_id=study_id, sha256=hashlib.sha256(content).hexdigest(), kind=kind, content=content
    )


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _name_document(
    visit: SignedIn, stored: StoredStudy, document: ConsentDocument | None, version: str
) -> None:
    """Store a document together with the declaration that names it, in one transaction."""
    sha256 = "" if document is None else document.sha256
    fields = stored.draft.get("fields")
    if isinstance(fields, dict):
        fields = fields | {"consent_version": version, "consent_sha256": sha256}
        declaration, draft = drafts.declared(fields), {"name": str(fields.get("name", "")), "fields": fields}
    else:
        declaration, draft = drafts.with_document(stored.declaration or "", version, sha256), stored.draft
    declare(
        visit,
        stored.id,
        declaration,
        draft,
        lambda session: studies.keep_document(session, stored.id, visit.who, document),
    )


@router.get("/studies/{study_id}/edit")
def edit(visit: Analyst, stored: Draft) -> Response:
    """Redirect to the first unfinished step, or to the first step."""
    fields = typed_fields(stored)
    if fields is None:
        return go(f"/studies/{stored.id}/file")
    return go(f"/studies/{stored.id}/edit/{next(iter(drafts.unfinished(fields)), STEPS[0])}")


@router.get("/studies/{study_id}/edit/{step}")
def edit_step(visit: Analyst, stored: Draft, step: str) -> Response:
    fields = typed_fields(stored)
    if step not in STEPS:
        raise Unknown("There is no such step.")
    if fields is None:
        return go(f"/studies/{stored.id}/file")
    return _step_page(visit, stored, fields, step)


@router.post("/studies/{study_id}/edit/{step}")
def save_step(visit: Analyst, stored: Draft, sent: Sent, step: str) -> Response:
    """Store the input of a step, and go on to the next one if it is valid."""
    if step not in STEPS:
        raise Unknown("There is no such step.")
    before = typed_fields(stored) or {}
    # Fields that the page does not show for this kind of question keep their values.
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
    if wrong := _wrong(visit, fields, step):
        return _step_page(visit, find(visit, stored.id), fields, step, wrong)
    later = STEPS[STEPS.index(step) + 1 :]
    return go(f"/studies/{stored.id}/edit/{later[0]}" if later else f"/studies/{stored.id}")


def _step_page(
    visit: SignedIn, stored: StoredStudy, fields: Fields, step: str, wrong: dict[str, str] | None = None
) -> Response:
    wrong = wrong or {}
    return visit.page(
        f"analyst/edit_{step}.html",
        status=400 if wrong else 200,
        stored=stored,
        step=step,
        steps=STEPS,
        fields=fields,
        kind=drafts.kind_of(fields),
        asks=drafts.asks(fields),
        shown=partial(shown, locale=visit.locale),
        wrong=wrong,
        labels={name: _label_key(step, name, drafts.kind_of(fields)) for name in wrong},
        **(_even_spread(fields, visit.locale) if step == "people" else {}),
        **({"payers": _payers(visit)} if step == "invitation" else {}),
    )


def _wrong(visit: SignedIn, fields: Fields, step: str) -> dict[str, str]:
    """The errors of a step by field: `missing`, no `number`, or if there are none of these, the study's complaints.

    What a study file may leave out but people need is missing too: the words of the question, and one of the service's
    payers, if there is any yet.
    """
    empty = drafts.missing_fields(fields, step)
    if step == "question" and not fields.get("question"):
        empty["question"] = "missing"
    if empty:
        return empty
    sentences: dict[str, str] = {}
    for problem in drafts.complaints(fields, step):
        name = drafts.field_of(problem)
        sentences[name] = f"{sentences[name]} {problem.sentence}" if name in sentences else problem.sentence
    if step == "invitation" and fields.get("asker_pays") != YES and (payers := _payers(visit)):
        return sentences if fields.get("payer") in payers else {"payer": "payer", **sentences}
    return sentences


#: Fields whose texts have other names.
_LABEL_NAMES = {"levels": "list", "least_eigenvalue": "spread"}


def _label_key(step: str, name: str, kind: str) -> tuple[str, int | None]:
    """The key of a field's label, and the number of the feature that the field belongs to, if any."""
    feature = re.fullmatch(r"f(\d+)_(\w+)", name)
    bare = feature[2] if feature else name
    if step == "people":
        return f"analyst.edit.people.{_LABEL_NAMES.get(bare, bare)}", int(feature[1]) + 1 if feature else None
    of = {YES_NO: "yes_no.", RATING: "rating."}.get(kind, "")
    shares = ("share_low", "share_high", "sure", "effect", "tolerance")
    return f"analyst.edit.{step}.{of if step == 'beliefs' and name in shares else ''}{name}", None


def _payers(visit: SignedIn) -> list[str]:
    with visit.reading() as session:
        return accounts.payers(session)


def _even_spread(fields: Fields, locale: Locale) -> dict[str, str | None]:
    """The least eigenvalue of evenly distributed features, and half of it, once the features are declared."""
    if drafts.missing_fields(fields, "people") or drafts.complaints(
        {**fields, "least_eigenvalue": ""}, "people"
    ):
        return {"even": None, "half": None}
    known = drafts.EXAMPLE | {"features": fields.get("features", []), "design": "uniform"}
    even = parse_study(drafts.document(known)).even_eigenvalue
    return {"even": shown(f"{even:.3g}", locale), "half": shown(f"{even / 2:.2g}", locale)}


def _rows(sent: FormData, pressed: str, locale: Locale) -> list[dict[str, str]]:
    """The features as typed, with one added or removed if that button was pressed."""
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
    """A field's stored value: numbers in plain form, choices checked, levels one a line."""
    if name.startswith("#"):
        number = read_number(typed, locale) if typed else None
        return typed if number is None else shortest(number)
    if name in CHOICES:
        return typed if typed in CHOICES[name] else CHOICES[name][0]
    if name == "levels":
        return "\n".join(filter(None, (line.strip() for line in typed.split("\n"))))
    return typed


def shown(value: str, locale: Locale) -> str:
    """A number in the reader's language; other text as typed."""
    if plain_number(value) is None or "e" in value:
        return value
    return value.replace(".", get_decimal_symbol(locale))

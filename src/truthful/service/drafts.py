"""A study as the fields of the wizard's forms, and the study file that follows from them.

Fields are stored as typed, valid or not; numbers that can be parsed are stored in plain form (0.6), whatever the
language they were typed in. The file is the same `study.toml` that people write by hand.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from jinja2 import Environment, PackageLoader

from truthful.errors import InputError, InvalidStudy, Problem
from truthful.formatting import shortest
from truthful.service.pages import plain_number
from truthful.study import Study
from truthful.study.parser import toml_string

#: The fields of forms, as typed: text by field name, and a list of such fields for features.
Fields = dict[str, Any]
#: The value of a ticked box.
YES = "yes"
#: The value of a box that nobody has changed yet.
USUAL = "usual"
#: The kinds of answers.
NUMBER, YES_NO, RATING = "number", "yes-no", "rating"
#: Fields whose numbers enter the file unscaled.
NUMBERS = (
    *("low", "high", "levels", "least_eigenvalue", "signal", "noise_sd", "spread"),
    *("plausible_low", "plausible_high", "tail", "scale", "median", "sigma"),
)


def kind_of(fields: Fields) -> str:
    """The kind of answer; older drafts have no such field and ask for a number."""
    kind = fields.get("answer_kind")
    return kind if kind in (YES_NO, RATING) else NUMBER


def asks(fields: Fields) -> bool:
    """Whether a draft asks for predictions of the others' answers.

    By default it does where there are no features; older drafts without this field do not.
    """
    chosen = fields.get("predictions")
    if chosen != USUAL:
        return chosen == YES
    answers = kind_of(fields) != NUMBER or fields.get("protects") != "records"
    return not fields.get("features") and answers and fields.get("hide_matrix") != YES


def number(typed: Any, start: float = 0.0, unit: float = 1.0) -> str:
    """A typed number in the file's unit; other text becomes a string, which the study refuses."""
    text = str(typed or "")
    value = plain_number(text)
    if value is None:
        return toml_string(text) if text else ""
    return shortest(value if (start, unit) == (0.0, 1.0) else round((value - start) / unit, 12))


def document(fields: Fields) -> str:
    """The study file of the fields. Shares are typed in percent, or for ratings as points of the scale."""
    typed, kind = defaultdict(str, fields), kind_of(fields)
    start, unit = (0.0, 1.0) if kind == NUMBER else scale_of(fields)
    starts = {"share_low": start, "share_high": start}
    scaled = (*starts, "effect", "sure", "tolerance")
    values = {name: number(typed[name], starts.get(name, 0.0), unit) for name in scaled}
    values |= {name: number(typed[name]) for name in NUMBERS}
    features = [defaultdict(str, feature) for feature in fields.get("features", ())]
    return _FILES.get_template("analyst/study.toml").render(
        f=typed, v=values, kind=kind, asks=asks(fields), features=features
    )


def scale_of(fields: Fields) -> tuple[float, float]:
    """The typed number for a share of 0, and the difference to that for a share of 1."""
    if kind_of(fields) == YES_NO:
        return 0.0, 100.0
    return 1.0, max(1.0, (plain_number(str(fields.get("levels", ""))) or 2.0) - 1)


_FILES = Environment(
    loader=PackageLoader("truthful.service"),
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_FILES.filters |= {"quoted": toml_string, "number": number}
STEPS = ("question", "invitation", "people", "beliefs", "costs")
#: With more, planning would take too long for a page.
MOST_COEFFICIENTS = 200
#: The fields of a new study: the defaults of `truthful new`.
BEGINNING: Fields = {
    "currency": "USD",
    "answer_kind": NUMBER,
    "features": [],
    "design": "observed",
    "protects": "",
    "predictions": USUAL,
    "signal": "0.6",
    "noise": "normal",
    "costs": "pareto",
    "tail": "2",
    "scale": "0.05",
    "median": "0.05",
    "sigma": "1",
    "privacy": "quadratic",
}
#: Fills in for unfinished steps while another one is checked.
EXAMPLE: Fields = {
    **BEGINNING,
    "protects": "answers",
    "name": "Example",
    "response": "example_response",
    "low": "0",
    "high": "1",
    "levels": "5",
    "share_low": "2",
    "share_high": "3",
    "effect": "0",
    "sure": "0.2",
    "spread": "0.3",
    "asked_by": "us",
    "purpose": "an example",
    "contact": "us",
    "payer": "somebody else",
}
#: The step of each section of a study file; all other problems belong to the step about people.
_STEP_OF = {"name": "question", "currency": "question", "response": "question", "invitation": "invitation"}
_STEP_OF |= {"beliefs": "beliefs", "costs": "costs"}


def protect_features(fields: Fields, before: Fields) -> Fields:
    """Choose `protects` where features are assigned and nothing was chosen: answers.

    If the features become people's own again, this implied choice is dropped, and the form asks for one.
    """
    if fields.get("design") != "observed":
        return fields if fields.get("protects") else {**fields, "protects": "answers", "implied": YES}
    if before.get("implied") == YES and before.get("design") != "observed":
        return {**fields, "protects": "", "implied": ""}
    return fields


def needed_fields(fields: Fields, step: str) -> Iterator[tuple[str, str, str]]:
    """The fields that a step needs: the form's name of each, its value, and its kind (text, number or optional)."""
    kind = kind_of(fields)
    effect = ("#effect",) if fields.get("features") else ()
    answers = {NUMBER: ("#low", "#high"), YES_NO: (), RATING: ("#levels",)}[kind]
    kinds = {
        "question": ("name", "currency", "response", *answers),
        "invitation": (
            *("asked_by", "purpose", "contact"),
            *(() if fields.get("asker_pays") == YES else ("payer",)),
        ),
        "people": ("?least_eigenvalue", "protects")
        if fields.get("features") and fields.get("design") == "observed" and kind == NUMBER
        else (),
        "beliefs": (
            *_belief_fields(fields, kind),
            *(effect if kind != NUMBER or asks(fields) else ()),
            "?tolerance",
        ),
        "costs": ("#tail", "#scale") if fields.get("costs") == "pareto" else ("#median", "#sigma"),
    }
    yield from _needed(fields, kinds[step])
    if step == "people":
        for at, feature in enumerate(fields.get("features", ())):
            names = ("name", "levels") if feature.get("kind") == "levels" else ("name", "#low", "#high")
            yield from _needed(feature, names, f"f{at}_")


def _needed(fields: Fields, names: tuple[str, ...], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name in names:
        bare = name.lstrip("#?")
        kind = {"#": "number", "?": "optional"}.get(name[0], "text")
        yield prefix + bare, str(fields.get(bare, "")), kind


def _belief_fields(fields: Fields, kind: str) -> tuple[str, ...]:
    """The fields of beliefs, without the effect of features."""
    if kind != NUMBER:
        return ("#share_low", "#share_high", *(("#sure",) if asks(fields) else ()))
    if asks(fields):
        return ("#sure", "#spread", "?plausible_low", "?plausible_high")
    return ("#signal", *(("?noise_sd",) if fields.get("noise") == "normal" else ()))


def missing_fields(fields: Fields, step: str) -> dict[str, str]:
    """The fields of a step that are `missing` or not a `number`."""
    found = {}
    for name, value, kind in needed_fields(fields, step):
        if not value and kind != "optional":
            found[name] = "missing"
        elif value and kind != "text" and plain_number(value) is None:
            found[name] = "number"
    return found


def parse(text: str) -> Study:
    """Parse a study file; InvalidStudy if the service cannot run the study."""
    study = Study.parse(text)
    if study.protects != "answers" and study.shares is not None:
        raise _invalid(
            ("privacy", "protects"),
            f"privacy.protects is {study.protects!r}; where people answer yes or no, or with a rating, it is "
            "'answers': their facts are not protected. Leave delicate facts out, or ask for a number.",
        )
    if study.dimension > MOST_COEFFICIENTS:
        raise _invalid(
            ("features",),
            f"The features make {study.dimension:,} coefficients; a study here has at most {MOST_COEFFICIENTS}. "
            "Leave some out, or put levels together.",
        )
    if _holds_nul(study.declaration()):
        raise _invalid((), "A text holds a NUL character, which databases do not keep. Leave it out.")
    return study


def with_document(text: str, version: str, sha256: str) -> str:
    """A study file with another consent document named, or none; the rest of the text is unchanged."""
    bare = re.sub(r"(?m)^consent_(version|sha256)[ \t]*=.*\n?", "", text)
    if sha256:
        lines = f'consent_version = {toml_string(version)}\nconsent_sha256 = "{sha256}"\n'
        bare = re.sub(r"(?m)^\[invitation\][ \t]*(#.*)?\n", lambda head: head[0] + lines, bare, count=1)
    declared = parse(bare).declared.invitation
    if sha256 and (declared is None or declared.consent_sha256 != sha256):
        raise InputError(
            "The study file has no line [invitation], below which the document would be named. Write the invitation "
            "first."
        )
    return bare


def _invalid(location: tuple[str, ...], sentence: str) -> InvalidStudy:
    return InvalidStudy("study", (Problem(location, sentence),))


def _holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_nul, value.values()))
    return any(map(_holds_nul, value)) if isinstance(value, list) else "\0" in str(value)


def complaints(fields: Fields, step: str) -> list[Problem]:
    """The problems of a step in the study file of these fields, also while other steps are unfinished."""
    whole = {**fields, "predictions": YES if asks(fields) else ""}
    example = {
        **EXAMPLE,
        "answer_kind": kind_of(fields),
        "levels": whole.get("levels") or EXAMPLE["levels"],
        "predictions": whole["predictions"],
    }
    for open_step in STEPS:
        if open_step != step and missing_fields(fields, open_step):
            needed = (
                {**example, "features": fields.get("features", ())} if open_step == "beliefs" else example
            )
            whole |= {name: example.get(name, "") for name, _, _ in needed_fields(needed, open_step)}
            whole |= {"features": []} if open_step == "people" else {}
    try:
        parse(document(whole))
    except InvalidStudy as invalid:
        of = {problem: str((*problem.location, "")[0]) for problem in invalid.problems}
        return [problem for problem in of if _STEP_OF.get(of[problem], "people") == step]
    except InputError:
        pass
    return []


#: Keys of the file whose form fields have other names.
_FIELD_OF = {
    ("beliefs",): "effect",
    ("beliefs", "centre"): "predictions",
    ("beliefs", "plausible"): "plausible_low",
    ("beliefs", "share"): "share_low",
    ("costs", "kind"): "costs",
    ("design", "kind"): "design",
    ("privacy", "publish_matrix"): "hide_matrix",
    ("response", "name"): "response",
}


def field_of(problem: Problem) -> str:
    """The form field that a problem is about."""
    match problem.location:
        case ("features", int(at), str(name), *_):
            return f"f{at}_{name}"
        case ("features", int(at)):
            return f"f{at}_name"
        case () | ("features", *_):
            return "features"
        case location:
            where = tuple(map(str, location[:2]))
            return _FIELD_OF.get(where, where[-1])


def unfinished(fields: Fields) -> list[str]:
    """The steps with missing or invalid fields."""
    return [step for step in STEPS if missing_fields(fields, step) or complaints(fields, step)]


def declared(fields: Fields) -> str | None:
    """The study file of the fields, once they are complete and valid; else None."""
    if any(missing_fields(fields, step) for step in STEPS):
        return None
    text = document(fields)
    try:
        parse(text)
    except InputError:
        return None
    return text


def fields_of(study: Study) -> Fields | None:
    """The fields of a study; None if the forms cannot express it."""
    record = study.declaration()
    invitation, response, design, privacy, beliefs, costs = (
        record.get(name, {}) for name in ("invitation", "response", "design", "privacy", "beliefs", "costs")
    )
    values = {
        "name": record["name"],
        "currency": record["currency"],
        "response": response["name"],
        "answer_kind": study.kind,
        **{name: response.get(name) for name in ("question", "unit")},
        **{name: response.get(name) for name in (("low", "high") if study.shares is None else ("levels",))},
        **invitation,
        "asker_pays": YES if invitation.get("asker_pays") else None,
        "features": [_feature_fields(feature) for feature in record.get("features", ())],
        "design": design["kind"],
        "least_eigenvalue": design.get("least_eigenvalue"),
        "protects": privacy.get("protects"),
        "hide_matrix": None if privacy.get("publish_matrix", True) else YES,
        "features_public": YES if privacy.get("features_public") else None,
        **{name: beliefs.get(name) for name in ("signal", "noise", "noise_sd")},
        "predictions": YES if study.levels is not None else "",
        **_belief_values(study),
        "costs": costs["kind"],
        **{name: costs.get(name) for name in ("tail", "scale", "median", "sigma", "privacy")},
    }
    fields = BEGINNING | {
        name: shortest(value) if isinstance(value, int | float) else value
        for name, value in values.items()
        if value is not None
    }
    try:
        return fields if Study.parse(document(fields)) == study else None
    except InputError:
        return None


def _belief_values(study: Study) -> dict[str, float | None]:
    """Beliefs in the units of the forms: for shares in percent, for ratings in points of the scale."""
    beliefs, start, unit = study.declared.beliefs, 0.0, 1.0
    if study.shares is not None:
        if beliefs.share is None:
            return {}
        start, unit = scale_of({"answer_kind": study.kind, "levels": str(study.response.levels)})

    def typed(value: float | None, start: float = 0.0) -> float | None:
        return value if value is None or study.shares is None else round(start + unit * value, 9)

    share, plausible = beliefs.share or (None, None), beliefs.plausible or (None, None)
    return {
        "share_low": typed(share[0], start),
        "share_high": typed(share[1], start),
        "sure": typed(beliefs.sure),
        "spread": beliefs.spread,
        "effect": typed(beliefs.effect) if isinstance(beliefs.effect, float) else None,
        "tolerance": typed(beliefs.tolerance),
        "plausible_low": plausible[0],
        "plausible_high": plausible[1],
    }


def _feature_fields(feature: dict[str, Any]) -> dict[str, str]:
    named: dict[str, str] = {
        name: feature[name] for name in ("name", "label", "unit") if feature.get(name) is not None
    }
    named |= {"sensitive": YES} if feature.get("sensitive") else {}
    if "levels" in feature:
        return {**named, "kind": "levels", "levels": "\n".join(feature["levels"])}
    ends = {str(name): shortest(feature[name]) for name in ("low", "high") if name in feature}
    return {**named, "kind": "number", **ends}

"""The study file that the wizard's fields come to: the same `study.toml` that people write by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from truthful.errors import InputError, InvalidStudy, Problem
from truthful.study import Study

#: What forms hold, as typed: text by the name of its field, and a list of such for features.
Fields = dict[str, Any]
#: What a box that is ticked holds.
YES = "yes"
#: What a box holds that nobody has looked at.
USUAL = "usual"
#: What people answer.
NUMBER, YES_NO, RATING = "number", "yes-no", "rating"


def read(text: str) -> float | None:
    """The number of a field; None if it holds none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def plain(value: float) -> str:
    """A number as fields and study files hold it: all its digits."""
    return repr(float(value)).removesuffix(".0")


def kind_of(fields: Fields) -> str:
    """What people answer; drafts of before there was a choice ask for a number."""
    kind = fields.get("answer_kind")
    return kind if kind in (YES_NO, RATING) else NUMBER


def asks(fields: Fields) -> bool:
    """Whether people are asked what the others will say.

    Before anybody has chosen they are, where there are no facts; drafts of before there was a choice do not ask.
    """
    chosen = fields.get("predictions")
    if chosen != USUAL:
        return chosen == YES
    answers = kind_of(fields) != NUMBER or fields.get("protects") != "records"
    return not fields.get("features") and answers and fields.get("hide_matrix") != YES


def quoted(text: str) -> str:
    """Any text as a TOML string on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def document(fields: Fields) -> str:
    """The study file that says what the fields say."""
    parts = (_question, _invitation, _people, _privacy, _beliefs, _costs)
    return _HEAD + "".join(part(fields) for part in parts)


_HEAD = """\
# A study: one sensitive question, facts about the people asked, and what is believed about the answers.
# Everything in this file is public: people may read it before they answer.

"""


def _question(fields: Fields) -> str:
    words = f"question = {quoted(fields['question'])}\n" if fields.get("question") else ""
    said, answers = {
        NUMBER: ("one number", _number("low", fields) + _number("high", fields)),
        YES_NO: ("yes or no", 'kind = "yes-no"\n'),
        RATING: ("a rating", 'kind = "rating"\n' + _number("levels", fields)),
    }[kind_of(fields)]
    return f"""\
name = {quoted(fields.get("name", ""))}
currency = {quoted(fields.get("currency", ""))}

# The question: {said} that people report about themselves.
[response]
name = {quoted(fields.get("response", ""))}
{answers}{words}"""


def _invitation(fields: Fields) -> str:
    names = ("asked_by", "purpose", "contact")
    if not any(fields.get(name) for name in names):
        return ""
    lines = "".join(f"{name} = {quoted(fields.get(name, ''))}\n" for name in names)
    return f"\n# The invitation: what people are told before they answer.\n[invitation]\n{lines}"


def _people(fields: Fields) -> str:
    features = "".join(_feature(feature) for feature in fields.get("features", ()))
    spread = fields.get("least_eigenvalue") if fields.get("design") == "observed" else None
    vouched = (
        "# How spread out people are at least, normalised; the analyst vouches for it.\n" if spread else ""
    )
    return f"""
# The features: what explains the answers, and is known of everybody without asking.
{features}
# How features are distributed: observed, as the panel has them, or uniform, assigned at random.
[design]
kind = {quoted(fields.get("design", ""))}
{vouched}{_number("least_eigenvalue", {"least_eigenvalue": spread})}"""


def _privacy(fields: Fields) -> str:
    protects = fields.get("protects") if kind_of(fields) == NUMBER else "answers"
    if not protects:
        return ""
    hidden = "publish_matrix = false\n" if fields.get("hide_matrix") == YES else ""
    known = "features_public = true\n" if fields.get("features_public") == YES else ""
    return f"""
# What is protected: answers, while sums of features are published as they are, or whole records.
[privacy]
protects = {quoted(protects)}
{hidden}{known}"""


def _feature(feature: dict[str, str]) -> str:
    head = f"[[features]]\nname = {quoted(feature.get('name', ''))}\n"
    head += "sensitive = true\n" if feature.get("sensitive") == YES else ""
    if feature.get("kind") == "levels":
        levels = filter(None, feature.get("levels", "").split("\n"))
        return f"{head}levels = [{', '.join(map(quoted, levels))}]\n"
    return head + _number("low", feature) + _number("high", feature)


def _beliefs(fields: Fields) -> str:
    if kind_of(fields) != NUMBER:
        return _shares(fields)
    if asks(fields):
        return _asked(fields)
    width = _number("noise_sd", fields) if fields.get("noise") == "normal" else ""
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
# The share of the response's half-range that features can explain.
{_number("signal", fields)}prior = "uniform"
noise = {quoted(fields.get("noise", ""))}
{width}{_tolerance(_scaled(fields.get("tolerance"), 0.0, 1.0))}"""


_ASKED = """\
# People are asked what the others will say, so that nobody has to declare what they expect.
centre = "predictions"
"""


def _asked(fields: Fields) -> str:
    """Of numbers, in units of the answer."""
    ends = [_scaled(fields.get(name), 0.0, 1.0) for name in ("plausible_low", "plausible_high")]
    plausible = f"# Beyond these averages all answers are paid alike.\nplausible = [{', '.join(ends)}]\n"
    effect = "# The most that one feature, from one end to the other, changes the average answer.\n"
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
{_ASKED}# How far people may be off about the average, and how far answers scatter about it: standard deviations.
{_number("sure", fields)}{_number("spread", fields)}\
{effect + _number("effect", fields) if fields.get("features") else ""}{plausible if all(ends) else ""}\
{_tolerance(_scaled(fields.get("tolerance"), 0.0, 1.0))}"""


def _shares(fields: Fields) -> str:
    """Shares are typed in percent, and of ratings as means and steps of the scale."""
    start, unit = scale_of(fields)
    ends = [_scaled(fields.get(name), start, unit) for name in ("share_low", "share_high")]
    effect = _scaled(fields.get("effect"), 0.0, unit) if fields.get("features") else ""
    tolerance = _scaled(fields.get("tolerance"), 0.0, unit)
    said = {
        YES_NO: "Of people like the average one, how many would truthfully say yes: surely between",
        RATING: "How far the mean rating is from the lowest to the highest: surely between",
    }[kind_of(fields)]
    share = f"share = [{', '.join(ends)}]\n" if all(ends) else ""
    sure = _scaled(fields.get("sure"), 0.0, unit) if asks(fields) else ""
    asked = (
        f"{_ASKED}# How far people may be off about that share: a standard deviation.\nsure = {sure}\n"
        if sure
        else ""
    )
    changes = (
        "# The most that one feature, from one end to the other, changes that share.\n" if effect else ""
    )
    return f"""
# What is believed about the answers. If it is wrong, privacy and the cap on the bill hold all the same.
[beliefs]
# {said}
{share}{asked}{changes}{f"effect = {effect}" if effect else ""}
{_tolerance(tolerance)}"""


def _tolerance(value: str) -> str:
    said = "# How far what people expect may be from this before a lie pays.\n"
    return f"{said}tolerance = {value}\n" if value else ""


def scale_of(fields: Fields) -> tuple[float, float]:
    """What is typed for a share of 0, and how much more for a share of 1."""
    if kind_of(fields) == YES_NO:
        return 0.0, 100.0
    return 1.0, max(1.0, (read(str(fields.get("levels", ""))) or 2.0) - 1)


def _scaled(typed: Any, start: float, unit: float) -> str:
    """A typed number as a share; what is no number is left to the study to refuse."""
    value = read(str(typed or ""))
    return plain(round((value - start) / unit, 12)) if value is not None else quoted(typed) if typed else ""


def _costs(fields: Fields) -> str:
    pareto = fields.get("costs") == "pareto"
    said, names = (
        ("P(cost > c) = (c / scale)^-tail: a few people care very much", ("tail", "scale"))
        if pareto
        else ("The logarithm of the cost is normal", ("median", "sigma"))
    )
    return f"""
# What privacy is worth to people, in currency per unit of h(epsilon). {said}.
[costs]
kind = {quoted(fields.get("costs", ""))}
{"".join(_number(name, fields) for name in names)}\
# h(epsilon): quadratic is epsilon^2, linear is epsilon.
privacy = {quoted(fields.get("privacy", ""))}
"""


def _number(name: str, fields: dict[str, Any]) -> str:
    """A line of the file; none if the field is empty, and what is no number is left to the study to refuse."""
    text = str(fields.get(name) or "")
    value = read(text)
    return "" if not text else f"{name} = {quoted(text) if value is None else plain(value)}\n"


STEPS = ("question", "invitation", "people", "beliefs", "costs")
#: More would take too long to plan for while somebody waits.
MOST_COEFFICIENTS = 200
#: What a new study starts from: the everyday choices of `truthful new`.
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
#: Stands in for steps that are not filled in yet while another one is checked.
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
}
#: The sections of a study file, by the step that asks for them. What names no section is about people's features.
_STEP_OF = {"name": "question", "currency": "question", "response": "question", "invitation": "invitation"}
_STEP_OF |= {"beliefs": "beliefs", "costs": "costs"}


def protecting(fields: Fields, before: Fields) -> Fields:
    """The fields with what is protected: of facts that are assigned, answers, unless it is said.

    If they turn out to be people's own after all, that was nobody's choice, and is asked again.
    """
    if fields.get("design") != "observed":
        return fields if fields.get("protects") else {**fields, "protects": "answers", "implied": YES}
    if before.get("implied") == YES and before.get("design") != "observed":
        return {**fields, "protects": "", "implied": ""}
    return fields


def asked(fields: Fields, step: str) -> Iterator[tuple[str, str, str]]:
    """What a step needs: the form's name of each field, its value, and its kind (text, number or optional number)."""
    kind = kind_of(fields)
    effect = ("#effect",) if fields.get("features") else ()
    answers = {NUMBER: ("#low", "#high"), YES_NO: (), RATING: ("#levels",)}[kind]
    kinds = {
        "question": ("name", "currency", "response", *answers),
        "invitation": ("asked_by", "purpose", "contact"),
        "people": ("?least_eigenvalue", "protects")
        if fields.get("design") == "observed" and kind == NUMBER
        else (),
        "beliefs": (
            *_believed(fields, kind),
            *(effect if kind != NUMBER or asks(fields) else ()),
            "?tolerance",
        ),
        "costs": ("#tail", "#scale") if fields.get("costs") == "pareto" else ("#median", "#sigma"),
    }
    for name in kinds[step]:
        yield name.lstrip("#?"), str(fields.get(name.lstrip("#?"), "")), _kind(name)
    if step == "people":
        for at, feature in enumerate(fields.get("features", ())):
            for name in ("name", "levels") if feature.get("kind") == "levels" else ("name", "#low", "#high"):
                yield f"f{at}_{name.lstrip('#')}", str(feature.get(name.lstrip("#"), "")), _kind(name)


def _believed(fields: Fields, kind: str) -> tuple[str, ...]:
    """What is declared of beliefs, but for what facts do."""
    if kind != NUMBER:
        return ("#share_low", "#share_high", *(("#sure",) if asks(fields) else ()))
    if asks(fields):
        return ("#sure", "#spread", "?plausible_low", "?plausible_high")
    return ("#signal", *(("?noise_sd",) if fields.get("noise") == "normal" else ()))


def _kind(name: str) -> str:
    return {"#": "number", "?": "optional"}.get(name[0], "text")


def unfilled(fields: Fields, step: str) -> dict[str, str]:
    """The fields of a step that are `missing` or hold no `number`."""
    found = {}
    for name, value, kind in asked(fields, step):
        if not value and kind != "optional":
            found[name] = "missing"
        elif value and kind != "text" and read(value) is None:
            found[name] = "number"
    return found


def parse(text: str) -> Study:
    """The study in the text of a study file, if it is one that a service can run: it must say what it protects."""
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


def _invalid(location: tuple[str, ...], sentence: str) -> InvalidStudy:
    return InvalidStudy("study", (Problem(location, sentence),))


def _holds_nul(said: Any) -> bool:
    if isinstance(said, dict):
        return any(map(_holds_nul, said.values()))
    return any(map(_holds_nul, said)) if isinstance(said, list) else "\0" in str(said)


def complaints(fields: Fields, step: str) -> list[str]:
    """What a study file with these fields is told of this step. Other steps may still be unfinished."""
    whole = {**fields, "predictions": YES if asks(fields) else ""}
    example = {
        **EXAMPLE,
        "answer_kind": kind_of(fields),
        "levels": whole.get("levels") or EXAMPLE["levels"],
        "predictions": whole["predictions"],
    }
    for other in STEPS:
        if other != step and unfilled(fields, other):
            needed = {**example, "features": fields.get("features", ())} if other == "beliefs" else example
            whole |= {name: example.get(name, "") for name, _, _ in asked(needed, other)}
            whole |= {"features": []} if other == "people" else {}
    try:
        parse(document(whole))
    except InvalidStudy as invalid:
        return [problem.sentence for problem in invalid.problems if _step_of(problem) == step]
    except InputError:
        return []
    return []


def _step_of(problem: Problem) -> str:
    return _STEP_OF.get(str(next(iter(problem.location), "")), "people")


def declared(fields: Fields) -> str | None:
    """The study file of the fields, once they say enough and all of it holds together."""
    if any(unfilled(fields, step) for step in STEPS):
        return None
    text = document(fields)
    try:
        parse(text)
    except InputError:
        return None
    return text


def fields_of(study: Study) -> Fields | None:
    """The fields of a study from a file; None if it says what no form asks for."""
    said = study.declaration()
    invitation, response, design, privacy, beliefs, costs = (
        said.get(name, {}) for name in ("invitation", "response", "design", "privacy", "beliefs", "costs")
    )
    values = {
        "name": said["name"],
        "currency": said["currency"],
        "response": response["name"],
        "answer_kind": study.kind,
        "question": response.get("question"),
        **{name: response.get(name) for name in (("low", "high") if study.shares is None else ("levels",))},
        **invitation,
        "features": [_feature_fields(feature) for feature in said.get("features", ())],
        "design": design["kind"],
        "least_eigenvalue": design.get("least_eigenvalue"),
        "protects": privacy.get("protects"),
        "hide_matrix": None if privacy.get("publish_matrix", True) else YES,
        "features_public": YES if privacy.get("features_public") else None,
        **{name: beliefs.get(name) for name in ("signal", "noise", "noise_sd", "tolerance")},
        "predictions": YES if study.levels is not None else "",
        **(_asked_fields(study) if study.shares is None else _share_fields(study)),
        "costs": costs["kind"],
        **{name: costs.get(name) for name in ("tail", "scale", "median", "sigma", "privacy")},
    }
    fields = BEGINNING | {name: _typed(value) for name, value in values.items() if value is not None}
    try:
        return fields if Study.parse(document(fields)) == study else None
    except InputError:
        return None


def _share_fields(study: Study) -> dict[str, float | None]:
    """Beliefs about shares as they are typed: in percent, or as means and steps of a rating's scale."""
    beliefs = study.declared.beliefs
    if beliefs.share is None:
        return {}
    start, unit = scale_of({"answer_kind": study.kind, "levels": str(study.response.levels)})
    low, high = (round(start + unit * share, 9) for share in beliefs.share)
    effect = beliefs.effect if isinstance(beliefs.effect, float) else None
    return {
        "share_low": low,
        "share_high": high,
        "sure": None if beliefs.sure is None else round(unit * beliefs.sure, 9),
        "effect": None if effect is None else round(unit * effect, 9),
        "tolerance": None if beliefs.tolerance is None else round(unit * beliefs.tolerance, 9),
    }


def _asked_fields(study: Study) -> dict[str, float | None]:
    """Beliefs about numbers where people are asked what the others will say."""
    beliefs = study.declared.beliefs
    low, high = beliefs.plausible or (None, None)
    return {
        "sure": beliefs.sure,
        "spread": beliefs.spread,
        "effect": beliefs.effect if isinstance(beliefs.effect, float) else None,
        "plausible_low": low,
        "plausible_high": high,
    }


def _feature_fields(feature: dict[str, Any]) -> dict[str, str]:
    named = {"name": feature["name"], **({"sensitive": YES} if feature.get("sensitive") else {})}
    if "levels" in feature:
        return {**named, "kind": "levels", "levels": "\n".join(feature["levels"])}
    ends = {str(name): plain(feature[name]) for name in ("low", "high") if name in feature}
    return {**named, "kind": "number", **ends}


def _typed(value: Any) -> Any:
    return plain(value) if isinstance(value, int | float) else value

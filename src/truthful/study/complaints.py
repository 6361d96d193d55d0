"""What is wrong with a study file, in sentences: where, what it says, what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from truthful.errors import InputError
from truthful.study import declaration as d

SECTIONS: Mapping[tuple[str, ...], type[d.Section]] = {
    (): d.Declaration,
    ("invitation",): d.Invitation,
    ("response",): d.Response,
    ("features",): d.Feature,
    ("design", "observed"): d.Observed,
    ("design", "uniform"): d.Uniform,
    ("design", "covariance"): d.Covariance,
    ("design", "unit-ball"): d.UnitBall,
    ("privacy",): d.Privacy,
    ("beliefs",): d.DeclaredBeliefs,
    ("costs", "pareto"): d.Pareto,
    ("costs", "lognormal"): d.Lognormal,
    ("costs", "empirical"): d.Empirical,
    ("payments",): d.Payments,
}
"""Where each section stands in an error's location, tags of kinds included."""

EXAMPLES: Mapping[str, str] = {
    "response": '[response]\nname = "weekly_spend"\nlow = 0\nhigh = 200',
    "design": '[design]\nkind = "observed"',
    "beliefs": "[beliefs]\nsignal = 0.6   # share of the response's half-range that features can explain",
    "costs": '[costs]   # P(cost > c) = (c / scale)^-tail\nkind = "pareto"\ntail = 2.0\nscale = 0.05',
}
#: Instead of that of numbers, where people answer yes or no, or with a rating; and what features need besides.
SHARE_BELIEFS = (
    "[beliefs]\nshare = [0.2, 0.5]   # how many say yes, of people like the average one: surely between"
)
SHARE_EFFECT = "effect = 0.05   # the most that one feature changes that"

EXPECTED: Mapping[str, str] = {
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "greater_than": "it must be above {gt:g}",
    "less_than": "it must be below {lt:g}",
    "greater_than_equal": "it must be {ge:g} or above",
    "less_than_equal": "it must be {le:g} or below",
    "string_type": "it must be text, in quotes",
    "string_too_short": "it must not be empty",
    "string_pattern_mismatch": 'it must be a code of three capital letters, such as "USD"',
    "bool_type": "it must be true or false",
    "literal_error": "choose one of {expected}",
    "union_tag_invalid": "choose one of {expected_tags}",
    "tuple_type": "it must be a list, in [ ]",
    "dict_type": "it must be a table of names and numbers",
    "model_type": "it must be a section of its own",
    "model_attributes_type": "it must be a section of its own",
}


def complaints(error: ValidationError, data: Any) -> list[str]:
    """One sentence or two for each thing that is wrong with the data; what follows from another is said once."""
    found = error.errors(include_url=False)
    wrong = {detail["loc"] for detail in found}
    told = [_complaint(detail, data) for detail in found if not _follows(detail, wrong)]
    return list(dict.fromkeys(told))


def _follows(detail: ErrorDetails, wrong: set[tuple[int | str, ...]]) -> bool:
    """Whether a number's end is missing only because the kind is none that there is, or a centre is another thing."""
    if detail["loc"][:2] == ("beliefs", "centre") and detail["type"] == "literal_error":
        return any(loc[:2] == ("beliefs", "centre") and loc != detail["loc"] for loc in wrong)
    return (
        detail["type"] == "missing" and detail["loc"][:1] == ("response",) and ("response", "kind") in wrong
    )


def few_values(response: d.Response) -> str | None:
    """What must be said of numbers of which there may be too few: judged by the declared range, never by answers."""
    low, high = response.low, response.high
    whole = low == int(low) and high == int(high)
    if (
        response.kind is not None
        or response.step is not None
        or not whole
        or high - low >= d.FEWEST_VALUES - 1
    ):
        return None
    values = int(high - low) + 1
    if values == 2:
        return (
            f"The response is a number from {low:g} to {high:g}. If people answer yes or no, what is promised of "
            'truthfulness and accuracy does not hold for a number: say kind = "yes-no" in [response].'
        )
    return (
        f"The response is a number from {low:g} to {high:g}. If people choose from so few whole numbers, what is "
        'promised of truthfulness and accuracy does not hold for a number: say kind = "rating" and levels = '
        f'{values} in [response], or kind = "yes-no".'
    )


def _complaint(detail: ErrorDetails, data: Any) -> str:
    kind, loc, context = detail["type"], detail["loc"], detail.get("ctx", {})
    if own := _of_shares(kind, loc, data) or _of_centre(loc, data):
        return own
    where = place(loc, data)
    if kind == "value_error":
        return _own(where, context["error"])
    if kind == "extra_forbidden":
        return f"{where} is not a known key. Here go {_keys(loc)}."
    if kind == "missing":
        return _missing(where, loc, data)
    value = detail["input"]
    if kind.startswith("union_tag"):
        where, value = f"{where}.kind", context.get("tag")
        if value is None:
            return f"{where} is missing. Choose one of {_kinds(loc)}."
    expected = EXPECTED.get(kind, detail["msg"][:1].lower() + detail["msg"][1:]).format(**context)
    return f"{where} is {value!r}; {expected}."


def _of_shares(kind: str, loc: tuple[int | str, ...], data: Any) -> str:
    """What is wrong with the keys of yes and no, and of ratings, that can be given in more than one way."""
    value = _inside(_inside(data, "beliefs"), str(loc[1])) if len(loc) > 1 else None
    if loc == ("response", "kind"):
        given = _inside(_inside(data, "response"), "kind")
        return f"response.kind is {given!r}; choose one of 'number', 'yes-no' or 'rating'."
    if loc[:2] == ("beliefs", "share") and kind in ("missing", "too_long", "tuple_type"):
        return (
            f"beliefs.share is {value!r}; give two shares, the least and the largest that you think possible."
        )
    if loc[:2] == ("beliefs", "effect"):
        return f"beliefs.effect is {value!r}; it must be a number, or a table of features and numbers."
    if loc == ("beliefs",) and kind == "value_error" and _share_is_missing(data):
        return d.share_missing(str(data["response"]["kind"]))
    return ""


def _of_centre(loc: tuple[int | str, ...], data: Any) -> str:
    """A centre is a number or a table, or people are asked for it."""
    if loc[:2] != ("beliefs", "centre"):
        return ""
    value = _inside(_inside(data, "beliefs"), "centre")
    if not isinstance(value, Mapping):
        return (
            f'beliefs.centre is {value!r}; it must be a number, a table of names and numbers, or "predictions" to ask '
            "people."
        )
    name = str(loc[-1])
    return f"beliefs.centre.{name} is {value[name]!r}; it must be a number." if name in value else ""


def _share_is_missing(data: Any) -> bool:
    kind = _inside(_inside(data, "response"), "kind")
    return kind in ("yes-no", "rating") and _inside(_inside(data, "beliefs"), "share") is None


def _own(where: str, error: ValueError) -> str:
    """Sections say `key is …` of themselves; an InputError comes from a law they made, and is a whole sentence."""
    if not where:
        return str(error)
    return f"{where}: {error}" if isinstance(error, InputError) else f"{where}.{error}"


def place(loc: tuple[int | str, ...], data: Any) -> str:
    """`features[1].low` for ("features", 1, "low"). The tag of a kind is in the location, not in the data."""
    words = ""
    for step in loc:
        if isinstance(data, Mapping) and step not in data and step == data.get("kind"):
            continue
        words += f"[{step}]" if isinstance(step, int) else f".{step}" if words else step
        data = _inside(data, step)
    return words


def _inside(data: Any, step: int | str) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _missing(where: str, loc: tuple[int | str, ...], data: Any) -> str:
    if where in EXAMPLES:
        small = _share_example(data) if where == "beliefs" and _share_is_missing(data) else EXAMPLES[where]
        example = "\n".join(f"    {line}" for line in small.splitlines())
        return f"The section [{where}] is missing. A small one:\n{example}"
    return f"{where} is missing. Here go {_keys(loc)}."


def _share_example(data: Any) -> str:
    """Effects are declared where there are features."""
    return f"{SHARE_BELIEFS}\n{SHARE_EFFECT}" if _inside(data, "features") else SHARE_BELIEFS


def _keys(loc: tuple[int | str, ...]) -> str:
    section = tuple(step for step in loc[:-1] if isinstance(step, str))
    return ", ".join(SECTIONS[section].model_fields) if section in SECTIONS else "other keys"


def _kinds(loc: tuple[int | str, ...]) -> str:
    return ", ".join(repr(kinds[-1]) for kinds in SECTIONS if kinds[:-1] == loc)

"""Read the text of a study file: its declaration, or what is wrong with it, where, in sentences.

A text may come from anywhere, so what only an attack would contain is refused unread: a TOML parser recurses as deep as
brackets nest, and keeps every prefix of a dotted key, so a short text can use up all memory.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from truthful.errors import InputError, InvalidStudy, Problem
from truthful.formatting import shortest
from truthful.study.declaration import Declaration
from truthful.study.sections import WRONG, WRONG_AT, Section


def _sections(annotation: Any) -> list[type[Section]]:
    """The sections that a field of this type may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [section for part in get_args(annotation) for section in _sections(part)]


SECTIONS: Mapping[tuple[str, ...], type[Section]] = {(): Declaration} | {
    (name, *(get_args(section.model_fields["kind"].annotation) if field.discriminator else ())): section
    for name, field in Declaration.model_fields.items()
    for section in _sections(field.annotation)
}
"""Each section's place in an error's location, tags of kinds included."""

EXAMPLES: Mapping[str, str] = {
    "response": '[response]\nname = "weekly_spend"\nlow = 0\nhigh = 200',
    "design": '[design]\nkind = "observed"',
    "beliefs": "[beliefs]\nsignal = 0.6   # share of the response's half-range that features can explain",
    "costs": '[costs]   # P(cost > c) = (c / scale)^-tail\nkind = "pareto"\ntail = 2.0\nscale = 0.05',
}
#: An example of beliefs for yes or no and ratings, in place of that for numbers; and the line that features add.
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


def declare(data: Mapping[str, Any], source: str, directory: Path | None = None) -> Declaration:
    """Check a record and return its declaration. It may name files only if a directory to look in is given."""
    try:
        return Declaration.model_validate(data, context={"directory": directory})
    except ValidationError as error:
        problems = tuple(dict.fromkeys(_problem(detail, data) for detail in error.errors(include_url=False)))
    raise InvalidStudy(source, problems)


def _problem(detail: ErrorDetails, data: Any) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    loc = _in_data((*detail["loc"], *context["where"]) if kind in (WRONG, WRONG_AT) else detail["loc"], data)
    where = format_location(loc)
    if kind == WRONG:
        return Problem(loc, f"{where}{context['words']}")
    if kind == WRONG_AT:
        return Problem(loc, context["words"])
    if kind == "value_error":
        # An error from a distribution that a section built is a whole sentence already.
        return Problem(loc, f"{where}: {context['error']}" if where else str(context["error"]))
    if kind == "extra_forbidden":
        return Problem(loc, f"{where} is not a known key. Here go {_keys(detail['loc'])}.")
    if kind == "missing":
        return Problem(loc, _missing_key(where, detail["loc"], data))
    value = detail["input"]
    if kind.startswith("union_tag"):
        loc, where, value = (*loc, "kind"), f"{where}.kind", context.get("tag")
        if value is None:
            return Problem(loc, f"{where} is missing. Choose one of {_kinds(detail['loc'])}.")
    expected = EXPECTED.get(kind, detail["msg"][:1].lower() + detail["msg"][1:]).format(**context)
    return Problem(loc, f"{where} is {value!r}; {expected}.")


def _in_data(loc: tuple[int | str, ...], data: Any) -> tuple[int | str, ...]:
    """A location as in the file, without the tag of a kind that pydantic adds."""
    found: list[int | str] = []
    for step in loc:
        if isinstance(data, Mapping) and step not in data and step == data.get("kind"):
            continue
        found.append(step)
        data = _inside(data, step)
    return tuple(found)


def format_location(loc: tuple[int | str, ...]) -> str:
    """Format a location: `features[1].low` for ("features", 1, "low")."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in loc).removeprefix(".")


def _inside(data: Any, step: int | str) -> Any:
    try:
        return data[step]
    except (KeyError, IndexError, TypeError):
        return None


def _missing_key(where: str, loc: tuple[int | str, ...], data: Any) -> str:
    if where not in EXAMPLES:
        return f"{where} is missing. Here go {_keys(loc)}."
    small = EXAMPLES[where]
    if where == "beliefs" and _inside(_inside(data, "response"), "kind") in ("yes-no", "rating"):
        small = f"{SHARE_BELIEFS}\n{SHARE_EFFECT}" if _inside(data, "features") else SHARE_BELIEFS
    example = "\n".join(f"    {line}" for line in small.splitlines())
    return f"The section [{where}] is missing. A small one:\n{example}"


def _keys(loc: tuple[int | str, ...]) -> str:
    section = tuple(step for step in loc[:-1] if isinstance(step, str))
    return ", ".join(SECTIONS[section].model_fields) if section in SECTIONS else "other keys"


def _kinds(loc: tuple[int | str, ...]) -> str:
    return ", ".join(repr(kinds[-1]) for kinds in SECTIONS if kinds[:-1] == loc)


LARGEST = 200_000
DEEPEST, LONGEST_WORD = 50, 400
#: Strings and comments, which may hold anything; brackets; words and numbers; parts and ends of dotted keys.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|\'\'\'.*?(?:\'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|\'[^\'\n]*\'?|#[^\n]*'
    r"|[\[{]|[\]}]|\w+|[.,=\n]",
    re.DOTALL,
)


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """Parse TOML text; `source` is its name in error messages."""
    _require_usual(text, source)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{source} is not valid TOML: {problem}.") from None


def to_toml(record: Mapping[str, Any]) -> str:
    """Format a record as the text of a study file: single keys first, then sections."""
    plain: dict[str, Any] = {}
    parts, lists = [], []
    for name, value in record.items():
        if isinstance(value, Mapping):
            parts.append(f"[{name}]\n{_lines(value)}")
        elif value and isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
            lists += [f"[[{name}]]\n{_lines(item)}" for item in value]
        elif value != []:
            plain[name] = value
    return "\n".join([_lines(plain), *parts, *lists])


def _lines(section: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in section.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(part)}' for name, part in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return shortest(value) if isinstance(value, float) else str(value)
    return toml_string(str(value))


def toml_string(text: str) -> str:
    """Any text as a TOML string on one line."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _require_usual(text: str, source: str) -> None:
    """Refuse text that is longer, deeper or more dotted than any study."""
    if len(text) > LARGEST:
        raise InputError(f"{source} has more than {LARGEST:,} characters. Shorten it.")
    depth = dots = 0
    for token in _TOKEN.findall(text):
        if token in ("[", "{", "]", "}"):
            depth, dots = max(depth + (1 if token in "[{" else -1), 0), 0
        elif token == ".":
            dots += 1
        elif token in (",", "=", "\n"):
            dots = 0
        elif token[0] not in "\"'#" and len(token) > LONGEST_WORD:
            raise InputError(f"{source} has a name or number of {len(token):,} characters. Shorten it.")
        if max(depth, dots) > DEEPEST:
            raise InputError(
                f"{source} has brackets or names more than {DEEPEST} deep. A study has no such depth."
            )

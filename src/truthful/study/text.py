"""The text of a study file as a record. It may come from anywhere, so what only an attack would hold is refused unread.

A parser of TOML goes as deep as brackets nest, and keeps every beginning of a dotted key: a short text can take all
memory there is.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from truthful.errors import InputError

LARGEST = 200_000
DEEPEST, LONGEST_WORD = 50, 400
#: Strings and comments, which hold anything; brackets; words and numbers; what a dotted key is made of and ends at.
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|\'\'\'.*?(?:\'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|\'[^\'\n]*\'?|#[^\n]*'
    r"|[\[{]|[\]}]|\w+|[.,=\n]",
    re.DOTALL,
)


def parsed(text: str, source: str) -> dict[str, Any]:
    """What a TOML text says; `source` is its name in complaints."""
    _require_usual(text, source)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InputError(f"{source} is not valid TOML: {problem}.") from None


def document(record: Mapping[str, Any]) -> str:
    """A record as the text of a study file: what is declared once, then a section for every part."""
    parts = {name: value for name, value in record.items() if isinstance(value, Mapping)}
    lists = {name: value for name, value in record.items() if _tables(value)}
    plain = {name: value for name, value in record.items() if name not in (*parts, *lists) and value != []}
    found = ["".join(map(_line, plain.items()))]
    found += [f"[{name}]\n" + "".join(map(_line, part.items())) for name, part in parts.items()]
    found += [
        f"[[{name}]]\n" + "".join(map(_line, part.items()))
        for name, several in lists.items()
        for part in several
    ]
    return "\n".join(found)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _line(item: tuple[str, Any]) -> str:
    return f"{_key(item[0])} = {_value(item[1])}\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(one)}' for name, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(float(value)).removesuffix(".0") if isinstance(value, float) else str(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _require_usual(text: str, source: str) -> None:
    """Refuse what is longer, deeper or more dotted than any study."""
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

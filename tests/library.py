"""The reference of the library, generated: every public name with its signature and what its docstring says."""

from __future__ import annotations

import inspect
import re
from typing import Any

import truthful


def reference() -> str:
    """A page's sections, one for each name in `truthful.__all__`, in that order."""
    return "\n".join(_section(name, getattr(truthful, name)) for name in truthful.__all__)


def _section(name: str, thing: Any) -> str:
    lines = [f"## `{name}`", ""]
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return "\n".join([*lines, *_plain(thing), ""])
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        lines += [f"    {line}" for line in _signature(name, thing)] + [""]
    lines += [_text(thing), ""]
    rows = (
        [row for key, value in vars(thing).items() if (row := _row(key, value))]
        if inspect.isclass(thing)
        else []
    )
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _plain(thing: Any) -> list[str]:
    if inspect.ismodule(thing):
        return [f"The module `{thing.__name__}`.", "", _text(thing)]
    return [f"A {type(thing).__name__}, the version of the package."]


def _signature(name: str, thing: Any) -> list[str]:
    """The call, one parameter a line if it is long."""
    words: list[str] = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(_parameter(parameter))
    if sum(map(len, words)) < 70:
        return [f"{name}({', '.join(words)})"]
    return [f"{name}(", *(f"    {word}," for word in words), ")"]


def _parameter(parameter: inspect.Parameter) -> str:
    """Annotations are as the source has them; pydantic's are types already."""
    kind = parameter.annotation
    words = kind if isinstance(kind, str) else inspect.formatannotation(kind, base_module="truthful")
    words = re.sub(r"\b(truthful|typing)(\.\w+)*\.", "", words)
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {words}{default}"


def _row(key: str, value: Any) -> str:
    """A documented method or property of a class."""
    inner = value.__func__ if isinstance(value, classmethod | staticmethod) else getattr(value, "fget", value)
    inner = getattr(inner, "func", inner)
    if key.startswith("_") or not inspect.isfunction(inner) or not inspect.getdoc(inner):
        return ""
    call = "" if isinstance(value, property) or hasattr(value, "func") else "()"
    return f"| `{key}{call}` | {_text(inner).partition(chr(10))[0].replace('|', chr(92) + '|')} |"


def _text(thing: Any) -> str:
    """A docstring, its formulas kept from being read as Markdown."""
    return re.sub(r"(?<!`)([*_<])(?!`)", r"\\\1", inspect.getdoc(thing) or "")

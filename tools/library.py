"""The reference of the library, generated: every public name with its signature and what its docstring says."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import truthful

#: Modules whose public names are not all at the root of the package, but which people call or extend.
FURTHER = ("agents", "auditor", "people", "simulation")


def reference() -> str:
    """A page's sections, one for each name in `truthful.__all__`, in that order; then one for each further module."""
    root = [_section("##", name, getattr(truthful, name)) for name in truthful.__all__]
    return "\n".join([*root, *(line for module in map(_module, FURTHER) for line in _further(module))])


def names(module: ModuleType) -> list[str]:
    """What a further module has of its own: what it declares public, or it and its parts define."""
    public = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and str(getattr(thing, "__module__", "")).startswith(module.__name__)
    ]
    return [name for name in public if name not in truthful.__all__]


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"truthful.{name}")


def _further(module: ModuleType) -> Iterator[str]:
    yield f"## `{module.__name__}`\n\n{_text(module)}\n"
    for name in names(module):
        yield _section("###", name, getattr(module, name))


def _section(level: str, name: str, thing: Any) -> str:
    lines = [f"{level} `{name}`", ""]
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return "\n".join([*lines, *_plain(thing), ""])
    if not (inspect.isclass(thing) and (issubclass(thing, Exception) or _is_to_be_written(thing))):
        lines += [f"    {line}" for line in _signature(name, thing)] + [""]
    lines += [_text(thing), ""]
    rows = [row for key, value in vars(thing).items() if (row := _row(key, value))]
    if inspect.isclass(thing) and rows:
        lines += ["| member | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _is_to_be_written(thing: Any) -> bool:
    """Whether others write one, and nobody calls this one."""
    return inspect.isabstract(thing) or getattr(thing, "_is_protocol", False)


def _plain(thing: Any) -> list[str]:
    if inspect.ismodule(thing):
        return [f"The module `{thing.__name__}`.", "", _text(thing)]
    if isinstance(thing, Mapping):
        return [f"By their names: {', '.join(f'`{key}`' for key in thing)}."]
    return [f"A {type(thing).__name__}, the version of the package."]


def _signature(name: str, thing: Any) -> list[str]:
    """The call, one parameter a line if it is long."""
    words = _parameters(thing, _parameter)
    if sum(map(len, words)) < 70:
        return [f"{name}({', '.join(words)})"]
    return [f"{name}(", *(f"    {word}," for word in words), ")"]


def _parameters(thing: Any, told: Any) -> list[str]:
    words: list[str] = []
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        if parameter.name not in ("self", "cls"):
            words.append(told(parameter))
    return words


def _parameter(parameter: inspect.Parameter) -> str:
    """Annotations are as the source has them; pydantic's are types already."""
    kind = parameter.annotation
    words = kind if isinstance(kind, str) else inspect.formatannotation(kind, base_module="truthful")
    words = re.sub(r"\b(truthful|typing)(\.\w+)*\.", "", words)
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{_starred(parameter)}: {words}{default}"


def _argument(parameter: inspect.Parameter) -> str:
    """Of a method in a table, where there is no room for types."""
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return f"{_starred(parameter)}{default}"


def _starred(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    return f"{stars}{parameter.name}"


def _row(key: str, value: Any) -> str:
    """A documented method or property of a class."""
    inner = value.__func__ if isinstance(value, classmethod | staticmethod) else getattr(value, "fget", value)
    inner = getattr(inner, "func", inner)
    if key.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
        return ""
    plain = isinstance(value, property) or hasattr(value, "func")
    call = key if plain else f"{key}({', '.join(_parameters(inner, _argument))})"
    cells = (f"`{call}`", _text(inner).partition("\n")[0])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _text(thing: Any) -> str:
    """A docstring, its formulas kept from being read as Markdown."""
    return re.sub(r"(?<!`)([*_<])(?!`)", r"\\\1", inspect.getdoc(thing) or "")

"""Names of a package that are loaded when they are first used, so that what needs little starts quickly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__`: the names that each of its modules is the home of; with none, it is wanted itself."""
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if homes.get(name) == ():
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return get

"""Lazy loading, so that small tasks start quickly: names load at first use, and loops compile once they meet many
numbers; until then they run uncompiled.

Loading a compiler and compiled code takes longer than checking one's own payment without. A loop computes the same
either way, to the bit, unless reordering was allowed.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from functools import update_wrapper
from importlib import import_module
from typing import Any, TypeVar, cast


def lazy_names(package: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A package's `__getattr__`, given the names that each of its modules defines; a module without names is loaded as
    such.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if homes.get(name) == ():
            return import_module(f"{package}.{name}")
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return get


F = TypeVar("F", bound=Callable[..., Any])

#: How many numbers, in all, loops run over uncompiled before everything is compiled.
FEW = 20_000


class _Thread(threading.local):
    inside = False  # inside a loop that runs uncompiled


_thread = _Thread()


class Loop:
    """A function that numba compiles, with these options, once there is enough to do."""

    done = 0  # numbers that all loops have run over uncompiled

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function, self._options = function, options
        self._compiled: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            if _thread.inside:
                return self._function(*arguments)
            size = _size(arguments)
            if "numba" not in sys.modules and Loop.done + size <= FEW:
                Loop.done += size
                _thread.inside = True  # the loops that it calls run uncompiled too
                try:
                    return self._function(*arguments)
                finally:
                    _thread.inside = False
            _compile(self._function.__globals__)
        return cast(Callable[..., Any], self._compiled)(*arguments)

    def compile(self) -> Callable[..., Any]:
        """The compiled function, which replaces this one from now on."""
        if self._compiled is None:
            self._compiled = njit(**self._options)(self._function)
        return self._compiled

    def __reduce__(self) -> str | tuple[Any, ...]:
        return getattr, (sys.modules[self._function.__module__], self._function.__name__)


def compiled(**options: Any) -> Callable[[F], F]:
    """A decorator for loops. Loops that call each other belong in one file, which is compiled as a whole."""

    def decorate(function: F) -> F:
        return cast(F, Loop(function, options))

    return decorate


def njit(**options: Any) -> Callable[[F], F]:
    """numba's decorator. What it compiles is kept for the next start, unless this user may write nowhere."""
    import numba

    def decorate(function: F) -> F:
        try:
            return cast(F, numba.njit(cache=True, nogil=True, **options)(function))
        except RuntimeError:  # no place to keep it, as without a home directory
            return cast(F, numba.njit(nogil=True, **options)(function))

    return decorate


def _compile(module: dict[str, Any]) -> None:
    """Compile all loops of a module, since they may call each other."""
    for name, value in list(module.items()):
        if isinstance(value, Loop):
            module[name] = value.compile()


def _size(arguments: tuple[Any, ...]) -> int:
    total = 0
    for argument in arguments:
        if isinstance(argument, tuple):
            total += _size(argument)
        elif getattr(argument, "ndim", 0):
            total += argument.size
    return total

"""Loops that are compiled when they meet many numbers, and run as they stand, or in NumPy, when they meet a few.

To load a compiler and compiled code takes longer than a person's own check of her payment takes without. What a loop
computes is the same either way, to the bit, unless it was allowed to be reordered.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])
Few = bool | Callable[..., Any]

#: Numbers that loops run over as they stand, all in all, before everything is compiled.
FEW = 20_000
#: Numbers that a loop's counterpart in NumPy takes, at a time and all in all, before the loop is compiled.
NUMPY_AT_A_TIME, NUMPY = 50_000, 5_000_000


class _Thread(threading.local):
    inside = False  # a loop that runs as it stands


_thread = _Thread()


class Loop:
    """A function that numba compiles, with these options, once there is enough to do."""

    done = 0  # numbers that all loops have run over as they stand

    def __init__(self, function: Callable[..., Any], few: Few, options: dict[str, Any]) -> None:
        self._function, self._few, self._options = function, few, options
        self._in_numpy = 0  # numbers so far
        self._compiled: Callable[..., Any] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            if _thread.inside:
                return self._function(*arguments)
            size = _size(arguments)
            if callable(self._few):
                self._in_numpy += size
                if size <= NUMPY_AT_A_TIME and self._in_numpy <= NUMPY:
                    return self._few(*arguments)
            elif self._few and "numba" not in sys.modules and Loop.done + size <= FEW:
                Loop.done += size
                return self._run(arguments)
            _compile(self._function.__globals__)
        return cast(Callable[..., Any], self._compiled)(*arguments)

    def _run(self, arguments: tuple[Any, ...]) -> Any:
        """As it stands, and so are the loops that it calls."""
        _thread.inside = True
        try:
            return self._function(*arguments)
        finally:
            _thread.inside = False

    def compile(self) -> Callable[..., Any]:
        """The compiled function, which stands in this one's place from now on."""
        if self._compiled is None:
            import numba

            self._compiled = cast(Callable[..., Any], numba.njit(**self._options)(self._function))
        return self._compiled

    def __reduce__(self) -> str | tuple[Any, ...]:
        return getattr, (sys.modules[self._function.__module__], self._function.__name__)


def compiled(few: Few = True, **options: Any) -> Callable[[F], F]:
    """A decorator for loops; few: whether they can run as they stand, or what does the same in NumPy, to the bit.

    Loops that call each other stand in one file, which is compiled as a whole.
    """

    def decorate(function: F) -> F:
        return cast(F, Loop(function, few, {"cache": True, "nogil": True, **options}))

    return decorate


def _compile(module: dict[str, Any]) -> None:
    """All loops of a module, since they may call each other."""
    for name, value in list(module.items()):
        if isinstance(value, Loop):
            module[name] = value.compile()


def _size(arguments: tuple[Any, ...]) -> int:
    total = 0
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            total += argument.size
        elif isinstance(argument, tuple):
            total += _size(argument)
    return total

"""Argument checks. Each returns the checked value or raises an InputError that names and shows it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.errors import InputError

Floats = npt.NDArray[np.float64]


def brief(value: Any) -> str:
    """Show an unexpected value in a few characters."""
    told = repr(value)
    return told if len(told) <= 60 and "\n" not in told else f"a {type(value).__name__}"


def instance(name: str, value: Any, kind: type[Any], how: str) -> Any:
    """Require a record of this package; `how` says how to get one."""
    if not isinstance(value, kind):
        raise InputError(f"{name} is {brief(value)}; it must be a {kind.__name__}. {how}", argument=name)
    return value


def path(name: str, value: Any) -> Path:
    """Require the path of a file or a directory."""
    if not isinstance(value, str | os.PathLike):
        raise InputError(f"{name} is {brief(value)}; it must be a path.", argument=name)
    return Path(value)


def text(name: str, value: Any) -> str:
    """Require text."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {brief(value)}; it must be a text.", argument=name)
    return value


def function(name: str, value: Any) -> None:
    """Require something callable, or None."""
    if value is not None and not callable(value):
        raise InputError(f"{name} is {brief(value)}; it must be a function, or be left out.", argument=name)


def positive(name: str, value: float) -> float:
    """Require a finite number above zero. Written as `not value > 0` so that NaN does not pass."""
    number = finite(name, value)
    if not number > 0:
        raise InputError(f"{name} is {value!r}; it must be above 0.", argument=name)
    return number


def nonnegative(name: str, value: float) -> float:
    """Require a finite number, zero or above."""
    number = finite(name, value)
    if not number >= 0:
        raise InputError(f"{name} is {value!r}; it must be 0 or above.", argument=name)
    return number


def share(name: str, value: float) -> float:
    """Require a number strictly between 0 and 1."""
    number = finite(name, value)
    if not 0 < number < 1:
        raise InputError(f"{name} is {value!r}; it must lie strictly between 0 and 1.", argument=name)
    return number


def finite(name: str, value: float) -> float:
    """Require a number that is neither NaN nor infinite."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} is {brief(value)}; it must be a number.", argument=name) from None
    if not math.isfinite(number):
        raise InputError(f"{name} is {value!r}; it must be a finite number.", argument=name)
    return number


def integer(name: str, value: int, least: int = 1) -> int:
    """Require a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(f"{name} is {brief(value)}; it must be a whole number.", argument=name)
    if value < least:
        raise InputError(f"{name} is {value}; it must be at least {least}.", argument=name)
    return int(value)


def choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Require one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name} is {brief(value)}; choose one of {', '.join(allowed)}.", argument=name)
    return value


def matrix(name: str, X: Any, columns: int | None = None) -> Floats:
    """Require a finite two-dimensional float array, with the given number of columns if any."""
    array = _floats(name, X)
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}; it must have one row per player, one column per feature.",
            argument=name,
        )
    if columns is not None and array.shape[1] != columns:
        raise InputError(f"{name} has {array.shape[1]} columns; {columns} were expected.", argument=name)
    return array


def vector(name: str, y: Any, length: int | None = None) -> Floats:
    """Require a finite one-dimensional float array, of the given length if any."""
    array = _floats(name, y)
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; it must be one-dimensional.", argument=name)
    if length is not None and len(array) != length:
        raise InputError(f"{name} has {len(array)} entries; {length} were expected.", argument=name)
    return array


def floats(name: str, values: Any) -> Floats:
    """Require an array of numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} holds values that are not numbers.", argument=name) from None


def _floats(name: str, values: Any) -> Floats:
    array = floats(name, values)
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise InputError(
            f"{name}{list(where)} is {array[where]}; every entry must be a finite number.", argument=name
        )
    return array

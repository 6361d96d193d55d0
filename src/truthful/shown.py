"""Records that a notebook shows. How they look is known far below them, and the package itself says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_viewers: list[Callable[[], Any]] = []


def show_with(viewer: Callable[[], Any]) -> None:
    """Have records shown by what this gives, asked for when the first is shown."""
    _viewers[:] = [viewer]


def as_text(record: object) -> str:
    """The record as a terminal shows it, without colours."""
    return str(_viewers[0]().text(record))


class Shown:
    """A record that a notebook shows as tables."""

    def _repr_html_(self) -> str:
        return str(_viewers[0]().html(self))

"""Slow, obviously right twins of the search for duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


def repeated(values: Iterable[int]) -> list[int]:
    """The values that come more than once, ascending."""
    return sorted(value for value, times in Counter(values).items() if times > 1)


def repeats(players: Iterable[Any]) -> list[tuple[int, int]]:
    """(row, first row) of every record whose player already had one; rows count from 1, None is nobody."""
    first: dict[Any, int] = {}
    found = []
    for row, player in enumerate(players, start=1):
        if player is None or (isinstance(player, str) and not player.strip()):
            continue
        if player in first:
            found.append((row, first[player]))
        first.setdefault(player, row)
    return found

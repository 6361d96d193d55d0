"""A slow, obviously right twin of the intake: one record at a time, one value at a time, in plain Python."""

from __future__ import annotations

import math
import re
from typing import Any

from truthful.intake.rules import Bad

NOTHING = ("", "na", "nan", "n/a", "#n/a", ".")

Record = dict[str, Any]

DIGITS = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def number(value: Any) -> float | Bad:
    """The number a value stands for, or what is wrong with it."""
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in NOTHING:
            return Bad.MISSING
        if not DIGITS.fullmatch(text):
            return Bad.NOT_A_NUMBER
        value = float(text)
    if value is None or math.isnan(value):
        return Bad.MISSING
    return float(value) if math.isfinite(value) else Bad.NOT_A_NUMBER


def in_range(value: Any, low: float, high: float) -> Bad | None:
    read = number(value)
    if isinstance(read, Bad):
        return read
    return None if low <= read <= high else Bad.OUT_OF_RANGE


def in_levels(value: Any, levels: tuple[str, ...]) -> Bad | None:
    if value in levels:
        return None
    return Bad.MISSING if value is None or value.strip().lower() in NOTHING else Bad.UNKNOWN_LEVEL


def faults(records: list[Record]) -> list[tuple[int, str, Bad]]:
    """(row from 0, column, kind) of every fault, for the study of the tests: age, region, weekly_spend."""
    found: list[tuple[int, str, Bad]] = []
    seen = set()
    for row, record in enumerate(records):
        player = record["player"]
        nobody = player is None or (isinstance(player, str) and player.strip().lower() in NOTHING)
        kinds = {
            "player": Bad.NO_PLAYER if nobody else Bad.DUPLICATE if player in seen else None,
            "age": in_range(record["age"], 18, 90),
            "region": in_levels(record["region"], ("north", "south", "east")),
            "weekly_spend": in_range(record["weekly_spend"], 0, 200),
        }
        seen.add(player)
        found += [(row, column, kind) for column, kind in kinds.items() if kind is not None]
    return found

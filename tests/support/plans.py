"""Plans that tests share."""

from __future__ import annotations

from functools import cache
from typing import Any

from support.studies import RECORDS, RELEASES, UNIT_BALL, planned
from support.surveys import features, survey
from truthful.check import Floats
from truthful.plan import Plan, design
from truthful.study import Study


@cache
def case(estimator: str, players: int = 500, **parameters: Any) -> Plan:
    """A plan with this estimator and everyday parameters."""
    return planned(Study.parse(RELEASES[estimator]), players, **{"estimator": estimator, **parameters})


@cache
def people_of(players: int, d: int) -> Floats:
    """Normalised features of the survey's people."""
    found: Floats = features(players, d)
    return found


@cache
def bought(players: int, d: int, each: float, /, **asked: Any) -> Plan:
    """The plan of a survey with d coefficients, from the roster of its people, at so many USD a head."""
    return surveyed(players, d, budget=each * players, **asked)


@cache
def surveyed(players: int, d: int, /, **asked: Any) -> Plan:
    """The plan of a survey with d coefficients, from the roster of its people."""
    return design(survey(d), roster=people_of(players, d), **asked)


@cache
def solved(text: str, **asked: Any) -> Plan:
    """The plan of a study's text that is solved for."""
    return design(Study.parse(text), **asked)


def ball(dimension: int, records: bool = False) -> str:
    """The unit ball in so many dimensions."""
    names = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(1, dimension + 1))
    start, end = UNIT_BALL.index("[[features]]"), UNIT_BALL.index("[design]")
    return UNIT_BALL[:start] + names + UNIT_BALL[end:] + (RECORDS if records else "")

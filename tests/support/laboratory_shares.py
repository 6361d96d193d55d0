"""Plans for yes and no and for ratings that tests of the laboratory share."""

from __future__ import annotations

from functools import cache
from typing import Any

from truthful.plan import Plan, design
from truthful.study import Study

TEXT = """
name = "shares"
currency = "USD"
[response]
{kind}
name = "evaded"
{features}
[design]
kind = "{design}"
[privacy]
protects = "answers"
[beliefs]
share = [{low}, {high}]
{beliefs}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
NUMBER = '[[features]]\nname = "age"\nlow = 18\nhigh = 80\n'


def text_of(
    *,
    columns: int = 0,
    levels: int = 2,
    share: tuple[float, float] = (0.05, 0.40),
    effect: float = 0.10,
    beliefs: str = "",
    more: str = "",
) -> str:
    """A study of so many features of two levels each, and of whatever is more; of more than two answers, ratings."""
    kind = 'kind = "yes-no"' if levels == 2 else f'kind = "rating"\nlevels = {levels}'
    features = "".join(f'[[features]]\nname = "f{j}"\nlevels = ["a", "b"]\n' for j in range(columns)) + more
    effects = f"effect = {effect}\n" if features else ""
    return TEXT.format(
        kind=kind,
        features=features,
        design="uniform" if features else "observed",
        low=share[0],
        high=share[1],
        beliefs=effects + beliefs,
    )


def study_of(**declared: Any) -> Study:
    return Study.parse(text_of(**declared))


@cache
def planned(players: int, each: float, **declared: Any) -> Plan:
    """The plan for so many players at so many USD a head."""
    return design(study_of(**declared), players=players, budget=each * players)


@cache
def pinned(players: int, epsilon: float, bonus: float = 1.0, **declared: Any) -> Plan:
    """The plan with these parameters, of which nothing is solved for."""
    parameters = {
        name: declared.pop(name)
        for name in ("margin", "tolerance", "absent_share", "flat", "norm")
        if name in declared
    }
    return design(study_of(**declared), players=players, epsilon=epsilon, bonus=bonus, **parameters)

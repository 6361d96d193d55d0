"""Studies that ask people what the others will say, and their plans, which tests share."""

from __future__ import annotations

from functools import cache
from typing import Any

from truthful.asked_release import AskedRelease
from truthful.plan import Plan, design
from truthful.study import Study

TEXT = """
name = "asked"
currency = "USD"
[response]
{response}
{features}
[design]
kind = "{design}"
[privacy]
protects = "answers"
[beliefs]
centre = "predictions"
{beliefs}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
RESPONSES = {
    "number": 'name = "units"\nlow = 0\nhigh = 100',
    "yes-no": 'kind = "yes-no"\nname = "evaded"',
    "rating": 'kind = "rating"\nlevels = 5\nname = "rated"',
}
BELIEFS = {
    "number": "sure = 10\nspread = 15\n",
    "yes-no": "share = [0.05, 0.6]\nsure = 0.1\n",
    "rating": "share = [0.1, 0.8]\nsure = 0.1\n",
}
EFFECTS = {"number": 10, "yes-no": 0.04, "rating": 0.1}


def study_of(
    kind: str,
    columns: int = 0,
    *,
    beliefs: str | None = None,
    effect: float | None = None,
    response: str | None = None,
) -> Study:
    """A study of this kind with so many features of two levels each."""
    features = "".join(f'[[features]]\nname = "f{j}"\nlevels = ["a", "b"]\n' for j in range(columns))
    believed = BELIEFS[kind] if beliefs is None else beliefs
    if columns:
        believed += f"effect = {EFFECTS[kind] if effect is None else effect}\n"
    return Study.parse(
        TEXT.format(
            response=RESPONSES[kind] if response is None else response,
            features=features,
            design="uniform" if columns else "observed",
            beliefs=believed,
        )
    )


@cache
def planned(kind: str, columns: int = 0, players: int = 2_000, each: float = 2.0, **declared: Any) -> Plan:
    """The plan for so many players at so many USD a head."""
    return design(study_of(kind, columns, **declared), players=players, budget=each * players)


def mechanism_of(plan: Plan) -> AskedRelease:
    mechanism = plan.asked_mechanism
    assert mechanism is not None
    return mechanism

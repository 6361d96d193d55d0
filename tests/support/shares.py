"""Studies of yes and no, and of ratings, that tests share: their texts, plans, people who answer, and settlements."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.plan import Plan, design
from truthful.release import Release
from truthful.settlement import Settlement, settle
from truthful.study import Study
from truthful.study.features import draw_columns

YES_NO = """
name = "Undeclared income"
currency = "USD"
[invitation]
asked_by = "Institute for Household Studies"
purpose = "To learn how much income goes undeclared."
contact = "survey@example.org"
[response]
kind = "yes-no"
name = "evaded"
question = "Have you left income undeclared in the last 12 months?"
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
share = [0.05, 0.40]
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
NUMBER = '[[features]]\nname = "age"\nlow = 18\nhigh = 80\n'
FEATURES = f'{NUMBER}[[features]]\nname = "region"\nlevels = ["north", "south", "east"]\n'


def text_of(
    share: tuple[float, float] = (0.05, 0.40),
    features: str = "",
    design: str = "observed",
    levels: int = 2,
    **beliefs: Any,
) -> str:
    """A study of yes and no, or of a rating with more levels."""
    lines = [f"share = {list(share)}", *(f"{name} = {value}" for name, value in beliefs.items())]
    text = YES_NO if levels == 2 else YES_NO.replace('kind = "yes-no"', f'kind = "rating"\nlevels = {levels}')
    return (
        text.replace("[design]", f"{features}[design]")
        .replace('"observed"', f'"{design}"')
        .replace("share = [0.05, 0.40]", "\n".join(lines))
    )


def study_of(*described: Any, **declared: Any) -> Study:
    return Study.parse(text_of(*described, **declared))


def two_levels(count: int) -> str:
    """So many features of two levels each."""
    return "".join(f'[[features]]\nname = "f{j}"\nlevels = ["a", "b"]\n' for j in range(count))


#: With a number and with levels, assigned by lot.
WITH_FEATURES = text_of((0.2, 0.5), FEATURES, "uniform", effect=0.1)
EXPECTED = """[beliefs.effect]
age = 0.12
region = 0.06
[beliefs.expected]
age = -0.05
"region=south" = 0.03
"""
RATING = text_of((0.2, 0.6), levels=5)
INTERACTING = 'currency = "USD"\ninteractions = [["age", "region"]]'
TRUST = text_of((0.3, 0.6), FEATURES, "uniform", 5, effect=0.1).replace('"evaded"', '"trust"')
TEXTS = {"yes-no": YES_NO, "features": WITH_FEATURES, "rating": TRUST}
KINDS = {
    "yes or no": YES_NO,
    "yes or no, with features": WITH_FEATURES,
    "yes or no, effects expected": WITH_FEATURES.replace("effect = 0.1\n", EXPECTED),
    "yes or no, sums kept back": WITH_FEATURES.replace('"answers"', '"answers"\npublish_matrix = false'),
    "rating": RATING,
    "rating, with features": text_of((0.2, 0.5), FEATURES, "uniform", 7, effect=0.1, agreement=0.6),
    "yes or no, features that interact": WITH_FEATURES.replace('currency = "USD"', INTERACTING).replace(
        "effect = 0.1\n", '[beliefs.effect]\nage = 0.1\nregion = 0.1\n"age:region" = 0.05\n'
    ),
}


@cache
def planned(text: str, players: int = 300, **parameters: Any) -> Plan:
    """A plan with everyday payments."""
    chosen: dict[str, Any] = {"epsilon": 2.0, "flat": 0.1, "bonus": 0.4, "absent_share": 0.002}
    return design(Study.parse(text), players=players, **{**chosen, **parameters})


@cache
def plan_of(name: str, players: int = 2000, **parameters: Any) -> Plan:
    """A plan with an everyday bonus and ε, unless it is solved for from a budget or an accuracy."""
    given = {"epsilon": 0.2, "bonus": 1.0} if {"budget", "accuracy"}.isdisjoint(parameters) else {}
    return design(Study.parse(TEXTS[name]), players=players, **{**given, **parameters})


def reports(study: Study, players: int = 2000, share: float = 0.3, seed: int = 5) -> pa.Table:
    """People's features as a design draws them, and answers that have this share whatever the features."""
    rng = np.random.default_rng(seed)
    said = study.response.low + rng.binomial(study.response.values - 1, share, players)
    columns = draw_columns(rng, players, study.declared.encoding.features)
    names = [f"p-{k:0{len(str(players))}d}" for k in range(1, players + 1)]
    return pa.table({"player": names, **columns, study.response.name: said})


@cache
def settled(name: str, players: int = 2000, share: float = 0.3, **parameters: Any) -> tuple[Plan, Settlement]:
    """A plan, and a rehearsal of it."""
    plan = plan_of(name, players, **parameters)
    return plan, settle(plan, reports(plan.study, players, share), seed=1, accept_less=True)


def released(name: str, **parameters: Any) -> tuple[Plan, Release]:
    plan, settlement = settled(name, **parameters)
    assert isinstance(settlement.release, Release)
    return plan, settlement.release

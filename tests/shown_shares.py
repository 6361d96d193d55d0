"""Small studies of yes and no, and of ratings, that tests share: their texts, plans, people and settlements."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.plan import Plan, design
from truthful.release import Release
from truthful.settlement import Settlement, settle
from truthful.study import Study

YES_NO = """
name = "Undeclared income"
currency = "USD"
[response]
kind = "yes-no"
name = "evaded"
question = "Have you left income undeclared?"
[design]
kind = "uniform"
[beliefs]
share = [0.05, 0.40]
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
FEATURES = """
[[features]]
name = "age"
low = 18
high = 80
[[features]]
name = "region"
levels = ["north", "south", "east"]
"""
WITH_FEATURES = YES_NO.replace("[design]", f"{FEATURES}[design]").replace(
    "share = [0.05, 0.40]", "share = [0.2, 0.5]\neffect = 0.1"
)
RATING = (
    WITH_FEATURES.replace('kind = "yes-no"', 'kind = "rating"\nlevels = 5')
    .replace('"evaded"', '"trust"')
    .replace("[0.2, 0.5]", "[0.3, 0.6]")
)
TEXTS = {"yes-no": YES_NO, "features": WITH_FEATURES, "rating": RATING}


@cache
def plan_of(name: str, players: int = 2000, **parameters: Any) -> Plan:
    """A plan with an everyday bonus and ε, unless it is solved for from a budget or an accuracy."""
    given = {"epsilon": 0.2, "bonus": 1.0} if {"budget", "accuracy"}.isdisjoint(parameters) else {}
    return design(Study.parse(TEXTS[name]), players=players, **{**given, **parameters})


def reports(study: Study, players: int = 2000, share: float = 0.3, seed: int = 5) -> pa.Table:
    """People's features as the design draws them, and answers that have this share whatever the features."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"player": [f"p-{k}" for k in range(players)]}
    for feature in study.features:
        if feature.levels is not None:
            columns[feature.name] = rng.choice(feature.levels, players)
        else:
            columns[feature.name] = rng.uniform(feature.low or 0.0, feature.high or 0.0, players)
    levels = study.response.values
    answers = rng.binomial(levels - 1, share, players)
    columns[study.response.name] = np.where(answers == 1, "yes", "no") if levels == 2 else answers + 1
    return pa.table(columns)


@cache
def settled(name: str, players: int = 2000, share: float = 0.3, **parameters: Any) -> tuple[Plan, Settlement]:
    """A plan, and a rehearsal of it."""
    plan = plan_of(name, players, **parameters)
    return plan, settle(plan, reports(plan.study, players, share), seed=1, accept_less=True)


def released(name: str, **parameters: Any) -> tuple[Plan, Release]:
    plan, settlement = settled(name, **parameters)
    assert isinstance(settlement.release, Release)
    return plan, settlement.release

"""Small studies that ask people what the others will say: their texts, plans, people and settlements."""

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.plan import Plan, design
from truthful.release import Release
from truthful.settlement import Settlement, settle
from truthful.study import Study

NUMBER = """
name = "Units a week"
currency = "USD"
[response]
name = "units"
low = 0
high = 100
question = "How many units did you drink last week?"
[design]
kind = "uniform"
[beliefs]
centre = "predictions"
sure = 10
spread = 15
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
"""
WITH_FEATURES = NUMBER.replace("[design]", f"{FEATURES}[design]").replace(
    "spread = 15", 'spread = 15\neffect = 10\nplausible = [5, 70]\nimplausible = "flat"'
)
YES_NO = (
    NUMBER.replace('name = "units"\nlow = 0\nhigh = 100', 'kind = "yes-no"\nname = "evaded"')
    .replace("sure = 10\nspread = 15", "share = [0.15, 0.65]\nsure = 0.13")
    .replace("How many units did you drink last week?", "Have you left income undeclared?")
)
RATING = WITH_FEATURES.replace(
    'name = "units"\nlow = 0\nhigh = 100', 'kind = "rating"\nlevels = 5\nname = "trust"'
).replace(
    'sure = 10\nspread = 15\neffect = 10\nplausible = [5, 70]\nimplausible = "flat"',
    "share = [0.1, 0.8]\nsure = 0.2\neffect = 0.1",
)
TEXTS = {"number": NUMBER, "features": WITH_FEATURES, "yes-no": YES_NO, "rating": RATING}
#: How many are asked, and what for.
SIZES = {
    "number": (2000, 2000.0),
    "features": (3000, 6000.0),
    "yes-no": (3000, 3000.0),
    "rating": (3000, 6000.0),
}


def study_of(name: str) -> Study:
    return Study.parse(TEXTS[name])


@cache
def plan_of(name: str, **goals: Any) -> Plan:
    players, budget = SIZES[name]
    return design(study_of(name), **{"players": players, "budget": budget, **goals})


def reports(study: Study, players: int, surprise: float = 0.0, seed: int = 5) -> pa.Table:
    """Answers about a level in the middle of what can be, and predictions of people who expect so much less."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"player": [f"p-{k}" for k in range(players)]}
    for feature in study.features:
        columns[feature.name] = rng.uniform(feature.low or 0.0, feature.high or 0.0, players)
    (low, high), levels = study.prediction_range, study.response.values
    level = 0.4 * (high - low) + low
    if study.kind == "number":
        answers = np.clip(level + 15 * rng.standard_normal(players), low, high)
        columns[study.response.name] = answers
    else:
        drawn = rng.binomial(levels - 1, 0.4, players)
        columns[study.response.name] = np.where(drawn == 1, "yes", "no") if levels == 2 else drawn + 1
        answers = low + (high - low) * drawn / (levels - 1)
    k = 0.0 if study.levels is None else study.levels.slope
    expected = level - surprise
    predictions = expected + k * (answers - expected) + 0.02 * (high - low) * rng.standard_normal(players)
    return pa.table({**columns, "prediction": np.clip(predictions, low, high)})


@cache
def settled(name: str, surprise: float = 0.0) -> tuple[Plan, Settlement]:
    """A plan, and a rehearsal of it."""
    plan = plan_of(name)
    return plan, settle(plan, reports(plan.study, plan.players, surprise), seed=1, accept_less=True)


def released(name: str, surprise: float = 0.0) -> tuple[Plan, Release]:
    plan, settlement = settled(name, surprise)
    assert isinstance(settlement.release, Release)
    return plan, settlement.release

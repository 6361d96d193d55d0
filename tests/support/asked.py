"""Studies that ask people what the others will say, and their plans, which tests share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

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


# With features of both kinds, and people who answer both questions

FEATURES = """[[features]]
name = "age"
low = 18
high = 90
[[features]]
name = "sex"
levels = ["f", "m"]
[design]"""
SHARES = "share = [0.15, 0.6]\nsure = 0.07"


def text(kind: str = "number", features: bool = False) -> str:
    """A study file of this kind of answers."""
    found = TEXT.format(
        response=RESPONSES["number"], features="", design="observed", beliefs=BELIEFS["number"]
    )
    if kind != "number":
        levels = "\nlevels = 3" if kind == "rating" else ""
        found = found.replace(RESPONSES["number"], f'kind = "{kind}"\nname = "units"{levels}')
        found = found.replace(BELIEFS["number"], f"{SHARES}\n")
    if features:
        effect = 'effect = 20\nexpected = { age = 4, "sex=m" = 3 }' if kind == "number" else "effect = 0.1"
        found = found.replace("[design]", FEATURES).replace("[costs]", f"{effect}\n[costs]")
    return found


@cache
def study(kind: str = "number", features: bool = False) -> Study:
    return Study.parse(text(kind, features))


def people(n: int, seed: int = 0) -> dict[str, object]:
    """Features of invented people."""
    rng = np.random.default_rng(seed)
    return {"age": rng.uniform(18, 90, n), "sex": np.where(rng.random(n) < 0.4, "m", "f")}


def size(features: bool) -> int:
    """How many people answer: with features it takes more of them."""
    return 2000 if features else 400


@cache
def plan(kind: str = "number", features: bool = False) -> Plan:
    n = size(features)
    if not features:
        return design(study(kind), players=n, budget=20.0 * n)
    return design(study(kind, True), budget=60.0 * n, roster=pa.table(people(n)))


def reports(kind: str = "number", features: bool = False, seed: int = 0) -> pa.Table:
    """Answers of people who expect 40, or three in ten, and are a little wrong; and their predictions."""
    rng, n = np.random.default_rng(seed), size(features)
    match kind:
        case "yes-no":
            y = (rng.random(n) < 0.35).astype(float)
            m = 30 + 5 * (y - 0.3)
        case "rating":
            y = rng.choice([1.0, 2.0, 3.0], n, p=[0.5, 0.3, 0.2])
            m = 1.8 + 0.1 * (y - 1.8)
        case _:
            y = np.clip(45 + 15 * rng.standard_normal(n), 0, 100)
            m = np.clip(40 + 4 / 13 * (y - 40), 0, 100)
    features_of = people(n) if features else {}
    return pa.table(
        {
            "player": [f"p{i}" for i in range(n)],
            **features_of,
            "units": np.round(y, 3),
            "prediction": np.round(m, 2),
        }
    )

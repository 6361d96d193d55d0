"""Studies that ask what the others will say, for tests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

from truthful import Study, design
from truthful.plan import Plan

NUMBER = 'name = "units"\nlow = 0\nhigh = 100'
OF_NUMBERS = "sure = 10\nspread = 15"
TEXT = f"""
name = "Units a week"
currency = "USD"
[response]
{NUMBER}
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
centre = "predictions"
{OF_NUMBERS}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
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
    found = TEXT
    if kind != "number":
        levels = "\nlevels = 3" if kind == "rating" else ""
        found = found.replace(NUMBER, f'kind = "{kind}"\nname = "units"{levels}').replace(OF_NUMBERS, SHARES)
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

"""Rosters as surveys have them, and the studies that go with them: invented people with ages, incomes and regions.

Incomes are skewed and go with age and education, regions are of unequal size, nothing is spread evenly: the largest
leverage is three to four times the average one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.study import Study

FEATURES = {
    "age": "low = 18\nhigh = 90",
    "sex": 'levels = ["f", "m"]',
    "income": "low = 0\nhigh = 120",
    "urban": 'levels = ["town", "country"]',
    "education": 'levels = ["basic", "middle", "higher"]',
    "region": 'levels = ["A", "B", "C", "D", "E"]',
}
#: Features by the number of coefficients they make, the intercept included.
SETS = {
    2: ("age",),
    3: ("age", "sex"),
    5: ("age", "sex", "income", "urban"),
    10: ("age", "sex", "income", "education", "region"),
}
STUDY = """
name = "Survey"
currency = "USD"
[response]
name = "y"
low = -1
high = 1
{features}
[design]
{design}
[privacy]
protects = "{protects}"
[beliefs]
signal = 0.6
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def survey(d: int, protects: str = "answers", design: str = 'kind = "observed"') -> Study:
    """A study with d coefficients: answers in [−1, 1], of which features explain up to 0.6."""
    features = "".join(f'[[features]]\nname = "{name}"\n{FEATURES[name]}\n' for name in SETS[d])
    return Study.parse(STUDY.format(features=features, protects=protects, design=design))


def roster(players: int, d: int, seed: int = 0) -> pa.Table:
    """So many people, with the features of the study of d coefficients."""
    everything = people(players, np.random.default_rng(seed))
    names = [f"p-{i}" for i in range(players)]
    return pa.table({"player": names, **{name: everything[name] for name in SETS[d]}})


def features(players: int, d: int, seed: int = 0) -> Floats:
    """The same people, normalised."""
    table = roster(players, d, seed)
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in SETS[d]}
    return survey(d).normalise(columns, players)


def people(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Raw features of n people."""
    age = 18 + 72 * rng.beta(1.7, 2.3, n)
    schooling = rng.standard_normal(n) - 0.012 * (age - 48)
    education = np.digitize(schooling, [-0.39, 0.67])
    career = -(((age - 50) / 30) ** 2)
    income = np.exp(np.log(42) + 0.28 * schooling + 0.35 * career + 0.55 * rng.standard_normal(n))
    urban = rng.random(n) < 0.8 - 0.1 * (age > 60)
    region = rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    return {
        "age": age,
        "sex": np.where(rng.random(n) < 0.52, "f", "m"),
        "income": np.minimum(income, 120.0),
        "urban": np.where(urban, "town", "country"),
        "education": np.array(["basic", "middle", "higher"])[education],
        "region": np.array(list("ABCDE"))[region],
    }

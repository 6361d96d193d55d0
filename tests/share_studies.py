"""Studies of yes or no, and of ratings, with people who answer them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.plan import Plan, design
from truthful.study import Study
from truthful.study.designs import sample_uniform

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
FACTS = """
[[features]]
name = "age"
low = 18
high = 80
[[features]]
name = "advice"
levels = ["nobody", "a friend", "an adviser"]
"""
#: With a number and with levels, assigned by lot.
WITH_FACTS = (
    YES_NO.replace("[design]", f"{FACTS}[design]")
    .replace('"observed"', '"uniform"')
    .replace("share = [0.05, 0.40]", "share = [0.2, 0.5]\neffect = 0.1")
)
EXPECTED = """[beliefs.effect]
age = 0.12
advice = 0.06
[beliefs.expected]
age = -0.05
"advice=a friend" = 0.03
"""
RATING = YES_NO.replace('kind = "yes-no"', 'kind = "rating"\nlevels = 5').replace("0.05, 0.40", "0.2, 0.6")
KINDS = {
    "yes or no": YES_NO,
    "yes or no, with facts": WITH_FACTS,
    "yes or no, effects expected": WITH_FACTS.replace("effect = 0.1\n", EXPECTED),
    "yes or no, sums kept back": WITH_FACTS.replace('"answers"', '"answers"\npublish_matrix = false'),
    "rating": RATING,
    "rating, with facts": WITH_FACTS.replace('kind = "yes-no"', 'kind = "rating"\nlevels = 7\n').replace(
        "effect = 0.1", "effect = 0.1\nagreement = 0.6"
    ),
}


@cache
def planned(text: str, players: int = 300, **parameters: Any) -> Plan:
    """A plan with everyday payments."""
    chosen: dict[str, Any] = {"epsilon": 2.0, "flat": 0.1, "bonus": 0.4, "absent_share": 0.002}
    return design(Study.parse(text), players=players, **{**chosen, **parameters})


def reports(study: Study, players: int, share: float = 0.3, seed: int = 1) -> Any:
    """People whose share of yes is this one, whatever their facts, as a table of reports."""
    rng = np.random.default_rng(seed)
    top = int(study.response.high - study.response.low)
    names = [f"p-{i:0{len(str(players))}d}" for i in range(1, players + 1)]
    said = study.response.low + rng.binomial(top, share, players)
    columns = sample_uniform(rng, players, study.declared.encoding.features)
    return pa.table({"player": names, **columns, study.response.name: said})

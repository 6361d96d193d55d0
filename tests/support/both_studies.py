"""Studies that ask people what the others will say, with people who answer both questions."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.plan import Plan, design
from truthful.study import Study
from truthful.study.declaration import PREDICTION
from truthful.study.features import draw_columns

FACTS = """
[[features]]
name = "age"
low = 18
high = 80
[[features]]
name = "advice"
levels = ["nobody", "a friend", "an adviser"]
"""
NUMBER = """
name = "Drinks"
currency = "USD"
[invitation]
asked_by = "Institute for Household Studies"
purpose = "To learn how much people drink."
contact = "survey@example.org"
[response]
name = "drinks"
question = "How many drinks did you have in the last four weeks?"
low = 0
high = 100
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
centre = "predictions"
sure = 10
spread = 15
[costs]
kind = "pareto"
tail = 2.0
scale = 0.0005
"""
_SHARES = NUMBER.replace("low = 0\nhigh = 100\n", "").replace("sure = 10\nspread = 15", "share = [0.3, 0.6]")
YES_NO = _SHARES.replace("[response]", '[response]\nkind = "yes-no"').replace("share", "sure = 0.08\nshare")
RATING = _SHARES.replace("[response]", '[response]\nkind = "rating"\nlevels = 5').replace(
    "share", "sure = 0.08\nshare"
)


def with_facts(text: str, effect: str) -> str:
    """The same study with a number and with levels, assigned by lot."""
    assigned = text.replace("[design]", f"{FACTS}[design]").replace('"observed"', '"uniform"')
    return assigned.replace('centre = "predictions"', f'centre = "predictions"\neffect = {effect}')


_EXPECTED = "\n[beliefs.expected]\nage = {}\n'advice=a friend' = {}\n[costs]"
KINDS = {
    "number": NUMBER,
    "yes or no": YES_NO,
    "rating": RATING,
    "number, with facts": with_facts(NUMBER, "12").replace("\n[costs]", _EXPECTED.format(-3, 2)),
    "yes or no, with facts": with_facts(YES_NO, "0.2").replace("\n[costs]", _EXPECTED.format(-0.05, 0.02)),
    "rating, with facts": with_facts(RATING, "0.2").replace("\n[costs]", _EXPECTED.format(-0.05, 0.02)),
    "number, with facts that interact": with_facts(NUMBER, "12")
    .replace("\n[costs]", _EXPECTED.format(-3, 2))
    .replace('currency = "USD"', 'currency = "USD"\ninteractions = [["age", "advice"]]'),
}


@cache
def planned(text: str, players: int = 300, **parameters: Any) -> Plan:
    """A plan with little noise."""
    return design(Study.parse(text), players=players, **{"epsilon": 2.0, "absent_share": 0.002, **parameters})


def reports(study: Study, players: int, seed: int = 1, level: float = 0.4) -> Any:
    """People who average this part of the scale, whatever their facts, and expect others to be a little like them."""
    rng = np.random.default_rng(seed)
    names = [f"p-{i:0{len(str(players))}d}" for i in range(1, players + 1)]
    low, high = study.response.low, study.response.high
    if study.shares is None:
        said = np.clip(rng.normal(level, 0.15, players), 0, 1)
    else:
        said = rng.binomial(int(high - low), level, players) / (high - low)
    predicted = np.clip(0.35 + 0.3 * (said - 0.35) + rng.normal(0, 0.05, players), 0, 1)
    start, end = study.prediction_range
    return pa.table(
        {
            "player": names,
            **draw_columns(rng, players, study.declared.encoding.features),
            study.response.name: (low + (high - low) * said).round(2),
            PREDICTION: (start + (end - start) * predicted).round(1),
        }
    )

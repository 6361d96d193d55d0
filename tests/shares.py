"""Studies of yes and no and of ratings, and people who answer them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from truthful.study import Study

HEAD = """
name = "Undeclared income"
currency = "USD"
[response]
name = "evaded"
{response}
{features}
[design]
kind = "{design}"
[privacy]
protects = "answers"
[beliefs]
{beliefs}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def study_of(
    share: tuple[float, float] = (0.05, 0.40),
    features: str = "",
    design: str = "observed",
    levels: int = 2,
    **beliefs: Any,
) -> Study:
    """A study of yes and no, or of a rating with more levels."""
    response = 'kind = "yes-no"' if levels == 2 else f'kind = "rating"\nlevels = {levels}'
    lines = [f"share = {list(share)}", *(f"{name} = {value}" for name, value in beliefs.items())]
    return Study.parse(
        HEAD.format(response=response, features=features, design=design, beliefs="\n".join(lines))
    )


def two_levels(count: int) -> str:
    """So many features of two levels each."""
    return "".join(f'[[features]]\nname = "f{j}"\nlevels = ["a", "b"]\n' for j in range(count))


NUMBER = '[[features]]\nname = "age"\nlow = 18\nhigh = 80\n'


def reports(rng: np.random.Generator, share: float, players: int, name: str = "evaded") -> Any:
    """So many people without features, of whom this share says yes, about."""
    answers = np.where(rng.random(players) < share, "yes", "no")
    return pa.table({"player": np.arange(players), name: answers})

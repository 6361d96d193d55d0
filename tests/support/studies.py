"""Small studies that tests share."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from truthful.people import People, invent
from truthful.plan import Plan, design
from truthful.study import Study

DESIGNED = """
name = "Designed"
currency = "USD"
[response]
name = "spend"
low = 0
high = 200
[[features]]
name = "price"
low = 1
high = 5
[[features]]
name = "region"
levels = ["north", "south", "east"]
[design]
kind = "uniform"
[beliefs]
signal = 0.6
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""

#: Only the mean answer is asked for: what each settlement of features computes is spared.
WITHOUT_FEATURES = DESIGNED[: DESIGNED.index("[[features]]")] + DESIGNED[DESIGNED.index("[design]") :]

OBSERVED = DESIGNED.replace('kind = "uniform"', 'kind = "observed"\nleast_eigenvalue = 0.08').replace(
    "Designed", "Observed"
)

UNIT_BALL = """
name = "Ball"
currency = "EUR"
[response]
name = "y"
low = -2
high = 2
[[features]]
name = "x1"
[[features]]
name = "x2"
[design]
kind = "unit-ball"
[beliefs]
radius = 1.0
noise_bound = 1.0
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""

#: Features that are assigned and not all alike, and that interact in all ways.
UNEQUAL = (
    DESIGNED.replace('kind = "uniform"', 'kind = "assigned"')
    .replace(
        'currency = "USD"\n',
        'currency = "USD"\ninteractions = [["price", "visits"], ["region", "price"], ["region", "sex"]]\n',
    )
    .replace(
        '"east"]\n',
        """"east"]
reference = "south"
probabilities = [0.5, 0.3, 0.2]
[[features]]
name = "visits"
values = [0, 1, 8]
probabilities = [0.6, 0.1, 0.3]
[[features]]
name = "sex"
levels = ["f", "m"]
""",
    )
    .replace("Designed", "Unequal")
)

RECORDS = '[privacy]\nprotects = "records"\n'

#: One release with each of its estimators: the study's text.
RELEASES = {
    "instruments": DESIGNED,
    "known-design": DESIGNED + RECORDS,
    "noisy-statistics": OBSERVED + RECORDS,
}
#: Algorithm 2 with each of its estimators: study text and parameters.
CASES = {
    "known-design": (DESIGNED, {}),
    "noisy-statistics": (OBSERVED, {}),
    "ridge-ball": (UNIT_BALL, {"regularization": 40.0, "peer_regularization": 60.0}),
    "ridge-free": (UNIT_BALL, {"regularization": 40.0}),
}


def saved_study(directory: Path, text: str = DESIGNED) -> Study:
    """A study in a file, so that it has a place for its ledger."""
    path = directory / "study.toml"
    path.write_text(text)
    return Study.load(path)


def planned(study: Study, players: int = 500, estimator: str | None = None, **parameters: Any) -> Plan:
    """A plan with everyday parameters, made once."""
    return replace(_planned(study, players, estimator, **parameters), study=study)


@cache
def _planned(study: Study, players: int, estimator: str | None, **parameters: Any) -> Plan:
    chosen = {"epsilon": 2.0, "score_weight": 0.5, "absent_share": 0.002, **parameters}
    return design(study, players=players, estimator=estimator, **chosen)


def people(study: Study, players: int = 500, seed: int = 7) -> People:
    """Invented people; observed features are drawn as the designed ones are."""
    source = study if study.second_moments is not None else Study.parse(DESIGNED)
    return invent(source, players, np.random.default_rng(seed))

"""Invented people, who answer as the study believes people do: for demonstrations and rehearsals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from truthful.check import Floats
from truthful.study import Study


@dataclass(frozen=True, eq=False)
class People:
    """Honest reports in raw units, and the coefficients they were made from."""

    reports: Any
    theta: Floats


def invent(study: Study, players: int, rng: np.random.Generator) -> People:
    """Draw θ from the prior, features from the design, and answers y = θ·x + z, in raw units."""
    theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
    columns = study.sample_features(rng, players)
    X = study.normalise(columns, players)
    y = X @ theta + study.beliefs.noise.sample(rng, players)
    width = len(str(players))
    names = [f"p-{i:0{width}d}" for i in range(1, players + 1)]
    table = pa.table({"player": names, **columns, study.response.name: study.raw_response(y, X)})
    return People(table, theta)

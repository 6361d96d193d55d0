"""Numbers that simulations find, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful.check import Floats

#: A cell says nothing of fewer people, nor if they are as unequally spread over studies as if those were so few.
PEOPLE, STUDIES = 100, 10


@dataclass(frozen=True)
class Found:
    """A mean, and its standard error; NaN where too little was seen."""

    value: float
    error: float

    def times(self, factor: float) -> Found:
        """The same in other units."""
        return Found(self.value * factor, self.error * abs(factor))


UNKNOWN = Found(math.nan, math.nan)


def mean(values: Floats) -> Found:
    """Of one value a study."""
    return ratio(values, np.ones(len(values)))


def ratio(sums: Floats, counts: Floats) -> Found:
    """The mean of all that was summed over studies, with the error from how it varies between them."""
    runs, total = len(counts), float(counts.sum())
    if not total > 0:
        return UNKNOWN
    value = float(sums.sum()) / total
    spread = math.sqrt(float(np.sum((sums - value * counts) ** 2)) * runs / max(runs - 1, 1)) / total
    return Found(value, spread if runs > 1 else math.nan)


def enough_people(players: Floats) -> npt.NDArray[np.bool_]:
    """Which cells hold enough people, by study and cell, of enough studies: (Σn)²/Σn² of them.

    Answers are large in the few studies whose θ is: a mean over those is that of few θ, however many people there are.
    """
    total, squares = players.sum(axis=0), np.square(players).sum(axis=0)
    return np.asarray((total >= PEOPLE) & (total**2 >= STUDIES * squares))

"""How many of those who answered have each level, and each pair of levels: what published sums would say of a few."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import kernels
from truthful.study import Study
from truthful.study.features import Levels

Integers = npt.NDArray[np.int64]
Pair = tuple[str, str]

#: Pairs of features with more cells than this are not counted.
MOST_CELLS = 10_000


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts of people by level, in the order of the levels, and by two levels at once. Those of two groups add.

    `levels` has one array for each feature with levels, `pairs` one matrix for each two of them.
    """

    levels: dict[str, Integers]
    pairs: dict[Pair, Integers]

    @classmethod
    def zero(cls, study: Study) -> Cells:
        """The cells of nobody."""
        features = [f for f in study.declared.encoding.features if isinstance(f, Levels)]
        sizes = {feature.name: len(feature.levels) for feature in features}
        return cls(
            {name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()},
            {
                (one, other): np.zeros((sizes[one], sizes[other]), dtype=np.int64)
                for one, other in combinations(sizes, 2)
                if sizes[one] * sizes[other] <= MOST_CELLS
            },
        )

    def add(self, values: dict[str, Any]) -> None:
        """Count in people whose levels are at these places, all of them valid."""
        for name, counts in self.levels.items():
            places = np.ascontiguousarray(values[name], dtype=np.int64)
            kernels.count_levels(places, counts)
        for (one, other), table in self.pairs.items():
            places, others = (np.ascontiguousarray(values[name], dtype=np.int64) for name in (one, other))
            kernels.count_pairs(places, others, table)

    def __add__(self, other: Cells) -> Cells:
        return Cells(
            {name: counts + other.levels[name] for name, counts in self.levels.items()},
            {pair: counts + other.pairs[pair] for pair, counts in self.pairs.items()},
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cells) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(repr(self._content()))

    def _content(self) -> list[Any]:
        return [
            sorted((name, counts.tolist()) for name, counts in part.items())
            for part in (self.levels, self.pairs)
        ]

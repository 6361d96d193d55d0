"""From checked columns straight to what is made of them, compiled: no array is as long as a batch that need not be.

Rows are put on the grid a tile at a time, to the bit as `Study.normalise`, `normalise_response` and the grid of
`truthful.moments` have it, and used while they are in a near cache: for the moments of the halves in the first pass,
for the peers' predictions in the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import kernels
from truthful.check import Floats
from truthful.errors import InputError
from truthful.kernels import LEVEL, NUMBER
from truthful.moments import Groups, Tally, exact_rows, response_limit
from truthful.study import Study
from truthful.study.features import AsGiven, Levels

Integers = npt.NDArray[np.int64]
Peers = tuple[Floats, Floats, Floats, float]  # the halves' estimates, spreads, scales of noise, and reach
Values = dict[str, Any]  # one array for each column: numbers, or places of levels


@dataclass(frozen=True)
class Tiles:
    """The tiles of a study's records."""

    study: Study

    def add(self, values: Values, groups: Groups, tally: Tally) -> bool:
        """Adds the records of a batch to the tally, or gives False: if one has ‖x‖ > 1 it needs a closer look."""
        panel, block = exact_rows(self.limit)
        if len(groups) > block:
            return False
        sums = np.zeros((2, self.study.dimension + 1, self.study.dimension + 1), dtype=np.int64)
        columns = self._held(values, len(groups))
        done = kernels.add_tiles(_addresses(columns), *self._codes, groups, panel, sums)
        if done:
            tally.add_sums(sums, groups, block)
        return bool(done)

    def predictions(self, values: Values, groups: Groups, peers: Peers) -> tuple[Floats, ...] | None:
        """(‖x‖, y, p, noise along x) of every record of a batch, as `peer_predictions` has them; None if ‖x‖ > 1."""
        r, y, p, noise = np.empty((4, len(groups)))
        columns = self._held(values, len(groups))
        done = kernels.predict_tiles(_addresses(columns), *self._codes, groups, *peers, r, y, p, noise)
        return (r, y, p, noise) if done else None

    @cached_property
    def limit(self) -> int:
        """The largest response on the grid."""
        return response_limit(self.study.beliefs.response_bound)

    @cached_property
    def _codes(self) -> tuple[Integers, Floats, Floats, float, bool, float]:
        """What the kernels know of the study.

        For each column its kind and levels, and low, high and factor of (2v − low − high)·factor; the centre of the
        prior; the unit of a level; whether there is an intercept; and the largest response.
        """
        encoding, response = self.study.declared.encoding, self.study.response
        kinds, maps = [], []
        for feature in encoding.features:
            match feature:
                case Levels():
                    kinds.append((LEVEL, len(feature.levels)))
                    maps.append((0.0, 0.0, 0.0))
                case AsGiven():
                    kinds.append((NUMBER, 0))
                    maps.append((0.0, 0.0, 0.5 / encoding.scale))
                case _:
                    kinds.append((NUMBER, 0))
                    factor = 1.0 / ((feature.high - feature.low) * encoding.scale)
                    maps.append((feature.low, feature.high, factor))
        kinds.append((NUMBER, 0))
        maps.append((response.low, response.high, self.study.half_range / (response.high - response.low)))
        return (
            np.array(kinds, dtype=np.int64),
            np.array(maps, dtype=np.float64),
            np.ascontiguousarray(self.study.centre, dtype=np.float64),
            1.0 / encoding.scale,
            encoding.intercept,
            float(self.limit),
        )

    def _held(self, values: Values, rows: int) -> list[Any]:
        """The columns in the study's order, in the form that kernels may read by their addresses."""
        names = [feature.name for feature in self.study.declared.encoding.features]
        kinds = [np.int64 if kind == LEVEL else np.float64 for kind in self._codes[0][:, 0].tolist()]
        columns = [
            np.ascontiguousarray(values[name], dtype=kind)
            for name, kind in zip([*names, self.study.response.name], kinds, strict=True)
        ]
        if any(column.shape != (rows,) for column in columns):
            raise InputError(f"The columns must have {rows} rows; they have {[len(c) for c in columns]}.")
        return columns


def _addresses(columns: list[Any]) -> Integers:
    """Where the columns are: a kernel that is handed one array for each would be compiled for each number of them."""
    return np.array([column.ctypes.data for column in columns], dtype=np.int64)

"""From columns straight to what is made of them, compiled: no array is as long as a batch that need not be.

Rows are put on the grid a tile at a time, to the bit as `Study.normalise`, `normalise_response` and the grid of
`truthful.moments` have it, and used while they are in a near cache: for the sums of products with instruments in the
first pass, for what everybody else says of each player in the second. That a value lies in its range is seen on the
way; if one does not, or if some ‖x‖ > 1, the batch is left as it was, for rules that look closer.
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
from truthful.kernels import LARGEST, Codes, Others
from truthful.moments import SumsTally, exact_sums, response_limit
from truthful.study import Study
from truthful.study.features import AsGiven, Column, Levels

Integers = npt.NDArray[np.int64]
Values = dict[str, Any]  # one array for each column: numbers, or places of levels


@dataclass(frozen=True)
class Tiles:
    """The tiles of a study's records."""

    study: Study

    def add(self, values: Values, count: int, tally: SumsTally) -> bool:
        """Adds the records of a batch of so many to the tally, or gives False: one of them needs a closer look."""
        panel, block = exact_sums(self.limit)
        columns = self._held(values, count)
        addresses, parts = _addresses(columns), []
        for first in range(0, count, block):
            stop, sums = min(first + block, count), tally.nothing
            if not kernels.add_tiles(
                addresses, self._codes, tally.transform, tally.sup, first, stop, panel, sums
            ):
                return False
            parts.append((sums, stop - first))
        for sums, rows in parts:
            tally.add_sums(sums, rows, block)
        return True

    def without_each(self, values: Values, count: int, others: Others) -> tuple[Floats, ...] | None:
        """(r, y, h, p, noise, noise along x) of every record of a batch, as the kernel has them; None likewise."""
        found = tuple(np.empty(count) for _ in range(6))
        columns = self._held(values, count)
        return found if kernels.predict_tiles(_addresses(columns), self._codes, others, *found) else None

    def on_grid(self, values: Values, count: int) -> tuple[Floats, Floats] | None:
        """(kx, ky) of every record of a batch; None likewise."""
        k = np.empty((self.study.dimension + 1, count))
        columns = self._held(values, count)
        return (k[:-1].T, k[-1]) if kernels.grid_tiles(_addresses(columns), self._codes, k) else None

    @cached_property
    def limit(self) -> int:
        """The largest response on the grid."""
        return response_limit(self.study.believed.response_bound)

    @cached_property
    def _codes(self) -> Codes:
        encoding, response = self.study.declared.encoding, self.study.response
        columns = [_coded(feature, encoding.scale) for feature in encoding.features]
        factor = self.study.half_range / (response.high - response.low)
        columns.append((0, (response.low, response.high, factor), (response.low, response.high)))
        levels, maps, ranges = zip(*columns, strict=True)
        return Codes(
            np.array(levels, dtype=np.int64),
            np.array(maps, dtype=np.float64),
            np.array(ranges, dtype=np.float64),
            np.ascontiguousarray(self.study.centre, dtype=np.float64),
            1.0 / encoding.scale,
            encoding.intercept,
            float(self.limit),
        )

    def _held(self, values: Values, rows: int) -> list[Any]:
        """The columns in the study's order, in the form that kernels may read by their addresses."""
        names = [feature.name for feature in self.study.declared.encoding.features]
        kinds = [np.int64 if levels else np.float64 for levels in self._codes.levels.tolist()]
        columns = [
            np.ascontiguousarray(values[name], dtype=kind)
            for name, kind in zip([*names, self.study.response.name], kinds, strict=True)
        ]
        if any(column.shape != (rows,) for column in columns):
            raise InputError(f"The columns must have {rows} rows; they have {[len(c) for c in columns]}.")
        return columns


def _coded(feature: Column, scale: float) -> tuple[int, tuple[float, float, float], tuple[float, float]]:
    """The levels of a feature, how its numbers are coded, and between what they must lie."""
    match feature:
        case Levels():
            return len(feature.levels), (0.0, 0.0, 0.0), (0.0, 0.0)
        case AsGiven():
            return 0, (0.0, 0.0, 0.5 / scale), (-LARGEST, LARGEST)
        case _:
            low, high = feature.low, feature.high
            return 0, (low, high, 1.0 / ((high - low) * scale)), (low, high)


def _addresses(columns: list[Any]) -> Integers:
    """Where the columns are: a kernel that is handed one array for each would be compiled for each number of them."""
    return np.array([column.ctypes.data for column in columns], dtype=np.int64)

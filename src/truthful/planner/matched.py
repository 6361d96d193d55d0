"""What a search asks for thousands of times, tabulated by clip level and noise: the size of lies, and belief gaps.

At c < R peers' predictions are clipped closer, which makes payments cheaper and q flatter, so that a lie of the same
size would let more answers go undeterred. D(c) is the size that lets as many go as the one asked for does at c = R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from truthful.belief_gap import largest_belief_gap
from truthful.beliefs import Beliefs
from truthful.bounds.setting import Numbers
from truthful.check import Floats
from truthful.deterrence import Deterrence, representative

#: The least clip level that is tried, as a part of R: below, most lies would go free.
LEAST_CLIP = 0.2
#: Levels at which D is computed, and to how many a monotone cubic through them is refined.
CLIPS, FINE = 11, 161
#: Noise along typical features, as a part of R. D falls by a third between these, and beyond them hardly changes.
NOISES = (0.01, 0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7, 1.5, 10.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClipTable:
    """A number at every clip level and scale of the noise, for people of these lengths and this noise in proportion.

    pinned is the one clip level that is wanted, None for all.
    """

    beliefs: Beliefs
    lengths: Floats
    proportions: Floats
    pinned: float | None = None

    def __call__(self, clip: Numbers, scale: Numbers) -> Floats:
        """Linear between the levels and noises of the table."""
        levels, table = self._table
        noise = np.log(np.asarray(scale) * self._typical / self.beliefs.radius)
        i, u = _place(np.asarray(clip, dtype=np.float64), levels)
        j, v = _place(noise, np.log(NOISES))
        low, high = (table[i, k] + u * (table[i + 1, k] - table[i, k]) for k in (j, j + 1))
        return np.asarray(low + v * (high - low))

    @cached_property
    def _typical(self) -> float:
        """The noise along a unit vector of x, in root mean square weighted by ‖x‖², of a scale of 1."""
        return math.sqrt(float(np.mean(self.proportions**2)) / float(np.mean(self.lengths**2)))

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Levels, and the number at each of them (a row) and each noise."""
        R, pinned = self.beliefs.radius, self.pinned
        clips = np.linspace(LEAST_CLIP * R, R, CLIPS) if pinned is None else np.array([pinned, R])
        table = self._values(clips, R / self._typical * np.array(NOISES))
        return (clips, table) if pinned is not None else (np.linspace(clips[0], R, FINE), _refined(table))

    def _values(self, clips: Floats, scales: Floats) -> Floats:
        """The number at every level (a row) and scale (a column)."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class MatchedLies(ClipTable):
    """D; lie is D at c = R."""

    lie: float

    def _values(self, clips: Floats, scales: Floats) -> Floats:
        people = Deterrence(self.beliefs, *representative(self.lengths, self.proportions))
        return people.matched_lies(self.lie, clips, scales)


@dataclass(frozen=True, eq=False, kw_only=True)
class BeliefGaps(ClipTable):
    """Γ: what a centre that is wrong by `shift`, normalised, does to anybody's expectation at most."""

    shift: float

    def _values(self, clips: Floats, scales: Floats) -> Floats:
        gap = partial(largest_belief_gap, self.beliefs, self.lengths, self.proportions, self.shift)
        return np.array([[gap(float(clip), float(scale)) for scale in scales] for clip in clips])


def _place(x: Floats, points: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """The cell between points that x is in, or the one that it is nearest to, and which part of it lies below x."""
    place = np.interp(x, points, np.arange(len(points)))
    cell = np.minimum(place.astype(np.intp), len(points) - 2)
    return cell, place - cell


def _refined(table: Floats) -> Floats:
    """FINE rows for CLIPS: monotone cubics between them (Fritsch and Butland, 1984)."""
    rise = np.diff(table, axis=0)
    before, after = rise[:-1], rise[1:]
    product = np.maximum(before * after, 0.0)
    inner = 2 * np.divide(product, before + after, out=np.zeros_like(product), where=product > 0)
    first, last = (
        np.clip((3 * near - far) / 2, np.minimum(3 * near, 0), np.maximum(3 * near, 0))
        for near, far in ((rise[0], rise[1]), (rise[-1], rise[-2]))
    )
    slopes = np.vstack([first, inner, last])
    cell, t = _place(np.linspace(0, CLIPS - 1, FINE), np.arange(float(CLIPS)))
    t, low, high = t[:, None], slopes[cell], slopes[cell + 1]
    bent = (1 - t) * (low - rise[cell]) + t * (rise[cell] - high)
    return np.asarray(table[cell] + t * (rise[cell] + (1 - t) * bent))

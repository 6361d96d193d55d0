"""The size of lies that may pay at each clip level and noise, tabulated: what a search asks for thousands of times.

At c < R peers' predictions are clipped closer, which makes payments cheaper and q flatter, so that a lie of the same
size would let more answers go undeterred. D(c) is the size that lets as many go as the one asked for does at c = R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import interpolate

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


@dataclass(frozen=True, eq=False)
class MatchedLies:
    """D at every clip level and scale of the noise, for people of these lengths and this noise in proportion to it.

    lie is D at c = R; pinned is the one clip level that is wanted, None for all.
    """

    beliefs: Beliefs
    lengths: Floats
    proportions: Floats
    lie: float
    pinned: float | None = None

    def __call__(self, clip: Numbers, scale: Numbers) -> Floats:
        """Linear between the levels and noises of the table."""
        R = self.beliefs.radius
        noise = np.clip(np.asarray(scale) * self._typical / R, NOISES[0], NOISES[-1])
        levels, noises = np.broadcast_arrays(np.asarray(clip, dtype=np.float64), np.log(noise))
        points = np.stack([levels, noises], axis=-1)
        return np.asarray(self._table(points.reshape(-1, 2)).reshape(levels.shape))

    @cached_property
    def _typical(self) -> float:
        """The noise along a unit vector of x, in root mean square weighted by ‖x‖², of a scale of 1."""
        return math.sqrt(float(np.mean(self.proportions**2)) / float(np.mean(self.lengths**2)))

    @cached_property
    def _table(self) -> interpolate.RegularGridInterpolator:
        R = self.beliefs.radius
        clips = np.linspace(LEAST_CLIP * R, R, CLIPS) if self.pinned is None else np.array([self.pinned])
        clips = np.unique(np.append(clips, R))
        people = Deterrence(self.beliefs, *representative(self.lengths, self.proportions))
        table = people.matched_lies(self.lie, clips, R / self._typical * np.array(NOISES))
        levels = clips
        if len(clips) > 1:
            levels = np.union1d(np.linspace(clips[0], R, FINE), clips)
            table = interpolate.PchipInterpolator(clips, table, axis=0)(levels)
        return interpolate.RegularGridInterpolator(
            (levels, np.log(NOISES)), table, bounds_error=False, fill_value=None
        )

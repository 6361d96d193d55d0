"""The half-plane of reports cut where the posterior stops being analytic.

For r = ‖x‖ in [0, 1] and y ≥ 0 the support of u = θ·x/‖x‖ is [max(-R, (y-M)/r), min(R, (y+M)/r)]. As one end or the
other passes ±R, E[ψ(u) | r, y] is continuous but not smooth. Between these lines it is an analytic function of well
chosen coordinates (X, Y) in the unit square:

    whole   rR ≤ M, y ≤ M - rR: all of [-R, R].     X = r/r₁,  Y = y/(M - rR)
    upper   rR ≤ M, y > M - rR: [a, R].             X = r/r₁,  Y = ω
    short   rR > M, y ≥ rR - M: [a, R].             X = √(e/e₁),  Y = (ω - ω₀)/(1 - ω₀)
    middle  rR > M, y < rR - M: [a, b].             X = √(e/e₁),  Y = √((R - b)/e)

with a = (y - M)/r, b = (y + M)/r, e = R - M/r; ω = √(R + a)/(√(R + a) + √(R - a)), and ω₀ the smallest there is at
that r, where a = R - 2M/r; r₁ = min(1, M/R) and e₁ = max(0, R - M) are the largest values. The square roots take the
place of the powers (R ± u)^((d+1)/2) with which the integrals begin at the ends of the ball, and widen the thin layer
at u = R where little peer noise is clipped. `coordinates` in truthful.lookup is the inverse map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.check import Floats
from truthful.posterior import Laws, Support

WHOLE, UPPER, SHORT, MIDDLE = range(4)


@dataclass(frozen=True)
class Region:
    """One of the four, as the map from the unit square to supports."""

    kind: int
    radius: float
    bound: float

    def support(self, X: Floats, Y: Floats) -> Support:
        """The players at (X, Y). Angles come from the coordinates, not from r and y: exact at r = 0 and at the edge."""
        R, M = self.radius, self.bound
        if self.kind in (WHOLE, UPPER):
            r = min(1.0, M / R) * X
            return self._whole(r, Y) if self.kind == WHOLE else self._above(r, Y)
        root = np.sqrt(max(0.0, R - M)) * X
        r = M / (R - root**2)
        if self.kind == SHORT:
            least = root / (root + np.sqrt(R - root**2))
            return self._above(r, least + (1 - least) * Y)
        low = 2 * np.arcsin(root * Y / np.sqrt(2 * R))
        high = np.pi - 2 * np.arcsin(root * np.sqrt((2 - Y**2) / (2 * R)))
        return Support(r, r * root**2 * (1 - Y**2), low, high)

    def _whole(self, r: Floats, Y: Floats) -> Support:
        zero = np.zeros_like(r)
        return Support(r, Y * np.maximum(0.0, self.bound - r * self.radius), zero, zero + np.pi)

    def _above(self, r: Floats, omega: Floats) -> Support:
        # a = R cos t with tan(t/2) = √((R - a)/(R + a)) = (1 - ω)/ω.
        high = np.maximum(2 * np.arctan2(1 - omega, omega), 1e-100)
        return Support(r, self.bound + r * self.radius * np.cos(high), np.zeros_like(r), high)


def regions(laws: Laws) -> tuple[Region, ...]:
    """All regions that reports with ‖x‖ ≤ 1 can fall in."""
    R, M = laws.prior.radius, laws.noise.bound
    kinds = (WHOLE, UPPER, SHORT, MIDDLE) if R > M else (WHOLE, UPPER)
    return tuple(Region(kind, R, M) for kind in kinds)

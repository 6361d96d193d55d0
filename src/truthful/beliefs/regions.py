"""The half-plane of reports cut where the posterior stops being analytic.

For r = ‖x‖ in [0, 1] and y ≥ 0 the support of u = θ·x/‖x‖ is [max(-R, (y-M)/r), min(R, (y+M)/r)]. As one end or the
other passes ±R, E[ψ(u) | r, y] is continuous but not smooth. Between these lines it is an analytic function of well
chosen coordinates (X, Y) in the unit square:

    whole   rR ≤ M, y ≤ M - rR: all of [-R, R].     X = r/r₁,  Y = y/(M - rR)
    upper   rR ≤ M, y > M - rR: [a, R].             X = r/r₁,  Y = ω with κ = 1
    short   rR > M, y ≥ rR - M: [a, R].             X = x/x₁,  Y = (ω - ω₀)/(1 - ω₀)
    middle  rR > M, y < rR - M: [a, b].             X = x/x₁,  Y = √((R - b)/(R - M/r))

with a = (y - M)/r, b = (y + M)/r, κ = M/(rR), x = √(1-κ)/(√(1-κ) + √κ), ω = √(R+a)/(√(R+a) + √((R-a)/κ)), ω₀ the
smallest ω there is at that r, where a = R - 2κR; r₁ = min(1, M/R) and x₁ are the largest r and x. The square roots
take the place of the powers (R ± u)^((d+1)/2) with which the integrals begin at the ends of the ball, and they widen
the thin layers there: of the width M/r of the support when there is little noise, of the width of the peer noise
when that is clipped. `coordinates` in truthful.beliefs.lookup is the inverse map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.beliefs.posterior import Laws, Support
from truthful.check import Floats

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
            return self._whole(r, Y) if self.kind == WHOLE else self._above(r, Y, np.ones_like(r))
        x = np.sqrt(R - M) / (np.sqrt(R - M) + np.sqrt(M)) * X
        kappa = (1 - x) ** 2 / (x**2 + (1 - x) ** 2)
        r, root = M / (kappa * R), np.sqrt(1 - kappa)
        if self.kind == SHORT:
            least = root / (root + 1)
            return self._above(r, least + (1 - least) * Y, kappa)
        low = 2 * np.arcsin(root * Y / np.sqrt(2))
        high = np.pi - 2 * np.arcsin(root * np.sqrt((2 - Y**2) / 2))
        return Support(r, r * R * root**2 * (1 - Y**2), low, high)

    def _whole(self, r: Floats, Y: Floats) -> Support:
        zero = np.zeros_like(r)
        return Support(r, Y * np.maximum(0.0, self.bound - r * self.radius), zero, zero + np.pi)

    def _above(self, r: Floats, omega: Floats, kappa: Floats) -> Support:
        # a = R cos t with tan(t/2) = √((R - a)/(R + a)) = √κ (1 - ω)/ω.
        high = np.maximum(2 * np.arctan2(np.sqrt(kappa) * (1 - omega), omega), 1e-100)
        return Support(r, self.bound + r * self.radius * np.cos(high), np.zeros_like(r), high)


def regions(laws: Laws) -> tuple[Region, ...]:
    """All regions that reports with ‖x‖ ≤ 1 can fall in."""
    R, M = laws.prior.radius, laws.noise.bound
    kinds = (WHOLE, UPPER, SHORT, MIDDLE) if R > M else (WHOLE, UPPER)
    return tuple(Region(kind, R, M) for kind in kinds)

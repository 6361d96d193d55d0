"""What several errata are shown on: the paper's model and schedule, and the exact error of ridge regression."""

from __future__ import annotations

from truthful.bounds import published
from truthful.bounds.setting import Model, Setting, unit_ball
from truthful.costs import ParetoCosts
from truthful.estimators.shrinkage import mean_inverse

DELTA, TAIL = 0.25, 2.0
#: Pr[c ≤ τ] = 1 − τ⁻²: the law of costs that Assumption `tail` allows with equality, for p = 2.
COSTS = ParetoCosts(tail=TAIL, scale=1.0)
STEP = 1e-3


def model(d: int, B: float = 1.0, M: float = 1.0) -> Model:
    """x uniform on the unit ball of R^d, ‖θ‖² ≤ B, and z uniform on [−M, M], so that σ² = M²/3."""
    return unit_ball(d, radius=B**0.5, noise_bound=M, noise_variance=M**2 / 3)


def corollary(n: float, d: int = 2, B: float = 1.0, M: float = 1.0) -> Setting:
    """The parameters of Corollary 1 (formal) at n players, for δ = 1/4 and p = 2."""
    return published.schedule(model(d, B, M), COSTS, n, delta=DELTA, tail=TAIL)


def ridge_moments(m: int, gamma: float, d: int) -> tuple[float, float]:
    """E tr(A⁻²)γ²/d and E tr(A⁻¹GA⁻¹), A = γI + G: what the squared bias is of ‖θ‖², and the variance of σ².

    G = XᵀX over m players. With κ(γ) = E tr(A⁻¹)/d, E tr(A⁻²)/d = −κ′(γ), by a central difference; and
    A⁻¹GA⁻¹ = A⁻¹ − γA⁻².
    """
    above, below = (mean_inverse(m, gamma * (1 + h), d) for h in (STEP, -STEP))
    inverse_square = (below - above) / (2 * gamma * STEP)
    return gamma**2 * inverse_square, d * (mean_inverse(m, gamma, d) - gamma * inverse_square)


def ridge_error(m: int, gamma: float, d: int, *, scale: float) -> float:
    """E‖θ̂ − θ‖² of the paper's private ridge on truthful reports at ‖θ‖ = 1, σ² = 1/3: exact.

    Bias, variance, and d(d+1)s² for noise of this scale s.
    """
    bias, variance = ridge_moments(m, gamma, d)
    return bias + variance / 3 + d * (d + 1) * scale**2

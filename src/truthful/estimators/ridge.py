"""Ridge regression: solved to a certified 2⁻¹⁰⁰, in integer arithmetic, for every data set; and, on released
statistics, with the penalty that fits their noise.

A private release of a minimiser adds noise for the distance between the minimisers of neighbouring data
sets. A solver's error widens that distance, so it must have a bound that never depends on the data:
TOLERANCE, which enters the noise.

With A = γI + XᵀX and c = Xᵀy, exact integers make the residual r = c − (A+λI)θ̂ of a fixed-point θ̂ exact
too, and two inequalities turn it into a certificate. For the free minimiser θ* of θᵀAθ − 2c·θ, A ⪰ γI gives

    ‖θ̂ − θ*‖ ≤ ‖r‖/γ                                        (λ = 0).

For the minimiser θ* over the ball ‖θ‖ ≤ R, any θ̂ in the ball and any λ ≥ 0: the optimality of θ* says that
⟨Aθ* − c, θ̂ − θ*⟩ ≥ 0, hence γ‖θ̂ − θ*‖² ≤ ⟨Aθ̂ − c, θ̂ − θ*⟩; and Aθ̂ − c = −r − λθ̂, so

    γ‖θ̂ − θ*‖² ≤ ‖r‖·‖θ̂ − θ*‖ + λ(θ̂·θ* − ‖θ̂‖²),   ‖θ̂ − θ*‖ ≤ ‖r‖/γ + √(λ‖θ̂‖(R − ‖θ̂‖)/γ).

Nothing else has to be trusted: float64 only proposes corrections, and each must halve an exact residual. It
does so whenever (12d²+5d)·2⁻⁵³·(1 + n/γ) ≤ 1/3 (Higham, Accuracy and Stability of Numerical Algorithms,
theorem 10.4), that is for d ≤ 480 at the largest n/γ allowed. Beyond, where it fails, fraction-free
elimination solves the system exactly: there is no data set on which the solver gives up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isqrt

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.moments import PRODUCT, Moments, PythonIntegers

TOLERANCE = Fraction(1, 2**100)
UNIT = 2**384  # θ̂ and λ are whole numbers of 2^-384
REFINED = 2**200  # residuals are reduced to γ/2^200, so that the ball's certificate has bits to spare
LARGEST_RATIO = 2**30  # the largest ratio of players to γ
GAMMA_RANGE = (Fraction(1, 2**30), Fraction(2**40))
RADIUS_RANGE = (Fraction(1, 2**20), Fraction(2**8))
NEWTON_STEPS = 16  # three or four are enough in practice; after these, bisection, which cannot fail


def require_solvable(players: int, gamma: Fraction) -> None:
    """Refuse, from public numbers only, a system too ill conditioned for the fixed precision."""
    low, high = GAMMA_RANGE
    if not low <= gamma <= high or players > gamma * LARGEST_RATIO:
        raise InputError(
            f"gamma is {float(gamma):g} for {players} players; it must lie between 2^-30 and 2^40 and be at "
            "least players/2^30. A smaller penalty would only add noise."
        )


def free_ridge(moments: Moments, gamma: Fraction) -> PythonIntegers:
    """(γI + XᵀX)⁻¹Xᵀy in units of 2⁻³⁸⁴, within TOLERANCE."""
    require_solvable(moments.count, gamma)
    return _solution(_System(moments.gram, moments.cross, int(gamma * UNIT)), 0)


def ball_ridge(moments: Moments, gamma: Fraction, radius: Fraction) -> PythonIntegers:
    """argmin over ‖θ‖ ≤ R of Σ(y − θ·x)² + γ‖θ‖², in units of 2⁻³⁸⁴: inside the ball, within TOLERANCE.

    Where the free minimiser lies outside, the minimiser is θ(λ) = (A+λI)⁻¹c for the multiplier λ at which
    ‖θ(λ)‖ = R. A float64 root starts Newton's method on 1/‖θ(λ)‖, which is concave in λ, so that its steps
    end up below the root and then rise to it (Moré and Sorensen, 1983). λ ≤ ‖c‖/R always.
    """
    require_solvable(moments.count, gamma)
    system = _System(moments.gram, moments.cross, int(gamma * UNIT))
    R = int(radius * UNIT)
    theta = _solution(system, 0)
    if _square(theta) <= R * R:
        return theta
    low, high = 0, (isqrt(_square(system.cross)) + 1) * UNIT * UNIT // (PRODUCT * R) + 1
    multiplier, attempt = min(max(system.float_multiplier(R / UNIT), low + 1), high - 1), 0
    while True:
        theta = _solution(system, multiplier)
        inside = _just_inside(theta, R)
        if system.certifies(inside, multiplier, R):
            return inside
        low, high = (multiplier, high) if _square(theta) > R * R else (low, multiplier)
        newton = multiplier + system.newton_step(theta, multiplier, R)
        attempt += 1
        multiplier = newton if attempt <= NEWTON_STEPS and low < newton < high else (low + high) // 2


@dataclass(frozen=True, eq=False)
class _System:
    """(A + λI)θ = c with A = γI + XᵀX. XᵀX and c count units of 2⁻⁴⁰; θ, γ and λ count units of 2⁻³⁸⁴."""

    gram: PythonIntegers
    cross: PythonIntegers
    gamma: int

    def residual(self, theta: PythonIntegers, multiplier: int) -> PythonIntegers:
        """c − (A + λI)θ, exactly, in units of 2⁻⁴⁰·2⁻⁷⁶⁸."""
        ridge = (self.gamma + multiplier) * PRODUCT
        exact: PythonIntegers = (self.cross * UNIT - self.gram @ theta) * UNIT - theta * ridge
        return exact

    def is_refined(self, residual: PythonIntegers) -> bool:
        """‖r‖ ≤ γ/2²⁰⁰."""
        return _square(residual) * REFINED**2 <= (self.gamma * PRODUCT * UNIT) ** 2

    def certifies(self, theta: PythonIntegers, multiplier: int, R: int) -> bool:
        """‖r‖/γ ≤ TOLERANCE/2 and λR(R − ‖θ̂‖)/γ ≤ (TOLERANCE/2)²."""
        half = int(2 / TOLERANCE)
        slack = multiplier * R * (R - isqrt(_square(theta)))
        small = _square(self.residual(theta, multiplier)) * half**2 <= (self.gamma * PRODUCT * UNIT) ** 2
        return small and slack * half**2 <= self.gamma * UNIT**2

    def float_matrix(self, multiplier: int) -> Floats:
        ridge = (self.gamma + multiplier) / UNIT
        matrix: Floats = (self.gram / PRODUCT).astype(np.float64) + ridge * np.eye(len(self.cross))
        return matrix

    def float_multiplier(self, radius: float) -> int:
        """The root λ of ‖θ(λ)‖ = R in float64: in eigenvectors of A, ‖θ(λ)‖² = Σ(c_j/(w_j+λ))²."""
        from scipy.linalg import eigh  # takes long to load, and most plans do not need it
        from scipy.optimize import brentq

        values, vectors = eigh(self.float_matrix(0))
        c = vectors.T @ (self.cross / PRODUCT).astype(np.float64)

        def excess(multiplier: float) -> float:
            return float(1 / radius - 1 / np.linalg.norm(c / (values + multiplier)))

        top = float(np.linalg.norm(c)) / radius
        return _to_fixed(float(brentq(excess, 0.0, top)), UNIT) if excess(0.0) > 0 > excess(top) else 0

    def newton_step(self, theta: PythonIntegers, multiplier: int, R: int) -> int:
        """(‖θ‖ − R)/R · ‖θ‖²/(θ·(A+λI)⁻¹θ): Newton's step for 1/‖θ(λ)‖ = 1/R."""
        norm = isqrt(_square(theta))
        direction = (theta / norm).astype(np.float64)
        slope = float(direction @ self.float_solver(multiplier)(direction))
        return _to_fixed((norm - R) / R / slope, UNIT) if slope > 0 else 0

    def float_solver(self, multiplier: int) -> Callable[[Floats], Floats]:
        """v ↦ (A+λI)⁻¹v in float64, by Cholesky's factors; zero where they do not exist in float64."""
        from scipy.linalg import cho_factor, cho_solve

        try:
            factor = cho_factor(self.float_matrix(multiplier))
        except np.linalg.LinAlgError:
            return np.zeros_like
        return lambda v: np.asarray(cho_solve(factor, v))

    def exact_solution(self, multiplier: int) -> PythonIntegers:
        """θ by Bareiss's fraction-free elimination, rounded down to its unit only at the very end."""
        d = len(self.cross)
        table = np.empty((d, d + 1), dtype=object)
        table[:, :d] = self.gram * UNIT + np.diag([(self.gamma + multiplier) * PRODUCT] * d)
        table[:, d] = self.cross * UNIT
        table //= gcd(*table.ravel())
        previous = 1
        for k in range(d):  # positive definite: no pivot is ever zero
            others = np.arange(d) != k
            table[others] = (table[others] * table[k, k] - np.outer(table[others, k], table[k])) // previous
            previous = table[k, k]
        rounded: PythonIntegers = table[:, d] * UNIT // previous
        return rounded


def _solution(system: _System, multiplier: int) -> PythonIntegers:
    """(A+λI)⁻¹c: float64 corrections with exact residuals, or exactly where these do not shrink."""
    solve = system.float_solver(multiplier)
    theta = np.zeros_like(system.cross)
    residual = system.residual(theta, multiplier)
    while not system.is_refined(residual):
        size = int(max(abs(residual)))
        correction = solve((residual / size).astype(np.float64))
        theta = theta + np.array([_to_fixed(value, size) for value in correction], dtype=object) // (
            PRODUCT * UNIT
        )
        before, residual = residual, system.residual(theta, multiplier)
        if 4 * _square(residual) > _square(before):
            return system.exact_solution(multiplier)
    return theta


def _just_inside(theta: PythonIntegers, R: int) -> PythonIntegers:
    """θ·R/‖θ‖, with ‖θ‖ rounded up and coordinates rounded toward zero: the norm is below R for sure."""
    above = isqrt(_square(theta)) + 1
    inside: PythonIntegers = abs(theta) * R // above * np.where(theta < 0, -1, 1)
    return inside


def _square(integers: PythonIntegers) -> int:
    return int(integers @ integers)


def _to_fixed(value: float, unit: int) -> int:
    """floor(value·unit), exactly."""
    numerator, denominator = float(value).as_integer_ratio()
    return numerator * unit // denominator


def adaptive_ridge(
    matrix: Floats, vector: Floats, features: Floats, count: int, noise_variance: float, signal: float
) -> Floats:
    """θ̂ from a release of so many people, with as much penalty as its noise asks for; from public numbers, so no ε.

    Known are b̃ = Mθ + N, the variance σ² of an entry of N, and G = Σ xxᵀ. If θ explains the share R² of squared answers
    of at most 1, all directions alike, θ has the covariance (R²n/d)·G⁻¹, and the linear estimate of least mean square
    error is (MᵀM + λG)⁻¹Mᵀb̃ with λ = dσ²/(R²n): least squares where there is no noise, and 0 where there is nothing
    else.

    Whatever M and ε, noise adds at most R²/4 to the mean square error of predictions: with G = I and singular values m
    it is Σ m²σ²/(m² + λ)² ≤ dσ²/4λ, divided by n. Without a penalty there is no such bound. (Wang, "Revisiting
    differentially private linear regression", 2018, spends a third of ε on the least eigenvalue, and has λ from that.)
    """
    penalty = len(vector) * noise_variance / (signal**2 * count)
    solved = np.linalg.solve(matrix.T @ matrix + penalty * features, matrix.T @ vector)
    return np.asarray(solved, dtype=np.float64)

"""Random matrices: the eigenvalues of XᵀX, and how far privacy noise moves those of a released one.

For independent x with ‖x‖ ≤ 1, μ = count·λ_min(Σ) and μ⁺ = count·λ_max(Σ), matrix Chernoff bounds have the exponents
(Tropp, "User-friendly tail bounds for sums of random matrices", 2012, theorem 1.1, not rounded to ξ²/2 and ξ²/3):

    P(λ_min(XᵀX) ≤ (1−ξ)μ)  ≤ d·exp(−μ[ξ + (1−ξ)ln(1−ξ)]),
    P(λ_max(XᵀX) ≥ (1+ξ)μ⁺) ≤ d·exp(−μ⁺[(1+ξ)ln(1+ξ) − ξ]).

The noise of a Gram matrix at scale 1 is a symmetric d×d matrix N with density ∝ exp(−‖N‖_F). ‖N‖_F is Gamma(D, 1) with
D = d(d+1)/2, but ‖N‖_op is far smaller. N = √τ·W with τ ~ Gamma((D+1)/2, scale 2) (see `truthful.noise`) and W of
density ∝ exp(−‖W‖²_F/2): the Gaussian orthogonal ensemble. By Markov's inequality P(λ_max(W) > x) ≤ T(x), the expected
number of eigenvalues above x, which is known in closed form and is exact in the tail, where a second eigenvalue is
rare. Given τ, and because W and −W have one law,

    P(λ_min(N) < −ν) ≤ E[min(1, T(ν/√τ))],    P(‖N‖_op > ν) ≤ E[min(1, 2T(ν/√τ))],

and a quantile is where the right side is β. At β = 0.01 that is less than half a percent above the truth.
The numerical error of a quantile, measured with 5 to 20 times the nodes and in 60-digit arithmetic, is relatively 1e-12
for d ≤ 300 and 3e-8 at d = 4000; results are rounded up by ROUND_UP.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.bounds.setting import Model, Numbers
from truthful.check import Floats
from truthful.errors import InputError

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

#: The relative amount by which quantiles are rounded up: more than the numerical error.
ROUND_UP = 1e-7
#: Below this probability the quantile of ‖N‖_F stands in.
LEAST_BETA = 1e-18
#: Up to here e^(−x²/2) does not underflow where eigenvalues lie; beyond, concentration bounds them, up to 18 % above.
LARGEST_EXACT_DIMENSION = 300


def shortfall_chance(model: Model, count: Numbers, xi: Numbers) -> Floats:
    """An upper bound on P(λ_min(XᵀX) ≤ (1−ξ)·count·λ_min(Σ))."""
    mu, kept = np.asarray(count) * model.least_eigenvalue, 1 - np.asarray(xi)
    return np.asarray(np.minimum(1.0, model.dimension * np.exp(-mu * (xi + special.xlogy(kept, kept)))))


def least_spectrum(model: Model, count: Numbers, beta: Numbers) -> Floats:
    """A lower bound of λ_min(XᵀX) that fails with probability at most β; 0 if there is none.

    w = 1−ξ solves 1 − w + w·ln w = L, L = ln(d/β)/μ: with w = e^(1+v), v·e^v = (L−1)/e on the lower branch.
    """
    mu = np.asarray(count * model.least_eigenvalue, dtype=np.float64)
    with np.errstate(divide="ignore"):
        L = np.log(model.dimension / np.asarray(beta)) / mu
    v = special.lambertw((np.minimum(L, 1.0) - 1) / np.e, -1).real
    # At L = 1, w = 0: the least bound there is.
    return np.where(L < 1, np.exp(1 + np.where(L < 1, v, 0.0)) * mu, 0.0)


def greatest_spectrum(model: Model, count: Numbers, beta: Numbers) -> Floats:
    """Exceeded by λ_max(XᵀX) with probability at most β; `count`, which is never exceeded, if that is less.

    w = 1+ξ solves w·ln w − w + 1 = L: the upper branch of the same equation.
    """
    mu = np.asarray(count * model.greatest_eigenvalue, dtype=np.float64)
    L = np.log(model.dimension / np.asarray(beta)) / mu
    w = np.exp(1 + special.lambertw((L - 1) / np.e, 0).real)
    return np.asarray(np.minimum(count, w * mu))


# The noise of a Gram matrix, at scale 1


def operator_quantile(d: int, beta: npt.ArrayLike) -> Floats:
    """A ν with P(‖N‖_op > ν) ≤ β, at most the quantile of ‖N‖_F, and equal to it in d = 1."""
    return _quantile(d, beta, sides=2)


def drop_quantile(d: int, beta: npt.ArrayLike) -> Floats:
    """A ν ≥ 0 with P(λ_min(N) < −ν) ≤ β: by Weyl, N lowers the least eigenvalue of a matrix by no more."""
    return _quantile(d, beta, sides=1)


def mean_square_along(d: int) -> float:
    """E‖Nθ‖² = D(D+1)/d for a unit vector θ: N has no preferred direction, and E‖N‖²_F = D(D+1)."""
    D = _symmetric(check.integer("d", d))
    return D * (D + 1) / d


def expected_above(d: int, x: npt.ArrayLike) -> Floats:
    """T(x), the expected number of eigenvalues of W above x: exact.

    The density of eigenvalues is (Mehta, "Random Matrices", 3rd ed., section 7.2), with Hermite functions φ_j,
    Φ_j(x) = ∫_x^∞ φ_j and c_j = ∫ φ_j,

        ρ = Σ_{j<d} φ_j² + √(d/2)·φ_{d−1}·(c_d/2 − Φ_d) + [d odd]·φ_{d−1}/c_{d−1}.

    With S_j = ∫_x^∞ φ_j² and J_j = ∫_x^∞ φ_{j−1}Φ_j its integral follows from the recursions below, each of which is
    φ_j′ = √(j/2)φ_{j−1} − √((j+1)/2)φ_{j+1} = √(2j)φ_{j−1} − xφ_j, integrated by parts.
    """
    x = np.asarray(x, dtype=np.float64)
    phi, phi_before = math.pi**-0.25 * np.exp(-(x**2) / 2), np.zeros_like(x)
    Phi, Phi_before = math.pi**0.25 / math.sqrt(2) * special.erfc(x / math.sqrt(2)), np.zeros_like(x)
    c, c_before = math.pi**0.25 * math.sqrt(2), 0.0
    S, J, total = special.erfc(x) / 2, np.zeros_like(x), np.zeros_like(x)
    for j in range(1, d + 1):
        a, b = math.sqrt(2 / j), math.sqrt((j - 1) / j)
        total = total + S
        J = a * S + b * (Phi * Phi_before - J)
        Phi, Phi_before = a * phi + b * Phi_before, Phi
        phi, phi_before = a * x * phi - b * phi_before, phi
        S = S + phi * phi_before / math.sqrt(2 * j)
        c, c_before = b * c_before, c
    smooth = Phi_before / c_before if d % 2 else math.sqrt(d / 2) * c / 2 * Phi_before
    return np.asarray(total - math.sqrt(d / 2) * J + smooth)


def _quantile(d: int, beta: npt.ArrayLike, sides: int) -> Floats:
    D = _symmetric(check.integer("d", d))
    probability = np.asarray(beta, dtype=np.float64)
    bad = probability[~((probability > 0) & (probability <= 1))]
    if bad.size:
        raise InputError(f"beta holds {bad.flat[0]}; it must be a probability above 0 and at most 1.")
    if d == 1:  # N is a Laplace variable: P(N < −ν) = exp(−ν)/2
        return np.asarray(np.maximum(-np.log(2 * probability / sides), 0.0))
    frobenius = special.gammainccinv(D, probability)
    spline = _inverse(d, sides)
    nu = (1 + ROUND_UP) * spline(np.clip(-np.log(probability), spline.t[0], spline.t[-1]))
    return np.where(probability < LEAST_BETA, frobenius, np.minimum(nu, frobenius))


@cache
def _inverse(d: int, sides: int) -> BSpline:
    """ν as a function of −log β, from a β between 0.55 and 0.75 down to LEAST_BETA.

    With x = ν/√τ and u = ν²/2x² the bound is P(x < cut) + ∫_cut^∞ sides·T(x)·2u^λe^(−u)/Γ(λ) dlog x, λ = (D+1)/2,
    for every cut, least where sides·T(cut) = 1; by Gauss-Legendre rules in log x. By concentration (see `_above`) less
    than 2e^−72 is left beyond √(2d) + 12, and at the last ν the bound is below LEAST_BETA.
    """
    from scipy.interpolate import make_interp_spline  # takes long to load, and few plans need it

    D, edge = _symmetric(d), math.sqrt(2 * d)
    shape, grid = (D + 1) / 2, np.linspace(0.1, edge + 12, 500)
    cut, start = np.interp([-1.0, -0.7], -sides * _above(d, grid), grid)
    # 16 panels of 40 nodes
    nodes, rule = special.roots_legendre(40)
    width = (math.log(edge + 12) - math.log(cut)) / 16
    centres = math.log(cut) + width * (np.arange(16) + 0.5)
    log_x, weights = (centres[:, None] + width / 2 * nodes).ravel(), np.tile(rule * width / 2, 16)
    first = math.sqrt(2 * shape) * start
    last = min(
        math.sqrt(2 * special.gammainccinv(shape, LEAST_BETA / 4)) * (edge + 9.6),
        special.gammainccinv(D, LEAST_BETA / 2),
    )
    nu = first + (last - first) * np.linspace(0, 1, 500) ** 2
    log_u = 2 * (np.log(nu)[:, None] - log_x) - math.log(2)
    density = 2 * np.exp(shape * log_u - np.exp(log_u) - special.gammaln(shape))
    bound = special.gammaincc(shape, (nu / cut) ** 2 / 2)
    bound += density @ (weights * sides * _above(d, np.exp(log_x)))
    needed = bound > LEAST_BETA / 100
    return make_interp_spline(-np.log(bound[needed]), nu[needed], k=5)


def _above(d: int, x: Floats) -> Floats:
    """T(x), or in the largest dimensions a simpler bound of P(λ_max(W) > x): exp(−(x−√(2d))²/2).

    E[λ_max(W)] ≤ √(2d) by Sudakov and Fernique: the increments of vᵀWv on the sphere have mean square
    ‖vvᵀ−uuᵀ‖²_F = 2(1−(u·v)²) ≤ 2‖u−v‖², that of √2·g·v for g standard normal, whose maximum is √2‖g‖. And λ_max is
    1-Lipschitz in ‖W‖_F, so it exceeds its mean by t with probability at most exp(−t²/2).
    """
    if d <= LARGEST_EXACT_DIMENSION:
        return expected_above(d, x)
    t = x - math.sqrt(2 * d)
    # Below √(2d) anything that falls to 1 does: a probability is at most 1.
    return np.where(t > 0, np.exp(-(t**2) / 2), 1 - t)


def _symmetric(d: int) -> int:
    """D = d(d+1)/2, the dimension of the symmetric matrices."""
    return d * (d + 1) // 2

"""How much ridge regression shrinks, on average: E[θ̂] = (1 − γκ_m)θ when x is uniform on the unit ball.

κ_m = E[tr(γI + G)⁻¹]/d, with G = Σ x xᵀ over m players, is a public number: the expected peer prediction is the
truth times 1 − γκ_m, so scoring against that removes the bias of ridge regression from the incentives.

Write μ = m/(d+2) = E of every eigenvalue of G, A = γ + μ and E = G − μI. Then, exactly,

    Aκ_m = 1 + e₂ − e₃ + δ,   e_k = E tr Eᵏ/(d Aᵏ),   δ = E tr[E⁴(A + E)⁻¹]/(d A³) ≥ 0.

- Large m or γ: where λ_min(G) ≥ (1−ξ)μ, A(A + E)⁻¹ ⪯ A/(γ+(1−ξ)μ) = L, so 0 ≤ δ ≤ L·e₄ but for a rare event,
  whose probability the matrix Chernoff bound limits. Taking δ = e₄ is then off by a known, tiny amount.
- Otherwise: Monte Carlo with tr E, tr E², tr E³ and tr E⁴, whose means are known in closed form, as control
  variates, until 1e-4 is five standard errors.
- d = 1: 1/(γ+G) = ∫exp(−s(γ+G))ds factors over the players, so κ_m is one integral.
"""

from __future__ import annotations

from functools import cache, lru_cache
from itertools import pairwise
from math import comb, exp, inf, log, pi, sqrt

import numpy as np
from scipy.special import erf

from truthful import check
from truthful.check import Floats
from truthful.errors import Refused

RELATIVE_ERROR = 1e-4
SERIES_ERROR = 5e-5
STANDARD_ERROR = RELATIVE_ERROR / 5
BLOCK = 2_000_000  # normal draws at a time
BLOCK_GROUPS = 20_000
LARGEST_DRAWS = 200_000_000
LEAST_GROUPS = 16


def shrinkage_factor(m: int, gamma: float, d: int) -> float:
    """1 − γκ_m: what is left of the truth in the average ridge estimate of m players with d features."""
    return 1 - gamma * mean_inverse(m, gamma, d)


@cache
def mean_inverse(m: int, gamma: float, d: int) -> float:
    """κ_m = E[tr(γI + G)⁻¹]/d for m players uniform on the unit ball, to a relative error below 1e-4."""
    check.integer("m", m, least=0)
    check.positive("gamma", gamma)
    check.integer("d", d)
    if m == 0:
        return 1 / gamma
    if d == 1:
        return _one_dimension(m, gamma)
    if _series_error(m, gamma, d) <= SERIES_ERROR:
        _, e2, e3, e4 = _relative_moments(m, gamma, d).tolist()
        series: float = 1 + e2 - e3 + e4
        return series / (gamma + m / (d + 2))
    return _simulate(m, gamma, d)


def central_moments(m: int, d: int) -> Floats:
    """E tr Eᵏ for k = 1…4, E = Σ(x xᵀ − cI) over m players, c = 1/(d+2).

    With ξ = x xᵀ − cI, of eigenvalues ‖x‖² − c once and −c otherwise, and E‖x‖²ʲ = d/(d+2j): E tr ξᵏ by the
    binomial theorem; mixed terms need ξ in pairs, E ξ² = vI and E[ξBξ] = κ(tr B)I + (2κ − c²)B, κ = 1/((d+2)(d+4)).
    """
    c, kappa = 1 / (d + 2), 1 / ((d + 2) * (d + 4))
    one, two, three, four = (
        sum(comb(k, j) * d / (d + 2 * j) * (-c) ** (k - j) for j in range(k + 1)) + (d - 1) * (-c) ** k
        for k in (1, 2, 3, 4)
    )
    variance_of_trace = d / (d + 4) - (d * c) ** 2
    pairs = 2 * two**2 / d + kappa * variance_of_trace + (2 * kappa - c**2) * two
    return np.array([m * one, m * two, m * three, m * four + m * (m - 1) * pairs])


def _relative_moments(m: int, gamma: float, d: int) -> Floats:
    """e₁…e₄ = E tr Eᵏ/(d Aᵏ)."""
    moments: Floats = central_moments(m, d) / (d * (gamma + m / (d + 2)) ** np.arange(1, 5))
    return moments


def _series_error(m: int, gamma: float, d: int) -> float:
    """A bound on |δ − e₄|, the best over ξ: max(1, L−1)·e₄ and the rare event's part m⁴/(γA³)·exp(−ξ²μ/2).

    The rare event has probability at most d·exp(−ξ²μ/2); on it tr E⁴ ≤ (tr E²)² ≤ m⁴ and (A+E)⁻¹ ⪯ 1/γ.
    """
    mu = m / (d + 2)
    A, e4 = gamma + mu, float(_relative_moments(m, gamma, d)[3])
    bounds = [max(1.0, A / gamma - 1) * e4]
    for xi in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
        log_rare = 4 * log(m) - log(gamma) - 3 * log(A) - xi**2 * mu / 2
        bounds.append(max(1.0, A / (gamma + (1 - xi) * mu) - 1) * e4 + exp(min(log_rare, 100.0)))
    return min(bounds)


def _one_dimension(m: int, gamma: float) -> float:
    """∫₀^∞ e^(−γs)·(E e^(−s x²))^m ds at s = t², with E e^(−t²x²) = √π erf(t)/(2t)."""
    from scipy.integrate import quad  # one dimension is rare, and this takes long to load

    width = 1 / sqrt(gamma + m / 3)

    def integrand(t: float) -> float:
        return float(2 * t * exp(-gamma * t * t) * (sqrt(pi) * erf(t) / (2 * t)) ** m) if t else 0.0

    cuts = [0.0, width, 4 * width, 16 * width, 64 * width, inf]
    return float(sum(quad(integrand, a, b, epsabs=0.0, epsrel=1e-9, limit=200)[0] for a, b in pairwise(cuts)))


def _simulate(m: int, gamma: float, d: int) -> float:
    """Aκ_m by regression on the control variates; the answer is the intercept at their true means."""
    groups, total = 0, np.zeros((6, 6))
    for block in range(LARGEST_DRAWS // (m * d)):
        rows = _regression_rows(_spectra(m, d, block), m, gamma)
        total += rows.T @ rows
        groups += len(rows)
        mean, error = _intercept(total, groups)
        if groups >= LEAST_GROUPS and error <= STANDARD_ERROR * mean:
            return mean / (gamma + m / (d + 2))
        if groups >= LEAST_GROUPS and groups * m * d * (error / (STANDARD_ERROR * mean)) ** 2 > LARGEST_DRAWS:
            break
    raise Refused(
        f"The shrinkage of ridge regression with gamma = {gamma:g} on {m} players and {d} features is not known to "
        f"{RELATIVE_ERROR:g}: so few players give an estimate too unstable to score against. Raise gamma or the "
        "number of players."
    )


def _regression_rows(spectra: Floats, m: int, gamma: float) -> Floats:
    """For every simulated group: 1, the four centred control variates, and A·tr(γI + G)⁻¹/d."""
    d = spectra.shape[1]
    A = gamma + m / (d + 2)
    E = (spectra - m / (d + 2)) / A
    controls = np.stack([E, E * E, E * E * E, (E * E) * (E * E)]).mean(axis=2).T - _relative_moments(
        m, gamma, d
    )
    return np.column_stack([np.ones(len(spectra)), controls, (A / (gamma + spectra)).mean(axis=1)])


def _intercept(total: Floats, groups: int) -> tuple[float, float]:
    """The regression's intercept and its standard error, from the sums of products of its rows."""
    weights = np.linalg.lstsq(total[:5, :5], total[:5, 5], rcond=1e-14)[0]
    residual = max(0.0, float(total[5, 5] - weights @ total[:5, 5]))
    spread = float(np.linalg.pinv(total[:5, :5], rcond=1e-14, hermitian=True)[0, 0])
    return float(weights[0]), sqrt(residual / max(1, groups - 5) * spread)


@lru_cache(maxsize=16)
def _spectra(m: int, d: int, block: int) -> Floats:
    """Eigenvalues of G for many simulated groups of m players; they serve every γ."""
    rng = np.random.default_rng([m, d, block])
    groups = min(BLOCK_GROUPS, max(1, BLOCK // (m * d)))
    X = rng.normal(size=(groups, m, d))
    X *= (rng.random((groups, m)) ** (1 / d) / np.linalg.norm(X, axis=2))[:, :, None]
    return np.asarray(np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X), dtype=np.float64)

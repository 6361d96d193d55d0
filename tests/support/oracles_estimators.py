"""Slow, obviously right twins of the moments, the groups, the solves, the estimators and the shrinkage."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize

from truthful.check import Floats
from truthful.moments import GRID, Moments


def python_moments(kx: Floats, ky: Floats) -> Moments:
    """Sums of products, one Python integer at a time."""
    d = kx.shape[1]
    gram, cross, square = np.array([[0] * d] * d, dtype=object), np.array([0] * d, dtype=object), 0
    for row, response in zip(kx.astype(int).tolist(), ky.astype(int).tolist(), strict=True):
        for i, a in enumerate(row):
            cross[i] += a * response
            for j, b in enumerate(row):
                gram[i, j] += a * b
        square += response * response
    return Moments(len(kx), gram, cross, square)


def nobody(dimension: int) -> Moments:
    """The moments of no player."""
    return python_moments(np.zeros((0, dimension)), np.zeros(0))


def integer_norm_excess(k: Floats) -> int:
    """The largest Σk² − 2⁴⁰ of any row, in Python integers."""
    return max(sum(int(value) ** 2 for value in row) for row in k) - GRID**2


def siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 as its paper describes it, on Python integers."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & mask

    def half_round(a: int, b: int, c: int, d: int, s: int, t: int) -> None:
        v[a], v[c] = (v[a] + v[b]) & mask, (v[c] + v[d]) & mask
        v[b], v[d] = rotate(v[b], s) ^ v[a], rotate(v[d], t) ^ v[c]
        v[a] = rotate(v[a], 32)

    def rounds(count: int) -> None:
        for _ in range(count):
            half_round(0, 1, 2, 3, 13, 16)
            half_round(2, 1, 0, 3, 17, 21)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def id_bytes(value: Any) -> bytes:
    """What is hashed of a player's id: its UTF-8 bytes, or its 8 little-endian bytes if it is a number."""
    return value.encode() if isinstance(value, str) else (int(value) % 2**64).to_bytes(8, "little")


def exact_ridge(moments: Moments, gamma: Fraction) -> list[Fraction]:
    """(γI + XᵀX)⁻¹Xᵀy by Gaussian elimination on fractions."""
    d = moments.dimension
    rows = [
        [Fraction(int(moments.gram[i, j]), GRID**2) + (gamma if i == j else 0) for j in range(d)]
        + [Fraction(int(moments.cross[i]), GRID**2)]
        for i in range(d)
    ]
    for k in range(d):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for i in range(d):
            if i != k:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def precise_ball_ridge(moments: Moments, gamma: Fraction, radius: Fraction, digits: int = 120) -> list[Any]:
    """argmin over ‖θ‖ ≤ R of Σ(y − θ·x)² + γ‖θ‖²: eigenvectors and bisection for the multiplier, in mpmath."""
    with mp.workdps(digits):
        d = moments.dimension
        A = mp.matrix(d, d)
        c = mp.matrix([mp.mpf(int(value)) / GRID**2 for value in moments.cross])
        for i in range(d):
            for j in range(d):
                A[i, j] = mp.mpf(int(moments.gram[i, j])) / GRID**2
            A[i, i] += mp.mpf(gamma.numerator) / gamma.denominator
        R = mp.mpf(radius.numerator) / radius.denominator
        values, vectors = mp.eigsy(A)
        along = vectors.T * c

        def theta(multiplier: Any) -> Any:
            return vectors * mp.matrix([along[i] / (values[i] + multiplier) for i in range(d)])

        low, high = mp.mpf(0), mp.norm(c) / R
        if mp.norm(theta(low)) <= R:
            return list(theta(low))
        for _ in range(int(3.4 * digits) + 100):
            middle = (low + high) / 2
            low, high = (middle, high) if mp.norm(theta(middle)) > R else (low, middle)
        return list(theta(low))


def distance_to(theta: Any, reference: list[Any], unit: int) -> float:
    """‖θ/unit − reference‖, with the subtraction done in 120 digits."""
    with mp.workdps(120):
        exact = [mp.mpf(r.numerator) / r.denominator if isinstance(r, Fraction) else r for r in reference]
        return float(
            mp.norm(mp.matrix([mp.mpf(int(t)) / unit - r for t, r in zip(theta, exact, strict=True)]))
        )


def refitted_predictions(X: Floats, y: Floats) -> Floats:
    """x_i·θ̂_{−i} by n separate fits."""
    keep = ~np.eye(len(X), dtype=bool)
    return np.array([x @ np.linalg.lstsq(X[k], y[k], rcond=None)[0] for x, k in zip(X, keep, strict=True)])


def simulated_spectra(m: int, d: int, groups: int, seed: int) -> Floats:
    """Eigenvalues of XᵀX for simulated groups of m points uniform on the ball, one group at a time."""
    rng = np.random.default_rng(seed)
    spectra = np.empty((groups, d))
    for i in range(groups):
        X = rng.normal(size=(m, d))
        X *= (rng.random(m) ** (1 / d) / np.linalg.norm(X, axis=1))[:, None]
        spectra[i] = np.linalg.eigvalsh(X.T @ X)
    return spectra


def mean_inverse_of_one(gamma: float, d: int) -> float:
    """E[tr(γI + xxᵀ)⁻¹]/d = ((d−1)/γ + ∫ d·r^(d−1)/(γ+r²) dr)/d for one point of the ball."""
    radial = quad(lambda r: d * r ** (d - 1) / (gamma + r * r), 0, 1, epsrel=1e-12)[0]
    return float(((d - 1) / gamma + radial) / d)


def mean_inverse_of_two(gamma: float, d: int, nodes: int = 60) -> float:
    """The same for two points: Gauss-Legendre in both radii and in the angle between them, of density ∝ sin^(d−2)."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    r, wr = (t + 1) / 2, w / 2
    angle, wa = (t + 1) * np.pi / 2, w * np.sin((t + 1) * np.pi / 2) ** (d - 2)
    a = r[:, None, None] ** 2
    b = r[None, :, None] ** 2
    # The two non-zero eigenvalues have sum a + b and product ab·sin²: Σ 1/(γ+w) = (2γ+a+b)/(γ²+γ(a+b)+ab·sin²).
    pair = (2 * gamma + a + b) / (gamma**2 + gamma * (a + b) + a * b * np.sin(angle) ** 2)
    weights = (
        (wr * d * r ** (d - 1))[:, None, None] * (wr * d * r ** (d - 1))[None, :, None] * (wa / wa.sum())
    )
    return float(((d - 2) / gamma + (pair * weights).sum()) / d)


def constrained_minimiser(X: Floats, y: Floats, gamma: float, radius: float) -> Floats:
    """argmin over ‖θ‖ ≤ R of ‖y − Xθ‖² + γ‖θ‖² by a general-purpose constrained optimiser."""
    optimiser: Any = minimize
    result = optimiser(
        lambda theta: np.sum((y - X @ theta) ** 2) + gamma * theta @ theta,
        np.zeros(X.shape[1]),
        jac=lambda theta: -2 * X.T @ (y - X @ theta) + 2 * gamma * theta,
        constraints=[
            {"type": "ineq", "fun": lambda theta: radius**2 - theta @ theta, "jac": lambda theta: -2 * theta}
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return np.asarray(result.x, dtype=np.float64)


def published_sensitivity(radius: float, noise_bound: float, gamma: float) -> float:
    """(4B+2M)/γ with B = R², the paper's lemma. False: for comparison only, no estimator uses it.

    It takes |θ·x| ≤ B for ≤ √B, and a Lipschitz constant that squared loss does not have for unconstrained θ.
    """
    return (4 * radius**2 + 2 * noise_bound) / gamma

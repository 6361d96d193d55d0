"""The noise in people's answers, drawn as its law draws it, but faster where it is normal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import numba
import numpy as np
from scipy import special

from truthful.beliefs.laws import Noise, TruncatedNormal
from truthful.beliefs.polynomials import chebyshev_nodes, monomials
from truthful.check import Floats

#: Draws so much noise.
Sampler = Callable[[np.random.Generator, int], Floats]

# erfinv(v)/v is analytic in v² up to its singularity at v² = 1. On v² ≤ INNER² a polynomial of this order leaves 1e-15.
INNER, ORDER = 0.85, 26


def sampler(law: Noise) -> Sampler:
    """law.sample, to 1e-14."""
    return partial(_truncated_normal, law) if isinstance(law, TruncatedNormal) else law.sample


def _truncated_normal(law: TruncatedNormal, rng: np.random.Generator, n: int) -> Floats:
    """z = s√2·erfinv(v), v uniform: by polynomial for most."""
    width = law.sd * math.sqrt(2)
    v = rng.random(n)
    z = np.empty(n)
    _inner(v, math.erf(law.bound / width), width, _polynomial(), z)
    outer = np.flatnonzero(np.abs(v) > INNER)
    z[outer] = width * special.erfinv(v[outer])
    return np.clip(z, -law.bound, law.bound, out=z)


@cache
def _polynomial() -> Floats:
    """Coefficients of erfinv(v)/v in 2v²/INNER² − 1."""
    v = INNER * np.sqrt((1 + chebyshev_nodes(ORDER)) / 2)
    return np.ascontiguousarray(monomials(special.erfinv(v) / v))


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _inner(v: Floats, top: float, width: float, coefficients: Floats, z: Floats) -> None:
    """Uniform v on [0, 1) become those on ±top, and z their noise where |v| ≤ INNER."""
    for i in range(len(v)):
        v[i] = (2 * v[i] - 1) * top
        t = v[i] * v[i] * (2 / INNER**2) - 1
        total = coefficients[ORDER - 1]
        for k in range(ORDER - 2, -1, -1):
            total = total * t + coefficients[k]
        z[i] = width * v[i] * total

"""Queries to be released, and how far one player can move them: proven for the worst data, in exact fractions.

Two data sets are neighbours if they have as many players and differ in one player's whole record, ‖x‖ ≤ 1 and
|y| ≤ Y in both. Every bound is an upper bound as computed, not only on paper: square roots are rounded up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np

from truthful.moments import GRID, PRODUCT, PythonIntegers, response_limit

# Sensitivity of Σ k_x k_xᵀ in Frobenius norm: ‖xxᵀ − x'x'ᵀ‖² = ‖x‖⁴ + ‖x'‖⁴ − 2(x·x')² ≤ 2. The least integer above
# √2·2^40.
GRAM_SENSITIVITY = isqrt(2 * PRODUCT**2) + 1


@dataclass(frozen=True)
class Query:
    """A vector to be released, on an integer lattice.

    The sensitivity bounds sqrt(Σ w_j (k_j − k'_j)²) over all neighbouring data sets, in lattice units; rounding and the
    solver's error are included. It is never a function of the data. By the norm "sup" it bounds max|k_j − k'_j|
    instead, and all weights are 1.
    """

    value: tuple[int, ...]
    unit: Fraction  # one lattice unit, in normalised units
    sensitivity: Fraction
    weights: tuple[int, ...]
    share: Fraction  # of the estimate's epsilon
    norm: str = "l2"


#: Adds noise to a query at a privacy level: gives the lattice point that is released.
AddNoise = Callable[[Query, Fraction], Sequence[int]]


@lru_cache(maxsize=64)
def cross_sensitivity(response_bound: float) -> Fraction:
    """Sensitivity of Σ k_x k_y: 2·2²⁰·floor(2²⁰·Y), exactly, attained by turning y into −y."""
    return Fraction(2 * GRID * response_limit(response_bound))


def cross_query(
    cross: PythonIntegers, response_bound: float, unit: Fraction, share: Fraction, norm: str = "l2"
) -> Query:
    """The query Σ k_x k_y, for features or instruments of length at most 1 in this norm."""
    value, weights = tuple(int(k) for k in cross), (1,) * len(cross)
    return Query(value, unit, cross_sensitivity(response_bound), weights, share, norm)


def gram_query(gram: PythonIntegers, unit: Fraction, share: Fraction) -> Query:
    """The upper triangle of Σ k_x k_xᵀ, off-diagonal entries weighing 2 so that the norm is Frobenius's."""
    rows, columns = np.triu_indices(len(gram))
    value = tuple(int(k) for k in gram[rows, columns])
    weights = tuple(1 if i == j else 2 for i, j in zip(rows, columns, strict=True))
    return Query(value, unit, Fraction(GRAM_SENSITIVITY), weights, share)


@lru_cache(maxsize=1024)  # every query of a ridge asks for it, and its numbers are public
def minimiser_distance(radius: float | Fraction, response_bound: float, gamma: float) -> Fraction:
    """An upper bound on the distance of two ridge minimisers over ‖θ‖ ≤ R whose data differ in one record.

    Let θ and θ' be the minimisers, m their midpoint and u the direction of e = θ' − θ. The two optimality
    conditions ⟨∇F(θ), e⟩ ≥ 0 ≥ ⟨∇F'(θ'), e⟩ and the γ-strong convexity of what the data sets share give

        γ‖e‖ ≤ (y' − θ'·x')(x'·u) − (y − θ·x)(x·u)
             ≤ Y|x·u| + (m·x)(x·u) + Y|x'·u| − (m·x')(x'·u),

    as θ·x = m·x − ‖e‖(x·u)/2, θ'·x' = m·x' + ‖e‖(x'·u)/2. Only the parts of x and x' in the plane of u and m
    count, and norm 1 there is worst: at angles b and b' from u, with m at angle a from the normal of u, the bound
    is Y(cos b + cos b') + ‖m‖·sin(b+b')·cos(b−b'+a) ≤ 2cos B·(Y + R·sin|B|), B = (b+b')/2. Its largest value is

        C = 2√(1−t²)·(Y + Rt),   t = 2R/(Y + √(Y²+8R²)) = (−Y + √(Y²+8R²))/(4R).

    So the distance is at most C/γ; and never more than 2R, the diameter. In two or more dimensions C/γ is
    attained in the limit of large γ, by two records that are mirror images in the direction of θ.
    """
    R, Y = Fraction(radius), Fraction(response_bound)
    discriminant = Y**2 + 8 * R**2
    t_above, t_below = 2 * R / (Y + _sqrt_below(discriminant)), 2 * R / (Y + sqrt_above(discriminant))
    C = 2 * sqrt_above(1 - t_below**2) * (Y + R * t_above)
    return min(C / Fraction(gamma), 2 * R)


def _sqrt_below(x: Fraction) -> Fraction:
    """√x rounded down to a multiple of 2⁻²⁰⁰."""
    return Fraction(isqrt((x.numerator << 400) // x.denominator), 2**200)


@lru_cache(maxsize=1024)
def sqrt_above(x: Fraction) -> Fraction:
    """√x rounded up, by at most 2⁻²⁰⁰."""
    return _sqrt_below(x) + Fraction(1, 2**200)

"""The sensitivity formulas are upper bounds as computed, and the maximum they claim to be."""

from __future__ import annotations

from fractions import Fraction
from math import cos, isqrt, sin, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_estimators import published_sensitivity

from truthful.check import Floats
from truthful.estimators.sensitivity import (
    GRAM_SENSITIVITY,
    cross_sensitivity,
    minimiser_distance,
    sqrt_above,
)
from truthful.moments import GRID, PRODUCT

positive = st.floats(1e-3, 1e3)
angles = st.floats(-np.pi / 2, np.pi / 2)


@given(st.fractions(Fraction(1, 10**12), 10**12))
def test_square_roots_are_rounded_up_by_next_to_nothing(x: Fraction) -> None:
    above = sqrt_above(x)
    assert (above - Fraction(1, 2**199)) ** 2 < x < above**2


def test_the_gram_sensitivity_is_the_least_integer_above_root_two() -> None:
    assert (GRAM_SENSITIVITY - 1) ** 2 < 2 * PRODUCT**2 < GRAM_SENSITIVITY**2


@given(st.floats(2.0**-19, 256))
def test_the_cross_sensitivity_is_twice_the_largest_product(Y: float) -> None:
    assert cross_sensitivity(Y) == 2 * GRID * isqrt(int(Fraction(Y) * GRID) ** 2)


@given(positive, positive, positive)
def test_the_distance_is_just_above_its_formula(R: float, Y: float, gamma: float) -> None:
    t = (-Y + sqrt(Y**2 + 8 * R**2)) / (4 * R)
    formula = min(2 * sqrt(1 - t**2) * (Y + R * t) / gamma, 2 * R)
    assert float(minimiser_distance(R, Y, gamma)) == pytest.approx(formula, rel=1e-7)


@given(positive, positive, angles)
def test_no_angle_gives_more_than_the_distance(R: float, Y: float, angle: float) -> None:
    C = minimiser_distance(R, Y, 1e9) * 10**9
    assert 2 * cos(angle) * (Y + R * sin(angle)) <= C * (1 + Fraction(1, 10**14))


@given(positive, positive, st.integers(0, 2**32 - 1))
def test_no_pair_of_records_and_midpoint_gives_more_than_the_distance(R: float, Y: float, seed: int) -> None:
    """The second line of the proof, by brute force in three dimensions: any u, ‖m‖ ≤ R, and ‖x‖, ‖x'‖ ≤ 1."""
    rng = np.random.default_rng(seed)
    u, m, x, z = rng.normal(size=(4, 2000, 3))
    u /= np.linalg.norm(u, axis=1)[:, None]
    m *= R * rng.random((2000, 1)) ** 0.2 / np.linalg.norm(m, axis=1)[:, None]
    x, z = (v / np.linalg.norm(v, axis=1)[:, None] * rng.random((2000, 1)) ** 0.2 for v in (x, z))

    def dot(a: Floats, b: Floats) -> Floats:
        return np.asarray((a * b).sum(axis=1))

    bound = Y * abs(dot(x, u)) + dot(m, x) * dot(x, u) + Y * abs(dot(z, u)) - dot(m, z) * dot(z, u)
    assert bound.max() <= float(minimiser_distance(R, Y, 1e9)) * 1e9 * (1 + 1e-12)


@given(positive, st.floats(0, 1e3), positive)
def test_the_distance_is_below_the_simple_bounds(R: float, M: float, gamma: float) -> None:
    distance = minimiser_distance(R, R + M, gamma)
    assert distance <= (3 * Fraction(R) + 2 * Fraction(M)) / Fraction(gamma) * (1 + Fraction(1, 10**12))
    assert distance <= 2 * Fraction(R)


@given(positive, st.integers(1, 10**9), positive)
def test_the_free_ridge_s_distance_is_below_its_simple_bound(Y: float, m: int, gamma: float) -> None:
    radius = Y * sqrt(m / gamma) / 2
    simple = Y * (2 + sqrt(m / gamma) / 2) / gamma
    assert minimiser_distance(radius, Y, gamma) <= simple * (1 + 1e-12)


def test_the_published_constant_is_below_the_truth_for_small_coefficients() -> None:
    R, M, gamma = 0.1, 0.0, 100.0
    assert published_sensitivity(R, M, gamma) == pytest.approx(4e-4)
    assert minimiser_distance(R, R + M, gamma) > published_sensitivity(R, M, gamma)

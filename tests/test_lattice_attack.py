"""A distinguishing attack that breaks the textbook float sampler, and fails on the lattice release as it must.

Neighbouring values 0 and 1, claimed privacy epsilon = 1/2, so noise of scale 2. The attacker picks the event that tells
the two apart best on one sample and measures it on a fresh one: ln(P(event | one) / P(event | other)) ≤ epsilon for
every event if the claim holds. Both probabilities are bounded by Clopper-Pearson at a joint confidence of 1 − 1e-6: the
bound exceeds a true claim with probability at most 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special
from support import oracles_noise as oracles

from truthful.check import Floats
from truthful.lattice import SeededBits, sample

EPSILON = Fraction(1, 2)
CONFIDENCE = 1 - 1e-6
STEP = 2.0**-30
#: At the event that tells most, the bound then falls short of epsilon by 0.06, and by 0.08 with half the noise.
DRAWS = 20_000

Event = Callable[[Floats], npt.NDArray[np.bool_]]
Release = Callable[[int, int], Floats]


def off_grid(exponent: int, window: float) -> Event:
    """Near 0, and not a multiple of 2^-exponent. Floats near 0 are dense; what is left of 1 + v near 0 is coarse."""

    def event(z: Floats) -> npt.NDArray[np.bool_]:
        scaled = np.ldexp(z, exponent)
        return np.asarray((np.abs(z) < window) & (scaled != np.rint(scaled)))

    return event


def above(threshold: float) -> Event:
    """The events that an honest release can be attacked with: at best they show its true epsilon."""
    return lambda z: np.asarray(z > threshold)


def complement(event: Event) -> Event:
    return lambda z: ~event(z)


def events() -> list[Event]:
    grids = [
        off_grid(exponent, window)
        for exponent, window in product(range(20, 64, 3), (2.0**-8, 0.25, 0.5, 2.0))
    ]
    one_sided = grids + [above(threshold) for threshold in np.linspace(-2, 3, 21)]
    return one_sided + [complement(event) for event in one_sided]


def epsilon_lower_bound(hits: int, other_hits: int, n: int) -> float:
    """A lower bound of ln(P(event | one)/P(event | other)) from n draws of each, at the joint confidence."""
    risk = (1 - CONFIDENCE) / 2
    least = special.betaincinv(hits, n - hits + 1, risk) if hits else 0.0
    most = special.betaincinv(other_hits + 1, n - other_hits, 1 - risk) if other_hits < n else 1.0
    return math.log(least / most) if least > 0 else -math.inf


def bound_from(event: Event, swap: bool, zero: Floats, one: Floats) -> float:
    hits, other_hits = int(event(zero).sum()), int(event(one).sum())
    if swap:
        hits, other_hits = other_hits, hits
    return epsilon_lower_bound(hits, other_hits, len(zero))


def attack(release: Release, size: int) -> float:
    """The attacker's lower bound of epsilon: the event is chosen on one pair of samples, measured on another."""
    zero, one = release(0, size), release(1, size)
    _, event, swap = max(
        ((bound_from(event, swap, zero, one), event, swap) for event in events() for swap in (False, True)),
        key=lambda plan: plan[0],
    )
    return bound_from(event, swap, release(0, size), release(1, size))


def textbook_release(seed: int) -> Release:
    rng = np.random.default_rng(seed)
    return lambda value, size: oracles.textbook_release(float(value), float(1 / EPSILON), rng, size)


def lattice_release(seed: int, claim: Fraction) -> Release:
    """value + step·k with the exact noise k; the noise is that of the claim, and the outputs are exact floats."""
    bits, scale = SeededBits(seed), 1 / (Fraction(STEP) * claim)
    return lambda value, size: value + STEP * np.array([sample(1, scale, bits)[0] for _ in range(size)])


def test_the_textbook_float_sampler_is_broken_far_above_its_claim() -> None:
    assert attack(textbook_release(seed=1), 200_000) > 7


def test_the_lattice_release_withstands_the_same_attacks() -> None:
    """False alarm 1e-6, by the confidence. The attack is no straw man: it shows most of the epsilon that is spent."""
    assert 0.4 < attack(lattice_release(seed=2, claim=EPSILON), DRAWS) <= EPSILON


def test_the_attack_catches_a_lattice_release_with_half_the_noise() -> None:
    assert attack(lattice_release(seed=3, claim=2 * EPSILON), DRAWS) > 1.7 * EPSILON


def test_the_lower_bound_is_no_lower_bound_of_nothing() -> None:
    assert epsilon_lower_bound(0, 10, 100) == -math.inf
    assert epsilon_lower_bound(50_000, 50_000, 100_000) < 0
    assert epsilon_lower_bound(10, 100, 100) < 0
    assert epsilon_lower_bound(100_000, 0, 100_000) == pytest.approx(
        math.log(100_000 / math.log(2e6)), rel=0.01
    )

"""Slow, obviously right twins of truthful.scoring."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from truthful.check import Floats


def score_extremes(
    score: Callable[[Floats, Floats], Floats], radius: float, points: int
) -> tuple[float, float]:
    """Least and greatest score over a grid of the square |p|, |q| ≤ R that holds its corners and edges."""
    line = np.linspace(-radius, radius, points)
    values = score(line[:, None], line[None, :])
    return float(values.min()), float(values.max())


def expected_bit_payment(ones: int, zeros: int, report: int, bit: int, peers: int) -> Fraction:
    """Mean payment over every outcome of the peers' bits, from the joint law of exchangeable bits."""
    belief = Fraction(ones + report, ones + zeros + 1)
    total = Fraction(0)
    for bits in product((0, 1), repeat=peers):
        p = Fraction(sum(bits), peers)
        score = 1 - 2 * (p - 2 * p * belief + belief**2)
        total += (
            score
            * sequence_probability(ones, zeros, (bit, *bits))
            / sequence_probability(ones, zeros, (bit,))
        )
    return total


def sequence_probability(ones: int, zeros: int, bits: tuple[int, ...]) -> Fraction:
    """Pólya's urn: each bit is drawn with the odds of the ones and zeros seen so far."""
    return prod(
        (
            Fraction(ones + sum(bits[:i]) if bits[i] else zeros + i - sum(bits[:i]), ones + zeros + i)
            for i in range(len(bits))
        ),
        start=Fraction(1),
    )

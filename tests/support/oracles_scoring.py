"""Slow, obviously right twins of truthful.scoring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from truthful.check import Floats
from truthful.scoring import binary_score


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


@dataclass(frozen=True)
class BitGame:
    """Peer prediction on bits: n players hold independent bits of a common probability p ~ Beta(ones, zeros).

    Each reports a bit. A player is paid B(p̂, E[p | her reported bit]), where p̂ is the bit of one peer or
    the mean bit of any set of peers (the paper, appendix "Peer Prediction and the Brier Scoring Rule").
    """

    ones: float
    zeros: float

    def belief(self, bit: int) -> float:
        """E[p | own bit] = (ones + bit)/(ones + zeros + 1): also what she expects of any peer's bit."""
        return (self.ones + bit) / (self.ones + self.zeros + 1)

    def payment(self, report: int, peers: list[int]) -> float:
        """B(mean of the peers' reported bits, E[p | report])."""
        return float(binary_score(np.mean(peers), self.belief(report)))

    def expected_payment(self, report: int, bit: int) -> float:
        """What a player who holds `bit` expects from `report` when her peers are truthful.

        B is affine in its first argument, so this is B(E[p | bit], E[p | report]) for every set of peers.
        """
        return float(binary_score(self.belief(bit), self.belief(report)))

    def truth_margin(self, bit: int) -> float:
        """What truth earns over the lie, 2(E[p|1] − E[p|0])² = 2/(ones + zeros + 1)²: never zero.

        So truthful reporting is a strict Bayes-Nash equilibrium for every prior.
        """
        return self.expected_payment(bit, bit) - self.expected_payment(1 - bit, bit)

"""The events an outsider looks for: what tells two neighbours apart, chosen on one sample, measured on another.

If a release is ε-differentially private then ln(P(event | D)/P(event | D')) ≤ ε for every event. Both probabilities are
bounded by Clopper and Pearson's intervals, so that the bound exceeds a true claim with probability RISK at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful.check import Floats

RISK = 1e-6
THRESHOLDS = np.linspace(0.01, 0.99, 50)

#: A number made of every release; releases have shape (draws, estimates, d).
Feature = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Bound:
    """A lower bound on ε, at the confidence 1 − RISK, and the counts it comes from."""

    epsilon: float
    hits: int
    other_hits: int
    draws: int


def lower_bound(hits: npt.ArrayLike, other_hits: npt.ArrayLike, draws: int, risk: float = RISK) -> Floats:
    """A lower bound of ln(P(event | D)/P(event | D')) from how often it happened in so many draws of each."""
    k, other = np.asarray(hits, dtype=np.float64), np.asarray(other_hits, dtype=np.float64)
    least = np.where(k > 0, special.betaincinv(np.maximum(k, 1), draws - k + 1, risk / 2), 0.0)
    most = np.where(
        other < draws, special.betainccinv(other + 1, np.maximum(draws - other, 1), risk / 2), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(least / most))


@dataclass(frozen=True)
class Event:
    """A feature above a threshold (or not), which is to be likelier for the one data set (or for the other)."""

    feature: Feature
    threshold: float
    above: bool
    swapped: bool

    def measure(self, one: Floats, other: Floats) -> Bound:
        """What the event shows on fresh draws."""
        hits, other_hits = (
            int(np.count_nonzero((self.feature(draws) > self.threshold) == self.above))
            for draws in (one, other)
        )
        if self.swapped:
            hits, other_hits = other_hits, hits
        return Bound(float(lower_bound(hits, other_hits, len(one))), hits, other_hits, len(one))


def attack(one: Floats, other: Floats) -> Bound:
    """The best event of the first half of the draws, measured on the second half."""
    half = len(one) // 2
    return _best_event(one[:half], other[:half]).measure(one[half : 2 * half], other[half : 2 * half])


def _best_event(one: Floats, other: Floats) -> Event:
    best, found = None, -np.inf
    for feature in (*_scores(one, other), *_off_grid(one)):
        a, b = feature(one), feature(other)
        thresholds = np.unique(np.quantile(np.concatenate([a, b]), THRESHOLDS))
        above = [np.array([np.count_nonzero(values > t) for t in thresholds]) for values in (a, b)]
        for is_above, swapped in product((True, False), repeat=2):
            counts = above if is_above else [len(one) - count for count in above]
            bounds = lower_bound(counts[swapped], counts[not swapped], len(one))
            at = int(np.argmax(bounds))
            if best is None or bounds[at] > found:
                best, found = Event(feature, float(thresholds[at]), is_above, swapped), bounds[at]
    assert best is not None
    return best


def _scores(one: Floats, other: Floats) -> Iterator[Feature]:
    """Likelihood ratios of noise that falls off with its length, centres and scales learned from the draws.

    Of all estimates together, and of every one alone; and the length of each, for noise whose scale gives data away.
    """
    centres, others = np.median(one, axis=0), np.median(other, axis=0)
    spreads = np.linalg.norm(one - centres, axis=2).mean(axis=0)
    scales = np.where(spreads > 0, spreads, 1.0)  # what does not vary tells all, or nothing

    def each(draws: Floats) -> Floats:
        lengths = [np.linalg.norm(draws - centre, axis=2) for centre in (others, centres)]
        return np.asarray((lengths[0] - lengths[1]) / scales)

    yield lambda draws: np.asarray(each(draws).sum(axis=1))
    for place in range(one.shape[1]):
        yield partial(_column, each, place)
        yield partial(_length, place)


def _column(features: Feature, place: int, draws: Floats) -> Floats:
    return np.asarray(features(draws)[:, place])


def _length(place: int, draws: Floats) -> Floats:
    return np.asarray(np.linalg.norm(draws[:, place], axis=1))


def _off_grid(one: Floats) -> Iterator[Feature]:
    """Near 0, and not a multiple of 2^-exponent: floats near 0 are dense, what is left of 1 + v near 0 is coarse."""
    scale = float(np.abs(one[:, 0, 0]).mean())
    shift = -int(np.floor(np.log2(scale))) if scale > 0 else 0
    for exponent, window in product(range(20, 64, 3), (0.1, 0.3, 1.0)):

        def feature(
            draws: Floats, exponent: int = exponent + shift, window: float = window * scale
        ) -> Floats:
            z = draws[:, 0, 0]
            scaled = np.ldexp(z, exponent)
            return np.asarray(((np.abs(z) < window) & (scaled != np.rint(scaled))).astype(np.float64))

        yield feature

"""The last attack, from outside: reports in, a release out, thousands of times, in one and two dimensions.

If a release is ε-differentially private then ln(P(event | D)/P(event | D')) ≤ ε for every event. What tells two
neighbours apart is chosen on one sample and measured on another. Both probabilities are bounded by Clopper and
Pearson's intervals, so that the bound exceeds a true claim with probability RISK at most.

Two pairs of data sets: a single answer is turned from −Y into Y, with its prediction if there is one; and, where
records are protected, a whole record is replaced in a crowd, features and answer. The releases are made with the plan's
estimator, but at EPSILON: what is attacked is the making of releases, and with some thousand draws an epsilon much
below 1 cannot be told from 0, nor one much above 1 from twice as much. What is seen is all that a release holds of its
data and, in one dimension, what is predicted of others, from which their payments follow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as combinations

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful.asked_release import AskedRelease
from truthful.auditor.product import Attacked, Believed, Product
from truthful.auditor.record import Finding
from truthful.check import Floats
from truthful.instruments import UNIT
from truthful.lattice import Bits
from truthful.moments import PRODUCT
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs

EPSILON = 1.0
# So many that no eigenvalue of XᵀX is lost in its noise, nor raised to its floor.
CROWD = 500
# Of the draws; a matrix without noise is seen at once.
SHARE_FOR_RECORDS = 4
RISK = 1e-6
UNCLIPPED = 1e9
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
        for is_above, swapped in combinations((True, False), repeat=2):
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
    for exponent, window in combinations(range(20, 64, 3), (0.1, 0.3, 1.0)):

        def feature(
            draws: Floats, exponent: int = exponent + shift, window: float = window * scale
        ) -> Floats:
            z = draws[:, 0, 0]
            scaled = np.ldexp(z, exponent)
            return np.asarray(((np.abs(z) < window) & (scaled != np.rint(scaled))).astype(np.float64))

        yield feature


#: One release as it is seen: rows of d numbers.
Draw = Callable[[], Floats]


def black_box(name: str, epsilon: float, pairs: Iterable[tuple[Draw, Draw, int]]) -> Finding:
    """What an outsider can show of the epsilon that releases of two neighbours spend, so many draws of each."""
    bounds = [
        attack(*(np.array([draw() for _ in range(draws)]) for draw in (one, other)))
        for one, other, draws in pairs
    ]
    bound = max(bounds, key=lambda bound: bound.epsilon)
    event = f"an event seen {bound.hits:,} times against {bound.other_hits:,}, of {bound.draws:,}"
    return Finding(
        name=name,
        claim=f"releases at ε = {epsilon:.6g} show at most that ε",
        found=f"ε ≥ {bound.epsilon:.3g}: {event}" if bound.epsilon > 0 else f"nothing: {event}",
        confidence=f"1 − {len(bounds) * RISK:g}",
        passed=bound.epsilon <= epsilon,
        figures={
            "epsilon_shown": bound.epsilon,
            "epsilon": epsilon,
            "hits": bound.hits,
            "other_hits": bound.other_hits,
            "draws": bound.draws,
        },
    )


def black_box_finding(
    product: Product,
    mechanism: Attacked,
    beliefs: Believed,
    dimension: int,
    bits: Bits,
    samples: int,
    epsilon: float = EPSILON,
) -> Finding:
    """What an outsider can show of one release, in one dimension together with what is predicted of two others."""
    d, Y, axes = dimension, beliefs.response_bound, np.eye(dimension)
    people = _in_dimension(beliefs, d)
    tiny = replace(
        unclipped(mechanism),
        epsilon=epsilon,
        design=axes / (d + 2),
        transform=None
        if mechanism.transform is None
        else tuple(tuple(round(k / float(UNIT)) for k in row) for row in axes.tolist()),
    )

    def releases(X: Floats, y: Floats) -> Draw:
        sums = product.statistics(X, y, tiny, people)

        def once() -> Floats:
            estimate = product.release(sums, tiny, people, product.answer(bits))
            rows = np.vstack([estimate.theta, estimate.inverse])
            if d == 1:
                others = product.scored(estimate, tiny, people, X, y).peer_prediction[1:3]
                rows = np.vstack([rows, others[:, None]])
            return rows if estimate.predictions is None else _with_predictions(rows, estimate)

        return once

    # Answers that cancel out, so that the estimate is 0, and the same with the first of them turned.
    X, y = np.repeat(axes, 3, axis=0), np.tile([Y, -Y, 0.0], d)
    if isinstance(tiny, AskedRelease):
        y = np.stack([y, y], axis=1)
    pairs = [(releases(X, y), releases(X, np.concatenate([-y[:1], y[1:]])), samples)]
    if mechanism.protects == "records":
        # In a crowd along every axis a record is turned onto another axis, or shortened if there is none.
        X, y = np.vstack([X, *[axes] * (CROWD // d)]), np.append(y, np.full(CROWD // d * d, Y / 2))
        moved = np.vstack([axes[-1:] if d > 1 else 0.35 * axes, X[1:]])
        replaced = releases(moved, np.array([-Y, *y[1:]]))
        pairs.append((releases(X, y), replaced, samples // SHARE_FOR_RECORDS))
    return black_box(f"black box, d = {d}", epsilon, pairs)


def _with_predictions(rows: Floats, estimate: LeaveOneOut) -> Floats:
    """With one number more in each row: first all that was released, as one vector, as its noise is."""
    released = [k / PRODUCT for k in (*estimate.vector, estimate.predictions or 0)]
    return np.vstack([released, np.hstack([rows, np.zeros((len(rows), 1))])])


def unclipped(mechanism: Attacked) -> Attacked:
    """With predictions that are not clipped: payments say less. Those of shares never are."""
    if isinstance(mechanism, AskedRelease):
        return replace(mechanism, clip=UNCLIPPED, plausible=(-math.inf, math.inf))
    return replace(mechanism, payments="expected") if isinstance(mechanism, OneRelease) else mechanism


def _in_dimension(beliefs: Believed, d: int) -> Believed:
    """The same beliefs of so many columns; of shares without effects."""
    if isinstance(beliefs, ShareBeliefs | LevelBeliefs):
        none = (0.0,) * d
        return replace(beliefs, expected=none, numbers=none, factors=(), scale=d**0.5)
    return replace(beliefs, dimension=d)

"""Whether the noise drawn is the noise promised, and every draw is fresh.

In units of its scale, noise on so fine a lattice follows the L2-Laplace law: its norm is Gamma(d), its direction is
uniform and independent of it, and its lowest bits are fair. In the sup norm its direction is uniform on the surface of
a cube: every face is as likely, and on a face all other coordinates are uniform. Every test has a p-value; all tests of
a finding together raise a false alarm with probability FALSE_ALARM at most (each gets an equal part of it). The test of
the scale is exact; the others take the limit laws of their statistics, which are sums of bounded numbers, ranks or
counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from itertools import product as choices

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from truthful.asked_release import AskedRelease
from truthful.auditor.attack_surface import Attacked, Believed, Finding, Product, SpentQuery
from truthful.check import Floats
from truthful.lattice import Bits
from truthful.moments import PRODUCT, TRANSFORM_UNIT
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs

FALSE_ALARM = 1e-6
LOW_BITS = 16
FEW_DRAWS = ("scale", "lengths", "mean direction")
FEWEST_DRAWS = 500
MISSED = 1e-3  # the scale error that a finding states is missed with this probability at most

PValue = tuple[str, float]


@dataclass(frozen=True, eq=False)
class DrawnNoise:
    """Draws of one query's noise: lengths and directions in units of the promised scale, and the lowest bits."""

    lengths: Floats
    directions: Floats
    low_bits: Floats
    norm: str = "l2"

    def __getitem__(self, rows: slice) -> DrawnNoise:
        return DrawnNoise(self.lengths[rows], self.directions[rows], self.low_bits[rows], self.norm)

    @property
    def dimension(self) -> int:
        return int(self.directions.shape[1])

    @property
    def precision(self) -> float:
        """The inverse variance of a coordinate of a direction: on a cube it is ±1 once in d, else uniform."""
        d = self.dimension
        return d if self.norm == "l2" else 3 * d / (d + 2)


def draw_noise(product: Product, asked: Sequence[SpentQuery], bits: Bits, samples: int) -> list[DrawnNoise]:
    """The noise of every query, from as many releases of the same known data as give about `samples` numbers."""
    if not asked:
        return []
    releases = max(FEWEST_DRAWS, samples // min(len(spent.query.value) for spent in asked))
    drawn = []
    for _ in range(releases):
        answer = product.answer(bits)
        drawn.append([answer(spent.query, spent.epsilon) for spent in asked])
    return noises_of([asked] * releases, drawn)


def noises_of(
    asked: Sequence[Sequence[SpentQuery]], answers: Sequence[Sequence[Sequence[int]]]
) -> list[DrawnNoise]:
    """The noise of every query: the answers of several releases, less the exact values."""
    return list(map(_noise, zip(*asked, strict=True), zip(*answers, strict=True)))


def _noise(asked: Sequence[SpentQuery], released: Sequence[Sequence[int]]) -> DrawnNoise:
    k = np.array(
        [
            [answer - value for answer, value in zip(answers, spent.query.value, strict=True)]
            for spent, answers in zip(asked, released, strict=True)
        ],
        dtype=object,
    )
    scales = np.array([float(spent.query.sensitivity / spent.epsilon) for spent in asked])
    v = k.astype(np.float64) * np.sqrt(asked[0].query.weights) / scales[:, None]
    norm = asked[0].query.norm
    lengths = np.linalg.norm(v, axis=1, ord=np.inf if norm == "sup" else 2)
    directions = v / np.where(lengths > 0, lengths, 1.0)[:, None]
    return DrawnNoise(lengths, directions, (k % LOW_BITS).astype(np.float64), norm)


def few_draws_finding(name: str, claim: str, found: str, noises: Sequence[DrawnNoise]) -> Finding:
    """The tests that also hold for a hundred draws: scale, lengths and mean direction. `found` if they pass.

    Draws from the operating system differ every time, so the finding does not show p-values.
    """
    finding = _finding(
        name, claim, (test for noise in noises for test in _law(noise) if test[0] in FEW_DRAWS)
    )
    numbers = min(noise.lengths.size * noise.dimension for noise in noises)
    caught = _caught_error(numbers, len(FEW_DRAWS) * len(noises))
    return replace(
        finding,
        found=found if finding.passed else finding.found,
        confidence=f"{finding.confidence}; a scale off by {caught:.0%} is caught",
        figures={"draws": float(noises[0].lengths.size), "scale_error_caught": caught},
    )


def law_finding(noises: Sequence[DrawnNoise]) -> Finding:
    """Whether every query's noise has the promised law."""
    finding = _finding("noise", "noise has the promised law and scale", chain(*map(_law, noises)))
    if not noises:
        return finding
    scales = [float(noise.lengths.mean()) / noise.dimension for noise in noises]
    least, largest = min(scales), max(scales)
    tests = 6 if any(noise.norm == "sup" for noise in noises) else 5
    caught = _caught_error(min(noise.lengths.size * noise.dimension for noise in noises), tests * len(noises))
    more = {"least_scale": least, "largest_scale": largest, "scale_error_caught": caught}
    return replace(
        finding,
        found=f"scale {least:.3f} to {largest:.3f} of the promised one; {finding.found}",
        confidence=f"{finding.confidence}; a scale off by {caught:.1%} is caught",
        figures={**finding.figures, **more},
    )


def independence_finding(noises: Sequence[DrawnNoise]) -> Finding:
    """Whether the noises of one release are independent of each other, and each release of the one before."""
    tests = [_dependence(first, second) for first, second in combinations(noises, 2)]
    tests += [_dependence(noise[1:], noise[:-1]) for noise in noises]
    return _finding("independence", "every query of every release has its own noise", chain(*tests))


def _finding(name: str, claim: str, tests: Iterable[PValue]) -> Finding:
    if not (found := list(tests)):
        return Finding(name, claim, "no query was answered by the exact sampler", "certain", passed=False)
    worst, p = min(found, key=lambda test: test[1])
    level = FALSE_ALARM / len(found)
    return Finding(
        name,
        claim,
        f"least p-value {p:.2g} ({worst}) of {len(found)}",
        f"false alarm {FALSE_ALARM:g}",
        passed=bool(p >= level),
        figures={"least_p_value": p, "level": level, "tests": len(found)},
    )


def _law(noise: DrawnNoise) -> Iterator[PValue]:
    N, d = noise.directions.shape
    # The sum of N independent Gamma(d) is Gamma(Nd): exact, and the sharpest test of the scale.
    total = float(noise.lengths.sum())
    yield "scale", float(2 * min(special.gammainc(N * d, total), special.gammaincc(N * d, total)))
    yield "lengths", float(stats.kstest(noise.lengths, stats.gamma(d).cdf).pvalue)
    mean = noise.directions.mean(axis=0)
    yield "mean direction", _chi2(N * noise.precision * np.sum(mean**2), d)
    if d > 1 and noise.norm == "sup":
        at = np.argmax(np.abs(noise.directions), axis=1)
        faces = 2 * at + (noise.directions[np.arange(N), at] > 0)
        yield "directions", float(stats.chisquare(np.bincount(faces, minlength=2 * d)).pvalue)
        others = np.delete(noise.directions.ravel(), np.arange(N) * d + at)
        yield "on faces", float(stats.kstest(others, stats.uniform(-1, 2).cdf).pvalue)
    elif d > 1:
        # Bingham's test: second moments of uniform directions are I/d.
        excess = noise.directions.T @ noise.directions / N - np.eye(d) / d
        yield "directions", _chi2(N * d * (d + 2) / 2 * np.sum(excess**2), (d - 1) * (d + 2) // 2)
    counts = np.bincount(noise.low_bits.astype(np.int64).ravel(), minlength=LOW_BITS)
    yield "lowest bits", float(stats.chisquare(counts).pvalue)


def _dependence(first: DrawnNoise, second: DrawnNoise) -> Iterator[PValue]:
    """For independent directions u, u', E[uu'ᵀ] = 0, and the variance of an entry is the product of both variances."""
    N, d, e = len(first.lengths), first.dimension, second.dimension
    mean = first.directions.T @ second.directions / N
    yield "directions together", _chi2(N * first.precision * second.precision * np.sum(mean**2), d * e)
    # Where lengths are all the same, ranks say nothing, and no noise is drawn at all.
    stuck = min(np.ptp(first.lengths), np.ptp(second.lengths)) == 0
    yield "lengths together", 0.0 if stuck else float(stats.spearmanr(first.lengths, second.lengths).pvalue)


def _chi2(statistic: float, freedom: int) -> float:
    return float(stats.chi2.sf(statistic, freedom))


def _caught_error(numbers: int, tests: int) -> float:
    """The relative error of the scale that the test of the scale misses with a probability of at most MISSED.

    The mean of this many unit exponentials lies within (1 ± z/√numbers) of its promise with the level's z, and of its
    true value with that of MISSED; the tests share the false alarm.
    """
    inside = stats.norm.isf(FALSE_ALARM / tests / 2) / np.sqrt(numbers)
    return float((1 + inside) / (1 - stats.norm.isf(MISSED) / np.sqrt(numbers)) - 1)


EPSILON = 1.0
# Enough people that no eigenvalue of XᵀX is lost in its noise or raised to its floor.
CROWD = 500
# For records a fourth of the draws is enough: a matrix without noise shows at once.
SHARE_FOR_RECORDS = 4
RISK = 1e-6
UNCLIPPED = 1e9
THRESHOLDS = np.linspace(0.01, 0.99, 50)

#: A number made of every release; releases have shape (draws, estimates, d).
Feature = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Bound:
    """A lower bound on ε, at the confidence 1 − RISK, and the counts behind it."""

    epsilon: float
    hits: int
    other_hits: int
    draws: int


def lower_bound(hits: npt.ArrayLike, other_hits: npt.ArrayLike, draws: int) -> Floats:
    """A lower bound on ln(P(event | D)/P(event | D')), from its count in this many draws of each."""
    k, other = np.asarray(hits, dtype=np.float64), np.asarray(other_hits, dtype=np.float64)
    least = np.where(k > 0, special.betaincinv(np.maximum(k, 1), draws - k + 1, RISK / 2), 0.0)
    most = np.where(
        other < draws, special.betainccinv(other + 1, np.maximum(draws - other, 1), RISK / 2), 1.0
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(least / most))


def attack(draws_a: Floats, draws_b: Floats) -> Bound:
    """The best event of the first half of the draws, measured on the second half."""
    half = len(draws_a) // 2
    feature, threshold, above, swapped = _best_event(draws_a[:half], draws_b[:half])
    hits, other_hits = (
        int(np.count_nonzero((feature(draws[half : 2 * half]) > threshold) == above))
        for draws in ((draws_b, draws_a) if swapped else (draws_a, draws_b))
    )
    return Bound(float(lower_bound(hits, other_hits, half)), hits, other_hits, half)


def _best_event(draws_a: Floats, draws_b: Floats) -> tuple[Feature, float, bool, bool]:
    """The event, a feature above a threshold (or not), that best distinguishes the one data set (or the other)."""
    best, found = None, -np.inf
    for feature in (*_scores(draws_a, draws_b), *_off_grid(draws_a)):
        a, b = feature(draws_a), feature(draws_b)
        thresholds = np.unique(np.quantile(np.concatenate([a, b]), THRESHOLDS))
        above = [np.array([np.count_nonzero(values > t) for t in thresholds]) for values in (a, b)]
        for is_above, swapped in choices((True, False), repeat=2):
            counts = above if is_above else [len(draws_a) - count for count in above]
            bounds = lower_bound(counts[swapped], counts[not swapped], len(draws_a))
            at = int(np.argmax(bounds))
            if best is None or bounds[at] > found:
                best, found = (feature, float(thresholds[at]), is_above, swapped), bounds[at]
    assert best is not None
    return best


def _scores(draws_a: Floats, draws_b: Floats) -> Iterator[Feature]:
    """Likelihood ratios of noise that falls off with its length, with centres and scales learned from the draws.

    They are for all estimates together and for each alone; and each one's length, for noise whose scale reveals data.
    """
    centres_a, centres_b = np.median(draws_a, axis=0), np.median(draws_b, axis=0)
    spreads = np.linalg.norm(draws_a - centres_a, axis=2).mean(axis=0)
    scales = np.where(spreads > 0, spreads, 1.0)  # a constant feature decides at once, or says nothing

    def ratios(draws: Floats) -> Floats:
        lengths = [np.linalg.norm(draws - centre, axis=2) for centre in (centres_b, centres_a)]
        return np.asarray((lengths[0] - lengths[1]) / scales)

    yield lambda draws: np.asarray(ratios(draws).sum(axis=1))
    for place in range(draws_a.shape[1]):

        def ratio(draws: Floats, place: int = place) -> Floats:
            return np.asarray(ratios(draws)[:, place])

        def length(draws: Floats, place: int = place) -> Floats:
            return np.asarray(np.linalg.norm(draws[:, place], axis=1))

        yield from (ratio, length)


def _off_grid(draws_a: Floats) -> Iterator[Feature]:
    """Near 0, and not a multiple of 2^-exponent: floats near 0 are dense, but 1 + v near 0 is coarse."""
    scale = float(np.abs(draws_a[:, 0, 0]).mean())
    shift = -int(np.floor(np.log2(scale))) if scale > 0 else 0
    for exponent, window in choices(range(20, 64, 3), (0.1, 0.3, 1.0)):

        def feature(
            draws: Floats, exponent: int = exponent + shift, window: float = window * scale
        ) -> Floats:
            z = draws[:, 0, 0]
            scaled = np.ldexp(z, exponent)
            return np.asarray(((np.abs(z) < window) & (scaled != np.rint(scaled))).astype(np.float64))

        yield feature


def black_box_finding(
    product: Product,
    mechanism: Attacked,
    beliefs: Believed,
    dimension: int,
    bits: Bits,
    samples: int,
    epsilon: float = EPSILON,
) -> Finding:
    """The finding of an outsider from releases alone; in one dimension together with the predictions for two others."""
    d, Y, axes = dimension, beliefs.response_bound, np.eye(dimension)
    people = _in_dimension(beliefs, d)
    tiny = replace(
        without_clipping(mechanism),
        epsilon=epsilon,
        design=axes / (d + 2),
        transform=None
        if mechanism.transform is None
        else tuple(tuple(round(k / float(TRANSFORM_UNIT)) for k in row) for row in axes.tolist()),
    )

    def releases(X: Floats, y: Floats, draws: int) -> Floats:
        sums, seen = product.statistics(X, y, tiny, people), []
        for _ in range(draws):
            estimate = product.release(sums, tiny, people, product.answer(bits))
            rows = np.vstack([estimate.theta, estimate.inverse])
            if d == 1:
                others = product.score_players(estimate, tiny, people, X, y).peer_prediction[1:3]
                rows = np.vstack([rows, others[:, None]])
            seen.append(rows if estimate.predictions is None else _with_predictions(rows, estimate))
        return np.array(seen)

    # Answers that cancel out, so that the estimate is 0, and the same with the sign of the first changed.
    X, y = np.repeat(axes, 3, axis=0), np.tile([Y, -Y, 0.0], d)
    if isinstance(tiny, AskedRelease):
        y = np.stack([y, y], axis=1)
    turned = np.concatenate([-y[:1], y[1:]])
    bounds = [attack(*(releases(X, said, samples) for said in (y, turned)))]
    if mechanism.protects == "records":
        # In a crowd along every axis, a record moves to another axis, or is shortened if there is none.
        X, y = np.vstack([X, *[axes] * (CROWD // d)]), np.append(y, np.full(CROWD // d * d, Y / 2))
        moved = np.vstack([axes[-1:] if d > 1 else 0.35 * axes, X[1:]])
        neighbours, draws = ((X, y), (moved, np.array([-Y, *y[1:]]))), samples // SHARE_FOR_RECORDS
        bounds.append(attack(*(releases(*data, draws) for data in neighbours)))
    bound = max(bounds, key=lambda bound: bound.epsilon)
    event = f"an event seen {bound.hits:,} times against {bound.other_hits:,}, of {bound.draws:,}"
    return Finding(
        name=f"black box, d = {d}",
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


def _with_predictions(rows: Floats, estimate: LeaveOneOut) -> Floats:
    """The rows with one more number each: all that was released first, as one vector, as its noise is."""
    released = [k / PRODUCT for k in (*estimate.vector, estimate.predictions or 0)]
    return np.vstack([released, np.hstack([rows, np.zeros((len(rows), 1))])])


def without_clipping(mechanism: Attacked) -> Attacked:
    """The mechanism with unclipped predictions, which say more than payments do. Those of shares are never clipped."""
    if isinstance(mechanism, AskedRelease):
        return replace(mechanism, clip=UNCLIPPED, plausible=(-math.inf, math.inf))
    return replace(mechanism, payments="expected") if isinstance(mechanism, OneRelease) else mechanism


def _in_dimension(beliefs: Believed, d: int) -> Believed:
    """The same beliefs in d dimensions; for shares without effects."""
    none = (0.0,) * d
    if isinstance(beliefs, LevelBeliefs):
        return replace(beliefs, expected=none, numbers=none, factors=(), places=(), scale=d**0.5)
    if isinstance(beliefs, ShareBeliefs):
        return replace(beliefs, expected=none, numbers=none, factors=(), scale=d**0.5)
    return replace(beliefs, dimension=d)

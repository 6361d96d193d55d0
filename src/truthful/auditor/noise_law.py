"""The third attack: is the noise that is drawn the noise that was promised, and is every draw a fresh one?

In units of its scale, noise on so fine a lattice follows the L2-Laplace law: its norm is Gamma(d), its direction is
uniform and independent of it, and its lowest bits are fair. By the sup norm its direction is uniform on the surface of
a cube: every face is as likely, and on a face all other coordinates are uniform. Every test has a p-value; all tests of
a finding together raise a false alarm with probability FALSE_ALARM at most (each gets an equal part of it). The test of
the scale is exact; the others take the limit laws of their statistics, which are sums of bounded numbers, ranks or
counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import special, stats

from truthful.auditor.product import Asked, Product
from truthful.auditor.record import Finding
from truthful.check import Floats
from truthful.lattice import Bits

FALSE_ALARM = 1e-6
LOW_BITS = 16
FEW_DRAWS = ("scale", "lengths", "mean direction")
FEWEST_DRAWS = 500
MISSED = 1e-3  # the scale error that a finding states is missed with this probability at most

PValue = tuple[str, float]


@dataclass(frozen=True, eq=False)
class Noise:
    """Draws of one query's noise: lengths and directions in units of the promised scale, and the lowest bits."""

    lengths: Floats
    directions: Floats
    low_bits: Floats
    norm: str = "l2"

    @property
    def dimension(self) -> int:
        return int(self.directions.shape[1])

    @property
    def precision(self) -> float:
        """One over the variance of a coordinate of a direction: on a cube it is ±1 once in d, else uniform."""
        d = self.dimension
        return d if self.norm == "l2" else 3 * d / (d + 2)


def draw_noise(product: Product, asked: Sequence[Asked], bits: Bits, samples: int) -> list[Noise]:
    """The noise of every query of so many releases of the same known data that about `samples` numbers are drawn."""
    if not asked:
        return []
    releases = max(FEWEST_DRAWS, samples // min(len(one.query.value) for one in asked))
    drawn = []
    for _ in range(releases):
        answer = product.answer(bits)
        drawn.append([answer(one.query, one.epsilon) for one in asked])
    return noises_of([asked] * releases, drawn)


def noises_of(asked: Sequence[Sequence[Asked]], answers: Sequence[Sequence[Sequence[int]]]) -> list[Noise]:
    """The noise of every query: what several releases answered, less what they were asked."""
    return [
        _noise(queries, released)
        for queries, released in zip(zip(*asked, strict=True), zip(*answers, strict=True), strict=True)
    ]


def _noise(asked: Sequence[Asked], released: Sequence[Sequence[int]]) -> Noise:
    k = np.array(
        [
            [answer - value for answer, value in zip(answers, one.query.value, strict=True)]
            for one, answers in zip(asked, released, strict=True)
        ],
        dtype=object,
    )
    scales = np.array([float(one.query.sensitivity / one.epsilon) for one in asked])
    v = k.astype(np.float64) * np.sqrt(asked[0].query.weights) / scales[:, None]
    norm = asked[0].query.norm
    lengths = np.linalg.norm(v, axis=1, ord=np.inf if norm == "sup" else 2)
    directions = v / np.where(lengths > 0, lengths, 1.0)[:, None]
    return Noise(lengths, directions, (k % LOW_BITS).astype(np.float64), norm)


def few_draws_finding(name: str, claim: str, found: str, noises: Sequence[Noise]) -> Finding:
    """The tests that hold for a hundred draws too: scale, lengths and mean direction. `found` if they pass.

    Draws from the operating system differ every time, so what is found does not show their p-values.
    """
    tests = [[test for test in _law(noise) if test[0] in FEW_DRAWS] for noise in noises]
    finding = _finding(name, claim, [iter(several) for several in tests])
    numbers = min(noise.lengths.size * noise.dimension for noise in noises)
    caught = _caught_error(numbers, len(FEW_DRAWS) * len(noises))
    return Finding(
        name,
        claim,
        found if finding.passed else finding.found,
        f"{finding.confidence}; a scale off by {caught:.0%} is caught",
        finding.passed,
        {"draws": float(noises[0].lengths.size), "scale_error_caught": caught},
    )


def law_finding(noises: Sequence[Noise]) -> Finding:
    """Whether every query's noise has the promised law."""
    finding = _finding("noise", "noise has the promised law and scale", [_law(noise) for noise in noises])
    if not noises:
        return finding
    ratio = max(float(noise.lengths.mean()) / noise.dimension for noise in noises)
    least = min(float(noise.lengths.mean()) / noise.dimension for noise in noises)
    tests = 6 if any(noise.norm == "sup" for noise in noises) else 5
    caught = _caught_error(min(noise.lengths.size * noise.dimension for noise in noises), tests * len(noises))
    return Finding(
        finding.name,
        finding.claim,
        f"scale {least:.3f} to {ratio:.3f} of the promised one; {finding.found}",
        f"{finding.confidence}; a scale off by {caught:.1%} is caught",
        finding.passed,
        {**finding.figures, "least_scale": least, "largest_scale": ratio, "scale_error_caught": caught},
    )


def independence_finding(noises: Sequence[Noise]) -> Finding:
    """Whether the noises of one release know nothing of each other, and a release nothing of the one before."""
    tests = [_together(one, other) for one, other in combinations(noises, 2)]
    tests += [_together(_part(noise, slice(1, None)), _part(noise, slice(-1))) for noise in noises]
    return _finding("independence", "every query of every release has its own noise", tests)


def _finding(name: str, claim: str, tests: Sequence[Iterator[PValue]]) -> Finding:
    found = [test for several in tests for test in several]
    if not found:
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


def _law(noise: Noise) -> Iterator[PValue]:
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


def _together(one: Noise, other: Noise) -> Iterator[PValue]:
    """Directions u, u' that are independent have E[uu'ᵀ] = 0, every entry with the product of both variances."""
    N, d, e = len(one.lengths), one.dimension, other.dimension
    mean = one.directions.T @ other.directions / N
    yield "directions together", _chi2(N * one.precision * other.precision * np.sum(mean**2), d * e)
    stuck = (
        min(np.ptp(one.lengths), np.ptp(other.lengths)) == 0
    )  # then ranks say nothing, and no noise is drawn at all
    yield "lengths together", 0.0 if stuck else float(stats.spearmanr(one.lengths, other.lengths).pvalue)


def _part(noise: Noise, rows: slice) -> Noise:
    return Noise(noise.lengths[rows], noise.directions[rows], noise.low_bits[rows], noise.norm)


def _chi2(statistic: float, freedom: int) -> float:
    return float(stats.chi2.sf(statistic, freedom))


def _caught_error(numbers: int, tests: int) -> float:
    """The relative error of the scale that the test of the scale misses with probability MISSED at most.

    The mean of so many unit exponentials lies within (1 ± z/√numbers) of its promise with the level's z, and of its
    true value with that of MISSED; so many tests share the false alarm.
    """
    inside = stats.norm.isf(FALSE_ALARM / tests / 2) / np.sqrt(numbers)
    return float((1 + inside) / (1 - stats.norm.isf(MISSED) / np.sqrt(numbers)) - 1)

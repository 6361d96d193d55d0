"""Slow, obviously right twins of truthful.noise and truthful.lattice, and the sampler that is wrong on purpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import numpy.typing as npt
from flint import arb, ctx, fmpq, fmpz
from scipy import stats

from truthful.check import Floats
from truthful.lattice import Bits
from truthful.noise import L2Laplace

Integers = npt.NDArray[np.int64]


def marginal_pdf(x: float, d: int) -> float:
    """|x|^(d/2) K_{d/2}(|x|) / (sqrt(π) 2^(d/2) Γ((d+1)/2)): the inverse of the Fourier transform (1+t²)^(−(d+1)/2)."""
    with mpmath.workdps(30):
        order, size = mpmath.mpf(d) / 2, abs(mpmath.mpf(x))
        if size == 0:
            return float(mpmath.gamma(order) / mpmath.gamma(order + 0.5) / 2 / mpmath.sqrt(mpmath.pi))
        constant = mpmath.sqrt(mpmath.pi) * 2**order * mpmath.gamma(order + 0.5)
        return float(size**order * mpmath.besselk(order, size) / constant)


def marginal_cdf(x: float, d: int) -> float:
    """P(v·e ≤ x) at scale 1 from the joint law: ‖v‖ = r is Gamma(d), and (e·v/r)² is Beta(1/2, (d−1)/2), d ≥ 2."""
    with mpmath.workdps(20):
        size = mpmath.mpf(abs(x))

        def beyond(r: mpmath.mpf) -> mpmath.mpf:
            """The density of r times the share of the sphere of radius r with v·e above |x|."""
            share = mpmath.betainc((d - 1) / mpmath.mpf(2), 0.5, 0, 1 - (size / r) ** 2, regularized=True) / 2
            return share * mpmath.exp((d - 1) * mpmath.log(r) - r - mpmath.loggamma(d))

        spread = 12 * mpmath.sqrt(d)
        ends = sorted(
            {size, max(size, d - spread), max(size, d), max(size, d) + spread, max(size, d) + spread + 60}
        )
        tail = mpmath.quad(beyond, ends)
        return float(1 - tail if x >= 0 else tail)


def log_density(law: L2Laplace, v: Floats) -> Floats:
    """The log density at vectors v, shape (…, d): −‖v‖/s − log(s^d Γ(d) · area of the unit sphere)."""
    d, s = law.dimension, law.scale
    log_area = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2)
    norms = np.linalg.norm(v, axis=-1)
    return np.asarray(-norms / s - d * math.log(s) - math.lgamma(d) - log_area)


class TwisterBits:
    """Bits of the Mersenne Twister: as fair as any for the law of a sampler, and the fastest there are here."""

    def __init__(self, seed: int) -> None:
        self.bits = Random(seed).getrandbits

    def below(self, n: int) -> int:
        width = (n - 1).bit_length()
        while (u := self.bits(width)) >= n:
            pass
        return u


def lattice_law(
    scale: Fraction, weights: Sequence[int], reach: int, norm: str = "l2"
) -> tuple[Integers, Floats]:
    """All integer vectors with entries within ±reach, one per row, and their probabilities ∝ exp(−‖k‖_w/scale)."""
    side = np.arange(-reach, reach + 1)
    points = np.stack(np.meshgrid(*[side] * len(weights), indexing="ij"), axis=-1).reshape(-1, len(weights))
    lengths = np.sqrt((points**2 * np.array(weights)).sum(axis=1))
    if norm == "sup":
        lengths = np.abs(points).max(axis=1)
    mass = np.exp(-lengths / float(scale))
    return points, mass / mass.sum()


def interval_sample(d: int, scale: int, bits: Bits) -> list[int]:
    """The continuous L2-Laplace vector of that scale, rounded to integers, by ball arithmetic.

    Interval refining (Haney, Desfontaines, Hartman, Shrestha and Hay, "Precision-based attacks and interval refining",
    2022): V = scale·G·N/‖N‖ with G = −Σ log U_i and N by Box-Muller is evaluated on balls that hold the uniforms;
    more of their bits are drawn until every coordinate has one rounding.
    """
    precision = 96
    uniforms = [bits.bits(precision) for _ in range(d + 2 * ((d + 1) // 2))]
    while True:
        ctx.prec = precision + 40
        half, unit = arb(1) / 2, arb(1) / arb(2) ** precision
        balls = [(arb(fmpz(u)) + arb(half, half)) * unit for u in uniforms]
        rounded = [(y + half).floor().unique_fmpz() for y in _continuous_draw(d, scale, balls)]
        if all(k is not None for k in rounded):
            return [int(k) for k in rounded]
        uniforms = [u << precision | bits.bits(precision) for u in uniforms]
        precision *= 2


def _continuous_draw(d: int, scale: int, balls: list[arb]) -> list[arb]:
    radius = -sum((u.log() for u in balls[:d]), arb(0))
    normals = []
    for u, angle in zip(balls[d::2], balls[d + 1 :: 2], strict=True):
        size = (-2 * u.log()).sqrt()
        normals += [size * (2 * angle).cos_pi(), size * (2 * angle).sin_pi()]
    normals = normals[:d]
    length = sum((z * z for z in normals), arb(0)).sqrt()
    return [arb(fmpq(scale)) * radius * z / length for z in normals]


def goodness_of_fit(draws: Floats, law: L2Laplace) -> float:
    """A p-value for "the rows of draws follow the law": Bonferroni over tests of norms, marginals and directions.

    The total norm is Gamma(n d, s), which makes the first test sensitive to a relative error 1/sqrt(n d) of the scale.
    """
    n, d = draws.shape
    norms = np.linalg.norm(draws, axis=1)
    some = slice(0, 20_000)  # enough for the laws along lines, which are dear
    directions = (draws / norms[:, None])[some]
    total = stats.gamma(n * d, scale=law.scale).cdf(norms.sum())
    p_values = [2 * min(total, 1 - total)]
    p_values += _uniformity(stats.gamma(d, scale=law.scale).cdf(norms))
    for v in (draws[:, 0], draws[:, -1], draws @ np.full(d, d**-0.5)):
        p_values += _uniformity(law.marginal_cdf(v[some]))
    p_values.append(stats.chi2(d).sf(np.sum(np.sign(draws).sum(axis=0) ** 2) / n))
    if d > 1:
        half = np.sum(directions[:, : d // 2] ** 2, axis=1)
        p_values += _uniformity(stats.beta(0.5, (d - 1) / 2).cdf(directions[:, 0] ** 2))
        p_values += _uniformity(stats.beta(d // 2 / 2, (d - d // 2) / 2).cdf(half))
        p_values.append(stats.spearmanr(half, norms[some]).pvalue)
    return float(min(p_values) * len(p_values))


def _uniformity(u: Floats) -> list[float]:
    """p-values of two tests that u is uniform: Kolmogorov-Smirnov, and chi-square in 40 bins."""
    counts = np.histogram(u, bins=40, range=(0, 1))[0]
    return [float(stats.kstest(u, "uniform").pvalue), float(stats.chisquare(counts).pvalue)]


def textbook_release(value: float, scale: float, rng: np.random.Generator, size: int) -> Floats:
    """The sampler of the textbooks in d = 1: value + Gamma(1, scale) radius · random sign, in floats. It leaks."""
    signs = rng.choice([-1.0, 1.0], size)
    return np.asarray(value + rng.gamma(1.0, scale, size) * signs)

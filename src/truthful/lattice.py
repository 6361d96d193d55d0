"""The exact samplers for releases: Laplace noise on the integer lattice, in integer arithmetic only.

`sample` uses the L2 norm:

    P(k) ∝ exp(−‖k‖_w / t),   ‖k‖_w = sqrt(Σ_j w_j k_j²),   t a positive fraction, w_j positive integers.

Adding it to an integer vector whose (weighted) L2 sensitivity is at most Δ is exactly (Δ/t)-differentially
private: nothing is rounded, so nothing leaks through rounding. Floating-point samplers do leak (Mironov, "On
significance of the least significant bits for differential privacy", 2012). It is recursive rejection:

1. Split k = (k_A, k_B). For c_A² + c_B² ≤ 1, Cauchy-Schwarz gives ‖k‖ ≥ c_A‖k_A‖ + c_B‖k_B‖.
2. Draw k_A at the scale t/c_A and k_B at the scale t/c_B, each by the same method.
3. Accept with probability exp(−(‖k‖ − c_A‖k_A‖ − c_B‖k_B‖)/t), else start again at 2.

With c_A = sqrt(d_A/d), c_B = sqrt(d_B/d) the acceptance stays near 0.7 a level as long as t is well above 1
(the noise covers many lattice points, as in every release), so that a draw costs about d^1.5 one-dimensional
ones. Those are discrete Laplace draws (Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy", 2020). Acceptance probabilities are irrational, and are met exactly: lazily drawn bits of a uniform
number are compared with integer enclosures that are refined until the comparison is certain.

`sample_sup` uses the sup norm: P(k) ∝ exp(−‖k‖_∞/t), which is as private for a sensitivity in that norm. It needs no
roots: given a whole number r ≥ ‖k‖_∞ of the right distribution, k is uniform on the cube of that half-width.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import isqrt, prod
from typing import NamedTuple, Protocol

from truthful import check
from truthful.errors import InputError

# The constants c_A, c_B are multiples of 2^-16, rounded down: the loss of acceptance is about d·2^-16.
SPLIT = 16
# A leaf's rate sqrt(w) is rounded down to a multiple of 2^-64, so that the remainder almost never matters.
ROOT = 64
# The bits of the first comparison; the precision doubles while a comparison is undecided.
WORD = 32


class Bits(Protocol):
    """A source of independent fair bits."""

    def bits(self, n: int) -> int:
        """n fair bits, as an integer 0 ≤ u < 2^n."""
        ...

    def below(self, n: int) -> int:
        """A uniform integer in 0, …, n−1, exactly."""
        ...


class SystemBits:
    """The operating system's cryptographic generator, for draws that nobody should repeat.

    Nothing is buffered: bits kept in memory would be the same in two processes after a fork.
    """

    def bits(self, n: int) -> int:
        return secrets.randbits(n)

    def below(self, n: int) -> int:
        return secrets.randbelow(n)


class HashedBits:
    """Bits determined by a prefix: SHAKE-256 of the prefix and a block counter, which ends it.

    The stream is the same on every platform and version, since it is no more than a hash.
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._blocks = 0
        self._bytes = b""
        self._used = 0

    def bits(self, n: int) -> int:
        # Whole bytes, little-endian; the surplus bits of the last one are dropped.
        size = (n + 7) // 8
        while self._used + size > len(self._bytes):
            self._extend()
        chunk = self._bytes[self._used : self._used + size]
        self._used += size
        return int.from_bytes(chunk, "little") & ((1 << n) - 1)

    def below(self, n: int) -> int:
        if not n > 0:
            raise InputError(f"n is {n}; there is no whole number from 0 up to below it.")
        width = (n - 1).bit_length()
        while (u := self.bits(width)) >= n:
            pass
        return u

    def _extend(self) -> None:
        block = hashlib.shake_256(self._prefix + str(self._blocks).encode()).digest(1024)
        self._bytes = self._bytes[self._used :] + block
        self._used = 0
        self._blocks += 1


class SeededBits(HashedBits):
    """Bits determined by a seed, for rehearsals and tests."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"truthful/bits/{check.integer('seed', seed, least=0)}/".encode())


#: The length of a secret key: the security level of SHAKE-256.
KEY_BYTES = 32


class KeyedBits(HashedBits):
    """Bits determined by a secret key and a public label: without the key they cannot be told from fair ones.

    The key comes first and has a fixed length, so that no two triples of key, label and block give the same input.
    """

    def __init__(self, key: bytes, label: str) -> None:
        if len(key) != KEY_BYTES:
            raise InputError(f"The key has {len(key)} bytes; {KEY_BYTES} are needed.")
        super().__init__(key + f"{label}/".encode())


def sample(dimension: int, scale: Fraction, bits: Bits, weights: Sequence[int] | None = None) -> list[int]:
    """One exact draw of P(k) ∝ exp(−sqrt(Σ w_j k_j²)/scale) on integer vectors; weights 1 unless given."""
    d = check.integer("dimension", dimension)
    ratio = _ratio(scale)
    given = [1] * d if weights is None else weights
    if len(given) != d:
        raise InputError(f"weights has {len(given)} entries; {d} were expected, one per coordinate.")
    exact = [check.integer(f"weights[{j}]", weight) for j, weight in enumerate(given)]
    k, _ = _vector(exact, *ratio, bits)
    return k


def sample_sup(dimension: int, scale: Fraction, bits: Bits) -> list[int]:
    """One exact draw of P(k) ∝ exp(−max|k_j|/scale) on integer vectors.

    With q = e^(−1/scale), q^‖k‖ = (1−q)·Σ_{r ≥ ‖k‖} q^r: so r has the weight (2r+1)^d q^r, and k is uniform on
    {−r, …, r}^d. The sum of d+1 geometrics has the weight C(r+d, d) q^r; it is accepted with the probability
    (2r+1)^d/(2^d·d!·C(r+d, d)) = Π_{i=1…d} (2r+1)/(2(r+i)), which is at most 1.
    """
    d, n, m = check.integer("dimension", dimension), *_ratio(scale)
    while True:
        r = sum(_geometric(n, m, bits) for _ in range(d + 1))
        if bits.below(prod(2 * (r + i) for i in range(1, d + 1))) < (2 * r + 1) ** d:
            return [bits.below(2 * r + 1) - r for _ in range(d)]


def _ratio(scale: Fraction) -> tuple[int, int]:
    """The numerator and denominator of a scale."""
    if type(scale) not in (Fraction, int):
        raise InputError(f"scale is {scale!r}; it must be a Fraction, so that no rounding enters the noise.")
    if not scale > 0:
        raise InputError(f"scale is {scale}; it must be above 0.")
    return scale.numerator, scale.denominator


def _vector(weights: Sequence[int], n: int, m: int, bits: Bits) -> tuple[list[int], int]:
    """A draw k at the scale n/m, and its Σ w_j k_j²."""
    d = len(weights)
    if d == 1:
        k = _weighted_laplace(weights[0], n, m, bits)
        return [k], weights[0] * k * k
    half = d // 2
    c_A, c_B = _constants(half, d)
    while True:
        k_A, N_A = _vector(weights[:half], n << SPLIT, m * c_A, bits)
        k_B, N_B = _vector(weights[half:], n << SPLIT, m * c_B, bits)
        N = N_A + N_B
        excess = RootSum(((1 << SPLIT, N), (-c_A, N_A), (-c_B, N_B)), m, n << SPLIT)
        if bernoulli_exp(excess, bits):
            return k_A + k_B, N


@cache
def _constants(half: int, d: int) -> tuple[int, int]:
    """sqrt(half/d) and sqrt(1 − half/d) in units of 2^-16; rounded down, so that c_A² + c_B² ≤ 1."""
    return isqrt((half << 2 * SPLIT) // d), isqrt(((d - half) << 2 * SPLIT) // d)


def _weighted_laplace(weight: int, n: int, m: int, bits: Bits) -> int:
    """P(k) ∝ exp(−sqrt(weight)·|k|·m/n): propose at a rational rate just below, accept with the remainder."""
    root = isqrt(weight)
    if root * root == weight:
        return discrete_laplace(n, m * root, bits)
    below = isqrt(weight << 2 * ROOT)
    while True:
        k = discrete_laplace(n << ROOT, m * below, bits)
        if bernoulli_exp(RootSum(((1 << ROOT, weight * k * k), (-below, k * k)), m, n << ROOT), bits):
            return k


def discrete_laplace(n: int, m: int, bits: Bits) -> int:
    """P(k) ∝ exp(−|k|·m/n) on the integers (Canonne et al. 2020, Algorithm 2)."""
    while True:
        size = _geometric(n, m, bits)
        negative = bits.bits(1)
        # Zero is kept with one sign only; else it would count twice.
        if not (negative and size == 0):
            return -size if negative else size


def _geometric(n: int, m: int, bits: Bits) -> int:
    """P(k) ∝ exp(−k·m/n) on 0, 1, …"""
    while True:
        # u + n·v is geometric with rate 1/n: u by rejection on 0..n−1, v one factor e^-1 at a time.
        u = bits.below(n)
        if _bernoulli_exp_fraction(u, n, bits):
            break
    v = 0
    while _bernoulli_exp_fraction(1, 1, bits):
        v += 1
    return (u + n * v) // m


def _bernoulli_exp_fraction(n: int, m: int, bits: Bits) -> bool:
    """True with probability exp(−n/m), 0 ≤ n ≤ m (Canonne et al. 2020, Algorithm 1)."""
    j = 1
    while bits.below(m * j) < n:
        j += 1
    return j & 1 == 1


class RootSum(NamedTuple):
    """The real number (multiplier/divisor)·Σ a_i sqrt(N_i), known to be zero or above."""

    terms: tuple[tuple[int, int], ...]
    multiplier: int
    divisor: int

    def enclosure(self, precision: int) -> tuple[int, int, int]:
        """Integers with low/unit ≤ the number ≤ high/unit, from roots known to 2^-precision."""
        low = high = 0
        for a, N in self.terms:
            root = isqrt(N << 2 * precision)
            low += a * root
            high += a * root
            if root * root == N << 2 * precision:
                continue  # exact; widening it would cost (multiplier/divisor)·2^-precision draws at a tiny scale
            if a > 0:
                high += a
            else:
                low += a
        return max(low * self.multiplier, 0), high * self.multiplier, self.divisor << precision


def bernoulli_exp(x: RootSum, bits: Bits) -> bool:
    """True with probability exp(−x): exp(−x/m)^m, integer m ≥ x, each factor by its alternating series."""
    first = x.enclosure(WORD)
    m = max(1, -(-first[1] // first[2]))
    for _ in range(m):
        j = 1
        while _bernoulli(x, m * j, first, bits):
            j += 1
        if j & 1 == 0:
            return False
    return True


def _bernoulli(x: RootSum, divisor: int, first: tuple[int, int, int], bits: Bits) -> bool:
    """True with probability x/divisor ≤ 1: draw bits of a uniform U until U < x/divisor is certain or not."""
    precision, u, (low, high, unit) = WORD, bits.bits(WORD), first
    while True:
        # u/2^precision ≤ U < (u + 1)/2^precision, and x/divisor lies in [low, high]/(unit·divisor).
        if (u + 1) * unit * divisor <= low << precision:
            return True
        if u * unit * divisor >= high << precision:
            return False
        u = u << precision | bits.bits(precision)
        precision *= 2
        low, high, unit = x.enclosure(precision)

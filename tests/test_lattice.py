"""The exact sampler: the exact law on coarse lattices, the continuous law on fine ones, and no float anywhere.

Every statistical test here has a false-alarm probability of at most 1e-6 (its seed is fixed, so it never flickers).
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support import oracles_noise as oracles

from truthful import lattice
from truthful.check import Floats
from truthful.errors import InputError
from truthful.lattice import RootSum, SeededBits, bernoulli_exp, discrete_laplace, sample, sample_sup
from truthful.noise import L2Laplace

FALSE_ALARM = 1e-6
FINE = Fraction(2**20)
# A wrong scale shifts the total norm by 0.02·sqrt(n d) standard deviations: 8.9 at n d = 200,000.
FINE_ENTRIES = 200_000
# A scale that is a tenth off escapes so many coarse draws with a probability of at most 1.5 %, below 0.2 % but for the
# flattest law in two dimensions; a weight that is forgotten never does.
COARSE_DRAWS = 12_000


def coarse_fit(
    draws: Sequence[Sequence[int]], scale: Fraction, weights: Sequence[int], norm: str = "l2"
) -> float:
    """The chi-square p-value of the draws against the enumerated law; points expected fewer than 5 times are pooled."""
    reach = max(30, math.ceil(32 * scale)) if len(weights) < 3 else math.ceil(28 * scale)
    _, law = oracles.lattice_law(scale, weights, reach, norm)
    cells = np.ravel_multi_index(tuple(np.array(draws).T + reach), (2 * reach + 1,) * len(weights))
    counts = np.bincount(cells, minlength=len(law))
    expected = law * len(draws)
    common = expected >= 5
    if expected[~common].sum() < 5:
        common[np.argmin(np.where(common, expected, np.inf))] = False
    observed = np.append(counts[common], counts[~common].sum())
    return float(stats.chisquare(observed, np.append(expected[common], expected[~common].sum())).pvalue)


def coarse_draws(scale: Fraction, weights: Sequence[int], seed: int) -> list[list[int]]:
    bits = oracles.TwisterBits(seed)
    return [sample(len(weights), scale, bits, weights) for _ in range(COARSE_DRAWS)]


@pytest.mark.parametrize(
    ("scale", "weights"),
    [
        (Fraction(1, 2), (1,)),
        (Fraction(7, 3), (1,)),
        (Fraction(3, 2), (2,)),
        (Fraction(5), (9,)),
        (Fraction(2, 3), (1, 1)),
        (Fraction(5, 2), (1, 1)),
        (Fraction(3, 2), (2, 7)),
        (Fraction(1, 2), (1, 1, 1)),
        (Fraction(1), (1, 1, 1)),
        (Fraction(4, 3), (1, 2, 1)),
    ],
)
def test_coarse_draws_follow_the_enumerated_law(scale: Fraction, weights: tuple[int, ...]) -> None:
    assert coarse_fit(coarse_draws(scale, weights, seed=11), scale, weights) > FALSE_ALARM


def test_a_sampler_that_forgets_a_weight_or_misses_its_scale_is_caught() -> None:
    weights, scale = (1, 2, 1), Fraction(4, 3)
    assert coarse_fit(coarse_draws(scale, (1, 1, 1), seed=12), scale, weights) < FALSE_ALARM
    assert coarse_fit(coarse_draws(scale * Fraction(9, 10), weights, seed=13), scale, weights) < FALSE_ALARM


@pytest.mark.parametrize("d", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_fine_draws_follow_the_continuous_law_and_two_percent_larger_they_would_not(d: int) -> None:
    """On a lattice of 2^20 points to the scale the difference to the continuous law is far below what shows."""
    bits, law = oracles.TwisterBits(1000 + d), L2Laplace(d, 1.0)
    draws = np.array([sample(d, FINE, bits) for _ in range(FINE_ENTRIES // d)]) / float(FINE)
    assert oracles.goodness_of_fit(draws, law) > FALSE_ALARM
    assert oracles.goodness_of_fit(1.02 * draws, law) < FALSE_ALARM
    assert oracles.goodness_of_fit(0.98 * draws, law) < FALSE_ALARM


@pytest.mark.parametrize("d", [2, 6])
def test_fine_weighted_draws_are_unweighted_ones_after_stretching(d: int) -> None:
    bits, weights = SeededBits(21), [1, 2, 3, 5, 4, 100][:d]
    draws = np.array([sample(d, FINE, bits, weights) for _ in range(30_000 // d)]) / float(FINE)
    assert oracles.goodness_of_fit(draws * np.sqrt(weights), L2Laplace(d, 1.0)) > FALSE_ALARM
    assert oracles.goodness_of_fit(draws, L2Laplace(d, 1.0)) < FALSE_ALARM


@pytest.mark.parametrize(("d", "size"), [(1, 12_000), (2, 5_000), (10, 2_000)])
def test_interval_arithmetic_is_a_second_opinion(d: int, size: int) -> None:
    """Two-sample Kolmogorov-Smirnov on norms, entries, sums and the share of one entry in the norm (Bonferroni)."""
    bits, scale = SeededBits(31), 2**20
    recursive = np.array([sample(d, Fraction(scale), bits) for _ in range(size)], dtype=float)
    refined = np.array([oracles.interval_sample(d, scale, bits) for _ in range(size)], dtype=float)
    p_values = [stats.ks_2samp(*pair).pvalue for pair in zip(views(recursive), views(refined), strict=True)]
    assert min(p_values) * len(p_values) > FALSE_ALARM


def views(v: Floats) -> list[Floats]:
    norms = np.linalg.norm(v, axis=1)
    return [norms, v[:, 0], v.sum(axis=1), v[:, -1] / norms]


def test_the_noise_of_a_symmetric_matrix_of_fifty_features_is_drawn() -> None:
    """Its weighted norm is Gamma(1275): within the interval that holds all but 1e-6 of it."""
    weights = [1 if j == i else 2 for i in range(50) for j in range(i, 50)]
    k = sample(1275, FINE, SeededBits(41), weights)
    norm = math.sqrt(sum(w * x * x for w, x in zip(weights, k, strict=True))) / float(FINE)
    assert stats.gamma(1275).ppf(FALSE_ALARM / 2) < norm < stats.gamma(1275).isf(FALSE_ALARM / 2)


@pytest.mark.parametrize(
    ("scale", "d"),
    [(Fraction(1, 2), 1), (Fraction(7, 3), 1), (Fraction(2, 3), 2), (Fraction(5, 2), 2), (Fraction(3, 4), 3)],
)
def test_sup_draws_follow_the_enumerated_law(scale: Fraction, d: int) -> None:
    """Along one coordinate it is the discrete Laplace law. A tenth off the scale, or L2 noise, would be seen."""
    bits = oracles.TwisterBits(17)
    draws, off = (
        [sample_sup(d, s, bits) for _ in range(COARSE_DRAWS)] for s in (scale, scale * Fraction(9, 10))
    )
    assert coarse_fit(draws, scale, (1,) * d, "sup") > FALSE_ALARM
    assert coarse_fit(off, scale, (1,) * d, "sup") < FALSE_ALARM
    assert (coarse_fit(draws, scale, (1,) * d) > FALSE_ALARM) == (d == 1)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_fine_sup_draws_have_gamma_lengths_on_a_uniform_cube(d: int) -> None:
    """Bonferroni over lengths, faces and what lies on them."""
    bits, n = oracles.TwisterBits(18 + d), 4_000
    draws = np.array([sample_sup(d, FINE, bits) for _ in range(n)], dtype=np.float64) / float(FINE)
    lengths = np.abs(draws).max(axis=1)
    at = np.abs(draws).argmax(axis=1)
    faces = 2 * at + (draws[np.arange(n), at] > 0)
    inner = np.delete((draws / lengths[:, None]).ravel(), np.arange(n) * d + at)
    p_values = [
        stats.kstest(lengths, stats.gamma(d).cdf).pvalue,
        stats.chisquare(np.bincount(faces, minlength=2 * d)).pvalue,
        *([stats.kstest(inner, stats.uniform(-1, 2).cdf).pvalue] if d > 1 else []),
    ]
    assert min(p_values) * len(p_values) > FALSE_ALARM


def test_draws_come_from_their_bits_alone() -> None:
    assert sample_sup(3, FINE, SeededBits(7)) == [1088716, -869987, 391928]
    assert sample_sup(3, FINE, SeededBits(8)) != [1088716, -869987, 391928]
    first = sample(5, FINE, SeededBits(7))
    assert first == [1299334, 763285, -2316955, -2928432, 3138152]
    assert first == sample(5, FINE, SeededBits(7), [1] * 5)
    assert sample(3, FINE / 3, SeededBits(8), (1, 2, 1)) == [-678817, 490451, 279320]
    assert first != sample(5, FINE, SeededBits(9))


def test_weights_may_be_numpy_integers_without_overflow() -> None:
    weights = np.array([2**40, 2**40])
    exact = sample(2, FINE * 2**40, SeededBits(5), [2**40, 2**40])
    assert sample(2, FINE * 2**40, SeededBits(5), list(weights)) == exact


@pytest.mark.parametrize(("n", "m"), [(1, 2), (3, 2), (7, 1), (10**30, 3 * 10**29)])
def test_discrete_laplace_has_its_law(n: int, m: int) -> None:
    bits = SeededBits(n % 97)
    draws = [[discrete_laplace(n, m, bits)] for _ in range(COARSE_DRAWS)]
    assert coarse_fit(draws, Fraction(n, m), (1,)) > FALSE_ALARM


@pytest.mark.parametrize(
    "x",
    [
        RootSum(((1, 2),), 1, 3),
        RootSum(((1, 2), (-1, 1)), 1, 1),
        RootSum(((3, 5),), 1, 2),
        RootSum(((0, 1),), 1, 1),
    ],
)
def test_bernoulli_exp_is_true_with_probability_exp_minus_x(x: RootSum) -> None:
    """A probability that is off by 0.03 would be seen 999 times in 1,000."""
    bits, n = SeededBits(51), 20_000
    hits = sum(bernoulli_exp(x, bits) for _ in range(n))
    exact = math.exp(-sum(a * math.sqrt(N) for a, N in x.terms) * x.multiplier / x.divisor)
    assert stats.binomtest(hits, n, exact).pvalue > FALSE_ALARM


class ScriptedBits:
    """Bits of the given uniform numbers, one after the other: each `lattice.WORD` starts or refines one."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def bits(self, n: int) -> int:
        return self.words.pop(0)

    def below(self, n: int) -> int:
        raise NotImplementedError


@pytest.mark.parametrize(("nudge", "outcome"), [(1, True), (-1, False)])
def test_a_close_comparison_draws_more_bits_until_it_is_certain(nudge: int, outcome: bool) -> None:
    """x = sqrt(2)/2 and U agree in 32 bits. U above x: the series ends at its first term, and the answer is yes.
    U below x: one more uniform, above x/2, ends it at the second term, and the answer is no."""
    x = RootSum(((1, 2),), 1, 2)
    nearest = (math.isqrt(2 << 128) >> 1) + nudge * 2**20
    script = ScriptedBits([nearest >> 32, nearest % 2**32, 2**32 - 1])
    assert bernoulli_exp(x, script) is outcome
    assert len(script.words) == (1 if outcome else 0)


@given(st.integers(1, 10**12), st.integers(0, 10**24), st.integers(0, 10**24), st.integers(8, 200))
def test_enclosures_hold_the_number_and_narrow(c: int, N: int, M: int, precision: int) -> None:
    """For c(sqrt(N+M) + sqrt(N) − sqrt(M)) ≥ 0: a finer enclosure lies inside a coarser one."""
    x = RootSum(((c, N + M), (c, N), (-c, M)), 3, 7)
    low, high, unit = (Fraction(v) for v in x.enclosure(precision))
    finer_low, finer_high, finer_unit = (Fraction(v) for v in x.enclosure(2 * precision))
    assert 0 <= low / unit <= finer_low / finer_unit <= finer_high / finer_unit <= high / unit
    assert high / unit - low / unit <= Fraction(9 * c, 7 * 2**precision)


def test_the_constants_of_every_split_obey_cauchy_schwarz_and_waste_little() -> None:
    for d in range(2, 2001):
        c_A, c_B = lattice._constants(d // 2, d)
        assert 1 - 2 ** (2 - lattice.SPLIT) < (c_A**2 + c_B**2) / 4**lattice.SPLIT <= 1


def test_seeded_bits_are_the_same_everywhere() -> None:
    bits = SeededBits(0)
    assert [bits.bits(8) for _ in range(4)] == [78, 255, 180, 200]
    assert bits.bits(64) == 4319291040937773102
    assert (bits.bits(3), bits.bits(0)) == (2, 0)
    assert [bits.below(10) for _ in range(8)] == [0, 4, 4, 9, 6, 1, 4, 0]
    assert bits.below(10**30) == 582043885876340057662578273923
    assert SeededBits(12345678901234567890).bits(128) == 211762235488048574638230638066588633954


def test_seeded_bits_run_on_across_blocks() -> None:
    """A request longer than a block is the same bytes as many short ones."""
    short = SeededBits(3)
    assert SeededBits(3).bits(8 * 5000).to_bytes(5000, "little") == bytes(short.bits(8) for _ in range(5000))


@pytest.mark.parametrize("source", [SeededBits(61), lattice.SystemBits()])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 2**64 + 1])
def test_bits_and_below_stay_in_range(source: lattice.Bits, n: int) -> None:
    assert all(0 <= source.below(n) < n for _ in range(200))
    width = n.bit_length()
    assert all(0 <= source.bits(width) < 2**width for _ in range(200))
    assert source.bits(0) == 0


@pytest.mark.parametrize("n", [2, 3, 5, 6, 255, 256, 257])
def test_below_is_uniform(n: int) -> None:
    bits = SeededBits(71)
    counts = np.bincount([bits.below(n) for _ in range(20_000)], minlength=n)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_every_bit_is_fair() -> None:
    bits, n = SeededBits(72), 20_000
    words = [bits.bits(37) for _ in range(n)]
    ones = np.array([sum(word >> j & 1 for word in words) for j in range(37)])
    assert stats.chi2(37).sf(np.sum((2 * ones - n) ** 2) / n) > FALSE_ALARM


def test_below_takes_the_first_word_that_is_small_enough() -> None:
    words, below = SeededBits(73), SeededBits(73)
    expected = [word for word in (words.bits(3) for _ in range(400)) if word < 5]
    assert [below.below(5) for _ in expected] == expected


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1, 2), -1, 0.5, math.nan, "1"])
def test_a_scale_that_is_not_a_positive_fraction_is_refused(scale: Fraction) -> None:
    with pytest.raises(InputError, match="scale is"):
        sample(2, scale, SeededBits(0))
    with pytest.raises(InputError, match="scale is"):
        sample_sup(2, scale, SeededBits(0))


@pytest.mark.parametrize("weights", [[1, 0], [1, -2], [1, 1.5], [1, True], [1], [1, 1, 1], []])
def test_weights_that_are_not_positive_integers_one_per_coordinate_are_refused(weights: list[int]) -> None:
    with pytest.raises(InputError, match="weights"):
        sample(2, Fraction(1), SeededBits(0), weights)


def test_bad_dimensions_and_seeds_and_empty_ranges_are_refused() -> None:
    with pytest.raises(InputError, match="dimension is 0"):
        sample(0, Fraction(1), SeededBits(0))
    with pytest.raises(InputError, match="dimension is 0"):
        sample_sup(0, Fraction(1), SeededBits(0))
    with pytest.raises(InputError, match="seed is -1"):
        SeededBits(-1)
    with pytest.raises(InputError, match="n is 0"):
        SeededBits(0).below(0)


def float_traces(source: str) -> list[str]:
    """Everything in a source that could bring in a float: literals, true division, float() and foreign imports."""
    allowed = {
        "hashlib",
        "secrets",
        "collections.abc",
        "fractions",
        "functools",
        "math",
        "typing",
        "truthful",
    }
    traces = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value=float() | complex()):
                traces.append(f"literal {node.value!r}")
            case ast.Div():
                traces.append("division")
            case ast.Name(id="float" | "complex" | "round" | "pow"):
                traces.append(f"name {node.id}")
            case ast.Import(names=names):
                traces += [f"import {name.name}" for name in names if name.name not in allowed]
            case ast.ImportFrom(module="math", names=names):
                traces += [f"math.{name.name}" for name in names if name.name not in ("isqrt", "prod")]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] not in allowed | {"collections"}:
                traces += [] if module == "__future__" else [f"from {module}"]
    return traces


def test_the_sampler_holds_no_float() -> None:
    assert float_traces(inspect.getsource(lattice)) == []


@pytest.mark.parametrize(
    "source",
    [
        "x = 0.5",
        "x = 1 / 2",
        "x /= 2",
        "float(3)",
        "import numpy",
        "from math import exp",
        "from numpy import e",
    ],
)
def test_the_search_for_floats_finds_them(source: str) -> None:
    assert float_traces(source)


def test_a_scale_far_below_the_lattice_step_gives_zero_noise_at_once() -> None:
    """P(k ≠ 0) is about exp(−10³⁰⁰); a sampler that only encloses exact roots would not end."""
    assert sample(5, Fraction(1, 10**300), SeededBits(1)) == [0] * 5
    assert sample_sup(5, Fraction(1, 10**300), SeededBits(1)) == [0] * 5

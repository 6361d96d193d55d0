"""The keyed draw: what it depends on, and that its noise is as good for many sets of statistics as fresh noise is.

Seeds are fixed; each statistical test raises a false alarm with a probability of at most 1e-6.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from test_lattice import COARSE_DRAWS, FALSE_ALARM, FINE, coarse_fit

from truthful.errors import InputError
from truthful.lattice import KEY_BYTES, HashedBits, KeyedBits, sample, sample_sup
from truthful.noise import L2Laplace
from truthful.settlement.draw import Chance, derived_name, keyed_chance, seeded_chance

Derive = Callable[[bytes, str, str], Chance]
KEY, PLAN = bytes(range(KEY_BYTES)), "p" * 64


def statistics(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def key_of(number: int) -> bytes:
    return hashlib.sha256(f"key {number}".encode()).digest()


def noise(chance: Chance, d: int = 1) -> list[int]:
    return sample(d, FINE, chance.noise)


# What it depends on


def faults(derive: Derive) -> set[str]:
    """What is wrong with a derivation: which of the things that a draw must follow from it forgets, or adds."""
    found, first = set(), derive(KEY, PLAN, statistics(1))
    here, again = noise(first, 3), derive(KEY, PLAN, statistics(1))
    if (first.name, here) != (again.name, noise(again, 3)):
        found.add("not repeated")
    others = {
        "key": derive(key_of(2), PLAN, statistics(1)),
        "plan": derive(KEY, "q" * 64, statistics(1)),
        "statistics": derive(KEY, PLAN, statistics(2)),
    }
    for name, other in others.items():
        if first.name == other.name or any(a == b for a, b in zip(here, noise(other, 3), strict=True)):
            found.add(name)
    return found


COUNTER = iter(range(10**6))
BROKEN: dict[str, tuple[Derive, set[str]]] = {
    "a seed": (lambda key, plan, sums: seeded_chance(7, plan, sums), {"key", "plan", "statistics"}),
    "another key": (lambda key, plan, sums: keyed_chance(KEY, plan, sums), {"key"}),
    "any plan": (lambda key, plan, sums: keyed_chance(key, PLAN, sums), {"plan"}),
    "any statistics": (lambda key, plan, sums: keyed_chance(key, plan, ""), {"statistics"}),
    "some statistics": (lambda key, plan, sums: keyed_chance(key, plan, sums[:0]), {"statistics"}),
    "a fresh key": (
        lambda key, plan, sums: keyed_chance(key_of(next(COUNTER)), plan, sums),
        {"not repeated"},
    ),
}


def test_a_draw_follows_from_the_key_the_plan_and_the_statistics() -> None:
    assert faults(keyed_chance) == set()


@pytest.mark.parametrize("name", BROKEN)
def test_a_derivation_that_forgets_one_of_them_is_caught(name: str) -> None:
    derive, forgets = BROKEN[name]
    assert faults(derive) == forgets


def test_the_derivation_and_the_sampler_are_what_their_label_says() -> None:
    """Whoever changes either changes the label: two draws from one stream of bits would not be independent."""
    chance = keyed_chance(KEY, PLAN, statistics(1))
    assert chance.name == "607d5a95b9c2a779a19817a075cbd23b"
    assert noise(chance, 3) == [1062174, 2634837, -2143907]
    assert sample_sup(2, FINE, keyed_chance(KEY, PLAN, statistics(1)).noise) == [319309, -869387]
    stream = hashlib.shake_256(KEY + b"truthful/label/0").digest(1024) + hashlib.shake_256(
        KEY + b"truthful/label/1"
    ).digest(1024)
    assert KeyedBits(KEY, "truthful/label").bits(8 * 1500) == int.from_bytes(stream[:1500], "little")


def test_what_is_drawn_besides_noise_has_bits_of_its_own() -> None:
    chance = keyed_chance(KEY, PLAN, statistics(1))
    coins = derived_name(KEY, "coins", PLAN, statistics(1))
    assert len({chance.name, coins, f"{chance.noise.bits(128):032x}"}) == 3
    assert chance.secret == derived_name(KEY, "secret", PLAN, statistics(1)) != chance.name
    assert seeded_chance(7, PLAN, statistics(1)).secret == "7"


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=f"has {size} bytes"):
        KeyedBits(bytes(size), "label")


# Its noise


def test_one_key_gives_many_statistics_draws_of_the_exact_law() -> None:
    scale = Fraction(7, 3)
    draws = [sample(1, scale, keyed_chance(KEY, PLAN, statistics(i)).noise) for i in range(COARSE_DRAWS)]
    assert coarse_fit(draws, scale, (1,)) > FALSE_ALARM
    assert coarse_fit(draws, scale * Fraction(9, 10), (1,)) < FALSE_ALARM


@pytest.mark.parametrize(("norm", "other"), [("l2", "sup"), ("sup", "l2")])
def test_one_key_gives_many_statistics_vectors_of_the_exact_law(norm: str, other: str) -> None:
    scale, draw = Fraction(3, 2), {"l2": sample, "sup": sample_sup}[norm]
    draws = [draw(2, scale, keyed_chance(KEY, PLAN, statistics(i)).noise) for i in range(COARSE_DRAWS // 3)]
    assert coarse_fit(draws, scale, (1, 1), norm) > FALSE_ALARM
    assert coarse_fit(draws, scale, (1, 1), other) < FALSE_ALARM


def test_many_keys_give_the_same_statistics_draws_of_the_exact_law() -> None:
    scale = Fraction(7, 3)
    draws = [
        sample(1, scale, keyed_chance(key_of(i), PLAN, statistics(1)).noise) for i in range(COARSE_DRAWS)
    ]
    assert coarse_fit(draws, scale, (1,)) > FALSE_ALARM


def dependence(derive: Derive, pairs: int = 4_000) -> float:
    """The least p-value, times the number of tests, of whether two copies of a study draw as if they were two studies.

    A copy has the same key and, by one answer, other statistics. Independent noise of the two has a difference of a
    known law and signs, sizes and ranks that have nothing to do with each other.
    """
    drawn = [
        [noise(derive(key_of(i), PLAN, statistics(2 * i + copy)))[0] for copy in (0, 1)] for i in range(pairs)
    ]
    one, other = np.array(drawn, dtype=np.float64).T / float(FINE)
    difference = L2Laplace(1, 1.0).sample(np.random.default_rng(5), 2 * 50_000)[:, 0].reshape(2, -1)
    p_values = [
        stats.spearmanr(one, other).pvalue,
        stats.spearmanr(np.abs(one), np.abs(other)).pvalue,
        stats.chi2_contingency(np.histogram2d(one > 0, other > 0, bins=2)[0]).pvalue,
        stats.ks_2samp(one - other, difference[0] - difference[1]).pvalue,
    ]
    return float(min(p_values) * len(p_values))


def test_copies_with_one_different_answer_draw_independently() -> None:
    assert dependence(keyed_chance) > FALSE_ALARM


class Shifted(HashedBits):
    """The statistics move the stream instead of being hashed with the key: copies draw from overlapping bits."""

    def __init__(self, key: bytes, statistics: str) -> None:
        super().__init__(key)
        self.bits(int(statistics[:1], 16))


@pytest.mark.parametrize(
    "derive",
    [
        lambda key, plan, sums: keyed_chance(key, plan, ""),
        lambda key, plan, sums: Chance("", "", Shifted(key, sums)),
    ],
    ids=["the same noise", "overlapping bits"],
)
def test_copies_that_draw_the_same_or_from_overlapping_bits_are_caught(derive: Derive) -> None:
    assert dependence(derive) < FALSE_ALARM

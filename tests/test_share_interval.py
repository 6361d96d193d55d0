"""The interval of one share against its definition, summed by brute force over everything people could answer."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import optimize, stats

from truthful.check import Floats
from truthful.errors import InputError
from truthful.release.coefficients import share_interval

TAIL = 0.025


@cache
def weights(n: int, P: float) -> Floats:
    """The law of the number of yes: in whole numbers for few people, by scipy for many."""
    if n <= 20:
        return np.array([math.comb(n, k) * P**k * (1 - P) ** (n - k) for k in range(n + 1)])
    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, P))


def above(noisy_sum: float, n: int, P: float, epsilon: float) -> float:
    """P(S + K ≥ noisy_sum), S the sum of answers ±1 and K Laplace of scale 2/ε, summed over all S."""
    sums = 2 * np.arange(n + 1) - n
    return float(weights(n, P) @ stats.laplace.sf(noisy_sum - sums, scale=2 / epsilon))


@pytest.mark.parametrize("n", [2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0, 50.0])
def test_beyond_each_end_the_release_is_too_unlikely(n: int, epsilon: float) -> None:
    inside = 0
    for noisy_sum in np.linspace(-n, n, n + 4):
        low, high = share_interval(noisy_sum, n, epsilon)
        assert 0 <= low < high <= 1
        if low > 0:
            assert above(noisy_sum, n, low, epsilon) == pytest.approx(TAIL, abs=1e-12)
        else:
            assert above(noisy_sum, n, 0.0, epsilon) >= TAIL
        if high < 1:
            assert above(noisy_sum, n, high, epsilon) == pytest.approx(1 - TAIL, abs=1e-12)
        else:
            assert above(noisy_sum, n, 1.0, epsilon) <= 1 - TAIL
        inside += (low > 0) + (high < 1)
    # Only where n·ε is below −ln(2·0.025) = 3 has noise drowned everything.
    assert (inside > 0) == (n * epsilon > 3)


def covered(n: int, P: float, epsilon: float) -> float:
    """P(low ≤ P ≤ high), exactly: both ends rise with the sum, so that P is held by all sums between two."""

    def sum_at(end: int) -> float:
        return float(optimize.brentq(lambda s: share_interval(s, n, epsilon)[end] - P, -n, n, xtol=1e-9 * n))

    last = sum_at(0) if share_interval(n, n, epsilon)[0] > P else math.inf
    first = sum_at(1) if share_interval(-n, n, epsilon)[1] < P else -math.inf
    return above(first, n, P, epsilon) - above(last, n, P, epsilon)


@pytest.mark.parametrize("P", [0.02, 0.2, 0.5])
@pytest.mark.parametrize(("n", "epsilon"), [(200, 2.0), (2_000, 0.3), (20_000, 0.05)])
def test_an_interval_covers_the_truth_exactly_as_often_as_it_says(n: int, P: float, epsilon: float) -> None:
    assert covered(n, P, epsilon) == pytest.approx(0.95, abs=1e-6)


@pytest.mark.parametrize("P", [0.01, 0.99])
def test_where_noise_alone_decides_one_side_never_errs(P: float) -> None:
    """Two of 200, and noise of standard deviation 2.8: a count below 0 is read as 0, which P can explain."""
    assert covered(200, P, 0.5) == pytest.approx(0.975, abs=1e-6)


@pytest.mark.parametrize("n", [2, 200])
def test_a_share_of_nothing_is_held_until_noise_of_that_size_has_a_chance_of_a_fortieth(n: int) -> None:
    epsilon = 3.0
    count = math.log(20) / epsilon
    assert above(2 * count - n, n, 0.0, epsilon) == pytest.approx(TAIL)
    assert share_interval(2 * (count - 1e-9) - n, n, epsilon)[0] == 0
    assert share_interval(2 * (count + 1e-9) - n, n, epsilon)[0] > 0


def test_both_ends_rise_with_the_sum() -> None:
    ends = np.array([share_interval(s, 60, 0.8) for s in np.linspace(-70, 70, 48)])
    assert (np.diff(ends, axis=0) >= 0).all()
    assert (np.diff(ends, axis=0) > 0).sum() > 70


def released(P: float, n: int, epsilon: float, t: float) -> float:
    """P(T ≥ t) without a sum: ½E[e^{±ε(t−k)}] on either side of t is a binomial of another share, times a constant."""
    m = math.floor(t)

    def side(tilt: float) -> tuple[float, float]:
        constant = n * math.log1p(P * math.expm1(tilt)) - tilt * t
        return math.exp(constant) / 2, P * math.exp(tilt) / (1 + P * math.expm1(tilt))

    (below, P_below), (beyond, P_beyond) = side(epsilon), side(-epsilon)
    tails = stats.binom.sf(m, n, P) - beyond * stats.binom.sf(m, n, P_beyond)
    return float(tails + below * stats.binom.cdf(m, n, P_below))


@pytest.mark.parametrize(
    ("share", "epsilon"), [(0.0005, 1e-4), (0.0005, 0.01), (0.2, 1e-3), (0.2, 0.01), (0.5, 0.01)]
)
def test_ten_million_people_are_as_exact(share: float, epsilon: float) -> None:
    n = 10**7
    t = share * n + 0.3
    low, high = share_interval(2 * t - n, n, epsilon)
    if low > 0:
        assert released(low, n, epsilon, t) == pytest.approx(TAIL, abs=1e-9)
    else:
        # Noise of 10,000 people, and 5,000 yes.
        assert (share, epsilon) == (0.0005, 1e-4)
    assert released(high, n, epsilon, t) == pytest.approx(1 - TAIL, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 30.0])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_yes_and_no_can_be_exchanged(epsilon: float, level: float) -> None:
    low, high = share_interval(-120.2, 300, epsilon, level)
    assert 0 <= low < 1 - high < 1
    assert share_interval(120.2, 300, epsilon, level) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("excess", [1e-9, 0.3, 40.0, 1e12])
@pytest.mark.parametrize(("n", "epsilon"), [(2, 5.0), (100, 0.5), (5_000, 0.1)])
def test_a_count_that_cannot_be_is_read_as_the_nearest(n: int, epsilon: float, excess: float) -> None:
    nobody, everybody = share_interval(-n - excess, n, epsilon), share_interval(n + excess, n, epsilon)
    assert nobody == share_interval(-n, n, epsilon)
    assert everybody == share_interval(n, n, epsilon)
    assert (nobody[0], everybody[1]) == (0, 1)
    assert 0 < nobody[1] < 1
    assert above(-n, n, nobody[1], epsilon) == pytest.approx(1 - TAIL, abs=1e-11)


def test_noise_that_drowns_everything_leaves_the_whole_range() -> None:
    assert share_interval(120.0, 1_000, 1e-6) == (0, 1)
    assert share_interval(-3e8, 1_000, 1e-300) == (0, 1)


@pytest.mark.parametrize("epsilon", [1e4, 1e100, 1e300])
@pytest.mark.parametrize(("yes", "n"), [(0, 2), (1, 2), (0, 30), (7, 30), (29, 30), (400, 1_000)])
def test_without_noise_it_is_clopper_and_pearsons(yes: int, n: int, epsilon: float) -> None:
    """Halfway from `yes` to one more: at least yes + 1 for the lower end, at most yes for the upper."""
    found = share_interval(2 * (yes + 0.5) - n, n, epsilon)
    assert found == pytest.approx(stats.beta.ppf([TAIL, 1 - TAIL], yes + 1, n - yes), rel=1e-10)


@pytest.mark.parametrize("epsilon", [1e4, 1e300])
def test_a_whole_count_without_noise_counts_half(epsilon: float) -> None:
    low, high = share_interval(-16.0, 30, epsilon)
    for P, chance in ((low, TAIL), (high, 1 - TAIL)):
        assert stats.binom.sf(7, 30, P) + stats.binom.pmf(7, 30, P) / 2 == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize("n", [2, 33, 2_000])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 100.0])
def test_a_higher_level_is_wider_and_all_hold_the_estimate(n: int, epsilon: float) -> None:
    share = 0.31
    last = (share, share)
    for level in (0.5, 0.8, 0.95, 0.99, 0.9999):
        low, high = share_interval((2 * share - 1) * n, n, epsilon, level)
        assert low <= last[0] <= share <= last[1] <= high
        assert high - low > last[1] - last[0] or (low, high) == (0, 1)
        last = (low, high)


def test_more_people_and_less_privacy_narrow_it() -> None:
    def width(n: int, epsilon: float) -> float:
        low, high = share_interval(-0.4 * n, n, epsilon)
        return high - low

    assert width(1_000, 0.1) > width(1_000, 1.0) > width(4_000, 1.0)
    # Without noise it is 2·1.96·sqrt(0.3·0.7/n).
    assert width(100_000, 10.0) == pytest.approx(2 * 1.95996 * math.sqrt(0.21 / 100_000), rel=1e-3)
    # With nothing but noise it is 2·ln(20)/(nε).
    assert width(100_000, 0.001) == pytest.approx(2 * math.log(20) / 100, rel=5e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((math.nan, 10, 1.0), "noisy_sum"),
        ((0.0, 0, 1.0), "players"),
        ((0.0, 10, 0.0), "epsilon"),
        ((0.0, 10, 1.0, 1.0), "level"),
    ],
)
def test_what_is_not_a_release_is_refused(arguments: tuple[float, int, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        share_interval(*arguments)

"""The paper's formulas as printed: each next to the same display typed again in fractions, at numbers chosen by hand.

The setting is B = 4, M = 1/2, σ² = 1/5, d = 3, n = 1000, the paper's ε = 1/10 (so our total is 1/5), α = 1/20,
β = 1/45, γ = 50, ξ = 1/4, a = 7, b = 1/3, and costs with F(c) = 1 − (c/2)⁻², so that τ = 2/√(1/900) = 60.
"""

import math
from collections.abc import Callable
from fractions import Fraction as Q

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from truthful.bounds import published
from truthful.bounds.setting import Model, Numbers, Setting, unit_ball
from truthful.costs import EmpiricalCosts, LognormalCosts, ParetoCosts
from truthful.errors import InputError

MODEL = unit_ball(3, radius=2.0, noise_bound=0.5, noise_variance=0.2)
SETTING = Setting(
    model=MODEL,
    costs=ParetoCosts(tail=2.0, scale=2.0),
    n=1000,
    epsilon=0.2,
    alpha=0.05,
    beta=1 / 45,
    a=7.0,
    b=1 / 3,
    gamma=50.0,
    xi=0.25,
)

# The displays of the paper, in its own symbols; the right-hand sides are typed from its text.
B, M, SIGMA2, D, N, EPSILON, ALPHA = Q(4), Q(1, 2), Q(1, 5), 3, 1000, Q(1, 10), Q(1, 20)
GAMMA, XI, A_, B_, TAU = Q(50), Q(1, 4), Q(7), Q(1, 3), Q(60)
INVERSE = 1 / (GAMMA + (1 - XI) * Q(1, D + 2) * N)  # ‖(γI+XᵀX)⁻¹‖: 1/200
PULL = ALPHA * N / GAMMA * (4 * B + 2 * M) + GAMMA * B * INVERSE  # 17 + 1
DISPLAYS: dict[Callable[[Setting], Numbers], Q] = {
    published.sensitivity: 1 / GAMMA * (4 * B + 2 * M),
    published.noise_scale: (4 * B + 2 * M) / (GAMMA * EPSILON),
    published.privacy: 2 * EPSILON,
    published.threshold: TAU,
    published.liars: ALPHA * N / GAMMA * (4 * B + 2 * M),
    published.gap: PULL,
    published.truthfulness: B_ * PULL**2 + TAU * EPSILON**2,
    published.participation: (PULL + B) * (B_ + 2 * B_ * B) + B_ * B**2 + TAU * EPSILON**2,
    published.budget: N * (A_ + (PULL + B) * (B_ + 2 * B_ * B)),
    published.least_squares_error: SIGMA2 / ((1 - XI) * Q(1, D + 2) * N),
    published.noise_error: M * N * INVERSE,
    published.ridge_bias: GAMMA * B * INVERSE,
    published.ridge_variance: SIGMA2**2 * ((1 + XI) * Q(1, D + 2) * N * INVERSE**2) ** 2,
    published.accuracy: (
        (ALPHA * N / GAMMA * (4 * B + 2 * M)) ** 2
        + 2 * ((4 * B + 2 * M) / (GAMMA * EPSILON)) ** 2
        + (GAMMA * B * INVERSE) ** 2
        + SIGMA2**2 * ((1 + XI) * Q(1, D + 2) * N / (GAMMA + (1 - XI) * Q(1, D + 2) * N) ** 2) ** 2
        + 2
        * (ALPHA * N / GAMMA * (4 * B + 2 * M) + (4 * B + 2 * M) / (GAMMA * EPSILON))
        * ((GAMMA * B + M * N) / (GAMMA + (1 - XI) * Q(1, D + 2) * N))
    ),
}
OF_A_SETTING: tuple[Callable[[Setting], Numbers], ...] = (
    *DISPLAYS,
    published.spectrum,
    published.lie_size,
    published.joining_threshold,
    published.budget_cap,
)


def name(function: Callable[..., object]) -> str:
    return function.__name__


@pytest.mark.parametrize("function", DISPLAYS, ids=name)
def test_a_formula_is_the_papers_display(function: Callable[[Setting], Numbers]) -> None:
    assert function(SETTING) == pytest.approx(float(DISPLAYS[function]), rel=1e-13)


def test_the_displays_are_the_numbers_worked_out_by_hand() -> None:
    assert DISPLAYS[published.liars] == 17
    assert DISPLAYS[published.ridge_bias] == 1
    assert DISPLAYS[published.gap] == 18
    assert DISPLAYS[published.truthfulness] == Q(324, 3) + Q(6, 10)
    assert DISPLAYS[published.participation] == 22 * 3 + Q(16, 3) + Q(6, 10)
    assert DISPLAYS[published.budget] == 73_000
    # 17² + 2·3.4² + 1² + .04·(250/40000)² + 2·(17 + 3.4)·(200 + 500)/200
    assert DISPLAYS[published.accuracy] == 289 + Q("23.12") + 1 + Q("0.0000015625") + Q("142.8")


@pytest.mark.parametrize("function", OF_A_SETTING, ids=name)
def test_arrays_of_settings_give_what_a_loop_gives(function: Callable[[Setting], Numbers]) -> None:
    n, epsilon = np.array([10.0, 1e3, 1e6])[:, None], np.array([0.01, 0.2, 1.0, 3.0])
    alpha, gamma, a, b = n**-0.25, n**0.9, np.array([1e-3, 0.5, 0.5, 40.0]), np.array([0.0, 1e-3, 0.1, 2.0])
    beta = np.array([0.5, 0.1, 1e-3])[:, None]
    grid = SETTING.at(n=n, epsilon=epsilon, alpha=alpha, beta=beta, gamma=gamma, a=a, b=b)
    results = np.broadcast_to(function(grid), (3, 4))
    for i, j in np.ndindex(3, 4):
        one = SETTING.at(
            n=float(n[i, 0]),
            epsilon=float(epsilon[j]),
            alpha=float(alpha[i, 0]),
            beta=float(beta[i, 0]),
            gamma=float(gamma[i, 0]),
            a=float(a[j]),
            b=float(b[j]),
        )
        assert results[i, j] == pytest.approx(function(one), rel=1e-13)


def test_counts_may_be_whole_numbers() -> None:
    whole = SETTING.at(n=np.array([10, 4_000_000_000_000]))
    for function in OF_A_SETTING:
        real = np.broadcast_to(function(whole.at(n=np.array([10.0, 4e12]))), 2)
        assert np.broadcast_to(function(whole), 2) == pytest.approx(real, rel=1e-13)


# What the displays leave open


def test_noise_has_the_moments_of_one_dimension_whatever_the_dimension() -> None:
    for d in (1, 2, 50):
        assert published.noise_moments(d, 3.0) == (3.0, 18.0)


@pytest.mark.parametrize("C", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("d", [2, 3, 30])
def test_the_spectrum_fails_as_often_as_the_largest_allowed_t_says(d: int, C: float) -> None:
    model, t = unit_ball(d, radius=1.0, noise_bound=1.0, noise_variance=0.1), 2.5
    n = C * (t / SETTING.xi) ** 2 * (d + 2) * math.log(d)
    assert published.spectrum(SETTING.at(model=model, n=n), C=C) == pytest.approx(d ** -(t**2), rel=1e-12)
    # t = 1 is the least that the theorem speaks of.
    at_one = n / t**2
    assert published.spectrum(SETTING.at(model=model, n=at_one * 1.001), C=C) == pytest.approx(
        1 / d, rel=0.01
    )
    assert published.spectrum(SETTING.at(model=model, n=at_one * 0.999), C=C) == 1.0


def test_the_spectrum_of_one_feature_is_promised_nothing() -> None:
    one = unit_ball(1, radius=1.0, noise_bound=1.0, noise_variance=0.1)
    assert np.all(published.spectrum(SETTING.at(model=one, n=np.array([1e2, 1e12]))) == 1.0)


@pytest.mark.parametrize(
    "costs",
    [ParetoCosts(2.0, 1.0), LognormalCosts(3.0, 2.0), EmpiricalCosts((0.0, 0.5, 1.0), (0.0, 1.0, 9.0))],
    ids=lambda costs: type(costs).__name__,
)
def test_the_threshold_is_markovs(costs: ParetoCosts | LognormalCosts | EmpiricalCosts) -> None:
    tau = published.threshold(SETTING.at(costs=costs, alpha=0.05, beta=0.1))
    assert tau == pytest.approx(float(costs.upper_quantile(0.05 * 0.1)))
    assert costs.survival(tau) == pytest.approx(0.005)


amounts = st.floats(1e-6, 1e3)


@given(b=amounts, gamma=amounts, n=st.floats(1, 1e9))
def test_a_lie_of_the_largest_size_gains_nothing_by_the_papers_gap_and_cost(
    b: float, gamma: float, n: float
) -> None:
    s = SETTING.at(b=b, gamma=gamma, n=n)
    size, gap = float(published.lie_size(s)), float(published.gap(s))
    cost = float(published.threshold(s)) * 0.1**2
    assert b * (2 * size * gap - size**2) + cost == pytest.approx(0, abs=1e-9 * (b * size**2 + cost))


def test_without_a_score_weight_every_lie_may_pay() -> None:
    assert published.lie_size(SETTING.at(b=0.0)) == math.inf
    nobody_minds = EmpiricalCosts((0.0, 1.0), (0.0, 0.0))
    assert published.lie_size(SETTING.at(b=0.0, costs=nobody_minds)) == math.inf


@given(b=amounts, epsilon=st.floats(1e-3, 3), alpha=st.floats(1e-6, 0.5))
def test_the_least_base_payment_is_joined_up_to_the_threshold(b: float, epsilon: float, alpha: float) -> None:
    s = SETTING.at(b=b, epsilon=epsilon, alpha=alpha)
    least = float(published.participation(s))
    # (a − what the score may take)/ε² cancels: relative to a/ε², not to the threshold.
    slack = 1e-12 * least / (epsilon / 2) ** 2
    assert published.joining_threshold(s.at(a=least)) == pytest.approx(published.threshold(s), abs=slack)


def test_nobody_joins_for_too_small_a_base_payment() -> None:
    # The score may take 22·3 + 16/3 = 71⅓ by the display above.
    assert published.joining_threshold(SETTING.at(a=71.33)) == 0
    assert published.joining_threshold(SETTING.at(a=71.34)) == pytest.approx((71.34 - 214 / 3) / 0.01)


def test_there_is_no_cap_on_the_papers_budget() -> None:
    assert published.budget_cap(SETTING) == math.inf


def test_payments_without_privacy_are_those_of_the_remark() -> None:
    # B = 4, M = 1/2: B + 2B(B+M) + (B+M)² − 1 = 4 + 36 + 20.25 − 1 and 2B + 4B(B+M) + (B+M)² = 8 + 72 + 20.25.
    assert published.nonprivate_payments(MODEL, 10) == pytest.approx((0.5925, 0.01, 10.025), rel=1e-13)
    a, b, budget = published.nonprivate_payments(MODEL, np.array([10, 10_000_000_000]))
    assert a == pytest.approx(np.array([0.5925, 59.25e-20]), rel=1e-13)
    assert b == pytest.approx(np.array([1e-2, 1e-20]), rel=1e-13)
    assert budget == pytest.approx(np.array([10.025, 100.25e-10]), rel=1e-13)


# The appendices


def test_the_printed_hessian_lacks_one_gram_matrix() -> None:
    rng = np.random.default_rng(7)
    X, y, gamma, h = rng.uniform(-1, 1, (6, 3)), rng.uniform(-1, 1, 6), 0.3, 0.5

    def loss(theta: np.ndarray) -> float:
        return float(np.sum((y - X @ theta) ** 2) + gamma * theta @ theta)

    # Differences of a quadratic are exact at any step.
    e = h * np.eye(3)
    true = [[(loss(u + v) - loss(u) - loss(v) + loss(0 * u)) / h**2 for v in e] for u in e]
    assert np.array(true) - published.hessian(X, gamma) == pytest.approx(X.T @ X, abs=1e-12)
    assert published.hessian([[0.0, 0.0]], gamma) == pytest.approx(
        published.strong_convexity(gamma) * np.eye(2)
    )
    assert np.linalg.eigvalsh(true)[0] >= published.strong_convexity(gamma) == 0.6


def test_a_lie_saves_at_most_what_the_composition_lemma_says() -> None:
    epsilon = np.array([0.0, 1e-3, 0.5, 1.0])
    first, second = published.composition(3.0, epsilon)
    assert first == pytest.approx([6 * e * (math.exp(e) - 1) for e in epsilon], rel=1e-12)
    assert second == pytest.approx([12 * e * e for e in epsilon], rel=1e-12)
    assert np.all(first <= second)


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_covariance_is_that_of_the_ball(d: int) -> None:
    # E‖x‖² = ∫ r² d(r^d), shared by d coordinates.
    square, _ = integrate.quad(lambda r: r**2 * d * r ** (d - 1), 0, 1)
    assert published.covariance(d) == pytest.approx(np.eye(d) * square / d, rel=1e-12)


# The main result

UNIT = unit_ball(2, radius=1.0, noise_bound=1.0, noise_variance=1 / 3)


def scheduled(n: Numbers, delta: float = 0.25, model: Model = UNIT) -> Setting:
    return published.schedule(model, ParetoCosts(3.0, 1.0), n, delta=delta, tail=3.0)


def exponent(function: Callable[[Setting], Numbers], least: float, most: float, delta: float = 0.25) -> float:
    """The slope of the bound in n at the corollary's schedule, both logarithmic."""
    n = np.geomspace(least, most, 13)
    return float(np.polyfit(np.log(n), np.log(function(scheduled(n, delta))), 1)[0])


def test_a_schedule_of_many_sizes_is_many_schedules() -> None:
    many = scheduled(np.array([256, 10**6]))
    for i, one in enumerate((scheduled(256), scheduled(10**6))):
        for name in ("n", "epsilon", "alpha", "beta", "a", "b", "gamma"):
            assert getattr(many, name)[i] == pytest.approx(getattr(one, name), rel=1e-13)
        assert np.asarray(published.accuracy(many))[i] == pytest.approx(published.accuracy(one), rel=1e-13)


def test_the_schedule_is_the_corollarys() -> None:
    # δ = 1/4, p = 3, n = 2⁸: n^δ = 4, √n = 16.
    s = scheduled(256)
    assert (s.n, s.epsilon, s.alpha, s.gamma, s.b) == pytest.approx(
        (256, 2 * 4 / 256, 1 / 4, 256 / 2, 1 / 4096)
    )
    assert s.beta == pytest.approx(256**-1.5 * 256)
    assert s.a == pytest.approx(8 * 4 / 4096 + 4 / 4096)
    assert (s.estimator, s.rule, s.payments) == (
        "ridge-free",
        "brier",
        "expected",
    )
    assert (s.xi, s.privacy, s.model) == (0.5, "quadratic", UNIT)


@pytest.mark.parametrize("delta", [0.1, 0.25, 0.35])
def test_privacy_truthfulness_and_budget_fall_as_the_corollary_says(delta: float) -> None:
    """In the limit, which has nothing to do with people; at 10⁶ to 10¹² players constants still count."""
    rates = published.rates(delta)
    for function, wanted in (
        (published.privacy, rates.privacy),
        (published.truthfulness, rates.truthfulness),
        (published.budget, rates.budget),
    ):
        assert exponent(function, 1e60, 1e80, delta) == pytest.approx(wanted, abs=1e-4)


def test_rates_in_reach_are_near_the_corollarys() -> None:
    rates = published.rates(0.25)
    assert exponent(published.privacy, 1e6, 1e12) == pytest.approx(rates.privacy, abs=1e-12)
    assert exponent(published.truthfulness, 1e6, 1e12) == pytest.approx(rates.truthfulness, abs=0.005)
    # The first term of a, (6B+2M)(1+B)² = 32, is more than n^δ up to n = 10⁶.
    assert exponent(published.budget, 1e6, 1e12) == pytest.approx(rates.budget - 0.053, abs=0.001)


def test_the_papers_accuracy_falls_half_as_fast_as_its_statement_says() -> None:
    """The corollary states n^(−δ), its proof n^(−δ/2), which is what the explicit expression gives."""
    assert published.rates(0.25).accuracy == -0.25
    assert exponent(published.accuracy, 1e60, 1e80) == pytest.approx(-0.125, abs=1e-4)
    assert exponent(published.accuracy, 1e6, 1e12) == pytest.approx(-0.0988, abs=1e-4)

    # The culprit is E‖θ̂−θ‖ ≤ (γB+Mn)/(…), which stays near 2M(d+2): without it the statement's rate is had.
    def without_noise_error(s: Setting) -> Numbers:
        moved, noise = published.liars(s), published.noise_scale(s)
        return published.accuracy(s) - 2 * (moved + noise) * published.noise_error(s)

    assert exponent(published.noise_error, 1e60, 1e80) == pytest.approx(0, abs=1e-4)
    assert exponent(without_noise_error, 1e60, 1e80) == pytest.approx(-0.25, abs=1e-4)


def test_the_threshold_grows_as_the_statement_needs_not_as_the_proof_says() -> None:
    """τ = n^(½−δ); the proof's n^(1−δ) would make η ~ n^(−1+δ)."""
    assert exponent(published.threshold, 1e6, 1e12) == pytest.approx(0.5 - 0.25, abs=1e-12)


def test_the_corollarys_equilibrium_deters_no_lie_at_all() -> None:
    """Own predictions lie in [−√B, √B], so that no lie is larger than 2; the smallest deterred one grows as n^(δ/2)."""
    assert all(published.lie_size(scheduled(n)) > 2 for n in (1e3, 1e6, 1e12))
    assert exponent(published.lie_size, 1e60, 1e80) == pytest.approx(0.125, abs=1e-4)


@given(
    square=st.floats(0.02, 20),
    noise=st.floats(0, 10),
    delta=st.floats(0.001, 0.37),
    n=st.floats(2, 1e12),
    d=st.integers(1, 200),
)
def test_the_corollarys_base_payment_meets_its_theorem_where_6b_plus_2m_is_at_least_one(
    square: float, noise: float, delta: float, n: float, d: int
) -> None:
    noise = max(noise, (1 - 6 * square) / 2)
    model = unit_ball(d, radius=math.sqrt(square), noise_bound=noise, noise_variance=0.0)
    s = scheduled(n, delta, model)
    assert float(published.participation(s)) <= float(s.a) * (1 + 1e-12)


def test_the_corollarys_base_payment_can_miss_its_theorem_elsewhere() -> None:
    """The proof multiplies bB² by 6B+2M too, to complete the square (1+B)²: that needs 6B+2M ≥ 1."""
    model = unit_ball(100, radius=math.sqrt(1 / 12), noise_bound=0.0, noise_variance=0.0)
    s = scheduled(1e6, 0.001, model)
    assert float(s.a) * 1e9 == pytest.approx(1.60072, abs=1e-5)
    assert float(published.participation(s)) * 1e9 == pytest.approx(1.60103, abs=1e-5)


def test_the_errata_quote_these_numbers() -> None:
    """The paper's side of E1, E13, E14, E15, E20 and E24, at B = M = 1 and δ = ¼ unless they say otherwise."""
    tiny = unit_ball(1, radius=0.1, noise_bound=0.0, noise_variance=0.0)
    assert published.sensitivity(SETTING.at(model=tiny, gamma=100.0)) == pytest.approx(4.0e-4)
    five = unit_ball(5, radius=1.0, noise_bound=1.0, noise_variance=1 / 3)
    exactly = SETTING.at(model=five, n=1000, xi=1e-9)
    assert published.least_squares_error(exactly) == pytest.approx(2.3e-3, abs=5e-5)
    assert published.noise_error(scheduled(1000, model=five)) == pytest.approx(2.03, abs=0.005)
    assert published.liars(scheduled(1e4).at(alpha=0.1)) == pytest.approx(1.90, abs=0.005)
    assert published.ridge_bias(scheduled(1000)) == pytest.approx(0.7714, abs=5e-5)
    assert float(scheduled(1e5).a) * 1e5**1.5 == pytest.approx(49.8, abs=0.05)
    tenth = unit_ball(2, radius=math.sqrt(0.1), noise_bound=0.1, noise_variance=0.0)
    a, b, _ = published.nonprivate_payments(tenth, 1)
    assert a / b == pytest.approx(-0.82)


# Refusals


@pytest.mark.parametrize("delta", [0.0, -0.1, 0.375, 0.5, math.nan])
def test_a_delta_that_the_corollary_does_not_allow_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match=r"delta is .*(below 0\.375|finite)"):
        scheduled(1e6, delta)


@pytest.mark.parametrize("delta", [0.0, 0.5, math.nan])
def test_rates_are_for_deltas_between_0_and_one_half(delta: float) -> None:
    with pytest.raises(InputError, match=r"delta is"):
        published.rates(delta)


def test_a_schedule_needs_players_and_a_tail() -> None:
    with pytest.raises(InputError, match=r"n is 1; the corollary needs more than one player"):
        scheduled(1)
    with pytest.raises(InputError, match=r"tail is 1\.0; the corollary is for costs"):
        published.schedule(UNIT, ParetoCosts(1.0, 1.0), 1e6, delta=0.1, tail=1.0)


@pytest.mark.parametrize("gamma", [math.nan, 0.0, -1.0, np.array([1.0, 0.0])])
def test_a_ridge_without_a_penalty_is_refused(gamma: Numbers) -> None:
    for function in (published.sensitivity, published.gap, published.accuracy):
        with pytest.raises(InputError, match=r"gamma is .*above 0"):
            function(SETTING.at(gamma=gamma))
    with pytest.raises(InputError, match=r"gamma is .*above 0"):
        published.strong_convexity(gamma)


@pytest.mark.parametrize("epsilon", [1.01, -0.1, math.nan, np.array([0.5, 2.0])])
def test_composition_is_for_levels_up_to_one(epsilon: Numbers) -> None:
    with pytest.raises(InputError, match=r"epsilon is .*from 0 to 1"):
        published.composition(1.0, epsilon)


def test_the_unknown_constant_is_above_zero() -> None:
    with pytest.raises(InputError, match=r"C is 0\.0; it must be above 0"):
        published.spectrum(SETTING, C=0.0)

"""Gaps: a truthful player and the others, part of whom lie as badly as they can, are no further apart than stated.

The mechanism is simulated as it is: sums over all n people with the player's own record in them, noise, and her record
taken out again. θ is drawn from the prior given her answer, others from the design, and liars are those of greatest
weight on her prediction, as many as have costs above the threshold. A simulated mean is compared at six standard
errors: a false alarm has probability below 2e-9 (normal approximation; hundreds of independent runs), and the seeds
are fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_bounds import (
    BALLS,
    COSTS,
    DESIGNS,
    SIX,
    Rng,
    World,
    curve,
    fitted,
    floored_inverse,
    given_answer,
    influence,
    inverses,
    left_out,
    mean_and_error,
    scored,
    setting,
    symmetric_noise,
    world,
    worst_reports,
)

from truthful.beliefs.laws import Clipped
from truthful.bounds import Model, Setting, proved, unit_ball
from truthful.bounds.setting import expected_pull, gram_floor, gram_scale, noise_scale
from truthful.bounds.spectrum import mean_square_along
from truthful.check import Floats
from truthful.estimators.private import Estimator, KnownDesign, RidgeBall, RidgeFree
from truthful.moments import GRID, grid_features, grid_responses, moments, sums
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease

PAYMENTS = ("never-negative", "expected")
ESTIMATORS = ("known-design", "noisy-statistics")

# The twins are the package's mechanism


@pytest.mark.parametrize("name", ["known-design", "ridge-free", "ridge-ball"])
def test_the_simulated_estimates_are_the_packages(name: str) -> None:
    """Without noise, on records that lie on the grid: estimates and scales, to rounding."""
    where, rng, n = world("ball 2"), np.random.default_rng(1), 80
    X, y = where.people(rng, 1, n, np.array([0.8, -0.5]))
    kx, ky = grid_features(X[0]), grid_responses(y[0], 2.0)
    estimators: dict[str, Estimator] = {
        "known-design": KnownDesign(np.eye(2) / 4, 2.0),
        "ridge-free": RidgeFree(2, 5.0, 2.0),
        "ridge-ball": RidgeBall(2, 5.0, 1.0, 2.0),
    }
    estimator = estimators[name]
    found = estimator.estimate([query.value for query in estimator.queries(moments(kx, ky))], n, 1.0)
    np.testing.assert_allclose(
        found.theta, fitted(name, where, kx[None] / GRID, ky[None] / GRID, 5.0)[0], rtol=1e-9
    )
    s = setting(where, n=n, epsilon=1.0, gamma=5.0, estimator=name)
    assert found.scale == pytest.approx(float(noise_scale(s, n)), rel=1e-5)


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics"])
def test_the_simulated_release_is_the_one_that_pays(estimator: str) -> None:
    """Without noise, on the grid: inverse, prediction without her, and scale; also where the floor is in force."""
    where, rng, n = world("ball 2"), np.random.default_rng(1), 12
    kx = grid_features(where.draw(rng, n))
    ky = grid_responses(rng.uniform(-2, 2, n), 2.0)
    X, y = kx[None] / GRID, ky[None] / GRID
    for epsilon in (0.5, 100.0):
        s = setting(where, n=n, epsilon=epsilon, estimator=estimator, gram_share=0.3)
        mechanism = OneRelease(
            epsilon=epsilon,
            base_payment=1.0,
            score_weight=1.0,
            clip=1.0,
            estimator=estimator,
            gram_share=0.3,
            design=where.study.second_moments,
        )
        if estimator == "noisy-statistics":
            assert mechanism.floor(2) / n == pytest.approx(float(gram_floor(s)), rel=1e-5)
        total = sums(kx, ky, None)
        triangle = [int(k) for k in total.matrix[np.triu_indices(2)]]
        vector = [int(k) for k in total.vector]
        answers = [vector] if estimator == "known-design" else [triangle, vector]
        estimate = mechanism.estimate(answers, n, where.beliefs, None)
        exact = X.transpose(0, 2, 1) @ X
        inverse = (
            inverses(where, s, X, rng)
            if estimator == "known-design"
            else floored_inverse(exact, n * float(gram_floor(s)))
        )
        np.testing.assert_allclose(estimate.inverse, inverse[0], rtol=1e-5, atol=1e-12)
        p, scale = left_out(s, X, y, inverse)
        others = inverse[0] * n / (n - 1)
        if estimator == "noisy-statistics":
            others = np.linalg.inv(np.linalg.inv(inverse[0]) - np.outer(X[0, 0], X[0, 0]))
        assert p[0] == pytest.approx(float(X[0, 0] @ others @ (X[0, 1:].T @ y[0, 1:])), rel=1e-9)
        stated = estimate.scale * np.linalg.norm(others @ X[0, 0])
        assert scale[0] == pytest.approx(stated, rel=1e-5)
        if estimator == "known-design":
            assert scale[0] == pytest.approx(
                float(noise_scale(s, n - 1)) * 4 * np.linalg.norm(X[0, 0]), rel=1e-9
            )


def test_noise_is_averaged_as_the_curve_says() -> None:
    """Draws of the noise in the released vector, clipped at c: their mean is ‖x‖ψ at the scale of the prediction."""
    where, rng = world("ball 2"), np.random.default_rng(2)
    s = setting(where, n=60, epsilon=3.0, clip=0.4)
    X, y = where.people(rng, 1, 60, np.array([0.5, 0.2]))
    p, scale = left_out(s, X, y, inverses(where, s, X, rng))
    w, r = where.inverse @ X[0, 0] / 59, float(np.linalg.norm(X[0, 0]))
    K = L2Laplace(2, 60 * float(noise_scale(s, s.n))).sample(rng, 40_000)
    mean, error = mean_and_error(np.clip(p[0] + K @ w, -0.4 * r, 0.4 * r))
    assert mean == pytest.approx(r * float(curve(s)(p / r, scale / r)[0]), abs=SIX * error)


def test_her_own_prediction_is_what_is_simulated_of_her() -> None:
    """q = ‖x‖E[ψ(u) | x, y] over the draws of θ given her answer."""
    where, rng = world("ball 5"), np.random.default_rng(3)
    x, y, psi = np.array([0.6, 0.5, 0, 0, 0.1]), 0.9, Clipped(1.0, 5)
    r = float(np.linalg.norm(x))
    mean, error = mean_and_error(r * psi(given_answer(where, x, y, rng, 4000) @ x / r, 0.3))
    assert mean == pytest.approx(float(where.beliefs.prediction(r, y, psi, 0.3)), abs=SIX * error)


@pytest.mark.parametrize("name", [*BALLS, "uniform"])
def test_the_largest_answer_of_all_says_that_the_truth_is_at_the_edge(name: str) -> None:
    """y = R‖x‖ + M: the player knows θ·x = R‖x‖, so that q is the curve there; simulations give her this θ."""
    where, r = world(name), 0.9
    curve = Clipped(where.beliefs.radius, where.dimension, 0.8)
    edge = where.beliefs.radius * r + where.beliefs.noise_bound
    q = float(where.beliefs.prediction(r, edge * (1 - 1e-12), curve, 0.3))
    assert q == pytest.approx(r * float(curve(np.array([where.beliefs.radius]), 0.3)[0]), rel=1e-4)


def test_the_worst_reports_are_the_worst_of_all_sets_of_liars() -> None:
    """Against every set of two liars among six and every pair of extreme reports."""
    where, rng = world("ball 2"), np.random.default_rng(2)
    X, y = where.people(rng, 20, 6, np.array([0.5, 0.5]))
    w = influence("known-design", where, X) @ np.array([0.3, -0.9])
    Y = where.beliefs.response_bound
    greedy = np.einsum("knd,kd,kn->k", X, w, worst_reports(where, X, y, w, 2))
    for run in range(20):
        best = -math.inf
        for i in range(6):
            for j in range(i):
                for first in (-Y, Y):
                    for second in (-Y, Y):
                        lied = y[run].copy()
                        lied[i], lied[j] = first, second
                        best = max(best, float((X[run] @ w[run]) @ lied))
        assert greedy[run] == pytest.approx(best, rel=1e-12)


# Gaps of a known design


#: By n: ε, α and runs.
STUDIES = {100: (5.0, 0.05, 3000), 5000: (1.0, 0.002, 220)}
#: A stated gap is at most so many times what is seen: unclipped, clipped at R, clipped at R/2. Lies are counted as 2Y,
#: and move 1.0 to 1.6Y here; the sampling error is counted for a player who knows that the truth is just where it is
#: clipped, and nobody knows that of R/2.
LOOSE = {("expected", 1.0): 1.5, ("never-negative", 1.0): 2.2, ("never-negative", 0.5): 5.0}


@pytest.mark.parametrize("n", STUDIES)
@pytest.mark.parametrize("name", ["ball 2", "ball 5"])
def test_others_and_player_are_parted_by_no_more_than_the_gap(name: str, n: int) -> None:
    """A player at the edge of the design, who answers as if θ·x were 0.3R, 0.5R, 0.8R or R; and an ordinary one."""
    where, rng = world(name), np.random.default_rng(4)
    epsilon, alpha, runs = STUDIES[n]
    R, M, edge = where.beliefs.radius, where.beliefs.noise_bound, np.eye(where.dimension)[0]
    usual = setting(where, n=n, epsilon=epsilon, alpha=alpha)
    people = [(edge, given_answer(where, edge, u * R, rng, runs), u * R) for u in (0.3, 0.5, 0.8)]
    people.append((edge, np.tile(R * edge, (runs, 1)), R + M))  # who answers R + M knows that θ·x = R
    ordinary = where.draw(rng, 1)[0]
    people.append((ordinary, given_answer(where, ordinary, 0.2, rng, runs), 0.2))
    found = [scored(where, usual, *person, rng) for person in people]
    for (payments, share), loose in LOOSE.items():
        s = usual.at(payments=payments, clip=share * R)
        stated, seen = float(proved.gap(s)), 0.0
        for player in found:
            mean, error = player.gap(s)
            assert abs(mean) - SIX * error <= stated
            seen = max(seen, abs(mean) - SIX * error)
        assert stated <= loose * seen


@pytest.mark.parametrize("name", ["ball 2", "ball 5", "uniform"])
def test_without_liars_an_unclipped_prediction_is_unbiased(name: str) -> None:
    """And it would not be if her own record had been left in: 1 % of the weight is her own, and her answer is R + M."""
    where, rng = world(name), np.random.default_rng(5)
    s = setting(where, n=100, alpha=0.0, payments="expected")
    x, R = where.farthest(), where.beliefs.radius
    theta = np.tile(R * x / np.linalg.norm(x), (4000, 1))
    found = scored(where, s, x, theta, R + where.beliefs.noise_bound, rng)
    mean, error = mean_and_error(found.p - found.truth)
    assert proved.gap(s) == 0.0
    assert abs(mean) <= SIX * error
    h = float(x @ where.inverse @ x) / 100
    left_in, error = mean_and_error(0.99 * found.p + h * (R + where.beliefs.noise_bound) - found.truth)
    assert left_in > SIX * error


def test_liars_are_counted_as_many_as_have_costs_above_the_threshold() -> None:
    """κ = n(1 − F(τ)): of 1000 people 3 may lie, but for 1 % of studies, and 0.8 do on average."""
    s = setting(world("ball 2"), n=1000, alpha=0.003, beta=0.01)
    kappa, tau = 1000 * float(s.above_threshold), float(proved.threshold(s))
    counts = np.sum(COSTS.sample(np.random.default_rng(6), 1000 * 4000).reshape(4000, 1000) > tau, axis=1)
    mean, error = mean_and_error(counts.astype(np.float64))
    assert mean == pytest.approx(kappa, abs=SIX * error)
    assert 0.8 < kappa < 0.85
    assert float(proved.gap(s.at(payments="expected"))) == pytest.approx(
        4 * float(expected_pull(s.model, kappa / 1000))
    )
    assert float(s.at(alpha=1e-9).above_threshold) == 1e-9  # never above α, which joins people of cost τ


def test_the_numbers_of_a_gap_are_those_that_were_derived() -> None:
    """d = 5, n = 20,000, α = 0.0012: lies 0.0197 (0.0316 if αn lied every time), and sampling 0.0008."""
    model = unit_ball(5, radius=1, noise_bound=1, noise_variance=0.1934353)
    s = Setting(model=model, costs=COSTS, n=20_000, epsilon=0.0885, alpha=0.0012)
    lies = float(proved.gap(s.at(payments="expected")))
    assert lies == pytest.approx(0.0197, abs=1e-4)
    assert 4 * float(expected_pull(model, 0.0012)) == pytest.approx(0.0316, abs=1e-4)
    assert float(proved.gap(s)) - lies == pytest.approx(0.0008, abs=1e-4)


@given(st.floats(0.05, 1), st.floats(0.05, 1), st.sampled_from(["known-design", "noisy-statistics"]))
def test_a_lower_clip_level_never_widens_a_gap(first: float, second: float, estimator: str) -> None:
    low, high = sorted((first, second))
    s = setting(world("ball 2"), n=10_000, epsilon=0.5, alpha=0.01, estimator=estimator)
    if estimator == "noisy-statistics":
        s = s.at(epsilon=20.0)
    narrow, wide = proved.gap(s.at(clip=np.array([low, high])))
    assert narrow <= wide * (1 + 1e-12) <= float(proved.gap(s)) * (1 + 2e-12)


def test_no_two_clipped_predictions_are_further_apart_than_twice_the_clip_level() -> None:
    s = setting(world("ball 2"), n=100, alpha=0.4, clip=0.2)
    assert proved.gap(s) == 0.4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_gaps_hold_in_studies_of_any_size_and_privacy(seed: int) -> None:
    """Random settings of every design, both payments, 1500 runs each."""
    rng = np.random.default_rng(100 + seed)
    where = world(DESIGNS[seed % len(DESIGNS)])
    s = setting(
        where,
        n=int(10 ** rng.uniform(1.5, 2.8)),
        epsilon=10 ** rng.uniform(-1, 1),
        alpha=rng.choice([0.0, 0.01, 0.1, 0.4]),
        payments=str(rng.choice(PAYMENTS)),
    )
    x, R = where.farthest(), where.beliefs.radius
    theta = np.tile(R * x / np.linalg.norm(x), (1500, 1))
    mean, error = scored(
        where, s, x, theta, R * float(np.linalg.norm(x)) + where.beliefs.noise_bound, rng
    ).gap(s)
    assert abs(mean) - SIX * error <= float(proved.gap(s))


# Gaps of noisy statistics


@dataclass(frozen=True, eq=False)
class Repeated:
    """What is predicted of one player before noise: a row for features and a matrix, two halves of answers in it."""

    r: float
    truth: float
    p: Floats
    scale: Floats

    def mean_square(self, s: Setting) -> tuple[float, float]:
        """Of E[p − ‖x‖ψ(u) | features, matrix], and its standard error: the product of two independent means of it."""
        psi, r, scale = curve(s), self.r, self.scale[:, None]
        parted = r * (psi(self.p / r, scale / r) - psi(np.full_like(scale, self.truth / r), scale / r))
        first, second = np.split(parted, 2, axis=1)
        return mean_and_error(first.mean(axis=1) * second.mean(axis=1))


def repeated(where: World, s: Setting, x: Floats, theta: Floats, rng: Rng, runs: int) -> Repeated:
    """Those of greatest weight along x lie, as many as have costs above τ; the others answer four times two times."""
    n, Y = int(s.n), where.beliefs.response_bound
    X = where.draw(rng, runs * n).reshape(runs, n, where.dimension)
    X[:, 0] = x
    inverse = inverses(where, s, X, rng)
    scale = left_out(s, X, np.zeros((runs, n)), inverse)[1]
    w = np.einsum("kij,j->ki", inverse, x)
    weights = np.einsum("knd,kd->kn", X[:, 1:], w) / (1 - w @ x)[:, None]
    rank = np.argsort(np.argsort(-np.abs(weights), axis=1), axis=1)
    liars = rank < rng.binomial(n - 1, float(s.above_threshold), runs)[:, None]
    z = where.beliefs.noise.sample(rng, runs * 8 * (n - 1)).reshape(runs, 8, n - 1)
    reports = np.where(liars, -np.sign(theta @ x) * Y * np.sign(weights), X[:, 1:] @ theta)
    p = np.einsum("kn,kn->k", weights, reports)[:, None] + np.einsum("kn,kan->ka", weights * ~liars, z)
    return Repeated(float(np.linalg.norm(x)), float(theta @ x), p, scale)


@pytest.mark.parametrize("name", ["ball 2", "observed"])
@pytest.mark.parametrize(
    ("numbers", "loose"),
    [
        ({"n": 2000, "epsilon": 30.0, "alpha": 0.005}, 3.0),  # mostly lies
        ({"n": 2000, "epsilon": 10.0, "alpha": 0.0, "gram_share": 0.02}, 4.0),  # mostly noise on XᵀX
    ],
)
def test_gaps_of_noisy_statistics_hold_in_the_mean_square(
    name: str, numbers: dict[str, float], loose: float
) -> None:
    """There q depends on the released matrix, and the mean square over it counts. At most `loose` times too large."""
    where, rng = world(name), np.random.default_rng(7)
    x, R, seen = where.farthest(), where.beliefs.radius, 0.0
    s = setting(where, estimator="noisy-statistics", **numbers)
    for u in (0.3, 0.5, 0.95):
        found = repeated(where, s, x, u * R * x / np.linalg.norm(x), rng, 300)
        for clip in (R / 2, R):
            mean, error = found.mean_square(s.at(clip=clip))
            assert mean - SIX * error <= float(proved.gap(s.at(clip=clip))) ** 2 < math.inf
            seen = max(seen, mean - SIX * error)
    assert float(proved.gap(s)) ** 2 <= loose**2 * seen


@pytest.mark.parametrize("name", ["ball 2", "observed"])
def test_unclipped_noisy_statistics_are_moved_by_lies_no_more_than_stated(name: str) -> None:
    where, rng = world(name), np.random.default_rng(8)
    x, R = where.farthest(), where.beliefs.radius
    s = setting(where, n=2000, epsilon=30.0, alpha=0.005, estimator="noisy-statistics", payments="expected")
    found = repeated(where, s, x, 0.9 * R * x / np.linalg.norm(x), rng, 200)
    mean, error = mean_and_error(found.p.mean(axis=1) - found.truth)
    stated = float(proved.gap(s))
    assert abs(mean) - SIX * error <= stated <= 3 * (abs(mean) - SIX * error)


def test_gram_noise_biases_an_unclipped_prediction_by_no_more_than_its_second_order() -> None:
    """The first order cancels between N and −N: the mean of 2000 pairs, with exact answers, is a third of the gap."""
    where, rng, n, runs = world("observed"), np.random.default_rng(12), 600, 2000
    s = setting(where, n=n, epsilon=15.0, alpha=0.0, estimator="noisy-statistics", payments="expected")
    x = where.farthest()
    theta, scale = 0.8 * x, n * float(gram_scale(s, n))
    X = where.draw(rng, runs * n).reshape(runs, n, 3)
    X[:, 0] = x
    exact, N, found = X.transpose(0, 2, 1) @ X, symmetric_noise(rng, runs, 3, scale), np.zeros(runs)
    for sign in (1, -1):
        inverse = floored_inverse(exact + sign * N, n * float(gram_floor(s)))
        found += left_out(s, X, X @ theta, inverse)[0] / 2
    mean, error = mean_and_error(found - float(theta @ x))
    assert mean + SIX * error <= float(proved.gap(s)) <= 5 * (mean - SIX * error)


def test_nobody_is_more_than_half_of_what_is_known_of_her() -> None:
    """10,000 releases of 4 to 50 people, d from 1 to 5, ε from 0.01 to 100: for every x, h ≤ ½ and p is bounded."""
    rng = np.random.default_rng(9)
    for d in range(1, 6):
        n, epsilon = rng.integers(4, 51, 2000).astype(np.float64), 10 ** rng.uniform(-2, 2, 2000)
        model = Model(d, 1.0, 1.0, 0.2, 1 / d)
        s = Setting(
            model=model,
            costs=COSTS,
            n=n,
            epsilon=epsilon,
            alpha=0.0,
            estimator="noisy-statistics",
        )
        X = rng.standard_normal((2000, 50, d))
        X *= rng.random((2000, 50, 1)) ** (1 / d) / np.linalg.norm(X, axis=2, keepdims=True)
        X *= rng.choice([0.01, 1.0], (2000, 1, d))  # features that hardly vary, too
        X *= (np.arange(50) < n[:, None])[..., None]
        noise = (n * gram_scale(s, n))[:, None, None] * symmetric_noise(rng, 2000, d, 1.0)
        values, vectors = np.linalg.eigh(X.transpose(0, 2, 1) @ X + noise)
        values = np.maximum(values, (n * gram_floor(s))[:, None])
        along = np.einsum("knd,kde->kne", X, vectors)
        h = np.sum(along**2 / values[:, None], axis=2)
        assert 1 / values.min() <= 0.5 * (1 + 1e-12)  # the largest h of any unit vector
        assert h.max() <= 0.5
        y = rng.choice([-2.0, 2.0], (2000, 50)) * (np.arange(50) < n[:, None])
        theta = np.einsum("kde,ke->kd", vectors, np.einsum("kne,kn->ke", along, y) / values)
        p = (np.einsum("knd,kd->kn", X, theta) - h * y) / (1 - h)
        furthest = (
            (n - 1) * 2.0 / (n * gram_floor(s) - 1)
        )  # what the gap counts where the matrix says nothing
        assert np.all(np.abs(p) <= furthest[:, None] * (1 + 1e-9))


def test_a_floor_that_would_bind_promises_nothing() -> None:
    s = setting(world("observed"), n=60, alpha=0.001, estimator="noisy-statistics")
    for payments in PAYMENTS:
        assert proved.gap(s.at(payments=payments)) == math.inf
        assert proved.gap(s.at(payments=payments, n=10**6)) < math.inf
    assert proved.accuracy(s) == math.inf
    assert proved.accuracy(s.at(n=10**6)) < 0.01
    wide = s.at(epsilon=1e9)  # no noise at all: the floor is that of two people
    assert float(gram_floor(wide)) == 2 / 60
    assert proved.accuracy(wide) < math.inf
    assert proved.accuracy(wide.at(n=12)) == math.inf


def test_without_a_known_design_nothing_is_promised() -> None:
    s = setting(world("observed"), alpha=0.01)
    for estimator in ("known-design", "noisy-statistics"):
        for payments in PAYMENTS:
            unknown = s.at(model=Model(3, 0.6, 0.4, 0.03, 0.0), estimator=estimator, payments=payments)
            assert proved.gap(unknown) == math.inf
            assert proved.accuracy(unknown) == math.inf


# The argument about clipping, part by part


@given(st.integers(1, 12), st.floats(0.01, 30), st.floats(-3, 3), st.floats(1, 20))
def test_the_slope_of_a_clipped_curve_is_largest_in_the_middle_and_at_the_least_noise(
    d: int, scale: float, u: float, more: float
) -> None:
    R, h = 0.7, 1e-5
    curve = Clipped(R, d)
    slope = float(
        (curve(np.array([u + h]), scale * more) - curve(np.array([u - h]), scale * more))[0] / (2 * h)
    )
    steepest = 2 * float(L2Laplace(d, scale).marginal_cdf(R)) - 1
    assert -1e-6 <= slope <= steepest + 1e-6


@given(st.integers(1, 12), st.floats(0.05, 30), st.floats(-3, 3), st.floats(1, 20))
def test_a_clipped_curve_bends_by_no_more_than_the_density_of_the_least_noise_at_zero(
    d: int, scale: float, u: float, more: float
) -> None:
    """Of the two terms of ψ'' = f(R+u) − f(R−u) only one can be near the peak."""
    R, law = 0.7, L2Laplace(d, scale * more)
    bend = float(law.marginal_pdf(R + u) - law.marginal_pdf(R - u))
    h = 1e-3 * scale
    curve = Clipped(R, d)
    seen = float(np.diff(curve(np.array([u - h, u, u + h]), scale * more), 2)[0] / h**2)
    peak = float(L2Laplace(d, scale).marginal_pdf(0.0))
    assert abs(bend) <= peak
    assert abs(seen) <= peak * (1 + 1e-3) + 1e-5


@given(
    d=st.integers(1, 8),
    scale=st.floats(0.02, 5),
    u=st.floats(-0.7, 0.7),
    up=st.floats(0.001, 3),
    down=st.floats(0.001, 3),
)
def test_errors_of_mean_zero_move_a_clipped_curve_by_the_lesser_of_two_orders(
    d: int, scale: float, u: float, up: float, down: float
) -> None:
    """For every law on two points of mean zero; these are the extreme points of all laws of mean zero."""
    R, law = 0.7, L2Laplace(d, scale)
    curve = Clipped(R, d)
    chance = down / (up + down)
    moved = chance * curve(np.array([u + up]), scale) + (1 - chance) * curve(np.array([u - down]), scale)
    shift = abs(float(moved[0] - curve(np.array([u]), scale)[0]))
    sd, steepest = math.sqrt(up * down), 2 * float(law.marginal_cdf(R)) - 1
    assert shift <= steepest * sd / 2 + 1e-12
    assert shift <= float(law.marginal_pdf(0.0)) * sd**2 / 2 + 1e-12


def test_the_first_order_of_clipping_is_attained() -> None:
    """At the edge, without noise, an error of ±e is halved by clipping: S·sd/2 exactly."""
    curve = Clipped(1.0, 2)
    moved = (curve(np.array([1.3]), 0.0) + curve(np.array([0.7]), 0.0)) / 2 - 1.0
    assert float(moved[0]) == pytest.approx(-0.15)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_noise_of_a_known_design_is_never_narrower_than_its_second_order_takes_it(name: str) -> None:
    """xᵀΣ⁻¹x ≤ ‖Σ⁻¹x‖ and ‖Σ⁻¹x‖ ≥ ‖x‖/λ_max, over features."""
    where = world(name)
    X = where.draw(np.random.default_rng(7), 2000)
    stretched = np.linalg.norm(X @ where.inverse, axis=1)
    assert np.all(np.einsum("nd,de,ne->n", X, where.inverse, X) <= stretched * (1 + 1e-9))
    assert np.all(stretched >= np.linalg.norm(X, axis=1) / where.model.greatest_eigenvalue * (1 - 1e-9))


@pytest.mark.parametrize("d", [1, 2, 6])
def test_gram_noise_between_two_unit_vectors_has_the_mean_square_that_gaps_count(d: int) -> None:
    """E(w·Nθ)² = (D+1)(1 + (w·θ)²)/2 at scale 1, largest, and 2/(d+1) of E‖Nθ‖², for w = θ: tested from both sides."""
    N = symmetric_noise(np.random.default_rng(12), 40_000, d, 1.0)
    e, D = np.eye(d), d * (d + 1) / 2
    mean, error = mean_and_error((N[:, 0, 0]) ** 2)
    assert mean == pytest.approx(D + 1, abs=SIX * error)
    assert pytest.approx(2 / (d + 1) * mean_square_along(d)) == D + 1
    mean, error = mean_and_error((N @ e[-1] @ (e[0] + 2 * e[-1]) / math.sqrt(5 + 4 * (d == 1))) ** 2)
    assert mean - SIX * error <= D + 1


# Edges


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_two_players_are_enough_for_every_formula(estimator: str, payments: str, n: int) -> None:
    s = setting(world("ball 2"), n=n, alpha=0.1, estimator=estimator, payments=payments)
    assert proved.gap(s) > 0


@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_more_liars_never_narrow_a_gap(estimator: str, payments: str) -> None:
    sizes: Floats = np.geomspace(1e5, 1e8, 4)[:, None]
    s = setting(world("ball 2"), epsilon=2.0, estimator=estimator, payments=payments)
    alphas: Floats = np.array([0.0, 0.001, 0.01, 0.1, 0.5])
    grid = np.broadcast_to(proved.gap(s.at(n=sizes, alpha=alphas)), (4, 5))
    assert np.all(np.diff(grid, axis=1) > 0)

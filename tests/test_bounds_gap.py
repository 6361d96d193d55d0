"""Gaps: a truthful player and her peers, part of whom lie as badly as they can, are never further apart than stated.

A simulated mean is compared at six standard errors: a false alarm has probability below 2e-9 (normal approximation; the
means are over hundreds of independent runs), and the seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_bounds import (
    BALLS,
    DESIGNS,
    SIX,
    fitted,
    floored_inverse,
    gaps,
    influence,
    mean_and_error,
    setting,
    symmetric_noise,
    world,
    worst_reports,
)

from truthful.beliefs.laws import Clipped
from truthful.bounds import Model, proved
from truthful.bounds.setting import (
    FLOOR_POWER,
    HALF_MISS,
    gram_scale,
    least_half,
    most_half,
    peer_scale,
    public_scale,
)
from truthful.bounds.spectrum import mean_square_along
from truthful.check import Floats
from truthful.estimators.sensitivity import Query
from truthful.estimators.shrinkage import shrinkage_factor
from truthful.moments import GRID, grid_features, grid_responses, group_moments
from truthful.noise import L2Laplace
from truthful.random_halves import Mechanism, paymaster, peer_curve, private_estimates

PEERS = ("known-design", "ridge-free", "noisy-statistics")
PAYMENTS = ("never-negative", "expected")
CASES = [
    *(("known-design", name) for name in DESIGNS),
    *(("ridge-free", name) for name in BALLS),
    *(("noisy-statistics", name) for name in (*DESIGNS, "observed")),
]

# The twins are the package's mechanism


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics", "ridge-free", "ridge-ball"])
def test_the_simulated_mechanism_is_the_one_that_pays(estimator: str) -> None:
    """Without noise, on records that lie on the grid: estimates, scales and both predictions, to rounding."""
    where, rng, n = world("ball 2"), np.random.default_rng(1), 80
    beliefs = where.beliefs
    X, y = where.people(rng, 1, n, np.array([0.8, -0.5]))
    kx, ky = grid_features(X[0]), grid_responses(y[0], beliefs.response_bound)
    X, y, groups = kx[None] / GRID, ky[None] / GRID, rng.integers(0, 2, n).astype(np.uint8)
    mechanism = Mechanism(1.0, 3.0, 0.5, estimator, regularization=5.0, design=where.study.second_moments)
    halves = group_moments(kx, ky, groups)

    def silent(query: Query, epsilon: Fraction) -> Sequence[int]:
        return query.value

    estimates = private_estimates(halves, mechanism, beliefs, silent)
    s = setting(
        where,
        n=n,
        epsilon=1.0,
        public_share=0.9,
        gamma=5.0,
        estimator=estimator,
        peer_estimator=mechanism.peers,
    )
    floor = float(gram_scale(s, n, s.epsilon_public)) * 2**FLOOR_POWER
    G = X.transpose(0, 2, 1) @ X / n
    twin = fitted(estimator, where, X, y, 5.0)[0]
    if estimator == "noisy-statistics":
        twin = floored_inverse(G, floor)[0] @ (X[0].T @ y[0]) / n
    np.testing.assert_allclose(estimates.public.theta, twin, rtol=1e-9)
    assert estimates.public.scale == pytest.approx(float(public_scale(s)), rel=1e-5)
    counts = (halves[0].count, halves[1].count)
    p, q = paymaster(mechanism, beliefs, estimates, counts).predictions(kx, ky, groups)
    for half in (0, 1):
        mine, peer = groups == half, estimates.peers[1 - half]
        r = np.linalg.norm(X[0][mine], axis=1)
        scale = float(peer_scale(s, counts[1 - half])) * np.linalg.norm(X[0][mine] @ peer.spread, axis=1) / r
        curve = peer_curve(mechanism, beliefs, counts[1 - half])
        np.testing.assert_allclose(p[mine], r * np.clip(X[0][mine] @ peer.theta / r, -1, 1), atol=1e-12)
        np.testing.assert_allclose(q[mine], beliefs.prediction(r, y[0][mine], curve, scale), atol=1e-5)


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


# Each gap against simulation, at the features and the θ where clipping and lies do most


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize(("estimator", "name"), CASES)
def test_peers_and_player_are_parted_by_no_more_than_the_gap(
    estimator: str, name: str, payments: str, alpha: float
) -> None:
    where, rng, runs = world(name), np.random.default_rng(3), 150
    n, epsilon = (1500, 100.0) if estimator == "noisy-statistics" else (800, 1.0)
    s = setting(
        where, n=n, epsilon=epsilon, alpha=alpha, gamma=20.0, peer_estimator=estimator, payments=payments
    )
    stated, x = float(proved.gap(s)), where.farthest()
    assert stated < math.inf
    for player, toward in ((x, 1.0), (0.4 * x, 1.0), (x, 0.3)):
        theta = toward * where.beliefs.radius * x / np.linalg.norm(x)
        mean, error = mean_and_error(gaps(where, s, player, theta, rng, runs))
        assert abs(mean) - SIX * error <= stated
    if alpha == 0.2:  # lies that bad are seen: the simulation could have failed
        assert abs(mean) - SIX * error > float(proved.gap(s.at(alpha=0.0)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_gaps_hold_in_studies_of_any_size_and_privacy(seed: int) -> None:
    """Random settings, all three kinds of peers, both payments, 1500 runs each."""
    rng = np.random.default_rng(100 + seed)
    estimator, name = CASES[rng.integers(len(CASES))]
    where = world(name)
    n = int(10 ** rng.uniform(1.5, 2.8)) if estimator != "noisy-statistics" else 1200
    s = setting(
        where,
        n=n,
        epsilon=10 ** rng.uniform(-1, 1) * (1 if estimator != "noisy-statistics" else 300),
        alpha=rng.choice([0.0, 0.01, 0.1, 0.4]),
        gamma=10 ** rng.uniform(0, 2),
        public_share=rng.uniform(0.1, 0.9),
        peer_estimator=estimator,
        payments=str(rng.choice(PAYMENTS)),
    )
    x = where.farthest()
    theta = where.beliefs.radius * x / np.linalg.norm(x)
    mean, error = mean_and_error(gaps(where, s, x, theta, rng, 1500))
    assert abs(mean) - SIX * error <= float(proved.gap(s))


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("covariance", {"n": 1500, "epsilon": 100.0}),
        ("covariance", {"n": 1500, "epsilon": 100.0, "alpha": 0.05}),
        ("ball 5", {"n": 6000, "epsilon": 25.0, "gram_share": 0.05}),  # mostly noise on XᵀX
    ],
)
def test_gaps_of_noisy_statistics_hold_in_the_mean_square(name: str, numbers: dict[str, float]) -> None:
    """There q depends on the released matrix, so that the mean square of p − q counts, not only its mean."""
    where = world(name)
    x, R = where.farthest(), where.beliefs.radius
    s = setting(where, peer_estimator="noisy-statistics", **numbers)
    mean, error = mean_and_error(gaps(where, s, x, 0.9 * R * x, np.random.default_rng(4), 400) ** 2)
    assert 0.1 * float(proved.gap(s)) ** 2 <= mean - SIX * error <= float(proved.gap(s)) ** 2


@pytest.mark.parametrize("name", DESIGNS)
def test_an_unclipped_known_design_is_unbiased(name: str) -> None:
    where = world(name)
    s = setting(where, n=100, payments="expected")
    values = gaps(where, s, where.farthest(), where.worst_theta(), np.random.default_rng(5), 2000)
    mean, error = mean_and_error(values)
    assert proved.gap(s) == 0.0
    assert abs(mean) <= SIX * error


def test_lies_move_a_known_design_by_nearly_all_of_its_gap() -> None:
    """On the ball the liars of greatest weight say what hurts most: 0.8 of the bound, which takes |lie| = 2Y."""
    where = world("ball 5")
    s = setting(where, n=4000, alpha=0.05, payments="expected")
    x = np.eye(5)[0]
    mean, _ = mean_and_error(gaps(where, s, x, 2.0 * x, np.random.default_rng(6), 200))
    assert 0.75 < -mean / float(proved.gap(s)) < 1


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


def test_a_half_of_odd_size_is_in_the_mean_square() -> None:
    """q depends on the half's size, so a gap of 2R with probability P adds 2R·√P, not 2R·P."""
    s = setting(world("ball 2"), n=10**12, epsilon=10.0)
    stated = float(proved.gap(s))
    assert stated >= math.sqrt(2 * HALF_MISS) * 2
    assert stated <= 1.5 * math.sqrt(2 * HALF_MISS) * 2


@pytest.mark.parametrize("n", [200, 2000])
@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", ["known-design", "ridge-free"])
def test_no_half_of_a_likely_size_has_a_larger_gap(estimator: str, payments: str, n: int) -> None:
    """The scale of the noise differs from half to half: the largest half is simulated, against the one bound."""
    where = world("ball 2")
    s = setting(where, n=n, alpha=0.05, gamma=10.0, peer_estimator=estimator, payments=payments, epsilon=3.0)
    x = np.array([1.0, 0.0])
    larger = next(k for k in range(n, 10 * n) if least_half(k) >= most_half(n))
    values = gaps(where, s.at(n=larger), x, x, np.random.default_rng(8), 300)
    mean, error = mean_and_error(values)
    assert abs(mean) - SIX * error <= float(proved.gap(s))


# Ridges and Gram noise, part by part


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("name", BALLS)
def test_a_ridge_scored_against_the_papers_own_prediction_is_off_by_no_more_than_its_shrinkage(
    name: str, alpha: float
) -> None:
    where = world(name)
    s = setting(where, n=800, alpha=alpha, gamma=20.0, peer_estimator="ridge-unmatched", payments="expected")
    x = np.eye(where.dimension)[0]
    mean, error = mean_and_error(gaps(where, s, x, where.beliefs.radius * x, np.random.default_rng(11), 200))
    assert abs(mean) - SIX * error <= float(proved.gap(s))
    if alpha == 0:
        assert abs(mean) + SIX * error >= 0.7 * float(proved.gap(s))


@pytest.mark.parametrize("gamma", [1.0, 30.0])
@pytest.mark.parametrize("name", BALLS)
def test_a_ridge_varies_no_more_than_its_curve_leaves_room_for(name: str, gamma: float) -> None:
    """Where the noise is nothing beside R the gap is half the deviation of x·θ̂, or more."""
    where, n = world(name), 600
    s = setting(where, n=n, gamma=gamma, peer_estimator="ridge-free", epsilon=1e9)
    x, m = np.eye(where.dimension)[0], int(least_half(n))
    theta = where.beliefs.radius * x
    X, y = where.people(np.random.default_rng(9), 500, m, theta)
    values = fitted("ridge-free", where, X, y, gamma) @ x
    assert float(values.std()) / 2 <= float(proved.gap(s)) * 1.15  # 500 runs: a deviation is known to 15 %
    mean, error = mean_and_error(values)
    assert mean == pytest.approx(
        where.beliefs.radius * shrinkage_factor(m, gamma, where.dimension), abs=SIX * error
    )


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


def test_gram_noise_biases_a_prediction_by_no_more_than_its_second_order() -> None:
    """xᵀ(G+N)⁻¹Gθ over N and −N alike, so that odd orders cancel: the mean of 20 × 300 pairs against the whole gap."""
    where, rng, runs = world("covariance"), np.random.default_rng(10), 300
    s = setting(where, n=1500, epsilon=8.0, peer_estimator="noisy-statistics", payments="expected")
    m, x = int(least_half(1500)), where.farthest()
    theta, scale = 0.8 * x, float(gram_scale(s, m, s.epsilon_peer))
    moved = []
    for _ in range(20):
        X = where.draw(rng, runs * m).reshape(runs, m, 3)
        G, N = X.transpose(0, 2, 1) @ X / m, symmetric_noise(rng, runs, 3, scale)
        found = [
            floored_inverse(G + sign * N, scale * 3**FLOOR_POWER) @ (G @ theta)[..., None] for sign in (1, -1)
        ]
        moved.append((found[0] + found[1])[..., 0] @ x / 2 - theta @ x)
    mean, error = mean_and_error(np.concatenate(moved))
    assert mean + SIX * error <= float(proved.gap(s))
    assert mean - SIX * error > 0.2 * float(proved.gap(s))


# Edges


UNKNOWN = Model(3, 0.6, 0.4, 0.03, 0.0)


@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", PEERS)
def test_without_a_known_design_nothing_is_promised(estimator: str, payments: str) -> None:
    s = setting(world("observed"), alpha=0.01, gamma=10.0, peer_estimator=estimator, payments=payments)
    assert proved.gap(s.at(model=UNKNOWN)) == math.inf


def test_a_floor_that_would_bind_promises_nothing() -> None:
    s = setting(world("covariance"), n=100, peer_estimator="noisy-statistics")
    assert proved.gap(s) == math.inf
    assert proved.gap(s.at(n=10**6)) < math.inf


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", PEERS)
def test_two_players_are_enough_for_every_formula(estimator: str, payments: str, n: int) -> None:
    s = setting(world("ball 2"), n=n, alpha=0.1, gamma=1.0, peer_estimator=estimator, payments=payments)
    assert proved.gap(s) > 0


@pytest.mark.parametrize("payments", PAYMENTS)
@pytest.mark.parametrize("estimator", PEERS)
def test_more_liars_never_narrow_a_gap_and_more_players_never_widen_it(estimator: str, payments: str) -> None:
    """A ridge's penalty grows with the players, so that it shrinks all alike. What is rare weighs up to 1e-3."""
    sizes: Floats = np.geomspace(1e5, 1e8, 4)[:, None]
    s = setting(world("ball 2"), epsilon=2.0, peer_estimator=estimator, payments=payments)
    alphas: Floats = np.array([0.0, 0.001, 0.01, 0.1, 0.5])
    grid = np.broadcast_to(proved.gap(s.at(n=sizes, gamma=sizes / 100, alpha=alphas)), (4, 5))
    assert np.all(np.diff(grid, axis=1) > 0)
    assert np.all(grid[1:] <= grid[:-1] + 1e-3)

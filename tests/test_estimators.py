"""No neighbouring data set moves a release further than its sensitivity, through the whole integer pipeline."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, Ridge
from support.oracles_estimators import constrained_minimiser, nobody, published_sensitivity

from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import Estimator, KnownDesign, NoisyStatistics, RidgeBall, RidgeFree
from truthful.estimators.sensitivity import Query
from truthful.moments import GRID, Moments, grid_features, grid_responses, moments

Record = tuple[Floats, float]

ESTIMATORS: dict[str, Callable[[int, float], Estimator]] = {
    "known-design": lambda d, Y: KnownDesign(np.eye(d) / (d + 2), Y),
    "noisy-statistics": lambda d, Y: NoisyStatistics(d, Y, Fraction(1, 3)),
    "ridge-ball": lambda d, Y: RidgeBall(d, 3.0, Y / 2, Y),
    "ridge-free": lambda d, Y: RidgeFree(d, 3.0, Y),
}
every_estimator = pytest.mark.parametrize("name", list(ESTIMATORS))


def one(record: Record, Y: float) -> Moments:
    x, y = record
    return moments(grid_features([x]), grid_responses([y], Y))


def times(factor: int, m: Moments) -> Moments:
    """The moments of so many players who all report the same."""
    return Moments(factor * m.count, factor * m.gram, factor * m.cross, factor * m.square)


def square_distance(a: Query, b: Query) -> int:
    return sum(w * (p - q) ** 2 for w, p, q in zip(a.weights, a.value, b.value, strict=True))


def used_share(estimator: Estimator, base: Moments, old: Record, new: Record, Y: float) -> list[float]:
    """Distance over sensitivity of each query when `old` is replaced by `new`; more than 1 would be a leak."""
    before, after = (estimator.queries(base + one(record, Y)) for record in (old, new))
    for a, b in zip(before, after, strict=True):
        assert (a.unit, a.sensitivity, a.weights, a.share) == (b.unit, b.sensitivity, b.weights, b.share)
        assert square_distance(a, b) <= a.sensitivity**2
    return [sqrt(square_distance(a, b)) / float(a.sensitivity) for a, b in zip(before, after, strict=True)]


def base_of(points: Floats, copies: list[int], Y: float) -> Moments:
    d = points.shape[1] - 1
    total = nobody(d)
    for point, factor in zip(points, copies, strict=True):
        total += times(factor, one((point[:d], float(point[d])), Y))
    return total


numbers = st.floats(-3, 3) | st.sampled_from([0.0, 1.0, -1.0, 1e9, -1e300, 1e-9])


@every_estimator
@given(data=st.data())
def test_replacing_any_record_by_any_other_stays_within_the_sensitivity(
    name: str, data: st.DataObject
) -> None:
    d, Y = data.draw(st.integers(1, 4)), data.draw(st.sampled_from([0.05, 1.0, 2.5]))
    rows = data.draw(st.integers(0, 4))
    draw = st.lists(numbers, min_size=d + 1, max_size=d + 1)
    points = np.array([data.draw(draw) for _ in range(rows)]).reshape(rows, d + 1)
    copies = [data.draw(st.sampled_from([1, 3, 1000, 10**7])) for _ in range(rows)]
    old, new = (np.array(data.draw(draw)) for _ in range(2))
    used_share(ESTIMATORS[name](d, Y), base_of(points, copies, Y), (old[:d], old[d]), (new[:d], new[d]), Y)


def climb(estimator: Estimator, start: Floats, copies: int, Y: float, steps: int, seed: int) -> float:
    """Random hill climbing over one repeated base record and a swap: the largest share of the sensitivity found.

    start: rows (x, y) of the base record, the old record and the new one.
    """
    rng = np.random.default_rng(seed)
    d = start.shape[1] - 1

    def share(rows: Floats) -> float:
        base = times(copies, one((rows[0, :d], rows[0, d]), Y))
        return max(used_share(estimator, base, (rows[1, :d], rows[1, d]), (rows[2, :d], rows[2, d]), Y))

    best, found = start, share(start)
    for step in range(steps):
        size = 0.3 * 0.003 ** (step / steps) * np.abs(best[:, :d]).max(axis=1, keepdims=True)
        trial = best + rng.normal(size=start.shape) * (rng.random(start.shape) < 0.5) * size
        value = share(trial)
        if value > found:
            best, found = trial, value
    return found


def near_the_worst(name: str, d: int, copies: int, gamma: float = 3.0) -> Floats:
    """Where the proof says to start, at Y = 1: a base that tilts the estimate most, and a swap across its tilt."""
    rows = np.zeros((3, d + 1))
    # The free minimiser is largest at √(γ/n); in the ball of radius ½ the norm should just reach it.
    tilt = (1 - sqrt(max(0.0, 1 - gamma / copies))) if name == "ridge-ball" else sqrt(gamma / copies)
    rows[0, 0], rows[0, d] = tilt, 1.0
    if d == 1:
        rows[1:] = [[0.1, 1.0], [1.0, -1.0]]
    else:
        rows[1:, 0], rows[1:, 1], rows[1:, d] = 0.5, (0.8, -0.8), -1.0
    return rows


def mirror_images(n: int, gamma: float, R: float, Y: float, a: float) -> tuple[Moments, Record, Record]:
    """The worst case of the proof: all others at a·e₁ with y = Y, and a swap of mirror images in e₁ with y = −Y."""
    t = (-Y + sqrt(Y**2 + 8 * R**2)) / (4 * R)
    side = sqrt(1 - t**2)
    base = times(n - 1, one((np.array([a, 0.0]), Y), Y))
    return base, (np.array([t, side]), -Y), (np.array([t, -side]), -Y)


def test_the_sensitivity_of_sums_is_attained() -> None:
    Y = 1.0
    e1, e2 = np.eye(2)
    base = base_of(np.array([[0.3, 0.4, 0.5]]), [99], Y)
    (known,) = used_share(KnownDesign(np.eye(2) / 4, Y), base, (e1, Y), (e1, -Y), Y)
    gram, cross = used_share(NoisyStatistics(2, Y), base, (e1, Y), (e2, -Y), Y)
    assert known == 1.0
    assert gram == pytest.approx(1, abs=1e-11)
    assert cross == pytest.approx(1 / sqrt(2), abs=1e-6)


@pytest.mark.parametrize(("gamma", "least"), [(50.0, 0.98), (1000.0, 0.998)])
def test_the_sensitivity_of_ridge_in_the_ball_is_nearly_attained(gamma: float, least: float) -> None:
    """The base is placed where the free minimiser's norm just reaches R."""
    n, R, Y = 20_000, 1.0, 1.0
    a = (Y - sqrt(Y**2 - 4 * R**2 * gamma / (n - 1))) / (2 * R)
    found = max(
        used_share(RidgeBall(2, gamma, R, Y), *mirror_images(n, gamma, R, Y, near), Y)[0]
        for near in a * np.linspace(0.98, 1.05, 29)
    )
    assert least < found <= 1


@pytest.mark.parametrize(("gamma", "least"), [(50.0, 0.95), (1000.0, 0.99)])
def test_the_sensitivity_of_free_ridge_is_nearly_attained(gamma: float, least: float) -> None:
    n, Y = 10**6, 1.0
    R = Y * sqrt(n / gamma) / 2
    found = used_share(RidgeFree(2, gamma, Y), *mirror_images(n, gamma, R, Y, sqrt(gamma / n)), Y)[0]
    assert least < found <= 1


def test_the_published_constant_is_exceeded_when_coefficients_are_small() -> None:
    """B = .01, M = 0, γ = 100: one report of +.1 against −.1 moves the estimate by 1.98e-3, the claim is 4e-4."""
    Y, gamma = 0.1, 100.0
    for estimator in (RidgeBall(1, gamma, 0.1, Y), RidgeFree(1, gamma, Y)):
        before, after = (estimator.queries(one((np.ones(1), y), Y))[0] for y in (Y, -Y))
        moved = sqrt(square_distance(before, after)) * float(before.unit)
        assert moved == pytest.approx(1.98e-3, rel=1e-3)
        assert moved > 4.9 * published_sensitivity(0.1, 0.0, gamma)
        assert moved <= estimator.noise_scale(1, 1.0)


def test_the_published_constant_is_exceeded_by_free_ridge_on_many_players() -> None:
    """B = M = 1, n = 1e6, γ = 1e3: x_j = √(γ/3n), y_j = Y, one record swapped for (1, −Y): 3.7 times the claim."""
    n, gamma, Y = 10**6, 1000.0, 2.0
    x = np.array([sqrt(gamma / (3 * n))])
    base = times(n - 1, one((x, Y), Y))
    estimator = RidgeFree(1, gamma, Y)
    before, after = (estimator.queries(base + one(record, Y))[0] for record in ((x, Y), (np.ones(1), -Y)))
    moved = sqrt(square_distance(before, after)) * float(before.unit)
    assert moved / published_sensitivity(1.0, 1.0, gamma) == pytest.approx(3.7, abs=0.1)
    assert moved <= estimator.noise_scale(n, 1.0)


@every_estimator
def test_an_absurd_report_has_no_more_influence_than_an_honest_one(name: str) -> None:
    base = base_of(np.array([[0.5, 0.1, 0.2]]), [500], 1.0)
    old, new = (np.array([0.1, 0.2]), 0.3), (np.array([1e9, -1e200]), 1e9)
    assert max(used_share(ESTIMATORS[name](2, 1.0), base, old, new, 1.0)) <= 1


@every_estimator
@given(count=st.integers(1, 10**6), epsilon=st.floats(1e-3, 100))
def test_the_noise_scale_is_the_query_s_sensitivity_over_its_epsilon(
    name: str, count: int, epsilon: float
) -> None:
    estimator = ESTIMATORS[name](2, 1.0)
    queries = estimator.queries(times(count, one((np.array([0.6, 0.8]), 1.0), 1.0)))
    assert sum(query.share for query in queries) == 1
    main = queries[-1]
    scale = float(main.sensitivity * main.unit / (Fraction(epsilon) * main.share))
    assert estimator.noise_scale(count, epsilon) == pytest.approx(scale, rel=1e-14)
    estimate = estimator.estimate([query.value for query in queries], count, epsilon)
    assert estimate.scale == pytest.approx(scale, rel=1e-14)


@every_estimator
def test_sensitivities_shrink_with_players_as_stated(name: str) -> None:
    Y, n, gamma = 1.0, 400, 3.0
    formula = {
        "known-design": 2 * Y / n,
        "noisy-statistics": 2 * Y / n,
        "ridge-ball": 2.201835 / gamma,  # C at R = ½, Y = 1, where t = (√3 − 1)/2
        "ridge-free": Y * (2 + sqrt(n / gamma) / 2) / gamma,
    }[name]
    query = ESTIMATORS[name](2, Y).queries(times(n, one((np.array([0.6, 0.8]), 1.0), Y)))[-1]
    stated = float(query.sensitivity * query.unit)
    assert 0.85 * formula < stated <= formula * (1 + 1e-7)


def data(
    rng: np.random.Generator, n: int, d: int, theta: Floats, noise: float = 0.1
) -> tuple[Floats, Floats]:
    X = rng.normal(size=(n, d))
    X *= (rng.random(n) ** (1 / d) / np.linalg.norm(X, axis=1))[:, None]
    X = grid_features(X) / GRID
    return X, grid_responses(X @ theta + noise * rng.uniform(-1, 1, n), 1.0) / GRID


def answered(estimator: Estimator, X: Floats, y: Floats, epsilon: float = 1.0) -> Floats:
    """The estimate without noise."""
    some = moments(X * GRID, y * GRID)
    return estimator.estimate([query.value for query in estimator.queries(some)], some.count, epsilon).theta


def test_known_design_without_noise_is_its_formula() -> None:
    Sigma = np.array([[0.3, 0.1], [0.1, 0.2]])
    X, y = data(np.random.default_rng(0), 300, 2, np.array([0.5, -0.4]))
    assert np.allclose(
        answered(KnownDesign(Sigma, 1.0), X, y), np.linalg.solve(Sigma, X.T @ y / 300), rtol=1e-12
    )


def test_known_design_is_unbiased() -> None:
    """Mean of 4,000 small surveys; 6 standard errors a coordinate: false alarms below 4e-9."""
    rng, theta = np.random.default_rng(1), np.array([0.5, -0.4])
    estimator = KnownDesign(np.eye(2) / 4, 1.0)
    thetas = np.array([answered(estimator, *data(rng, 20, 2, theta)) for _ in range(4000)])
    assert (np.abs(thetas.mean(axis=0) - theta) <= 6 * thetas.std(axis=0) / sqrt(4000)).all()


def test_noisy_statistics_without_noise_is_least_squares() -> None:
    X, y = data(np.random.default_rng(2), 5000, 3, np.array([0.3, 0.2, -0.6]))
    theta = answered(NoisyStatistics(3, 1.0), X, y)
    assert np.allclose(theta, LinearRegression(fit_intercept=False).fit(X, y).coef_, rtol=1e-10)


def test_noisy_statistics_rebuilds_the_symmetric_matrix_and_floors_its_eigenvalues() -> None:
    estimator = NoisyStatistics(2, 1.0, 0.5)
    unit = 2.0**-40 / 10
    matrix = np.array([[0.5, 0.3], [0.3, -0.2]])
    answers = [[round(v / unit) for v in (0.5, 0.3, -0.2)], [round(v / unit) for v in (0.1, 0.2)]]
    # s_N·d^1.5 = √2/(10·ε/2)·2√2 is 0.25.
    estimate = estimator.estimate(answers, 10, 3.2)
    values, vectors = np.linalg.eigh(matrix)
    assert values[0] < 0.25 < values[1]
    expected = vectors @ np.diag(1 / np.maximum(values, 0.25)) @ vectors.T
    assert np.allclose(estimate.spread, expected, atol=1e-10)
    assert np.allclose(estimate.theta, expected @ [0.1, 0.2], atol=1e-10)


def test_noisy_statistics_states_its_gram_noise() -> None:
    estimator = NoisyStatistics(4, 1.0, Fraction(1, 4))
    assert estimator.gram_scale(1000, 0.5) == pytest.approx(sqrt(2) / (1000 * 0.5 * 0.25), rel=1e-11)
    assert estimator.eigenvalue_floor(1000, 0.5) == pytest.approx(estimator.gram_scale(1000, 0.5) * 4**1.5)
    zeros = [[0] * 10, [0] * 4]
    estimate = estimator.estimate(zeros, 1000, 0.5)
    assert estimate.gram_scale == estimator.gram_scale(1000, 0.5)


def test_the_default_floor_is_about_the_spectral_norm_of_the_noise() -> None:
    """Mean spectral norm of 500 draws against s·d^1.5, for the L2-Laplace law in the Frobenius norm.

    A ratio has mean 0.964 and standard deviation 0.183, so their mean has standard error 0.0082: 0.91 and 1.02 are more
    than 6 of them away, a false alarm below 1e-8.
    """
    rng, d = np.random.default_rng(3), 8
    norms = []
    for _ in range(500):
        N = rng.normal(size=(d, d))
        N = (N + N.T) / sqrt(2)
        N *= rng.gamma(d * (d + 1) / 2) / np.linalg.norm(N)
        norms.append(np.linalg.norm(N, 2))
    assert 0.91 < np.mean(norms) / d**1.5 < 1.02


@pytest.mark.parametrize("gamma", [0.5, 20.0])
def test_ridges_without_noise_equal_scikit_learn_when_the_ball_is_slack(gamma: float) -> None:
    X, y = data(np.random.default_rng(4), 800, 4, np.array([0.3, 0.2, -0.1, 0.4]))
    sklearn = Ridge(alpha=gamma, fit_intercept=False, tol=1e-14).fit(X, y).coef_
    assert np.linalg.norm(sklearn) < 0.9
    assert np.allclose(answered(RidgeBall(4, gamma, 0.9, 1.0), X, y), sklearn, atol=1e-10)
    assert np.allclose(answered(RidgeFree(4, gamma, 1.0), X, y), sklearn, atol=1e-10)


def test_ridge_in_the_ball_is_the_constrained_minimiser_and_not_a_projection() -> None:
    rng = np.random.default_rng(5)
    X, y = data(rng, 400, 3, np.array([0.6, 0.5, -0.4]))
    X[:, 2] /= 8  # unequal eigenvalues
    X = grid_features(X) / GRID
    theta, free = answered(RidgeBall(3, 2.0, 0.4, 1.0), X, y), answered(RidgeFree(3, 2.0, 1.0), X, y)
    projected = free * 0.4 / np.linalg.norm(free)
    assert np.linalg.norm(free) > 0.4
    assert np.allclose(theta, constrained_minimiser(X, y, 2.0, 0.4), atol=1e-6)
    assert np.linalg.norm(theta - projected) > 1e-3


@pytest.mark.parametrize("name", ["ridge-ball", "ridge-free"])
def test_the_lattice_is_far_finer_than_the_sensitivity(name: str) -> None:
    estimator = ESTIMATORS[name](3, 1.0)
    (query,) = estimator.queries(times(100, one((np.array([0.5, 0.5, 0.5]), 0.7), 1.0)))
    assert query.unit.numerator == 1
    assert query.unit.denominator & (query.unit.denominator - 1) == 0
    assert 2**40 <= query.sensitivity <= 2**41 + 4
    assert isinstance(query.value[0], int)


def test_the_released_minimiser_is_the_nearest_lattice_point() -> None:
    x, Y, gamma = np.array([0.5]), 1.0, 2.0
    (query,) = RidgeFree(1, gamma, Y).queries(times(7, one((x, 0.75), Y)))
    exact = Fraction(7 * 3, 8) / (Fraction(2) + Fraction(7, 4))
    assert abs(query.value[0] * query.unit - exact) <= query.unit / 2 + Fraction(1, 2**99)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: KnownDesign(np.array([[1.0, 2.0], [2.0, 1.0]]), 1.0), "Sigma"),
        (lambda: KnownDesign(np.array([[1.0, 0.1], [0.2, 1.0]]), 1.0), "Sigma"),
        (lambda: KnownDesign(np.eye(2), float("nan")), "response_bound"),
        (lambda: NoisyStatistics(2, 1.0, 1.0), "gram_share"),
        (lambda: NoisyStatistics(0, 1.0), "dimension"),
        (lambda: RidgeBall(2, 0.0, 1.0, 1.0), "gamma"),
        (lambda: RidgeBall(2, 1e300, 1.0, 1.0), "gamma"),
        (lambda: RidgeBall(2, 1.0, 1e-9, 1.0), "radius"),
        (lambda: RidgeFree(2, float("inf"), 1.0), "gamma"),
        (lambda: RidgeFree(2, 1.0, 0.0), "response_bound"),
        (lambda: RidgeFree(2, 1.0, 1.0).noise_scale(2**31, 1.0), "gamma"),
        (lambda: RidgeFree(2, 1.0, 1.0).noise_scale(0, 1.0), "count"),
        (lambda: RidgeFree(2, 1.0, 1.0).noise_scale(9, 0.0), "epsilon"),
        (lambda: KnownDesign(np.eye(2), 1.0).noise_scale(9, float("nan")), "epsilon"),
        (lambda: KnownDesign(np.eye(3), 1.0).queries(nobody(3)), "count"),
        (lambda: RidgeFree(2, 1.0, 1.0).queries(nobody(3)), "dimension"),
    ],
)
def test_impossible_estimators_are_refused_from_public_numbers(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("d", [1, 2, 3])
@every_estimator
def test_a_directed_search_never_exceeds_the_sensitivity(name: str, d: int) -> None:
    """From where the proof says to start; and from anywhere, if few others hold the estimate in its place."""
    rng, estimator = np.random.default_rng(100 + d), ESTIMATORS[name](d, 1.0)
    for copies in (1, 50, 10**6):
        start = near_the_worst(name, d, copies)
        assert 0.4 < climb(estimator, start, copies, 1.0, steps=100, seed=copies) <= 1
    for copies in (1, 50) if d == 2 else ():
        assert climb(estimator, rng.normal(size=(3, d + 1)), copies, 1.0, steps=100, seed=copies) <= 1

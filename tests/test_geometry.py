"""The geometry of a roster against brute force: everybody's peers with her row really left out."""

from __future__ import annotations

import numpy as np
import pytest
from support.surveys import features as roster
from support.surveys import survey

from truthful.geometry import (
    BoundedLengths,
    GeometryTally,
    Largest,
    Lengths,
    _part,
    coarse_geometry,
    geometry,
    leverages,
)
from truthful.instruments import best_transform, shorten
from truthful.moments import GRID, grid_features, instruments_on_grid, sums
from truthful.noise import NORMS


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("n", "d", "share"), [(40, 2, 1.0), (40, 3, 0.0), (60, 5, 0.5)])
def test_numbers_of_people_are_those_of_a_refit_without_them(n: int, d: int, share: float, norm: str) -> None:
    X = roster(n, d)
    transform = shorten(X, best_transform(X, norm=norm), share, norm)
    found = geometry(X, transform, norm=norm)
    kx = grid_features(X)
    x, Z = kx / GRID, instruments_on_grid(kx, transform, norm) / GRID
    _, tau = found.people
    for i in range(n):
        others = np.arange(n) != i
        without = np.linalg.inv(Z[others].T @ x[others])
        weights = x[i] @ without @ Z[others].T
        assert tau[i] == pytest.approx(np.linalg.norm(x[i] @ without), rel=1e-9)
        worst = found.worst
        at = worst[(worst[:, 0] >= tau[i] * (1 - 1e-9)) & (worst[:, 1] >= weights @ weights * (1 - 1e-9))]
        assert len(at), "nobody is worse than the worst"
        assert np.abs(weights).max() <= tau[i] * found.longest * (1 + 1e-9)
    B = np.linalg.inv(Z.T @ x) @ Z.T
    G = x.T @ x / n
    assert found.sampling[0] == pytest.approx(np.sum(B**2))
    assert found.sampling[1] == pytest.approx(np.trace(G @ B @ B.T))
    assert found.operator[0] == pytest.approx(np.linalg.norm(B, 2))
    sizes = np.sort(np.linalg.norm(B, axis=0))[::-1]
    assert found.influence[0](np.array(3.0)) == pytest.approx(sizes[:3].sum())
    h = leverages(x, Z, np.linalg.inv(Z.T @ x).astype(np.float64))
    assert h.sum() == pytest.approx(d, abs=1e-4)
    assert found.leverage == pytest.approx(h.max())
    assert 0 <= h.min() + 1e-6 < h.max() < 1


def test_sums_of_the_largest_are_never_too_small() -> None:
    numbers = np.random.default_rng(0).exponential(size=5000)
    largest, exact = Largest.of(numbers), np.append(0, np.cumsum(np.sort(numbers)[::-1]))
    k = np.arange(5001)
    bound = largest(k.astype(float))
    assert np.all(bound >= exact * (1 - 1e-12))
    assert np.all(bound <= exact * 1.006 + 1e-9)
    assert largest(np.array(0.0)) == 0
    assert np.all(largest(k.astype(float)) >= largest(np.maximum(k - 0.5, 0).astype(np.float64)))


@pytest.mark.parametrize("linear", [0.0, 1.0])
def test_totals_of_payments_are_those_of_each_person(linear: float) -> None:
    r = np.sort(np.random.default_rng(1).uniform(0.3, 1, 200))
    for a, b, c in ((0.1, 2.0, 0.4), (0.0, 1.0, 0.2), (5.0, 1.0, 0.5), (0.3, 0.0, 0.5)):
        loss, gain = linear * c * r + 3 * (c * r) ** 2, linear * c * r + (c * r) ** 2
        base, more = Lengths(r, 2.0).totals(np.array(a), np.array(b), np.array(c), linear)
        assert float(base) == pytest.approx(2 * np.maximum(a, b * loss).sum())
        assert float(more) == pytest.approx(2 * (b * gain).sum())
        some = BoundedLengths(200, float(np.mean(r**2)), 0.3).totals(
            np.array(a), np.array(b), np.array(c), linear
        )
        assert float(some[0]) >= np.maximum(a, b * loss).sum() * (1 - 1e-12)
        assert float(some[1]) >= (b * gain).sum() * (1 - 1e-12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("d", [2, 5])
def test_bounds_from_sums_alone_are_on_the_safe_side(d: int, norm: str) -> None:
    X = roster(800, d)
    transform = shorten(X, best_transform(X, norm=norm), 1.0, norm)
    kx = grid_features(X)
    exact = geometry(X, transform, norm=norm)
    rough = coarse_geometry(sums(kx, np.zeros(len(kx)), transform, norm), 0.0, norm)
    assert rough.noise == pytest.approx(exact.noise)
    assert rough.sampling == pytest.approx(exact.sampling)
    assert rough.operator == pytest.approx(exact.operator)
    assert rough.leverage >= exact.leverage
    for one, other in zip(rough.influence, exact.influence, strict=True):
        assert one.sums[1] >= other.sums[1]
    assert np.all(rough.worst.max(axis=0) >= exact.worst.max(axis=0) * (1 - 1e-9))


@pytest.mark.parametrize("linear", [0.0, 1.0])
def test_totals_of_people_who_are_yet_to_be_drawn_are_hardly_ever_exceeded_and_a_flat_payment_never(
    linear: float,
) -> None:
    """3.1 standard deviations: one in a thousand draws is above. Of 4,000 more than 20 are with probability 1e-8."""
    rng = np.random.default_rng(2)
    everybody, players = np.sort(rng.beta(4, 2, 20_000)), 100
    lengths = Lengths(everybody, players / len(everybody), players)
    draws = rng.choice(everybody, (4_000, players))
    for a, b, c in ((0.1, 2.0, 0.4), (0.0, 1.0, 0.2), (0.3, 1.0, 0.5)):
        loss, gain = linear * c * draws + 3 * (c * draws) ** 2, linear * c * draws + (c * draws) ** 2
        base, more = lengths.totals(np.array(a), np.array(b), np.array(c), linear)
        for total, each in ((base, np.maximum(a, b * loss)), (more, b * gain)):
            totals = each.sum(axis=1)
            assert np.sum(totals > float(total)) <= 20
            assert float(total) < totals.mean() + 3.5 * totals.std()
    assert float(lengths.totals(np.array(0.3), np.array(0.0), np.array(0.5), linear)[0]) == pytest.approx(
        30.0
    )


def test_numbers_of_many_people_follow_from_those_of_few_who_are_spread_alike() -> None:
    """Everybody four times: errors, gaps and totals scaled from one of each are those of all."""
    from truthful.bounds import proved
    from truthful.guarantees import setting
    from truthful.one_release import OneRelease

    X = roster(500, 3)
    transform = shorten(X, best_transform(X), 1.0)
    mechanism = OneRelease(epsilon=0.5, base_payment=0.1, score_weight=5.0, clip=0.3, transform=transform)
    few, many = geometry(X, transform), geometry(np.tile(X, (4, 1)), transform)
    scaled, exact = (setting(survey(3), mechanism, 2000, 0.01, 0.01, found) for found in (few, many))
    for function in (proved.accuracy, proved.prediction_error, proved.gap, proved.budget_cap):
        assert float(function(scaled)) == pytest.approx(float(function(exact)), rel=0.01), function
    assert float(proved.liars(scaled)) == pytest.approx(float(proved.liars(exact)), rel=0.01)


def test_people_brought_in_parts_are_measured_as_all_at_once() -> None:
    X = roster(3_000, 5)
    transform = shorten(X, best_transform(X), 0.4)
    kx = grid_features(X)
    kz = instruments_on_grid(kx, transform)
    exact = geometry(X, transform)
    a, b, c, linear = 0.05, 0.5, 0.4, 0.0
    measuring = GeometryTally(sums(kx, np.zeros(len(kx)), transform), a, b, c, linear)
    for start in range(0, len(kx), 700):
        h = measuring.add(kx[start : start + 700], kz[start : start + 700])
        assert h.max() <= exact.leverage * (1 + 1e-9)
    found = measuring.geometry()
    for name in ("noise", "sampling", "operator", "leverage", "typical_noise"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=1e-9)
    k = np.linspace(0, 3_000, 301)
    for one, other in zip(found.influence, exact.influence, strict=True):
        assert one(k) == pytest.approx(other(k), rel=1e-9)
    totals = exact.lengths.totals(np.array(a), np.array(b), np.array(c), linear)
    assert np.allclose(found.lengths.totals(np.array(a), np.array(b), np.array(c), linear), totals)
    # Everybody is as bad as some row in every number, and the worst of each number is somebody's.
    part = _part(kx / GRID, kz / GRID, measuring.inverse, kz.T @ kz / GRID**2, np.eye(5))
    people = np.stack([part.tau, part.v, part.v / part.tau, part.r / part.tau, part.r], axis=1)
    assert all(np.any(np.all(found.worst >= row * (1 - 1e-9), axis=1)) for row in people)
    assert found.worst.max(axis=0) == pytest.approx(people.max(axis=0))
    assert np.sort(found.people[0]) == pytest.approx(np.sort(exact.people[0]))

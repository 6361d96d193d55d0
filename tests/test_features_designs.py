from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generators_study import studies
from support.oracles_study import corner_cases, drawn_cases

from truthful.errors import InputError
from truthful.study import Study
from truthful.study.features import (
    AsGiven,
    CovarianceDesign,
    Encoding,
    IndependentDesign,
    Levels,
    Numeric,
    ObservedDesign,
    UnitBallDesign,
    draw_columns,
)

MIXED = Encoding((Numeric("age", 18, 90), Levels("region", ("n", "s", "e"))), intercept=True, scaled=True)


def test_second_moments_of_a_uniform_design_have_their_closed_form() -> None:
    expected = np.diag([1, 1 / 3, 2 / 3, 2 / 3])
    expected[2, 3] = expected[3, 2] = 1 / 3
    np.testing.assert_allclose(IndependentDesign(MIXED).second_moments, expected / 4, atol=1e-16)
    assert IndependentDesign(MIXED).least_eigenvalue == pytest.approx(1 / 12)


@pytest.mark.parametrize("kind", ["uniform", "assigned"])
@given(data=st.data())
def test_moments_of_independent_features_are_the_sums_over_every_case(kind: str, data: st.DataObject) -> None:
    study = data.draw(studies(kind, centred=False))
    w = np.array([data.draw(st.floats(-2, 2)) for _ in range(study.dimension)])
    X, weights = drawn_cases(study)
    assert study.second_moments is not None
    np.testing.assert_allclose(study.second_moments, (X.T * weights) @ X, atol=1e-12)
    np.testing.assert_allclose(study.weighted_moments(w), (X.T * (weights * (X @ w) ** 2)) @ X, atol=1e-12)
    theta = np.linspace(-1, 1, study.dimension)
    expected = float(weights @ ((X @ w) ** 2 * (X @ theta) ** 2))
    assert study.fourth_moment(w, theta) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_of_the_unit_ball_are_those_of_samples(d: int) -> None:
    # Every entry is a mean of 400,000 values in [-1, 1] of variance at most 1/5: by Bernstein's inequality it is
    # off by 0.007 with probability below 1e-19.
    design = UnitBallDesign(tuple(f"x{j}" for j in range(d)))
    columns = design.sample(np.random.default_rng(11), 400_000)
    X = np.column_stack(list(columns.values()))
    w = np.linspace(0.3, 1, d) / np.sqrt(d)
    np.testing.assert_allclose(X.T @ X / len(X), design.second_moments, atol=0.007)
    np.testing.assert_allclose((X.T * (X @ w) ** 2) @ X / len(X), design.weighted_moments(w), atol=0.007)
    assert np.linalg.norm(X, axis=1).max() <= 1


def test_the_unit_ball_agrees_with_its_closed_form_in_one_dimension() -> None:
    # Uniform on [-1, 1]: E x^2 = 1/3, E x^4 = 1/5.
    design = UnitBallDesign(("x",))
    np.testing.assert_allclose(design.second_moments, [[1 / 3]])
    np.testing.assert_allclose(design.weighted_moments(np.array([1.0])), [[1 / 5]])


def test_the_bound_for_a_given_covariance_is_above_the_exact_moments() -> None:
    exact = IndependentDesign(MIXED)
    bound = CovarianceDesign(tuple(map(tuple, exact.second_moments.tolist())))
    assert bound.least_eigenvalue == pytest.approx(exact.least_eigenvalue)
    for w in np.random.default_rng(5).standard_normal((20, 4)):
        slack = np.linalg.eigvalsh(bound.weighted_moments(w) - exact.weighted_moments(w))
        assert slack[0] >= -1e-12


def test_uniform_samples_fill_their_ranges_and_levels() -> None:
    columns = IndependentDesign(MIXED).sample(np.random.default_rng(2), 20_000)
    X = MIXED.normalise(columns)
    assert set(columns["region"]) == {"n", "s", "e"}
    assert 18 <= columns["age"].min() < 18.1
    assert 89.9 < columns["age"].max() <= 90
    # Means of 20,000 values in [-1/4, 1/4]: Hoeffding, off by 0.02 with probability below 1e-13 for each entry.
    np.testing.assert_allclose(X.T @ X / len(X), IndependentDesign(MIXED).second_moments, atol=0.02)


@given(studies(kind="uniform", centred=False))
def test_reach_and_leverage_of_a_uniform_design_are_those_of_its_farthest_corner(study: Study) -> None:
    """‖Σ⁻¹x‖ and xᵀΣ⁻¹x are convex in each number, so they are largest at some corner of the ranges and levels."""
    furthest, largest = _furthest(study)
    assert study.design.reach == pytest.approx(furthest)
    assert study.design.leverage == pytest.approx(largest)


@given(studies(kind="assigned", centred=False))
def test_nothing_is_beyond_reach_and_leverage_whatever_levels_are_likely(study: Study) -> None:
    furthest, largest = _furthest(study)
    assert furthest * (1 - 1e-9) <= study.design.reach
    if study.declared.intercept:
        assert study.design.leverage == pytest.approx(largest)
    assert study.design.leverage >= largest * (1 - 1e-9)


def _furthest(study: Study) -> tuple[float, float]:
    """sup ‖Σ⁻¹x‖ and sup xᵀΣ⁻¹x."""
    assert study.second_moments is not None
    corners, inverse = corner_cases(study), np.linalg.inv(study.second_moments)
    leverage = np.einsum("nd,de,ne->n", corners, inverse, corners)
    return float(np.linalg.norm(corners @ inverse, axis=1).max()), float(leverage.max())


@pytest.mark.parametrize(
    "design",
    [IndependentDesign(MIXED), UnitBallDesign(("a", "b", "c"))],
    ids=["uniform", "ball"],
)
def test_no_sample_is_beyond_reach_and_leverage_and_some_come_close(design: Any) -> None:
    columns = design.sample(np.random.default_rng(8), 20_000)
    X = MIXED.normalise(columns) if design.kind == "uniform" else np.column_stack(list(columns.values()))
    inverse = np.linalg.inv(design.second_moments)
    for seen, stated in (
        (np.linalg.norm(X @ inverse, axis=1).max(), design.reach),
        (np.einsum("nd,de,ne->n", X, inverse, X).max(), design.leverage),
    ):
        assert 0.97 * stated < seen <= stated * (1 + 1e-12)


def test_reach_and_leverage_of_a_covariance_are_those_of_its_least_direction() -> None:
    design = CovarianceDesign(((0.3, 0.1), (0.1, 0.2)))
    vectors = np.linalg.eigh(design.second_moments)[1]
    inverse = np.linalg.inv(design.second_moments)
    assert design.reach == pytest.approx(np.linalg.norm(inverse @ vectors[:, 0]))
    assert design.leverage == pytest.approx(vectors[:, 0] @ inverse @ vectors[:, 0])
    X = np.random.default_rng(9).standard_normal((2000, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    assert np.linalg.norm(X @ inverse, axis=1).max() <= design.reach


def test_observed_features_have_no_reach() -> None:
    assert ObservedDesign(0.1).reach == ObservedDesign(0.1).leverage == np.inf


@pytest.mark.parametrize(
    "design", [ObservedDesign(0.1), CovarianceDesign(((1.0,),))], ids=["observed", "covariance"]
)
def test_features_of_unknown_law_are_not_invented(design: Any) -> None:
    with pytest.raises(InputError, match="does not say how features are distributed"):
        design.sample(np.random.default_rng(0), 3)


def test_a_feature_without_a_range_is_not_drawn_uniformly() -> None:
    with pytest.raises(InputError, match="'u' has no declared range"):
        draw_columns(np.random.default_rng(0), 3, [AsGiven("u")])


def test_observed_features_have_no_moments() -> None:
    with pytest.raises(InputError, match="moments are not known"):
        ObservedDesign(None).weighted_moments(np.ones(2))


@given(studies(kind="observed", centred=False))
def test_an_observed_study_knows_only_that_x_is_in_the_unit_ball(study: Study) -> None:
    assert study.second_moments is None
    assert study.least_eigenvalue is None
    assert study.mean_square_norm == 1.0

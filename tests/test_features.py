from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generators_study import people, studies
from support.oracles_study import encode_row
from support.studies import UNEQUAL

from truthful.errors import InputError
from truthful.study import Study
from truthful.study.features import AsGiven, Encoding, Levels, Numeric

AGE = Numeric("age", 18, 90)
REGION = Levels("region", ("north", "south", "east"))
ENCODING = Encoding((AGE, REGION), intercept=True, scaled=True)


def columns_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def codes(feature: Numeric | Levels, values: Any) -> Any:
    out = np.empty((feature.columns, len(values)))
    feature.encode(values, 1.0, out)
    return out.T


def test_the_ends_of_a_range_are_coded_as_exactly_minus_one_and_one() -> None:
    np.testing.assert_array_equal(codes(AGE, [18, 54, 90])[:, 0], [-1.0, 0.0, 1.0])


def test_levels_are_effect_coded() -> None:
    expected = [[1, 0], [0, 1], [-1, -1]]
    np.testing.assert_array_equal(codes(REGION, np.array(["north", "south", "east"])), expected)


def test_the_normalised_vector_is_the_codes_over_the_root_of_their_number() -> None:
    X = ENCODING.normalise({"age": np.array([18.0]), "region": np.array(["east"])})
    np.testing.assert_array_equal(X, np.array([[1, -1, -1, -1]]) / 2)
    assert X.dtype == np.float64
    assert X.T.flags.c_contiguous  # one feature after the other, as sums over people read them


def test_levels_may_be_given_as_text_objects_or_places() -> None:
    age = np.array([20.0, 30.0, 40.0])
    for region in (
        np.array(["east", "north", "south"]),
        np.array(["east", "north", "south"], dtype=object),
        np.array([2, 0, 1], dtype=np.uint8),
        np.array([2, 0, 1], dtype=np.int64),
    ):
        X = ENCODING.normalise({"age": age, "region": region})
        np.testing.assert_array_equal(X[:, 2:] * 2, [[-1, -1], [1, 0], [0, 1]])


@given(st.data())
def test_normalise_is_its_definition_row_by_row_and_stays_in_the_unit_ball(data: st.DataObject) -> None:
    study = data.draw(studies())
    rows = data.draw(people(study))
    X = study.normalise(columns_of(rows))
    np.testing.assert_allclose(X, [encode_row(study, row) for row in rows], atol=1e-12)
    assert np.all(np.linalg.norm(X, axis=1) <= 1 + 1e-12)


def test_features_given_normalised_are_left_alone() -> None:
    encoding = Encoding((AsGiven("u"), AsGiven("v")), intercept=False, scaled=False)
    X = encoding.normalise({"u": np.array([0.5, -0.1]), "v": np.array([0.25, 0.9])})
    np.testing.assert_array_equal(X, [[0.5, 0.25], [-0.1, 0.9]])


def test_effects_and_codes_invert_each_other() -> None:
    codes = np.array([3.0, -1.5, 0.25, 2.0])
    raw = dict(zip(ENCODING.names, (ENCODING.effects @ codes).tolist(), strict=True))
    assert list(raw) == ["intercept", "age", "region=north", "region=south", "region=east"]
    assert raw["region=east"] == -(0.25 + 2.0)
    np.testing.assert_allclose(ENCODING.codes(raw), codes, rtol=1e-14)


def test_raw_coefficients_with_interactions_are_those_of_least_squares_on_raw_columns() -> None:
    """Least squares of any answers, on x and on raw values and effect codes with their products: one model."""
    study, rng, n = Study.parse(UNEQUAL), np.random.default_rng(3), 400
    columns, answers = study.sample_features(rng, n), rng.uniform(0, 200, n)
    X = study.normalise(columns)
    theta = np.linalg.lstsq(X, study.normalise_response(answers, X), rcond=None)[0]
    found = dict(study.raw_coefficients(theta))

    price, visits = columns["price"], columns["visits"]
    region = {level: 1.0 * (columns["region"] == level) for level in ("north", "south", "east")}
    north, south = region["north"] - region["east"], region["south"] - region["east"]
    sex = np.where(columns["sex"] == "f", 1.0, -1.0)
    raw = {
        "intercept": np.ones(n),
        "price": price,
        "visits": visits,
        "price:visits": price * visits,
        "region=north": north,
        "region=south": south,
        "sex=f": sex,
        "region=north:price": north * price,
        "region=south:price": south * price,
        "region=north:sex=f": north * sex,
        "region=south:sex=f": south * sex,
    }
    expected = np.linalg.lstsq(np.column_stack(list(raw.values())), answers, rcond=None)[0]
    np.testing.assert_allclose([found[name] for name in raw], expected, rtol=1e-9)
    assert (
        len(found) == len(raw) + 1 + 1 + 1 + 4
    )  # of levels that the others imply: east, m, east:price, and pairs
    assert found["region=east:sex=m"] == pytest.approx(
        found["region=north:sex=f"] + found["region=south:sex=f"]
    )


def test_differences_are_against_the_reference_in_the_middle_of_what_interacts() -> None:
    study = Study.parse(UNEQUAL)
    theta = np.random.default_rng(1).normal(size=study.dimension)
    rows = dict(study.differences)
    assert list(rows)[:4] == ["price", "region=north", "region=east", "visits"]
    assert list(rows)[5:] == [
        *("price:visits", "region=north:price", "region=east:price"),
        *("region=north:sex=m", "region=east:sex=m"),
    ]

    def predicted(price: float, region: str, visits: float, sex: str) -> float:
        case = {"price": [price], "region": [region], "visits": [visits], "sex": [sex]}
        x = study.normalise(case)
        return float(study.raw_response(x @ theta, x)[0])

    def mean(region: str, price: float) -> float:
        return (predicted(price, region, 4, "f") + predicted(price, region, 4, "m")) / 2

    assert rows["region=north"] @ theta == pytest.approx(mean("north", 3) - mean("south", 3))
    larger = (mean("north", 5) - mean("north", 1)) - (mean("south", 5) - mean("south", 1))
    assert rows["region=north:price"] @ theta == pytest.approx(larger)


def test_the_mean_effect_of_levels_belongs_to_the_intercept() -> None:
    codes = ENCODING.codes({"intercept": 1.0, "region=north": 3.0})
    np.testing.assert_allclose(codes, [2.0, 0.0, 2.0, -1.0])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"age": [1.0]}, r"column 'region' is missing; there are age\."),
        ({}, "column 'age' is missing; there are none"),
        ({"age": [1.0, 2.0], "region": ["east"]}, r"one length; they have .*'age': 2"),
        (
            {"age": [1.0], "region": ["west"]},
            "'region' in row 0 is 'west'; its levels are north, south, east",
        ),
        ({"age": [1.0, 1.0], "region": np.array([0, 3])}, "'region' in row 1 is 3;"),
        ({"age": [1.0], "region": np.array([-1])}, "'region' in row 0 is -1;"),
        ({"age": [1.0], "region": np.array([1.5])}, "'region' holds values that are not text"),
        ({"age": [1.0], "region": np.array([None])}, "'region' in row 0 is None;"),
    ],
)
def test_columns_that_cannot_be_mapped_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ENCODING.normalise(columns)


def test_a_coefficient_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="'height' is no coefficient; choose from intercept, age"):
        ENCODING.codes({"height": 1.0})


def test_an_intercept_that_no_column_can_carry_is_refused() -> None:
    encoding = Encoding((AGE,), intercept=False, scaled=True)
    np.testing.assert_allclose(encoding.codes({"age": 1.0, "intercept": -54.0}), [36.0])
    with pytest.raises(InputError, match="off by 54"):
        encoding.codes({"age": 1.0, "intercept": 0.0})


def test_an_intercept_alone_needs_the_number_of_rows() -> None:
    mean_only = Encoding((), intercept=True, scaled=True)
    np.testing.assert_array_equal(mean_only.normalise({}, 3), np.ones((3, 1)))
    with pytest.raises(InputError, match="the number of rows must be given"):
        mean_only.normalise({})
    with pytest.raises(InputError, match="must have 3 rows"):
        Encoding((Numeric("age", 0.0, 1.0),), intercept=True, scaled=True).normalise({"age": [0.5]}, 3)

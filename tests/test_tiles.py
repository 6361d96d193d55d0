"""The compiled passes over a batch give the bits of their plain twins: normalise, put on the grid, then use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.generators_intake import GAMBLING
from support.generators_study import people, studies
from support.studies import CASES, UNIT_BALL

from truthful import kernels
from truthful.check import Floats
from truthful.instruments import Transform, instruments_on_grid
from truthful.intake import Checked, Intake
from truthful.intake.tiles import Tiles
from truthful.moments import GRID, SumsTally, in_fours, stacked, sums
from truthful.study import Study


def checked(study: Study, rows: list[dict[str, Any]], rng: np.random.Generator) -> Checked:
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns[study.response.name] = rng.uniform(study.response.low, study.response.high, len(rows))
    batch = pa.record_batch({"player": [str(i) for i in range(len(rows))], **columns})
    return Intake(study, "clip").check(batch, 1)


def transform_of(rng: np.random.Generator, d: int) -> Transform:
    return tuple(tuple(int(v) for v in row) for row in rng.integers(-3000, 3000, (d, d)))


def others_of(
    rng: np.random.Generator, d: int, transform: Transform | None, kept: float = 0.0
) -> kernels.Others:
    inverse = in_fours(rng.normal(size=(d, d)) / (2 * d))
    return kernels.Others(rng.normal(size=d), inverse, in_fours(transform), 0.3, kept, 0.5)


def plain_scores(kx: Floats, ky: Floats, kz: Floats, others: kernels.Others) -> Any:
    """One player at a time, in Python."""
    found = []
    for x, y, z in zip(kx / GRID, (ky / GRID).tolist(), kz / GRID, strict=True):
        w = others.inverse[:, : len(x)] @ x
        r, h = float(np.linalg.norm(x)), float(w @ z)
        kept = others.kept or 1 - h
        p, limit = (float(x @ others.theta) - h * y) / kept, others.reach * r
        noise = others.scale * float(np.linalg.norm(w)) / kept
        found.append((r, y, h, min(max(p, -limit), limit), noise, noise / r if r else others.scale))
    return np.array(found).T


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_tiles_give_the_bits_of_their_plain_twins(data: st.DataObject) -> None:
    study = data.draw(studies())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    batch = checked(study, data.draw(people(study)), rng)
    (kx, ky), n, d = batch.on_grid(), batch.count, study.dimension
    for transform in (None, transform_of(rng, d)):
        tally = SumsTally(d, transform)
        assert Tiles(study).add(batch.values, n, tally)
        assert tally.sums == sums(kx, ky, transform)
        for kept in (0.0, 0.9):
            others = others_of(rng, d, transform, kept)
            seen = Tiles(study).without_each(batch.values, n, others)
            assert seen is not None
            kz = instruments_on_grid(kx, transform)
            np.testing.assert_allclose(seen, plain_scores(kx, ky, kz, others), rtol=1e-11, atol=1e-13)
            out = np.empty((6, n))
            kernels.predict_columns(
                stacked(kx, ky, others.transform), others, np.empty((6, kernels.PANEL)), *out
            )
            np.testing.assert_array_equal(out, seen)


@pytest.mark.parametrize("case", sorted(CASES))
def test_nobody_s_numbers_depend_on_the_tile_she_is_in(case: str) -> None:
    study = Study.parse(CASES[case][0])
    rng, n = np.random.default_rng(3), 5_000
    values = {
        feature.name: rng.integers(0, len(feature.levels), n)
        if feature.levels
        else rng.uniform(feature.low or -0.5, feature.high or 0.5, n)
        for feature in study.features
    }
    values[study.response.name] = rng.uniform(study.response.low, study.response.high, n)
    for transform in (None, transform_of(rng, study.dimension)):
        others = others_of(rng, study.dimension, transform)
        whole = Tiles(study).without_each(values, n, others)
        assert whole is not None
        for rows in (slice(0, 1), slice(7, 8), slice(1000, 4097), slice(4990, n)):
            part = {name: np.ascontiguousarray(column[rows]) for name, column in values.items()}
            seen = Tiles(study).without_each(part, rows.stop - rows.start, others)
            assert seen is not None
            np.testing.assert_array_equal(seen, [column[rows] for column in whole])


def test_a_vector_out_of_the_ball_is_left_to_the_careful_way() -> None:
    study = Study.parse(UNIT_BALL)
    values = {"x1": np.array([0.1, 1.0]), "x2": np.array([0.1, 2e-4]), "y": np.zeros(2)}
    tally, others = (
        SumsTally(study.dimension, None),
        others_of(np.random.default_rng(0), study.dimension, None),
    )
    assert not Tiles(study).add(values, 2, tally)
    assert tally.sums.count == 0
    assert Tiles(study).without_each(values, 2, others) is None
    assert Tiles(study).on_grid(values, 2) is None


def a_value_changed(values: dict[str, Any], name: str, value: float) -> dict[str, Any]:
    """The values with one of the last row's changed."""
    return values | {name: np.append(values[name][:-1], values[name].dtype.type(value))}


def taken(study: Study, values: dict[str, Any]) -> bool:
    """Whether both passes use the values; a batch that one of them does not is not added at all."""
    rows, tally = len(values[study.response.name]), SumsTally(study.dimension, None)
    added = Tiles(study).add(values, rows, tally)
    others = others_of(np.random.default_rng(0), study.dimension, None)
    assert added == (Tiles(study).without_each(values, rows, others) is not None)
    assert added == (Tiles(study).on_grid(values, rows) is not None)
    assert tally.sums.count == rows * added
    return added


def test_what_is_out_of_its_range_is_left_to_the_rules_and_what_is_at_its_ends_is_not() -> None:
    n = kernels.TILE + 3  # the last row is in a tile of few
    values = {
        "age": np.full(n, 30.0),
        "region": np.zeros(n, dtype=np.int64),
        "weekly_spend": np.full(n, 10.0),
    }
    inside = [("age", 18), ("age", 90), ("weekly_spend", 0), ("weekly_spend", 200), ("region", 2)]
    outside = [
        ("age", np.nextafter(18, 0)),
        ("age", np.nextafter(90, 91)),
        ("age", math.nan),
        ("age", -math.inf),
    ]
    outside += [("weekly_spend", -5e-324), ("weekly_spend", math.nan), ("weekly_spend", math.inf)]
    outside += [("region", -1), ("region", 3)]
    assert all(taken(GAMBLING, a_value_changed(values, *change)) for change in inside)
    assert not any(taken(GAMBLING, a_value_changed(values, *change)) for change in outside)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_as_they_are_must_be_numbers(value: float) -> None:
    study = Study.parse(UNIT_BALL)
    values = {"x1": np.array([0.1, 0.2]), "x2": np.array([0.1, 0.3]), "y": np.zeros(2)}
    assert taken(study, values)
    assert not taken(study, a_value_changed(values, "x1", value))

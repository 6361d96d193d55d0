"""What everybody else says of each player is what one gets by taking her out alone, whoever stands beside her."""

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

from truthful.check import Floats
from truthful.intake import Checked, Intake
from truthful.moments import GRID, Transform, instruments_on_grid
from truthful.one_release import LeaveOneOut, peer_predictions
from truthful.study import Study


def batch_of(study: Study, columns: dict[str, Any], rows: int) -> Any:
    """Reports with these columns; levels are given by their places."""
    named = {
        feature.name: [feature.levels[place] if 0 <= place < len(feature.levels) else "?" for place in values]
        for feature in study.features
        if feature.levels and (values := columns[feature.name]) is not None
    }
    return pa.record_batch({"player": [str(i) for i in range(rows)], **columns, **named})


def checked(study: Study, rows: list[dict[str, Any]], rng: np.random.Generator) -> Checked:
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    columns[study.response.name] = rng.uniform(study.response.low, study.response.high, len(rows))
    batch = pa.record_batch({"player": [str(i) for i in range(len(rows))], **columns})
    return Intake(study, "clip").check(batch, 1)


def transform_of(rng: np.random.Generator, d: int) -> Transform:
    return tuple(tuple(int(v) for v in row) for row in rng.integers(-3000, 3000, (d, d)))


def estimate_of(
    rng: np.random.Generator, d: int, transform: Transform | None, kept: float | None = None
) -> LeaveOneOut:
    inverse = rng.normal(size=(d, d)) / (2 * d)
    return LeaveOneOut(rng.normal(size=d), inverse, 0.3, transform, kept, None, (0,) * d)


def taken_out_alone(kx: Floats, ky: Floats, estimate: LeaveOneOut, reach: float) -> Any:
    """One player at a time, in Python."""
    found, kz = [], instruments_on_grid(kx, estimate.transform)
    for x, y, z in zip(kx / GRID, (ky / GRID).tolist(), kz / GRID, strict=True):
        w = estimate.inverse.T @ x
        r, h = float(np.linalg.norm(x)), float(w @ z)
        kept = estimate.kept or 1 - h
        p, limit = (float(x @ estimate.theta) - h * y) / kept, reach * r
        noise = estimate.scale * float(np.linalg.norm(w)) / kept
        found.append((r, y, h, min(max(p, -limit), limit), noise, noise / r if r else estimate.scale))
    return np.array(found).T


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_peers_predict_what_is_left_when_she_is_taken_out(data: st.DataObject) -> None:
    study = data.draw(studies())
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    kx, ky = checked(study, data.draw(people(study)), rng).on_grid()
    for transform in (None, transform_of(rng, study.dimension)):
        for kept in (None, 0.9):
            estimate = estimate_of(rng, study.dimension, transform, kept)
            seen = peer_predictions(estimate, kx, ky, 0.5)
            expected = taken_out_alone(kx, ky, estimate, 0.5)
            np.testing.assert_allclose(seen, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("case", sorted(CASES))
def test_nobody_s_numbers_depend_on_who_stands_beside_her(case: str) -> None:
    study = Study.parse(CASES[case][0])
    rng, n = np.random.default_rng(3), 5_000
    columns = {
        feature.name: rng.integers(0, len(feature.levels), n)
        if feature.levels
        else rng.uniform(feature.low or -0.5, feature.high or 0.5, n)
        for feature in study.features
    }
    columns[study.response.name] = rng.uniform(study.response.low, study.response.high, n)
    batch = batch_of(study, columns, n)
    kx, ky = Intake(study, "clip").check(batch, 1).on_grid()
    for transform in (None, transform_of(rng, study.dimension)):
        estimate = estimate_of(rng, study.dimension, transform)
        whole = peer_predictions(estimate, kx, ky, 0.5)
        for rows in (slice(0, 1), slice(7, 8), slice(1000, 4097), slice(4990, n)):
            part = batch.slice(rows.start, rows.stop - rows.start)
            x, y = Intake(study, "clip").check(part, 1).on_grid()
            seen = peer_predictions(estimate, x, y, 0.5)
            np.testing.assert_array_equal(seen, [column[rows] for column in whole])


def kept(study: Study, columns: dict[str, Any], name: str, value: float) -> bool:
    """Whether the last record is kept if one of its values is this."""
    changed = columns | {name: np.append(columns[name][:-1], columns[name].dtype.type(value))}
    rows = len(changed[name])
    good = len(Intake(study, "drop").check(batch_of(study, changed, rows), 1).players)
    assert good in (rows - 1, rows)
    return good == rows


def test_what_is_out_of_its_range_is_left_out_and_what_is_at_its_ends_is_not() -> None:
    n = 1_011
    columns = {
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
    assert all(kept(GAMBLING, columns, *change) for change in inside)
    assert not any(kept(GAMBLING, columns, *change) for change in outside)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_as_they_are_must_be_numbers(value: float) -> None:
    study = Study.parse(UNIT_BALL)
    columns = {"x1": np.array([0.1, 0.2]), "x2": np.array([0.1, 0.3]), "y": np.zeros(2)}
    assert kept(study, columns, "x1", 0.2)
    assert not kept(study, columns, "x1", value)
    assert not kept(study, columns | {"x2": np.array([0.1, 2e-4])}, "x1", 1.0)
